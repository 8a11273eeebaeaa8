/* Conditions: a wait gives the lock back and has it again, signals come in order and none is missed,
 * and one that can't be used goes to the next. The clients look by themselves only once a minute. */
#include "party.h"

#include <signal.h>

enum { WAITERS = 3 };

/* ---- what it promises ---- */

TEST(a_signal_wakes_a_waiter_who_holds_the_lock_again)
{
    BEGIN_HERE();
    party one = {0}, other = {0};
    come(&one, __func__, NULL);
    come(&other, __func__, NULL);
    line_up(&one, DLOCK_FOREVER);
    DLOCK_AUTO(dlock_hold) hold = world_take(other.lock); /* it is free */
    CHECK_EQ_INT(signal_by(&other, 1), 1);
    CHECK(waits(&one)); /* for the lock */
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    CHECK(ends_held(&one, DLOCK_OK));
    CHECK_EQ_INT(api_stat(one.client, "spurious_wakes"), 0);
    CHECK_EQ_INT(signal_by(&other, 1), 0); /* it was used */
    go(&one);
    go(&other);
}

TEST(a_signal_without_waiters_is_lost)
{
    BEGIN_HERE();
    party one = {0};
    come(&one, __func__, NULL);
    CHECK_EQ_INT(signal_by(&one, 1), 0);
    line_up(&one, SHORT_MS);
    CHECK(ends_held(&one, DLOCK_ETIMEDOUT));
    CHECK_CONTAINS(dlock_error_text(dlock_op_error(one.op)), "signalled");
    CHECK_EQ_INT(signal_by(&one, 1), 0); /* its place is gone */
    go(&one);
}

TEST(a_wait_of_no_time_gives_the_lock_back_and_has_it_again)
{
    BEGIN_HERE();
    party one = {0};
    come(&one, __func__, NULL);
    one.hold = world_take(one.lock);
    DLOCK_AUTO(dlock_hold) again = NULL;
    CHECK_EQ_INT(dlock_cond_wait(one.cond, one.hold, 0, &again, NULL), DLOCK_ETIMEDOUT);
    CHECK_EQ_INT(dlock_hold_check(one.hold), DLOCK_ENOTHELD);
    CHECK_EQ_INT(dlock_hold_check(again), DLOCK_OK);
    go(&one);
}

/* Who looks at the lock of that name is told of them, also by the client that waits itself. */
TEST(who_waits_is_counted_once_by_each_client)
{
    BEGIN_HERE();
    party one = {0}, other = {0};
    come(&one, __func__, NULL);
    come(&other, __func__, NULL);
    line_up(&one, DLOCK_FOREVER);
    DLOCK_AUTO(dlock_lock) own = namesake_of(one.client, __func__);
    DLOCK_AUTO(dlock_lock) same = namesake_of(other.client, __func__);
    CHECK_STR(api_seen(same, "waiters"), "1");
    CHECK_STR(api_seen(own, "waiters"), "1");
    CHECK_EQ_INT(signal_by(&other, 1), 1);
    CHECK(ends_held(&one, DLOCK_OK));
    go(&one);
    go(&other);
}

TEST(signals_come_in_the_order_of_the_line)
{
    BEGIN_HERE();
    party parties[WAITERS] = {{0}}, other = {0};
    come(&other, __func__, NULL);
    for (int i = 0; i < WAITERS; i++) {
        come(&parties[i], __func__, NULL);
        line_up(&parties[i], DLOCK_FOREVER);
    }
    for (int i = 0; i < WAITERS; i++) {
        CHECK_EQ_INT(signal_by(&other, 1), 1);
        CHECK(ends_held(&parties[i], DLOCK_OK));
        for (int later = i + 1; later < WAITERS; later++)
            CHECK(waits(&parties[later]));
    }
    for (int i = 0; i < WAITERS; i++)
        go(&parties[i]);
    go(&other);
}

/* Of the owners of one client that want a lock only the first is known to the service. */
TEST(each_of_one_client_stands_in_the_line_itself)
{
    BEGIN_HERE();
    party one = {0};
    come(&one, __func__, NULL);
    dlock_op *ops[WAITERS];
    for (int i = 0; i < WAITERS; i++) {
        DLOCK_AUTO(dlock_hold) hold = world_take(one.lock);
        ops[i] = dlock_cond_wait_start(one.cond, hold, DLOCK_FOREVER);
        AWAIT(dlock_hold_state(hold) == DLOCK_RELEASED);
    }
    CHECK_EQ_INT(signal_by(&one, WAITERS + 1), WAITERS);
    for (int i = 0; i < WAITERS; i++) {
        ENDS(ops[i], DLOCK_OK);
        dlock_hold_free(dlock_op_take_hold(ops[i]));
        dlock_op_free(ops[i]);
    }
    go(&one);
}

static party *any_over(party *parties)
{
    for (int i = 0; i < WAITERS; i++)
        if (parties[i].op && !waits(&parties[i]))
            return &parties[i];
    return NULL;
}

TEST(a_broadcast_wakes_all)
{
    BEGIN_HERE();
    party parties[WAITERS] = {{0}};
    int64_t signalled = 0;
    for (int i = 0; i < WAITERS; i++) {
        come(&parties[i], __func__, NULL);
        line_up(&parties[i], DLOCK_FOREVER);
    }
    DLOCK_AUTO(dlock_hold) hold = world_take(parties[0].lock);
    CHECK_EQ_INT(dlock_cond_broadcast(parties[0].cond, hold, &signalled, NULL), DLOCK_OK);
    CHECK_EQ_INT(signalled, WAITERS);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    for (int done = 0; done < WAITERS; done++) {
        party *over = NULL;
        AWAIT((over = any_over(parties))); /* who has the lock first, nobody knows */
        CHECK(ends_held(over, DLOCK_OK));
        go(over);
    }
}

TEST(an_event_tells_that_the_wait_is_over)
{
    BEGIN_HERE();
    party one = {0}, other = {0};
    come(&one, __func__, NULL);
    come(&other, __func__, NULL);
    CHECK(dlock_client_event_fd(one.client) >= 0);
    line_up(&one, DLOCK_FOREVER);
    CHECK_EQ_INT(dlock_op_notify(one.op, 7), DLOCK_EPENDING);
    CHECK_EQ_INT(signal_by(&other, 1), 1);
    DLOCK_AUTO(dlock_event) event = world_event(one.client, DLOCK_EVENT_DONE);
    CHECK_EQ_INT(dlock_event_tag(event), 7);
    CHECK(ends_held(&one, DLOCK_OK));
    go(&one);
    go(&other);
}

TEST(who_waits_without_a_lock_gets_none)
{
    BEGIN_HERE();
    party one = {0}, next = {0};
    come(&one, __func__, NULL);
    come(&next, __func__, NULL);
    CHECK_EQ_INT(dlock_cond_wait(one.cond, NULL, 1, NULL, NULL), DLOCK_ETIMEDOUT);
    DLOCK_AUTO(dlock_lock) line = namesake_of(next.client, __func__);
    one.op = dlock_cond_wait_start(one.cond, NULL, DLOCK_FOREVER);
    AWAIT(world_seen(line, "waiters") == 1);
    line_up(&next, DLOCK_FOREVER);
    CHECK_EQ_INT(signal_by(&next, 1), 1);
    ENDS(one.op, DLOCK_OK);
    CHECK(!dlock_op_take_hold(one.op));
    CHECK(waits(&next)); /* the signal was used */
    CHECK_EQ_INT(signal_by(&next, 1), 1);
    CHECK(ends_held(&next, DLOCK_OK));
    go(&one);
    go(&next);
}

/* ---- no signal is missed ---- */

enum { ROUNDS = 500 };

typedef struct rally {
    const char *name;
    atomic_int turn; /* guarded by the lock, of which TSan knows nothing on a file */
    atomic_int failed;
} rally;

typedef struct player {
    rally *of;
    int number;
} player;

/* Nobody looks by himself for as long as each waits for its turn: a signal that is missed runs it out. */
static bool play(party *one, rally *of, int number)
{
    dlock_hold *hold = world_take(one->lock);
    while (hold && of->turn != number) {
        dlock_hold *again = NULL;
        dlock_err code = dlock_cond_wait(one->cond, hold, patience_ms(), &again, NULL);
        dlock_hold_free(hold);
        hold = again;
        if (code != DLOCK_OK) {
            dlock_hold_free(hold);
            return false;
        }
    }
    of->turn = !number;
    bool fine = hold && dlock_cond_signal(one->cond, 1, hold, NULL, NULL) == DLOCK_OK &&
                dlock_hold_release(hold, NULL) == DLOCK_OK;
    dlock_hold_free(hold);
    return fine;
}

static void *rally_run(void *arg)
{
    const player *me = arg;
    party one = {0};
    come(&one, me->of->name, NULL);
    for (int i = 0; i < ROUNDS && me->of->failed == 0; i++)
        me->of->failed += !play(&one, me->of, me->number);
    go(&one);
    return NULL;
}

TEST(a_signal_after_the_lock_was_given_back_is_not_missed)
{
    BEGIN_HERE();
    rally of = {.name = __func__};
    player players[] = {{&of, 0}, {&of, 1}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK_EQ_INT(pthread_create(&threads[i], NULL, rally_run, &players[i]), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ_INT(pthread_join(threads[i], NULL), 0);
    CHECK_EQ_INT(of.failed, 0);
    CHECK_EQ_INT(of.turn, 0);
}

/* ---- signals that can't be used ---- */

TEST(who_is_cancelled_in_the_line_is_signalled_no_more)
{
    BEGIN_HERE();
    party one = {0}, next = {0};
    come(&one, __func__, NULL);
    come(&next, __func__, NULL);
    line_up(&one, DLOCK_FOREVER);
    line_up(&next, DLOCK_FOREVER);
    dlock_op_cancel(one.op);
    ENDS(one.op, DLOCK_ECANCELED);
    CHECK(!dlock_op_take_hold(one.op));
    AWAIT(signal_by(&next, 1) == 1);
    CHECK(ends_held(&next, DLOCK_OK));
    go(&one);
    go(&next);
}

/* How the one who was signalled, and waits for the lock, ends. */
static void cancel(party *one)
{
    dlock_op_cancel(one->op);
    ENDS(one->op, DLOCK_ECANCELED);
}

static void free_op(party *one)
{
    dlock_op_free(one->op);
    one->op = NULL;
}

static void pass_on(const char *name, void (*end)(party *one))
{
    party one = {0}, next = {0}, other = {0};
    come(&one, name, NULL);
    come(&next, name, NULL);
    come(&other, name, NULL);
    int64_t names = api_stat(one.client, "names");
    line_up(&one, DLOCK_FOREVER);
    line_up(&next, DLOCK_FOREVER);
    DLOCK_AUTO(dlock_hold) hold = world_take(other.lock);
    CHECK_EQ_INT(signal_by(&other, 1), 1);
    AWAIT(world_seen(one.lock, "waiters") ==
          1); /* it has heard of it: it wants the lock */
    end(&one);
    AWAIT(api_stat(one.client, "names") == names); /* and doesn't any more */
    AWAIT(world_seen(next.lock, "waiters") == 1);  /* the next one has heard */
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    CHECK(ends_held(&next, DLOCK_OK));
    go(&one);
    go(&next);
    go(&other);
}

TEST(who_is_cancelled_before_it_has_the_lock_passes_its_signal_on)
{
    BEGIN_HERE();
    pass_on(__func__, cancel);
}

TEST(a_freed_op_passes_its_signal_on)
{
    BEGIN_HERE();
    pass_on(__func__, free_op);
}

TEST(a_closed_client_passes_its_signal_on)
{
    BEGIN_HERE();
    pass_on(__func__, close_waiter);
}

/* Where no death is noticed its signal goes on when the lease is over. */
static void wait_for_ever(void *arg)
{
    party one = {0};
    come(&one, arg, "lock.ttl_ms=1500");
    line_up(&one, DLOCK_FOREVER);
    for (;;)
        nap_ms(1000);
}

TEST(who_is_killed_before_it_has_the_lock_passes_its_signal_on)
{
    BEGIN_HERE();
    LEAVE_OUT_ON("mem", "it is in one process");
    party next = {0}, other = {0};
    come(&other, __func__, NULL);
    pid_t pid = world_child_start(wait_for_ever, (void *)(uintptr_t) __func__);
    come(&next, __func__, NULL);
    DLOCK_AUTO(dlock_lock) line = namesake_of(next.client, __func__);
    AWAIT(world_seen(line, "waiters") == 1);
    line_up(&next, DLOCK_FOREVER);
    DLOCK_AUTO(dlock_hold) hold = world_take(other.lock);
    CHECK_EQ_INT(signal_by(&other, 1), 1);
    CHECK(waits(&next));
    CHECK_EQ_INT(kill(pid, SIGKILL), 0);
    (void)world_child_end(pid);
    AWAIT(world_seen(next.lock, "waiters") == 1);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    CHECK(ends_held(&next, DLOCK_OK));
    go(&next);
    go(&other);
}
