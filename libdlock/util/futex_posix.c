/*
 * Sleeping at a word on any system; see thread.h. Who sleeps is in a list, which the word's address
 * chooses, and polls a pipe of its thread.
 *
 * A wake may come out of a signal handler (dlock_op_cancel). So nobody sleeps on a condition variable,
 * which a handler mustn't touch, and signals are blocked for as long as a list's mutex is held: no
 * handler finds it held by the thread that it has interrupted.
 *
 * Whoever wakes has changed the word before it looks whether anybody is in the list; whoever sleeps is
 * in the list before it looks at the word. Both in order, so one of the two sees the other, and a wake
 * where nobody sleeps costs a look.
 */
#include "util/clock.h"
#include "util/list.h"
#include "util/thread.h"
#include "util/wakeup.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#define LISTS  64
#define NAP_NS DLK_NS_PER_MS /* where a thread can't have a pipe */

/* What a thread sleeps on, until its end. */
typedef struct bed {
    dlk_wakeup wakeup;
    uint32_t generation; /* of forks: in a child it is closed */
} bed;

typedef struct sleeper {
    dlk_list link;
    const dlk_futex *word;
    const dlk_wakeup *wakeup;
    uint32_t bits;
    bool called;
} sleeper;

typedef struct sleepers {
    pthread_mutex_t mutex;  /* guards: */
    dlk_list all;           /* sleeper.link */
    _Atomic uint32_t count; /* of them; read without it */
} sleepers;

static sleepers lists[LISTS];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t own_bed;
static bool ready;

/* In a fork's child as well: those who slept in the parent don't here. */
static void empty_lists(void)
{
    for (int i = 0; i < LISTS; i++) {
        lists[i].mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
        dlk_list_init(&lists[i].all);
        atomic_store(&lists[i].count, 0);
    }
}

static void nothing(void)
{
}

static bool is_ours(const bed *own)
{
    return own->generation == atomic_load(&dlk_fork_generation);
}

static void free_bed(void *arg)
{
    bed *own = arg;
    if (is_ours(own))
        dlk_wakeup_close(&own->wakeup);
    free(own);
}

static void prepare(void)
{
    empty_lists();
    ready = pthread_key_create(&own_bed, free_bed) == 0 &&
            dlk_fork_watch(nothing, nothing, empty_lists);
}

static bed *make_bed(void)
{
    bed *own = malloc(sizeof(*own));
    if (own && pthread_setspecific(own_bed, own) == 0) {
        *own = (bed){.wakeup = DLK_WAKEUP_NONE};
        return own;
    }
    free(own);
    return NULL;
}

/* NULL: without memory, or a descriptor. */
static bed *find_bed(void)
{
    (void)pthread_once(&once, prepare); /* fails for a bad argument only */
    bed *own = ready ? pthread_getspecific(own_bed) : NULL;
    if (!own && ready)
        own = make_bed();
    if (!own)
        return NULL;
    if (!is_ours(own))
        *own = (bed){.wakeup = DLK_WAKEUP_NONE};
    own->generation = atomic_load(&dlk_fork_generation);
    return own->wakeup.fd >= 0 || dlk_wakeup_open(&own->wakeup) ? own : NULL;
}

static sleepers *list_of(const dlk_futex *word)
{
    return &lists[(uintptr_t)word / sizeof(*word) % LISTS];
}

static void enter(sleepers *list, sigset_t *before)
{
    sigset_t every;
    (void)sigfillset(&every);
    (void)pthread_sigmask(SIG_SETMASK, &every, before);
    (void)pthread_mutex_lock(&list->mutex); /* a plain one, never taken twice */
}

static void leave(sleepers *list, const sigset_t *before)
{
    (void)pthread_mutex_unlock(&list->mutex); /* ours */
    (void)pthread_sigmask(SIG_SETMASK, before, NULL);
}

static void nap(int64_t until)
{
    int64_t left = until - dlk_clock_now();
    if (left > 0)
        (void)nanosleep(
            &(struct timespec){.tv_nsec = (long)(left < NAP_NS ? left : NAP_NS)}, NULL);
}

/* Where a handler forks, and returns in the child, nobody there may be left in a list, nor be taken out of
 * one that is empty: no handler comes while we look whose process it is. */
static void sleep_in(bed *own, sleeper *me, uint32_t seen, int64_t until)
{
    sleepers *list = list_of(me->word);
    sigset_t before;
    me->wakeup = &own->wakeup;
    enter(list, &before);
    atomic_fetch_add(&list->count, 1);
    bool sleeps = is_ours(own) && atomic_load(me->word) == seen;
    if (sleeps) /* no other one's wake is for who doesn't */
        dlk_list_append(&list->all, &me->link);
    else
        atomic_fetch_sub(&list->count, 1);
    leave(list, &before);
    if (!sleeps)
        return;
    struct pollfd called = {.fd = own->wakeup.fd, .events = POLLIN};
    if (dlk_poll_until(&called, 1, until) < 0 && errno != EINTR)
        nap(until); /* no memory: not to be asked again at once */
    enter(list, &before);
    if (is_ours(own)) {
        dlk_list_remove(&me->link);
        atomic_fetch_sub(&list->count, 1);
        if (me->called)
            dlk_wakeup_quiet(&own->wakeup);
    }
    leave(list, &before);
}

void dlk_futex_wait_bits(dlk_futex *word, uint32_t seen, int64_t until, uint32_t bits)
{
    int saved = errno, state;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    bed *own = find_bed();
    sleeper me = {.word = word, .bits = bits};
    if (own)
        sleep_in(own, &me, seen, until);
    else
        nap(until);
    (void)pthread_setcancelstate(state, &state);
    errno = saved;
}

static void wake(const dlk_futex *word, int most, uint32_t bits)
{
    sleepers *list = list_of(word);
    sigset_t before;
    if (atomic_load(&list->count) == 0)
        return;
    enter(list, &before);
    DLK_LIST_FOR (it, &list->all) {
        sleeper *one = DLK_LIST_ITEM(it, sleeper, link);
        if (most == 0)
            break;
        if (one->word != word || one->called || !(one->bits & bits))
            continue;
        one->called = true;
        dlk_wakeup_ring(one->wakeup);
        most--;
    }
    leave(list, &before);
}

/* No word is shared among processes here: file: needs Linux. */
void dlk_futex_wait(dlk_futex *word, uint32_t seen, int64_t until, bool shared)
{
    (void)shared;
    dlk_futex_wait_bits(word, seen, until, UINT32_MAX);
}

void dlk_futex_wake(dlk_futex *word, int most, bool shared)
{
    (void)shared;
    wake(word, most, UINT32_MAX);
}

void dlk_futex_wake_bits(dlk_futex *word, uint32_t bits)
{
    wake(word, INT_MAX, bits);
}
