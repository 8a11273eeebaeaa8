/* Keeps track of who asked, holds and left, event by event, and asks the rules. */
#include "histories/checker.h"

#include <dlock/dlock.h>

#include <stdlib.h>

#define TRY SECOND /* one command, which may take as long as its time-out */

static void *new (size_t size)
{
    void *it = calloc(1, size);
    if (!it) {
        perror("calloc");
        exit(2);
    }
    return it;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static lock *lock_of(checker *c, uint16_t number)
{
    lock **at = &c->locks[number % CHECKER_LOCKS];
    if (!*at) {
        *at = new (sizeof(lock));
        (*at)->number = number;
    }
    return *at;
}

/* ---- Acquires ---- */

static op **place_of(checker *c, uint64_t id)
{
    op **at = &c->table[(id ^ id >> 40) % CHECKER_BUCKETS];
    while (*at && (*at)->id != id)
        at = &(*at)->next_of_table;
    return at;
}

static op *add_op(checker *c, peer *p, const history_record *r)
{
    op **at = place_of(c, r->op), *o = new (sizeof(*o));
    *o = (op){.id = r->op,
              .peer = p,
              .lock = lock_of(c, r->lock),
              .client = r->client,
              .kind = r->kind,
              .take = r->take,
              .permits = r->permits,
              .asked = r->time,
              .wait = r->wait_ms < 0    ? NEVER
                      : r->wait_ms == 0 ? TRY
                                        : r->wait_ms * MS,
              .queued = later(r->time, p->gap_end)};
    o->head_since = o->place_since = o->queued;
    for (const op *other = o->lock->ops; other; other = other->next_of_lock)
        if (!other->answered && checker_same_client(o, other) &&
            other->place_since < o->place_since)
            o->place_since =
                other->place_since; /* a place is kept for whoever comes next */
    o->token_before = o->lock->newest;
    o->next_of_lock = o->lock->ops;
    o->lock->ops = o;
    *at = o;
    return o;
}

static void drop_op(checker *c, op *o)
{
    op **at = &o->lock->ops;
    while (*at != o)
        at = &(*at)->next_of_lock;
    *at = o->next_of_lock;
    at = place_of(c, o->id);
    *at = o->next_of_table;
    free(o);
}

/* The lock is free from then on, as far as this one is concerned. */
static void stop_holding(op *o, int64_t since)
{
    if (o->holding)
        o->lock->free_since = later(o->lock->free_since, since);
    o->holding = false;
}

/* Whatever a client does with a lock, those of its owners that wait for it come next only then;
 * when it had the lock, it also has to queue again. */
static void client_moved(op *mover, int64_t at)
{
    for (op *o = mover->lock->ops; o; o = o->next_of_lock) {
        if (o == mover || o->answered || !checker_same_client(o, mover))
            continue;
        o->head_since = later(o->head_since, at);
        if (mover->granted != 0)
            o->place_since = at;
    }
}

static void note_silence(const op *o, const history_record *r)
{
    if (r->code == DLOCK_EUNKNOWN || r->code == DLOCK_EUNAVAIL)
        o->peer->backend->shaken_at = r->time;
}

static void answered(checker *c, op *o, const history_record *r)
{
    tally *sums = &o->peer->backend->sums;
    o->answered = true;
    note_silence(o, r);
    rule_patience(c, o, r->time);
    rule_liveness(c, o, r->time);
    if (r->code != DLOCK_OK) {
        sums->refusals += r->code == DLOCK_EBUSY || r->code == DLOCK_ETIMEDOUT ||
                          r->code == DLOCK_ECANCELED;
        sums->unanswered += r->code == DLOCK_EUNKNOWN || r->code == DLOCK_EUNAVAIL;
        client_moved(o, r->time);
        drop_op(c, o);
        return;
    }
    sums->grants++;
    o->granted = r->time;
    o->token = r->token;
    o->until = r->value;
    o->holding = true;
    rule_token(c, o);
    rule_order(c, o);
    rule_exclusion(c, o, r->time);
    client_moved(o, r->time);
}

static void checked(checker *c, op *o, const history_record *r)
{
    o->peer->backend->sums.checks++;
    rule_still_held(c, o, r);
    rule_noticed(c, o, r->time, r->code == DLOCK_OK);
    if (r->code == DLOCK_OK) {
        o->until = later(o->until, r->value);
        rule_exclusion(c, o, r->time);
        return;
    }
    o->peer->backend->sums.losses += o->lost == 0;
    if (o->lost == 0)
        o->lost = r->extra;
    stop_holding(o, r->extra);
}

/* The release has ended, somehow; what the service made of it is sure only after OK. */
static void left(checker *c, op *o, const history_record *r)
{
    tally *sums = &o->peer->backend->sums;
    note_silence(o, r);
    if (r->code == DLOCK_OK || r->code == DLOCK_ELOST)
        stop_holding(o, r->time);
    else
        stop_holding(o, r->time + o->peer->backend->ttl);
    sums->losses += r->code == DLOCK_ELOST && o->lost == 0;
    if (r->code == DLOCK_OK && o->lost != 0)
        checker_violation(c, &sums->used_after_loss, r->time,
                          "worker %u: a release was OK after the hold was lost",
                          o->peer->id);
    client_moved(o, r->time);
    drop_op(c, o);
}

static void was_told(checker *c, op *o, int64_t at)
{
    o->peer->backend->sums.lost_events++;
    if (o->told != 0)
        checker_violation(c, &o->peer->backend->sums.used_after_loss, at,
                          "worker %u: LOST was told twice for token %lld", o->peer->id,
                          (long long)o->token);
    o->told = at;
}

static void follow_op(checker *c, op *o, const history_record *r)
{
    switch ((history_event)r->event) {
    case HISTORY_ANSWER:
        answered(c, o, r);
        return;
    case HISTORY_CHECK:
        checked(c, o, r);
        return;
    case HISTORY_LOOK:
    case HISTORY_WRITE:
        rule_resource(c, o, r);
        return;
    case HISTORY_LEAVE:
        o->left = r->time;
        return;
    case HISTORY_LEFT:
        left(c, o, r);
        return;
    case HISTORY_LOST:
        was_told(c, o, r->time);
        return;
    case HISTORY_ASK:
    case HISTORY_PULSE:
    case HISTORY_CLOSE:
    case HISTORY_OPENED:
        return;
    }
}

/* ---- Processes and faults ---- */

static void each_op_of(checker *c, const peer *p, void (*act)(checker *, op *, int64_t),
                       int64_t at)
{
    for (int i = 0; i < CHECKER_LOCKS; i++)
        for (op *o = c->locks[i] ? c->locks[i]->ops : NULL, *next; o; o = next) {
            next = o->next_of_lock;
            if (o->peer == p)
                act(c, o, at);
        }
}

static void died(checker *c, op *o, int64_t at)
{
    stop_holding(o, o->peer->backend->deaths ? at : at + o->peer->backend->ttl);
    drop_op(c, o);
}

static void end_of_peer(checker *c, op *o, int64_t at)
{
    checker_violation(c, NULL, at, "worker %u ended with an acquire that %s", o->peer->id,
                      o->answered ? "was never released" : "was never answered");
    drop_op(c, o);
}

/* All waiters of a service are held up by a process that is stopped in their way. */
static void gap(checker *c, peer *p, int64_t at, int64_t length)
{
    p->gap_end = at;
    p->backend->ran_from = at;
    for (int i = 0; i < CHECKER_LOCKS; i++)
        for (op *o = c->locks[i] ? c->locks[i]->ops : NULL; o; o = o->next_of_lock) {
            if (o->peer->backend == p->backend)
                o->head_since = later(o->head_since, at);
            if (o->peer == p) {
                o->excused += length;
                o->queued = later(o->queued, at);
            }
        }
}

static void waits_on(checker *c, op *o, int64_t at)
{
    if (o->answered)
        return;
    rule_patience(c, o, at);
    rule_liveness(c, o, at);
}

static void pulse(checker *c, peer *p, const history_record *r)
{
    rule_pulse(c, p, r->time, r->value);
    if (r->value > 0)
        gap(c, p, r->time, r->value);
    each_op_of(c, p, waits_on, r->time);
}

static void begin_fault(backend *b, const event *e)
{
    if (b->fault_count == b->fault_room) {
        b->fault_room = b->fault_room ? b->fault_room * 2 : 64;
        b->faults = realloc(b->faults, b->fault_room * sizeof(fault));
        if (!b->faults) {
            perror("realloc");
            exit(2);
        }
    }
    b->faults[b->fault_count++] = (fault){.from = e->time,
                                          .until = NEVER,
                                          .id = e->fault_id,
                                          .does = e->does,
                                          .stops = e->stops};
    if (e->does == HARM_ONE)
        b->shaken_at = e->time;
    else
        b->clear_from = NEVER;
}

static void end_fault(backend *b, const event *e)
{
    bool open = false, delayed = false;
    for (size_t i = 0; i < b->fault_count; i++) {
        fault *f = &b->faults[i];
        if (f->id == e->fault_id && f->until == NEVER) {
            f->until = e->time;
            if (f->does == HARM_ONE)
                b->shaken_at = e->time;
            else
                delayed = true;
        }
        open = open || (f->until == NEVER && f->does != HARM_ONE);
    }
    if (delayed && !open)
        b->clear_from = e->time;
}

static void follow_faults(checker *c, const event *e)
{
    for (int i = 0; i < c->backend_count; i++) {
        if (e->line == LINE_FAULT && (e->fault_backend == -1 || e->fault_backend == i))
            begin_fault(&c->backends[i], e);
        if (e->line == LINE_FAULT_END)
            end_fault(&c->backends[i], e);
    }
}

/* ---- Events ---- */

static void follow_record(checker *c, peer *p, const history_record *r)
{
    rule_alive(c, p, r->time);
    if (r->event == HISTORY_PULSE) {
        pulse(c, p, r);
        return;
    }
    if (r->event == HISTORY_ASK) {
        p->backend->sums.asks++;
        (void)add_op(c, p, r);
        return;
    }
    op *o = r->op ? *place_of(c, r->op) : NULL;
    if (o)
        follow_op(c, o, r);
}

void checker_follow(checker *c, const event *e)
{
    switch (e->line) {
    case LINE_RECORD:
        follow_record(c, e->peer, &e->record);
        return;
    case LINE_DEAD:
        rule_dead(c, e->peer);
        e->peer->dead = true;
        e->peer->backend->shaken_at = e->time;
        each_op_of(c, e->peer, died, e->time);
        return;
    case LINE_ENDED:
        rule_dead(c, e->peer);
        e->peer->dead = true;
        each_op_of(c, e->peer, end_of_peer, e->time);
        return;
    case LINE_FAULT:
    case LINE_FAULT_END:
        follow_faults(c, e);
        return;
    }
}

void checker_finish(checker *c)
{
    checker_read(c, true);
    for (int i = 0; i < c->peer_count; i++)
        if (!c->peers[i]->dead)
            checker_violation(c, NULL, c->judged, "worker %u has no end in the log",
                              c->peers[i]->id);
}
