/* The members, the caller, and what must hold after each event. */
#include "world.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LEASE_MS = 100, LATE_MS = 150, HARDLY_MS = 1 };

int64_t world_events;

/* ---- which way ---- */

/* One of @p of; which one is what makes a run. */
static int choose(world *w, int of)
{
    world_way *way = w->way;
    if (way->by_seed) {
        way->seed ^= way->seed << 13;
        way->seed ^= way->seed >> 7;
        way->seed ^= way->seed << 17;
        return (int)((way->seed >> 11) % (uint64_t)of);
    }
    if (way->at == DEPTH) {
        w->wrong = "a run has no end";
        return 0;
    }
    if (way->at == way->length) {
        way->chosen[way->at] = 0;
        way->length++;
    }
    way->of[way->at] = of;
    return way->chosen[way->at++];
}

bool world_next_way(world_way *way)
{
    while (way->length > 0 &&
           way->chosen[way->length - 1] + 1 == way->of[way->length - 1])
        way->length--;
    if (way->length == 0)
        return false;
    way->chosen[way->length - 1]++;
    return true;
}

/* By a seed what is rare stays so: one in @p rare. */
static bool happens(world *w, int rare)
{
    return choose(w, w->way->by_seed ? rare : 2) == 1;
}

__attribute__((format(printf, 2, 3))) static void tell(world *w, const char *format, ...)
{
    va_list args;
    if (!w->way->telling)
        return;
    size_t room = STORY - w->story_size;
    va_start(args, format);
    int size = vsnprintf(w->story + w->story_size, room, format, args);
    va_end(args);
    if (size > 0 && (size_t)size < room)
        w->story_size += (size_t)size;
}

static void must(world *w, bool holds, const char *what)
{
    if (!holds && !w->wrong)
        w->wrong = what;
}

/* ---- what must hold ---- */

static size_t held_count(const world *w)
{
    size_t held = 0;
    for (size_t i = 0; i < w->count; i++)
        held += w->held[i];
    return held;
}

static int64_t left_ms(const world *w)
{
    if (w->wait_ms <= 0)
        return w->wait_ms;
    int64_t left = w->start + w->wait_ms * DLK_NS_PER_MS - w->now;
    return left > 0 ? (left + DLK_NS_PER_MS - 1) / DLK_NS_PER_MS : 0;
}

static void check_ask(world *w)
{
    size_t held = held_count(w);
    must(w, !w->called_off && !w->gave_up, "a member is asked though it is over");
    must(w, !w->anew || held == 0, "it begins anew before all have gone back");
    must(w, !w->anew || left_ms(w) != 0, "it begins anew though the time is up");
    must(w, held < w->count && w->todo.member == w->order[held],
         "a member isn't asked in the order of taking");
    must(w, w->todo.wait_ms == left_ms(w), "a member isn't asked for what is left");
    w->anew = false;
}

static void check_look(world *w)
{
    must(w, !w->called_off && !w->gave_up && !w->anew, "it looks though it is over");
    must(w, held_count(w) == w->count, "it looks before it has all");
    must(w, !w->looked[w->todo.member], "it looks twice at one");
}

static void check_release(world *w)
{
    size_t held = held_count(w);
    must(w, w->called_off || w->gave_up || w->anew, "it gives back though all is well");
    must(w, held > 0 && w->todo.member == w->order[held - 1],
         "what was taken doesn't go back last first");
}

/* What the caller is to be told, by what the members said. */
static void check_code(world *w)
{
    dlock_err code = w->todo.code;
    if (w->refusal != DLOCK_OK && w->refusal == DLOCK_EBUSY && w->wait_ms != 0)
        must(w, code == DLOCK_ETIMEDOUT && w->todo.why == DLK_TAKING_DEADLINE,
             "who is held to the deadline isn't told so");
    else if (w->refusal != DLOCK_OK)
        must(w, code == w->refusal && w->todo.why == DLK_TAKING_MEMBER_SAID,
             "it doesn't end with what the member said");
    else if (w->anew)
        must(w,
             code == DLOCK_ELOST && w->todo.why == DLK_TAKING_TOO_LATE && left_ms(w) == 0,
             "a lease was over, and it doesn't end with that");
    else
        must(w, code == DLOCK_OK, "it fails though nothing did");
}

static void check_finish(world *w)
{
    must(w, !w->called_off, "who called it off is told once more");
    check_code(w);
    must(w, held_count(w) == (w->todo.code == DLOCK_OK ? w->count : 0),
         "it isn't all or nothing");
    for (size_t i = 0; i < w->count && w->todo.code == DLOCK_OK; i++)
        must(w, w->looked[i], "a member wasn't looked at");
    w->told++;
}

static void check_leave(world *w)
{
    must(w, w->called_off, "nobody was told");
    must(w, held_count(w) == 0, "what nobody wants wasn't given back");
}

static bool is_last(const world *w)
{
    return w->todo.what == DLK_TAKING_FINISH || w->todo.what == DLK_TAKING_LEAVE;
}

static void check_states(world *w)
{
    dlk_taking_state state = w->taking.state;
    bool over = is_last(w);
    must(w, over == (state == DLK_TAKING_OVER), "it is over, or isn't, and doesn't know");
    must(w, dlk_taking_may(state, DLK_TAKING_DONE) == !over,
         "an action is under way, and can't be done");
    must(w, dlk_taking_may(state, DLK_TAKING_CALLED_OFF) == (!over && !w->called_off),
         "it can't be called off, or twice");
}

static void check(world *w)
{
    static const char *const names[] = {"ask", "look at", "release", "finish", "leave"};
    world_events++;
    tell(w, "%s %d (wait %d, code %d) at %d; ", names[w->todo.what], (int)w->todo.member,
         (int)w->todo.wait_ms, (int)w->todo.code,
         (int)((w->now - w->start) / DLK_NS_PER_MS));
    must(w, w->todo.member < w->count, "there is no such member");
    if (w->wrong)
        return;
    check_states(w);
    must(w, ++w->quiet <= 5 * (int)w->count + 2, "it goes on and on, and no time passes");
    switch (w->todo.what) {
    case DLK_TAKING_ASK:
        check_ask(w);
        return;
    case DLK_TAKING_LOOK:
        check_look(w);
        return;
    case DLK_TAKING_RELEASE:
        check_release(w);
        return;
    case DLK_TAKING_FINISH:
        check_finish(w);
        return;
    case DLK_TAKING_LEAVE:
        check_leave(w);
        return;
    }
}

/* ---- what can come of an action ---- */

static void pass(world *w, int64_t ms)
{
    w->now += ms * DLK_NS_PER_MS;
    w->quiet = 0;
}

static dlock_err granted(world *w, bool late)
{
    size_t i = w->todo.member;
    w->lease_end[i] = w->now + LEASE_MS * DLK_NS_PER_MS; /* from before it was asked */
    if (late) {
        w->left.late--;
        w->lease_end[i] += LATE_MS * DLK_NS_PER_MS; /* it waited for its turn */
        pass(w, LATE_MS);
    }
    w->held[i] = true;
    return DLOCK_OK;
}

static dlock_err refused(world *w, dlock_err code)
{
    if (code == DLOCK_ETIMEDOUT && w->todo.wait_ms > 0)
        pass(w, w->todo.wait_ms);
    if (code == DLOCK_EUNKNOWN)
        pass(w, LATE_MS); /* no answer came */
    w->gave_up = true;
    if (w->refusal == DLOCK_OK)
        w->refusal = code;
    return code;
}

/* Whatever the member's engine may say; of what may be granted all the same (EUNKNOWN) it gives back
 * itself what comes. */
static dlock_err ask(world *w)
{
    static const dlock_err codes[] = {
        DLOCK_EBUSY,   DLOCK_ETIMEDOUT, DLOCK_ELOST,   DLOCK_EUNKNOWN,  DLOCK_EUNAVAIL,
        DLOCK_ECLOSED, DLOCK_ECANCELED, DLOCK_EFORKED, DLOCK_ECONFLICT, DLOCK_ENOMEM};
    enum { CODES = sizeof(codes) / sizeof(*codes), GRANTS = 2 };
    static const dlock_err called_off[] = {DLOCK_ECANCELED, DLOCK_EUNKNOWN,
                                           DLOCK_ECLOSED};
    int grants = w->left.late > 0 ? GRANTS : 1;
    if (w->called_off) {
        int how = choose(w, 4);
        return how == 0 ? granted(w, false) : called_off[how - 1];
    }
    if (w->way->by_seed && choose(w, 4 * (int)w->count)) /* else no run gets far */
        return granted(w, grants == GRANTS && choose(w, (int)w->count) == 0);
    int how = choose(w, grants + CODES);
    return how < grants ? granted(w, how == 1) : refused(w, codes[how - grants]);
}

static dlock_err look(world *w)
{
    size_t i = w->todo.member;
    w->looked[i] = true;
    bool held = w->lease_end[i] > w->now;
    if (held && w->left.lost > 0 && happens(w, 20)) {
        w->left.lost--;
        w->quiet = 0;
        held = false;
    }
    if (!held)
        w->anew = true;
    return held ? DLOCK_OK : DLOCK_ELOST;
}

static dlock_err release(world *w)
{
    w->held[w->todo.member] = false;
    w->looked[w->todo.member] = false;
    return DLOCK_OK;
}

static dlock_err carry_out(world *w)
{
    memset(w->looked, 0, w->todo.what == DLK_TAKING_ASK ? sizeof(w->looked) : 0);
    if (w->todo.what == DLK_TAKING_ASK)
        return ask(w);
    return w->todo.what == DLK_TAKING_LOOK ? look(w) : release(w);
}

/* The caller, or its client, ends it while the action is under way. */
static void perhaps_call_off(world *w)
{
    if (w->called_off || !happens(w, 30 * (int)w->count))
        return;
    tell(w, "called off; ");
    bool asking = dlk_taking_call_off(&w->taking);
    w->called_off = true;
    w->told++;
    must(w, asking == (w->todo.what == DLK_TAKING_ASK),
         "it doesn't know whether a member is being asked");
    check_states(w);
}

static void perhaps_pause(world *w)
{
    if (w->left.pauses == 0 || w->wait_ms <= 0 || !happens(w, 30))
        return;
    w->left.pauses--;
    pass(w, left_ms(w) > HARDLY_MS ? left_ms(w) - (int64_t)choose(w, 2) * HARDLY_MS : 0);
}

static void shuffle(world *w)
{
    for (size_t i = 0; i < w->count; i++)
        w->order[i] = (uint8_t)(w->count - 1 - i);
    for (size_t i = w->count; w->way->by_seed && i > 1; i--) {
        size_t other = (size_t)choose(w, (int)i);
        uint8_t was = w->order[i - 1];
        w->order[i - 1] = w->order[other];
        w->order[other] = was;
    }
}

static void run(world *w, world_way *way, size_t count, int64_t wait_ms,
                world_limits limits)
{
    *w = (world){.way = way,
                 .left = limits,
                 .count = count,
                 .wait_ms = wait_ms,
                 .start = DLK_NS_PER_SEC,
                 .now = DLK_NS_PER_SEC};
    shuffle(w);
    w->todo = dlk_taking_begin(&w->taking, w->order, count, wait_ms, w->now);
    check(w);
    while (!w->wrong && !is_last(w)) {
        perhaps_call_off(w);
        dlock_err result = carry_out(w);
        tell(w, "%d; ", (int)result);
        perhaps_pause(w);
        if (w->wrong)
            return;
        int64_t now = dlk_taking_needs_time(&w->taking, result) ? w->now : 0;
        w->todo = dlk_taking_done(&w->taking, result, now);
        check(w);
    }
    must(w, w->told == 1, "the caller isn't told exactly once");
}

bool world_run(world *w, world_way *way, size_t count, int64_t wait_ms,
               world_limits limits)
{
    uint64_t seed = way->seed;
    way->at = 0;
    run(w, way, count, wait_ms, limits);
    if (!w->wrong)
        return true;
    way->seed = seed;
    way->at = 0;
    way->telling = true; /* the same once more */
    run(w, way, count, wait_ms, limits);
    return false;
}
