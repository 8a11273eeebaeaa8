/*
 * Who holds what, read from the keys by the rules of package concurrency (the oldest key
 * below the name has it) and of our own layout (readers and writers in the order of
 * their keys; permits as far as those before leave some) and not by the library's code;
 * and promises about these keys: none that nobody knows of, and whoever comes first is
 * told; and about leases: nobody counts on one for longer than it lasts.
 */
#include "etcd/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keys that are gone, the last ones. */
#define MAX_GRAVES 128
typedef struct grave {
    uint64_t key;
    int64_t made,
        at; /* its revision, which others of its batch have, too; true time of its end */
} grave;

static grave graves[MAX_GRAVES];
static size_t grave_count;

/* Whose a mutex was, from which revision to before which; the last ones of each name. */
#define MAX_TURNS 16
typedef struct turn {
    int sender;
    uint64_t number;
    int64_t from, until; /* until 0: it is yet */
} turn;

static turn turns[MAX_NAMES][MAX_TURNS];
static size_t turn_count[MAX_NAMES];
static struct {
    int64_t made;
    uint64_t number;         /* a key may go to another one */
} last[MAX_NAMES][MAX_HELD]; /* of those who held it at the last look */
static int last_count[MAX_NAMES];

void etcd_rules_begin(void)
{
    memset(last_count, 0, sizeof(last_count));
    memset(graves, 0, sizeof(graves));
    grave_count = 0;
    memset(turns, 0, sizeof(turns));
    memset(turn_count, 0, sizeof(turn_count));
    tallies_begin();
}

/* ---- names ---- */

/* A key from its lock's name on: those of conditions lie apart. */
static dlk_etcd_bytes named(dlk_etcd_bytes key)
{
    static const char before[] = "dlock-conditions/";
    size_t size = kind_signals() ? sizeof(before) - 1 : 0;
    if (key.len < size || (size > 0 && memcmp(key.data, before, size) != 0))
        return (dlk_etcd_bytes){0};
    return (dlk_etcd_bytes){key.len - size, key.data + size};
}

static bool goes_on(dlk_etcd_bytes key, const char *mark, size_t size)
{
    dlk_etcd_bytes from = named(key);
    return from.len >= 1 + size && memcmp(from.data + 1, mark, size) == 0;
}

/* Whether it is a lock's key, of this kind. */
static bool is_place(dlk_etcd_bytes key)
{
    static const char sides[] = "\0rw/", permits[] = "\0sem/3/", waits[] = "\0w/";
    if (kind_has_sides())
        return goes_on(key, sides, sizeof(sides) - 1);
    if (kind_counts())
        return goes_on(key, permits, sizeof(permits) - 1);
    if (kind_signals())
        return goes_on(key, waits, sizeof(waits) - 1);
    return goes_on(key, "/", 1);
}

bool etcd_rules_is_tally(dlk_etcd_bytes key)
{
    static const char tally[] = "\0signals";
    return kind_signals() && goes_on(key, tally, sizeof(tally) - 1);
}

int etcd_rules_name_of(dlk_etcd_bytes key)
{
    dlk_etcd_bytes from = named(key);
    int name = from.len > 0 ? from.data[0] - 'a' : -1;
    return name >= 0 && name < s.config.names ? name : ALL_NAMES;
}

/* store.c's copies end with a '\0'. */
static const char *text_of(const etcd_key *key)
{
    return (const char *)key->value.data;
}

static uint64_t owner_in(const char *text)
{
    unsigned index, generation;
    unsigned long long number = 0;
    return sscanf(text, "%8x-0000-4000-8000-%12x:%llu", &index, &generation, &number) == 3
               ? number
               : 0;
}

/* Against late joins; it stands for nothing. */
static bool is_fence(dlk_etcd_bytes key)
{
    return goes_on(key, "\0late/", 6);
}

void etcd_rules_put(etcd_key *key)
{
    bool beside = is_fence(key->key) || etcd_rules_is_tally(key->key);
    key->name = is_place(key->key) && !beside ? etcd_rules_name_of(key->key) : ALL_NAMES;
    if (key->lease == 0) {
        violated(ALL_NAMES, "a key is made which goes with no lease");
        key->name = ALL_NAMES;
        return;
    }
    if (beside)
        return;
    if (key->name == ALL_NAMES) {
        violated(ALL_NAMES, "a key is made which is no lock's");
        return;
    }
    const char *text = text_of(key), *line = strchr(text, '\n');
    key->weight = kind_counts() ? (int32_t)strtol(text, NULL, 10) : 1;
    key->reads = kind_has_sides() && text[0] == 'R';
    bool more = kind_has_sides() || kind_counts();
    key->number = more ? line ? owner_in(line + 1) : 0 : owner_in(text);
}

/* ---- who has it ---- */

static int line_of(int name, const etcd_key *ret[MAX_HELD])
{
    int count = 0;
    DLK_LIST_FOR (it, etcd_store_keys()) {
        const etcd_key *key = DLK_LIST_ITEM(it, etcd_key, link);
        if (key->name == name && count < MAX_HELD)
            ret[count++] = key;
    }
    return count;
}

static int standers_of(const etcd_key *const *line, int count, stander ret[MAX_HELD])
{
    for (int i = 0; i < count; i++) {
        const etcd_lease *lease = etcd_lease_find(line[i]->lease);
        ret[i] =
            (stander){line[i]->made, lease->client, lease->generation, line[i]->number};
    }
    return count;
}

/* The signals of a condition, as text; until the next call. */
static const char *tally_of(int name)
{
    static char text[1024];
    text[0] = '\0';
    DLK_LIST_FOR (it, etcd_store_keys()) {
        const etcd_key *key = DLK_LIST_ITEM(it, etcd_key, link);
        if (!etcd_rules_is_tally(key->key) || etcd_rules_name_of(key->key) != name)
            continue;
        (void)snprintf(text, sizeof(text), "%s", text_of(key)); /* fits */
    }
    return text;
}

/* So many at the head of the line. */
static int count_holders(int name, const etcd_key *const *line, int count)
{
    int holders = 0;
    int64_t taken = 0;
    stander who[MAX_HELD];
    if (kind_signals())
        return tally_signalled(tally_of(name), who, standers_of(line, count, who));
    if (!kind_counts() && (count == 0 || !line[0]->reads))
        return count > 0;
    for (; holders < count; holders++) {
        taken += line[holders]->weight;
        if (kind_counts() ? taken > kind_permits() : !line[holders]->reads)
            break;
    }
    return holders;
}

int etcd_rules_client(int64_t lease)
{
    for (int i = 0; i < s.config.clients; i++) {
        const client *c = &s.clients[i];
        if (etcd_of(c) && !c->dead && etcd_of(c)->lease == lease && lease)
            return i;
    }
    return NOBODY;
}

static holder holder_of(const etcd_key *key)
{
    return (holder){etcd_rules_client(key->lease), key->number, key->made};
}

int etcd_holders(int name, holder ret[MAX_HELD])
{
    const etcd_key *line[MAX_HELD];
    int count = count_holders(name, line, line_of(name, line));
    for (int i = 0; i < count; i++)
        ret[i] = holder_of(line[i]);
    return count;
}

/* ---- what changes ---- */

static bool held_before(int name, const etcd_key *key)
{
    for (int i = 0; i < last_count[name]; i++)
        if (last[name][i].made == key->made && last[name][i].number == key->number)
            return true;
    return false;
}

static bool is_mutex(void)
{
    return s.config.kind == KIND_ETCD_MUTEX || s.config.kind == KIND_ETCD_KEPT;
}

static int sender_of(int index, int generation)
{
    return index * 1000 + generation;
}

/* A mutex' token is of its holder's turn, when it has heard of that; the others' are their keys'. */
static int64_t begin_turn(int name, const wish *it)
{
    int64_t from = etcd_store_revision();
    size_t count = turn_count[name]++;
    if (count > 0)
        turns[name][(count - 1) % MAX_TURNS].until = from;
    turns[name][count % MAX_TURNS] = (turn){it->sender, it->number, from, 0};
    return from;
}

static void tell_given(int name, const etcd_key *to)
{
    holder h = holder_of(to);
    const etcd_lease *lease = etcd_lease_find(to->lease);
    const wish it = {.client = h.client,
                     .sender = sender_of(lease->client, lease->generation),
                     .number = h.number,
                     .shared = to->reads,
                     .take = to->weight};
    tell(SERVER, name, "%c goes to #%llu of client %d%s", 'a' + name,
         (unsigned long long)h.number, lease->client,
         h.client == NOBODY ? ", of a lease that it has given up" : "");
    check_given(name, &it,
                kind_counts() ? 0
                : is_mutex()  ? begin_turn(name, &it)
                              : h.token);
}

static void look_at(int name)
{
    const etcd_key *line[MAX_HELD];
    int count = count_holders(name, line, line_of(name, line));
    for (int i = 0; i < count; i++)
        if (!held_before(name, line[i]))
            tell_given(name, line[i]);
    last_count[name] = count;
    for (int i = 0; i < count; i++)
        last[name][i].made = line[i]->made, last[name][i].number = line[i]->number;
}

static void look_at_signals(int name, int by)
{
    const etcd_key *line[MAX_HELD];
    stander who[MAX_HELD];
    int count = standers_of(line, line_of(name, line), who);
    tally_seen(name, by, who, count, tally_of(name));
}

void etcd_rules_look(int by)
{
    for (int n = 0; n < s.config.names; n++) {
        if (kind_signals())
            look_at_signals(n, by);
        look_at(n);
    }
}

/* Whoever waits keeps his place. */
void etcd_rules_deleted(const etcd_key *key, int by)
{
    graves[grave_count++ % MAX_GRAVES] =
        (grave){etcd_hash_of(key->key), key->made, s.now};
    if (by == NOBODY || key->name == ALL_NAMES || etcd_rules_client(key->lease) != by ||
        !key->number)
        return;
    const client *c = &s.clients[by];
    const dlk_grant *trying = c->names[key->name] ? c->names[key->name]->trying : NULL;
    if (trying && trying->number == key->number)
        violated(key->name, "client %d waits for %c, and deletes its own key", by,
                 'a' + key->name);
}

/* ---- what is told ---- */

/* The key that it is told of; NULL: it has lost that already. */
static const dlk_etcd_place *place_of(const actor *me)
{
    const dlk_grant *grant = me->hold->grant;
    const dlk_place *place =
        dlk_place_find(dlk_line_of(&grant->name->key), grant->number);
    const dlk_etcd_place *ret = (const dlk_etcd_place *)(const void *)place;
    return ret && ret->key.data ? ret : NULL;
}

/* A number has another turn when somebody has deleted its key. */
static void check_turn(const actor *me)
{
    const dlk_grant *grant = me->hold->grant;
    const turn *wrong = NULL;
    int sender = sender_of(me->client->index, me->client->generation);
    for (size_t i = 0; i < MAX_TURNS; i++) {
        const turn *t = &turns[me->name][i];
        if (t->sender != sender || t->number != grant->number)
            continue;
        if (grant->token >= t->from && (!t->until || grant->token < t->until))
            return;
        wrong = t;
    }
    if (wrong)
        violated(
            me->name,
            "client %d has the token %lld of %c, which was its from revision %lld to "
            "%lld",
            me->client->index, (long long)grant->token, 'a' + me->name,
            (long long)wrong->from, (long long)wrong->until);
}

/* It is let in by a look at the line; by then its own key was there. */
void etcd_told(const actor *me)
{
    const dlk_etcd_place *place = place_of(me);
    if (is_mutex() && me->hold->token > 0) /* a kept one has none */
        check_turn(me);
    for (size_t i = 0; place && i < MAX_GRAVES; i++)
        if (graves[i].made && graves[i].made == place->rev &&
            graves[i].key == etcd_hash_of(place->key) &&
            graves[i].at < etcd_looked(me->client, place->key))
            violated(me->name,
                     "client %d is told that it holds %c, and when it looked its own key "
                     "was gone",
                     me->client->index, 'a' + me->name);
}

/* ---- what must be so after a while ---- */

static void check_orphans(int name)
{
    const etcd_key *line[MAX_HELD], *orphan = NULL;
    int count = line_of(name, line);
    for (int i = 0; i < count; i++) {
        const holder h = holder_of(line[i]);
        if (h.client != NOBODY && client_has_no_excuse(&s.clients[h.client], name) &&
            !client_knows(&s.clients[h.client], name, &h))
            orphan = line[i];
    }
    if (!orphan)
        s.orphan_since[name] = 0;
    else if (!s.orphan_since[name])
        s.orphan_since[name] = s.now;
    else if (s.now - s.orphan_since[name] > 4 * SEC)
        violated(name,
                 "the key of revision %lld of client %d stands for nothing that it knows "
                 "of",
                 (long long)orphan->made, etcd_rules_client(orphan->lease));
}

bool etcd_attends(int name)
{
    const etcd_key *line[MAX_HELD];
    int count = line_of(name, line);
    for (int i = 0; i < count; i++) {
        int index = etcd_rules_client(line[i]->lease);
        if (index == NOBODY || !client_has_no_excuse(&s.clients[index], name))
            return false;
    }
    return true;
}

/* Whatever a client has been told of its lease, the cluster keeps it as long. */
static void check_leases(int name)
{
    for (int i = 0; i < s.config.clients; i++) {
        const client *c = &s.clients[i];
        const etcd_lease *lease = etcd_of(c) ? etcd_lease_find(etcd_of(c)->lease) : NULL;
        if (!lease || lease->revoked || c->dead)
            continue;
        int64_t lasts = (int64_t)((double)lease->ends_at / s.server.rate) + MS;
        DLK_CHAIN_FOR (it, &c->names[name]->grants) {
            const dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, link);
            if (!dlk_grant_lives(grant) ||
                true_time(c, dlk_lease_end(&grant->lease)) <= lasts)
                continue;
            violated(name,
                     "client %d counts on its lease until %.0f, and the cluster lets it "
                     "end at %.0f",
                     i, (double)true_time(c, dlk_lease_end(&grant->lease)) / (double)MS,
                     (double)lasts / (double)MS);
        }
    }
}

void etcd_watchdog(int name)
{
    check_leases(name);
    check_orphans(name);
    check_place_heard(name);
}

void etcd_check_rest(void)
{
    DLK_LIST_FOR (it, etcd_store_keys()) {
        const etcd_key *key = DLK_LIST_ITEM(it, etcd_key, link);
        bool waits = key->name != ALL_NAMES && s.now < s.orphans_until[key->name];
        /* These go with their leases, as a ticket's does. */
        if (!is_fence(key->key) && !etcd_rules_is_tally(key->key) && !waits)
            violated(ALL_NAMES, "the key of revision %lld is left behind",
                     (long long)key->made);
    }
}
