/* The etcd of the target; see the header. */
#include "gateway.h"

#include "etcd/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the linker gives in the place of the functions without "__wrap_". */
dlock_err __wrap_dlk_etcd_wire_init(dlk_etcd_wire *w, const dlk_settings *settings,
                                    bool tls, dlk_kicks *kicks, dlock_error **err);
void __wrap_dlk_etcd_wire_free(dlk_etcd_wire *w);
void __wrap_dlk_etcd_wire_go(dlk_etcd_wire *w, dlk_etcd_way *way);
void __wrap_dlk_etcd_wire_send(dlk_etcd_wire *w, dlk_etcd_call *call);
void __wrap_dlk_etcd_wire_drop(dlk_etcd_wire *w, dlk_etcd_call *call);
void __wrap_dlk_etcd_wire_take(dlk_etcd_wire *w, dlk_list *ret);
bool __wrap_dlk_etcd_wire_flush(dlk_etcd_wire *w);
void __wrap_dlk_etcd_wire_part(dlk_etcd_wire *w, dlk_etcd_call *call);

static struct {
    dlk_etcd_wire *wire; /* the one that is open, or NULL */
    etcd_lease lease;
    fuzz_bytes *bytes; /* of the input, what is left */
} gateway;

/* ---- what the store asks of the simulator ---- */

etcd_lease *etcd_lease_find(int64_t id)
{
    return id == gateway.lease.id ? &gateway.lease : NULL;
}

void etcd_members_changed(const dlk_bytes *key, bool put, int64_t revision)
{
    (void)key, (void)put, (void)revision; /* watches fire when the input wants it */
}

void etcd_rules_put(etcd_key *key)
{
    (void)key;
}

void etcd_rules_deleted(const etcd_key *key, int by)
{
    (void)key, (void)by;
}

void etcd_rules_look(int by)
{
    (void)by;
}

/* ---- what the client finds in the place of libcurl ---- */

static void come_back(dlk_etcd_call *call, CURLcode code)
{
    size_t size = dlk_buf_size(&call->answer);
    call->code = code;
    dlk_etcd_explain(gateway.wire, call);
    if (code == CURLE_OK && size > 0)
        call->json = json_loadb(dlk_buf_head(&call->answer), size, 0, NULL);
    dlk_list_remove(&call->link);
    dlk_list_append(&gateway.wire->inbox, &call->link);
}

static void give_up(dlk_list *calls)
{
    DLK_LIST_FOR (it, calls)
        come_back(DLK_LIST_ITEM(it, dlk_etcd_call, link), CURLE_ABORTED_BY_CALLBACK);
}

dlock_err __wrap_dlk_etcd_wire_init(dlk_etcd_wire *w, const dlk_settings *settings,
                                    bool tls, dlk_kicks *kicks, dlock_error **err)
{
    (void)err;
    *w = (dlk_etcd_wire){.settings = settings, .tls = tls, .kicks = kicks};
    dlk_list_init(&w->outbox);
    dlk_list_init(&w->inbox);
    dlk_list_init(&w->going);
    gateway.wire = w;
    return DLOCK_OK;
}

static void free_calls(dlk_list *calls)
{
    dlk_list *link;
    while ((link = dlk_list_take_first(calls)))
        dlk_etcd_call_free(DLK_LIST_ITEM(link, dlk_etcd_call, link));
}

void __wrap_dlk_etcd_wire_free(dlk_etcd_wire *w)
{
    free_calls(&w->outbox);
    free_calls(&w->inbox);
    free_calls(&w->going);
    dlk_etcd_way_free(w->way);
    gateway.wire = NULL;
}

void __wrap_dlk_etcd_wire_go(dlk_etcd_wire *w, dlk_etcd_way *way)
{
    give_up(&w->going);
    give_up(&w->outbox);
    dlk_etcd_way_free(w->way);
    w->way = way;
}

void __wrap_dlk_etcd_wire_send(dlk_etcd_wire *w, dlk_etcd_call *call)
{
    dlk_list_append(&w->outbox, &call->link);
}

void __wrap_dlk_etcd_wire_drop(dlk_etcd_wire *w, dlk_etcd_call *call)
{
    (void)w;
    come_back(call, CURLE_ABORTED_BY_CALLBACK);
}

void __wrap_dlk_etcd_wire_take(dlk_etcd_wire *w, dlk_list *ret)
{
    dlk_list_splice(ret, &w->inbox);
}

bool __wrap_dlk_etcd_wire_flush(dlk_etcd_wire *w)
{
    dlk_list_splice(&w->going, &w->outbox);
    return !dlk_list_empty(&w->inbox);
}

void __wrap_dlk_etcd_wire_part(dlk_etcd_wire *w, dlk_etcd_call *call)
{
    give_up(&w->going);
    give_up(&w->outbox);
    if (call)
        dlk_etcd_call_free(call);
}

/* ---- what a member says ---- */

static json_t *text_of(int64_t number)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%lld", (long long)number); /* fits */
    return etcd_need(json_string(text));
}

static void grant(const json_t *ask, etcd_effect *ret)
{
    gateway.lease = (etcd_lease){.id = gateway.lease.id + 1};
    ret->json = etcd_need(json_pack("{s:o, s:o}", "ID", text_of(gateway.lease.id), "TTL",
                                    text_of(dlk_json_int(ask, "TTL"))));
}

static void keep(etcd_effect *ret)
{
    json_t *result = etcd_need(json_pack("{s:o}", "ID", text_of(gateway.lease.id)));
    if (!gateway.lease.over)
        (void)json_object_set_new(result, "TTL", text_of(30));
    ret->json = etcd_need(json_pack("{s:o}", "result", result));
}

static void decide(const dlk_etcd_call *call, etcd_effect *ret)
{
    static const struct {
        const char *path, *says;
    } others[] = {
        {"/v3/auth/authenticate", "{\"token\":\"word.1\"}"},
        {"/v3/cluster/member/list", "{\"members\":[{\"ID\":\"1\",\"name\":\"m0\","
                                    "\"clientURLs\":[\"http://h:1\"]}]}"},
        {"/v3/maintenance/status",
         "{\"version\":\"3.4.23\",\"dbSize\":\"20480\",\"leader\":\"1\"}"},
    };
    json_t *ask = etcd_need(json_loads(call->body, 0, NULL)); /* what we say is JSON */
    *ret = (etcd_effect){.status = 200};
    if (strcmp(call->path, "/v3/kv/txn") == 0)
        etcd_store_txn(ask, 0, ret);
    else if (strcmp(call->path, "/v3/kv/range") == 0)
        etcd_store_range(ask, ret);
    else if (strcmp(call->path, "/v3/lease/grant") == 0)
        grant(ask, ret);
    else if (strcmp(call->path, "/v3/lease/keepalive") == 0)
        keep(ret);
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        if (strcmp(call->path, others[i].path) == 0)
            ret->json = etcd_need(json_loads(others[i].says, 0, NULL));
    if (!ret->json)
        ret->json = etcd_need(json_object());
    json_decref(ask);
}

static void add_header(etcd_effect *it)
{
    json_t *result = json_object_get(it->json, "result");
    json_t *header = etcd_need(
        json_pack("{s:s, s:s, s:o, s:s}", "cluster_id", "1", "member_id", "1", "revision",
                  text_of(etcd_store_revision()), "raft_term", "2"));
    if (json_object_set_new(result ? result : it->json, "header", header) != 0)
        abort();
}

static char *honest(dlk_etcd_call *call)
{
    etcd_effect effect;
    if (call->watch)
        return etcd_need(strdup("{\"result\":{\"created\":true}}\n"
                                "{\"result\":{\"events\":[{\"type\":\"DELETE\"}]}}\n"));
    decide(call, &effect);
    if (effect.status == 200)
        add_header(&effect);
    char *text = etcd_need(json_dumps(effect.json, JSON_COMPACT));
    call->status = effect.status;
    json_decref(effect.json);
    return text;
}

/* ---- and what the input makes of it ---- */

enum { LIE_CUT, LIE_BYTE, LIE_INSERT, LIE_NUMBER, LIE_OTHER, LIE_STATUS, LIE_CODE, LIES };

static char *spliced(const char *text, size_t at, size_t skipped, fuzz_bytes put)
{
    size_t size = strlen(text), end = at + skipped < size ? at + skipped : size;
    char *made = etcd_need(malloc(at + put.left + size - end + 1));
    memcpy(made, text, at);
    if (put.left > 0)
        memcpy(made + at, put.at, put.left);
    memcpy(made + at + put.left, text + end, size - end + 1);
    return made;
}

/* The digits of one of its numbers. */
static char *other_number(const char *text, uint8_t which, fuzz_bytes put)
{
    const char *at = text + strcspn(text, "0123456789");
    for (; which > 0 && *at; which--) {
        at += strspn(at, "0123456789");
        at += strcspn(at, "0123456789");
    }
    return spliced(text, (size_t)(at - text), strspn(at, "0123456789"), put);
}

static char *lie(dlk_etcd_call *call, const char *text, uint8_t how, CURLcode *code)
{
    static const short statuses[] = {200, 400, 401, 403, 404, 429, 500, 503, 0, -1};
    static const CURLcode codes[] = {CURLE_COULDNT_CONNECT,
                                     CURLE_OPERATION_TIMEDOUT,
                                     CURLE_SEND_ERROR,
                                     CURLE_RECV_ERROR,
                                     CURLE_GOT_NOTHING,
                                     CURLE_SSL_CONNECT_ERROR,
                                     CURLE_PEER_FAILED_VERIFICATION,
                                     CURLE_WRITE_ERROR,
                                     CURLE_OUT_OF_MEMORY};
    size_t size = strlen(text);
    size_t at = size > 0 ? fuzz_number(gateway.bytes, 2) % size : 0;
    switch (how % LIES) {
    case LIE_CUT:
        return spliced(text, at, size, (fuzz_bytes){0});
    case LIE_BYTE:
        return spliced(text, at, 1, fuzz_take(gateway.bytes, 1));
    case LIE_INSERT:
        return spliced(text, at, 0, fuzz_take_until(gateway.bytes, '\n'));
    case LIE_NUMBER:
        return other_number(text, (uint8_t)at, fuzz_take_until(gateway.bytes, '\n'));
    case LIE_OTHER:
        return spliced(text, 0, size, fuzz_take_until(gateway.bytes, '\n'));
    case LIE_STATUS:
        call->status = statuses[at % (sizeof(statuses) / sizeof(*statuses))];
        return spliced(text, 0, at & 0x100 ? size : 0, fuzz_take(gateway.bytes, 0));
    default:
        *code = codes[at % (sizeof(codes) / sizeof(*codes))];
        return etcd_need(strdup(""));
    }
}

/* Nobody serves twice who says it: bytes as they come from the network. */
static bool hears(dlk_etcd_call *call, char *text, size_t size)
{
    size_t half = size / 2;
    return (half == 0 || dlk_etcd_call_hears(text, 1, half, call) == half) &&
           (size == 0 ||
            dlk_etcd_call_hears(text + half, 1, size - half, call) == size - half);
}

bool gateway_answer(uint8_t which, uint8_t how)
{
    dlk_etcd_call *call = NULL;
    CURLcode code = CURLE_OK;
    DLK_LIST_FOR (it, &gateway.wire->going) {
        call = DLK_LIST_ITEM(it, dlk_etcd_call, link);
        if (which-- == 0)
            break;
    }
    if (!call)
        return false;
    char *text = honest(call);
    if (how >= GATEWAY_LIES) {
        char *other = lie(call, text, how, &code);
        free(text);
        text = other;
    }
    if (!hears(call, text, strlen(text)))
        code = CURLE_WRITE_ERROR;
    free(text);
    come_back(call, code);
    return true;
}

/* ---- what others do ---- */

void gateway_put(const void *key, size_t size, fuzz_bytes value)
{
    etcd_effect effect;
    char *name = etcd_need(dlk_base64(key, size));
    char *said =
        etcd_need(dlk_base64(value.left > 0 ? value.at : (const void *)"", value.left));
    json_t *ask = etcd_need(json_pack("{s:[{s:{s:s, s:s}}]}", "success", "request_put",
                                      "key", name, "value", said));
    etcd_store_txn(ask, 0, &effect);
    json_decref(effect.json);
    json_decref(ask);
    free(name);
    free(said);
}

void gateway_expire(void)
{
    gateway.lease.over = true;
    etcd_store_end_lease(gateway.lease.id);
}

void gateway_begin(fuzz_bytes *bytes)
{
    gateway.bytes = bytes;
    gateway.lease = (etcd_lease){.id = 0x694d};
    etcd_store_begin();
}

void gateway_end(void)
{
    etcd_store_end();
}
