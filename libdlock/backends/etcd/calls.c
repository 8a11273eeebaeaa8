/* Calls and watches; see the header. */
#include "backends/etcd/calls_inner.h"

#include "net/silence.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/secret.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dlk_etcd_calls *calls_of(dlk_link *link)
{
    return (dlk_etcd_calls *)(void *)link;
}

#define FAREWELL (500 * DLK_NS_PER_MS)

/* ---- the connection ---- */

static void conclude(dlk_etcd_calls *calls, dlk_etcd_call *call)
{
    char why[sizeof(call->why)];
    dlk_etcd_batch_note_time(calls, call->asked_at);
    call->no_memory |= call->grpc.no_memory;
    if (call->grpc.status == DLK_GRPC_OK) {
        size_t size;
        const char *message = dlk_etcd_only_message(&call->grpc, &size);
        dlk_etcd_call_read(calls, call, message, size, NULL);
    } else if (call->grpc.request.too_much && !call->no_memory) {
        dlk_etcd_call_refuse_answer(calls, call,
                                    "its answer is longer than any of etcd's");
    } else {
        dlk_etcd_end how = dlk_etcd_failure(&call->grpc, why, sizeof(why));
        dlk_etcd_call_end(calls, call, how, why);
    }
    dlk_grpc_drop(&call->grpc);
}

static dlock_error *broken(const dlk_etcd_calls *calls, const char *hint)
{
    const dlk_http2 *http2 = &calls->grpc.http2;
    return dlk_error_make(http2->code, "%s: %s: %s%s", calls->link.common->service,
                          calls->link.peer, http2->why, hint);
}

static dlock_error *greet(dlk_link *link, int64_t now)
{
    dlk_etcd_calls *calls = calls_of(link);
    (void)now;
    dlk_etcd_batches_begin(calls);
    dlk_silence_limit(atomic_load(&link->stream.fd), calls->silence_ms);
    /* A path is no authority. */
    bool begun = dlk_grpc_begin(&calls->grpc, link->common->tls ? "https" : "http",
                                link->host ? link->peer : "localhost", &link->stream.out);
    return begun
               ? NULL
               : dlk_error_make(DLOCK_ENOMEM, "%s: out of memory", link->common->service);
}

/* Whether there was something. */
static bool collect(dlk_etcd_calls *calls)
{
    dlk_grpc_call *next;
    bool some = false;
    while ((next = dlk_grpc_next(&calls->grpc))) {
        some = true;
        dlk_etcd_batch *batch = dlk_etcd_batch_of(calls, next);
        if (next == &calls->stream)
            dlk_etcd_watches_hear(calls);
        else if (batch)
            dlk_etcd_batch_conclude(calls, batch);
        else
            conclude(calls, (dlk_etcd_call *)(void *)next);
    }
    dlk_etcd_batches_flush(calls);
    return some;
}

static dlock_error *feed(dlk_link *link, const char *data, size_t size, int64_t now)
{
    dlk_etcd_calls *calls = calls_of(link);
    const char *hint = dlk_link_hint(link, data);
    calls->now = now;
    bool goes_on = dlk_grpc_feed(&calls->grpc, data, size);
    (void)collect(calls);
    if (!goes_on)
        return broken(calls, hint);
    if (link->phase == DLK_LINK_GREETING && calls->grpc.http2.settled) {
        link->step++;
        dlk_link_greeted(link, now);
    }
    if (calls->grpc.http2.leaves)
        dlk_etcd_calls_end_watches(calls, "the member leaves");
    return NULL;
}

static void be_ready(dlk_link *link, int64_t now)
{
    calls_of(link)->ops->up(calls_of(link), now);
}

/* @p why: of what was under way. */
static void let_go(dlk_etcd_calls *calls, const char *why)
{
    dlk_grpc_end(&calls->grpc);
    dlk_etcd_calls_end_watches(calls, why);
    dlk_etcd_calls_end_all(calls, &calls->going, DLK_ETCD_CUT, why);
}

static void be_down(dlk_link *link, const dlock_error *error, int64_t now)
{
    dlk_etcd_calls *calls = calls_of(link);
    let_go(calls, error->text);
    if (!calls->parting)
        calls->ops->down(calls, error, now);
}

static void warn(dlk_link *link, const char *text)
{
    calls_of(link)->ops->warn(calls_of(link), text);
}

static bool is_harmless(const dlk_link *link)
{
    const dlk_etcd_calls *calls = (const dlk_etcd_calls *)(const void *)link;
    return calls->parting || dlk_list_empty(&calls->going); /* the last may come late */
}

static const dlk_link_ops ops = {.greet = greet,
                                 .feed = feed,
                                 .ready = be_ready,
                                 .down = be_down,
                                 .harmless = is_harmless,
                                 .warn = warn};

/* ---- beginning and end ---- */

dlock_err dlk_etcd_calls_need(dlock_error **err)
{
    dlock_err code = dlk_http2_need(err);
    return code == DLOCK_OK ? dlk_etcd_messages_need(err) : code;
}

void dlk_etcd_calls_init(dlk_etcd_calls *calls, dlk_link_common *common,
                         const dlk_etcd_calls_ops *owner)
{
    *calls = (dlk_etcd_calls){.ops = owner};
    dlk_link_init(&calls->link, common, &ops);
    dlk_list_init(&calls->going);
    dlk_list_init(&calls->over);
    dlk_list_init(&calls->watching);
    dlk_etcd_batches_init(calls);
    dlk_list_init(&calls->grpc.news);
}

static void *say_farewell(void *arg)
{
    dlk_etcd_calls *calls = arg;
    dlk_link *link = &calls->link;
    dlk_kicks *kicks = link->common->kicks;
    dlk_polls polls = {0};
    int64_t now = dlk_clock_now(), until = now + FAREWELL;
    (void)pthread_mutex_lock(calls->mutex);
    while (!dlk_list_empty(&calls->going) && now < until) {
        uint32_t seen = dlk_kicks_seen(kicks);
        dlk_polls_begin(&polls, until);
        dlk_link_arm(link, &polls);
        (void)pthread_mutex_unlock(calls->mutex);
        dlk_link_push(link, &polls);
        (void)dlk_kicks_poll(kicks, &polls, seen);
        dlk_link_pull(link, &polls);
        (void)pthread_mutex_lock(calls->mutex);
        now = dlk_clock_now();
        dlk_link_process(link, now);
    }
    dlk_link_stop(link);
    (void)dlk_stream_reap(&link->stream);
    (void)pthread_mutex_unlock(calls->mutex);
    dlk_polls_free(&polls);
    return NULL;
}

void dlk_etcd_calls_part(dlk_etcd_calls *calls, dlk_etcd_call *call,
                         pthread_mutex_t *mutex, int64_t now)
{
    dlk_etcd_calls_end_watches(calls, "the client is closed");
    dlk_etcd_calls_end_all(calls, &calls->going, DLK_ETCD_CUT, "the client is closed");
    if (call)
        dlk_etcd_calls_send(calls, call, now);
    calls->mutex = mutex;
    calls->role = (dlk_thread_role){"dlock-etcd", say_farewell, calls};
    calls->parting = !dlk_list_empty(&calls->going);
    if (calls->parting && !dlk_thread_start(&calls->farewell, &calls->role))
        calls->parting = false; /* not behind the thread's back: it reads it */
    if (!calls->parting)
        dlk_link_stop(&calls->link);
}

void dlk_etcd_calls_free(dlk_etcd_calls *calls)
{
    dlk_etcd_call *call;
    if (calls->parting)
        (void)pthread_join(calls->farewell, NULL);
    let_go(calls, "");
    while ((call = dlk_etcd_calls_take(calls)))
        dlk_etcd_call_free(call);
    dlk_link_free(&calls->link);
}

/* ---- calls ---- */

/* While something is said, too, something may come of calls, or go wrong in libnghttp2, which ends the
 * connection: the driver's next step sees to both. */
static void settle(dlk_etcd_calls *calls)
{
    bool some = collect(calls);
    bool failed = calls->grpc.http2.failed && dlk_link_is_connected(&calls->link) &&
                  !calls->link.doom;
    if (failed)
        calls->link.doom = broken(calls, "");
    if (some || failed)
        dlk_kick(calls->link.common->kicks);
}

static void watch(dlk_etcd_calls *calls, dlk_etcd_call *call)
{
    bool ready = calls->link.phase == DLK_LINK_READY;
    if (!ready || !dlk_etcd_watches_begin(calls, call))
        dlk_etcd_call_not_sent(calls, call);
}

void dlk_etcd_calls_send(dlk_etcd_calls *calls, dlk_etcd_call *call, int64_t now)
{
    bool watches = call->method == DLK_ETCD_WATCH;
    calls->now = now;
    dlk_list_init(&call->wait);
    call->until = call->timeout_ms ? dlk_clock_after(now, call->timeout_ms) : DLK_NEVER;
    call->grpc.secret = call->request.hidden;
    dlk_list_append(watches ? &calls->watching : &calls->going, &call->link);
    if (watches)
        watch(calls, call);
    else if (!dlk_etcd_batch_holds(calls, call))
        dlk_etcd_call_ask(calls, call);
    settle(calls);
}

void dlk_etcd_calls_drop(dlk_etcd_calls *calls, dlk_etcd_call *call)
{
    if (call->method == DLK_ETCD_WATCH &&
        dlk_etcd_watches_find(calls, call->watch) == call)
        dlk_etcd_watches_cancel(calls, call->watch);
    dlk_grpc_drop(&call->grpc);
    dlk_etcd_call_end(calls, call, DLK_ETCD_CUT, "nobody waits for it");
    settle(calls);
}

dlk_etcd_call *dlk_etcd_calls_take(dlk_etcd_calls *calls)
{
    dlk_list *link = dlk_list_take_first(&calls->over);
    return link ? DLK_LIST_ITEM(link, dlk_etcd_call, link) : NULL;
}

void dlk_etcd_call_reset(dlk_etcd_call *call)
{
    dlk_arena_free(&call->arena);
    call->answer = NULL;
    call->why[0] = '\0';
    call->no_memory = call->compacted = call->unread = false;
    call->term = call->revision = 0;
}

void dlk_etcd_call_free(dlk_etcd_call *call)
{
    dlk_etcd_call_reset(call);
    dlk_buf_free(&call->request);
    free(call);
}

/* ---- time ---- */

/* Who leaves answers what is under way: the connection is over when all that has been taken out. */
static void leave(dlk_etcd_calls *calls)
{
    if (!calls->grpc.http2.leaves || !dlk_link_is_connected(&calls->link) ||
        calls->link.doom || !dlk_list_empty(&calls->going) ||
        !dlk_list_empty(&calls->over))
        return;
    calls->link.doom = dlk_error_make(DLOCK_EUNAVAIL, "%s: %s leaves",
                                      calls->link.common->service, calls->link.peer);
    dlk_kick(calls->link.common->kicks);
}

int64_t dlk_etcd_calls_tick(dlk_etcd_calls *calls, int64_t now)
{
    int64_t next = DLK_NEVER;
    calls->now = now;
    DLK_LIST_FOR (it, &calls->going) {
        dlk_etcd_call *call = DLK_LIST_ITEM(it, dlk_etcd_call, link);
        if (now >= call->until) {
            char why[64];
            snprintf(why, sizeof(why), "no answer within %" PRId64 " ms",
                     call->timeout_ms);
            dlk_grpc_drop(&call->grpc);
            dlk_etcd_call_end(calls, call, DLK_ETCD_CUT, why);
        } else if (call->until < next) {
            next = call->until;
        }
    }
    settle(calls);
    leave(calls);
    return next;
}
