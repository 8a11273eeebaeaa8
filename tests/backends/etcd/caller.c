/* See the header. */
#include "caller.h"

#include "util/clock.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct caller caller;

static void up(dlk_etcd_calls *calls, int64_t now)
{
    (void)calls, (void)now;
    caller.ups++;
}

static void down(dlk_etcd_calls *calls, const dlock_error *error, int64_t now)
{
    (void)calls, (void)now;
    caller.downs++;
    snprintf(caller.text, sizeof(caller.text), "%s", error->text);
}

static void warn(dlk_etcd_calls *calls, const char *text)
{
    (void)calls, (void)text; /* only with TLS */
}

static const dlk_etcd_calls_ops ops = {.up = up, .down = down, .warn = warn};

void caller_init(void)
{
    dlk_etcd_calls_init(&caller.calls, &caller.common, &ops);
}

bool caller_begin(int port, dlk_tls *tls)
{
    memset(&caller, 0, sizeof(caller));
    snprintf(caller.peer, sizeof(caller.peer), "127.0.0.1:%d", port);
    caller.kicks = DLK_KICKS_INIT;
    caller.now = dlk_clock_now();
    caller.common = (dlk_link_common){.service = "etcd",
                                      .plain = "etcd://",
                                      .hint = "",
                                      .tls = tls,
                                      .connect_ns = 60 * DLK_NS_PER_SEC,
                                      .backoff = {.min_ms = 10, .max_ms = 100},
                                      .kicks = &caller.kicks,
                                      .rand = &caller.rand,
                                      .bytes_sent = &caller.sent,
                                      .bytes_received = &caller.received,
                                      .wiring = &caller.wiring};
    caller_init();
    dlk_link *link = &caller.calls.link;
    dlk_link_aim(link, "127.0.0.1", (uint16_t)port, caller.peer);
    if (!dlk_kicks_open(&caller.kicks) || dlk_etcd_calls_need(NULL) != DLOCK_OK ||
        !dlk_address_numeric("127.0.0.1", link->port, &link->to))
        return false;
    dlk_link_start(link, caller.now);
    return true;
}

void caller_end(void)
{
    dlk_link_stop(&caller.calls.link);
    (void)dlk_stream_reap(&caller.calls.link.stream);
    dlk_etcd_calls_free(&caller.calls);
    dlk_kicks_close(&caller.kicks);
}

void caller_turn(void)
{
    dlk_polls polls = {0};
    dlk_polls_begin(&polls, dlk_clock_now() + 10 * DLK_NS_PER_MS);
    dlk_link_arm(&caller.calls.link, &polls);
    dlk_link_push(&caller.calls.link, &polls);
    (void)dlk_kicks_poll(&caller.kicks, &polls, dlk_kicks_seen(&caller.kicks));
    dlk_link_pull(&caller.calls.link, &polls);
    caller.now = dlk_clock_now();
    dlk_link_process(&caller.calls.link, caller.now);
    (void)dlk_link_tick(&caller.calls.link, caller.now);
    (void)dlk_etcd_calls_tick(&caller.calls, caller.now);
    dlk_polls_free(&polls);
}

dlk_etcd_call *caller_call(dlk_etcd_method method, dlk_etcd_request request)
{
    dlk_etcd_call *call = calloc(1, sizeof(*call));
    if (!call || request.failed)
        abort();
    call->method = method;
    call->request = request.packed;
    call->timeout_ms = method == DLK_ETCD_WATCH ? 0 : 60000;
    dlk_list_init(&call->link);
    return call;
}

dlk_etcd_call *caller_watch(int64_t number, dlk_etcd_bytes key, int64_t from, bool puts)
{
    DlkEtcd__WatchCreateRequest create = DLK_ETCD__WATCH_CREATE_REQUEST__INIT;
    DlkEtcd__WatchRequest request = DLK_ETCD__WATCH_REQUEST__INIT;
    DlkEtcd__WatchCreateRequest__Filter no_puts =
        DLK_ETCD__WATCH_CREATE_REQUEST__FILTER__NOPUT;
    create.key = key;
    create.start_revision = from;
    create.watch_id = number;
    create.n_filters = !puts;
    create.filters = &no_puts;
    request.request_case = DLK_ETCD__WATCH_REQUEST__REQUEST_CREATE_REQUEST;
    request.create_request = &create;
    dlk_etcd_call *call = caller_ask(DLK_ETCD_WATCH, &request.base);
    call->watch = number;
    dlk_etcd_calls_send(&caller.calls, call, caller.now);
    return call;
}
