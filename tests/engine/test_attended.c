/* For how many the engine's thread has to drive while nobody sleeps in a call: one too few, and what comes for
 * whoever only listens lies unread. */
#include "api/handles.h"

#include "harness/harness.h"
#include "harness/time.h"

static int attended(const dlock_client *client)
{
    dlk_stay stay;
    if (!dlk_engine_enter(client->engine, &stay))
        return -1;
    int count = client->engine->attended;
    dlk_engine_leave(client->engine, &stay);
    return count;
}

TEST(the_engine_drives_for_a_wait_for_a_signal_unless_its_caller_does)
{
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_cond) cond = NULL;
    DLOCK_AUTO(dlock_lock) lock = NULL;
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_hold) again = NULL;
    CHECK_EQ_INT(dlock_client_open("mem:", NULL, &client, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_cond_new(client, "n/changed", NULL, &cond, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_lock_new(client, DLOCK_MUTEX, "n", NULL, &lock, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_lock_acquire(lock, DLOCK_FOREVER, &hold, NULL), DLOCK_OK);
    CHECK_EQ_INT(attended(client), 0);
    CHECK_EQ_INT(dlock_cond_wait(cond, hold, 1, &again, NULL), DLOCK_ETIMEDOUT);
    CHECK_EQ_INT(dlock_hold_check(again), DLOCK_OK);
    CHECK_EQ_INT(attended(client), 0);
    for (int called_off = 0; called_off < 2; called_off++) {
        dlock_op *op = dlock_cond_wait_start(cond, NULL, DLOCK_FOREVER);
        CHECK_EQ_INT(dlock_op_result(op), DLOCK_EPENDING);
        CHECK_EQ_INT(attended(client), 1);
        if (called_off)
            dlock_op_cancel(op);
        else
            CHECK_EQ_INT(dlock_cond_signal(cond, 1, NULL, NULL, NULL), DLOCK_OK);
        CHECK_EQ_INT(dlock_op_wait(op, DLOCK_FOREVER), DLOCK_OK);
        dlock_op_free(op);
        AWAIT(attended(client) == 0);
    }
}
