/* What must hold of an engine whenever its mutex is let go; the explorer asks. */
#include "engine/engine.h"

/* Who drives, and how the thread is, go with the engine's life. */
static bool life_is_sound(const dlk_engine *engine)
{
    bool runs = engine->thread_state != DLK_THREAD_NONE;
    if (engine->life == DLK_LIFE_OPEN && !runs)
        return false;
    if (!engine->driven)
        return !engine->visit_missed;
    return runs && (engine->life == DLK_LIFE_OPEN || engine->life == DLK_LIFE_CLOSING);
}

/* Who is called is told by whoever has called it, before that one sleeps. */
static bool sleepers_are_sound(const dlk_engine *engine)
{
    const dlk_sleeper *appointed = engine->appointed;
    if (appointed && appointed->state != DLK_SLEEPER_CALLED)
        return false;
    DLK_LIST_FOR (it, &engine->sleepers) {
        dlk_sleeper_state state = DLK_LIST_ITEM(it, dlk_sleeper, link)->state;
        if (state != DLK_SLEEPER_PARKED && state != DLK_SLEEPER_CALLED)
            return false;
    }
    DLK_LIST_FOR (it, &engine->waking)
        if (DLK_LIST_ITEM(it, dlk_sleeper, waking)->state != DLK_SLEEPER_CALLED)
            return false;
    return true;
}

bool dlk_engine_is_sound(const dlk_engine *engine)
{
    return life_is_sound(engine) && sleepers_are_sound(engine);
}
