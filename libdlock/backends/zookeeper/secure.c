/*
 * See the header. Where the library has neither, as Debian's, whoever wants them is refused before (backend.c).
 *
 * TLS. The library asks for three files, trusts the system's authorities beside those it is told, and takes
 * any host's certificate. So its connections are held to our settings by net/tls_foreign.h, and who is
 * at the other end is told nothing, not even a password, before that has had its look.
 *
 * SASL. The library keeps the array of callbacks, which lies in here.
 */
#include "backends/zookeeper/secure.h"

#ifdef DLK_ZOOKEEPER_HAS_TLS
#include "net/tls_foreign.h"
#endif
#include "util/error.h"
#include "util/secret.h"
#include "util/thread.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct dlk_zk_secure {
    bool sasl; /* else TLS */
#ifdef DLK_ZOOKEEPER_HAS_TLS
    dlk_tls_foreign *tls; /* or NULL */
    char *files; /* as zookeeper_init_ssl wants them; with a password, a secret */
#endif
#ifdef DLK_ZOOKEEPER_HAS_SASL
    char *user;
    sasl_secret_t *password;
    sasl_callback_t callbacks[5];
#endif
};

/* ---- TLS ---- */

#ifdef DLK_ZOOKEEPER_HAS_TLS
/* The key's password, or something in its place: newer ones go without a certificate where there is none. */
static dlock_err join_files(const dlk_settings *settings, char **ret, dlock_error **err)
{
    const char *certificate = dlk_settings_text(settings, DLK_KEY_TLS_CERT_FILE),
               *key = dlk_settings_text(settings, DLK_KEY_TLS_KEY_FILE),
               *authorities = dlk_settings_text(settings, DLK_KEY_TLS_CA_FILE),
               *lock = dlk_settings_text(settings, DLK_KEY_TLS_KEY_PASSWORD_FILE);
    char *password = NULL;
    if (lock[0]) {
        dlock_err code =
            dlk_secret_from_file("tls.key_password_file", lock, &password, err);
        if (code != DLOCK_OK)
            return code;
    }
    dlock_err code = DLOCK_OK;
    if (password && (strchr(password, ',') || !password[0]))
        code = dlk_error_set(err, DLOCK_EINVAL,
                             "zookeeper: tls.key_password_file: libzookeeper takes no "
                             "password that is empty or has a comma in it");
    /* Its authorities are replaced by ours; it only has to find some. */
    else if (asprintf(ret, "%s,%s,%s,%s", authorities[0] ? authorities : certificate,
                      certificate, key[0] ? key : certificate,
                      password ? password : "-") < 0)
        code = dlk_error_nomem(err);
    dlk_secret_free(password);
    return code;
}

/* "host:port" or "[host]:port", separated by commas. */
static bool expect_hosts(dlk_tls_foreign *tls, const char *hosts)
{
    bool fits = true;
    for (const char *at = hosts; fits && *at;) {
        size_t size = strcspn(at, ",");
        char *host = strndup(at, size);
        char *colon = host ? strrchr(host, ':') : NULL;
        if (colon) {
            bool ipv6 = host[0] == '[';
            colon[-ipv6] = '\0';
            fits = dlk_tls_foreign_expect(tls, host + ipv6);
        }
        fits = fits && colon;
        free(host);
        at += size + (at[size] == ',');
    }
    return fits;
}

static dlock_err use_tls(dlk_zk_secure *secure, const dlk_zk_setup *setup,
                         dlock_error **err)
{
    const char *named = dlk_settings_text(setup->settings, DLK_KEY_TLS_SERVER_NAME);
    dlock_err code = join_files(setup->settings, &secure->files, err);
    if (code == DLOCK_OK)
        code = dlk_tls_foreign_new(setup->settings, &secure->tls, err);
    if (code == DLOCK_OK && !(named[0] ? dlk_tls_foreign_expect(secure->tls, named)
                                       : expect_hosts(secure->tls, setup->hosts)))
        code = dlk_error_nomem(err);
    return code;
}

extern ZooLogLevel logLevel; /* the library's; its header is installed nowhere */

static pthread_mutex_t one_by_one = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

/* Whoever was opening is its parent's. A fork doesn't wait for that: it may be looking for an address. */
static void let_the_child_open(void)
{
    (void)pthread_mutex_init(&one_by_one, NULL);
}

static void mind_forks(void)
{
    (void)dlk_fork_watch(NULL, NULL, let_the_child_open); /* without memory it may hang */
}

/* It logs to stderr until it can be told where to, and takes its argument apart by strtok. */
static zhandle_t *open_tls(const dlk_zk_secure *secure, const char *hosts,
                           watcher_fn watcher, int timeout_ms, void *context,
                           log_callback_fn log)
{
    (void)pthread_once(&fork_once, mind_forks);
    (void)pthread_mutex_lock(&one_by_one);
    ZooLogLevel level = logLevel;
    zoo_set_debug_level((ZooLogLevel)0);
    zhandle_t *handle = zookeeper_init_ssl(hosts, secure->files, watcher, timeout_ms,
                                           NULL, context, ZOO_NO_LOG_CLIENTENV);
    int error = errno;
    if (handle)
        zoo_set_log_callback(handle, log);
    zoo_set_debug_level(level);
    (void)pthread_mutex_unlock(&one_by_one);
    errno = error;
    return handle;
}
#endif

/* ---- SASL ---- */

#ifdef DLK_ZOOKEEPER_HAS_SASL
/* What Java's servers are called by those who log in by DIGEST-MD5. */
#define SERVICE "zookeeper"
#define SERVER  "zk-sasl-md5"

static int tell_user(void *context, int what, const char **ret, unsigned *ret_size)
{
    const dlk_zk_secure *secure = context;
    (void)what;
    *ret = secure->user;
    if (ret_size)
        *ret_size = (unsigned)strlen(secure->user);
    return SASL_OK;
}

static int tell_realm(void *context, int what, const char **offered, const char **ret)
{
    (void)context, (void)what;
    *ret = offered && offered[0] ? offered[0] : SERVER;
    return SASL_OK;
}

static int tell_password(sasl_conn_t *connection, void *context, int what,
                         sasl_secret_t **ret)
{
    const dlk_zk_secure *secure = context;
    (void)connection, (void)what;
    *ret = secure->password;
    return SASL_OK;
}

static pthread_once_t sasl_once = PTHREAD_ONCE_INIT;
static int sasl_ready;

static void begin_sasl(void)
{
    sasl_ready = sasl_client_init(NULL);
}

/* "user:password" */
static dlock_err use_sasl(dlk_zk_secure *secure, const char *auth, dlock_error **err)
{
    const char *colon = auth ? strchr(auth, ':') : NULL;
    size_t size = colon ? strlen(colon + 1) : 0;
    (void)pthread_once(&sasl_once, begin_sasl);
    if (sasl_ready != SASL_OK)
        return dlk_error_set(err, DLOCK_ENOTSUP, "zookeeper: SASL can't be set up: %s",
                             sasl_errstring(sasl_ready, NULL, NULL));
    secure->user = colon ? strndup(auth, (size_t)(colon - auth)) : NULL;
    secure->password = calloc(1, sizeof(*secure->password) + size + 1);
    if (!secure->user || !secure->password)
        return dlk_error_nomem(err);
    secure->password->len = size;
    memcpy(secure->password->data, colon + 1, size + 1);
    /* The library's type for functions of every kind. */
    const sasl_callback_t callbacks[] = {
        {SASL_CB_GETREALM, (int (*)(void))(uintptr_t)tell_realm, secure},
        {SASL_CB_USER, (int (*)(void))(uintptr_t)tell_user, secure},
        {SASL_CB_AUTHNAME, (int (*)(void))(uintptr_t)tell_user, secure},
        {SASL_CB_PASS, (int (*)(void))(uintptr_t)tell_password, secure},
        {SASL_CB_LIST_END, NULL, NULL},
    };
    memcpy(secure->callbacks, callbacks, sizeof(callbacks));
    secure->sasl = true;
    return DLOCK_OK;
}

static zhandle_t *open_sasl(dlk_zk_secure *secure, const char *hosts, watcher_fn watcher,
                            int timeout_ms, void *context, log_callback_fn log)
{
    zoo_sasl_params_t params = {.service = SERVICE,
                                .host = SERVER,
                                .mechlist = "DIGEST-MD5",
                                .callbacks = secure->callbacks};
    return zookeeper_init_sasl(hosts, watcher, timeout_ms, NULL, context,
                               ZOO_NO_LOG_CLIENTENV, log, &params);
}
#endif

/* ---- both ---- */

dlock_err dlk_zk_secure_new(const dlk_zk_setup *setup, dlk_zk_secure **ret,
                            dlock_error **err)
{
    *ret = NULL;
    if (!setup->tls && !setup->sasl)
        return DLOCK_OK;
    dlk_zk_secure *secure = calloc(1, sizeof(*secure));
    if (!secure)
        return dlk_error_nomem(err);
    dlock_err code = DLOCK_OK;
#ifdef DLK_ZOOKEEPER_HAS_TLS
    if (setup->tls)
        code = use_tls(secure, setup, err);
#endif
#ifdef DLK_ZOOKEEPER_HAS_SASL
    if (code == DLOCK_OK && setup->sasl)
        code = use_sasl(secure, setup->auth, err);
#endif
    if (code != DLOCK_OK) {
        dlk_zk_secure_free(secure);
        return code;
    }
    *ret = secure;
    return DLOCK_OK;
}

void dlk_zk_secure_free(dlk_zk_secure *secure)
{
    if (!secure)
        return;
#ifdef DLK_ZOOKEEPER_HAS_TLS
    dlk_tls_foreign_free(secure->tls);
    dlk_wipe_free(secure->files);
#endif
#ifdef DLK_ZOOKEEPER_HAS_SASL
    free(secure->user);
    if (secure->password)
        dlk_wipe(secure->password->data, secure->password->len);
    free(secure->password);
#endif
    free(secure);
}

const char *dlk_zk_secure_thread(const dlk_zk_secure *secure)
{
#ifdef DLK_ZOOKEEPER_HAS_TLS
    if (secure && secure->tls)
        return dlk_tls_foreign_thread(secure->tls);
#endif
    (void)secure;
    return "";
}

zhandle_t *dlk_zk_secure_open(dlk_zk_secure *secure, const char *hosts,
                              watcher_fn watcher, int timeout_ms, void *context,
                              log_callback_fn log)
{
#ifdef DLK_ZOOKEEPER_HAS_TLS
    if (secure && secure->tls)
        return open_tls(secure, hosts, watcher, timeout_ms, context, log);
#endif
#ifdef DLK_ZOOKEEPER_HAS_SASL
    if (secure && secure->sasl)
        return open_sasl(secure, hosts, watcher, timeout_ms, context, log);
#endif
    (void)secure;
    return zookeeper_init2(hosts, watcher, timeout_ms, NULL, context,
                           ZOO_NO_LOG_CLIENTENV, log);
}

bool dlk_zk_secure_checked(dlk_zk_secure *secure)
{
#ifdef DLK_ZOOKEEPER_HAS_TLS
    return !secure || !secure->tls || dlk_tls_foreign_checked(secure->tls);
#else
    (void)secure;
    return true;
#endif
}

bool dlk_zk_secure_says_who(const dlk_zk_secure *secure)
{
    return secure && secure->sasl;
}
