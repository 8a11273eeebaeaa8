/* One thread of a worker: takes a lock, uses the resource, gives the lock back; again and again,
 * each time in another way, and notes it. */
#include "nemesis/worker.h"

#include <stdio.h>
#include <stdlib.h>

/* One acquire and what comes of it. */
typedef struct turn {
    player *player;
    uint16_t lock;
    uint64_t op;
    int32_t wait_ms;
    dlock_hold *hold;
    int64_t token;
    oracle_side side;
    int64_t seen;
    bool looked;
} turn;

static history_record record_of(const turn *t, history_event event)
{
    return (history_record){.event = (uint8_t)event,
                            .op = t->op,
                            .token = t->token,
                            .wait_ms = t->wait_ms,
                            .lock = (uint16_t)(self.first + t->lock),
                            .client = t->player->crew->number,
                            .kind = DLOCK_MUTEX,
                            .take = 1,
                            .permits = 1};
}

static int64_t note(const turn *t, history_event event, dlock_err code)
{
    history_record what = record_of(t, event);
    what.code = (uint8_t)code;
    return history_note(&self.history, what);
}

/* Until when the library says that the lock is ours; `now` was read before it was asked. */
static int64_t deadline(const turn *t, int64_t now)
{
    return now + dlock_hold_remaining_ms(t->hold) * MS;
}

/* ---- Asking ---- */

static void note_answer(turn *t, dlock_err code)
{
    history_record *slot = history_claim(&self.history);
    if (code == DLOCK_OK)
        t->token = dlock_hold_token(t->hold);
    history_record what = record_of(t, HISTORY_ANSWER);
    what.code = (uint8_t)code;
    what.time = history_now();
    if (code == DLOCK_OK)
        what.value = deadline(t, what.time);
    history_fill(slot, what);
}

/* As an op, sometimes cancelled; a cancel that comes too late leaves us with a hold. */
static dlock_err ask_by_op(turn *t)
{
    dlock_op *op = dlock_lock_acquire_start(t->player->crew->locks[t->lock], t->wait_ms);
    int64_t patience =
        worker_roll(t->player, 2) ? DLOCK_FOREVER : (int64_t)worker_roll(t->player, 60);
    if (dlock_op_wait(op, patience) == DLOCK_EPENDING) {
        dlock_op_cancel(op);
        (void)dlock_op_wait(op, DLOCK_FOREVER);
    }
    dlock_err code = dlock_op_result(op);
    t->hold = dlock_op_take_hold(op);
    dlock_op_free(op);
    return code;
}

static bool ask(turn *t)
{
    player *p = t->player;
    static const int32_t waits[] = {0, 30, 300, 2000, 5000, 5000};
    t->lock = (uint16_t)(worker_roll(p, 2) ? 0 : worker_roll(p, self.locks));
    t->wait_ms = waits[worker_roll(p, sizeof(waits) / sizeof(waits[0]))];
    t->op = (uint64_t)self.id << 40 | atomic_fetch_add(&self.ops, 1);
    (void)note(t, HISTORY_ASK, DLOCK_OK);
    dlock_err code =
        worker_roll(p, 4) == 0
            ? ask_by_op(t)
            : dlock_lock_acquire(p->crew->locks[t->lock], t->wait_ms, &t->hold, NULL);
    note_answer(t, code);
    if (code == DLOCK_EUNAVAIL || code == DLOCK_EUNKNOWN || code == DLOCK_EACCES)
        nap_us(20000);
    return code == DLOCK_OK;
}

/* ---- Using ---- */

static bool is_held(turn *t)
{
    history_record *slot = history_claim(&self.history);
    history_record what = record_of(t, HISTORY_CHECK);
    what.time = history_now();
    dlock_err code = dlock_hold_check(t->hold);
    what.code = (uint8_t)code;
    what.extra = history_now();
    if (code == DLOCK_OK)
        what.value = deadline(t, what.extra);
    history_fill(slot, what);
    return code == DLOCK_OK;
}

/* Reads the resource, or writes what follows from what was read. False: refused. */
static bool visit(turn *t, bool write)
{
    history_record *slot = history_claim(&self.history);
    history_record what = record_of(t, write ? HISTORY_WRITE : HISTORY_LOOK);
    oracle_visit wish = {.lock = what.lock,
                         .write = write,
                         .token = t->token,
                         .op = t->op,
                         .seen = t->seen};
    oracle_answer answer = {0};
    what.extra = history_now();
    if (!oracle_ask(&self.oracle, t->side, &wish, &answer)) {
        fprintf(stderr, "worker %u: the resource is gone\n", self.id);
        exit(1);
    }
    what.time = history_now();
    what.code = answer.admitted ? HISTORY_ACCEPTED : HISTORY_REFUSED;
    what.value = write ? t->seen : answer.value;
    what.sequence = answer.sequence;
    what.take = (uint8_t)t->side;
    history_fill(slot, what);
    if (answer.admitted)
        t->seen = answer.value;
    t->looked = t->looked || answer.admitted;
    return answer.admitted != 0;
}

static dlock_err commit(void *user, int64_t token)
{
    (void)token;
    return visit(user, true) ? DLOCK_OK : DLOCK_ELOST;
}

static dlock_err do_nothing(void *user)
{
    (void)user;
    return DLOCK_OK;
}

static void write_guarded(turn *t)
{
    static const dlock_guarded steps = {
        .size = sizeof(steps), .run = do_nothing, .commit = commit};
    if (dlock_hold_guard(t->hold, &steps, t, NULL) == DLOCK_ELOST)
        (void)is_held(t); /* must say the same */
}

/* Writes as users do: after a check, behind a guard, or without a look at the lock, which is what
 * the tokens are for. */
static void write_once(turn *t)
{
    if (!t->looked)
        return;
    switch (worker_roll(t->player, 3)) {
    case 0:
        write_guarded(t);
        break;
    case 1:
        if (is_held(t))
            (void)visit(t, true);
        break;
    default:
        (void)visit(t, true);
    }
}

static void fetch_events(turn *t)
{
    dlock_event *event;
    while ((event = dlock_client_next_event(t->player->crew->client))) {
        if (dlock_event_what(event) == DLOCK_EVENT_LOST) {
            history_record what = record_of(t, HISTORY_LOST);
            what.op = dlock_event_tag(event);
            what.token = dlock_event_token(event);
            history_note(&self.history, what);
        }
        dlock_event_free(event);
    }
}

/* Holds on for a part of a lease or for more than one, so that it has to be renewed. */
static void linger(turn *t)
{
    static const int64_t percents[] = {20, 60, 130, 250};
    int64_t until =
        history_now() + percents[worker_roll(t->player, 4)] * self.ttl_ms * MS / 100;
    bool armed = dlock_hold_notify(t->hold, t->op) == DLOCK_OK;
    while (history_now() < until && is_held(t) && !worker_is_ending()) {
        nap_us(20000 + (int64_t)worker_roll(t->player, 80000));
        write_once(t);
    }
    if (armed)
        fetch_events(t);
}

/* ---- Giving back ---- */

static void give_back(turn *t)
{
    (void)note(t, HISTORY_LEAVE, DLOCK_OK);
    dlock_err code = DLOCK_EPENDING; /* nobody waits for the answer */
    uint64_t how = worker_roll(t->player, 8);
    if (how == 0) {
        dlock_hold_free(t->hold);
    } else if (how == 1) {
        dlock_op_free(dlock_hold_release_start(t->hold));
        dlock_hold_free(t->hold);
    } else {
        code = dlock_hold_release(t->hold, NULL);
        dlock_hold_free(t->hold);
    }
    if (t->looked && worker_roll(t->player, 16) == 0)
        (void)visit(t, true); /* as one who hasn't noticed: the token decides */
    (void)note(t, HISTORY_LEFT, code);
}

static void take_turn(player *p)
{
    turn t = {.player = p, .side = worker_roll(p, 2) ? ORACLE_PAGE : ORACLE_SERVER};
    if (!ask(&t))
        return;
    (void)visit(&t, false);
    if (worker_roll(p, 3) > 0)
        nap_us((int64_t)worker_roll(p, 2000));
    write_once(&t);
    /* The last lock is there to be held for long, the others for many to have them. */
    if (worker_roll(p, t.lock == self.locks - 1 ? 3 : 300) == 0)
        linger(&t);
    (void)is_held(&t);
    give_back(&t);
}

void *worker_play(void *argument)
{
    player *p = argument;
    while (!worker_is_ending()) {
        take_turn(p);
        nap_us((int64_t)worker_roll(p, 8000));
        if (self.threads == 1 && worker_roll(p, 2000) == 0) {
            worker_close(p->crew);
            if (!worker_open(p->crew))
                break;
        }
    }
    return NULL;
}
