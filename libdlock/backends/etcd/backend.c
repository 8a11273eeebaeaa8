/*
 * The backend for etcd: what the pieces in this folder make together.
 *
 * Calls are put into calls.c, which has the connection; those that are over come out one by one and are
 * digested here.
 */
#include "backends/etcd/etcd.h"

#include "backends/etcd/inner.h"
#include "backends/etcd/reports.h"
#include "contract/links.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_PORT 2379

/* ---- names ---- */

static dlock_err line_open(dlk_line *line, const dlk_key *key, dlock_error **err)
{
    dlk_etcd_key *home = dlk_etcd_key_of(line);
    home->et = (dlk_etcd *)(void *)line->session;
    const char *before = key->kind == DLK_KIND_CONDITION ? DLK_ETCD_CONDITIONS : "";
    if (asprintf(&home->name, "%s%s", before, key->name) < 0)
        home->name = NULL;
    home->size = strlen(before) + key->size;
    home->permits = dlk_settings_int(key->settings, DLK_KEY_LOCK_PERMITS);
    if (!home->name)
        return dlk_error_nomem(err);
    if (key->kind == DLOCK_SEMAPHORE && home->permits == 0)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "etcd: a semaphore's size isn't kept on the server: set "
                             "lock.permits, the same for all");
    return dlk_etcd_layout_open(home, err);
}

static void line_close(dlk_line *line)
{
    dlk_etcd_key *home = dlk_etcd_key_of(line);
    dlk_etcd_layout_free(home);
    free(home->name);
}

static bool is_up(const dlk_session *session)
{
    return ((const dlk_etcd *)(const void *)session)->phase == DLK_ETCD_UP;
}

static const dlk_session_type etcd_session = {
    .is_up = is_up,
    .hands_on = true,
    .no_import = "etcd: only mutexes are handed on",
    .line_size = sizeof(dlk_etcd_key),
    .line_open = line_open,
    .line_close = line_close,
    .line_watch = dlk_etcd_line_watch,
    .place_size = sizeof(dlk_etcd_place),
    .place_open = dlk_etcd_place_open,
    .place_close = dlk_etcd_place_close,
    .is_nowhere = dlk_etcd_place_is_nowhere,
    .stranger = dlk_etcd_place_stranger,
    .take = dlk_etcd_place_take,
    .keep = dlk_etcd_place_keep,
    .verify = dlk_etcd_place_verify,
    .leave = dlk_etcd_place_leave,
    .forget = dlk_etcd_place_forget,
    .report_size = sizeof(dlk_etcd_report),
    .report_open = dlk_etcd_report_open,
    .report_close = dlk_etcd_report_close,
};

/* ---- open, free ---- */

static void et_free(dlk_backend *backend)
{
    dlk_etcd *et = dlk_etcd_of(backend);
    dlk_etcd_calls_free(&et->calls);
    dlk_tls_free(et->links.tls);
    dlk_session_clear(&et->base);
    for (size_t i = 0; i < et->host_count; i++) {
        free(et->hosts[i].host);
        free(et->peers ? et->peers[i] : NULL);
    }
    free(et->peers);
    free(et->hosts);
    free(et->user);
    dlk_settings_free(et->settings);
    free(et);
}

static dlock_err check_settings(const dlk_uri *uri, const dlk_settings *settings,
                                bool tls, dlock_error **err)
{
    for (dlk_key_id id = DLK_KEY_TLS_CA_FILE; !tls && id <= DLK_KEY_TLS_MIN_VERSION; id++)
        if (dlk_settings_is_set(settings, id))
            return dlk_error_set(err, DLOCK_EINVAL,
                                 "etcd: %s is set, but %s:// isn't encrypted: use "
                                 "etcds://",
                                 dlk_settings_spec(id)->name, uri->scheme);
    if (uri->host_count > 0 && uri->path[0] && strcmp(uri->path, "/") != 0)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "etcd: a URI of etcd has no path; client.prefix goes before "
                             "all names");
    dlk_addresses socket;
    if (uri->host_count == 0 && !dlk_address_unix(uri->path, &socket))
        return dlk_error_set(
            err, DLOCK_EINVAL,
            "etcd+unix: the path of the socket must have 1 to 107 bytes");
    bool user = dlk_settings_text(settings, DLK_KEY_AUTH_USERNAME)[0] != '\0';
    bool password = dlk_settings_is_set(settings, DLK_KEY_AUTH_PASSWORD) ||
                    dlk_settings_is_set(settings, DLK_KEY_AUTH_PASSWORD_FILE) ||
                    dlk_settings_is_set(settings, DLK_KEY_AUTH_PASSWORD_ENV);
    if (password && !user)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "etcd: a password, but no auth.username to go with it");
    if (dlk_settings_is_set(settings, DLK_KEY_TLS_KEY_FILE) !=
        dlk_settings_is_set(settings, DLK_KEY_TLS_CERT_FILE))
        return dlk_error_set(err, DLOCK_EINVAL,
                             "etcd: tls.cert_file and tls.key_file go together");
    return DLOCK_OK;
}

static bool copy_path(dlk_etcd *et, const char *path)
{
    et->hosts = calloc(1, sizeof(*et->hosts));
    et->peers = calloc(1, sizeof(*et->peers));
    et->host_count = et->hosts ? 1 : 0;
    if (et->peers)
        et->peers[0] = strdup(path);
    return et->hosts && et->peers && et->peers[0];
}

static bool copy_hosts(dlk_etcd *et, const dlk_uri *uri)
{
    et->hosts = calloc(uri->host_count, sizeof(*et->hosts));
    et->peers = calloc(uri->host_count, sizeof(*et->peers));
    et->host_count = et->hosts ? uri->host_count : 0;
    for (size_t i = 0; i < et->host_count && et->peers; i++) {
        dlk_uri_host *host = &et->hosts[i];
        host->host = strdup(uri->hosts[i].host);
        host->port = uri->hosts[i].port ? uri->hosts[i].port : DEFAULT_PORT;
        et->peers[i] = dlk_address_text(uri->hosts[i].host, host->port);
        if (!host->host || !et->peers[i])
            return false;
    }
    return et->hosts && et->peers;
}

static bool set_up(dlk_etcd *et, const dlk_uri *uri, const dlk_settings *settings)
{
    const char *user = dlk_settings_text(settings, DLK_KEY_AUTH_USERNAME);
    et->user = user[0] ? strdup(user) : NULL;
    et->timeout_ms = dlk_settings_int(settings, DLK_KEY_CLIENT_TIMEOUT_MS);
    et->connect_ms = dlk_settings_int(settings, DLK_KEY_CLIENT_CONNECT_MS);
    bool copied = uri->host_count > 0 ? copy_hosts(et, uri) : copy_path(et, uri->path);
    return copied && (et->user || !user[0]);
}

static dlock_err init_links(dlk_etcd *et, const dlk_settings *settings, dlock_error **err)
{
    dlk_host *host = et->base.backend.host;
    et->links = (dlk_link_common){.service = "etcd",
                                  .plain = "etcd://",
                                  .hint = ": does it expect TLS (etcds://)?"};
    dlk_links_lend(&et->links, host);
    dlk_link_settings(&et->links, settings);
    dlk_etcd_calls_init(&et->calls, &et->links, &dlk_etcd_session_ops);
    /* Etcd doesn't look at what a user may do within a transaction in one (3.4). */
    et->calls.batches.never = dlk_settings_is_set(settings, DLK_KEY_AUTH_USERNAME) ||
                              dlk_settings_is_set(settings, DLK_KEY_TLS_CERT_FILE);
    et->calls.silence_ms = dlk_settings_int(settings, DLK_KEY_CLIENT_TIMEOUT_MS);
    dlock_err code = dlk_etcd_calls_need(err);
    if (code == DLOCK_OK && et->tls)
        code = dlk_tls_new(settings, &et->links.tls, err);
    if (code == DLOCK_OK && et->tls)
        dlk_tls_speak(et->links.tls, "h2");
    return code;
}

static dlock_err et_open(dlk_host *host, const dlk_uri *uri, const dlk_settings *settings,
                         dlk_backend **ret, dlock_error **err)
{
    bool tls = strcmp(uri->scheme, "etcds") == 0;
    dlock_err code = check_settings(uri, settings, tls, err);
    if (code != DLOCK_OK)
        return code;
    dlk_etcd *et = calloc(1, sizeof(*et));
    if (!et)
        return dlk_error_nomem(err);
    dlk_session_init(&et->base, &dlk_etcd_backend, &etcd_session, host);
    et->tls = tls;
    et->nudge_at = DLK_NEVER;
    dlk_list_init(&et->parked);
    et->settings = dlk_settings_copy(settings);
    code = init_links(et, settings, err);
    if (code == DLOCK_OK && (!et->settings || !set_up(et, uri, settings)))
        code = dlk_error_nomem(err);
    if (code != DLOCK_OK) {
        et_free(&et->base.backend);
        return code;
    }
    *ret = &et->base.backend;
    return DLOCK_OK;
}

/* ---- start, stop, fork ---- */

static void et_start(dlk_backend *backend, int64_t now)
{
    dlk_etcd_session_begin(dlk_etcd_of(backend), now);
}

static void et_stop(dlk_backend *backend)
{
    dlk_etcd *et = dlk_etcd_of(backend);
    et->stopped = true;
    dlk_etcd_session_end(et);
}

/* ---- time ---- */

static int64_t et_tick(dlk_backend *backend, int64_t now)
{
    dlk_etcd *et = dlk_etcd_of(backend);
    dlk_session_expire(&et->base, now);
    (void)dlk_session_sweep(&et->base, now);
    if (now >= et->nudge_at) { /* without a link the one that comes sees to it */
        et->nudge_at = DLK_NEVER;
        dlk_etcd_places_nudge(et, now);
    }
    int64_t next = dlk_etcd_session_tick(et, now); /* of what these have sent, too */
    return dlk_session_next(&et->base, et->nudge_at < next ? et->nudge_at : next);
}

/* ---- the driver's steps ---- */

static void et_arm(dlk_backend *backend, dlk_polls *polls)
{
    dlk_etcd *et = dlk_etcd_of(backend);
    if (et->stopped)
        return;
    dlk_link_arm(&et->calls.link, polls);
    et->expects = et->phase == DLK_ETCD_UP && !dlk_flight_is_empty(&et->base.flight);
    if (!dlk_list_empty(&et->calls.over))
        polls->doze = false;
}

static void et_push(dlk_backend *backend, dlk_polls *polls)
{
    if (!dlk_etcd_of(backend)->stopped)
        dlk_link_push(&dlk_etcd_of(backend)->calls.link, polls);
}

_Static_assert(DLK_STREAM_WAIT_MS <= DLK_EXPECT_MS, "an expect takes no longer");

/* Most answers come at once: a read that waits costs less than a poll and a read. */
static bool et_expect(dlk_backend *backend, const dlk_polls *polls)
{
    dlk_etcd *et = dlk_etcd_of(backend);
    dlk_link *link = &et->calls.link;
    return !et->stopped && et->expects &&
           dlk_polls_events(polls, link->polled) == POLLIN &&
           dlk_stream_wait(&link->stream);
}

static void et_pull(dlk_backend *backend, dlk_polls *polls)
{
    if (!dlk_etcd_of(backend)->stopped)
        dlk_link_pull(&dlk_etcd_of(backend)->calls.link, polls);
}

static void et_process(dlk_backend *backend, int64_t now)
{
    dlk_etcd *et = dlk_etcd_of(backend);
    if (et->stopped)
        return;
    dlk_link_process(&et->calls.link, now);
    dlk_etcd_receive_all(et, now);
    if (et->under_way > 0 && dlk_flight_is_empty(&et->base.flight))
        dlk_etcd_background(et); /* nobody else waits for them */
}

static void et_flush(dlk_backend *backend)
{
    dlk_etcd *et = dlk_etcd_of(backend);
    dlk_host *host = et->base.backend.host;
    if (!et->stopped && et->calls.link.phase == DLK_LINK_READY &&
        !dlk_stream_flush(&et->calls.link.stream, host->mutex))
        dlk_kick(host->kicks); /* what is left has to wait for the socket: poll for it */
}

static const char *const schemes[] = {"etcd", "etcds", "etcd+unix", NULL};

const dlk_backend_type dlk_etcd_backend = {
    .name = "etcd",
    .schemes = schemes,
    .traits =
        {
            .layout = "concurrency",
            .class = DLK_REQUIRE_CORRECTNESS,
            .session = true,
            .keeps = true,
            .no_keep_tokens = "the numbers are the cluster's, and there is none between "
                              "those of two neighbours",
            .queues = true,
            .fair = true,
            .tokens = true,
            .hands_on = true,
            .margin_percent = 1,
            .margin_ms = 2,
            .kinds = {[DLOCK_MUTEX] = true,
                      [DLOCK_ELECTION] = true,
                      [DLOCK_SEMAPHORE] = true,
                      [DLOCK_READ] = true,
                      [DLOCK_WRITE] = true,
                      [DLK_KIND_CONDITION] = true},
        },
    .open = et_open,
    .start = et_start,
    .stop = et_stop,
    .free = et_free,
    .ask = dlk_session_ask,
    .tick = et_tick,
    .arm = et_arm,
    .process = et_process,
    .key_open = dlk_session_key_open,
    .key_close = dlk_session_key_close,
    .watch = dlk_session_watch,
    .listen = dlk_etcd_listen,
    .push = et_push,
    .pull = et_pull,
    .expect = et_expect,
    .flush = et_flush,
};
