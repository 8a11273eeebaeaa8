/* A fair lock, the client's side; see the header, and scripts/line.lua for the server's.
 *
 * Redisson tells the head of the line alone, on a channel of its own. So what a key listens to
 * follows the contender that was asked for last; that there is one at a time makes it one channel
 * a key, as everywhere. */
#include "backends/redis/fair.h"

#include "backends/redis/channel.h"
#include "backends/redis/inner.h"
#include "backends/redis/watch.h"

/* Who doesn't listen has to ask more often than line.lua takes for a sign of death. */
#define DEAF_MS 1000

void dlk_redis_fair_more(const dlk_redis *redis, const dlk_ask *ask, dlk_arg *args,
                         char room[DLK_REDIS_MORE][64])
{
    int64_t put_off = dlk_settings_int(redis->settings, DLK_KEY_REDIS_FAIR_WAIT_MS);
    /* A place is kept from lapsing by asking, in the last three quarters of its time. */
    const dlk_redis_watcher *watcher = ((const dlk_redis_key *)ask->key->data)->watcher;
    bool hears = watcher && dlk_redis_channel_is_on(watcher->at);
    args[0] = dlk_arg_number(put_off, room[0]);
    args[1] = dlk_arg_number(hears ? put_off / 3 : DEAF_MS, room[1]);
    args[2] = dlk_arg_number(ask->once, room[2]);
}

int64_t dlk_redis_fair_wait(dlk_ask *ask, int64_t answer)
{
    ask->new_place = answer < 0;
    return answer < 0 ? -1 - answer : answer;
}

void dlk_redis_fair_asks(dlk_redis *redis, const dlk_ask *ask, int64_t now)
{
    dlk_redis_key *key = ask->key->data;
    if (ask->verb == DLK_RELEASE && ask->number == key->contender)
        key->contender = 0; /* what is watched from now on is the lock itself */
    if (ask->verb != DLK_ACQUIRE || ask->once || ask->number == key->contender)
        return;
    bool watched = key->watcher != NULL;
    if (watched)
        dlk_redis_watch(&redis->base, key->key, false, now);
    key->contender = ask->number;
    if (watched)
        dlk_redis_watch(&redis->base, key->key, true, now);
}
