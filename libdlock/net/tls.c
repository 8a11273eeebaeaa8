/*
 * A stream's coat of TLS; see the header.
 *
 * OpenSSL has a BIO of ours on either side of its back: it reads from `raw`, which recv fills
 * beforehand, and writes into `cipher`, which goes to the socket at once or, when that is full, as
 * soon as it can. So OpenSSL never does I/O itself, and its lock is never held while anybody waits:
 * the driver may lie in recv while others send. Ciphertext is written with the lock held (without
 * waiting), which keeps the records in their order.
 */
#include "net/tls_inner.h"

#include "net/socket.h"
#include "util/error.h"
#include "util/secret.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static dlk_tls_coat *self(dlk_coat *coat)
{
    return (dlk_tls_coat *)coat;
}

/* ---- What OpenSSL takes for a socket ---- */

static int take_raw(BIO *bio, char *to, int size)
{
    dlk_tls_coat *coat = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    size_t there = coat->reading ? coat->raw_end - coat->raw_start : 0;
    if (there == 0 || size <= 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    if (there > (size_t)size)
        there = (size_t)size;
    memcpy(to, coat->raw + coat->raw_start, there);
    coat->raw_start += there;
    return (int)there;
}

static int put_cipher(BIO *bio, const char *data, int size)
{
    dlk_tls_coat *coat = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (size > 0 && dlk_buf_append(&coat->cipher, data, (size_t)size))
        return size;
    coat->no_memory = true;
    return -1;
}

static long control(BIO *bio, int what, long number, void *more)
{
    (void)bio, (void)number, (void)more;
    return what == BIO_CTRL_FLUSH; /* all else is unknown */
}

static BIO_METHOD *method;
static pthread_once_t method_once = PTHREAD_ONCE_INIT;

static void make_method(void)
{
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "dlock");
    if (method && BIO_meth_set_read(method, take_raw) &&
        BIO_meth_set_write(method, put_cipher) && BIO_meth_set_ctrl(method, control))
        return;
    BIO_meth_free(method);
    method = NULL;
}

static BIO *make_bio(dlk_tls_coat *coat)
{
    (void)pthread_once(&method_once, make_method);
    BIO *bio = method ? BIO_new(method) : NULL;
    if (bio) {
        BIO_set_data(bio, coat);
        BIO_set_init(bio, 1);
    }
    return bio;
}

/* ---- The coat ---- */

/* Writes what the socket takes; false, and errno, when something is left. With the lock. */
static bool write_cipher(dlk_tls_coat *coat, int fd)
{
    while (dlk_buf_size(&coat->cipher) > 0) {
        ssize_t put =
            send(fd, dlk_buf_head(&coat->cipher), dlk_buf_size(&coat->cipher), DLK_SEND);
        if (put >= 0)
            dlk_buf_eat(&coat->cipher, (size_t)put);
        else if (errno != EINTR)
            return false;
    }
    return true;
}

/* What a call of OpenSSL's that did nothing means, as -1 with errno, or 0 at the end. */
static ssize_t give_up(dlk_tls_coat *coat, int fd, int result)
{
    int what = SSL_get_error(coat->ssl, result);
    if (what == SSL_ERROR_ZERO_RETURN)
        return 0;
    if (what == SSL_ERROR_WANT_READ) {
        errno = write_cipher(coat, fd) ? EAGAIN : errno;
        return -1;
    }
    if (!coat->base.code)
        dlk_tls_explain(coat);
    ERR_clear_error();
    (void)write_cipher(coat, fd); /* an alert, for the server's log */
    errno = EPROTO;
    return -1;
}

static ssize_t tls_send(dlk_coat *base, int fd, const char *data, size_t size)
{
    dlk_tls_coat *coat = self(base);
    ssize_t put = -1;
    (void)pthread_mutex_lock(&coat->mutex);
    if (write_cipher(coat, fd)) {
        ERR_clear_error(); /* of the caller's own OpenSSL, which we would take for ours */
        int done = SSL_write(coat->ssl, data, size < INT_MAX ? (int)size : INT_MAX);
        put = done > 0 ? done : give_up(coat, fd, done);
        if (done > 0)
            (void)write_cipher(coat, fd); /* else with the next; `unsent` knows */
    }
    int error = errno;
    (void)pthread_mutex_unlock(&coat->mutex);
    errno = error;
    return put;
}

/* Something that has come already, and wasn't read. With the lock. */
static bool is_more(const dlk_tls_coat *coat)
{
    return coat->raw_start < coat->raw_end || SSL_pending(coat->ssl) > 0;
}

/* As much as there is room for, or is there. With the lock. */
static ssize_t decrypt(dlk_tls_coat *coat, int fd, char *to, size_t size)
{
    size_t used = 0;
    coat->reading = true;
    ERR_clear_error();
    ssize_t result = 0;
    bool over = false;
    do {
        int got = SSL_read(coat->ssl, to + used, (int)(size - used));
        if (got <= 0) {
            result = give_up(coat, fd, got);
            over = result == 0 || errno != EAGAIN;
            break;
        }
        used += (size_t)got;
        /* Where nothing is left another call could only say so. */
    } while (used < size && is_more(coat));
    coat->reading = false;
    if (used == 0)
        return result;
    /* The end, or a failure: told when all is read. */
    coat->base.more = over || (used == size && is_more(coat));
    (void)write_cipher(coat, fd); /* what the server has asked for beside, as new keys */
    return (ssize_t)used;
}

/* The end of the connection; too early, it says something about the server. */
static ssize_t end(dlk_tls_coat *coat)
{
    (void)pthread_mutex_lock(&coat->mutex);
    bool early = !SSL_is_init_finished(coat->ssl);
    if (early && !coat->base.code) {
        snprintf(coat->base.why, sizeof(coat->base.why),
                 "it was closed by the server during the TLS handshake");
        coat->base.code = DLOCK_EUNAVAIL;
    }
    (void)pthread_mutex_unlock(&coat->mutex);
    errno = EPROTO;
    return early ? -1 : 0;
}

static ssize_t tls_recv(dlk_coat *base, int fd, char *to, size_t size, int flags)
{
    dlk_tls_coat *coat = self(base);
    if (!base->more) {
        ssize_t got = recv(fd, coat->raw, sizeof(coat->raw), flags);
        if (got == 0)
            return end(coat);
        if (got < 0)
            return got;
        if (!atomic_load_explicit(&coat->heard, memory_order_relaxed)) {
            coat->first = (unsigned char)coat->raw[0];
            atomic_store(&coat->heard, true);
        }
        coat->raw_start = 0;
        coat->raw_end = (size_t)got;
    }
    base->more = false;
    (void)pthread_mutex_lock(&coat->mutex);
    ssize_t got = decrypt(coat, fd, to, size);
    int error = errno;
    (void)pthread_mutex_unlock(&coat->mutex);
    errno = error;
    return got;
}

static bool tls_unsent(dlk_coat *base, int fd)
{
    dlk_tls_coat *coat = self(base);
    (void)pthread_mutex_lock(&coat->mutex);
    /* What fails here for good, fails for the reader as well. */
    bool unsent = !write_cipher(coat, fd);
    (void)pthread_mutex_unlock(&coat->mutex);
    return unsent;
}

/* Either way the session counts as one that ended well, which may be resumed. */
static void tls_bye(dlk_coat *base, int fd, dlk_ending ending)
{
    dlk_tls_coat *coat = self(base);
    (void)pthread_mutex_lock(&coat->mutex);
    ERR_clear_error();
    if (!base->code && SSL_is_init_finished(coat->ssl)) {
        if (ending == DLK_END_RESET) /* nobody would hear it */
            SSL_set_quiet_shutdown(coat->ssl, 1);
        (void)SSL_shutdown(coat->ssl);
        if (ending == DLK_END_ORDERLY)
            (void)write_cipher(coat, fd);
    }
    ERR_clear_error();
    (void)pthread_mutex_unlock(&coat->mutex);
}

static void tls_free(dlk_coat *base)
{
    dlk_tls_coat *coat = self(base);
    SSL_free(coat->ssl);
    (void)pthread_mutex_destroy(&coat->mutex);
    dlk_buf_free(&coat->cipher);
    dlk_wipe(coat->raw, sizeof(coat->raw));
    free(coat->peer);
    free(coat->host);
    free(coat);
}

static const dlk_coat_type type = {.send = tls_send,
                                   .recv = tls_recv,
                                   .unsent = tls_unsent,
                                   .bye = tls_bye,
                                   .free = tls_free};

/* ---- Beginning ---- */

/* Whom the certificate must name, and whom we say that we want (which only names can be). */
static bool expect_host(dlk_tls_coat *coat)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(coat->ssl);
    bool check = dlk_tls_checks_names(coat->tls);
    if (dlk_tls_is_address(coat->host))
        return !check || X509_VERIFY_PARAM_set1_ip_asc(param, coat->host);
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
                                               X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    return SSL_set_tlsext_host_name(coat->ssl, coat->host) &&
           (!check || SSL_set1_host(coat->ssl, coat->host));
}

static void offer_session(dlk_tls_coat *coat)
{
    SSL_SESSION *session = dlk_tls_session(coat->tls, coat->peer);
    if (!session)
        return;
    (void)SSL_set_session(coat->ssl, session); /* else it begins anew */
    SSL_SESSION_free(session);
}

/* Who doesn't know it goes on as ever; who speaks others only ends the handshake. */
static bool ask_for_protocol(const dlk_tls_coat *coat)
{
    unsigned char list[32];
    const char *protocol = coat->tls->protocol;
    size_t size = protocol ? strlen(protocol) : 0;
    if (size == 0)
        return true;
    assert(size < sizeof(list));
    list[0] = (unsigned char)size;
    memcpy(list + 1, protocol, size);
    return SSL_set_alpn_protos(coat->ssl, list, (unsigned)size + 1) == 0;
}

static bool set_up(dlk_tls_coat *coat, SSL_CTX *context)
{
    coat->ssl = SSL_new(context);
    BIO *bio = coat->ssl ? make_bio(coat) : NULL;
    if (!bio)
        return false;
    SSL_set_bio(coat->ssl, bio, bio);
    SSL_set_app_data(coat->ssl, coat);
    SSL_set_connect_state(coat->ssl);
    if (!expect_host(coat) || !ask_for_protocol(coat))
        return false;
    offer_session(coat);
    return true;
}

static dlk_tls_coat *make(dlk_tls *tls, SSL_CTX *context, const char *host, uint16_t port)
{
    const char *named = dlk_settings_text(tls->settings, DLK_KEY_TLS_SERVER_NAME);
    dlk_tls_coat *coat = calloc(1, sizeof(*coat));
    if (!coat)
        return NULL;
    (void)pthread_mutex_init(&coat->mutex, NULL);
    coat->base.type = &type;
    coat->tls = tls;
    coat->host = strdup(named[0] ? named : host);
    if (asprintf(&coat->peer, "%s:%u", host, port) < 0)
        coat->peer = NULL;
    if (coat->host && coat->peer && set_up(coat, context))
        return coat;
    tls_free(&coat->base);
    return NULL;
}

dlock_error *dlk_tls_begin(dlk_tls *tls, dlk_stream *stream, const char *host,
                           uint16_t port)
{
    dlock_error *error = NULL;
    ERR_clear_error();
    SSL_CTX *context = dlk_tls_context(tls, &error);
    if (!context)
        return error;
    dlk_tls_coat *coat = make(tls, context, host, port);
    ERR_clear_error();
    if (!coat)
        return dlk_error_make(DLOCK_ENOMEM, "TLS: out of memory");
    stream->coat = &coat->base;
    return NULL;
}

/* ---- Looking ---- */

void dlk_tls_describe(const dlk_stream *stream, char *text, size_t size,
                      int64_t *ret_valid_until)
{
    dlk_tls_coat *coat = self(stream->coat);
    (void)pthread_mutex_lock(&coat->mutex);
    const X509 *certificate = SSL_get0_peer_certificate(coat->ssl);
    struct tm until;
    *ret_valid_until =
        certificate && ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &until)
            ? (int64_t)timegm(&until)
            : -1;
    snprintf(text, size, "%s, %s", SSL_get_version(coat->ssl),
             SSL_get_cipher_name(coat->ssl));
    ERR_clear_error();
    (void)pthread_mutex_unlock(&coat->mutex);
}

bool dlk_tls_unanswered(const dlk_stream *stream)
{
    return !atomic_load(&self(stream->coat)->heard);
}

bool dlk_tls_resumed(const dlk_stream *stream)
{
    dlk_tls_coat *coat = self(stream->coat);
    (void)pthread_mutex_lock(&coat->mutex);
    bool resumed = SSL_session_reused(coat->ssl);
    (void)pthread_mutex_unlock(&coat->mutex);
    return resumed;
}
