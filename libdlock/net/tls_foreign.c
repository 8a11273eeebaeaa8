/* See the header. What is called from the library's threads has the list's mutex, and never waits. */
#include "net/tls_foreign.h"

#include "net/tls_inner.h"
#include "util/error.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME    "dlock-tls-" /* and a number, of which 15 characters leave five digits */
#define NUMBERS 0xfffffu

struct dlk_tls_foreign {
    dlk_list link; /* in `all` */
    dlk_tls *tls;
    char name[16];
    char **hosts; /* the certificate is to be for one of them; NULL behind the last */
    size_t host_count;
    bool full;
    _Atomic bool checked;
};

static pthread_mutex_t all_mutex = PTHREAD_MUTEX_INITIALIZER;
static dlk_list all = {&all, &all}; /* under the mutex */
static uint32_t last_number;        /* likewise */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int place = -1; /* of ours in each SSL */

/* ---- the certificate ---- */

static bool is_for(X509 *certificate, const char *host)
{
    struct in6_addr any;
    if (inet_pton(AF_INET, host, &any) == 1 || inet_pton(AF_INET6, host, &any) == 1)
        return X509_check_ip_asc(certificate, host, 0) == 1;
    return X509_check_host(certificate, host, 0,
                           X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
                               X509_CHECK_FLAG_NEVER_CHECK_SUBJECT,
                           NULL) == 1;
}

static bool is_for_one(const dlk_tls_foreign *foreign, X509 *certificate)
{
    for (size_t i = 0; i < foreign->host_count; i++)
        if (is_for(certificate, foreign->hosts[i]))
            return true;
    return false;
}

/* OpenSSL asks for each certificate of a chain whose signatures are right, the server's own last; and
 * before that, for what is wrong with one. */
static int judge(int accepted, X509_STORE_CTX *store)
{
    const SSL *ssl =
        X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    dlk_tls_foreign *foreign = ssl ? SSL_get_ex_data(ssl, place) : NULL;
    if (!foreign || !accepted)
        return 0;
    if (X509_STORE_CTX_get_error_depth(store) > 0)
        return 1;
    if (foreign->full && !is_for_one(foreign, X509_STORE_CTX_get_current_cert(store))) {
        X509_STORE_CTX_set_error(store, X509_V_ERR_HOSTNAME_MISMATCH);
        return 0;
    }
    atomic_store(&foreign->checked, true);
    return 1;
}

/* ---- the birth of an SSL ---- */

static dlk_tls_foreign *find(const char *name)
{
    DLK_LIST_FOR (it, &all) {
        dlk_tls_foreign *foreign = DLK_LIST_ITEM(it, dlk_tls_foreign, link);
        if (strcmp(foreign->name, name) == 0)
            return foreign;
    }
    return NULL;
}

/* Whatever fails here leaves an SSL that accepts nobody. */
static void hold_to(dlk_tls_foreign *foreign, SSL *ssl)
{
    bool blind = dlk_tls_blind(foreign->tls), newest = false;
    SSL_set_verify(ssl, SSL_VERIFY_PEER, judge);
    SSL_CTX *context = dlk_tls_context(foreign->tls, NULL);
    if (!context)
        return;
    newest = SSL_CTX_get_min_proto_version(context) == TLS1_3_VERSION;
    if (!SSL_set1_verify_cert_store(ssl, SSL_CTX_get_cert_store(context)) ||
        !SSL_set_min_proto_version(ssl, newest ? TLS1_3_VERSION : TLS1_2_VERSION) ||
        !SSL_set_ex_data(ssl, place, foreign))
        return;
    if (blind) {
        SSL_set_verify(ssl, SSL_VERIFY_NONE, judge);
        atomic_store(&foreign->checked, true);
    }
}

static void on_ssl(void *parent, void *data, CRYPTO_EX_DATA *room, int number, long more,
                   void *still_more)
{
    (void)data, (void)room, (void)number, (void)more, (void)still_more;
    char name[16];
    if (pthread_getname_np(pthread_self(), name, sizeof(name)) != 0 ||
        strncmp(name, NAME, sizeof(NAME) - 1) != 0)
        return;
    (void)pthread_mutex_lock(&all_mutex);
    dlk_tls_foreign *foreign = find(name);
    if (foreign)
        hold_to(foreign, parent);
    else
        SSL_set_verify(parent, SSL_VERIFY_PEER, judge);
    (void)pthread_mutex_unlock(&all_mutex);
}

/* libdlock.so isn't unloaded (-z nodelete): it may be called for as long as OpenSSL is there. */
static void ask_to_be_called(void)
{
    place = CRYPTO_get_ex_new_index(CRYPTO_EX_INDEX_SSL, 0, NULL, on_ssl, NULL, NULL);
}

/* ---- life ---- */

static void enlist(dlk_tls_foreign *foreign)
{
    (void)pthread_mutex_lock(&all_mutex);
    do
        (void)snprintf(foreign->name, sizeof(foreign->name), NAME "%x",
                       ++last_number & NUMBERS);
    while (find(foreign->name));
    dlk_list_append(&all, &foreign->link);
    (void)pthread_mutex_unlock(&all_mutex);
}

dlock_err dlk_tls_foreign_new(const dlk_settings *settings, dlk_tls_foreign **ret,
                              dlock_error **err)
{
    dlk_tls_foreign *foreign = calloc(1, sizeof(*foreign));
    if (!foreign)
        return dlk_error_nomem(err);
    dlk_list_init(&foreign->link);
    dlock_err code = dlk_tls_new(settings, &foreign->tls, err);
    if (code == DLOCK_OK) {
        (void)pthread_once(&once, ask_to_be_called);
        if (place < 0)
            code = dlk_error_nomem(err);
    }
    if (code != DLOCK_OK) {
        dlk_tls_foreign_free(foreign);
        return code;
    }
    foreign->full = strcmp(dlk_settings_word(settings, DLK_KEY_TLS_VERIFY), "full") == 0;
    enlist(foreign);
    *ret = foreign;
    return DLOCK_OK;
}

void dlk_tls_foreign_free(dlk_tls_foreign *foreign)
{
    if (!foreign)
        return;
    (void)pthread_mutex_lock(&all_mutex);
    dlk_list_remove(&foreign->link);
    (void)pthread_mutex_unlock(&all_mutex);
    dlk_tls_free(foreign->tls);
    for (size_t i = 0; i < foreign->host_count; i++)
        free(foreign->hosts[i]);
    free(foreign->hosts);
    free(foreign);
}

bool dlk_tls_foreign_expect(dlk_tls_foreign *foreign, const char *host)
{
    char *copy = strdup(host);
    char **grown =
        copy ? realloc(foreign->hosts, (foreign->host_count + 1) * sizeof(*grown)) : NULL;
    if (!grown) {
        free(copy);
        return false;
    }
    foreign->hosts = grown;
    foreign->hosts[foreign->host_count++] = copy;
    return true;
}

const char *dlk_tls_foreign_thread(const dlk_tls_foreign *foreign)
{
    return foreign->name;
}

bool dlk_tls_foreign_checked(dlk_tls_foreign *foreign)
{
    return atomic_exchange(&foreign->checked, false);
}
