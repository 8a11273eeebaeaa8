/* Calls and watches; see the header. */
#include "backends/etcd/calls.h"

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

/* ---- how a call has ended ---- */

static void end(dlk_etcd_calls *calls, dlk_etcd_call *call, dlk_etcd_end how,
                const char *why)
{
    call->end = how;
    if (why[0])
        snprintf(call->why, sizeof(call->why), "%s", why);
    dlk_list_remove(&call->link);
    dlk_list_append(&calls->over, &call->link);
}

static void refuse_answer(dlk_etcd_calls *calls, dlk_etcd_call *call, const char *why)
{
    call->answer = NULL;
    call->unread = true;
    end(calls, call, DLK_ETCD_BAD, why);
}

/* The one message that there has to be. */
static void read_answer(dlk_etcd_calls *calls, dlk_etcd_call *call)
{
    const char *message, *more;
    size_t size, more_size;
    if (dlk_grpc_take(&call->grpc, &message, &size) != DLK_GRPC_MESSAGE) {
        refuse_answer(calls, call, "its answer isn't one");
        return;
    }
    call->answer = dlk_etcd_unpack(dlk_etcd_rpcs[call->method].answer, message, size,
                                   &call->arena, &call->no_memory);
    bool alone = dlk_grpc_take(&call->grpc, &more, &more_size) == DLK_GRPC_NOTHING;
    if (call->no_memory)
        end(calls, call, DLK_ETCD_CUT, "there is no memory for its answer");
    else if (!call->answer || !alone)
        refuse_answer(calls, call, "its answer isn't one");
    else
        end(calls, call, DLK_ETCD_OK, "");
}

static const char *words_of(const dlk_grpc_call *grpc)
{
    if (grpc->words[0])
        return grpc->words;
    if (grpc->undone)
        return "it takes no more";
    return grpc->status == DLK_GRPC_NONE ? "the request was broken off"
                                         : dlk_etcd_status_name(grpc->status);
}

static void conclude(dlk_etcd_calls *calls, dlk_etcd_call *call)
{
    call->no_memory |= call->grpc.no_memory;
    if (call->grpc.status == DLK_GRPC_OK) {
        read_answer(calls, call);
    } else if (call->grpc.request.too_much && !call->no_memory) {
        refuse_answer(calls, call, "its answer is longer than any of etcd's");
    } else if (call->grpc.http != 0 && call->grpc.http != 200) {
        char why[64];
        snprintf(why, sizeof(why), "it answers with status %d", call->grpc.http);
        end(calls, call, dlk_etcd_end_of(call->grpc.status, ""), why);
    } else {
        end(calls, call, dlk_etcd_end_of(call->grpc.status, call->grpc.words),
            words_of(&call->grpc));
    }
    dlk_grpc_drop(&call->grpc);
}

/* ---- watches ---- */

static dlk_etcd_call *find_watch(dlk_etcd_calls *calls, int64_t number)
{
    DLK_LIST_FOR (it, &calls->watching) {
        dlk_etcd_call *call = DLK_LIST_ITEM(it, dlk_etcd_call, link);
        if (call->watch == number)
            return call;
    }
    return NULL;
}

/* A server of 3.5 that refuses to watch says a number of its own. It answers in our order. */
static dlk_etcd_call *find_next(dlk_etcd_calls *calls)
{
    DLK_LIST_FOR (it, &calls->watching) {
        dlk_etcd_call *call = DLK_LIST_ITEM(it, dlk_etcd_call, link);
        if (!call->stands)
            return call;
    }
    return NULL;
}

/* Without memory the server goes on to tell us of it, which does no harm. */
static void cancel_watch(dlk_etcd_calls *calls, int64_t number)
{
    DlkEtcd__WatchCancelRequest cancel = DLK_ETCD__WATCH_CANCEL_REQUEST__INIT;
    DlkEtcd__WatchRequest request = DLK_ETCD__WATCH_REQUEST__INIT;
    dlk_buf packed = {0};
    cancel.watch_id = number;
    request.request_case = DLK_ETCD__WATCH_REQUEST__REQUEST_CANCEL_REQUEST;
    request.cancel_request = &cancel;
    if (dlk_etcd_pack(&request.base, &packed))
        (void)dlk_grpc_say(&calls->stream, dlk_buf_head(&packed), dlk_buf_size(&packed));
    dlk_buf_free(&packed);
}

static void end_refused(dlk_etcd_calls *calls, dlk_etcd_call *call,
                        ProtobufCBinaryData reason)
{
    char why[sizeof(call->why)];
    snprintf(why, sizeof(why), "%.*s",
             (int)(reason.len < sizeof(why) ? reason.len : sizeof(why)),
             reason.data ? (const char *)reason.data : "");
    end(calls, call, dlk_etcd_refused_watch(why), why[0] ? why : "it refuses to watch");
}

/* False: the stream is of no use any more. One of 3.4 that has refused to watch something reads no more there. */
static bool hear_watch(dlk_etcd_calls *calls, const DlkEtcd__WatchResponse *said)
{
    dlk_etcd_call *call = find_watch(calls, said->watch_id);
    if (!call && said->created && said->canceled)
        call = find_next(calls);
    if (!call)
        return true;
    call->stands |= said->created;
    if (said->canceled && said->compact_revision == 0) {
        end_refused(calls, call, said->cancel_reason);
        return !said->created;
    }
    if (said->canceled || said->n_events > 0) {
        call->compacted = said->canceled;
        end(calls, call, DLK_ETCD_OK, "");
        if (!said->canceled)
            cancel_watch(calls, call->watch);
    }
    return true;
}

static void end_all(dlk_etcd_calls *calls, dlk_list *all, dlk_etcd_end how,
                    const char *why)
{
    DLK_LIST_FOR (it, all) {
        dlk_etcd_call *call = DLK_LIST_ITEM(it, dlk_etcd_call, link);
        end(calls, call, how, why);
        dlk_grpc_drop(&call->grpc);
    }
}

void dlk_etcd_calls_end_watches(dlk_etcd_calls *calls, const char *why)
{
    dlk_grpc_drop(&calls->stream);
    end_all(calls, &calls->watching, DLK_ETCD_CUT, why);
}

/* Why the stream has to end; NULL: it goes on. */
static const char *hear_message(dlk_etcd_calls *calls, const char *message, size_t size)
{
    dlk_arena arena;
    bool no_memory;
    const ProtobufCMessage *said = dlk_etcd_unpack(dlk_etcd_rpcs[DLK_ETCD_WATCH].answer,
                                                   message, size, &arena, &no_memory);
    const char *why = "what it says of a watch isn't to be read";
    if (said)
        why = hear_watch(calls, (const DlkEtcd__WatchResponse *)(const void *)said)
                  ? NULL
                  : "it has refused another watch";
    dlk_arena_free(&arena);
    return why;
}

static void hear_stream(dlk_etcd_calls *calls)
{
    const char *message, *bad = NULL;
    size_t size;
    dlk_grpc_got got;
    while (!bad &&
           (got = dlk_grpc_take(&calls->stream, &message, &size)) == DLK_GRPC_MESSAGE)
        bad = hear_message(calls, message, size);
    if (!bad && got == DLK_GRPC_BAD)
        bad = "what it says of a watch isn't a message";
    if (bad) {
        dlk_etcd_calls_end_watches(calls, bad);
    } else if (calls->stream.over) {
        dlk_etcd_end how = dlk_etcd_end_of(calls->stream.status, calls->stream.words);
        char why[sizeof(calls->stream.words)];
        snprintf(why, sizeof(why), "%s", words_of(&calls->stream));
        dlk_grpc_drop(&calls->stream);
        end_all(calls, &calls->watching, how == DLK_ETCD_OK ? DLK_ETCD_CUT : how, why);
    }
}

static bool open_stream(dlk_etcd_calls *calls, const dlk_etcd_call *first)
{
    calls->stream.streams = true;
    return dlk_grpc_ask(&calls->grpc, &calls->stream, dlk_etcd_rpcs[DLK_ETCD_WATCH].path,
                        calls->token, dlk_buf_head(&first->request),
                        dlk_buf_size(&first->request));
}

static bool begin_watch(dlk_etcd_calls *calls, dlk_etcd_call *call)
{
    if (!calls->stream.grpc)
        return open_stream(calls, call);
    return dlk_grpc_say(&calls->stream, dlk_buf_head(&call->request),
                        dlk_buf_size(&call->request));
}

/* ---- the connection ---- */

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
        if (next == &calls->stream)
            hear_stream(calls);
        else
            conclude(calls, (dlk_etcd_call *)(void *)next);
    }
    return some;
}

static dlock_error *feed(dlk_link *link, const char *data, size_t size, int64_t now)
{
    dlk_etcd_calls *calls = calls_of(link);
    const char *hint = dlk_link_hint(link, data);
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
    end_all(calls, &calls->going, DLK_ETCD_CUT, why);
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
    end_all(calls, &calls->going, DLK_ETCD_CUT, "the client is closed");
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

void dlk_etcd_calls_send(dlk_etcd_calls *calls, dlk_etcd_call *call, int64_t now)
{
    bool watches = call->method == DLK_ETCD_WATCH;
    call->until = call->timeout_ms ? dlk_clock_after(now, call->timeout_ms) : DLK_NEVER;
    call->grpc.secret = call->request.hidden;
    dlk_list_append(watches ? &calls->watching : &calls->going, &call->link);
    bool sent = calls->link.phase == DLK_LINK_READY;
    if (sent && watches)
        sent = begin_watch(calls, call);
    else if (sent)
        sent = dlk_grpc_ask(&calls->grpc, &call->grpc, dlk_etcd_rpcs[call->method].path,
                            calls->token, dlk_buf_head(&call->request),
                            dlk_buf_size(&call->request));
    if (!sent) {
        end(calls, call, DLK_ETCD_CUT,
            calls->grpc.http2.leaves ? "the member leaves" : "it wasn't sent");
        dlk_kick(calls->link.common->kicks); /* somebody has to take it out */
    }
    settle(calls);
}

void dlk_etcd_calls_drop(dlk_etcd_calls *calls, dlk_etcd_call *call)
{
    if (call->method == DLK_ETCD_WATCH && find_watch(calls, call->watch) == call)
        cancel_watch(calls, call->watch);
    dlk_grpc_drop(&call->grpc);
    end(calls, call, DLK_ETCD_CUT, "nobody waits for it");
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
    DLK_LIST_FOR (it, &calls->going) {
        dlk_etcd_call *call = DLK_LIST_ITEM(it, dlk_etcd_call, link);
        if (now >= call->until) {
            char why[64];
            snprintf(why, sizeof(why), "no answer within %" PRId64 " ms",
                     call->timeout_ms);
            dlk_grpc_drop(&call->grpc);
            end(calls, call, DLK_ETCD_CUT, why);
        } else if (call->until < next) {
            next = call->until;
        }
    }
    settle(calls);
    leave(calls);
    return next;
}
