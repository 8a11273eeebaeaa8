/* Every fault that needs no framing, before a server that says back what it hears. */
#include "proxy/echo.h"
#include "proxy/proxy.h"
#include "proxy/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static echo server;
static proxy *p;
static proxy_link *way;

static bool set_up(void)
{
    char target[32];
    const char *why = "no thread";
    if (wire_left_behind(&p))
        echo_stop(&server);
    if (!harness_check(__FILE__, __LINE__, echo_start(&server), "an echo server"))
        return false;
    snprintf(target, sizeof(target), "127.0.0.1:%d", server.port);
    p = proxy_new(7);
    way = p ? proxy_listen(p, NULL, 0, target, "raw", &why) : NULL;
    return harness_check(__FILE__, __LINE__, way != NULL, why);
}

static void tear_down(void)
{
    proxy_free(p);
    p = NULL;
    echo_stop(&server);
}

static int open_one(void)
{
    int fd = wire_open(proxy_port(way));
    (void)harness_check(__FILE__, __LINE__, fd >= 0 && wire_echoes(fd, "hello"),
                        "a connection that works");
    return fd;
}

TEST(what_nothing_disturbs_arrives_as_it_was_sent)
{
    enum { SIZE = 3 << 20 };
    if (!set_up())
        return;
    int fd = open_one();
    char *sent = malloc(SIZE), *heard = malloc(SIZE);
    for (int i = 0; i < SIZE; i++)
        sent[i] = (char)((unsigned)i * 7919u >> 5);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    ssize_t said = 0, got = 0, moved;
    int64_t end = now_ms() + WIRE_MS;
    while (got < SIZE && now_ms() < end) {
        struct pollfd ready = {.fd = fd,
                               .events = (short)(POLLIN | (said < SIZE ? POLLOUT : 0))};
        poll(&ready, 1, 1000);
        if ((moved = send(fd, sent + said, (size_t)(SIZE - said), MSG_NOSIGNAL)) > 0)
            said += moved;
        if ((moved = recv(fd, heard + got, (size_t)(SIZE - got), 0)) > 0)
            got += moved;
    }
    CHECK_EQ_INT(got, SIZE);
    CHECK(memcmp(sent, heard, SIZE) == 0);
    proxy_stats stats = proxy_get_stats(way);
    CHECK_EQ_INT(stats.bytes_up, SIZE + 5);
    CHECK_EQ_INT(stats.bytes_down, SIZE + 5);
    free(sent);
    free(heard);
    wire_close(fd);
    AWAIT(proxy_get_stats(way).open == 0);
    tear_down();
}

TEST(latency_comes_before_each_answer)
{
    if (!set_up())
        return;
    int fd = open_one();
    static const struct {
        proxy_way way;
        int64_t least;
    } cases[] = {{PROXY_DOWN, 50}, {PROXY_UP, 50}, {PROXY_BOTH, 100}};
    for (int i = 0; i < 3; i++) {
        proxy_latency(way, cases[i].way, 50, 0);
        int64_t began = now_ms();
        CHECK(wire_echoes(fd, "x"));
        CHECK(now_ms() - began >= cases[i].least - 1);
        proxy_pass(way);
    }
    proxy_latency(way, PROXY_DOWN, 3600000, 0);
    CHECK(wire_say(fd, "kept"));
    CHECK_STR(wire_hear(fd, 4, WIRE_SOON_MS), "(silence)");
    proxy_pass(way); /* doesn't wait an hour */
    CHECK_STR(wire_hear(fd, 4, WIRE_MS), "kept");
    wire_close(fd);
    tear_down();
}

TEST(jitter_keeps_the_order_of_bytes)
{
    if (!set_up())
        return;
    int fd = open_one();
    proxy_latency(way, PROXY_BOTH, 5, 5);
    char all[101] = "";
    for (int i = 0; i < 100; i++) {
        char one[2] = {(char)('0' + i % 75), 0};
        strcat(all, one);
        CHECK(wire_say(fd, one));
    }
    CHECK_STR(wire_hear(fd, 100, WIRE_MS), all);
    wire_close(fd);
    tear_down();
}

TEST(slices_come_one_by_one_with_a_pause_between)
{
    if (!set_up())
        return;
    int fd = open_one();
    proxy_slice(way, PROXY_DOWN, 10, 2000);
    int64_t began = now_ms();
    char text[201];
    memset(text, 'x', 200);
    text[200] = '\0';
    CHECK(wire_echoes(fd, text));
    CHECK(now_ms() - began >= 19 * 2 - 1);
    wire_close(fd);
    tear_down();
}

TEST(sliced_to_single_bytes_thousands_of_them_arrive)
{
    if (!set_up())
        return;
    int fd = open_one();
    proxy_slice(way, PROXY_BOTH, 1, 0);
    char text[5001];
    for (int i = 0; i < 5000; i++)
        text[i] = (char)('a' + i % 26);
    text[5000] = '\0';
    CHECK(wire_echoes(fd, text));
    wire_close(fd);
    tear_down();
}

TEST(bandwidth_is_the_upper_limit)
{
    if (!set_up())
        return;
    int fd = open_one();
    proxy_bandwidth(way, PROXY_UP, 20000);
    char text[4001];
    memset(text, 'x', 4000);
    text[4000] = '\0';
    int64_t began = now_ms();
    CHECK(wire_echoes(fd, text));
    CHECK(now_ms() - began >= 150); /* 200, less the last portions */
    proxy_pass(way);
    CHECK(wire_echoes(fd, text));
    wire_close(fd);
    tear_down();
}

TEST(a_black_hole_swallows_both_ways_and_cuts_when_it_is_gone)
{
    if (!set_up())
        return;
    int old = open_one(), idle = open_one();
    long heard = atomic_load(&server.heard);
    proxy_hole(way, PROXY_BOTH);
    int new = wire_open(proxy_port(way));
    CHECK(new >= 0); /* accepted, as by a kernel before a dead program */
    CHECK(wire_say(old, "lost") && wire_say(new, "lost"));
    CHECK_STR(wire_hear(old, 1, WIRE_SOON_MS), "(silence)");
    CHECK_STR(wire_hear(new, 1, WIRE_SOON_MS), "(silence)");
    CHECK_EQ_INT(atomic_load(&server.heard), heard);
    AWAIT(proxy_get_stats(way).swallowed == 8);
    proxy_pass(way);
    CHECK_STR(wire_hear(old, 1, WIRE_MS), "(reset)");
    CHECK_STR(wire_hear(new, 1, WIRE_MS), "(reset)");
    CHECK(wire_echoes(idle, "lost nothing"));
    wire_close(old);
    wire_close(new);
    wire_close(idle);
    tear_down();
}

TEST(an_asymmetric_cut_loses_one_way_only)
{
    if (!set_up())
        return;
    int fd = open_one();
    long heard = atomic_load(&server.heard);
    proxy_hole(way, PROXY_DOWN);
    CHECK(wire_say(fd, "heard"));
    AWAIT(atomic_load(&server.heard) == heard + 5);
    CHECK_STR(wire_hear(fd, 1, WIRE_SOON_MS), "(silence)");
    proxy_pass(way);
    CHECK_STR(wire_hear(fd, 1, WIRE_MS), "(reset)");
    wire_close(fd);
    fd = open_one();
    heard = atomic_load(&server.heard);
    proxy_hole(way, PROXY_UP);
    CHECK(wire_say(fd, "lost"));
    echo_shout(&server, "news");
    CHECK_STR(wire_hear(fd, 4, WIRE_MS), "news");
    CHECK_EQ_INT(atomic_load(&server.heard), heard);
    wire_close(fd);
    tear_down();
}

TEST(a_reset_ends_what_exists_and_nothing_else)
{
    if (!set_up())
        return;
    int one = open_one(), other = open_one();
    proxy_reset(way);
    CHECK_STR(wire_hear(one, 1, WIRE_MS), "(reset)");
    CHECK_STR(wire_hear(other, 1, WIRE_MS), "(reset)");
    AWAIT(atomic_load(&server.open) == 0);
    int new = open_one();
    wire_close(one);
    wire_close(other);
    wire_close(new);
    tear_down();
}

TEST(half_open_connections_are_dead_and_neither_end_is_told)
{
    if (!set_up())
        return;
    int old = open_one();
    proxy_half_open(way);
    int new = open_one();
    CHECK(wire_say(old, "lost"));
    echo_shout(&server, "news");
    CHECK_STR(wire_hear(new, 4, WIRE_MS), "news");
    CHECK_STR(wire_hear(old, 1, WIRE_SOON_MS), "(silence)");
    proxy_pass(way); /* changes nothing about it */
    CHECK_STR(wire_hear(old, 1, WIRE_SOON_MS), "(silence)");
    wire_close(old);
    wire_close(new);
    AWAIT(atomic_load(&server.open) == 1);
    nap_ms(WIRE_SOON_MS);
    CHECK_EQ_INT(atomic_load(&server.open), 1); /* it still believes in the old one */
    proxy_reset(way);
    AWAIT(atomic_load(&server.open) == 0);
    tear_down();
}

TEST(half_closed_upwards_the_server_sees_an_end_and_is_still_heard)
{
    if (!set_up())
        return;
    atomic_store(&server.keeps_open, true);
    int fd = open_one();
    proxy_half_close(way, PROXY_UP);
    AWAIT(atomic_load(&server.hang_ups) == 1);
    echo_shout(&server, "last words");
    CHECK_STR(wire_hear(fd, 10, WIRE_MS), "last words");
    CHECK_STR(wire_hear(fd, 1, WIRE_SOON_MS), "(silence)");
    wire_close(fd);
    tear_down();
}

TEST(half_closed_downwards_the_client_sees_an_end_and_is_still_heard)
{
    if (!set_up())
        return;
    int fd = open_one();
    proxy_half_close(way, PROXY_DOWN);
    CHECK_STR(wire_hear(fd, 1, WIRE_MS), "(end)");
    long heard = atomic_load(&server.heard);
    CHECK(wire_say(fd, "heard"));
    AWAIT(atomic_load(&server.heard) == heard + 5);
    wire_close(fd);
    AWAIT(atomic_load(&server.open) == 0);
    tear_down();
}

TEST(stalled_connections_deliver_later_what_was_said_even_by_who_has_left)
{
    if (!set_up())
        return;
    int stays = open_one(), leaves = open_one(), breaks = open_one();
    proxy_stall(way);
    int new = open_one();
    long heard = atomic_load(&server.heard);
    CHECK(wire_say(stays, "stays") && wire_say(leaves, "leaves") &&
          wire_say(breaks, "breaks"));
    wire_close(leaves);
    wire_break(breaks);
    CHECK_STR(wire_hear(stays, 1, WIRE_SOON_MS), "(silence)");
    CHECK_EQ_INT(atomic_load(&server.heard), heard);
    CHECK(wire_echoes(new, "works"));
    proxy_pass(way);
    CHECK_STR(wire_hear(stays, 5, WIRE_MS), "stays");
    AWAIT(atomic_load(&server.heard) == heard + 5 + 5 + 6 + 6);
    wire_close(stays);
    wire_close(new);
    AWAIT(atomic_load(&server.open) == 0);
    tear_down();
}

TEST(what_was_said_before_breaking_off_is_heard)
{
    if (!set_up())
        return;
    int fd = open_one();
    long heard = atomic_load(&server.heard);
    proxy_latency(way, PROXY_UP, 50, 0);
    CHECK(wire_say(fd, "last words"));
    wire_break(fd);
    AWAIT(atomic_load(&server.heard) == heard + 10);
    AWAIT(atomic_load(&server.open) == 0);
    tear_down();
}

TEST(late_answers_arrive_when_the_link_passes_again)
{
    if (!set_up())
        return;
    int fd = open_one();
    proxy_late(way);
    long heard = atomic_load(&server.heard);
    CHECK(wire_say(fd, "late"));
    AWAIT(atomic_load(&server.heard) == heard + 4);
    CHECK_STR(wire_hear(fd, 1, WIRE_SOON_MS), "(silence)");
    proxy_pass(way);
    CHECK_STR(wire_hear(fd, 4, WIRE_MS), "late");
    wire_close(fd);
    tear_down();
}

TEST(refused_are_new_connections_only_and_the_port_stays_ours)
{
    if (!set_up())
        return;
    int old = open_one();
    for (int i = 0; i < 30; i++) { /* at once: not only when its thread has noticed */
        proxy_refuse(way);
        CHECK_EQ_INT(wire_open(proxy_port(way)), -1);
        CHECK_EQ_INT(errno, ECONNREFUSED);
        CHECK(wire_echoes(old, "goes on"));
        proxy_pass(way);
        wire_close(open_one());
    }
    wire_close(old);
    tear_down();
}

TEST(whom_nobody_accepts_waits_until_the_link_passes_again)
{
    if (!set_up())
        return;
    proxy_ignore(way);
    int first = wire_open(proxy_port(way)); /* the kernel takes it into the backlog */
    CHECK(first >= 0 && wire_say(first, "patience"));
    CHECK_STR(wire_hear(first, 1, WIRE_SOON_MS), "(silence)");
    CHECK_EQ_INT(proxy_get_stats(way).accepted, 0);
    int others[4], late = 0; /* which is soon full */
    for (int i = 0; i < 4; i++) {
        others[i] = wire_begin(proxy_port(way));
        late += !wire_is_open(others[i], WIRE_SOON_MS);
    }
    CHECK(late > 0);
    proxy_pass(way);
    CHECK_STR(wire_hear(first, 8, WIRE_MS), "patience");
    for (int i = 0; i < 4; i++) {
        CHECK(wire_is_open(others[i], WIRE_MS)); /* its SYN comes once more */
        wire_close(others[i]);
    }
    wire_close(first);
    tear_down();
}

TEST(a_server_that_is_not_there_resets_who_comes)
{
    if (!set_up())
        return;
    echo_stop(&server);
    int fd = wire_open(proxy_port(way));
    CHECK(fd >= 0);
    CHECK_STR(wire_hear(fd, 1, WIRE_MS), "(reset)");
    CHECK_EQ_INT(proxy_get_stats(way).refused, 1);
    wire_close(fd);
    proxy_free(p);
    p = NULL;
}

TEST(two_hundred_and_fifty_six_connections_and_two_links_at_once)
{
    enum { MANY = 256 };
    if (!set_up())
        return;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
    setrlimit(RLIMIT_NOFILE, &limit);
    char target[32];
    const char *why;
    snprintf(target, sizeof(target), "%d", server.port);
    proxy_link *other = proxy_listen(p, "other", 0, target, "raw", &why);
    CHECK(other != NULL);
    int fds[MANY];
    for (int i = 0; i < MANY; i++)
        CHECK((fds[i] = wire_open(proxy_port(i % 2 ? way : other))) >= 0);
    for (int i = 0; i < MANY; i++)
        CHECK(wire_say(fds[i], "a word"));
    for (int i = 0; i < MANY; i++)
        CHECK_STR(wire_hear(fds[i], 6, WIRE_MS), "a word");
    CHECK_EQ_INT(proxy_get_stats(way).open, MANY / 2);
    proxy_hole(other, PROXY_BOTH); /* concerns that one alone */
    CHECK(wire_echoes(fds[1], "goes on"));
    CHECK(wire_say(fds[0], "lost"));
    CHECK_STR(wire_hear(fds[0], 1, WIRE_SOON_MS), "(silence)");
    for (int i = 0; i < MANY; i++)
        wire_close(fds[i]);
    tear_down();
}

static int64_t cpu_ms(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

/* Sockets with something to tell that nobody wants to know now: the traps of a poll loop. */
TEST(whatever_is_kept_nothing_spins)
{
    if (!set_up())
        return;
    int stalled = open_one(), left = open_one(), broken = open_one();
    proxy_stall(way);
    CHECK(wire_say(stalled, "x") && wire_say(left, "x") && wire_say(broken, "x"));
    wire_close(left);
    wire_break(broken);
    int orphan = open_one(), closed = open_one(), slow = open_one(), tail = open_one();
    proxy_latency(way, PROXY_BOTH, 3600000, 0);
    CHECK(wire_say(slow, "x"));
    proxy_late(way);
    CHECK(wire_say(tail, "x"));
    proxy_half_close(way, PROXY_UP);
    wire_close(closed);
    proxy_half_open(way);
    wire_break(orphan);
    proxy_ignore(way);
    int waiting = wire_open(proxy_port(way));
    nap_ms(50);
    int64_t before = cpu_ms();
    nap_ms(400);
    CHECK(cpu_ms() - before < 50);
    wire_close(stalled);
    wire_close(slow);
    wire_close(tail);
    wire_close(waiting);
    tear_down();
}

TEST(what_it_did_is_in_the_log)
{
    if (!set_up())
        return;
    char path[] = "/tmp/dlock-proxy-XXXXXX", text[4096] = "";
    int file = mkstemp(path);
    CHECK(file >= 0 && proxy_log_to(p, path));
    int fd = open_one();
    proxy_latency(way, PROXY_DOWN, 20, 5);
    proxy_note(p, "the story's %s", "middle");
    proxy_reset(way);
    CHECK_STR(wire_hear(fd, 1, WIRE_MS), "(reset)");
    CHECK(proxy_log_to(p, NULL));
    CHECK(read(file, text, sizeof(text) - 1) > 0);
    CHECK_CONTAINS(text, " 1#1 connected\n");
    CHECK_CONTAINS(text, " 1 latency 20 5 down\n");
    CHECK_CONTAINS(text, " the story's middle\n");
    CHECK_CONTAINS(text, " 1 reset\n");
    CHECK(!proxy_log_to(p, "/no/such/folder/log"));
    close(file);
    unlink(path);
    wire_close(fd);
    tear_down();
}
