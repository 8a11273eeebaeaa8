/* Slots, and which node has which; see cluster_inner.h. The slot of a key is the CRC16 (XMODEM) of
 * its hash tag, or of all of it: the specification of Redis Cluster. */
#include "backends/redis/topology/cluster_inner.h"

#include "util/clock.h"
#include "util/error.h"

#include <string.h>

/* At most so often; and while a node of the map is away. */
#define PAUSE_NS (100 * DLK_NS_PER_MS)
#define AWAY_NS  (250 * DLK_NS_PER_MS)

/* ---- Slots ---- */

static uint16_t crc16(const char *data, size_t size)
{
    uint16_t crc = 0;
    for (size_t i = 0; i < size; i++) {
        crc ^= (uint16_t)((unsigned char)data[i] << 8);
        for (int bit = 0; bit < 8; bit++)
            crc = (uint16_t)(crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1);
    }
    return crc;
}

/* What stands between the first { and the next }; *size 0: there is no tag. */
static const char *tag_of(const char *name, size_t *size)
{
    const char *open = memchr(name, '{', *size);
    const char *end = name + *size;
    const char *close = open ? memchr(open, '}', (size_t)(end - open)) : NULL;
    *size = close ? (size_t)(close - open - 1) : 0;
    return open ? open + 1 : name;
}

uint16_t dlk_cluster_slot(const char *name, size_t size)
{
    size_t tag_size = size;
    const char *tag = tag_of(name, &tag_size);
    return (tag_size > 0 ? crc16(tag, tag_size) : crc16(name, size)) % DLK_SLOTS;
}

/* Redisson puts braces around a name without "{", and none around any other. So these have keys
 * that are apart: there it takes such a lock, and can't give it back. */
dlock_err dlk_cluster_check_name(const char *name, size_t size, dlock_error **err)
{
    size_t tag_size = size;
    bool braces = memchr(name, '{', size) || memchr(name, '}', size);
    (void)tag_of(name, &tag_size);
    if (!braces || tag_size > 0)
        return DLOCK_OK;
    return dlk_error_set(
        err, DLOCK_EINVAL,
        "redis+cluster: the name has braces that make no hash tag, so its keys "
        "would lie in different slots: leave them out, or write {tag}");
}

/* ---- A node's tag ---- */

static size_t put_tag(uint32_t tag, char to[DLK_REDIS_TAG_MAX])
{
    size_t size = (size_t)(dlk_digits_put(to, tag) - to);
    to[size] = '\0';
    return size;
}

/* Numbers reach every slot, the last one by 109757: that is tried out when the first slot isn't what it
 * was. */
bool dlk_cluster_tag(const dlk_redis *redis, char ret[DLK_REDIS_TAG_MAX])
{
    dlk_cluster_node *node = dlk_cluster_node_by(redis->base.host);
    for (uint16_t slot = 0; slot < DLK_SLOTS; slot++) {
        if (dlk_cluster_node_of(node->cluster, slot) != node)
            continue;
        if (crc16(ret, put_tag(node->tag, ret)) % DLK_SLOTS == slot)
            return true;
        node->tag = 0;
        while (crc16(ret, put_tag(node->tag, ret)) % DLK_SLOTS != slot)
            node->tag++;
        return true;
    }
    return false;
}

/* ---- The map ---- */

static uint16_t index_of(const dlk_cluster *cluster, const dlk_cluster_node *node)
{
    for (size_t i = 0; i < cluster->count; i++)
        if (cluster->nodes[i] == node)
            return (uint16_t)(i + 1);
    return 0;
}

static bool is_number(const dlk_resp *item, int64_t min, int64_t max)
{
    return item->type == DLK_RESP_INTEGER && item->integer >= min && item->integer <= max;
}

/* [first, last, [host, port, …], replicas …] */
static bool is_range(const dlk_resp *range)
{
    const dlk_resp *items = range->items;
    return range->type == DLK_RESP_ARRAY && range->count >= 3 &&
           is_number(&items[0], 0, DLK_SLOTS - 1) &&
           is_number(&items[1], items[0].integer, DLK_SLOTS - 1) &&
           items[2].type == DLK_RESP_ARRAY && items[2].count >= 2 &&
           (items[2].items[0].type != DLK_RESP_TEXT ||
            dlk_resp_plain(&items[2].items[0])) &&
           is_number(&items[2].items[1], 0, UINT16_MAX);
}

/* Each slot once at most: so a map is no more work than there are slots, however long it is. */
static bool is_map(const dlk_resp *reply)
{
    uint64_t seen[DLK_SLOTS / 64] = {0};
    if (reply->type != DLK_RESP_ARRAY)
        return false;
    for (size_t i = 0; i < reply->count; i++) {
        const dlk_resp *items = reply->items[i].items;
        if (!is_range(&reply->items[i]))
            return false;
        for (int64_t slot = items[0].integer; slot <= items[1].integer; slot++) {
            uint64_t bit = UINT64_C(1) << slot % 64;
            if (seen[slot / 64] & bit)
                return false;
            seen[slot / 64] |= bit;
        }
    }
    return true;
}

/* A host that isn't told is the one that says it. */
static dlock_error *take_range(dlk_cluster_node *from, const dlk_resp *range)
{
    dlk_cluster *cluster = from->cluster;
    const dlk_resp *items = range->items;
    const dlk_resp *host = &items[2].items[0];
    bool told =
        host->type == DLK_RESP_TEXT && host->size > 0 && strcmp(host->text, "?") != 0;
    dlock_error *error = NULL;
    dlk_cluster_node *node =
        dlk_cluster_node_at(cluster, told ? host->text : from->redis->host,
                            (uint16_t)items[2].items[1].integer, &error);
    if (!node)
        return error;
    node->in_map = true;
    uint16_t index = index_of(cluster, node);
    for (int64_t slot = items[0].integer; slot <= items[1].integer; slot++)
        cluster->map[slot] = index;
    return NULL;
}

static bool belongs(const dlk_redis *redis, const dlk_redis_key *key)
{
    const dlk_cluster_node *node = dlk_cluster_node_by(redis->base.host);
    const dlk_cluster_node *now = dlk_cluster_node_of(node->cluster, key->slot);
    return !now || now == node;
}

/* Who waits hears of a release where its key is. */
static void move_watches(dlk_cluster *cluster, int64_t now)
{
    for (size_t i = 0; i < cluster->count; i++) {
        dlk_redis *redis = cluster->nodes[i]->redis;
        dlk_redis_key *key;
        while ((key = dlk_redis_watched_astray(redis, belongs))) {
            dlk_cluster_follow(dlk_cluster_node_of(cluster, key->slot), key->key, now);
            cluster->base.host->notified(cluster->base.host, key->key);
        }
        dlk_redis_subscriber_settle(redis, now);
    }
}

dlock_error *dlk_cluster_take_map(dlk_redis *redis, const dlk_resp *reply)
{
    dlk_cluster_node *from = dlk_cluster_node_by(redis->base.host);
    dlk_cluster *cluster = from->cluster;
    int64_t now = dlk_clock_now();
    if (!is_map(reply)) /* what was known stays so */
        return dlk_error_make(DLOCK_EPROTO,
                              "redis: %s answers CLUSTER SLOTS with nonsense",
                              from->redis->peer);
    if (reply->count == 0)
        return dlk_error_make(DLOCK_EUNAVAIL,
                              "redis+cluster: %s knows nobody who has slots",
                              from->redis->peer);
    for (size_t i = 0; i < cluster->count; i++)
        cluster->nodes[i]->in_map = false;
    memset(cluster->map, 0, sizeof(cluster->map));
    dlock_error *error = NULL;
    for (size_t i = 0; !error && i < reply->count; i++)
        error = take_range(from, &reply->items[i]);
    cluster->has_map = !error;
    cluster->refreshed_at = now;
    cluster->refresh_at = DLK_NEVER;
    for (size_t i = 0; i < cluster->count; i++)
        if (cluster->nodes[i]->in_map)
            dlk_cluster_begin(cluster->nodes[i], now);
    move_watches(cluster, now);
    return error;
}

/* ---- Asking for it ---- */

void dlk_cluster_moved(dlk_cluster_node *node)
{
    dlk_cluster *cluster = node->cluster;
    int64_t soon = cluster->refreshed_at + PAUSE_NS;
    if (cluster->refresh_at > soon)
        cluster->refresh_at = soon;
    dlk_redis_wake(node->redis); /* the driver is to look when that is */
}

void dlk_cluster_mapped(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply)
{
    dlk_host *host = dlk_cluster_node_by(redis->base.host)->cluster->base.host;
    dlock_error *error = dlk_cluster_take_map(redis, reply);
    if (error)
        host->log(host, DLOCK_LOG_WARN, "%s", error->text);
    dlk_error_clear(&error);
    dlk_redis_ask_answer(redis, ask, DLK_YES);
}

static bool ask_for_it(dlk_cluster_node *node, int64_t now)
{
    dlk_cluster *cluster = node->cluster;
    dlk_redis *redis = node->redis;
    const dlk_arg args[] = {dlk_arg_text("CLUSTER"), dlk_arg_text("SLOTS")};
    if (!dlk_resp_command(&redis->commands.link.stream.out, args, 2))
        return false;
    cluster->refresh =
        (dlk_ask){.verb = DLK_REDIS_MAP, .deadline = now + cluster->timeout_ns};
    dlk_list_init(&cluster->refresh.link);
    cluster->refreshing = true;
    cluster->refresh_at = DLK_NEVER;
    cluster->refreshed_at = now;
    dlk_redis_ask_sent(redis, &cluster->refresh);
    dlk_redis_wake(redis);
    return true;
}

/* Somebody of the map is away: another one may have been given its slots. */
static bool is_away(const dlk_cluster *cluster)
{
    for (size_t i = 0; i < cluster->count; i++)
        if (cluster->nodes[i]->in_map &&
            cluster->nodes[i]->redis->commands.link.phase != DLK_LINK_READY)
            return true;
    return false;
}

int64_t dlk_cluster_refresh(dlk_cluster *cluster, int64_t now)
{
    if (cluster->refreshing || cluster->stopped || !cluster->has_map)
        return DLK_NEVER;
    if (cluster->refresh_at > cluster->refreshed_at + AWAY_NS && is_away(cluster))
        cluster->refresh_at = cluster->refreshed_at + AWAY_NS;
    if (now < cluster->refresh_at)
        return cluster->refresh_at;
    cluster->refresh_at = cluster->refreshed_at = now;
    for (size_t i = 0; i < cluster->count; i++) {
        cluster->last_asked = (cluster->last_asked + 1) % cluster->count;
        dlk_cluster_node *node = cluster->nodes[cluster->last_asked];
        if (node->redis->commands.link.phase == DLK_LINK_READY && ask_for_it(node, now))
            return DLK_NEVER;
    }
    cluster->refresh_at = now + AWAY_NS;
    return cluster->refresh_at;
}
