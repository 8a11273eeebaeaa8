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
#include "net/tls.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_PORT 2181u

/* What the libzookeeper has that we are built with. */
#ifdef DLK_ZOOKEEPER_HAS_TLS
#define HAS_TLS true
#else
#define HAS_TLS false
#endif
#ifdef DLK_ZOOKEEPER_HAS_SASL
#define HAS_SASL true
#else
#define HAS_SASL false
#endif

/* ---- names ---- */

static dlock_err fill_line(dlk_line *line, const dlk_key *key, dlock_error **err)
{
    const dlk_zk *zk = (const dlk_zk *)(const void *)line->session;
    dlk_zk_key *home = dlk_zk_key_of(line);
    dlk_list_init(&home->idle);
    for (int side = 0; side < (key->kind == DLOCK_WRITE ? 2 : 1); side++)
        if (!(home->plans[side] =
                  dlk_zk_plan_of(key->settings, key->kind, side == 1, err)))
            return DLOCK_ENOTSUP;
    home->permits = dlk_settings_int(key->settings, DLK_KEY_LOCK_PERMITS);
    home->strict = dlk_settings_int(key->settings, DLK_KEY_ZOOKEEPER_STRICT) != 0;
    if (key->kind == DLOCK_SEMAPHORE && home->permits == 0)
        return dlk_error_set(
            err, DLOCK_EINVAL,
            "zookeeper: a semaphore's size isn't kept on the server: set "
            "lock.permits, the same for all");
    home->path = dlk_zk_path_of(zk->chroot, dlk_zk_proper_name(key->name));
    if (!home->path)
        return dlk_error_nomem(err);
    if (key->kind == DLK_KIND_CONDITION) {
        home->parents[0] = dlk_zk_condition_path(zk, home->path);
        return home->parents[0] ? DLOCK_OK : dlk_error_nomem(err);
    }
    if (dlk_settings_int(key->settings, DLK_KEY_ZOOKEEPER_LAYOUT) == DLK_ZK_PATTERN)
        return dlk_zk_pattern_open(zk, key, home, err);
    for (int i = 0; i < home->plans[0]->steps; i++) {
        const char *below = home->plans[0]->step[i].below;
        if (asprintf(&home->parents[i], "%s%s", home->path, below ? below : "") < 0) {
            home->parents[i] = NULL;
            return dlk_error_nomem(err);
        }
    }
    return DLOCK_OK;
}

static dlock_err line_open(dlk_line *line, const dlk_key *key, dlock_error **err)
{
    dlk_zk_key *home = dlk_zk_key_of(line);
    dlock_err code = fill_line(line, key, err);
    home->hands_on = key->kind == DLOCK_MUTEX && dlk_zk_hands_on(key->settings);
    return code;
}

static bool line_hands_on(const dlk_line *line)
{
    return ((const dlk_zk_key *)(const void *)line)->hands_on;
}

static void line_close(dlk_line *line)
{
    dlk_zk_key *home = dlk_zk_key_of(line);
    for (int i = 0; i < DLK_ZK_STEPS; i++)
        free(home->parents[i]);
    dlk_zk_form_free(home->forms[0]);
    dlk_zk_form_free(home->forms[1]);
    free(home->beside);
    free(home->path);
}

static bool is_up(const dlk_session *session)
{
    return ((const dlk_zk *)(const void *)session)->phase == DLK_ZK_UP;
}

static const dlk_session_type zk_session = {
    .is_up = is_up,
    .hands_on = true,
    .line_hands_on = line_hands_on,
    .no_import =
        "zookeeper: only mutexes are handed on, and only where a node's name says "
        "whose it is, in a folder of the lock's own (not in zookeeper.layout=exclusive, "
        "and in a pattern only with {uuid}, and {name} above the last part)",
    .line_size = sizeof(dlk_zk_key),
    .line_open = line_open,
    .line_close = line_close,
    .line_watch = dlk_zk_line_watch,
    .place_size = sizeof(dlk_zk_place),
    .place_open = dlk_zk_place_open,
    .place_close = dlk_zk_place_close,
    .is_nowhere = dlk_zk_place_is_nowhere,
    .take = dlk_zk_place_take,
    .keep = dlk_zk_place_keep,
    .verify = dlk_zk_place_verify,
    .leave = dlk_zk_place_leave,
    .tidy = dlk_zk_place_tidy,
    .forget = dlk_zk_place_forget,
    .report_size = sizeof(dlk_zk_report),
    .report_open = dlk_zk_report_open,
    .report_close = dlk_zk_report_close,
};

/* ---- open, free ---- */

static void unheard(void *user)
{
    dlk_host *host = ((dlk_zk *)user)->base.backend.host;
    if (host->news)
        host->news(host);
}

static void zk_free(dlk_backend *backend)
{
    dlk_zk *zk = dlk_zk_of(backend);
    if (zk->look)
        dlk_zk_library.look->end(zk->look);
    dlk_tls_free(zk->tls);
    dlk_error_clear(&zk->unopened);
    if (zk->inbox)
        dlk_zk_inbox_abandon(zk->inbox, dlk_clock_after(dlk_clock_now(), zk->close_ms));
    dlk_session_clear(&zk->base);
    dlk_list *link;
    while ((link = dlk_list_take_first(&zk->litter)))
        free(DLK_LIST_ITEM(link, dlk_zk_litter, link));
    dlk_settings_free(zk->settings);
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

static bool is_tls(const dlk_uri *uri)
{
    return strcmp(uri->scheme, "zookeepers") == 0;
}

/* libzookeeper takes the files as a list. */
static dlock_err check_tls(const dlk_uri *uri, const dlk_settings *settings,
                           dlock_error **err)
{
    static const dlk_key_id files[] = {DLK_KEY_TLS_CA_FILE, DLK_KEY_TLS_CERT_FILE,
                                       DLK_KEY_TLS_KEY_FILE};
    if (!dlk_settings_text(settings, DLK_KEY_TLS_CERT_FILE)[0])
        return dlk_error_set(err, DLOCK_EINVAL,
                             "zookeeper: zookeepers:// needs a certificate of ours, "
                             "tls.cert_file: libzookeeper does no TLS without");
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
        if (strchr(dlk_settings_text(settings, files[i]), ','))
            return dlk_error_set(err, DLOCK_EINVAL,
                                 "zookeeper: %s: libzookeeper takes no path with a comma "
                                 "in it",
                                 dlk_settings_spec(files[i])->name);
    for (size_t i = 0; i < uri->host_count; i++)
        if (!uri->hosts[i].port)
            return dlk_error_set(err, DLOCK_EINVAL,
                                 "zookeeper: zookeepers:// needs the port of %s, its "
                                 "secureClientPort: there is no usual one",
                                 uri->hosts[i].host);
    return DLOCK_OK;
}

static dlock_err check_no_tls(const dlk_settings *settings, dlock_error **err)
{
    for (dlk_key_id id = DLK_KEY_TLS_VERIFY; id <= DLK_KEY_TLS_MIN_VERSION; id++)
        if (dlk_settings_is_set(settings, id))
            return dlk_error_set(
                err, HAS_TLS ? DLOCK_EINVAL : DLOCK_ENOTSUP,
                HAS_TLS ? "zookeeper: %s is set, but zookeeper:// isn't encrypted: use "
                          "zookeepers://"
                        : "zookeeper: %s: libzookeeper, as Debian builds it, has neither "
                          "TLS nor SASL; put a TLS tunnel before it",
                dlk_settings_spec(id)->name);
    return DLOCK_OK;
}

static dlock_err check_sasl(const dlk_uri *uri, const dlk_settings *settings,
                            dlock_error **err)
{
    if (!HAS_SASL)
        return dlk_error_set(err, DLOCK_ENOTSUP,
                             "zookeeper: zookeeper.auth=sasl: this build's libzookeeper "
                             "has no SASL (no zookeeper_init_sasl), as Debian's");
    if (is_tls(uri))
        return dlk_error_set(err, DLOCK_ENOTSUP,
                             "zookeeper: zookeeper.auth=sasl: libzookeeper has SASL and "
                             "TLS, but not both on one connection");
    return dlk_settings_text(settings, DLK_KEY_AUTH_USERNAME)[0]
               ? DLOCK_OK
               : dlk_error_set(err, DLOCK_EINVAL,
                               "zookeeper: zookeeper.auth=sasl needs auth.username and a "
                               "password");
}

static dlock_err check_settings(const dlk_uri *uri, const dlk_settings *settings,
                                dlock_error **err)
{
    dlock_err code =
        is_tls(uri) ? check_tls(uri, settings, err) : check_no_tls(settings, err);
    if (code == DLOCK_OK && dlk_settings_int(settings, DLK_KEY_ZOOKEEPER_AUTH) == 1)
        code = check_sasl(uri, settings, err);
    if (code != DLOCK_OK)
        return code;
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
    dlock_err code = check_settings(uri, settings, err);
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
    zk->sasl = dlk_settings_int(settings, DLK_KEY_ZOOKEEPER_AUTH) == 1;
    code = is_tls(uri) ? dlk_tls_new(settings, &zk->tls, err) : DLOCK_OK;
    if (code != DLOCK_OK)
        return code;
    return zk->settings && zk->hosts && zk->chroot ? DLOCK_OK : dlk_error_nomem(err);
}

static dlock_err zk_open(dlk_host *host, const dlk_uri *uri, const dlk_settings *settings,
                         dlk_backend **ret, dlock_error **err)
{
    dlk_zk *zk = calloc(1, sizeof(*zk));
    if (!zk)
        return dlk_error_nomem(err);
    dlk_session_init(&zk->base, &dlk_zk_backend, &zk_session, host);
    dlk_list_init(&zk->litter);
    dlk_list_init(&zk->idle);
    zk->inbox = dlk_zk_inbox_new(unheard, zk);
    dlock_err code = zk->inbox ? set_up(zk, uri, settings, err) : dlk_error_nomem(err);
    if (code != DLOCK_OK) {
        zk_free(&zk->base.backend);
        return code;
    }
    *ret = &zk->base.backend;
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
}

static void zk_forked(dlk_backend *backend)
{
    dlk_zk *zk = dlk_zk_of(backend);
    if (zk->wire && dlk_zk_library.forked)
        dlk_zk_library.forked(zk->wire);
}

/* ---- time ---- */

static int64_t zk_tick(dlk_backend *backend, int64_t now)
{
    dlk_zk *zk = dlk_zk_of(backend);
    dlk_session_expire(&zk->base, now);
    int64_t next = dlk_zk_session_tick(zk, now);
    if (dlk_session_sweep(&zk->base, now))
        dlk_zk_litter_sweep(zk, now);
    return dlk_session_next(&zk->base, next);
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

static void adapt(const dlk_settings *settings, dlk_traits *traits)
{
    traits->hands_on = dlk_zk_hands_on(settings);
    traits->keeps = dlk_zk_keeps(settings);
}

static const char *const schemes[] = {"zookeeper",
#ifdef DLK_ZOOKEEPER_HAS_TLS
                                      "zookeepers",
#endif
                                      NULL};

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
            .hands_on = true,
            .no_keep = "who waits has to stand in a folder of the lock's own (not in "
                       "zookeeper.layout=exclusive, and in a pattern only with {name} "
                       "above the last part)",
            .no_keep_tokens = "the numbers are the servers', and there is none between "
                              "those of two neighbours",
            .margin_percent = 1,
            .margin_ms = 2,
            .kinds = {[DLOCK_MUTEX] = true,
                      [DLOCK_ELECTION] = true,
                      [DLOCK_SEMAPHORE] = true,
                      [DLOCK_READ] = true,
                      [DLOCK_WRITE] = true,
                      [DLK_KIND_CONDITION] = true},
        },
    .open = zk_open,
    .start = zk_start,
    .stop = zk_stop,
    .free = zk_free,
    .ask = dlk_session_ask,
    .tick = zk_tick,
    .arm = zk_arm,
    .process = zk_process,
    .key_open = dlk_session_key_open,
    .key_close = dlk_session_key_close,
    .adapt = adapt,
    .has_kind = has_kind,
    .watch = dlk_session_watch,
    .listen = dlk_zk_listen,
    .sleep = zk_sleep,
    .kick = zk_kick,
    .forked = zk_forked,
};
