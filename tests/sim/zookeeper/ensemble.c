/*
 * The servers: one leads and decides, the others apply what it has decided a little later, each at
 * its own time. A session lives as long as the leader is told of it; a server tells it of those
 * it has heard of with each ping, twice a tick.
 */
#include "zookeeper/ensemble.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct zk_ensemble zk_ens;

zk_server *zk_server_at(int index)
{
    return &zk_ens.servers[index];
}

zk_tree *zk_leader_tree(void)
{
    return &zk_ens.servers[zk_ens.latest].tree;
}

int64_t zk_latest_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

bool zk_stands_still(int index)
{
    return s.now < s.server.frozen_until || s.now < zk_ens.servers[index].frozen_until;
}

bool zk_is_alone(int index)
{
    return index != zk_ens.leader && s.now < zk_ens.servers[index].alone_until;
}

bool zk_reaches_leader(int index)
{
    return zk_ens.leader != NO_LEADER && !zk_is_alone(index);
}

bool zk_serves(int index)
{
    return zk_ens.leader != NO_LEADER && s.now >= zk_ens.servers[index].down_until;
}

/* ---- what the others apply, and when ---- */

static void free_txn(zk_txn *txn)
{
    dlk_list_remove(&txn->link);
    free(txn->path);
    free(txn->data);
    free(txn);
}

static int64_t held_up_until(const zk_server *peer)
{
    int64_t until = zk_latest_of(peer->frozen_until, s.server.frozen_until);
    until = zk_latest_of(until, peer->lags_until);
    until = zk_latest_of(until, peer->alone_until);
    return zk_latest_of(until, peer->down_until);
}

void zk_apply_up_to(zk_server *peer, int64_t time)
{
    while (!dlk_list_empty(&peer->backlog)) {
        zk_txn *txn = DLK_LIST_ITEM(dlk_list_first(&peer->backlog), zk_txn, link);
        if (txn->at > time)
            return;
        zk_tree_apply(&peer->tree, txn);
        if (txn->what == ZK_TXN_END)
            zk_wires_expel(peer->tree.server, txn->owner);
        bool goes_on = txn->goes_on;
        free_txn(txn);
        if (!goes_on) /* who waited for this one sees no later one */
            zk_wires_pump(peer->tree.server);
    }
}

static void run_apply(event *e)
{
    zk_server *peer = e->of;
    int64_t until = held_up_until(peer);
    if (s.now < until) {
        event_at(e, until, run_apply, peer);
        return;
    }
    zk_apply_up_to(peer, s.now);
    if (!dlk_list_empty(&peer->backlog))
        event_at(e, DLK_LIST_ITEM(dlk_list_first(&peer->backlog), zk_txn, link)->at,
                 run_apply, peer);
}

static void hand_to(zk_server *peer, const zk_txn *txn)
{
    zk_txn *copy = zk_need(malloc(sizeof(*copy)));
    *copy = *txn;
    dlk_list_init(&copy->link);
    copy->path = txn->path ? zk_need(strdup(txn->path)) : NULL;
    copy->data = zk_need(calloc(1, txn->size + 1));
    if (txn->size)
        memcpy(copy->data, txn->data, txn->size);
    copy->at = s.now + between(&s.rand, 50 * 1000, 1 * MS);
    if (!dlk_list_empty(&peer->backlog)) {
        zk_txn *last = DLK_LIST_ITEM(peer->backlog.prev, zk_txn, link);
        copy->at = last->goes_on ? last->at : zk_latest_of(copy->at, last->at);
    }
    dlk_list_append(&peer->backlog, &copy->link);
    if (!peer->apply.timer.place)
        event_at(&peer->apply, copy->at, run_apply, peer);
}

/* ---- deciding ---- */

/* Whose request is carried out: a client, or NOBODY. */
static int by_client = NOBODY;

static int64_t commit(zk_txn *txn)
{
    zk_tree *tree = zk_leader_tree();
    static bool goes_on; /* one request is one transaction, of one number */
    zk_ens.zxid += !goes_on;
    txn->zxid = zk_ens.zxid;
    goes_on = txn->goes_on;
    for (int i = 0; i < ZK_SERVERS; i++)
        if (i != zk_ens.latest)
            hand_to(&zk_ens.servers[i], txn);
    zk_tree_apply(tree, txn);
    if (txn->what == ZK_TXN_CREATE)
        zk_rules_made(DLK_LIST_ITEM(tree->nodes.prev, zk_node, link), txn->numbered);
    if (txn->what == ZK_TXN_SET)
        zk_rules_written(zk_tree_find(tree, txn->path));
    if (!txn->goes_on)
        zk_rules_look(by_client);
    return txn->zxid;
}

static dlk_zk_end create(const dlk_zk_request *ask, int64_t session, bool goes_on,
                         zk_effect *ret)
{
    char path[ZK_PATH];
    const zk_tree *tree = zk_leader_tree();
    const zk_node *parent = zk_tree_parent(tree, ask->path);
    bool numbered = ask->mode == DLK_ZK_SEQUENTIAL;
    if (!parent)
        return DLK_ZK_NO_NODE;
    if (parent->owner)
        return DLK_ZK_NO_CHILDREN;
    int size = numbered ? snprintf(path, sizeof(path), "%s%010d", ask->path, parent->made)
                        : snprintf(path, sizeof(path), "%s", ask->path);
    if (size >= (int)sizeof(path))
        abort();
    if (zk_tree_find(tree, path))
        return DLK_ZK_NODE_EXISTS;
    zk_txn txn = {.what = ZK_TXN_CREATE,
                  .path = path,
                  .data = (char *)(uintptr_t)ask->data, /* only read */
                  .size = ask->size,
                  .owner = numbered || ask->mode == DLK_ZK_EPHEMERAL ? session : 0,
                  .container = ask->mode == DLK_ZK_CONTAINER,
                  .numbered = numbered,
                  .series = ask->count ? (int32_t)ask->count : 1,
                  .goes_on = goes_on};
    (void)commit(&txn); /* whoever wants its number has it from the tree */
    ret->text = zk_need(strdup(path));
    ret->size = strlen(path);
    ret->stat = zk_tree_stat(tree, zk_tree_find(tree, path));
    return DLK_ZK_OK;
}

/* Sequential ones of one name: what doesn't hinder the first hinders none. */
static dlk_zk_end create_all(const dlk_zk_request *ask, int64_t session, zk_effect *ret)
{
    size_t count = ask->count;
    ret->children = zk_need(malloc(count * (sizeof(char *) + ZK_PATH)));
    char *to = (char *)(ret->children + count);
    for (size_t i = 0; i < count; i++, to += ZK_PATH) {
        zk_effect one = {.end = DLK_ZK_OK};
        dlk_zk_end end = create(ask, session, i + 1 < count, &one);
        if (end != DLK_ZK_OK && i > 0)
            abort();
        if (end != DLK_ZK_OK)
            return end;
        ret->children[i] = strcpy(to, one.text);
        zk_effect_free(&one);
    }
    ret->child_count = count;
    return DLK_ZK_OK;
}

static dlk_zk_end may_delete(const char *path)
{
    const zk_tree *tree = zk_leader_tree();
    if (!zk_tree_find(tree, path))
        return DLK_ZK_NO_NODE;
    return zk_tree_count(tree, path) > 0 ? DLK_ZK_NOT_EMPTY : DLK_ZK_OK;
}

static void delete_one(const char *path, int64_t by, bool goes_on)
{
    zk_rules_deleted(zk_tree_find(zk_leader_tree(), path), by);
    (void)commit(&(zk_txn){
        .what = ZK_TXN_DELETE, .path = (char *)(uintptr_t)path, .goes_on = goes_on});
}

static dlk_zk_end check_all(const dlk_zk_request *ask)
{
    for (size_t i = 0; i < ask->count; i++)
        if (!zk_tree_find(zk_leader_tree(), ask->paths[i]))
            return DLK_ZK_NO_NODE;
    return DLK_ZK_OK;
}

static dlk_zk_end may_set(const dlk_zk_request *ask)
{
    const zk_node *node = zk_tree_find(zk_leader_tree(), ask->path);
    if (!node)
        return DLK_ZK_NO_NODE;
    return ask->versioned && node->version != ask->version ? DLK_ZK_OTHER_VERSION
                                                           : DLK_ZK_OK;
}

static dlk_zk_end set(const dlk_zk_request *ask, zk_effect *ret)
{
    const zk_tree *tree = zk_leader_tree();
    dlk_zk_end end = may_set(ask);
    if (end != DLK_ZK_OK)
        return end;
    (void)commit(&(zk_txn){.what = ZK_TXN_SET,
                           .path = (char *)(uintptr_t)ask->path,
                           .data = (char *)(uintptr_t)ask->data,
                           .size = ask->size});
    ret->stat = zk_tree_stat(tree, zk_tree_find(tree, ask->path));
    return DLK_ZK_OK;
}

/* One or several, and what is set behind that: all or nothing. */
static dlk_zk_end delete_all(const dlk_zk_request *ask, int64_t by, zk_effect *ret)
{
    const dlk_zk_request *also = ask->also;
    dlk_zk_end end = ask->count ? check_all(ask) : may_delete(ask->path);
    if (end == DLK_ZK_OK && also)
        end = may_set(also);
    if (end != DLK_ZK_OK)
        return end;
    size_t count = ask->count ? ask->count : 1;
    for (size_t i = 0; i < count; i++)
        delete_one(ask->count ? ask->paths[i] : ask->path, by, i + 1 < count || also);
    return also ? set(also, ret) : DLK_ZK_OK;
}

/* All or nothing, and `also`, which is always there. */
static dlk_zk_end move_all(const dlk_zk_request *ask, int64_t session, zk_effect *ret)
{
    dlk_zk_end end = check_all(ask);
    for (size_t i = 0; i < ask->count && end == DLK_ZK_OK; i++)
        end =
            zk_tree_find(zk_leader_tree(), ask->made[i]) ? DLK_ZK_NODE_EXISTS : DLK_ZK_OK;
    if (end == DLK_ZK_OK)
        end = may_set(ask->also);
    if (end != DLK_ZK_OK)
        return end;
    for (size_t i = 0; i < ask->count; i++)
        delete_one(ask->paths[i], session, true);
    for (size_t i = 0; i < ask->count; i++) {
        const dlk_zk_request one = {.path = ask->made[i],
                                    .data = ask->data,
                                    .size = ask->size,
                                    .mode = DLK_ZK_EPHEMERAL};
        zk_effect made = {.end = DLK_ZK_OK};
        if (create(&one, session, true, &made) != DLK_ZK_OK)
            abort();
        zk_effect_free(&made);
    }
    return set(ask->also, ret);
}

int64_t zk_decide(const dlk_zk_request *ask, int64_t session, zk_effect *ret)
{
    zk_session *from = zk_session_find(session);
    *ret = (zk_effect){.end = DLK_ZK_OK};
    by_client = from->client;
    /* Here the model is kinder than ZooKeeper, where the server tells with its next ping that it
     * has heard of the session: promises.md says what may happen when it is cut off before that. */
    if (!from->over)
        from->heard = s.now;
    if (from->over)
        ret->end = DLK_ZK_GONE;
    else if (ask->verb == DLK_ZK_CREATE)
        ret->end =
            ask->count ? create_all(ask, session, ret) : create(ask, session, false, ret);
    else if (ask->verb == DLK_ZK_DELETE)
        ret->end = delete_all(ask, session, ret);
    else if (ask->verb == DLK_ZK_MOVE)
        ret->end = move_all(ask, session, ret);
    else if (ask->verb == DLK_ZK_CHECK)
        ret->end = check_all(ask);
    else if (ask->verb == DLK_ZK_SET)
        ret->end = set(ask, ret);
    by_client = NOBODY;
    return zk_leader_tree()->zxid;
}

bool zk_delete(const char *path)
{
    if (may_delete(path) != DLK_ZK_OK)
        return false;
    delete_one(path, 0, false);
    return true;
}

/* ---- sessions ---- */

zk_session *zk_session_find(int64_t id)
{
    DLK_LIST_FOR (it, &zk_ens.sessions) {
        zk_session *session = DLK_LIST_ITEM(it, zk_session, link);
        if (session->id == id)
            return session;
    }
    return NULL;
}

zk_session *zk_session_open(const client *c, int64_t timeout)
{
    zk_session *session = zk_need(calloc(1, sizeof(*session)));
    *session = (zk_session){.id = 0x1000 + ++zk_ens.last_session,
                            .timeout = timeout,
                            .heard = s.now,
                            .client = c->index,
                            .generation = c->generation};
    dlk_list_append(&zk_ens.sessions, &session->link);
    return session;
}

void zk_session_end(zk_session *session)
{
    if (session->over)
        return;
    session->over = true;
    tell(SERVER, ALL_NAMES, "session %llx of client %d is over",
         (unsigned long long)session->id, session->client);
    (void)commit(&(zk_txn){.what = ZK_TXN_END, .owner = session->id});
    zk_wires_expel(zk_ens.latest, session->id); /* elsewhere when that is applied there */
}

static int64_t leader_time(int64_t time)
{
    return (int64_t)((double)time * s.server.rate);
}

/* Rounded up to a tick, so that many end together. */
static bool is_over(const zk_session *session)
{
    int64_t end = leader_time(session->heard) + session->timeout;
    return leader_time(s.now) >= (end / ZK_TICK + 1) * ZK_TICK;
}

static void end_sessions(void)
{
    DLK_LIST_FOR (it, &zk_ens.sessions) {
        zk_session *session = DLK_LIST_ITEM(it, zk_session, link);
        if (!session->over && is_over(session))
            zk_session_end(session);
    }
}

static void report_sessions(int index)
{
    unsigned bit = 1u << index;
    if (!zk_reaches_leader(index) || zk_stands_still(index) ||
        s.now < zk_ens.servers[index].down_until)
        return;
    DLK_LIST_FOR (it, &zk_ens.sessions) {
        zk_session *session = DLK_LIST_ITEM(it, zk_session, link);
        if (session->touched & bit)
            session->heard = s.now;
        session->touched &= ~bit;
    }
}

void zk_touch(zk_session *session, int index)
{
    if (index == zk_ens.leader)
        session->heard = s.now;
    else
        session->touched |= 1u << index;
}

/* ---- time ---- */

/* Looks for a container that nobody uses any more; one at a time, now and then. */
static void sweep_containers(void)
{
    const zk_tree *tree = zk_leader_tree();
    DLK_LIST_FOR (it, &tree->nodes) {
        const zk_node *node = DLK_LIST_ITEM(it, zk_node, link);
        if (!node->container || node->made == 0 || zk_tree_count(tree, node->path) > 0 ||
            !chance(&s.rand, 50))
            continue;
        char *path = zk_need(strdup(node->path));
        (void)zk_delete(path); /* it is there and empty */
        free(path);
        return;
    }
}

static void run_tick(event *e)
{
    if (s.now < s.server.frozen_until) {
        event_at(e, s.server.frozen_until + between(&s.rand, 1, MS), run_tick, NULL);
        return;
    }
    zk_wires_tick();
    for (int i = 0; i < ZK_SERVERS; i++)
        report_sessions(i);
    if (++zk_ens.ticks % 2 == 0 && zk_ens.leader != NO_LEADER) {
        end_sessions();
        sweep_containers();
    }
    event_at(e, s.now + ZK_TICK / 2, run_tick, NULL);
}

/* ---- servers that take connections ---- */

int zk_server_for(client *c, int64_t zxid)
{
    int first = (int)between(&c->rand, 0, ZK_SERVERS - 1);
    if (zk_ens.leader == NO_LEADER || s.now < s.server.frozen_until)
        return -1;
    for (int i = 0; i < ZK_SERVERS; i++) {
        int index = (first + i) % ZK_SERVERS;
        const zk_server *peer = &zk_ens.servers[index];
        if (s.now >= peer->down_until && !zk_stands_still(index) && !zk_is_alone(index) &&
            peer->tree.zxid >= zxid)
            return index;
    }
    return -1;
}

/* ---- beginning and end ---- */

void zk_begin(void)
{
    memset(&zk_ens, 0, sizeof(zk_ens));
    dlk_list_init(&zk_ens.sessions);
    zk_wires_begin();
    zk_rules_begin();
    for (int i = 0; i < ZK_SERVERS; i++) {
        dlk_list_init(&zk_ens.servers[i].backlog);
        zk_tree_begin(&zk_ens.servers[i].tree, i);
    }
    zk_ens.leader = zk_ens.latest = (int)between(&s.rand, 0, ZK_SERVERS - 1);
    zk_ens.zxid = INT64_C(1) << 32;
    event_at(&zk_ens.tick, s.now + ZK_TICK / 2, run_tick, NULL);
}

void zk_end(void)
{
    zk_wires_end();
    for (int i = 0; i < ZK_SERVERS; i++) {
        zk_server *peer = &zk_ens.servers[i];
        while (!dlk_list_empty(&peer->backlog))
            free_txn(DLK_LIST_ITEM(dlk_list_first(&peer->backlog), zk_txn, link));
        zk_tree_end(&peer->tree);
    }
    dlk_list *link;
    while ((link = dlk_list_take_first(&zk_ens.sessions)))
        free(DLK_LIST_ITEM(link, zk_session, link));
}
