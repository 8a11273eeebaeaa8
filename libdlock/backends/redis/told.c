/* What a client tells of its locks; see the header.
 *
 * It is looked for a second after something was asked for or given back, and with renewals; written only if it
 * has changed, or would end. The write is an ask of ours that nobody waits for: should its answer lie unread
 * for a while since nobody drives, that says nothing about the server, so it has no deadline. */
#include "backends/redis/told.h"

#include "backends/redis/asks.h"
#include "backends/redis/circles.h"
#include "backends/redis/client_key.h"
#include "backends/redis/errors.h"
#include "backends/redis/told_list.h"
#include "util/clock.h"
#include "util/digits.h"
#include "util/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The lines ---- */

#define HEAD_MAX 160 /* of a line, all but the name, which gets three times its size */

static const char *kind_of(const dlk_told *line)
{
    bool write = line->key->kind == DLOCK_WRITE;
    const dlk_kind_traits *kind =
        dlk_kind_of(write && line->shared ? (int)DLOCK_READ : (int)line->key->kind);
    return kind ? kind->name : "mutex";
}

static char *put_escaped(char *to, const char *name, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)name[i];
        if (byte > ' ' && byte != '%' && byte != 0x7f) {
            *to++ = (char)byte;
            continue;
        }
        *to++ = '%';
        to = dlk_digits_put_byte(to, byte);
    }
    return to;
}

static bool put_line(dlk_buf *to, const dlk_told *line, int64_t now)
{
    char *room = dlk_buf_room(to, HEAD_MAX + line->key->size * 3);
    if (!room)
        return false;
    int size =
        snprintf(room, HEAD_MAX, "%c %" PRId64 " %" PRIu64 " %" PRId64 " %" PRIu64 " %s ",
                 line->waits ? 'w' : 'h', (now - line->since) / DLK_NS_PER_MS,
                 line->number, line->token, line->thread, kind_of(line));
    char *end = put_escaped(room + size, line->key->name, line->key->size);
    *end++ = '\n';
    dlk_buf_added(to, (size_t)(end - room));
    return true;
}

static bool put_lines(dlk_buf *to, const dlk_told *lines, const dlk_told_sum *sum,
                      int64_t now)
{
    size_t count = 0;
    char more[DLK_DIGITS_MAX + 3];
    while (count < sum->count && dlk_buf_size(to) < DLK_REDIS_TOLD_BYTES - HEAD_MAX -
                                                        3 * lines[count].key->size)
        if (!put_line(to, &lines[count++], now))
            return false;
    int64_t left = sum->more + (int64_t)(sum->count - count);
    if (left == 0)
        return true;
    int size = snprintf(more, sizeof(more), "+%" PRId64 "\n", left);
    return dlk_buf_append(to, more, (size_t)size);
}

/* Of what others would read, but for ages and for tokens, which of a lock that is kept come and go. */
static uint64_t hash_of(const dlk_told *lines, const dlk_told_sum *sum)
{
    uint64_t hash = dlk_hash(DLK_HASH_BEGIN, &sum->more, sizeof(sum->more));
    for (size_t i = 0; i < sum->count; i++) {
        const uint64_t what[] = {
            lines[i].number,          lines[i].thread, (uint64_t)(uintptr_t)lines[i].key,
            (uint64_t)lines[i].since, lines[i].waits,  lines[i].shared};
        hash = dlk_hash(hash, what, sizeof(what));
    }
    return hash;
}

/* ---- Writing them ---- */

static bool put_command(dlk_redis *redis, const dlk_buf *lines)
{
    const dlk_redis_script *script = &dlk_redis_scripts[DLK_SCRIPT_SAY];
    char name[DLK_REDIS_CLIENT_NAME],
        index[] = DLK_REDIS_CLIENT_KEY DLK_REDIS_CLIENT_INDEX, life[DLK_DIGITS_MAX];
    size_t size = dlk_redis_client_key_name(redis, name);
    if (size == 0)
        return false;
    const dlk_arg args[] = {dlk_arg_text("EVAL"),
                            {script->text, script->size},
                            dlk_arg_text("2"),
                            {name, size},
                            dlk_arg_text(index),
                            dlk_arg_text(redis->base.host->who),
                            dlk_arg_number(redis->said_ms, life),
                            dlk_arg_text(redis->base.host->uuid),
                            {dlk_buf_head(lines), dlk_buf_size(lines)}};
    return dlk_resp_command(&redis->commands.link.stream.out, args,
                            sizeof(args) / sizeof(*args));
}

static bool put(dlk_redis *redis, const dlk_told *lines, const dlk_told_sum *sum,
                int64_t now)
{
    dlk_buf text = {0};
    if (redis->said_ms < DLK_REDIS_CLIENT_KEY_MS)
        redis->said_ms = DLK_REDIS_CLIENT_KEY_MS;
    bool done = put_lines(&text, lines, sum, now) && put_command(redis, &text);
    dlk_buf_free(&text);
    if (!done)
        return false;
    redis->telling = (dlk_ask){.verb = DLK_REDIS_TELL, .deadline = DLK_NEVER};
    dlk_list_init(&redis->telling.link);
    redis->tell_asked = true;
    dlk_redis_ask_sent(redis, &redis->telling);
    redis->told = (int64_t)sum->count + sum->more;
    redis->said_until = now + redis->said_ms * DLK_NS_PER_MS;
    return true;
}

static bool would_end(const dlk_redis *redis, int64_t now)
{
    return redis->told > 0 &&
           (redis->said_until - now) / DLK_NS_PER_MS < redis->said_ms / 3 * 2;
}

/* When what is told has to be told again, though nothing changes: semaphores aren't renewed with the others, nor is
 * what is held without renewals. 0: nothing is told. */
static int64_t next_life(const dlk_redis *redis, int64_t now)
{
    int64_t at = redis->said_until - (redis->said_ms / 3 * 2 - 1) * DLK_NS_PER_MS;
    int64_t least = now + redis->tell_after;
    if (redis->told == 0)
        return 0;
    return at > least ? at : least;
}

/* True: there is something to be sent. */
static bool look(dlk_redis *redis, int64_t now)
{
    redis->looked_at = now;
    redis->tell_at = now + redis->tell_after; /* unless there is nothing to wait for */
    if (redis->commands.link.phase != DLK_LINK_READY || redis->tell_asked)
        return false;
    dlk_told *lines = malloc(DLK_REDIS_TOLD_LINES * sizeof(*lines));
    if (!lines)
        return false;
    dlk_host *host = redis->base.host;
    dlk_told_sum sum =
        host->told(host, now, redis->tell_after, lines, DLK_REDIS_TOLD_LINES);
    dlk_redis_circles_note(redis, lines, sum.count);
    uint64_t hash = hash_of(lines, &sum);
    bool same = redis->told == (int64_t)sum.count + sum.more &&
                (redis->told == 0 || redis->told_hash == hash);
    bool sent = (!same || would_end(redis, now)) && put(redis, lines, &sum, now);
    free(lines);
    if (sent)
        redis->told_hash = hash;
    if ((same || sent) && sum.next == DLK_NEVER)
        redis->tell_at = next_life(redis, now);
    return sent;
}

/* ---- When ---- */

void dlk_redis_told_renews(dlk_redis *redis, const dlk_ask *first)
{
    if (!dlk_redis_told_may(redis))
        return;
    int64_t life_ms = dlk_redis_client_key_life_ms(redis, first);
    if (redis->told > 0 && life_ms > redis->said_ms) /* it has to outlive that lease */
        redis->said_until = 0;
    redis->said_ms = life_ms;
    if (first->since - redis->looked_at >= redis->tell_after)
        (void)look(redis, first->since);
}

int64_t dlk_redis_told_look(dlk_redis *redis, int64_t now)
{
    if (look(redis, now)) {
        dlk_redis_wake(redis);
        if (redis->base.host->news)
            redis->base.host->news(redis->base.host);
    }
    return redis->tell_at != 0 ? redis->tell_at : DLK_NEVER;
}

/* Whatever is refused but for want of rights is tried again when something has changed. Without them, or where
 * something else has the index's name, who this client is stands in its key as before. */
void dlk_redis_told_answered(dlk_redis *redis, const dlk_resp *reply)
{
    dlk_list_remove(&redis->telling.link);
    redis->tell_asked = false;
    if (reply && reply->type != DLK_RESP_ERROR)
        return;
    redis->told = 0;
    redis->said_until = 0;
    if (!reply) {
        redis->tell_at = 1; /* at once on the next connection */
        return;
    }
    dlock_err code = dlk_redis_error_code(reply);
    redis->lacks_told = code == DLOCK_EACCES || code == DLOCK_ECONFLICT;
    if (redis->lacks_told)
        redis->tell_at = 0;
}

void dlk_redis_told_broke(dlk_redis *redis)
{
    redis->breaks++;
    dlk_redis_told_memory_free(redis->told_memory);
    redis->told_memory = NULL;
}

void dlk_redis_told_forget(dlk_redis *redis)
{
    if (redis->told > 0)
        redis->tell_at = 1; /* at once */
    redis->told = 0;
    redis->lacks_told = redis->circles.lacks = false;
    dlk_redis_told_memory_free(redis->told_memory); /* it may be another server */
    redis->told_memory = NULL;
}

void dlk_redis_told_remove(dlk_redis *redis)
{
    char index[] = DLK_REDIS_CLIENT_KEY DLK_REDIS_CLIENT_INDEX;
    const dlk_arg args[] = {dlk_arg_text("ZREM"),
                            dlk_arg_text(index),
                            {redis->base.host->uuid, DLK_REDIS_CLIENT_HALF}};
    if (redis->told_hash != 0 && !redis->lacks_told &&
        dlk_resp_command(&redis->commands.link.stream.out, args, 3)) /* else it ends */
        redis->base.host->commands++;
}
