/*
 * The connections of the clients, and the client library's part in them: it pings, notices
 * silence, dials again, sets its watches anew, and hands all that comes to the backend's inbox in
 * the server's order. What is under way when a connection breaks comes back as cut, though the
 * server may have done it, or may do it yet.
 */
#include "zookeeper/packet.h"

#include <stdlib.h>
#include <string.h>

static dlk_zk_wire *wire_of(const client *c)
{
    DLK_LIST_FOR (it, &zk_net.wires) {
        dlk_zk_wire *w = DLK_LIST_ITEM(it, dlk_zk_wire, all);
        if (w->owner == c && zk_wire_lives(w))
            return w;
    }
    return NULL;
}

/* ---- from the library to the inbox ---- */

static void put_news(dlk_zk_wire *w, dlk_zk_news news, const char *text)
{
    dlk_zk_item *item = zk_need(dlk_zk_item_new(news, w->epoch, text));
    if (news == DLK_ZK_CONNECTED) {
        item->session = w->session;
        item->timeout_ms = (int)(w->timeout / MS);
    }
    dlk_zk_inbox_put(w->inbox, item);
}

static void put_answer(dlk_zk_wire *w, dlk_zk_call *call, zk_effect *effect)
{
    call->end = effect->end;
    call->code = (int)effect->end;
    call->item.text = effect->text;
    call->size = effect->size;
    call->stat = effect->stat;
    call->children = effect->children;
    call->child_count = effect->child_count;
    effect->text = NULL;
    effect->children = NULL;
    dlk_zk_inbox_put(w->inbox, &call->item);
}

/* No answer will come any more. */
static void bring_back(dlk_zk_wire *w, dlk_zk_end end)
{
    DLK_LIST_FOR (it, &zk_net.limbo) {
        zk_packet *p = DLK_LIST_ITEM(it, zk_packet, all);
        if (p->wire == w)
            p->call = NULL;
    }
    while (!dlk_list_empty(&w->unsent))
        zk_packet_drop(DLK_LIST_ITEM(dlk_list_first(&w->unsent), zk_packet, lane));
    while (!dlk_list_empty(&w->calls)) {
        dlk_zk_call *call = DLK_LIST_ITEM(dlk_list_first(&w->calls), dlk_zk_call, sent);
        put_answer(w, call, &(zk_effect){.end = end});
    }
}

/* ---- connections that break ---- */

static void run_dial(event *e);

static void dial_later(dlk_zk_wire *w)
{
    event_at(&w->dial, s.now + between(&w->owner->rand, 1 * MS, 300 * MS), run_dial, w);
}

static void tell_down(dlk_zk_wire *w)
{
    if (w->told_up)
        put_news(w, DLK_ZK_DISCONNECTED, NULL);
    w->told_up = false;
}

static void run_noticed(event *e)
{
    dlk_zk_wire *w = e->of;
    if (!zk_wire_lives(w) || client_put_off(w->owner, e))
        return;
    bool first = chance(&w->owner->rand, 500);
    if (first)
        tell_down(w);
    bring_back(w, DLK_ZK_CUT);
    tell_down(w);
    dial_later(w);
}

void zk_wire_cut(dlk_zk_wire *w, const char *why)
{
    if (!w->up)
        return;
    tell(w->owner->index, ALL_NAMES, "cut: %s", why);
    w->up = w->silent = w->deaf = false;
    zk_watches_free(&w->armed);
    zk_serve_leave(w);
    if (zk_wire_lives(w))
        event_at(&w->noticed, s.now + between(&w->owner->rand, 0, 2 * MS), run_noticed,
                 w);
}

/* ---- what comes from the server ---- */

/* A node that has gone is told once, to all who watch it in whatever way. */
static void deliver_watch(dlk_zk_wire *w, const zk_packet *p)
{
    bool known = p->for_nothing ||
                 zk_watch_remove(&w->watches, p->path, p->news == DLK_ZK_CHILD_CHANGED);
    if (p->effect.end == DLK_ZK_NO_NODE)
        known |= zk_watch_remove(&w->watches, p->path, true);
    if (known)
        put_news(w, p->news, p->path);
}

static void deliver_news(dlk_zk_wire *w, const zk_packet *p)
{
    if (p->news != DLK_ZK_CONNECTED) {
        deliver_watch(w, p);
        return;
    }
    w->told_up = true;
    put_news(w, DLK_ZK_CONNECTED, NULL);
}

static void deliver_answer(dlk_zk_wire *w, zk_packet *p)
{
    bool fine = p->effect.end == DLK_ZK_OK, list = p->ask.verb == DLK_ZK_CHILDREN;
    if (fine && p->ask.watch && (list || p->ask.verb == DLK_ZK_GET))
        zk_watch_add(&w->watches, p->path, list);
    if (fine && p->ask.verb == DLK_ZK_UNWATCH)
        (void)zk_watch_remove(&w->watches, p->path, false); /* it may have fired */
    if (p->call)
        put_answer(w, p->call, &p->effect);
}

void zk_wire_deliver(event *e)
{
    zk_packet *p = e->of;
    dlk_zk_wire *w = p->wire;
    if (!zk_wire_lives(w) || p->connection != w->connection || !w->up || w->deaf) {
        zk_packet_drop(p);
        return;
    }
    if (zk_packet_stays_behind(p) || client_put_off(w->owner, e))
        return;
    w->heard = s.now;
    if (p->zxid > w->zxid)
        w->zxid = p->zxid;
    if (p->what == PACKET_NEWS)
        deliver_news(w, p);
    else if (p->what == PACKET_ASK)
        deliver_answer(w, p);
    zk_packet_drop(p);
}

/* ---- the way there ---- */

static void strike_wire(zk_packet *p, int64_t *at)
{
    dlk_zk_wire *w = p->wire;
    client *c = w->owner;
    fault what = p->strike;
    if (!fault_is_of_wire(what))
        return;
    if (what != FAULT_DROP_REPLY)
        p->strike = FAULT_NONE;
    fault_count(what, p->at);
    client_upset(c, s.now);
    tell(c->index, p->name, "its %s %s is struck: %s", zk_packet_verb(p), p->path,
         fault_infos[what].name);
    switch ((int)what) {
    case FAULT_DROP_REQUEST:
        p->lost = true;
        zk_wire_cut(w, "a request was lost");
        return;
    case FAULT_LATE_REQUEST:
        *at += between(&c->rand, 1 * MS, 100 * MS);
        zk_wire_cut(w, "a request comes late");
        return;
    case FAULT_SLOW:
        *at += between(&c->rand, 100 * MS, 4 * SEC);
        client_upset(c, *at);
        return;
    default: /* the reply is dropped when there is one */
        return;
    }
}

static void transmit(zk_packet *p)
{
    dlk_zk_wire *w = p->wire;
    int64_t at = s.now + zk_delay(w->owner);
    p->connection = w->connection;
    p->server = w->server;
    p->lost = w->silent;
    w->spoke = s.now;
    zk_packet_aim(p);
    zk_packet_travel(p, WAY_THERE, at, zk_serve_arrive);
    if (p->strike == FAULT_NONE)
        return;
    if (fault_is_of_wire(p->strike)) {
        strike_wire(p, &at);
        event_at(&p->event, at, zk_serve_arrive, p);
    } else if (p->where == ON_WAY) {
        zk_packet_strike_on_way(p, at);
    }
}

static void copy_ask(const dlk_zk_request *ask, dlk_zk_request *ret, char **path,
                     char **data)
{
    *ret = *ask;
    ret->path = *path = zk_need(strdup(ask->path));
    ret->data = *data = zk_need(calloc(1, ask->size + 1));
    if (ask->size)
        memcpy(*data, ask->data, ask->size);
}

static char **copy_paths(char *const *paths, size_t count)
{
    char **copy = paths ? zk_need(calloc(count, sizeof(*copy))) : NULL;
    for (size_t i = 0; copy && i < count; i++)
        copy[i] = zk_need(strdup(paths[i]));
    return copy;
}

static bool model_send(dlk_zk_wire *w, const dlk_zk_request *ask, dlk_zk_call *call)
{
    if (!zk_wire_lives(w) || w->expired ||
        (ask->verb == DLK_ZK_UNWATCH && !zk_watch_find(&w->watches, ask->path, false)))
        return false;
    zk_packet *p = zk_packet_new(w, PACKET_ASK);
    copy_ask(ask, &p->ask, &p->path, &p->data);
    if (ask->also)
        copy_ask(ask->also, &p->also, &p->also_path, &p->also_data);
    if (ask->also)
        p->ask.also = &p->also;
    p->ask.paths = p->paths = copy_paths(ask->paths, ask->count);
    p->ask.made = p->made = copy_paths(ask->made, ask->count);
    p->call = call;
    call->wire = w;
    call->item.epoch = w->epoch;
    dlk_list_append(&w->calls, &call->sent);
    if (w->up)
        transmit(p);
    else
        dlk_list_append(&w->unsent,
                        &p->lane); /* the next connection, or its end, comes */
    return true;
}

/* ---- dialling ---- */

static void greet(dlk_zk_wire *w)
{
    zk_serve_news(w, DLK_ZK_CONNECTED, NULL, false);
    zk_serve_set_watches(w);
    while (!dlk_list_empty(&w->unsent)) {
        zk_packet *p = DLK_LIST_ITEM(dlk_list_first(&w->unsent), zk_packet, lane);
        dlk_list_remove(&p->lane);
        if (w->up)
            transmit(p);
        else
            zk_packet_drop(p); /* cut meanwhile: its call comes back with the others */
    }
}

static void run_dial(event *e)
{
    dlk_zk_wire *w = e->of;
    client *c = w->owner;
    if (!zk_wire_lives(w) || w->up || client_put_off(c, e))
        return;
    int index = s.now < c->unreachable_until ? -1 : zk_server_for(c, w->zxid);
    if (index < 0) {
        bring_back(w, DLK_ZK_CUT);
        dial_later(w);
        return;
    }
    zk_session *session =
        w->session ? zk_session_find(w->session) : zk_session_open(c, w->timeout);
    w->connection++;
    if (session->over) {
        w->expired = true;
        put_news(w, DLK_ZK_EXPIRED, NULL);
        bring_back(w, DLK_ZK_GONE);
        return;
    }
    session->heard = s.now; /* the leader was asked whether it lives */
    session->touched = 0;
    w->session = session->id;
    w->server = index;
    w->heard = w->spoke = s.now;
    w->up = true;
    greet(w);
}

/* ---- opening and closing ---- */

static dlk_zk_wire *model_open(const dlk_zk_setup *setup, dlk_zk_inbox *inbox,
                               dlock_error **err)
{
    (void)err;
    client *c = s.running;
    dlk_zk_wire *w = zk_need(calloc(1, sizeof(*w)));
    *w = (dlk_zk_wire){.owner = c,
                       .generation = c->generation,
                       .inbox = inbox,
                       .epoch = setup->epoch,
                       .timeout = setup->timeout_ms * MS};
    dlk_list_init(&w->calls);
    dlk_list_init(&w->unsent);
    dlk_list_init(&w->pipeline);
    dlk_list_init(&w->watches);
    dlk_list_init(&w->armed);
    dlk_list_append(&zk_net.wires, &w->all);
    atomic_fetch_add(&inbox->wires, 1);
    dial_later(w);
    return w;
}

static void model_close(dlk_zk_wire *w, bool stay)
{
    dlk_zk_inbox *inbox = w->inbox;
    if (zk_wire_lives(w) && w->up && !w->silent && !stay)
        transmit(zk_packet_new(w, PACKET_BYE));
    bring_back(w, DLK_ZK_CUT);
    w->closed = true;
    w->inbox = NULL;
    event_cancel(&w->dial);
    event_cancel(&w->noticed);
    dlk_zk_inbox_left(inbox);
}

static void model_forked(dlk_zk_wire *w)
{
    (void)w; /* nobody forks here */
}

const dlk_zk_wire_type dlk_zk_library = {
    .open = model_open, .send = model_send, .close = model_close, .forked = model_forked};

/* ---- faults, and how it looks from outside ---- */

void zk_wires_cut(int index, const char *why)
{
    DLK_LIST_FOR (it, &zk_net.wires) {
        dlk_zk_wire *w = DLK_LIST_ITEM(it, dlk_zk_wire, all);
        if (w->server == index)
            zk_wire_cut(w, why);
    }
}

void zk_wires_expel(int index, int64_t session)
{
    DLK_LIST_FOR (it, &zk_net.wires) {
        dlk_zk_wire *w = DLK_LIST_ITEM(it, dlk_zk_wire, all);
        if (w->server == index && w->session == session)
            zk_wire_cut(w, "its session is over");
    }
}

void zk_wires_drop_forwarded(int index)
{
    DLK_LIST_FOR (it, &zk_net.limbo) {
        zk_packet *p = DLK_LIST_ITEM(it, zk_packet, all);
        if (p->way == WAY_ON && p->server == index && p->event.timer.place)
            zk_packet_drop(p);
    }
}

void zk_cut(client *c, const char *why)
{
    dlk_zk_wire *w = wire_of(c);
    if (w)
        zk_wire_cut(w, why);
}

void zk_silence(client *c, bool both_ways)
{
    dlk_zk_wire *w = wire_of(c);
    if (!w || !w->up)
        return;
    w->deaf = true;
    w->silent |= both_ways;
}

bool zk_is_quiet(const client *c)
{
    const dlk_zk_wire *w = wire_of(c);
    return w && w->up && (w->silent || w->deaf);
}

bool zk_is_well(const client *c)
{
    const dlk_zk_wire *w = wire_of(c);
    return w && w->up && w->told_up && !w->silent && !w->deaf;
}

int zk_wires_client(int64_t session)
{
    DLK_LIST_FOR (it, &zk_net.wires) {
        const dlk_zk_wire *w = DLK_LIST_ITEM(it, dlk_zk_wire, all);
        if (w->session == session && session && zk_wire_lives(w))
            return w->owner->index;
    }
    return NOBODY;
}

/* The kernel closes what the process had; its session lives on for a while. */
void zk_died(client *c)
{
    DLK_LIST_FOR (it, &zk_net.wires) {
        dlk_zk_wire *w = DLK_LIST_ITEM(it, dlk_zk_wire, all);
        if (w->owner == c && w->generation == c->generation)
            zk_wire_cut(w, "its process is dead");
    }
}

/* A watch that hasn't fired, as if something had changed and changed back. */
bool zk_spurious(client *c, int name)
{
    dlk_zk_wire *w = wire_of(c);
    (void)name;
    if (!w || !w->up || dlk_list_empty(&w->watches))
        return false;
    const zk_watch *watch = DLK_LIST_ITEM(dlk_list_first(&w->watches), zk_watch, link);
    zk_packet *p = zk_packet_new(w, PACKET_NEWS);
    p->news = watch->of_children ? DLK_ZK_CHILD_CHANGED : DLK_ZK_CHANGED;
    p->path = zk_need(strdup(watch->path));
    p->for_nothing = true;
    zk_serve_send_back(p);
    return true;
}

/* ---- time ---- */

/* What the library does by itself. */
void zk_wires_tick(void)
{
    DLK_LIST_FOR (it, &zk_net.wires) {
        dlk_zk_wire *w = DLK_LIST_ITEM(it, dlk_zk_wire, all);
        if (!w->up || !zk_wire_lives(w) || client_stopped(w->owner))
            continue;
        if (s.now - w->heard > w->timeout * 2 / 3)
            zk_wire_cut(w, "nothing was heard for too long");
        else if (s.now - w->spoke >= w->timeout / 3)
            transmit(zk_packet_new(w, PACKET_PING));
    }
}

/* ---- beginning and end ---- */

void zk_wires_begin(void)
{
    dlk_list_init(&zk_net.wires);
    dlk_list_init(&zk_net.limbo);
}

void zk_wires_end(void)
{
    while (!dlk_list_empty(&zk_net.limbo))
        zk_packet_drop(DLK_LIST_ITEM(dlk_list_first(&zk_net.limbo), zk_packet, all));
    dlk_list *link;
    while ((link = dlk_list_take_first(&zk_net.wires))) {
        dlk_zk_wire *w = DLK_LIST_ITEM(link, dlk_zk_wire, all);
        zk_watches_free(&w->watches);
        zk_watches_free(&w->armed);
        free(w);
    }
}
