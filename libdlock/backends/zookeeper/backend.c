/*
 * The backend for ZooKeeper: what the pieces in this folder make together.
 *
 * libzookeeper does the I/O, on two threads of its own. The driver sleeps on the inbox's bell and
 * digests what has come; who asks only queues a request in the library, which its thread sends.
 */
#include "backends/zookeeper/zookeeper.h"

#include "backends/zookeeper/inner.h"
#include "backends/zookeeper/paths.h"
#include "backends/zookeeper/reports.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_PORT 2181u

/* ---- open, free ---- */

static void unheard(void *user)
{
    dlk_host *host = ((dlk_zk *)user)->base.host;
    if (host->news)
        host->news(host);
}

static void zk_free(dlk_backend *backend)
{
    dlk_zk *zk = dlk_zk_of(backend);
    if (zk->inbox)
        dlk_zk_inbox_abandon(zk->inbox, dlk_clock_after(dlk_clock_now(), zk->close_ms));
    DLK_LIST_FOR (it, &zk->places)
        dlk_zk_place_free(DLK_LIST_ITEM(it, dlk_zk_place, all));
    dlk_zk_reports_free(zk);
    dlk_list *link;
    while ((link = dlk_list_take_first(&zk->litter)))
        free(DLK_LIST_ITEM(link, dlk_zk_litter, link));
    dlk_settings_free(zk->settings);
    dlk_error_clear(&zk->why_down);
    free(zk->hosts);
    free(zk->chroot);
    free(zk);
}

/* "h1:2181,[::1]:2182" as the library wants them. */
static char *join_hosts(const dlk_uri *uri)
{
    size_t size = 1;
    for (size_t i = 0; i < uri->host_count; i++)
        size += strlen(uri->hosts[i].host) + sizeof(",[]:65535");
    char *text = malloc(size);
    for (size_t i = 0, used = 0; text && i < uri->host_count; i++) {
        const dlk_uri_host *host = &uri->hosts[i];
        bool ipv6 = strchr(host->host, ':') != NULL;
        used += (size_t)snprintf(text + used, size - used, "%s%s%s%s:%u", i ? "," : "",
                                 ipv6 ? "[" : "", host->host, ipv6 ? "]" : "",
                                 host->port ? host->port : DEFAULT_PORT);
    }
    return text;
}

static dlock_err check_settings(const dlk_settings *settings, dlock_error **err)
{
    for (dlk_key_id id = DLK_KEY_TLS_VERIFY; id <= DLK_KEY_TLS_MIN_VERSION; id++)
        if (dlk_settings_is_set(settings, id))
            return dlk_error_set(
                err, DLOCK_ENOTSUP,
                "zookeeper: %s: libzookeeper, as Debian builds it, has neither "
                "TLS nor SASL; put a TLS tunnel before it",
                dlk_settings_spec(id)->name);
    if (dlk_settings_int(settings, DLK_KEY_ZOOKEEPER_ACL) == 1 &&
        !dlk_settings_text(settings, DLK_KEY_AUTH_USERNAME)[0])
        return dlk_error_set(
            err, DLOCK_EINVAL,
            "zookeeper: zookeeper.acl=creator needs a creator: auth.username and "
            "a password");
    return DLOCK_OK;
}

static dlock_err set_up(dlk_zk *zk, const dlk_uri *uri, const dlk_settings *settings,
                        dlock_error **err)
{
    const char *path = strcmp(uri->path, "/") == 0 ? "" : uri->path;
    dlock_err code = check_settings(settings, err);
    if (code == DLOCK_OK)
        code = dlk_zk_check_path(path, "the chroot", err);
    if (code != DLOCK_OK)
        return code;
    zk->settings = dlk_settings_copy(settings);
    zk->hosts = join_hosts(uri);
    zk->chroot = strdup(path);
    zk->connect_ns =
        dlk_settings_int(settings, DLK_KEY_CLIENT_CONNECT_MS) * DLK_NS_PER_MS;
    zk->close_ms = dlk_settings_int(settings, DLK_KEY_CLIENT_CLOSE_MS);
    zk->backoff.min_ms = dlk_settings_int(settings, DLK_KEY_CLIENT_BACKOFF_MIN_MS);
    zk->backoff.max_ms = dlk_settings_int(settings, DLK_KEY_CLIENT_BACKOFF_MAX_MS);
    zk->creator_acl = dlk_settings_int(settings, DLK_KEY_ZOOKEEPER_ACL) == 1;
    return zk->settings && zk->hosts && zk->chroot ? DLOCK_OK : dlk_error_nomem(err);
}

static dlock_err zk_open(dlk_host *host, const dlk_uri *uri, const dlk_settings *settings,
                         dlk_backend **ret, dlock_error **err)
{
    dlk_zk *zk = calloc(1, sizeof(*zk));
    if (!zk)
        return dlk_error_nomem(err);
    zk->base = (dlk_backend){.type = &dlk_zk_backend, .host = host};
    zk->sweep_at = DLK_NEVER;
    dlk_flight_init(&zk->flight, host);
    dlk_list_init(&zk->places);
    dlk_list_init(&zk->litter);
    dlk_list_init(&zk->reports);
    dlk_list_init(&zk->idle);
    zk->inbox = dlk_zk_inbox_new(unheard, zk);
    dlock_err code = zk->inbox ? set_up(zk, uri, settings, err) : dlk_error_nomem(err);
    if (code != DLOCK_OK) {
        zk_free(&zk->base);
        return code;
    }
    *ret = &zk->base;
    return DLOCK_OK;
}

/* ---- start, stop, fork ---- */

static void zk_start(dlk_backend *backend, int64_t now)
{
    dlk_zk_session_begin(dlk_zk_of(backend), now);
}

static void zk_stop(dlk_backend *backend)
{
    dlk_zk *zk = dlk_zk_of(backend);
    zk->stopped = true;
    dlk_zk_session_end(zk);
    dlk_zk_reports_stop(zk);
    dlk_flight_answer_all(&zk->flight, DLK_UNKNOWN);
}

static void zk_forked(dlk_backend *backend)
{
    dlk_zk *zk = dlk_zk_of(backend);
    if (zk->wire && dlk_zk_library.forked)
        dlk_zk_library.forked(zk->wire);
}

/* ---- names ---- */

static dlock_err key_fill(const dlk_zk *zk, dlk_key *key, dlk_zk_key *data,
                          dlock_error **err)
{
    for (int side = 0; side < (key->kind == DLOCK_WRITE ? 2 : 1); side++)
        if (!(data->plans[side] =
                  dlk_zk_plan_of(key->settings, key->kind, side == 1, err)))
            return DLOCK_ENOTSUP;
    data->permits = dlk_settings_int(key->settings, DLK_KEY_LOCK_PERMITS);
    data->strict = dlk_settings_int(key->settings, DLK_KEY_ZOOKEEPER_STRICT) != 0;
    if (key->kind == DLOCK_SEMAPHORE && data->permits == 0)
        return dlk_error_set(
            err, DLOCK_EINVAL,
            "zookeeper: a semaphore's size isn't kept on the server: set "
            "lock.permits, the same for all");
    if (key->kind == DLOCK_SEMAPHORE &&
        dlk_settings_int(key->settings, DLK_KEY_LOCK_TAKE) != 1)
        return dlk_error_set(err, DLOCK_ENOTSUP,
                             "zookeeper: Curator's semaphore gives one lease at a time: "
                             "lock.take must be 1");
    dlock_err code = dlk_zk_path_of(zk->chroot, key->name, key->size, &data->base, err);
    if (code == DLOCK_OK &&
        dlk_settings_int(key->settings, DLK_KEY_ZOOKEEPER_LAYOUT) == DLK_ZK_PATTERN)
        return dlk_zk_pattern_open(zk, key, data, err);
    for (int i = 0; code == DLOCK_OK && i < data->plans[0]->steps; i++) {
        const char *below = data->plans[0]->step[i].below;
        if (asprintf(&data->parents[i], "%s%s", data->base, below ? below : "") < 0) {
            data->parents[i] = NULL;
            code = dlk_error_nomem(err);
        }
    }
    return code;
}

void dlk_zk_key_unref(dlk_zk_key *home)
{
    if (--home->refs > 0)
        return;
    for (int i = 0; i < DLK_ZK_STEPS; i++)
        free(home->parents[i]);
    dlk_zk_form_free(home->forms[0]);
    dlk_zk_form_free(home->forms[1]);
    free(home->beside);
    free(home->base);
    free(home);
}

static dlock_err key_open(dlk_backend *backend, dlk_key *key, dlock_error **err)
{
    dlk_zk_key *data = calloc(1, sizeof(*data));
    if (!data)
        return dlk_error_nomem(err);
    data->refs = 1;
    data->key = key;
    data->kind = key->kind;
    dlk_list_init(&data->places);
    dlk_list_init(&data->idle);
    dlock_err code = key_fill(dlk_zk_of(backend), key, data, err);
    if (code != DLOCK_OK) {
        dlk_zk_key_unref(data);
        return code;
    }
    key->data = data;
    key->queues = true;
    key->tells_all = true;
    return DLOCK_OK;
}

static void key_close(dlk_backend *backend, dlk_key *key)
{
    dlk_zk_key *data = key->data;
    key->data = NULL;
    dlk_zk_key_orphan(dlk_zk_of(backend), data);
    data->key = NULL;
    dlk_list_remove(&data->idle);
    dlk_zk_key_unref(data);
}

static void zk_watch(dlk_backend *backend, dlk_key *key, bool on, int64_t now)
{
    dlk_zk_idle_watch(dlk_zk_of(backend), dlk_zk_key_of(key), on);
    (void)now;
}

/* ---- asking ---- */

static void dispatch(dlk_zk *zk, dlk_ask *ask, int64_t now)
{
    switch (ask->verb) {
    case DLK_ACQUIRE:
        dlk_zk_acquire(zk, ask, now);
        return;
    case DLK_RELEASE:
        dlk_zk_release(zk, ask, now);
        return;
    case DLK_RENEW:
        dlk_zk_renew(zk, ask, now);
        return;
    case DLK_VERIFY:
        dlk_zk_verify(zk, ask, now);
        return;
    case DLK_BREAK:
    case DLK_REVOKE:
    case DLK_INSPECT:
    case DLK_LIST:
    case DLK_DOCTOR:
        dlk_zk_report_begin(zk, ask, now);
        return;
    case DLK_IMPORT:
        dlk_flight_refuse(&zk->flight, ask,
                          dlk_error_make(DLOCK_ENOTSUP,
                                         "zookeeper: a lock's node goes with its "
                                         "session: it can't be handed on"));
        return;
    }
}

static void zk_ask(dlk_backend *backend, dlk_ask *ask, int64_t now)
{
    dlk_zk *zk = dlk_zk_of(backend);
    dlk_ask *outer = dlk_flight_begin(&zk->flight, ask);
    if (zk->phase == DLK_ZK_UP)
        dispatch(zk, ask, now);
    else
        dlk_flight_not_sent(ask, zk->why_down);
    dlk_flight_end(&zk->flight, outer);
}

/* ---- time ---- */

/* Whoever asked has its answer; what was asked goes on. */
static void give_up(dlk_backend *backend, dlk_ask *ask)
{
    dlk_zk *zk = dlk_zk_of(backend);
    if (ask->verb == DLK_BREAK || ask->verb == DLK_REVOKE || ask->verb == DLK_INSPECT ||
        ask->verb == DLK_LIST || ask->verb == DLK_DOCTOR) {
        dlk_zk_report_drop(zk, ask);
    } else {
        dlk_zk_place *place = dlk_zk_place_find(ask->key, ask->number);
        dlk_ask **places[] = {&place->take, &place->give, &place->keep, &place->verify};
        for (int i = 0; i < 4; i++)
            if (*places[i] == ask)
                *places[i] = NULL;
    }
    dlk_flight_answer(&zk->flight, ask, DLK_UNKNOWN);
}

static int64_t zk_tick(dlk_backend *backend, int64_t now)
{
    dlk_zk *zk = dlk_zk_of(backend);
    dlk_flight_expire(&zk->flight, now, backend, give_up);
    int64_t next = dlk_zk_session_tick(zk, now);
    if (zk->phase == DLK_ZK_UP && now >= zk->sweep_at) {
        zk->sweep_at = DLK_NEVER;
        dlk_zk_places_sweep(zk, now);
    }
    if (zk->phase == DLK_ZK_UP && zk->sweep_at < next)
        next = zk->sweep_at;
    return zk->flight.deadline < next ? zk->flight.deadline : next;
}

/* ---- the driver's steps ---- */

static void zk_arm(dlk_backend *backend, dlk_polls *polls)
{
    dlk_zk *zk = dlk_zk_of(backend);
    (void)polls;
    zk->armed = zk->seen;
}

/* The bell is as it was before we last processed, under the mutex: nothing since then is slept over,
 * and no kick that the count of the host's shows is older. */
static void zk_sleep(dlk_backend *backend, int64_t until, uint32_t seen)
{
    (void)seen;
    dlk_zk_inbox *inbox = dlk_zk_of(backend)->inbox;
    uint32_t armed = dlk_zk_of(backend)->armed;
    atomic_store(&inbox->asleep, true);
    if (atomic_load(&inbox->bell) == armed)
        dlk_futex_wait(&inbox->bell, armed, until, false);
    atomic_store(&inbox->asleep, false);
}

static void note_proof(dlk_zk *zk, const dlk_zk_call *call)
{
    if (call->by_write && dlk_zk_is_leaders(call->end) && !dlk_zk_stale(zk, call) &&
        call->sent_at > zk->proof)
        zk->proof = call->sent_at;
}

static void zk_process(dlk_backend *backend, int64_t now)
{
    dlk_zk *zk = dlk_zk_of(backend);
    dlk_list items, *link;
    dlk_list_init(&items);
    zk->seen =
        atomic_load(&zk->inbox->bell); /* before the look: what comes later rings anew */
    dlk_zk_inbox_take(zk->inbox, &items);
    while ((link = dlk_list_take_first(&items))) {
        dlk_zk_item *item = DLK_LIST_ITEM(link, dlk_zk_item, link);
        if (item->news == DLK_ZK_ANSWER) {
            dlk_zk_call *call = (dlk_zk_call *)item;
            note_proof(zk, call);
            call->done(call, now);
        } else {
            dlk_zk_session_news(zk, item, now);
        }
        dlk_zk_item_free(item);
        free(item);
    }
}

static void zk_kick(dlk_backend *backend)
{
    dlk_zk_inbox_ring(dlk_zk_of(backend)->inbox);
}

static bool has_kind(const dlk_settings *settings, dlock_kind kind)
{
    return dlk_zk_plan_of(settings, kind == DLOCK_READ ? DLOCK_WRITE : kind,
                          kind == DLOCK_READ, NULL) != NULL;
}

static const char *const schemes[] = {"zookeeper", NULL};

const dlk_backend_type dlk_zk_backend = {
    .name = "zookeeper",
    .schemes = schemes,
    .traits =
        {
            .layout_key = DLK_KEY_ZOOKEEPER_LAYOUT,
            .class = DLK_REQUIRE_CORRECTNESS,
            .session = true,
            .queues = true,
            .fair = true,
            .tokens = true,
            .margin_percent = 1,
            .margin_ms = 2,
            .kinds = {[DLOCK_MUTEX] = true,
                      [DLOCK_ELECTION] = true,
                      [DLOCK_SEMAPHORE] = true,
                      [DLOCK_READ] = true,
                      [DLOCK_WRITE] = true},
        },
    .open = zk_open,
    .start = zk_start,
    .stop = zk_stop,
    .free = zk_free,
    .ask = zk_ask,
    .tick = zk_tick,
    .arm = zk_arm,
    .process = zk_process,
    .key_open = key_open,
    .key_close = key_close,
    .has_kind = has_kind,
    .watch = zk_watch,
    .listen = dlk_zk_listen,
    .sleep = zk_sleep,
    .kick = zk_kick,
    .forked = zk_forked,
};
