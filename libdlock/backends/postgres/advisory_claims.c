/* Who of this client has which advisory lock; see the header. */
#include "backends/postgres/advisory.h"

#include "util/hash.h"

#include <stdlib.h>

dlk_pg_claims *dlk_pg_claims_new(void)
{
    dlk_pg_claims *claims = calloc(1, sizeof(*claims));
    for (size_t i = 0; claims && i < DLK_PG_CHAINS; i++)
        dlk_list_init(&claims->chains[i]);
    return claims;
}

static dlk_pg_claim *first_in(dlk_list *list)
{
    return DLK_LIST_ITEM(dlk_list_first(list), dlk_pg_claim, link);
}

void dlk_pg_claims_free(dlk_pg_claims *claims)
{
    for (size_t i = 0; claims && i < DLK_PG_CHAINS; i++)
        while (!dlk_list_empty(&claims->chains[i])) {
            dlk_pg_claim *claim = first_in(&claims->chains[i]);
            dlk_list_remove(&claim->link);
            free(claim);
        }
    free(claims);
}

static bool same(const dlk_pg_lock *one, const dlk_pg_lock *other)
{
    return one->key == other->key && one->pair == other->pair;
}

static size_t chain_of(const dlk_pg_lock *lock)
{
    return dlk_hash(DLK_HASH_BEGIN, &lock->key, sizeof(lock->key)) % DLK_PG_CHAINS;
}

static const dlk_pg_lock *lock_of(const dlk_key *key)
{
    return &((const dlk_pg_key *)key->data)->lock;
}

dlk_pg_claim *dlk_pg_claim_find(dlk_pg_claims *claims, const dlk_key *key,
                                uint64_t number)
{
    DLK_LIST_FOR (it, &claims->chains[chain_of(lock_of(key))]) {
        dlk_pg_claim *claim = DLK_LIST_ITEM(it, dlk_pg_claim, link);
        if (claim->key == key && claim->number == number)
            return claim;
    }
    return NULL;
}

static void count(dlk_pg *pg, int change)
{
    pg->claims->count += (size_t)change;
    pg->base.host->heed = pg->claims->count > 0;
}

dlk_pg_claim *dlk_pg_claim_add(dlk_pg *pg, const dlk_ask *ask)
{
    dlk_pg_claim *claim = calloc(1, sizeof(*claim));
    if (!claim)
        return NULL;
    claim->key = ask->key;
    claim->number = ask->number;
    claim->lock = *lock_of(ask->key);
    claim->shared = ask->shared;
    dlk_list_append(&pg->claims->chains[chain_of(&claim->lock)], &claim->link);
    count(pg, 1);
    return claim;
}

void dlk_pg_claim_end(dlk_pg *pg, dlk_pg_claim *claim)
{
    dlk_list_remove(&claim->link);
    count(pg, -1);
    free(claim);
}

/* One that tries may fail: an end that is asked for behind it would take what another has got. */
bool dlk_pg_claims_bar(const dlk_pg_claims *claims, const dlk_ask *ask)
{
    const dlk_pg_lock *lock = lock_of(ask->key);
    DLK_LIST_FOR (it, &claims->chains[chain_of(lock)]) {
        const dlk_pg_claim *claim = DLK_LIST_ITEM(it, dlk_pg_claim, link);
        bool mixes = claim->shared && ask->shared && claim->stand == DLK_PG_HAS;
        if (same(&claim->lock, lock) && claim->stand != DLK_PG_LEAVES && !mixes)
            return true;
    }
    return false;
}

void dlk_pg_claims_see(dlk_pg_claims *claims, const dlk_pg_lock *lock, bool shared)
{
    DLK_LIST_FOR (it, &claims->chains[chain_of(lock)]) {
        dlk_pg_claim *claim = DLK_LIST_ITEM(it, dlk_pg_claim, link);
        if (same(&claim->lock, lock) && claim->shared == shared)
            claim->seen = claims->looks;
    }
}

/* Whoever is told may ask: so they are taken out first. */
void dlk_pg_claims_lose(dlk_pg *pg)
{
    dlk_host *host = pg->base.host;
    dlk_list gone;
    dlk_list_init(&gone);
    for (size_t i = 0; i < DLK_PG_CHAINS; i++)
        dlk_list_splice(&gone, &pg->claims->chains[i]);
    while (!dlk_list_empty(&gone)) {
        dlk_pg_claim *claim = first_in(&gone);
        if (claim->stand == DLK_PG_HAS)
            host->lost(host, claim->key, claim->number);
        dlk_pg_claim_end(pg, claim);
    }
}
