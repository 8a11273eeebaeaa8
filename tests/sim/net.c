/* The wire: each request and each answer takes a while, and some never come. */
#include "sim.h"

#include <stdlib.h>

struct message {
    dlk_list link;
    event event;
    int client, generation, epoch, name;
    dlk_ask ask; /* a copy: on the way there the request, on the way back the answer */
    bool reply, reply_lost;
};

static int64_t delay(void)
{
    if (chance(20))
        return between(1 * MS, 400 * MS);
    return between(50 * 1000, 2 * MS);
}

static message *new_message(client *c)
{
    message *m = calloc(1, sizeof(*m));
    if (!m)
        abort();
    m->client = c->index;
    m->generation = c->generation;
    m->epoch = c->epoch;
    dlk_list_append(&s.limbo, &m->link);
    return m;
}

static void drop(message *m)
{
    dlk_list_remove(&m->link);
    event_cancel(&m->event);
    free(m);
}

void net_free(void)
{
    while (!dlk_list_empty(&s.limbo))
        drop(DLK_LIST_ITEM(dlk_list_first(&s.limbo), message, link));
}

static client *alive(const message *m)
{
    client *c = &s.clients[m->client];
    return c->generation == m->generation ? c : NULL;
}

static void arrive_back(event *e)
{
    message *m = e->of;
    client *c = alive(m);
    if (c && client_stopped(c)) { /* waits in the socket's buffer */
        event_at(&m->event, c->paused_until, arrive_back, m);
        return;
    }
    if (c)
        client_answer(c, m->epoch, m->ask.sequence, &m->ask);
    drop(m);
}

static step step_of(const dlk_ask *ask)
{
    return ask->verb == DLK_ACQUIRE ? STEP_ACQUIRE
           : ask->verb == DLK_RENEW ? STEP_RENEW
                                    : STEP_RELEASE;
}

/* When a server that stands still will read this: connections in any order, each in its own. */
static int64_t thaw(const message *m)
{
    dlk_rand rand = {s.config.seed ^ (uint64_t)(m->client * 1000 + m->generation) << 20 ^
                     (uint64_t)m->epoch ^ (uint64_t)s.server.frozen_until};
    /* Each a little later than the one before, so that nothing on one connection overtakes. */
    return s.server.frozen_until + (int64_t)(dlk_rand_next(&rand) % (uint64_t)MS) +
           ++s.thaws % 100000;
}

static void arrive(event *e)
{
    message *m = e->of;
    if (s.now < s.server.frozen_until) {
        event_at(&m->event, thaw(m), arrive, m);
        return;
    }
    if (s.now < s.server.refuses_until)
        m->ask.reply = DLK_REFUSED;
    else
        server_apply(m->client, m->generation, &m->ask);
    tell("server: client %d %s %s #%llu -> %s", m->client,
         m->ask.verb == DLK_ACQUIRE ? "acquire"
         : m->ask.verb == DLK_RENEW ? "renew"
                                    : "release",
         m->ask.key->name, (unsigned long long)m->ask.number,
         m->ask.reply == DLK_YES       ? "yes"
         : m->ask.reply == DLK_HELD    ? "held"
         : m->ask.reply == DLK_REFUSED ? "refused"
                                       : "not yours");
    client *c = alive(m);
    if (!c || m->epoch != c->epoch || m->reply_lost || c->silent) {
        drop(m);
        return;
    }
    int64_t at = s.now + delay();
    if (at <= c->reply_front)
        at = c->reply_front + 1;
    c->reply_front = at;
    event_at(&m->event, at, arrive_back, m);
}

static void cut_later(event *e)
{
    client *c = e->of;
    if (c->epoch == e->number && c->connected)
        client_cut(c, "the connection broke");
}

/* The client notices a while later that its connection is gone. */
static void break_connection(client *c)
{
    event *e = event_new();
    e->number = c->epoch;
    event_at(e, s.now + between(0, 3 * MS), cut_later, c);
}

void net_send(client *c, const dlk_ask *ask)
{
    /* A request may outlive the client that sent it, and so must its name. */
    static dlk_key keys[MAX_NAMES] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
    step at = step_of(ask);
    message *m = new_message(c);
    m->ask = *ask;
    m->ask.key = &keys[server_name(ask)];
    int64_t when = s.now + delay();
    if (when <= c->request_front)
        when = c->request_front + 1;
    if (fault_on(FAULT_SILENCE) && chance(2)) {
        count_fault(FAULT_SILENCE, at);
        c->silent = true;
        tell("client %d: its connection is half-open from now on", c->index);
    }
    if (c->silent) {
        drop(m);
        return;
    }
    if (fault_on(FAULT_DROP_REQUEST) && chance(4)) {
        count_fault(FAULT_DROP_REQUEST, at);
        break_connection(c);
        drop(m);
        return;
    }
    if (fault_on(FAULT_LATE_REQUEST) && chance(4)) {
        count_fault(FAULT_LATE_REQUEST, at);
        break_connection(c);
        when += between(1 * MS, 900 * MS);
        m->reply_lost = true;
    } else if (fault_on(FAULT_DROP_REPLY) && chance(6)) {
        count_fault(FAULT_DROP_REPLY, at);
        break_connection(c);
        m->reply_lost = true;
    }
    c->request_front = when;
    event_at(&m->event, when, arrive, m);
}

/* ---- notifications, on a connection of their own ---- */

static void arrive_news(event *e)
{
    message *m = e->of;
    client *c = alive(m);
    if (c && client_stopped(c)) {
        event_at(&m->event, c->paused_until, arrive_news, m);
        return;
    }
    if (c && c->connected && !c->silent && c->watched[m->name])
        client_notified(c, m->name);
    drop(m);
}

void net_notify(int name)
{
    for (int i = 0; i < s.config.clients; i++) {
        client *c = &s.clients[i];
        if (!c->subscribed[name] || (!s.config.table && s.now < s.server.quiet_until))
            continue;
        message *m = new_message(c);
        m->name = name;
        event_at(&m->event, s.now + (s.config.table ? between(1000, 50000) : delay()),
                 arrive_news, m);
    }
}
