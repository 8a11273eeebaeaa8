/* Looking for circles of waits; see the header.
 *
 * A look is a list of ours (list.c) of no locks but those of circles. Who waits in one finds it by itself, and all find
 * the same, so nobody has to be asked: each logs what it is part of, and the one that began to wait last ends
 * that wait. What is told may be old, hence the second look: a wait that is over was told to be by then. */
#include "backends/redis/circles.h"

#include "backends/redis/asks.h"
#include "backends/redis/reports.h"
#include "backends/redis/told_list.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/info.h"
#include "util/number.h"

#include <stdio.h>
#include <string.h>

#define TEXT_MAX 500
/* A look takes the server some 2.5 us for each client that tells something, and each of them may look: all together
 * take a twentieth of the server's time at most. */
#define REST_NS (2500 * 20)

void dlk_redis_circles_begin(dlk_redis *redis, const dlk_settings *settings)
{
    int64_t mode = dlk_settings_int(settings, DLK_KEY_CLIENT_DEADLOCK);
    int64_t ms = dlk_settings_int(settings, DLK_KEY_CLIENT_DEADLOCK_MS);
    redis->circles.waits_since = DLK_NEVER;
    redis->tell_after = DLK_NS_PER_SEC;
    if (mode == DLK_CLIENT_DEADLOCK_OFF || !redis->tells)
        return;
    redis->circles.span = ms * DLK_NS_PER_MS;
    redis->circles.breaks = mode == DLK_CLIENT_DEADLOCK_BREAK_YOUNGEST;
    if (redis->circles.span / 4 < redis->tell_after)
        redis->tell_after = redis->circles.span / 4;
}

void dlk_redis_circles_note(dlk_redis *redis, const dlk_told *lines, size_t count)
{
    dlk_redis_circles *all = &redis->circles;
    all->waits_since = DLK_NEVER;
    for (size_t i = 0; all->span > 0 && i < count; i++)
        if (lines[i].waits && lines[i].thread != 0 && lines[i].since < all->waits_since)
            all->waits_since = lines[i].since;
    if (all->waits_since == DLK_NEVER)
        memset(all->seen, 0, sizeof(all->seen));
}

int64_t dlk_redis_circles_look(dlk_redis *redis, int64_t now)
{
    dlk_redis_circles *all = &redis->circles;
    all->looked_at = now;
    all->ask = (dlk_ask){.verb = DLK_LIST, .deadline = DLK_NEVER, .since = now};
    dlk_list_init(&all->ask.link);
    if (!dlk_redis_list_begin(redis, &all->ask))
        return now + all->span / 4; /* without memory */
    all->asked = true;
    dlk_redis_ask_sent(redis, &all->ask);
    dlk_redis_wake(redis);
    if (redis->base.host->news)
        redis->base.host->news(redis->base.host);
    return DLK_NEVER;
}

/* ---- What was found ---- */

/* "" where there is none. */
static const char *of(const dlock_info *info, size_t circle, size_t wait,
                      const char *what)
{
    char key[64];
    snprintf(key, sizeof(key), "deadlocks.%zu.waits.%zu.%s", circle, wait, what);
    const char *text = dlock_info_get(info, key);
    return text ? text : "";
}

static size_t last_of(const dlock_info *info, size_t circle)
{
    char key[64];
    snprintf(key, sizeof(key), "deadlocks.%zu.last", circle);
    const char *text = dlock_info_get(info, key);
    return text ? (size_t)dlk_number_or(text, 0, INT32_MAX, 0) : 0;
}

static uint64_t hash_of(const dlock_info *info, size_t circle, size_t wait, bool last)
{
    const char *parts[] = {
        of(info, circle, wait, "uuid"), of(info, circle, wait, "thread"),
        of(info, circle, wait, "name"), of(info, circle, wait, "grant")};
    uint64_t hash = dlk_hash(DLK_HASH_BEGIN, &last, sizeof(last));
    for (size_t k = 0; k < sizeof(parts) / sizeof(*parts); k++)
        hash = dlk_hash(hash, parts[k], strlen(parts[k]) + 1);
    return hash;
}

/* Of its parties, what each waits for, and the grants that they have, wherever it is begun with: a lock that was
 * given back and taken again between two looks makes another circle. So does another last one: told again, two waits
 * that began at once may change places, and only one of them is to end. */
static uint64_t id_of(const dlock_info *info, size_t circle, size_t size, size_t last)
{
    uint64_t sum = size;
    for (size_t i = 0; i < size; i++)
        sum += hash_of(info, circle, i, i == last);
    return sum ? sum : 1;
}

/* It was found once more; NULL: there are too many to follow it. */
static dlk_redis_circle *count_look(dlk_redis_circles *all, uint64_t id)
{
    size_t at = 0;
    while (at < DLK_REDIS_CIRCLES && all->seen[at].id != id)
        at++;
    for (size_t i = DLK_REDIS_CIRCLES; at >= DLK_REDIS_CIRCLES && i-- > 0;)
        if (all->seen[i].id == 0)
            at = i;
    if (at == DLK_REDIS_CIRCLES)
        return NULL;
    dlk_redis_circle *circle = &all->seen[at];
    if (circle->looks++ == 0)
        circle->since = all->looked_at;
    circle->id = id;
    circle->met = true;
    return circle;
}

static void forget_others(dlk_redis_circles *all)
{
    for (size_t i = 0; i < DLK_REDIS_CIRCLES; i++) {
        if (!all->seen[i].met)
            memset(&all->seen[i], 0, sizeof(all->seen[i]));
        all->seen[i].met = false;
    }
}

/* "2 wait for each other: web at host:7 has a and waits for b; …" Any client writes such names: what is logged, and what
 * is an error's text, is made fit to be shown there. */
static void describe(const dlock_info *info, size_t circle, size_t size,
                     char text[TEXT_MAX])
{
    int used = snprintf(text, TEXT_MAX, "%zu wait for each other:", size);
    for (size_t i = 0; i < size && used < TEXT_MAX; i++)
        used += snprintf(text + used, (size_t)(TEXT_MAX - used),
                         "%s %s at %s:%s has %s and waits for %s", i > 0 ? ";" : "",
                         of(info, circle, i, "client"), of(info, circle, i, "host"),
                         of(info, circle, i, "pid"), of(info, circle, i, "has"),
                         of(info, circle, i, "name"));
}

static void judge(dlk_redis *redis, const dlock_info *info, size_t circle)
{
    dlk_host *host = redis->base.host;
    char text[TEXT_MAX];
    size_t size = 0;
    bool own = false;
    for (; of(info, circle, size, "name")[0]; size++)
        own |= strcmp(of(info, circle, size, "uuid"), host->uuid) == 0;
    size_t last = last_of(info, circle);
    dlk_redis_circle *seen =
        own ? count_look(&redis->circles, id_of(info, circle, size, last)) : NULL;
    if (!seen || seen->looks < 2)
        return;
    bool ours = strcmp(of(info, circle, last, "uuid"), host->uuid) == 0;
    describe(info, circle, size, text);
    if (seen->looks == 2)
        host->log(host, DLOCK_LOG_WARN, "deadlock: %s", text);
    if (!ours || !redis->circles.breaks || !host->deadlock)
        return;
    host->deadlock(
        host, of(info, circle, last, "name"),
        (uint64_t)dlk_number_or(of(info, circle, last, "thread"), 0, INT64_MAX, 0),
        seen->since, text);
    seen->looks = 0; /* who waits there anew is looked at twice again */
}

void dlk_redis_circles_answered(dlk_redis *redis)
{
    dlk_redis_circles *all = &redis->circles;
    dlock_info *info = all->ask.info;
    all->ask.info = NULL;
    all->asked = false;
    dlk_error_clear(&all->ask.error);
    if (!info) { /* then the next two looks aren't two in a row */
        memset(all->seen, 0, sizeof(all->seen));
        return;
    }
    const char *why = dlock_info_get(info, "scan.why");
    if (why) { /* not tried again on this connection */
        all->lacks = true;
        redis->base.host->log(redis->base.host, DLOCK_LOG_WARN,
                              "client.deadlock: what clients tell can't be read: %s",
                              why);
    }
    const char *count = dlock_info_get(info, "clients");
    int64_t clients = count ? dlk_number_or(count, 0, DLK_REDIS_TOLD_CLIENTS, 0) : 0;
    all->rest = clients * clients * REST_NS;
    for (size_t i = 0; of(info, i, 0, "name")[0]; i++)
        judge(redis, info, i);
    forget_others(all);
    dlk_info_free(info);
}
