/* Wanting a lock on a thread of one's own; see the header. */
#include "seeker.h"

static void use(seeker *me, const dlock_hold *hold)
{
    int64_t seen;
    stay *at = resource_enter(me->resource, hold);
    me->admitted = resource_look(me->resource, me->token, &seen) &&
                   resource_write(me->resource, me->token, seen);
    for (int64_t i = 0; i < me->stays_ms; i++) {
        (void)resource_still(at, hold); /* the judge is told */
        nap_ms(1);
    }
    resource_leave(at);
}

static void *seek(void *arg)
{
    seeker *me = arg;
    dlock_hold *hold = NULL;
    me->began = awake_now_ns();
    me->code = dlock_lock_acquire(me->lock, me->wait_ms, &hold, NULL);
    me->got_at = awake_now_ns();
    if (me->code == DLOCK_OK) {
        me->token = dlock_hold_token(hold);
        atomic_store(&me->held, true);
        if (me->resource)
            use(me, hold);
        else
            nap_ms(me->stays_ms);
        me->released = dlock_hold_release(hold, NULL);
    }
    dlock_hold_free(hold);
    me->ended = awake_now_ns();
    atomic_store(&me->over, true);
    return NULL;
}

bool seeker_start(seeker *me)
{
    return harness_check(__FILE__, __LINE__,
                         pthread_create(&me->thread, NULL, seek, me) == 0, "a thread");
}

void seeker_join(seeker *me)
{
    pthread_join(me->thread, NULL);
}
