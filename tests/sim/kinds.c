/* The kinds of locks, and who holds them on Redis: what its keys say, read by the layouts' rules
 * and not by the library's scripts. (On others: their folders' rules.c.) */
#include "sim.h"

#include "backends/redis/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYOUT "redis.layout"
#define ZK     "zookeeper.layout"
#define NODE   "zookeeper.node"
#define MC     "memcached.protocol"

const kind_info kinds[KIND_COUNT] = {
    [KIND_HANDOVER] = {"handover", DLOCK_MUTEX, {NULL}, 0},
    [KIND_MUTEX] = {"mutex", DLOCK_MUTEX, {"redis.handover", "false"}, 0},
    [KIND_STRING] = {"string",
                     DLOCK_MUTEX,
                     {LAYOUT, "string", "redis.notify", "true"},
                     0},
    [KIND_RW] = {"rw", DLOCK_WRITE, {NULL}, 0},
    [KIND_PERMITS] = {"permits", DLOCK_SEMAPHORE, {NULL}, 0},
    [KIND_SEMAPHORE] = {"semaphore", DLOCK_SEMAPHORE, {"redis.semaphore", "plain"}, 0},
    [KIND_FAIR] = {"fair",
                   DLOCK_MUTEX,
                   {"lock.fair", "true", "redis.fair_wait_ms", "20000"},
                   0},
    [KIND_ELECTION] = {"election", DLOCK_ELECTION, {NULL}, 0},
    [KIND_TIMESTAMP] = {"timestamp",
                        DLOCK_MUTEX,
                        {LAYOUT, "timestamp", "redis.notify", "true"},
                        0},
    [KIND_RUEIDIS] = {"rueidis", DLOCK_MUTEX, {LAYOUT, "rueidis"}, 0},
    [KIND_REPLICATED] = {"replicated", DLOCK_MUTEX, {"redis.wait_replicas", "1"}, 0},
    [KIND_MOVED] = {"moved", DLOCK_MUTEX, {NULL}, 0},
    [KIND_MOVED_FAIR] = {"moved-fair",
                         DLOCK_MUTEX,
                         {"lock.fair", "true", "redis.fair_wait_ms", "20000"},
                         0},
    [KIND_MOVED_RW] = {"moved-rw", DLOCK_WRITE, {NULL}, 0},
    [KIND_MOVED_CONDITION] = {"moved-condition", DLK_KIND_CONDITION, {NULL}, 0},
    [KIND_CONDITION] = {"condition", DLK_KIND_CONDITION, {NULL}, 0},
    [KIND_KEPT] = {"kept", DLOCK_MUTEX, {NULL}, 0},
    [KIND_CURATOR] = {"curator", DLOCK_MUTEX, {NULL}, 0},
    [KIND_CURATOR_RW] = {"curator-rw", DLOCK_WRITE, {NULL}, 0},
    [KIND_CURATOR_PERMITS] = {"curator-permits", DLOCK_SEMAPHORE, {NULL}, 0},
    [KIND_CURATOR_SINGLE] = {"curator-single", DLOCK_SEMAPHORE, {NULL}, 1},
    [KIND_LATCH] = {"latch", DLOCK_ELECTION, {"zookeeper.election", "latch"}, 0},
    [KIND_SELECTOR] = {"selector", DLOCK_ELECTION, {"zookeeper.election", "selector"}, 0},
    [KIND_KAZOO] = {"kazoo", DLOCK_MUTEX, {ZK, "kazoo"}, 0},
    [KIND_KAZOO_RW] = {"kazoo-rw", DLOCK_WRITE, {ZK, "kazoo"}, 0},
    [KIND_KAZOO_ELECTION] = {"kazoo-election", DLOCK_ELECTION, {ZK, "kazoo"}, 0},
    [KIND_BRIDGE] = {"bridge", DLOCK_MUTEX, {ZK, "bridge"}, 0},
    [KIND_BRIDGE_ELECTION] = {"bridge-election", DLOCK_ELECTION, {ZK, "bridge"}, 0},
    [KIND_EXCLUSIVE] = {"exclusive", DLOCK_MUTEX, {ZK, "exclusive"}, 0},
    [KIND_EXCLUSIVE_ELECTION] = {"exclusive-election",
                                 DLOCK_ELECTION,
                                 {ZK, "exclusive"},
                                 0},
    [KIND_PATTERN] = {"pattern",
                      DLOCK_MUTEX,
                      {ZK, "pattern", NODE, "line/{name}-{seq}"},
                      0},
    [KIND_PATTERN_RW] = {"pattern-rw",
                         DLOCK_WRITE,
                         {ZK, "pattern", NODE, "{name}/{side}-{session}-{seq}"},
                         0},
    [KIND_PATTERN_ELECTION] = {"pattern-election",
                               DLOCK_ELECTION,
                               {ZK, "pattern", NODE, "{name}/n-{uuid}-{seq}"},
                               0},
    [KIND_ZK_CONDITION] = {"zk-condition", DLK_KIND_CONDITION, {NULL}, 0},
    [KIND_ZK_KEPT] = {"zk-kept", DLOCK_MUTEX, {NULL}, 0},
    [KIND_ZK_KEPT_BRIDGE] = {"zk-kept-bridge", DLOCK_MUTEX, {ZK, "bridge"}, 0},
    [KIND_MC_MUTEX] = {"mc-mutex", DLOCK_MUTEX, {NULL}, 0},
    [KIND_MC_RW] = {"mc-rw", DLOCK_WRITE, {NULL}, 0},
    [KIND_MC_PERMITS] = {"mc-permits", DLOCK_SEMAPHORE, {NULL}, 0},
    [KIND_MC_ELECTION] = {"mc-election", DLOCK_ELECTION, {NULL}, 0},
    [KIND_MC_CLASSIC] = {"mc-classic", DLOCK_MUTEX, {MC, "classic"}, 0},
    [KIND_MC_CLASSIC_RW] = {"mc-classic-rw", DLOCK_WRITE, {MC, "classic"}, 0},
    [KIND_MC_CLASSIC_PERMITS] = {"mc-classic-permits",
                                 DLOCK_SEMAPHORE,
                                 {MC, "classic"},
                                 0},
    [KIND_ETCD_MUTEX] = {"etcd-mutex", DLOCK_MUTEX, {NULL}, 0},
    [KIND_ETCD_ELECTION] = {"etcd-election", DLOCK_ELECTION, {NULL}, 0},
    [KIND_ETCD_RW] = {"etcd-rw", DLOCK_WRITE, {NULL}, 0},
    [KIND_ETCD_PERMITS] = {"etcd-permits", DLOCK_SEMAPHORE, {NULL}, 0},
    [KIND_ETCD_CONDITION] = {"etcd-condition", DLK_KIND_CONDITION, {NULL}, 0},
    [KIND_ETCD_KEPT] = {"etcd-kept", DLOCK_MUTEX, {NULL}, 0},
    [KIND_REDLOCK] = {"redlock-plain", DLOCK_MUTEX, {NULL}, 0},
    [KIND_REDLOCK_FENCING] = {"redlock-fencing",
                              DLOCK_MUTEX,
                              {"redlock.fencing", "on"},
                              0},
    [KIND_TABLE_RW] = {"table-rw", DLOCK_WRITE, {NULL}, 0},
    [KIND_TABLE_PERMITS] = {"table-permits", DLOCK_SEMAPHORE, {NULL}, 0},
};

mode kind_mode(kind which)
{
    if (which < KIND_REDIS_COUNT)
        return MODE_REDIS;
    if (which < KIND_MC_MUTEX)
        return MODE_ZOOKEEPER;
    if (which < KIND_ETCD_MUTEX)
        return MODE_MEMCACHED;
    if (which < KIND_REDLOCK)
        return MODE_ETCD;
    return which < KIND_TABLE_RW ? MODE_REDLOCK : MODE_FILE;
}

bool kind_is_there(kind which)
{
    static signed char known[KIND_COUNT]; /* 1 yes, -1 no */
    if (which >= KIND_REDIS_COUNT)
        return true;
    if (!known[which]) {
        dlk_settings *settings = settings_of(which);
        const dlk_redis_layout *layout = dlk_redis_layout_of(settings);
        bool there =
            layout && dlk_redis_form_of(layout, settings, kinds[which].kind, false, NULL);
        known[which] = there ? 1 : -1;
        dlk_settings_free(settings);
    }
    return known[which] > 0;
}

bool kind_counts(void)
{
    return kinds[s.config.kind].kind == DLOCK_SEMAPHORE;
}

int kind_permits(void)
{
    int permits = kinds[s.config.kind].permits;
    return permits ? permits : SIM_PERMITS;
}

/* In some runs on a table the clients don't agree on what a name is: who asks for another kind than
 * it is held as is refused, and nothing of it stays. */
static bool kinds_are_mixed(void)
{
    return is_local() && s.config.seed % 4 == 2;
}

dlock_kind kind_of_client(const client *c)
{
    return kinds_are_mixed() && c->index % 2 == 1 ? DLOCK_ELECTION
                                                  : kinds[s.config.kind].kind;
}

bool kind_is_refused(const dlock_error *error)
{
    return kinds_are_mixed() && dlock_error_code(error) == DLOCK_ECONFLICT;
}

bool kind_signals(void)
{
    return kinds[s.config.kind].kind == DLK_KIND_CONDITION;
}

bool kind_keeps(void)
{
    return s.config.kind == KIND_KEPT || s.config.kind == KIND_ZK_KEPT ||
           s.config.kind == KIND_ZK_KEPT_BRIDGE || s.config.kind == KIND_ETCD_KEPT;
}

bool kind_has_sides(void)
{
    return kinds[s.config.kind].kind == DLOCK_WRITE;
}

bool kind_is_fair(void)
{
    return s.config.kind == KIND_FAIR || s.config.kind == KIND_MOVED_FAIR;
}

bool kind_moves(void)
{
    return s.config.kind >= KIND_MOVED && s.config.kind <= KIND_MOVED_CONDITION;
}

bool kind_forgets(void)
{
    return s.config.kind != KIND_SEMAPHORE;
}

/* ---- holders ---- */

/* "<uuid>:<number>" and, of a writer, ":write". */
bool owner_named(const dlk_arg *text, holder *ret)
{
    char copy[DLK_UUID_SIZE + 40];
    unsigned index, generation;
    unsigned long long number;
    if (text->size >= sizeof(copy))
        return false;
    memcpy(copy, text->data, text->size);
    copy[text->size] = '\0';
    if (sscanf(copy, "%8x-0000-4000-8000-%12x:%llu", &index, &generation, &number) != 3 ||
        index >= (unsigned)s.config.clients)
        return false;
    const client *c = &s.clients[index];
    bool lives = c->generation == (int)generation && !c->dead;
    *ret = (holder){lives ? (int)index : NOBODY, number, 0};
    return true;
}

static bool add(const dlk_arg *owner, holder *ret, int *count)
{
    if (*count < MAX_HELD && owner_named(owner, &ret[*count])) {
        ++*count;
        return true;
    }
    return false;
}

/* A reader's own key says whether it still is one: its field stays while others read. */
static bool reads_no_more(model *m, const model_key *lock, const dlk_arg *owner)
{
    char key[128];
    if (owner->size > 6 && memcmp(owner->data + owner->size - 6, ":write", 6) == 0)
        return false;
    (void)snprintf(key, sizeof(key), "{%s}:%s:rwlock_timeout:1", lock->name.data,
                   owner->data); /* fits */
    return !model_find_text(m, key);
}

static int hash_holders(model *m, const dlk_arg *name, holder *ret)
{
    int count = 0;
    const model_key *lock = model_find(m, name);
    for (size_t i = 0; lock && lock->type == MODEL_HASH && i < lock->count; i++) {
        const dlk_arg *field = &lock->items[i].name;
        if (kind_has_sides() &&
            (model_is(field, "mode") || reads_no_more(m, lock, field)))
            continue;
        (void)add(field, ret, &count);
        lock = model_find(m, name); /* what was looked for may have moved it */
    }
    return count;
}

/* Who is signalled. */
static int signalled_holders(model *m, const dlk_arg *name, holder *ret)
{
    int count = 0;
    const model_key *line = model_find(m, name);
    for (size_t i = 0; line && line->type == MODEL_HASH && i < line->count; i++)
        if (strncmp(line->items[i].value.data, "signal ", 7) == 0)
            (void)add(&line->items[i].name, ret, &count);
    return count;
}

static int string_holder(model *m, const dlk_arg *name, holder *ret)
{
    int count = 0;
    const model_key *lock = model_find(m, name);
    if (lock && lock->type == MODEL_STRING)
        (void)add(&lock->items[0].name, ret, &count);
    return count;
}

/* Whose the permits are their ids don't say. */
static int permit_holders(model *m, const char *taken, holder *ret)
{
    int count = 0;
    const model_key *set = model_find_text(m, taken);
    for (size_t i = 0; set && i < set->count && count < MAX_HELD; i++)
        if (set->items[i].score > (double)model_now_ms(m))
            ret[count++] = (holder){UNNAMED, 0, 0};
    return count;
}

static int taken_permits(model *m, const dlk_arg *name, holder *ret)
{
    int count = 0;
    const model_key *free = model_find(m, name);
    int64_t left = free ? strtoll(free->items[0].name.data, NULL, 10) : SIM_PERMITS;
    for (; left < SIM_PERMITS && count < MAX_HELD; left++)
        ret[count++] = (holder){UNNAMED, 0, 0};
    return count;
}

/* The value says when it ends, in ms of the epoch. */
static int stamp_holder(model *m, const dlk_arg *name, holder *ret)
{
    const model_key *lock = model_find(m, name);
    if (!lock || strtoll(lock->items[0].name.data, NULL, 10) < model_now_ms(m))
        return 0;
    ret[0] = (holder){UNNAMED, 0, 0};
    return 1;
}

/* Whoever has two of the three keys. */
static int majority_holder(model *m, const char *name, holder *ret)
{
    holder of[3];
    int count = 0;
    for (int i = 0; i < 3; i++) {
        char key[32];
        (void)snprintf(key, sizeof(key), "rueidislock:%d:%s", i, name); /* fits */
        const dlk_arg text = dlk_arg_text(key);
        count += string_holder(m, &text, &of[count]);
        for (int k = 0; k + 1 < count; k++)
            if (of[k].client == of[count - 1].client &&
                of[k].number == of[count - 1].number) {
                ret[0] = of[k];
                return 1;
            }
    }
    return 0;
}

static int holders_in(model *m, int name, holder ret[MAX_HELD])
{
    const dlk_key *key = server_key(name);
    const dlk_arg lock = {key->name, key->size};
    switch (s.config.kind) {
    case KIND_PERMITS:
        return permit_holders(m, server_derived(name, 0), ret);
    case KIND_SEMAPHORE:
        return taken_permits(m, &lock, ret);
    case KIND_STRING:
        return string_holder(m, &lock, ret);
    case KIND_HANDOVER:
    case KIND_MUTEX:
    case KIND_REPLICATED:
    case KIND_KEPT:
    case KIND_MOVED:
    case KIND_MOVED_FAIR:
    case KIND_MOVED_RW:
    case KIND_RW:
    case KIND_FAIR:
    case KIND_ELECTION:
        return hash_holders(m, &lock, ret);
    case KIND_MOVED_CONDITION:
    case KIND_CONDITION:
        return signalled_holders(m, &lock, ret);
    case KIND_TIMESTAMP:
        return stamp_holder(m, &lock, ret);
    case KIND_RUEIDIS:
        return majority_holder(m, key->name, ret);
    case KIND_CURATOR:
    case KIND_CURATOR_RW:
    case KIND_CURATOR_PERMITS:
    case KIND_CURATOR_SINGLE:
    case KIND_LATCH:
    case KIND_SELECTOR:
    case KIND_KAZOO:
    case KIND_KAZOO_RW:
    case KIND_KAZOO_ELECTION:
    case KIND_BRIDGE:
    case KIND_BRIDGE_ELECTION:
    case KIND_EXCLUSIVE:
    case KIND_EXCLUSIVE_ELECTION:
    case KIND_PATTERN:
    case KIND_PATTERN_RW:
    case KIND_PATTERN_ELECTION:
    case KIND_ZK_CONDITION:
    case KIND_ZK_KEPT:
    case KIND_ZK_KEPT_BRIDGE:
    case KIND_MC_MUTEX:
    case KIND_MC_RW:
    case KIND_MC_PERMITS:
    case KIND_MC_ELECTION:
    case KIND_MC_CLASSIC:
    case KIND_MC_CLASSIC_RW:
    case KIND_MC_CLASSIC_PERMITS:
    case KIND_ETCD_MUTEX:
    case KIND_ETCD_ELECTION:
    case KIND_ETCD_RW:
    case KIND_ETCD_PERMITS:
    case KIND_ETCD_CONDITION:
    case KIND_ETCD_KEPT:
    case KIND_REDLOCK:
    case KIND_REDLOCK_FENCING:
    case KIND_TABLE_RW:
    case KIND_TABLE_PERMITS:
    case KIND_COUNT:
        break;
    }
    return 0;
}

/* That a story is told changes nothing in it. */
int server_holders(int name, holder ret[MAX_HELD])
{
    model *m = server_model();
    m->looked_at = true;
    int count = holders_in(m, name, ret);
    m->looked_at = false;
    return count;
}
