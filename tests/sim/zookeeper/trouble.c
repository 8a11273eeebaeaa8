/* What goes wrong with an ensemble: elections, servers that stand still, lag or are cut off from
 * the others, sessions that are ended, nodes that an operator deletes. */
#include "zookeeper/ensemble.h"

#include <stdlib.h>
#include <string.h>

/* A server that hasn't heard of its leader for so long drops its clients. */
#define SYNC_LIMIT (5 * ZK_TICK)

/* ---- elections ---- */

/* What the rules know of a node isn't the servers', and moves with the lead. */
static void move_marks(const zk_tree *from, const zk_tree *to)
{
    DLK_LIST_FOR (it, &to->nodes) {
        zk_node *node = DLK_LIST_ITEM(it, zk_node, link);
        const zk_node *before = zk_tree_find(from, node->path);
        node->number = before->number;
        node->token = before->token;
        node->side = before->side;
    }
}

static void run_election(event *e)
{
    int old = zk_ens.latest, next = (int)e->number;
    zk_apply_up_to(&zk_ens.servers[next], INT64_MAX);
    if (next != old)
        move_marks(&zk_ens.servers[old].tree, &zk_ens.servers[next].tree);
    zk_ens.leader = zk_ens.latest = next;
    zk_ens.zxid = ((zk_ens.zxid >> 32) + 1) << 32;
    DLK_LIST_FOR (it, &zk_ens.sessions)
        DLK_LIST_ITEM(it, zk_session, link)->heard = s.now;
    tell(SERVER, ALL_NAMES, "server %d leads", next);
}

static int64_t later(dlk_rand *dice, int64_t least, int64_t most)
{
    return s.now + between(dice, least, most);
}

static void keep_calm_until(int64_t until)
{
    s.server.down_until = zk_latest_of(s.server.down_until, until);
}

/* Nobody leads for a while; what was on its way to the leader is lost. */
static bool elect(dlk_rand *dice, bool all_down)
{
    int old = zk_ens.leader;
    if (old == NO_LEADER)
        return false;
    int64_t at = later(dice, 50 * MS, 800 * MS);
    zk_ens.leader = NO_LEADER;
    for (int i = 0; i < ZK_SERVERS; i++) {
        zk_server *peer = &zk_ens.servers[i];
        zk_wires_cut(i, all_down ? "the servers were restarted" : "the leader is gone");
        zk_wires_drop_forwarded(i);
        peer->alone_until = peer->lags_until = peer->frozen_until = s.now;
        if (all_down)
            peer->down_until = at;
    }
    if (!all_down)
        zk_ens.servers[old].down_until = zk_latest_of(at, later(dice, 100 * MS, 2 * SEC));
    zk_ens.election.number = all_down
                                 ? between(dice, 0, ZK_SERVERS - 1)
                                 : (old + between(dice, 1, ZK_SERVERS - 1)) % ZK_SERVERS;
    tell(SERVER, ALL_NAMES, all_down ? "the servers are restarted" : "the leader dies");
    keep_calm_until(at);
    event_at(&zk_ens.election, at, run_election, NULL);
    return true;
}

/* ---- servers that fall behind ---- */

/* It has noticed that it is alone. */
static void run_give_up(event *e)
{
    int index = (int)e->number;
    if (!zk_is_alone(index) || zk_ens.servers[index].alone_since + SYNC_LIMIT > s.now)
        return;
    zk_wires_cut(index, "the server is cut off from its leader");
    zk_wires_drop_forwarded(index);
}

static bool fall_behind(dlk_rand *dice)
{
    int index = (zk_ens.leader + 1 + (int)between(dice, 0, ZK_SERVERS - 2)) % ZK_SERVERS;
    zk_server *peer = &zk_ens.servers[index];
    if (zk_ens.leader == NO_LEADER || zk_is_alone(index))
        return false;
    if (chance(dice, 500)) {
        peer->lags_until = later(dice, 50 * MS, 2 * SEC);
        keep_calm_until(peer->lags_until);
        tell(SERVER, ALL_NAMES, "server %d lags", index);
        return true;
    }
    peer->alone_since = s.now;
    peer->alone_until = later(dice, 100 * MS, 4 * SEC);
    keep_calm_until(peer->alone_until);
    tell(SERVER, ALL_NAMES, "server %d is cut off from the others until %.0f", index,
         (double)peer->alone_until / (double)MS);
    event *noticed = event_new();
    noticed->number = index;
    event_at(noticed, s.now + SYNC_LIMIT, run_give_up, NULL);
    return true;
}

static bool stand_still(dlk_rand *dice)
{
    int64_t until =
        chance(dice, 300) ? later(dice, 1 * SEC, 8 * SEC) : later(dice, 10 * MS, 1 * SEC);
    int index = (zk_ens.leader + 1 + (int)between(dice, 0, ZK_SERVERS - 2)) % ZK_SERVERS;
    if (s.now < s.server.frozen_until || zk_ens.leader == NO_LEADER)
        return false;
    if (chance(dice, 500)) {
        s.server.frozen_until = until;
        tell(SERVER, ALL_NAMES, "all servers stand still until %.0f",
             (double)until / (double)MS);
        return true;
    }
    zk_ens.servers[index].frozen_until = until;
    keep_calm_until(until);
    tell(SERVER, ALL_NAMES, "server %d stands still until %.0f", index,
         (double)until / (double)MS);
    return true;
}

/* ---- other faults ---- */

/* As by an operator's command, or by somebody who has the session's password. */
static bool expire(const client *c)
{
    bool done = false;
    for (int n = 0; n < s.config.names; n++)
        state_lost(n, 0);
    DLK_LIST_FOR (it, &zk_ens.sessions) {
        zk_session *session = DLK_LIST_ITEM(it, zk_session, link);
        if (session->over || session->client != c->index ||
            session->generation != c->generation)
            continue;
        zk_session_end(session);
        done = true;
    }
    return done;
}

/* Not a place in a semaphore's queue: Curator's recipe lets the head alone count the leases, and
 * two would wait for each other. Nor a plain node that is being given back: when that has been looked
 * at it is deleted, though it be another's by then. */
static bool may_break(const zk_node *node, int name)
{
    bool plain = node->owner && strchr(node->path + 1, '/') == NULL;
    int index = plain ? zk_wires_client(node->owner) : NOBODY;
    if (!node->owner || zk_rules_name_of(node->path) != name ||
        strstr(node->path, "/locks/"))
        return false;
    return !plain ||
           (index != NOBODY && client_holds(&s.clients[index], name, node->token));
}

/* An operator deletes a node that stands for somebody there, a holder's or another's. */
static bool break_one(dlk_rand *dice, int name)
{
    const zk_tree *tree = zk_leader_tree();
    const char *found[MAX_HELD];
    int count = 0;
    DLK_LIST_FOR (it, &tree->nodes) {
        const zk_node *node = DLK_LIST_ITEM(it, zk_node, link);
        if (count < MAX_HELD && may_break(node, name))
            found[count++] = node->path;
    }
    if (count == 0)
        return false;
    char *path =
        zk_need(strdup(found[chance(dice, 500) ? 0 : between(dice, 0, count - 1)]));
    state_lost(name, 0);
    tell(SERVER, name, "an operator deletes %s", path);
    bool done = zk_delete(path);
    free(path);
    return done;
}

bool zk_fault(fault what, dlk_rand *dice, client *c, int name)
{
    switch ((int)what) {
    case FAULT_FREEZE:
        return stand_still(dice);
    case FAULT_REFUSE:
        s.server.refuses_until = later(dice, 10 * MS, 2 * SEC);
        tell(SERVER, ALL_NAMES, "the servers are too busy until %.0f",
             (double)s.server.refuses_until / (double)MS);
        return true;
    case FAULT_RESTART:
        return elect(dice, true);
    case FAULT_LEADER:
        return elect(dice, false);
    case FAULT_LAG:
        return fall_behind(dice);
    case FAULT_EXPIRE:
        return expire(c);
    default:
        return break_one(dice, name);
    }
}

void zk_heal(void)
{
    for (int i = 0; i < ZK_SERVERS; i++) {
        zk_server *peer = &zk_ens.servers[i];
        peer->down_until = peer->frozen_until = peer->lags_until = s.now;
        peer->alone_until = s.now;
    }
}
