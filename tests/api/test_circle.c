/* Threads of one process that wait for each other's locks: whoever closes the circle is told at once, and
 * nobody else ever is. */
#include "world.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Locks of one test: "<test>/a" and so on. */
#define LOCKS 4

typedef struct table {
    dlock_client *client, *other; /* lock b and d are the other's, if there is one */
    dlock_lock *locks[LOCKS];
} table;

static void table_drop(table *t)
{
    for (int i = 0; i < LOCKS; i++)
        dlock_lock_free(t->locks[i]);
    dlock_client_free(t->client);
    dlock_client_free(t->other);
}

#define TABLE(name) table name __attribute__((cleanup(table_drop))) = {0}

static void table_open(table *t, const char *test, bool two, const char *settings)
{
    t->client = world_client(NULL);
    t->other = two ? world_client(NULL) : NULL;
    for (int i = 0; i < LOCKS; i++) {
        char name[128];
        snprintf(name, sizeof(name), "%.100s/%c", test, 'a' + i);
        t->locks[i] = world_lock(two && i % 2 ? t->other : t->client, name, settings);
    }
}

/* A thread that takes one lock, and when it is told, waits for another. */
typedef struct guest {
    pthread_t thread;
    dlock_client *client;
    dlock_lock *has, *wants;
    int64_t wait_ms;
    bool by_op, runs;
    atomic_bool goes_on, leaves;
    atomic_int tid, has_it, done;
    dlock_err code;
    dlock_hold *hold, *got;
    dlock_error *err;
} guest;

static dlock_err wait_by_op(guest *g)
{
    dlock_op *op = dlock_lock_acquire_start(g->wants, g->wait_ms);
    /* As Python's main thread does it. */
    while (dlock_op_wait(op, 20) == DLOCK_EPENDING && !g->leaves)
        ;
    dlock_err code = dlock_op_result(op);
    g->got = dlock_op_take_hold(op);
    dlock_op_free(op);
    return code;
}

static void *sit(void *arg)
{
    guest *g = arg;
    g->tid = (int)syscall(SYS_gettid);
    if (g->has &&
        dlock_lock_acquire(g->has, patience_ms(), &g->hold, &g->err) != DLOCK_OK)
        return NULL;
    g->has_it = 1;
    while (!g->goes_on)
        nap_ms(1);
    g->code = g->by_op ? wait_by_op(g)
                       : dlock_lock_acquire(g->wants, g->wait_ms, &g->got, &g->err);
    g->done = 1;
    while (!g->leaves)
        nap_ms(1);
    dlock_hold_free(g->got);
    dlock_hold_free(g->hold);
    g->got = g->hold = NULL;
    return NULL;
}

/* Has what it is to have. */
static void guest_start(guest *g, dlock_client *client, dlock_lock *has,
                        dlock_lock *wants)
{
    g->client = client;
    g->has = has;
    g->wants = wants;
    if (!g->wait_ms)
        g->wait_ms = DLOCK_FOREVER;
    g->runs = pthread_create(&g->thread, NULL, sit, g) == 0;
    CHECK(g->runs);
    AWAIT(g->has_it);
}

/* It waits, as the so-manyth of its client, and nothing has come of that. */
static void guest_waits(guest *g, int64_t place)
{
    g->goes_on = true;
    AWAIT(world_seen(g->wants, "waiters") >= place);
    CHECK(!g->done);
}

/* It is to go on, and has its answer at once. */
static void guest_ends(guest *g, dlock_err code)
{
    g->goes_on = true;
    AWAIT(g->done);
    CHECK_ERR(g->code, code, g->err);
}

static void guest_leave(guest *g)
{
    g->leaves = true;
    if (g->runs)
        pthread_join(g->thread, NULL);
    g->runs = false;
}

static void guest_drop(guest *g)
{
    g->goes_on = g->leaves = true;
    if (g->runs && !g->done) /* the test has failed on its way */
        (void)dlock_client_close(g->client, NULL);
    guest_leave(g);
    dlock_error_free(g->err);
}

#define GUEST(name) guest name __attribute__((cleanup(guest_drop))) = {0}

static void two_meet(const char *test, bool two_clients)
{
    TABLE(t);
    GUEST(one);
    GUEST(two);
    table_open(&t, test, two_clients, NULL);
    guest_start(&one, t.client, t.locks[0], t.locks[1]);
    guest_start(&two, t.client, t.locks[1], t.locks[0]);
    guest_waits(&one, 1);
    guest_ends(&two, DLOCK_EDEADLK);
    CHECK(two.got == NULL);
    CHECK_EQ_INT(dlock_hold_check(two.hold), DLOCK_OK);
    guest_leave(&two); /* with what it had */
    guest_ends(&one, DLOCK_OK);
    guest_leave(&one);
}

TEST(two_threads_that_want_each_other_s_lock_and_the_second_is_told)
{
    BEGIN();
    two_meet(__func__, false);
}

TEST(two_threads_with_locks_of_two_clients)
{
    BEGIN();
    two_meet(__func__, true);
}

/* Python's RLock waits so. */
TEST(two_threads_that_wait_for_operations_of_their_own)
{
    BEGIN();
    TABLE(t);
    GUEST(one);
    GUEST(two);
    table_open(&t, __func__, false, "lock.owner=thread");
    one.by_op = two.by_op = true;
    guest_start(&one, t.client, t.locks[0], t.locks[1]);
    guest_start(&two, t.client, t.locks[1], t.locks[0]);
    one.goes_on = two.goes_on = true;
    /* Who waits in slices may be between two of them when the other one looks. */
    AWAIT(one.done || two.done);
    guest *told = one.done ? &one : &two, *other = one.done ? &two : &one;
    guest_ends(told, DLOCK_EDEADLK);
    guest_leave(told);
    guest_ends(other, DLOCK_OK);
}

TEST(the_sentence_names_the_locks_of_the_circle)
{
    BEGIN();
    TABLE(t);
    GUEST(one);
    GUEST(two);
    GUEST(three);
    table_open(&t, "c", true, NULL);
    guest_start(&one, t.client, t.locks[0], t.locks[1]);
    guest_start(&two, t.client, t.locks[1], t.locks[2]);
    guest_start(&three, t.client, t.locks[2], t.locks[0]);
    guest_waits(&two, 1);
    guest_waits(&three, 1);
    guest_ends(&one, DLOCK_EDEADLK);
    CHECK_STR(
        dlock_error_text(one.err),
        "c/b: a deadlock: its holder waits for 'c/c', whose holder waits for 'c/a', "
        "which this thread holds");
    CHECK(!dlock_error_retriable(one.err));
    guest_leave(&one);
    guest_ends(&three, DLOCK_OK);
    guest_leave(&three);
    guest_ends(&two, DLOCK_OK);
}

TEST(a_wait_with_a_deadline_is_told_as_well)
{
    BEGIN();
    TABLE(t);
    GUEST(one);
    GUEST(two);
    table_open(&t, __func__, false, NULL);
    one.wait_ms = two.wait_ms = patience_ms();
    guest_start(&one, t.client, t.locks[0], t.locks[1]);
    guest_start(&two, t.client, t.locks[1], t.locks[0]);
    guest_waits(&one, 1);
    guest_ends(&two, DLOCK_EDEADLK);
}

TEST(whoever_only_tries_is_told_that_it_is_held)
{
    BEGIN();
    TABLE(t);
    GUEST(one);
    table_open(&t, __func__, false, NULL);
    DLOCK_AUTO(dlock_hold) mine = world_take(t.locks[1]);
    DLOCK_AUTO(dlock_hold) none = NULL;
    guest_start(&one, t.client, t.locks[0], t.locks[1]);
    guest_waits(&one, 1);
    CHECK_EQ_INT(dlock_lock_acquire(t.locks[0], 0, &none, NULL), DLOCK_EBUSY);
    CHECK_EQ_INT(dlock_hold_release(mine, NULL), DLOCK_OK);
    guest_ends(&one, DLOCK_OK);
}

TEST(a_row_without_a_circle_is_none)
{
    BEGIN();
    TABLE(t);
    GUEST(one);
    GUEST(two);
    GUEST(three);
    table_open(&t, __func__, true, NULL);
    DLOCK_AUTO(dlock_hold) mine = world_take(t.locks[3]);
    guest_start(&one, t.client, t.locks[0], t.locks[1]);
    guest_start(&two, t.client, t.locks[1], t.locks[2]);
    guest_start(&three, t.client, t.locks[2], t.locks[3]);
    guest_waits(&one, 1);
    guest_waits(&two, 1);
    guest_waits(&three, 1);
    CHECK_EQ_INT(dlock_hold_release(mine, NULL), DLOCK_OK);
    guest_ends(&three, DLOCK_OK);
    guest_leave(&three);
    guest_ends(&two, DLOCK_OK);
    guest_leave(&two);
    guest_ends(&one, DLOCK_OK);
}

/* Anybody may give it back. */
TEST(owners_that_are_no_threads_are_never_told)
{
    BEGIN();
    TABLE(t);
    GUEST(one);
    GUEST(two);
    table_open(&t, __func__, false, "lock.owner=none");
    two.wait_ms = SHORT_MS;
    guest_start(&one, t.client, t.locks[0], t.locks[1]);
    guest_start(&two, t.client, t.locks[1], t.locks[0]);
    guest_waits(&one, 1);
    guest_ends(&two, DLOCK_ETIMEDOUT);
    guest_leave(&two);
    guest_ends(&one, DLOCK_OK);
}

/* A reader waits for another one where a writer stands between them. */
TEST(a_reader_behind_a_writer_waits_for_the_readers_before_it)
{
    BEGIN();
    GUEST(one);
    GUEST(writer);
    GUEST(two);
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    if (!world_has_kind(client, "read"))
        LEAVE_OUT("it has no read/write locks");
    DLOCK_AUTO(dlock_lock) gate = world_lock(client, "gate", NULL);
    DLOCK_AUTO(dlock_lock) read = api_lock(client, DLOCK_READ, __func__, NULL);
    DLOCK_AUTO(dlock_lock) write = api_lock(client, DLOCK_WRITE, __func__, NULL);
    guest_start(&one, client, read, gate);
    guest_start(&two, client, gate, read);
    guest_start(&writer, client, NULL, write);
    guest_waits(&writer, 1);
    guest_waits(&two, 2);
    guest_ends(&one, DLOCK_EDEADLK);
    guest_leave(&one);
    guest_ends(&writer, DLOCK_OK);
    guest_leave(&writer);
    guest_ends(&two, DLOCK_OK);
}

/* Of a multi-lock the members are taken one after the other. */
TEST(a_multi_lock_closes_a_circle_and_gives_back_what_it_took)
{
    BEGIN();
    TABLE(t);
    GUEST(one);
    table_open(&t, __func__, false, NULL);
    DLOCK_AUTO(dlock_lock) multi = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_hold) none = NULL;
    CHECK_OK(dlock_multi_new(&t.locks[1], 2, NULL, &multi, &err), err);
    DLOCK_AUTO(dlock_hold) mine = world_take(t.locks[0]);
    guest_start(&one, t.client, t.locks[2], t.locks[0]);
    guest_waits(&one, 1);
    CHECK_ERR(dlock_lock_acquire(multi, DLOCK_FOREVER, &none, &err), DLOCK_EDEADLK, err);
    CHECK_EQ_INT(dlock_hold_release(mine, NULL), DLOCK_OK);
    guest_ends(&one, DLOCK_OK);
    DLOCK_AUTO(dlock_hold) free = NULL;
    CHECK_EQ_INT(dlock_lock_acquire(t.locks[1], 0, &free, NULL), DLOCK_OK);
}

/* ---- many at a time ---- */

#define RUNNERS 4
#define ROUNDS  60

typedef struct runner {
    pthread_t thread;
    table *t;
    unsigned seed;
    int rounds;
    atomic_int told, taken;
    dlock_err odd;
} runner;

/* Two, in any order. */
static dlock_err take_any(runner *r)
{
    int from = rand_r(&r->seed) % LOCKS, to = rand_r(&r->seed) % LOCKS;
    DLOCK_AUTO(dlock_hold) first = NULL;
    DLOCK_AUTO(dlock_hold) second = NULL;
    dlock_err code = dlock_lock_acquire(r->t->locks[from], DLOCK_FOREVER, &first, NULL);
    if (code == DLOCK_OK)
        code = dlock_lock_acquire(r->t->locks[to], DLOCK_FOREVER, &second, NULL);
    return code;
}

static void *run(void *arg)
{
    runner *r = arg;
    for (int i = 0; i < r->rounds && r->odd == DLOCK_OK; i++) {
        dlock_err code = take_any(r);
        r->told += code == DLOCK_EDEADLK;
        r->taken += code == DLOCK_OK;
        if (code != DLOCK_OK && code != DLOCK_EDEADLK)
            r->odd = code;
    }
    return NULL;
}

/* This one and some of those behind it. */
static dlock_err take_upwards(runner *r, int at)
{
    DLOCK_AUTO(dlock_hold) hold = NULL;
    if (at >= LOCKS)
        return DLOCK_OK;
    dlock_err code = dlock_lock_acquire(r->t->locks[at], DLOCK_FOREVER, &hold, NULL);
    return code == DLOCK_OK ? take_upwards(r, at + 1 + rand_r(&r->seed) % 2) : code;
}

static void *run_upwards(void *arg)
{
    runner *r = arg;
    for (int i = 0; i < r->rounds && r->odd == DLOCK_OK; i++)
        r->odd = take_upwards(r, rand_r(&r->seed) % LOCKS);
    return NULL;
}

static int runners_start(runner all[RUNNERS], table *t, int rounds, void *(*how)(void *))
{
    int runs = 0;
    for (int i = 0; i < RUNNERS; i++) {
        all[i] = (runner){.t = t, .seed = (unsigned)i + 1, .rounds = rounds};
        runs += pthread_create(&all[i].thread, NULL, how, &all[i]) == 0;
    }
    return runs;
}

/* None is told of what is none: whoever waits for ever hangs, and whoever holds nothing is never told. */
TEST(many_threads_that_take_two_in_any_order_all_come_to_an_end)
{
    BEGIN();
    TABLE(t);
    table_open(&t, __func__, true, NULL);
    runner all[RUNNERS];
    int taken = 0, told = 0, runs = runners_start(all, &t, ROUNDS, run);
    for (int i = 0; i < runs; i++) {
        pthread_join(all[i].thread, NULL);
        CHECK_EQ_INT(all[i].odd, DLOCK_OK);
        taken += all[i].taken;
        told += all[i].told;
    }
    CHECK_EQ_INT(runs, RUNNERS);
    CHECK_EQ_INT(taken + told, RUNNERS * ROUNDS);
    CHECK(taken > 0);
}

TEST(many_threads_that_keep_to_one_order_are_never_told)
{
    BEGIN();
    TABLE(t);
    table_open(&t, __func__, true, NULL);
    runner all[RUNNERS];
    int runs = runners_start(all, &t, ROUNDS, run_upwards);
    for (int i = 0; i < runs; i++) {
        pthread_join(all[i].thread, NULL);
        CHECK_EQ_INT(all[i].odd, DLOCK_OK);
    }
    CHECK_EQ_INT(runs, RUNNERS);
}

/* Amid circles that come and go. */
TEST(clients_that_close_end_all_who_wait)
{
    BEGIN();
    TABLE(t);
    table_open(&t, __func__, true, NULL);
    runner all[RUNNERS];
    int runs = runners_start(all, &t, INT_MAX, run);
    for (int i = 0; i < runs; i++)
        AWAIT(all[i].taken > 1);
    CHECK_EQ_INT(dlock_client_close(t.other, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_client_close(t.client, NULL), DLOCK_OK);
    for (int i = 0; i < runs; i++) {
        pthread_join(all[i].thread, NULL);
        CHECK_EQ_INT(all[i].odd, DLOCK_ECLOSED);
    }
    CHECK_EQ_INT(runs, RUNNERS);
}

/* ---- in a fork's child ---- */

static void meet_in_child(void *arg)
{
    two_meet(arg, false);
}

TEST(a_fork_s_child_knows_nobody_who_waits_in_its_parent)
{
    BEGIN();
    if (THREAD_SANITIZER)
        LEAVE_OUT("it can't follow threads of a child");
    TABLE(t);
    GUEST(one);
    table_open(&t, __func__, false, NULL);
    DLOCK_AUTO(dlock_hold) mine = world_take(t.locks[1]);
    guest_start(&one, t.client, t.locks[0], t.locks[1]);
    guest_waits(&one, 1);
    char inside[] = "a_fork_s_child";
    CHECK_EQ_INT(world_child(meet_in_child, inside), 0);
    CHECK_EQ_INT(dlock_hold_release(mine, NULL), DLOCK_OK);
    guest_ends(&one, DLOCK_OK);
}
