/* Renewals in batches; see the header.
 *
 * In flight the asks of a batch stand one behind the other, and the first of them knows how many
 * they are. A script that fails for one lock goes on with the next, so each has a verdict of its
 * own; a cut leaves all of them unknown, or unsent. Renewals of different locks may overtake each
 * other and other requests: what is released meanwhile is not the owner's any more, and says so.
 *
 * In a cluster a batch is of one slot; while that moves, its locks may be apart for a moment, and
 * are renewed one by one. */
#include "backends/redis/batch.h"

#include "backends/redis/answers.h"
#include "backends/redis/client_key.h"
#include "backends/redis/inner.h"
#include "backends/redis/keys.h"
#include "backends/redis/layout.h"
#include "backends/redis/replicas.h"
#include "backends/redis/told.h"
#include "util/error.h"

/* In ask->scratch of the first: how many, above DLK_REDIS_WITH_TEXT. */
#define COUNT_SHIFT 8

void dlk_redis_batch_add(dlk_redis *redis, dlk_ask *ask)
{
    ask->reply = DLK_PENDING;
    ask->sequence = INT64_MAX; /* certainly not sent yet */
    dlk_list_append(&redis->renewals, &ask->link);
}

bool dlk_redis_batch_begins(const dlk_ask *ask)
{
    return ask->scratch >> COUNT_SHIFT > 1;
}

/* ---- Sending ---- */

/* Always 0 but in a cluster. */
static uint16_t slot_of(const dlk_ask *ask)
{
    return ((const dlk_redis_key *)ask->key->data)->slot;
}

/* One of the same lock stands before it: of the write side, which this one turns. */
static bool is_behind(const dlk_list *list, const dlk_ask *ask)
{
    for (dlk_list *it = ask->link.prev; it != list; it = it->prev)
        if (DLK_LIST_ITEM(it, dlk_ask, link)->key == ask->key)
            return true;
    return false;
}

/* Moves those that one script can renew, the first and others of its form, to @p ret. */
static size_t collect(const dlk_redis *redis, dlk_list *from, dlk_list *ret)
{
    dlk_ask *first = DLK_LIST_ITEM(dlk_list_first(from), dlk_ask, link);
    const dlk_redis_form *form = dlk_redis_form_asked(first);
    size_t keys = dlk_redis_own_keys(redis, first, DLK_SCRIPT_RENEW);
    bool alone = form->slots || dlk_redis_replicas_wanted(first);
    size_t count = 0, most = alone ? 1 : DLK_REDIS_BATCH;
    DLK_LIST_FOR (it, from) {
        const dlk_ask *ask = DLK_LIST_ITEM(it, dlk_ask, link);
        if (dlk_redis_form_asked(ask) != form || slot_of(ask) != slot_of(first) ||
            dlk_redis_own_keys(redis, ask, DLK_SCRIPT_RENEW) != keys ||
            (form->shared && is_behind(from, ask)))
            continue;
        dlk_list_remove(it);
        dlk_list_append(ret, it);
        if (++count == most)
            break;
    }
    return count;
}

/* One lock's part of a batch: the arguments of its script, behind the channel. */
typedef struct part {
    dlk_arg args[3 + DLK_REDIS_MORE + DLK_REDIS_BOUNDS];
    char owner[DLK_REDIS_OWNER_MAX], ttl[64], keep[64], bounds[2][64],
        room[DLK_REDIS_MORE][64];
} part;

/* What the form adds to them. */
static size_t more_count(const dlk_ask *ask)
{
    const dlk_redis_form *form = dlk_redis_form_asked(ask);
    return form->renews_alone && !ask->refills ? 0 : form->more_count;
}

static size_t argument_count(const dlk_ask *ask)
{
    return 2 + dlk_redis_form_asked(ask)->tokens + more_count(ask) + DLK_REDIS_BOUNDS;
}

static void fill(part *ret, const dlk_redis *redis, const dlk_ask *ask)
{
    const dlk_redis_form *form = dlk_redis_form_asked(ask);
    ret->args[0] =
        (dlk_arg){ret->owner, dlk_redis_put_owner(redis, ask->number, ret->owner)};
    ret->args[1] = dlk_arg_number(ask->ttl_ms, ret->ttl);
    size_t count = 2 + dlk_redis_put_keep(redis, ask, &ret->args[2], ret->keep);
    if (more_count(ask) > 0)
        dlk_redis_put_more(redis, ask, form, &ret->args[count], ret->room);
    size_t behind = argument_count(ask) - DLK_REDIS_BOUNDS;
    (void)dlk_redis_put_bounds(ask, &ret->args[behind], ret->bounds);
}

/* Room enough for its keys and arguments. */
static size_t room_of(const part *of, const dlk_ask *ask, size_t keys)
{
    size_t size = dlk_redis_keys_room(ask->key, keys) + dlk_redis_channel_room(ask->key);
    for (size_t i = 0; i < argument_count(ask); i++)
        size += of->args[i].size + DLK_RESP_OVERHEAD;
    return size;
}

static char *put_arguments(char *to, const dlk_redis *redis, const part *of,
                           const dlk_ask *ask)
{
    /* Only the turn to the read side is told of. */
    to = ask->shared ? dlk_redis_put_channel(to, redis, ask->key->data)
                     : dlk_resp_bulk(to, "", 0);
    for (size_t i = 0; i < argument_count(ask); i++)
        to = dlk_resp_bulk(to, of->args[i].data, of->args[i].size);
    return to;
}

static const dlk_ask *ask_of(const dlk_list *link)
{
    return DLK_LIST_ITEM(link, const dlk_ask, link);
}

/* The command for these asks; false without memory. */
static bool put_many(dlk_redis *redis, const dlk_list *asks, size_t count, bool with_text)
{
    const dlk_redis_form *form = dlk_redis_form_asked(ask_of(asks->next));
    const dlk_redis_script *script = dlk_redis_batch_script(form);
    size_t keys = dlk_redis_own_keys(redis, ask_of(asks->next), DLK_SCRIPT_RENEW);
    size_t args = 1 + argument_count(ask_of(asks->next));
    size_t size = dlk_redis_script_room(script, with_text) + 2 * DLK_RESP_OVERHEAD;
    part one;
    DLK_LIST_FOR (it, asks) {
        fill(&one, redis, ask_of(it));
        size += room_of(&one, ask_of(it), keys);
    }
    dlk_buf *out = &redis->commands.link.stream.out;
    char *from = dlk_buf_room(out, size), *to = from;
    if (!to)
        return false;
    to = dlk_redis_put_script(to, script, with_text, count * keys, 2 + count * args);
    DLK_LIST_FOR (it, asks)
        to = dlk_redis_put_keys(to, ask_of(it)->key, form, keys);
    to = dlk_resp_bulk_number(to, keys);
    to = dlk_resp_bulk_number(to, args);
    DLK_LIST_FOR (it, asks) {
        fill(&one, redis, ask_of(it));
        to = put_arguments(to, redis, &one, ask_of(it));
    }
    dlk_buf_added(out, (size_t)(to - from));
    return true;
}

static void refuse_all(dlk_redis *redis, dlk_list *asks)
{
    dlk_list *link;
    while ((link = dlk_list_first(asks)))
        dlk_redis_ask_refuse(redis, DLK_LIST_ITEM(link, dlk_ask, link),
                             dlk_error_make(DLOCK_ENOMEM, "redis: out of memory"));
    dlk_redis_wake(redis); /* whoever is about to sleep has this to digest first */
}

static void send_off(dlk_redis *redis, dlk_list *asks, size_t count, bool with_text)
{
    dlk_ask *first = DLK_LIST_ITEM(dlk_list_first(asks), dlk_ask, link);
    size_t before = dlk_buf_size(&redis->commands.link.stream.out);
    bool said = dlk_redis_client_key_put(redis, first);
    bool done = count > 1 ? put_many(redis, asks, count, with_text)
                          : dlk_redis_ask_put(redis, first, with_text);
    if (said && !done)
        dlk_redis_client_key_unput(redis, before);
    if (!done) {
        refuse_all(redis, asks);
        return;
    }
    dlk_list *link;
    while ((link = dlk_list_take_first(asks))) {
        dlk_ask *ask = DLK_LIST_ITEM(link, dlk_ask, link);
        ask->scratch = with_text ? DLK_REDIS_WITH_TEXT : 0;
        dlk_redis_ask_sent(redis, ask);
    }
    if (count > 1)
        first->scratch |= (int64_t)count << COUNT_SHIFT;
    if (said)
        first->scratch |= DLK_REDIS_SAID;
    redis->base.host->commands -= (int64_t)count - 1; /* it is one */
}

void dlk_redis_batch_put(dlk_redis *redis)
{
    if (!dlk_list_empty(&redis->renewals))
        dlk_redis_told_renews(redis, ask_of(dlk_list_first(&redis->renewals)));
    while (!dlk_list_empty(&redis->renewals)) {
        dlk_list asks;
        dlk_list_init(&asks);
        size_t count = collect(redis, &redis->renewals, &asks);
        send_off(redis, &asks, count, false);
    }
}

/* ---- Answers ---- */

/* The script isn't there: all of them once more, with its text. */
static void send_again(dlk_redis *redis, size_t count)
{
    dlk_list asks;
    dlk_list_init(&asks);
    for (size_t i = 0; i < count; i++)
        dlk_list_append(&asks, dlk_list_take_first(&redis->flight.asks));
    send_off(redis, &asks, count, true);
}

/* Some of their keys have moved to another node: all of them once more, each for itself. */
static void send_apart(dlk_redis *redis, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        dlk_list one;
        dlk_list_init(&one);
        dlk_list_append(&one, dlk_list_take_first(&redis->flight.asks));
        send_off(redis, &one, 1, true);
    }
}

bool dlk_redis_batch_reply(dlk_redis *redis, dlk_ask *first, const dlk_resp *reply)
{
    size_t count = (size_t)(first->scratch >> COUNT_SHIFT);
    bool with_text = (first->scratch & DLK_REDIS_WITH_TEXT) != 0;
    if (reply->type == DLK_RESP_ERROR && dlk_resp_begins(reply, "NOSCRIPT") &&
        !with_text) {
        send_again(redis, count);
        return true;
    }
    if (reply->type == DLK_RESP_ERROR && dlk_resp_begins(reply, "TRYAGAIN")) {
        send_apart(redis, count);
        return true;
    }
    bool array = reply->type == DLK_RESP_ARRAY && reply->count == count;
    if (!array && reply->type != DLK_RESP_ERROR)
        return false;
    for (size_t i = 0; i < count; i++) {
        dlk_ask *ask = dlk_flight_first(&redis->flight);
        const dlk_resp *own = array ? &reply->items[i] : reply;
        ask->scratch = DLK_REDIS_WITH_TEXT; /* not to be sent again */
        if (own->type == DLK_RESP_ERROR)
            dlk_redis_take_error(redis, ask, own);
        else if (!dlk_redis_take_flag(redis, ask, own))
            return false;
    }
    return true;
}
