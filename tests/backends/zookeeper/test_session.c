/* What a session is used for, by our own clock, and what is believed of what it lost, behind a wire of the test's: it hears what is sent,
 * answers when the test says, and brings the library's news in the order that the test wants. No server,
 * no thread; each call is told what time it is. */
#include "harness/harness.h"

#include "backends/zookeeper/library.h"
#include "backends/zookeeper/zookeeper.h"
#include "util/clock.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS         DLK_NS_PER_MS
#define SESSION    0x77
#define SESSION_MS 10000

/* ---- the wire ---- */

struct dlk_zk_wire {
    dlk_zk_inbox *inbox;
    uint32_t epoch;
    dlk_list sent; /* calls with their answers in them */
};

static struct {
    dlk_zk_wire *wire; /* the one that is open */
    int opened, closed, requests;
    char *node;                          /* the one that was made last */
    dlk_zk_end ends[DLK_ZK_UNWATCH + 1]; /* of requests to come, by their verbs */
} there;

static dlk_zk_wire *wire_open(const dlk_zk_setup *setup, dlk_zk_inbox *inbox)
{
    dlk_zk_wire *wire = calloc(1, sizeof(*wire));
    if (!wire)
        return NULL;
    wire->inbox = inbox;
    wire->epoch = setup->epoch;
    dlk_list_init(&wire->sent);
    atomic_fetch_add(&inbox->wires, 1);
    there.wire = wire;
    there.opened++;
    return wire;
}

/* Of a folder that has the node in it, or nothing. */
static void fill_children(const char *folder, dlk_zk_call *call)
{
    size_t size = strlen(folder);
    const char *name = there.node ? there.node + size + 1 : "";
    bool has = there.node && strncmp(there.node, folder, size) == 0 &&
               there.node[size] == '/' && !strchr(name, '/');
    call->children = calloc(1, sizeof(char *) + strlen(name) + 1);
    if (!call->children || !has)
        return;
    call->children[0] = strcpy((char *)(call->children + 1), name);
    call->child_count = 1;
}

static void fill(const dlk_zk_request *request, dlk_zk_call *call)
{
    call->end = there.ends[request->verb];
    call->stat = (dlk_zk_stat){.czxid = 1, .ephemeral_owner = SESSION};
    if (request->verb == DLK_ZK_CHILDREN)
        fill_children(request->path, call);
    if (request->verb != DLK_ZK_CREATE || call->end != DLK_ZK_OK)
        return;
    free(there.node);
    if (asprintf(&there.node, "%s%s", request->path,
                 request->mode == DLK_ZK_SEQUENTIAL ? "0000000001" : "") < 0)
        abort();
    call->item.text = strdup(there.node);
}

static bool wire_send(dlk_zk_wire *wire, const dlk_zk_request *request, dlk_zk_call *call)
{
    there.requests++;
    call->item.epoch = wire->epoch;
    fill(request, call);
    dlk_list_append(&wire->sent, &call->sent);
    return true;
}

static void wire_close(dlk_zk_wire *wire)
{
    DLK_LIST_FOR (it, &wire->sent) {
        dlk_zk_call *call = DLK_LIST_ITEM(it, dlk_zk_call, sent);
        call->end = DLK_ZK_CUT;
        dlk_zk_inbox_put(wire->inbox, &call->item);
    }
    dlk_zk_inbox_left(wire->inbox);
    there.closed++;
    there.wire = NULL;
    free(wire);
}

/* In the place of library.c's. */
const dlk_zk_wire_type dlk_zk_library = {
    .open = wire_open, .send = wire_send, .close = wire_close};

/* ---- whom the backend tells ---- */

static struct {
    dlk_host host;
    dlk_kicks kicks;
    pthread_mutex_t mutex;
    dlk_rand rand;
    dlk_settings *settings;
    dlk_backend *backend;
    dlk_key key;
    int64_t now;
    bool up;
    int lost;
} w;

static void answered(dlk_host *host, dlk_ask *ask)
{
    (void)host;
    (void)ask;
}

static void notified(dlk_host *host, dlk_key *key)
{
    (void)host;
    (void)key;
}

static void revoked(dlk_host *host, uint64_t number)
{
    (void)host;
    (void)number;
}

static void lost(dlk_host *host, dlk_key *key, uint64_t number)
{
    (void)host;
    (void)key;
    (void)number;
    w.lost++;
}

static void told_link(dlk_host *host, bool up, const dlock_error *error)
{
    (void)host;
    (void)error;
    w.up = up;
}

static __attribute__((format(printf, 3, 4))) void
told_log(dlk_host *host, dlock_level level, const char *format, ...)
{
    (void)host;
    (void)level;
    (void)format;
}

/* ---- time and news ---- */

static void process(void)
{
    w.backend->type->process(w.backend, w.now);
}

/* Nobody drives meanwhile. */
static void pass(int64_t ms)
{
    w.now += ms * MS;
}

static void tick(void)
{
    (void)w.backend->type->tick(w.backend, w.now);
}

static void bring_of(dlk_zk_news news, int64_t session, const char *path)
{
    dlk_zk_item *item = dlk_zk_item_new(news, there.wire->epoch, path);
    item->session = session;
    item->timeout_ms = SESSION_MS;
    dlk_zk_inbox_put(there.wire->inbox, item);
}

static void bring(dlk_zk_news news, int64_t session)
{
    bring_of(news, session, NULL);
}

/* Everything that was asked is answered, and what is asked then. */
static void serve(void)
{
    dlk_list *link;
    while (there.wire && (link = dlk_list_first(&there.wire->sent))) {
        dlk_zk_inbox_put(there.wire->inbox,
                         &DLK_LIST_ITEM(link, dlk_zk_call, sent)->item);
        process();
    }
}

/* As many of those that were asked, and what is asked then. */
static void serve_some(int count)
{
    while (count-- > 0) {
        dlk_zk_inbox_put(
            there.wire->inbox,
            &DLK_LIST_ITEM(dlk_list_first(&there.wire->sent), dlk_zk_call, sent)->item);
        process();
    }
}

static dlk_ask make(dlk_verb verb, bool shared, int64_t within_ms)
{
    return (dlk_ask){.verb = verb,
                     .key = &w.key,
                     .number = 1,
                     .shared = shared,
                     .take = 1,
                     .ttl_ms = SESSION_MS,
                     .since = w.now,
                     .deadline = w.now + within_ms * MS};
}

static dlk_reply ask_side(dlk_verb verb, bool shared)
{
    dlk_ask one = make(verb, shared, 60000);
    w.backend->type->ask(w.backend, &one, w.now);
    serve();
    dlk_error_clear(&one.error);
    return one.reply;
}

static dlk_reply ask(dlk_verb verb)
{
    return ask_side(verb, false);
}

static bool open_it(dlock_kind kind)
{
    dlock_error *err = NULL;
    dlk_uri *uri = NULL;
    dlk_settings *none = dlk_settings_new();
    memset(&w, 0, sizeof(w));
    memset(&there, 0, sizeof(there));
    pthread_mutex_init(&w.mutex, NULL);
    w.kicks = DLK_KICKS_INIT;
    w.rand.state = 42;
    w.now = 1000000 * MS;
    w.host = (dlk_host){.answered = answered,
                        .notified = notified,
                        .revoked = revoked,
                        .lost = lost,
                        .link = told_link,
                        .log = told_log,
                        .mutex = &w.mutex,
                        .kicks = &w.kicks,
                        .uuid = "00000000-0000-4000-8000-000000000000",
                        .name = "test",
                        .rand = &w.rand};
    w.key = (dlk_key){.name = "n", .size = 1, .kind = kind};
    dlock_err code = dlk_uri_parse("zookeeper://there:2181", &uri, &err);
    if (code == DLOCK_OK)
        code = dlk_settings_for_client(none, none, &w.settings, &err);
    if (code == DLOCK_OK)
        code = dlk_zk_backend.open(&w.host, uri, w.settings, &w.backend, &err);
    w.key.settings = w.settings;
    if (code == DLOCK_OK)
        code = w.backend->type->key_open(w.backend, &w.key, &err);
    dlk_uri_free(uri);
    dlk_settings_free(none);
    bool fine = harness_err(__FILE__, __LINE__, "open", code, DLOCK_OK, err);
    dlk_error_clear(&err);
    return fine;
}

/* Connected, and proved to live at this moment. */
static bool begin_with(dlock_kind kind)
{
    if (!open_it(kind))
        return false;
    w.backend->type->start(w.backend, w.now);
    bring(DLK_ZK_CONNECTED, SESSION);
    process();
    serve();
    return harness_check(__FILE__, __LINE__, w.up, "it is up");
}

static bool begin(void)
{
    return begin_with(DLOCK_MUTEX);
}

static void end(void)
{
    w.backend->type->key_close(w.backend, &w.key);
    w.backend->type->stop(w.backend);
    process();
    w.backend->type->free(w.backend);
    dlk_settings_free(w.settings);
    free(there.node);
}

/* ---- past its end by our own clock ---- */

/* The servers have kept it for longer, as after an election; and the process was stopped, or busy: what
 * the library brings is the first that is heard, no tick came before. */
TEST(a_session_that_is_over_by_our_own_clock_is_not_used_though_the_servers_have_kept_it)
{
    for (int at_once = 0; at_once < 2; at_once++) {
        CHECK(begin());
        CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_YES);
        if (!at_once) {
            pass(1);
            bring(DLK_ZK_DISCONNECTED, 0);
            process();
            CHECK(!w.up);
        }
        pass(SESSION_MS);
        int before = there.requests;
        if (at_once)
            bring(DLK_ZK_DISCONNECTED, 0);
        bring(DLK_ZK_CONNECTED, SESSION);
        process();
        serve();
        CHECK(!w.up);
        CHECK_EQ_INT(there.requests, before);
        CHECK_EQ_INT(there.closed, 1);
        CHECK_EQ_INT(w.lost, 1);
        CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_NOT_SENT);
        pass(10000); /* the next try */
        tick();
        CHECK_EQ_INT(there.opened, 2);
        bring(DLK_ZK_CONNECTED, SESSION + 1);
        process();
        serve();
        CHECK(w.up);
        end();
    }
}

TEST(a_session_that_was_proved_to_live_so_shortly_before_is_gone_on_with)
{
    CHECK(begin());
    CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_YES);
    pass(SESSION_MS - 1);
    bring(DLK_ZK_DISCONNECTED, 0);
    bring(DLK_ZK_CONNECTED, SESSION);
    process();
    serve();
    CHECK(w.up);
    CHECK_EQ_INT(there.closed, 0);
    CHECK_EQ_INT(w.lost, 0);
    CHECK_EQ_INT(ask(DLK_RENEW), DLK_YES);
    end();
}

/* Nothing of ours hangs on it: it saves a hand-shake. */
TEST(a_session_with_nothing_in_it_is_gone_on_with_however_late)
{
    CHECK(begin());
    pass(10 * SESSION_MS);
    bring(DLK_ZK_DISCONNECTED, 0);
    bring(DLK_ZK_CONNECTED, SESSION);
    process();
    serve();
    CHECK(w.up);
    CHECK_EQ_INT(there.closed, 0);
    CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_YES);
    end();
}

/* Where the tick comes first it is that which ends the session. */
TEST(a_session_that_is_over_while_nobody_answers_is_ended_by_the_tick)
{
    CHECK(begin());
    CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_YES);
    bring(DLK_ZK_DISCONNECTED, 0);
    process();
    pass(SESSION_MS - 1);
    tick();
    CHECK_EQ_INT(there.closed, 0);
    pass(1);
    tick();
    CHECK_EQ_INT(there.closed, 1);
    CHECK_EQ_INT(w.lost, 1);
    end();
}

/* ---- what got no answer ---- */

/* Of a writer that becomes a reader: the delete of its write node was done, and its answer lost. The server
 * tells that the node has gone, and that is our own doing. */
TEST(a_turn_whose_last_answer_was_lost_is_no_loss)
{
    CHECK(begin_with(DLOCK_WRITE));
    CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_YES);
    char *node = strdup(there.node);
    CHECK_EQ_INT(ask(DLK_RENEW), DLK_YES); /* and looks after its node from now on */
    there.ends[DLK_ZK_DELETE] = DLK_ZK_CUT;
    CHECK_EQ_INT(ask_side(DLK_RENEW, true), DLK_UNKNOWN);
    there.ends[DLK_ZK_DELETE] = there.ends[DLK_ZK_GET] = DLK_ZK_NO_NODE;
    bring(DLK_ZK_DISCONNECTED, 0);
    bring(DLK_ZK_CONNECTED, SESSION);
    process();
    serve();
    bring_of(DLK_ZK_CHANGED, 0, node);
    process();
    serve();
    CHECK_EQ_INT(w.lost, 0);
    CHECK_EQ_INT(ask_side(DLK_VERIFY, true),
                 DLK_NOT_SENT); /* one node has gone, or the other */
    there.ends[DLK_ZK_CREATE] = DLK_ZK_NODE_EXISTS;
    CHECK_EQ_INT(ask_side(DLK_RENEW, true), DLK_YES);
    there.ends[DLK_ZK_GET] = DLK_ZK_OK;
    CHECK_EQ_INT(ask_side(DLK_RENEW, true), DLK_YES);
    CHECK_EQ_INT(ask_side(DLK_VERIFY, true), DLK_YES);
    CHECK_EQ_INT(w.lost, 0);
    there.ends[DLK_ZK_DELETE] = DLK_ZK_OK;
    CHECK_EQ_INT(ask_side(DLK_RELEASE, true), DLK_YES);
    free(node);
    end();
}

/* Somebody has deleted its write node before it did so itself, and others may be in. */
TEST(a_loss_while_it_turns_is_told_though_nobody_waits_for_the_answer_any_more)
{
    CHECK(begin_with(DLOCK_WRITE));
    CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_YES);
    there.ends[DLK_ZK_DELETE] = DLK_ZK_NO_NODE;
    dlk_ask turn = make(DLK_RENEW, true, 100);
    w.backend->type->ask(w.backend, &turn, w.now);
    serve_some(2); /* the read node is there, beside the write node */
    CHECK_EQ_INT(turn.reply, DLK_PENDING);
    pass(100);
    tick();
    CHECK_EQ_INT(turn.reply, DLK_UNKNOWN);
    CHECK_EQ_INT(w.lost, 0);
    serve();
    CHECK_EQ_INT(w.lost, 1);
    CHECK_EQ_INT(ask_side(DLK_VERIFY, true), DLK_NOT_OURS);
    end();
}

/* Asked again in the next session it would take the lock from whoever has it then. */
TEST(a_break_whose_session_is_over_before_its_answer_may_have_been_done)
{
    CHECK(begin());
    CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_YES);
    dlk_ask one = make(DLK_BREAK, false, 60000);
    one.number = 0;
    w.backend->type->ask(w.backend, &one, w.now);
    serve_some(2); /* who has it, and what is in that node: then it is deleted */
    CHECK_EQ_INT(one.reply, DLK_PENDING);
    bring(DLK_ZK_EXPIRED, 0);
    process();
    CHECK_EQ_INT(w.lost, 1);
    process(); /* no answer will come */
    CHECK_EQ_INT(one.reply, DLK_UNKNOWN);
    dlk_error_clear(&one.error);
    end();
}
