/* Keeping what was granted: the lease is renewed, and then our key is read, which says that it is
 * still there, and in the same breath that the renewal counts; see session.c. */
#include "backends/etcd/inner.h"

#include "util/error.h"

#include <stdlib.h>
#include <string.h>

#define PROOFS_MAX 3

static void answer(dlk_etcd_seat *seat, dlk_ask **place, dlk_reply reply)
{
    dlk_etcd_seat_answer(seat, place, reply, NULL);
}

static bool is_ours(const dlk_etcd_seat *seat, const dlk_etcd_call *call)
{
    const json_t *kv = dlk_json_kv(call->json, 0);
    return kv && dlk_json_int(kv, "create_revision") == seat->rev &&
           dlk_json_int(kv, "lease") == seat->et->lease;
}

/* A majority answers for it. */
static bool read_own(dlk_etcd_seat *seat, dlk_etcd_done *done, int64_t now)
{
    dlk_say say = {0};
    if (seat->state != DLK_SEAT_THERE)
        return false;
    dlk_say_text(&say, "{\"key\":\"%s\"}", seat->key);
    return dlk_etcd_seat_send(seat, "/v3/kv/range", dlk_say_end(&say), done, now) != NULL;
}

/* ---- renew ---- */

static void prove(dlk_etcd_seat *seat, int64_t now)
{
    seat->awaits_keep = true;
    dlk_etcd_prove(seat->et, now);
}

static void on_read(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_seat *seat = call->owner;
    dlk_ask *keep = seat->keep;
    if (!keep)
        return;
    if (seat->leaving || (call->end == DLK_ETCD_OK && !is_ours(seat, call))) {
        dlk_etcd_seat_gone(seat, now);
        return;
    }
    int64_t since = call->end == DLK_ETCD_OK ? dlk_etcd_proof(seat->et, call) : 0;
    if (call->end == DLK_ETCD_OK && !since && ++seat->proofs < PROOFS_MAX) {
        prove(seat, now); /* another leader by now */
        return;
    }
    if (!since) {
        bool denied = call->end == DLK_ETCD_DENIED || call->end == DLK_ETCD_BUSY;
        dlk_etcd_seat_answer(seat, &seat->keep, denied ? DLK_REFUSED : DLK_UNKNOWN,
                             denied ? dlk_etcd_error(seat->et, call, "read its own key")
                                    : NULL);
        return;
    }
    keep->ttl_ms = seat->et->ttl_ms;
    if (since < keep->since)
        keep->since = since;
    keep->lasts = true;
    answer(seat, &seat->keep, DLK_YES);
}

void dlk_etcd_keep_on(dlk_etcd_seat *seat, int64_t now)
{
    if (!seat->awaits_keep)
        return;
    seat->awaits_keep = false;
    if (seat->keep && !read_own(seat, on_read, now))
        answer(seat, &seat->keep, DLK_NOT_SENT);
}

/* ---- from the write to the read side ---- */

static void on_turned(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_seat *seat = call->owner;
    if (call->end != DLK_ETCD_OK) {
        answer(seat, &seat->keep, DLK_UNKNOWN); /* it is asked for again */
        return;
    }
    if (seat->leaving || !dlk_json_true(call->json, "succeeded")) {
        if (seat->keep)
            dlk_etcd_seat_gone(seat, now);
        return;
    }
    seat->turned = true;
    if (seat->keep)
        prove(seat, now);
}

static bool turn(dlk_etcd_seat *seat, int64_t now)
{
    return seat->state == DLK_SEAT_THERE &&
           dlk_etcd_seat_send(seat, "/v3/kv/txn", dlk_etcd_layout_turn(seat), on_turned,
                              now);
}

void dlk_etcd_renew(dlk_etcd *et, dlk_ask *ask, int64_t now)
{
    dlk_etcd_seat *seat = dlk_etcd_seat_find(ask->key, ask->number);
    if (!seat || !seat->granted || seat->leaving || seat->keep) {
        dlk_flight_answer(&et->flight, ask, DLK_NOT_OURS);
        return;
    }
    seat->keep = ask;
    seat->proofs = 0;
    dlk_flight_await(&et->flight, ask);
    seat->calls++;
    bool sent = true;
    if (ask->shared && !seat->shared && !seat->turned)
        sent = turn(seat, now);
    else if (dlk_etcd_fresh(et, now))
        sent = read_own(seat, on_read, now);
    else
        prove(seat, now);
    if (!sent)
        answer(seat, &seat->keep, DLK_NOT_SENT);
    seat->calls--;
    dlk_etcd_seat_settle(seat);
}

/* ---- verify ---- */

static void on_verified(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_seat *seat = call->owner;
    if (!seat->verify)
        return;
    if (call->end != DLK_ETCD_OK)
        answer(seat, &seat->verify, DLK_UNKNOWN);
    else if (!seat->leaving && is_ours(seat, call))
        answer(seat, &seat->verify, DLK_YES);
    else
        dlk_etcd_seat_gone(seat, now);
}

void dlk_etcd_verify(dlk_etcd *et, dlk_ask *ask, int64_t now)
{
    dlk_etcd_seat *seat = dlk_etcd_seat_find(ask->key, ask->number);
    if (!seat || !seat->granted || seat->leaving) {
        dlk_flight_answer(&et->flight, ask, DLK_NOT_OURS);
        return;
    }
    if (seat->verify) { /* two at a time: the second goes by what is known */
        dlk_flight_answer(&et->flight, ask, DLK_NOT_SENT);
        return;
    }
    seat->verify = ask;
    dlk_flight_await(&et->flight, ask);
    seat->calls++;
    if (!read_own(seat, on_verified, now))
        answer(seat, &seat->verify, DLK_NOT_SENT);
    seat->calls--;
    dlk_etcd_seat_settle(seat);
}
