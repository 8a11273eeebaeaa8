/* Servers that die, stand still or cut a connection, and what forks and closes meet. */
#include "world.h"

#include "harness/api.h"
#include "harness/deaf.h"
#include "harness/fork.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ms(void)
{
    struct timespec at;
    clock_gettime(CLOCK_BOOTTIME, &at);
    return at.tv_sec * INT64_C(1000) + at.tv_nsec / 1000000;
}

/* A server of the test's own, which is done ill. */
static zookeeper_server ill;

static dlock_client *client_of_ill(const char *query)
{
    dlock_client *client = NULL;
    dlock_error *err = NULL;
    char uri[200];
    snprintf(
        uri, sizeof(uri),
        "zookeeper://127.0.0.1:%d?client.connect_ms=30000&client.timeout_ms=20000&%s",
        ill.port, query);
    dlock_err code = dlock_client_open(uri, NULL, &client, &err);
    (void)harness_err(__FILE__, __LINE__, uri, code, DLOCK_OK, err);
    dlock_error_free(err);
    return client;
}

TEST(a_hold_outlives_a_server_that_comes_back_with_what_it_knew)
{
    BEGIN();
    CHECK(zookeeper_server_start(&ill, NULL));
    dlock_client *client = client_of_ill("lock.ttl_ms=60000"), *other;
    CHECK(client);
    dlock_hold *hold = NULL, *none = NULL;
    dlock_error *err = NULL;
    CHECK_OK(dlock_acquire(client, "f/back", 30000, &hold, &err), err);
    CHECK_EQ_INT(dlock_hold_notify(hold, 3), DLOCK_OK);
    zookeeper_server_kill(&ill);
    AWAIT(dlock_hold_state(hold) == DLOCK_SUSPECT);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
    CHECK(zookeeper_server_restart(&ill));
    AWAIT(dlock_hold_state(hold) == DLOCK_HELD);
    other = client_of_ill("lock.ttl_ms=60000");
    CHECK(other);
    CHECK_ERR(dlock_acquire(other, "f/back", 0, &none, &err), DLOCK_EBUSY, err);
    CHECK_OK(dlock_hold_release(hold, &err), err);
    CHECK_OK(dlock_acquire(other, "f/back", 30000, &none, &err), err);
    CHECK_ALWAYS(dlock_hold_token(none) > dlock_hold_token(hold));
    dlock_error_free(err);
    dlock_hold_free(hold);
    dlock_hold_free(none);
    dlock_client_free(client);
    dlock_client_free(other);
    zookeeper_server_stop(&ill);
}

TEST(a_server_that_stands_still_costs_the_lock_at_the_end_of_the_session_by_our_clock)
{
    BEGIN();
    CHECK(zookeeper_server_start(&ill, NULL));
    dlock_client *client = client_of_ill("lock.ttl_ms=3000");
    CHECK(client);
    dlock_hold *hold = NULL, *again = NULL;
    dlock_error *err = NULL;
    CHECK_OK(dlock_acquire(client, "f/still", 30000, &hold, &err), err);
    int64_t token = dlock_hold_token(hold), remaining = dlock_hold_remaining_ms(hold);
    CHECK(remaining > 0 && remaining <= 3000);
    int64_t frozen = now_ms();
    zookeeper_server_freeze(&ill);
    AWAIT(dlock_hold_check(hold) == DLOCK_ELOST);
    CHECK_ALWAYS(dlock_hold_remaining_ms(hold) == 0);
    harness_note("lost %lld ms after the server stood still",
                 (long long)(now_ms() - frozen));
    zookeeper_server_thaw(&ill);
    CHECK_ERR(dlock_hold_release(hold, &err), DLOCK_ELOST, err);
    AWAIT(dlock_acquire(client, "f/still", 60000, &again, NULL) == DLOCK_OK);
    CHECK_ALWAYS(dlock_hold_token(again) > token);
    dlock_error_free(err);
    dlock_hold_free(hold);
    dlock_hold_free(again);
    dlock_client_free(client);
    zookeeper_server_stop(&ill);
}

TEST(a_waiter_that_is_cut_off_without_a_word_is_served_sooner_than_it_polls)
{
    enum { POLL_MS = 60000 };
    BEGIN();
    dlock_client *one = world_client("");
    CHECK(one);
    dlock_hold *hold = NULL;
    dlock_error *err = NULL;
    CHECK_OK(dlock_acquire(one, "f/deaf", 30000, &hold, &err), err);
    const deaf_sockets others = deaf_look(world_server.port);
    dlock_client *two = NULL;
    char uri[160];
    snprintf(uri, sizeof(uri),
             "zookeeper://127.0.0.1:%d?lock.ttl_ms=60000&client.poll_ms=%d",
             world_server.port, POLL_MS);
    CHECK_OK(dlock_client_open(uri, NULL, &two, &err), err);
    dlock_lock *lock = world_lock(two, DLOCK_MUTEX, "f/deaf", NULL);
    CHECK(lock);
    dlock_op *op = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
    AWAIT(api_stat(two, "waits") > 0); /* it was told that somebody else holds it */
    CHECK(deaf_make(world_server.port, &others) > 0);
    CHECK_OK(dlock_hold_release(hold, &err), err);
    CHECK_EQ_INT(dlock_op_wait(op, POLL_MS / 2), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_OK);
    dlock_error_free(err);
    dlock_op_free(op);
    dlock_lock_free(lock);
    dlock_hold_free(hold);
    dlock_client_free(one);
    dlock_client_free(two);
}

TEST(a_waiter_keeps_its_place_over_a_restart)
{
    BEGIN();
    CHECK(zookeeper_server_start(&ill, NULL));
    dlock_client *one = client_of_ill("lock.ttl_ms=60000");
    dlock_client *two = client_of_ill("lock.ttl_ms=60000");
    CHECK(one && two);
    dlock_hold *hold = NULL;
    dlock_error *err = NULL;
    CHECK_OK(dlock_acquire(one, "f/place", 30000, &hold, &err), err);
    dlock_lock *lock = world_lock(two, DLOCK_MUTEX, "f/place", NULL);
    dlock_op *op = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
    zookeeper_wire mine;
    CHECK(zookeeper_wire_open(&mine, ill.port));
    AWAIT(zookeeper_wire_count(&mine, "/f/place") == 2);
    zookeeper_wire_close(&mine);
    zookeeper_server_kill(&ill);
    CHECK(zookeeper_server_restart(&ill));
    CHECK_OK(dlock_hold_release(hold, &err), err);
    CHECK_EQ_INT(dlock_op_wait(op, 60000), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_OK);
    CHECK(zookeeper_wire_open(&mine, ill.port));
    char names[300];
    CHECK_EQ_INT(zookeeper_wire_children(&mine, "/f/place", names, sizeof(names)), 0);
    CHECK_CONTAINS(names, "0000000001 ");
    CHECK_EQ_INT(zookeeper_wire_count(&mine, "/f/place"), 1);
    zookeeper_wire_close(&mine);
    dlock_op_free(op);
    dlock_hold_free(hold);
    dlock_lock_free(lock);
    dlock_client_free(one);
    dlock_client_free(two);
    zookeeper_server_stop(&ill);
}

TEST(a_server_that_dies_again_and_again_leaves_one_node_at_most)
{
    BEGIN();
    CHECK(zookeeper_server_start(&ill, NULL));
    dlock_client *client = client_of_ill("lock.ttl_ms=60000&client.backoff_max_ms=50");
    CHECK(client);
    dlock_lock *lock = world_lock(client, DLOCK_MUTEX, "f/again", NULL);
    for (int i = 0; i < 3; i++) {
        dlock_op *op = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
        zookeeper_server_kill(&ill);
        CHECK(zookeeper_server_restart(&ill));
        CHECK_EQ_INT(dlock_op_wait(op, 60000), DLOCK_OK);
        CHECK_EQ_INT(dlock_op_result(op), DLOCK_OK);
        dlock_hold *hold = dlock_op_take_hold(op);
        zookeeper_wire mine;
        CHECK(zookeeper_wire_open(&mine, ill.port));
        AWAIT(zookeeper_wire_count(&mine, "/f/again") == 1);
        zookeeper_wire_close(&mine);
        CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
        dlock_hold_free(hold);
        dlock_op_free(op);
    }
    dlock_lock_free(lock);
    dlock_client_free(client);
    zookeeper_server_stop(&ill);
}

TEST(a_forks_child_can_do_nothing_with_it_and_does_no_harm)
{
    BEGIN();
    dlock_client *client = world_client("");
    CHECK(client);
    dlock_hold *hold = NULL;
    dlock_error *err = NULL;
    CHECK_OK(dlock_acquire(client, "f/fork", 30000, &hold, &err), err);
    pid_t child = harness_fork();
    CHECK(child >= 0);
    if (child == 0) {
        dlock_hold *none = NULL;
        bool fine = dlock_hold_check(hold) == DLOCK_EFORKED &&
                    dlock_acquire(client, "f/fork", 0, &none, NULL) == DLOCK_EFORKED;
        dlock_hold_free(hold);
        dlock_client_free(client);
        _exit(fine ? 0 : 1);
    }
    int status = -1;
    CHECK_EQ_INT(waitpid(child, &status, 0), child);
    CHECK_EQ_INT(status, 0);
    CHECK_OK(dlock_hold_verify(hold, &err), err);
    CHECK_OK(dlock_hold_release(hold, &err), err);
    dlock_hold_free(hold);
    dlock_client_free(client);
}

/* A connection of the program's own to the same server, made as the library makes its own. */
static int connect_plainly(int port)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof(to)) != 0 ||
        fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
        return -1;
    return fd;
}

static bool is_untouched(int fd)
{
    struct linger linger = {0};
    socklen_t size = sizeof(linger);
    return fcntl(fd, F_GETFD) == 0 &&
           getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &size) == 0 &&
           linger.l_onoff == 0;
}

/* Sockets to the server that an exec would inherit. */
static int count_leaks(int port)
{
    int count = 0;
    for (int fd = 3; fd < 200; fd++) {
        struct sockaddr_in to = {0};
        socklen_t size = sizeof(to);
        count += fcntl(fd, F_GETFD) == 0 &&
                 getpeername(fd, (struct sockaddr *)&to, &size) == 0 &&
                 to.sin_port == htons((uint16_t)port);
    }
    return count;
}

TEST(connections_of_the_programs_own_to_the_same_server_are_left_alone)
{
    BEGIN();
    int own = connect_plainly(world_server.port);
    CHECK(own >= 0);
    dlock_client *client = world_client("");
    CHECK(client);
    CHECK(is_untouched(own));
    CHECK_EQ_INT(count_leaks(world_server.port), 1); /* the library's isn't one */
    pid_t child = harness_fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(fcntl(own, F_GETFD) == 0 ? 0 : 1);
    int status = -1;
    CHECK_EQ_INT(waitpid(child, &status, 0), child);
    CHECK_EQ_INT(status, 0);
    dlock_client_free(client);
    CHECK(is_untouched(own));
    close(own);
}

static void *acquire_for_ever(void *arg)
{
    dlock_hold *hold = NULL;
    dlock_err code;
    while ((code = dlock_acquire(arg, "f/close", 1000, &hold, NULL)) == DLOCK_OK ||
           code == DLOCK_ETIMEDOUT || code == DLOCK_EUNKNOWN) {
        if (code == DLOCK_OK)
            dlock_hold_free(hold);
        hold = NULL;
    }
    return (void *)(intptr_t)code;
}

TEST(a_close_while_answers_arrive_ends_every_call_and_every_node)
{
    BEGIN();
    for (int i = 0; i < 8; i++) {
        dlock_client *client = world_client("");
        pthread_t threads[3];
        CHECK(client);
        for (int k = 0; k < 3; k++)
            CHECK_EQ_INT(pthread_create(&threads[k], NULL, acquire_for_ever, client), 0);
        for (int k = 0; k < i; k++)
            world_nap();
        (void)dlock_client_close(client, NULL);
        for (int k = 0; k < 3; k++) {
            void *code;
            pthread_join(threads[k], &code);
            CHECK_EQ_INT((intptr_t)code, DLOCK_ECLOSED);
        }
        dlock_client_free(client);
        AWAIT(world_children("/f/close") == 0);
    }
}

TEST(what_an_async_release_gives_back_is_free_soon)
{
    BEGIN();
    dlock_client *client = world_client("lock.release=async");
    CHECK(client);
    for (int i = 0; i < 50; i++) {
        dlock_hold *hold = NULL;
        dlock_error *err = NULL;
        CHECK_OK(dlock_acquire(client, "f/async", 20000, &hold, &err), err);
        CHECK_OK(dlock_hold_release(hold, &err), err);
        dlock_hold_free(hold);
    }
    AWAIT(world_children("/f/async") == 0);
    dlock_client_free(client);
}

TEST(containers_that_were_collected_are_made_again)
{
    BEGIN();
    dlock_client *client = world_client("");
    CHECK(client);
    for (int i = 0; i < 2; i++) {
        dlock_hold *hold = NULL;
        dlock_error *err = NULL;
        CHECK_OK(dlock_acquire(client, "f/gone/deep/down", 30000, &hold, &err), err);
        CHECK_OK(dlock_hold_release(hold, &err), err);
        dlock_hold_free(hold);
        AWAIT(zookeeper_wire_count(&world_wire, "/f/gone/deep/down") < 0);
    }
    dlock_client_free(client);
}

/* ---- a server that breaks the protocol ---- */

static void put_number(unsigned char *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(value >> (24 - 8 * i));
}

/* Welcomes whoever comes, and answers what nobody has asked. */
static void answer_nonsense(int listener)
{
    unsigned char bytes[4 + 37 + 4 + 16] = {0};
    put_number(bytes, 37);
    put_number(bytes + 8, 30000); /* the session's time-out */
    bytes[19] = 1;                /* its number */
    put_number(bytes + 20, 16);   /* its password's length */
    put_number(bytes + 41, 16);
    put_number(bytes + 45, 77);
    char room[200];
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
        return; /* nobody is there just now */
    (void)!read(fd, room, sizeof(room));
    (void)!write(fd, bytes, sizeof(bytes));
    (void)!read(fd, room, sizeof(room));
    close(fd);
}

TEST(a_server_that_breaks_the_protocol_ends_the_process_as_the_pages_say)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(bind(listener, (struct sockaddr *)&address, size) == 0 &&
          listen(listener, 8) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    pid_t child = harness_fork();
    CHECK(child >= 0);
    if (child == 0) {
        char uri[80];
        dlock_client *client = NULL;
        struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)!freopen("/dev/null", "w", stderr);
        dlock_hold *hold = NULL;
        snprintf(uri, sizeof(uri), "zookeeper://127.0.0.1:%d?client.lazy=true",
                 ntohs(address.sin_port));
        if (dlock_client_open(uri, NULL, &client, NULL) == DLOCK_OK)
            (void)!dlock_acquire(client, "x", 60000, &hold, NULL);
        _exit(0);
    }
    /* Where a request was quicker than the nonsense, the library only connects again. */
    int status = 0;
    for (;;) {
        pid_t ended = waitpid(child, &status, WNOHANG);
        if (ended != 0) {
            CHECK_EQ_INT(ended, child);
            break;
        }
        answer_nonsense(listener);
        world_nap();
    }
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    close(listener);
}
