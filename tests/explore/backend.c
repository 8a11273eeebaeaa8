/* The backend; see the header. */
#include "backend.h"

#include "service.h"
#include "strand.h"
#include "wire.h"

#include "backends/registry.h"
#include "contract/flight.h"
#include "engine/engine.h"
#include "net/kicks.h"
#include "net/stream.h"
#include "util/clock.h"

#include <stdlib.h>
#include <string.h>

#define MAX_CLIENTS 4
#define RETRY_MS    10

typedef struct fake {
    dlk_backend base;
    dlk_flight flight;
    dlk_list keys;
    uint64_t id, last_sequence;
    dlk_stream stream;
    int polled;
    bool up, stopped, frozen;
    int64_t retry_at;
} fake;

typedef struct key {
    dlk_list link;
    dlk_key *key;
} key;

static fake *all[MAX_CLIENTS];

static fake *of(dlk_backend *backend)
{
    return (fake *)(void *)backend;
}

void backends_reset(void)
{
    memset(all, 0, sizeof(all));
}

int backends_count(void)
{
    int count = 0;
    for (int i = 0; i < MAX_CLIENTS; i++)
        count += all[i] != NULL;
    return count;
}

/* ---- is anything left undone, now that all sleep? ---- */

static void look_at(const fake *one, int64_t until)
{
    const dlk_engine *engine = DLK_LIST_ITEM(one->base.host, dlk_engine, host);
    int64_t next = dlk_core_next(&engine->core);
    if (engine->life != DLK_LIFE_OPEN && engine->life != DLK_LIFE_CLOSING)
        return;
    if (engine->backend_next < next)
        next = engine->backend_next;
    if (one->retry_at < next) /* whatever the engine believes */
        next = one->retry_at;
    if (until > next)
        explore_fail("a deadline is told late: it is in %.3f ms, and nobody wakes for "
                     "another %.3f ms",
                     (double)(next - strands_now()) / 1e6, (double)(until - next) / 1e6);
    if (atomic_load(&engine->cancelled))
        explore_fail("a cancel was asked for, and nobody carries it out");
    if (atomic_load(&engine->news))
        explore_fail("there is news, and nobody drives");
    if (one->up && dlk_buf_size(&one->stream.out) + dlk_buf_size(&one->stream.sending))
        explore_fail("a request lies unwritten");
    if (one->up && socket_is_full(atomic_load(&one->stream.fd)) &&
        strands_await_anything())
        explore_fail("an answer lies unread, and somebody waits");
    if (dlk_engine_is_left(engine) && engine->driven == DLK_DRIVEN_BY_THREAD &&
        engine->in_flight == 0)
        explore_fail(
            "nothing is awaited, and the engine's thread drives in place of the program");
    if (engine->takeover && engine->in_flight == 0)
        explore_fail(
            "nothing is under way, and the engine's thread still drives for all");
    if (!dlk_list_empty(&engine->events) && engine->event.fd >= 0 &&
        !engine->event_fd_raised)
        explore_fail("an event lies in the queue, and its descriptor isn't readable");
}

void backends_check(const void *mutex)
{
    for (int i = 0; i < MAX_CLIENTS; i++)
        if (all[i] && all[i]->base.host->mutex == mutex &&
            !dlk_engine_is_sound(DLK_LIST_ITEM(all[i]->base.host, dlk_engine, host)))
            explore_fail("an engine whose mutex is let go isn't sound");
}

void service_look_round(int64_t until)
{
    for (int i = 0; i < MAX_CLIENTS; i++)
        if (all[i])
            look_at(all[i], until);
}

/* ---- its life ---- */

static dlock_err fake_open(dlk_host *host, const dlk_uri *uri,
                           const dlk_settings *settings, dlk_backend **ret,
                           dlock_error **err)
{
    (void)settings;
    for (int i = 0; i < MAX_CLIENTS; i++) {
        if (all[i])
            continue;
        fake *one = calloc(1, sizeof(*one));
        if (!one)
            return dlk_error_nomem(err);
        one->base = (dlk_backend){.type = dlk_registry_find(uri->scheme), .host = host};
        one->id = (uint64_t)(i + 1) << 48;
        one->retry_at = DLK_NEVER;
        dlk_flight_init(&one->flight, host);
        dlk_list_init(&one->keys);
        dlk_stream_init(&one->stream);
        all[i] = one;
        *ret = &one->base;
        return DLOCK_OK;
    }
    explore_fail("too many clients");
}

static void come_up(fake *one)
{
    one->up = true;
    one->retry_at = DLK_NEVER;
    one->base.host->wiring++;
    dlk_stream_open(&one->stream, socket_new());
    dlk_kick(one->base.host->kicks); /* a driver that sleeps doesn't know the socket */
    one->base.host->link(one->base.host, true, NULL);
}

static void go_down(fake *one, int64_t now)
{
    one->up = false;
    one->retry_at = dlk_clock_after(now, RETRY_MS);
    one->base.host->wiring++;
    dlk_stream_close(&one->stream, DLK_END_RESET);
    (void)dlk_stream_reap(&one->stream); /* else whoever still uses it does */
    dlk_flight_answer_all(&one->flight, DLK_UNKNOWN);
    one->base.host->link(one->base.host, false, NULL);
}

static void fake_start(dlk_backend *backend, int64_t now)
{
    (void)now;
    come_up(of(backend));
}

static void fake_stop(dlk_backend *backend)
{
    fake *one = of(backend);
    one->up = false;
    one->stopped = true;
    dlk_flight_answer_all(&one->flight, DLK_UNKNOWN);
    dlk_stream_close(&one->stream, DLK_END_ORDERLY);
    (void)dlk_stream_reap(&one->stream); /* else whoever still uses it does */
}

static void fake_free(dlk_backend *backend)
{
    fake *one = of(backend);
    if (atomic_load(&one->stream.fd) >= 0)
        explore_fail("a client is freed, and somebody still writes or reads");
    dlk_stream_free(&one->stream);
    for (int i = 0; i < MAX_CLIENTS; i++)
        if (all[i] == one)
            all[i] = NULL;
    free(one);
}

/* ---- asking ---- */

static dlock_err key_open(dlk_backend *backend, dlk_key *made, dlock_error **err)
{
    key *one = calloc(1, sizeof(*one));
    if (!one)
        return dlk_error_nomem(err);
    one->key = made;
    dlk_list_init(&one->link);
    dlk_list_append(&of(backend)->keys, &one->link);
    made->data = one;
    made->queues = made->kind == DLK_KIND_CONDITION;
    return DLOCK_OK;
}

static void key_close(dlk_backend *backend, dlk_key *made)
{
    (void)backend;
    key *one = made->data;
    dlk_list_remove(&one->link);
    free(one);
}

static void ask(dlk_backend *backend, dlk_ask *asked, int64_t now)
{
    (void)now;
    fake *one = of(backend);
    if (!one->up) {
        asked->reply = DLK_NOT_SENT;
        return;
    }
    request text;
    memset(&text, 0, sizeof(text));
    text.sequence = ++one->last_sequence;
    text.number = one->id | asked->number;
    text.ttl_ms = asked->ttl_ms;
    text.verb = asked->verb;
    text.condition = asked->key->kind == DLK_KIND_CONDITION;
    text.used = asked->used;
    text.limit = asked->limit;
    strcpy(text.name, asked->key->name);
    if (!dlk_buf_append(&one->stream.out, &text, sizeof(text)))
        explore_fail("no memory for a request");
    asked->sequence = text.sequence;
    dlk_list_init(&asked->link);
    dlk_flight_await(&one->flight, asked);
}

static void give_up(dlk_backend *backend, dlk_ask *asked)
{
    dlk_flight_answer(&of(backend)->flight, asked, DLK_UNKNOWN);
}

static int64_t tick(dlk_backend *backend, int64_t now)
{
    fake *one = of(backend);
    if (one->stopped)
        return DLK_NEVER;
    if (!one->up && now >= one->retry_at) {
        if (dlk_stream_reap(&one->stream))
            come_up(one);
        else
            one->retry_at = now + DLK_NS_PER_MS;
    }
    dlk_flight_expire(&one->flight, now, backend, give_up);
    int64_t due = dlk_flight_due(&one->flight, now);
    return one->retry_at < due ? one->retry_at : due;
}

static void flush(dlk_backend *backend)
{
    fake *one = of(backend);
    if (one->up)
        (void)dlk_stream_flush(&one->stream, backend->host->mutex);
}

/* ---- driving ---- */

static void arm(dlk_backend *backend, dlk_polls *polls)
{
    fake *one = of(backend);
    one->frozen = one->up;
    if (!one->up)
        return;
    one->polled = dlk_polls_add(polls, atomic_load(&one->stream.fd), POLLIN);
    dlk_stream_arm(&one->stream);
}

static void push(dlk_backend *backend, dlk_polls *polls)
{
    fake *one = of(backend);
    if (one->frozen)
        dlk_polls_change(polls, one->polled, dlk_stream_push(&one->stream));
}

static void pull(dlk_backend *backend, dlk_polls *polls)
{
    fake *one = of(backend);
    if (one->frozen && dlk_polls_came(polls, one->polled))
        dlk_stream_pull(&one->stream);
}

static bool laid_wires(const dlk_backend *backend, int *fds, size_t *ret_count)
{
    const fake *one = (const fake *)(const void *)backend;
    *ret_count = 0;
    if (one->up)
        fds[(*ret_count)++] = atomic_load(&one->stream.fd);
    return true;
}

static void notify(fake *one, const char *name)
{
    DLK_LIST_FOR (it, &one->keys) {
        const key *k = DLK_LIST_ITEM(it, key, link);
        if (strcmp(k->key->name, name) == 0)
            one->base.host->notified(one->base.host, k->key);
    }
}

static void take_answer(fake *one, const answer *came)
{
    if (came->sequence == 0) {
        notify(one, came->name);
        return;
    }
    DLK_LIST_FOR (it, &one->flight.asks) {
        dlk_ask *asked = DLK_LIST_ITEM(it, dlk_ask, link);
        if (asked->sequence != came->sequence)
            continue;
        asked->token = came->token;
        asked->wait_ms = came->wait_ms;
        asked->lasts = came->lasts;
        asked->new_place = came->new_place;
        if (asked->verb == DLK_SIGNAL && came->reply == DLK_YES) {
            asked->info = dlk_info_new();
            dlk_info_add_int(asked->info, came->signalled, "signalled");
        }
        dlk_flight_answer(&one->flight, asked, came->reply);
        return;
    }
}

static void process(dlk_backend *backend, int64_t now)
{
    fake *one = of(backend);
    dlk_stream *stream = &one->stream;
    if (one->frozen) {
        one->frozen = false;
        dlk_stream_disarm(stream);
        if (dlk_stream_reap(stream))
            stream->in_size = 0; /* closed while the driver slept */
    }
    if (!one->up)
        return;
    for (size_t at = 0; at < stream->in_size; at += sizeof(answer)) {
        answer came;
        memcpy(&came, stream->in + at, sizeof(came));
        take_answer(one, &came);
    }
    stream->in_size = 0;
    one->base.host->rest = stream->rest;
    if (atomic_load(&stream->failure))
        go_down(one, now);
}

static const char *const schemes[] = {"fake", NULL};
static const dlk_backend_type type = {
    .name = "fake",
    .schemes = schemes,
    .traits = {.layout = "fake",
               .class = DLK_REQUIRE_FENCING,
               .tokens = true,
               .kinds = {[DLOCK_MUTEX] = true, [DLK_KIND_CONDITION] = true}},
    .open = fake_open,
    .start = fake_start,
    .stop = fake_stop,
    .free = fake_free,
    .ask = ask,
    .tick = tick,
    .arm = arm,
    .process = process,
    .key_open = key_open,
    .key_close = key_close,
    .push = push,
    .pull = pull,
    .flush = flush,
    .wires = laid_wires,
};

/* In the place of libdlock/backends/registry.c. With "driven" only a driver writes. */
const dlk_backend_type *dlk_registry_find(const char *scheme)
{
    static dlk_backend_type driven;
    driven = type;
    driven.flush = NULL;
    if (strcmp(scheme, "driven") == 0)
        return &driven;
    return strcmp(scheme, "fake") == 0 ? &type : NULL;
}

const char *dlk_registry_schemes(void)
{
    return "fake";
}

const char *dlk_registry_why(const char *scheme)
{
    (void)scheme;
    return NULL;
}
