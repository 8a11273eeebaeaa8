/* Operations: they complete exactly once, in whatever order they are asked, cancelled and freed. */
#include "world.h"

#include <string.h>

#define END_OF(op) CHECK_EQ_INT(dlock_op_wait((op), patience_ms()), DLOCK_OK)

TEST(a_running_op_is_pending_in_every_respect)
{
    BEGIN();
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
    CHECK(op != NULL);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_EPENDING);
    CHECK_EQ_INT(dlock_op_wait(op, 0), DLOCK_EPENDING);
    CHECK_EQ_INT(dlock_op_wait(op, 20), DLOCK_EPENDING);
    CHECK(dlock_op_error(op) == NULL);
    CHECK(dlock_op_take_hold(op) == NULL);
    CHECK(dlock_op_take_info(op) == NULL);
    CHECK_EQ_INT(dlock_op_wait(op, -2), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_op_result(op),
                 DLOCK_EPENDING); /* the end of a wait ends nothing else */
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    END_OF(op);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_OK);
}

TEST(a_finished_op_hands_its_hold_over_once)
{
    BEGIN();
    CLIENT_WITH_LOCK(client, lock, __func__, NULL);
    dlock_op *op = dlock_lock_acquire_start(lock, 0);
    END_OF(op);
    CHECK_EQ_INT(dlock_op_wait(op, 0), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(op, DLOCK_FOREVER), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_OK);
    CHECK(dlock_op_error(op) == NULL);
    DLOCK_AUTO(dlock_hold) hold = dlock_op_take_hold(op);
    CHECK(hold != NULL);
    CHECK(dlock_op_take_hold(op) == NULL);
    CHECK(dlock_op_take_info(op) == NULL);
    dlock_op_free(op);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK); /* what was taken lives on */
}

TEST(a_failed_op_lends_its_error_until_it_is_freed)
{
    BEGIN();
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, 0);
    END_OF(op);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_EBUSY);
    CHECK(dlock_op_take_hold(op) == NULL);
    const dlock_error *error = dlock_op_error(op);
    CHECK_EQ_INT(dlock_error_code(error), DLOCK_EBUSY);
    CHECK_CONTAINS(dlock_error_text(error), __func__);
    CHECK(dlock_op_error(op) == error);
}

TEST(an_untaken_hold_is_released_when_its_op_is_freed)
{
    BEGIN();
    CLIENT_WITH_LOCK(client, lock, __func__, NULL);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, 0);
    END_OF(op);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_OK);
    CHECK_EQ_INT(world_try(__func__), DLOCK_EBUSY);
    dlock_op_free(op);
    op = NULL;
    AWAIT(world_try(__func__) == DLOCK_OK);
}

TEST(freeing_a_running_op_takes_its_wish_back)
{
    BEGIN();
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    CLIENT_WITH_LOCK(other, theirs, __func__, NULL);
    for (int i = 0; i < 20; i++) {
        dlock_op *op = dlock_lock_acquire_start(theirs, DLOCK_FOREVER);
        if (i % 2)
            CHECK_EQ_INT(dlock_op_wait(op, 1), DLOCK_EPENDING);
        dlock_op_free(op);
    }
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    AWAIT(world_try(__func__) == DLOCK_OK);
}

TEST(cancelling_is_prompt_and_leaves_nothing_held)
{
    BEGIN();
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    CLIENT_WITH_LOCK(other, theirs, __func__, NULL);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(theirs, DLOCK_FOREVER);
    dlock_op_cancel(op);
    dlock_op_cancel(op);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_ECANCELED); /* without any wait */
    CHECK_EQ_INT(dlock_error_code(dlock_op_error(op)), DLOCK_ECANCELED);
    CHECK(dlock_op_take_hold(op) == NULL);
    CHECK_EQ_INT(api_stat(other, "cancels"), 1);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    AWAIT(world_try(__func__) == DLOCK_OK);
}

TEST(cancelling_a_finished_op_changes_nothing)
{
    BEGIN();
    CLIENT_WITH_LOCK(client, lock, __func__, NULL);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, 0);
    END_OF(op);
    dlock_op_cancel(op);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_OK);
    DLOCK_AUTO(dlock_hold) hold = dlock_op_take_hold(op);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
}

TEST(a_cancel_that_races_with_the_grant_ends_in_exactly_one_of_both)
{
    BEGIN();
    CLIENT_WITH_LOCK(client, lock, __func__, NULL);
    CLIENT_WITH_LOCK(other, theirs, __func__, NULL);
    int granted = 0;
    for (int i = 0; i < 100; i++) {
        DLOCK_AUTO(dlock_hold) hold = world_take(lock);
        DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(theirs, DLOCK_FOREVER);
        CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
        dlock_op_cancel(op);
        END_OF(op);
        DLOCK_AUTO(dlock_hold) got = dlock_op_take_hold(op);
        CHECK(dlock_op_result(op) == (got ? DLOCK_OK : DLOCK_ECANCELED));
        granted += got != NULL;
        CHECK(!got || dlock_hold_release(got, NULL) == DLOCK_OK);
    }
    harness_note("granted first: %d of 100", granted);
    AWAIT(world_try(__func__) == DLOCK_OK);
}

TEST(several_threads_may_wait_for_one_op)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, __func__, "lock.owner=none");
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
    WAITER(beside); /* another sleeper of the client, to be passed over */
    world_wait_start(&beside, client, lock, SHORT_MS);
    dlock_op *twin = dlock_hold_release_start(hold);
    END_OF(op);
    END_OF(twin);
    CHECK_EQ_INT(dlock_op_result(twin), DLOCK_OK);
    dlock_op_free(twin);
    CHECK_EQ_INT(world_wait_end(&beside), DLOCK_ETIMEDOUT);
}

/* Ends an op of any kind and says how it ended. */
static dlock_err outcome(dlock_op *op, dlock_info **info)
{
    dlock_err code = DLOCK_EPENDING;
    if (op && dlock_op_wait(op, patience_ms()) == DLOCK_OK)
        code = dlock_op_result(op);
    if (info)
        *info = dlock_op_take_info(op);
    dlock_op_free(op);
    return code;
}

TEST(every_call_with_io_has_an_op_form_with_the_same_answer)
{
    BEGIN();
    CLIENT_WITH_LOCK(client, lock, __func__, "client.lazy=true");
    DLOCK_AUTO(dlock_info) seen = NULL;
    DLOCK_AUTO(dlock_info) listed = NULL;
    DLOCK_AUTO(dlock_info) found = NULL;
    CHECK_EQ_INT(outcome(dlock_client_connect_start(client), NULL), DLOCK_OK);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    CHECK_EQ_INT(outcome(dlock_hold_verify_start(hold), NULL), DLOCK_OK);
    CHECK_EQ_INT(outcome(dlock_hold_extend_start(hold, 40000), NULL), DLOCK_OK);
    CHECK(dlock_hold_remaining_ms(hold) > 30000);
    CHECK_EQ_INT(outcome(dlock_lock_inspect_start(lock), &seen), DLOCK_OK);
    CHECK_STR(dlock_info_get(seen, "holders.0.owner"), dlock_hold_owner(hold));
    CHECK_EQ_INT(outcome(dlock_client_list_start(client, __func__, 10), &listed),
                 DLOCK_OK);
    CHECK_STR(dlock_info_get(listed, "locks.0.name"), __func__);
    CHECK_EQ_INT(outcome(dlock_client_doctor_start(client), &found), DLOCK_OK);
    CHECK(dlock_info_get(found, "verdict") != NULL);
    CHECK_EQ_INT(outcome(dlock_lock_wait_idle_start(lock, 0), NULL), DLOCK_EBUSY);
    CHECK_EQ_INT(outcome(dlock_lock_break_start(lock, "nobody"), NULL), DLOCK_ENOTHELD);
    CHECK_EQ_INT(outcome(dlock_hold_release_start(hold), NULL), DLOCK_OK);
    CHECK_EQ_INT(outcome(dlock_hold_release_start(hold), NULL), DLOCK_ENOTHELD);
    CHECK_EQ_INT(outcome(dlock_lock_wait_idle_start(lock, 5000), NULL), DLOCK_OK);
    dlock_err revoked =
        outcome(dlock_lock_revoke_start(lock), NULL); /* nobody holds it */
    CHECK(revoked == DLOCK_ENOTHELD || revoked == DLOCK_ENOTSUP);
    CHECK_EQ_INT(outcome(dlock_client_import_start(client, "x"), NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(outcome(dlock_client_close_start(client), NULL), DLOCK_OK);
    CHECK_EQ_INT(outcome(dlock_client_close_start(client), NULL), DLOCK_OK);
}

TEST(cancelling_a_release_stops_the_waiting_but_not_the_release)
{
    BEGIN();
    CLIENT_WITH_LOCK(client, lock, __func__, NULL);
    for (int i = 0; i < 20; i++) {
        DLOCK_AUTO(dlock_hold) hold = world_take(lock);
        DLOCK_AUTO(dlock_op) op = dlock_hold_release_start(hold);
        dlock_op_cancel(op);
        END_OF(op);
        CHECK(dlock_op_result(op) == DLOCK_OK || dlock_op_result(op) == DLOCK_ECANCELED);
        CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_ENOTHELD);
    }
    AWAIT(world_try(__func__) == DLOCK_OK);
}

TEST(freeing_ops_of_every_kind_while_they_run_is_fine)
{
    BEGIN();
    CLIENT_WITH_LOCK(client, lock, __func__, NULL);
    for (int i = 0; i < 10; i++) {
        DLOCK_AUTO(dlock_hold) hold = world_take(lock);
        dlock_op_free(dlock_hold_verify_start(hold));
        dlock_op_free(dlock_hold_extend_start(hold, 50000));
        dlock_op_free(dlock_lock_inspect_start(lock));
        dlock_op_free(dlock_lock_wait_idle_start(lock, DLOCK_FOREVER));
        dlock_op_free(dlock_client_list_start(client, NULL, 100));
        dlock_op_free(dlock_client_doctor_start(client));
        dlock_op_free(dlock_client_connect_start(client));
        dlock_op_free(dlock_hold_release_start(hold));
    }
    AWAIT(world_try(__func__) == DLOCK_OK);
    dlock_op_free(dlock_client_close_start(client));
}

/* Carries one step out on an op; what it answers must fit to what was answered before. */
static void step(char what, dlock_op *op, dlock_hold **hold)
{
    dlock_err before = dlock_op_result(op), code = before;
    if (what == 'n')
        code = dlock_op_notify(op, 1);
    else if (what == 'w')
        code = dlock_op_wait(op, 0);
    else if (what == 't')
        *hold = *hold ? *hold : dlock_op_take_hold(op);
    else if (what == 'c')
        dlock_op_cancel(op);
    else
        CHECK((dlock_op_error(op) != NULL) == (before == DLOCK_ECANCELED));
    dlock_err after = dlock_op_result(op);
    CHECK(before == DLOCK_EPENDING || after == before);
    CHECK(after == DLOCK_EPENDING || after == DLOCK_OK || after == DLOCK_ECANCELED);
    if (what == 'n' || what == 'w')
        CHECK(code == DLOCK_OK || (code == DLOCK_EPENDING && before == DLOCK_EPENDING));
    CHECK(what != 'c' || after != DLOCK_EPENDING); /* the grant may have come first */
}

static void play(const char *order, dlock_lock *lock, dlock_lock *theirs, bool grant_it)
{
    DLOCK_AUTO(dlock_hold) in_the_way = world_take(theirs);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
    for (size_t i = 0; order[i] && !harness_failed(); i++) {
        if (i == 2 && grant_it)
            CHECK_EQ_INT(dlock_hold_release(in_the_way, NULL), DLOCK_OK);
        step(order[i], op, &hold);
    }
}

TEST(notify_wait_take_cancel_and_error_fit_together_in_every_order)
{
    BEGIN();
    CLIENT_WITH_LOCK(client, lock, __func__, NULL);
    CLIENT_WITH_LOCK(other, theirs, __func__, NULL);
    static const char steps[] = "nwtce";
    char order[6] = "";
    for (int number = 0; number < 5 * 5 * 5 * 5; number++) {
        for (int i = 0, rest = number; i < 4; i++, rest /= 5)
            order[i] = steps[rest % 5];
        play(order, lock, theirs, number % 2);
        if (harness_failed()) {
            harness_note("in the order %s", order);
            return;
        }
    }
    AWAIT(world_try(__func__) == DLOCK_OK);
}

TEST(ops_made_of_nothing_have_failed_already)
{
    dlock_op *ops[] = {
        dlock_lock_acquire_start(NULL, 0),    dlock_hold_release_start(NULL),
        dlock_client_connect_start(NULL),     dlock_client_close_start(NULL),
        dlock_client_list_start(NULL, "", 1), dlock_hold_extend_start(NULL, 500),
        dlock_lock_inspect_start(NULL),       dlock_lock_wait_idle_start(NULL, 0),
    };
    for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
        CHECK(ops[i] != NULL);
        CHECK_EQ_INT(dlock_op_notify(ops[i], 1), DLOCK_OK);
        CHECK_EQ_INT(dlock_op_wait(ops[i], DLOCK_FOREVER), DLOCK_OK);
        CHECK_EQ_INT(dlock_op_result(ops[i]), DLOCK_EINVAL);
        CHECK_EQ_INT(dlock_error_code(dlock_op_error(ops[i])), DLOCK_EINVAL);
        CHECK(dlock_op_take_hold(ops[i]) == NULL && dlock_op_take_info(ops[i]) == NULL);
        dlock_op_cancel(ops[i]);
        dlock_op_free(ops[i]);
    }
    CHECK_EQ_INT(dlock_op_wait(NULL, 0), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_op_result(NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_op_notify(NULL, 1), DLOCK_EINVAL);
    CHECK(!dlock_op_error(NULL) && !dlock_op_take_hold(NULL) &&
          !dlock_op_take_info(NULL));
    dlock_op_cancel(NULL);
    dlock_op_free(NULL);
}
