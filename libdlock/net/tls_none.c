/* A build without TLS (meson -Dtls=disabled): there is no dlk_tls, and it is said how to get it. */
#include "net/tls.h"

#include "util/error.h"

#include <stdio.h>

dlock_err dlk_tls_new(const dlk_settings *settings, dlk_tls **ret, dlock_error **err)
{
    (void)settings;
    *ret = NULL;
    return dlk_error_set(err, DLOCK_ENOTSUP,
                         "this libdlock was built without TLS (meson -Dtls=enabled, "
                         "which needs OpenSSL 3)");
}

void dlk_tls_speak(dlk_tls *tls, const char *protocol)
{
    (void)tls, (void)protocol;
}

void dlk_tls_free(dlk_tls *tls)
{
    (void)tls; /* NULL */
}

dlock_error *dlk_tls_begin(dlk_tls *tls, dlk_stream *stream, const char *host,
                           uint16_t port)
{
    (void)tls, (void)stream, (void)host, (void)port;
    return dlk_error_make(DLOCK_ENOTSUP, "this libdlock was built without TLS");
}

bool dlk_tls_blind(const dlk_tls *tls)
{
    (void)tls;
    return true;
}

void dlk_tls_describe(const dlk_stream *stream, char *text, size_t size,
                      int64_t *ret_valid_until)
{
    (void)stream;
    snprintf(text, size, "none");
    *ret_valid_until = -1;
}

bool dlk_tls_unanswered(const dlk_stream *stream)
{
    (void)stream;
    return false;
}

bool dlk_tls_resumed(const dlk_stream *stream)
{
    (void)stream;
    return false;
}

const char *dlk_tls_verdict(long verify)
{
    (void)verify;
    return NULL;
}

const char *dlk_tls_reason(unsigned long error)
{
    (void)error;
    return NULL;
}
