/* On which nodes the key of a grant may lie. A claim that is given up is given back on each of
 * them, and again whenever one can be reached that couldn't, until it lies nowhere or its leases
 * are over. */
#include "backends/redlock/inner.h"
#include "util/clock.h"
#include "util/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN_AFTER   DLK_NS_PER_SEC
#define CONFIRMATIONS 3 /* of a release, where an older request may yet arrive */

#define EACH_CLAIM(redlock, claim)                                                       \
    for (size_t bucket_ = 0; bucket_ < DLK_REDLOCK_BUCKETS; bucket_++)                   \
        for (dlk_redlock_claim *claim = (redlock)->claims[bucket_], *next_;              \
             claim && ((void)(next_ = claim->next), true); claim = next_)

static dlk_redlock_claim **bucket_of(dlk_redlock *redlock, uint64_t wire)
{
    return &redlock->claims[wire % DLK_REDLOCK_BUCKETS];
}

static dlk_redlock_claim *search(dlk_redlock *redlock, uint64_t wire, uint64_t number)
{
    dlk_redlock_claim *claim = *bucket_of(redlock, wire);
    while (claim && claim->number != number)
        claim = claim->next;
    return claim;
}

dlk_redlock_claim *dlk_claim_find(dlk_redlock *redlock, uint64_t number)
{
    dlk_redlock_claim *claim = search(redlock, number, number);
    if (claim || redlock->last_alias == DLK_REDLOCK_ALIASES)
        return claim;
    EACH_CLAIM (redlock, other)
        if (other->number == number)
            return other;
    return NULL;
}

static dlk_redlock_claim *add(dlk_redlock *redlock, dlk_redlock_key *key, uint64_t number,
                              uint64_t wire)
{
    dlk_redlock_claim *claim = calloc(1, sizeof(*claim));
    if (!claim)
        return NULL;
    dlk_redlock_claim **bucket = bucket_of(redlock, wire);
    key->refs++;
    *claim = (dlk_redlock_claim){.next = *bucket,
                                 .key = key,
                                 .number = number,
                                 .wire = wire,
                                 .retry_at = DLK_NEVER};
    *bucket = claim;
    redlock->claim_count++;
    return claim;
}

static void drop(dlk_redlock *redlock, dlk_redlock_claim *claim)
{
    dlk_redlock_claim **at = bucket_of(redlock, claim->wire);
    while (*at != claim)
        at = &(*at)->next;
    *at = claim->next;
    /* Forgotten, but no less late: a release of it that is carried out only now must not meet what
     * is acquired under the same number again. Claims by an alias need no note: none comes twice. */
    if (claim->late && claim->wire < DLK_REDLOCK_ALIASES &&
        claim->wire > redlock->last_late)
        redlock->last_late = claim->wire;
    redlock->claim_count--;
    dlk_redlock_key_unref(redlock, claim->key);
    free(claim);
}

/* An older attempt of the same number is still on its way out, or may have left requests behind. */
static bool is_taken(dlk_redlock *redlock, uint64_t wire)
{
    const dlk_redlock_claim *claim = *bucket_of(redlock, wire);
    while (claim && claim->wire != wire)
        claim = claim->next;
    return claim != NULL || wire <= redlock->last_late;
}

dlk_redlock_claim *dlk_claim_get(dlk_redlock *redlock, dlk_redlock_key *key,
                                 uint64_t number)
{
    dlk_redlock_claim *claim = dlk_claim_find(redlock, number);
    uint64_t wire = number;
    if (claim && !claim->late) {
        claim->giving = false;
        claim->confirmed = 0;
        claim->retry_at = DLK_NEVER;
        return claim;
    }
    if (is_taken(redlock, wire))
        wire = redlock->last_alias + 1;
    dlk_redlock_claim *fresh = add(redlock, key, number, wire);
    if (!fresh)
        return NULL;
    if (claim)
        claim->number = 0;
    if (wire != number)
        redlock->last_alias = wire;
    return fresh;
}

void dlk_claim_extend(dlk_redlock *redlock, dlk_redlock_claim *claim, int64_t ttl_ms,
                      int64_t now)
{
    int64_t until = dlk_clock_after(now + redlock->timeout_ns, ttl_ms);
    if (until > claim->until)
        claim->until = until;
    if (claim->until < redlock->sweep_at)
        redlock->sweep_at = claim->until;
}

void dlk_claim_forget(dlk_redlock *redlock, dlk_redlock_claim *claim)
{
    if (claim->rounds == 0 && claim->there == 0)
        drop(redlock, claim);
}

void dlk_claim_let_go(dlk_redlock *redlock, dlk_redlock_claim *claim)
{
    claim->rounds--;
    if (claim->giving)
        dlk_claim_forget(redlock, claim);
}

void dlk_claim_put_off(dlk_redlock *redlock, dlk_redlock_claim *claim, int64_t now)
{
    claim->retry_at = now + AGAIN_AFTER;
    if (claim->retry_at < redlock->owed_at)
        redlock->owed_at = claim->retry_at;
}

void dlk_claim_given(dlk_redlock *redlock, dlk_redlock_claim *claim, bool everywhere,
                     int64_t now)
{
    claim->releases--;
    if (!claim->giving || claim->releases > 0)
        return;
    /* A request that was lost track of may sit in some buffer of the server's: what was given back
     * several times, a while apart, won't come any more. */
    claim->confirmed = (unsigned char)(everywhere ? claim->confirmed + 1 : 0);
    if (claim->confirmed >= CONFIRMATIONS)
        claim->there = claim->owed = 0;
    if (claim->there && claim->retry_at >= DLK_NEVER)
        dlk_claim_put_off(redlock, claim, now);
}

/* ---- names ---- */

/* The number in "<our uuid>:<number>"; 0: it isn't ours. */
static uint64_t number_in(const dlk_redlock *redlock, const char *owner)
{
    const char *uuid = redlock->base.host->uuid;
    size_t size = strlen(uuid);
    uint64_t number;
    if (redlock->last_alias == DLK_REDLOCK_ALIASES || !owner ||
        strncmp(owner, uuid, size) != 0 || owner[size] != ':')
        return 0;
    const char *digits = owner + size + 1;
    return dlk_number_digits(digits, strlen(digits), UINT64_MAX, &number) ? number : 0;
}

uint64_t dlk_claim_wire_of(const dlk_redlock *redlock, const char *owner)
{
    uint64_t number = number_in(redlock, owner);
    if (number)
        EACH_CLAIM (redlock, claim)
            if (claim->number == number)
                return claim->wire;
    return 0;
}

uint64_t dlk_claim_number_of(const dlk_redlock *redlock, const char *owner)
{
    uint64_t wire = number_in(redlock, owner);
    if (wire)
        EACH_CLAIM (redlock, claim)
            if (claim->wire == wire)
                return claim->number;
    return 0;
}

/* ---- time ---- */

static void sweep(dlk_redlock *redlock, int64_t now)
{
    int64_t first = DLK_NEVER;
    EACH_CLAIM (redlock, claim) {
        if (now < claim->until) {
            first = claim->until < first ? claim->until : first;
            continue;
        }
        claim->there = claim->owed = 0;
        claim->giving = true;
        if (claim->rounds == 0)
            drop(redlock, claim);
    }
    /* Not for each of many. */
    redlock->sweep_at = first < now + AGAIN_AFTER ? now + AGAIN_AFTER : first;
}

/* The nodes at which something is under way: acquires, or releases. */
static dlk_nodes under_way(const unsigned char counts[DLK_REDLOCK_MAX])
{
    dlk_nodes nodes = 0;
    for (int i = 0; i < DLK_REDLOCK_MAX; i++)
        if (counts[i] > 0)
            nodes |= dlk_node_bit(i);
    return nodes;
}

static void give_back_owed(dlk_redlock *redlock, int64_t now)
{
    dlk_nodes up = dlk_redlock_up(redlock);
    redlock->owed_at = DLK_NEVER;
    EACH_CLAIM (redlock, claim) {
        dlk_nodes idle =
            claim->giving ? claim->there & up & (dlk_nodes)~under_way(claim->letting) : 0;
        if (now >= claim->retry_at && idle) {
            dlk_round_undo_at(redlock, claim, idle, now);
            continue;
        }
        if (now >= claim->retry_at)
            claim->retry_at = claim->releases > 0 ? DLK_NEVER : now + AGAIN_AFTER;
        if (claim->giving && claim->retry_at < redlock->owed_at)
            redlock->owed_at = claim->retry_at;
    }
}

void dlk_claims_node_back(dlk_redlock *redlock, int index)
{
    redlock->owed_at = 0;
    EACH_CLAIM (redlock, claim)
        if (claim->giving && claim->owed & dlk_node_bit(index))
            claim->retry_at = 0;
}

int64_t dlk_claims_tick(dlk_redlock *redlock, int64_t now)
{
    if (redlock->claim_count == 0)
        redlock->owed_at = redlock->sweep_at = DLK_NEVER;
    if (now >= redlock->sweep_at)
        sweep(redlock, now);
    if (now >= redlock->owed_at)
        give_back_owed(redlock, now);
    return redlock->owed_at < redlock->sweep_at ? redlock->owed_at : redlock->sweep_at;
}

dlk_unsettled dlk_claims_unsettled(const dlk_redlock *redlock)
{
    dlk_nodes away = dlk_redlock_away(redlock);
    int harmless = redlock->count - redlock->quorum;
    dlk_unsettled worst = DLK_SETTLED;
    EACH_CLAIM (redlock, claim) {
        /* Where something of it may lie, or be on its way. */
        dlk_nodes nodes = claim->giving ? claim->owed | under_way(claim->taking) : 0;
        if (dlk_nodes_count(nodes) > harmless)
            return DLK_UNSETTLED_BLOCKING;
        if (nodes & (dlk_nodes)~away)
            worst = DLK_UNSETTLED_HARMLESS;
    }
    return worst;
}

void dlk_claims_free(dlk_redlock *redlock)
{
    EACH_CLAIM (redlock, claim)
        drop(redlock, claim);
}
