/* Circles among those who wait; see the header.
 *
 * Parties that get on are taken out one after the other, and with each what it holds: every line is looked at a
 * bounded number of times, however hostile the lines are. */
#include "locks/deadlock.h"

#include <stdlib.h>
#include <string.h>

typedef struct party {
    size_t begin, end; /* its lines, in by_party */
    bool live;         /* it gets on */
    size_t step;       /* in the walk that has come by: 1 and up */
    dlk_deadlock_step next;
} party;

typedef struct lock {
    size_t begin, end; /* its lines, in by_lock */
    size_t holders;
    size_t blocked[2]; /* of them, who don't get on: [1] those that share it */
    size_t blocker[2]; /* the line of one of these, from 1; 0: there is none */
} lock;

typedef struct work {
    const dlk_deadlock_line *lines;
    size_t count;
    const dlk_deadlock_line **by_party, **by_lock;
    size_t *party_of, *lock_of; /* of each line */
    party *parties;
    lock *locks;
    size_t *queue; /* parties whose getting on is to be told of */
    size_t party_count, lock_count, queued;
} work;

static bool is_shared(const dlk_deadlock_line *line)
{
    return line->kind == DLOCK_READ;
}

/* Locks of one name are different ones where their kinds are. */
static int class_of(const dlk_deadlock_line *line)
{
    switch (line->kind) {
    case DLOCK_READ:
    case DLOCK_WRITE:
        return 1;
    case DLOCK_SEMAPHORE:
        return 2;
    case DLOCK_MUTEX:
    case DLOCK_ELECTION:
        break;
    }
    return 0;
}

static int compare_party(const dlk_deadlock_line *a, const dlk_deadlock_line *b)
{
    int order = strcmp(a->client, b->client);
    return order != 0 ? order : (a->thread > b->thread) - (a->thread < b->thread);
}

static int compare_lock(const dlk_deadlock_line *a, const dlk_deadlock_line *b)
{
    int order = class_of(a) - class_of(b);
    return order != 0 ? order : strcmp(a->name, b->name);
}

static int by_party(const void *a, const void *b)
{
    const dlk_deadlock_line *one = *(const dlk_deadlock_line *const *)a,
                            *other = *(const dlk_deadlock_line *const *)b;
    int order = compare_party(one, other);
    return order != 0 ? order : compare_lock(one, other);
}

static int by_lock(const void *a, const void *b)
{
    const dlk_deadlock_line *one = *(const dlk_deadlock_line *const *)a,
                            *other = *(const dlk_deadlock_line *const *)b;
    int order = compare_lock(one, other);
    return order != 0 ? order : compare_party(one, other);
}

static size_t index_of(const work *at, const dlk_deadlock_line *line)
{
    return (size_t)(line - at->lines);
}

static void *room(size_t count, size_t size)
{
    return calloc(count > 0 ? count : 1, size);
}

static bool begin(work *at)
{
    at->by_party = room(at->count, sizeof(const dlk_deadlock_line *));
    at->by_lock = room(at->count, sizeof(const dlk_deadlock_line *));
    at->party_of = room(at->count, sizeof(size_t));
    at->lock_of = room(at->count, sizeof(size_t));
    at->parties = room(at->count, sizeof(party));
    at->locks = room(at->count, sizeof(lock));
    at->queue = room(at->count, sizeof(size_t));
    return at->by_party && at->by_lock && at->party_of && at->lock_of && at->parties &&
           at->locks && at->queue;
}

static void end(work *at)
{
    free(at->by_party);
    free(at->by_lock);
    free(at->party_of);
    free(at->lock_of);
    free(at->parties);
    free(at->locks);
    free(at->queue);
}

static void list_parties(work *at)
{
    for (size_t i = 0; i < at->count; i++)
        at->by_party[i] = &at->lines[i];
    qsort(at->by_party, at->count, sizeof(*at->by_party), by_party);
    for (size_t i = 0; i < at->count; i++) {
        const dlk_deadlock_line *line = at->by_party[i];
        if (i == 0 || compare_party(at->by_party[i - 1], line) != 0)
            at->parties[at->party_count++] = (party){.begin = i, .live = true};
        party *of = &at->parties[at->party_count - 1];
        of->end = i + 1;
        if (line->waits && line->thread != 0)
            of->live = false;
        at->party_of[index_of(at, line)] = at->party_count - 1;
    }
}

static void list_locks(work *at)
{
    for (size_t i = 0; i < at->count; i++)
        at->by_lock[i] = &at->lines[i];
    qsort(at->by_lock, at->count, sizeof(*at->by_lock), by_lock);
    for (size_t i = 0; i < at->count; i++) {
        const dlk_deadlock_line *line = at->by_lock[i];
        if (i == 0 || compare_lock(at->by_lock[i - 1], line) != 0)
            at->locks[at->lock_count++] = (lock){.begin = i};
        lock *of = &at->locks[at->lock_count - 1];
        of->end = i + 1;
        size_t index = index_of(at, line);
        at->lock_of[index] = at->lock_count - 1;
        of->holders += !line->waits;
        if (!line->waits && !at->parties[at->party_of[index]].live)
            of->blocked[is_shared(line)]++;
    }
}

/* May what this line waits for be given back? */
static bool may_come(const lock *of, const dlk_deadlock_line *line)
{
    if (line->kind == DLOCK_SEMAPHORE)
        return of->holders == 0 || of->blocked[0] < of->holders;
    return of->blocked[0] == 0 && (is_shared(line) || of->blocked[1] == 0);
}

static void look_at_waits(work *at, const lock *of)
{
    for (size_t i = of->begin; i < of->end; i++) {
        const dlk_deadlock_line *line = at->by_lock[i];
        size_t number = at->party_of[index_of(at, line)];
        if (!line->waits || at->parties[number].live || !may_come(of, line))
            continue;
        at->parties[number].live = true;
        at->queue[at->queued++] = number;
    }
}

/* It gives back what it holds. Whoever waits is looked at again only when that may change something. */
static void get_on(work *at, const party *who)
{
    for (size_t i = who->begin; i < who->end; i++) {
        const dlk_deadlock_line *line = at->by_party[i];
        lock *of = &at->locks[at->lock_of[index_of(at, line)]];
        if (line->waits)
            continue;
        size_t *blocked = &of->blocked[is_shared(line)];
        bool first = *blocked == of->holders;
        --*blocked;
        if (*blocked == 0 || (first && line->kind == DLOCK_SEMAPHORE))
            look_at_waits(at, of);
    }
}

static void take_out_who_gets_on(work *at)
{
    for (size_t i = 0; i < at->lock_count; i++)
        look_at_waits(at, &at->locks[i]);
    for (size_t next = 0; next < at->queued; next++)
        get_on(at, &at->parties[at->queue[next]]);
}

static void find_blocker(const work *at, lock *of)
{
    for (size_t i = of->begin; i < of->end; i++) {
        const dlk_deadlock_line *line = at->by_lock[i];
        size_t index = index_of(at, line);
        size_t *blocker = &of->blocker[is_shared(line)];
        if (!line->waits && !at->parties[at->party_of[index]].live && *blocker == 0)
            *blocker = index + 1;
    }
}

/* To a holder that it waits for and that doesn't get on either: there is one of each thing. */
static void lead_on(const work *at, party *who)
{
    size_t i = who->begin;
    while (!at->by_party[i]->waits)
        i++;
    who->next.waits = index_of(at, at->by_party[i]);
    const lock *of = &at->locks[at->lock_of[who->next.waits]];
    who->next.holds = (of->blocker[0] != 0 ? of->blocker[0] : of->blocker[1]) - 1;
}

static size_t next_of(const work *at, size_t number)
{
    return at->party_of[at->parties[number].next.holds];
}

/* From each that waits on to whom it waits for, until the way comes back to itself, or to an earlier one. */
static void walk(work *at, dlk_deadlocks *ret)
{
    size_t used = 0, step = 0;
    for (size_t i = 0; i < at->party_count; i++) {
        size_t first = step + 1, who = i;
        while (!at->parties[who].live && at->parties[who].step == 0) {
            at->parties[who].step = ++step;
            who = next_of(at, who);
        }
        if (at->parties[who].live || at->parties[who].step < first)
            continue;
        size_t from = who;
        do {
            ret->steps[used++] = at->parties[who].next;
            who = next_of(at, who);
        } while (who != from);
        ret->ends[ret->count++] = used;
    }
}

bool dlk_deadlocks_find(const dlk_deadlock_line *lines, size_t count, dlk_deadlocks *ret)
{
    work at = {.lines = lines, .count = count};
    *ret = (dlk_deadlocks){.steps = room(count, sizeof(*ret->steps)),
                           .ends = room(count, sizeof(*ret->ends)),
                           .stuck = room(count, sizeof(*ret->stuck))};
    bool fine = begin(&at) && ret->steps && ret->ends && ret->stuck;
    if (fine) {
        list_parties(&at);
        list_locks(&at);
        take_out_who_gets_on(&at);
        for (size_t i = 0; i < at.lock_count; i++)
            find_blocker(&at, &at.locks[i]);
        for (size_t i = 0; i < at.party_count; i++)
            if (!at.parties[i].live)
                lead_on(&at, &at.parties[i]);
        for (size_t i = 0; i < count; i++)
            ret->stuck[i] = lines[i].waits && !at.parties[at.party_of[i]].live;
        walk(&at, ret);
    } else {
        dlk_deadlocks_free(ret);
    }
    end(&at);
    return fine;
}

void dlk_deadlocks_free(dlk_deadlocks *all)
{
    free(all->steps);
    free(all->ends);
    free(all->stuck);
    *all = (dlk_deadlocks){0};
}

size_t dlk_deadlock_youngest(const dlk_deadlock_line *lines, const dlk_deadlocks *all,
                             size_t number)
{
    size_t found = dlk_deadlock_begin(all, number);
    for (size_t i = found + 1; i < all->ends[number]; i++) {
        const dlk_deadlock_line *one = &lines[all->steps[i].waits],
                                *other = &lines[all->steps[found].waits];
        if (one->since > other->since ||
            (one->since == other->since && compare_party(one, other) > 0))
            found = i;
    }
    return found;
}
