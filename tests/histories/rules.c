/* What must hold in a history, each rule once. A rule that accuses a process of something it did
 * by not doing anything waits for proof that the process was alive then: it may have been killed,
 * and the log knows of that only later. */
#include "histories/checker.h"

#include <dlock/dlock.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

static double seconds(int64_t ns)
{
    return (double)ns / (double)SECOND;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void accuse(checker *c, int64_t *counter, int64_t at, const char *text)
{
    if (counter)
        ++*counter;
    if (c->violations++ == 0)
        (void)snprintf(c->first, sizeof(c->first), "%.6f %s", seconds(at), text);
    else if (c->violations <= 20)
        fprintf(stderr, "%.6f %s\n", seconds(at), text);
}

void checker_violation(checker *c, int64_t *counter, int64_t at, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    accuse(c, counter, at, text);
}

/* ---- Suspicions ---- */

__attribute__((format(printf, 6, 7))) static void suspect(checker *c, peer *p,
                                                          bool needs_pulse,
                                                          int64_t *counter, int64_t at,
                                                          const char *format, ...)
{
    if (c->suspicion_count == c->suspicion_room) {
        c->suspicion_room = c->suspicion_room ? c->suspicion_room * 2 : 64;
        c->suspicions = realloc(c->suspicions, c->suspicion_room * sizeof(suspicion));
        if (!c->suspicions) {
            perror("realloc");
            exit(2);
        }
    }
    suspicion *s = &c->suspicions[c->suspicion_count++];
    *s = (suspicion){.peer = p, .at = at, .needs_pulse = needs_pulse, .counter = counter};
    va_list args;
    va_start(args, format);
    (void)vsnprintf(s->text, sizeof(s->text), format, args);
    va_end(args);
}

static void drop_suspicion(checker *c, size_t i)
{
    c->suspicions[i] = c->suspicions[--c->suspicion_count];
}

void rule_alive(checker *c, peer *p, int64_t at)
{
    for (size_t i = c->suspicion_count; i-- > 0;) {
        suspicion s = c->suspicions[i];
        if (s.peer != p || s.needs_pulse || s.at > at)
            continue;
        drop_suspicion(c, i);
        accuse(c, s.counter, s.at, s.text);
    }
}

void rule_pulse(checker *c, peer *p, int64_t at, int64_t gap)
{
    for (size_t i = c->suspicion_count; i-- > 0;) {
        suspicion s = c->suspicions[i];
        if (s.peer != p || s.at > at)
            continue;
        drop_suspicion(c, i);
        if (gap == 0)
            accuse(c, s.counter, s.at, s.text);
    }
    tally *sums = &p->backend->sums;
    sums->longest_overshoot = later(sums->longest_overshoot, p->longest_overshoot - gap);
    sums->longest_free_wait = later(sums->longest_free_wait, p->longest_free_wait - gap);
    p->longest_overshoot = p->longest_free_wait = 0;
}

void rule_dead(checker *c, peer *p)
{
    for (size_t i = c->suspicion_count; i-- > 0;)
        if (c->suspicions[i].peer == p)
            drop_suspicion(c, i);
}

/* ---- Tokens ---- */

void rule_token(checker *c, op *o)
{
    lock *l = o->lock;
    tally *sums = &o->peer->backend->sums;
    bool shared = o->kind == DLOCK_READ || o->kind == DLOCK_SEMAPHORE;
    if (!shared && o->token <= 0)
        checker_violation(c, &sums->old_tokens, o->granted,
                          "lock %u: worker %u got no token", l->number, o->peer->id);
    else if (!shared && o->token <= o->token_before)
        checker_violation(c, &sums->old_tokens, o->granted,
                          "lock %u: worker %u got token %" PRId64 ", but %" PRId64
                          " had been given before it asked",
                          l->number, o->peer->id, o->token, o->token_before);
    for (int i = 0; !shared && i < CHECKER_RECENT; i++)
        if (l->recent_ops[i] != 0 && l->recent[i] == o->token)
            checker_violation(c, &sums->old_tokens, o->granted,
                              "lock %u: token %" PRId64
                              " was given twice, now to worker %u",
                              l->number, o->token, o->peer->id);
    l->recent[l->recent_at % CHECKER_RECENT] = o->token;
    l->recent_ops[l->recent_at++ % CHECKER_RECENT] = o->id;
    if (o->token > l->newest)
        l->newest = o->token;
}

/* ---- Exclusion, by the clock ---- */

static bool holds_at(const op *o, int64_t at)
{
    return o->granted != 0 && o->granted <= at && o->until > at && o->left == 0 &&
           o->lost == 0;
}

static bool get_along(const op *a, const op *b)
{
    if (a->kind == DLOCK_SEMAPHORE && b->kind == DLOCK_SEMAPHORE)
        return true; /* counted in sum */
    return a->kind == DLOCK_READ && b->kind == DLOCK_READ;
}

/* Whether the service may have forgotten the older of the two. */
static bool state_was_lost(const backend *b, const op *one, const op *other)
{
    int64_t from = one->granted < other->granted ? one->asked : other->asked;
    int64_t until = one->granted < other->granted ? other->granted : one->granted;
    for (size_t i = b->fault_count; i-- > 0;)
        if (b->faults[i].does >= HARM_LOSE && b->faults[i].from <= until &&
            b->faults[i].until >= from)
            return true;
    return false;
}

/* o holds at that time; who else does? */
void rule_exclusion(checker *c, op *o, int64_t at)
{
    tally *sums = &o->peer->backend->sums;
    int permits = o->take;
    bool excused = false;
    if (!holds_at(o, at))
        return; /* its grant was over when it was heard of */
    for (op *other = o->lock->ops; other; other = other->next_of_lock) {
        if (other == o || !holds_at(other, at))
            continue;
        permits += other->take;
        excused = excused || state_was_lost(o->peer->backend, o, other);
        if (get_along(o, other))
            continue;
        if (state_was_lost(o->peer->backend, o, other))
            sums->excused += at == o->granted; /* each pair once */
        else
            suspect(c, other->peer, false, &sums->overlaps, at,
                    "lock %u: worker %u (token %" PRId64
                    ", granted %.6f) and worker %u (token "
                    "%" PRId64 ", granted %.6f, until %.6f) hold it at once",
                    o->lock->number, o->peer->id, o->token, seconds(o->granted),
                    other->peer->id, other->token, seconds(other->granted),
                    seconds(other->until));
    }
    if (o->kind == DLOCK_SEMAPHORE && permits > o->permits && !excused)
        checker_violation(c, &sums->overlaps, at,
                          "lock %u: %d of %u permits are taken, the last by worker %u",
                          o->lock->number, permits, o->permits, o->peer->id);
}

/* ---- Order and liveness ---- */

/* Until its client's own release has ended, who waits there has no place among clients. */
static bool waits_for_its_own_client(const op *waiter)
{
    for (const op *o = waiter->lock->ops; o; o = o->next_of_lock)
        if (o != waiter && checker_same_client(o, waiter) && o->granted != 0 &&
            o->lost == 0 && !get_along(waiter, o))
            return true;
    return false;
}

/* Whether who waits should have been served first. Within a client that is always so; among
 * clients it is the client that has a place in the queue, as long as somebody there waits. */
static bool was_before(const checker *c, const op *waiter, const op *granted)
{
    if (checker_same_client(waiter, granted))
        return waiter->queued + c->slack < granted->asked;
    return granted->peer->backend->fifo && !waits_for_its_own_client(waiter) &&
           waiter->head_since + c->slack < granted->place_since;
}

void rule_order(checker *c, op *granted)
{
    for (op *o = granted->lock->ops; o; o = o->next_of_lock) {
        if (o->answered || o->peer->dead || o->kind != granted->kind ||
            !was_before(c, o, granted) ||
            (o->wait != NEVER && o->asked + o->wait <= granted->granted))
            continue;
        suspect(c, o->peer, true, &granted->peer->backend->sums.overtaken,
                granted->granted,
                "lock %u: worker %u asked at %.6f and was overtaken by worker %u, which "
                "asked "
                "at %.6f",
                o->lock->number, o->peer->id, seconds(o->asked), granted->peer->id,
                seconds(granted->asked));
        o->head_since = o->queued = granted->granted; /* once is enough */
    }
}

/* Nobody waits longer than asked. */
void rule_patience(checker *c, op *o, int64_t at)
{
    if (o->wait == NEVER)
        return;
    int64_t over = at - o->asked - o->wait - o->excused;
    if (over > o->peer->longest_overshoot)
        o->peer->longest_overshoot = over;
    if (over <= 2 * c->slack)
        return;
    suspect(c, o->peer, true, NULL, at,
            "lock %u: worker %u waits since %.6f, for %.3f s longer than it asked to",
            o->lock->number, o->peer->id, seconds(o->asked), seconds(over));
    o->wait = NEVER;
}

/* Each client of a process that was stopped meanwhile may have been told that it is next: then the
 * lock is kept for it, for a claim or, where whoever is next has it at once, for a lease, and somebody
 * has to look after that. */
static int64_t kept_for_the_stopped(const backend *b, int64_t since, int64_t at)
{
    int stopped = 0;
    for (size_t i = 0; i < b->fault_count; i++)
        stopped +=
            b->faults[i].stops && b->faults[i].from <= at && b->faults[i].until >= since;
    int64_t kept = b->claim ? b->claim : b->ttl;
    return stopped * b->clients * (kept + b->poll + b->poll / 4);
}

/* How long a lock may be free while somebody waits: until somebody has looked. After a disturbance
 * there may be a grant that nobody has heard of, which ends with its lease. */
static int64_t longest_vacancy(const checker *c, const backend *b, int64_t since,
                               int64_t at)
{
    int64_t looked = b->poll + b->poll / 4 + c->slack;
    int64_t shaken = later(b->shaken_at, later(b->clear_from, b->ran_from));
    bool quiet = shaken + 2 * b->ttl < since;
    return (quiet ? looked : looked + b->ttl) + kept_for_the_stopped(b, since, at);
}

/* A free lock is given to who waits. */
void rule_liveness(checker *c, op *o, int64_t at)
{
    backend *b = o->peer->backend;
    int64_t since = o->asked;
    for (const op *other = o->lock->ops; other; other = other->next_of_lock)
        if (other->holding)
            return;
    if (o->lock->free_since > since)
        since = o->lock->free_since;
    if (o->head_since > since)
        since = o->head_since;
    since = later(since, later(b->clear_from, b->ran_from));
    if (since < at && at - since > o->peer->longest_free_wait)
        o->peer->longest_free_wait = at - since;
    if (since >= at || at - since <= longest_vacancy(c, b, since, at))
        return;
    suspect(c, o->peer, true, NULL, at,
            "lock %u: worker %u waits since %.6f, and the lock is free since %.6f",
            o->lock->number, o->peer->id, seconds(o->asked), seconds(since));
    o->head_since = at;
}

/* ---- Loss ---- */

void rule_still_held(checker *c, op *o, const history_record *r)
{
    if (r->code != DLOCK_OK)
        return;
    if (o->lost != 0 || (o->told != 0 && o->told < r->time) || o->left != 0)
        checker_violation(c, &o->peer->backend->sums.used_after_loss, r->time,
                          "lock %u: worker %u, token %" PRId64
                          ": a check was OK after the hold was over",
                          o->lock->number, o->peer->id, o->token);
}

static const fault *last_of_service(const backend *b)
{
    for (size_t i = b->fault_count; i-- > 0;)
        if (b->faults[i].does != HARM_ONE)
            return &b->faults[i];
    return NULL;
}

/* What the service forgot is noticed by the next renewal, a third of the lease later. */
void rule_noticed(checker *c, op *o, int64_t at, bool held)
{
    backend *b = o->peer->backend;
    const fault *f = last_of_service(b);
    if (!f || f->does != HARM_WIPE || f->until > at || o->granted >= f->from ||
        o->left != 0 || o->lost != 0 || b->clear_from > f->until ||
        o->peer->gap_end > f->from)
        return;
    int64_t after = at - f->until;
    if (after > b->sums.longest_notice)
        b->sums.longest_notice = after;
    if (held && after > b->ttl * 37 / 100 + c->slack)
        checker_violation(c, NULL, at,
                          "lock %u: worker %u still believes in token %" PRId64
                          ", %.3f s after the service forgot it",
                          o->lock->number, o->peer->id, o->token, seconds(after));
}

/* ---- The resource ---- */

static void check_neighbours(checker *c, op *o, const history_record *r, side *s)
{
    tally *sums = &o->peer->backend->sums;
    neighbour *here = &s->writes[r->sequence % CHECKER_WRITES];
    const neighbour *before = &s->writes[(r->sequence - 1) % CHECKER_WRITES];
    const neighbour *after = &s->writes[(r->sequence + 1) % CHECKER_WRITES];
    if (here->sequence == r->sequence)
        checker_violation(c, &sums->lost_updates, r->time,
                          "lock %u: write %" PRId64 " happened twice", o->lock->number,
                          r->sequence);
    *here = (neighbour){.sequence = r->sequence, .token = r->token, .seen = r->value};
    bool fine = before->sequence != r->sequence - 1 || r->sequence == 1 ||
                (before->token <= r->token && before->seen + 1 == r->value);
    fine = fine && (after->sequence != r->sequence + 1 ||
                    (r->token <= after->token && r->value + 1 == after->seen));
    if (!fine)
        checker_violation(c, &sums->lost_updates, r->time,
                          "lock %u: worker %u, token %" PRId64 ": write %" PRId64
                          " doesn't follow from the one before",
                          o->lock->number, o->peer->id, r->token, r->sequence);
}

void rule_resource(checker *c, op *o, const history_record *r)
{
    tally *sums = &o->peer->backend->sums;
    side *s = &o->lock->sides[r->take % CHECKER_SIDES];
    bool write = r->event == HISTORY_WRITE;
    bool stale = r->extra >= o->until || o->lost != 0 || r->token < s->highest ||
                 r->code == HISTORY_REFUSED;
    sums->stale_tried += stale;
    sums->stale_refused += r->code == HISTORY_REFUSED;
    sums->writes += write && r->code == HISTORY_ACCEPTED;
    if (r->code == HISTORY_REFUSED)
        return;
    if (r->token < s->highest && s->highest_at < r->extra)
        checker_violation(c, &sums->stale_accepted, r->time,
                          "lock %u: worker %u was let in with token %" PRId64
                          " after %" PRId64,
                          o->lock->number, o->peer->id, r->token, s->highest);
    if (r->token > s->highest) {
        s->highest = r->token;
        s->highest_at = r->time;
    }
    if (write)
        check_neighbours(c, o, r, s);
}
