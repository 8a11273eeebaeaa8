/* A member's end of the calls: one that needs a majority waits until there is a leader
 * who hears of it, and is answered when this member has applied what came of it; watches
 * tell of what it applies. */
#include "etcd/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GRPC_NOT_FOUND = 5, GRPC_EXHAUSTED = 8, GRPC_UNAVAILABLE = 14 };

static etcd_member *member_of(const etcd_packet *p)
{
    return &etcd_all.members[p->member];
}

static void next(etcd_packet *p, int64_t at, void (*then)(event *))
{
    event_at(&p->event, at, then, p);
}

/* ---- answers ---- */

static void set_header(etcd_packet *p)
{
    json_t *to = json_object_get(p->effect.json, "result");
    char revision[24], term[24];
    (void)snprintf(revision, sizeof(revision), "%lld",
                   (long long)p->effect.revision); /* fits, as below */
    (void)snprintf(term, sizeof(term), "%lld",
                   (long long)(p->term_said ? p->term_said : member_of(p)->term));
    json_t *header =
        etcd_need(json_pack("{s:s, s:s}", "revision", revision, "raft_term", term));
    if (json_object_set_new(to ? to : p->effect.json, "header", header) != 0)
        abort();
}

static void run_answer(event *e)
{
    etcd_packet *p = e->of;
    client *c = &s.clients[p->client];
    bool at_once = p->term_said || p->effect.status != 200;
    int64_t applied = at_once ? etcd_still_until(p->member) : etcd_applies_at(p->member);
    if (s.now < applied && !p->dead) {
        next(p, applied + between(&c->rand, 0, MS), run_answer);
        return;
    }
    if (p->dead || !p->call) {
        etcd_packet_strike(p);
        etcd_packet_settle(p);
        return;
    }
    if (p->strike == FAULT_DROP_REPLY) {
        p->strike = FAULT_NONE;
        etcd_packet_fail(p, CURLE_RECV_ERROR);
        return;
    }
    if (p->effect.status == 200)
        set_header(p);
    int64_t at = s.now + etcd_delay(c);
    if (p->strike != FAULT_NONE && p->where == ON_WAY_BACK)
        etcd_packet_strike_on_way(p, at);
    next(p, at, etcd_deliver);
    etcd_packet_strike(p);
}

static void answer(etcd_packet *p)
{
    next(p, s.now + between(&s.clients[p->client].rand, 50 * 1000, 1 * MS), run_answer);
}

static void refuse(etcd_packet *p, long status, int code, const char *words)
{
    etcd_effect_error(&p->effect, status, code, words);
    answer(p);
}

static void run_too_late(event *e)
{
    refuse(e->of, 503, GRPC_UNAVAILABLE, "etcdserver: request timed out");
}

/* ---- what a majority stands behind ---- */

static const char *words_of(const etcd_packet *p)
{
    if (p->effect.status != 200)
        return "refused";
    if (strcmp(p->path, "/v3/kv/txn") != 0)
        return "yes";
    return dlk_json_true(p->effect.json, "succeeded") ? "yes" : "no";
}

static void grant(etcd_packet *p)
{
    const etcd_lease *lease =
        etcd_lease_grant(&s.clients[p->client], dlk_json_int(p->ask, "TTL"));
    char id[24], ttl[24];
    (void)snprintf(id, sizeof(id), "%lld", (long long)lease->id); /* fits */
    (void)snprintf(ttl, sizeof(ttl), "%lld", (long long)lease->seconds);
    p->effect =
        (etcd_effect){200, etcd_need(json_pack("{s:s, s:s}", "ID", id, "TTL", ttl)),
                      etcd_store_revision()};
}

static void revoke(etcd_packet *p)
{
    etcd_lease *lease = etcd_lease_find(dlk_json_int(p->ask, "ID"));
    if (!lease || lease->over) {
        etcd_effect_error(&p->effect, 404, GRPC_NOT_FOUND,
                          "etcdserver: requested lease not found");
        return;
    }
    etcd_lease_end(lease, "is given back");
    p->effect = (etcd_effect){200, etcd_need(json_object()), etcd_store_revision()};
}

static void decide(etcd_packet *p)
{
    p->decided = s.now;
    if (strcmp(p->path, "/v3/kv/txn") == 0)
        etcd_store_txn(p->ask, p->client, &p->effect);
    else if (strcmp(p->path, "/v3/kv/range") == 0)
        etcd_store_range(p->ask, &p->effect);
    else if (strcmp(p->path, "/v3/lease/grant") == 0)
        grant(p);
    else if (strcmp(p->path, "/v3/lease/revoke") == 0)
        revoke(p);
    else
        abort(); /* nobody asks for anything else */
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
    if (p->lost) {
        etcd_packet_settle(p);
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
    return strcmp(p->path, "/v3/lease/grant") == 0 ||
           (strcmp(p->path, "/v3/kv/txn") == 0 &&
            strcmp(etcd_packet_verb(p), "look") != 0);
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
        refuse(p, 429, GRPC_EXHAUSTED, "etcdserver: too many requests");
    } else if (!etcd_reaches_leader(p->member)) {
        wait_more(p);
    } else {
        p->term = etcd_all.term;
        next(p, s.now + between(&s.clients[p->client].rand, 20 * 1000, 400 * 1000),
             run_ordered);
    }
}

/* ---- renewing ---- */

static void renewed(etcd_packet *p, int64_t seconds)
{
    char ttl[24];
    (void)snprintf(ttl, sizeof(ttl), "%lld", (long long)seconds); /* fits */
    json_t *result = etcd_need(json_object());
    if (seconds && json_object_set_new(result, "TTL", json_string(ttl)) != 0)
        abort();
    p->effect = (etcd_effect){200, etcd_need(json_pack("{s:o}", "result", result)),
                              etcd_store_revision()};
    answer(p);
}

/* By who believes to lead: nobody hears of it. */
static void keep_in_vain(etcd_packet *p, etcd_lease *lease)
{
    const etcd_member *m = member_of(p);
    if (!lease || lease->made > m->blind_since) {
        renewed(p, 0);
    } else if (!etcd_lease_renew_in_vain(lease)) {
        wait_more(p);
    } else {
        tell(SERVER, ALL_NAMES,
             "member %d renews client %d's lease in term %lld, which nobody hears of",
             p->member, p->client, (long long)m->term);
        renewed(p, lease->seconds);
    }
}

/* Who leads asks nobody. The term is said as it was before. */
static void keep(etcd_packet *p)
{
    const etcd_member *m = member_of(p);
    etcd_lease *lease = etcd_lease_find(dlk_json_int(p->ask, "ID"));
    if (!p->term_said)
        p->term_said = m->term;
    if (m->leads && p->member != etcd_all.leader)
        keep_in_vain(p, lease);
    else if (!m->leads && !etcd_reaches_leader(p->member))
        wait_more(p);
    else if (!lease || lease->over)
        renewed(p, 0);
    else if (!etcd_lease_renew(lease)) /* it is told of its end when that is certain */
        wait_more(p);
    else
        renewed(p, lease->seconds);
}

/* ---- watches ---- */

static void run_news(event *e)
{
    etcd_packet *p = e->of;
    client *c = &s.clients[p->client];
    int64_t applied = etcd_applies_at(p->member);
    if (p->dead || !p->call) {
        etcd_packet_settle(p);
        return;
    }
    if (s.now < applied) {
        next(p, applied + between(&c->rand, 0, MS), run_news);
        return;
    }
    if (s.now < c->news_lost_until) {
        p->deaf = true; /* its connection is gone, and nobody has noticed */
        tell(c->index, etcd_packet_name(p), "its watch goes deaf");
        return;
    }
    int64_t late = s.now < c->news_odd_until && c->news_late
                       ? between(&c->rand, 50 * MS, 2 * SEC)
                       : 0;
    p->fired = true;
    p->effect.status = 200;
    if (late)
        client_upset(c, s.now + late);
    next(p, s.now + late + etcd_delay(c), etcd_deliver);
}

void etcd_watch_fire(etcd_packet *p)
{
    p->armed = false;
    next(p, s.now + between(&s.clients[p->client].rand, 50 * 1000, 1 * MS), run_news);
}

static void begin_watch(etcd_packet *p)
{
    const json_t *ask = json_object_get(p->ask, "create_request");
    p->puts = json_array_size(json_object_get(ask, "filters")) == 0;
    p->start = dlk_json_int(ask, "start_revision");
    (void)etcd_span_read(ask, &p->span);
    p->armed = true;
    switch (etcd_store_past(&p->span, p->puts, p->start)) {
    case PAST_QUIET:
        return;
    case PAST_COMPACTED:
        tell(SERVER, etcd_packet_name(p), "client %d's watch is ended: compacted",
             p->client);
        etcd_watch_fire(p);
        return;
    case PAST_NEWS:
        etcd_watch_fire(p);
        return;
    case PAST_FORGOTTEN:
        tell(SERVER, etcd_packet_name(p),
             "client %d's watch begins at the compacted deletion, and isn't told",
             p->client);
        p->deaf = true;
        return;
    }
}

void etcd_members_changed(const dlk_bytes *key, bool put, int64_t revision)
{
    DLK_LIST_FOR (it, &etcd_limbo) {
        etcd_packet *p = DLK_LIST_ITEM(it, etcd_packet, all);
        if (p->armed && !p->deaf && revision >= p->start && (p->puts || !put) &&
            etcd_span_has(&p->span, key))
            etcd_watch_fire(p);
    }
}

/* ---- what comes ---- */

static void run_handle(event *e)
{
    etcd_packet *p = e->of;
    int64_t still = etcd_still_until(p->member);
    if (p->lost) {
        etcd_packet_settle(p);
        return;
    }
    if (s.now < still)
        next(p, still + between(&s.clients[p->client].rand, 0, MS), run_handle);
    else if (p->watch)
        begin_watch(p);
    else if (strcmp(p->path, "/v3/lease/keepalive") == 0)
        keep(p);
    else
        propose(p);
}

void etcd_arrive(event *e)
{
    etcd_packet *p = e->of;
    if (p->strike != FAULT_NONE && p->where == BEFORE)
        etcd_packet_strike(p);
    if (p->lost) {
        etcd_packet_settle(p);
        return;
    }
    if (etcd_is_down(p->member)) {
        p->lost = true;
        etcd_packet_fail(p, CURLE_COULDNT_CONNECT);
        etcd_packet_settle(p);
        return;
    }
    p->arrived = s.now;
    run_handle(e);
}

void etcd_member_cut(int index, const char *why)
{
    DLK_LIST_FOR (it, &etcd_limbo) {
        etcd_packet *p = DLK_LIST_ITEM(it, etcd_packet, all);
        if (p->member != index || !p->arrived)
            continue;
        if (p->call && !p->watch)
            tell(p->client, etcd_packet_name(p), "its %s is cut: %s", etcd_packet_verb(p),
                 why);
        p->lost = p->dead = true;
        etcd_packet_fail(p, CURLE_RECV_ERROR);
    }
}
