/*
 * What libdlock/backends/etcd/wire.c does with libcurl, done without a network: a call
 * has a connection of its own while it is under way, so calls overtake each other; one
 * that isn't answered in time, or whose connection breaks, ends though the member may
 * have done it, or may do it yet.
 */
#include "etcd/model.h"

#include "util/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The last looks at a line for a key, of which an answer has come; and when they were decided. */
#define MAX_LOOKS 16
struct look {
    uint64_t key;
    int64_t at;
};

/* A client's connections to its present member. */
static struct line {
    int member; /* NO_LEADER: none */
    bool silent, deaf;
    struct look looks[MAX_LOOKS];
    size_t look_count;
} lines[MAX_CLIENTS];

static uint64_t hash_of(const char *key)
{
    return dlk_hash(DLK_HASH_BEGIN, key, strlen(key));
}

/* The client that works with this wire; while it is opened or closed the one that
 * runs. */
static client *owner_of(const dlk_etcd_wire *w)
{
    for (int i = 0; i < s.config.clients; i++)
        if (s.clients[i].et && &s.clients[i].et->wire == w)
            return &s.clients[i];
    return s.running;
}

static bool is_of(const etcd_packet *p, const client *c)
{
    return p->client == c->index && p->generation == c->generation;
}

/* ---- out of the wire ---- */

static void put(dlk_etcd_wire *w, dlk_etcd_call *call, CURLcode code)
{
    call->code = code;
    dlk_list_remove(&call->link);
    dlk_list_append(&w->inbox, &call->link);
}

void etcd_give(etcd_packet *p, CURLcode code)
{
    client *c = &s.clients[p->client];
    dlk_etcd_call *call = p->call;
    p->call = NULL;
    event_cancel(&p->end);
    if (code != CURLE_OK && !p->fired)
        etcd_packet_abandon(p);
    put(&c->et->wire, call, code);
    etcd_wake(c);
}

/* One that was refused has said nothing of the line. */
static void note_look(const etcd_packet *p)
{
    struct line *line = &lines[p->client];
    const char *key = etcd_packet_looks_for(p);
    if (!key || p->effect.status != 200)
        return;
    line->looks[line->look_count++ % MAX_LOOKS] = (struct look){hash_of(key), p->decided};
}

int64_t etcd_looked(const client *c, const char *key)
{
    int64_t last = 0;
    for (size_t i = 0; i < MAX_LOOKS; i++) {
        const struct look *look = &lines[c->index].looks[i];
        if (look->key == hash_of(key) && look->at > last)
            last = look->at;
    }
    return last;
}

void etcd_deliver(event *e)
{
    etcd_packet *p = e->of;
    client *c = &s.clients[p->client];
    if (p->call && !lines[c->index].deaf && client_put_off(c, e))
        return;
    if (p->call && lines[c->index].deaf) {
        p->deaf = p->watch;
        return; /* its time will be up */
    }
    if (p->call) {
        p->call->status = p->effect.status;
        p->call->fired = p->fired;
        p->call->json = p->effect.json;
        p->effect.json = NULL;
        if (p->decided)
            note_look(p);
        etcd_give(p, p->fired ? CURLE_WRITE_ERROR : CURLE_OK);
    }
    etcd_packet_settle(p);
}

/* ---- into it ---- */

static void strike_wire(etcd_packet *p, int64_t *at)
{
    client *c = &s.clients[p->client];
    fault what = p->strike;
    if (what != FAULT_DROP_REPLY)
        p->strike = FAULT_NONE;
    fault_count(what, p->at);
    client_upset(c, s.now);
    tell(c->index, p->name, "its %s is struck: %s", etcd_packet_verb(p),
         fault_infos[what].name);
    switch ((int)what) {
    case FAULT_DROP_REQUEST:
        p->lost = true;
        etcd_packet_fail(p, CURLE_SEND_ERROR);
        return;
    case FAULT_LATE_REQUEST:
        *at += between(&c->rand, 1 * MS, 100 * MS);
        p->dead = true;
        etcd_packet_fail(p, CURLE_RECV_ERROR);
        return;
    case FAULT_SLOW:
        *at += between(&c->rand, 100 * MS, 4 * SEC);
        client_upset(c, *at);
        return;
    default: /* the reply is dropped when there is one */
        return;
    }
}

static void run_timeout(event *e)
{
    etcd_packet *p = e->of;
    client *c = &s.clients[p->client];
    if (client_put_off(c, e))
        return;
    tell(c->index, etcd_packet_name(p), "its %s isn't answered in time",
         etcd_packet_verb(p));
    etcd_give(p, CURLE_OPERATION_TIMEDOUT);
    etcd_packet_settle(p);
}

static void transmit(client *c, dlk_etcd_call *call)
{
    const struct line *line = &lines[c->index];
    etcd_packet *p = etcd_packet_new(c, call->path, call->body);
    int64_t at = s.now + etcd_delay(c);
    p->call = call;
    p->watch = call->watch;
    p->member = line->member;
    dlk_list_append(&c->et->wire.going, &call->link);
    if (call->timeout_ms)
        event_at(&p->end, true_time(c, client_time(c) + call->timeout_ms * MS),
                 run_timeout, p);
    if (line->member == NO_LEADER || s.now < c->unreachable_until) {
        p->lost = true;
        etcd_packet_fail(p, CURLE_COULDNT_CONNECT);
        return;
    }
    p->lost = line->silent;
    etcd_packet_aim(p);
    if (p->strike != FAULT_NONE && fault_is_of_wire(p->strike))
        strike_wire(p, &at);
    else if (p->strike != FAULT_NONE && p->where == ON_WAY)
        etcd_packet_strike_on_way(p, at);
    event_at(&p->event, at, etcd_arrive, p);
}

void dlk_etcd_wire_send(dlk_etcd_wire *w, dlk_etcd_call *call)
{
    dlk_list_append(&w->outbox, &call->link);
}

bool dlk_etcd_wire_flush(dlk_etcd_wire *w)
{
    client *c = owner_of(w);
    dlk_list *link;
    while (!c->dead && (link = dlk_list_take_first(&w->outbox)))
        transmit(c, DLK_LIST_ITEM(link, dlk_etcd_call, link));
    return !dlk_list_empty(&w->inbox);
}

void dlk_etcd_wire_take(dlk_etcd_wire *w, dlk_list *ret)
{
    dlk_list_splice(ret, &w->inbox);
}

/* ---- where to ---- */

static void let_go(etcd_packet *p)
{
    event_cancel(&p->end);
    p->call = NULL;
    etcd_packet_abandon(p);
    etcd_packet_settle(p);
}

static void end_all(dlk_etcd_wire *w, const client *c)
{
    DLK_LIST_FOR (it, &etcd_limbo) {
        etcd_packet *p = DLK_LIST_ITEM(it, etcd_packet, all);
        if (!p->call || !is_of(p, c))
            continue;
        put(w, p->call, CURLE_ABORTED_BY_CALLBACK);
        let_go(p);
    }
    DLK_LIST_FOR (it, &w->outbox)
        put(w, DLK_LIST_ITEM(it, dlk_etcd_call, link), CURLE_ABORTED_BY_CALLBACK);
}

void dlk_etcd_wire_go(dlk_etcd_wire *w, dlk_etcd_way *way)
{
    client *c = owner_of(w);
    struct line *line = &lines[c->index];
    int port = 0;
    if (way && sscanf(way->url, "http://127.0.0.1:%d", &port) != 1)
        abort();
    end_all(w, c);
    dlk_etcd_way_free(w->way);
    w->way = way;
    line->member = way ? port - 1 : NO_LEADER;
    line->silent = line->deaf = false;
    if (way)
        tell(c->index, ALL_NAMES, "turns to member %d", line->member);
    etcd_wake(c);
}

void dlk_etcd_wire_drop(dlk_etcd_wire *w, dlk_etcd_call *call)
{
    DLK_LIST_FOR (it, &etcd_limbo) {
        etcd_packet *p = DLK_LIST_ITEM(it, etcd_packet, all);
        if (p->call == call)
            let_go(p);
    }
    put(w, call, CURLE_ABORTED_BY_CALLBACK);
    etcd_wake(owner_of(w));
}

/* ---- beginning and end ---- */

dlock_err dlk_etcd_wire_init(dlk_etcd_wire *w, const dlk_settings *settings, bool tls,
                             dlk_kicks *kicks, dlock_error **err)
{
    (void)err;
    *w = (dlk_etcd_wire){.settings = settings, .tls = tls, .kicks = kicks};
    dlk_list_init(&w->outbox);
    dlk_list_init(&w->inbox);
    dlk_list_init(&w->going);
    lines[s.running->index] = (struct line){.member = NO_LEADER};
    return DLOCK_OK;
}

void dlk_etcd_call_free(dlk_etcd_call *call)
{
    json_decref(call->json);
    free(call->token);
    free(call->body);
    free(call);
}

static void free_calls(dlk_list *calls)
{
    dlk_list *link;
    while ((link = dlk_list_take_first(calls)))
        dlk_etcd_call_free(DLK_LIST_ITEM(link, dlk_etcd_call, link));
}

/* What it still says goes out, and nobody waits for the answer. */
void dlk_etcd_wire_part(dlk_etcd_wire *w, dlk_etcd_call *call)
{
    client *c = owner_of(w);
    const struct line *line = &lines[c->index];
    end_all(w, c);
    if (call && !c->dead && line->member != NO_LEADER && !line->silent &&
        s.now >= c->unreachable_until) {
        etcd_packet *p = etcd_packet_new(c, call->path, call->body);
        p->member = line->member;
        event_at(&p->event, s.now + etcd_delay(c), etcd_arrive, p);
    }
    if (call)
        dlk_etcd_call_free(call);
}

void dlk_etcd_wire_free(dlk_etcd_wire *w)
{
    free_calls(&w->outbox);
    free_calls(&w->inbox);
    free_calls(&w->going);
    dlk_etcd_way_free(w->way);
    w->way = NULL;
}

/* The simulator wakes a driver when there is something to digest, and nobody forks
 * here. */
void dlk_etcd_wire_push(dlk_etcd_wire *w, dlk_polls *polls)
{
    (void)w, (void)polls;
}

void dlk_etcd_wire_pull(dlk_etcd_wire *w, const dlk_polls *polls)
{
    (void)w, (void)polls;
}

void etcd_wires_begin(void)
{
    dlk_list_init(&etcd_limbo);
    for (int i = 0; i < MAX_CLIENTS; i++)
        lines[i] = (struct line){.member = NO_LEADER};
}

/* ---- faults, and how it looks from outside ---- */

static void cut_some(const client *c, bool watches_only)
{
    DLK_LIST_FOR (it, &etcd_limbo) {
        etcd_packet *p = DLK_LIST_ITEM(it, etcd_packet, all);
        if (!p->call || !is_of(p, c) || (watches_only && !p->watch))
            continue;
        p->dead = true;
        etcd_packet_fail(p, CURLE_RECV_ERROR);
    }
}

void etcd_cut(client *c, const char *why)
{
    tell(c->index, ALL_NAMES, "cut: %s", why);
    cut_some(c, false);
}

void etcd_cut_news(client *c)
{
    tell(c->index, ALL_NAMES, "its watches are cut");
    client_upset(c, s.now);
    cut_some(c, true);
}

void etcd_silence(client *c, bool both_ways)
{
    lines[c->index].deaf = true;
    lines[c->index].silent |= both_ways;
}

bool etcd_is_quiet(const client *c)
{
    const struct line *line = &lines[c->index];
    return line->silent || line->deaf;
}

bool etcd_hears(const client *c)
{
    DLK_LIST_FOR (it, &etcd_limbo) {
        const etcd_packet *p = DLK_LIST_ITEM(it, etcd_packet, all);
        if (p->watch && p->deaf && p->call && is_of(p, c))
            return false;
    }
    return !etcd_is_quiet(c) && is_calm(c->up_since);
}

/* The kernel closes what the process had; its lease lives on for a while. */
void etcd_died(client *c)
{
    DLK_LIST_FOR (it, &etcd_limbo) {
        etcd_packet *p = DLK_LIST_ITEM(it, etcd_packet, all);
        if (!p->call || !is_of(p, c))
            continue;
        put(&c->et->wire, p->call, CURLE_ABORTED_BY_CALLBACK); /* to be freed with it */
        let_go(p);
    }
}

/* A watch that is told of something, and nothing has happened. */
bool etcd_spurious(client *c, int name)
{
    (void)name;
    DLK_LIST_FOR (it, &etcd_limbo) {
        etcd_packet *p = DLK_LIST_ITEM(it, etcd_packet, all);
        if (!p->armed || p->deaf || !p->call || !is_of(p, c))
            continue;
        etcd_watch_fire(p);
        return true;
    }
    return false;
}
