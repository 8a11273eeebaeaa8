/* What a client's connections share: the settings and the files that they name, as OpenSSL wants
 * them, and the sessions that may be resumed.
 *
 * Certificates are renewed while programs run, so the files are looked at for each connection, and
 * read again when one has changed. Sessions end with that: a new list of revoked ones, or another
 * authority, is to be asked about everybody anew. */
#include "net/tls_inner.h"

#include "util/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEY_FILE_MAX (1 << 20)

static const dlk_key_id file_keys[DLK_TLS_FILES] = {
    DLK_KEY_TLS_CA_FILE,   DLK_KEY_TLS_CA_DIR,   DLK_KEY_TLS_CRL_FILE,
    DLK_KEY_TLS_CERT_FILE, DLK_KEY_TLS_KEY_FILE, DLK_KEY_TLS_KEY_PASSWORD_FILE,
};

static const char *text_of(const dlk_tls *tls, dlk_key_id id)
{
    return dlk_settings_text(tls->settings, id);
}

/* ---- Files ---- */

static dlock_err refuse_file(const dlk_tls *tls, dlk_key_id id, const char *why,
                             dlock_err code, dlock_error **err)
{
    return dlk_error_set(err, code, "%s '%s': %s", dlk_settings_spec(id)->name,
                         text_of(tls, id), why);
}

/* What kind of thing is there, before OpenSSL might wait for it. */
static dlock_err look_at(const dlk_tls *tls, dlk_key_id id, struct stat *ret,
                         dlock_error **err)
{
    const char *path = text_of(tls, id);
    char room[128];
    bool directory = id == DLK_KEY_TLS_CA_DIR;
    if (stat(path, ret) != 0 || access(path, R_OK) != 0)
        return refuse_file(tls, id, dlk_error_errno(errno, room, sizeof(room)),
                           errno == EACCES ? DLOCK_EACCES : DLOCK_EINVAL, err);
    if (directory ? !S_ISDIR(ret->st_mode) : !S_ISREG(ret->st_mode))
        return refuse_file(tls, id,
                           directory ? "it is not a directory" : "it is not a plain file",
                           DLOCK_EINVAL, err);
    return DLOCK_OK;
}

static dlock_err look_at_all(const dlk_tls *tls, struct stat files[DLK_TLS_FILES],
                             dlock_error **err)
{
    dlock_err code = DLOCK_OK;
    for (int i = 0; i < DLK_TLS_FILES && code == DLOCK_OK; i++) {
        files[i] = (struct stat){0};
        if (text_of(tls, file_keys[i])[0])
            code = look_at(tls, file_keys[i], &files[i], err);
    }
    return code;
}

static bool changed(const struct stat *a, const struct stat *b)
{
    return a->st_dev != b->st_dev || a->st_ino != b->st_ino || a->st_size != b->st_size ||
           a->st_mtim.tv_sec != b->st_mtim.tv_sec ||
           a->st_mtim.tv_nsec != b->st_mtim.tv_nsec ||
           a->st_ctim.tv_sec != b->st_ctim.tv_sec ||
           a->st_ctim.tv_nsec != b->st_ctim.tv_nsec;
}

/* ---- Sessions that go ---- */

typedef struct kept {
    dlk_list link;
    SSL_SESSION *session;
    char peer[];
} kept;

static void drop(dlk_tls *tls, kept *it)
{
    dlk_list_remove(&it->link);
    tls->session_count--;
    SSL_SESSION_free(it->session);
    free(it);
}

static void forget_all(dlk_tls *tls)
{
    while (!dlk_list_empty(&tls->sessions))
        drop(tls, DLK_LIST_ITEM(dlk_list_first(&tls->sessions), kept, link));
}

/* ---- The context ---- */

static dlock_err trust(const dlk_tls *tls, SSL_CTX *context, dlock_error **err)
{
    const char *file = text_of(tls, DLK_KEY_TLS_CA_FILE),
               *dir = text_of(tls, DLK_KEY_TLS_CA_DIR);
    if (file[0] && !SSL_CTX_load_verify_file(context, file))
        return refuse_file(tls, DLK_KEY_TLS_CA_FILE, "it has no certificates (PEM)",
                           DLOCK_EINVAL, err);
    if (dir[0] && !SSL_CTX_load_verify_dir(context, dir))
        return refuse_file(tls, DLK_KEY_TLS_CA_DIR, "it can't be used", DLOCK_EINVAL,
                           err);
    if (!file[0] && !dir[0] && !SSL_CTX_set_default_verify_paths(context))
        return dlk_error_nomem(err);
    return DLOCK_OK;
}

static dlock_err use_revoked(const dlk_tls *tls, SSL_CTX *context, dlock_error **err)
{
    const char *path = text_of(tls, DLK_KEY_TLS_CRL_FILE);
    if (!path[0])
        return DLOCK_OK;
    X509_STORE *store = SSL_CTX_get_cert_store(context);
    X509_LOOKUP *lookup = X509_STORE_add_lookup(store, X509_LOOKUP_file());
    if (!lookup)
        return dlk_error_nomem(err);
    if (X509_load_crl_file(lookup, path, X509_FILETYPE_PEM) <= 0)
        return refuse_file(tls, DLK_KEY_TLS_CRL_FILE,
                           "it has no list of revoked certificates (PEM)", DLOCK_EINVAL,
                           err);
    (void)X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
    return DLOCK_OK;
}

/* Never asks at a terminal, as OpenSSL would by itself. */
static int tell_password(char *to, int size, int writing, void *password)
{
    (void)writing;
    size_t length = password ? strlen(password) : 0;
    if (length == 0 || length >= (size_t)size)
        return -1;
    memcpy(to, password, length + 1);
    return (int)length;
}

/* The key's file, where no core dump has it; *ret_size is for dlk_hidden_unmap. */
static char *read_key(const char *path, size_t *ret_size, int *ret_used)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat is;
    char *data = NULL;
    *ret_used = 0;
    *ret_size = 1;
    if (fd < 0)
        return NULL;
    if (fstat(fd, &is) == 0 && is.st_size > 0 && is.st_size <= KEY_FILE_MAX) {
        *ret_size = (size_t)is.st_size;
        data = dlk_hidden_map(ret_size);
    }
    ssize_t got = data ? read(fd, data, (size_t)is.st_size) : 0;
    close(fd);
    *ret_used = got > 0 ? (int)got : 0;
    return data;
}

static EVP_PKEY *load_key(const char *path, char *password)
{
    size_t size;
    int used;
    char *data = read_key(path, &size, &used);
    if (!data)
        return NULL;
    BIO *bio = BIO_new_mem_buf(data, used);
    EVP_PKEY *key =
        bio ? PEM_read_bio_PrivateKey(bio, NULL, tell_password, password) : NULL;
    BIO_free(bio);
    dlk_hidden_unmap(data, size);
    return key;
}

static dlock_err use_key(const dlk_tls *tls, SSL_CTX *context, dlock_error **err)
{
    dlk_key_id id = text_of(tls, DLK_KEY_TLS_KEY_FILE)[0] ? DLK_KEY_TLS_KEY_FILE
                                                          : DLK_KEY_TLS_CERT_FILE;
    const dlk_key_id lock = DLK_KEY_TLS_KEY_PASSWORD_FILE;
    char *password = NULL;
    if (text_of(tls, lock)[0]) {
        dlock_err code = dlk_secret_from_file(dlk_settings_spec(lock)->name,
                                              text_of(tls, lock), &password, err);
        if (code)
            return code;
    }
    EVP_PKEY *key = load_key(text_of(tls, id), password);
    bool unlocked = password != NULL;
    dlk_secret_free(password);
    if (!key)
        return refuse_file(tls, id,
                           unlocked ? "no key in it that tls.key_password_file opens"
                                    : "it has no key (PEM), or an encrypted one, which "
                                      "tls.key_password_file has to open",
                           DLOCK_EINVAL, err);
    bool fits = SSL_CTX_use_PrivateKey(context, key) == 1;
    EVP_PKEY_free(key);
    return fits ? DLOCK_OK
                : refuse_file(tls, id, "the key is not that of tls.cert_file",
                              DLOCK_EINVAL, err);
}

static dlock_err use_own(const dlk_tls *tls, SSL_CTX *context, dlock_error **err)
{
    const char *path = text_of(tls, DLK_KEY_TLS_CERT_FILE);
    if (!path[0] && text_of(tls, DLK_KEY_TLS_KEY_FILE)[0])
        return dlk_error_set(err, DLOCK_EINVAL,
                             "tls.key_file is given without tls.cert_file");
    if (!path[0])
        return DLOCK_OK;
    if (SSL_CTX_use_certificate_chain_file(context, path) != 1)
        return refuse_file(tls, DLK_KEY_TLS_CERT_FILE, "it has no certificate (PEM)",
                           DLOCK_EINVAL, err);
    return use_key(tls, context, err);
}

static dlock_err fill(const dlk_tls *tls, SSL_CTX *context, dlock_error **err)
{
    bool newest =
        strcmp(dlk_settings_word(tls->settings, DLK_KEY_TLS_MIN_VERSION), "1.3") == 0;
    if (!SSL_CTX_set_min_proto_version(context, newest ? TLS1_3_VERSION : TLS1_2_VERSION))
        return dlk_error_set(err, DLOCK_ENOTSUP, "this OpenSSL has no TLS %s",
                             newest ? "1.3" : "1.2");
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(context,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_verify(context, dlk_tls_blind(tls) ? SSL_VERIFY_NONE : SSL_VERIFY_PEER,
                       dlk_tls_judge);
    SSL_CTX_set_session_cache_mode(context,
                                   SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(context, dlk_tls_keep);
    dlock_err code = trust(tls, context, err);
    if (!code)
        code = use_revoked(tls, context, err);
    return code ? code : use_own(tls, context, err);
}

/* The first ones make OpenSSL look up most of what it has: with locks that a fork's child would find
 * taken for ever. */
static SSL_CTX *make_context(const dlk_tls *tls, dlock_error **err)
{
    dlk_loaded_begin();
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    dlock_err code = context ? fill(tls, context, err) : dlk_error_nomem(err);
    ERR_clear_error();
    if (code != DLOCK_OK) {
        SSL_CTX_free(context);
        context = NULL;
    }
    dlk_loaded_end();
    return context;
}

SSL_CTX *dlk_tls_context(dlk_tls *tls, dlock_error **err)
{
    struct stat files[DLK_TLS_FILES];
    bool same = tls->context != NULL;
    if (look_at_all(tls, files, err) != DLOCK_OK)
        return NULL;
    for (int i = 0; i < DLK_TLS_FILES; i++)
        same = same && !changed(&files[i], &tls->files[i]);
    if (same)
        return tls->context;
    SSL_CTX *context = make_context(tls, err);
    if (!context)
        return NULL;
    (void)pthread_mutex_lock(&tls->mutex);
    forget_all(tls);
    SSL_CTX_free(tls->context); /* connections have references of their own */
    tls->context = context;
    (void)pthread_mutex_unlock(&tls->mutex);
    memcpy(tls->files, files, sizeof(files));
    return context;
}

/* ---- Sessions that come ---- */

static kept *find(dlk_tls *tls, const char *peer)
{
    DLK_LIST_FOR (it, &tls->sessions) {
        kept *found = DLK_LIST_ITEM(it, kept, link);
        if (strcmp(found->peer, peer) == 0)
            return found;
    }
    return NULL;
}

int dlk_tls_keep(SSL *ssl, SSL_SESSION *session)
{
    const dlk_tls_coat *coat = SSL_get_app_data(ssl);
    dlk_tls *tls = coat->tls;
    size_t size = strlen(coat->peer) + 1;
    kept *made = malloc(sizeof(*made) + size);
    if (!made)
        return 0; /* not kept: the next connection begins anew */
    memcpy(made->peer, coat->peer, size);
    made->session = session;
    dlk_list_init(&made->link);
    (void)pthread_mutex_lock(&tls->mutex);
    /* One of an older context was checked by older rules. */
    bool keeps = SSL_get_SSL_CTX(ssl) == tls->context;
    kept *old = keeps ? find(tls, coat->peer) : NULL;
    if (keeps && !old && tls->session_count == DLK_TLS_PLACES)
        old = DLK_LIST_ITEM(tls->sessions.prev, kept, link);
    if (old)
        drop(tls, old);
    if (keeps)
        dlk_list_prepend(&tls->sessions, &made->link);
    tls->session_count += keeps;
    (void)pthread_mutex_unlock(&tls->mutex);
    if (!keeps)
        free(made);
    return keeps;
}

SSL_SESSION *dlk_tls_session(dlk_tls *tls, const char *peer)
{
    SSL_SESSION *session = NULL;
    (void)pthread_mutex_lock(&tls->mutex);
    const kept *it = find(tls, peer);
    if (it && SSL_SESSION_is_resumable(it->session) && SSL_SESSION_up_ref(it->session))
        session = it->session;
    (void)pthread_mutex_unlock(&tls->mutex);
    return session;
}

/* ---- Life ---- */

dlock_err dlk_tls_new(const dlk_settings *settings, dlk_tls **ret, dlock_error **err)
{
    dlock_err code = dlk_loaded_need(&dlk_openssl, err);
    if (code != DLOCK_OK)
        return code;
    dlk_tls *tls = calloc(1, sizeof(*tls));
    if (!tls)
        return dlk_error_nomem(err);
    dlk_list_init(&tls->sessions);
    (void)pthread_mutex_init(&tls->mutex, NULL);
    tls->settings = dlk_settings_copy(settings);
    dlock_error *why = NULL;
    if (!tls->settings)
        (void)dlk_error_nomem(&why);
    if (!tls->settings || !dlk_tls_context(tls, &why)) {
        dlk_tls_free(tls);
        return dlk_error_give(err, why);
    }
    *ret = tls;
    return DLOCK_OK;
}

void dlk_tls_speak(dlk_tls *tls, const char *protocol)
{
    tls->protocol = protocol;
}

void dlk_tls_free(dlk_tls *tls)
{
    if (!tls)
        return;
    forget_all(tls);
    SSL_CTX_free(tls->context);
    (void)pthread_mutex_destroy(&tls->mutex);
    dlk_settings_free(tls->settings);
    free(tls);
}
