/* Calls and watches at a member of the test's (tests/net/http2_peer.h), which says what an etcd says seldom, or
 * another version of it: watches that are refused, answers that are too long, a farewell. */
#include "../../net/http2_peer.h"

#include "backends/etcd/calls.h"
#include "harness/harness.h"
#include "harness/time.h"
#include "util/clock.h"
#include "util/error.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BYTES(text) ((dlk_etcd_bytes){sizeof(text) - 1, (uint8_t *)(uintptr_t)(text)})

static struct {
    dlk_etcd_calls calls;
    dlk_link_common common;
    dlk_kicks kicks;
    dlk_rand rand;
    int64_t sent, received, now;
    uint64_t wiring;
    int ups, downs;
    int listens, fd; /* the member's */
    peer peer;
    pthread_mutex_t mutex;
} w;

/* ---- both sides ---- */

static void up(dlk_etcd_calls *calls, int64_t now)
{
    (void)calls, (void)now;
    w.ups++;
}

static void down(dlk_etcd_calls *calls, const dlock_error *error, int64_t now)
{
    (void)calls, (void)error, (void)now;
    w.downs++;
}

static void warn(dlk_etcd_calls *calls, const char *text)
{
    (void)calls, (void)text; /* only with TLS */
}

static const dlk_etcd_calls_ops ops = {.up = up, .down = down, .warn = warn};

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
    dlk_polls polls = {0};
    serve();
    dlk_polls_begin(&polls, dlk_clock_now() + 10 * DLK_NS_PER_MS);
    dlk_link_arm(&w.calls.link, &polls);
    dlk_link_push(&w.calls.link, &polls);
    (void)dlk_kicks_poll(&w.kicks, &polls, dlk_kicks_seen(&w.kicks));
    dlk_link_pull(&w.calls.link, &polls);
    w.now = dlk_clock_now();
    dlk_link_process(&w.calls.link, w.now);
    (void)dlk_etcd_calls_tick(&w.calls, w.now);
    dlk_polls_free(&polls);
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
    w.kicks = DLK_KICKS_INIT;
    w.now = dlk_clock_now();
    (void)pthread_mutex_init(&w.mutex, NULL);
    w.common = (dlk_link_common){.service = "etcd",
                                 .plain = "etcd://",
                                 .hint = "",
                                 .connect_ns = 60 * DLK_NS_PER_SEC,
                                 .backoff = {.min_ms = 10, .max_ms = 100},
                                 .kicks = &w.kicks,
                                 .rand = &w.rand,
                                 .bytes_sent = &w.sent,
                                 .bytes_received = &w.received,
                                 .wiring = &w.wiring};
    dlk_etcd_calls_init(&w.calls, &w.common, &ops);
    bool ready = listen_somewhere(&at) && dlk_kicks_open(&w.kicks) &&
                 dlk_etcd_calls_need(NULL) == DLOCK_OK;
    dlk_link_aim(&w.calls.link, "127.0.0.1", ntohs(at.sin_port), "there");
    (void)dlk_address_numeric("127.0.0.1", w.calls.link.port, &w.calls.link.to);
    dlk_link_start(&w.calls.link, w.now);
    w.fd = ready ? accept4(w.listens, NULL, NULL, SOCK_CLOEXEC) : -1;
    peer_begin(&w.peer);
    peer_frame(&w.peer, NGHTTP2_SETTINGS, 0, 0, "", 0);
    return harness_check(__FILE__, __LINE__,
                         w.fd >= 0 && AWAITED_BY(turn(), w.ups > 0, 60000),
                         "a connection");
}

static void end(void)
{
    dlk_link_stop(&w.calls.link);
    (void)dlk_stream_reap(&w.calls.link.stream);
    dlk_etcd_calls_free(&w.calls);
    dlk_kicks_close(&w.kicks);
    peer_end(&w.peer);
    (void)close(w.fd);
    (void)close(w.listens);
    (void)pthread_mutex_destroy(&w.mutex);
}

/* ---- what is asked, and said ---- */

static dlk_etcd_call *make(dlk_etcd_method method, const ProtobufCMessage *message)
{
    dlk_etcd_call *call = calloc(1, sizeof(*call));
    if (!call || !dlk_etcd_pack(message, &call->request))
        abort();
    call->method = method;
    call->timeout_ms = method == DLK_ETCD_WATCH ? 0 : 60000;
    dlk_list_init(&call->link);
    return call;
}

static dlk_etcd_call *watch(int64_t number)
{
    DlkEtcd__WatchCreateRequest create = DLK_ETCD__WATCH_CREATE_REQUEST__INIT;
    DlkEtcd__WatchRequest request = DLK_ETCD__WATCH_REQUEST__INIT;
    create.key = BYTES("key");
    create.watch_id = number;
    request.request_case = DLK_ETCD__WATCH_REQUEST__REQUEST_CREATE_REQUEST;
    request.create_request = &create;
    dlk_etcd_call *call = make(DLK_ETCD_WATCH, &request.base);
    call->watch = number;
    dlk_etcd_calls_send(&w.calls, call, w.now);
    return call;
}

static dlk_etcd_call *revocation(void)
{
    DlkEtcd__LeaseRevokeRequest request = DLK_ETCD__LEASE_REVOKE_REQUEST__INIT;
    request.id = 7;
    return make(DLK_ETCD_REVOKE, &request.base);
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
    (void)AWAITED_BY(turn(), (over = dlk_etcd_calls_take(&w.calls)) != NULL, 60000);
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
        dlk_etcd_calls_drop(&w.calls, again);
        ended(again, DLK_ETCD_CUT, "nobody waits");
        CHECK_EQ_INT(w.downs, 0);
        end();
    }
}

TEST(a_stream_that_could_not_be_begun_is_begun_anew)
{
    if (!begin())
        return;
    w.calls.grpc.http2.leaves = true; /* as when a GOAWAY has come */
    ended(watch(1), DLK_ETCD_CUT, "leaves");
    w.calls.grpc.http2.leaves = false;
    dlk_etcd_call *call = watch(2);
    CHECK(AWAITED_BY(turn(), peer_find(&w.peer, 1), 60000));
    dlk_etcd_calls_drop(&w.calls, call);
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
    dlk_etcd_calls_send(&w.calls, call, w.now);
    CHECK(AWAITED_BY(turn(), peer_find(&w.peer, 1), 60000));
    peer_headers(&w.peer, 0, 1, ":status=200");
    for (int i = 0; i < 8 * 64 + 63;
         i++) { /* nearly 1 MiB is on its way when it is broken off */
        peer_data(&w.peer, 0, 1, piece, sizeof(piece));
        CHECK(AWAITED_BY(turn(), dlk_buf_size(&w.peer.out) == 0 || w.downs > 0, 60000));
    }
    dlk_etcd_call *over = next_over();
    CHECK(over == call && over->unread);
    CHECK_EQ_INT(over->end, DLK_ETCD_BAD);
    CHECK_CONTAINS(over->why, "longer than any");
    dlk_etcd_call_free(over);
    CHECK_EQ_INT(w.downs, 0);
    end();
}

/* ---- the end ---- */

TEST(the_last_call_is_waited_for_by_a_thread_that_has_the_mutex_as_others)
{
    if (!begin())
        return;
    (void)pthread_mutex_lock(&w.mutex);
    dlk_etcd_call *going = revocation(), *last = revocation();
    dlk_etcd_calls_send(&w.calls, going, w.now);
    dlk_etcd_calls_part(&w.calls, last, &w.mutex, w.now);
    ended(going, DLK_ETCD_CUT, "the client is closed");
    (void)pthread_mutex_unlock(&w.mutex);
    CHECK(AWAITED_BY(serve(), peer_find(&w.peer, 3) && peer_find(&w.peer, 3)->ended,
                     60000));
    dlk_etcd_calls_free(
        &w.calls); /* it waits for the thread, and that for an answer, or not for long */
    dlk_etcd_calls_init(&w.calls, &w.common, &ops);
    CHECK_EQ_INT(w.downs, 0);
    end();
}
