/* Addresses and lookups, dialling, backing off, and a stream that several threads write to. */
#include "contract/flight.h"
#include "harness/harness.h"
#include "lines.h"
#include "net/address.h"
#include "net/backoff.h"
#include "net/dial.h"
#include "net/silence.h"
#include "net/stream.h"
#include "util/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

TEST(numeric_hosts_need_no_lookup)
{
    dlk_addresses found;
    CHECK(dlk_address_numeric("127.0.0.1", 6379, &found));
    CHECK_EQ_INT(found.count, 1);
    CHECK_EQ_INT(found.item[0].is.in.sin_port, htons(6379));
    CHECK(dlk_address_numeric("::1", 7, &found));
    CHECK_EQ_INT(found.item[0].is.any.sa_family, AF_INET6);
    CHECK(!dlk_address_numeric("localhost", 6379, &found));
    CHECK(!dlk_address_numeric("127.0.0.1.example", 6379, &found));
}

TEST(a_path_must_fit_into_an_address)
{
    char path[200];
    dlk_addresses found;
    memset(path, 'a', sizeof(path));
    path[107] = '\0';
    CHECK(dlk_address_unix(path, &found));
    path[107] = 'a';
    path[108] = '\0';
    CHECK(!dlk_address_unix(path, &found));
    CHECK(!dlk_address_unix("", &found));
}

TEST(a_lookup_ends_by_itself_and_may_be_dropped_before)
{
    dlk_lookup *lookup = dlk_lookup_start("localhost", 80);
    CHECK(lookup != NULL);
    struct pollfd ready = {.fd = dlk_lookup_fd(lookup), .events = POLLIN};
    CHECK_EQ_INT(poll(&ready, 1, 20000), 1);
    CHECK(dlk_lookup_ended(lookup));
    dlk_addresses found;
    const char *why;
    CHECK(dlk_lookup_result(lookup, &found, &why));
    CHECK(found.count >= 1);
    dlk_lookup_drop(lookup);
    for (int i = 0; i < 20; i++) {
        lookup = dlk_lookup_start(i % 2 ? "localhost" : "no-such-host.invalid", 80);
        CHECK(lookup != NULL);
        dlk_lookup_drop(lookup);
    }
    dlk_lookup_drop(NULL);
}

TEST(backing_off_grows_to_its_limit_and_never_beyond)
{
    dlk_backoff backoff = {.min_ms = 50, .max_ms = 2000};
    dlk_rand rand = {1};
    int64_t step = 50;
    for (int i = 0; i < 20; i++) {
        int64_t wait = dlk_backoff_next(&backoff, &rand);
        CHECK(wait >= step * DLK_NS_PER_MS / 2 && wait <= step * DLK_NS_PER_MS);
        step = step * 2 > 2000 ? 2000 : step * 2;
    }
    dlk_backoff_reset(&backoff);
    CHECK(dlk_backoff_next(&backoff, &rand) <= 50 * DLK_NS_PER_MS);
}

static int option(int fd, int level, int name)
{
    int value = 0;
    socklen_t size = sizeof(value);
    return getsockopt(fd, level, name, &value, &size) == 0 ? value : -1;
}

/* A silent peer is looked for often enough that one look may get lost, whatever the limit. */
TEST(a_limit_to_silence_leaves_time_for_two_looks_and_is_a_second_at_least)
{
    static const int64_t limits[] = {10, 1000, 3000, 60000, 600000};
    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK(fd >= 0);
        dlk_silence_limit(fd, limits[i]);
        int limit = option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT);
        int idle = option(fd, IPPROTO_TCP, TCP_KEEPIDLE);
        int pause = option(fd, IPPROTO_TCP, TCP_KEEPINTVL);
        int on = option(fd, SOL_SOCKET, SO_KEEPALIVE);
        close(fd);
        CHECK(on == 1 && idle >= 1 && pause >= 1);
        CHECK_EQ_INT(limit, limits[i] > 1000 ? limits[i] : 1000);
        CHECK(limit < 3000 || (idle + pause) * 1000 <= limit);
    }
}

/* ---- Dialling ---- */

static int listen_at(dlk_addresses *at)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (!dlk_address_numeric("127.0.0.1", 0, at) ||
        bind(fd, &at->item[0].is.any, at->item[0].size) != 0 || listen(fd, 8) != 0 ||
        getsockname(fd, &at->item[0].is.any, &at->item[0].size) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static dlk_dialled dial_all(dlk_dial *dial, int64_t wait_ms)
{
    dlk_dial_begin(dial, dlk_clock_now() + wait_ms * DLK_NS_PER_MS);
    dlk_dialled result;
    while ((result = dlk_dial_step(dial, dlk_clock_now())) == DLK_DIAL_PENDING) {
        struct pollfd ready = {.fd = dial->fd, .events = POLLOUT};
        poll(&ready, 1, 1);
    }
    return result;
}

TEST(each_address_is_tried_once_until_one_answers)
{
    dlk_addresses open, closed;
    int listener = listen_at(&open), gone = listen_at(&closed);
    CHECK(listener >= 0 && gone >= 0);
    close(gone);
    dlk_dial dial = {.addresses = {.count = 3}};
    dial.addresses.item[0] = dial.addresses.item[1] = closed.item[0];
    dial.addresses.item[2] = open.item[0];
    CHECK_EQ_INT(dial_all(&dial, 10000), DLK_DIAL_DONE);
    CHECK(dlk_address_same(dlk_dial_address(&dial), &open.item[0]));
    dlk_dial_end(&dial);
    dial.addresses.count = 2;
    CHECK_EQ_INT(dial_all(&dial, 10000), DLK_DIAL_FAILED);
    CHECK_EQ_INT(dial.error, ECONNREFUSED);
    dial.addresses.count = 0;
    CHECK_EQ_INT(dial_all(&dial, 10000), DLK_DIAL_FAILED);
    close(listener);
}

TEST(a_silent_address_leaves_time_for_the_next)
{
    /* A listener whose backlog is full drops what comes: a black hole on loopback. */
    dlk_addresses hole, open;
    int full = listen_at(&hole), listener = listen_at(&open);
    CHECK(full >= 0 && listener >= 0 && listen(full, 0) == 0);
    int fillers[4];
    for (int i = 0; i < 4; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        CHECK(connect(fillers[i], &hole.item[0].is.any, hole.item[0].size) == 0 ||
              errno == EINPROGRESS);
    }
    dlk_dial dial = {.addresses = {.count = 2}};
    dial.addresses.item[0] = hole.item[0];
    dial.addresses.item[1] = open.item[0];
    int64_t began = dlk_clock_now();
    CHECK_EQ_INT(dial_all(&dial, 400), DLK_DIAL_DONE);
    CHECK(dlk_clock_now() - began >= 100 * DLK_NS_PER_MS); /* the first had its share */
    CHECK(dlk_address_same(dlk_dial_address(&dial), &open.item[0]));
    dlk_dial_end(&dial);
    dial.addresses.count = 1;
    CHECK_EQ_INT(dial_all(&dial, 50), DLK_DIAL_FAILED);
    CHECK_EQ_INT(dial.error, ETIMEDOUT);
    for (int i = 0; i < 4; i++)
        close(fillers[i]);
    close(full);
    close(listener);
}

/* ---- A stream and its threads ---- */

enum { WRITERS = 4, LINES = 3000 };

static _Atomic bool writing;

static void *drive(void *arg)
{
    (void)arg;
    while (atomic_load(&writing)) {
        pthread_mutex_lock(&mutex);
        dlk_stream_arm(&stream);
        pthread_mutex_unlock(&mutex);
        struct pollfd ready = {.fd = atomic_load(&stream.fd)};
        ready.events = dlk_stream_push(&stream);
        if (ready.events)
            poll(&ready, 1, 1);
        pthread_mutex_lock(&mutex);
        dlk_stream_disarm(&stream);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

TEST(every_line_of_every_writer_arrives_whole_and_in_order)
{
    writers all;
    int ends[2], small = 4096;
    CHECK_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    CHECK_EQ_INT(setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    dlk_stream_init(&stream);
    dlk_stream_open(&stream, ends[0]);
    pthread_t driver;
    atomic_store(&writing, true);
    CHECK_EQ_INT(pthread_create(&driver, NULL, drive, NULL), 0);
    CHECK(writers_start(&all, WRITERS, LINES));
    char line[LINE + 1] = {0};
    for (int i = 0; i < WRITERS * LINES; i++) {
        CHECK_EQ_INT(recv(ends[1], line, LINE, MSG_WAITALL), LINE);
        CHECK(writers_wrote(&all, line));
    }
    writers_join(&all);
    atomic_store(&writing, false);
    pthread_join(driver, NULL);
    harness_note("%d times the socket was full", atomic_load(&asked_to_arm));
    CHECK(dlk_stream_unsent(&stream, WRITERS * LINES * LINE + 1));
    CHECK(!dlk_stream_unsent(&stream, WRITERS * LINES * LINE));
    dlk_stream_close(&stream, DLK_END_ORDERLY);
    CHECK(dlk_stream_reap(&stream));
    dlk_stream_free(&stream);
    close(ends[1]);
}

TEST(a_stream_that_is_in_use_is_closed_by_the_last_user)
{
    int ends[2];
    char byte;
    CHECK_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    dlk_stream_init(&stream);
    dlk_stream_open(&stream, ends[0]);
    dlk_stream_arm(&stream);
    dlk_stream_close(&stream, DLK_END_ORDERLY);
    CHECK(!dlk_stream_reap(&stream)); /* the driver may be in recv on it */
    CHECK_EQ_INT(recv(ends[1], &byte, 1, 0), 0);
    dlk_stream_pull(&stream);
    CHECK_EQ_INT(atomic_load(&stream.failure), DLK_STREAM_EOF);
    dlk_stream_disarm(&stream);
    CHECK(dlk_stream_reap(&stream));
    CHECK_EQ_INT(atomic_load(&stream.fd), -1);
    dlk_stream_free(&stream);
    close(ends[1]);
}

/* ---- Ends of connections ---- */

enum { QUEUED = 8000 };

/* The two ends of a connection by TCP, the first with more in its kernel's queue than the other takes
 * before it reads. */
static bool fill(int ends[2])
{
    dlk_addresses at;
    dlk_dial dial;
    static const char data[QUEUED];
    int least = 1, fd = listen_at(&at);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &least, sizeof(least)) != 0)
        return false;
    dial.addresses = at;
    bool fine = dial_all(&dial, 20000) == DLK_DIAL_DONE;
    ends[0] = dial.fd;
    ends[1] = accept(fd, NULL, NULL);
    close(fd);
    return fine && ends[1] >= 0 && send(ends[0], data, QUEUED, MSG_NOSIGNAL) == QUEUED;
}

/* How much arrives till the end, and closes. */
static size_t count_rest(int fd)
{
    char data[4096];
    size_t count = 0;
    ssize_t got;
    while ((got = recv(fd, data, sizeof(data), 0)) > 0)
        count += (size_t)got;
    close(fd);
    return count;
}

TEST(what_a_reset_stream_had_queued_never_arrives)
{
    int ends[2];
    CHECK(fill(ends));
    int inherited = dup(ends[0]); /* as in a fork's child: the last close is far away */
    dlk_stream_init(&stream);
    dlk_stream_open(&stream, ends[0]);
    dlk_stream_arm(&stream);
    dlk_stream_close(&stream, DLK_END_RESET);
    CHECK(!dlk_stream_reap(&stream));
    CHECK(count_rest(ends[1]) < QUEUED);
    dlk_stream_pull(&stream);
    CHECK(atomic_load(&stream.failure) != 0); /* the driver wakes up and goes */
    dlk_stream_disarm(&stream);
    CHECK(dlk_stream_reap(&stream));
    dlk_stream_free(&stream);
    close(inherited);
}

/* Nobody is left who would give it back. */
TEST(a_release_may_come_late_but_not_one_that_hands_the_lock_on)
{
    dlk_host host = {0};
    dlk_flight flight;
    dlk_ask release = {.verb = DLK_RELEASE}, other = {.verb = DLK_RELEASE};
    dlk_list_init(&release.link);
    dlk_list_init(&other.link);
    dlk_flight_init(&flight, &host);
    CHECK(dlk_flight_may_come_late(&flight));
    dlk_flight_await(&flight, &release);
    dlk_flight_await(&flight, &other);
    CHECK(dlk_flight_may_come_late(&flight));
    other.next = 7;
    CHECK(!dlk_flight_may_come_late(&flight));
    other = (dlk_ask){.verb = DLK_ACQUIRE, .link = other.link};
    CHECK(!dlk_flight_may_come_late(&flight));
}

TEST(an_acquire_may_come_late_before_its_own_release_and_before_no_other)
{
    dlk_host host = {0};
    dlk_flight flight;
    dlk_key key = {.name = "a"}, another = {.name = "b"};
    dlk_ask acquire = {.verb = DLK_ACQUIRE, .key = &key, .number = 7},
            look = {.verb = DLK_VERIFY, .key = &key, .number = 7},
            release = {.verb = DLK_RELEASE, .key = &key, .number = 7};
    dlk_list_init(&acquire.link);
    dlk_list_init(&look.link);
    dlk_list_init(&release.link);
    dlk_flight_init(&flight, &host);
    CHECK(dlk_flight_undoes_itself(&flight));
    dlk_flight_await(&flight, &acquire);
    CHECK(!dlk_flight_undoes_itself(&flight));
    dlk_flight_await(&flight, &look);
    CHECK(!dlk_flight_undoes_itself(&flight));
    dlk_flight_await(&flight, &release);
    CHECK(dlk_flight_undoes_itself(&flight));
    release.number = 8;
    CHECK(!dlk_flight_undoes_itself(&flight));
    release.number = 7;
    release.key = &another;
    CHECK(!dlk_flight_undoes_itself(&flight));
    release.key = &key;
    release.next = 9;
    CHECK(!dlk_flight_undoes_itself(&flight));
    release.next = 0;
    dlk_list_remove(&acquire.link);
    dlk_flight_await(&flight, &acquire); /* behind the release */
    CHECK(!dlk_flight_undoes_itself(&flight));
}

TEST(what_was_said_before_an_orderly_end_arrives)
{
    int ends[2];
    CHECK(fill(ends));
    dlk_stream_init(&stream);
    dlk_stream_open(&stream, ends[0]);
    dlk_stream_close(&stream, DLK_END_ORDERLY);
    CHECK(dlk_stream_reap(&stream));
    CHECK_EQ_INT(count_rest(ends[1]), QUEUED);
    dlk_stream_free(&stream);
}

/* As the kernel does it for a process that dies. */
TEST(what_a_socket_had_queued_never_arrives_when_it_is_just_closed)
{
    int ends[2];
    CHECK(fill(ends));
    close(ends[0]);
    CHECK(count_rest(ends[1]) < QUEUED);
}

TEST(who_waits_for_an_answer_wakes_up_with_it_or_after_a_moment)
{
    int ends[2];
    CHECK_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    dlk_stream_init(&stream);
    dlk_stream_open(&stream, ends[0]);
    dlk_stream_arm(&stream);
    CHECK(!dlk_stream_wait(&stream)); /* nobody writes, and yet it ends */
    dlk_stream_pull(&stream);         /* this doesn't wait at all */
    CHECK_EQ_INT(stream.in_size, 0);
    CHECK_EQ_INT(atomic_load(&stream.failure), 0);
    CHECK_EQ_INT(send(ends[1], "+OK\r\n", 5, 0), 5);
    CHECK(dlk_stream_wait(&stream));
    CHECK_EQ_INT(stream.in_size, 5);
    CHECK_EQ_INT(send(ends[1], "+OK\r\n", 5, 0), 5);
    dlk_stream_pull(&stream);
    CHECK_EQ_INT(stream.in_size, 10);
    close(ends[1]);
    CHECK(dlk_stream_wait(&stream));
    CHECK_EQ_INT(atomic_load(&stream.failure), DLK_STREAM_EOF);
    dlk_stream_disarm(&stream);
    dlk_stream_close(&stream, DLK_END_ORDERLY);
    CHECK(dlk_stream_reap(&stream));
    dlk_stream_free(&stream);
}

TEST(a_password_is_wiped_from_the_buffer_once_it_is_sent)
{
    int ends[2];
    CHECK_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    dlk_stream_init(&stream);
    dlk_stream_open(&stream, ends[0]);
    CHECK(dlk_buf_append(&stream.out, "c4nary", 6));
    stream.secret = true;
    char *memory = stream.out.data;
    dlk_stream_arm(&stream);
    CHECK(dlk_stream_push(&stream) == POLLIN);
    dlk_stream_disarm(&stream);
    CHECK(stream.sending.data == memory);
    for (size_t i = 0; i < 6; i++)
        CHECK_EQ_INT(memory[i], 0);
    CHECK(!stream.secret && !stream.sending_secret);
    /* Unsent, it is wiped with the end of the connection. */
    CHECK(dlk_buf_append(&stream.out, "c4nary", 6));
    stream.secret = true;
    memory = stream.out.data;
    dlk_stream_close(&stream, DLK_END_ORDERLY);
    CHECK(dlk_stream_reap(&stream));
    for (size_t i = 0; i < 6; i++)
        CHECK_EQ_INT(memory[i], 0);
    dlk_stream_free(&stream);
    close(ends[1]);
}
