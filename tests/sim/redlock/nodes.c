/* The servers, and what stands for libdlock/backends/redis: a connection to one of them. */
#include "sim.h"

#include "util/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct conn {
    dlk_backend base;
    client *client;
    server *server;
    uint64_t epoch;  /* counts connections: what belongs to an older one is lost */
    bool up, broken; /* broken: and the client hasn't noticed */
    int64_t retry_at, up_at;
    int64_t last_in, last_out; /* requests and answers keep their order */
    dlk_list pending, arrived;
} conn;

typedef struct request {
    conn *conn;
    uint64_t epoch;
    dlk_ask *ask; /* of the client, while the epoch is the same */
    dlk_ask copy;
    char owner[64];
    bool breaks; /* the connection does when this one has been carried out */
} request;

static const dlk_backend_type node_type;

int64_t sim_clock_now(void)
{
    return s.now;
}

/* ---- the servers ---- */

void nodes_reset(void)
{
    memset(s.server, 0, sizeof(s.server));
}

static bool has_key(const server *at)
{
    return at->owner[0] && s.now < at->ends;
}

bool nodes_keep_nothing(void)
{
    for (int i = 0; i < s.servers; i++)
        if (has_key(&s.server[i]))
            return false;
    return true;
}

static void lengthen(server *at, int64_t ttl_ms)
{
    int64_t lasts = ttl_ms * MS / (1000000 + s.fast) * 1000000;
    if (at->ends < s.now + lasts)
        at->ends = s.now + lasts;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* As scripts/redlock do. */
static void acquire(server *at, request *r)
{
    bool free = !has_key(at), ours = !free && strcmp(at->owner, r->owner) == 0;
    if (!free && !ours) {
        r->copy.reply = DLK_HELD;
        return;
    }
    if (free) {
        strcpy(at->owner, r->owner);
        at->ends = 0;
    }
    lengthen(at, r->copy.ttl_ms);
    r->copy.lasts = true;
    r->copy.reply = DLK_YES;
    if (s.fencing)
        r->copy.token = at->counter = r->copy.token
                                          ? later(at->counter, r->copy.token)
                                          : later(at->counter + 1, s.now / 1000);
}

static void carry_out(server *at, request *r)
{
    bool ours = has_key(at) && strcmp(at->owner, r->owner) == 0;
    if (r->copy.verb == DLK_ACQUIRE) {
        acquire(at, r);
        return;
    }
    r->copy.reply = ours ? DLK_YES : DLK_NOT_OURS;
    if (!ours)
        return;
    r->copy.lasts = r->copy.verb == DLK_RENEW;
    if (r->copy.verb == DLK_RENEW)
        lengthen(at, r->copy.ttl_ms);
    else if (r->copy.verb == DLK_RELEASE)
        at->owner[0] = '\0';
    else if (r->copy.verb == DLK_VERIFY && r->copy.token)
        at->counter = later(at->counter, r->copy.token);
}

/* ---- the way ---- */

static void break_up(conn *c)
{
    if (!c->up || c->broken)
        return;
    c->broken = true;
    c->epoch++;
    client_wake(c->client, s.now + sim_random(3 * MS));
}

static void take_answer(void *arg)
{
    request *r = arg;
    if (r->epoch == r->conn->epoch) {
        r->ask->reply = r->copy.reply;
        r->ask->token = r->copy.token;
        r->ask->lasts = r->copy.lasts;
        dlk_list_remove(&r->ask->link);
        dlk_list_append(&r->conn->arrived, &r->ask->link);
        client_wake(r->conn->client, s.now);
    }
    free(r);
}

static int64_t delay(void)
{
    int64_t usual = 100000 + sim_random(2 * MS);
    return sim_happens(40) && !s.calm ? sim_random(400 * MS) : usual;
}

static void arrive(void *arg)
{
    request *r = arg;
    conn *c = r->conn;
    if (c->server->frozen_until > s.now) {
        sim_at(c->server->frozen_until, arrive, r);
        return;
    }
    if (c->server->down) {
        if (r->epoch == c->epoch)
            break_up(c);
        free(r);
        return;
    }
    carry_out(c->server, r);
    if (r->breaks && r->epoch == c->epoch)
        break_up(c);
    c->last_out = later(c->last_out, s.now + delay());
    sim_at(c->last_out, take_answer, r);
}

/* What may go wrong with one request; false: it never arrives. */
static bool meets_fault(request *r)
{
    conn *c = r->conn;
    if (s.calm || !sim_happens(60))
        return true;
    s.faults++;
    switch (sim_random(3)) {
    case 0:
        break_up(c);
        return false;
    case 1: /* carried out, and nobody hears of it */
        r->breaks = true;
        return true;
    default: /* it sits in some buffer while a new connection is made */
        break_up(c);
        /* Longer than a short lease, too: what was given back may lie there again then, but nobody
         * loses by it. With a long one it would lie for so long that the run ends before. */
        sim_at(s.now + sim_random(s.ttl_ms > 2000 ? 1500 * MS : 6 * SEC), arrive, r);
        return true;
    }
}

static void ask(dlk_backend *base, dlk_ask *one, int64_t now)
{
    conn *c = (conn *)base;
    (void)now;
    if (!c->up) {
        one->reply = DLK_NOT_SENT;
        return;
    }
    request *r = calloc(1, sizeof(*r));
    if (!r)
        abort();
    dlk_list_init(&one->link);
    dlk_list_append(&c->pending, &one->link);
    *r = (request){.conn = c, .epoch = c->epoch, .ask = one, .copy = *one};
    snprintf(r->owner, sizeof(r->owner), "%s:%" PRIu64, c->client->uuid, one->number);
    uint64_t before = c->epoch;
    if (c->broken || !meets_fault(r)) {
        free(r);
        return;
    }
    if (c->epoch != before)
        return; /* it comes by another way */
    c->last_in = later(c->last_in, s.now + delay());
    sim_at(c->last_in, arrive, r);
}

/* ---- the client's side ---- */

static void go_down(conn *c, const char *why)
{
    dlk_host *host = c->base.host;
    dlock_error *error = dlk_error_make(DLOCK_EUNAVAIL, "%s", why);
    c->up = c->broken = false;
    c->epoch++;
    c->up_at = DLK_NEVER;
    c->retry_at = s.now + 20 * MS + sim_random(200 * MS);
    dlk_list *link;
    while ((link = dlk_list_take_first(&c->pending))) {
        dlk_ask *one = DLK_LIST_ITEM(link, dlk_ask, link);
        one->reply = DLK_UNKNOWN;
        host->answered(host, one);
    }
    host->link(host, false, error);
    dlk_error_clear(&error);
}

static void deliver(conn *c)
{
    dlk_list *link;
    while ((link = dlk_list_take_first(&c->arrived)))
        c->base.host->answered(c->base.host, DLK_LIST_ITEM(link, dlk_ask, link));
}

static void process(dlk_backend *base, int64_t now)
{
    conn *c = (conn *)base;
    (void)now;
    deliver(c);
    if (c->broken)
        go_down(c, "broken");
}

static int64_t earliest_deadline(const conn *c)
{
    int64_t first = DLK_NEVER;
    DLK_LIST_FOR (it, &c->pending) {
        const dlk_ask *one = DLK_LIST_ITEM(it, dlk_ask, link);
        first = one->deadline < first ? one->deadline : first;
    }
    return first;
}

static void try_to_connect(conn *c, int64_t now)
{
    if (now >= c->up_at) {
        c->up = true;
        c->up_at = DLK_NEVER;
        c->last_in = c->last_out = now;
        c->base.host->link(c->base.host, true, NULL);
    } else if (c->up_at >= DLK_NEVER && now >= c->retry_at) {
        if (c->server->down || c->server->frozen_until > now)
            go_down(c, "away");
        else
            c->up_at = now + delay();
    }
}

static int64_t tick(dlk_backend *base, int64_t now)
{
    conn *c = (conn *)base;
    if (!c->up)
        try_to_connect(c, now);
    else if (now >= earliest_deadline(c))
        go_down(c, "no answer in time");
    if (c->up)
        return earliest_deadline(c);
    return c->up_at < c->retry_at ? c->up_at : c->retry_at > now ? c->retry_at : c->up_at;
}

static void start(dlk_backend *base, int64_t now)
{
    conn *c = (conn *)base;
    c->retry_at = now;
    c->up_at = DLK_NEVER;
}

static void stop(dlk_backend *base)
{
    conn *c = (conn *)base;
    deliver(c);
    go_down(c, "closed");
    c->retry_at = DLK_NEVER;
}

/* Requests of its may still be on their way. */
static conn *graves[CLIENTS * SERVERS];
static size_t grave_count;

static void free_node(dlk_backend *base)
{
    graves[grave_count++] = (conn *)base;
}

void nodes_bury(void)
{
    while (grave_count > 0)
        free(graves[--grave_count]);
}

static dlock_err key_open(dlk_backend *base, dlk_key *key, dlock_error **err)
{
    (void)base;
    (void)key;
    (void)err;
    return DLOCK_OK;
}

static void key_close(dlk_backend *base, dlk_key *key)
{
    (void)base;
    (void)key;
}

static void nothing(dlk_backend *base)
{
    (void)base;
}

static void arm(dlk_backend *base, dlk_polls *polls)
{
    (void)base;
    (void)polls;
}

static const dlk_backend_type node_type = {
    .name = "node",
    .start = start,
    .stop = stop,
    .free = free_node,
    .key_open = key_open,
    .key_close = key_close,
    .ask = ask,
    .tick = tick,
    .arm = arm,
    .push = arm,
    .pull = arm,
    .process = process,
    .flush = nothing,
};

dlock_err sim_open_node(dlk_host *host, const dlk_uri *uri, dlk_backend **ret)
{
    conn *c = calloc(1, sizeof(*c));
    if (!c)
        abort();
    c->base = (dlk_backend){.type = &node_type, .host = host};
    c->server = &s.server[uri->hosts[0].port - 1];
    for (int i = 0; i < CLIENTS; i++)
        if (host->uuid == s.client[i].uuid)
            c->client = &s.client[i];
    dlk_list_init(&c->pending);
    dlk_list_init(&c->arrived);
    *ret = &c->base;
    return DLOCK_OK;
}
