/* What inspect says, the same whatever the service: each hold's own data, the permits of a semaphore,
 * how many wait. */
#include "world.h"

#include <stdio.h>
#include <string.h>

/* ---- lock.data ---- */

/* Elsewhere only what is elected is published, and on Redis what goes with permits; the table has room for one
 * text a lock. */
static bool shows_data(dlock_kind kind)
{
    if (world_is("mem") || world_is("file"))
        return kind == DLOCK_MUTEX || kind == DLOCK_ELECTION;
    if (world_is("redis") && kind == DLOCK_SEMAPHORE)
        return true;
    return kind == DLOCK_ELECTION || world_is("zookeeper") || world_is("etcd") ||
           world_is("memcached") || world_is("memlock") || world_is("postgres");
}

static const struct {
    dlock_kind kind;
    const char *name;
} sole[] = {{DLOCK_MUTEX, "mutex"}, {DLOCK_WRITE, "write"}, {DLOCK_ELECTION, "election"}};
#define SOLE (sizeof(sole) / sizeof(*sole))

TEST(a_hold_shows_the_data_of_the_handle_that_acquired_it)
{
    BEGIN();
    for (size_t i = 0; i < SOLE; i++) {
        char name[100];
        snprintf(name, sizeof(name), "%s/%s", __func__, sole[i].name);
        TWO_CLIENTS(client, other);
        if (!world_has_kind(client, sole[i].name))
            continue;
        dlock_kind kind = sole[i].kind;
        bool shows = shows_data(kind);
        DLOCK_AUTO(dlock_lock)
        looker = api_lock(other, kind, name, "lock.data=looker");
        DLOCK_AUTO(dlock_lock) none = api_lock(client, kind, name, NULL);
        DLOCK_AUTO(dlock_lock) one = api_lock(client, kind, name, "lock.data=one");
        DLOCK_AUTO(dlock_lock) two = api_lock(client, kind, name, "lock.data=two");
        dlock_lock *const locks[] = {two, none, one};
        static const char *const data[] = {"two", "", "one"};
        for (size_t j = 0; j < 3; j++) {
            DLOCK_AUTO(dlock_hold) hold = world_take(locks[j]);
            CHECK_STR(api_seen(looker, "holders.0.data"), shows ? data[j] : "");
            CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
        }
    }
}

TEST(who_comes_after_one_that_gave_up_shows_his_own_data)
{
    BEGIN();
    for (size_t i = 0; i < SOLE; i++) {
        char name[100];
        snprintf(name, sizeof(name), "%s/%s", __func__, sole[i].name);
        TWO_CLIENTS(client, other);
        if (!world_has_kind(client, sole[i].name))
            continue;
        dlock_kind kind = sole[i].kind;
        DLOCK_AUTO(dlock_lock) theirs = api_lock(other, kind, name, NULL);
        DLOCK_AUTO(dlock_lock) one = api_lock(client, kind, name, "lock.data=one");
        DLOCK_AUTO(dlock_hold) hold = world_take(theirs);
        DLOCK_AUTO(dlock_op) first = dlock_lock_acquire_start(one, DLOCK_FOREVER);
        DLOCK_AUTO(dlock_op) second = NULL;
        { /* the handle may go; what waits by it doesn't need it */
            DLOCK_AUTO(dlock_lock) two = api_lock(client, kind, name, "lock.data=two");
            second = dlock_lock_acquire_start(two, DLOCK_FOREVER);
        }
        AWAIT(api_stat(client, "waits") >= 1); /* the server said: held */
        dlock_op_cancel(first);
        ENDS(first, DLOCK_ECANCELED);
        CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
        ENDS(second, DLOCK_OK);
        DLOCK_AUTO(dlock_hold) next = dlock_op_take_hold(second);
        CHECK(next);
        CHECK_STR(api_seen(theirs, "holders.0.data"), shows_data(kind) ? "two" : "");
    }
}

TEST(a_writer_that_turns_reader_shows_its_data_still)
{
    BEGIN();
    TWO_CLIENTS(client, other);
    if (!world_has_kind(client, "write"))
        LEAVE_OUT("no read/write locks");
    DLOCK_AUTO(dlock_lock) looker = api_lock(other, DLOCK_READ, __func__, NULL);
    DLOCK_AUTO(dlock_lock)
    one = api_lock(client, DLOCK_READ, __func__, "lock.data=one");
    dlock_lock *two = api_lock(client, DLOCK_WRITE, __func__, "lock.data=two");
    DLOCK_AUTO(dlock_hold) hold = world_take(two);
    dlock_lock_free(two);
    CHECK_EQ_INT(dlock_hold_downgrade(hold, NULL), DLOCK_OK);
    AWAIT(strcmp(api_seen(looker, "kind"), "read") == 0);
    CHECK_STR(api_seen(looker, "holders.0.data"), shows_data(DLOCK_WRITE) ? "two" : "");
    CHECK_STR(api_seen(looker, "holders.0.owner"), dlock_hold_owner(hold));
}

TEST(holders_of_a_semaphore_show_each_its_own_data)
{
    BEGIN();
    TWO_CLIENTS(client, other);
    if (!world_has_kind(client, "semaphore"))
        LEAVE_OUT("no semaphores");
    DLOCK_AUTO(dlock_lock)
    looker = api_lock(other, DLOCK_SEMAPHORE, __func__, "lock.permits=2");
    DLOCK_AUTO(dlock_lock)
    one = api_lock(client, DLOCK_SEMAPHORE, __func__, "lock.permits=2 lock.data=sem1");
    DLOCK_AUTO(dlock_lock)
    two = api_lock(client, DLOCK_SEMAPHORE, __func__, "lock.permits=2 lock.data=sem2");
    DLOCK_AUTO(dlock_hold) first = world_take(one);
    DLOCK_AUTO(dlock_hold) second = world_take(two);
    DLOCK_AUTO(dlock_info) info = NULL;
    CHECK_EQ_INT(dlock_lock_inspect(looker, &info, NULL), DLOCK_OK);
    const char *shown[] = {dlock_info_get(info, "holders.0.data"),
                           dlock_info_get(info, "holders.1.data")};
    if (!shows_data(DLOCK_SEMAPHORE)) {
        CHECK(!shown[0] && !shown[1]);
        return;
    }
    CHECK(shown[0] && shown[1]);
    const char *owner = dlock_info_get(info, "holders.0.owner");
    /* On Redis permits are told by when they end, and their ids say no more than whose client's they are. */
    bool in_order = world_is("redis") || strcmp(owner, dlock_hold_owner(first)) == 0;
    CHECK_STR(shown[!in_order], "sem1");
    CHECK_STR(shown[in_order], "sem2");
}

TEST(another_hold_of_the_same_grant_shows_what_the_first_did)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_lock)
    one = api_lock(client, DLOCK_MUTEX, __func__, "lock.data=one");
    DLOCK_AUTO(dlock_lock)
    two = api_lock(client, DLOCK_MUTEX, __func__, "lock.data=two");
    DLOCK_AUTO(dlock_hold) first = world_take(one);
    DLOCK_AUTO(dlock_hold) again = world_take(two);
    CHECK_EQ_INT(dlock_hold_token(first), dlock_hold_token(again));
    CHECK_EQ_INT(dlock_hold_release(first, NULL), DLOCK_OK);
    CHECK_STR(api_seen(two, "holders.0.data"), shows_data(DLOCK_MUTEX) ? "one" : "");
}

/* ---- permits ---- */

/* How many there are, and how many of them nobody has. */
static void check_permits(int line, dlock_lock *lock, int64_t all, int64_t free)
{
    (void)harness_eq_int(__FILE__, line, "permits", world_seen(lock, "permits"), all);
    (void)harness_eq_int(__FILE__, line, "permits_free", world_seen(lock, "permits_free"),
                         free);
}
#define CHECK_PERMITS(lock, all, free)                                                   \
    do {                                                                                 \
        check_permits(__LINE__, (lock), (all), (free));                                  \
        if (harness_failed())                                                            \
            return;                                                                      \
    } while (0)

static void permits_of(const char *name, const char *form)
{
    char settings[100], more[130];
    snprintf(settings, sizeof(settings), "lock.permits=3 %s", form);
    TWO_CLIENTS(client, other);
    DLOCK_AUTO(dlock_lock) looker = api_lock(other, DLOCK_SEMAPHORE, name, settings);
    DLOCK_AUTO(dlock_lock) one = api_lock(client, DLOCK_SEMAPHORE, name, settings);
    snprintf(more, sizeof(more), "%s lock.take=2", settings);
    DLOCK_AUTO(dlock_lock) two = api_lock(client, DLOCK_SEMAPHORE, name, more);
    CHECK_PERMITS(looker, 3, 3); /* nobody has asked for any yet */
    DLOCK_AUTO(dlock_hold) first = world_take(one);
    CHECK_PERMITS(looker, 3, 2);
    DLOCK_AUTO(dlock_hold) second = world_take(two);
    CHECK_PERMITS(looker, 3, 0);
    /* Who waits has none, whatever he has there already. */
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(one, DLOCK_FOREVER);
    AWAIT(api_stat(client, "waits") == 1);
    CHECK_PERMITS(looker, 3, 0);
    DLOCK_AUTO(dlock_info) info = NULL;
    CHECK_EQ_INT(dlock_lock_inspect(looker, &info, NULL), DLOCK_OK);
    CHECK(!dlock_info_get(info, "holders.3.owner"));
    dlock_op_cancel(op);
    CHECK_EQ_INT(dlock_hold_release(second, NULL), DLOCK_OK);
    AWAIT(world_seen(looker, "permits_free") == 2);
    CHECK_PERMITS(looker, 3, 2);
    CHECK_EQ_INT(dlock_hold_release(first, NULL), DLOCK_OK);
    AWAIT(world_seen(looker, "permits_free") == 3);
    CHECK_PERMITS(looker, 3, 3);
    CHECK_EQ_INT(world_seen(looker, "held"), 0);
}

TEST(permits_are_how_many_there_are_and_permits_free_how_many_nobody_has)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    if (!world_has_kind(client, "semaphore"))
        LEAVE_OUT("no semaphores");
    permits_of(__func__, "");
    if (world_is("redis") && !harness_failed())
        permits_of("a plain semaphore", "redis.semaphore=plain");
}

TEST(a_lock_that_is_no_semaphore_has_no_permits)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_lock) lock = api_lock(client, DLOCK_MUTEX, __func__, NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    CHECK_EQ_INT(world_seen(lock, "permits"), -1);
    CHECK_EQ_INT(world_seen(lock, "permits_free"), -1);
}

/* ---- waiters ---- */

#define OWN 3

static void cancel_all(dlock_op *(*ops)[OWN])
{
    for (int i = 0; i < OWN; i++)
        dlock_op_free((*ops)[i]);
}

/* @p mine: the one who holds it asks; else a third. */
static void count_waiters(const char *name, size_t kind, bool mine)
{
    const char *settings = world_waited[kind].settings;
    dlock_kind wants = world_waited[kind].kind;
    TWO_CLIENTS(client, other);
    DLOCK_AUTO(dlock_client) third = world_client(NULL);
    DLOCK_AUTO(dlock_lock)
    held = api_lock(mine ? client : third, wants == DLOCK_READ ? DLOCK_WRITE : wants,
                    name, settings);
    DLOCK_AUTO(dlock_lock) own = api_lock(client, wants, name, settings);
    DLOCK_AUTO(dlock_lock) theirs = api_lock(other, wants, name, settings);
    dlock_op *ops[OWN] __attribute__((cleanup(cancel_all))) = {NULL};
    DLOCK_AUTO(dlock_hold) hold = world_take(held);
    for (int i = 0; i < OWN; i++) {
        ops[i] = dlock_lock_acquire_start(own, DLOCK_FOREVER);
        AWAIT(world_seen(own, "waiters") == i + 1);
    }
    int line = world_tells_the_line(wants);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(theirs, DLOCK_FOREVER);
    AWAIT(world_seen(own, "waiters") == OWN + line);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_EPENDING);
    for (int i = OWN; i-- > 0;) {
        dlock_op_cancel(ops[i]);
        CHECK_EQ_INT(dlock_op_wait(ops[i], patience_ms()), DLOCK_OK);
        int64_t left = i + line;
        AWAIT(world_seen(own, "waiters") == (left || line ? left : -1));
    }
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    ENDS(op, DLOCK_OK);
    AWAIT(world_seen(own, "waiters") == (line ? 0 : -1)); /* who holds it waits no more */
}

TEST(waiters_counts_those_of_the_client_that_asks)
{
    BEGIN();
    for (size_t i = 0; i < 2 * WORLD_WAITED; i++) {
        char name[100];
        DLOCK_AUTO(dlock_client) client = world_client(NULL);
        if (!world_has_kind(client, world_waited[i / 2].name))
            continue;
        snprintf(name, sizeof(name), "%s/%s/%d", __func__, world_waited[i / 2].name,
                 (int)(i % 2));
        count_waiters(name, i / 2, i % 2);
        if (harness_failed())
            return;
    }
}

TEST(waiters_counts_the_candidates_of_one_client_that_publish_different_things)
{
    BEGIN();
    TWO_CLIENTS(client, other);
    if (!world_has_kind(client, "election"))
        LEAVE_OUT("no elections");
    DLOCK_AUTO(dlock_lock) held = api_lock(other, DLOCK_ELECTION, __func__, NULL);
    DLOCK_AUTO(dlock_lock)
    a = api_lock(client, DLOCK_ELECTION, __func__, "lock.data=a");
    DLOCK_AUTO(dlock_lock)
    b = api_lock(client, DLOCK_ELECTION, __func__, "lock.data=b");
    DLOCK_AUTO(dlock_hold) hold = world_take(held);
    DLOCK_AUTO(dlock_op) one = dlock_lock_acquire_start(a, DLOCK_FOREVER);
    DLOCK_AUTO(dlock_op) two = dlock_lock_acquire_start(b, DLOCK_FOREVER);
    AWAIT(api_stat(client, "waits") == 2);
    CHECK_EQ_INT(world_seen(a, "waiters"), 2);
    CHECK_EQ_INT(world_seen(b, "waiters"), 2);
    bool tells = world_tells_the_line(DLOCK_ELECTION);
    if (tells)
        AWAIT(world_seen(held, "waiters") == 2);
    else
        CHECK_EQ_INT(world_seen(held, "waiters"), -1);
}
