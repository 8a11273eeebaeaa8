/*
 * Who waits for whom in this process, over all its clients. A thread that waits with somebody of its client in
 * the way is in a table; whom it waits for is asked of its client each time (locks/blocked.c), and kept nowhere.
 *
 * A circle is seen by whoever closes it, since all others of it are in the table by then. It is looked for from
 * client to client, never with two of their mutexes at a time. That somebody holds a lock is believed only while
 * he waits, and as long as that is one and the same wait: who waits gives nothing back. So what is seen one after
 * the other is true at one moment. All of it is looked at once more, for those whose time is over meanwhile, who
 * have lost what they held, or for whom another thread has given it back.
 *
 * Of those who close a circle at a time one is told, under the table's mutex. That is taken with a client's mutex
 * held, and never the other way round.
 */
#include "engine/circle.h"

#include "engine/drive.h"
#include "util/clock.h"
#include "util/grow.h"
#include "util/point.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHAINS 64
#define NAMED  8 /* locks of a circle in its sentence, at most */

static pthread_mutex_t table_mutex = PTHREAD_MUTEX_INITIALIZER;
static dlk_list table[CHAINS]; /* a chain that was never used is zero */
static uint64_t last_number;

/* ---- the table: its mutex held ---- */

static dlk_list *chain_of(uint64_t thread)
{
    dlk_list *chain = &table[thread % CHAINS];
    if (!chain->next)
        dlk_list_init(chain);
    return chain;
}

static dlk_blocked *find(uint64_t thread)
{
    DLK_LIST_FOR (it, chain_of(thread)) {
        dlk_blocked *blocked = DLK_LIST_ITEM(it, dlk_blocked, link);
        if (blocked->thread == thread)
            return blocked->chosen ? NULL : blocked;
    }
    return NULL;
}

static bool waits(void *user, uint64_t thread)
{
    (void)user;
    return find(thread) != NULL;
}

void dlk_circle_before_fork(void)
{
    (void)pthread_mutex_lock(&table_mutex);
}

void dlk_circle_after_fork(bool child)
{
    if (child)
        memset(table, 0, sizeof(table));
    (void)pthread_mutex_unlock(&table_mutex);
}

/* ---- looking ---- */

/* A thread that is waited for, and waits. */
typedef struct dlk_step {
    uint64_t thread, number;
    size_t from; /* the one that waits for it */
    char *name;  /* of the lock that it waits for; NULL until that is known */
} dlk_step;

typedef struct dlk_walk {
    dlk_step *steps; /* the first one is the caller's */
    size_t count, room;
    size_t at;       /* whose blockers are looked at … */
    uint64_t target; /* … for this one among them */
    bool out_of_memory;
} dlk_walk;

static bool known(const dlk_walk *walk, uint64_t thread)
{
    for (size_t i = 0; i < walk->count; i++)
        if (walk->steps[i].thread == thread)
            return true;
    return false;
}

/* With the table's mutex. */
static bool add(dlk_walk *walk, uint64_t thread)
{
    const dlk_blocked *blocked = find(thread);
    if (!blocked || known(walk, thread))
        return true;
    dlk_step *steps = dlk_grow(walk->steps, walk->count, &walk->room, sizeof(*steps));
    if (!steps)
        return false;
    walk->steps = steps;
    steps[walk->count++] =
        (dlk_step){.thread = thread, .number = blocked->number, .from = walk->at};
    return true;
}

/* Of the one that is looked at: true ends it. */
static bool meets(void *user, uint64_t thread)
{
    dlk_walk *walk = user;
    if (thread == walk->target)
        return true;
    walk->out_of_memory |= !add(walk, thread);
    return false;
}

static bool is_target(void *user, uint64_t thread)
{
    return thread == ((dlk_walk *)user)->target;
}

/* The client in which this one still waits, referenced; or NULL. */
static dlk_engine *client_of(const dlk_step *step)
{
    dlk_engine *engine = NULL;
    (void)pthread_mutex_lock(&table_mutex);
    const dlk_blocked *blocked = find(step->thread);
    if (blocked && blocked->number == step->number) {
        engine = blocked->engine;
        dlk_engine_ref(engine);
    }
    (void)pthread_mutex_unlock(&table_mutex);
    return engine;
}

/* Both mutexes held. */
static bool look_at(dlk_walk *walk, dlk_step *step, const dlk_engine *engine,
                    dlk_blocker_fn *found)
{
    const dlk_blocked *blocked = find(step->thread);
    if (!blocked || blocked->number != step->number || blocked->wait->over)
        return false;
    if (!step->name)
        step->name = strdup(blocked->wait->name->key.name + engine->prefix_size);
    walk->out_of_memory |= !step->name;
    return dlk_wait_finds_blockers(blocked->wait, dlk_clock_now(), found, walk);
}

/* Whether the one at walk->at waits, and @p found says true of one of those it waits for. */
static bool look(dlk_walk *walk, dlk_blocker_fn *found)
{
    dlk_stay stay;
    bool yes = false;
    dlk_engine *engine = client_of(&walk->steps[walk->at]);
    if (!engine)
        return false;
    if (dlk_engine_enter(engine, &stay)) {
        (void)pthread_mutex_lock(&table_mutex);
        /* add() may move the steps: what is looked at is a copy, as far as its name isn't known. */
        dlk_step step = walk->steps[walk->at];
        yes = look_at(walk, &step, engine, found);
        walk->steps[walk->at].name = step.name;
        (void)pthread_mutex_unlock(&table_mutex);
        dlk_engine_leave(engine, &stay);
    }
    dlk_engine_unref(engine);
    return yes;
}

/* The circle, from the caller on: how many steps of it are in @p path. 0: there is none. */
static size_t find_path(dlk_walk *walk, uint64_t me, size_t **ret_path)
{
    walk->target = me;
    for (walk->at = 0; walk->at < walk->count && !walk->out_of_memory; walk->at++) {
        DLK_POINT("circle.look");
        if (!look(walk, meets))
            continue;
        size_t length = 1;
        for (size_t i = walk->at; i != 0; i = walk->steps[i].from)
            length++;
        size_t *path = calloc(length, sizeof(*path));
        if (!path)
            return 0;
        for (size_t i = walk->at, n = length; n > 0; i = walk->steps[i].from)
            path[--n] = i;
        *ret_path = path;
        return length;
    }
    return 0;
}

/* The second look. */
static bool still_stands(dlk_walk *walk, const size_t *path, size_t length, uint64_t me)
{
    for (size_t i = 0; i < length; i++) {
        walk->at = path[i];
        walk->target = i + 1 < length ? walk->steps[path[i + 1]].thread : me;
        if (!look(walk, is_target))
            return false;
    }
    return true;
}

/* Unless another one of them breaks it. */
static bool choose(const dlk_walk *walk, const size_t *path, size_t length,
                   dlk_blocked *me)
{
    (void)pthread_mutex_lock(&table_mutex);
    bool whole = true;
    for (size_t i = 0; i < length && whole; i++) {
        const dlk_blocked *blocked = find(walk->steps[path[i]].thread);
        whole = blocked && blocked->number == walk->steps[path[i]].number;
    }
    me->chosen = whole;
    (void)pthread_mutex_unlock(&table_mutex);
    return whole;
}

/* NULL without memory. */
static char *sentence(const dlk_walk *walk, const size_t *path, size_t length)
{
    if (length == 1)
        return strdup("a deadlock: this thread holds it");
    char *text = strdup("a deadlock: its holder waits for ");
    for (size_t i = 1; i < length && text; i++) {
        char *longer = NULL;
        bool last = i + 1 == length, cut = !last && i >= NAMED;
        const char *name = walk->steps[path[last ? i : cut ? length - 1 : i]].name;
        if (asprintf(
                &longer, "%s%s'%s', %s", text, cut ? "others, the last for " : "", name,
                last || cut ? "which this thread holds" : "whose holder waits for ") < 0)
            longer = NULL;
        free(text);
        text = longer;
        if (cut)
            break;
    }
    return text;
}

/* Looks until there is no circle, or it is broken here: then why, to be freed. No client's mutex held. */
static char *look_around(dlk_blocked *me)
{
    char *text = NULL;
    bool again = true;
    while (again && !text) {
        dlk_walk walk = {0};
        size_t *path = NULL;
        (void)pthread_mutex_lock(&table_mutex);
        walk.out_of_memory = !add(&walk, me->thread);
        (void)pthread_mutex_unlock(&table_mutex);
        size_t length = find_path(&walk, me->thread, &path);
        again = length > 0 && !walk.out_of_memory;
        if (again && still_stands(&walk, path, length, me->thread)) {
            text = sentence(&walk, path, length);
            again = text != NULL; /* without memory it waits, as it would have done */
            if (text && !choose(&walk, path, length, me)) {
                free(text);
                text = NULL;
            }
        }
        for (size_t i = 0; i < walk.count; i++)
            free(walk.steps[i].name);
        free(walk.steps);
        free(path);
    }
    return text;
}

/* ---- from the wait's side ---- */

void dlk_circle_begin(dlk_engine *engine, dlk_blocked *me, dlk_wait *wait)
{
    *me = (dlk_blocked){.thread = wait->owner, .engine = engine, .wait = wait};
    (void)pthread_mutex_lock(&table_mutex);
    me->number = ++last_number;
    dlk_list_append(chain_of(me->thread), &me->link);
    bool others = dlk_wait_finds_blockers(wait, dlk_clock_now(), waits, NULL);
    (void)pthread_mutex_unlock(&table_mutex);
    if (!others)
        return;
    dlk_engine_send(engine); /* nobody waits for what we have asked, but may later on */
    dlk_engine_let_go(engine, false);
    char *text = look_around(me);
    (void)pthread_mutex_lock(&engine->mutex);
    dlk_engine_catch_up(engine);
    int64_t now = dlk_clock_now();
    if (text && !wait->over)
        dlk_acquire_break(&engine->core, wait, text, now);
    free(text);
    dlk_engine_digest(engine, now);
}

void dlk_circle_end(dlk_blocked *me)
{
    (void)pthread_mutex_lock(&table_mutex);
    dlk_list_remove(&me->link);
    (void)pthread_mutex_unlock(&table_mutex);
}
