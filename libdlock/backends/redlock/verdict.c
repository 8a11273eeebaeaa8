/* What the nodes' answers come to. A verdict is given as soon as no further answer can change it,
 * so one that is yes takes the fastest majority, and one that is no doesn't wait for nodes that are
 * much slower than most. */
#include "backends/redlock/inner.h"
#include "util/clock.h"

/* Most nodes have said yes or no: the others get as long again, and this. */
#define GRACE        (5 * DLK_NS_PER_MS)
#define DOCTOR_GRACE (500 * DLK_NS_PER_MS) /* an examination takes a node longer */
/* What the way to a node may be shorter the next time; and how far a clock may be past: token.lua. */
#define SLACK_US 1000
#define PAST_US  1000000

static bool enough(const dlk_redlock_round *round, dlk_nodes nodes)
{
    return dlk_nodes_count(nodes) >= round->redlock->quorum;
}

/* Those who may still answer in time to count. */
static dlk_nodes awaited(dlk_redlock_round *round, int64_t now)
{
    dlk_nodes answered = (round->yes | round->no) & (dlk_nodes)~round->pending;
    if (round->decide_at >= DLK_NEVER && enough(round, answered))
        round->decide_at = now + (now - round->started) +
                           (round->verb == DLK_DOCTOR ? DOCTOR_GRACE : GRACE);
    return now < round->decide_at ? round->pending : 0;
}

static void refuse(dlk_redlock_round *round, const char *what)
{
    dlk_round_answer(round, DLK_REFUSED, dlk_round_error(round, round->yes, what));
}

/* What trying again doesn't mend, when so many nodes say it that the others are too few. */
static const dlock_error *final_error(const dlk_redlock_round *round)
{
    const dlk_redlock *redlock = round->redlock;
    const dlock_error *first = NULL;
    int count = 0;
    for (int i = 0; i < redlock->count; i++) {
        const dlk_ask *ask = &round->asks[i];
        if (!(round->bad & dlk_node_bit(i)) || ask->reply != DLK_REFUSED ||
            ask->error->code == DLOCK_EUNAVAIL)
            continue;
        first = first ? first : ask->error;
        count++;
    }
    return count > redlock->count - redlock->quorum ? first : NULL;
}

/* ---- acquire ---- */

/* A majority has said the same number: so each of them has written it down, with the lock. */
static bool agree(dlk_redlock_round *round)
{
    dlk_nodes same = 0;
    for (int i = 0; i < round->redlock->count; i++)
        if (round->yes & dlk_node_bit(i) && round->asks[i].token == round->token)
            same |= dlk_node_bit(i);
    return enough(round, same);
}

/* They are told of a moment that all of their clocks are past, by less than a second, so that they say the same.
 * Where that wasn't so, one has said what its clock is. */
static void learn_clocks(dlk_redlock_round *round)
{
    int64_t least = round->token, past = round->clock_us;
    for (int i = 0; i < round->redlock->count; i++)
        if (round->yes & dlk_node_bit(i) && round->asks[i].token < least)
            least = round->asks[i].token;
    if (past && least >= past && least < past + PAST_US)
        return; /* it is their counters that are apart */
    round->redlock->ahead_us = least - round->started / DLK_NS_PER_US - SLACK_US;
}

/* The token is decided by the first majority and written down by a majority, each of which still
 * holds the lock then: whoever is granted it later reads one of these, and goes beyond it. */
static void tell_token(dlk_redlock_round *round, int64_t now)
{
    if (round->claim->giving || round->agreed)
        return;
    if (!round->telling) {
        if (!enough(round, round->yes))
            return;
        round->agreed = agree(round);
        if (round->agreed)
            return;
        learn_clocks(round);
        round->decide_at = DLK_NEVER; /* they have been asked only now */
    }
    dlk_nodes untold = round->yes & (dlk_nodes)~round->telling;
    round->telling |= untold;
    for (int i = 0; i < round->redlock->count; i++)
        if (untold & dlk_node_bit(i))
            dlk_round_ask_node(round, i, DLK_VERIFY, now);
}

static void grant(dlk_redlock_round *round)
{
    dlk_ask *parent = round->parent;
    int64_t token = round->redlock->fencing ? round->token : 0;
    parent->token = round->claim->token = token;
    parent->lasts = true; /* each of the nodes has said so, in this round */
    dlk_round_answer(round, DLK_YES, NULL);
}

/* Who gets a part each tries again at different times; else somebody has it for a while. */
static int64_t pause_ms(const dlk_redlock_round *round)
{
    const dlk_redlock *redlock = round->redlock;
    dlk_rand *rand = redlock->base.host->rand;
    if (round->yes)
        return (int64_t)(dlk_rand_next(rand) % (uint64_t)(redlock->retry_ms / 2 + 1));
    return dlk_rand_jitter(rand, redlock->retry_ms, 33);
}

static void fail_acquire(dlk_redlock_round *round, int64_t now)
{
    const dlock_error *final = final_error(round);
    dlock_error *error = final ? dlk_error_copy(final) : NULL;
    dlk_round_undo(round->redlock, round->claim, now);
    if (error) {
        dlk_round_answer(round, DLK_REFUSED, error);
    } else if (round->no && enough(round, round->yes | round->no | round->pending)) {
        round->parent->wait_ms = pause_ms(round);
        dlk_round_answer(round, DLK_HELD, NULL);
    } else {
        refuse(round, "granted it");
    }
}

static void settle_acquire(dlk_redlock_round *round, int64_t now)
{
    bool fencing = round->redlock->fencing;
    if (fencing)
        tell_token(round, now);
    if (!round->parent)
        return;
    if (round->claim->giving) { /* it was given up meanwhile: its release is on the way */
        dlk_round_answer(round, DLK_HELD, NULL);
        return;
    }
    if (enough(round, fencing && !round->agreed ? round->written : round->yes)) {
        grant(round);
        return;
    }
    dlk_nodes waiting = awaited(round, now);
    dlk_nodes hopeful = (round->yes & (dlk_nodes)~round->pending) | waiting;
    if (!enough(round, hopeful))
        fail_acquire(round, now);
}

/* ---- renew, release, verify, break ---- */

/* Where a lock that is held is missing: the node was started anew, or could not be reached when it
 * was granted. Only a lock that a majority still has may be mended: else somebody else may have
 * held it meanwhile. */
static void mend_missing(dlk_redlock_round *round, int64_t now)
{
    if (!round->claim || round->claim->giving)
        return;
    dlk_nodes missing = round->no & (dlk_nodes)~round->telling;
    round->telling |= missing;
    for (int i = 0; i < round->redlock->count; i++)
        if (missing & dlk_node_bit(i))
            dlk_round_mend(round, i, now);
}

/* So many say it isn't ours that the others are too few. */
static bool is_lost(const dlk_redlock_round *round)
{
    dlk_nodes others = round->redlock->all & (dlk_nodes)~round->no;
    return !enough(round, others);
}

static void settle_renewal(dlk_redlock_round *round, int64_t now)
{
    bool held = enough(round, round->yes);
    if (held)
        mend_missing(round, now);
    if (!round->parent)
        return;
    if (held) {
        round->parent->lasts = true;
        dlk_round_answer(round, DLK_YES, NULL);
    } else if (is_lost(round)) {
        if (round->claim)
            dlk_round_undo(round->redlock, round->claim, now);
        dlk_round_answer(round, DLK_NOT_OURS, NULL);
    } else if (round->pending == 0) {
        refuse(round, "renewed it");
    }
}

static void settle_verify(dlk_redlock_round *round, int64_t now)
{
    if (!round->parent)
        return;
    if (enough(round, round->yes)) {
        dlk_round_answer(round, DLK_YES, NULL);
    } else if (is_lost(round)) {
        if (round->claim)
            dlk_round_undo(round->redlock, round->claim, now);
        dlk_round_answer(round, DLK_NOT_OURS, NULL);
    } else if (round->pending == 0) {
        refuse(round, "say that it is ours");
    }
}

/* Nodes that weren't asked don't have it. */
static void settle_release(dlk_redlock_round *round)
{
    if (!round->parent)
        return;
    if (enough(round, round->yes))
        dlk_round_answer(round, DLK_YES, NULL);
    else if (!enough(round, round->yes | round->bad | round->pending))
        dlk_round_answer(round, DLK_NOT_OURS, NULL);
    else if (round->pending == 0)
        dlk_round_answer(round, DLK_UNKNOWN,
                         dlk_round_error(round, round->yes, "have given it back"));
}

static bool some_unknown(const dlk_redlock_round *round)
{
    for (int i = 0; i < round->redlock->count; i++)
        if ((round->asked & dlk_node_bit(i)) && round->asks[i].reply == DLK_UNKNOWN)
            return true;
    return false;
}

/* Done when whoever had it has it on too few nodes to go on. */
static void settle_break(dlk_redlock_round *round)
{
    if (!round->parent)
        return;
    dlk_nodes open = round->bad | round->pending;
    if (enough(round, round->yes) || (round->yes && !enough(round, open)))
        dlk_round_answer(round, DLK_YES, NULL);
    else if (!round->yes && enough(round, round->no))
        dlk_round_answer(round, DLK_NOT_OURS, NULL);
    else if (round->pending == 0 && (round->yes || some_unknown(round)))
        dlk_round_answer(round, DLK_UNKNOWN,
                         dlk_round_error(round, round->yes, "gave it back"));
    else if (round->pending == 0)
        dlk_round_answer(round, DLK_REFUSED,
                         dlk_round_error(round, round->no, "could say whose it is"));
}

/* ---- reports ---- */

static void settle_report(dlk_redlock_round *round, bool (*report)(dlk_redlock_round *),
                          int64_t now)
{
    /* An examination waits for those, too, of which it isn't known whether they can be reached. */
    dlk_nodes unasked = round->redlock->all & (dlk_nodes)~round->asked;
    if (!round->parent || awaited(round, now) || (unasked && now < round->decide_at))
        return;
    if (round->pending && round->decide_at >= DLK_NEVER)
        return; /* not most of them have answered yet */
    const dlock_error *final = final_error(round);
    if (round->verb != DLK_DOCTOR && !enough(round, round->yes)) {
        if (final)
            dlk_round_answer(round, DLK_REFUSED, dlk_error_copy(final));
        else
            refuse(round, "answered");
    } else if (report(round)) {
        dlk_round_answer(round, DLK_YES, NULL);
    } else {
        dlk_round_answer(round, DLK_REFUSED,
                         dlk_error_make(DLOCK_ENOMEM, "%s: out of memory",
                                        dlk_redlock_name(round->redlock)));
    }
}

void dlk_round_settle(dlk_redlock_round *round, int64_t now)
{
    switch (round->verb) {
    case DLK_ACQUIRE:
        if (!round->mends)
            settle_acquire(round, now);
        break;
    case DLK_RENEW:
        settle_renewal(round, now);
        break;
    case DLK_RELEASE:
        settle_release(round);
        break;
    case DLK_VERIFY:
        settle_verify(round, now);
        break;
    case DLK_BREAK:
        settle_break(round);
        break;
    case DLK_INSPECT:
        settle_report(round, dlk_report_inspect, now);
        break;
    case DLK_LIST:
        settle_report(round, dlk_report_list, now);
        break;
    case DLK_DOCTOR:
        settle_report(round, dlk_report_doctor, now);
        break;
    case DLK_REVOKE:
    case DLK_SIGNAL:
    case DLK_IMPORT:
        break; /* never asked of a node */
    }
}
