/* Promises about holding a lock: who else can't, who may again, its token, its end. */
#include "grid.h"

#include "faults/resource.h"

#include <stdio.h>
#include <string.h>

ROW(P1, one_holder, "one holder at a time, whoever the others are")
{
    PARTY(one) = party_new(NULL, NULL);
    PARTY(other) = party_new(NULL, NULL);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ_INT(party_take(one, "L", 0), DLOCK_OK);
        CHECK_EQ_INT(party_take(other, "L", 0), DLOCK_EBUSY);
        CHECK_EQ_INT(party_still(one), DLOCK_OK);
        CHECK_EQ_INT(party_give_back(one), DLOCK_OK);
        CHECK_EQ_INT(party_take(other, "L", 0), DLOCK_OK);
        CHECK_EQ_INT(party_take(one, "L", 0), DLOCK_EBUSY);
        CHECK_EQ_INT(party_give_back(other), DLOCK_OK);
    }
}

/* ---- In a crowd ---- */

typedef struct worker {
    dlock_client *client;
    dlock_lock *lock;
    resource *resource;
    pthread_t thread;
    int rounds;
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    for (int i = 0; i < w->rounds; i++) {
        DLOCK_AUTO(dlock_hold) hold = world_take(w->lock);
        int64_t seen;
        if (!hold)
            return NULL;
        stay *at = resource_enter(w->resource, hold);
        bool fresh = resource_look(w->resource, dlock_hold_token(hold), &seen);
        if (!harness_check(__FILE__, __LINE__, fresh, "the resource takes the token"))
            return NULL;
        (void)resource_still(at, hold); /* the judge is told */
        (void)resource_write(w->resource, dlock_hold_token(hold), seen); /* it counts */
        resource_leave(at);
        dlock_err code = dlock_hold_release(hold, NULL);
        (void)harness_err(__FILE__, __LINE__, "release", code, DLOCK_OK, NULL);
    }
    return NULL;
}

ROW(P2, a_crowd_never_overlaps,
    "no overlap, no lost update, and rising tokens where there are any, in a crowd")
{
    enum { WORKERS = 6, ROUNDS = 60 };
    NEEDS(CAN_CALL);
    worker workers[WORKERS] = {0};
    resource *shared = resource_new();
    TWO_CLIENTS(one, other);
    for (int i = 0; i < WORKERS; i++) {
        dlock_client *client = i % 2 ? one : other;
        workers[i] = (worker){.client = client,
                              .lock = world_lock(client, "L", NULL),
                              .resource = shared,
                              .rounds = ROUNDS};
        CHECK_EQ_INT(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(workers[i].thread, NULL);
        dlock_lock_free(workers[i].lock);
    }
    verdict v = resource_judge(shared, grid_has_tokens() ? RESOURCE_STATE_KEPT
                                                         : RESOURCE_NO_TOKENS);
    CHECK_EQ_INT(v.stays, WORKERS * ROUNDS);
    CHECK_EQ_INT(v.accepted, WORKERS * ROUNDS);
    MUST(v.overlaps + v.lost_updates + v.old_tokens == 0);
    resource_free(shared);
    CHECK(grid_settles());
}

/* ---- Owners ---- */

ROW(P3, a_thread_may_take_it_again,
    "re-entry: the same grant, without asking; free with the last")
{
    NEEDS(CAN_CALL);
    CLIENT_WITH_HOLD(client, lock, first, "L", NULL);
    DLOCK_AUTO(dlock_lock) same = world_lock(client, "L", NULL);
    int64_t commands = api_stat(client, "commands");
    DLOCK_AUTO(dlock_hold) second = world_take(same);
    CHECK(first && second);
    CHECK_EQ_INT(api_stat(client, "commands"), commands);
    CHECK_EQ_INT(dlock_hold_token(second), dlock_hold_token(first));
    CHECK_STR(dlock_hold_owner(second), dlock_hold_owner(first));
    CHECK_EQ_INT(dlock_hold_release(first, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_check(first), DLOCK_ENOTHELD);
    CHECK_EQ_INT(dlock_hold_check(second), DLOCK_OK);
    CHECK_EQ_INT(world_try("L"), DLOCK_EBUSY);
    CHECK_EQ_INT(dlock_hold_release(second, NULL), DLOCK_OK);
    CHECK_EQ_INT(world_try("L"), DLOCK_OK);
}

ROW(P4, another_thread_waits, "another thread waits, also through the same handle")
{
    NEEDS(CAN_CALL);
    CLIENT_WITH_HOLD(client, lock, hold, "L", NULL);
    WAITER(hasty);
    WAITER(patient);
    world_wait_start(&hasty, client, lock, 0);
    CHECK_EQ_INT(world_wait_end(&hasty), DLOCK_EBUSY);
    world_wait_start(&patient, client, lock, patience_ms());
    AWAIT(world_asleep(patient.tid));
    CHECK(!patient.over);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    CHECK_EQ_INT(world_wait_end(&patient), DLOCK_OK);
    CHECK(grid_rises(dlock_hold_token(hold), dlock_hold_token(patient.hold)));
}

ROW(P5, owner_none, "owner=none: every acquire is an owner of its own")
{
    NEEDS(CAN_CALL);
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(client, lock, hold, "L", "lock.owner=none");
    DLOCK_AUTO(dlock_hold) none = NULL;
    CHECK_ERR(dlock_lock_acquire(lock, 0, &none, &err), DLOCK_EBUSY, err);
    CHECK_OK(dlock_hold_release(hold, &err), err);
    CHECK_OK(dlock_lock_acquire(lock, 0, &none, &err), err);
    CHECK(strcmp(dlock_hold_owner(none), dlock_hold_owner(hold)) != 0);
}

ROW(P6, reentrant_false,
    "reentrant=false: the same thread is told of the dead-lock at once")
{
    NEEDS(CAN_CALL);
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(client, lock, hold, "L", "lock.reentrant=false");
    DLOCK_AUTO(dlock_hold) none = NULL;
    CHECK_ERR(dlock_lock_acquire(lock, DLOCK_FOREVER, &none, &err), DLOCK_EDEADLK, err);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
}

ROW(P7, starts_are_owners, "_start: an owner of its own; of its thread with owner=thread")
{
    NEEDS(CAN_CALL);
    CLIENT_WITH_HOLD(client, lock, hold, "L", NULL);
    DLOCK_AUTO(dlock_lock) mine = world_lock(client, "M", "lock.owner=thread");
    DLOCK_AUTO(dlock_hold) also = world_take(mine);
    DLOCK_AUTO(dlock_op) apart = dlock_lock_acquire_start(lock, 0);
    DLOCK_AUTO(dlock_op) again = dlock_lock_acquire_start(mine, 0);
    ENDS(apart, DLOCK_EBUSY);
    ENDS(again, DLOCK_OK);
    DLOCK_AUTO(dlock_hold) second = dlock_op_take_hold(again);
    CHECK_EQ_INT(dlock_hold_token(second), dlock_hold_token(also));
}

static void *take_and_end(void *lock)
{
    return world_take(lock);
}

ROW(P8, a_threads_end,
    "a thread's end does nothing to its grants, and nobody inherits them")
{
    NEEDS(CAN_CALL);
    CLIENT_WITH_LOCK(client, lock, "L", NULL);
    pthread_t thread;
    void *result = NULL;
    CHECK_EQ_INT(pthread_create(&thread, NULL, take_and_end, lock), 0);
    pthread_join(thread, &result);
    DLOCK_AUTO(dlock_hold) hold = result;
    CHECK(hold != NULL);
    for (int i = 0; i < 5; i++) { /* threads that may get its number, or its stack */
        WAITER(next);
        world_wait_start(&next, client, lock, 0);
        CHECK_EQ_INT(world_wait_end(&next), DLOCK_EBUSY);
    }
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    /* Where there is a line, the places of those who were refused may just be on their way out. */
    AWAIT(world_try("L") == DLOCK_OK);
}

/* ---- Renewal and validity ---- */

ROW(P9, renewal, "renewed while it is held, far beyond its lease")
{
    PARTY(holder) = party_new(NULL, "lock.ttl_ms=1000");
    PARTY(rival) = party_new(NULL, NULL);
    CHECK_EQ_INT(party_take(holder, "L", 0), DLOCK_OK);
    int64_t end = now_ms() + 2300;
    while (now_ms() < end) {
        CHECK(grid_timed_out(party_take(rival, "L", 200)));
        CHECK_EQ_INT(party_still(holder), DLOCK_OK);
    }
    CHECK_EQ_INT(party_give_back(holder), DLOCK_OK);
}

ROW(P10, loss_by_the_clock,
    "lost by this machine's clock, before anybody else can have it")
{
    NEEDS(CAN_CALL);
    DLOCK_AUTO(dlock_client) client = world_client("lock.ttl_ms=300 lock.renew=off");
    DLOCK_AUTO(dlock_client) other = world_client("client.poll_ms=10");
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, "L", NULL);
    DLOCK_AUTO(dlock_lock) wanted = world_lock(other, "L", NULL);
    for (int i = 0; i < 3; i++) {
        DLOCK_AUTO(dlock_hold) hold = world_take(lock);
        CHECK(dlock_hold_remaining_ms(hold) <= 300);
        WAITER(rival);
        world_wait_start(&rival, other, wanted, patience_ms());
        bool over = false;
        while (!over) { /* the rival has it: asked *before* the check */
            over = rival.over;
            dlock_err code = dlock_hold_check(hold);
            MUST(code == DLOCK_ELOST || (code == DLOCK_OK && !over));
        }
        CHECK_EQ_INT(world_wait_end(&rival), DLOCK_OK);
        CHECK_EQ_INT(dlock_hold_remaining_ms(hold), 0);
        CHECK_EQ_INT(dlock_hold_state(hold), DLOCK_LOST);
        CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ELOST);
        CHECK_EQ_INT(dlock_hold_release(rival.hold, NULL), DLOCK_OK);
    }
}

ROW(P11, fed, "renew=fed: lives while it is fed")
{
    NEEDS(CAN_CALL);
    CLIENT_WITH_HOLD(client, lock, hold, "L", "lock.ttl_ms=900 lock.renew=fed");
    int64_t end = now_ms() + 1300;
    while (now_ms() < end) {
        CHECK_EQ_INT(dlock_hold_feed(hold), DLOCK_OK);
        nap_ms(1);
    }
    int64_t renewals = api_stat(client, "renewals");
    CHECK(renewals > 0);
    AWAIT(dlock_hold_check(hold) == DLOCK_ELOST);
    /* The last feed counts, and with it one renewal that was under way just now. */
    CHECK(api_stat(client, "renewals") <= renewals + 2);
}

ROW(P12, max_hold, "max_hold: the end, however often it is renewed or extended")
{
    NEEDS(CAN_CALL);
    DLOCK_AUTO(dlock_error) err = NULL;
    /* Not much shorter: where a starved server takes longer to extend it, it is over before. */
    CLIENT_WITH_LOCK(client, lock, "L", "lock.ttl_ms=900 lock.max_hold_ms=1000");
    int64_t began = now_ms();
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    CHECK_OK(dlock_hold_extend(hold, 60000, &err), err);
    CHECK(dlock_hold_remaining_ms(hold) <= 1000);
    AWAIT(dlock_hold_check(hold) == DLOCK_ELOST);
    CHECK(now_ms() - began >= 900);
    CHECK(grid_in_time("the hold", began, 1000));
}

ROW(P13, extend, "extend: from now on, and never shorter")
{
    NEEDS(CAN_CALL);
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(client, lock, hold, "L", "lock.ttl_ms=20000 lock.renew=off");
    CHECK_OK(dlock_hold_extend(hold, 100, &err), err);
    CHECK(dlock_hold_remaining_ms(hold) > 10000);
    CHECK_OK(dlock_hold_extend(hold, 60000, &err), err);
    CHECK(dlock_hold_remaining_ms(hold) > 40000);
    CHECK(world_seen(lock, "holders.0.remaining_ms") > 40000); /* and there, too */
}

ROW(P14, told_once, "a loss is told once to each hold that asked")
{
    NEEDS(CAN_CALL);
    CLIENT_WITH_HOLD(client, lock, first, "L", NULL);
    DLOCK_AUTO(dlock_hold) second = world_take(lock);
    DLOCK_AUTO(dlock_hold) unarmed = world_take(lock);
    int told[3] = {0};
    CHECK(dlock_hold_notify(first, 1) == DLOCK_OK &&
          dlock_hold_notify(second, 2) == DLOCK_OK);
    CHECK(world_lose("L", first));
    CHECK_EQ_INT(dlock_hold_check(unarmed), DLOCK_ELOST);
    CHECK_EQ_INT(dlock_hold_verify(second, NULL),
                 DLOCK_ELOST); /* a second time to say so */
    CHECK_EQ_INT(dlock_client_close(client, NULL), DLOCK_OK); /* so that all has come */
    dlock_event *event;
    while ((event = dlock_client_next_event(client))) {
        if (dlock_event_what(event) == DLOCK_EVENT_LOST) {
            CHECK(dlock_event_tag(event) <= 2);
            CHECK_EQ_INT(dlock_event_token(event), dlock_hold_token(first));
            told[dlock_event_tag(event)]++;
        }
        dlock_event_free(event);
    }
    CHECK(told[0] == 0 && told[1] == 1 && told[2] == 1);
}

ROW(P15, after_a_loss, "who lost it has to release it before he contends anew")
{
    NEEDS(CAN_CALL);
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(client, lock, hold, "L", NULL);
    DLOCK_AUTO(dlock_hold) next = NULL;
    CHECK(world_lose("L", hold));
    CHECK_ERR(dlock_lock_acquire(lock, 1000, &next, &err), DLOCK_ELOST, err);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ELOST);
    CHECK_OK(dlock_lock_acquire(lock, 0, &next, &err), err);
    CHECK(grid_rises(dlock_hold_token(hold), dlock_hold_token(next)));
}

/* ---- Giving it back ---- */

ROW(P16, release_once, "a second release answers ENOTHELD and touches nobody")
{
    NEEDS(CAN_CALL);
    CLIENT_WITH_HOLD(client, lock, hold, "L", "lock.owner=none");
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    DLOCK_AUTO(dlock_hold) next = world_take(lock);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ENOTHELD);
    CHECK_EQ_INT(dlock_hold_state(hold), DLOCK_RELEASED);
    CHECK(grid_rises(0, dlock_hold_token(hold)));
    CHECK_EQ_INT(dlock_hold_verify(next, NULL), DLOCK_OK);
}

ROW(P17, a_foreign_release,
    "a release of what was taken away leaves the next holder alone")
{
    PARTY(victim) = party_new(NULL, NULL);
    PARTY(next) = party_new(NULL, NULL);
    CHECK_EQ_INT(party_take(victim, "L", 0), DLOCK_OK);
    CHECK_EQ_INT(world_evict("L"), DLOCK_OK);
    CHECK_EQ_INT(party_take(next, "L", patience_ms()), DLOCK_OK);
    CHECK_EQ_INT(party_give_back(victim), DLOCK_ELOST);
    CHECK_EQ_INT(party_still(next), DLOCK_OK);
    CHECK_EQ_INT(world_try("L"), DLOCK_EBUSY);
    CHECK_EQ_INT(party_give_back(next), DLOCK_OK);
    MUST(grid_rises(party_token(victim), party_token(next)));
}

ROW(P18, async_release,
    "release=async: goes out all the same, and the next acquire behind it")
{
    NEEDS(CAN_CALL);
    CLIENT_WITH_LOCK(client, lock, "L", "lock.release=async");
    int64_t last = 0;
    for (int i = 0; i < 20; i++) {
        DLOCK_AUTO(dlock_hold) hold = NULL;
        CHECK_OK(dlock_lock_acquire(lock, patience_ms(), &hold, NULL), NULL);
        CHECK(grid_rises(last, dlock_hold_token(hold)));
        last = dlock_hold_token(hold);
        CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    }
    AWAIT(world_try("L") == DLOCK_OK);
}

ROW(P19, free_gives_back, "freeing a hold gives the lock back")
{
    NEEDS(CAN_CALL);
    CLIENT_WITH_LOCK(client, lock, "L", NULL);
    dlock_hold *hold = world_take(lock);
    CHECK_EQ_INT(world_try("L"), DLOCK_EBUSY);
    dlock_hold_free(hold);
    AWAIT(world_try("L") == DLOCK_OK);
}

/* ---- The guarded operation ---- */

typedef struct task {
    dlock_hold *hold;
    char steps[16];
    bool lose;
} task;

static void step(task *t, char letter)
{
    size_t used = strlen(t->steps);
    if (used + 1 < sizeof(t->steps))
        t->steps[used] = letter;
}

static dlock_err prepare(void *user)
{
    step(user, 'p');
    return DLOCK_OK;
}

static dlock_err run(void *user)
{
    task *t = user;
    step(t, 'r');
    return t->lose && !world_lose("L", t->hold) ? DLOCK_EUSER : DLOCK_OK;
}

static dlock_err commit(void *user, int64_t token)
{
    task *t = user;
    step(t, token == dlock_hold_token(t->hold) ? 'c' : '!');
    return DLOCK_OK;
}

static void undo(void *user)
{
    step(user, 'u');
}

static void lose(void *user)
{
    step(user, 'l');
}

ROW(P20, guard, "the guarded operation: never committed after a loss, but undone")
{
    NEEDS(CAN_CALL);
    static const dlock_guarded guarded = {.size = sizeof(guarded),
                                          .prepare = prepare,
                                          .run = run,
                                          .commit = commit,
                                          .undo = undo,
                                          .lost = lose};
    CLIENT_WITH_HOLD(client, lock, hold, "L", NULL);
    task well = {.hold = hold}, badly = {.hold = hold, .lose = true};
    CHECK_EQ_INT(dlock_hold_guard(hold, &guarded, &well, NULL), DLOCK_OK);
    CHECK_STR(well.steps, "prc");
    CHECK_EQ_INT(dlock_hold_guard(hold, &guarded, &badly, NULL), DLOCK_ELOST);
    CHECK_STR(badly.steps, "prul");
}
