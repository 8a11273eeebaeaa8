/* Rounds: one request to each node, and keeping count of what they answer; inner.h says more. */
#include "backends/redlock/inner.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/info.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t size_of_round(const dlk_redlock *redlock)
{
    return sizeof(dlk_redlock_round) + (size_t)redlock->count * sizeof(dlk_ask);
}

/* ---- Making and ending ---- */

static dlk_redlock_round *new_round(dlk_redlock *redlock, dlk_verb verb,
                                    dlk_redlock_key *key, dlk_redlock_claim *claim,
                                    dlk_ask *parent, int64_t now)
{
    dlk_list *spare = dlk_list_take_first(&redlock->spare);
    dlk_redlock_round *round;
    if (spare) {
        redlock->spare_count--;
        round = DLK_LIST_ITEM(spare, dlk_redlock_round, link);
        memset(round, 0, size_of_round(redlock));
    } else {
        round = calloc(1, size_of_round(redlock));
    }
    if (!round)
        return NULL;
    int64_t ahead_us = verb == DLK_ACQUIRE && parent ? redlock->ahead_us : 0;
    *round =
        (dlk_redlock_round){.redlock = redlock,
                            .clock_us = ahead_us ? now / DLK_NS_PER_US + ahead_us : 0,
                            .key = key,
                            .claim = claim,
                            .parent = parent,
                            .verb = verb,
                            .started = now,
                            .decide_at = DLK_NEVER,
                            .ttl_ms = parent ? parent->ttl_ms : 0};
    if (key)
        key->refs++;
    if (claim)
        claim->rounds++;
    if (claim && verb == DLK_RELEASE)
        claim->releases++;
    dlk_list_append(parent ? &redlock->rounds : &redlock->loose, &round->link);
    return round;
}

static void drop_answers(dlk_redlock_round *round)
{
    for (int i = 0; i < round->redlock->count; i++) {
        dlk_error_clear(&round->asks[i].error);
        dlk_info_free(round->asks[i].info);
        round->asks[i].info = NULL;
    }
}

/* Nobody waits for it, and nobody has anything to say to it. */
static void end(dlk_redlock_round *round, int64_t now)
{
    dlk_redlock *redlock = round->redlock;
    dlk_redlock_claim *claim = round->claim;
    if (claim && round->verb == DLK_RELEASE)
        dlk_claim_given(redlock, claim,
                        round->bad == 0 && !(claim->there & ~round->asked), now);
    if (claim)
        dlk_claim_let_go(redlock, claim);
    drop_answers(round);
    free(round->text);
    free(round->data);
    dlk_redlock_key_unref(redlock, round->key);
    dlk_list_remove(&round->link);
    if (redlock->spare_count >= DLK_REDLOCK_SPARE) {
        free(round);
        return;
    }
    redlock->spare_count++;
    dlk_list_prepend(&redlock->spare, &round->link);
}

static void settle(dlk_redlock_round *round, int64_t now)
{
    if (round->starting)
        return;
    dlk_round_settle(round, now);
    if (round->pending == 0 && !round->parent)
        end(round, now);
}

void dlk_round_answer(dlk_redlock_round *round, dlk_reply reply, dlock_error *error)
{
    dlk_redlock *redlock = round->redlock;
    dlk_ask *parent = round->parent;
    assert(parent);
    round->parent = NULL;
    dlk_list_remove(&round->link);
    dlk_list_append(&redlock->loose, &round->link);
    parent->error = error;
    parent->reply = reply;
    if (parent != redlock->asking)
        redlock->base.host->answered(redlock->base.host, parent);
}

/* ---- Answers of nodes ---- */

static void lost_track(dlk_redlock_claim *claim, dlk_nodes bit)
{
    claim->late |= bit;
    claim->confirmed = 0;
}

/* Whether an answer says that the key doesn't lie there. An acquire that is refused has put nothing
 * there, and says nothing of what one before it has. */
static bool says_gone(const dlk_redlock_claim *claim, const dlk_ask *ask, dlk_nodes bit)
{
    if (ask->verb == DLK_ACQUIRE)
        return ask->reply == DLK_HELD ||
               (ask->reply == DLK_REFUSED && !(claim->owed & bit));
    return ask->reply == DLK_NOT_OURS ||
           (ask->verb == DLK_RELEASE && ask->reply == DLK_YES);
}

/* What it says of the claim, whatever was asked. An acquire behind it, or an older one that is yet
 * to arrive, may put the key there all the same. */
static void note_claim(dlk_redlock_claim *claim, const dlk_ask *ask, int index)
{
    dlk_nodes bit = dlk_node_bit(index);
    bool takes = ask->verb == DLK_ACQUIRE;
    bool gone = claim->taking[index] == 0 && says_gone(claim, ask, bit);
    if (takes && ask->reply == DLK_YES)
        claim->there |= bit;
    else if (ask->reply == DLK_UNKNOWN && (takes || ask->verb == DLK_RELEASE))
        lost_track(claim, bit);
    else if (gone && !(claim->late & bit))
        claim->there &= (dlk_nodes)~bit;
    if (gone)
        claim->owed &= (dlk_nodes)~bit;
    else if (takes && (ask->reply == DLK_YES || ask->reply == DLK_UNKNOWN))
        claim->owed |= bit;
}

static void take(dlk_redlock_round *round, int index)
{
    dlk_ask *ask = &round->asks[index];
    dlk_nodes bit = dlk_node_bit(index);
    if (round->claim)
        note_claim(round->claim, ask, index);
    if (round->telling & bit && ask->verb == DLK_VERIFY) {
        if (ask->reply == DLK_YES) {
            round->written |= bit;
        } else { /* what it granted doesn't count without */
            round->yes &= (dlk_nodes)~bit;
            round->bad |= bit;
        }
        return;
    }
    bool leases = ask->verb == DLK_ACQUIRE || ask->verb == DLK_RENEW;
    if (round->claim && ask->verb == DLK_RENEW && ask->reply == DLK_YES)
        round->claim->overlong[index] = ask->overlong;
    if (ask->reply == DLK_YES && (ask->lasts || !leases))
        round->yes |= bit;
    else if (ask->reply == DLK_HELD || ask->reply == DLK_NOT_OURS)
        round->no |= bit;
    else
        round->bad |= bit;
    /* Before the token is decided; afterwards it is told. */
    if (round->verb == DLK_ACQUIRE && ask->reply == DLK_YES && !round->telling &&
        ask->token > round->token)
        round->token = ask->token;
}

/* Of what is under way at a node about its claim; NULL: not counted. */
static unsigned char *count_of(dlk_redlock_round *round, dlk_verb verb, int index)
{
    if (!round->claim || (verb != DLK_ACQUIRE && verb != DLK_RELEASE))
        return NULL;
    return verb == DLK_ACQUIRE ? &round->claim->taking[index]
                               : &round->claim->letting[index];
}

void dlk_redlock_answered(dlk_redlock *redlock, int index, dlk_ask *ask)
{
    char *first = (char *)(ask - index);
    dlk_redlock_round *round = (void *)(first - offsetof(dlk_redlock_round, asks));
    assert(round->redlock == redlock && (round->pending & dlk_node_bit(index)));
    (void)redlock;
    round->pending &= (dlk_nodes)~dlk_node_bit(index);
    unsigned char *under_way = count_of(round, ask->verb, index);
    if (under_way)
        --*under_way;
    take(round, index);
    settle(round, dlk_clock_now());
}

/* ---- Asking ---- */

void dlk_round_ask_node(dlk_redlock_round *round, int index, dlk_verb verb, int64_t now)
{
    dlk_redlock *redlock = round->redlock;
    dlk_backend *node = redlock->nodes[index].backend;
    const dlk_ask *parent = round->parent;
    dlk_ask *ask = &round->asks[index];
    dlk_nodes bit = dlk_node_bit(index);
    dlk_error_clear(&ask->error);
    *ask = (dlk_ask){.verb = verb,
                     .key = round->key ? &round->key->nodes[index] : NULL,
                     .number = round->claim ? round->claim->wire
                               : parent     ? parent->number
                                            : 0,
                     .ttl_ms = round->ttl_ms,
                     .deadline = parent ? parent->deadline : now + redlock->timeout_ns,
                     .take = 1,
                     .text = round->text,
                     .data = round->data,
                     .limit = parent ? parent->limit : 0,
                     .most_ms = parent ? parent->most_ms : 0,
                     .overlong = round->claim ? round->claim->overlong[index] : 0,
                     .since = now,
                     .undoes = verb == DLK_RELEASE && round->claim &&
                               round->claim->taking[index] > 0,
                     .token = round->telling || round->mends ? round->token : 0,
                     .clock_us = round->clock_us,
                     .wait_ms = -1};
    round->asked |= bit;
    node->type->ask(node, ask, now);
    if (!parent || parent != redlock->asking)
        redlock->unsent = true;
    if (ask->reply != DLK_PENDING) {
        take(round, index);
        return;
    }
    round->pending |= bit;
    unsigned char *under_way = count_of(round, verb, index);
    if (under_way)
        ++*under_way;
    if (verb == DLK_ACQUIRE)
        round->claim->there |= bit;
}

static void begin(dlk_redlock_round *round, dlk_nodes nodes, int64_t now)
{
    round->starting = true;
    for (int i = 0; i < round->redlock->count; i++)
        if (nodes & dlk_node_bit(i))
            dlk_round_ask_node(round, i, round->verb, now);
    round->starting = false;
    settle(round, now);
}

void dlk_round_undo_at(dlk_redlock *redlock, dlk_redlock_claim *claim, dlk_nodes nodes,
                       int64_t now)
{
    claim->retry_at = DLK_NEVER; /* its end says when */
    dlk_redlock_round *round =
        new_round(redlock, DLK_RELEASE, claim->key, claim, NULL, now);
    if (round)
        begin(round, nodes, now);
    else
        dlk_claim_put_off(redlock, claim, now);
}

void dlk_round_undo(dlk_redlock *redlock, dlk_redlock_claim *claim, int64_t now)
{
    claim->giving = true;
    if (claim->there)
        dlk_round_undo_at(redlock, claim, claim->there, now);
    else
        dlk_claim_forget(redlock, claim);
}

void dlk_round_mend(dlk_redlock_round *round, int index, int64_t now)
{
    dlk_redlock *redlock = round->redlock;
    dlk_redlock_claim *claim = round->claim;
    dlk_redlock_round *mending =
        new_round(redlock, DLK_ACQUIRE, claim->key, claim, NULL, now);
    if (!mending)
        return; /* the next renewal tries again */
    mending->mends = true;
    mending->ttl_ms = round->ttl_ms;
    mending->token = claim->token;
    mending->data =
        round->data ? strdup(round->data) : NULL; /* without it nothing is shown */
    begin(mending, dlk_node_bit(index), now);
}

/* ---- What the engine asks ---- */

static void refuse(const dlk_redlock *redlock, dlk_ask *ask, dlock_err code,
                   const char *text)
{
    (void)dlk_ask_refuse(ask,
                         dlk_error_make(code, "%s: %s", dlk_redlock_name(redlock), text));
}

/* By the name under which the nodes know the one of ours that is to be broken. */
static bool copy_text(dlk_redlock_round *round, const char *text)
{
    const dlk_redlock *redlock = round->redlock;
    uint64_t wire = round->verb == DLK_BREAK ? dlk_claim_wire_of(redlock, text) : 0;
    if (!text)
        return true;
    if (!wire)
        round->text = strdup(text);
    else if (asprintf(&round->text, "%s:%" PRIu64, redlock->base.host->uuid, wire) < 0)
        round->text = NULL;
    return round->text != NULL;
}

/* A node may have it still when the verdict has been told. */
static bool copy_data(dlk_redlock_round *round, const char *data)
{
    round->data = data[0] ? strdup(data) : NULL;
    return round->data || !data[0];
}

static void start(dlk_redlock *redlock, dlk_ask *ask, dlk_redlock_claim *claim,
                  dlk_nodes nodes, int64_t now)
{
    dlk_redlock_key *key = ask->key ? ask->key->data : NULL;
    dlk_redlock_round *round = new_round(redlock, ask->verb, key, claim, ask, now);
    bool copied =
        round && copy_text(round, ask->text) && copy_data(round, dlk_ask_data(ask));
    if (copied)
        begin(round, nodes, now);
    else if (ask->verb == DLK_RELEASE)
        ask->reply = DLK_NOT_SENT; /* it is tried again */
    else
        refuse(redlock, ask, DLOCK_ENOMEM, "out of memory");
    if (round && !copied) {
        round->parent = NULL;
        end(round, now);
    }
}

static void start_acquire(dlk_redlock *redlock, dlk_ask *ask, int64_t now)
{
    dlk_redlock_claim *claim = dlk_claim_get(redlock, ask->key->data, ask->number);
    if (!claim) {
        refuse(redlock, ask, DLOCK_ENOMEM, "out of memory");
        return;
    }
    dlk_claim_extend(redlock, claim, ask->ttl_ms, now);
    start(redlock, ask, claim, redlock->all, now);
}

static void start_release(dlk_redlock *redlock, dlk_ask *ask, int64_t now)
{
    dlk_redlock_claim *claim = dlk_claim_find(redlock, ask->number);
    if (!claim) { /* it was given back before, or nobody remembers */
        start(redlock, ask, NULL, redlock->all, now);
        return;
    }
    claim->giving = true;
    if (claim->there)
        start(redlock, ask, claim, claim->there, now);
    else
        ask->reply = DLK_NOT_OURS;
}

void dlk_redlock_ask(dlk_backend *backend, dlk_ask *ask, int64_t now)
{
    dlk_redlock *redlock = (dlk_redlock *)backend;
    dlk_redlock_claim *claim;
    dlk_list_init(&ask->link);
    redlock->asking = ask;
    switch (ask->verb) {
    case DLK_ACQUIRE:
        start_acquire(redlock, ask, now);
        break;
    case DLK_RELEASE:
        start_release(redlock, ask, now);
        break;
    case DLK_RENEW:
    case DLK_VERIFY:
        claim = dlk_claim_find(redlock, ask->number);
        if (claim && ask->verb == DLK_RENEW)
            dlk_claim_extend(redlock, claim, ask->ttl_ms, now);
        start(redlock, ask, claim, redlock->all, now);
        break;
    case DLK_BREAK:
    case DLK_INSPECT:
    case DLK_LIST:
        start(redlock, ask, NULL, redlock->all, now);
        break;
    case DLK_DOCTOR:
        start(redlock, ask, NULL, redlock->all & (dlk_nodes)~dlk_redlock_trying(redlock),
              now);
        break;
    case DLK_REVOKE:
        refuse(redlock, ask, DLOCK_ENOTSUP,
               "nobody can be told: nodes don't pass messages on");
        break;
    case DLK_SIGNAL:
        refuse(redlock, ask, DLOCK_ENOTSUP, "nobody waits in a line");
        break;
    case DLK_IMPORT:
        refuse(redlock, ask, DLOCK_ENOTSUP, "a lock can't be handed on");
        break;
    }
    redlock->asking = NULL;
    /* Answered at once, and so written by nobody: what undoes it, for one. */
    if (ask->reply != DLK_PENDING && !dlk_list_empty(&redlock->loose))
        dlk_redlock_write_soon(redlock, now);
    dlk_redlock_count(redlock);
}

/* ---- Time, and the end ---- */

void dlk_rounds_node_known(dlk_redlock *redlock, int index, int64_t now)
{
    dlk_nodes bit = dlk_node_bit(index);
    DLK_LIST_FOR (it, &redlock->rounds) {
        dlk_redlock_round *round = DLK_LIST_ITEM(it, dlk_redlock_round, link);
        bool unasked = round->verb == DLK_DOCTOR && !(round->asked & bit);
        bool unsent = redlock->nodes[index].up && (round->bad & bit) &&
                      round->asks[index].reply == DLK_NOT_SENT && !(round->telling & bit);
        if (round->starting || (!unasked && !unsent))
            continue;
        round->bad &= (dlk_nodes)~bit;
        dlk_round_ask_node(round, index, round->verb, now);
        settle(round, now);
    }
}

int64_t dlk_rounds_tick(dlk_redlock *redlock, int64_t now)
{
    int64_t next = DLK_NEVER;
    DLK_LIST_FOR (it, &redlock->rounds) {
        dlk_redlock_round *round = DLK_LIST_ITEM(it, dlk_redlock_round, link);
        if (now >= round->decide_at)
            settle(round, now);
        else if (round->decide_at < next)
            next = round->decide_at;
    }
    return next;
}

void dlk_rounds_free(dlk_redlock *redlock)
{
    dlk_list *link;
    dlk_list_splice(&redlock->spare, &redlock->loose);
    dlk_list_splice(&redlock->spare, &redlock->rounds);
    while ((link = dlk_list_take_first(&redlock->spare)))
        free(DLK_LIST_ITEM(link, dlk_redlock_round, link));
}
