/*
 * A crowd before one fair lock: every waiter is a client of its own, some in each of many
 * processes, and while the lock goes round waiters give up and processes are killed at random.
 * The rest must be served in the order in which they came, list and zset must be identical
 * whenever one looks, and nobody may have to wait until a lease has run out.
 *
 * DLK_TEST_CROWD says how many waiters; 96 if it doesn't. DLK_TEST_SEED repeats a run.
 */
#define AWAIT_LIMIT_MS PATIENCE_MS

#include "harness/harness.h"
#include "harness/redis_server.h"
#include "harness/time.h"
#include "line.h"

#include <dlock/dlock.h>

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CROWD = 2000, PROCESSES = 24, TTL_MS = 30000, PATIENCE_MS = 300000 };

enum { OUTSIDE, WAITS, TO_LEAVE, LEFT, SERVED };

/* Shared by the processes. */
typedef struct sky {
    _Atomic int joined; /* who may join: those below */
    _Atomic int open;   /* clients that are */
    _Atomic int state[CROWD];
    _Atomic int served;
    int order[CROWD]; /* who was served, in turn … */
    int64_t at[CROWD];
    _Atomic int failures;
    char what[256];
} sky;

typedef struct member {
    dlock_client *client;
    dlock_lock *lock;
    dlock_op *op;
    int fd;
} member;

typedef struct process {
    pid_t pid; /* 0: dead */
    int wake;  /* the end of a pipe: something is to be done */
} process;

typedef struct tally {
    int served, left, killed, looks, disorder;
    int64_t longest; /* between two grants, ms */
} tally;

static sky *all;
static redis_server server;
static process processes[PROCESSES];
static char owners[CROWD][64];
static int crowd;
static uint64_t seed;

static int pick(int below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((seed >> 33) % (uint64_t)below);
}

/* ---- a process of the crowd: who stands in it has this number, or one that is a multiple of
 * PROCESSES larger ---- */

static void fail(const char *what, dlock_err code, const dlock_error *err)
{
    if (atomic_fetch_add(&all->failures, 1) == 0)
        snprintf(all->what, sizeof(all->what), "%s: %s, %s", what, dlock_errname(code),
                 dlock_error_text(err));
}

static void open_member(member *is)
{
    char uri[256];
    dlock_error *err = NULL;
    snprintf(uri, sizeof(uri),
             "redis://127.0.0.1:%d?lock.fair=true&redis.client_key=false&lock.ttl_ms=%d&"
             "client.connect_ms=120000&"
             "client.timeout_ms=60000&client.close_ms=60000",
             server.port, TTL_MS);
    dlock_err code = dlock_client_open(uri, NULL, &is->client, &err);
    if (code == DLOCK_OK)
        code = dlock_lock_new(is->client, DLOCK_MUTEX, "L", NULL, &is->lock, &err);
    is->fd = code == DLOCK_OK ? dlock_client_event_fd(is->client) : -1;
    if (code != DLOCK_OK || is->fd < 0)
        fail("open", code, err);
    dlock_error_free(err);
    atomic_fetch_add(&all->open, 1);
}

static void be_served(member *is, int number)
{
    dlock_error *err = NULL;
    dlock_hold *hold = dlock_op_take_hold(is->op);
    int turn = atomic_fetch_add(&all->served, 1);
    all->order[turn] = number;
    all->at[turn] = now_ms();
    nap_us(200);
    if (dlock_hold_check(hold) != DLOCK_OK)
        fail("check", dlock_hold_check(hold), NULL);
    dlock_err code = dlock_hold_release(hold, &err);
    if (code != DLOCK_OK)
        fail("release", code, err);
    dlock_error_free(err);
    dlock_hold_free(hold);
}

static void look_at(member *is, int number)
{
    dlock_event *event;
    while ((event = dlock_client_next_event(is->client)))
        dlock_event_free(event);
    dlock_err code = dlock_op_result(is->op);
    if (code == DLOCK_EPENDING)
        return;
    if (code == DLOCK_OK)
        be_served(is, number);
    else if (code != DLOCK_ECANCELED)
        fail("acquire", code, dlock_op_error(is->op));
    atomic_store(&all->state[number], code == DLOCK_OK ? SERVED : LEFT);
    dlock_op_free(is->op);
    is->op = NULL;
}

static void join(member *is, int number)
{
    is->op = dlock_lock_acquire_start(is->lock, DLOCK_FOREVER);
    atomic_store(&all->state[number], WAITS);
    if (dlock_op_notify(is->op, 1) == DLOCK_OK)
        look_at(is, number);
}

/* By a cancel, or by going altogether. */
static void leave(member *is, int number)
{
    if (number % 3 != 0) {
        dlock_op_cancel(is->op);
        (void)dlock_op_wait(is->op, PATIENCE_MS);
        look_at(is, number);
        return;
    }
    dlock_op_free(is->op);
    is->op = NULL;
    dlock_lock_free(is->lock);
    dlock_client_free(is->client);
    *is = (member){.fd = -1};
    atomic_store(&all->state[number], LEFT);
}

static void act(member *is, int number)
{
    int state = atomic_load(&all->state[number]);
    if (state == OUTSIDE && number < atomic_load(&all->joined))
        join(is, number);
    else if (state == TO_LEAVE && is->op)
        leave(is, number);
}

static void be_process(int first, int orders)
{
    static member members[CROWD / PROCESSES + 1];
    struct pollfd polls[CROWD / PROCESSES + 2];
    int count = (crowd - first + PROCESSES - 1) / PROCESSES;
    char bytes[64];
    for (int i = 0; i < count; i++)
        open_member(&members[i]);
    for (;;) {
        for (int i = 0; i < count; i++)
            polls[i] = (struct pollfd){.fd = members[i].fd, .events = POLLIN};
        polls[count] = (struct pollfd){.fd = orders, .events = POLLIN};
        if (poll(polls, (nfds_t)count + 1, -1) < 0)
            continue;
        if (polls[count].revents && read(orders, bytes, sizeof(bytes)) <= 0)
            break;
        for (int i = 0; i < count; i++) {
            if (polls[i].revents && members[i].op)
                look_at(&members[i], first + i * PROCESSES);
            if (polls[count].revents)
                act(&members[i], first + i * PROCESSES);
        }
    }
    for (int i = 0; i < count; i++) {
        dlock_lock_free(members[i].lock);
        dlock_client_free(members[i].client);
    }
}

/* ---- the test's side ---- */

static void start_processes(void)
{
    for (int i = 0; i < PROCESSES; i++) {
        int ends[2];
        if (!harness_check(__FILE__, __LINE__, pipe(ends) == 0, "a pipe"))
            return;
        pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (int k = 0; k < i; k++)
                close(processes[k].wake);
            close(ends[1]);
            be_process(i, ends[0]);
            _exit(0);
        }
        close(ends[0]);
        processes[i] = (process){pid, ends[1]};
    }
}

static void wake(int number)
{
    const process *is = &processes[number % PROCESSES];
    if (is->pid && write(is->wake, "x", 1) != 1)
        (void)harness_check(__FILE__, __LINE__, false, "an order is written");
}

/* One behind the other, so that the order is known. */
static void let_them_join(void)
{
    AWAIT(atomic_load(&all->open) == crowd);
    for (int number = 0; number < crowd; number++) {
        atomic_store(&all->joined, number + 1);
        wake(number);
        AWAIT(atoi(redis_server_call(&server, "LLEN " QUEUE)) > number);
        snprintf(owners[number], sizeof(owners[number]), "%s",
                 redis_server_call(&server, "LINDEX " QUEUE " -1"));
    }
}

/* -1: nobody has this name. */
static int number_of(const char *owner)
{
    for (int number = 0; number < crowd; number++)
        if (strcmp(owner, owners[number]) == 0)
            return number;
    return -1;
}

/* Who has the lock just now, or -1. */
static int holder(void)
{
    return number_of(redis_server_call(&server, "HKEYS L"));
}

static bool is_dead(int number)
{
    return processes[number % PROCESSES].pid == 0;
}

static void make_leave(int number)
{
    int waits = WAITS;
    if (!is_dead(number) &&
        atomic_compare_exchange_strong(&all->state[number], &waits, TO_LEAVE))
        wake(number);
}

static bool somebody_waits(int index)
{
    for (int number = index; number < crowd; number += PROCESSES)
        if (atomic_load(&all->state[number]) == WAITS)
            return true;
    return false;
}

/* A process whose clients only wait: of one that holds the lock the lease would have to run out,
 * which is another matter. It is stopped first, and its last requests are let through. */
static bool kill_process(int index)
{
    process *is = &processes[index];
    int status;
    if (!is->pid || !somebody_waits(index) || kill(is->pid, SIGSTOP) != 0 ||
        waitpid(is->pid, &status, WUNTRACED) != is->pid)
        return false;
    bool holds = holder() % PROCESSES == index;
    nap_us(20000);
    if (holds || holder() % PROCESSES == index) {
        kill(is->pid, SIGCONT);
        return false;
    }
    kill(is->pid, SIGKILL);
    waitpid(is->pid, NULL, 0);
    is->pid = 0;
    close(is->wake);
    return true;
}

static bool is_over(void)
{
    for (int number = 0; number < crowd; number++) {
        int state = atomic_load(&all->state[number]);
        if (state != SERVED && state != LEFT && !is_dead(number))
            return false;
    }
    return true;
}

/* While the first three fifths are served, every fifth gives up and some processes are killed. */
static void let_it_go_round(tally *t)
{
    int to_leave = crowd / 5, to_kill = crowd < 500 ? 2 : 4, actions = to_leave + to_kill;
    int64_t end = now_ms() + PATIENCE_MS;
    for (int done = 0; !is_over() && now_ms() < end && !harness_failed();) {
        (void)line_length(&server);
        t->looks++;
        nap_us(5000);
        while (done < actions &&
               atomic_load(&all->served) >= (int64_t)crowd * 3 / 5 * done / actions) {
            if (pick(actions - done) < to_kill) {
                if (!kill_process(pick(PROCESSES)))
                    break;
                to_kill--;
            } else {
                make_leave(pick(crowd));
                to_leave--;
            }
            done++;
        }
    }
}

static void count(tally *t)
{
    for (int number = 0; number < crowd; number++) {
        int state = atomic_load(&all->state[number]);
        t->left += state == LEFT;
        t->served += state == SERVED;
        t->killed += state != LEFT && state != SERVED;
    }
    for (int turn = 1; turn < t->served; turn++) {
        int64_t gap = all->at[turn] - all->at[turn - 1];
        t->longest = gap > t->longest ? gap : t->longest;
        t->disorder += all->order[turn] < all->order[turn - 1];
    }
}

static int64_t scripts_run(void)
{
    const char *text = redis_server_call(&server, "INFO commandstats");
    const char *at = strstr(text, "cmdstat_evalsha:calls=");
    return at ? atoll(at + strlen("cmdstat_evalsha:calls=")) : 0;
}

static bool set_up(void)
{
    const char *text = getenv("DLK_TEST_CROWD");
    crowd = text ? atoi(text) : 96;
    text = getenv("DLK_TEST_SEED");
    seed = text ? strtoull(text, NULL, 10) : (uint64_t)now_ms();
    harness_note("DLK_TEST_CROWD=%d DLK_TEST_SEED=%" PRIu64, crowd, seed);
    all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
               0);
    if (!harness_check(__FILE__, __LINE__, all != MAP_FAILED && crowd <= CROWD, "room") ||
        !redis_server_available() || !redis_server_start(&server, "maxclients 5000"))
        return false;
    /* Until all have joined the lock is somebody's. */
    redis_server_call(&server, "HSET L somebody:1 1");
    return true;
}

static void end_processes(void)
{
    for (int i = 0; i < PROCESSES; i++) {
        if (!processes[i].pid)
            continue;
        close(processes[i].wake); /* which ends it, with all its clients closed */
        int status = 0;
        waitpid(processes[i].pid, &status, 0);
        (void)harness_eq_int(__FILE__, __LINE__, "a process' status", status, 0);
    }
}

static bool only_the_dead_stand_in_line(void)
{
    for (int place = line_length(&server) - 1; place >= 0; place--) {
        int number = number_of(redis_server_call(&server, "LINDEX " QUEUE " %d", place));
        if (number < 0 || !is_dead(number))
            return false;
    }
    return true;
}

/* Behind the dead who were the last in line nobody has waited yet. */
static void one_more_comes(void)
{
    member late = {0};
    dlock_hold *hold = NULL;
    open_member(&late);
    dlock_err code = dlock_lock_acquire(late.lock, PATIENCE_MS, &hold, NULL);
    (void)harness_err(__FILE__, __LINE__, "the last one's acquire", code, DLOCK_OK, NULL);
    if (code == DLOCK_OK)
        code = dlock_hold_release(hold, NULL);
    (void)harness_err(__FILE__, __LINE__, "its release", code, DLOCK_OK, NULL);
    dlock_hold_free(hold);
    dlock_lock_free(late.lock);
    dlock_client_free(late.client);
}

TEST(whoever_is_left_is_served_in_order_and_waits_for_no_lease)
{
    tally t = {0};
    if (!set_up())
        return;
    int64_t began = now_ms();
    start_processes();
    let_them_join();
    int64_t joined = now_ms(), before = scripts_run();
    redis_server_call(&server, "DEL L");
    redis_server_call(&server, "PUBLISH redisson_lock__channel:{L}:%s 0", owners[0]);
    let_it_go_round(&t);
    count(&t);
    int64_t scripts = scripts_run() - before, took = now_ms() - joined;
    end_processes();
    harness_note(
        "%d waiters: %d served, %d gave up, %d were killed; opened and joined in "
        "%" PRId64 " ms, done in %" PRId64 " ms",
        crowd, t.served, t.left, t.killed, joined - began, took);
    harness_note("longest gap between two grants %" PRId64 " ms; %.1f EVALSHA a grant; "
                 "list and zset compared %d times",
                 t.longest, (double)scripts / (t.served ? t.served : 1), t.looks);
    CHECK_STR(all->what, "");
    CHECK(is_over());
    CHECK_EQ_INT(t.disorder, 0);
    CHECK(t.killed > 0 && t.left > 0 && t.served > crowd / 2);
    CHECK(t.longest < TTL_MS / 2);
    CHECK(only_the_dead_stand_in_line());
    one_more_comes();
    CHECK_STR(redis_server_call(&server, "KEYS *"), "redisson_lock_token:{L}");
    redis_server_stop(&server);
}
