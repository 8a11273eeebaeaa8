/* What became of a request that got no answer, in our words: libcurl's are for who knows libcurl. */
#include "backends/etcd/wire.h"

#include "net/tls.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct meaning {
    CURLcode code;
    const char *text;
} meaning;

static const meaning meanings[] = {
    {CURLE_GOT_NOTHING, "the connection was closed before it answered"},
    {CURLE_PARTIAL_FILE, "the connection was closed in the midst of the answer"},
    {CURLE_UNSUPPORTED_PROTOCOL, "it doesn't answer in HTTP: is it etcd?"},
    {CURLE_WEIRD_SERVER_REPLY, "it doesn't answer in HTTP: is it etcd?"},
    {CURLE_WRITE_ERROR, "its answer is longer than any of etcd's"},
    {CURLE_SSL_CRL_BADFILE, "tls.crl_file can't be read, or has no list"},
    {CURLE_SSL_CERTPROBLEM, "tls.cert_file and tls.key_file can't be used together, or "
                            "tls.key_password_file is wrong"},
    {CURLE_SSL_CIPHER, "TLS failed: no cipher is common"},
};

static long number_of(const dlk_etcd_call *call, CURLINFO info)
{
    long value = 0;
    if (call->easy)
        (void)curl_easy_getinfo(call->easy, info, &value);
    return value;
}

/* Its numbers mean what they mean to OpenSSL only if that is below libcurl. */
static bool is_openssl(void)
{
    const curl_version_info_data *info = curl_version_info(CURLVERSION_NOW);
    return info->ssl_version && strncmp(info->ssl_version, "OpenSSL/", 8) == 0;
}

/* OpenSSL's error as it stands in libcurl's words: "error:0A00010B:SSL routines::…". */
static const char *tls_reason(const char *said)
{
    const char *at = strstr(said, "error:");
    unsigned long error = at ? strtoul(at + 6, NULL, 16) : 0;
    return error && is_openssl() ? dlk_tls_reason(error) : NULL;
}

/* "what", or "what: Connection reset by peer" where the system has said so. */
static void say_errno(dlk_etcd_call *call, const char *what)
{
    char why[128];
    int number = (int)number_of(call, CURLINFO_OS_ERRNO);
    snprintf(call->why, sizeof(call->why), "%s%s%s", what, number ? ": " : "",
             number ? dlk_error_errno(number, why, sizeof(why)) : "");
}

static void say(dlk_etcd_call *call, const char *text)
{
    snprintf(call->why, sizeof(call->why), "%s", text);
}

static void say_late(const dlk_etcd_wire *wire, dlk_etcd_call *call)
{
    const char *what = "no connection";
    long long ms = dlk_settings_int(wire->settings, DLK_KEY_CLIENT_CONNECT_MS);
    if (call->timeout_ms > 0 && call->timeout_ms < ms)
        ms = call->timeout_ms;
    if (call->begun) {
        what = "no answer";
        ms = call->timeout_ms;
    }
    snprintf(call->why, sizeof(call->why), "%s within %lld ms%s", what, ms,
             wire->tls && !call->begun ? " (is that its port for TLS?)" : "");
}

/* Who had to be there: the URL's host, without brackets. */
static void say_not_for(const dlk_etcd_wire *wire, dlk_etcd_call *call)
{
    const char *host = strstr(wire->way->url, "://") + 3;
    size_t size = (size_t)(strrchr(host, ':') - host);
    if (host[0] == '[') {
        host++;
        size -= 2;
    }
    snprintf(call->why, sizeof(call->why), "its certificate is not for %.*s", (int)size,
             host);
}

/* What libcurl says where OpenSSL has had nothing to say: after a chain that is accepted only the name
 * is left to be wrong. */
#define UNSAID 1

static void say_unaccepted(const dlk_etcd_wire *wire, dlk_etcd_call *call)
{
    long verify = number_of(call, CURLINFO_SSL_VERIFYRESULT);
    const char *verdict = is_openssl() ? dlk_tls_verdict(verify) : NULL;
    if (is_openssl() && (verify == 0 || verify == UNSAID))
        say_not_for(wire, call);
    else
        say(call, verdict ? verdict : "its certificate is not accepted (tls.ca_file)");
}

static void say_no_authority(const dlk_etcd_wire *wire, dlk_etcd_call *call)
{
    const dlk_settings *settings = wire->settings;
    const char *what = "what the system trusts";
    if (dlk_settings_text(settings, DLK_KEY_TLS_CA_FILE)[0])
        what = "tls.ca_file";
    else if (dlk_settings_text(settings, DLK_KEY_TLS_CA_DIR)[0])
        what = "tls.ca_dir";
    snprintf(call->why, sizeof(call->why), "%s can't be read, or has no certificate",
             what);
}

static void say_lost(dlk_etcd_call *call, const char *said, const char *what)
{
    const char *reason = tls_reason(said);
    if (reason)
        say(call, reason);
    else
        say_errno(call, what);
}

static void say_other(dlk_etcd_call *call)
{
    for (size_t i = 0; i < sizeof(meanings) / sizeof(*meanings); i++) {
        if (meanings[i].code != call->code)
            continue;
        say(call, meanings[i].text);
        return;
    }
    snprintf(call->why, sizeof(call->why), "the request failed (libcurl's number %d)",
             (int)call->code);
}

void dlk_etcd_explain(const dlk_etcd_wire *wire, dlk_etcd_call *call)
{
    char said[CURL_ERROR_SIZE];
    memcpy(said, call->why, sizeof(said));
    said[sizeof(said) - 1] = '\0';
    call->why[0] = '\0';
    switch ((int)call->code) { /* the enum has a hundred others */
    case CURLE_OK:
        break;
    case CURLE_ABORTED_BY_CALLBACK:
        say(call, call->cut ? "the connection was cut" : "the connection was given up");
        break;
    case CURLE_COULDNT_CONNECT:
        say_errno(call, "can't connect");
        break;
    case CURLE_OPERATION_TIMEDOUT:
        say_late(wire, call);
        break;
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
        say_lost(call, said, "the connection was lost");
        break;
    case CURLE_SSL_CONNECT_ERROR:
        say_lost(call, said, "TLS failed");
        break;
    case CURLE_PEER_FAILED_VERIFICATION:
        say_unaccepted(wire, call);
        break;
    case CURLE_SSL_CACERT_BADFILE:
        say_no_authority(wire, call);
        break;
    default:
        say_other(call);
        break;
    }
}
