/* Stacks, sleeping and switching; see the header. Who is chosen is search.c's. */
#include "strand.h"

#include "search.h"
#include "util/clock.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

#define STACK     (256 * 1024)
#define MAX_STEPS 20000 /* of an execution … */
#define MAX_STILL 4000  /* … and while time stands still: more is a loop without end */
#define BEGINNING (INT64_C(1000) * DLK_NS_PER_SEC)

enum state { OFF, READY, LOCKING, ASLEEP, DONE };

struct strand {
    ucontext_t context;
    enum state state;
    void *(*run)(void *);
    void *arg, *result;
    const void *on; /* what it sleeps at, or the mutex that it wants */
    uint32_t bits;
    int64_t until;
    uint64_t order; /* who sleeps longest is woken first */
    int cancel_state;
    int held;
    bool acted; /* since it could last have been stopped: see strand_point */
    const bool *over;
    const char *at;
};

/* A mutex as we have it, in the place of the real one: made of zeros it is free. */
typedef struct mutex {
    int owner; /* index + 1 */
} mutex;

static strand strands[STRANDS];
static char *stacks;
static strand *self;
static ucontext_t outside;
static bool exploring, finely, alone;
static int64_t now;
static int steps, still;
static uint64_t sleeps;
static void (*director_plays)(void);

static int index_of(const strand *one)
{
    return (int)(one - strands);
}

static char letter(int index)
{
    return "MABCEFGHS"[index];
}

strand *strand_self(void)
{
    return self;
}

char strand_letter(void)
{
    return letter(index_of(self));
}

bool strand_is(const strand *one, int index)
{
    return index_of(one) == index;
}

int64_t strands_now(void)
{
    return now;
}

int strands_steps(void)
{
    return steps;
}

int *strand_cancel_state(void)
{
    return &self->cancel_state;
}

int strand_holds(void)
{
    return self->held;
}

const bool *strand_awaits(const bool *over)
{
    const bool *before = self->over;
    self->over = over;
    return before;
}

bool strands_await_anything(void)
{
    for (int i = 0; i < STRANDS; i++)
        if (strands[i].state != OFF && strands[i].over)
            return true;
    return false;
}

void strands_explore(bool on)
{
    exploring = on;
}

void strands_finely(bool on)
{
    finely = on;
}

void strands_alone(void)
{
    alone = true;
    exploring = false;
}

/* ---- stacks ---- */

#ifdef __SANITIZE_ADDRESS__
static void *fake_stacks[STRANDS + 1];
static const void *main_stack;
static size_t main_size;

/* STRANDS: the program's own. */
static void leave_stack(int from, int to)
{
    bool last = from < STRANDS && strands[from].state == DONE;
    __sanitizer_start_switch_fiber(last ? NULL : &fake_stacks[from],
                                   to < STRANDS ? stacks + (size_t)to * STACK
                                                : main_stack,
                                   to < STRANDS ? STACK : main_size);
}

static void reach_stack(int at, bool from_main)
{
    const void *bottom;
    size_t size;
    __sanitizer_finish_switch_fiber(fake_stacks[at], &bottom, &size);
    if (from_main) {
        main_stack = bottom;
        main_size = size;
    }
}

static void forget_stack(int at)
{
    fake_stacks[at] = NULL;
}
#else
static void leave_stack(int from, int to)
{
    (void)from;
    (void)to;
}

static void reach_stack(int at, bool from_main)
{
    (void)at;
    (void)from_main;
}

static void forget_stack(int at)
{
    (void)at;
}
#endif

static void switch_to(strand *to)
{
    strand *from = self;
    self = to;
    leave_stack(index_of(from), index_of(to));
    (void)swapcontext(&from->context, &to->context);
    reach_stack(index_of(from), false);
}

static void go_on_with_others(strand *me);

/* Any of the actors still does. */
static bool acts(void)
{
    for (int i = ACTORS; i < ENGINES; i++)
        if (strands[i].state != OFF && strands[i].state != DONE)
            return true;
    return false;
}

static void begin(void)
{
    strand *me = self;
    reach_stack(index_of(me), index_of(me) == DIRECTOR);
    me->result = me->run(me->arg);
    if (me->held)
        explore_fail("%c ends, and has a mutex", letter(index_of(me)));
    me->state = DONE;
    strand_wake(me, STRANDS, UINT32_MAX);
    if (!acts()) { /* what comes now is the director's */
        exploring = false;
        strand_wake(strands, STRANDS, UINT32_MAX);
    }
    go_on_with_others(me);
}

static strand *prepare(int index, void *(*run)(void *), void *arg)
{
    strand *one = &strands[index];
    (void)getcontext(&one->context);
    one->context.uc_stack.ss_sp = stacks + (size_t)index * STACK;
    one->context.uc_stack.ss_size = STACK;
    one->context.uc_link = NULL;
    forget_stack(index);
    one->state = READY;
    one->run = run;
    one->arg = arg;
    one->on = NULL;
    one->held = 0;
    one->acted = false;
    one->over = NULL;
    one->at = "its beginning";
    /* So that one who gets another's sees it. */
    one->cancel_state = index % 2 ? PTHREAD_CANCEL_DISABLE : PTHREAD_CANCEL_ENABLE;
    makecontext(&one->context, begin, 0);
    return one;
}

static void *direct(void *unused)
{
    (void)unused;
    director_plays();
    strands[DIRECTOR].state = DONE;
    leave_stack(DIRECTOR, STRANDS);
    (void)setcontext(&outside);
    return NULL;
}

void strands_run(void (*play)(void))
{
    if (!stacks) {
        stacks = mmap(NULL, (size_t)STACK * (STRANDS + 1), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (stacks == MAP_FAILED)
            explore_fail("no memory for stacks");
    }
    for (int i = 0; i < STRANDS; i++)
        strands[i].state = OFF;
    exploring = false;
    now = BEGINNING;
    steps = still = 0;
    self = &strands[DIRECTOR];
    director_plays = play;
    self = prepare(DIRECTOR, direct, NULL);
    leave_stack(STRANDS, DIRECTOR);
    (void)swapcontext(&outside, &self->context);
    reach_stack(STRANDS, false);
    for (int i = ACTORS; i < STRANDS; i++)
        if (strands[i].state != OFF && strands[i].state != DONE)
            explore_fail("%c is left behind, at %s", letter(i), strands[i].at);
}

strand *strand_start(void *(*run)(void *), void *arg, bool is_actor)
{
    int end = is_actor ? ENGINES : STRANDS;
    for (int i = is_actor ? ACTORS : ENGINES; i < end; i++)
        if (strands[i].state == OFF) {
            strand_act();
            return prepare(i, run, arg);
        }
    explore_fail("too many threads in this scene");
}

void *strand_join(strand *of)
{
    while (of->state != DONE)
        strand_sleep(of, UINT32_MAX, DLK_NEVER, "join");
    of->state = OFF;
    return of->result;
}

void strands_join_actors(void)
{
    while (acts())
        strand_sleep(strands, UINT32_MAX, DLK_NEVER, "the actors' end");
    for (int i = ACTORS; i < ENGINES; i++)
        strands[i].state = OFF;
}

/* ---- switching ---- */

static bool can_run(const strand *one)
{
    return one->state == READY ||
           (one->state == LOCKING && ((const mutex *)one->on)->owner == 0);
}

static unsigned able(void)
{
    unsigned all = 0;
    for (int i = 0; i < STRANDS; i++)
        if (can_run(&strands[i]))
            all |= 1U << i;
    if (service_can_go_on())
        all |= 1U << SERVICE;
    return all;
}

/* In a circle from the one that ran; the service when nobody else can. */
static int after(unsigned all, int index)
{
    for (int i = 1; i <= STRANDS; i++)
        if (all & 1U << (index + i) % STRANDS)
            return (index + i) % STRANDS;
    return SERVICE;
}

static void check_sleepers(int64_t until)
{
    for (int i = 0; i < STRANDS; i++) {
        const strand *one = &strands[i];
        if (one->state == OFF || one->state == DONE)
            continue;
        if (one->over && *one->over)
            explore_fail("%c sleeps on at %s, and what it waits for has come", letter(i),
                         one->at);
        if (one->state == LOCKING)
            explore_fail("%c waits for a mutex that nobody lets go", letter(i));
    }
    service_look_round(until);
}

static void let_time_pass(void)
{
    int64_t next = service_next();
    for (int i = 0; i < STRANDS; i++)
        if (strands[i].state == ASLEEP && strands[i].until < next)
            next = strands[i].until;
    check_sleepers(next);
    if (next >= DLK_NEVER) {
        for (int i = 0; i < STRANDS; i++)
            if (strands[i].state == ASLEEP)
                explore_tell("%c sleeps for ever, at %s", letter(i), strands[i].at);
        explore_fail("all sleep for ever");
    }
    now = next > now ? next : now;
    still = 0;
    explore_tell("-- time passes");
    for (int i = 0; i < STRANDS; i++)
        if (strands[i].state == ASLEEP && strands[i].until <= now)
            strands[i].state = READY;
}

/* Gives the turn to whoever is chosen; returns when it has come back to @p me. */
static void pass_turn(strand *me, bool prefers_itself)
{
    if (alone && !can_run(me))
        explore_fail("a fork's child waits, at %s", me->at);
    for (; !alone;) {
        unsigned all = able();
        if (!all) {
            let_time_pass();
            continue;
        }
        int mine = index_of(me);
        bool stays = prefers_itself && (all & 1U << mine);
        int usual = stays ? mine : after(all, mine);
        int pick = exploring ? search_choose(all, usual, stays) : usual;
        if (++steps > MAX_STEPS || ++still > MAX_STILL)
            explore_fail("an endless loop: %d steps, and time stands still", still);
        if (pick == SERVICE) {
            service_goes_on();
            continue;
        }
        if (&strands[pick] != me) {
            explore_tell("-- %c goes on, from %s", letter(pick), strands[pick].at);
            switch_to(&strands[pick]);
        }
        return;
    }
}

static void go_on_with_others(strand *me)
{
    pass_turn(me, false);
}

/* Who has done nothing since he could last have been stopped might as well have been stopped there. */
static bool may_stop(strand *me)
{
    bool may = exploring && me->acted;
    me->acted = false;
    return may;
}

void strand_point(const char *what)
{
    self->at = what;
    if (may_stop(self))
        pass_turn(self, true);
    else if (++steps > MAX_STEPS || ++still > MAX_STILL)
        explore_fail("an endless loop: %d steps, and time stands still", still);
}

void strand_act(void)
{
    self->acted = true;
}

void strand_atomic(const char *what)
{
    if (finely)
        strand_point(what);
    self->acted = true;
}

void strand_yield(void)
{
    self->at = "yield";
    pass_turn(self, false);
    self->acted = false;
}

void strand_lock(void *wanted)
{
    mutex *one = wanted;
    strand *me = self;
    if (one->owner == index_of(me) + 1)
        explore_fail("%c takes a mutex that it has", letter(index_of(me)));
    me->at = "lock";
    if (may_stop(me) || one->owner) {
        me->state = LOCKING;
        me->on = one;
        pass_turn(me, true);
        me->state = READY;
    }
    one->owner = index_of(me) + 1;
    me->held++;
    me->acted = true;
}

void strand_unlock(void *which)
{
    mutex *one = which;
    if (one->owner != index_of(self) + 1)
        explore_fail("%c lets go of a mutex that it hasn't", letter(index_of(self)));
    one->owner = 0;
    self->held--;
    self->acted = true;
    strand_point("unlocked");
}

void strand_sleep(const void *on, uint32_t bits, int64_t until, const char *what)
{
    strand *me = self;
    if (me->held)
        explore_fail("%c goes to sleep with a mutex, at %s", letter(index_of(me)), what);
    explore_tell("%c sleeps at %s", letter(index_of(me)), what);
    me->state = ASLEEP;
    me->on = on;
    me->bits = bits;
    me->until = until;
    me->at = what;
    me->order = ++sleeps;
    go_on_with_others(me);
    me->on = NULL;
    me->acted = false;
}

void strand_wake(const void *on, int count, uint32_t bits)
{
    while (count-- > 0) {
        strand *first = NULL;
        for (int i = 0; i < STRANDS; i++) {
            strand *one = &strands[i];
            if (one->state == ASLEEP && one->on == on && (one->bits & bits) &&
                (!first || one->order < first->order))
                first = one;
        }
        if (!first)
            return;
        first->state = READY;
        strand_act();
    }
}
