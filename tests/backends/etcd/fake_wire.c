/* See the header. */
#include "fake_wire.h"

#include "backends/etcd/etcd.h"
#include "net/address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEASE = 7, TERM = 2 };

struct fake_wire there;
static dlk_etcd_wire *wire;

/* ---- names: linked in place of address.c's ---- */

dlk_lookup *__wrap_dlk_lookup_start(const char *host, uint16_t port);
bool __wrap_dlk_lookup_ended(const dlk_lookup *lookup);
bool __wrap_dlk_lookup_result(const dlk_lookup *lookup, dlk_addresses *ret,
                              const char **why);
void __wrap_dlk_lookup_drop(dlk_lookup *lookup);

dlk_lookup *__wrap_dlk_lookup_start(const char *host, uint16_t port)
{
    (void)host, (void)port;
    w.doings++;
    there.lookups++;
    return (dlk_lookup *)&there;
}

bool __wrap_dlk_lookup_ended(const dlk_lookup *lookup)
{
    (void)lookup;
    return there.found;
}

bool __wrap_dlk_lookup_result(const dlk_lookup *lookup, dlk_addresses *ret,
                              const char **why)
{
    (void)lookup, (void)why;
    return dlk_address_numeric("127.0.0.1", 1, ret);
}

void __wrap_dlk_lookup_drop(dlk_lookup *lookup)
{
    w.doings += lookup != NULL;
}

/* ---- the wire: in place of wire.c ---- */

static void free_calls(dlk_list *calls)
{
    dlk_list *link;
    while ((link = dlk_list_take_first(calls)))
        dlk_etcd_call_free(DLK_LIST_ITEM(link, dlk_etcd_call, link));
}

void dlk_etcd_call_free(dlk_etcd_call *call)
{
    json_decref(call->json);
    free(call->token);
    free(call->body);
    free(call);
}

dlock_err dlk_etcd_wire_init(dlk_etcd_wire *to, const dlk_settings *settings, bool tls,
                             dlk_kicks *kicks, dlock_error **err)
{
    (void)err;
    wire = to;
    *wire = (dlk_etcd_wire){.settings = settings, .tls = tls, .kicks = kicks};
    dlk_list_init(&wire->inbox);
    return DLOCK_OK;
}

void dlk_etcd_wire_free(dlk_etcd_wire *of)
{
    free_calls(&there.asked);
    free_calls(&there.watched);
    free_calls(&of->inbox);
    dlk_etcd_way_free(of->way);
}

static void end_call(dlk_etcd_call *call, CURLcode code)
{
    call->code = code;
    dlk_list_remove(&call->link);
    dlk_list_append(&wire->inbox, &call->link);
}

void dlk_etcd_wire_go(dlk_etcd_wire *of, dlk_etcd_way *way)
{
    w.doings++;
    DLK_LIST_FOR (it, &there.asked)
        end_call(DLK_LIST_ITEM(it, dlk_etcd_call, link), CURLE_ABORTED_BY_CALLBACK);
    DLK_LIST_FOR (it, &there.watched)
        end_call(DLK_LIST_ITEM(it, dlk_etcd_call, link), CURLE_ABORTED_BY_CALLBACK);
    dlk_etcd_way_free(of->way);
    of->way = way;
}

void dlk_etcd_wire_send(dlk_etcd_wire *of, dlk_etcd_call *call)
{
    (void)of;
    w.doings++;
    there.requests++;
    dlk_list_append(call->watch ? &there.watched : &there.asked, &call->link);
}

void dlk_etcd_wire_drop(dlk_etcd_wire *of, dlk_etcd_call *call)
{
    (void)of;
    end_call(call, CURLE_ABORTED_BY_CALLBACK);
}

void dlk_etcd_wire_take(dlk_etcd_wire *of, dlk_list *ret)
{
    dlk_list_splice(ret, &of->inbox);
}

void dlk_etcd_wire_part(dlk_etcd_wire *of, dlk_etcd_call *call)
{
    dlk_etcd_wire_go(of, NULL);
    if (call)
        dlk_etcd_call_free(call);
}

/* Nobody sleeps on it, or writes for himself. */
void dlk_etcd_wire_push(dlk_etcd_wire *of, dlk_polls *polls)
{
    (void)of, (void)polls;
}

void dlk_etcd_wire_pull(dlk_etcd_wire *of, const dlk_polls *polls)
{
    (void)of, (void)polls;
}

bool dlk_etcd_wire_flush(dlk_etcd_wire *of)
{
    (void)of;
    return false;
}

/* ---- answers ---- */

static fake_ask kind_of(const dlk_etcd_call *call)
{
    static const char *const paths[] = {[ASK_GRANT] = "/v3/lease/grant",
                                        [ASK_KEEP] = "/v3/lease/keepalive",
                                        [ASK_READ] = "/v3/kv/range",
                                        [ASK_TXN] = "/v3/kv/txn"};
    for (int i = 0; i < ASK_OTHER; i++)
        if (strcmp(paths[i], call->path) == 0)
            return (fake_ask)i;
    return ASK_OTHER;
}

/* Numbers are as JSON has them here: in quotes. */
static json_t *number(int64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%lld", (long long)value); /* fits */
    return json_string(text);
}

static json_t *lease(void)
{
    return json_pack("{so,so}", "ID", number(LEASE), "TTL", number(LEASE_MS / 1000));
}

static json_t *own_key(void)
{
    if (there.made == 0)
        return json_object();
    return json_pack("{s[{ss,so,so}]}", "kvs", "key", there.key, "create_revision",
                     number(there.made), "lease", number(LEASE));
}

static json_t *put_done(void)
{
    return json_pack("{s{}}", "response_put");
}

static json_t *range_done(json_t *found)
{
    return json_pack("{so}", "response_range", found);
}

static bool has(const char *body, const char *what)
{
    return strstr(body, what) != NULL;
}

/* The first key that the body names, which is our own but where there is a fence. */
static void note_key(const char *body)
{
    const char *at = strstr(body, "\"key\":\"") + 7;
    free(there.key);
    there.key = strndup(at, strcspn(at, "\""));
    there.made = there.revision;
}

/* Nobody else is in the line. */
static json_t *transaction(const char *body)
{
    bool joins = has(body, "\"failure\""), compares = has(body, "\"compare\"");
    bool was_there = there.made != 0, yes = !compares || joins != was_there;
    json_t *first = NULL, *second = NULL;
    if (joins && yes)
        note_key(body);
    if (has(body, "delete_range"))
        there.made = 0;
    first = !yes || has(body, "{\"success\":[{\"request_range") ? range_done(own_key())
                                                                : put_done();
    second = range_done(compares ? json_object() : own_key());
    return json_pack("{sb,s[oo]}", "succeeded", yes, "responses", first, second);
}

static json_t *done(fake_ask what, const char *body)
{
    json_t *json = NULL, *header;
    there.revision++;
    header = json_pack("{so,so}", "raft_term", number(TERM), "revision",
                       number(there.revision));
    switch (what) {
    case ASK_GRANT:
        json = lease();
        break;
    case ASK_KEEP: /* as a stream */
        json = json_pack("{so}", "result", lease());
        (void)json_object_set_new(json_object_get(json, "result"), "header", header);
        return json;
    case ASK_READ:
        json = own_key();
        break;
    case ASK_TXN:
        json = transaction(body);
        break;
    case ASK_OTHER:
        json = json_object();
        break;
    case FAKE_ASKS:
        break;
    }
    (void)json_object_set_new(json, "header", header);
    return json;
}

/* gRPC's code, and words. */
static json_t *refusal(int code, const char *words)
{
    return json_pack("{si,ss}", "code", code, "message", words);
}

static void answer(dlk_etcd_call *call)
{
    fake_ask what = kind_of(call);
    call->status = 400;
    switch (there.ends[what]) {
    case DLK_ETCD_OK:
        call->status = 200;
        call->json = done(what, call->body);
        break;
    case DLK_ETCD_CUT: /* it is done, and the answer lost */
        json_decref(done(what, call->body));
        end_call(call, CURLE_RECV_ERROR);
        return;
    case DLK_ETCD_NO_LEASE:
        there.made = 0; /* it went with the lease */
        call->json = refusal(5, "requested lease not found");
        break;
    case DLK_ETCD_NO_TOKEN:
        call->json = refusal(16, "invalid auth token");
        break;
    case DLK_ETCD_DENIED:
        call->json = refusal(7, "permission denied");
        break;
    case DLK_ETCD_BUSY:
        call->json = refusal(8, "too many requests");
        break;
    case DLK_ETCD_BAD:
        call->json = refusal(12, "unknown");
        break;
    }
    end_call(call, CURLE_OK);
}

int count_asked(fake_ask what)
{
    int count = 0;
    DLK_LIST_FOR (it, &there.asked)
        count += kind_of(DLK_LIST_ITEM(it, dlk_etcd_call, link)) == what;
    return count;
}

static dlk_etcd_call *next_call(void)
{
    DLK_LIST_FOR (it, &there.asked) {
        dlk_etcd_call *call = DLK_LIST_ITEM(it, dlk_etcd_call, link);
        if (!there.held[kind_of(call)])
            return call;
    }
    return NULL;
}

void serve(void)
{
    dlk_etcd_call *call;
    while ((call = next_call())) {
        answer(call);
        process();
    }
}

/* ---- its life ---- */

bool open_it(dlock_kind kind)
{
    memset(&there, 0, sizeof(there));
    dlk_list_init(&there.asked);
    dlk_list_init(&there.watched);
    return driven_open(&dlk_etcd_backend, "etcd://one.example,two.example", kind, serve,
                       LEASE_MS);
}

bool begin_with(dlock_kind kind)
{
    if (!open_it(kind))
        return false;
    there.found = true;
    w.type->start(w.backend, w.now);
    (void)tick();
    serve();
    return harness_check(__FILE__, __LINE__, w.up, "it is up");
}

void end(void)
{
    driven_end();
    free(there.key);
}
