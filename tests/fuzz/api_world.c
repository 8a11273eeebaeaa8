/* What the API's target stands on; see the header. */
#include "api_world.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

api_world world;

static char file_uri[sizeof(fuzz_litter) + 8];

/* ---- three threads, one at a time ---- */

typedef struct worker {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    void (*run)(void *);
    void *with;
} worker;

static worker workers[THREADS]; /* the first is the caller itself */

static void *work(void *own)
{
    worker *me = own;
    (void)pthread_mutex_lock(&me->mutex);
    for (;;) {
        while (!me->run)
            (void)pthread_cond_wait(&me->changed, &me->mutex);
        me->run(me->with);
        me->run = NULL;
        (void)pthread_cond_broadcast(&me->changed);
    }
    return NULL;
}

void on_thread(int number, void (*run)(void *), void *with)
{
    worker *it = &workers[number];
    if (number == 0) {
        run(with);
        return;
    }
    (void)pthread_mutex_lock(&it->mutex);
    it->run = run;
    it->with = with;
    (void)pthread_cond_broadcast(&it->changed);
    while (it->run)
        (void)pthread_cond_wait(&it->changed, &it->mutex);
    (void)pthread_mutex_unlock(&it->mutex);
}

static void start_once(void)
{
    static bool started;
    if (started)
        return;
    started = true;
    world.loud = getenv("FUZZ_TELL") != NULL;
    (void)snprintf(fuzz_litter, sizeof(fuzz_litter), "/tmp/dlock-fuzz-api-%d",
                   (int)getpid());
    (void)snprintf(file_uri, sizeof(file_uri), "file://%s", fuzz_litter);
    for (int i = 1; i < THREADS; i++) {
        (void)pthread_mutex_init(&workers[i].mutex, NULL);
        (void)pthread_cond_init(&workers[i].changed, NULL);
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            abort();
    }
}

/* ---- small things ---- */

uint8_t next(void)
{
    return fuzz_byte(world.bytes);
}

void check_error(dlock_err code, dlock_error *err)
{
    FUZZ_CHECK(dlock_error_code(err) == code, "%s, but the error says %s",
               dlock_errname(code), dlock_errname(dlock_error_code(err)));
    FUZZ_CHECK(code == DLOCK_OK || dlock_error_text(err)[0], "an error without a text");
    dlock_error_free(err);
}

void check_info(dlock_err code, dlock_info *info)
{
    FUZZ_CHECK((code == DLOCK_OK) == (info != NULL), "an info comes with success alone");
    if (info && !world.seen_info) /* once is enough: it takes longer than all the rest */
        fuzz_check_json(dlock_info_json(info));
    world.seen_info |= info != NULL;
    dlock_info_free(info);
}

void catch_up(void)
{
    for (int i = 0; i < CLIENTS; i++)
        (void)dlock_op_result(world.pings[i]);
}

lock *some_lock(void)
{
    lock *it = &world.model.locks[next() % LOCKS];
    return it->lock ? it : NULL;
}

hold *some_hold(void)
{
    hold *it = &world.model.holds[next() % HOLDS];
    return it->hold ? it : NULL;
}

op *some_op(void)
{
    op *it = &world.model.ops[next() % OPS];
    return it->op ? it : NULL;
}

op *free_op(void)
{
    for (int i = 0; i < OPS; i++)
        if (!world.model.ops[i].op)
            return &world.model.ops[i];
    return NULL;
}

void keep_hold(dlock_hold *got, const op *by)
{
    TELL("    client %d has %c, token %lld\n", by->client, 'a' + by->name,
         (long long)dlock_hold_token(got));
    grant *of = model_got(&world.model, by, dlock_hold_token(got));
    for (int i = 0; i < HOLDS; i++) {
        hold *it = &world.model.holds[i];
        if (it->hold || !of)
            continue;
        *it = (hold){.hold = got, .of = of, .token = of->token};
        FUZZ_CHECK(dlock_hold_name(got)[0] == 'a' + by->name, "a hold of another lock");
        return;
    }
    if (of)
        of->holds--; /* no room: given back at once */
    FUZZ_CHECK(dlock_hold_release(got, NULL) != DLOCK_ENOTHELD, "got, but not held");
    dlock_hold_free(got);
    catch_up();
}

static void on_log(void *user, dlock_level level, const char *line)
{
    (void)user;
    FUZZ_CHECK(level >= DLOCK_LOG_ERROR && level <= DLOCK_LOG_DEBUG && line[0] &&
                   dlock_strerror(DLOCK_OK)[0] && dlock_errname(DLOCK_EBUSY)[0],
               "a log line");
}

static void take_event(int client, const dlock_event *event)
{
    dlock_what what = dlock_event_what(event);
    uint64_t tag = dlock_event_tag(event);
    bool found = tag == 0;
    FUZZ_CHECK(!world.saw_closed[client], "an event after the last one");
    world.saw_closed[client] = what == DLOCK_EVENT_CLOSED;
    for (int i = 0; i < OPS && what == DLOCK_EVENT_DONE; i++) {
        op *it = &world.model.ops[i];
        if (!it->op || it->tag != tag)
            continue;
        FUZZ_CHECK(dlock_op_result(it->op) == dlock_event_code(event),
                   "DONE with another code");
        it->tag = UINT64_MAX; /* it had its event */
        found = true;
    }
    for (int i = 0; i < HOLDS && what != DLOCK_EVENT_DONE; i++)
        found |= world.model.holds[i].hold && world.model.holds[i].tag == tag;
    FUZZ_CHECK(found, "an event for nobody: kind %d, tag %llu", (int)what,
               (unsigned long long)tag);
}

void take_events(void)
{
    for (int i = 0; i < CLIENTS; i++) {
        dlock_event *event;
        while ((event = dlock_client_next_event(world.clients[i]))) {
            take_event(i, event);
            dlock_event_free(event);
        }
    }
}

void open_world(bool in_file)
{
    start_once();
    memset(&world.model, 0, sizeof(world.model));
    for (int i = 0; i < CLIENTS; i++) {
        dlock_error *err = NULL;
        dlock_conf *conf = i ? dlock_conf_new() : NULL;
        world.saw_closed[i] = false;
        if (conf && dlock_conf_set_log(conf, on_log, NULL) != DLOCK_OK)
            abort();
        dlock_err code = dlock_client_open(in_file ? file_uri : "mem:fuzz", conf,
                                           &world.clients[i], &err);
        FUZZ_CHECK(code == DLOCK_OK, "open: %s", dlock_error_text(err));
        dlock_conf_free(conf);
        world.pings[i] = dlock_client_import_start(world.clients[i], "ticket");
        for (int name = 0; name < NAMES; name++) {
            lock *it = &world.model.locks[i * NAMES + name];
            const char text[2] = {(char)('a' + name)};
            *it = (lock){.client = i, .name = name};
            if (dlock_lock_new(world.clients[i], DLOCK_MUTEX, text, NULL, &it->lock,
                               &err) != DLOCK_OK)
                abort();
        }
    }
}

void close_world(uint8_t order)
{
    for (int step = 0; step < 4; step++) {
        switch ((step + order) % 4) {
        case 0:
            for (int i = 0; i < CLIENTS; i++)
                dlock_client_free(world.clients[(i + (order >> 2)) % CLIENTS]);
            break;
        case 1:
            for (int i = 0; i < HOLDS; i++)
                dlock_hold_free(world.model.holds[i].hold);
            break;
        case 2:
            for (int i = 0; i < OPS; i++)
                dlock_op_free(world.model.ops[i].op);
            for (int i = 0; i < CLIENTS; i++)
                dlock_op_free(world.pings[i]);
            break;
        default:
            for (int i = 0; i < LOCKS; i++)
                dlock_lock_free(world.model.locks[i].lock);
            break;
        }
    }
}
