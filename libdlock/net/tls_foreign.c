/*
 * See the header. The list is guarded by dlk_loaded_begin: no fork comes in between, of which the child would
 * find a mutex taken for ever.
 */
#include "net/tls_foreign.h"

#include "net/tls_inner.h"
#include "util/error.h"
#include "util/loaded.h"

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
    _Atomic bool checked;
};

static dlk_list all = {&all, &all};
static uint32_t last_number; /* likewise */
static bool is_called;       /* likewise */
/* A context of our own is being made, in a thread of that name. */
static _Thread_local bool inside;

/* ---- the certificate ---- */

static bool is_for(X509 *certificate, const char *host)
{
    if (dlk_tls_is_address(host))
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

/* Whether the chain is a good one by our authorities and revoked ones, as OpenSSL judges by itself. */
static bool is_trusted(SSL_CTX *context, X509_STORE_CTX *asked, const SSL *ssl)
{
    X509_STORE_CTX *ours = X509_STORE_CTX_new();
    bool good = ours &&
                X509_STORE_CTX_init(ours, SSL_CTX_get_cert_store(context),
                                    X509_STORE_CTX_get0_cert(asked),
                                    X509_STORE_CTX_get0_untrusted(asked)) &&
                X509_STORE_CTX_set_default(ours, "ssl_server");
    if (good) {
        X509_VERIFY_PARAM_set_auth_level(X509_STORE_CTX_get0_param(ours),
                                         SSL_get_security_level(ssl));
        good = X509_verify_cert(ours) == 1;
        X509_STORE_CTX_set_error(asked, X509_STORE_CTX_get_error(ours));
    }
    X509_STORE_CTX_free(ours);
    return good;
}

static bool is_accepted(dlk_tls_foreign *foreign, X509_STORE_CTX *asked, const SSL *ssl)
{
    inside = true;
    SSL_CTX *context = dlk_tls_context(foreign->tls, NULL);
    inside = false;
    if (!context || SSL_version(ssl) < SSL_CTX_get_min_proto_version(context))
        return false;
    if (dlk_tls_blind(foreign->tls))
        return true;
    if (!is_trusted(context, asked, ssl))
        return false;
    if (!dlk_tls_checks_names(foreign->tls) ||
        is_for_one(foreign, X509_STORE_CTX_get0_cert(asked)))
        return true;
    X509_STORE_CTX_set_error(asked, X509_V_ERR_HOSTNAME_MISMATCH);
    return false;
}

/* In the place of OpenSSL's own look at the certificates, by what the library has told it to trust. */
static int judge(X509_STORE_CTX *asked, void *arg)
{
    dlk_tls_foreign *foreign = arg;
    const SSL *ssl =
        X509_STORE_CTX_get_ex_data(asked, SSL_get_ex_data_X509_STORE_CTX_idx());
    X509_STORE_CTX_set_error(asked, X509_V_ERR_APPLICATION_VERIFICATION);
    if (!ssl || !is_accepted(foreign, asked, ssl))
        return 0;
    X509_STORE_CTX_set_error(asked, X509_V_OK);
    atomic_store(&foreign->checked, true);
    return 1;
}

/* ---- the birth of a context ---- */

static dlk_tls_foreign *find(const char *name)
{
    DLK_LIST_FOR (it, &all) {
        dlk_tls_foreign *foreign = DLK_LIST_ITEM(it, dlk_tls_foreign, link);
        if (strcmp(foreign->name, name) == 0)
            return foreign;
    }
    return NULL;
}

/* Of a context that is only half made, so nothing may be done with it but this, which sets two words. */
static void on_context(void *parent, void *data, CRYPTO_EX_DATA *room, int number,
                       long more, void *still_more)
{
    (void)data, (void)room, (void)number, (void)more, (void)still_more;
    char name[16];
    if (inside || pthread_getname_np(pthread_self(), name, sizeof(name)) != 0 ||
        strncmp(name, NAME, sizeof(NAME) - 1) != 0)
        return;
    dlk_loaded_begin();
    dlk_tls_foreign *foreign = find(name);
    dlk_loaded_end();
    if (foreign) /* else it is another libdlock's in this process */
        SSL_CTX_set_cert_verify_callback(parent, judge, foreign);
}

/* libdlock.so isn't unloaded (-z nodelete): it may be called for as long as OpenSSL is there. */
static bool ask_to_be_called(void)
{
    dlk_loaded_begin();
    is_called = is_called || CRYPTO_get_ex_new_index(CRYPTO_EX_INDEX_SSL_CTX, 0, NULL,
                                                     on_context, NULL, NULL) >= 0;
    bool called = is_called;
    dlk_loaded_end();
    return called;
}

/* ---- life ---- */

static void enlist(dlk_tls_foreign *foreign)
{
    dlk_loaded_begin();
    do
        (void)snprintf(foreign->name, sizeof(foreign->name), NAME "%x",
                       ++last_number & NUMBERS);
    while (find(foreign->name));
    dlk_list_append(&all, &foreign->link);
    dlk_loaded_end();
}

dlock_err dlk_tls_foreign_new(const dlk_settings *settings, dlk_tls_foreign **ret,
                              dlock_error **err)
{
    dlk_tls_foreign *foreign = calloc(1, sizeof(*foreign));
    if (!foreign)
        return dlk_error_nomem(err);
    dlk_list_init(&foreign->link);
    dlock_err code = dlk_tls_new(settings, &foreign->tls, err);
    if (code == DLOCK_OK && !ask_to_be_called())
        code = dlk_error_nomem(err);
    if (code != DLOCK_OK) {
        dlk_tls_foreign_free(foreign);
        return code;
    }
    enlist(foreign);
    *ret = foreign;
    return DLOCK_OK;
}

void dlk_tls_foreign_free(dlk_tls_foreign *foreign)
{
    if (!foreign)
        return;
    dlk_loaded_begin();
    dlk_list_remove(&foreign->link);
    dlk_loaded_end();
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
