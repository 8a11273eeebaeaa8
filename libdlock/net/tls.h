/*
 * TLS below any protocol: a coat for streams (stream.h), by OpenSSL.
 *
 * What a client's settings say of TLS becomes a dlk_tls, which all its connections share: the files
 * are read again when they have changed, and a connection to a peer where the client has been
 * before resumes its session. The certificate is checked in the handshake, before the first byte
 * of the protocol, also a password, is sent.
 */
#ifndef DLK_NET_TLS_H
#define DLK_NET_TLS_H

#include "net/stream.h"
#include "util/settings.h"

typedef struct dlk_tls dlk_tls;

/* By the keys tls.*; keeps what it needs of @p settings. Reads their files. ENOTSUP: this build has
 * no TLS; EINVAL, EACCES: a file isn't what it should be. */
dlock_err dlk_tls_new(const dlk_settings *settings, dlk_tls **ret, dlock_error **err);
/* After the last of its streams has been reaped. NULL is fine. */
void dlk_tls_free(dlk_tls *tls);
/* From now on servers that speak several protocols on one port are asked for this one (ALPN): "h2".
 * Static. */
void dlk_tls_speak(dlk_tls *tls, const char *protocol);

/* From now on the stream speaks TLS: between its opening and its first byte. @p host, a name or an
 * address, is who must be there. Calls for the same dlk_tls must not overlap. NULL, or why not. */
dlock_error *dlk_tls_begin(dlk_tls *tls, dlk_stream *stream, const char *host,
                           uint16_t port);

/* Whether the server isn't checked: tls.verify=insecure_none. */
bool dlk_tls_blind(const dlk_tls *tls);
/* What was agreed on a stream that is up, for people: "TLSv1.3, TLS_AES_256_GCM_SHA384", and until
 * when (s since 1970) the server's certificate is valid, or -1. */
void dlk_tls_describe(const dlk_stream *stream, char *text, size_t size,
                      int64_t *ret_valid_until);
/* Whether the other side has not said a word so far. Any thread. */
bool dlk_tls_unanswered(const dlk_stream *stream);
/* For who has TLS by another library that uses OpenSSL, in our words: why a certificate isn't accepted
 * (X509_V_ERR_…), and what an error of the queue comes to. NULL: we have none. */
const char *dlk_tls_verdict(long verify);
const char *dlk_tls_reason(unsigned long error);
/* Whether the handshake continued an earlier session. */
bool dlk_tls_resumed(const dlk_stream *stream);

#endif
