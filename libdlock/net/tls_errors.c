/* What went wrong with TLS, in words that say what to do. OpenSSL's own are for those who know it. */
#include "net/tls_inner.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define UNTRUSTED                                                                        \
    "its certificate comes from an authority that is not trusted (tls.ca_file)"
#define NO_TLS                                                                           \
    "that port doesn't begin with TLS: use a URI without it, or the server's port for "  \
    "TLS"

/* Of two reasons the first counts. Whatever comes from a certificate may be anything. */
static __attribute__((format(printf, 3, 4))) void say(dlk_tls_coat *coat, dlock_err code,
                                                      const char *format, ...)
{
    if (coat->base.code)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(coat->base.why, sizeof(coat->base.why), format, args);
    va_end(args);
    for (char *at = coat->base.why; *at; at++)
        if (*at < ' ' || *at > '~')
            *at = '?';
    coat->base.code = code;
}

/* ---- Certificates ---- */

static const char *date_of(const ASN1_TIME *time, char text[32])
{
    struct tm is;
    if (!ASN1_TIME_to_tm(time, &is) || !strftime(text, 32, "%Y-%m-%d %H:%M UTC", &is))
        snprintf(text, 32, "an unknown time");
    return text;
}

static void add_name(char *text, size_t size, const char *name, size_t length)
{
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%.*s", used ? ", " : "", (int)length, name);
}

static void add_general_name(char *text, size_t size, const GENERAL_NAME *name)
{
    char address[INET6_ADDRSTRLEN];
    if (name->type == GEN_DNS) {
        add_name(text, size, (const char *)ASN1_STRING_get0_data(name->d.dNSName),
                 (size_t)ASN1_STRING_length(name->d.dNSName));
    } else if (name->type == GEN_IPADD) {
        int length = ASN1_STRING_length(name->d.iPAddress);
        int family = length == 4 ? AF_INET : AF_INET6;
        if ((length == 4 || length == 16) &&
            inet_ntop(family, ASN1_STRING_get0_data(name->d.iPAddress), address,
                      sizeof(address)))
            add_name(text, size, address, strlen(address));
    }
}

/* The hosts that a certificate is for. */
static const char *hosts_of(const X509 *certificate, char *text, size_t size)
{
    text[0] = '\0';
    GENERAL_NAMES *names =
        X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++)
        add_general_name(text, size, sk_GENERAL_NAME_value(names, i));
    GENERAL_NAMES_free(names);
    if (!text[0])
        snprintf(text, size, "no host at all (it has no subjectAltName)");
    return text;
}

/* Whose certificate it is that is refused. */
static const char *whose(int depth)
{
    return depth == 0 ? "its certificate" : "the certificate of its authority";
}

static void judge_dates(dlk_tls_coat *coat, const X509 *certificate, int depth,
                        bool early)
{
    char date[32];
    if (early)
        say(coat, DLOCK_EACCES, "%s is not valid before %s", whose(depth),
            date_of(X509_get0_notBefore(certificate), date));
    else
        say(coat, DLOCK_EACCES, "%s has expired: it was valid until %s", whose(depth),
            date_of(X509_get0_notAfter(certificate), date));
}

/* For who knows no more than the number. */
static const struct {
    int error;
    const char *text;
} verdicts[] = {
    {X509_V_ERR_CERT_HAS_EXPIRED, "its certificate has expired"},
    {X509_V_ERR_CERT_NOT_YET_VALID, "its certificate is not valid yet"},
    {X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT,
     "its certificate is self-signed and not one that tls.ca_file trusts"},
    {X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, UNTRUSTED},
    {X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, UNTRUSTED},
    {X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, UNTRUSTED},
    {X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, UNTRUSTED},
    {X509_V_ERR_CERT_REVOKED, "its certificate was revoked (tls.crl_file)"},
    {X509_V_ERR_UNABLE_TO_GET_CRL,
     "tls.crl_file has no list of the authority that issued its certificate"},
    {X509_V_ERR_CRL_HAS_EXPIRED, "the list in tls.crl_file has expired: whether its "
                                 "certificate was revoked is unknown"},
};

const char *dlk_tls_verdict(long verify)
{
    for (size_t i = 0; i < sizeof(verdicts) / sizeof(verdicts[0]); i++)
        if (verdicts[i].error == verify)
            return verdicts[i].text;
    return dlk_loaded_need(&dlk_openssl, NULL) == DLOCK_OK
               ? X509_verify_cert_error_string(verify)
               : NULL;
}

bool dlk_tls_blind(const dlk_tls *tls)
{
    return strcmp(dlk_settings_word(tls->settings, DLK_KEY_TLS_VERIFY),
                  "insecure_none") == 0;
}

int dlk_tls_judge(int accepted, X509_STORE_CTX *store)
{
    const SSL *ssl =
        X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    dlk_tls_coat *coat = SSL_get_app_data(ssl);
    /* What is tolerated must not be what a later failure is told as. */
    if (accepted || dlk_tls_blind(coat->tls))
        return accepted;
    const X509 *certificate = X509_STORE_CTX_get_current_cert(store);
    int depth = X509_STORE_CTX_get_error_depth(store);
    int error = X509_STORE_CTX_get_error(store);
    char hosts[200];
    switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
        judge_dates(coat, certificate, depth, error == X509_V_ERR_CERT_NOT_YET_VALID);
        break;
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        say(coat, DLOCK_EACCES, "%s", dlk_tls_verdict(error));
        break;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        say(coat, DLOCK_EACCES, "its certificate is not for %.100s but for %s",
            coat->host, hosts_of(certificate, hosts, sizeof(hosts)));
        break;
    case X509_V_ERR_CERT_REVOKED:
        say(coat, DLOCK_EACCES, "%s was revoked (tls.crl_file)", whose(depth));
        break;
    case X509_V_ERR_UNABLE_TO_GET_CRL:
        say(coat, DLOCK_EACCES,
            "tls.crl_file has no list of the authority that issued %s", whose(depth));
        break;
    case X509_V_ERR_CRL_HAS_EXPIRED:
        say(coat, DLOCK_EACCES,
            "the list in tls.crl_file has expired: whether %s was revoked is unknown",
            whose(depth));
        break;
    default:
        say(coat, DLOCK_EACCES, "%s is refused: %s", whose(depth),
            X509_verify_cert_error_string(error));
    }
    return accepted;
}

/* ---- All else ---- */

typedef struct meaning {
    int reason;
    dlock_err code;
    const char *text;
} meaning;

static const meaning meanings[] = {
    {SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED, DLOCK_EACCES,
     "the server asks for a certificate of ours (tls.cert_file)"},
    {SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE, DLOCK_EACCES,
     "the server refuses the handshake: it may ask for a certificate of ours "
     "(tls.cert_file), or no cipher is common"},
    {SSL_R_SSLV3_ALERT_BAD_CERTIFICATE, DLOCK_EACCES,
     "the server refuses our certificate (tls.cert_file)"},
    {SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE, DLOCK_EACCES,
     "the server refuses our certificate (tls.cert_file): it is not for clients"},
    {SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED, DLOCK_EACCES,
     "the server refuses our certificate (tls.cert_file): it was revoked"},
    {SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED, DLOCK_EACCES,
     "the server refuses our certificate (tls.cert_file): it has expired"},
    {SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN, DLOCK_EACCES,
     "the server refuses our certificate (tls.cert_file)"},
    {SSL_R_TLSV1_ALERT_UNKNOWN_CA, DLOCK_EACCES,
     "the server refuses our certificate (tls.cert_file): it doesn't know its authority"},
    {SSL_R_TLSV1_ALERT_ACCESS_DENIED, DLOCK_EACCES,
     "the server refuses our certificate (tls.cert_file)"},
    {SSL_R_TLSV1_UNRECOGNIZED_NAME, DLOCK_EACCES,
     "the server knows no host of the name we asked for"},
    {SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, DLOCK_EPROTO,
     "the server speaks no version of TLS that we accept (tls.min_version)"},
    {SSL_R_UNSUPPORTED_PROTOCOL, DLOCK_EPROTO,
     "the server speaks no version of TLS that we accept (tls.min_version)"},
    {SSL_R_TLSV1_ALERT_INTERNAL_ERROR, DLOCK_EUNAVAIL,
     "the server reports an error of its own in the TLS handshake"},
};

const char *dlk_tls_reason(unsigned long error)
{
    if (ERR_GET_LIB(error) == ERR_LIB_SSL &&
        ERR_GET_REASON(error) == SSL_R_WRONG_VERSION_NUMBER)
        return NO_TLS; /* of a record: it is none */
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
        if (ERR_GET_LIB(error) == ERR_LIB_SSL &&
            meanings[i].reason == ERR_GET_REASON(error))
            return meanings[i].text;
    return dlk_loaded_need(&dlk_openssl, NULL) == DLOCK_OK
               ? ERR_reason_error_string(error)
               : NULL;
}

enum { RECORD_ALERT = 0x15, RECORD_HANDSHAKE = 0x16 };

void dlk_tls_explain(dlk_tls_coat *coat)
{
    unsigned long error = ERR_peek_error();
    int reason = ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0;
    if (coat->no_memory || ERR_GET_REASON(error) == ERR_R_MALLOC_FAILURE)
        say(coat, DLOCK_ENOMEM, "TLS: out of memory");
    if (atomic_load(&coat->heard) && coat->first != RECORD_ALERT &&
        coat->first != RECORD_HANDSHAKE)
        say(coat, DLOCK_EPROTO, NO_TLS);
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
        if (meanings[i].reason == reason)
            say(coat, meanings[i].code, "%s", meanings[i].text);
    const char *words = error ? ERR_reason_error_string(error) : NULL;
    say(coat, DLOCK_EPROTO, "TLS failed: %s", words ? words : "for an unknown reason");
}
