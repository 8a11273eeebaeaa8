/* Sessions, their threads, and the hook at the points; see the header. */
#include "session.h"

#include "../api/world.h"
#include "util/point.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void (*dlk_point_hook)(const char *name);

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static _Thread_local session *self;
static session *opening; /* whose engine begins, until it has */
static bool draining;
static int asks;

int64_t session_now_ms(void)
{
    return now_ms();
}

/* ---- at the points ---- */

static void stop_here(session *s)
{
    s->trap[0] = '\0';
    s->held = true;
    pthread_cond_broadcast(&changed);
    while (s->held)
        pthread_cond_wait(&changed, &mutex);
}

/* With several in one client, only the first of them is told that somebody else has it. */
static bool means_waiting(const char *name)
{
    return strcmp(name, "acquire.behind") == 0 || strcmp(name, "park.sleep") == 0 ||
           (self->shares && strcmp(name, "drive.sleep") == 0);
}

static void on_point(const char *name)
{
    pthread_mutex_lock(&mutex);
    if (!self && opening && strcmp(name, "engine.begin") == 0) {
        self = opening;
        opening = NULL;
        pthread_cond_broadcast(&changed);
    }
    if (self && strcmp(name, "acquire.ask") == 0)
        asks++;
    if (self && means_waiting(name)) {
        self->waits = true;
        pthread_cond_broadcast(&changed);
    }
    if (self && !draining && strcmp(self->trap, name) == 0)
        stop_here(self);
    pthread_mutex_unlock(&mutex);
}

void sessions_begin(void)
{
    dlk_point_hook = on_point;
}

/* ---- on the session's thread ---- */

static dlock_err acquire(session *s, int64_t wait_ms, dlock_hold **ret)
{
    return dlock_lock_acquire(s->lock, wait_ms, ret, NULL);
}

static dlock_err start(session *s, int64_t wait_ms, dlock_hold **ret)
{
    dlock_op *op = dlock_lock_acquire_start(s->lock, wait_ms);
    pthread_mutex_lock(&mutex);
    s->op = op;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    (void)dlock_op_wait(op, DLOCK_FOREVER); /* the result says all there is to say */
    *ret = dlock_op_take_hold(op);
    return dlock_op_result(op);
}

static dlock_err call_out(session *s, dlock_hold **ret)
{
    switch (s->call) {
    case CALL_ACQUIRE:
        return acquire(s, s->wait_ms, ret);
    case CALL_START:
        return start(s, s->wait_ms, ret);
    case CALL_RELEASE:
        return dlock_hold_release(s->hold, NULL);
    case CALL_CHECK:
        return dlock_hold_check(s->hold);
    case CALL_VERIFY:
        return dlock_hold_verify(s->hold, NULL);
    case CALL_CANCEL:
        dlock_op_cancel(s->to_cancel);
        return DLOCK_OK;
    case CALL_NONE:
    case CALL_END:
        break;
    }
    return DLOCK_OK;
}

static void *live(void *arg)
{
    session *s = arg;
    self = s;
    pthread_mutex_lock(&mutex);
    while (s->call != CALL_END) {
        if (s->call == CALL_NONE) {
            pthread_cond_wait(&changed, &mutex);
            continue;
        }
        dlock_hold *hold = NULL;
        pthread_mutex_unlock(&mutex);
        dlock_err code = call_out(s, &hold);
        pthread_mutex_lock(&mutex);
        if (hold)
            s->hold = hold;
        s->result = code;
        s->call = CALL_NONE;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&mutex);
    return NULL;
}

/* ---- on the runner's thread ---- */

/* Mutex held. Waits for a moment at most: only the clock of the harness knows when the machine stood still. */
static void await_change(void)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec++;
    (void)pthread_cond_timedwait(&changed, &mutex, &end);
}

/* Mutex held. False when it takes too long. */
static bool await(session *s, bool (*reached)(const session *s))
{
    return AWAITED_BY(await_change(), reached(s), patience_ms());
}

static bool is_over(const session *s)
{
    return s->call == CALL_NONE;
}

static bool is_held(const session *s)
{
    return s->held;
}

static bool is_waiting(const session *s)
{
    return s->waits;
}

static bool is_settled(const session *s)
{
    bool known = s->call != CALL_START || s->op; /* so that it can be cancelled */
    return is_over(s) || s->held || (s->waits && known);
}

static bool has_begun(const session *s)
{
    return opening != s;
}

static bool await_locked(session *s, bool (*reached)(const session *s))
{
    pthread_mutex_lock(&mutex);
    bool fine = await(s, reached);
    pthread_mutex_unlock(&mutex);
    return fine;
}

bool session_open(session *s, const char *name, session *of, const char *uri,
                  const char *settings, const char *lock)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    *s = (session){.name = name, .own_client = !of, .shares = of != NULL};
    if (of) {
        s->client = of->client;
        of->shares = true;
    } else {
        DLOCK_AUTO(dlock_conf) conf = api_conf(settings);
        opening = s;
        dlock_err code = dlock_client_open(uri, conf, &s->client, &err);
        if (!harness_err(__FILE__, __LINE__, "open", code, DLOCK_OK, err) ||
            !harness_check(__FILE__, __LINE__, await_locked(s, has_begun), "an engine"))
            return false;
    }
    s->lock = world_lock(s->client, lock, NULL);
    return s->lock && pthread_create(&s->thread, NULL, live, s) == 0;
}

bool session_busy(session *s)
{
    pthread_mutex_lock(&mutex);
    bool busy = !is_over(s);
    pthread_mutex_unlock(&mutex);
    return busy;
}

bool session_stopped(session *s)
{
    pthread_mutex_lock(&mutex);
    bool stopped = s->held;
    pthread_mutex_unlock(&mutex);
    return stopped;
}

dlock_op *session_op(session *s)
{
    pthread_mutex_lock(&mutex);
    dlock_op *op = s->op;
    pthread_mutex_unlock(&mutex);
    return op;
}

bool session_do(session *s, session_call call, int64_t wait_ms, dlock_op *to_cancel,
                const char *trap)
{
    pthread_mutex_lock(&mutex);
    s->call = call;
    s->wait_ms = wait_ms;
    s->until = wait_ms < 0 ? INT64_MAX : session_now_ms() + wait_ms;
    s->to_cancel = to_cancel;
    s->waits = false;
    if (trap && trap[0])
        snprintf(s->trap, sizeof(s->trap), "%s", trap);
    pthread_cond_broadcast(&changed);
    bool fine = await(s, is_settled);
    pthread_mutex_unlock(&mutex);
    return fine;
}

void session_trap(session *s, const char *point)
{
    pthread_mutex_lock(&mutex);
    snprintf(s->trap, sizeof(s->trap), "%s", point);
    pthread_mutex_unlock(&mutex);
}

void session_go(session *s)
{
    pthread_mutex_lock(&mutex);
    if (!s->held) /* else what is set by now is the next trap */
        s->trap[0] = '\0';
    s->held = false;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

bool session_await_held(session *s)
{
    return await_locked(s, is_held);
}

bool session_await_waits(session *s)
{
    return await_locked(s, is_waiting);
}

bool session_await_over(session *s, dlock_err *ret)
{
    bool fine = await_locked(s, is_over);
    *ret = s->result;
    return fine;
}

void sessions_drain(session *all, int count, bool drain)
{
    pthread_mutex_lock(&mutex);
    draining = drain;
    for (int i = 0; i < count; i++) {
        all[i].held = false;
        all[i].trap[0] = '\0';
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

int sessions_asks(void)
{
    pthread_mutex_lock(&mutex);
    int count = asks;
    asks = 0;
    pthread_mutex_unlock(&mutex);
    return count;
}

void sessions_close(session *all, int count)
{
    for (int i = 0; i < count; i++) {
        pthread_mutex_lock(&mutex);
        all[i].call = CALL_END;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&mutex);
        pthread_join(all[i].thread, NULL);
        dlock_op_free(all[i].op);
        dlock_hold_free(all[i].hold);
        dlock_lock_free(all[i].lock);
    }
    for (int i = 0; i < count; i++)
        if (all[i].own_client)
            dlock_client_free(all[i].client);
}
