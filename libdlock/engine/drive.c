/* The mutex, waiting, and who does the I/O; engine.h says by which rules. */
#include "engine/drive.h"

#include "contract/sleep.h"
#include "util/clock.h"
#include "util/point.h"

#include <assert.h>
#include <stdlib.h>

/* How long something that nobody waits for may lie unread: the engine looks that often while
 * there is any, so that the caller who left it behind needn't wake the thread each time. */
#define LOOK_EVERY (2 * DLK_NS_PER_MS)
/* And how long a program may take that reads from a poller of its own. */
#define LOOK_AFTER_VISITORS (50 * DLK_NS_PER_MS)
/* How long one looks who is next, and how many of them don't. */
#define WARN_NS       (INT64_C(50) * 1000)
#define WARN_LOOKS    5000 /* at most, should the clock stand still */
#define WARN_REST_MAX 64
#define WARN_NEVER    UINT8_MAX

void dlk_engine_init_warnings(dlk_engine *engine)
{
    /* On a single core whoever looks keeps the other from going on. */
    engine->warn_rest = dlk_thread_has_cores() ? 0 : WARN_NEVER;
    engine->warn_pause = 1;
}

static const dlk_backend_type *type_of(const dlk_engine *engine)
{
    return engine->backend->type;
}

/* ---- waking ---- */

void dlk_sleeper_init(dlk_sleeper *sleeper)
{
    *sleeper = (dlk_sleeper){0};
    dlk_list_init(&sleeper->link);
    dlk_list_init(&sleeper->waking);
    dlk_list_init(&sleeper->mates);
}

static uint32_t gong_of(uint32_t seat)
{
    return seat / 32 % DLK_GONGS;
}

static uint32_t bit_of(uint32_t seat)
{
    return UINT32_C(1) << seat % 32;
}

void dlk_engine_wake(dlk_engine *engine, dlk_sleeper *sleeper)
{
    if (sleeper->state == DLK_SLEEPER_DRIVES) {
        engine->kick_driver = true;
    } else if (sleeper->state == DLK_SLEEPER_PARKED) {
        dlk_sleeper_becomes(sleeper, DLK_SLEEPER_CALLED);
        dlk_list_append(&engine->waking, &sleeper->waking);
    }
}

/* Who is next in the line of a lock that goes round among our threads is woken while the one before it has
 * the lock, and looks for a moment: to wake a core that has gone idle takes longer than most have a lock.
 * As whoever reads a stream: after each look in vain twice as many do without. */
void dlk_engine_warn(dlk_engine *engine, dlk_sleeper *sleeper)
{
    if (engine->warn_rest == WARN_NEVER || sleeper->state != DLK_SLEEPER_PARKED)
        return;
    if (engine->warn_rest > 0) {
        engine->warn_rest--;
        return;
    }
    sleeper->warned = true;
    dlk_engine_wake(engine, sleeper);
}

static void kick_driver(dlk_engine *engine)
{
    dlk_kick(&engine->kicks);
    if (type_of(engine)->kick)
        type_of(engine)->kick(engine->backend);
}

static void ring(dlk_engine *engine)
{
    atomic_fetch_add(&engine->bell, 1);
    dlk_futex_wake(&engine->bell, 1, false);
}

void dlk_engine_kick(dlk_engine *engine)
{
    ring(engine);
    kick_driver(engine);
}

/* Where what comes is the program's to read, the engine only sees to it that no answer lies about. */
bool dlk_engine_expects(const dlk_engine *engine)
{
    return engine->in_flight > 0 ||
           (engine->pending_ops > 0 && !dlk_engine_is_left(engine));
}

bool dlk_engine_must_drive(const dlk_engine *engine, int64_t now)
{
    if (engine->life == DLK_LIFE_NEW || engine->life == DLK_LIFE_CLOSED)
        return false;
    if (engine->takeover || !engine->core.up || engine->left_to_driver ||
        engine->host.heed ||
        (dlk_engine_is_left(engine) ? engine->host.rest : engine->attended > 0) ||
        atomic_load_explicit(&engine->news, memory_order_relaxed))
        return true;
    if (engine->life == DLK_LIFE_CLOSING)
        return engine->in_flight > 0 || dlk_engine_unsettled(engine) != DLK_SETTLED;
    return engine->look_at <= now && dlk_engine_expects(engine);
}

bool dlk_engine_unattended(const dlk_engine *engine)
{
    return !engine->driven && dlk_list_empty(&engine->sleepers) &&
           dlk_engine_expects(engine);
}

int64_t dlk_engine_next_look(const dlk_engine *engine, int64_t now)
{
    return now + (dlk_engine_is_left(engine) ? LOOK_AFTER_VISITORS : LOOK_EVERY);
}

static int64_t next_deadline(const dlk_engine *engine)
{
    int64_t next = dlk_core_next(&engine->core);
    if (engine->backend_next < next)
        next = engine->backend_next;
    return engine->look_at < next ? engine->look_at : next;
}

/* What has to be arranged before the mutex is let go: does somebody have to drive, does the
 * engine's thread sleep too long? True when that must be woken. */
static bool arrange(dlk_engine *engine, bool by_engine)
{
    if (engine->thread_state == DLK_THREAD_NONE)
        return false;
    if (!engine->driven && !engine->takeover && !engine->appointed &&
        engine->life == DLK_LIFE_OPEN && !dlk_list_empty(&engine->sleepers)) {
        dlk_sleeper *oldest =
            DLK_LIST_ITEM(dlk_list_first(&engine->sleepers), dlk_sleeper, link);
        engine->appointed = oldest;
        dlk_engine_wake(engine, oldest);
    }
    if (by_engine || engine->thread_state != DLK_THREAD_ASLEEP)
        return false; /* it has looked, or is about to look, for itself */
    if (dlk_engine_unattended(engine) && engine->look_at >= DLK_NEVER)
        engine->look_at = dlk_engine_next_look(engine, dlk_clock_now());
    return next_deadline(engine) < engine->asleep_until ||
           engine->life == DLK_LIFE_CLOSING ||
           (!engine->driven && dlk_list_empty(&engine->sleepers) &&
            dlk_engine_must_drive(engine, 0)) ||
           (!engine->driven && engine->takeover);
}

/* What was cancelled before we had the mutex must not be granted by what we do with it; what was
 * freed meanwhile is cleared away. */
void dlk_engine_catch_up(dlk_engine *engine)
{
    if (atomic_load_explicit(&engine->cancelled, memory_order_acquire))
        dlk_ops_drain_cancelled(engine, dlk_clock_now());
    if (atomic_load_explicit(&engine->freed, memory_order_relaxed))
        dlk_engine_clear_freed(engine);
}

bool dlk_engine_enter(dlk_engine *engine, dlk_stay *ret_stay)
{
    if (dlk_engine_forked(engine))
        return false;
    /* Backends write and read files: nobody is to end there, with the mutex, or with what the call
     * was going to return. */
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &ret_stay->cancel_state);
    (void)pthread_mutex_lock(&engine->mutex); /* a plain mutex we made: can't fail */
    dlk_engine_catch_up(engine);
    return true;
}

/* Nothing was left for anybody to do, as is so when an uncontended lock changes hands locally. */
static bool nothing_to_arrange(const dlk_engine *engine)
{
    return !engine->driven && engine->in_flight == 0 && engine->pending_ops == 0 &&
           engine->attended == 0 && dlk_list_empty(&engine->sleepers) &&
           dlk_list_empty(&engine->waking) && dlk_list_empty(&engine->log_lines) &&
           dlk_list_empty(&engine->jobs) && engine->life == DLK_LIFE_OPEN &&
           engine->core.up && !engine->left_to_driver && !engine->host.heed &&
           !atomic_load_explicit(&engine->news, memory_order_relaxed) &&
           (engine->thread_state != DLK_THREAD_ASLEEP ||
            next_deadline(engine) >= engine->asleep_until);
}

/* The engine may be gone with the last of them, unless we have a reference. */
static void wake_all(dlk_engine *engine, dlk_list *waking)
{
    uint32_t strokes[DLK_GONGS] = {0};
    dlk_list *link;
    while ((link = dlk_list_take_first(waking))) {
        dlk_sleeper *sleeper = DLK_LIST_ITEM(link, dlk_sleeper, waking);
        dlk_futex *word = &sleeper->word;
        uint32_t seat = sleeper->seat;
        uint32_t how = atomic_exchange(word, DLK_SLEEPS_NOT);
        if (how == DLK_SLEEPS_TOGETHER)
            strokes[gong_of(seat)] |= bit_of(seat);
        else if (how != DLK_SLEEPS_LOOKING)
            /* It may be gone: waking an address nobody sleeps at is harmless. */
            dlk_futex_wake(word, 1, false);
    }
    for (int i = 0; i < DLK_GONGS; i++) {
        if (!strokes[i])
            continue;
        atomic_fetch_add(&engine->gongs[i], 1);
        dlk_futex_wake_bits(&engine->gongs[i], strokes[i]);
    }
}

/* What a job sets off are jobs as well, of this engine or of others: they run behind it and not inside
 * it, however many there are in a row. Each has references of its own. */
static void run_jobs(dlk_list *jobs)
{
    static _Thread_local dlk_list *running;
    if (running) {
        dlk_list_splice(running, jobs);
        return;
    }
    running = jobs;
    dlk_list *link;
    while ((link = dlk_list_take_first(jobs))) {
        dlk_job *job = DLK_LIST_ITEM(link, dlk_job, link);
        job->run(job);
    }
    running = NULL;
}

void dlk_engine_let_go(dlk_engine *engine, bool by_engine)
{
    if (engine->poll_fd >= 0 && engine->wired != engine->host.wiring)
        dlk_engine_lay_wires(engine);
    if (nothing_to_arrange(engine)) {
        (void)pthread_mutex_unlock(&engine->mutex);
        return;
    }
    bool kick_thread = arrange(engine, by_engine);
    bool kick =
        engine->kick_driver || (kick_thread && engine->driven == DLK_DRIVEN_BY_THREAD);
    engine->kick_driver = false;
    if (kick_thread)
        dlk_thread_becomes(engine, DLK_THREAD_CALLED);
    dlk_list waking, lines, jobs;
    dlk_list_init(&waking);
    dlk_list_init(&lines);
    dlk_list_init(&jobs);
    dlk_list_splice(&waking, &engine->waking);
    dlk_list_splice(&lines, &engine->log_lines);
    engine->lines = 0;
    dlk_list_splice(&jobs, &engine->jobs);
    bool busy =
        kick_thread || kick || !dlk_list_empty(&lines) || !dlk_list_empty(&waking);
    if (busy)
        dlk_engine_ref(engine);
    (void)pthread_mutex_unlock(&engine->mutex);

    wake_all(engine, &waking);
    if (kick_thread)
        ring(engine);
    if (kick)
        kick_driver(engine);
    if (!dlk_list_empty(&lines))
        dlk_engine_deliver(engine, &lines);
    run_jobs(&jobs);
    if (busy)
        dlk_engine_unref(engine);
}

void dlk_engine_leave(dlk_engine *engine, const dlk_stay *stay)
{
    dlk_engine_let_go(engine, false);
    (void)pthread_setcancelstate(stay->cancel_state, NULL);
}

/* ---- sending ---- */

/* Counts those who leave the writing to somebody else. */
static bool volley_is_full(dlk_engine *engine)
{
    return engine->volleys && ++engine->volley >= DLK_VOLLEY;
}

/* Where only a driver writes: the one who sleeps, or the engine's thread. */
static void let_the_driver_write(dlk_engine *engine)
{
    engine->left_to_driver = true;
    if (engine->driven)
        engine->kick_driver = true;
}

void dlk_engine_send(dlk_engine *engine)
{
    if (!engine->unsent || (engine->visit_again && !volley_is_full(engine)))
        return;
    engine->unsent = false;
    bool by_engine = engine->takeover && engine->driven == DLK_DRIVEN_BY_THREAD;
    if (by_engine && !volley_is_full(engine)) {
        kick_driver(engine); /* it writes in bursts, what all have asked */
    } else if (type_of(engine)->flush) {
        engine->volley = 0;
        type_of(engine)->flush(engine->backend);
    } else if (!type_of(engine)->sleep) {
        let_the_driver_write(engine);
    }
}

/* ---- driving ---- */

void dlk_engine_digest_news(dlk_engine *engine, int64_t now)
{
    for (;;) {
        dlk_list *link = dlk_list_take_first(&engine->answers);
        if (link) {
            dlk_core_answered(&engine->core, DLK_LIST_ITEM(link, dlk_ask, link), now);
        } else if (engine->link_news != DLK_LINK_NO_NEWS) {
            bool up = engine->link_news == DLK_LINK_IS_UP;
            dlock_error *why = engine->link_error;
            engine->link_news = DLK_LINK_NO_NEWS;
            engine->link_error = NULL;
            engine->digested = why;
            if (why)
                dlk_core_link(&engine->core, false, why, now);
            if (up)
                dlk_core_link(&engine->core, true, NULL, now);
            engine->digested = NULL;
            dlk_error_clear(&why);
        } else if (engine->notified.first) {
            dlk_engine_name *name = dlk_engine_news_take(&engine->notified);
            dlk_core_notified(&engine->core, &name->name.key, now);
        } else if ((link = dlk_list_take_first(&engine->doomed))) {
            dlk_doomed *doomed = DLK_LIST_ITEM(link, dlk_doomed, link);
            (void)dlk_core_break_wait(&engine->core, doomed->name, doomed->thread,
                                      doomed->before, doomed->text,
                                      now); /* it may be over */
            free(doomed);
        } else {
            return;
        }
    }
}

void dlk_engine_stop_driving(dlk_engine *engine)
{
    dlk_driven_becomes(engine, DLK_DRIVEN_NOT);
    if (engine->visit_missed)
        dlk_event_raise(engine); /* something may have come that nobody has read */
    engine->visit_missed = false;
}

void dlk_engine_drive(dlk_engine *engine, dlk_sleeper *me, int64_t until, uint32_t seen)
{
    const dlk_backend_type *type = type_of(engine);
    dlk_driven_becomes(engine, me ? DLK_DRIVEN_BY_CALLER : DLK_DRIVEN_BY_THREAD);
    engine->unsent = engine->left_to_driver = false; /* sleep begins with writing */
    engine->volley = 0;
    if (me)
        dlk_sleeper_becomes(me, DLK_SLEEPER_DRIVES);
    dlk_polls_begin(&engine->polls, until);
    type->arm(engine->backend, &engine->polls);
    dlk_engine_let_go(engine, me == NULL);
    DLK_POINT("drive.sleep");
    dlk_sleep_on(engine->backend, &engine->polls, seen, me != NULL);
    DLK_POINT("drive.woken");
    (void)pthread_mutex_lock(&engine->mutex);
    DLK_POINT("drive.look");
    if (me)
        dlk_sleeper_becomes(me, DLK_SLEEPER_AWAKE);
    dlk_engine_catch_up(engine);
    atomic_store(&engine->news, false);
    int64_t now = dlk_clock_now();
    type->process(engine->backend, now);
    /* What came may have set a date: the next try after a cut, for one. */
    engine->backend_next = type->tick(engine->backend, now);
    dlk_engine_digest(engine, now);
    /* The engine sees first whether those whom it is about to wake ask for more. */
    if (engine->in_flight == 0 && (me || dlk_list_empty(&engine->waking)))
        engine->takeover = false;
    dlk_engine_stop_driving(engine);
}

/* Until the next stroke that is meant for us, and maybe for others. */
static void sleep_together(dlk_engine *engine, dlk_sleeper *me, int64_t until)
{
    dlk_futex *gong = &engine->gongs[gong_of(me->seat)];
    uint32_t seen = atomic_load(gong), still = DLK_SLEEPS_TOGETHER;
    if (atomic_load(&me->word) == still)
        dlk_futex_wait_bits(gong, seen, until, bit_of(me->seat));
    (void)atomic_compare_exchange_strong(&me->word, &still, DLK_SLEEPS_ALONE);
}

static bool sleeps(const dlk_sleeper *me)
{
    return atomic_load_explicit(&me->word, memory_order_acquire) != DLK_SLEEPS_NOT;
}

/* Is it our turn within a moment? Else we sleep. Without the mutex; true if somebody has woken us. */
static bool look_for_turn(dlk_sleeper *me)
{
    int64_t end = dlk_clock_now() + WARN_NS;
    for (int look = 0; look < WARN_LOOKS && sleeps(me); look++)
        if (look % 8 == 7 && dlk_clock_now() >= end)
            break;
    DLK_POINT("park.looked");
    uint32_t still = DLK_SLEEPS_LOOKING;
    return !atomic_compare_exchange_strong(&me->word, &still, DLK_SLEEPS_ALONE);
}

/* What the look was worth: for those who are warned next. */
static void note_look(dlk_engine *engine, bool found)
{
    if (found)
        engine->warn_pause = 1;
    else
        engine->warn_rest = engine->warn_pause;
    if (!found && engine->warn_pause < WARN_REST_MAX)
        engine->warn_pause = (uint8_t)(2 * engine->warn_pause);
}

static void park(dlk_engine *engine, dlk_sleeper *me, int64_t until)
{
    bool together = engine->takeover && !me->warned, looks = me->warned, found = false;
    me->seat = engine->last_seat++;
    me->warned = false;
    atomic_store_explicit(&me->word,
                          together ? DLK_SLEEPS_TOGETHER
                          : looks  ? DLK_SLEEPS_LOOKING
                                   : DLK_SLEEPS_ALONE,
                          memory_order_relaxed);
    dlk_sleeper_becomes(me, DLK_SLEEPER_PARKED);
    dlk_list_append(&engine->sleepers, &me->link);
    dlk_engine_let_go(engine, false);
    DLK_POINT("park.sleep");
    if (together)
        sleep_together(engine, me, until);
    if (looks)
        found = look_for_turn(me);
    while (sleeps(me) && dlk_clock_now() < until)
        dlk_futex_wait(&me->word, DLK_SLEEPS_ALONE, until, false);
    DLK_POINT("park.woken");
    (void)pthread_mutex_lock(&engine->mutex);
    /* Somebody has decided to wake us and may be about to touch `word`: let it. */
    while (me->state == DLK_SLEEPER_CALLED && sleeps(me)) {
        (void)pthread_mutex_unlock(&engine->mutex);
        dlk_futex_wait(&me->word, DLK_SLEEPS_ALONE, DLK_NEVER, false);
        (void)pthread_mutex_lock(&engine->mutex);
    }
    dlk_sleeper_becomes(me, DLK_SLEEPER_AWAKE);
    dlk_list_remove(&me->link);
    if (looks)
        note_look(engine, found);
    if (engine->appointed == me)
        engine->appointed = NULL;
}

void dlk_engine_await(dlk_engine *engine, dlk_sleeper *me, const bool *over,
                      int64_t until)
{
    if (engine->driven || engine->takeover)
        dlk_engine_send(engine); /* else our own driving does it */
    while (!*over) {
        int64_t now = dlk_clock_now();
        if (now >= until) {
            dlk_core_tick(&engine->core, now);
            dlk_engine_digest(engine, now);
            dlk_engine_send(engine);
            break;
        }
        if (!engine->driven && !engine->takeover && engine->life == DLK_LIFE_OPEN)
            dlk_engine_drive(engine, me, until, dlk_kicks_seen(&engine->kicks));
        else
            park(engine, me, until);
        if (!*over && engine->unsent && (engine->driven || engine->takeover))
            dlk_engine_send(engine);
    }
}
