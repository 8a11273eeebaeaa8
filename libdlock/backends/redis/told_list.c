/* Reading what clients tell; see the header. A key is anybody's who may write there: what can't be read is
 * counted, a date ahead of the server's clock is now, and no more of a key is read than a client writes. */
#include "backends/redis/told_inner.h"

#include "backends/redis/client_key.h"
#include "backends/redis/keys.h"
#include "backends/redis/scripts.h"
#include "util/clock.h"
#include "util/digits.h"
#include "util/grow.h"
#include "util/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT_A_TIME 64                            /* clients in a request, … */
#define KEY_BYTES (DLK_REDIS_TOLD_BYTES + 1500) /* … each read so far */
/* A clock that was set back by less isn't told from one that goes. */
#define SLACK_MS 1000

static void free_line(const told_line *one)
{
    free(one->name);
    free(one->permits);
}

dlk_redis_told_list *dlk_redis_told_list_new(const char *begin, int64_t limit,
                                             dlk_redis_told_memory *memory)
{
    dlk_redis_told_list *list = calloc(1, sizeof(*list));
    if (!list) {
        dlk_redis_told_memory_free(memory);
        return NULL;
    }
    list->begin = strdup(begin);
    list->limit = limit;
    list->memory = memory ? memory : calloc(1, sizeof(*list->memory));
    list->whole = list->memory && (list->memory->date == 0 || list->memory->lacks_count);
    list->asked_at = dlk_clock_now();
    if (list->begin && list->memory)
        return list;
    dlk_redis_told_list_free(list);
    return NULL;
}

void dlk_redis_told_list_free(dlk_redis_told_list *list)
{
    if (!list)
        return;
    for (size_t i = 0; i < list->count; i++)
        free_line(&list->lines[i]);
    for (size_t i = 0; i < list->who_count; i++)
        free(list->parties[i]);
    free(list->parties);
    free(list->lines);
    dlk_redis_told_memory_free(list->memory);
    free(list->begin);
    free(list);
}

const char *dlk_redis_told_list_why(const dlk_redis_told_list *list)
{
    return list->why;
}

/* ---- Asking ---- */

static bool put_script(dlk_redis *redis, int id, const dlk_arg *more, size_t count)
{
    const dlk_redis_script *script = &dlk_redis_scripts[id];
    dlk_arg args[3 + 2 + AT_A_TIME] = {
        dlk_arg_text("EVAL"), {script->text, script->size}, dlk_arg_text("0")};
    memcpy(args + 3, more, count * sizeof(*more));
    return dlk_resp_command(&redis->commands.link.stream.out, args, 3 + count);
}

/* Who has told something since the last list has a key that ends so much later than that at least, by a clock that was
 * perhaps set back a little. */
static bool put_clients(dlk_redis *redis, const dlk_redis_told_list *list,
                        const char *prefix)
{
    char index[DLK_REDIS_CLIENT_PREFIX + sizeof(DLK_REDIS_CLIENT_INDEX)],
        most[DLK_DIGITS_MAX], from[DLK_DIGITS_MAX];
    snprintf(index, sizeof(index), "%s" DLK_REDIS_CLIENT_INDEX, prefix);
    int64_t least =
        dlk_number_sum(list->memory->date, DLK_REDIS_CLIENT_KEY_MS - SLACK_MS);
    const dlk_arg args[] = {dlk_arg_text(index),
                            dlk_arg_number(DLK_REDIS_TOLD_CLIENTS + 1, most),
                            list->whole ? dlk_arg_text("") : dlk_arg_number(least, from)};
    return put_script(redis, DLK_SCRIPT_CLIENTS, args, 3);
}

/* The next client from @p at on whose text isn't known; how many there are, if there is none. */
static size_t next_due(const dlk_redis_told_list *list, size_t at)
{
    while (at < list->memory->client_count && list->memory->clients[at].text)
        at++;
    return at;
}

bool dlk_redis_told_list_put(dlk_redis *redis, dlk_redis_told_list *list)
{
    char prefix[DLK_REDIS_CLIENT_PREFIX], bytes[DLK_DIGITS_MAX];
    dlk_arg args[2 + AT_A_TIME];
    size_t count = 2;
    (void)dlk_redis_client_prefix(redis, prefix);
    if (!list->asked)
        return put_clients(redis, list, prefix);
    args[0] = dlk_arg_text(prefix);
    args[1] = dlk_arg_number(KEY_BYTES - 1, bytes);
    for (size_t i = next_due(list, list->next);
         i < list->memory->client_count && count < 2 + AT_A_TIME;
         i = next_due(list, i + 1))
        args[count++] = dlk_arg_text(list->memory->clients[i].half);
    return put_script(redis, DLK_SCRIPT_TOLD, args, count);
}

/* ---- Answers ---- */

/* The word up to the next blank, with an end; false: there is none, or it is too long. */
static bool take_word(const char **at, const char *end, char *to, size_t room)
{
    const char *blank = memchr(*at, ' ', (size_t)(end - *at));
    size_t size = blank ? (size_t)(blank - *at) : room;
    if (size == 0 || size >= room)
        return false;
    memcpy(to, *at, size);
    to[size] = '\0';
    *at = blank + 1;
    return true;
}

static bool take_number(const char **at, const char *end, int64_t *ret)
{
    char word[DLK_DIGITS_MAX];
    return take_word(at, end, word, sizeof(word)) &&
           dlk_number_read(word, strlen(word), 0, INT64_MAX, ret);
}

/* NULL: it is none, or there is no memory. */
static char *take_name(const char *at, const char *end)
{
    char *name = malloc((size_t)(end - at) + 1), *to = name;
    while (name && at < end) {
        if (*at != '%') {
            *to++ = *at++;
            continue;
        }
        int high = end - at > 2 ? dlk_digits_hex(at[1]) : -1;
        int low = high >= 0 ? dlk_digits_hex(at[2]) : -1;
        if (low < 0 || high + low == 0) {
            free(name);
            return NULL;
        }
        *to++ = (char)(high * 16 + low);
        at += 3;
    }
    if (name)
        *to = '\0';
    if (name && (!name[0] || strlen(name) > DLK_REDIS_NAME_MAX ||
                 strlen(name) != (size_t)(to - name))) {
        free(name);
        return NULL;
    }
    return name;
}

/* False: it makes no sense. Ages count from the date at which they were written. */
static bool read_line(told_line *ret, const char *at, const char *end, int64_t written_ms)
{
    int64_t age, number, thread;
    *ret = (told_line){.waits = *at == 'w'};
    if (end - at < 2 || (*at != 'w' && *at != 'h') || at[1] != ' ')
        return false;
    at += 2;
    if (!take_number(&at, end, &age) || !take_number(&at, end, &number) ||
        !take_number(&at, end, &ret->token) || !take_number(&at, end, &thread) ||
        !take_word(&at, end, ret->kind, sizeof(ret->kind)))
        return false;
    ret->number = (uint64_t)number;
    ret->thread = (uint64_t)thread;
    ret->since_ms = age < written_ms ? written_ms - age : 0;
    ret->name = take_name(at, end);
    return ret->name != NULL;
}

static bool keep_line(dlk_redis_told_list *list, told_line *one, const told_by *by)
{
    told_line *lines =
        dlk_grow(list->lines, list->count, &list->capacity, sizeof(*lines));
    if (!lines) {
        free(one->name);
        return false;
    }
    one->by = by;
    list->lines = lines;
    list->lines[list->count++] = *one;
    return true;
}

static told_by *keep_party(dlk_redis_told_list *list, const char *uuid, const char *who,
                           size_t size)
{
    told_by **parties =
        dlk_grow(list->parties, list->who_count, &list->who_capacity, sizeof(*parties));
    if (!parties)
        return NULL;
    list->parties = parties;
    told_by *by = calloc(1, sizeof(*by) + size + 1);
    if (!by)
        return NULL;
    memcpy(by->uuid, uuid, DLK_UUID_SIZE - 1);
    memcpy(by->who, who, size);
    list->parties[list->who_count++] = by;
    return by;
}

static bool is_uuid_of(const char *text, const char *end, const char *half)
{
    return end - text == DLK_UUID_SIZE - 1 &&
           strspn(text, "0123456789abcdef-") == DLK_UUID_SIZE - 1 &&
           strncmp(text, half, DLK_REDIS_CLIENT_HALF) == 0;
}

/* False without memory. */
static bool take_line(dlk_redis_told_list *list, const told_by *by, const char *at,
                      const char *end, int64_t written_ms)
{
    told_line one;
    int64_t more;
    if (*at == '+' &&
        dlk_number_read(at + 1, (size_t)(end - at) - 1, 0, INT64_MAX, &more))
        list->more = dlk_number_sum(list->more, more);
    else if (!read_line(&one, at, end, written_ms))
        list->unread++;
    else if (strncmp(one.name, list->begin, strlen(list->begin)) != 0)
        free_line(&one);
    else
        return keep_line(list, &one, by);
    return true;
}

/* False without memory. */
static bool take_lines(dlk_redis_told_list *list, const told_client *client)
{
    const char *at = client->text, *end = at + client->size, *stop;
    const char *first = memchr(at, '\n', client->size);
    const char *second =
        first ? memchr(first + 1, '\n', (size_t)(end - first - 1)) : NULL;
    int64_t written_ms;
    if (!second) /* it has gone, or is one of an older client */
        return true;
    const char *head = first + 1;
    if (!take_number(&head, second, &written_ms) ||
        !is_uuid_of(head, second, client->half)) {
        list->unread++;
        return true;
    }
    if (written_ms > list->now_ms)
        written_ms = list->now_ms;
    size_t tab = first > at && first[-1] == '\t';
    const told_by *by = keep_party(list, head, at, (size_t)(first - at) - tab);
    if (!by)
        return false;
    for (at = second + 1; at < end; at = stop + 1) {
        stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) { /* more than any client writes */
            list->unread++;
            break;
        }
        if (!take_line(list, by, at, stop, written_ms))
            return false;
    }
    return true;
}

/* Of all that is known, once it is. */
static dlk_told_step read_all(dlk_redis_told_list *list)
{
    const dlk_redis_told_memory *memory = list->memory;
    for (size_t i = 0; i < memory->client_count; i++)
        if (!take_lines(list, &memory->clients[i]))
            return DLK_TOLD_NOMEM;
    list->client_count = (int64_t)memory->client_count;
    list->memory->date = list->cut ? 0 : list->now_ms;
    list->memory->asked_at = list->asked_at;
    return DLK_TOLD_ALL;
}

/* The server's clock: it is before what it was, or has gone on by less than ours has since before the last list was
 * asked for. An answer that takes long looks like that, too. */
static bool was_set_back(const dlk_redis_told_list *list)
{
    const dlk_redis_told_memory *memory = list->memory;
    int64_t gone = dlk_number_difference(list->now_ms, memory->date);
    int64_t ours = (dlk_clock_now() - memory->asked_at) / DLK_NS_PER_MS;
    return memory->date != 0 && (gone < 0 || dlk_number_sum(gone, SLACK_MS) < ours);
}

/* "1790000000000", how many there are, then half of a uuid and date, in turn. Whoever has ended without a word is known
 * by the date; that somebody has said goodbye, by their number: then all are asked for. */
static dlk_told_step take_clients(dlk_redis_told_list *list, const dlk_resp *reply)
{
    dlk_redis_told_memory *memory = list->memory;
    if (reply->type == DLK_RESP_TEXT) {
        snprintf(list->why, sizeof(list->why), "%s", reply->text);
        return DLK_TOLD_REFUSED;
    }
    if (reply->type != DLK_RESP_ARRAY || reply->count < 2 || reply->count % 2 != 0 ||
        !dlk_resp_decimal(&reply->items[0], &list->now_ms) ||
        reply->items[1].type != DLK_RESP_INTEGER)
        return DLK_TOLD_BAD;
    size_t count = reply->count / 2 - 1;
    if (was_set_back(list)) {
        dlk_told_memory_clear(memory);
        if (!list->whole) {
            list->whole = true;
            return DLK_TOLD_MORE;
        }
    }
    list->cut = count > DLK_REDIS_TOLD_CLIENTS;
    if (list->cut)
        count = DLK_REDIS_TOLD_CLIENTS;
    if (!dlk_told_memory_merge(memory, reply->items + 2, count, list->whole, list->now_ms,
                               &list->unread))
        return DLK_TOLD_NOMEM;
    if (!list->whole && reply->items[1].integer != (int64_t)memory->client_count) {
        list->whole = true;
        memory->lacks_count = reply->items[1].integer < 0;
        list->unread = 0;
        return DLK_TOLD_MORE;
    }
    list->asked = true;
    return next_due(list, 0) < memory->client_count ? DLK_TOLD_MORE : read_all(list);
}

static dlk_told_step take_told(dlk_redis_told_list *list, const dlk_resp *reply)
{
    dlk_redis_told_memory *memory = list->memory;
    if (reply->type != DLK_RESP_ARRAY || reply->count == 0 || reply->count > AT_A_TIME)
        return DLK_TOLD_BAD;
    for (size_t i = 0; i < reply->count; i++) {
        const dlk_resp *item = &reply->items[i];
        list->next = next_due(list, list->next);
        if (item->type != DLK_RESP_TEXT || list->next == memory->client_count)
            return DLK_TOLD_BAD;
        told_client *client = &memory->clients[list->next];
        client->text = malloc(item->size + 1);
        if (!client->text)
            return DLK_TOLD_NOMEM;
        memcpy(client->text, item->text, item->size);
        client->size = item->size;
    }
    return next_due(list, list->next) < memory->client_count ? DLK_TOLD_MORE
                                                             : read_all(list);
}

dlk_told_step dlk_redis_told_list_take(dlk_redis_told_list *list, const dlk_resp *reply)
{
    return list->asked ? take_told(list, reply) : take_clients(list, reply);
}
