/*
 * Who holds what, read from the items by the rules of their text:
 *
 *     <uuid>:<number> mutex|election <token> <about>
 *     read/write, or semaphore <permits>; and then a line for each holder
 *     <uuid>:<number> w|r <permits> <until> <token> <about>
 *
 * A token that is 0 is that of the item's number; until is a second of the server's clock.
 */
#include "memcached/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of those who have it no more, of each client. */
#define MEMORY 32

typedef struct mc_holder {
    int client, generation;
    uint64_t number;
    bool shared;
    int32_t take;
    int64_t token;
} mc_holder;

static mc_holder last[MAX_NAMES][MAX_HELD];
static int last_count[MAX_NAMES];
static struct {
    mc_holder who;
    int64_t until; /* true time */
} gone[MAX_NAMES][MAX_CLIENTS][MEMORY];
static unsigned gone_count[MAX_NAMES][MAX_CLIENTS];
static struct {
    uint64_t cas; /* of another library's item; 0: there is none */
    int64_t ends;
} foreign[MAX_NAMES];

void mc_rules_begin(void)
{
    memset(last_count, 0, sizeof(last_count));
    memset(gone_count, 0, sizeof(gone_count));
    memset(foreign, 0, sizeof(foreign));
}

/* ---- reading ---- */

/* An owner; *ret_rest is what stands behind it. */
static bool parse_owner(const char *text, mc_holder *ret, const char **ret_rest)
{
    unsigned index, generation;
    unsigned long long number;
    int size = 0;
    if (sscanf(text, "%8x-0000-4000-8000-%12x:%llu %n", &index, &generation, &number,
               &size) != 3 ||
        size == 0 || index >= (unsigned)s.config.clients)
        return false;
    *ret = (mc_holder){
        .client = (int)index, .generation = (int)generation, .number = number, .take = 1};
    *ret_rest = text + size;
    return true;
}

/* A second of the process' start is worth more numbers than it can give out. */
static int64_t token_of(int64_t said, const mc_item *item)
{
    if (kind_counts())
        return 0;
    return said ? said : mc_started() * (INT64_C(1) << 30) + (int64_t)item->cas;
}

static bool read_sole(const mc_item *item, mc_holder *ret)
{
    const char *rest;
    char word[16];
    long long token;
    if (!parse_owner(item->value, ret, &rest) ||
        sscanf(rest, "%15s %lld", word, &token) != 2)
        return false;
    ret->token = token_of(token, item);
    return true;
}

static bool read_line(const char *line, const mc_item *item, mc_holder *ret)
{
    const char *rest;
    char side;
    int take;
    long long until, token;
    if (!parse_owner(line, ret, &rest) ||
        sscanf(rest, "%c %d %lld %lld", &side, &take, &until, &token) != 4)
        return false;
    ret->shared = side == 'r';
    ret->take = take;
    ret->token = token_of(token, item);
    return until > mc_second();
}

static int read_item(const mc_item *item, mc_holder ret[MAX_HELD])
{
    int count = 0;
    if (!kind_counts() && !kind_has_sides())
        return read_sole(item, &ret[0]);
    for (const char *at = strchr(item->value, '\n'); at && count < MAX_HELD;
         at = strchr(at + 1, '\n'))
        count += read_line(at + 1, item, &ret[count]);
    return count;
}

static int read_holders(int name, mc_holder ret[MAX_HELD])
{
    const mc_item *item = mc_item_of(name);
    return item ? read_item(item, ret) : 0;
}

static bool lives(const mc_holder *h)
{
    const client *c = &s.clients[h->client];
    return c->generation == h->generation && !c->dead;
}

int mc_holders(int name, holder ret[MAX_HELD])
{
    mc_holder all[MAX_HELD];
    int count = read_holders(name, all);
    for (int i = 0; i < count; i++)
        ret[i] = (holder){lives(&all[i]) ? all[i].client : NOBODY, all[i].number,
                          all[i].token};
    if (!mc_rules_is_foreign(name) || !mc_item_of(name))
        return count;
    ret[0] = (holder){UNNAMED, 0, 0};
    return 1;
}

/* ---- what changes ---- */

static bool is_same(const mc_holder *a, const mc_holder *b)
{
    return a->client == b->client && a->generation == b->generation &&
           a->number == b->number && a->token == b->token;
}

static bool is_among(const mc_holder *one, const mc_holder *all, int count)
{
    for (int i = 0; i < count; i++)
        if (is_same(one, &all[i]))
            return true;
    return false;
}

static void tell_given(int name, const mc_holder *to)
{
    const wish it = {.client = lives(to) ? to->client : NOBODY,
                     .sender = to->client * 1000 + to->generation,
                     .number = to->number,
                     .shared = to->shared,
                     .take = to->take};
    tell(SERVER, name, "%c goes to #%llu of client %d", 'a' + name,
         (unsigned long long)to->number, to->client);
    check_given(name, &it, to->token);
}

/* Its item is as it stored it, for as long as it stored it for. */
static void look_at_foreign(int name)
{
    const mc_item *item = mc_item_of(name);
    if (!foreign[name].cas)
        return;
    if (item && item->cas == foreign[name].cas && item->ends == foreign[name].ends)
        return;
    if (mc_second() < foreign[name].ends)
        violated(name, "%c was another library's for %lld s more, and was touched",
                 'a' + name, (long long)(foreign[name].ends - mc_second()));
    foreign[name].cas = 0;
}

static void note_gone(int name, const mc_holder *who)
{
    unsigned place = gone_count[name][who->client]++ % MEMORY;
    gone[name][who->client][place].who = *who;
    gone[name][who->client][place].until = s.now;
}

void mc_rules_look(int name)
{
    mc_holder now[MAX_HELD];
    int count = read_holders(name, now);
    look_at_foreign(name);
    for (int i = 0; i < last_count[name]; i++)
        if (!is_among(&last[name][i], now, count))
            note_gone(name, &last[name][i]);
    for (int i = 0; i < count; i++)
        if (!is_among(&now[i], last[name], last_count[name]))
            tell_given(name, &now[i]);
    last_count[name] = count;
    memcpy(last[name], now, sizeof(*now) * (size_t)count);
}

/* ---- others ---- */

void mc_rules_foreign(int name)
{
    const mc_item *item = mc_item_of(name);
    const wish it = {.client = UNNAMED, .take = SIM_PERMITS};
    if (!item)
        abort();
    foreign[name].cas = item->cas;
    foreign[name].ends = item->ends;
    check_given(name, &it, 0);
}

bool mc_rules_is_foreign(int name)
{
    return foreign[name].cas != 0;
}

void mc_rules_forget(int name)
{
    foreign[name].cas = 0;
}

/* ---- answers ---- */

static bool is_of(const mc_holder *h, const client *c, uint64_t number)
{
    return h->client == c->index && h->generation == c->generation && h->number == number;
}

static bool had_since(int name, const client *c, uint64_t number, int64_t since)
{
    mc_rules_look(name); /* leases end unseen */
    for (int i = 0; i < last_count[name]; i++)
        if (is_of(&last[name][i], c, number))
            return true;
    for (unsigned i = 0; i < MEMORY && i < gone_count[name][c->index]; i++)
        if (is_of(&gone[name][c->index][i].who, c, number) &&
            gone[name][c->index][i].until >= since)
            return true;
    return false;
}

void mc_rules_answered(const client *c, const dlk_ask *ask)
{
    int name = ask->key->name[0] - 'a';
    bool says_held = ask->reply == DLK_YES && ask->verb != DLK_RELEASE;
    /* What comes so late that its lease is over is relied on by nobody. */
    bool late = ask->verb != DLK_VERIFY &&
                client_time(c) >= dlk_clock_after(ask->since, ask->ttl_ms);
    /* A line that was made by the clock of before a stop is over as it is stored. */
    late |= s.state_lost_at[name] >= true_time(c, ask->since) - MS;
    if (says_held && !late &&
        !had_since(name, c, ask->number, true_time(c, ask->since) - MS))
        violated(name, "client %d's %s #%llu: yes, and it never was since it was asked",
                 c->index, verb_name(ask->verb), (unsigned long long)ask->number);
}
