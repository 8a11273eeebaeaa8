/* Hazards of processes and the C library: forks, signals, threads, memory, descriptors, names. */
#include "grid.h"
#include "shim.h"

#include "harness/redis_server.h"
#include "harness/scripted.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- C1 ---- */

typedef struct inherited {
    dlock_client *client;
    dlock_lock *lock;
    dlock_hold *hold;
    dlock_op *op;
} inherited;

static void in_child(void *arg)
{
    inherited *in = arg;
    dlock_hold *none = NULL;
    dlock_info *info = NULL;
    CHECK_EQ_INT(dlock_lock_acquire(in->lock, DLOCK_FOREVER, &none, NULL), DLOCK_EFORKED);
    CHECK_EQ_INT(dlock_hold_check(in->hold), DLOCK_EFORKED);
    CHECK_EQ_INT(dlock_hold_remaining_ms(in->hold), 0);
    CHECK_EQ_INT(dlock_hold_state(in->hold), DLOCK_LOST);
    CHECK_EQ_INT(dlock_hold_release(in->hold, NULL), DLOCK_EFORKED);
    CHECK_EQ_INT(dlock_op_wait(in->op, DLOCK_FOREVER), DLOCK_EFORKED);
    CHECK_EQ_INT(dlock_client_stats(in->client, &info, NULL), DLOCK_EFORKED);
    CHECK_EQ_INT(dlock_client_event_fd(in->client), -1);
    dlock_op_free(in->op);
    dlock_hold_free(in->hold);
    dlock_lock_free(in->lock);
    dlock_client_free(in->client);
    DLOCK_AUTO(dlock_client) own = world_client(NULL); /* and one of its own works */
    DLOCK_AUTO(dlock_hold) hold = NULL;
    CHECK_EQ_INT(world_acquire(own, "child", patience_ms(), &hold), DLOCK_OK);
    if (!service_here()
             ->lacks[CAN_PROCESSES]) { /* what the parent holds is held for it */
        DLOCK_AUTO(dlock_hold) taken = NULL;
        CHECK_EQ_INT(world_acquire(own, "L", 0, &taken), DLOCK_EBUSY);
    }
}

ROW(C1, fork, "fork, while threads work and locks are held")
{
    NEEDS(CAN_CALL);
    CLIENT_WITH_HOLD(client, lock, hold, "L", NULL);
    CLIENT_WITH_LOCK(other, same, "L", NULL);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(same, DLOCK_FOREVER);
    inherited in = {.client = client, .lock = lock, .hold = hold, .op = op};
    for (int i = 0; i < 5; i++)
        CHECK_EQ_INT(world_child(in_child, &in), 0);
    CHECK_EQ_INT(dlock_hold_verify(hold, NULL),
                 DLOCK_OK); /* the parent noticed nothing */
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    ENDS(op, DLOCK_OK);
}

/* ---- C2, C3, C4 ---- */

static atomic_int signals;

static void count_signal(int number)
{
    (void)number;
    signals++;
}

static void storm(long every_us)
{
    struct sigaction action = {.sa_handler = every_us ? count_signal : SIG_IGN};
    struct itimerval timer = {.it_interval.tv_usec = every_us,
                              .it_value.tv_usec = every_us};
    sigaction(SIGPROF, &action, NULL); /* without SA_RESTART */
    setitimer(ITIMER_PROF, &timer, NULL);
    action.sa_handler = every_us ? count_signal : SIG_IGN;
    sigaction(SIGVTALRM, &action, NULL);
}

static void *tickle(void *arg)
{
    const pthread_t *whom = arg;
    while (signals >= 0) {
        pthread_kill(*whom, SIGVTALRM);
        nap_us(100);
    }
    return NULL;
}

enum { SIGNALS = 200 };

/* Whatever fails in it, C2 ends its threads before it returns. Who tickles us may get little of a
 * processor. */
static void call_everything(void)
{
    for (int i = 0; i < 10 || (signals <= SIGNALS && i < 200); i++) {
        DLOCK_AUTO(dlock_client) client = world_client(NULL); /* connects in it, too */
        DLOCK_AUTO(dlock_client) other = world_client(NULL);
        DLOCK_AUTO(dlock_lock) lock = world_lock(client, "L", NULL);
        DLOCK_AUTO(dlock_lock) same = world_lock(other, "L", NULL);
        DLOCK_AUTO(dlock_hold) hold = world_take(lock);
        DLOCK_AUTO(dlock_hold) none = NULL;
        int64_t began = now_ms();
        CHECK(grid_timed_out(dlock_lock_acquire(same, 60, &none, NULL)));
        CHECK(now_ms() - began >= 59);
        CHECK_EQ_INT(dlock_hold_verify(hold, NULL), DLOCK_OK);
        CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    }
}

ROW(C2, interrupted_calls, "signals interrupt every system call")
{
    NEEDS(CAN_CALL);
    pthread_t self = pthread_self(), thread;
    storm(100);
    bool tickled = pthread_create(&thread, NULL, tickle, &self) == 0;
    if (tickled) /* also while we sleep */
        call_everything();
    int count = signals;
    storm(0);
    signals = INT32_MIN / 2;
    if (tickled)
        pthread_join(thread, NULL);
    harness_note("%d signals", count);
    CHECK(tickled && count > SIGNALS);
}

ROW(C3, sigpipe, "the peer hangs up: no SIGPIPE")
{
    NEEDS(CAN_SERVER);
    /* SIGPIPE is there as it is by default. A server just started, a Java machine above all, may be
     * slow to answer. */
    PARTY(one) = party_new(NULL, world_is("zookeeper")
                                     ? "client.backoff_max_ms=50 client.timeout_ms=3000"
                                     : "client.backoff_max_ms=50 client.timeout_ms=1000");
    for (int i = 0; i < 3; i++) {
        CHECK_EQ_INT(party_take(one, "L", patience_ms()), DLOCK_OK);
        service_here()->kill();
        dlock_err code = party_give_back(one); /* written to nobody */
        CHECK(code == DLOCK_EUNKNOWN || code == DLOCK_EUNAVAIL || code == DLOCK_OK);
        CHECK(service_here()->restart());
    }
    CHECK_EQ_INT(party_take(one, "L", patience_ms()), DLOCK_OK);
}

static void *wait_cancelled(void *lock)
{
    dlock_hold *hold = NULL;
    dlock_err code = dlock_lock_acquire(lock, patience_ms(), &hold, NULL);
    (void)dlock_hold_release(hold, NULL); /* if it came to that */
    dlock_hold_free(hold);
    return (void *)(intptr_t)code;
}

ROW(C4, cancelled_threads, "threads are cancelled in the midst of a call")
{
    NEEDS(CAN_CALL);
    CLIENT_WITH_LOCK(client, lock, "L", NULL);
    CLIENT_WITH_LOCK(other, same, "L", NULL);
    for (int i = 0; i < 40; i++) {
        pthread_t thread;
        DLOCK_AUTO(dlock_hold) hold = world_take(lock);
        CHECK_EQ_INT(pthread_create(&thread, NULL, wait_cancelled, same), 0);
        if (i % 2)
            nap_ms(1);
        pthread_cancel(thread);
        CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
        pthread_join(thread, NULL);
    }
    DLOCK_AUTO(dlock_hold) last = world_take(same);
    CHECK(last != NULL);
}

/* ---- C5, C6 ---- */

/* One whole life of a client. Returns the first failure. */
static dlock_err live(const dlock_conf *conf, dlock_error **err)
{
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_lock) lock = NULL;
    DLOCK_AUTO(dlock_hold) hold = NULL;
    dlock_err code = dlock_client_open(world_uri(), conf, &client, err);
    if (code == DLOCK_OK)
        code = dlock_lock_new(client, world_kind(), "L", NULL, &lock, err);
    if (code == DLOCK_OK)
        code = dlock_lock_acquire(lock, 2000, &hold, err);
    if (code == DLOCK_OK)
        code = dlock_hold_verify(hold, err);
    dlock_err released = hold ? dlock_hold_release(hold, NULL) : DLOCK_OK;
    return code == DLOCK_OK ? released : code;
}

ROW(C5, no_memory, "memory runs out, at any allocation")
{
    NEEDS(CAN_CALL);
    DLOCK_AUTO(dlock_conf) conf = api_conf("client.backoff_max_ms=50");
    int failed = 0;
    /* libzookeeper doesn't look what malloc answers. */
    bool session = world_is("zookeeper");
    if (session)
        shim_fail_only_in((void (*)(void))dlock_client_open);
    for (int k = 1; k <= 400; k++) {
        shim_fail_allocation(k);
        DLOCK_AUTO(dlock_error) err = NULL;
        dlock_err code = live(conf, &err);
        bool hit = shim_allocation_failed();
        shim_fail_allocation(0);
        /* It may be survived; else it is said, or the connection ended over it, or the session. */
        if (code != DLOCK_EUNAVAIL && code != DLOCK_EUNKNOWN && code != DLOCK_OK &&
            !(session && code == DLOCK_ELOST))
            CHECK_ERR(code, DLOCK_ENOMEM, err);
        CHECK(hit || code == DLOCK_OK);
        failed += code != DLOCK_OK;
        AWAIT(world_try("L") == DLOCK_OK); /* nothing of it is left there */
        if (!hit)
            break; /* there are no more */
    }
    harness_note("%d times it wasn't survived", failed);
    CHECK(failed > 3);
    CHECK(grid_settles());
}

ROW(C6, no_threads, "no thread can be made")
{
    NEEDS(CAN_CALL);
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = NULL;
    int64_t began = now_ms();
    shim_no_threads = true;
    dlock_err code = dlock_client_open(world_uri(), NULL, &client, &err);
    shim_no_threads = false;
    CHECK(grid_in_time("opening", began, 0));
    CHECK(code != DLOCK_OK && client == NULL);
    CHECK(strlen(dlock_error_text(err)) > 10);
    CHECK_EQ_INT(dlock_client_open(world_uri(), NULL, &client, &err), DLOCK_OK);
}

/* ---- C7, C8 ---- */

ROW(C7, the_file, "the file is full, damaged, cut, or replaced")
{
    ONLY_FOR("file", "no file: nothing of it lies on a disk of ours");
    PARTY(one) = party_new(NULL, "lock.ttl_ms=2000");
    CHECK_EQ_INT(party_take(one, "L", 0), DLOCK_OK);
    CHECK(service_here()->forget()); /* and another file takes its place */
    PARTY(newcomer) = party_new(NULL, NULL);
    CHECK_EQ_INT(party_take(newcomer, "L", 0), DLOCK_OK);
    CHECK(grid_rises(party_token(one), party_token(newcomer)));
    AWAIT(party_still(one) != DLOCK_OK); /* noticed within a lease */
    (void)party_give_back(one);
    if (!grid_binding_is("dlock")) {
        dlock_err code = party_take(one, "L", 0); /* in the old file nothing is granted */
        CHECK(code == DLOCK_EPROTO || code == DLOCK_ELOST);
    }
    CHECK_EQ_INT(party_still(newcomer), DLOCK_OK);
    grid_shown_by("backends/local/test_file.c",
                  "a_full_disk_is_an_error_and_leaves_nothing_behind");
    grid_shown_by("backends/local/test_file.c",
                  "a_file_truncated_in_use_is_noticed_and_does_not_crash");
    grid_shown_by("backends/local/test_scribble.c",
                  "a_table_scribbled_in_while_in_use_is_refused_or_survived");
}

ROW(C8, numbers_of_processes,
    "a process's number is used again, or the machine was started anew")
{
    ONLY_FOR("file",
             "owners are random and never reused; nothing hangs on a process's number");
    grid_shown_by("backends/local/test_death.c",
                  "a_number_that_is_another_process_by_now_counts_as_dead");
    grid_shown_by("backends/local/test_file.c",
                  "holds_from_before_a_reboot_are_void_and_tokens_go_on");
}

/* ---- C9 to C12 ---- */

static void *release_it(void *hold)
{
    return (void *)(intptr_t)dlock_hold_release(hold, NULL);
}

ROW(C9, misuse, "released twice, elsewhere, after close; freed while waiting")
{
    NEEDS(CAN_CALL);
    dlock_client *client = world_client(NULL);
    dlock_lock *lock = world_lock(client, "L", NULL);
    dlock_hold *hold = world_take(lock);
    pthread_t thread;
    void *code = NULL;
    CHECK_EQ_INT(pthread_create(&thread, NULL, release_it, hold), 0);
    pthread_join(thread, &code);
    CHECK_EQ_INT((intptr_t)code, DLOCK_OK); /* any thread may */
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ENOTHELD);
    dlock_hold_free(hold);
    hold = world_take(lock);
    dlock_op_free(dlock_lock_acquire_start(lock, DLOCK_FOREVER)); /* while it waits */
    CHECK_EQ_INT(dlock_client_close(client, NULL), DLOCK_OK);
    dlock_hold *none = NULL;
    CHECK_EQ_INT(dlock_lock_acquire(lock, 0, &none, NULL), DLOCK_ECLOSED);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ENOTHELD);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_ENOTHELD);
    dlock_client_free(client); /* in an order that nobody would choose */
    CHECK_STR(dlock_hold_name(hold), "L");
    dlock_lock_free(lock);
    dlock_hold_free(hold);
    dlock_hold_free(NULL);
    CHECK_EQ_INT(dlock_hold_release(NULL, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(world_try("L"), DLOCK_OK);
}

ROW(C10, counters, "counters at their end")
{
    if (world_is("mem") || world_is("file")) {
        grid_shown_by("backends/local/test_table.c",
                      "a_counter_at_its_end_is_an_error_and_not_a_token");
        return;
    }
    NEEDS(CAN_COUNTER, CAN_CALL);
    CLIENT_WITH_LOCK(client, lock, "L", NULL);
    static const char *const ends[] = {"9007199254740990", "9223372036854775807",
                                       "99999999999999999999"};
    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
        DLOCK_AUTO(dlock_hold) none = NULL;
        DLOCK_AUTO(dlock_error) err = NULL;
        redis_server_call(world_redis(), "SET %s %s", service_here()->counter, ends[i]);
        CHECK_ERR(dlock_lock_acquire(lock, 0, &none, &err), DLOCK_EOVERFLOW, err);
        CHECK_STR(service_here()->leftovers(), "");
    }
}

/* Whether a list of the locks that begin like it has the name; true where there are no lists. */
static bool is_listed(dlock_client *client, const char *name)
{
    DLOCK_AUTO(dlock_info) list = NULL;
    dlock_err code = dlock_client_list(client, name, 100, &list, NULL);
    if (code != DLOCK_OK)
        return code == DLOCK_ENOTSUP;
    for (size_t i = 0; i < dlock_info_count(list); i++)
        if (strcmp(dlock_info_text(list, i), name) == 0)
            return true;
    harness_note("not in the list: %s", name);
    return false;
}

/* An operator sees it by its name, takes it away by its name, and its holder hears of that. */
static bool is_seen_and_broken(dlock_client *client, dlock_hold *hold,
                               dlock_client *other)
{
    const char *name = dlock_hold_name(hold);
    DLOCK_AUTO(dlock_lock) same = world_lock(other, name, NULL);
    if (world_seen(same, "held") != 1 || !is_listed(other, name) ||
        dlock_lock_break(same, NULL, NULL) != DLOCK_OK ||
        dlock_hold_verify(hold, NULL) != DLOCK_ELOST)
        return false;
    DLOCK_AUTO(dlock_event) event = world_event(client, DLOCK_EVENT_LOST);
    return event && strcmp(dlock_event_text(event), name) == 0;
}

ROW(C11, names, "odd names: long, empty, of any bytes")
{
    /* The parts of a path: none is above another one of them, which is in the way on ZooKeeper. */
    static const char *const names[] = {
        "a",        "A",     " a",        "a ",      "d/b",          ".",
        "..",       "d//b",  "e/",        "/",       "d/../b",       "{a}",
        "{}",       "a{b}c", "*",         "?a",      "%s%",          "a\tb",
        "\xff\xfe", "\xc3",  "\xc3\xa4",  "a\"b'c",  "a\\b",         "--a",
        "a:1",      "dlock", "zookeeper", "a\nb",    "\x01\x7f",     "\xf0\x9f\x94\x92",
        "%dlock:a", "a%20b", "a b",       "%dlock:", "%dlock:a%20b",
    };
    enum { NAMES = sizeof(names) / sizeof(*names) };
    if (grid_binding_is("dlock")) {
        PARTY(one) = party_new(NULL, NULL);
        for (int i = 0; i < NAMES; i++) {
            CHECK_EQ_INT(party_take(one, names[i], 0), DLOCK_OK);
            CHECK_EQ_INT(world_try(names[i]), DLOCK_EBUSY); /* it is this name there */
            CHECK_EQ_INT(party_give_back(one), DLOCK_OK);
        }
        CHECK_EQ_INT(party_take(one, "", 0), DLOCK_EINVAL);
        return;
    }
    DLOCK_AUTO(dlock_client) client = world_client("lock.owner=none");
    dlock_hold *holds[NAMES];
    for (int i = 0; i < NAMES; i++) { /* all at once: they are different */
        CHECK_EQ_INT(world_acquire(client, names[i], 0, &holds[i]), DLOCK_OK);
        CHECK_STR(dlock_hold_name(holds[i]), names[i]);
        CHECK_OK(dlock_hold_notify(holds[i], 1), NULL);
    }
    DLOCK_AUTO(dlock_client) other = world_client(NULL);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_hold) none = NULL;
    for (int i = 0; i < NAMES; i++) {
        CHECK_EQ_INT(world_acquire(other, names[i], 0, &none), DLOCK_EBUSY);
        /* The server knows its permits, not who has them. */
        if (grid_kind_is("plain semaphore"))
            CHECK_OK(dlock_hold_release(holds[i], NULL), NULL);
        else
            CHECK(is_seen_and_broken(client, holds[i], other));
        dlock_hold_free(holds[i]);
    }
    char longest[1026];
    size_t limit = grid_layout_is("item") ? 250 : 1024; /* of a key, or of any name */
    memset(longest, 'x', sizeof(longest));
    longest[limit + 1] = '\0';
    CHECK_EQ_INT(world_acquire(client, longest, 0, &none), DLOCK_EINVAL);
    longest[limit] = '\0';
    CHECK_EQ_INT(world_acquire(client, longest, 0, &hold), DLOCK_OK);
    CHECK_EQ_INT(world_acquire(client, "", 0, &none), DLOCK_EINVAL);
}

static const char *say_nonsense(const void *user, int connection, int number,
                                char **words, int count)
{
    (void)connection, (void)number;
    const char *greeting = scripted_greeting(words, count);
    return greeting ? greeting : user;
}

ROW(C12, hostile_server, "a server that answers with nonsense")
{
    NEEDS(CAN_CALL, CAN_WIRE);
    static const char *const answers[] = {
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
        "$4611686018427387904\r\n",
        "*4611686018427387904\r\n",
        "*-5\r\n",
        "$-7\r\n",
        ">2\r\n+push\r\n+me\r\n",
        "\xff\xfe\xfd\r\n",
        ":\r\n",
        "+OK\r\n+OK\r\n+OK\r\n",
        "$3\r\nabcdef\r\n",
        "*2\r\n$1\r\na\r\n",
        "%1\r\n",
        "_\r\n",
    };
    for (size_t i = 0; i < sizeof(answers) / sizeof(*answers) && !harness_failed(); i++) {
        scripted server;
        char uri[64];
        CHECK(scripted_start(&server, say_nonsense, answers[i]));
        snprintf(uri, sizeof(uri), "redis://127.0.0.1:%d", server.port);
        DLOCK_AUTO(dlock_client) client = NULL;
        DLOCK_AUTO(dlock_hold) none = NULL;
        DLOCK_AUTO(dlock_conf)
        conf = api_conf("client.timeout_ms=150 client.connect_ms=500 "
                        "client.close_ms=50 client.log_level=off");
        int64_t began = now_ms();
        dlock_err code = dlock_client_open(uri, conf, &client, NULL);
        if (code == DLOCK_OK)
            code = world_acquire(client, "L", 100, &none);
        (void)harness_check(__FILE__, __LINE__, code != DLOCK_OK && !none, answers[i]);
        (void)grid_in_time(answers[i], began, 600);
        dlock_client_free(client);
        client = NULL;
        scripted_stop(&server);
    }
}

/* ---- C13, C14 ---- */

ROW(C13, loaded_and_unloaded, "loaded and unloaded by a program, while its threads run")
{
    NEEDS(CAN_CALL);
    Dl_info library;
    pid_t parent = getpid();
    void *function;
    dlock_err (*known)(const char *, const dlock_conf *, dlock_client **,
                       dlock_error **) = dlock_client_open;
    memcpy(&function, &known, sizeof(function));
    CHECK(dladdr(function, &library) != 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (getppid() == parent)
            execl(getenv("DLK_LOADER"), "loader", library.dli_fname, world_uri(),
                  (char *)NULL);
        _exit(70);
    }
    CHECK_EQ_INT(world_child_end(pid), 0);
}

ROW(C14, bindings, "interpreters and garbage collectors over the library")
{
    CANNOT("C and the command have none; the bindings to Python and Go aren't there yet");
}
