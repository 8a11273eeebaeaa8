/* A member's end of the calls: one that needs a majority waits until there is a leader
 * who hears of it, and is answered when this member has applied what came of it. */
#include "etcd/model.h"

#include <stdlib.h>

static etcd_member *member_of(const etcd_packet *p)
{
    return &etcd_all.members[p->member];
}

static client *client_of(const etcd_packet *p)
{
    return &s.clients[p->client];
}

static void next(etcd_packet *p, int64_t at, void (*then)(event *))
{
    event_at(&p->event, at, then, p);
}

/* ---- answers ---- */

/* In front of the rest: each answer begins with it. */
static void put_header(etcd_packet *p)
{
    DlkEtcd__ResponseHeader header = DLK_ETCD__RESPONSE_HEADER__INIT;
    DlkEtcd__LeaseRevokeResponse any = DLK_ETCD__LEASE_REVOKE_RESPONSE__INIT;
    dlk_buf whole = {0}, *body = &p->effect.body;
    header.revision = p->effect.revision;
    header.raft_term = (uint64_t)(p->term_said ? p->term_said : member_of(p)->term);
    any.header = &header;
    etcd_pack(&any.base, &whole);
    if (!dlk_buf_append(&whole, dlk_buf_head(body), dlk_buf_size(body)))
        abort();
    dlk_buf_free(body);
    *body = whole;
}

static void run_answer(event *e)
{
    etcd_packet *p = e->of;
    client *c = client_of(p);
    bool at_once = p->term_said || p->effect.status != DLK_GRPC_OK;
    int64_t applied = at_once ? etcd_still_until(p->member) : etcd_applies_at(p->member);
    bool heard = !p->dead && !p->wire->orphaned && etcd_packet_is_awaited(p);
    if (heard && s.now < applied) {
        next(p, applied + between(&c->rand, 0, MS), run_answer);
        return;
    }
    if (heard && p->strike == FAULT_DROP_REPLY) {
        p->strike = FAULT_NONE;
        etcd_packet_break(p, DLK_HTTP2_BROKEN);
        heard = false;
    }
    if (!heard) {
        etcd_packet_strike(p);
        etcd_packet_free(p);
        return;
    }
    if (p->effect.status == DLK_GRPC_OK)
        put_header(p);
    int64_t at = s.now + etcd_delay(c);
    if (p->strike != FAULT_NONE && p->where == ON_WAY_BACK)
        etcd_packet_strike_on_way(p, at);
    next(p, at, etcd_deliver);
    etcd_packet_strike(p);
}

static void answer(etcd_packet *p)
{
    next(p, s.now + between(&client_of(p)->rand, 50 * 1000, 1 * MS), run_answer);
}

static void refuse(etcd_packet *p, int status, const char *words)
{
    etcd_effect_error(&p->effect, status, words);
    answer(p);
}

static void run_too_late(event *e)
{
    refuse(e->of, DLK_GRPC_UNAVAILABLE, "etcdserver: request timed out");
}

/* ---- what a majority stands behind ---- */

static const char *words_of(const etcd_packet *p)
{
    if (p->effect.status != DLK_GRPC_OK)
        return "refused";
    return p->method != DLK_ETCD_TXN || p->effect.succeeded ? "yes" : "no";
}

static void grant(etcd_packet *p)
{
    const DlkEtcd__LeaseGrantRequest *ask = (const void *)p->ask;
    const etcd_lease *lease = etcd_lease_grant(client_of(p), ask->ttl);
    DlkEtcd__LeaseGrantResponse said = DLK_ETCD__LEASE_GRANT_RESPONSE__INIT;
    said.id = lease->id;
    said.ttl = lease->seconds;
    etcd_effect_says(&p->effect, &said.base);
}

static void revoke(etcd_packet *p)
{
    const DlkEtcd__LeaseRevokeRequest *ask = (const void *)p->ask;
    const DlkEtcd__LeaseRevokeResponse said = DLK_ETCD__LEASE_REVOKE_RESPONSE__INIT;
    etcd_lease *lease = etcd_lease_find(ask->id);
    if (!lease || lease->over) {
        etcd_effect_error(&p->effect, DLK_GRPC_NOT_FOUND,
                          "etcdserver: requested lease not found");
        return;
    }
    etcd_lease_end(lease, "is given back");
    etcd_effect_says(&p->effect, &said.base);
}

static void decide(etcd_packet *p)
{
    p->decided = s.now;
    if (p->method == DLK_ETCD_TXN)
        etcd_store_txn(p->parts, p->client, &p->effect);
    else if (p->method == DLK_ETCD_RANGE)
        etcd_store_range((const void *)p->ask, &p->effect);
    else if (p->method == DLK_ETCD_GRANT)
        grant(p);
    else
        revoke(p);
    tell(SERVER, etcd_packet_name(p), "client %d's %s at member %d: %s, revision %lld",
         p->client, etcd_packet_verb(p), p->member, words_of(p),
         (long long)p->effect.revision);
}

/* At the leader. What was on its way to one who leads no more is lost, and nobody is
 * told. */
static void run_ordered(event *e)
{
    etcd_packet *p = e->of;
    int leader = etcd_all.leader;
    if (etcd_packet_is_lost(p)) {
        etcd_packet_free(p);
        return;
    }
    if (leader != NO_LEADER && p->term == etcd_all.term &&
        s.now < etcd_still_until(leader)) {
        next(p, etcd_still_until(leader) + between(&s.rand, 0, MS), run_ordered);
        return;
    }
    if (p->term != etcd_all.term || !etcd_reaches_leader(p->member)) {
        next(p, p->arrived + ETCD_PATIENCE, run_too_late);
        return;
    }
    decide(p);
    answer(p);
}

static bool is_write(const etcd_packet *p)
{
    bool writes = p->method == DLK_ETCD_GRANT;
    for (size_t i = 0; i < etcd_packet_parts(p); i++)
        writes |= etcd_packet_looks_for(p, i).len == 0;
    return writes;
}

static void run_handle(event *e);

static void wait_more(etcd_packet *p)
{
    if (s.now >= p->arrived + ETCD_PATIENCE)
        run_too_late(&p->event);
    else
        next(p, s.now + 20 * MS, run_handle);
}

static void propose(etcd_packet *p)
{
    if (s.now < s.server.refuses_until && is_write(p)) {
        refuse(p, DLK_GRPC_RESOURCE_EXHAUSTED, "etcdserver: too many requests");
    } else if (!etcd_reaches_leader(p->member)) {
        wait_more(p);
    } else {
        p->term = etcd_all.term;
        next(p, s.now + between(&client_of(p)->rand, 20 * 1000, 400 * 1000), run_ordered);
    }
}

/* ---- renewing ---- */

static void renewed(etcd_packet *p, const etcd_lease *lease)
{
    DlkEtcd__LeaseKeepAliveResponse said = DLK_ETCD__LEASE_KEEP_ALIVE_RESPONSE__INIT;
    said.id = ((const DlkEtcd__LeaseKeepAliveRequest *)(const void *)p->ask)->id;
    said.ttl = lease ? lease->seconds : 0;
    etcd_effect_says(&p->effect, &said.base);
    answer(p);
}

/* By who believes to lead: nobody hears of it. */
static void keep_in_vain(etcd_packet *p, etcd_lease *lease)
{
    const etcd_member *m = member_of(p);
    if (!lease || lease->made > m->blind_since) {
        renewed(p, NULL);
    } else if (!etcd_lease_renew_in_vain(lease)) {
        wait_more(p);
    } else {
        tell(SERVER, ALL_NAMES,
             "member %d renews client %d's lease in term %lld, which nobody hears of",
             p->member, p->client, (long long)m->term);
        renewed(p, lease);
    }
}

/* Who leads asks nobody. The term is said as it was before. */
static void keep(etcd_packet *p)
{
    const etcd_member *m = member_of(p);
    etcd_lease *lease = etcd_lease_find(
        ((const DlkEtcd__LeaseKeepAliveRequest *)(const void *)p->ask)->id);
    if (!p->term_said)
        p->term_said = m->term;
    if (m->leads && p->member != etcd_all.leader)
        keep_in_vain(p, lease);
    else if (!m->leads && !etcd_reaches_leader(p->member))
        wait_more(p);
    else if (!lease || lease->over)
        renewed(p, NULL);
    else if (!etcd_lease_renew(lease)) /* it is told of its end when that is certain */
        wait_more(p);
    else
        renewed(p, lease);
}

/* ---- what comes ---- */

static void run_handle(event *e)
{
    etcd_packet *p = e->of;
    int64_t still = etcd_still_until(p->member);
    if (etcd_packet_is_lost(p))
        etcd_packet_free(p);
    else if (s.now < still)
        next(p, still + between(&client_of(p)->rand, 0, MS), run_handle);
    else if (p->method == DLK_ETCD_KEEP_ALIVE)
        keep(p);
    else
        propose(p);
}

/* What is on one stream stays in its order. */
static void hear(etcd_packet *p)
{
    int64_t still = etcd_still_until(p->member);
    wire *w = p->wire;
    if (s.now < still) {
        w->request_front = (w->request_front > still ? w->request_front : still) + 1;
        next(p, w->request_front, etcd_arrive);
        return;
    }
    if (p->says == ETCD_SAYS_DROP)
        DLK_LIST_FOR (it, &etcd_limbo) {
            etcd_packet *other = DLK_LIST_ITEM(it, etcd_packet, all);
            other->dropped |= other->wire == w && other->stream == p->stream;
        }
    etcd_watches_hear(p);
    etcd_packet_free(p);
}

static void greet(etcd_packet *p)
{
    int64_t still = etcd_still_until(p->member);
    if (s.now < still)
        next(p, still + between(&client_of(p)->rand, 0, MS), etcd_arrive);
    else
        next(p, s.now + etcd_delay(client_of(p)), etcd_deliver);
}

void etcd_arrive(event *e)
{
    etcd_packet *p = e->of;
    if (p->strike != FAULT_NONE && p->where == BEFORE)
        etcd_packet_strike(p);
    bool leaves = member_of(p)->leaves;
    bool gone = p->wire->orphaned || etcd_is_down(p->member) ||
                (p->says != ETCD_SAYS_ASK && p->wire->state != WIRE_UP);
    if (gone || (leaves && p->says == ETCD_SAYS_HELLO)) {
        etcd_packet_free(p);
    } else if (p->says == ETCD_SAYS_HELLO) {
        greet(p);
    } else if (p->says != ETCD_SAYS_ASK) {
        hear(p);
    } else if (leaves) {
        p->outcome = DLK_HTTP2_UNDONE;
        next(p, s.now + etcd_delay(client_of(p)), etcd_deliver);
    } else {
        p->arrived = s.now;
        run_handle(e);
    }
}

void etcd_member_cut(int index, const char *why)
{
    DLK_LIST_FOR (it, &s.wires) {
        wire *w = DLK_LIST_ITEM(it, wire, all);
        if (w->slot != index)
            continue;
        w->orphaned |= w->state != WIRE_DIALLING;
        net_cut_wire(w, why);
    }
}

/* What it hasn't got yet it refuses from now on. */
void etcd_member_says_goodbye(int index)
{
    for (int i = 0; i < s.config.clients; i++) {
        client *c = &s.clients[i];
        wire *w = c->wires[index];
        if (!w || w->state != WIRE_UP)
            continue;
        etcd_packet *p = etcd_packet_back(c, ETCD_SAYS_LEAVE, w, 0);
        event_at(&p->event, s.now + etcd_delay(c), etcd_deliver, p);
    }
}
