/* Keeping what was granted: the lease is renewed, and then our key is read, which says that it is
 * still there, and in the same breath that the renewal counts; see session.c. */
#include "backends/etcd/inner.h"

#define PROOFS_MAX 3

static void answer(dlk_etcd_place *place, dlk_ask **asked, dlk_reply reply)
{
    dlk_place_answer(&place->base, asked, reply, NULL);
}

static bool is_ours(const dlk_etcd_place *place, const dlk_etcd_call *call)
{
    const DlkEtcd__KeyValue *kv = dlk_etcd_kv(dlk_etcd_range(call), 0);
    return kv && kv->create_revision == place->rev && kv->lease == place->et->lease;
}

void dlk_etcd_listen(dlk_backend *backend, int64_t now)
{
    (void)now;
    dlk_etcd_of(backend)->listens = true;
}

/* Somebody but us has changed it: who revokes a lock does that, and leaves it as it was. It is heard of
 * when the key is read anyway, at each renewal: a watch for each key would be two requests more a lock. */
static void hear_revoke(dlk_etcd_place *place, const dlk_etcd_call *call)
{
    dlk_host *host = place->et->base.backend.host;
    int64_t changed = dlk_etcd_kv(dlk_etcd_range(call), 0)->mod_revision;
    bool news = changed > place->changed && place->home->line != DLK_ETCD_CONDITION;
    place->changed = news ? changed : place->changed;
    if (news && place->et->listens)
        host->revoked(host, place->base.number);
}

/* A majority answers for it. */
static bool read_own(dlk_etcd_place *place, dlk_etcd_done *done, int64_t now)
{
    return place->state == DLK_PLACE_THERE &&
           dlk_etcd_place_send(place, DLK_ETCD_RANGE, dlk_etcd_layout_read(place->key),
                               done, now) != NULL;
}

/* ---- renew ---- */

static void prove(dlk_etcd_place *place, int64_t now)
{
    place->awaits_keep = true;
    dlk_etcd_prove(place->et, now);
}

static void on_read(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_place *place = call->owner;
    if (!place->base.keep)
        return;
    if (place->base.leaving || (call->end == DLK_ETCD_OK && !is_ours(place, call))) {
        dlk_etcd_place_gone(place, now);
        return;
    }
    if (call->end == DLK_ETCD_OK)
        hear_revoke(place, call);
    int64_t since = call->end == DLK_ETCD_OK ? dlk_etcd_proof(place->et, call) : 0;
    if (call->end == DLK_ETCD_OK && !since && ++place->proofs < PROOFS_MAX) {
        prove(place, now); /* another leader by now */
        return;
    }
    if (!since) {
        bool denied = call->end == DLK_ETCD_DENIED || call->end == DLK_ETCD_BUSY;
        dlk_place_answer(
            &place->base, &place->base.keep, denied ? DLK_REFUSED : DLK_UNKNOWN,
            denied ? dlk_etcd_error(place->et, call, "read its own key") : NULL);
        return;
    }
    dlk_place_lasts(&place->base, &place->base.keep, since, place->et->ttl_ms);
}

void dlk_etcd_keep_on(dlk_etcd_place *place, int64_t now)
{
    if (!place->awaits_keep)
        return;
    place->awaits_keep = false;
    if (place->base.keep && !read_own(place, on_read, now))
        answer(place, &place->base.keep, DLK_NOT_SENT);
}

/* ---- from the write to the read side ---- */

static void on_turned(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_place *place = call->owner;
    if (call->end != DLK_ETCD_OK) {
        answer(place, &place->base.keep, DLK_UNKNOWN); /* it is asked for again */
        return;
    }
    if (place->base.leaving || !dlk_etcd_succeeded(call)) {
        if (place->base.keep)
            dlk_etcd_place_gone(place, now);
        return;
    }
    place->turned = true;
    place->changed = call->revision;
    if (place->base.keep)
        prove(place, now);
}

static bool turn(dlk_etcd_place *place, int64_t now)
{
    return place->state == DLK_PLACE_THERE &&
           dlk_etcd_place_send(place, DLK_ETCD_TXN, dlk_etcd_layout_turn(place),
                               on_turned, now);
}

void dlk_etcd_place_keep(dlk_place *base, int64_t now)
{
    dlk_etcd_place *place = dlk_etcd_place_of(base);
    bool sent = true;
    place->proofs = 0;
    dlk_etcd_condition_keep(place, now);
    if (base->keep->shared && !base->shared && !place->turned)
        sent = turn(place, now);
    else if (dlk_etcd_fresh(place->et, now))
        sent = read_own(place, on_read, now);
    else
        prove(place, now);
    if (!sent)
        answer(place, &base->keep, DLK_NOT_SENT);
}

/* ---- verify ---- */

static void on_verified(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_place *place = call->owner;
    if (!place->base.verify)
        return;
    bool ours = call->end == DLK_ETCD_OK && !place->base.leaving && is_ours(place, call);
    if (ours)
        hear_revoke(place, call);
    if (call->end != DLK_ETCD_OK)
        answer(place, &place->base.verify, DLK_UNKNOWN);
    else if (ours)
        answer(place, &place->base.verify, DLK_YES);
    else
        dlk_etcd_place_gone(place, now);
}

void dlk_etcd_place_verify(dlk_place *base, int64_t now)
{
    dlk_etcd_place *place = dlk_etcd_place_of(base);
    if (!read_own(place, on_verified, now))
        answer(place, &base->verify, DLK_NOT_SENT);
}
