/* Circles of waits, which a client looks for itself (client.deadlock): while a thread of it waits, it reads what all
 * clients tell (told.h), as a list does. One that two looks have found, a quarter of client.deadlock_ms apart, is
 * logged; and whoever began to wait last, of whose client it is, stops. */
#ifndef DLK_BACKENDS_REDIS_CIRCLES_H
#define DLK_BACKENDS_REDIS_CIRCLES_H

#include "backends/redis/inner.h"
#include "util/clock.h"

void dlk_redis_circles_begin(dlk_redis *redis, const dlk_settings *settings);
/* What was just found to be told. */
void dlk_redis_circles_note(dlk_redis *redis, const dlk_told *lines, size_t count);
/* Its ask has an answer, or gets none. */
void dlk_redis_circles_answered(dlk_redis *redis);

/* When to call it again. */
int64_t dlk_redis_circles_look(dlk_redis *redis, int64_t now);
static inline int64_t dlk_redis_circles_tick(dlk_redis *redis, int64_t now)
{
    const dlk_redis_circles *all = &redis->circles;
    if (all->waits_since == DLK_NEVER || all->asked || all->lacks ||
        redis->commands.link.phase != DLK_LINK_READY)
        return DLK_NEVER;
    int64_t due = all->waits_since + all->span / 2;
    int64_t next =
        all->looked_at + (all->span / 4 > all->rest ? all->span / 4 : all->rest);
    due = due > next ? due : next;
    return now < due ? due : dlk_redis_circles_look(redis, now);
}

#endif
