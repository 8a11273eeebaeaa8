/* What goes wrong with a node, one at a time and often several together, and with the way to one. */
#include "redlock/model.h"

static void cut_from(int node, dlk_rand *dice, const char *why)
{
    for (int i = 0; i < s.config.clients; i++) {
        client_upset(&s.clients[i], s.now + 300 * MS);
        if (chance(dice, 900)) /* the others find out by themselves */
            net_cut_wire(s.clients[i].wires[node], why);
    }
}

/* So that a failover brings back what was there at some time before it. */
static void take_snapshot(server *at)
{
    model_copy(&at->snapshot, &at->model.keys);
    at->snapshot_at = s.now;
}

static void lost(int64_t orphans_for)
{
    for (int n = 0; n < s.config.names; n++)
        state_lost(n, orphans_for);
}

static bool freeze(server *at, int node, dlk_rand *dice)
{
    if (s.now < at->frozen_until)
        return false; /* a shorter one would let requests overtake the longer one's */
    at->frozen_until = s.now + (chance(dice, 300) ? between(dice, 1 * SEC, 8 * SEC)
                                                  : between(dice, 10 * MS, 1 * SEC));
    tell(SERVER, ALL_NAMES, "node %d stands still until %.0f", node,
         (double)at->frozen_until / (double)MS);
    return true;
}

/* Sometimes away for long, with what it has. */
static void restart(server *at, int node, dlk_rand *dice)
{
    at->down_until = s.now + (chance(dice, 300) ? between(dice, 1 * SEC, 6 * SEC)
                                                : between(dice, 1 * MS, 500 * MS));
    model_flush_scripts(&at->model);
    tell(SERVER, ALL_NAMES, "node %d is restarted", node);
    cut_from(node, dice, "the node was restarted");
}

static void wipe(server *at, int node, dlk_rand *dice)
{
    model_wipe(&at->model);
    tell(SERVER, ALL_NAMES, "node %d loses everything", node);
    lost(0);
    if (chance(dice, 500))
        restart(at, node, dice);
}

static bool evict(int node, int name)
{
    if (!redlock_delete(node, name))
        return false;
    tell(SERVER, name, "node %d evicts %c", node, 'a' + name);
    state_lost(name, 0);
    return true;
}

static void fail_over(server *at, int node, dlk_rand *dice)
{
    model_copy(&at->model.keys, &at->snapshot);
    tell(SERVER, ALL_NAMES, "node %d fails over to what was at %.0f", node,
         (double)at->snapshot_at / (double)MS);
    lost(40 * SEC);
    cut_from(node, dice, "the node failed over");
}

static void jump_clock(server *at, int node, dlk_rand *dice)
{
    bool back = chance(dice, 400);
    int64_t by = between(dice, 1, 100) * between(dice, 1, back ? 100 : 600) * MS;
    at->wall += back ? -by : by;
    tell(SERVER, ALL_NAMES, "the clock of node %d jumps by %.3f s", node,
         (double)(back ? -by : by) / (double)SEC);
    lost(40 * SEC + (back ? by : 0));
}

static bool break_it(int name)
{
    holder by, at;
    if (!service_holder(name, &by))
        return false;
    for (int i = 0; i < s.node_count; i++)
        if (redlock_key_at(i, name, &at) && at.client == by.client)
            (void)evict(i, name);
    tell(SERVER, name, "an operator breaks %c", 'a' + name);
    return true;
}

bool redlock_fault(fault what, dlk_rand *dice, client *c, int name)
{
    int node = (int)between(dice, 0, s.node_count - 1);
    server *at = &s.nodes[node];
    (void)c; /* everybody's */
    if (chance(dice, 500))
        take_snapshot(at);
    switch ((int)what) {
    case FAULT_FREEZE:
        return freeze(at, node, dice);
    case FAULT_REFUSE:
        at->refuses_until = s.now + between(dice, 10 * MS, 2 * SEC);
        tell(SERVER, ALL_NAMES, "node %d refuses everything until %.0f", node,
             (double)at->refuses_until / (double)MS);
        return true;
    case FAULT_RESTART:
        restart(at, node, dice);
        return true;
    case FAULT_WIPE:
        wipe(at, node, dice);
        return true;
    case FAULT_EVICT:
        return evict(node, name);
    case FAULT_FAILOVER:
        fail_over(at, node, dice);
        return true;
    case FAULT_SERVER_CLOCK:
        jump_clock(at, node, dice);
        return true;
    default:
        return break_it(name);
    }
}

void redlock_heal(void)
{
    for (int i = 0; i < s.node_count; i++)
        s.nodes[i].frozen_until = s.nodes[i].refuses_until = s.nodes[i].down_until =
            s.now;
}

/* The way to one node, mostly. */
void redlock_silence(client *c, bool both_ways)
{
    bool all = chance(&c->rand, 200);
    int one = (int)between(&c->rand, 0, s.node_count - 1);
    for (int i = 0; i < s.node_count; i++)
        if (all || i == one)
            net_silence_wire(c->wires[i], both_ways);
}
