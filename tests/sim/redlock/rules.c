/* What must be true of a Redlock beyond what is asked of every lock: its tokens rise, and nothing that
 * was given up is left behind on any node. */
#include "redlock/model.h"

/* A release is tried again a second after its answer, or after its time-out of three seconds at a node
 * that was silent: so two of them are over by then. */
#define LEFT_FOR (8 * SEC)

static struct {
    holder by;
    int64_t since; /* 0: not so */
} left[SIM_NODES][MAX_NAMES];

void redlock_rules_begin(void)
{
    for (int i = 0; i < SIM_NODES; i++)
        for (int n = 0; n < MAX_NAMES; n++)
            left[i][n].since = 0;
}

/* ---- tokens ---- */

/* A node that has forgotten what it counted may be of the next majority. */
static bool tokens_rise(int name)
{
    return s.state_lost_at[name] == 0;
}

static bool is_anothers(const actor *me, int64_t token)
{
    for (int i = 0; i < s.config.clients; i++)
        for (int k = 0; k < s.config.actors; k++) {
            const actor *other = &s.clients[i].actors[k];
            if (other != me && other->hold && other->name == me->name &&
                other->hold->grant->token == token)
                return true;
        }
    return false;
}

void redlock_told(const actor *me)
{
    int64_t token = me->hold->grant->token;
    bool fences = s.config.kind == KIND_REDLOCK_FENCING;
    s.grants_of[me->name]++;
    if ((token != 0) != fences)
        violated(me->name, "client %d is given %c with the token %lld", me->client->index,
                 'a' + me->name, (long long)token);
    if (fences && tokens_rise(me->name) && token <= s.granted_token[me->name])
        violated(me->name, "the token %lld of %c isn't larger than %lld",
                 (long long)token, 'a' + me->name, (long long)s.granted_token[me->name]);
    if (fences && is_anothers(me, token))
        violated(me->name, "the token %lld of %c is another holder's, too",
                 (long long)token, 'a' + me->name);
    if (token > s.granted_token[me->name])
        s.granted_token[me->name] = token;
}

/* ---- what is left behind ---- */

static bool node_serves(int node)
{
    const server *at = &s.nodes[node];
    return s.now >= at->frozen_until && s.now >= at->refuses_until &&
           s.now >= at->down_until;
}

/* Nothing keeps the client from giving it back there. */
static bool can_mend(const client *c, int node)
{
    const wire *w = c->wires[node];
    return client_is_reachable(c) && node_serves(node) && w && w->state == WIRE_UP &&
           !w->silent && !w->deaf;
}

static bool is_left_behind(int node, int name, holder *by)
{
    if (!redlock_key_at(node, name, by) || by->client < 0 ||
        s.now < s.orphans_until[name])
        return false;
    const client *c = &s.clients[by->client];
    uint64_t number = redlock_number(c, by->number);
    return can_mend(c, node) && !(number && client_has_grant(c, number));
}

void redlock_watchdog(int name)
{
    for (int i = 0; i < s.node_count; i++) {
        holder by = {0};
        bool is = is_left_behind(i, name, &by);
        bool same =
            left[i][name].by.client == by.client && left[i][name].by.number == by.number;
        if (!is)
            left[i][name].since = 0;
        else if (!left[i][name].since || !same)
            left[i][name].since = s.now;
        left[i][name].by = by;
        if (is && s.now - left[i][name].since > LEFT_FOR)
            violated(name,
                     "node %d keeps %c for #%llu of client %d, which knows nothing of it",
                     i, 'a' + name, (unsigned long long)by.number, by.client);
    }
}

void redlock_check_rest(void)
{
    holder by;
    for (int i = 0; i < s.node_count; i++)
        for (int n = 0; n < s.config.names; n++)
            if (redlock_key_at(i, n, &by) && s.now >= s.orphans_until[n])
                violated(n, "node %d still has %c, for #%llu of client %d", i, 'a' + n,
                         (unsigned long long)by.number, by.client);
}
