/* Calls on their way: with the session's lease, and as long as there is time for them. */
#include "backends/etcd/inner.h"

#include <stdlib.h>

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void dlk_etcd_background(dlk_etcd *et)
{
    dlk_host *host = et->base.backend.host;
    if (host->news)
        host->news(host);
}

/* A renewal that isn't answered has to leave time for one by another member. */
static int64_t patience(const dlk_etcd *et, dlk_etcd_done *done)
{
    int64_t quarter = et->ttl_ms / 4 > 250 ? et->ttl_ms / 4 : 250;
    int64_t ms = et->timeout_ms;
    if (done == dlk_etcd_on_kept)
        ms = least(ms, quarter);
    return et->phase == DLK_ETCD_UP ? ms : least(ms, et->connect_ms);
}

dlk_etcd_call *dlk_etcd_call_new(dlk_etcd *et, dlk_etcd_method method,
                                 dlk_etcd_request request, dlk_etcd_done *done,
                                 void *owner, int64_t now)
{
    dlk_etcd_call *call = request.failed ? NULL : calloc(1, sizeof(*call));
    if (!call) {
        dlk_buf_free(&request.packed);
        return NULL;
    }
    call->method = method;
    call->request = request.packed;
    call->done = done;
    call->owner = owner;
    call->timeout_ms = patience(et, done);
    call->sent_at = now;
    call->epoch = et->epoch;
    call->lease = et->lease;
    call->asked = !dlk_flight_is_empty(&et->base.flight);
    dlk_list_init(&call->link);
    return call;
}

void dlk_etcd_put_in(dlk_etcd *et, dlk_etcd_call *call, int64_t now)
{
    et->under_way++;
    if (et->signing_on && call->method != DLK_ETCD_AUTHENTICATE) {
        dlk_list_append(&et->parked, &call->link);
        return;
    }
    et->base.backend.host->commands++;
    dlk_etcd_calls_send(&et->calls, call, now);
    if (!call->asked)
        dlk_etcd_background(et);
}

dlk_etcd_call *dlk_etcd_send_then(dlk_etcd *et, dlk_etcd_method method,
                                  dlk_etcd_request request, dlk_etcd_bytes about,
                                  dlk_etcd_done *done, dlk_etcd_done *then, void *owner,
                                  int64_t now)
{
    if (et->phase < DLK_ETCD_GREETING) {
        dlk_buf_free(&request.packed);
        return NULL;
    }
    dlk_etcd_call *call = dlk_etcd_call_new(et, method, request, done, owner, now);
    if (!call)
        return NULL;
    call->about = about;
    call->then = then;
    dlk_etcd_put_in(et, call, now);
    return call;
}

dlk_etcd_call *dlk_etcd_send(dlk_etcd *et, dlk_etcd_method method,
                             dlk_etcd_request request, dlk_etcd_done *done, void *owner,
                             int64_t now)
{
    return dlk_etcd_send_then(et, method, request, (dlk_etcd_bytes){0}, done, NULL, owner,
                              now);
}

dlk_etcd_call *dlk_etcd_watch(dlk_etcd *et, dlk_etcd_bytes from, dlk_etcd_bytes to,
                              int64_t revision, dlk_etcd_news of, dlk_etcd_done *done,
                              dlk_etcd_done *past, void *owner, int64_t now)
{
    DlkEtcd__WatchCreateRequest create = DLK_ETCD__WATCH_CREATE_REQUEST__INIT;
    DlkEtcd__WatchRequest watch = DLK_ETCD__WATCH_REQUEST__INIT;
    DlkEtcd__WatchCreateRequest__Filter without =
        of == DLK_ETCD_DELETES ? DLK_ETCD__WATCH_CREATE_REQUEST__FILTER__NOPUT
                               : DLK_ETCD__WATCH_CREATE_REQUEST__FILTER__NODELETE;
    if (et->phase != DLK_ETCD_UP || et->signing_on)
        return NULL;
    create.key = from;
    create.range_end = to;
    create.start_revision = past ? 0 : revision;
    create.watch_id = ++et->watches;
    create.n_filters = of != DLK_ETCD_CHANGES;
    create.filters = &without;
    watch.request_case = DLK_ETCD__WATCH_REQUEST__REQUEST_CREATE_REQUEST;
    watch.create_request = &create;
    dlk_etcd_call *call = dlk_etcd_call_new(
        et, DLK_ETCD_WATCH, dlk_etcd_request_of(&watch.base), done, owner, now);
    if (!call)
        return NULL;
    call->watch = create.watch_id;
    call->start = revision;
    call->past = past;
    call->timeout_ms = 0;
    call->asked = true;
    dlk_etcd_calls_send(&et->calls, call, now);
    return call;
}

void dlk_etcd_drop(dlk_etcd *et, dlk_etcd_call *call)
{
    call->dropped = true;
    dlk_etcd_calls_drop(&et->calls, call);
}
