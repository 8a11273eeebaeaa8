/*
 * The session: a member that answers, who we are there, and a lease that is kept alive.
 *
 * What a renewal proves. etcd 3.4 lets a leader renew leases without asking anybody: one that was
 * cut off, or stood still, and has been replaced without knowing it yet, says yes to what the new
 * leader never hears of. But its answer carries its term. When something that was sent after that
 * answer had come, and that a majority has to stand behind (a transaction, a read that isn't
 * "serializable"), is answered in the same term, then the leader of that term was the leader when
 * it renewed. Only with both the lease counts, from when the renewal was sent. A new leader gives
 * every lease its full time anew, so leases never get shorter by a change of leaders.
 */
#include "backends/etcd/inner.h"

#include "util/error.h"
#include "util/number.h"
#include "util/secret.h"

#include <stdlib.h>
#include <string.h>

/* A renewal so old, in parts of the ttl, is repeated before something relies on it … */
#define FRESH_PART 6
/* … and anyway so often. */
#define KEEP_PART 3
/* A watch that was ended sooner than this without news isn't begun anew at once. */
#define WATCH_AGAIN DLK_NS_PER_SEC
/* What HTTP/2 and gRPC put around a message. */
#define SIGN_ON_ROOM 512

/* ---- up and down ---- */

static void drop_parked(dlk_etcd *et, int64_t now)
{
    dlk_list parked, *link;
    dlk_list_init(&parked);
    dlk_list_splice(&parked, &et->parked);
    while ((link = dlk_list_take_first(&parked))) {
        dlk_etcd_call *call = DLK_LIST_ITEM(link, dlk_etcd_call, link);
        call->end = DLK_ETCD_CUT;
        call->done(call, now);
        et->under_way--;
        dlk_etcd_call_free(call);
    }
}

/* Where the next try leads. */
static void aim(dlk_etcd *et)
{
    const dlk_uri_host *host = &et->hosts[et->host];
    dlk_link *link = &et->calls.link;
    dlk_link_aim(link, host->host, host->port, et->peers[et->host]);
    link->to = (dlk_addresses){0};
    if (!host->host)
        (void)dlk_address_unix(et->peers[et->host], &link->to); /* it fits */
    else
        (void)dlk_address_numeric(host->host, host->port, &link->to); /* or a name */
}

/* This member is of no use now: the next one, at once until all have been tried. */
static void be_down(dlk_etcd_calls *calls, const dlock_error *error, int64_t now)
{
    dlk_etcd *et = dlk_etcd_of_calls(calls);
    dlk_link *link = &calls->link;
    bool was_up = et->phase == DLK_ETCD_UP;
    et->epoch++;
    et->phase = DLK_ETCD_CLOSED;
    et->keeping = et->signing_on = false;
    et->host = (et->host + 1) % et->host_count;
    et->tried = was_up ? 0 : et->tried + 1;
    aim(et);
    bool all = et->tried >= et->host_count;
    bool others = et->tried > 0 && !all;
    if (all) {
        et->tried = 0;
        et->pause_ms = link->backoff.next_ms; /* the link rests */
    } else {
        link->retry_at = now;
        link->backoff.next_ms = et->pause_ms;
    }
    dlock_error *why = dlk_error_copy(error);
    if (others &&
        error->code == DLOCK_EUNAVAIL) { /* who waits to be told waits for the last */
        dlk_error_clear(&et->base.why_down);
        et->base.why_down = why;
    } else {
        dlk_session_down(&et->base, why);
    }
    drop_parked(et, now);
    dlk_etcd_places_proved(et, now); /* who waits for that waits in vain */
}

static void fail(dlk_etcd *et, dlock_error *why, int64_t now)
{
    dlk_link_drop(&et->calls.link, why, now);
}

static void give_up_on(dlk_etcd *et, const dlk_etcd_call *call, const char *what,
                       int64_t now)
{
    fail(et, dlk_etcd_error(et, call, what), now);
}

/* ---- who we are ---- */

static void greet(dlk_etcd *et, int64_t now);

static void send_parked(dlk_etcd *et, int64_t now)
{
    dlk_list parked, *link;
    dlk_list_init(&parked);
    dlk_list_splice(&parked, &et->parked);
    while ((link = dlk_list_take_first(&parked))) {
        dlk_etcd_call *call = DLK_LIST_ITEM(link, dlk_etcd_call, link);
        et->under_way--; /* put_in counts it again */
        dlk_etcd_put_in(et, call, now);
    }
}

/* Watches have the token with which their stream was opened; none is begun until there is the next. */
static void forget_token(dlk_etcd *et)
{
    et->calls.token = NULL;
    dlk_etcd_calls_end_watches(&et->calls, "who we are has to be said anew");
    dlk_wipe_free(et->token);
    et->token = NULL;
}

static void on_signed_on(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd *et = call->owner;
    if (call->epoch != et->epoch)
        return;
    et->signing_on = false;
    if (call->end != DLK_ETCD_OK) {
        if (dlk_etcd_says(call, "authentication is not enabled"))
            fail(et,
                 dlk_error_make(DLOCK_EACCES,
                                "etcd: auth.username is set, but the cluster knows no "
                                "users: authentication isn't enabled there"),
                 now);
        else
            give_up_on(et, call, "sign on", now);
        return;
    }
    const DlkEtcd__AuthenticateResponse *said = (const void *)call->answer;
    et->token = (char *)dlk_etcd_bytes_copy(said->token.data, said->token.len).data;
    et->calls.token = et->token;
    if (!et->token) {
        fail(et, dlk_error_make(DLOCK_ENOMEM, "etcd: out of memory"), now);
        return;
    }
    if (et->phase == DLK_ETCD_GREETING)
        greet(et, now);
    send_parked(et, now);
    et->nudge_at = now; /* who had no watch meanwhile looks, and has one */
}

/* It is kept out of core dumps, and wiped where it was. */
static dlk_etcd_request say_who(dlk_etcd *et, const char *password)
{
    DlkEtcd__AuthenticateRequest who = DLK_ETCD__AUTHENTICATE_REQUEST__INIT;
    size_t user = strlen(et->user), size = password ? strlen(password) : 0;
    dlk_etcd_request request = {.failed = true};
    who.name = (dlk_etcd_bytes){user, (uint8_t *)et->user};
    who.password = (dlk_etcd_bytes){size, (uint8_t *)(uintptr_t)password};
    if (dlk_buf_hide(&request.packed, user + size + 32))
        request.failed = !dlk_etcd_pack(&who.base, &request.packed);
    return request;
}

static void sign_on(dlk_etcd *et, int64_t now)
{
    char *password = NULL;
    dlock_error *why = NULL;
    if (et->signing_on)
        return;
    dlock_err code =
        dlk_settings_secret(et->settings, DLK_KEY_AUTH_PASSWORD, &password, &why);
    if (code != DLOCK_OK) {
        fail(et, why, now);
        return;
    }
    forget_token(et);
    dlk_etcd_request request = say_who(et, password);
    dlk_secret_free(password);
    /* … and on its way through the stream. */
    bool hidden = dlk_stream_hide(&et->calls.link.stream,
                                  dlk_buf_size(&request.packed) + SIGN_ON_ROOM);
    request.failed |= !hidden;
    et->signing_on =
        dlk_etcd_send(et, DLK_ETCD_AUTHENTICATE, request, on_signed_on, et, now) != NULL;
    if (!et->signing_on)
        fail(et, dlk_error_make(DLOCK_ENOMEM, "etcd: no memory to sign on with"), now);
}

/* ---- the lease ---- */

static void note_kept(dlk_etcd *et, const dlk_etcd_call *call, int64_t now)
{
    et->kept[1] = et->kept[0];
    et->kept[0].sent = call->sent_at;
    et->kept[0].heard = now;
    et->kept[0].term = call->term;
    et->keep_next = call->sent_at + et->ttl_ms * DLK_NS_PER_MS / KEEP_PART;
}

bool dlk_etcd_fresh(const dlk_etcd *et, int64_t now)
{
    return now < et->kept[0].sent + et->ttl_ms * DLK_NS_PER_MS / FRESH_PART;
}

int64_t dlk_etcd_proof(const dlk_etcd *et, const dlk_etcd_call *call)
{
    for (int i = 0; i < 2; i++)
        if (et->kept[i].term && et->kept[i].term == call->term &&
            call->sent_at >= et->kept[i].heard)
            return et->kept[i].sent;
    return 0;
}

static void greeted(dlk_etcd *et, int64_t now)
{
    et->phase = DLK_ETCD_UP;
    et->tried = 0;
    dlk_backoff_reset(&et->calls.link.backoff);
    et->pause_ms = 0;
    dlk_session_up(&et->base, now);
}

/* Leases have whole seconds, and a cluster a shortest one: we go by what was asked for. */
static void set_ttl(dlk_etcd *et, int64_t seconds)
{
    et->lease_ms = dlk_span_of_seconds(seconds);
    et->ttl_ms = dlk_number_clamp(et->lease_ms, 0,
                                  dlk_settings_int(et->settings, DLK_KEY_LOCK_TTL_MS));
}

static void on_granted(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd *et = call->owner;
    if (call->epoch != et->epoch || et->phase != DLK_ETCD_GREETING)
        return;
    int64_t lease = dlk_etcd_lease_id(call), ttl = dlk_etcd_lease_ttl(call);
    if (call->end != DLK_ETCD_OK) {
        give_up_on(et, call, "get a lease", now);
        return;
    }
    if (lease == 0 || ttl <= 0) {
        call->end = DLK_ETCD_BAD;
        give_up_on(et, call, "grant a lease", now);
        return;
    }
    et->lease = lease;
    set_ttl(et, ttl);
    et->kept[0].term = et->kept[1].term = 0;
    note_kept(et, call, now); /* a majority has written it down: that is proof enough */
    et->base.backend.host->log(et->base.backend.host, DLOCK_LOG_INFO,
                               "etcd: lease %" PRIx64 " of %" PRId64 " s", lease, ttl);
    greeted(et, now);
}

dlk_etcd_request dlk_etcd_lease_of(int64_t seconds)
{
    DlkEtcd__LeaseGrantRequest grant = DLK_ETCD__LEASE_GRANT_REQUEST__INIT;
    grant.ttl = seconds;
    return dlk_etcd_request_of(&grant.base);
}

dlk_etcd_request dlk_etcd_renewal_of(int64_t lease)
{
    DlkEtcd__LeaseKeepAliveRequest renewal = DLK_ETCD__LEASE_KEEP_ALIVE_REQUEST__INIT;
    renewal.id = lease;
    return dlk_etcd_request_of(&renewal.base);
}

dlk_etcd_request dlk_etcd_lease_wanted(const dlk_etcd *et)
{
    return dlk_etcd_lease_of((dlk_settings_int(et->settings, DLK_KEY_LOCK_TTL_MS) + 999) /
                             1000);
}

static void ask_for_lease(dlk_etcd *et, int64_t now)
{
    if (!dlk_etcd_send(et, DLK_ETCD_GRANT, dlk_etcd_lease_wanted(et), on_granted, et,
                       now))
        fail(et, dlk_error_make(DLOCK_ENOMEM, "etcd: no memory to ask with"), now);
}

void dlk_etcd_lease_gone(dlk_etcd *et, int64_t now)
{
    dlock_error *why = dlk_error_make(
        DLOCK_EUNAVAIL, "etcd: the lease has expired, or somebody has revoked it");
    et->lease = 0;
    et->kept[0].term = et->kept[1].term = 0;
    dlk_places_forget(&et->base, why, now);
    if (et->phase == DLK_ETCD_UP) {
        et->phase = DLK_ETCD_GREETING;
        dlk_session_down(&et->base, why);
    } else {
        dlk_error_clear(&why);
    }
    if (et->phase == DLK_ETCD_GREETING)
        ask_for_lease(et, now);
}

void dlk_etcd_on_kept(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd *et = call->owner;
    if (call->epoch != et->epoch)
        return;
    et->keeping = false;
    if (dlk_etcd_stale(et, call))
        return;
    if (call->end != DLK_ETCD_OK && call->end != DLK_ETCD_NO_LEASE) {
        give_up_on(et, call, "renew the lease", now);
        return;
    }
    int64_t ttl = dlk_etcd_lease_ttl(call);
    if (call->end == DLK_ETCD_NO_LEASE || ttl <= 0) {
        dlk_etcd_lease_gone(et, now);
        return;
    }
    set_ttl(et, ttl);
    note_kept(et, call, now);
    if (et->phase == DLK_ETCD_GREETING)
        greeted(et, now);
    dlk_etcd_places_proved(et, now);
}

void dlk_etcd_prove(dlk_etcd *et, int64_t now)
{
    if (et->keeping || et->lease == 0) /* it was lost a moment ago */
        return;
    dlk_etcd_call *call =
        dlk_etcd_send(et, DLK_ETCD_KEEP_ALIVE, dlk_etcd_renewal_of(et->lease),
                      dlk_etcd_on_kept, et, now);
    if (!call) {
        fail(et, dlk_error_make(DLOCK_ENOMEM, "etcd: no memory to ask with"), now);
        return;
    }
    et->keeping = true;
}

/* ---- greeting ---- */

static void greet(dlk_etcd *et, int64_t now)
{
    et->phase = DLK_ETCD_GREETING;
    if (et->user && !et->token)
        sign_on(et, now);
    else if (et->lease)
        dlk_etcd_prove(et, now);
    else
        ask_for_lease(et, now);
}

static void be_up(dlk_etcd_calls *calls, int64_t now)
{
    dlk_etcd *et = dlk_etcd_of_calls(calls);
    et->epoch++;
    dlk_link_note(&calls->link, DLOCK_EPENDING,
                  DLK_WHYS_NO_ANSWER); /* of the first request */
    greet(et, now);
}

static void warn(dlk_etcd_calls *calls, const char *text)
{
    dlk_host *host = dlk_etcd_of_calls(calls)->base.backend.host;
    host->log(host, DLOCK_LOG_WARN, "%s", text);
}

const dlk_etcd_calls_ops dlk_etcd_session_ops = {
    .up = be_up, .down = be_down, .warn = warn};

/* ---- what comes ---- */

static bool park(dlk_etcd *et, dlk_etcd_call *call, int64_t now)
{
    if (call->end != DLK_ETCD_NO_TOKEN || call->again || call->done == on_signed_on)
        return false;
    call->again = true;
    dlk_etcd_call_reset(call);
    call->sent_at = now;
    dlk_list_append(&et->parked, &call->link);
    sign_on(et, now);
    return true;
}

/* One that was refused would be so again: whoever waits is left to client.poll_ms. One that has
 * ended without news, as by the end of its member, is made up for by a look; at once would be for
 * ever where nobody lets watches live. */
static void receive_watch(dlk_etcd *et, dlk_etcd_call *call, int64_t now)
{
    if (call->dropped)
        return;
    bool refused = call->end != DLK_ETCD_OK && call->end != DLK_ETCD_CUT;
    bool early = call->end != DLK_ETCD_OK && now < call->sent_at + WATCH_AGAIN;
    if (early && !refused)
        et->nudge_at = call->sent_at + WATCH_AGAIN;
    if (early || refused)
        call->end = DLK_ETCD_BAD;
    call->done(call, now);
}

void dlk_etcd_receive(dlk_etcd *et, dlk_etcd_call *call, int64_t now)
{
    call->end = dlk_etcd_judge(et, call);
    if (call->method == DLK_ETCD_WATCH) {
        receive_watch(et, call, now);
        dlk_etcd_call_free(call);
        return;
    }
    if (park(et, call, now))
        return;
    bool cut = call->end == DLK_ETCD_CUT && call->epoch == et->epoch;
    dlock_error *why = cut ? dlk_etcd_error(et, call, NULL) : NULL;
    if (cut && et->phase >= DLK_ETCD_GREETING)
        fail(et, why, now);
    else
        dlk_error_clear(&why);
    call->done(call, now);
    et->under_way--;
    dlk_etcd_call_free(call);
}

/* ---- begin, end, time ---- */

void dlk_etcd_session_begin(dlk_etcd *et, int64_t now)
{
    et->host = dlk_rand_next(et->base.backend.host->rand) % et->host_count;
    aim(et);
    dlk_link_start(&et->calls.link, now);
}

static dlk_etcd_call *farewell(dlk_etcd *et, int64_t now)
{
    DlkEtcd__LeaseRevokeRequest revoke = DLK_ETCD__LEASE_REVOKE_REQUEST__INIT;
    revoke.id = et->lease;
    if (!et->lease || et->phase < DLK_ETCD_GREETING)
        return NULL;
    return dlk_etcd_call_new(et, DLK_ETCD_REVOKE, dlk_etcd_request_of(&revoke.base), NULL,
                             NULL, now);
}

void dlk_etcd_session_end(dlk_etcd *et)
{
    int64_t now = dlk_clock_now();
    dlk_etcd_calls_part(&et->calls, farewell(et, now), et->base.backend.host->mutex, now);
    et->epoch++;
    et->phase = DLK_ETCD_CLOSED;
    et->lease = 0;
    dlk_session_stop(&et->base,
                     dlk_error_make(DLOCK_EUNAVAIL, "etcd: the client is closed"));
    drop_parked(et, now);
    et->calls.token = NULL;
    dlk_wipe_free(et->token);
    et->token = NULL;
}

void dlk_etcd_receive_all(dlk_etcd *et, int64_t now)
{
    dlk_etcd_call *call;
    while ((call = dlk_etcd_calls_take(&et->calls)))
        dlk_etcd_receive(et, call, now);
}

int64_t dlk_etcd_session_tick(dlk_etcd *et, int64_t now)
{
    if (et->stopped)
        return DLK_NEVER;
    (void)dlk_link_tick(&et->calls.link, now);
    (void)dlk_etcd_calls_tick(&et->calls, now);
    dlk_etcd_receive_all(et, now); /* which may be the end of the link, … */
    if (et->phase == DLK_ETCD_UP && now >= et->keep_next && !et->keeping)
        dlk_etcd_prove(et, now);
    int64_t link =
        dlk_link_tick(&et->calls.link, now); /* … and when to begin again is new */
    int64_t calls = dlk_etcd_calls_tick(&et->calls, now);
    int64_t next = link < calls ? link : calls;
    if (et->phase == DLK_ETCD_UP && !et->keeping && et->keep_next < next)
        next = et->keep_next;
    return next;
}
