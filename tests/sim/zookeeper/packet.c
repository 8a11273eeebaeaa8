/* What is on its way between the clients and their servers, and what strikes it there. */
#include "zookeeper/packet.h"

#include <stdlib.h>
#include <string.h>

struct zk_net zk_net;

int64_t zk_delay(client *c)
{
    if (chance(&c->rand, 20))
        return between(&c->rand, 1 * MS, 200 * MS);
    return between(&c->rand, 50 * 1000, 2 * MS);
}

/* The process is there, and hasn't closed it. */
bool zk_wire_lives(const dlk_zk_wire *w)
{
    return !w->closed && w->owner->generation == w->generation && !w->owner->dead;
}

/* ---- packets ---- */

zk_packet *zk_packet_new(dlk_zk_wire *w, zk_what what)
{
    zk_packet *p = zk_need(calloc(1, sizeof(*p)));
    *p = (zk_packet){.wire = w,
                     .connection = w->connection,
                     .server = w->server,
                     .what = what,
                     .strike = FAULT_NONE};
    dlk_list_init(&p->lane);
    dlk_list_append(&zk_net.limbo, &p->all);
    return p;
}

void zk_packet_drop(zk_packet *p)
{
    dlk_list_remove(&p->all);
    dlk_list_remove(&p->lane);
    event_cancel(&p->event);
    zk_effect_free(&p->effect);
    for (size_t i = 0; p->paths && i < p->ask.count; i++)
        free(p->paths[i]);
    for (size_t i = 0; p->made && i < p->ask.count; i++)
        free(p->made[i]);
    free(p->paths);
    free(p->made);
    free(p->path);
    free(p->data);
    free(p->also_path);
    free(p->also_data);
    free(p);
}

void zk_packet_travel(zk_packet *p, zk_way way, int64_t at, void (*next)(event *))
{
    p->way = way;
    dlk_list_remove(&p->all);
    dlk_list_append(&zk_net.limbo, &p->all);
    event_at(&p->event, at, next, p);
}

/* Nothing overtakes on one connection, whatever delays it. */
bool zk_packet_stays_behind(zk_packet *p)
{
    DLK_LIST_FOR (it, &zk_net.limbo) {
        const zk_packet *other = DLK_LIST_ITEM(it, zk_packet, all);
        if (other == p)
            return false;
        if (other->wire == p->wire && other->connection == p->connection &&
            other->way == p->way && other->event.timer.place) {
            event_at(&p->event, other->event.at + 1, p->event.run, p);
            return true;
        }
    }
    return false;
}

const char *zk_packet_verb(const zk_packet *p)
{
    static const char *const verbs[] = {
        [DLK_ZK_CREATE] = "create",   [DLK_ZK_DELETE] = "delete",
        [DLK_ZK_SET] = "set",         [DLK_ZK_GET] = "get",
        [DLK_ZK_CHILDREN] = "list",   [DLK_ZK_EXISTS] = "look at",
        [DLK_ZK_CHECK] = "check",     [DLK_ZK_SYNC] = "sync",
        [DLK_ZK_UNWATCH] = "unwatch", [DLK_ZK_MOVE] = "move",
    };
    return verbs[p->ask.verb];
}

/* ---- faults by the way ---- */

/* What the client was about to be struck with hits one of its next requests. */
void zk_packet_aim(zk_packet *p)
{
    client *c = p->wire->owner;
    if (c->strike == FAULT_NONE || p->what != PACKET_ASK || c->points_left-- > 0)
        return;
    p->strike = c->strike;
    p->at = c->strike_at;
    p->name = c->asking;
    p->where = (zk_where)between(&c->rand, ON_WAY, ON_WAY_BACK);
    c->strike = FAULT_NONE;
}

static void strike(fault what, int index, int generation, int name, step at)
{
    client *c = &s.clients[index];
    if (c->generation == generation && !c->dead && fault_apply(what, c, name))
        fault_count(what, at);
}

void zk_packet_strike(zk_packet *p)
{
    fault what = p->strike;
    p->strike = FAULT_NONE;
    if (what != FAULT_NONE)
        strike(what, p->wire->owner->index, p->wire->generation, p->name, p->at);
}

static void strike_later(event *e)
{
    zk_packet *p = e->of; /* made for this alone */
    zk_packet_strike(p);
    zk_packet_drop(p);
}

void zk_packet_strike_on_way(zk_packet *of, int64_t until)
{
    zk_packet *p = zk_packet_new(of->wire, PACKET_NEWS);
    p->strike = of->strike;
    p->at = of->at;
    p->name = of->name;
    p->connection = -1; /* it is no part of the traffic */
    of->strike = FAULT_NONE;
    dlk_rand dice = {mix(s.config.seed, 3, ++s.sequence)};
    zk_packet_travel(p, WAY_THERE, s.now + (until - s.now) * between(&dice, 0, 100) / 100,
                     strike_later);
}

/* ---- watches ---- */

zk_watch *zk_watch_find(const dlk_list *in, const char *path, bool of_children)
{
    DLK_LIST_FOR (it, in) {
        zk_watch *watch = DLK_LIST_ITEM(it, zk_watch, link);
        if (watch->of_children == of_children && strcmp(watch->path, path) == 0)
            return watch;
    }
    return NULL;
}

void zk_watch_add(dlk_list *to, const char *path, bool of_children)
{
    size_t size = strlen(path) + 1;
    if (zk_watch_find(to, path, of_children))
        return;
    zk_watch *watch = zk_need(calloc(1, sizeof(*watch) + size));
    watch->of_children = of_children;
    memcpy(watch->path, path, size);
    dlk_list_append(to, &watch->link);
}

bool zk_watch_remove(dlk_list *from, const char *path, bool of_children)
{
    zk_watch *watch = zk_watch_find(from, path, of_children);
    if (!watch)
        return false;
    dlk_list_remove(&watch->link);
    free(watch);
    return true;
}

void zk_watches_free(dlk_list *of)
{
    while (!dlk_list_empty(of)) {
        zk_watch *watch = DLK_LIST_ITEM(dlk_list_first(of), zk_watch, link);
        dlk_list_remove(&watch->link);
        free(watch);
    }
}
