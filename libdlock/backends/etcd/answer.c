/* What an answer comes to in this session, and how to say what it is when it isn't one. */
#include "backends/etcd/inner.h"

#include "util/error.h"

#include <stdio.h>
#include <string.h>

/* ---- what it says ---- */

static const DlkEtcd__TxnResponse *txn_of(const dlk_etcd_call *call)
{
    return call->method == DLK_ETCD_TXN
               ? (const DlkEtcd__TxnResponse *)(const void *)call->answer
               : NULL;
}

bool dlk_etcd_succeeded(const dlk_etcd_call *call)
{
    const DlkEtcd__TxnResponse *txn = txn_of(call);
    return txn && txn->succeeded;
}

const DlkEtcd__RangeResponse *dlk_etcd_found(const dlk_etcd_call *call, size_t index)
{
    const DlkEtcd__TxnResponse *txn = txn_of(call);
    return txn ? dlk_etcd_response(txn, index) : NULL;
}

const DlkEtcd__RangeResponse *dlk_etcd_range(const dlk_etcd_call *call)
{
    return call->method == DLK_ETCD_RANGE
               ? (const DlkEtcd__RangeResponse *)(const void *)call->answer
               : NULL;
}

/* Both have both. */
int64_t dlk_etcd_lease_id(const dlk_etcd_call *call)
{
    const void *answer = call->answer;
    if (answer && call->method == DLK_ETCD_GRANT)
        return ((const DlkEtcd__LeaseGrantResponse *)answer)->id;
    if (answer && call->method == DLK_ETCD_KEEP_ALIVE)
        return ((const DlkEtcd__LeaseKeepAliveResponse *)answer)->id;
    return 0;
}

int64_t dlk_etcd_lease_ttl(const dlk_etcd_call *call)
{
    const void *answer = call->answer;
    if (answer && call->method == DLK_ETCD_GRANT)
        return ((const DlkEtcd__LeaseGrantResponse *)answer)->ttl;
    if (answer && call->method == DLK_ETCD_KEEP_ALIVE)
        return ((const DlkEtcd__LeaseKeepAliveResponse *)answer)->ttl;
    return 0;
}

bool dlk_etcd_says(const dlk_etcd_call *call, const char *words)
{
    return strstr(call->why, words) != NULL;
}

dlk_etcd_end dlk_etcd_judge(const dlk_etcd *et, const dlk_etcd_call *call)
{
    if (call->epoch != et->epoch)
        return DLK_ETCD_CUT;
    return call->end == DLK_ETCD_NO_TOKEN && !et->user ? DLK_ETCD_DENIED : call->end;
}

/* ---- words ---- */

static dlock_error *denied(const dlk_etcd *et, const dlk_etcd_call *call,
                           const char *what, const char *place)
{
    if (et->user)
        return dlk_error_make(DLOCK_EACCES, "etcd: user %s may not %s at %s: %s",
                              et->user, what, place, call->why);
    if (dlk_settings_is_set(et->settings, DLK_KEY_TLS_CERT_FILE))
        return dlk_error_make(DLOCK_EACCES,
                              "etcd: the user of tls.cert_file may not %s at %s: %s",
                              what, place, call->why);
    return dlk_error_make(DLOCK_EACCES,
                          "etcd: may not %s at %s without auth.username: %s", what, place,
                          call->why);
}

dlock_error *dlk_etcd_error(const dlk_etcd *et, const dlk_etcd_call *call,
                            const char *what)
{
    const char *place = et->peers[et->host];
    what = what ? what : dlk_etcd_rpcs[call->method].what;
    if (call->no_memory)
        return dlk_error_make(DLOCK_ENOMEM, "etcd: no memory for a request");
    switch (call->end) {
    case DLK_ETCD_DENIED:
    case DLK_ETCD_NO_TOKEN:
        return denied(et, call, what, place);
    case DLK_ETCD_BUSY:
        return dlk_error_make(DLOCK_EUNAVAIL, "etcd: can't %s at %s now: %s", what, place,
                              call->why);
    case DLK_ETCD_NO_LEASE:
        return dlk_error_make(DLOCK_EUNAVAIL, "etcd: the lease has expired, or somebody "
                                              "has revoked it");
    case DLK_ETCD_BAD:
        return dlk_error_make(DLOCK_EPROTO, "etcd: can't %s at %s: %s", what, place,
                              call->why);
    case DLK_ETCD_OK:
    case DLK_ETCD_CUT:
        break;
    }
    if (call->epoch != et->epoch) /* whose it was isn't known any more */
        return dlk_error_make(DLOCK_EUNAVAIL,
                              "etcd: can't %s: the connection was given up", what);
    return dlk_error_make(DLOCK_EUNAVAIL, "etcd: can't %s at %s: %s", what, place,
                          call->why);
}
