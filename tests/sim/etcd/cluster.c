/*
 * Three members. One leads in the newest term; whoever can't hear the others stays in an
 * older one, and if it led there, believes that it still does. Leases end by the clock
 * of who leads, and begin anew with each change of leaders.
 */
#include "etcd/model.h"

#include <stdlib.h>
#include <string.h>

#define ELECTION_TICKS SEC /* etcd's default; a follower waits up to twice as long */
#define SHORTEST_LEASE 2   /* with that; in s */
#define LEASE_TICKS    10  /* of ETCD_TICK: leases are looked at twice a second */

struct etcd_cluster etcd_all;

/* ---- members ---- */

static int64_t latest_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

bool etcd_is_down(int index)
{
    return s.now < s.nodes[index].down_until;
}

int64_t etcd_still_until(int index)
{
    return latest_of(s.nodes[index].frozen_until, s.server.frozen_until);
}

static bool is_alone(int index)
{
    return s.now < etcd_all.members[index].alone_until;
}

bool etcd_takes_part(int index)
{
    return !etcd_is_down(index) && s.now >= etcd_still_until(index) && !is_alone(index);
}

static bool has_leader(void)
{
    return etcd_all.leader != NO_LEADER && etcd_takes_part(etcd_all.leader);
}

bool etcd_reaches_leader(int index)
{
    return has_leader() && etcd_takes_part(index) &&
           etcd_all.members[index].term == etcd_all.term;
}

int64_t etcd_applies_at(int index)
{
    const etcd_member *m = &etcd_all.members[index];
    return latest_of(latest_of(m->lags_until, m->alone_until), etcd_still_until(index));
}

void etcd_unwell(int64_t until)
{
    s.server.down_until = latest_of(s.server.down_until, until);
}

void etcd_lead_lost(void)
{
    etcd_all.leader = NO_LEADER;
}

void etcd_member_down(int index, int64_t until, const char *why)
{
    etcd_member *m = &etcd_all.members[index];
    s.nodes[index].down_until = latest_of(s.nodes[index].down_until, until);
    m->alone_until = m->lags_until = s.nodes[index].frozen_until = s.now;
    m->leads = m->leaves = false;
    if (etcd_all.leader == index)
        etcd_lead_lost();
    etcd_member_cut(index, why);
}

static void run_stopped(event *e)
{
    int index = (int)e->number;
    if (etcd_all.members[index].leaves)
        etcd_member_down(index, etcd_all.members[index].returns_at,
                         "its member has stopped");
}

void etcd_member_stops(int index, int64_t until)
{
    etcd_member *m = &etcd_all.members[index];
    event *e = event_new();
    tell(SERVER, ALL_NAMES, "member %d takes no more requests, and stops", index);
    m->leaves = true;
    m->returns_at = until;
    etcd_member_says_goodbye(index);
    e->number = index;
    event_at(e, s.now + between(&s.rand, 1 * MS, 300 * MS), run_stopped, NULL);
}

/* ---- leases ---- */

static int64_t leader_time(void)
{
    return (int64_t)((double)s.now * s.server.rate);
}

etcd_lease *etcd_lease_find(int64_t id)
{
    DLK_LIST_FOR (it, &etcd_all.leases) {
        etcd_lease *lease = DLK_LIST_ITEM(it, etcd_lease, link);
        if (lease->id == id)
            return lease;
    }
    return NULL;
}

static void begin_anew(etcd_lease *lease)
{
    lease->ends_at = leader_time() + lease->seconds * SEC;
}

static bool has_expired(const etcd_lease *lease)
{
    return leader_time() >= lease->ends_at;
}

bool etcd_lease_renew(etcd_lease *lease)
{
    if (has_expired(lease))
        return false;
    begin_anew(lease);
    return true;
}

bool etcd_lease_renew_in_vain(etcd_lease *lease)
{
    if (leader_time() >= lease->ended_before)
        return false;
    lease->ended_before = leader_time() + lease->seconds * SEC;
    return true;
}

etcd_lease *etcd_lease_grant(const client *c, int64_t seconds)
{
    etcd_lease *lease = etcd_need(calloc(1, sizeof(*lease)));
    lease->id = 0x2b00 + ++etcd_all.last_lease;
    lease->seconds = seconds > SHORTEST_LEASE ? seconds : SHORTEST_LEASE;
    lease->made = s.now;
    lease->client = c->index;
    lease->generation = c->generation;
    begin_anew(lease);
    dlk_list_append(&etcd_all.leases, &lease->link);
    return lease;
}

void etcd_lease_end(etcd_lease *lease, const char *why)
{
    lease->over = true;
    tell(SERVER, ALL_NAMES, "lease %llx of client %d %s", (unsigned long long)lease->id,
         lease->client, why);
    etcd_store_end_lease(lease->id);
}

/* A majority has to write it down. */
static void end_expired(void)
{
    if (!has_leader())
        return;
    DLK_LIST_FOR (it, &etcd_all.leases) {
        etcd_lease *lease = DLK_LIST_ITEM(it, etcd_lease, link);
        if (!lease->over && has_expired(lease))
            etcd_lease_end(lease, "has expired");
    }
}

/* ---- elections ---- */

static int parts(int *ret)
{
    int count = 0;
    for (int i = 0; i < ETCD_MEMBERS; i++)
        if (etcd_takes_part(i))
            ret[count++] = i;
    return count;
}

static void elect(void)
{
    int able[ETCD_MEMBERS], count = parts(able);
    if (count <= ETCD_MEMBERS / 2)
        return;
    etcd_all.leader = able[between(&s.rand, 0, count - 1)];
    etcd_all.term++;
    etcd_all.elect_at = 0;
    for (int i = 0; i < count; i++) {
        etcd_all.members[able[i]].term = etcd_all.term;
        etcd_all.members[able[i]].leads = able[i] == etcd_all.leader;
    }
    DLK_LIST_FOR (it, &etcd_all.leases) {
        etcd_lease *lease = DLK_LIST_ITEM(it, etcd_lease, link);
        lease->ended_before = lease->ends_at;
        begin_anew(lease);
        lease->ends_at += ELECTION_TICKS;
    }
    tell(SERVER, ALL_NAMES, "member %d leads in term %lld", etcd_all.leader,
         (long long)etcd_all.term);
}

static void look_for_leader(void)
{
    if (has_leader())
        etcd_all.elect_at = 0;
    else if (!etcd_all.elect_at)
        etcd_all.elect_at = s.now + between(&s.rand, ELECTION_TICKS, 2 * ELECTION_TICKS);
    else if (s.now >= etcd_all.elect_at)
        elect();
}

/* Back among the others, it is some time before it hears of their term; a leader that
 * has heard nothing from a majority for long gives up by itself. */
static void look_at(int index)
{
    etcd_member *m = &etcd_all.members[index];
    bool here = etcd_takes_part(index);
    if (!here && !m->blind_since)
        m->blind_since = s.now;
    if (here && m->term < etcd_all.term && chance(&s.rand, 150)) {
        m->term = etcd_all.term;
        m->leads = false;
        tell(SERVER, ALL_NAMES, "member %d hears of term %lld", index,
             (long long)m->term);
    }
    if (here && m->term == etcd_all.term)
        m->blind_since = 0;
    if (m->leads && index != etcd_all.leader && is_alone(index) &&
        s.now >= m->alone_since + 2 * ELECTION_TICKS)
        m->leads = false;
    if (m->blind_since)
        etcd_unwell(s.now);
}

static void run_tick(event *e)
{
    if (s.now < s.server.frozen_until) {
        event_at(e, s.server.frozen_until + between(&s.rand, 1, MS), run_tick, NULL);
        return;
    }
    for (int i = 0; i < ETCD_MEMBERS; i++)
        look_at(i);
    look_for_leader();
    if (!has_leader())
        etcd_unwell(s.now);
    if (++etcd_all.ticks % LEASE_TICKS == 0)
        end_expired();
    event_at(e, s.now + ETCD_TICK, run_tick, NULL);
}

/* ---- beginning and end ---- */

void etcd_begin(void)
{
    memset(&etcd_all, 0, sizeof(etcd_all));
    dlk_list_init(&etcd_all.leases);
    etcd_store_begin();
    etcd_rules_begin();
    etcd_ends_begin();
    etcd_watches_begin();
    s.node_count = ETCD_MEMBERS; /* so many connections a client may have */
    etcd_all.term = 2;
    etcd_all.leader = (int)between(&s.rand, 0, ETCD_MEMBERS - 1);
    for (int i = 0; i < ETCD_MEMBERS; i++) {
        etcd_all.members[i].term = etcd_all.term;
        etcd_all.members[i].leads = i == etcd_all.leader;
    }
    event_at(&etcd_all.tick, s.now + ETCD_TICK, run_tick, NULL);
}

void etcd_end(void)
{
    while (!dlk_list_empty(&etcd_limbo))
        etcd_packet_free(DLK_LIST_ITEM(dlk_list_first(&etcd_limbo), etcd_packet, all));
    etcd_watches_end();
    etcd_store_end();
    dlk_list *link;
    while ((link = dlk_list_take_first(&etcd_all.leases)))
        free(DLK_LIST_ITEM(link, etcd_lease, link));
}

void etcd_heal(void)
{
    for (int i = 0; i < ETCD_MEMBERS; i++) {
        etcd_member *m = &etcd_all.members[i];
        m->lags_until = m->alone_until = s.now;
        s.nodes[i].down_until = s.nodes[i].frozen_until = s.now;
        m->leaves = false;
    }
}
