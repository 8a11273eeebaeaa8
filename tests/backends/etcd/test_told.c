/* Calls and watches at a member of the test's (tests/net/http2_peer.h), which says what an etcd says seldom, or
 * another version of it: watches that are refused, answers that are too long, a farewell. */
#include "../../net/http2_peer.h"

#include "caller.h"
#include "harness/harness.h"
#include "harness/time.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct {
    int listens, fd; /* the member's */
    peer peer;
    pthread_mutex_t mutex;
} w;

/* ---- both sides ---- */

/* Hears what there is, and says what the test has put into its mouth. */
static void serve(void)
{
    char data[65536];
    ssize_t got = recv(w.fd, data, sizeof(data), MSG_DONTWAIT);
    dlk_buf heard = {0};
    if (got > 0 && dlk_buf_append(&heard, data, (size_t)got))
        peer_hear(&w.peer, &heard);
    dlk_buf_free(&heard);
    ssize_t put = send(w.fd, dlk_buf_head(&w.peer.out), dlk_buf_size(&w.peer.out),
                       MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put > 0)
        dlk_buf_eat(&w.peer.out, (size_t)put);
}

static void turn(void)
{
    serve();
    caller_turn();
}

static bool listen_somewhere(struct sockaddr_in *at)
{
    socklen_t size = sizeof(*at);
    *at = (struct sockaddr_in){.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    w.listens = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return bind(w.listens, (struct sockaddr *)at, size) == 0 &&
           listen(w.listens, 4) == 0 &&
           getsockname(w.listens, (struct sockaddr *)at, &size) == 0;
}

static bool begin(void)
{
    struct sockaddr_in at;
    memset(&w, 0, sizeof(w));
    (void)pthread_mutex_init(&w.mutex, NULL);
    bool ready = listen_somewhere(&at) && caller_begin(ntohs(at.sin_port), NULL);
    w.fd = ready ? accept4(w.listens, NULL, NULL, SOCK_CLOEXEC) : -1;
    peer_begin(&w.peer);
    peer_frame(&w.peer, NGHTTP2_SETTINGS, 0, 0, "", 0);
    return harness_check(__FILE__, __LINE__,
                         w.fd >= 0 && AWAITED_BY(turn(), caller.ups > 0, 60000),
                         "a connection");
}

static void end(void)
{
    caller_end();
    peer_end(&w.peer);
    (void)close(w.fd);
    (void)close(w.listens);
    (void)pthread_mutex_destroy(&w.mutex);
}

/* ---- what is asked, and said ---- */

static dlk_etcd_call *watch(int64_t number)
{
    return caller_watch(number, BYTES("key"), 0, true);
}

static dlk_etcd_call *revocation(void)
{
    DlkEtcd__LeaseRevokeRequest request = DLK_ETCD__LEASE_REVOKE_REQUEST__INIT;
    request.id = 7;
    return caller_ask(DLK_ETCD_REVOKE, &request.base);
}

/* On the stream of watches, which is the first. */
static void say(DlkEtcd__WatchResponse said)
{
    dlk_buf packed = {0};
    char prefix[5] = {0};
    CHECK(dlk_etcd_pack(&said.base, &packed));
    prefix[4] = (char)dlk_buf_size(&packed);
    peer_data(&w.peer, 0, 1, prefix, sizeof(prefix));
    peer_data(&w.peer, 0, 1, dlk_buf_head(&packed), dlk_buf_size(&packed));
    dlk_buf_free(&packed);
}

static void say_made(int64_t number)
{
    DlkEtcd__WatchResponse said = DLK_ETCD__WATCH_RESPONSE__INIT;
    said.watch_id = number;
    said.created = true;
    say(said);
}

static void say_refused(int64_t number)
{
    DlkEtcd__WatchResponse said = DLK_ETCD__WATCH_RESPONSE__INIT;
    said.watch_id = number;
    said.created = said.canceled = true;
    said.cancel_reason = BYTES("etcdserver: permission denied");
    say(said);
}

static dlk_etcd_call *next_over(void)
{
    dlk_etcd_call *over = NULL;
    (void)AWAITED_BY(turn(), (over = dlk_etcd_calls_take(&caller.calls)) != NULL, 60000);
    return over;
}

/* It is over now, and so. */
static void ended(const dlk_etcd_call *call, dlk_etcd_end how, const char *why)
{
    dlk_etcd_call *over = next_over();
    if (!harness_check(__FILE__, __LINE__, over && over == call, "the next that is over"))
        return;
    CHECK_EQ_INT(over->end, how);
    CHECK_CONTAINS(over->why, why);
    dlk_etcd_call_free(over);
}

/* ---- watches ---- */

static void say_stands(int64_t number, int64_t revision)
{
    DlkEtcd__ResponseHeader header = DLK_ETCD__RESPONSE_HEADER__INIT;
    DlkEtcd__WatchResponse said = DLK_ETCD__WATCH_RESPONSE__INIT;
    header.revision = revision;
    said.header = revision ? &header : NULL;
    said.watch_id = number;
    said.created = true;
    say(said);
}

static void say_news(int64_t number)
{
    DlkEtcd__Done done = DLK_ETCD__DONE__INIT, *events[] = {&done};
    DlkEtcd__WatchResponse said = DLK_ETCD__WATCH_RESPONSE__INIT;
    said.watch_id = number;
    said.n_events = 1;
    said.events = events;
    say(said);
}

static int looks; /* that were asked for */

static void on_past(dlk_etcd_call *call, int64_t now)
{
    (void)call, (void)now;
    looks++;
}

/* What has happened before it stood etcd tells of up to 100 ms later; this member never does. */
TEST(a_watch_that_begins_in_the_past_is_looked_for_once)
{
    static const struct {
        int64_t start, revision; /* of its answer; 0: it has no header */
        int looks;
    } cases[] = {{5, 4, 0}, {5, 5, 1}, {5, 9, 1}, {0, 9, 0}, {5, 0, 1}};
    if (!begin())
        return;
    for (int i = 0; i < (int)(sizeof(cases) / sizeof(cases[0])); i++) {
        dlk_etcd_call *call = watch(i + 1);
        call->start = cases[i].start;
        call->past = on_past;
        CHECK(AWAITED_BY(turn(), peer_find(&w.peer, 1), 60000));
        if (i == 0)
            peer_headers(&w.peer, 0, 1, ":status=200 content-type=application/grpc");
        looks = 0;
        for (int twice = 0; twice < 2; twice++)
            say_stands(i + 1, cases[i].revision);
        say_news(i + 1); /* said last, so heard last */
        ended(call, DLK_ETCD_OK, "");
        CHECK_EQ_INT(looks, cases[i].looks);
    }
    end();
}

/* etcd 3.4 says whose it was, 3.5 doesn't; after that 3.4 reads nothing more on the stream. */
TEST(a_refused_watch_is_told_from_the_others_and_ends_the_stream)
{
    static const int64_t numbers[] = {2, -1};
    for (size_t i = 0; i < 2; i++) {
        if (!begin())
            return;
        dlk_etcd_call *first = watch(1), *second = watch(2), *third = watch(3);
        CHECK(AWAITED_BY(turn(), peer_find(&w.peer, 1), 60000));
        peer_headers(&w.peer, 0, 1, ":status=200 content-type=application/grpc");
        say_made(1);
        say_refused(numbers[i]);
        ended(second, DLK_ETCD_DENIED, "permission denied");
        ended(first, DLK_ETCD_CUT, "refused another");
        ended(third, DLK_ETCD_CUT, "refused another");
        dlk_etcd_call *again = watch(4);
        CHECK(AWAITED_BY(turn(), peer_find(&w.peer, 3), 60000)); /* a stream of its own */
        CHECK(peer_find(&w.peer, 1)->reset);
        dlk_etcd_calls_drop(&caller.calls, again);
        ended(again, DLK_ETCD_CUT, "nobody waits");
        CHECK_EQ_INT(caller.downs, 0);
        end();
    }
}

TEST(a_stream_that_could_not_be_begun_is_begun_anew)
{
    if (!begin())
        return;
    caller.calls.grpc.http2.leaves = true; /* as when a GOAWAY has come */
    ended(watch(1), DLK_ETCD_CUT, "leaves");
    caller.calls.grpc.http2.leaves = false;
    dlk_etcd_call *call = watch(2);
    CHECK(AWAITED_BY(turn(), peer_find(&w.peer, 1), 60000));
    dlk_etcd_calls_drop(&caller.calls, call);
    ended(call, DLK_ETCD_CUT, "nobody waits");
    end();
}

/* ---- answers ---- */

TEST(an_answer_that_is_too_long_may_be_one_to_what_was_done)
{
    static const char piece[16384];
    if (!begin())
        return;
    dlk_etcd_call *call = revocation();
    dlk_etcd_calls_send(&caller.calls, call, caller.now);
    CHECK(AWAITED_BY(turn(), peer_find(&w.peer, 1), 60000));
    peer_headers(&w.peer, 0, 1, ":status=200");
    for (int i = 0; i < 8 * 64 + 63;
         i++) { /* nearly 1 MiB is on its way when it is broken off */
        peer_data(&w.peer, 0, 1, piece, sizeof(piece));
        CHECK(AWAITED_BY(turn(), dlk_buf_size(&w.peer.out) == 0 || caller.downs > 0,
                         60000));
    }
    dlk_etcd_call *over = next_over();
    CHECK(over == call && over->unread);
    CHECK_EQ_INT(over->end, DLK_ETCD_BAD);
    CHECK_CONTAINS(over->why, "longer than any");
    dlk_etcd_call_free(over);
    CHECK_EQ_INT(caller.downs, 0);
    end();
}

/* ---- several in one request ---- */

enum { BATCH = 3 };

static dlk_etcd_call *send_about(const char *name)
{
    dlk_etcd_txn txn;
    dlk_etcd_bytes key = {strlen(name), (uint8_t *)(uintptr_t)name};
    dlk_etcd_txn_begin(&txn);
    (void)dlk_etcd_txn_range(&txn, DLK_ETCD_THEN, key);
    dlk_etcd_call *call = caller_call(DLK_ETCD_TXN, dlk_etcd_txn_end(&txn));
    call->about = key;
    dlk_etcd_calls_send(&caller.calls, call, caller.now);
    return call;
}

static void say_all(int stream, const char *data, size_t size)
{
    char prefix[5] = {0};
    prefix[4] = (char)size;
    CHECK(size < 128);
    peer_headers(&w.peer, 0, stream, ":status=200 content-type=application/grpc");
    peer_data(&w.peer, 0, stream, prefix, sizeof(prefix));
    peer_data(&w.peer, 0, stream, data, size);
    peer_headers(&w.peer, NGHTTP2_FLAG_END_STREAM, stream, "grpc-status=0");
}

/* So many answers, each empty, which is one, too; but the one at @p odd, which is that. */
static void say_together(int stream, size_t count, size_t odd, DlkEtcd__ResponseOp one)
{
    DlkEtcd__TxnResponse said = DLK_ETCD__TXN_RESPONSE__INIT;
    DlkEtcd__ResponseOp ops[2 * BATCH], *all[2 * BATCH];
    dlk_buf packed = {0};
    for (size_t i = 0; i < count; i++) {
        dlk_etcd_bytes none = {0};
        ops[i] = (DlkEtcd__ResponseOp)DLK_ETCD__RESPONSE_OP__INIT;
        ops[i].response_case = DLK_ETCD__RESPONSE_OP__RESPONSE_RESPONSE_TXN;
        ops[i].response_txn = none;
        if (i == odd)
            ops[i] = one;
        all[i] = &ops[i];
    }
    said.n_responses = count;
    said.responses = all;
    CHECK(dlk_etcd_pack(&said.base, &packed));
    say_all(stream, dlk_buf_head(&packed), dlk_buf_size(&packed));
    dlk_buf_free(&packed);
}

/* One under way, and three that are held back until its answer. */
static bool begin_together(dlk_etcd_call *calls[BATCH], dlk_etcd_call **ret_first)
{
    static const char *const names[BATCH] = {"a", "b", "c"};
    if (!begin())
        return false;
    caller.calls.batches.quickest = 1;
    caller.calls.batches.usual = INT64_MAX / 2;
    *ret_first = send_about("first");
    for (int i = 0; i < BATCH; i++)
        calls[i] = send_about(names[i]);
    return harness_check(__FILE__, __LINE__,
                         AWAITED_BY(turn(), peer_find(&w.peer, 1), 60000) &&
                             !peer_find(&w.peer, 3),
                         "the first alone");
}

TEST(whatever_else_than_its_answers_is_said_to_a_batch_each_has_its_own_or_none)
{
    DlkEtcd__ResponseOp range = DLK_ETCD__RESPONSE_OP__INIT;
    DlkEtcd__RangeResponse found = DLK_ETCD__RANGE_RESPONSE__INIT;
    range.response_case = DLK_ETCD__RESPONSE_OP__RESPONSE_RESPONSE_RANGE;
    range.response_range = &found;
    DlkEtcd__ResponseOp rubbish = DLK_ETCD__RESPONSE_OP__INIT;
    rubbish.response_case = DLK_ETCD__RESPONSE_OP__RESPONSE_RESPONSE_TXN;
    rubbish.response_txn = BYTES("\xff\xff\xff");
    const struct {
        size_t count, odd;
        DlkEtcd__ResponseOp one;
        const char *which; /* are answered */
    } all[] = {
        {3, 9, range, "yyy"},   {6, 9, range, "yyy"}, {1, 9, range, "ynn"},
        {0, 9, range, "nnn"},   {3, 1, range, "yny"}, {3, 0, rubbish, "nyy"},
        {6, 2, rubbish, "yyn"},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        dlk_etcd_call *calls[BATCH], *first;
        if (!begin_together(calls, &first))
            return;
        say_all(1, "", 0);
        ended(first, DLK_ETCD_OK, "");
        CHECK(AWAITED_BY(turn(), peer_find(&w.peer, 3), 60000));
        say_together(3, all[i].count, all[i].odd, all[i].one);
        for (int k = 0; k < BATCH; k++) {
            bool answered = all[i].which[k] == 'y';
            ended(calls[k], answered ? DLK_ETCD_OK : DLK_ETCD_BAD,
                  answered ? "" : "isn't one");
        }
        CHECK_EQ_INT(caller.calls.batches.under_way, 0);
        CHECK_EQ_INT(caller.downs, 0);
        end();
    }
}

TEST(what_is_no_message_ends_all_that_went_together)
{
    dlk_etcd_call *calls[BATCH], *first;
    if (!begin_together(calls, &first))
        return;
    say_all(1, "", 0);
    ended(first, DLK_ETCD_OK, "");
    CHECK(AWAITED_BY(turn(), peer_find(&w.peer, 3), 60000));
    say_all(3, "\xff\xff\xff", 3);
    for (int k = 0; k < BATCH; k++)
        ended(calls[k], DLK_ETCD_BAD, "isn't one");
    CHECK_EQ_INT(caller.calls.batches.under_way, 0);
    end();
}

TEST(who_is_held_back_when_the_member_leaves_is_told_so)
{
    dlk_etcd_call *calls[BATCH], *first;
    if (!begin_together(calls, &first))
        return;
    peer_goaway(&w.peer, 1, 0);
    say_all(1, "", 0);
    ended(first, DLK_ETCD_OK, "");
    for (int k = 0; k < BATCH; k++)
        ended(calls[k], DLK_ETCD_CUT, "the member leaves");
    CHECK_EQ_INT(caller.calls.batches.under_way, 0);
    CHECK(!peer_find(&w.peer, 3));
    CHECK(AWAITED_BY((turn(), dlk_etcd_calls_tick(&caller.calls, caller.now)),
                     caller.downs > 0, 60000));
    end();
}

/* ---- the end ---- */

TEST(the_last_call_is_waited_for_by_a_thread_that_has_the_mutex_as_others)
{
    if (!begin())
        return;
    (void)pthread_mutex_lock(&w.mutex);
    dlk_etcd_call *going = revocation(), *last = revocation();
    dlk_etcd_calls_send(&caller.calls, going, caller.now);
    dlk_etcd_calls_part(&caller.calls, last, &w.mutex, caller.now);
    ended(going, DLK_ETCD_CUT, "the client is closed");
    (void)pthread_mutex_unlock(&w.mutex);
    CHECK(AWAITED_BY(serve(), peer_find(&w.peer, 3) && peer_find(&w.peer, 3)->ended,
                     60000));
    dlk_etcd_calls_free(
        &caller
             .calls); /* it waits for the thread, and that for an answer, or not for long */
    caller_init();
    CHECK_EQ_INT(caller.downs, 0);
    end();
}
