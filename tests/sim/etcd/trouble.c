/* What goes wrong with a cluster: members that die, stand still, lag or are cut off from
 * the others; leases that are revoked, keys that an operator deletes, a history that is
 * compacted. */
#include "etcd/model.h"

#include <stdlib.h>
#include <string.h>

static int64_t later(dlk_rand *dice, int64_t least, int64_t most)
{
    return s.now + between(dice, least, most);
}

static double in_ms(int64_t time)
{
    return (double)time / (double)MS;
}

/* Who leads is worth more trouble than the others. */
static int some_member(dlk_rand *dice)
{
    if (etcd_all.leader != NO_LEADER && chance(dice, 400))
        return etcd_all.leader;
    return (int)between(dice, 0, ETCD_MEMBERS - 1);
}

/* ---- members ---- */

static bool leader_dies(dlk_rand *dice)
{
    int old = etcd_all.leader;
    if (old == NO_LEADER || !etcd_takes_part(old))
        return false;
    int64_t until = later(dice, 100 * MS, 5 * SEC);
    if (chance(dice, 200)) {
        etcd_member_stops(old, until);
        return true;
    }
    tell(SERVER, ALL_NAMES, "member %d, the leader, dies", old);
    etcd_member_down(old, until, "its member has died");
    return true;
}

static bool restart_all(dlk_rand *dice)
{
    if (chance(dice, 300)) {
        for (int i = 0; i < ETCD_MEMBERS; i++)
            etcd_member_stops(i, later(dice, 50 * MS, 800 * MS));
        return true;
    }
    tell(SERVER, ALL_NAMES, "all members are restarted");
    for (int i = 0; i < ETCD_MEMBERS; i++)
        etcd_member_down(i, later(dice, 50 * MS, 800 * MS), "the members were restarted");
    etcd_lead_lost();
    return true;
}

static bool stand_still(dlk_rand *dice)
{
    int64_t until =
        chance(dice, 400) ? later(dice, 1 * SEC, 8 * SEC) : later(dice, 10 * MS, 1 * SEC);
    int index = some_member(dice);
    if (s.now < etcd_still_until(index) || etcd_is_down(index))
        return false;
    if (chance(dice, 300)) {
        s.server.frozen_until = until;
        tell(SERVER, ALL_NAMES, "all members stand still until %.0f", in_ms(until));
        return true;
    }
    s.nodes[index].frozen_until = until;
    tell(SERVER, ALL_NAMES, "member %d stands still until %.0f", index, in_ms(until));
    return true;
}

static bool fall_behind(dlk_rand *dice)
{
    int index = some_member(dice);
    etcd_member *m = &etcd_all.members[index];
    if (!etcd_takes_part(index))
        return false;
    if (chance(dice, 500)) {
        m->lags_until = later(dice, 50 * MS, 2 * SEC);
        tell(SERVER, ALL_NAMES, "member %d lags until %.0f", index, in_ms(m->lags_until));
        etcd_unwell(m->lags_until);
        return true;
    }
    m->alone_since = s.now;
    m->alone_until = later(dice, 100 * MS, 6 * SEC);
    tell(SERVER, ALL_NAMES, "member %d is cut off from the others until %.0f", index,
         in_ms(m->alone_until));
    return true;
}

/* ---- by somebody with the right to ---- */

static void lost_everywhere(void)
{
    for (int n = 0; n < s.config.names; n++)
        state_lost(n, 0);
}

static bool revoke(const client *c)
{
    bool done = false;
    DLK_LIST_FOR (it, &etcd_all.leases) {
        etcd_lease *lease = DLK_LIST_ITEM(it, etcd_lease, link);
        if (lease->over || lease->client != c->index ||
            lease->generation != c->generation)
            continue;
        lost_everywhere();
        lease->revoked = true;
        etcd_lease_end(lease, "is revoked by an operator");
        done = true;
    }
    return done;
}

/* A holder's, or that of somebody who waits. */
static bool delete_one(dlk_rand *dice, int name)
{
    const etcd_key *found[MAX_HELD];
    int count = 0;
    DLK_LIST_FOR (it, etcd_store_keys()) {
        const etcd_key *key = DLK_LIST_ITEM(it, etcd_key, link);
        if (key->name == name && count < MAX_HELD)
            found[count++] = key;
    }
    if (count == 0)
        return false;
    const etcd_key *one = found[chance(dice, 500) ? 0 : between(dice, 0, count - 1)];
    state_lost(name, 0);
    tell(SERVER, name, "an operator deletes the key of revision %lld",
         (long long)one->made);
    etcd_store_delete(one);
    return true;
}

static bool compact(void)
{
    tell(SERVER, ALL_NAMES, "history is compacted at revision %lld",
         (long long)etcd_store_revision());
    etcd_store_compact();
    return true;
}

bool etcd_fault(fault what, dlk_rand *dice, client *c, int name)
{
    switch ((int)what) {
    case FAULT_FREEZE:
        return stand_still(dice);
    case FAULT_REFUSE:
        s.server.refuses_until = later(dice, 10 * MS, 2 * SEC);
        tell(SERVER, ALL_NAMES, "the members take no more requests until %.0f",
             in_ms(s.server.refuses_until));
        return true;
    case FAULT_RESTART:
        return restart_all(dice);
    case FAULT_LEADER:
        return leader_dies(dice);
    case FAULT_LAG:
        return fall_behind(dice);
    case FAULT_EXPIRE:
        return revoke(c);
    case FAULT_COMPACT:
        return compact();
    default:
        return delete_one(dice, name);
    }
}
