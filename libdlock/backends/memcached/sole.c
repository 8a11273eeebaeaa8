/*
 * Items of one holder: mutexes and elections. The item is the lock, its time the lease, its number
 * (cas) what renewal and release go by:
 *
 *     acquire   add; if something is there, read it: ours, from a request whose answer was lost, is
 *               renewed and granted
 *     renew     store with the number; never touch, which asks for none and would prolong a
 *               stranger's lease
 *     release   delete with the number
 *
 * The number is that of one server process and counts from 1 when it starts. So it is only used on
 * the connection that said it; after a reconnect the item is read first, and has to say our owner.
 */
#include "backends/memcached/inner.h"

#include "util/clock.h"
#include "util/number.h"

static dlk_mc_key *key_of(const dlk_ask *ask)
{
    return ask->key->data;
}

static bool knows(const dlk_mc *mc, const dlk_ask *ask)
{
    const dlk_mc_key *key = key_of(ask);
    return key->number == ask->number && key->cas != 0 && key->epoch == mc->epoch;
}

static void forget(const dlk_ask *ask)
{
    dlk_mc_key *key = key_of(ask);
    if (key->number == ask->number)
        key->cas = 0;
}

/* A lease is never made shorter than an earlier one of the same grant. */
static int64_t seconds_for(const dlk_ask *ask, int64_t now)
{
    const dlk_mc_key *key = key_of(ask);
    int64_t ms = ask->ttl_ms;
    int64_t left_ms = key->number == ask->number
                          ? dlk_clock_ms_until(key->until, now, INT64_MAX / 2)
                          : 0;
    return dlk_mc_seconds(left_ms > ms ? left_ms : ms);
}

/* For what is stored now; 0: not known. */
static int64_t since_ms(const dlk_ask *ask)
{
    dlk_mc_key *key = key_of(ask);
    if (ask->verb == DLK_RENEW)
        return key->number == ask->number ? key->since_ms : 0;
    return key->asked_ms = dlk_clock_date_ms();
}

/* @p token: what an earlier store has granted, or 0. */
static void store(dlk_mc *mc, dlk_ask *ask, int64_t seconds, uint64_t cas, int64_t token)
{
    char owner[DLK_MC_OWNER_MAX], about[DLK_MC_ABOUT_MAX];
    const dlk_mc_holder holder = {.owner = dlk_mc_owner(mc, ask->number, owner),
                                  .about = dlk_mc_about(mc, ask, since_ms(ask), about),
                                  .token = token};
    dlk_buf_clear(&mc->value);
    if (!dlk_mc_put_sole(&mc->value, key_of(ask)->form, &holder))
        dlk_mc_refuse(mc, ask, dlk_error_make(DLOCK_ENOMEM, "memcached: out of memory"));
    else
        (void)dlk_mc_send_store(
            mc, ask, (dlk_mc_text){dlk_buf_head(&mc->value), dlk_buf_size(&mc->value)},
            seconds, cas);
}

void dlk_mc_sole_begin(dlk_mc *mc, dlk_ask *ask, int64_t now)
{
    const dlk_mc_key *key = key_of(ask);
    if (ask->verb == DLK_ACQUIRE)
        store(mc, ask, dlk_mc_seconds(ask->ttl_ms), 0, 0);
    else if (ask->verb == DLK_RENEW && knows(mc, ask))
        store(mc, ask, seconds_for(ask, now), key->cas, key->token);
    else if (ask->verb == DLK_RELEASE && knows(mc, ask))
        (void)dlk_mc_send_drop(mc, ask, key->cas);
    else
        (void)dlk_mc_send_read(mc, ask);
}

/* ---- what was stored ---- */

static void won(dlk_mc *mc, dlk_ask *ask, uint64_t cas)
{
    dlk_mc_key *key = key_of(ask);
    int64_t until = dlk_clock_after(ask->since, ask->ttl_ms);
    if (key->number != ask->number || until > key->until)
        key->until = until;
    key->number = ask->number;
    key->cas = cas;
    key->epoch = mc->epoch;
    if (ask->verb != DLK_RENEW)
        ask->token = key->token = dlk_mc_token(mc, cas);
    if (ask->verb != DLK_RENEW)
        key->since_ms = key->asked_ms;
    ask->lasts = true;
    dlk_mc_answer(mc, ask, DLK_YES);
}

/* It went before we could see it: given back, evicted, flushed. Who wants it may have it now: a
 * memlock's try finds what the same client's try before has left on a slow node, and is taking back. */
static void vanished(dlk_mc *mc, dlk_ask *ask)
{
    forget(ask);
    if (ask->verb == DLK_ACQUIRE && dlk_mc_again(mc, ask))
        store(mc, ask, dlk_mc_seconds(ask->ttl_ms), 0, 0);
    else if (ask->verb == DLK_ACQUIRE)
        return;
    else
        dlk_mc_answer(mc, ask, DLK_NOT_OURS);
}

static void look_again(dlk_mc *mc, dlk_ask *ask)
{
    if (dlk_mc_again(mc, ask))
        (void)dlk_mc_send_read(mc, ask);
}

static bool take_stored(dlk_mc *mc, dlk_ask *ask, const dlk_mc_reply *reply)
{
    bool done = reply->kind == DLK_MC_DONE;
    if (!done && reply->kind != DLK_MC_NOT_STORED && reply->kind != DLK_MC_CHANGED &&
        reply->kind != DLK_MC_GONE)
        return false;
    if (!mc->server.meta_stores) { /* the answer to the read behind it says the rest */
        ask->scratch =
            done ? ask->scratch | DLK_MC_WAS_STORED : ask->scratch & ~DLK_MC_WAS_STORED;
        dlk_mc_set_step(ask, DLK_MC_READBACK);
        return true;
    }
    if (done && reply->cas == 0)
        return false;
    if (done)
        won(mc, ask, reply->cas);
    else if (reply->kind == DLK_MC_GONE)
        vanished(mc, ask);
    else
        look_again(mc, ask);
    return true;
}

/* ---- what stands there ---- */

/* Somebody else's, or a lock of another kind. */
static void behind(dlk_mc *mc, dlk_ask *ask, const dlk_mc_reply *reply)
{
    dlk_mc_form form = dlk_mc_record_of((dlk_mc_text){reply->text, reply->size}).form;
    if (form != DLK_MC_FOREIGN && form != key_of(ask)->form)
        dlk_mc_refuse(mc, ask,
                      dlk_error_make(DLOCK_ECONFLICT,
                                     "memcached: a lock of another kind has this name "
                                     "(%s)",
                                     dlk_mc_form_name(form)));
    else
        dlk_mc_answer_held(mc, ask, dlk_span_of_seconds(reply->left));
}

/* Held already, and yet stored by an acquire since: the item was gone, others may have had it, and
 * then a request that was asked again in vain came late. */
static bool is_stored_anew(const dlk_ask *ask, int64_t token)
{
    const dlk_mc_key *key = key_of(ask);
    return (ask->verb == DLK_RENEW || ask->verb == DLK_VERIFY) &&
           key->number == ask->number && key->token != 0 && token != 0 &&
           key->token != token;
}

/* It says our owner. */
static void go_on_with_own(dlk_mc *mc, dlk_ask *ask, const dlk_mc_reply *reply,
                           int64_t token, int64_t now)
{
    int64_t seconds = seconds_for(ask, now);
    bool renews = ask->verb == DLK_RENEW;
    if (reply->left > seconds)
        seconds = reply->left;
    if (ask->verb == DLK_RELEASE || is_stored_anew(ask, token))
        (void)dlk_mc_send_drop(mc, ask, reply->cas);
    else if (ask->verb == DLK_VERIFY)
        dlk_mc_answer(mc, ask, DLK_YES);
    else
        store(mc, ask, seconds, reply->cas, renews ? token : 0);
}

/* Whose it has to be for this request, if not ours: the giver's, or whoever is named. */
static bool is_named(const dlk_ask *ask, const dlk_mc_reply *reply)
{
    const dlk_mc_text value = {reply->text, reply->size};
    dlk_mc_record record = dlk_mc_record_of(value);
    dlk_mc_holder holder;
    if (ask->verb == DLK_BREAK && !ask->text)
        return true;
    if ((ask->verb != DLK_BREAK && ask->verb != DLK_IMPORT) || !ask->text)
        return false;
    return dlk_mc_next_holder(&record, &holder) &&
           dlk_mc_same(holder.owner, (dlk_mc_text){ask->text, strlen(ask->text)});
}

static void take_value(dlk_mc *mc, dlk_ask *ask, const dlk_mc_reply *reply, int64_t now)
{
    char owner[DLK_MC_OWNER_MAX];
    dlk_mc_text own = dlk_mc_owner(mc, ask->number, owner);
    dlk_mc_holder there = dlk_mc_sole_holder((dlk_mc_text){reply->text, reply->size});
    int64_t token = there.token ? there.token : dlk_mc_token(mc, reply->cas);
    if (ask->verb != DLK_BREAK && dlk_mc_same(there.owner, own))
        go_on_with_own(mc, ask, reply, token, now);
    else if (is_named(ask, reply) && ask->verb == DLK_BREAK)
        (void)dlk_mc_send_drop(mc, ask, reply->cas);
    else if (is_named(ask, reply))
        store(mc, ask, dlk_mc_seconds(ask->ttl_ms), reply->cas, 0);
    else if (ask->verb == DLK_ACQUIRE)
        behind(mc, ask, reply);
    else
        vanished(mc, ask);
}

static bool take_read(dlk_mc *mc, dlk_ask *ask, const dlk_mc_reply *reply, int64_t now)
{
    if (reply->kind == DLK_MC_VALUE)
        take_value(mc, ask, reply, now);
    else if (reply->kind == DLK_MC_GONE)
        vanished(mc, ask);
    else
        return false;
    return true;
}

/* What stands there after a classic store. */
static bool take_readback(dlk_mc *mc, dlk_ask *ask, const dlk_mc_reply *reply,
                          int64_t now)
{
    char owner[DLK_MC_OWNER_MAX];
    dlk_mc_holder there = dlk_mc_sole_holder((dlk_mc_text){reply->text, reply->size});
    if (reply->kind != DLK_MC_VALUE)
        return take_read(mc, ask, reply, now);
    if (!(ask->scratch & DLK_MC_WAS_STORED))
        return !dlk_mc_again(mc, ask) || take_read(mc, ask, reply, now);
    if (dlk_mc_same(there.owner, dlk_mc_owner(mc, ask->number, owner)))
        won(mc, ask, reply->cas);
    else
        vanished(mc, ask);
    return true;
}

static bool take_dropped(dlk_mc *mc, dlk_ask *ask, const dlk_mc_reply *reply)
{
    bool gives = ask->verb == DLK_RELEASE || ask->verb == DLK_BREAK;
    switch (reply->kind) {
    case DLK_MC_DONE:
        forget(ask);
        dlk_mc_answer(mc, ask, gives ? DLK_YES : DLK_NOT_OURS);
        return true;
    case DLK_MC_GONE:
        vanished(mc, ask);
        return true;
    case DLK_MC_CHANGED: /* by a renewal of our own that was under way, or by others */
        look_again(mc, ask);
        return true;
    case DLK_MC_NOT_STORED:
    case DLK_MC_VALUE:
    case DLK_MC_STAT:
    case DLK_MC_BARRIER:
    case DLK_MC_VERSION:
    case DLK_MC_UNKNOWN:
    case DLK_MC_CLIENT_ERROR:
    case DLK_MC_SERVER_ERROR:
        break;
    }
    return false;
}

bool dlk_mc_sole_reply(dlk_mc *mc, dlk_ask *ask, const dlk_mc_reply *reply, int64_t now)
{
    switch (dlk_mc_step_of(ask)) {
    case DLK_MC_STORE:
        return take_stored(mc, ask, reply);
    case DLK_MC_READBACK:
        return take_readback(mc, ask, reply, now);
    case DLK_MC_READ:
        return take_read(mc, ask, reply, now);
    case DLK_MC_DROP:
        return take_dropped(mc, ask, reply);
    case DLK_MC_TIME:
    case DLK_MC_STATS:
    case DLK_MC_STATS_SETTINGS:
        break;
    }
    return false;
}
