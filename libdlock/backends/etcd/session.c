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
        et->calls--;
        dlk_etcd_call_free(call);
    }
}

static void leave_member(dlk_etcd *et)
{
    et->epoch++;
    et->phase = DLK_ETCD_CLOSED;
    et->keeping = et->signing_on = false;
    dlk_lookup_drop(et->lookup);
    et->lookup = NULL;
    dlk_etcd_wire_go(&et->wire, NULL);
}

/* This member is of no use now: the next one, at once until all have been tried. */
static void fail(dlk_etcd *et, dlock_error *why, int64_t now)
{
    bool was_up = et->phase == DLK_ETCD_UP;
    leave_member(et);
    et->host = (et->host + 1) % et->host_count;
    et->tried = was_up ? 0 : et->tried + 1;
    et->retry_at = now;
    bool others = et->tried > 0 && et->tried < et->host_count;
    if (et->tried >= et->host_count) {
        et->tried = 0;
        et->retry_at = now + dlk_backoff_next(&et->backoff, et->base.backend.host->rand);
    }
    if (others &&
        why->code == DLOCK_EUNAVAIL) { /* who waits to be told waits for the last */
        dlk_error_clear(&et->base.why_down);
        et->base.why_down = why;
    } else {
        dlk_session_down(&et->base, why);
    }
    drop_parked(et, now);
    dlk_etcd_places_proved(et, now); /* who waits for that waits in vain */
}

static void give_up_on(dlk_etcd *et, const dlk_etcd_call *call, const char *what,
                       int64_t now)
{
    fail(et, dlk_etcd_error(et, call, what), now);
}

/* ---- who we are ---- */

static void greet(dlk_etcd *et, int64_t now);

static void send_parked(dlk_etcd *et)
{
    dlk_list parked, *link;
    dlk_list_init(&parked);
    dlk_list_splice(&parked, &et->parked);
    while ((link = dlk_list_take_first(&parked))) {
        dlk_etcd_call *call = DLK_LIST_ITEM(link, dlk_etcd_call, link);
        char *token = strdup(et->token);
        if (token) { /* without, the old one is refused again */
            free(call->token);
            call->token = token;
        }
        et->calls--; /* put_in counts it again */
        dlk_etcd_put_in(et, call);
    }
}

static void forget_token(dlk_etcd *et)
{
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
    forget_token(et);
    et->token = strdup(dlk_json_text(call->json, "token"));
    if (!et->token) {
        fail(et, dlk_error_make(DLOCK_ENOMEM, "out of memory"), now);
        return;
    }
    if (et->phase == DLK_ETCD_GREETING)
        greet(et, now);
    send_parked(et);
}

static void say_json(dlk_say *say, const char *text)
{
    json_t *string = json_string(text);
    char *quoted = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
    if (quoted)
        dlk_say_text(say, "%s", quoted);
    else
        say->failed = true; /* no memory, or no UTF-8 */
    dlk_wipe_free(quoted);
    dlk_json_unref(string);
}

static void sign_on(dlk_etcd *et, int64_t now)
{
    char *password = NULL;
    dlock_error *why = NULL;
    dlk_say say = {0};
    if (et->signing_on)
        return;
    dlock_err code =
        dlk_settings_secret(et->settings, DLK_KEY_AUTH_PASSWORD, &password, &why);
    if (code != DLOCK_OK) {
        fail(et, why, now);
        return;
    }
    forget_token(et);
    dlk_say_text(&say, "{\"name\":");
    say_json(&say, et->user);
    dlk_say_text(&say, ",\"password\":");
    say_json(&say, password ? password : "");
    dlk_say_text(&say, "}");
    dlk_secret_free(password);
    et->signing_on = dlk_etcd_send(et, "/v3/auth/authenticate", dlk_say_end(&say),
                                   on_signed_on, et, now) != NULL;
    if (!et->signing_on)
        fail(et,
             dlk_error_make(DLOCK_EINVAL,
                            "etcd: auth.username and its password must be UTF-8"),
             now);
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
    dlk_backoff_reset(&et->backoff);
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
    int64_t lease = dlk_json_int(call->json, "ID"), ttl = dlk_json_int(call->json, "TTL");
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

char *dlk_etcd_say_lease(const dlk_etcd *et)
{
    dlk_say say = {0};
    int64_t ttl = (dlk_settings_int(et->settings, DLK_KEY_LOCK_TTL_MS) + 999) / 1000;
    dlk_say_text(&say, "{\"TTL\":\"%" PRId64 "\"}", ttl);
    return dlk_say_end(&say);
}

static void ask_for_lease(dlk_etcd *et, int64_t now)
{
    if (!dlk_etcd_send(et, "/v3/lease/grant", dlk_etcd_say_lease(et), on_granted, et,
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
    int64_t ttl = dlk_json_int(json_object_get(call->json, "result"), "TTL");
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
    dlk_say say = {0};
    if (et->keeping || et->lease == 0) /* it was lost a moment ago */
        return;
    dlk_say_text(&say, "{\"ID\":\"%" PRId64 "\"}", et->lease);
    dlk_etcd_call *call = dlk_etcd_send(et, "/v3/lease/keepalive", dlk_say_end(&say),
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

static void dial(dlk_etcd *et, const dlk_addresses *found, int64_t now)
{
    dlock_error *why = NULL;
    dlk_etcd_way *way = dlk_etcd_way_to(et, found, &why);
    if (!way) {
        fail(et, why, now);
        return;
    }
    et->epoch++;
    dlk_etcd_wire_go(&et->wire, way);
    greet(et, now);
}

static void look_up(dlk_etcd *et, int64_t now)
{
    const dlk_uri_host *host = &et->hosts[et->host];
    dlk_addresses found;
    if (dlk_address_numeric(host->host, host->port, &found)) {
        dial(et, &found, now);
        return;
    }
    et->lookup = dlk_lookup_start(host->host, host->port);
    et->phase = DLK_ETCD_RESOLVING;
    et->resolve_until = now + et->connect_ms * DLK_NS_PER_MS;
    dlk_kick(et->base.backend.host->kicks); /* a driver may be polling without it */
    if (!et->lookup)
        fail(et,
             dlk_error_make(DLOCK_EUNAVAIL, "etcd: no thread to look up %s with",
                            host->host),
             now);
}

static void looked_up(dlk_etcd *et, int64_t now)
{
    dlk_addresses found;
    const char *why = "";
    bool there = dlk_lookup_result(et->lookup, &found, &why);
    dlk_lookup_drop(et->lookup);
    et->lookup = NULL;
    if (there)
        dial(et, &found, now);
    else
        fail(et,
             dlk_error_make(DLOCK_EUNAVAIL, "etcd: can't find %s: %s", dlk_etcd_host(et),
                            why),
             now);
}

/* ---- what comes ---- */

static bool park(dlk_etcd *et, dlk_etcd_call *call, int64_t now)
{
    if (call->end != DLK_ETCD_NO_TOKEN || call->again || call->done == on_signed_on)
        return false;
    call->again = true;
    dlk_json_unref(call->json);
    call->json = NULL;
    dlk_buf_clear(&call->answer);
    curl_slist_free_all(call->headers);
    call->headers = NULL;
    call->why[0] = '\0';
    call->begun = call->cut = false; /* that one was answered */
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
    et->watches--;
    if (call->dropped)
        return;
    bool refused = call->end != DLK_ETCD_OK && call->status >= 400;
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
    if (call->watch) {
        receive_watch(et, call, now);
        dlk_etcd_call_free(call);
        return;
    }
    if (park(et, call, now))
        return;
    if (call->end == DLK_ETCD_NO_TOKEN)
        forget_token(et); /* not even with a new one */
    bool cut = call->end == DLK_ETCD_CUT && call->epoch == et->epoch;
    dlock_error *why = cut ? dlk_etcd_error(et, call, NULL) : NULL;
    if (cut && et->phase >= DLK_ETCD_GREETING)
        fail(et, why, now);
    else
        dlk_error_clear(&why);
    call->done(call, now);
    et->calls--;
    dlk_etcd_call_free(call);
}

/* ---- begin, end, time ---- */

void dlk_etcd_session_begin(dlk_etcd *et, int64_t now)
{
    et->host = dlk_rand_next(et->base.backend.host->rand) % et->host_count;
    look_up(et, now);
}

static dlk_etcd_call *farewell(dlk_etcd *et)
{
    dlk_say say = {0};
    if (!et->lease || et->phase < DLK_ETCD_GREETING)
        return NULL;
    dlk_say_text(&say, "{\"ID\":\"%" PRId64 "\"}", et->lease);
    return dlk_etcd_call_new(et, "/v3/lease/revoke", dlk_say_end(&say), NULL, NULL,
                             dlk_clock_now());
}

void dlk_etcd_session_end(dlk_etcd *et)
{
    dlk_etcd_wire_part(&et->wire, farewell(et));
    et->epoch++;
    et->phase = DLK_ETCD_CLOSED;
    dlk_lookup_drop(et->lookup);
    et->lookup = NULL;
    et->lease = 0;
    dlk_session_stop(&et->base,
                     dlk_error_make(DLOCK_EUNAVAIL, "etcd: the client is closed"));
    drop_parked(et, dlk_clock_now());
    forget_token(et);
}

int64_t dlk_etcd_session_tick(dlk_etcd *et, int64_t now)
{
    if (et->stopped)
        return DLK_NEVER;
    if (et->phase == DLK_ETCD_CLOSED && now >= et->retry_at)
        look_up(et, now);
    if (et->phase == DLK_ETCD_RESOLVING && dlk_lookup_ended(et->lookup))
        looked_up(et, now);
    if (et->phase == DLK_ETCD_RESOLVING && now >= et->resolve_until)
        fail(et,
             dlk_error_make(DLOCK_EUNAVAIL, "etcd: %s: no name server answers",
                            dlk_etcd_host(et)),
             now);
    if (et->phase == DLK_ETCD_UP && now >= et->keep_next && !et->keeping)
        dlk_etcd_prove(et, now);
    switch (et->phase) {
    case DLK_ETCD_CLOSED:
        return et->retry_at;
    case DLK_ETCD_RESOLVING:
        return et->resolve_until;
    case DLK_ETCD_UP:
        return et->keeping ? DLK_NEVER : et->keep_next;
    case DLK_ETCD_GREETING:
        break;
    }
    return DLK_NEVER; /* the calls have time-outs of their own */
}
