/* A member's watches: they tell of what it applies, until they are cancelled, or their stream or their
 * connection is over. */
#include "etcd/model.h"

#include <stdlib.h>

#define SYNC_EVERY (100 * MS)

static dlk_list watches; /* etcd_watch.link */

static void forget(etcd_watch *w)
{
    dlk_list_remove(&w->link);
    dlk_etcd_bytes_free(&w->span.from);
    dlk_etcd_bytes_free(&w->span.to);
    free(w);
}

static etcd_watch *find(const wire *on, int32_t stream, int64_t number)
{
    DLK_LIST_FOR (it, &watches) {
        etcd_watch *w = DLK_LIST_ITEM(it, etcd_watch, link);
        if (w->wire == on && w->stream == stream && w->number == number)
            return w;
    }
    return NULL;
}

static void forget_stream(const wire *on, int32_t stream)
{
    DLK_LIST_FOR (it, &watches) {
        etcd_watch *w = DLK_LIST_ITEM(it, etcd_watch, link);
        if (w->wire == on && w->stream == stream)
            forget(w);
    }
}

/* ---- what they say ---- */

static void run_news(event *e)
{
    etcd_packet *p = e->of;
    client *c = &s.clients[p->client];
    etcd_watch *w = find(p->wire, p->stream, p->watch);
    int64_t applied = etcd_applies_at(p->member);
    if (p->wire->state != WIRE_UP || p->wire->orphaned || (w && w->deaf)) {
        etcd_packet_free(p);
        return;
    }
    if (s.now < applied) {
        event_at(e, applied + between(&c->rand, 0, MS), run_news, p);
        return;
    }
    if (w && s.now < c->news_lost_until) {
        w->deaf = true;
        tell(c->index, etcd_rules_name_of(w->span.from), "its watch goes deaf");
        etcd_packet_free(p);
        return;
    }
    int64_t late = s.now < c->news_odd_until && c->news_late
                       ? between(&c->rand, 50 * MS, 2 * SEC)
                       : 0;
    if (late)
        client_upset(c, s.now + late);
    event_at(e, s.now + late + etcd_delay(c), etcd_deliver, p);
}

static void say(const etcd_watch *w, DlkEtcd__WatchResponse *said)
{
    client *c = &s.clients[w->client];
    DlkEtcd__ResponseHeader header = DLK_ETCD__RESPONSE_HEADER__INIT;
    etcd_packet *p = etcd_packet_back(c, ETCD_SAYS_NEWS, w->wire, w->stream);
    header.revision = etcd_store_revision();
    header.raft_term = (uint64_t)etcd_all.members[p->member].term;
    said->header = &header;
    said->watch_id = w->number;
    p->watch = w->number;
    etcd_pack(&said->base, &p->effect.body);
    int64_t from = said->created || s.now > w->synced_at ? s.now : w->synced_at;
    event_at(&p->event, from + between(&c->rand, 50 * 1000, 1 * MS), run_news, p);
}

static void fire(const etcd_watch *w)
{
    DlkEtcd__Done done = DLK_ETCD__DONE__INIT, *events[] = {&done};
    DlkEtcd__WatchResponse said = DLK_ETCD__WATCH_RESPONSE__INIT;
    said.n_events = 1;
    said.events = events;
    say(w, &said);
}

static void say_created(const etcd_watch *w)
{
    DlkEtcd__WatchResponse said = DLK_ETCD__WATCH_RESPONSE__INIT;
    said.created = true;
    say(w, &said);
}

static void say_over(const etcd_watch *w, int64_t compacted)
{
    DlkEtcd__WatchResponse said = DLK_ETCD__WATCH_RESPONSE__INIT;
    said.canceled = true;
    said.compact_revision = compacted;
    say(w, &said);
}

/* ---- what is said to them ---- */

static void create(const etcd_packet *p, const DlkEtcd__WatchCreateRequest *ask)
{
    etcd_watch *w = etcd_need(calloc(1, sizeof(*w)));
    w->client = p->client;
    w->wire = p->wire;
    w->stream = p->stream;
    w->number = ask->watch_id;
    w->start = ask->start_revision ? ask->start_revision : etcd_store_revision() + 1;
    /* A member goes ten times a second through those that begin in the past. */
    if (w->start <= etcd_store_revision())
        w->synced_at = (s.now / SYNC_EVERY + 1) * SYNC_EVERY;
    w->of = ask->n_filters == 0 ? DLK_ETCD_CHANGES
            : ask->filters[0] == DLK_ETCD__WATCH_CREATE_REQUEST__FILTER__NOPUT
                ? DLK_ETCD_DELETES
                : DLK_ETCD_PUTS;
    w->span.from = dlk_etcd_bytes_copy(ask->key.data, ask->key.len);
    w->span.to = dlk_etcd_bytes_copy(ask->range_end.data, ask->range_end.len);
    dlk_list_append(&watches, &w->link);
    say_created(w);
    switch (etcd_store_past(&w->span, w->of, w->start)) {
    case PAST_QUIET:
        return;
    case PAST_COMPACTED:
        tell(SERVER, etcd_packet_name(p), "client %d's watch is ended: compacted",
             p->client);
        say_over(w, etcd_store_compacted());
        return;
    case PAST_NEWS:
        fire(w);
        return;
    case PAST_FORGOTTEN:
        tell(SERVER, etcd_packet_name(p),
             "client %d's watch begins at the compacted deletion, and isn't told",
             p->client);
        w->deaf = true;
        return;
    }
}

static void cancel(const etcd_packet *p, const DlkEtcd__WatchCancelRequest *ask)
{
    etcd_watch *w = find(p->wire, p->stream, ask->watch_id);
    if (!w)
        return;
    say_over(w, 0);
    forget(w);
}

void etcd_watches_hear(etcd_packet *p)
{
    const DlkEtcd__WatchRequest *ask = (const void *)p->ask;
    if (p->says == ETCD_SAYS_DROP)
        forget_stream(p->wire, p->stream);
    else if (ask->request_case == DLK_ETCD__WATCH_REQUEST__REQUEST_CREATE_REQUEST)
        create(p, ask->create_request);
    else
        cancel(p, ask->cancel_request);
}

static bool is_there(const etcd_watch *w)
{
    return w->wire->state == WIRE_UP && !w->wire->orphaned;
}

void etcd_members_changed(dlk_etcd_bytes key, bool put, int64_t revision)
{
    DLK_LIST_FOR (it, &watches) {
        etcd_watch *w = DLK_LIST_ITEM(it, etcd_watch, link);
        if (!is_there(w))
            forget(w);
        else if (!w->deaf && revision >= w->start && etcd_is_news(w->of, put) &&
                 etcd_span_has(&w->span, key))
            fire(w);
    }
}

/* ---- faults, and how it looks from outside ---- */

/* Their stream ends, by a word of the member's or by none. */
void etcd_cut_news(client *c)
{
    etcd_watch *any = NULL;
    DLK_LIST_FOR (it, &watches) {
        etcd_watch *w = DLK_LIST_ITEM(it, etcd_watch, link);
        if (is_there(w) && w->wire->owner == c)
            any = w;
    }
    if (!any)
        return;
    tell(c->index, ALL_NAMES, "its watches are cut");
    client_upset(c, s.now);
    etcd_packet *p = etcd_packet_back(c, ETCD_SAYS_END, any->wire, any->stream);
    p->outcome = chance(&c->rand, 500) ? DLK_HTTP2_ANSWERED : DLK_HTTP2_BROKEN;
    etcd_effect_error(&p->effect, DLK_GRPC_UNAVAILABLE, "etcdserver: no leader");
    event_at(&p->event, s.now + between(&c->rand, 0, 2 * MS), etcd_deliver, p);
    forget_stream(p->wire, p->stream);
}

/* A watch that is told of something, and nothing has happened. */
bool etcd_spurious(client *c, int name)
{
    (void)name;
    DLK_LIST_FOR (it, &watches) {
        const etcd_watch *w = DLK_LIST_ITEM(it, etcd_watch, link);
        if (!is_there(w) || w->deaf || w->wire->owner != c)
            continue;
        fire(w);
        return true;
    }
    return false;
}

static bool is_awaited(const client *c, int64_t number)
{
    DLK_LIST_FOR (it, &etcd_of(c)->calls.watching)
        if (DLK_LIST_ITEM(it, dlk_etcd_call, link)->watch == number)
            return true;
    return false;
}

bool etcd_hears(const client *c)
{
    DLK_LIST_FOR (it, &watches) {
        const etcd_watch *w = DLK_LIST_ITEM(it, etcd_watch, link);
        if (w->deaf && is_there(w) && w->wire->owner == c && etcd_of(c) &&
            is_awaited(c, w->number))
            return false;
    }
    return !net_is_quiet(c) && is_calm(c->up_since);
}

/* ---- beginning and end ---- */

void etcd_watches_begin(void)
{
    dlk_list_init(&watches);
}

void etcd_watches_end(void)
{
    DLK_LIST_FOR (it, &watches)
        forget(DLK_LIST_ITEM(it, etcd_watch, link));
}
