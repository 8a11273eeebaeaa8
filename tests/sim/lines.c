/* Promises about the lines that Redis' scripts keep, and about what is left there in the end; read
 * from the keys, and from what has been asked, not from the library. */
#include "net.h"

#include "backends/redis/client_key.h"
#include "backends/redis/handover.h"
#include "backends/redis/keys.h"

#include <stdlib.h>
#include <string.h>

/* ---- first come, first served ---- */

typedef struct place {
    int client, generation;
    uint64_t number;
    uint64_t first,
        last; /* counted: its place is not older than this, nor younger than that */
} place;

#define MAX_PLACES (MAX_CLIENTS * MAX_ACTORS * 8)

static place places[MAX_NAMES][MAX_PLACES];
static size_t place_count[MAX_NAMES];
static place holds[MAX_NAMES]; /* whose turn was the last one */
static uint64_t stamps;

/* Owners that have given back what they had, the last of them. */
#define MAX_GONE 256
static place gone[MAX_GONE];
static size_t gone_count;

void lines_begin(void)
{
    memset(place_count, 0, sizeof(place_count));
    memset(holds, 0, sizeof(holds));
    gone_count = 0;
    stamps = 0;
}

void lines_forget(int name)
{
    for (size_t i = 0; i < place_count[name]; i++)
        places[name][i].last = UINT64_MAX; /* until it asks again */
}

static bool is(const place *p, int who, int generation, uint64_t number)
{
    return p->client == who && p->generation == generation && p->number == number;
}

static place *place_of(const message *m, uint64_t number)
{
    for (size_t i = 0; i < place_count[m->name]; i++)
        if (is(&places[m->name][i], m->client, m->generation, number))
            return &places[m->name][i];
    return NULL;
}

static void leave(const message *m, uint64_t number)
{
    place *p = place_of(m, number);
    if (p)
        *p = places[m->name][--place_count[m->name]];
}

/* Who was away for long may have lost its place, and has a new one now. */
static void enter(const message *m, uint64_t number)
{
    place *p = place_of(m, number);
    if (p && (p->last == UINT64_MAX || !client_is_well(&s.clients[m->client])))
        p->last = ++stamps;
    if (p || place_count[m->name] == MAX_PLACES)
        return;
    places[m->name][place_count[m->name]++] =
        (place){m->client, m->generation, number, stamps + 1, stamps + 1};
    stamps++;
}

/* It waits, and nothing excuses that it should have been passed over. */
static bool attends(const place *p, int name)
{
    const client *c = &s.clients[p->client];
    const dlk_grant *trying = c->names[name] ? c->names[name]->trying : NULL;
    return c->generation == p->generation && trying && trying->number == p->number &&
           client_is_well(c) && redis_hears(c) && is_calm(s.state_lost_at[name]) &&
           service_is_calm();
}

bool lines_attend(int name)
{
    for (size_t i = 0; i < place_count[name]; i++) {
        const client *c = &s.clients[places[name][i].client];
        if (c->generation == places[name][i].generation &&
            !(client_is_well(c) && redis_hears(c)))
            return false;
    }
    return true;
}

static void check_order(const message *m, uint64_t number)
{
    const place *mine = place_of(m, number);
    if (is(&holds[m->name], m->client, m->generation, number))
        return; /* it only asks again */
    holds[m->name] = (place){m->client, m->generation, number, 0, 0};
    for (size_t i = 0; i < place_count[m->name]; i++) {
        const place *other = &places[m->name][i];
        if (other != mine && (!mine || other->last < mine->first) &&
            attends(other, m->name))
            violated(
                m->name,
                "%c goes to #%llu of client %d, though #%llu of client %d is before it",
                'a' + m->name, (unsigned long long)number, m->client,
                (unsigned long long)other->number, other->client);
    }
}

/* The same members in both: Redisson's clients rely on it. */
static void check_twins(int name)
{
    model *m = server_model();
    const model_key *list = model_find_text(m, server_derived(name, 1));
    size_t listed = list ? list->count : 0;
    const model_key *set = model_find_text(m, server_derived(name, 2));
    bool same = listed == (set ? set->count : 0);
    list = model_find_text(m, server_derived(name, 1)); /* the look may have moved it */
    for (size_t i = 0; same && i < listed; i++)
        same = model_item_of(set, &list->items[i].name) != NULL;
    if (!same)
        violated(name, "the line of %c, a list and a set, isn't the same in both",
                 'a' + name);
}

/* ---- whom a hand-over names ---- */

static void note_gone(const message *m)
{
    gone[gone_count++ % MAX_GONE] =
        (place){m->client, m->generation, m->number, (uint64_t)s.now, 0};
}

static void note_back(const message *m, uint64_t number)
{
    for (size_t i = 0; i < MAX_GONE && i < gone_count; i++)
        if (is(&gone[i], m->client, m->generation, number))
            gone[i].client = NOBODY;
}

/* Nobody is told of a turn that he has given up: the lock would stand idle for the time of a
 * claim. */
void lines_told(const dlk_arg *channel, const dlk_arg *text)
{
    static const char begin[] = DLK_REDIS_CLIENT_CHANNEL;
    unsigned index, generation;
    unsigned long long number;
    char copy[128] = "";
    if (channel->size < sizeof(begin) - 1 ||
        memcmp(channel->data, begin, sizeof(begin) - 1) != 0)
        return;
    memcpy(copy, text->data,
           text->size < sizeof(copy) - 1 ? text->size : sizeof(copy) - 1);
    if (sscanf(copy, "%8x-0000-4000-8000-%12x:%llu", &index, &generation, &number) != 3)
        return;
    for (size_t i = 0; i < MAX_GONE && i < gone_count; i++)
        if (is(&gone[i], (int)index, (int)generation, number) &&
            !lines_were_lost(gone[i].first))
            violated(ALL_NAMES,
                     "#%llu of client %u is told that it is its turn, and is gone",
                     number, index);
}

bool lines_were_lost(uint64_t since)
{
    for (int n = 0; n < s.config.names; n++)
        if (s.state_lost_at[n] >= (int64_t)since)
            return true;
    return false;
}

/* ---- after each request ---- */

void check_line(const message *m)
{
    bool fair = kind_is_fair();
    if (m->verb == DLK_ACQUIRE) {
        note_back(m, m->number);
        if (m->reply == DLK_HELD && !m->once)
            enter(m, m->number);
    }
    if (m->verb == DLK_ACQUIRE && m->reply == DLK_YES) {
        if (fair)
            check_order(m, m->number);
        leave(m, m->number);
    }
    if (m->verb == DLK_RELEASE && m->reply != DLK_REFUSED) {
        leave(m, m->number);
        note_gone(m);
        if (m->next)
            note_back(m, m->next);
    }
    if (fair)
        check_twins(m->name);
}

/* ---- at the end ---- */

/* Of a fair lock's line the places of those who died in it stay until somebody comes. */
static bool only_of_the_dead(const model_key *line)
{
    for (size_t i = 0; i < line->count; i++) {
        unsigned index, generation;
        if (sscanf(line->items[i].name.data, "%8x-0000-4000-8000-%12x:", &index,
                   &generation) != 2 ||
            index >= (unsigned)s.config.clients ||
            s.clients[index].generation == (int)generation)
            return false;
    }
    return true;
}

static bool only_lapsed(const model *m, const model_key *set)
{
    for (size_t i = 0; i < set->count; i++)
        if (set->items[i].score > (double)model_now_ms(m))
            return false;
    return true;
}

static bool may_stay(const model *m, const model_key *key)
{
    const char *name = key->name.data;
    if (strstr(name, "token") && key->type == MODEL_STRING)
        return true;
    /* What a client says of itself outlives its last lease, and ends. */
    if (dlk_redis_is_client_key(name))
        return key->ends_at > 0;
    /* A place that comes back with an old copy is taken by whoever looks at the line next. */
    if (kind_is_fair() && (key->type == MODEL_LIST || key->type == MODEL_ZSET))
        return lines_were_lost(1) || only_of_the_dead(key);
    if (kind_counts() && key->name.size == 1)
        return strtoll(key->items[0].name.data, NULL, 10) <= SIM_PERMITS;
    if (s.config.kind == KIND_PERMITS && key->type == MODEL_ZSET)
        return only_lapsed(m, key);
    return false;
}

/* Whatever has been asked for: when nobody wants anything any more, only counters are left. */
void server_check_rest(void)
{
    model *m = server_model();
    for (int n = 0; n < s.config.names; n++)
        if (s.now < s.orphans_until[n])
            return;
    for (size_t i = m->keys.count; i-- > 0;) {
        const model_key *key = &m->keys.list[i];
        if ((key->ends_at == 0 || key->ends_at > model_now_ms(m)) && !may_stay(m, key))
            violated(ALL_NAMES, "the key %s is left behind", key->name.data);
    }
}
