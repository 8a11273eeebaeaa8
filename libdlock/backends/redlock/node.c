/* What the nodes tell: whether they can be reached, and what they log. The host hears that the
 * link is up as long as most of them can be reached. */
#include "contract/node.h"
#include "backends/redlock/inner.h"
#include "util/clock.h"

/* What lies on all nodes bears the loss of more of them: so at the beginning those that are slower
 * than the fastest majority get a moment. */
#define OTHERS_GET (100 * DLK_NS_PER_MS)

static dlk_redlock_node *node_of(dlk_host *host)
{
    return DLK_LIST_ITEM(host, dlk_redlock_node, host);
}

static void node_answered(dlk_host *host, dlk_ask *ask)
{
    dlk_redlock_node *node = node_of(host);
    dlk_redlock_answered(node->redlock, (int)(node - node->redlock->nodes), ask);
}

/* Its keys aren't watched, and it isn't listened to. */
static void node_notified(dlk_host *host, dlk_key *key)
{
    (void)host;
    (void)key;
}

dlk_nodes dlk_redlock_up(const dlk_redlock *redlock)
{
    dlk_nodes up = 0;
    for (int i = 0; i < redlock->count; i++)
        if (redlock->nodes[i].up)
            up |= dlk_node_bit(i);
    return up;
}

dlk_nodes dlk_redlock_trying(const dlk_redlock *redlock)
{
    dlk_nodes trying = 0;
    for (int i = 0; i < redlock->count; i++)
        if (!redlock->nodes[i].up && !redlock->nodes[i].down)
            trying |= dlk_node_bit(i);
    return trying;
}

dlk_nodes dlk_redlock_away(const dlk_redlock *redlock)
{
    dlk_nodes away = 0;
    for (int i = 0; i < redlock->count; i++)
        if (redlock->nodes[i].away)
            away |= dlk_node_bit(i);
    return away;
}

int dlk_redlock_count_down(const dlk_redlock *redlock)
{
    int down = 0;
    for (int i = 0; i < redlock->count; i++)
        down += redlock->nodes[i].down;
    return down;
}

static bool has_quorum(const dlk_redlock *redlock)
{
    return dlk_nodes_count(dlk_redlock_up(redlock)) >= redlock->quorum;
}

static void went_up(dlk_redlock *redlock, dlk_redlock_node *node)
{
    dlk_host *host = redlock->base.host;
    bool again = node->down;
    DLK_TELL(host->tell, DLK_TELL_CLUSTER, "node %s: %s", node->peer,
             again ? "back" : "up");
    node->up = true;
    node->down = node->away = false;
    dlk_error_clear(&node->why_down);
    dlk_claims_node_back(redlock, (int)(node - redlock->nodes));
    if (again && redlock->up)
        host->log(host, DLOCK_LOG_INFO, "%s: %s is back", dlk_redlock_name(redlock),
                  node->peer);
    if (!redlock->up && redlock->up_at >= DLK_NEVER && has_quorum(redlock))
        redlock->up_at = dlk_clock_now() + OTHERS_GET;
}

int64_t dlk_redlock_nodes_tick(dlk_redlock *redlock, int64_t now)
{
    dlk_host *host = redlock->base.host;
    if (redlock->up_at >= DLK_NEVER)
        return DLK_NEVER;
    if (now < redlock->up_at && dlk_redlock_trying(redlock))
        return redlock->up_at;
    redlock->up_at = DLK_NEVER;
    if (has_quorum(redlock)) {
        redlock->up = true;
        host->link(host, true, NULL);
    }
    return DLK_NEVER;
}

static void tell_down(dlk_redlock *redlock)
{
    dlk_host *host = redlock->base.host;
    dlock_error *why = dlk_redlock_down_error(redlock);
    redlock->up = false;
    host->link(host, false, why);
    dlk_error_clear(&why);
}

static void went_down(dlk_redlock *redlock, dlk_redlock_node *node,
                      const dlock_error *error)
{
    dlk_host *host = redlock->base.host;
    bool before = node->down;
    DLK_TELL(host->tell, DLK_TELL_CLUSTER, "node %s: %s%s", node->peer,
             before ? "still down: " : "down: ", error ? error->text : "no reason given");
    node->up = false;
    node->down = true;
    node->away = before;
    dlk_error_clear(&node->why_down);
    node->why_down = dlk_error_copy(error);
    if (redlock->up ? !has_quorum(redlock)
                    : dlk_redlock_count_down(redlock) > redlock->count - redlock->quorum)
        tell_down(redlock);
    else if (!before && !redlock->stopped)
        host->log(host, DLOCK_LOG_WARN, "%s: of %d nodes one more is away: %s: %s",
                  dlk_redlock_name(redlock), redlock->count, node->peer,
                  error ? error->text : "no reason given");
}

static void node_link(dlk_host *host, bool up, const dlock_error *error)
{
    dlk_redlock_node *node = node_of(host);
    dlk_redlock *redlock = node->redlock;
    if (up)
        went_up(redlock, node);
    else
        went_down(redlock, node, error);
    dlk_rounds_node_known(redlock, (int)(node - redlock->nodes), dlk_clock_now());
}

void dlk_redlock_node_init(dlk_redlock *redlock, int index)
{
    dlk_redlock_node *node = &redlock->nodes[index];
    node->redlock = redlock;
    node->host = dlk_node_host(redlock->base.host);
    node->host.answered = node_answered;
    node->host.notified = node_notified;
    node->host.link = node_link;
}

void dlk_redlock_count(dlk_redlock *redlock)
{
    for (int i = 0; i < redlock->count; i++)
        dlk_node_count(&redlock->nodes[i].host);
}
