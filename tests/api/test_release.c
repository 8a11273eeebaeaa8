/* The end of a hold: what a release answers, what it leaves alone, and that it can't be missed. */
#include "world.h"

TEST(a_second_release_is_refused)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    CHECK_OK(dlock_hold_release(hold, &err), err);
    CHECK_ERR(dlock_hold_release(hold, &err), DLOCK_ENOTHELD, err);
    CHECK_CONTAINS(dlock_error_text(err), "released");
    CHECK_EQ_INT(dlock_error_retriable(err), 0);
    /* Nor does it touch the grant that came after. */
    DLOCK_AUTO(dlock_hold) next = world_take(lock);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ENOTHELD);
    CHECK_EQ_INT(dlock_hold_verify(next, NULL), DLOCK_OK);
}

TEST(after_a_confirmed_release_anybody_gets_it_at_once)
{
    BEGIN();
    CLIENT_WITH_LOCK(client, lock, __func__, NULL);
    DLOCK_AUTO(dlock_client) other = world_client(NULL);
    for (int i = 0; i < 50; i++) {
        DLOCK_AUTO(dlock_hold) hold = world_take(lock);
        DLOCK_AUTO(dlock_hold) next = NULL;
        CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
        CHECK_EQ_INT(dlock_acquire(other, __func__, 0, &next, NULL), DLOCK_OK);
        CHECK_EQ_INT(dlock_hold_release(next, NULL), DLOCK_OK);
    }
}

TEST(each_hold_of_a_lost_grant_answers_elost_once)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(client, lock, one, __func__, NULL);
    DLOCK_AUTO(dlock_hold) two = world_take(lock);
    CHECK(world_lose(__func__, one));
    CHECK_ERR(dlock_hold_release(two, &err), DLOCK_ELOST, err);
    CHECK_ERR(dlock_hold_release(two, &err), DLOCK_ENOTHELD, err);
    CHECK_EQ_INT(dlock_hold_check(two), DLOCK_ENOTHELD);
    CHECK_EQ_INT(dlock_hold_check(one), DLOCK_ELOST);
    CHECK_ERR(dlock_hold_release(one, &err), DLOCK_ELOST, err);
    CHECK_ERR(dlock_hold_release(one, &err), DLOCK_ENOTHELD, err);
}

TEST(a_release_of_what_was_taken_away_unnoticed_says_lost)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    CHECK_EQ_INT(world_evict(__func__), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
    CHECK_ERR(dlock_hold_release(hold, &err), DLOCK_ELOST, err);
    CHECK_CONTAINS(dlock_error_text(err), __func__);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ENOTHELD);
    CHECK_EQ_INT(api_stat(client, "releases_failed"), 1);
}

TEST(a_release_after_a_break_leaves_the_new_owner_alone)
{
    BEGIN();
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    CLIENT_WITH_LOCK(other, theirs, __func__, NULL);
    CHECK_EQ_INT(world_evict(__func__), DLOCK_OK);
    DLOCK_AUTO(dlock_hold) next = world_take(theirs);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ELOST);
    CHECK_EQ_INT(dlock_hold_verify(next, NULL), DLOCK_OK);
    CHECK_EQ_INT(world_try(__func__), DLOCK_EBUSY);
}

TEST(freeing_a_held_hold_releases_it_in_the_background)
{
    BEGIN();
    CLIENT_WITH_LOCK(client, lock, __func__, NULL);
    CLIENT_WITH_LOCK(other, theirs, __func__, NULL);
    for (int i = 0; i < 20; i++) {
        dlock_hold_free(world_take(lock));
        DLOCK_AUTO(dlock_hold) hold = world_take(theirs);
        CHECK(hold != NULL);
        CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    }
}

TEST(freeing_one_of_two_holds_keeps_the_other)
{
    BEGIN();
    CLIENT_WITH_LOCK(client, lock, __func__, NULL);
    DLOCK_AUTO(dlock_hold) second = NULL;
    dlock_hold *first = world_take(lock);
    second = world_take(lock);
    dlock_hold_free(first); /* the grant's memory began with this one */
    CHECK_EQ_INT(dlock_hold_check(second), DLOCK_OK);
    CHECK_EQ_INT(world_try(__func__), DLOCK_EBUSY);
    CHECK_EQ_INT(dlock_hold_release(second, NULL), DLOCK_OK);
    CHECK_EQ_INT(world_try(__func__), DLOCK_OK);
}

TEST(an_async_release_answers_when_queued_and_goes_out_all_the_same)
{
    BEGIN();
    CLIENT_WITH_HOLD(client, lock, hold, __func__, "lock.release=async");
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_ENOTHELD);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ENOTHELD);
    AWAIT(world_try(__func__) == DLOCK_OK);
}

TEST(the_next_acquire_of_a_client_goes_out_behind_its_async_release)
{
    BEGIN();
    CLIENT_WITH_LOCK(client, lock, __func__, "lock.release=async");
    int64_t last = 0;
    for (int i = 0; i < 200; i++) {
        DLOCK_AUTO(dlock_hold) hold = NULL;
        CHECK_EQ_INT(dlock_lock_acquire(lock, 0, &hold, NULL),
                     DLOCK_OK); /* not even a wait */
        CHECK(dlock_hold_token(hold) > last);
        last = dlock_hold_token(hold);
        CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    }
}

TEST(a_failed_async_release_is_counted_and_logged)
{
    BEGIN();
    CLIENT_WITH_LOCK(client, lock, __func__, "lock.release=async");
    CHECK(dlock_client_event_fd(client) >= 0);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    CHECK_EQ_INT(world_evict(__func__), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    DLOCK_AUTO(dlock_event) line = world_event(client, DLOCK_EVENT_LOG);
    CHECK_CONTAINS(dlock_event_text(line), __func__);
    CHECK_EQ_INT(api_stat(client, "releases_failed"), 1);
}

static void *release_it(void *hold)
{
    return (void *)(intptr_t)dlock_hold_release(hold, NULL);
}

TEST(of_two_releases_at_once_exactly_one_is_it)
{
    BEGIN();
    CLIENT_WITH_LOCK(client, lock, __func__, NULL);
    for (int i = 0; i < 50; i++) {
        DLOCK_AUTO(dlock_hold) hold = world_take(lock);
        pthread_t thread;
        void *theirs;
        CHECK(pthread_create(&thread, NULL, release_it, hold) == 0);
        dlock_err ours = dlock_hold_release(hold, NULL);
        pthread_join(thread, &theirs);
        CHECK_EQ_INT(ours + (intptr_t)theirs, DLOCK_OK + DLOCK_ENOTHELD);
    }
}

static void *churn(void *arg)
{
    dlock_lock *lock = arg;
    static _Atomic int64_t guarded; /* by the lock, but no race detector sees that */
    intptr_t wrong = 0;
    for (int i = 0; i < 150; i++) {
        dlock_hold *hold = NULL;
        wrong += dlock_lock_acquire(lock, patience_ms(), &hold, NULL) != DLOCK_OK;
        wrong += hold && dlock_hold_token(hold) <= guarded;
        guarded = dlock_hold_token(hold);
        if (i % 3)
            wrong += dlock_hold_release(hold, NULL) != DLOCK_OK;
        dlock_hold_free(hold);
    }
    return (void *)wrong;
}

TEST(threads_of_two_clients_pass_the_lock_around_with_rising_tokens)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) one = world_client(NULL);
    DLOCK_AUTO(dlock_client) two = world_client("lock.release=async");
    DLOCK_AUTO(dlock_lock) ours = world_lock(one, __func__, NULL);
    DLOCK_AUTO(dlock_lock) theirs = world_lock(two, __func__, NULL);
    pthread_t threads[4];
    intptr_t wrong = 0;
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, churn, i % 2 ? ours : theirs) == 0);
    for (int i = 0; i < 4; i++) {
        void *found;
        pthread_join(threads[i], &found);
        wrong += (intptr_t)found;
    }
    CHECK_EQ_INT(wrong, 0);
    CHECK_EQ_INT(api_stat(one, "grants") + api_stat(two, "grants"), 600);
}
