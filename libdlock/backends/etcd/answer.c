/* What an answer of the gateway comes to, and how to say what it is when it isn't one. */
#include "backends/etcd/inner.h"

#include "util/error.h"

#include <stdio.h>
#include <string.h>

/* As long as a host's name may be, with brackets and a port. */
#define PLACE_MAX 264

/* gRPC's codes, as the gateway passes them on. */
enum {
    GRPC_INVALID = 3,
    GRPC_LATE = 4,
    GRPC_NOT_FOUND = 5,
    GRPC_DENIED = 7,
    GRPC_EXHAUSTED = 8,
    GRPC_NOT_READY = 9,
    GRPC_UNKNOWN = 2,
    GRPC_ABORTED = 10,
    GRPC_INTERNAL = 13,
    GRPC_UNAVAILABLE = 14,
    GRPC_UNAUTHENTICATED = 16,
};

/* ---- words ---- */

/* The gateway wraps what comes as a stream. */
static const json_t *unwrap(const dlk_etcd_call *call)
{
    const json_t *error = json_object_get(call->json, "error");
    if (json_is_object(error))
        return error;
    return call->json;
}

static const char *words_of(const dlk_etcd_call *call)
{
    const char *text = dlk_json_text(unwrap(call), "message");
    if (!text[0])
        text = dlk_json_text(unwrap(call), "error");
    if (text[0])
        return text;
    return call->why[0] ? call->why : "no answer";
}

/* What a request is for, by its path. */
static const char *what_of(const dlk_etcd_call *call)
{
    static const struct {
        const char *path, *what;
    } all[] = {
        {"/v3/auth/authenticate", "sign on"},
        {"/v3/lease/grant", "get a lease"},
        {"/v3/lease/keepalive", "renew the lease"},
        {"/v3/kv/range", "read keys"},
        {"/v3/kv/txn", "use keys"},
        {"/v3/cluster/member/list", "list members"},
        {"/v3/maintenance/status", "ask for its state"},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        if (strcmp(all[i].path, call->path) == 0)
            return all[i].what;
    return "ask";
}

/* "host:port", "[address]:port". */
static const char *place_of(const dlk_etcd *et, char text[PLACE_MAX])
{
    const char *host = dlk_etcd_host(et);
    bool six = strchr(host, ':') != NULL;
    snprintf(text, PLACE_MAX, "%s%s%s:%u", six ? "[" : "", host, six ? "]" : "",
             et->hosts[et->host].port);
    return text;
}

static dlock_error *no_answer(const dlk_etcd *et, const dlk_etcd_call *call,
                              dlock_err code, const char *what)
{
    char place[PLACE_MAX], status[64];
    if (call->epoch != et->epoch) /* whose it was isn't known any more */
        return dlk_error_make(code, "etcd: can't %s: the connection was given up", what);
    snprintf(status, sizeof(status), "it answers with status %ld", call->status);
    bool silent = !call->status || call->json || call->why[0];
    return dlk_error_make(code, "etcd: can't %s at %s: %s", what, place_of(et, place),
                          silent ? words_of(call) : status);
}

bool dlk_etcd_says(const dlk_etcd_call *call, const char *words)
{
    return strstr(words_of(call), words) != NULL;
}

dlock_error *dlk_etcd_error(const dlk_etcd *et, const dlk_etcd_call *call,
                            const char *what)
{
    char place[PLACE_MAX];
    what = what ? what : what_of(call);
    if (call->no_memory || call->code == CURLE_OUT_OF_MEMORY)
        return dlk_error_make(DLOCK_ENOMEM, "etcd: no memory for a request");
    (void)place_of(et, place);
    dlock_error *error = NULL;
    switch (call->end) {
    case DLK_ETCD_DENIED:
    case DLK_ETCD_NO_TOKEN:
        if (et->user)
            error = dlk_error_make(DLOCK_EACCES, "etcd: user %s may not %s at %s: %s",
                                   et->user, what, place, words_of(call));
        else
            error = dlk_error_make(DLOCK_EACCES,
                                   "etcd: may not %s at %s without auth.username: %s",
                                   what, place, words_of(call));
        break;
    case DLK_ETCD_BUSY:
        error = dlk_error_make(DLOCK_EUNAVAIL, "etcd: can't %s at %s now: %s", what,
                               place, words_of(call));
        break;
    case DLK_ETCD_NO_LEASE:
        error = dlk_error_make(DLOCK_EUNAVAIL, "etcd: the lease has expired, or somebody "
                                               "has revoked it");
        break;
    case DLK_ETCD_BAD:
        if (call->status == 404 && !json_is_object(call->json))
            error = dlk_error_make(
                DLOCK_EPROTO,
                "etcd: %s has no %s: its JSON gateway is switched off "
                "(--enable-grpc-gateway=false), or this is no etcd of 3.4 or newer",
                place, call->path);
        else if (call->code != CURLE_OK)
            error = no_answer(et, call, DLOCK_EPROTO, what);
        else
            error = dlk_error_make(DLOCK_EPROTO, "etcd: can't %s at %s: status %ld, %s",
                                   what, place, call->status,
                                   json_is_object(call->json) ? words_of(call)
                                                              : "which isn't etcd's");
        break;
    case DLK_ETCD_OK:
    case DLK_ETCD_CUT:
        error = no_answer(et, call, DLOCK_EUNAVAIL, what);
        break;
    }
    return error;
}

/* ---- what an answer is ---- */

/* What another try doesn't mend. */
static bool is_final(CURLcode code)
{
    switch ((int)code) {             /* the enum has a hundred others */
    case CURLE_UNSUPPORTED_PROTOCOL: /* answers that aren't HTTP */
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_WRITE_ERROR:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CRL_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_INVALIDCERTSTATUS:
        return true;
    default:
        return false;
    }
}

static dlk_etcd_end judge_error(const dlk_etcd *et, const dlk_etcd_call *call)
{
    switch (dlk_json_int(unwrap(call), "code")) {
    case GRPC_UNAUTHENTICATED:
        return et->user ? DLK_ETCD_NO_TOKEN : DLK_ETCD_DENIED;
    case GRPC_DENIED:
        return DLK_ETCD_DENIED;
    case GRPC_NOT_FOUND:
        return dlk_etcd_says(call, "lease not found") ? DLK_ETCD_NO_LEASE : DLK_ETCD_BAD;
    case GRPC_EXHAUSTED:
        return DLK_ETCD_BUSY;
    case GRPC_INVALID:
        if (dlk_etcd_says(call, "auth store is old"))
            return DLK_ETCD_NO_TOKEN;
        return dlk_etcd_says(call, "user name is empty") ||
                       dlk_etcd_says(call, "authentication failed")
                   ? DLK_ETCD_DENIED
                   : DLK_ETCD_BAD;
    case GRPC_UNKNOWN:
    case GRPC_LATE:
    case GRPC_ABORTED:
    case GRPC_INTERNAL:
    case GRPC_UNAVAILABLE: /* no leader, time-outs: done or not */
        return DLK_ETCD_CUT;
    default:
        return call->status >= 500 ? DLK_ETCD_CUT : DLK_ETCD_BAD;
    }
}

dlk_etcd_end dlk_etcd_judge(const dlk_etcd *et, dlk_etcd_call *call)
{
    if (call->epoch != et->epoch)
        return DLK_ETCD_CUT;
    if (call->watch)
        return call->fired ? DLK_ETCD_OK : DLK_ETCD_CUT;
    if (call->no_memory)
        return DLK_ETCD_CUT;
    if (call->code != CURLE_OK)
        return is_final(call->code) ? DLK_ETCD_BAD : DLK_ETCD_CUT;
    if (!json_is_object(call->json))
        return call->status >= 500 ? DLK_ETCD_CUT : DLK_ETCD_BAD;
    if (call->status != 200 || json_object_get(call->json, "error"))
        return judge_error(et, call);
    const json_t *result = json_object_get(call->json, "result");
    const json_t *header =
        json_object_get(json_is_object(result) ? result : call->json, "header");
    call->term = dlk_json_int(header, "raft_term");
    call->revision = dlk_json_int(header, "revision");
    return DLK_ETCD_OK;
}
