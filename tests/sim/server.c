/* The model server: what Redis' scripts, or the lease table, make of one request. */
#include "sim.h"

#include "util/error.h"
#include "util/info.h"

#include <string.h>

int64_t server_time(void)
{
    return (int64_t)((double)s.now * s.server.rate);
}

int server_name(const dlk_ask *ask)
{
    return ask->key->name[0] - 'a';
}

static record *record_of(const dlk_ask *ask)
{
    return &s.server.names[server_name(ask)];
}

static void freed(int name)
{
    s.server.names[name].held = false;
    s.server.free_since[name] = s.now;
}

static void expire(int name);

bool server_free(int name)
{
    expire(name);
    return !s.server.names[name].held;
}

static void give(record *r, int who, uint64_t number, int64_t ttl_ms)
{
    int64_t *highest = &s.granted_token[r - s.server.names];
    int64_t floor = s.server.wall_floor + s.now / 1000;
    r->held = true;
    r->client = who;
    r->number = number;
    r->ends_at = server_time() + ttl_ms * MS;
#ifdef PLANT_TOKEN_AFTER_WIPE
    r->token = ++r->last_token;
    (void)floor;
#else
    r->token = r->last_token = r->last_token + 1 > floor ? r->last_token + 1 : floor;
#endif
    if (r->token <= *highest)
        violated("the token %lld isn't larger than %lld", (long long)r->token,
                 (long long)*highest);
    *highest = r->token;
}

/* ---- the line of a lease table ---- */

static int place_in_line(const record *r, int who, uint64_t number)
{
    for (int i = 0; i < r->line_size; i++)
        if (r->line[i].client == who && r->line[i].number == number)
            return i;
    return -1;
}

static void leave_line(record *r, int place)
{
    memmove(&r->line[place], &r->line[place + 1],
            (size_t)(r->line_size - place - 1) * sizeof(r->line[0]));
    r->line_size--;
}

/* A release hands the lock to the head of the line. */
static void hand_on(int name)
{
    record *r = &s.server.names[name];
    freed(name);
    if (!s.config.table || r->line_size == 0)
        return;
    waiting head = r->line[0];
    leave_line(r, 0);
    give(r, head.client, head.number, head.ttl_ms);
}

/* A lease that is over ends here, when somebody looks. In a table the next in line gets the lock
 * even if it is stopped just now: its own lease then decides how long the others wait. */
static void expire(int name)
{
    record *r = &s.server.names[name];
    if (r->held && server_time() >= r->ends_at) {
        bool handed = s.config.table && r->line_size > 0;
        hand_on(name);
        if (handed)
            net_notify(name);
    }
}

/* ---- requests ---- */

static bool ours(const record *r, int who, uint64_t number)
{
    return r->held && r->client == who && r->number == number;
}

static void acquire(record *r, int name, int who, dlk_ask *ask)
{
    expire(name);
    int place = place_in_line(r, who, ask->number);
    if (ours(r, who, ask->number)) {
        if (s.config.table) /* handed over a while ago: the lease counts from then */
            ask->since = r->ends_at - ask->ttl_ms * MS;
        else if (r->ends_at < server_time() + ask->ttl_ms * MS)
            r->ends_at = server_time() + ask->ttl_ms * MS;
    } else if (!r->held && (!s.config.table || r->line_size == 0 || place == 0)) {
        if (place == 0)
            leave_line(r, 0);
        give(r, who, ask->number, ask->ttl_ms);
    } else {
        if (s.config.table && place < 0)
            r->line[r->line_size++] = (waiting){who, ask->number, ask->ttl_ms};
        ask->wait_ms = r->held ? (r->ends_at - server_time()) / MS : 0;
        ask->reply = DLK_HELD;
        return;
    }
    ask->token = r->token;
    ask->reply = DLK_YES;
}

static void renew(record *r, int name, int who, dlk_ask *ask)
{
    expire(name);
    int64_t end = server_time() + ask->ttl_ms * MS;
    ask->reply = ours(r, who, ask->number) ? DLK_YES : DLK_NOT_OURS;
    if (ask->reply == DLK_YES && end > r->ends_at)
        r->ends_at = end;
}

static void release(record *r, int name, int who, dlk_ask *ask)
{
    expire(name);
    int place = place_in_line(r, who, ask->number);
    bool mine = ours(r, who, ask->number);
#ifdef PLANT_RELEASE_HITS_NEXT
    mine = r->held && r->client == who;
#endif
    if (place >= 0)
        leave_line(r, place);
    if (mine) {
        hand_on(name);
        net_notify(name);
    }
    ask->reply = mine || place >= 0 ? DLK_YES : DLK_NOT_OURS;
}

void server_apply(int index, int generation, dlk_ask *ask)
{
    int name = server_name(ask);
    record *r = record_of(ask);
    int who = index * 1000 + generation;
    switch (ask->verb) {
    case DLK_ACQUIRE:
        acquire(r, name, who, ask);
        break;
    case DLK_RENEW:
        renew(r, name, who, ask);
        break;
    case DLK_RELEASE:
        release(r, name, who, ask);
        break;
    case DLK_VERIFY:
        expire(name);
        ask->reply = ours(r, who, ask->number) ? DLK_YES : DLK_NOT_OURS;
        break;
    case DLK_BREAK:
    case DLK_INSPECT:
    case DLK_LIST:
    case DLK_DOCTOR:
        ask->reply = DLK_NOT_OURS;
        break;
    }
}

/* ---- what happens to its state ---- */

void server_wipe(void)
{
    for (int i = 0; i < s.config.names; i++) {
        s.server.names[i] = (record){0};
        freed(i);
        s.server.state_lost_at[i] = s.now;
    }
}

void server_break(int name)
{
    if (!s.server.names[name].held)
        return;
    hand_on(name);
    s.server.state_lost_at[name] = s.now;
    net_notify(name);
}

void server_snapshot(void)
{
    memcpy(s.server.snapshot, s.server.names, sizeof(s.server.names));
}

void server_rollback(void)
{
    memcpy(s.server.names, s.server.snapshot, sizeof(s.server.names));
    for (int i = 0; i < s.config.names; i++) {
        s.server.state_lost_at[i] = s.now;
        s.server.free_since[i] = s.now;
    }
}

/* The table's reaper: what a dead process had is handed on. */
void server_forget(int who)
{
    for (int i = 0; i < s.config.names; i++) {
        record *r = &s.server.names[i];
        for (int k = r->line_size - 1; k >= 0; k--)
            if (r->line[k].client == who)
                leave_line(r, k);
        if (r->held && r->client == who) {
            hand_on(i);
            net_notify(i);
        }
    }
}
