/* The engine's thread: looks after what nobody waits for in a call, and drives where no caller does;
 * engine.h says by which rules. */
#include "engine/drive.h"

#include "util/clock.h"
#include "util/point.h"

#include <sched.h>

/* Those who have just been answered have their next request ready in a moment: one burst for all
 * of them costs less than one for each. With nobody else to run the yield returns at once. They
 * leave the writing to us, and park. */
static void let_the_woken_ask(dlk_engine *engine)
{
    dlk_driven_becomes(engine, DLK_DRIVEN_BY_THREAD);
    dlk_engine_let_go(engine, true);
    DLK_POINT("engine.yield");
    (void)sched_yield(); /* can't fail on Linux */
    (void)pthread_mutex_lock(&engine->mutex);
    dlk_engine_stop_driving(engine);
    if (engine->in_flight == 0) { /* all was answered, and nobody asks */
        engine->takeover = false;
        engine->unsent = true; /* subscriptions that they have left to us */
    }
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void tick(dlk_engine *engine, int64_t now)
{
    dlk_ops_drain_cancelled(engine, now);
    dlk_core_tick(&engine->core, now);
    engine->backend_next = engine->backend->type->tick(engine->backend, now);
    dlk_engine_digest(engine, now);
    if (engine->look_at <= now)
        engine->look_at = DLK_NEVER;
}

static bool may_finish(dlk_engine *engine, int64_t now)
{
    if (engine->life != DLK_LIFE_CLOSING || engine->driven)
        return false;
    return (dlk_core_unconfirmed(&engine->core) == 0 &&
            dlk_engine_unsettled(engine) == DLK_SETTLED) ||
           now >= engine->close_until;
}

/* What had been called to the engine's thread when it began to decide. */
typedef struct heard {
    uint32_t bell, kicks;
} heard;

static heard listen_now(const dlk_engine *engine)
{
    return (heard){atomic_load(&engine->bell), dlk_kicks_seen(&engine->kicks)};
}

static void rest(dlk_engine *engine, int64_t until, const heard *seen)
{
    dlk_thread_becomes(engine, DLK_THREAD_ASLEEP);
    engine->asleep_until = until;
    bool news = atomic_load(&engine->news) && !engine->driven;
    dlk_engine_let_go(engine, true);
    if (!news)
        dlk_futex_wait(&engine->bell, seen->bell, until, false);
    (void)pthread_mutex_lock(&engine->mutex);
    dlk_thread_becomes(engine, DLK_THREAD_AWAKE);
}

static void drive(dlk_engine *engine, int64_t until, const heard *seen)
{
    dlk_thread_becomes(engine, DLK_THREAD_ASLEEP);
    engine->asleep_until = until;
    dlk_engine_drive(engine, NULL, until, seen->kicks);
    dlk_thread_becomes(engine, DLK_THREAD_AWAKE);
}

static void round_of_engine(dlk_engine *engine, int64_t now)
{
    heard seen = listen_now(engine);
    if (engine->look_at <= now && engine->visited) {
        engine->visited = false;
        engine->look_at = dlk_engine_next_look(engine, now);
    }
    bool due = engine->look_at <= now;
    bool must = dlk_engine_must_drive(engine, now);
    tick(engine, now);
    if (due && dlk_engine_expects(engine))
        must = true;
    int64_t until = earlier(dlk_core_next(&engine->core), engine->backend_next);
    if (engine->life == DLK_LIFE_CLOSING)
        until = earlier(until, engine->close_until);
    /* Callers drive for themselves, but not any more when the client closes. */
    bool callers = !dlk_list_empty(&engine->sleepers) && engine->life == DLK_LIFE_OPEN;
    if (!engine->driven && (engine->takeover || (must && !callers))) {
        drive(engine, until, &seen);
        return;
    }
    if (engine->unsent && !engine->visit_again) {
        /* Renewals and the like that a tick has asked for. The mutex is let go while they are
         * written, and who sets a date meanwhile leaves it to us, who are awake: look again. */
        dlk_engine_send(engine);
        if (due)
            engine->look_at = now;
        return;
    }
    if (dlk_engine_unattended(engine))
        engine->look_at = dlk_engine_next_look(engine, now);
    rest(engine, earlier(until, engine->look_at), &seen);
}

void *dlk_engine_run(void *arg)
{
    dlk_engine *engine = arg;
    DLK_POINT("engine.begin");
    (void)pthread_mutex_lock(&engine->mutex);
    for (;;) {
        if (engine->takeover && !engine->driven && !dlk_list_empty(&engine->waking))
            let_the_woken_ask(engine);
        int64_t now = dlk_clock_now();
        if (may_finish(engine, now))
            break;
        round_of_engine(engine, now);
    }
    dlk_engine_now_closed(engine);
    dlk_engine_let_go(engine, false);
    return NULL;
}
