/* Inspecting; see the header. */
#include "backends/redis/reports.h"

#include "backends/redis/asks.h"
#include "backends/redis/client_key.h"
#include "backends/redis/inner.h"
#include "backends/redis/keys.h"
#include "backends/redis/layout.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/info.h"
#include "util/number.h"
#include "util/who.h"

#include <string.h>

bool dlk_redis_give_info(dlk_redis *redis, dlk_ask *ask, dlock_info *info)
{
    if (dlk_info_failed(info)) {
        dlk_info_free(info);
        dlk_redis_ask_refuse(redis, ask,
                             dlk_error_make(DLOCK_ENOMEM, "redis: out of memory"));
        return true;
    }
    ask->info = info;
    dlk_redis_ask_answer(redis, ask, DLK_YES);
    return true;
}

/* Behind what a client says of itself there may be a date and, of a permit, the holder's lock.data. */
static void tell_client(dlock_info *info, const char *said, const char *list,
                        size_t number)
{
    size_t size = strlen(said), told = dlk_who_tell_text(info, said, size, list, number);
    if (told < size)
        dlk_info_add_text(info, said + told, "%s.%zu.data", list, number);
}

bool dlk_redis_signalled(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply)
{
    if (reply->type != DLK_RESP_INTEGER || reply->integer < 0)
        return false;
    dlock_info *info = dlk_info_new();
    dlk_info_add_int(info, reply->integer, "signalled");
    return dlk_redis_give_info(redis, ask, info);
}

/* ---- Inspect ---- */

/* What stands at these places of the answer; see layout.h. */
enum { HELD, KIND, WAITERS, PERMITS, PERMITS_FREE, DATA, WAITING, HOLDERS };
enum { OWNER, TOKEN, LEFT, HOLD_COUNT, CLIENT, HOLDER_SIZE };
enum { WAITER, WAITER_CLIENT, WAITER_SINCE, WAITER_SIZE };

static bool is_waiting(const dlk_resp *line)
{
    for (size_t i = 0; i < line->count; i++)
        if (line->items[i].type != DLK_RESP_TEXT)
            return false;
    return line->count % WAITER_SIZE == 0;
}

static bool plausible(const dlk_resp *reply)
{
    static const dlk_resp_type head[] = {
        DLK_RESP_INTEGER, DLK_RESP_TEXT, DLK_RESP_INTEGER, DLK_RESP_INTEGER,
        DLK_RESP_INTEGER, DLK_RESP_TEXT, DLK_RESP_ARRAY};
    if (reply->type != DLK_RESP_ARRAY || reply->count < HOLDERS ||
        (reply->count - HOLDERS) % HOLDER_SIZE != 0)
        return false;
    for (size_t i = 0; i < HOLDERS; i++)
        if (reply->items[i].type != head[i])
            return false;
    if (!is_waiting(&reply->items[WAITING]))
        return false;
    for (size_t i = HOLDERS; i < reply->count; i += HOLDER_SIZE)
        if (reply->items[i + OWNER].type != DLK_RESP_TEXT ||
            reply->items[i + TOKEN].type != DLK_RESP_TEXT ||
            reply->items[i + LEFT].type != DLK_RESP_INTEGER ||
            reply->items[i + CLIENT].type != DLK_RESP_TEXT)
            return false;
    return true;
}

/* A number, or a text of digits. */
static bool number_of(const dlk_resp *reply, int64_t *ret)
{
    *ret = reply->integer;
    return reply->type == DLK_RESP_INTEGER || dlk_resp_decimal(reply, ret);
}

/* Tokens are times of the server's clock in us, or one more than the last: how far this one is ahead of it, in
 * ms. A little is the clock's, as far as we know it. */
static int64_t ahead_ms(const dlk_redis *redis, int64_t token)
{
    int64_t there = redis->clock_offset + dlk_clock_now() / 1000;
    return token / 1000 - there / 1000;
}
#define AHEAD_MS 1000
/* As token_life.lua's `small`. */
#define TOKEN_OF_TIME INT64_C(1000000000000000)

/* When it was granted, by the server's clock; 0: unknown. Only of clients who are known to be ours: an RLock of
 * Redisson's leaves the counter as whoever had the name before has left it. And not of who keeps the lock, whose
 * tokens are newer than its grant; a small number is Redisson's count. */
static int64_t since_ms(const dlk_redis *redis, const dlk_resp *item, int64_t token)
{
    const char *number = strrchr(item[OWNER].text, ':');
    if (!number || !item[CLIENT].text[0] || token < TOKEN_OF_TIME ||
        ahead_ms(redis, token) > AHEAD_MS)
        return 0;
    bool keeps = dlk_number_keeps((uint64_t)dlk_number_or(number + 1, 0, INT64_MAX, 0));
    return keeps ? 0 : token / 1000;
}

static void add_holder(dlock_info *info, const dlk_redis *redis, const dlk_resp *item,
                       size_t holder)
{
    int64_t number, since;
    dlk_info_add_text(info, item[OWNER].text, "holders.%zu.owner", holder);
    if (dlk_resp_decimal(&item[TOKEN], &number)) {
        dlk_info_add_int(info, number, "holders.%zu.token", holder);
        if ((since = since_ms(redis, item, number)) > 0)
            dlk_info_add_int(info, since, "holders.%zu.since", holder);
    }
    if (item[LEFT].integer >= 0)
        dlk_info_add_int(info, item[LEFT].integer, "holders.%zu.remaining_ms", holder);
    if (number_of(&item[HOLD_COUNT], &number))
        dlk_info_add_int(info, number, "holders.%zu.count", holder);
    tell_client(info, item[CLIENT].text, "holders", holder);
}

static void add_waiting(dlock_info *info, const dlk_resp *line)
{
    for (size_t i = 0; i < line->count / WAITER_SIZE; i++) {
        const dlk_resp *item = &line->items[i * WAITER_SIZE];
        int64_t since_us;
        dlk_info_add_text(info, item[WAITER].text, "waiting.%zu.owner", i);
        tell_client(info, item[WAITER_CLIENT].text, "waiting", i);
        if (dlk_resp_decimal(&item[WAITER_SINCE], &since_us) && since_us > 0)
            dlk_info_add_int(info, since_us / 1000, "waiting.%zu.since", i);
    }
}

/* A token that lies ahead of the clock says that it was set back, and by how much at least leases from before
 * last longer. */
static void add_clock(dlock_info *info, const dlk_redis *redis, const dlk_resp *item)
{
    int64_t token;
    if (dlk_resp_decimal(&item[TOKEN], &token) && ahead_ms(redis, token) > AHEAD_MS)
        dlk_info_add_int(info, ahead_ms(redis, token), "clock_back_ms");
}

bool dlk_redis_inspected(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply)
{
    if (!plausible(reply))
        return false;
    const dlk_resp *seen = reply->items;
    dlock_info *info = dlk_info_new();
    int64_t left = -1;
    dlk_info_add_int(info, seen[HELD].integer != 0, "held");
    dlk_info_add_text(info, seen[KIND].text, "kind");
    for (size_t i = HOLDERS, holder = 0; i < reply->count; i += HOLDER_SIZE, holder++) {
        add_holder(info, redis, &seen[i], holder);
        if (holder == 0)
            add_clock(info, redis, &seen[i]);
        if (seen[i + LEFT].integer >= 0 && (left < 0 || seen[i + LEFT].integer < left))
            left = seen[i + LEFT].integer;
    }
    if (seen[DATA].text[0])
        dlk_info_add_text(info, seen[DATA].text, "holders.0.data");
    if (seen[WAITERS].integer >= 0)
        dlk_info_add_int(info, seen[WAITERS].integer, "waiters");
    add_waiting(info, &seen[WAITING]);
    if (seen[PERMITS].integer >= 0)
        dlk_info_add_int(info, seen[PERMITS].integer, "permits");
    if (seen[PERMITS_FREE].integer >= 0)
        dlk_info_add_int(info, seen[PERMITS_FREE].integer, "permits_free");
    dlk_info_add_text(info, dlk_settings_word(ask->key->settings, DLK_KEY_REDIS_LAYOUT),
                      "layout");
    if (seen[HELD].integer != 0)
        ask->wait_ms = dlk_redis_look_again(redis, ask, dlk_span_ms(left));
    return dlk_redis_give_info(redis, ask, info);
}

/* ---- Revocation: who holds the lock, then a word to each ---- */

/* In ask->scratch: the holders have been told. */
#define TOLD 2
/* So many are told at most, as many as an inspection of a read/write lock shows. */
#define HOLDERS_MAX 128

/* The holders are named by the inspection, whatever the layout; the telling is its own script. */
static bool tell_holders(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply)
{
    const dlk_redis_script *script = &dlk_redis_scripts[DLK_SCRIPT_REVOKE];
    dlk_arg args[3 + HOLDERS_MAX] = {
        dlk_arg_text("EVAL"), {script->text, script->size}, dlk_arg_text("0")};
    size_t count = 3;
    for (size_t i = HOLDERS; i < reply->count && count < 3 + HOLDERS_MAX;
         i += HOLDER_SIZE)
        args[count++] =
            (dlk_arg){reply->items[i + OWNER].text, reply->items[i + OWNER].size};
    dlk_list_remove(&ask->link);
    if (dlk_resp_command(&redis->commands.link.stream.out, args, count)) {
        ask->scratch = TOLD;
        dlk_redis_ask_sent(redis, ask);
        return true;
    }
    dlk_redis_ask_refuse(redis, ask,
                         dlk_error_make(DLOCK_ENOMEM, "redis: out of memory"));
    return true;
}

bool dlk_redis_revoke_go_on(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply)
{
    if (ask->scratch != TOLD && !plausible(reply))
        return false;
    if (ask->scratch != TOLD && strcmp(reply->items[KIND].text, "condition") == 0) {
        dlk_redis_ask_refuse(
            redis, ask,
            dlk_error_make(DLOCK_ECONFLICT, "redis: a condition is here, not a lock"));
        return true;
    }
    if (ask->scratch != TOLD && strcmp(reply->items[KIND].text, "semaphore") == 0) {
        dlk_redis_ask_refuse(
            redis, ask,
            dlk_error_make(DLOCK_ECONFLICT,
                           "redis: a semaphore is here, which doesn't say "
                           "whose its permits are"));
        return true;
    }
    if (ask->scratch != TOLD && reply->items[HELD].integer != 0)
        return tell_holders(redis, ask, reply);
    if (ask->scratch == TOLD && reply->type != DLK_RESP_INTEGER)
        return false;
    if (ask->scratch != TOLD)
        dlk_redis_ask_answer(redis, ask, DLK_NOT_OURS);
    else if (reply->integer > 0)
        dlk_redis_ask_answer(redis, ask, DLK_YES);
    else
        dlk_redis_ask_refuse(
            redis, ask,
            dlk_error_make(
                DLOCK_ENOTSUP,
                "redis: no holder listens: it isn't libdlock, or has not asked "
                "for the events of its hold"));
    return true;
}
