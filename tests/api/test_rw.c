/* Read/write locks as a caller meets them: two sides of one name, nested holds, and the way from
 * the write to the read side. */
#include "world.h"

#include <stdio.h>
#include <string.h>

#define SIDE(var, client, kind)                                                          \
    DLOCK_AUTO(dlock_lock) var = api_lock((client), (kind), __func__, NULL)

/* Whether a client of its own gets this side at once; it is given back. */
static dlock_err try_side(dlock_kind kind, const char *name)
{
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_lock) lock = api_lock(client, kind, name, NULL);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    dlock_err code = dlock_lock_acquire(lock, 0, &hold, NULL);
    return code == DLOCK_OK ? dlock_hold_release(hold, NULL) : code;
}

static dlock_err try_in_thread(dlock_client *client, dlock_lock *lock)
{
    WAITER(other);
    world_wait_start(&other, client, lock, 0);
    return world_wait_end(&other);
}

/* ---- who excludes whom ---- */

TEST(readers_share_it_and_a_writer_is_alone)
{
    BEGIN();
    TWO_CLIENTS(one, two);
    SIDE(read, one, DLOCK_READ);
    SIDE(read_two, two, DLOCK_READ);
    SIDE(write, one, DLOCK_WRITE);
    DLOCK_AUTO(dlock_hold) first = world_take(read);
    DLOCK_AUTO(dlock_hold) second = world_take(read_two);
    CHECK_EQ_INT(try_in_thread(one, read), DLOCK_OK); /* another owner of the client */
    CHECK_EQ_INT(try_side(DLOCK_WRITE, __func__), DLOCK_EBUSY);
    CHECK_EQ_INT(try_in_thread(one, write), DLOCK_EBUSY);
    CHECK_EQ_INT(dlock_hold_release(first, NULL), DLOCK_OK);
    CHECK_EQ_INT(try_side(DLOCK_WRITE, __func__), DLOCK_EBUSY); /* one is left */
    CHECK_EQ_INT(dlock_hold_check(second), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(second, NULL), DLOCK_OK);
    DLOCK_AUTO(dlock_hold) writer = world_take(write);
    CHECK_EQ_INT(try_side(DLOCK_WRITE, __func__), DLOCK_EBUSY);
    CHECK_EQ_INT(try_side(DLOCK_READ, __func__), DLOCK_EBUSY);
    CHECK_EQ_INT(try_in_thread(one, read), DLOCK_EBUSY);
    CHECK_EQ_INT(dlock_hold_release(writer, NULL), DLOCK_OK);
    CHECK_EQ_INT(try_side(DLOCK_READ, __func__), DLOCK_OK);
}

TEST(tokens_rise_from_grant_to_grant_so_that_no_writers_is_smaller_than_a_readers_before)
{
    BEGIN();
    TWO_CLIENTS(one, two);
    int64_t last = 0;
    for (int i = 0; i < 3; i++) {
        SIDE(read, one, DLOCK_READ);
        SIDE(read_two, two, DLOCK_READ);
        SIDE(write, two, DLOCK_WRITE);
        DLOCK_AUTO(dlock_hold) first = world_take(read);
        DLOCK_AUTO(dlock_hold) second = world_take(read_two);
        CHECK(dlock_hold_token(first) > last);
        CHECK(dlock_hold_token(second) > dlock_hold_token(first));
        CHECK_EQ_INT(dlock_hold_release(first, NULL), DLOCK_OK);
        CHECK_EQ_INT(dlock_hold_release(second, NULL), DLOCK_OK);
        DLOCK_AUTO(dlock_hold) writer = world_take(write);
        CHECK(dlock_hold_token(writer) > dlock_hold_token(second));
        last = dlock_hold_token(writer);
        CHECK_EQ_INT(dlock_hold_release(writer, NULL), DLOCK_OK);
    }
}

TEST(one_reader_may_be_broken_while_the_other_goes_on_reading)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    TWO_CLIENTS(one, two);
    SIDE(read, one, DLOCK_READ);
    SIDE(read_two, two, DLOCK_READ);
    DLOCK_AUTO(dlock_hold) first = world_take(read);
    DLOCK_AUTO(dlock_hold) second = world_take(read_two);
    CHECK_OK(dlock_lock_break(read_two, dlock_hold_owner(first), &err), err);
    CHECK_EQ_INT(dlock_hold_verify(first, NULL), DLOCK_ELOST);
    CHECK_OK(dlock_hold_verify(second, &err), err);
    CHECK_EQ_INT(try_side(DLOCK_WRITE, __func__), DLOCK_EBUSY);
    CHECK_EQ_INT(dlock_hold_release(second, NULL), DLOCK_OK);
    CHECK_EQ_INT(try_side(DLOCK_WRITE, __func__), DLOCK_OK);
}

TEST(another_kind_on_the_name_is_a_conflict_both_ways)
{
    BEGIN();
    static const struct {
        dlock_kind kind;
        const char *settings, *name;
    } others[] = {
        {DLOCK_MUTEX, NULL, "mutex"},
        {DLOCK_MUTEX, "lock.fair=true", "fair"},
        {DLOCK_ELECTION, NULL, "election"},
        {DLOCK_SEMAPHORE, "lock.permits=2", "permits"},
        {DLOCK_SEMAPHORE, "lock.permits=2 redis.semaphore=plain", "plain permits"},
    };
    static const dlock_kind sides[] = {DLOCK_READ, DLOCK_WRITE};
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        const char *name = others[i].name;
        harness_note("%s", name);
        DLOCK_AUTO(dlock_lock)
        other = api_lock(client, others[i].kind, name, others[i].settings);
        DLOCK_AUTO(dlock_hold) none = NULL;
        for (int j = 0; j < 2; j++) {
            DLOCK_AUTO(dlock_lock) own = api_lock(client, sides[j], name, NULL);
            DLOCK_AUTO(dlock_hold) hold = world_take(own);
            CHECK_EQ_INT(dlock_lock_acquire(other, 0, &none, NULL), DLOCK_ECONFLICT);
            CHECK_EQ_INT(dlock_hold_verify(hold, NULL), DLOCK_OK);
            CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
        }
        DLOCK_AUTO(dlock_hold) held = world_take(other);
        CHECK_EQ_INT(try_side(DLOCK_READ, name), DLOCK_ECONFLICT);
        CHECK_EQ_INT(try_side(DLOCK_WRITE, name), DLOCK_ECONFLICT);
        CHECK_EQ_INT(dlock_hold_verify(held, NULL), DLOCK_OK);
        CHECK_EQ_INT(dlock_hold_release(held, NULL), DLOCK_OK);
    }
}

TEST(fair_read_write_locks_are_refused_where_there_are_none)
{
    BEGIN();
    if (!world_is_one_redis())
        LEAVE_OUT("they are fair here");
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_conf) fair = api_conf("lock.fair=true");
    DLOCK_AUTO(dlock_conf) string = api_conf("redis.layout=string");
    dlock_lock *lock = NULL;
    CHECK_ERR(dlock_lock_new(client, DLOCK_READ, __func__, fair, &lock, &err),
              DLOCK_ENOTSUP, err);
    CHECK_CONTAINS(dlock_error_text(err), "fair");
    CHECK_ERR(dlock_lock_new(client, DLOCK_WRITE, __func__, string, &lock, &err),
              DLOCK_ENOTSUP, err);
    CHECK_CONTAINS(dlock_error_text(err), "read/write");
}

/* ---- waking up ---- */

TEST(a_writer_that_waits_gets_it_when_the_last_reader_goes)
{
    BEGIN();
    TWO_CLIENTS(one, two);
    SIDE(read, one, DLOCK_READ);
    SIDE(read_two, two, DLOCK_READ);
    SIDE(write, two, DLOCK_WRITE);
    DLOCK_AUTO(dlock_hold) first = world_take(read);
    DLOCK_AUTO(dlock_hold) second = world_take(read_two);
    WAITER(writer);
    world_wait_start(&writer, two, write, patience_ms());
    AWAIT(world_asleep(writer.tid));
    CHECK_EQ_INT(dlock_hold_release(second, NULL), DLOCK_OK);
    AWAIT(api_stat(two, "waits") == 1); /* now it asks, and is told of our reader */
    CHECK(!writer.over);
    CHECK_EQ_INT(dlock_hold_release(first, NULL), DLOCK_OK);
    CHECK_EQ_INT(world_wait_end(&writer), DLOCK_OK);
}

TEST(all_readers_that_wait_get_it_when_the_writer_goes_or_turns)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    TWO_CLIENTS(one, two);
    SIDE(write, one, DLOCK_WRITE);
    SIDE(read, one, DLOCK_READ);
    SIDE(read_two, two, DLOCK_READ);
    for (int turns = 0; turns < 2; turns++) {
        DLOCK_AUTO(dlock_hold) hold = world_take(write);
        WAITER(own);
        WAITER(other);
        WAITER(third);
        int64_t waits = api_stat(two, "waits");
        world_wait_start(&own, one, read, patience_ms());
        world_wait_start(&other, two, read_two, patience_ms());
        AWAIT(api_stat(two, "waits") > waits);
        world_wait_start(&third, two, read_two, patience_ms());
        AWAIT(world_asleep(own.tid) && world_asleep(third.tid));
        if (turns)
            CHECK_OK(dlock_hold_downgrade(hold, &err), err);
        else
            CHECK_OK(dlock_hold_release(hold, &err), err);
        CHECK_EQ_INT(world_wait_end(&own), DLOCK_OK);
        CHECK_EQ_INT(world_wait_end(&other), DLOCK_OK);
        CHECK_EQ_INT(world_wait_end(&third), DLOCK_OK);
        CHECK_EQ_INT(dlock_hold_check(hold), turns ? DLOCK_OK : DLOCK_ENOTHELD);
    }
}

TEST(a_writer_that_gives_up_lets_the_readers_behind_it_in)
{
    BEGIN();
    TWO_CLIENTS(one, two);
    SIDE(read, one, DLOCK_READ);
    SIDE(write, two, DLOCK_WRITE);
    SIDE(read_two, two, DLOCK_READ);
    DLOCK_AUTO(dlock_hold) first = world_take(read);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(write, DLOCK_FOREVER);
    AWAIT(api_stat(two, "waits") == 1);
    WAITER(reader);
    world_wait_start(&reader, two, read_two, patience_ms());
    AWAIT(world_asleep(reader.tid));
    CHECK(!reader.over); /* in its own client nobody passes a writer that came before */
    dlock_op_cancel(op);
    CHECK_EQ_INT(world_wait_end(&reader), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_ECANCELED);
}

/* One line for both sides: the clients come in the order in which they asked. */
TEST(a_writer_waits_for_no_reader_that_came_after_it)
{
    BEGIN();
    if (!world_is_fair())
        LEAVE_OUT("readers may pass a writer");
    DLOCK_AUTO(dlock_client) one = world_client(NULL);
    DLOCK_AUTO(dlock_client) two = world_client(NULL);
    DLOCK_AUTO(dlock_client) three = world_client(NULL);
    DLOCK_AUTO(dlock_client) four = world_client(NULL);
    SIDE(read, one, DLOCK_READ);
    SIDE(write, two, DLOCK_WRITE);
    SIDE(read_three, three, DLOCK_READ);
    SIDE(read_four, four, DLOCK_READ);
    DLOCK_AUTO(dlock_hold) first = world_take(read);
    DLOCK_AUTO(dlock_op) writes = dlock_lock_acquire_start(write, DLOCK_FOREVER);
    AWAIT(api_stat(two, "waits") == 1);
    CHECK_EQ_INT(try_side(DLOCK_READ, __func__), DLOCK_EBUSY);
    DLOCK_AUTO(dlock_op) third = dlock_lock_acquire_start(read_three, DLOCK_FOREVER);
    DLOCK_AUTO(dlock_op) fourth = dlock_lock_acquire_start(read_four, DLOCK_FOREVER);
    AWAIT(api_stat(three, "waits") == 1 && api_stat(four, "waits") == 1);
    CHECK_EQ_INT(dlock_hold_release(first, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(writes, patience_ms()), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(third, SHORT_MS), DLOCK_EPENDING);
    DLOCK_AUTO(dlock_hold) writer = dlock_op_take_hold(writes);
    CHECK_EQ_INT(dlock_hold_release(writer, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(third, patience_ms()), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(fourth, patience_ms()), DLOCK_OK); /* both */
    DLOCK_AUTO(dlock_hold) reads = dlock_op_take_hold(third);
    DLOCK_AUTO(dlock_hold) reads_too = dlock_op_take_hold(fourth);
    CHECK(dlock_hold_token(reads) > dlock_hold_token(writer));
    CHECK(dlock_hold_token(reads) != dlock_hold_token(reads_too));
}

/* ---- nested ---- */

TEST(a_thread_that_writes_may_read_as_well_with_the_same_grant)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    SIDE(write, client, DLOCK_WRITE);
    SIDE(read, client, DLOCK_READ);
    DLOCK_AUTO(dlock_hold) outer = world_take(write);
    int64_t commands = api_stat(client, "commands");
    DLOCK_AUTO(dlock_hold) inner = world_take(read);
    CHECK_EQ_INT(api_stat(client, "commands"), commands);
    CHECK_EQ_INT(dlock_hold_token(inner), dlock_hold_token(outer));
    CHECK_STR(dlock_hold_owner(inner), dlock_hold_owner(outer));
    CHECK_OK(dlock_hold_release(inner, &err), err);
    CHECK_EQ_INT(try_side(DLOCK_READ, __func__), DLOCK_EBUSY); /* it writes still */
    DLOCK_AUTO(dlock_hold) again = world_take(read);
    CHECK_OK(dlock_hold_release(outer, &err), err); /* … and now it only reads */
    CHECK_OK(dlock_hold_check(again), err);
    CHECK_EQ_INT(dlock_hold_token(again), dlock_hold_token(outer));
    CHECK_EQ_INT(try_side(DLOCK_READ, __func__), DLOCK_OK);
    CHECK_EQ_INT(try_side(DLOCK_WRITE, __func__), DLOCK_EBUSY);
    DLOCK_AUTO(dlock_hold) none = NULL;
    CHECK_ERR(dlock_lock_acquire(write, patience_ms(), &none, &err), DLOCK_EDEADLK, err);
    CHECK_OK(dlock_hold_release(again, &err), err);
    CHECK_EQ_INT(try_side(DLOCK_WRITE, __func__), DLOCK_OK);
}

TEST(whoever_is_no_thread_does_not_nest)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client("lock.owner=none");
    SIDE(write, client, DLOCK_WRITE);
    SIDE(read, client, DLOCK_READ);
    DLOCK_AUTO(dlock_hold) writer = world_take(write);
    DLOCK_AUTO(dlock_hold) reader = NULL;
    CHECK_EQ_INT(dlock_lock_acquire(read, 0, &reader, NULL), DLOCK_EBUSY);
    CHECK_EQ_INT(dlock_hold_downgrade(writer, NULL), DLOCK_OK);
    reader = world_take(read);
    CHECK(dlock_hold_token(reader) > dlock_hold_token(writer)); /* grants of their own */
}

/* ---- from write to read ---- */

TEST(a_downgrade_keeps_hold_and_token_and_lets_others_read)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    SIDE(write, client, DLOCK_WRITE);
    DLOCK_AUTO(dlock_hold) hold = world_take(write);
    int64_t token = dlock_hold_token(hold);
    CHECK_OK(dlock_hold_downgrade(hold, &err), err);
    CHECK_EQ_INT(dlock_hold_state(hold), DLOCK_HELD);
    CHECK_EQ_INT(dlock_hold_token(hold), token);
    CHECK_OK(dlock_hold_verify(hold, &err), err);
    CHECK_EQ_INT(try_side(DLOCK_READ, __func__), DLOCK_OK);
    CHECK_EQ_INT(try_side(DLOCK_WRITE, __func__), DLOCK_EBUSY);
    DLOCK_AUTO(dlock_info) info = NULL;
    CHECK_OK(dlock_lock_inspect(write, &info, &err), err);
    CHECK_STR(dlock_info_get(info, "kind"), "read");
    CHECK_STR(dlock_info_get(info, "holders.0.owner"), dlock_hold_owner(hold));
    CHECK_EQ_INT(world_seen(write, "holders.0.token"), token);
    CHECK_OK(dlock_hold_extend(hold, 60000, &err), err);
    CHECK(dlock_hold_remaining_ms(hold) > 50000);
    CHECK_OK(dlock_hold_release(hold, &err), err);
    CHECK_EQ_INT(try_side(DLOCK_WRITE, __func__), DLOCK_OK);
}

TEST(a_downgrade_and_its_release_may_follow_each_other_at_once)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    SIDE(write, client, DLOCK_WRITE);
    for (int i = 0; i < 20; i++) {
        DLOCK_AUTO(dlock_hold) hold = world_take(write);
        CHECK_EQ_INT(dlock_hold_downgrade(hold, NULL), DLOCK_OK);
        CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    }
    CHECK_EQ_INT(api_stat(client, "losses"), 0);
    CHECK_EQ_INT(try_side(DLOCK_WRITE, __func__), DLOCK_OK);
}

TEST(what_cannot_be_downgraded_says_why)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    SIDE(write, client, DLOCK_WRITE);
    SIDE(read, client, DLOCK_READ);
    CHECK_ERR(dlock_hold_downgrade(NULL, &err), DLOCK_EINVAL, err);
    DLOCK_AUTO(dlock_lock) plain = world_lock(client, "a_plain_one", NULL);
    DLOCK_AUTO(dlock_hold) mutex = world_take(plain);
    CHECK_ERR(dlock_hold_downgrade(mutex, &err), DLOCK_ENOTSUP, err);
    DLOCK_AUTO(dlock_hold) reader = world_take(read);
    CHECK_ERR(dlock_hold_downgrade(reader, &err), DLOCK_ENOTSUP, err);
    CHECK_EQ_INT(dlock_hold_release(reader, NULL), DLOCK_OK);
    CHECK_ERR(dlock_hold_downgrade(reader, &err), DLOCK_ENOTHELD, err);
    DLOCK_AUTO(dlock_hold) first = world_take(write);
    DLOCK_AUTO(dlock_hold) second = world_take(write);
    CHECK_ERR(dlock_hold_downgrade(first, &err), DLOCK_EBUSY, err);
    CHECK_EQ_INT(dlock_hold_release(second, NULL), DLOCK_OK);
    CHECK_OK(dlock_hold_downgrade(first, &err), err);
    CHECK_ERR(dlock_hold_downgrade(first, &err), DLOCK_ENOTSUP, err); /* it reads now */
    CHECK_EQ_INT(dlock_hold_release(first, NULL), DLOCK_OK);
    DLOCK_AUTO(dlock_hold) lost = world_take(write);
    CHECK_OK(dlock_lock_break(write, NULL, &err), err);
    CHECK_EQ_INT(dlock_hold_verify(lost, NULL), DLOCK_ELOST);
    CHECK_ERR(dlock_hold_downgrade(lost, &err), DLOCK_ELOST, err);
}

TEST(a_client_that_closes_gives_both_sides_back)
{
    BEGIN();
    static const dlock_kind sides[] = {DLOCK_READ, DLOCK_WRITE, DLOCK_WRITE};
    for (int i = 0; i < 3; i++) {
        DLOCK_AUTO(dlock_client) client = world_client(NULL);
        SIDE(own, client, sides[i]);
        DLOCK_AUTO(dlock_hold) hold = world_take(own);
        if (i == 2)
            CHECK_EQ_INT(dlock_hold_downgrade(hold, NULL), DLOCK_OK);
        CHECK_EQ_INT(dlock_client_close(client, NULL), DLOCK_OK);
        CHECK_EQ_INT(try_side(DLOCK_WRITE, __func__), DLOCK_OK);
    }
}

/* ---- all at once ---- */

#define ROUNDS 40

typedef struct mix {
    dlock_client *clients[2];
    const char *name;
    atomic_int readers, writers, wrong, together;
    atomic_int numbers;
} mix;

static void read_or_write(mix *m, dlock_hold *hold, bool write)
{
    int readers = write ? atomic_load(&m->readers) : atomic_fetch_add(&m->readers, 1);
    int writers = write ? atomic_fetch_add(&m->writers, 1) : atomic_load(&m->writers);
    bool wrong = writers > 0 || (write && readers > 0);
    if (!write && readers > 0)
        atomic_fetch_add(&m->together, 1);
    nap_ms(1);
    if (write && atomic_load(&m->readers) > 0)
        wrong = true;
    atomic_fetch_sub(write ? &m->writers : &m->readers, 1);
    if (wrong && dlock_hold_check(hold) == DLOCK_OK)
        atomic_fetch_add(&m->wrong, 1);
}

static void *mixed(void *arg)
{
    mix *m = arg;
    int me = atomic_fetch_add(&m->numbers, 1);
    dlock_client *client = m->clients[me % 2];
    DLOCK_AUTO(dlock_lock) read = api_lock(client, DLOCK_READ, m->name, NULL);
    DLOCK_AUTO(dlock_lock) write = api_lock(client, DLOCK_WRITE, m->name, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        bool writes = (i + me) % 4 == 0;
        DLOCK_AUTO(dlock_hold) hold = world_take(writes ? write : read);
        if (!hold)
            break;
        read_or_write(m, hold, writes);
        if (writes && i % 3 == 0) {
            if (dlock_hold_downgrade(hold, NULL) != DLOCK_OK)
                atomic_fetch_add(&m->wrong, 1);
            read_or_write(m, hold, false);
        }
        if (dlock_hold_release(hold, NULL) != DLOCK_OK)
            atomic_fetch_add(&m->wrong, 1);
    }
    return NULL;
}

TEST(readers_and_writers_of_two_clients_never_meet)
{
    BEGIN();
    mix m = {.name = __func__};
    TWO_CLIENTS(one, two);
    m.clients[0] = one;
    m.clients[1] = two;
    pthread_t threads[8];
    int count = 0;
    while (count < 8 && pthread_create(&threads[count], NULL, mixed, &m) == 0)
        count++;
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ_INT(count, 8);
    CHECK_EQ_INT(m.wrong, 0);
    CHECK(m.together > 0); /* or it would be no more than a mutex */
    CHECK_EQ_INT(api_stat(one, "losses") + api_stat(two, "losses"), 0);
    CHECK_EQ_INT(try_side(DLOCK_WRITE, __func__), DLOCK_OK);
}
