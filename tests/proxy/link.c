/* Links, and the faults they can be given. */
#include "proxy/inner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Making ---- */

static proxy_link *find(const proxy *p, const char *name)
{
    for (proxy_link *link = p->links; link; link = link->next)
        if (strcmp(link->name, name) == 0)
            return link;
    return NULL;
}

static const char *set_name(const proxy *p, proxy_link *link, const char *name)
{
    int number = p->link_count;
    if (name && (strlen(name) >= sizeof(link->name) || !*name))
        return "the name is empty or too long";
    if (name && find(p, name))
        return "there is a link of that name";
    if (name) {
        strcpy(link->name, name);
        return NULL;
    }
    do
        snprintf(link->name, sizeof(link->name), "%d", ++number);
    while (find(p, link->name));
    return NULL;
}

static const char *make(proxy_link *link, const char *name, int port, const char *target,
                        const char *framing)
{
    const char *why = set_name(link->proxy, link, name);
    if (why)
        return why;
    if (strlen(target) >= sizeof(link->target))
        return "the target is too long";
    strcpy(link->target, target);
    if (!proxy_framing_find(framing, &link->framing))
        return "there is no such framing";
    return proxy_link_open(link, port);
}

void proxy_link_free(proxy_link *link)
{
    proxy_link_deafen(link);
    if (link->seat >= 0)
        close(link->seat);
    proxy_planned_free(link);
    free(link);
}

proxy_link *proxy_listen(proxy *p, const char *name, int port, const char *target,
                         const char *framing, const char **ret_why)
{
    proxy_link *link = calloc(1, sizeof(*link));
    if (!link) {
        *ret_why = strerror(ENOMEM);
        return NULL;
    }
    link->proxy = p;
    link->seat = link->listener = link->polled = -1;
    proxy_enter(p);
    const char *why = make(link, name, port, target, framing);
    if (!why) {
        *p->last_link = link;
        p->last_link = &link->next;
        p->link_count++;
        proxy_say(p, link, NULL, "port %d before %s", link->port, link->target);
    }
    proxy_leave(p);
    if (!why)
        return link;
    *ret_why = why;
    proxy_link_free(link);
    return NULL;
}

proxy_link *proxy_find(proxy *p, const char *name)
{
    proxy_enter(p);
    proxy_link *link = find(p, name);
    proxy_leave(p);
    return link;
}

int proxy_port(const proxy_link *link)
{
    return link->port;
}

const char *proxy_name(const proxy_link *link)
{
    return link->name;
}

/* ---- Lasting faults ---- */

static const char *const way_names[] = {"off", "up", "down", "both"};

/* The link's pair behind this one, or its first. */
static proxy_pair *next_pair(const proxy_link *link, proxy_pair *before)
{
    proxy_pair *pair = before ? before->next : link->proxy->pairs;
    while (pair && (pair->link != link || pair->dead))
        pair = pair->next;
    return pair;
}

/* Connections with a gap in them are of no use to anybody. */
static void cut_swallowed(proxy_link *link)
{
    for (proxy_pair *pair = NULL; (pair = next_pair(link, pair));) {
        bool in_hole = (link->toxics[UP].hole || link->toxics[DOWN].hole);
        if (pair->swallowed && !in_hole)
            proxy_pair_cut(pair);
    }
}

static void hand_on_now(proxy_pair *pair)
{
    pair->stalled = false;
    for (int way = UP; way <= DOWN; way++) {
        proxy_flow *flow = &pair->flow[way];
        flow->pause_until = 0;
        for (proxy_chunk *chunk = flow->first; chunk; chunk = chunk->next)
            chunk->due = 0;
    }
}

static void listen_again(proxy_link *link)
{
    if (!proxy_link_listen(link))
        proxy_say(link->proxy, link, NULL, "can't listen: %s", strerror(errno));
}

void proxy_pass(proxy_link *link)
{
    proxy_enter(link->proxy);
    proxy_say(link->proxy, link, NULL, "pass");
    memset(link->toxics, 0, sizeof(link->toxics));
    link->late = link->ignores = false;
    listen_again(link);
    cut_swallowed(link);
    for (proxy_pair *pair = NULL; (pair = next_pair(link, pair));)
        hand_on_now(pair);
    proxy_leave(link->proxy);
}

void proxy_hole(proxy_link *link, proxy_way way)
{
    proxy_enter(link->proxy);
    proxy_say(link->proxy, link, NULL, "hole %s", way_names[way]);
    link->toxics[UP].hole = way & PROXY_UP;
    link->toxics[DOWN].hole = way & PROXY_DOWN;
    cut_swallowed(link);
    proxy_leave(link->proxy);
}

void proxy_stall(proxy_link *link)
{
    proxy_enter(link->proxy);
    proxy_say(link->proxy, link, NULL, "stall");
    for (proxy_pair *pair = NULL; (pair = next_pair(link, pair));)
        pair->stalled = true;
    proxy_leave(link->proxy);
}

void proxy_late(proxy_link *link)
{
    proxy_enter(link->proxy);
    proxy_say(link->proxy, link, NULL, "late");
    link->late = true;
    proxy_leave(link->proxy);
}

void proxy_latency(proxy_link *link, proxy_way way, int64_t ms, int64_t jitter_ms)
{
    proxy_enter(link->proxy);
    proxy_say(link->proxy, link, NULL, "latency %lld %lld %s", (long long)ms,
              (long long)jitter_ms, way_names[way]);
    for (int i = UP; i <= DOWN; i++)
        if (way & (1 << i)) {
            link->toxics[i].latency_ms = ms;
            link->toxics[i].jitter_ms = jitter_ms;
        }
    proxy_leave(link->proxy);
}

void proxy_slice(proxy_link *link, proxy_way way, size_t size, int64_t delay_us)
{
    proxy_enter(link->proxy);
    proxy_say(link->proxy, link, NULL, "slice %zu %lld %s", size, (long long)delay_us,
              way_names[way]);
    for (int i = UP; i <= DOWN; i++)
        if (way & (1 << i)) {
            link->toxics[i].slice = size;
            link->toxics[i].slice_us = size > 0 ? delay_us : 0;
        }
    proxy_leave(link->proxy);
}

void proxy_bandwidth(proxy_link *link, proxy_way way, int64_t bytes_per_s)
{
    proxy_enter(link->proxy);
    proxy_say(link->proxy, link, NULL, "bandwidth %lld %s", (long long)bytes_per_s,
              way_names[way]);
    for (int i = UP; i <= DOWN; i++)
        if (way & (1 << i))
            link->toxics[i].bandwidth = bytes_per_s;
    proxy_leave(link->proxy);
}

void proxy_refuse(proxy_link *link)
{
    proxy_enter(link->proxy);
    proxy_say(link->proxy, link, NULL, "refuse");
    proxy_link_deafen(link);
    proxy_leave(link->proxy);
}

void proxy_ignore(proxy_link *link)
{
    proxy_enter(link->proxy);
    proxy_say(link->proxy, link, NULL, "ignore");
    link->ignores = true;
    listen_again(link);
    proxy_leave(link->proxy);
}

/* ---- Faults of the moment ---- */

void proxy_reset(proxy_link *link)
{
    proxy_enter(link->proxy);
    proxy_say(link->proxy, link, NULL, "reset");
    for (proxy_pair *pair = NULL; (pair = next_pair(link, pair));)
        proxy_pair_cut(pair);
    proxy_leave(link->proxy);
}

void proxy_half_open(proxy_link *link)
{
    proxy_enter(link->proxy);
    proxy_say(link->proxy, link, NULL, "half-open");
    for (proxy_pair *pair = NULL; (pair = next_pair(link, pair));) {
        pair->orphan = true;
        for (int way = UP; way <= DOWN; way++) {
            pair->flow[way].mute = true;
            proxy_flow_drop(&pair->flow[way]);
        }
    }
    proxy_leave(link->proxy);
}

void proxy_half_close(proxy_link *link, proxy_way way)
{
    proxy_enter(link->proxy);
    proxy_say(link->proxy, link, NULL, "half-close %s", way_names[way]);
    for (proxy_pair *pair = NULL; (pair = next_pair(link, pair));)
        for (int i = UP; i <= DOWN && !pair->dead; i++)
            if (way & (1 << i)) {
                pair->flow[i].finish = pair->flow[i].mute = true;
                proxy_flow_send(pair, i);
            }
    proxy_leave(link->proxy);
}

/* ---- Faults of one request ---- */

bool proxy_add_plan(proxy_link *link, proxy_plan plan)
{
    if (!link->framing || plan.number < 1)
        return false;
    proxy_planned *planned = calloc(1, sizeof(*planned));
    char *command = plan.command ? strdup(plan.command) : NULL;
    char *word = plan.word ? strdup(plan.word) : NULL;
    if (!planned || (plan.command && !command) || (plan.word && !word)) {
        free(planned);
        free(command);
        free(word);
        return false;
    }
    *planned = (proxy_planned){
        .plan = plan, .command = command, .word = word, .left = plan.number};
    proxy_enter(link->proxy);
    proxy_planned **end = &link->plans;
    while (*end)
        end = &(*end)->next;
    *end = planned;
    proxy_leave(link->proxy);
    return true;
}

void proxy_forget_plans(proxy_link *link)
{
    proxy_enter(link->proxy);
    proxy_planned_free(link);
    proxy_leave(link->proxy);
}

/* ---- What was seen ---- */

proxy_stats proxy_get_stats(proxy_link *link)
{
    proxy_enter(link->proxy);
    proxy_stats stats = link->stats;
    proxy_leave(link->proxy);
    return stats;
}

int64_t proxy_requests(proxy_link *link, const char *command)
{
    int64_t count = 0;
    proxy_enter(link->proxy);
    for (int i = 0; i < TALLIES && link->tallies[i].requests > 0; i++) {
        const char *name = link->tallies[i].command;
        if (proxy_matches((proxy_span){name, strlen(name)}, command))
            count += link->tallies[i].requests;
    }
    proxy_leave(link->proxy);
    return count;
}

void proxy_get_tallies(proxy_link *link, proxy_tally to[TALLIES])
{
    proxy_enter(link->proxy);
    memcpy(to, link->tallies, sizeof(link->tallies));
    proxy_leave(link->proxy);
}
