/*
 * The session: opening it, greeting whoever answers, and knowing how long it surely lives.
 *
 * The library never says that a session is over while it is disconnected, and its pings can't be
 * seen. So we go by what the leader itself has answered: a write or a sync that was sent at t
 * proves that the session lives until t plus the negotiated time-out. A read proves less: a
 * follower that is cut off from its leader goes on answering it.
 */
#include "backends/zookeeper/inner.h"

#include "backends/zookeeper/reports.h"
#include "util/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A proof so old, in parts of the time-out, is renewed before something relies on it. */
#define PROOF_PART 6
/* While there is something to lose, so often in a time-out. */
#define KEEP_PART 3
/* So often we look whether the servers refuse us by SASL. */
#define DENIED_NS (50 * DLK_NS_PER_MS)

/* ---- sending ---- */

static bool by_leader(dlk_zk_verb verb)
{
    return verb == DLK_ZK_CREATE || verb == DLK_ZK_DELETE || verb == DLK_ZK_MOVE ||
           verb == DLK_ZK_SET || verb == DLK_ZK_CHECK || verb == DLK_ZK_SYNC;
}

static bool send(dlk_zk *zk, const dlk_zk_request *request, const dlk_zk_call *form,
                 int flags, int64_t now)
{
    if (!zk->wire || zk->phase < DLK_ZK_GREETING)
        return false;
    dlk_zk_call *call = malloc(sizeof(*call));
    if (!call)
        return false;
    *call = *form;
    call->item.news = DLK_ZK_ANSWER;
    call->sent_at = now;
    call->quiet = (flags & DLK_ZK_QUIET) != 0;
    call->asked = (flags & DLK_ZK_ASKED) != 0;
    call->by_write = by_leader(request->verb);
    dlk_list_init(&call->item.link);
    dlk_list_init(&call->sent);
    if (!dlk_zk_library.send(zk->wire, request, call)) {
        free(call);
        return false;
    }
    zk->base.backend.host->commands++;
    return true;
}

bool dlk_zk_send_then(dlk_zk *zk, const dlk_zk_request *request, dlk_zk_done *done,
                      dlk_zk_done *then, void *owner, void *extra, int flags, int64_t now)
{
    return send(
        zk, request,
        &(dlk_zk_call){.done = done, .then = then, .owner = owner, .extra = extra}, flags,
        now);
}

bool dlk_zk_send(dlk_zk *zk, const dlk_zk_request *request, dlk_zk_done *done,
                 void *owner, void *extra, int flags, int64_t now)
{
    return dlk_zk_send_then(zk, request, done, NULL, owner, extra, flags, now);
}

static void on_place_answer(dlk_zk_call *call, int64_t now)
{
    dlk_zk_place *place = call->owner;
    if (!dlk_zk_stale(place->zk, call))
        call->then(call, now);
    place->base.calls--;
    dlk_place_settle(&place->base);
}

bool dlk_zk_place_send(dlk_zk_place *place, const dlk_zk_request *request,
                       dlk_zk_done *then, void *extra, int flags, int64_t now)
{
    if (place->base.take || place->base.give || place->base.keep || place->base.verify)
        flags |= DLK_ZK_ASKED; /* the engine drives for those */
    if (!dlk_zk_send_then(place->zk, request, on_place_answer, then, place, extra, flags,
                          now))
        return false;
    place->base.calls++;
    return true;
}

/* ---- up and down ---- */

static void end_look(dlk_zk *zk)
{
    if (zk->look)
        dlk_zk_library.look->end(zk->look);
    zk->look = NULL;
    zk->look_at = DLK_NEVER;
}

static void close_wire(dlk_zk *zk, bool stay)
{
    end_look(zk);
    dlk_error_clear(&zk->unopened);
    if (zk->wire)
        dlk_zk_library.close(zk->wire, stay);
    zk->wire = NULL;
    zk->epoch++; /* what comes by it from now on is stale */
    zk->phase = DLK_ZK_CLOSED;
    zk->greetings = 0;
    zk->proving = false;
}

/* The session is over; another one is opened after a while. */
static void begin_anew(dlk_zk *zk, dlock_error *why, int64_t now)
{
    close_wire(zk, false);
    zk->session = zk->proof = 0;
    zk->retry_at = now + dlk_backoff_next(&zk->backoff, zk->base.backend.host->rand);
    dlk_places_forget(&zk->base, why, now);
    dlk_zk_litter_forget(zk);
    dlk_session_down(&zk->base, why);
}

/* "user:password"; *ret NULL where there is no user. */
static dlock_err read_auth(const dlk_zk *zk, char **ret, dlock_error **err)
{
    const char *user = dlk_settings_text(zk->settings, DLK_KEY_AUTH_USERNAME);
    char *password = NULL;
    *ret = NULL;
    if (!user[0])
        return DLOCK_OK;
    dlock_err code =
        dlk_settings_secret(zk->settings, DLK_KEY_AUTH_PASSWORD, &password, err);
    if (code != DLOCK_OK)
        return code;
    size_t size = strlen(user) + (password ? strlen(password) : 0) + 2;
    *ret = malloc(size);
    if (*ret)
        (void)snprintf(*ret, size, "%s:%s", user, password ? password : "");
    dlk_secret_free(password);
    return *ret ? DLOCK_OK : dlk_error_nomem(err);
}

static void open_wire(dlk_zk *zk, int64_t now)
{
    char *auth = NULL;
    dlock_error *why = NULL;
    zk->phase = DLK_ZK_OPENING;
    zk->connect_until = now + zk->connect_ns;
    /* Whoever answers at all has done so by then. */
    zk->look_at =
        zk->was_up || !dlk_zk_library.look ? DLK_NEVER : now + zk->connect_ns / 2;
    if (read_auth(zk, &auth, &why) == DLOCK_OK) {
        const dlk_zk_setup setup = {
            .hosts = zk->hosts,
            .timeout_ms = (int)dlk_settings_int(zk->settings, DLK_KEY_LOCK_TTL_MS),
            .silent_ms = dlk_settings_int(zk->settings, DLK_KEY_CLIENT_TIMEOUT_MS),
            .auth = auth,
            .creator_acl = zk->creator_acl,
            .tls = zk->tls != NULL,
            .sasl = zk->sasl,
            .settings = zk->settings,
            .epoch = zk->epoch,
        };
        zk->wire = dlk_zk_library.open(&setup, zk->inbox, &why);
        if (!zk->wire && !why)
            dlk_error_set(&why, DLOCK_EUNAVAIL,
                          "zookeeper: no thread or memory to connect with");
    }
    dlk_wipe_free(auth);
    if (why)
        begin_anew(zk, why, now);
}

/* ---- greeting ---- */

static void greeted(dlk_zk *zk, int64_t now)
{
    zk->phase = DLK_ZK_UP;
    zk->was_up = true;
    end_look(zk);
    dlk_backoff_reset(&zk->backoff);
    dlk_session_up(&zk->base, now);
}

static void on_greeting(dlk_zk_call *call, int64_t now)
{
    dlk_zk *zk = call->owner;
    if (dlk_zk_stale(zk, call) || zk->phase != DLK_ZK_GREETING)
        return;
    if (call->end == DLK_ZK_CUT || call->end == DLK_ZK_GONE)
        return; /* the library tells what has become of the connection */
    if (call->end == DLK_ZK_NO_NODE) {
        begin_anew(zk,
                   dlk_error_make(
                       DLOCK_EINVAL,
                       "zookeeper: there is no %s on the server: make it, or leave the "
                       "chroot out of the URI",
                       zk->chroot),
                   now);
        return;
    }
    if (call->end != DLK_ZK_OK) {
        begin_anew(
            zk, dlk_zk_error(zk, call, "look at", zk->chroot[0] ? zk->chroot : "/"), now);
        return;
    }
    if (--zk->greetings == 0)
        greeted(zk, now);
}

static void greet(dlk_zk *zk, int64_t now)
{
    const char *root = zk->chroot[0] ? zk->chroot : "/";
    const dlk_zk_request sync = {.verb = DLK_ZK_SYNC, .path = root};
    const dlk_zk_request look = {.verb = DLK_ZK_EXISTS, .path = root};
    zk->phase = DLK_ZK_GREETING;
    zk->greetings = 2;
    if (!dlk_zk_send(zk, &sync, on_greeting, zk, NULL, DLK_ZK_QUIET, now) ||
        !dlk_zk_send(zk, &look, on_greeting, zk, NULL, 0, now))
        begin_anew(zk, dlk_error_make(DLOCK_EUNAVAIL, "zookeeper: nothing could be sent"),
                   now);
}

/* ---- what the library tells ---- */

/* By our own clock; never, while nothing was proved. */
static int64_t over_at(const dlk_zk *zk)
{
    return zk->proof > 0 ? zk->proof + zk->timeout_ms * DLK_NS_PER_MS : DLK_NEVER;
}

static void connected(dlk_zk *zk, const dlk_zk_item *item, int64_t now)
{
    /* The servers have kept it for longer, as after an election. All holds are lost by now, and
     * what was to be given back is forgotten: so it has to go, and its nodes with it. */
    if (zk->session == item->session && now >= over_at(zk) &&
        !dlk_list_empty(&zk->base.places)) {
        begin_anew(
            zk,
            dlk_error_make(DLOCK_EUNAVAIL,
                           "zookeeper: no server of %s has answered for as long as "
                           "the session lasts",
                           zk->hosts),
            now);
        return;
    }
    if (item->timeout_ms < 1) {
        begin_anew(zk,
                   dlk_error_make(DLOCK_EPROTO,
                                  "zookeeper: %s: a session of %d ms is none", zk->hosts,
                                  item->timeout_ms),
                   now);
        return;
    }
    if (zk->session != item->session)
        zk->base.backend.host->log(zk->base.backend.host, DLOCK_LOG_INFO,
                                   "zookeeper: session 0x%" PRIx64 " of %d ms",
                                   item->session, item->timeout_ms);
    zk->session = item->session;
    zk->timeout_ms = item->timeout_ms;
    greet(zk, now);
}

static void disconnected(dlk_zk *zk, int64_t now)
{
    if (zk->phase == DLK_ZK_OPENING)
        return;
    zk->phase = DLK_ZK_OPENING;
    zk->greetings = 0;
    zk->proving = false;
    zk->connect_until = now + zk->connect_ns;
    dlk_session_down(&zk->base, dlk_error_make(DLOCK_EUNAVAIL,
                                               "zookeeper: the connection to %s was lost",
                                               zk->hosts));
}

/* The library goes no further, and doesn't say why; a look does. Takes @p why over. */
static void not_opened(dlk_zk *zk, dlock_error *why, int64_t now)
{
    const dlk_zk_glance_type *type = dlk_zk_library.look;
    close_wire(zk, false);
    if (type && !zk->was_up)
        zk->look = type->begin(zk, zk->connect_until, now);
    if (!zk->look) {
        begin_anew(zk, why, now);
        return;
    }
    zk->unopened = why;
    zk->retry_at = now;
}

/* Tells it, when the look is over. Returns when to go on. */
static int64_t tell_unopened(dlk_zk *zk, int64_t now)
{
    int64_t next = dlk_zk_library.look->on(zk->look, now);
    if (next < DLK_NEVER && now < zk->connect_until)
        return next;
    dlock_error *why = zk->unopened;
    zk->unopened = NULL;
    begin_anew(zk, why, now);
    return zk->retry_at;
}

static void refused(dlk_zk *zk, int64_t now)
{
    begin_anew(
        zk,
        dlk_error_make(DLOCK_EACCES,
                       "zookeeper: the server refuses auth.username and its password"),
        now);
}

void dlk_zk_session_news(dlk_zk *zk, const dlk_zk_item *item, int64_t now)
{
    if (item->epoch != zk->epoch || !zk->wire)
        return;
    switch (item->news) {
    case DLK_ZK_CONNECTED:
        connected(zk, item, now);
        return;
    case DLK_ZK_DISCONNECTED:
        disconnected(zk, now);
        return;
    case DLK_ZK_EXPIRED:
        begin_anew(zk,
                   dlk_error_make(DLOCK_EUNAVAIL, "zookeeper: the session has expired"),
                   now);
        return;
    case DLK_ZK_AUTH_FAILED:
        if (zk->phase == DLK_ZK_OPENING && !zk->sasl) {
            /* So the library calls a connection that ended before who we are was heard. */
            not_opened(zk,
                       dlk_error_make(DLOCK_EUNAVAIL,
                                      "zookeeper: no server of %s answers", zk->hosts),
                       now);
            return;
        }
        refused(zk, now);
        return;
    case DLK_ZK_NOT_OPENED:
        not_opened(zk,
                   dlk_error_make(DLOCK_EUNAVAIL, "zookeeper: %s can't be opened%s%s",
                                  zk->hosts, item->text && item->text[0] ? ": " : "",
                                  item->text ? item->text : ""),
                   now);
        return;
    case DLK_ZK_CHANGED:
        dlk_zk_places_changed(zk, item->text, now);
        return;
    case DLK_ZK_CHILD_CHANGED:
        dlk_zk_places_changed(zk, item->text, now);
        dlk_zk_idle_changed(zk, item->text);
        return;
    case DLK_ZK_ANSWER:
        return;
    }
}

/* ---- proof ---- */

static void on_proof(dlk_zk_call *call, int64_t now)
{
    (void)
        now; /* that it came is all: whoever takes it from the inbox has noted the proof */
    dlk_zk *zk = call->owner;
    if (!dlk_zk_stale(zk, call))
        zk->proving = false;
}

static void ask_for_proof(dlk_zk *zk, int flags, int64_t now)
{
    const dlk_zk_request sync = {.verb = DLK_ZK_SYNC,
                                 .path = zk->chroot[0] ? zk->chroot : "/"};
    if (!zk->proving)
        zk->proving = dlk_zk_send(zk, &sync, on_proof, zk, NULL, flags, now);
}

bool dlk_zk_prove(dlk_zk *zk, int64_t now)
{
    if (now < zk->proof + zk->timeout_ms * DLK_NS_PER_MS / PROOF_PART)
        return true;
    ask_for_proof(zk, DLK_ZK_QUIET, now);
    return false;
}

/* While we have a place anywhere the proof is kept fresh, or a wait of an hour would look like a
 * session that is over as soon as the connection is lost. Returns when to look again. */
static int64_t keep_proof(dlk_zk *zk, int64_t now)
{
    int64_t due = zk->proof + zk->timeout_ms * DLK_NS_PER_MS / KEEP_PART;
    if (zk->proving || dlk_list_empty(&zk->base.places))
        return DLK_NEVER; /* on_proof, or the next place's create, brings us back here */
    if (now < due)
        return due;
    ask_for_proof(zk, 0, now);
    return zk->proving ? DLK_NEVER : now + DLK_NS_PER_SEC;
}

/* ---- begin, end, time ---- */

void dlk_zk_session_begin(dlk_zk *zk, int64_t now)
{
    open_wire(zk, now);
}

void dlk_zk_session_end(dlk_zk *zk)
{
    /* What is left to a ticket goes with the session: that goes by itself then. */
    close_wire(zk, dlk_zk_holds_tickets(zk, dlk_clock_now()));
    dlk_session_stop(&zk->base,
                     dlk_error_make(DLOCK_EUNAVAIL, "zookeeper: the session is closed"));
    dlk_zk_litter_forget(zk);
}

/* Returns when to go on. */
static int64_t look(dlk_zk *zk, int64_t now)
{
    const dlk_zk_glance_type *type = dlk_zk_library.look;
    if (now < zk->look_at)
        return zk->look_at;
    if (!zk->look)
        zk->look = type->begin(zk, zk->connect_until, now);
    zk->look_at = zk->look ? type->on(zk->look, now) : DLK_NEVER;
    return zk->look_at;
}

int64_t dlk_zk_session_tick(dlk_zk *zk, int64_t now)
{
    if (zk->stopped)
        return DLK_NEVER;
    if (atomic_exchange(&zk->inbox->lost, false))
        begin_anew(zk, dlk_error_make(DLOCK_EUNAVAIL, "zookeeper: no memory for news"),
                   now);
    if (zk->unopened)
        return tell_unopened(zk, now);
    if (zk->phase == DLK_ZK_CLOSED) {
        if (now >= zk->retry_at)
            open_wire(zk, now);
        return zk->phase == DLK_ZK_CLOSED ? zk->retry_at : zk->connect_until;
    }
    if (zk->phase == DLK_ZK_UP)
        return keep_proof(zk, now);
    bool asks = zk->sasl && zk->phase == DLK_ZK_OPENING && dlk_zk_library.denied;
    if (asks && dlk_zk_library.denied(zk->wire)) {
        refused(zk, now);
        return zk->retry_at;
    }
    /* Nobody relies on the session any more. The library would go on with it for ever: though the
     * servers have been set up anew and refuse it, or hear us, keep it alive, and aren't heard. */
    int64_t over = over_at(zk), look_at = look(zk, now);
    if (zk->phase == DLK_ZK_OPENING && now >= over) {
        begin_anew(
            zk,
            dlk_error_make(DLOCK_EUNAVAIL,
                           "zookeeper: no server of %s has answered for as long as the "
                           "session lasts",
                           zk->hosts),
            now);
        return zk->retry_at;
    }
    if (now >= zk->connect_until) {
        /* The library goes on trying; whoever waits for the link should hear of it. */
        zk->connect_until = now + zk->connect_ns;
        dlk_session_down(&zk->base,
                         dlk_error_make(DLOCK_EUNAVAIL,
                                        "zookeeper: no server of %s answers", zk->hosts));
    }
    int64_t next = zk->phase == DLK_ZK_OPENING && over < zk->connect_until
                       ? over
                       : zk->connect_until;
    if (asks && now + DENIED_NS < next)
        next = now + DENIED_NS;
    return look_at < next ? look_at : next;
}
