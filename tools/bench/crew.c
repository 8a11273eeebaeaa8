/* See the header. The main thread opens, starts, waits with the signals, stops, joins and closes;
 * the others only use what it made. */
#include "bench/crew.h"

#include "spot.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_MS = 10000, GRACE_MS = 500, LOOK_MS = 20 };

typedef struct hand {
    struct crew *crew;
    pthread_t thread;
    dlock_client *client;
    bench_spot *spot;
    int number;
    char name[64];
    int64_t until; /* when its last pair was done */
    uint64_t pairs, hand_overs;
    bench_hist times;
} hand;

typedef struct crew {
    cli_call *cli;
    const crew_scene *scene;
    _Alignas(128) atomic_int ready, left;
    atomic_bool go, stop;
    pthread_mutex_t mutex; /* of the two below: the first failure */
    dlock_err code;
    dlock_error *error;
    int count, started;
    hand *hands;
    bench_spot *spots;
} crew;

static void nap(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

/* Takes the error over. Where it is stopped, an end that it didn't want is none of its own. */
static void fail(crew *c, dlock_err code, dlock_error *error)
{
    (void)pthread_mutex_lock(&c->mutex);
    if (c->code == DLOCK_OK && !atomic_load(&c->stop)) {
        c->code = code;
        c->error = error;
        error = NULL;
    }
    (void)pthread_mutex_unlock(&c->mutex);
    dlock_error_free(error);
    atomic_store(&c->stop, true);
}

/* ---- a thread -------------------------------------------------------------------------- */

static bool pair(hand *me, dlock_lock *lock, bool counts)
{
    crew *c = me->crew;
    dlock_error *error = NULL;
    dlock_hold *hold = NULL;
    int64_t from = bench_now_ns();
    dlock_err code = dlock_lock_acquire(lock, PATIENCE_MS, &hold, &error);
    if (code != DLOCK_OK) {
        fail(c, code, error);
        return false;
    }
    int64_t took = bench_now_ns() - from;
    bool changed = bench_enter(me->spot, me->number + 1) != me->number + 1;
    bench_exit(me->spot);
    code = dlock_hold_release(hold, &error);
    dlock_hold_free(hold);
    if (code != DLOCK_OK) {
        fail(c, code, error);
        return false;
    }
    me->until = bench_now_ns();
    if (!c->scene->one_name)
        took = me->until - from;
    if (counts) {
        me->pairs++;
        me->hand_overs += changed;
        if (changed || !c->scene->one_name)
            bench_hist_add(&me->times, took);
    }
    return true;
}

static void *work(void *argument)
{
    hand *me = argument;
    crew *c = me->crew;
    dlock_error *error = NULL;
    DLOCK_AUTO(dlock_lock) lock = NULL;
    dlock_err code = dlock_client_connect(me->client, &error);
    if (code == DLOCK_OK)
        code = dlock_lock_new(me->client, DLOCK_MUTEX, me->name, NULL, &lock, &error);
    if (code != DLOCK_OK)
        fail(c, code, error);
    else if (pair(me, lock, false)) /* the first one is nobody's measure */
        atomic_fetch_add(&c->ready, 1);
    while (!atomic_load(&c->go) && !atomic_load(&c->stop))
        nap();
    while (!atomic_load(&c->stop) && pair(me, lock, true))
        continue;
    atomic_fetch_add(&c->left, 1);
    return NULL;
}

/* ---- all of them ----------------------------------------------------------------------- */

/* Until the condition holds, the time is over or a signal comes, whose number it is. */
static int await(const crew *c, const atomic_int *counted, int64_t until)
{
    struct pollfd signals = {.fd = c->cli->signals, .events = POLLIN};
    while (
        cli_now_ms() < until &&
        (counted == NULL ? !atomic_load(&c->stop) : atomic_load(counted) < c->started)) {
        (void)poll(&signals, 1, LOOK_MS); /* EINTR: a shorter look */
        int number = cli_signal(c->cli);
        if (number != 0)
            return number;
        if (counted == &c->ready && atomic_load(&c->stop))
            return 0;
    }
    return 0;
}

/* All at once: each may take client.close_ms. */
static void close_clients(const crew *c)
{
    dlock_op *ops[CLI_THREADS_MAX];
    int count = c->scene->own_clients ? c->started : 1;
    for (int i = 0; i < count; i++)
        ops[i] = dlock_client_close_start(c->hands[i].client);
    for (int i = 0; i < count; i++) {
        (void)dlock_op_wait(ops[i], DLOCK_FOREVER);
        dlock_op_free(ops[i]);
    }
}

/* Everybody ends his pair and goes. Who can't, because the service is silent or a signal wants us
 * to end now, is told so by his client. */
static int stop(crew *c, int number)
{
    atomic_store(&c->stop, true);
    int64_t until = cli_now_ms() + (number != 0 ? GRACE_MS : INT64_C(2) * PATIENCE_MS);
    int another = await(c, &c->left, until);
    if (atomic_load(&c->left) < c->started)
        close_clients(c);
    for (int i = 0; i < c->started; i++)
        (void)pthread_join(c->hands[i].thread, NULL);
    return number != 0 ? number : another;
}

static double number_of(const dlock_info *stats, const char *key)
{
    const char *text = dlock_info_get(stats, key);
    return text != NULL ? strtod(text, NULL) : 0;
}

/* Adds what the client has asked the service for so far, or takes it away. */
static void count_requests(const crew *c, int sign, crew_result *ret)
{
    DLOCK_AUTO(dlock_info) stats = NULL;
    if (dlock_client_stats(c->hands[0].client, &stats, NULL) != DLOCK_OK)
        return;
    ret->requests += sign * (number_of(stats, "request_acquire.count") +
                             number_of(stats, "request_release.count"));
    ret->requests_ns += sign * (number_of(stats, "request_acquire.sum_ns") +
                                number_of(stats, "request_release.sum_ns"));
}

static int measure(crew *c, crew_result *ret)
{
    int number = await(c, &c->ready, cli_now_ms() + INT64_C(2) * PATIENCE_MS);
    if (number != 0 || atomic_load(&c->stop))
        return stop(c, number);
    count_requests(c, -1, ret);
    int64_t from = bench_now_ns(), until = from;
    atomic_store(&c->go, true);
    number = stop(c, await(c, NULL, cli_now_ms() + c->cli->bench_ms));
    for (int i = 0; i < c->count; i++)
        until = c->hands[i].until > until ? c->hands[i].until : until;
    count_requests(c, 1, ret);
    ret->secs = (double)(until - from) / 1e9;
    return number;
}

static int open_hands(crew *c)
{
    uint64_t run = (uint64_t)bench_now_ns();
    for (int i = 0; i < c->count; i++) {
        hand *h = &c->hands[i];
        int name = c->scene->one_name ? 0 : i;
        *h = (hand){.crew = c, .number = i, .spot = &c->spots[name]};
        (void)snprintf(h->name, sizeof h->name, "dlock-bench/%x-%llx/%d",
                       (unsigned)getpid(), (unsigned long long)run, name);
        h->client = c->cli->client;
        dlock_error *error = NULL;
        dlock_err code = DLOCK_OK;
        if (c->scene->own_clients) {
            h->client = NULL;
            code = dlock_client_new(c->cli->url, c->cli->conf, &h->client, &error);
        }
        if (code != DLOCK_OK) {
            int status = cli_fail(c->cli, NULL, code, error);
            dlock_error_free(error);
            return status;
        }
    }
    return 0;
}

static int start(crew *c)
{
    for (; c->started < c->count; c->started++) {
        hand *h = &c->hands[c->started];
        int problem = pthread_create(&h->thread, NULL, work, h);
        if (problem != 0) {
            (void)stop(c, 0);
            errno = problem;
            return cli_fail_errno(c->cli, "a thread");
        }
    }
    return 0;
}

/* What the threads leave behind: 0, or the exit status. */
static int sum(const crew *c, int number, crew_result *ret)
{
    int64_t overlaps = 0;
    for (int i = 0; i < c->count; i++) {
        ret->pairs += c->hands[i].pairs;
        ret->hand_overs += c->hands[i].hand_overs;
        bench_hist_merge(&ret->times, &c->hands[i].times);
        overlaps += atomic_load(&c->spots[i].overlaps);
    }
    if (overlaps > 0) {
        cli_say(c->cli,
                "%lld times two had the lock at once: this service excludes nobody",
                (long long)overlaps);
        return CLI_OTHER;
    }
    if (number != 0)
        return CLI_SIGNAL + number;
    if (c->code != DLOCK_OK)
        return cli_fail(c->cli, c->hands[0].name, c->code, c->error);
    return 0;
}

static void end(crew *c)
{
    if (c->scene->own_clients && c->hands != NULL) {
        if (c->started > 0)
            close_clients(c);
        for (int i = 0; i < c->count; i++)
            dlock_client_free(c->hands[i].client);
    }
    free(c->hands);
    free(c->spots);
    dlock_error_free(c->error);
    (void)pthread_mutex_destroy(&c->mutex);
}

int crew_run(cli_call *cli, const crew_scene *scene, crew_result *ret)
{
    crew c = {.cli = cli,
              .scene = scene,
              .mutex = PTHREAD_MUTEX_INITIALIZER,
              .count = scene->many ? (int)cli->threads : 1};
    *ret = (crew_result){0};
    c.hands = calloc((size_t)c.count, sizeof *c.hands);
    c.spots = aligned_alloc(64, (size_t)c.count * sizeof *c.spots);
    int status = 0;
    if (c.hands == NULL || c.spots == NULL) {
        status = cli_fail(cli, NULL, DLOCK_ENOMEM, NULL);
    } else {
        memset(c.spots, 0, (size_t)c.count * sizeof *c.spots);
        status = open_hands(&c);
    }
    if (status == 0)
        status = start(&c);
    if (status == 0)
        status = sum(&c, measure(&c, ret), ret);
    end(&c);
    return status;
}
