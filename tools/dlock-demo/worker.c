/*
 * A worker: takes the lock, reads the number, thinks, writes the number plus one with its token,
 * gives the lock back, rests; until it is told to stop, or is killed.
 */
#include "demo.h"

#include "../errno_text.h"

#include <dlock/dlock.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

/* Long enough to be seen, and to lose updates if two held the lock. */
enum { THINK_MS = 30, REST_MS = 3 };

static void sleep_ms(long ms)
{
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&time, NULL);
}

static _Noreturn void fail(demo_worker *me, const char *what, const char *why)
{
    (void)snprintf(me->failure, sizeof me->failure, "%s: %s", what, why);
    atomic_store(&me->state, WORKER_FAILED);
    _exit(1);
}

static dlock_client *open_client(const demo_state *demo, demo_worker *me)
{
    dlock_client *client = NULL;
    dlock_error *error = NULL;
    dlock_conf *conf = dlock_conf_new();
    if (dlock_conf_set_int(conf, "lock.ttl_ms", demo->ttl_ms, &error) != DLOCK_OK ||
        dlock_conf_set(conf, "postgres.install", "true", &error) != DLOCK_OK ||
        dlock_client_open(demo->url, conf, &client, &error) != DLOCK_OK)
        fail(me, "open", dlock_error_text(error));
    dlock_conf_free(conf);
    return client;
}

/* The holder alone calls this, so load and store needn't be one step. */
static void note_token(demo_shared *shared, demo_worker *me, int64_t token)
{
    int64_t highest = 0;
    for (int i = 0; i < WORKERS; i++) {
        int64_t other = atomic_load(&shared->workers[i].token);
        highest = other > highest ? other : highest;
    }
    atomic_fetch_add(token > highest ? &shared->rising : &shared->not_rising, 1);
    atomic_store(&me->token, token);
    atomic_store(&me->granted_us, demo_now_us());
}

static void increment(const demo_state *demo, demo_worker *me, int64_t token)
{
    int64_t count, last;
    if (counter_read(demo->counter, &count, &last) != 0)
        fail(me, demo->counter, errno_text(errno));
    sleep_ms(THINK_MS);
    switch (counter_write(demo->counter, count + 1, token)) {
    case 1:
        atomic_fetch_add(&me->turns, 1);
        break;
    case 0:
        atomic_fetch_add(&me->refused, 1);
        break;
    default:
        fail(me, demo->counter, errno_text(errno));
    }
}

static void turn(const demo_state *demo, demo_worker *me, int number,
                 dlock_client *client)
{
    dlock_hold *hold = NULL;
    dlock_error *error = NULL;
    atomic_store(&me->state, WORKER_WAITS);
    if (dlock_acquire(client, demo->name, DLOCK_FOREVER, &hold, &error) != DLOCK_OK)
        fail(me, "acquire", dlock_error_text(error));
    note_token(demo->shared, me, dlock_hold_token(hold));
    atomic_store(&me->state, WORKER_HOLDS);
    int next = DOOM_NEXT;
    if (atomic_compare_exchange_strong(&demo->shared->doomed, &next, number)) {
        atomic_store(&me->state, WORKER_DOOMED);
        for (;;)
            (void)pause(); /* the library goes on renewing: only death ends this hold */
    }
    increment(demo, me, dlock_hold_token(hold));
    /* Before the release: the next holder may have the lock before we run again. */
    atomic_store(&me->state, WORKER_RESTS);
    dlock_err released = dlock_hold_release(hold, &error);
    if (released != DLOCK_OK)
        fail(me, "release", dlock_error_text(error));
    dlock_hold_free(hold);
}

_Noreturn void worker_live(const demo_state *demo, int number)
{
    demo_worker *me = &demo->shared->workers[number];
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    dlock_client *client = open_client(demo, me);
    while (!atomic_load(&demo->shared->stop)) {
        turn(demo, me, number, client);
        sleep_ms(REST_MS);
    }
    dlock_client_free(client);
    atomic_store(&me->state, WORKER_DONE);
    _exit(0);
}
