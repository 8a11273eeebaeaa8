/* Services, answers, and the look around after each run; see the header. */
#include "world.h"

#include "api/handles.h"
#include "backends/local/check.h"
#include "backends/local/inner.h"
#include "harness/fork.h"
#include "harness/harness.h"
#include "util/clock.h"

#include <dirent.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SETTLE_MS 10000

int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_BOOTTIME, &now); /* there is one */
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void nap_ms(int ms)
{
    int64_t until = now_ms() + ms;
    do
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); /* then again */
    while (now_ms() < until);
}

/* ---- what is there ---- */

typedef struct inventory {
    fault_balance owed;
    int descriptors, threads;
} inventory;

static int entries(const char *path)
{
    int count = 0;
    DIR *dir = opendir(path);
    while (dir && readdir(dir))
        count++;
    if (dir)
        (void)closedir(dir);
    return count;
}

static inventory take_inventory(void)
{
    return (inventory){.owed = fault_owed(),
                       .descriptors = entries("/proc/self/fd"),
                       .threads = entries("/proc/self/task")};
}

static bool same(const inventory *a, const inventory *b)
{
    return a->owed.blocks == b->owed.blocks && a->owed.maps == b->owed.maps &&
           a->descriptors == b->descriptors && a->threads == b->threads;
}

/* Until threads that have just begun sleep: then they have freed what they were begun with. */
static void settle(world *w)
{
    for (int quiet = 0; quiet<5; quiet = harness_threads_at_work()> 1 ? 0 : quiet + 1)
        nap_ms(1);
    inventory now = take_inventory();
    w->descriptors = now.descriptors;
    w->threads = now.threads;
}

/* ---- the service ---- */

const char *backend_name(torture_backend which)
{
    return which == ON_MEM ? "mem" : which == ON_FILE ? "file" : "redis";
}

static void describe(char *text, size_t size, const char *where, int ms, int ttl_ms)
{
    (void)snprintf(text, size,
                   "%s?lock.ttl_ms=%d&client.timeout_ms=%d&client.connect_ms=%d&"
                   "client.close_ms=%d&client.backoff_min_ms=1&client.backoff_max_ms=10&"
                   "client.poll_ms=50&file.slots=16",
                   where, ttl_ms, ms, ms, ms);
}

static void name_places(const world *w, char *usual, char *fresh, size_t size)
{
    if (w->backend == ON_MEM) {
        (void)snprintf(usual, size, "mem:torture");
        (void)snprintf(fresh, size, "mem:fresh");
    } else if (w->backend == ON_FILE) {
        (void)snprintf(usual, size, "file://%s", w->path);
        (void)snprintf(fresh, size, "file://%s", w->fresh_path);
    } else { /* a name that has to be looked up */
        (void)snprintf(usual, size, "redis://127.0.0.1:%d/%d", w->redis->port, w->worker);
        (void)snprintf(fresh, size, "redis://localhost:%d/%d", w->redis->port, w->worker);
    }
}

/* What waits for an answer waits for as long as that makes sense on this machine, and no longer:
 * where nothing answers any more, all of it is waited for in every run. */
static void name_services(world *w, const char *dir)
{
    char usual[160], fresh[160];
    const char *slow = getenv("DLK_TEST_SLOW"), *wait = getenv("DLK_TORTURE_WAIT_MS");
    int ms = wait ? atoi(wait) : slow && slow[0] == '1' ? 600 : 300;
    w->ttl_ms = ms;
    w->long_ms = 2 * ms;
    (void)snprintf(w->path, sizeof(w->path), "%s/table-%d", dir, w->worker);
    (void)snprintf(w->fresh_path, sizeof(w->fresh_path), "%s/fresh-%d", dir, w->worker);
    (void)snprintf(w->name, sizeof(w->name), "wheel/%d", w->worker);
    name_places(w, usual, fresh, sizeof(usual));
    describe(w->uri, sizeof(w->uri), usual, ms, ms);
    describe(w->fresh, sizeof(w->fresh), fresh, ms, ms);
    describe(w->patient, sizeof(w->patient), usual, 20000, 20000);
}

static void *do_nothing(void *arg)
{
    return arg;
}

/* A sanitizer may have a thread of its own, which begins with the first of ours. */
static void start_first_thread(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, do_nothing, NULL) == 0)
        (void)pthread_join(thread, NULL); /* ours */
}

bool world_open(world *w, torture_backend which, int worker, const char *dir,
                redis_server *redis)
{
    *w = (world){.backend = which, .worker = worker, .redis = redis};
    start_first_thread();
    name_services(w, dir);
    if (which == ON_REDIS) {
        if (redis->control >= 0)
            (void)close(redis->control); /* the parent's own, here a copy */
        redis->control = -1;
        if (strcmp(redis_server_call(redis, "SELECT %d", worker), "OK") != 0)
            return false;
    } else if (dlock_client_open(w->uri, NULL, &w->observer, NULL) != DLOCK_OK)
        return false;
    settle(w);
    return true;
}

void world_close(world *w)
{
    dlock_client_free(w->observer);
    if (w->backend == ON_REDIS && w->redis->control >= 0) {
        (void)close(w->redis->control); /* nothing to lose in it */
        w->redis->control = -1;
    }
    (void)unlink(w->path);       /* if there is one */
    (void)unlink(w->fresh_path); /* likewise */
}

/* ---- answers ---- */

void stage_complain(stage *s, const char *format, ...)
{
    va_list args;
    if (s->complained)
        return;
    s->complained = true;
    va_start(args, format);
    (void)vsnprintf(s->complaint, sizeof(s->complaint), format, args);
    va_end(args);
}

static void judge(stage *s, int line, const char *call, dlock_err code,
                  const dlock_error *err, dlock_err expected, uint32_t others)
{
    s->answers++;
    if (code == DLOCK_EUNKNOWN)
        s->unsure = true;
    if (code == DLOCK_OK && err)
        stage_complain(s, "line %d: %s succeeded and left an error", line, call);
    if (code != DLOCK_OK && (!err || dlock_error_text(err)[0] == '\0'))
        stage_complain(s, "line %d: %s says %s and not why", line, call,
                       dlock_errname(code));
    if (code != DLOCK_OK && err && dlock_error_code(err) != code)
        stage_complain(s, "line %d: %s says %s, its error %s", line, call,
                       dlock_errname(code), dlock_errname(dlock_error_code(err)));
    if (code != expected && (s->baseline || !(others & BIT(code))))
        stage_complain(s, "line %d: %s says %s: %s", line, call, dlock_errname(code),
                       dlock_error_text(err));
}

bool stage_said(stage *s, int line, const char *call, dlock_err code, dlock_err expected,
                uint32_t others)
{
    judge(s, line, call, code, s->err, expected, others);
    dlock_error_free(s->err);
    s->err = NULL;
    return code == DLOCK_OK;
}

bool stage_finished(stage *s, int line, const char *what, dlock_op *op,
                    dlock_err expected, uint32_t others)
{
    dlock_err code = dlock_op_wait(op, 15000);
    if (code != DLOCK_OK) {
        stage_complain(s, "line %d: %s doesn't end", line, what);
        return false;
    }
    code = dlock_op_result(op);
    judge(s, line, what, code, dlock_op_error(op), expected, others);
    return code == DLOCK_OK;
}

/* ---- afterwards ---- */

/* Threads that nobody joins, and what they have, may need a moment to be gone. */
static void check_inventory(const world *w, stage *s, fault_balance owed)
{
    const inventory before = {owed, w->descriptors, w->threads};
    int64_t until = now_ms() + SETTLE_MS;
    inventory now = take_inventory();
    while (!same(&before, &now) && now_ms() < until) {
        nap_ms(1);
        now = take_inventory();
    }
    if (!same(&before, &now))
        stage_complain(
            s, "left: %ld blocks, %ld mappings, %d descriptors, %d threads",
            now.owed.blocks - before.owed.blocks, now.owed.maps - before.owed.maps,
            now.descriptors - before.descriptors, now.threads - before.threads);
}

/* One of the tokens, or a client's own key, which ends by itself. */
static bool is_no_lock(const char *key)
{
    return strncmp(key, "redisson_lock_token:", strlen("redisson_lock_token:")) == 0 ||
           strncmp(key, "dlock_client:", strlen("dlock_client:")) == 0;
}

/* A semaphore's two keys stay; check_permits looks at them. */
static bool is_semaphore(const world *w, const char *key)
{
    char name[64];
    (void)snprintf(name, sizeof(name), "%s/" PERMITS_NAME, w->name); /* it fits */
    return strstr(key, name) != NULL;
}

/* The mark of a turn that is open for all, which ends by itself a moment later. */
static bool is_open_turn(const char *key)
{
    return strncmp(key, "dlock_open:", strlen("dlock_open:")) == 0;
}

/* The first key that isn't a counter of tokens, a client's or a semaphore's, or "". */
static void find_key(world *w, bool with_open_turns, char *key, size_t size)
{
    char *rest = NULL, text[4096];
    (void)snprintf(text, sizeof(text), "%s", redis_server_call(w->redis, "KEYS *"));
    for (char *at = strtok_r(text, " ", &rest); at; at = strtok_r(NULL, " ", &rest))
        if (!is_no_lock(at) && !is_semaphore(w, at) &&
            (with_open_turns || !is_open_turn(at))) {
            (void)snprintf(key, size, "%s", at);
            return;
        }
    key[0] = '\0';
}

/* What was confirmed is gone; what wasn't goes with its lease. */
static void check_keys(world *w, stage *s)
{
    char key[128];
    find_key(w, false, key, sizeof(key));
    if (key[0] && !s->unsure)
        stage_complain(s, "every answer was clear, but the server still has %s", key);
    s->late = key[0] != '\0';
    int64_t until = now_ms() + w->ttl_ms + 1000;
    find_key(w, true, key, sizeof(key));
    while (key[0] && now_ms() < until) {
        nap_ms(5);
        find_key(w, true, key, sizeof(key));
    }
    if (key[0])
        stage_complain(s, "the server still has %s", key);
}

/* Both permits can be had, and are there when they have been given back. */
static void check_permits(world *w, stage *s)
{
    char name[64];
    dlock_client *client = NULL;
    dlock_conf *conf = dlock_conf_new();
    dlock_lock *lock = NULL;
    dlock_hold *hold = NULL;
    (void)snprintf(name, sizeof(name), "%s/" PERMITS_NAME, w->name); /* it fits */
    if (strcmp(redis_server_call(w->redis, "EXISTS %s", name), "0") != 0 &&
        SAYS(DLOCK_OK, 0, dlock_conf_set_int(conf, "lock.permits", 2, &s->err)) &&
        SAYS(DLOCK_OK, 0, dlock_conf_set_int(conf, "lock.take", 2, &s->err)) &&
        SAYS(DLOCK_OK, 0, dlock_client_open(w->patient, NULL, &client, &s->err)) &&
        SAYS(DLOCK_OK, 0,
             dlock_lock_new(client, DLOCK_SEMAPHORE, name, conf, &lock, &s->err)) &&
        SAYS(DLOCK_OK, 0,
             dlock_lock_acquire(lock, s->unsure ? w->ttl_ms + 1000 : 0, &hold, &s->err)))
        SAYS(DLOCK_OK, 0, dlock_hold_release(hold, &s->err));
    dlock_hold_free(hold);
    dlock_lock_free(lock);
    dlock_conf_free(conf);
    dlock_client_free(client);
    if (strcmp(redis_server_call(w->redis, "EXISTS %s", name), "0") != 0 &&
        strcmp(redis_server_call(w->redis, "GET %s", name), "2") != 0)
        stage_complain(s, "permits are missing");
    (void)redis_server_call(w->redis, "DEL %s {%s}:timeout", name, name);
}

static void check_table(world *w, stage *s)
{
    dlk_table *table = dlk_local_of(w->observer->engine->backend)->table;
    dlk_section section;
    dlk_record record;
    int clients = 0, rows = 0, places = 0;
    if (dlk_table_enter(table, &section, 1000) != DLK_ENTERED) {
        stage_complain(s, "the table can't be entered");
        return;
    }
    const char *fault = table_fault(table);
    for (uint32_t ref = 1; ref <= table->member_count; ref++)
        clients += (uint32_t)dlk_member_at(table, ref)->word != 0;
    for (uint32_t ref = 1; ref <= table->row_count; ref++)
        rows += dlk_table_holder(&section, ref, dlk_clock_now(), &record);
    for (uint32_t ref = 1; ref <= table->place_count; ref++)
        places += dlk_line_place_at(table, ref)->word != 0;
    dlk_table_leave(&section);
    if (fault)
        stage_complain(s, "the table isn't sound: %s", fault);
    if (clients != 1 || rows != 0 || places != 0)
        stage_complain(s, "the table has %d clients, %d locks held, %d places taken",
                       clients, rows, places);
}

/* Somebody new gets the lock: at once, unless a lease may have to run out. */
static void check_lock(world *w, stage *s, const char *uri)
{
    dlock_client *client = NULL;
    dlock_hold *hold = NULL;
    if (!SAYS(DLOCK_OK, 0, dlock_client_open(uri, NULL, &client, &s->err)))
        return;
    bool wait = s->unsure && (w->backend == ON_REDIS || s->exported);
    if (SAYS(DLOCK_OK, 0,
             dlock_acquire(client, w->name, wait ? w->ttl_ms + 1000 : 0, &hold, &s->err)))
        SAYS(DLOCK_OK, 0, dlock_hold_release(hold, &s->err));
    dlock_hold_free(hold);
    SAYS(DLOCK_OK, 0, dlock_client_close(client, &s->err));
    dlock_client_free(client);
}

void world_verify(world *w, stage *s, fault_balance before)
{
    if (s->complained)
        return; /* the rest would only follow from that */
    s->baseline = true;
    check_inventory(w, s, before);
    if (w->backend == ON_REDIS) {
        check_keys(w, s);
        check_permits(w, s);
    }
    check_lock(w, s, w->patient);
    if (w->backend != ON_REDIS)
        check_table(w, s); /* whoever came last has cleared what others had to leave */
    if (w->backend == ON_FILE && access(w->fresh_path, F_OK) == 0) {
        check_lock(w, s, w->fresh); /* nobody has it open: it is mended, if need be */
        (void)unlink(w->fresh_path);
    }
}
