/* Calls on their way: with the session's token and lease, and as long as there is time for them. */
#include "backends/etcd/inner.h"

#include <stdlib.h>
#include <string.h>

/* More waits are woken by client.poll_ms only: each watch is a connection. */
#define WATCHES_MAX 64

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

dlk_etcd_call *dlk_etcd_call_new(dlk_etcd *et, const char *path, char *body,
                                 dlk_etcd_done *done, void *owner, int64_t now)
{
    dlk_etcd_call *call = body ? calloc(1, sizeof(*call)) : NULL;
    if (!call || (et->token && !(call->token = strdup(et->token)))) {
        free(call);
        free(body);
        return NULL;
    }
    call->path = path;
    call->body = body;
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

void dlk_etcd_put_in(dlk_etcd *et, dlk_etcd_call *call)
{
    et->calls++;
    et->base.backend.host->commands++;
    dlk_etcd_wire_send(&et->wire, call);
    if (!call->asked)
        dlk_etcd_background(et);
}

dlk_etcd_call *dlk_etcd_send_then(dlk_etcd *et, const char *path, char *body,
                                  dlk_etcd_done *done, dlk_etcd_done *then, void *owner,
                                  int64_t now)
{
    if (et->phase < DLK_ETCD_GREETING) {
        free(body);
        return NULL;
    }
    dlk_etcd_call *call = dlk_etcd_call_new(et, path, body, done, owner, now);
    if (!call)
        return NULL;
    call->then = then;
    dlk_etcd_put_in(et, call);
    return call;
}

dlk_etcd_call *dlk_etcd_send(dlk_etcd *et, const char *path, char *body,
                             dlk_etcd_done *done, void *owner, int64_t now)
{
    return dlk_etcd_send_then(et, path, body, done, NULL, owner, now);
}

dlk_etcd_call *dlk_etcd_watch(dlk_etcd *et, const char *from, const char *to,
                              int64_t revision, bool puts, dlk_etcd_done *done,
                              void *owner, int64_t now)
{
    dlk_say say = {0};
    if (et->watches >= WATCHES_MAX || et->phase != DLK_ETCD_UP)
        return NULL;
    dlk_say_text(&say, "{\"create_request\":{\"key\":\"%s\"", from);
    if (to)
        dlk_say_text(&say, ",\"range_end\":\"%s\"", to);
    if (!puts)
        dlk_say_text(&say, ",\"filters\":[\"NOPUT\"]");
    dlk_say_text(&say, ",\"start_revision\":\"%" PRId64 "\"}}", revision);
    dlk_etcd_call *call =
        dlk_etcd_call_new(et, "/v3/watch", dlk_say_end(&say), done, owner, now);
    if (!call)
        return NULL;
    call->watch = true;
    call->timeout_ms = 0;
    call->asked = true;
    et->watches++;
    dlk_etcd_wire_send(&et->wire, call);
    return call;
}

void dlk_etcd_drop(dlk_etcd *et, dlk_etcd_call *call)
{
    call->dropped = true;
    dlk_etcd_wire_drop(&et->wire, call);
}
