/*
 * Items that name all holders: read/write locks and semaphores. Every request reads the item and
 * the server's clock, works out what is to stand there (record.c), and stores that with the number
 * it has read; when somebody was faster it begins again.
 *
 * Why the server's clock: the holders of one item have leases of their own, and no other clock is
 * known to all clients. It is asked for before the item is read, so what it says is over is over.
 */
#include "backends/memcached/inner.h"

#include "util/clock.h"

/* The clock, in ask->scratch behind what all requests have there. */
#define CLOCK_SHIFT 24

static dlk_mc_key *key_of(const dlk_ask *ask)
{
    return ask->key->data;
}

static void set_clock(dlk_ask *ask, int64_t clock)
{
    int64_t low = ask->scratch & ((INT64_C(1) << CLOCK_SHIFT) - 1);
    ask->scratch = low | clock << CLOCK_SHIFT;
}

static int64_t clock_of(const dlk_ask *ask)
{
    return ask->scratch >> CLOCK_SHIFT;
}

void dlk_mc_lines_begin(dlk_mc *mc, dlk_ask *ask)
{
    set_clock(ask, 0);
    (void)dlk_mc_send_timed_read(mc, ask);
}

static void begin_again(dlk_mc *mc, dlk_ask *ask)
{
    if (dlk_mc_again(mc, ask))
        dlk_mc_lines_begin(mc, ask);
}

/* ---- the clock ---- */

static bool take_time(dlk_ask *ask, const dlk_mc_reply *reply)
{
    int64_t clock;
    if (reply->kind == DLK_MC_STAT) {
        if (dlk_mc_name_is(reply, "time") && dlk_mc_number(reply, &clock) &&
            clock < INT64_C(1) << (62 - CLOCK_SHIFT))
            set_clock(ask, clock);
        return true;
    }
    if (reply->kind != DLK_MC_GONE)
        return false;
    dlk_mc_set_step(ask, DLK_MC_READ);
    return true;
}

/* ---- the item ---- */

static int64_t token_of(const dlk_mc *mc, const dlk_ask *ask, uint64_t cas)
{
    return key_of(ask)->form == DLK_MC_SEMAPHORE ? 0 : dlk_mc_token(mc, cas);
}

/* What a wish points to. */
typedef struct texts {
    char owner[DLK_MC_OWNER_MAX], about[DLK_MC_ABOUT_MAX];
} texts;

static dlk_mc_wish wish_of(const dlk_mc *mc, const dlk_ask *ask,
                           const dlk_mc_reply *reply, texts *room)
{
    int64_t clock = clock_of(ask);
    return (dlk_mc_wish){
        .verb = ask->verb,
        .form = key_of(ask)->form,
        .shared = ask->shared,
        .take = ask->take,
        .permits = dlk_settings_int(ask->key->settings, DLK_KEY_LOCK_PERMITS),
        .owner = dlk_mc_owner(mc, ask->number, room->owner),
        .about = dlk_mc_about(mc, ask, dlk_clock_date_ms(), room->about),
        .text = ask->text,
        .now = clock,
        .until = clock + dlk_mc_seconds(ask->ttl_ms),
        .seen = token_of(mc, ask, reply->cas),
    };
}

static void carry_out(dlk_mc *mc, dlk_ask *ask, const dlk_mc_plan *plan,
                      const dlk_mc_reply *reply)
{
    bool there = reply->kind == DLK_MC_VALUE;
    if (plan->empty && !there) {
        dlk_mc_answer(mc, ask, DLK_YES);
    } else if (plan->empty) {
        (void)dlk_mc_send_drop(mc, ask, reply->cas);
    } else {
        (void)dlk_mc_send_store(
            mc, ask, (dlk_mc_text){dlk_buf_head(&mc->value), dlk_buf_size(&mc->value)},
            plan->last - clock_of(ask), there ? reply->cas : 0);
    }
}

static bool take_item(dlk_mc *mc, dlk_ask *ask, const dlk_mc_reply *reply)
{
    texts room;
    const dlk_mc_text value = {reply->text, reply->size};
    if (reply->kind != DLK_MC_VALUE && reply->kind != DLK_MC_GONE)
        return false;
    if (ask->verb == DLK_INSPECT) {
        dlk_mc_inspected(mc, ask, reply, clock_of(ask));
        return true;
    }
    if (clock_of(ask) == 0) {
        dlk_mc_refuse(mc, ask,
                      dlk_error_make(DLOCK_ENOTSUP,
                                     "memcached: %s doesn't tell its time (stats), which "
                                     "locks of several holders go by",
                                     mc->peer));
        return true;
    }
    dlk_mc_wish wish = wish_of(mc, ask, reply, &room);
    dlk_buf_clear(&mc->value);
    dlk_mc_plan plan = dlk_mc_record_plan(
        &wish, reply->kind == DLK_MC_VALUE ? &value : NULL, &mc->value);
    if (plan.reply == DLK_PENDING)
        carry_out(mc, ask, &plan, reply);
    else if (plan.reply == DLK_HELD)
        dlk_mc_answer_held(mc, ask, plan.wait_ms);
    else if (plan.reply == DLK_REFUSED)
        dlk_mc_refuse(mc, ask, dlk_error_make(plan.code, "%s", plan.why));
    else
        dlk_mc_answer(mc, ask, plan.reply);
    return true;
}

/* ---- what was stored ---- */

static void done(dlk_mc *mc, dlk_ask *ask, int64_t token)
{
    ask->token = token; /* the grant's, where this makes one */
    ask->lasts = true;
    dlk_mc_answer(mc, ask, DLK_YES);
}

static bool take_stored(dlk_mc *mc, dlk_ask *ask, const dlk_mc_reply *reply)
{
    bool stored = reply->kind == DLK_MC_DONE;
    if (!stored && reply->kind != DLK_MC_NOT_STORED && reply->kind != DLK_MC_CHANGED &&
        reply->kind != DLK_MC_GONE)
        return false;
    if (!mc->server.meta_stores) {
        ask->scratch =
            stored ? ask->scratch | DLK_MC_WAS_STORED : ask->scratch & ~DLK_MC_WAS_STORED;
        dlk_mc_set_step(ask, DLK_MC_READBACK);
    } else if (!stored) {
        begin_again(mc, ask);
    } else {
        done(mc, ask, token_of(mc, ask, reply->cas));
    }
    return true;
}

/* Others may have stored since: what they have left standing is ours all the same, unless they
 * found it over. The number is theirs then, and ours is in the line. */
static bool take_readback(dlk_mc *mc, dlk_ask *ask, const dlk_mc_reply *reply)
{
    texts room;
    if (reply->kind != DLK_MC_VALUE && reply->kind != DLK_MC_GONE)
        return false;
    dlk_mc_wish wish = wish_of(mc, ask, reply, &room);
    dlk_mc_record record = dlk_mc_record_of((dlk_mc_text){reply->text, reply->size});
    dlk_mc_holder holder = {.token = 0};
    bool gives = ask->verb == DLK_RELEASE || ask->verb == DLK_BREAK;
    bool found = gives && (ask->scratch & DLK_MC_WAS_STORED) != 0;
    while (!found && (ask->scratch & DLK_MC_WAS_STORED) &&
           dlk_mc_next_holder(&record, &holder))
        found = dlk_mc_same(holder.owner, wish.owner);
    if (found)
        done(mc, ask, holder.token ? holder.token : wish.seen);
    else
        begin_again(mc, ask);
    return true;
}

static bool take_dropped(dlk_mc *mc, dlk_ask *ask, const dlk_mc_reply *reply)
{
    if (reply->kind == DLK_MC_DONE)
        dlk_mc_answer(mc, ask, DLK_YES);
    else if (reply->kind == DLK_MC_CHANGED || reply->kind == DLK_MC_GONE)
        begin_again(mc, ask);
    else
        return false;
    return true;
}

bool dlk_mc_lines_reply(dlk_mc *mc, dlk_ask *ask, const dlk_mc_reply *reply)
{
    switch (dlk_mc_step_of(ask)) {
    case DLK_MC_TIME:
        return take_time(ask, reply);
    case DLK_MC_READ:
        return take_item(mc, ask, reply);
    case DLK_MC_STORE:
        return take_stored(mc, ask, reply);
    case DLK_MC_READBACK:
        return take_readback(mc, ask, reply);
    case DLK_MC_DROP:
        return take_dropped(mc, ask, reply);
    case DLK_MC_STATS:
    case DLK_MC_STATS_SETTINGS:
        break;
    }
    return false;
}
