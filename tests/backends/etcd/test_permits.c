/* Semaphores on etcd: what is counted, on a real server. */
#include "world.h"

TEST(permits_are_counted_and_another_size_is_a_conflict)
{
    BEGIN();
    CLIENT(a, "");
    CLIENT(b, "");
    LOCK(two, a, DLOCK_SEMAPHORE, "permits/size", "lock.permits=3 lock.take=2");
    LOCK(one, b, DLOCK_SEMAPHORE, "permits/size", "lock.permits=3");
    LOCK(wrong, b, DLOCK_SEMAPHORE, "permits/size", "lock.permits=4");
    HOLD(first, two);
    CHECK_EQ_INT(dlock_hold_token(first), 0);
    dlock_err code;
    CHECK(!world_take(wrong, 0, &code));
    CHECK_EQ_INT(code, DLOCK_ECONFLICT);
    HOLD(second, one);
    CHECK(second);
    CHECK(!world_take(one, 0, &code));
    CHECK_EQ_INT(code, DLOCK_EBUSY);
    CHECK_EQ_INT(world_seen(one, "holders.0.count"), 2);
    DLOCK_AUTO(dlock_op) third = dlock_lock_acquire_start(one, DLOCK_FOREVER);
    AWAIT(world_seen(two, "waiters") == 1);
    CHECK_EQ_INT(dlock_hold_release(first, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(third, PATIENCE_MS), DLOCK_OK);
}

/* Of a mutex' line only the nearest are read. */
TEST(every_place_counts_however_many_there_are)
{
    enum { MANY = 20 };
    dlock_hold *holds[MANY];
    BEGIN();
    CLIENT(a, "");
    CLIENT(b, "");
    LOCK(many, a, DLOCK_SEMAPHORE, "permits/many", "lock.permits=20");
    LOCK(more, b, DLOCK_SEMAPHORE, "permits/many", "lock.permits=20");
    dlock_err code;
    for (int i = 0; i < MANY; i++)
        holds[i] = world_take(many, PATIENCE_MS, NULL);
    CHECK(!world_take(more, 0, &code));
    CHECK_EQ_INT(code, DLOCK_EBUSY);
    CHECK_EQ_INT(dlock_hold_release(holds[0], NULL), DLOCK_OK);
    HOLD(one, more);
    CHECK(one);
    for (int i = 0; i < MANY; i++)
        dlock_hold_free(holds[i]);
}
