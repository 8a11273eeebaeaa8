/* Many locks and many threads at once on one client: an event loop with a thousand locks, and more
 * threads than requests that may be under way before the engine takes over. */
#include "world.h"

#include <poll.h>
#include <stdio.h>

#define LOCKS   1000
#define THREADS 24
#define MANY    280 /* more than the engine has places for those it wakes together */
#define LATE    8
#define ROUNDS  600

typedef struct entry {
    dlock_lock *lock;
    dlock_op *op;
    dlock_hold *hold;
    int rounds;
} entry;

/* One step of the life of a lock, as an event loop takes it: acquired → released → acquired … */
static void advance(entry *e, uint64_t tag)
{
    for (;;) {
        CHECK_EQ_INT(dlock_op_result(e->op), DLOCK_OK);
        dlock_hold *hold = dlock_op_take_hold(e->op);
        dlock_op_free(e->op);
        e->op = NULL;
        if (hold) {
            CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
            e->hold = hold;
            e->op = dlock_hold_release_start(hold);
        } else {
            dlock_hold_free(e->hold);
            e->hold = NULL;
            if (++e->rounds == 3)
                return;
            e->op = dlock_lock_acquire_start(e->lock, DLOCK_FOREVER);
        }
        if (dlock_op_notify(e->op, tag) == DLOCK_EPENDING)
            return;
    }
}

TEST(one_thread_serves_a_thousand_locks_by_one_descriptor)
{
    BEGIN();
    static entry entries[LOCKS];
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    struct pollfd fd = {.fd = dlock_client_event_fd(client), .events = POLLIN};
    char name[32];
    int done = 0;
    for (uint64_t i = 0; i < LOCKS; i++) {
        entry *e = &entries[i];
        snprintf(name, sizeof(name), "crowd-%d", (int)i);
        e->lock = world_lock(client, name, NULL);
        e->op = dlock_lock_acquire_start(e->lock, DLOCK_FOREVER);
        if (dlock_op_notify(e->op, i + 1) == DLOCK_OK)
            advance(e, i + 1);
        done += e->rounds == 3;
    }
    while (done < LOCKS && !harness_failed()) {
        CHECK(poll(&fd, 1, (int)patience_ms()) == 1); /* else an event got lost */
        dlock_event *event;
        while ((event = dlock_client_next_event(client))) {
            uint64_t tag = dlock_event_tag(event);
            if (dlock_event_what(event) == DLOCK_EVENT_DONE) {
                advance(&entries[tag - 1], tag);
                done += entries[tag - 1].rounds == 3;
            }
            dlock_event_free(event);
        }
    }
    CHECK_EQ_INT(api_stat(client, "grants"), 3 * LOCKS);
    CHECK_EQ_INT(api_stat(client, "releases_failed"), 0);
    for (int i = 0; i < LOCKS; i++)
        dlock_lock_free(entries[i].lock);
    CHECK_EQ_INT(api_stat(client, "names"), 0); /* what nobody uses is forgotten */
}

typedef struct toil {
    dlock_client *client;
    int number;
    atomic_int *inside; /* of the shared lock */
    intptr_t strange;
} toil;

static void *take_turns(void *arg)
{
    toil *t = arg;
    char own[32];
    snprintf(own, sizeof(own), "crowd-own-%d", t->number);
    for (int i = 0; i < 40; i++) {
        DLOCK_AUTO(dlock_hold) mine = NULL;
        DLOCK_AUTO(dlock_hold) shared = NULL;
        int64_t limit = patience_ms();
        t->strange += dlock_acquire(t->client, own, limit, &mine, NULL) != DLOCK_OK;
        t->strange +=
            dlock_acquire(t->client, "crowd-shared", limit, &shared, NULL) != DLOCK_OK;
        t->strange += atomic_fetch_add(t->inside, 1) != 0;
        t->strange += dlock_hold_check(shared) != DLOCK_OK;
        atomic_fetch_sub(t->inside, 1);
        t->strange += dlock_hold_release(shared, NULL) != DLOCK_OK;
        if (i % 2)
            t->strange += dlock_hold_release(mine, NULL) != DLOCK_OK;
    }
    return NULL;
}

TEST(many_threads_of_two_clients_take_own_and_shared_locks_without_overlap)
{
    BEGIN();
    TWO_CLIENTS(one, two);
    pthread_t threads[THREADS];
    toil toils[THREADS];
    atomic_int inside = 0;
    for (int i = 0; i < THREADS; i++) {
        toils[i] = (toil){.client = i % 2 ? one : two, .number = i, .inside = &inside};
        CHECK(pthread_create(&threads[i], NULL, take_turns, &toils[i]) == 0);
    }
    intptr_t strange = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        strange += toils[i].strange;
    }
    CHECK_EQ_INT(strange, 0);
    AWAIT(api_stat(one, "unconfirmed") + api_stat(two, "unconfirmed") == 0);
    CHECK_EQ_INT(api_stat(one, "in_flight"), 0);
}

static void *take_own(void *arg)
{
    toil *t = arg;
    char own[32];
    snprintf(own, sizeof(own), "crowd-many-%d", t->number);
    for (int i = 0; i < 10; i++) {
        DLOCK_AUTO(dlock_hold) mine = NULL;
        int64_t limit = patience_ms(), begin = now_ms();
        t->strange += dlock_acquire(t->client, own, limit, &mine, NULL) != DLOCK_OK;
        t->strange += now_ms() - begin >= limit; /* the answer came, but no wake-up */
        t->strange += dlock_hold_release(mine, NULL) != DLOCK_OK;
    }
    return NULL;
}

static void *wait_in_vain(void *arg)
{
    toil *t = arg;
    for (int i = 0; i < 3; i++) {
        DLOCK_AUTO(dlock_hold) hold = NULL;
        int64_t begin = now_ms();
        /* ETIMEDOUT; EUNKNOWN where the server is so busy that it hasn't answered by then. */
        t->strange +=
            dlock_acquire(t->client, "crowd-taken", SHORT_MS, &hold, NULL) == DLOCK_OK;
        t->strange += now_ms() - begin < SHORT_MS - 1;
    }
    return NULL;
}

TEST(each_of_very_many_threads_is_woken_and_none_before_its_time)
{
    BEGIN();
    TWO_CLIENTS(client, other);
    DLOCK_AUTO(dlock_hold) taken = NULL;
    pthread_t threads[MANY];
    toil toils[MANY];
    CHECK(dlock_acquire(other, "crowd-taken", patience_ms(), &taken, NULL) == DLOCK_OK);
    for (int i = 0; i < MANY; i++) {
        toils[i] = (toil){.client = client, .number = i};
        CHECK(pthread_create(&threads[i], NULL, i < LATE ? wait_in_vain : take_own,
                             &toils[i]) == 0);
    }
    intptr_t strange = 0;
    for (int i = 0; i < MANY; i++) {
        pthread_join(threads[i], NULL);
        strange += toils[i].strange;
    }
    CHECK_EQ_INT(strange, 0);
    AWAIT(api_stat(client, "unconfirmed") == 0);
    CHECK_EQ_INT(api_stat(client, "in_flight"), 0);
}

/* How many calls have left the thread with another cancel state than it had. */
static int altered(int state, int *calls)
{
    int found;
    pthread_setcancelstate(state, &found);
    ++*calls;
    return found != state;
}

static void *mind_its_state(void *arg)
{
    toil *t = arg;
    int64_t limit = patience_ms();
    int calls = 0, state = t->number % 2 ? PTHREAD_CANCEL_ENABLE : PTHREAD_CANCEL_DISABLE;
    char own[32];
    snprintf(own, sizeof(own), "crowd-state-%d", t->number);
    pthread_setcancelstate(state, NULL);
    DLOCK_AUTO(dlock_lock) lock = world_lock(t->client, own, NULL);
    while (lock && calls < 3 * ROUNDS && t->strange == 0) {
        DLOCK_AUTO(dlock_hold) hold = NULL;
        t->strange += dlock_lock_acquire(lock, limit, &hold, NULL) != DLOCK_OK;
        t->strange += altered(state, &calls);
        dlock_hold_free(hold); /* given back in the background */
        hold = NULL;
        t->strange += altered(state, &calls);
        dlock_op_free(dlock_lock_inspect_start(lock));
        t->strange += altered(state, &calls);
    }
    return NULL;
}

/* The mutex is let go inside of calls, while requests are written and while they wait. */
TEST(a_call_leaves_each_thread_the_cancel_state_that_it_had)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    pthread_t threads[THREADS];
    toil toils[THREADS];
    for (int i = 0; i < THREADS; i++) {
        toils[i] = (toil){.client = client, .number = i};
        CHECK(pthread_create(&threads[i], NULL, mind_its_state, &toils[i]) == 0);
    }
    intptr_t strange = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        strange += toils[i].strange;
    }
    CHECK_EQ_INT(strange, 0);
}
