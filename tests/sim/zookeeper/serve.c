/* A server's end of the connections: requests are read, sent on to the leader, and answered in
 * their order; watches fire. */
#include "zookeeper/packet.h"

#include <string.h>

/* ---- back to the client ---- */

void zk_serve_send_back(zk_packet *p)
{
    dlk_zk_wire *w = p->wire;
    int64_t at = s.now + zk_delay(w->owner);
    if (p->strike == FAULT_DROP_REPLY) {
        zk_wire_cut(w, "before the answer");
        zk_packet_drop(p);
        return;
    }
    if (p->strike != FAULT_NONE && p->where == ON_WAY_BACK)
        zk_packet_strike_on_way(p, at);
    p->zxid = zk_server_at(p->server)->tree.zxid;
    zk_packet_travel(p, WAY_BACK, at, zk_wire_deliver);
    zk_packet_strike(p);
}

void zk_serve_news(dlk_zk_wire *w, dlk_zk_news news, const char *path, bool gone)
{
    zk_packet *p = zk_packet_new(w, PACKET_NEWS);
    p->news = news;
    p->path = path ? zk_need(strdup(path)) : NULL;
    p->effect.end = gone ? DLK_ZK_NO_NODE : DLK_ZK_OK;
    zk_serve_send_back(p);
}

/* The server answers nobody there any more; what it has sent on goes on. */
void zk_serve_leave(dlk_zk_wire *w)
{
    while (!dlk_list_empty(&w->pipeline)) {
        zk_packet *p = DLK_LIST_ITEM(dlk_list_first(&w->pipeline), zk_packet, lane);
        dlk_list_remove(&p->lane);
        if (!p->event.timer.place)
            zk_packet_drop(p);
    }
}

/* ---- watches ---- */

static void send_watch(dlk_zk_wire *w, const char *path, bool of_children, bool gone)
{
    bool list = of_children && !gone;
    zk_serve_news(w, list ? DLK_ZK_CHILD_CHANGED : DLK_ZK_CHANGED, path, gone);
}

void zk_wires_fire(int index, const char *path, bool of_children, bool gone)
{
    DLK_LIST_FOR (it, &zk_net.wires) {
        dlk_zk_wire *w = DLK_LIST_ITEM(it, dlk_zk_wire, all);
        if (!w->up || w->server != index ||
            !zk_watch_remove(&w->armed, path, of_children))
            continue;
        if (gone)
            (void)zk_watch_remove(&w->armed, path, true); /* the same news tells both */
        send_watch(w, path, of_children, gone);
    }
}

/* On a new connection: what has changed since the last that was seen is told, the rest watched. */
void zk_serve_set_watches(dlk_zk_wire *w)
{
    const zk_tree *tree = &zk_server_at(w->server)->tree;
    DLK_LIST_FOR (it, &w->watches) {
        const zk_watch *watch = DLK_LIST_ITEM(it, zk_watch, link);
        const zk_node *node = zk_tree_find(tree, watch->path);
        int64_t changed = node ? watch->of_children ? node->pzxid : node->mzxid : 0;
        if (!node || changed > w->zxid)
            send_watch(w, watch->path, watch->of_children, !node);
        else
            zk_watch_add(&w->armed, watch->path, watch->of_children);
    }
}

/* ---- what becomes of a request ---- */

static bool is_read(const zk_packet *p)
{
    if (p->what != PACKET_ASK)
        return p->what == PACKET_PING;
    return p->ask.verb != DLK_ZK_CREATE && p->ask.verb != DLK_ZK_DELETE &&
           p->ask.verb != DLK_ZK_MOVE && p->ask.verb != DLK_ZK_SET &&
           p->ask.verb != DLK_ZK_CHECK && p->ask.verb != DLK_ZK_SYNC;
}

static const char *end_of(const zk_packet *p)
{
    static const char *const ends[] = {
        [DLK_ZK_OK] = "yes",
        [DLK_ZK_NO_NODE] = "no such node",
        [DLK_ZK_NODE_EXISTS] = "it exists",
        [DLK_ZK_NOT_EMPTY] = "not empty",
        [DLK_ZK_NO_CHILDREN] = "may have no children",
        [DLK_ZK_OTHER_VERSION] = "another version",
        [DLK_ZK_BAD] = "no",
        [DLK_ZK_BUSY] = "busy",
        [DLK_ZK_GONE] = "the session is over",
    };
    return ends[p->effect.end];
}

static void tell_done(const zk_packet *p)
{
    const char *path = p->path ? p->path : "";
    const char *text = p->effect.end == DLK_ZK_OK && p->ask.verb == DLK_ZK_CREATE
                           ? p->effect.text
                           : path;
    int name = p->path ? zk_rules_name_of(p->path) : ALL_NAMES;
    if (p->ask.count > 0)
        tell(SERVER, name, "client %d's %s of %zu like %s: %s", p->wire->owner->index,
             zk_packet_verb(p), p->ask.count, path, end_of(p));
    else
        tell(SERVER, name, "client %d's %s %s: %s", p->wire->owner->index,
             zk_packet_verb(p), text ? text : path, end_of(p));
}

static void read_here(zk_packet *p)
{
    dlk_zk_wire *w = p->wire;
    bool list = p->ask.verb == DLK_ZK_CHILDREN;
    if (p->what == PACKET_PING)
        return;
    if (p->ask.verb == DLK_ZK_UNWATCH)
        p->effect.end =
            zk_watch_remove(&w->armed, p->path, false) ? DLK_ZK_OK : DLK_ZK_BAD;
    else
        p->effect.end = zk_tree_read(&zk_server_at(p->server)->tree, &p->ask, &p->effect);
    if (p->ask.watch && p->effect.end == DLK_ZK_OK && p->ask.verb != DLK_ZK_EXISTS)
        zk_watch_add(&w->armed, p->path, list);
    tell_done(p);
}

/* Answers go in the order of the questions. */
static void pump(dlk_zk_wire *w)
{
    while (w->up && !dlk_list_empty(&w->pipeline)) {
        zk_packet *p = DLK_LIST_ITEM(dlk_list_first(&w->pipeline), zk_packet, lane);
        if (!p->decided && !is_read(p))
            return;
        if (p->decided && zk_server_at(w->server)->tree.zxid < p->zxid)
            return;
        if (!p->decided)
            read_here(p);
        dlk_list_remove(&p->lane);
        zk_serve_send_back(p);
    }
}

void zk_wires_pump(int index)
{
    DLK_LIST_FOR (it, &zk_net.wires) {
        dlk_zk_wire *w = DLK_LIST_ITEM(it, dlk_zk_wire, all);
        if (w->up && w->server == index)
            pump(w);
    }
}

/* At the leader. Of a session that has another connection by now nothing older counts. */
static void run_ordered(event *e)
{
    zk_packet *p = e->of;
    dlk_zk_wire *w = p->wire;
    if (p->connection != w->connection) {
        zk_packet_drop(p);
        return;
    }
    if (zk_packet_stays_behind(p))
        return;
    if (!zk_reaches_leader(p->server) || s.now < s.server.frozen_until) {
        event_at(e, s.now + 5 * MS, run_ordered, p);
        return;
    }
    if (p->what == PACKET_BYE) {
        zk_packet_drop(p); /* nobody is there to be answered */
        zk_session_end(zk_session_find(w->session));
        return;
    }
    p->zxid = zk_decide(&p->ask, w->session, &p->effect);
    p->decided = true;
    tell_done(p);
    if (dlk_list_empty(&p->lane))
        zk_packet_drop(p); /* likewise */
    else
        pump(w);
}

static void receive(zk_packet *p)
{
    dlk_zk_wire *w = p->wire;
    zk_touch(zk_session_find(w->session), p->server);
    if (w->up)
        dlk_list_append(&w->pipeline, &p->lane);
    if (p->what == PACKET_ASK && s.now < s.server.refuses_until) {
        p->effect.end = DLK_ZK_BUSY;
        p->decided = true;
    } else if (!is_read(p)) {
        zk_packet_travel(p, WAY_ON,
                         s.now + between(&w->owner->rand, 20 * 1000, 400 * 1000),
                         run_ordered);
    }
    if (w->up)
        pump(w);
    else if (!p->event.timer.place)
        zk_packet_drop(p);
}

void zk_serve_arrive(event *e)
{
    zk_packet *p = e->of;
    const dlk_zk_wire *w = p->wire;
    if (zk_packet_stays_behind(p))
        return;
    if (p->strike != FAULT_NONE && p->where == BEFORE)
        zk_packet_strike(p);
    if (p->lost || p->connection != w->connection || !zk_serves(p->server))
        zk_packet_drop(p);
    else if (zk_stands_still(p->server))
        event_at(e, s.now + 5 * MS, zk_serve_arrive, p);
    else
        receive(p);
}
