/* What the files that make up net/tls share. */
#ifndef DLK_NET_TLS_INNER_H
#define DLK_NET_TLS_INNER_H

#include "net/tls.h"
#include "openssl_calls.h"
#include "util/list.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/stat.h>

#define DLK_TLS_RAW    (16384 + 512) /* a record fits */
#define DLK_TLS_FILES  6             /* what settings name, in the order of their keys */
#define DLK_TLS_PLACES 64            /* sessions that are kept at most */

struct dlk_tls {
    dlk_settings *settings;
    const char *protocol;             /* dlk_tls_speak; or NULL */
    SSL_CTX *context;                 /* written with the mutex as well */
    struct stat files[DLK_TLS_FILES]; /* as they were when the context was made */

    /* guards what follows: sessions come while nobody has the client's */
    pthread_mutex_t mutex;
    dlk_list sessions; /* the one used last first */
    size_t session_count;
};

/* One stream's. */
typedef struct dlk_tls_coat {
    dlk_coat base;
    dlk_tls *tls;
    SSL *ssl;
    char *peer;            /* "host:port", to find the session by */
    char *host;            /* who must be there, for messages */
    pthread_mutex_t mutex; /* guards what follows; never held while anything waits */
    dlk_buf cipher;        /* what the socket has not yet taken */
    bool no_memory;
    bool reading;       /* OpenSSL may take from `raw`, which is the driver's */
    _Atomic bool heard; /* the server has said something, `first` is its first byte */
    unsigned char first;
    size_t raw_start, raw_end;
    char raw[DLK_TLS_RAW];
} dlk_tls_coat;

static inline bool dlk_tls_is_address(const char *host)
{
    struct in6_addr any;
    return inet_pton(AF_INET, host, &any) == 1 || inet_pton(AF_INET6, host, &any) == 1;
}

/* Whether the certificate has to be for whoever was asked for. */
static inline bool dlk_tls_checks_names(const dlk_tls *tls)
{
    return strcmp(dlk_settings_word(tls->settings, DLK_KEY_TLS_VERIFY), "full") == 0;
}

/* The context for a new connection, made anew where a file has changed. NULL: *err says why. */
SSL_CTX *dlk_tls_context(dlk_tls *tls, dlock_error **err);

/* OpenSSL's callback for a certificate that isn't accepted: notes why. */
int dlk_tls_judge(int accepted, X509_STORE_CTX *store);
/* Says why the stream has failed, from what OpenSSL left behind. Once. */
void dlk_tls_explain(dlk_tls_coat *coat);

/* Takes a session over for later connections to the peer. */
int dlk_tls_keep(SSL *ssl, SSL_SESSION *session);
/* The session to go on with, a reference of the caller's; or NULL. */
SSL_SESSION *dlk_tls_session(dlk_tls *tls, const char *peer);

#endif
