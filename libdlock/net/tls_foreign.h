/*
 * The TLS of another library that uses OpenSSL and lets nobody near its connections: they are held to our
 * own settings all the same.
 *
 * OpenSSL calls whoever has asked for it at the birth of each SSL_CTX, in the thread that makes it. A
 * library's own thread is known by its name there, which a thread has from the one that starts it (on
 * Linux). So whoever connects by a context that is made in a thread of a foreign's name has its certificate
 * looked at by us: its authorities, the revoked ones, names and version say yes or no in the handshake,
 * before a byte of what the library has to say is sent. Nobody else's context is touched.
 * Whoever uses this asks after each connection whether there was such a look: an OpenSSL that isn't ours,
 * as one that is inside of the library, doesn't call.
 */
#ifndef DLK_NET_TLS_FOREIGN_H
#define DLK_NET_TLS_FOREIGN_H

#include "net/tls.h"

typedef struct dlk_tls_foreign dlk_tls_foreign;

/* By the keys tls.*, as dlk_tls_new, and with its errors. */
dlock_err dlk_tls_foreign_new(const dlk_settings *settings, dlk_tls_foreign **ret,
                              dlock_error **err);
/* When the library has no thread left. NULL is fine. */
void dlk_tls_foreign_free(dlk_tls_foreign *foreign);
/* A name or an address that a certificate may be for; without memory false. Before the library begins. */
bool dlk_tls_foreign_expect(dlk_tls_foreign *foreign, const char *host);
/* What the thread has to be called that starts the library's. */
const char *dlk_tls_foreign_thread(const dlk_tls_foreign *foreign);
/* Whether a certificate was accepted, or isn't to be looked at, since this was asked last. Any thread. */
bool dlk_tls_foreign_checked(dlk_tls_foreign *foreign);

#endif
