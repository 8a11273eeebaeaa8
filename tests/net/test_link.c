/* The life of a link, with a protocol of one line: who greets with "hi\n" is greeted with one line,
 * and sends lines. The server is this test; the time is what it says. */
#include "harness/harness.h"
#include "harness/time.h"
#include "net/link.h"
#include "util/clock.h"
#include "util/error.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct world {
    dlk_link link; /* first */
    dlk_link_common common;
    dlk_kicks kicks;
    dlk_rand rand;
    int64_t sent, received, now;
    uint64_t wiring;
    int listener, server; /* -1: none */
    int ups, downs;
    dlock_err code; /* of the last time it went down */
    char text[256];
    char lines[64]; /* that came after the greeting */
    bool harmless;
    bool drops; /* feed ends the link by itself, and answers an error */
} world;

static world w;

static dlock_error *greet(dlk_link *link, int64_t now)
{
    (void)now;
    return dlk_buf_append(&link->stream.out, "hi\n", 3)
               ? NULL
               : dlk_error_make(DLOCK_ENOMEM, "test: out of memory");
}

static dlock_error *feed(dlk_link *link, const char *data, size_t size, int64_t now)
{
    const char *hint = dlk_link_hint(link, data);
    if (w.drops)
        dlk_link_drop(link, dlk_error_make(DLOCK_EUNAVAIL, "test: dropped"), now);
    if (w.drops || data[size - 1] != '\n')
        return dlk_error_make(DLOCK_EPROTO, "test: nonsense%s", hint);
    if (link->phase == DLK_LINK_GREETING) {
        link->step++;
        dlk_link_greeted(link, now);
    } else {
        strncat(w.lines, data, size);
    }
    return NULL;
}

static void ready(dlk_link *link, int64_t now)
{
    (void)link, (void)now;
    w.ups++;
}

static void down(dlk_link *link, const dlock_error *error, int64_t now)
{
    (void)link, (void)now;
    w.downs++;
    w.code = error->code;
    snprintf(w.text, sizeof(w.text), "%s", error->text);
}

static bool is_harmless(const dlk_link *link)
{
    (void)link;
    return w.harmless;
}

static void warn(dlk_link *link, const char *text)
{
    (void)link, (void)text; /* only with TLS */
}

static const dlk_link_ops ops = {.greet = greet,
                                 .feed = feed,
                                 .ready = ready,
                                 .down = down,
                                 .harmless = is_harmless,
                                 .warn = warn};

/* ---- set-up ---- */

#define CONNECT_NS (2 * DLK_NS_PER_SEC)
#define REST_MS    1000

static bool listens(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    w.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool fine = w.listener >= 0 &&
                bind(w.listener, (struct sockaddr *)&at, sizeof(at)) == 0 &&
                listen(w.listener, 4) == 0 &&
                getsockname(w.listener, (struct sockaddr *)&at, &size) == 0;
    dlk_link_aim(&w.link, "127.0.0.1", ntohs(at.sin_port), "there");
    return harness_check(__FILE__, __LINE__, fine, "a socket that listens") &&
           dlk_address_numeric("127.0.0.1", w.link.port, &w.link.to);
}

static bool begin(void)
{
    w = (world){.server = -1, .kicks = DLK_KICKS_INIT};
    w.now = dlk_clock_now();
    w.common = (dlk_link_common){.service = "test",
                                 .plain = "test://",
                                 .hint = ": does it expect TLS?",
                                 .connect_ns = CONNECT_NS,
                                 .backoff = {.min_ms = REST_MS, .max_ms = REST_MS},
                                 .kicks = &w.kicks,
                                 .rand = &w.rand,
                                 .bytes_sent = &w.sent,
                                 .bytes_received = &w.received,
                                 .wiring = &w.wiring};
    dlk_link_init(&w.link, &w.common, &ops);
    return harness_check(__FILE__, __LINE__, dlk_kicks_open(&w.kicks), "an eventfd") &&
           listens();
}

static void end(void)
{
    dlk_link_stop(&w.link);
    CHECK(dlk_stream_reap(&w.link.stream));
    dlk_link_free(&w.link);
    dlk_kicks_close(&w.kicks);
    close(w.listener);
    if (w.server >= 0)
        close(w.server);
}

/* One round of a driver, which sleeps no longer than until something has come. */
static void turn(void)
{
    dlk_polls polls = {0};
    dlk_polls_begin(&polls, dlk_clock_now() + 50 * DLK_NS_PER_MS);
    dlk_link_arm(&w.link, &polls);
    dlk_link_push(&w.link, &polls);
    (void)dlk_kicks_poll(&w.kicks, &polls, dlk_kicks_seen(&w.kicks));
    dlk_link_pull(&w.link, &polls);
    dlk_link_process(&w.link, w.now);
    (void)dlk_link_tick(&w.link, w.now);
}

static void server_says(const char *text)
{
    ssize_t size = (ssize_t)strlen(text);
    CHECK(send(w.server, text, (size_t)size, MSG_NOSIGNAL) == size);
}

/* Accepts, and takes the greeting. */
static bool is_greeted(void)
{
    char line[8] = "";
    dlk_link_start(&w.link, w.now);
    for (int i = 0; i < 1000 && w.link.phase != DLK_LINK_GREETING; i++)
        turn();
    w.server = accept(w.listener, NULL, NULL);
    turn();
    bool fine = w.server >= 0 && recv(w.server, line, sizeof(line) - 1, 0) == 3 &&
                strcmp(line, "hi\n") == 0;
    return harness_check(__FILE__, __LINE__, fine, "a greeting");
}

static bool connected(void)
{
    if (!begin() || !is_greeted())
        return false;
    server_says("hello\n");
    for (int i = 0; i < 1000 && w.ups == 0; i++)
        turn();
    return harness_check(__FILE__, __LINE__, w.ups == 1, "a link that is ready");
}

/* ---- tests ---- */

TEST(a_link_dials_greets_and_is_ready_and_counts_what_it_says)
{
    if (!connected())
        return;
    CHECK_EQ_INT(w.link.phase, DLK_LINK_READY);
    CHECK_EQ_INT(w.sent, 3);
    CHECK_EQ_INT(w.received, 6);
    CHECK(w.wiring >= 3); /* dialling, greeting, ready */
    server_says("one\n");
    AWAIT_BY(turn(), strcmp(w.lines, "one\n") == 0);
    CHECK_EQ_INT(w.downs, 0);
    CHECK_EQ_INT(dlk_link_tick(&w.link, w.now), DLK_NEVER);
    end();
}

TEST(a_name_is_looked_up_first)
{
    if (!begin())
        return;
    dlk_link_aim(&w.link, "localhost", w.link.port, "there");
    w.link.to.count = 0;
    dlk_link_start(&w.link, w.now);
    CHECK_EQ_INT(w.link.phase, DLK_LINK_LOOKUP);
    CHECK(!dlk_link_seeks(&w.link));
    AWAIT_BY(turn(), w.link.phase == DLK_LINK_GREETING || w.downs > 0);
    CHECK_EQ_INT(w.downs, 0);
    end();
}

TEST(who_refuses_is_tried_again_after_a_rest)
{
    if (!begin())
        return;
    close(w.listener);
    dlk_link_start(&w.link, w.now);
    AWAIT_BY(turn(), w.downs == 1);
    CHECK_STR(w.text, "test: can't connect to there: Connection refused");
    CHECK_EQ_INT(w.code, DLOCK_EUNAVAIL);
    CHECK_EQ_INT(w.link.phase, DLK_LINK_RESTING);
    int64_t next = dlk_link_tick(&w.link, w.now);
    CHECK(next > w.now && next <= w.now + REST_MS * DLK_NS_PER_MS);
    CHECK_EQ_INT(w.downs, 1);
    w.now = next;
    AWAIT_BY(turn(), w.downs == 2);
    w.listener = -1;
    end();
}

/* Its line is full of those that nobody accepts: who comes now stands before the door. */
static void crowd(int fds[], int count)
{
    struct sockaddr_in at;
    socklen_t size = sizeof(at);
    CHECK(listen(w.listener, 0) == 0);
    CHECK(getsockname(w.listener, (struct sockaddr *)&at, &size) == 0);
    for (int i = 0; i < count; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        CHECK(connect(fds[i], (struct sockaddr *)&at, size) == 0 || errno == EINPROGRESS);
    }
}

TEST(who_dials_is_woken_by_the_connection)
{
    int fds[4];
    dlk_polls polls = {0};
    if (!begin())
        return;
    crowd(fds, 4);
    dlk_link_start(&w.link, w.now);
    CHECK_EQ_INT(w.link.phase, DLK_LINK_DIAL);
    dlk_polls_begin(&polls, DLK_NEVER);
    dlk_link_arm(&w.link, &polls);
    CHECK_EQ_INT(polls.count, 1);
    CHECK_EQ_INT(polls.item[0].fd, w.link.dial.fd);
    CHECK_EQ_INT(polls.item[0].events, POLLOUT);
    for (int i = 0; i < 4; i++)
        close(fds[i]);
    end();
}

TEST(who_does_not_answer_is_given_up_in_time)
{
    if (!begin() || !is_greeted())
        return;
    CHECK_EQ_INT(dlk_link_tick(&w.link, w.now), w.now + CONNECT_NS);
    CHECK_EQ_INT(w.downs, 0);
    w.now += CONNECT_NS;
    (void)dlk_link_tick(&w.link, w.now);
    CHECK_EQ_INT(w.downs, 1);
    CHECK_STR(w.text, "test: there: connected, but it doesn't answer within 2000 ms");
    end();
}

TEST(who_hangs_up_or_alerts_at_the_greeting_may_expect_tls)
{
    if (!begin() || !is_greeted())
        return;
    shutdown(w.server, SHUT_RDWR);
    AWAIT_BY(turn(), w.downs == 1);
    CHECK_STR(w.text, "test: connection to there lost: it was closed by the server: "
                      "does it expect TLS?");
    end();
    if (!begin() || !is_greeted())
        return;
    server_says("\x15\x03\x03");
    AWAIT_BY(turn(), w.downs == 1);
    CHECK_STR(w.text, "test: nonsense: does it expect TLS?");
    CHECK_EQ_INT(w.code, DLOCK_EPROTO);
    end();
}

TEST(who_hangs_up_later_does_not)
{
    if (!connected())
        return;
    shutdown(w.server, SHUT_RDWR);
    AWAIT_BY(turn(), w.downs == 1);
    CHECK_STR(w.text, "test: connection to there lost: it was closed by the server");
    end();
}

TEST(what_ends_the_link_inside_feed_is_what_is_told)
{
    if (!connected())
        return;
    w.drops = true;
    server_says("one\n");
    AWAIT_BY(turn(), w.downs > 0);
    turn();
    CHECK_EQ_INT(w.downs, 1);
    CHECK_STR(w.text, "test: dropped");
    end();
}

TEST(a_doom_ends_the_link_once_the_reply_is_taken)
{
    if (!connected())
        return;
    w.link.doom = dlk_error_make(DLOCK_EACCES, "test: doomed");
    server_says("one\n");
    AWAIT_BY(turn(), w.downs == 1);
    CHECK_STR(w.text, "test: doomed");
    CHECK_EQ_INT(w.code, DLOCK_EACCES);
    end();
}

TEST(what_came_while_a_link_was_ended_is_too_late)
{
    dlk_polls polls = {0};
    if (!connected())
        return;
    dlk_polls_begin(&polls, dlk_clock_now() + 20 * DLK_NS_PER_SEC);
    dlk_link_arm(&w.link, &polls);
    dlk_link_push(&w.link, &polls);
    server_says("one\n");
    CHECK(dlk_kicks_poll(&w.kicks, &polls, dlk_kicks_seen(&w.kicks)));
    dlk_link_pull(&w.link, &polls);
    dlk_link_stop(&w.link);
    CHECK(!dlk_stream_reap(&w.link.stream)); /* the driver has it */
    dlk_link_process(&w.link, w.now);
    CHECK_EQ_INT(w.link.phase, DLK_LINK_OFF);
    CHECK_STR(w.lines, "");
    CHECK_EQ_INT(w.downs, 0);
    end();
}

/* What the server hears of the end: 0, or an errno. */
static int end_heard(void)
{
    char more[8];
    struct pollfd one = {.fd = w.server, .events = POLLIN};
    if (poll(&one, 1, 20000) != 1)
        return ETIMEDOUT;
    return recv(w.server, more, sizeof(more), 0) == 0 ? 0 : errno;
}

TEST(a_link_ends_in_order_only_where_that_is_harmless)
{
    for (int harmless = 0; harmless < 2; harmless++) {
        if (!connected())
            return;
        w.harmless = harmless;
        dlk_link_stop(&w.link);
        CHECK_EQ_INT(end_heard(), harmless ? 0 : ECONNRESET);
        end();
    }
    if (!begin() || !is_greeted())
        return;
    w.harmless = true;
    dlk_link_stop(&w.link); /* not yet ready: who knows what was heard */
    CHECK_EQ_INT(end_heard(), ECONNRESET);
    end();
}
