/* Several locks as one: all or nothing, in an order that can't deadlock, undone completely. */
#include "several.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { TAG = 11 };

static bool all_free(void)
{
    return world_try(names[0]) == DLOCK_OK && world_try(names[1]) == DLOCK_OK;
}

static dlock_op *wait_for_op(dlock_op *op)
{
    (void)harness_eq_int(__FILE__, __LINE__, "the wait", dlock_op_wait(op, patience_ms()),
                         DLOCK_OK);
    return op;
}

TEST(all_are_taken_and_all_are_given_back)
{
    BEGIN();
    name_them(__func__);
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) one = world_client(NULL);
    DLOCK_AUTO(dlock_client) other = world_client("lock.ttl_ms=9000");
    DLOCK_AUTO(dlock_lock) multi = both(one, other);
    DLOCK_AUTO(dlock_hold) hold = world_take(multi);
    CHECK_EQ_INT(world_try(names[0]), DLOCK_EBUSY);
    CHECK_EQ_INT(world_try(names[1]), DLOCK_EBUSY);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_state(hold), DLOCK_HELD);
    CHECK(dlock_hold_remaining_ms(hold) > 0 && dlock_hold_remaining_ms(hold) <= 9000);
    CHECK_EQ_INT(dlock_hold_ttl_ms(hold), 9000);
    CHECK_EQ_INT(dlock_hold_token(hold), 0);
    CHECK(dlock_hold_member_token(hold, 0) > 0);
    CHECK(dlock_hold_member_token(hold, 1) > 0);
    CHECK_EQ_INT(dlock_hold_member_token(hold, 2), 0);
    char name[260];
    snprintf(name, sizeof(name), "%s+%s", names[1], names[0]);
    CHECK_STR(dlock_hold_name(hold), name);
    CHECK(strlen(dlock_hold_owner(hold)) > 37);
    CHECK_EQ_INT(dlock_hold_feed(hold), DLOCK_OK);
    CHECK_OK(dlock_hold_verify(hold, &err), err);
    CHECK_OK(dlock_hold_extend(hold, 20000, &err), err);
    CHECK(dlock_hold_remaining_ms(hold) > 9000);
    CHECK_OK(dlock_hold_release(hold, &err), err);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_ENOTHELD);
    CHECK_EQ_INT(dlock_hold_state(hold), DLOCK_RELEASED);
    CHECK_EQ_INT(dlock_hold_remaining_ms(hold), 0);
    CHECK_ERR(dlock_hold_release(hold, &err), DLOCK_ENOTHELD, err);
    DLOCK_AUTO(dlock_lock) turned = both(other, one);
    DLOCK_AUTO(dlock_hold) again = world_take(turned);
    CHECK_EQ_INT(dlock_hold_ttl_ms(again), 9000);
    CHECK_OK(dlock_hold_release(again, &err), err);
    CHECK(all_free());
}

TEST(one_that_is_held_means_that_none_is_taken)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    name_them(__func__);
    TWO_CLIENTS(client, rival);
    DLOCK_AUTO(dlock_lock) multi = both(client, client);
    for (int i = 0; i < 2; i++) {
        DLOCK_AUTO(dlock_hold) theirs = NULL;
        DLOCK_AUTO(dlock_hold) none = NULL;
        CHECK_OK(dlock_acquire(rival, names[i], 0, &theirs, &err), err);
        CHECK_ERR(dlock_lock_acquire(multi, 0, &none, &err), DLOCK_EBUSY, err);
        CHECK_CONTAINS(dlock_error_text(err), names[i]);
        CHECK_ERR(dlock_lock_acquire(multi, SHORT_MS, &none, &err), DLOCK_ETIMEDOUT, err);
        CHECK(none == NULL);
        AWAIT(world_try(names[1 - i]) == DLOCK_OK);
        CHECK_OK(dlock_hold_release(theirs, &err), err);
    }
    DLOCK_AUTO(dlock_hold) hold = world_take(multi);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
}

TEST(a_lost_member_is_the_loss_of_all)
{
    BEGIN();
    name_them(__func__);
    DLOCK_AUTO(dlock_error) err = NULL;
    TWO_CLIENTS(one, other);
    DLOCK_AUTO(dlock_lock) multi = both(one, other);
    CHECK(dlock_client_event_fd(one) >= 0);
    DLOCK_AUTO(dlock_hold) hold = world_take(multi);
    CHECK_EQ_INT(dlock_hold_notify(hold, TAG), DLOCK_OK);
    CHECK_EQ_INT(world_evict(names[0]), DLOCK_OK); /* the other client's */
    CHECK_ERR(dlock_hold_verify(hold, &err), DLOCK_ELOST, err);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_ELOST);
    CHECK_EQ_INT(dlock_hold_state(hold), DLOCK_LOST);
    CHECK_EQ_INT(dlock_hold_remaining_ms(hold), 0);
    DLOCK_AUTO(dlock_event) event = world_event(one, DLOCK_EVENT_LOST);
    CHECK(event != NULL);
    CHECK_EQ_INT((int64_t)dlock_event_tag(event), TAG);
    CHECK_EQ_INT(dlock_event_token(event), 0);
    CHECK_EQ_INT(dlock_hold_notify(hold, TAG + 1), DLOCK_ELOST);
    CHECK_ERR(dlock_hold_extend(hold, 60000, &err), DLOCK_ELOST, err);
    CHECK_ERR(dlock_hold_release(hold, &err), DLOCK_ELOST, err);
    CHECK(all_free());
}

/* How many events of one kind come before the first of another; -1: that doesn't come. */
static int before(dlock_client *client, dlock_what last, dlock_what what)
{
    int count = 0;
    for (int64_t end = awake_now_ms() + patience_ms(); awake_now_ms() < end;) {
        DLOCK_AUTO(dlock_event) event = dlock_client_next_event(client);
        if (!event)
            nap_ms(1);
        else if (dlock_event_what(event) == last)
            return count;
        else if (dlock_event_what(event) == DLOCK_EVENT_LOST)
            return -1; /* the last one */
        else
            count += dlock_event_what(event) == what;
    }
    return -1;
}

/* What befalls it later: it isn't fed in time, and is; it is taken away. */
static void is_told_once(const char *test, int64_t ttl_ms)
{
    name_them(test);
    DLOCK_AUTO(dlock_client) one = world_client(NULL);
    DLOCK_AUTO(dlock_client) fed = world_client_of(ttl_ms, "lock.renew=fed");
    DLOCK_AUTO(dlock_client) rival = world_client(NULL);
    NEED(rival, "revoke", "elsewhere no holder is told that its lock is asked for");
    DLOCK_AUTO(dlock_lock) wanted = world_lock(rival, names[0], NULL);
    DLOCK_AUTO(dlock_lock) multi = both(one, fed);
    CHECK(dlock_client_event_fd(one) >= 0);
    DLOCK_AUTO(dlock_hold) hold = world_take(multi);
    CHECK_EQ_INT(dlock_hold_notify(hold, TAG), DLOCK_OK);
    AWAIT(dlock_lock_revoke(wanted, NULL) == DLOCK_OK);
    DLOCK_AUTO(dlock_event) event = world_event(one, DLOCK_EVENT_REVOKE);
    CHECK(event != NULL);
    AWAIT(dlock_hold_state(hold) != DLOCK_HELD);
    int again = dlock_hold_feed(hold) == DLOCK_OK
                    ? before(one, DLOCK_EVENT_HELD, DLOCK_EVENT_REVOKE)
                    : -1;
    if (dlock_hold_state(hold) == DLOCK_LOST || world_evict(names[0]) != DLOCK_OK)
        TOO_SLOW();
    CHECK_EQ_INT(again, 0);
    CHECK_ERR(dlock_hold_verify(hold, NULL), DLOCK_ELOST, NULL);
    CHECK_EQ_INT(before(one, DLOCK_EVENT_LOST, DLOCK_EVENT_REVOKE), 0);
}

TEST(that_a_member_is_asked_for_is_told_once_whatever_befalls_it_later)
{
    BEGIN();
    WITH_LEASE_FROM(1000, is_told_once);
}

static bool is_announced(dlock_client *client, dlock_hold *hold, dlock_state state)
{
    while (!harness_failed() && dlock_hold_state(hold) != state &&
           dlock_hold_state(hold) != DLOCK_LOST)
        nap_ms(1);
    if (dlock_hold_state(hold) == DLOCK_LOST)
        return false;
    DLOCK_AUTO(dlock_event)
    event =
        world_event(client, state == DLOCK_HELD ? DLOCK_EVENT_HELD : DLOCK_EVENT_SUSPECT);
    return harness_eq_int(__FILE__, __LINE__, "the tag", (int64_t)dlock_event_tag(event),
                          TAG);
}

/* The first or the last in the order of taking isn't fed, time and again. */
static void follows(const char *test, int64_t ttl_ms)
{
    for (int first = 0; first < 2; first++) {
        name_them(test);
        DLOCK_AUTO(dlock_client) fed = world_client_of(ttl_ms, "lock.renew=fed");
        DLOCK_AUTO(dlock_client) other = world_client("lock.ttl_ms=60000");
        DLOCK_AUTO(dlock_lock) multi = first ? both(other, fed) : both(fed, other);
        DLOCK_AUTO(dlock_hold) hold = world_take(multi);
        CHECK_EQ_INT(dlock_hold_notify(hold, TAG), DLOCK_OK);
        for (int i = 0; i < 2; i++) {
            dlock_client *told = first ? other : fed;
            if (!is_announced(told, hold, DLOCK_SUSPECT) ||
                dlock_hold_feed(hold) != DLOCK_OK ||
                !is_announced(told, hold, DLOCK_HELD))
                TOO_SLOW();
        }
        CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    }
}

TEST(a_member_that_is_not_renewed_makes_it_suspect_each_time)
{
    BEGIN();
    WITH_LEASE_FROM(1000, follows);
}

TEST(freeing_the_hold_gives_all_back)
{
    BEGIN();
    name_them(__func__);
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_lock) multi = both(client, client);
    dlock_hold *hold = world_take(multi);
    CHECK_EQ_INT(dlock_hold_notify(hold, TAG), DLOCK_OK);
    dlock_hold_free(hold);
    AWAIT(all_free());
}

TEST(a_thread_may_hold_it_twice_over)
{
    BEGIN();
    name_them(__func__);
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_lock) multi = both(client, client);
    DLOCK_AUTO(dlock_hold) first = world_take(multi);
    DLOCK_AUTO(dlock_hold) second = world_take(multi);
    CHECK_EQ_INT(dlock_hold_release(first, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_check(second), DLOCK_OK);
    CHECK_EQ_INT(world_try(names[0]), DLOCK_EBUSY);
    CHECK_EQ_INT(dlock_hold_release(second, NULL), DLOCK_OK);
    CHECK(all_free());
}

/* ---- Started, not waited for ---- */

TEST(an_op_takes_all_verifies_extends_and_releases)
{
    BEGIN();
    name_them(__func__);
    TWO_CLIENTS(one, other);
    DLOCK_AUTO(dlock_lock) multi = both(one, other);
    CHECK(dlock_client_event_fd(one) >= 0);
    DLOCK_AUTO(dlock_op) taking = dlock_lock_acquire_start(multi, DLOCK_FOREVER);
    if (dlock_op_notify(taking, TAG) == DLOCK_EPENDING) {
        DLOCK_AUTO(dlock_event) done = world_event(one, DLOCK_EVENT_DONE);
        CHECK(done != NULL);
        CHECK_EQ_INT((int64_t)dlock_event_tag(done), TAG);
        CHECK_EQ_INT(dlock_event_code(done), DLOCK_OK);
    }
    CHECK_EQ_INT(dlock_op_result(taking), DLOCK_OK);
    DLOCK_AUTO(dlock_hold) hold = dlock_op_take_hold(taking);
    CHECK(hold != NULL);
    CHECK(dlock_op_take_hold(taking) == NULL);
    DLOCK_AUTO(dlock_op) verifying = wait_for_op(dlock_hold_verify_start(hold));
    CHECK_EQ_INT(dlock_op_result(verifying), DLOCK_OK);
    DLOCK_AUTO(dlock_op) extending = wait_for_op(dlock_hold_extend_start(hold, 60000));
    CHECK_EQ_INT(dlock_op_result(extending), DLOCK_OK);
    DLOCK_AUTO(dlock_op) releasing = wait_for_op(dlock_hold_release_start(hold));
    CHECK_EQ_INT(dlock_op_result(releasing), DLOCK_OK);
    DLOCK_AUTO(dlock_op) again = wait_for_op(dlock_hold_release_start(hold));
    CHECK_EQ_INT(dlock_op_result(again), DLOCK_ENOTHELD);
    CHECK(all_free());
}

TEST(a_cancelled_op_ends_at_once_and_leaves_nothing)
{
    BEGIN();
    name_them(__func__);
    TWO_CLIENTS(one, other);
    DLOCK_AUTO(dlock_client) rival = world_client(NULL);
    DLOCK_AUTO(dlock_lock) multi = both(one, other);
    DLOCK_AUTO(dlock_hold) theirs = NULL;
    CHECK_EQ_INT(dlock_acquire(rival, names[1], 0, &theirs, NULL), DLOCK_OK);
    dlock_op *op = dlock_lock_acquire_start(multi, DLOCK_FOREVER);
    AWAIT(world_try(names[0]) == DLOCK_EBUSY); /* it has the first and waits */
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_EPENDING);
    dlock_op_cancel(op);
    CHECK_EQ_INT(dlock_op_result(wait_for_op(op)), DLOCK_ECANCELED);
    CHECK(dlock_op_take_hold(op) == NULL);
    dlock_op_free(op);
    AWAIT(world_try(names[0]) == DLOCK_OK);
    op = dlock_lock_acquire_start(multi, DLOCK_FOREVER);
    AWAIT(world_try(names[0]) == DLOCK_EBUSY);
    dlock_op_free(op); /* cancels as well */
    AWAIT(world_try(names[0]) == DLOCK_OK);
    op = dlock_lock_acquire_start(multi, SHORT_MS);
    CHECK_EQ_INT(dlock_op_result(wait_for_op(op)), DLOCK_ETIMEDOUT);
    dlock_op_free(op);
    AWAIT(world_try(names[0]) == DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(theirs, NULL), DLOCK_OK);
}

TEST(a_hold_that_nobody_took_is_given_back_with_the_op)
{
    BEGIN();
    name_them(__func__);
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_lock) multi = both(client, client);
    dlock_op *op = wait_for_op(dlock_lock_acquire_start(multi, DLOCK_FOREVER));
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_OK);
    dlock_op_free(op);
    AWAIT(all_free());
}

/* The op is the first member's client's, whichever of them it waits in. */
TEST(closing_either_client_ends_the_wait)
{
    BEGIN();
    name_them(__func__);
    static const struct {
        int held;
        bool closes_first;
    } cases[] = {{1, true}, {0, true}, {0, false}};
    DLOCK_AUTO(dlock_client) rival = world_client(NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        TWO_CLIENTS(one, other);
        DLOCK_AUTO(dlock_lock) multi = both(one, other);
        DLOCK_AUTO(dlock_hold) theirs = NULL;
        CHECK_EQ_INT(dlock_acquire(rival, names[cases[i].held], 0, &theirs, NULL),
                     DLOCK_OK);
        DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(multi, DLOCK_FOREVER);
        AWAIT(world_try(names[0]) == DLOCK_EBUSY); /* taken in that order */
        CHECK_EQ_INT(dlock_client_close(cases[i].closes_first ? one : other, NULL),
                     DLOCK_OK);
        CHECK_EQ_INT(dlock_op_result(wait_for_op(op)), DLOCK_ECLOSED);
        CHECK_EQ_INT(dlock_hold_release(theirs, NULL), DLOCK_OK);
        AWAIT(all_free());
    }
}

/* What is asked of each member. */
TEST(that_one_of_them_is_lost_counts_for_more_than_another_failure)
{
    BEGIN();
    name_them(__func__);
    static const struct {
        int lost, closed; /* the lock's and its client's number; -1: none */
        dlock_err says;
    } cases[] = {{-1, 1, DLOCK_ENOTHELD}, {0, 1, DLOCK_ELOST}, {1, 0, DLOCK_ELOST}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        TWO_CLIENTS(one, other);
        DLOCK_AUTO(dlock_lock) multi = both(one, other); /* names[1] is one's */
        DLOCK_AUTO(dlock_hold) hold = world_take(multi);
        CHECK_EQ_INT(dlock_client_close(cases[i].closed ? one : other, NULL), DLOCK_OK);
        if (cases[i].lost >= 0)
            CHECK_EQ_INT(world_evict(names[cases[i].lost]), DLOCK_OK);
        DLOCK_AUTO(dlock_op) op = wait_for_op(dlock_hold_release_start(hold));
        CHECK_EQ_INT(dlock_op_result(op), cases[i].says);
    }
}

/* ---- A member's own answer ---- */

/* One thread, which has lost a member and not released that hold, and wants all. */
typedef struct loser {
    dlock_client *client;
    dlock_lock *multi, *member;
    int64_t wait_ms;
    bool by_op;
    pthread_t thread;
    atomic_bool over;
    dlock_err code;
} loser;

static dlock_err take_by_op(dlock_lock *multi, int64_t wait_ms)
{
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(multi, wait_ms);
    (void)dlock_op_wait(op, DLOCK_FOREVER);
    return dlock_op_result(op);
}

static void *lose_and_take(void *arg)
{
    loser *me = arg;
    DLOCK_AUTO(dlock_hold) lost = world_take(me->member);
    DLOCK_AUTO(dlock_hold) all = NULL;
    while (dlock_hold_check(lost) == DLOCK_OK)
        nap_ms(1);
    me->code = me->by_op ? take_by_op(me->multi, me->wait_ms)
                         : dlock_lock_acquire(me->multi, me->wait_ms, &all, NULL);
    me->over = true;
    return NULL;
}

/* Counted are grants and requests: whoever asks again and again is seen without a clock. */
static void answers_at_once(const char *name, int lost, int64_t wait_ms, bool by_op)
{
    DLOCK_AUTO(dlock_client)
    client = world_client("lock.ttl_ms=150 lock.renew=off lock.owner=thread");
    name_them(name);
    DLOCK_AUTO(dlock_lock) multi = both(client, client);
    DLOCK_AUTO(dlock_lock) member = world_lock(client, names[lost], NULL);
    loser me = {client, multi, member, wait_ms, by_op, .code = DLOCK_EPENDING};
    CHECK(pthread_create(&me.thread, NULL, lose_and_take, &me) == 0);
    int64_t end = awake_now_ms() + patience_ms();
    while (!me.over && awake_now_ms() < end && api_stat(client, "grants") < 100)
        nap_ms(1);
    bool over = me.over;
    if (!over) /* nothing else would end it */
        (void)dlock_client_close(client, NULL);
    pthread_join(me.thread, NULL);
    CHECK(over);
    CHECK_EQ_INT(me.code, DLOCK_ELOST);
    /* Its own, and the member before it, once. */
    CHECK_EQ_INT(api_stat(client, "grants"), 1 + lost);
    CHECK_EQ_INT(api_stat(client, "refusals"), 0);
    AWAIT(all_free());
}

TEST(a_member_that_this_thread_has_lost_is_told_at_once_however_long_it_would_wait)
{
    BEGIN();
    char name[100];
    for (int lost = 0; lost < 2; lost++)
        for (int by_op = 0; by_op < 2; by_op++) {
            static const int64_t waits[] = {0, 400, DLOCK_FOREVER};
            for (size_t i = 0; i < sizeof(waits) / sizeof(*waits); i++) {
                snprintf(name, sizeof(name), "%.30s-%d-%d-%d", __func__, lost, by_op,
                         (int)i);
                answers_at_once(name, lost, waits[i], by_op);
            }
        }
}

/* ---- Deadlock ---- */

typedef struct taker {
    dlock_lock *multi;
    pthread_t thread;
    int64_t *inside;
    int rounds, overlaps, failures;
} taker;

static void *take_often(void *arg)
{
    taker *me = arg;
    for (int i = 0; i < me->rounds; i++) {
        dlock_hold *hold = NULL;
        if (dlock_lock_acquire(me->multi, patience_ms(), &hold, NULL) != DLOCK_OK) {
            me->failures++;
            continue;
        }
        me->overlaps += __atomic_add_fetch(me->inside, 1, __ATOMIC_SEQ_CST) != 1;
        (void)__atomic_sub_fetch(me->inside, 1, __ATOMIC_SEQ_CST);
        me->failures += dlock_hold_release(hold, NULL) != DLOCK_OK;
        dlock_hold_free(hold);
    }
    return NULL;
}

TEST(whoever_wants_the_same_two_in_another_order_gets_them_too)
{
    BEGIN();
    name_them(__func__);
    DLOCK_AUTO(dlock_client) one = world_client("client.poll_ms=100");
    DLOCK_AUTO(dlock_client) other = world_client("client.poll_ms=100");
    DLOCK_AUTO(dlock_lock) a = world_lock(one, names[0], NULL);
    DLOCK_AUTO(dlock_lock) b = world_lock(one, names[1], NULL);
    DLOCK_AUTO(dlock_lock) c = world_lock(other, names[0], NULL);
    DLOCK_AUTO(dlock_lock) d = world_lock(other, names[1], NULL);
    dlock_lock *const ab[] = {a, b}, *const dc[] = {d, c};
    DLOCK_AUTO(dlock_lock) forth = NULL;
    DLOCK_AUTO(dlock_lock) back = NULL;
    CHECK_EQ_INT(dlock_multi_new(ab, 2, NULL, &forth, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_multi_new(dc, 2, NULL, &back, NULL), DLOCK_OK);
    int64_t inside = 0;
    taker takers[4];
    for (int i = 0; i < 4; i++) {
        takers[i] =
            (taker){.multi = i % 2 ? back : forth, .inside = &inside, .rounds = 25};
        CHECK(pthread_create(&takers[i].thread, NULL, take_often, &takers[i]) == 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(takers[i].thread, NULL);
        CHECK_EQ_INT(takers[i].failures, 0);
        CHECK_EQ_INT(takers[i].overlaps, 0);
    }
}

/* ---- What it isn't ---- */

static void *let_go(void *hold)
{
    (void)dlock_hold_release(hold, NULL);
    return NULL;
}

/* Each grant is given back at once, as the other member refuses, and that grants the next. */
TEST(however_many_follow_one_another_no_stack_is_the_deeper_for_it)
{
    /* The harness' own variables of each thread take most of that. */
    enum { WAITING = 8000, STACK = 4 * 1024 * 1024 };
    static dlock_op *ops[WAITING];
    BEGIN();
    if (!world_is("mem"))
        LEAVE_OUT("elsewhere no release grants the next one by itself");
    name_them(__func__);
    TWO_CLIENTS(one, other);
    DLOCK_AUTO(dlock_lock) first = world_lock(one, names[0], NULL);
    DLOCK_AUTO(dlock_lock) second = world_lock(other, names[1], NULL);
    dlock_lock *const members[] = {first, second};
    DLOCK_AUTO(dlock_lock) multi = NULL;
    CHECK_EQ_INT(dlock_multi_new(members, 2, NULL, &multi, NULL), DLOCK_OK);
    DLOCK_AUTO(dlock_hold) hold = world_take(first);
    CHECK_EQ_INT(dlock_client_close(other, NULL), DLOCK_OK);
    for (int i = 0; i < WAITING; i++)
        ops[i] = dlock_lock_acquire_start(multi, DLOCK_FOREVER);
    pthread_attr_t small;
    pthread_t thread;
    CHECK(pthread_attr_init(&small) == 0 &&
          pthread_attr_setstacksize(&small, STACK) == 0);
    CHECK_EQ_INT(pthread_create(&thread, &small, let_go, hold), 0);
    pthread_join(thread, NULL);
    for (int i = 0; i < WAITING; i++) {
        CHECK_EQ_INT(dlock_op_result(wait_for_op(ops[i])), DLOCK_ECLOSED);
        dlock_op_free(ops[i]);
    }
    CHECK_EQ_INT(world_try(names[0]), DLOCK_OK);
}

TEST(a_multi_lock_has_no_state_of_its_own_to_ask_for)
{
    BEGIN();
    name_them(__func__);
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_lock) multi = both(client, client);
    DLOCK_AUTO(dlock_info) info = NULL;
    const char *ticket = NULL;
    CHECK_ERR(dlock_lock_inspect(multi, &info, &err), DLOCK_ENOTSUP, err);
    CHECK_ERR(dlock_lock_break(multi, NULL, &err), DLOCK_ENOTSUP, err);
    CHECK_ERR(dlock_lock_revoke(multi, &err), DLOCK_ENOTSUP, err);
    CHECK_ERR(dlock_lock_wait_idle(multi, 0, &err), DLOCK_ENOTSUP, err);
    DLOCK_AUTO(dlock_hold) hold = world_take(multi);
    CHECK_ERR(dlock_hold_downgrade(hold, &err), DLOCK_ENOTSUP, err);
    CHECK_ERR(dlock_hold_export(hold, &ticket, &err), DLOCK_ENOTSUP, err);
}

/* As many as there may be: where one of them more is asked, it isn't a hold. */
TEST(sixty_four_members_are_asked_and_given_back_as_two_are)
{
    BEGIN();
    enum { MOST = 64 };
    char name[128];
    dlock_lock *members[MOST], *multi = NULL;
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    for (int i = 0; i < MOST; i++) {
        snprintf(name, sizeof(name), "%s/%d", __func__, i);
        members[i] = world_lock(client, name, NULL);
    }
    CHECK_OK(dlock_multi_new(members, MOST, NULL, &multi, NULL), NULL);
    for (int i = 0; i < MOST; i++)
        dlock_lock_free(members[i]);
    dlock_hold *hold = world_take(multi);
    CHECK_EQ_INT(dlock_hold_notify(hold, TAG), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_state(hold), DLOCK_HELD);
    CHECK(dlock_hold_member_token(hold, MOST - 1) > 0);
    CHECK_EQ_INT(dlock_hold_member_token(hold, MOST), 0);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    dlock_hold_free(hold);
    dlock_lock_free(multi);
    CHECK_EQ_INT(world_try(name), DLOCK_OK);
}

TEST(members_that_make_no_sense_are_refused)
{
    BEGIN();
    name_them(__func__);
    DLOCK_AUTO(dlock_error) err = NULL;
    TWO_CLIENTS(client, same);
    DLOCK_AUTO(dlock_lock) a = world_lock(client, names[0], NULL);
    DLOCK_AUTO(dlock_lock) twin = world_lock(same, names[0], NULL);
    DLOCK_AUTO(dlock_lock) multi = both(client, client);
    DLOCK_AUTO(dlock_lock) none = NULL;
    dlock_lock *many[65];
    for (int i = 0; i < 65; i++)
        many[i] = a;
    CHECK_ERR(dlock_multi_new(NULL, 1, NULL, &none, &err), DLOCK_EINVAL, err);
    CHECK_ERR(dlock_multi_new(many, 0, NULL, &none, &err), DLOCK_EINVAL, err);
    CHECK_ERR(dlock_multi_new(many, 65, NULL, &none, &err), DLOCK_EINVAL, err);
    CHECK_ERR(dlock_multi_new(many, 1, NULL, NULL, &err), DLOCK_EINVAL, err);
    dlock_lock *const twice[] = {a, a}, *const through[] = {a, twin};
    CHECK_ERR(dlock_multi_new(twice, 2, NULL, &none, &err), DLOCK_EINVAL, err);
    CHECK_CONTAINS(dlock_error_text(err), names[0]);
    CHECK_ERR(dlock_multi_new(through, 2, NULL, &none, &err), DLOCK_EINVAL, err);
    dlock_lock *const hole[] = {a, NULL}, *const nested[] = {multi, a};
    CHECK_ERR(dlock_multi_new(hole, 2, NULL, &none, &err), DLOCK_EINVAL, err);
    CHECK_ERR(dlock_multi_new(nested, 2, NULL, &none, &err), DLOCK_EINVAL, err);
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    CHECK_OK(dlock_conf_set(conf, "client.prefix", "x", &err), err);
    CHECK_ERR(dlock_multi_new(many, 1, conf, &none, &err), DLOCK_EINVAL, err);
    CHECK(none == NULL);
}
