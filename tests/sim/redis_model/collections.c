/* Hashes, lists and sorted sets of the model: what our scripts call of them, and no more. */
#include "model.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_INTEGER "ERR value is not an integer or out of range"
#define NO_FLOAT   "ERR value is not a valid float"

/* How many items; -1, and an error for an answer: another type's. */
static int64_t size_of(model *m, const dlk_arg *name, model_type type, dlk_buf *answer)
{
    bool fine;
    const model_key *key = model_typed(m, name, type, &fine, answer);
    return fine ? (key ? (int64_t)key->count : 0) : -1;
}

static void answer_size(model *m, const dlk_arg *name, model_type type, dlk_buf *answer)
{
    int64_t size = size_of(m, name, type, answer);
    if (size >= 0)
        model_answer_integer(answer, size);
}

/* ---- hashes ---- */

static void hset(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    int64_t made = 0;
    if (count % 2 != 0) {
        model_answer_error(answer, "ERR wrong number of arguments for 'hset' command");
        return;
    }
    model_key *key = model_typed_or_new(m, &args[1], MODEL_HASH, answer);
    if (!key)
        return;
    for (size_t i = 2; i < count; i += 2) {
        model_item *item = model_item_of(key, &args[i]);
        if (!item) {
            made++;
            item = model_insert(key, key->count);
            model_set(&item->name, args[i].data, args[i].size);
        }
        model_set(&item->value, args[i + 1].data, args[i + 1].size);
    }
    model_answer_integer(answer, made);
}

static void hsetnx(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    bool fine;
    const model_key *key = model_typed(m, &args[1], MODEL_HASH, &fine, answer);
    if (!fine)
        return;
    if (key && model_item_of(key, &args[2]))
        model_answer_integer(answer, 0);
    else
        hset(m, args, count, answer);
}

static void hget(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    bool fine;
    (void)count;
    const model_key *key = model_typed(m, &args[1], MODEL_HASH, &fine, answer);
    const model_item *item = model_item_of(key, &args[2]);
    if (item)
        model_answer_bulk(answer, &item->value);
    else if (fine)
        model_answer_nil(answer);
}

static void hmget(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    bool fine;
    const model_key *key = model_typed(m, &args[1], MODEL_HASH, &fine, answer);
    if (!fine)
        return;
    model_answer_array(answer, count - 2);
    for (size_t i = 2; i < count; i++) {
        const model_item *item = model_item_of(key, &args[i]);
        if (item)
            model_answer_bulk(answer, &item->value);
        else
            model_answer_nil(answer);
    }
}

static void hexists(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    bool fine;
    (void)count;
    const model_key *key = model_typed(m, &args[1], MODEL_HASH, &fine, answer);
    if (fine)
        model_answer_integer(answer, model_item_of(key, &args[2]) != NULL);
}

static void hdel(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    bool fine;
    int64_t gone = 0;
    model_key *key = model_typed(m, &args[1], MODEL_HASH, &fine, answer);
    if (!fine)
        return;
    for (size_t i = 2; key && i < count; i++) {
        const model_item *item = model_item_of(key, &args[i]);
        if (!item)
            continue;
        gone++;
        bool last = key->count == 1;
        model_remove(m, key, (size_t)(item - key->items));
        if (last)
            break;
    }
    model_answer_integer(answer, gone);
}

static void hlen(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    (void)count;
    answer_size(m, &args[1], MODEL_HASH, answer);
}

static void answer_hash(model *m, const dlk_arg *name, bool names, bool values,
                        dlk_buf *answer)
{
    bool fine;
    const model_key *key = model_typed(m, name, MODEL_HASH, &fine, answer);
    if (!fine)
        return;
    size_t count = key ? key->count : 0;
    model_answer_array(answer, count * ((size_t)names + (size_t)values));
    for (size_t i = 0; i < count; i++) {
        if (names)
            model_answer_bulk(answer, &key->items[i].name);
        if (values)
            model_answer_bulk(answer, &key->items[i].value);
    }
}

static void hkeys(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    (void)count;
    answer_hash(m, &args[1], true, false, answer);
}

static void hvals(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    (void)count;
    answer_hash(m, &args[1], false, true, answer);
}

static void hgetall(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    (void)count;
    answer_hash(m, &args[1], true, true, answer);
}

static void hincrby(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    bool fine;
    int64_t by, value = 0;
    char text[24];
    (void)count;
    if (!model_integer(&args[3], &by)) {
        model_answer_error(answer, NO_INTEGER);
        return;
    }
    model_key *key = model_typed(m, &args[1], MODEL_HASH, &fine, answer);
    if (!fine)
        return;
    model_item *item = model_item_of(key, &args[2]);
    if (item && !model_integer(&item->value, &value)) {
        model_answer_error(answer, "ERR hash value is not an integer");
        return;
    }
    if (by > 0 ? value > INT64_MAX - by : value < INT64_MIN - by) {
        model_answer_error(answer, "ERR increment or decrement would overflow");
        return;
    }
    if (!key)
        key = model_make(m, &args[1], MODEL_HASH);
    if (!item) {
        item = model_insert(key, key->count);
        model_set(&item->name, args[2].data, args[2].size);
    }
    int size = snprintf(text, sizeof(text), "%" PRId64, value + by);
    model_set(&item->value, text, (size_t)size);
    model_answer_integer(answer, value + by);
}

/* ---- ranges, of lists and sorted sets by rank ---- */

/* False: nothing lies in it. */
static bool range(int64_t size, int64_t *from, int64_t *to)
{
    *from = *from < 0 ? *from + size : *from;
    *to = *to < 0 ? *to + size : *to;
    *from = *from < 0 ? 0 : *from;
    *to = *to >= size ? size - 1 : *to;
    return *from <= *to;
}

static void answer_range(model *m, const dlk_arg *args, size_t count, model_type type,
                         dlk_buf *answer)
{
    bool fine, scores = count == 5 && model_is(&args[4], "WITHSCORES");
    int64_t from, to;
    if (count > 4 && !(type == MODEL_ZSET && scores && count == 5))
        model_missing("this form of a range", args, count);
    if (!model_integer(&args[2], &from) || !model_integer(&args[3], &to)) {
        model_answer_error(answer, NO_INTEGER);
        return;
    }
    const model_key *key = model_typed(m, &args[1], type, &fine, answer);
    if (!fine)
        return;
    if (!key || !range((int64_t)key->count, &from, &to)) {
        model_answer_array(answer, 0);
        return;
    }
    model_answer_array(answer, (size_t)(to - from + 1) * (scores ? 2 : 1));
    for (; from <= to; from++) {
        model_answer_bulk(answer, &key->items[from].name);
        if (scores)
            model_answer_score(answer, key->items[from].score);
    }
}

/* ---- lists ---- */

static void push(model *m, const dlk_arg *args, size_t count, bool back, dlk_buf *answer)
{
    model_key *key = model_typed_or_new(m, &args[1], MODEL_LIST, answer);
    if (!key)
        return;
    for (size_t i = 2; i < count; i++) {
        model_item *item = model_insert(key, back ? key->count : 0);
        model_set(&item->name, args[i].data, args[i].size);
    }
    model_answer_integer(answer, (int64_t)key->count);
}

static void rpush(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    push(m, args, count, true, answer);
}

static void lpush(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    push(m, args, count, false, answer);
}

static void lpop(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    bool fine;
    (void)count;
    model_key *key = model_typed(m, &args[1], MODEL_LIST, &fine, answer);
    if (!fine)
        return;
    if (!key) {
        model_answer_nil(answer);
        return;
    }
    model_answer_bulk(answer, &key->items[0].name);
    model_remove(m, key, 0);
}

static void lindex(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    bool fine;
    int64_t at;
    (void)count;
    const model_key *key = model_typed(m, &args[1], MODEL_LIST, &fine, answer);
    if (!fine)
        return;
    if (!model_integer(&args[2], &at)) {
        model_answer_error(answer, NO_INTEGER);
        return;
    }
    int64_t size = key ? (int64_t)key->count : 0;
    at = at < 0 ? at + size : at;
    if (at >= 0 && at < size)
        model_answer_bulk(answer, &key->items[at].name);
    else
        model_answer_nil(answer);
}

static void llen(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    (void)count;
    answer_size(m, &args[1], MODEL_LIST, answer);
}

static void lrange(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    answer_range(m, args, count, MODEL_LIST, answer);
}

/* LREM key n value: the first n (0: all), of the end where n is negative. */
static void lrem(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    bool fine;
    int64_t most, gone = 0;
    (void)count;
    if (!model_integer(&args[2], &most)) {
        model_answer_error(answer, NO_INTEGER);
        return;
    }
    model_key *key = model_typed(m, &args[1], MODEL_LIST, &fine, answer);
    if (!fine)
        return;
    bool backwards = most < 0;
    most = most == 0 ? INT64_MAX : backwards ? -most : most;
    size_t left = key ? key->count : 0, at = backwards ? left : 0;
    for (; left > 0 && gone < most; left--) {
        at -= backwards;
        if (!model_same(&key->items[at].name, &args[3])) {
            at += !backwards;
            continue;
        }
        gone++;
        bool last = key->count == 1;
        model_remove(m, key, at);
        if (last)
            break;
    }
    model_answer_integer(answer, gone);
}

/* LPOS key value: the first, with no options. */
static void lpos(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    bool fine;
    (void)count;
    const model_key *key = model_typed(m, &args[1], MODEL_LIST, &fine, answer);
    const model_item *item = model_item_of(key, &args[2]);
    if (item)
        model_answer_integer(answer, item - key->items);
    else if (fine)
        model_answer_nil(answer);
}

/* ---- sorted sets ---- */

static bool score_of(const dlk_arg *text, double *ret)
{
    char copy[64] = {0}, *end;
    if (text->size == 0 || text->size >= sizeof(copy))
        return false;
    memcpy(copy, text->data, text->size);
    *ret = strtod(copy, &end);
    return *end == '\0' && !isnan(*ret) && copy[0] != ' ';
}

/* ZADD key [NX|XX] [GT|LT] [CH] score member … */
static void zadd(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    bool only_new = false, only_old = false, greater = false, less = false,
         changed = false;
    bool fine;
    size_t i = 2;
    int64_t made = 0, moved = 0;
    for (; i < count; i++) {
        if (model_is(&args[i], "NX"))
            only_new = true;
        else if (model_is(&args[i], "XX"))
            only_old = true;
        else if (model_is(&args[i], "GT"))
            greater = true;
        else if (model_is(&args[i], "LT"))
            less = true;
        else if (model_is(&args[i], "CH"))
            changed = true;
        else
            break;
    }
    if (i == count || (count - i) % 2 != 0) {
        model_answer_error(answer, "ERR syntax error");
        return;
    }
    double score;
    for (size_t at = i; at < count; at += 2)
        if (!score_of(&args[at], &score)) {
            model_answer_error(answer, NO_FLOAT);
            return;
        }
    model_key *key = model_typed(m, &args[1], MODEL_ZSET, &fine, answer);
    if (!fine)
        return;
    for (; i < count; i += 2) {
        (void)score_of(&args[i], &score); /* looked at above */
        const model_item *item = model_item_of(key, &args[i + 1]);
        if (item ? only_new : only_old)
            continue;
        if (item && ((greater && score <= item->score) || (less && score >= item->score)))
            continue;
        made += !item;
        moved += item && item->score != score;
        if (!key)
            key = model_make(m, &args[1], MODEL_ZSET);
        model_put_score(m, key, &args[i + 1], score);
    }
    model_answer_integer(answer, changed ? made + moved : made);
}

static void zincrby(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    double by;
    (void)count;
    if (!score_of(&args[2], &by)) {
        model_answer_error(answer, NO_FLOAT);
        return;
    }
    model_key *key = model_typed_or_new(m, &args[1], MODEL_ZSET, answer);
    if (!key)
        return;
    const model_item *item = model_item_of(key, &args[3]);
    double score = (item ? item->score : 0) + by;
    model_put_score(m, key, &args[3], score);
    model_answer_score(answer, score);
}

static void zrem(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    bool fine;
    int64_t gone = 0;
    model_key *key = model_typed(m, &args[1], MODEL_ZSET, &fine, answer);
    if (!fine)
        return;
    for (size_t i = 2; key && i < count; i++) {
        const model_item *item = model_item_of(key, &args[i]);
        if (!item)
            continue;
        gone++;
        bool last = key->count == 1;
        model_remove(m, key, (size_t)(item - key->items));
        if (last)
            break;
    }
    model_answer_integer(answer, gone);
}

static void zscore(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    bool fine;
    (void)count;
    const model_key *key = model_typed(m, &args[1], MODEL_ZSET, &fine, answer);
    const model_item *item = model_item_of(key, &args[2]);
    if (item)
        model_answer_score(answer, item->score);
    else if (fine)
        model_answer_nil(answer);
}

static void zrank(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    bool fine;
    (void)count;
    const model_key *key = model_typed(m, &args[1], MODEL_ZSET, &fine, answer);
    const model_item *item = model_item_of(key, &args[2]);
    if (item)
        model_answer_integer(answer, item - key->items);
    else if (fine)
        model_answer_nil(answer);
}

static void zcard(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    (void)count;
    answer_size(m, &args[1], MODEL_ZSET, answer);
}

static void zrange(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    answer_range(m, args, count, MODEL_ZSET, answer);
}

/* "5", "(5", "-inf", "+inf" */
static bool bound(const dlk_arg *text, double *ret, bool *without)
{
    *without = text->size > 0 && text->data[0] == '(';
    dlk_arg number = {text->data + *without, text->size - *without};
    if (model_is(&number, "-inf") || model_is(&number, "+inf") ||
        model_is(&number, "inf")) {
        *ret = number.data[0] == '-' ? -INFINITY : INFINITY;
        return true;
    }
    return score_of(&number, ret);
}

/* The ranks between two scores; false: an error was answered. */
static bool between_scores(const model_key *key, const dlk_arg *low, const dlk_arg *high,
                           size_t *from, size_t *to, dlk_buf *answer)
{
    double least, most;
    bool above, below;
    if (!bound(low, &least, &above) || !bound(high, &most, &below)) {
        model_answer_error(answer, "ERR min or max is not a float");
        return false;
    }
    size_t count = key ? key->count : 0;
    *from = 0;
    while (*from < count &&
           (above ? key->items[*from].score <= least : key->items[*from].score < least))
        ++*from;
    *to = *from;
    while (*to < count &&
           (below ? key->items[*to].score < most : key->items[*to].score <= most))
        ++*to;
    return true;
}

/* ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count] */
static void zrangebyscore(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    bool fine, scores = false;
    int64_t skip = 0, most = -1;
    size_t from, to;
    for (size_t i = 4; i < count; i++) {
        if (model_is(&args[i], "WITHSCORES"))
            scores = true;
        else if (model_is(&args[i], "LIMIT") && i + 2 < count &&
                 model_integer(&args[i + 1], &skip) && model_integer(&args[i + 2], &most))
            i += 2;
        else
            model_missing("this form of a range", args, count);
    }
    const model_key *key = model_typed(m, &args[1], MODEL_ZSET, &fine, answer);
    if (!fine || !between_scores(key, &args[2], &args[3], &from, &to, answer))
        return;
    from = (size_t)skip > to - from ? to : from + (size_t)skip;
    if (most >= 0 && (size_t)most < to - from)
        to = from + (size_t)most;
    model_answer_array(answer, (to - from) * (scores ? 2 : 1));
    for (; from < to; from++) {
        model_answer_bulk(answer, &key->items[from].name);
        if (scores)
            model_answer_score(answer, key->items[from].score);
    }
}

static void zcount(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    bool fine;
    size_t from, to;
    (void)count;
    const model_key *key = model_typed(m, &args[1], MODEL_ZSET, &fine, answer);
    if (fine && between_scores(key, &args[2], &args[3], &from, &to, answer))
        model_answer_integer(answer, (int64_t)(to - from));
}

static void zremrangebyscore(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    bool fine;
    size_t from, to;
    (void)count;
    model_key *key = model_typed(m, &args[1], MODEL_ZSET, &fine, answer);
    if (!fine || !between_scores(key, &args[2], &args[3], &from, &to, answer))
        return;
    model_answer_integer(answer, (int64_t)(to - from));
    for (; to > from; to--)
        model_remove(m, key, to - 1);
}

const model_entry model_collections[] = {
    {"hset", -4, true, hset},
    {"hsetnx", 4, true, hsetnx},
    {"hget", 3, true, hget},
    {"hmget", -3, true, hmget},
    {"hexists", 3, true, hexists},
    {"hdel", -3, true, hdel},
    {"hlen", 2, true, hlen},
    {"hkeys", 2, true, hkeys},
    {"hvals", 2, true, hvals},
    {"hgetall", 2, true, hgetall},
    {"hincrby", 4, true, hincrby},
    {"rpush", -3, true, rpush},
    {"lpush", -3, true, lpush},
    {"lpop", 2, true, lpop},
    {"lindex", 3, true, lindex},
    {"llen", 2, true, llen},
    {"lrange", 4, true, lrange},
    {"lrem", 4, true, lrem},
    {"lpos", 3, true, lpos},
    {"zadd", -4, true, zadd},
    {"zincrby", 4, true, zincrby},
    {"zrem", -3, true, zrem},
    {"zscore", 3, true, zscore},
    {"zrank", 3, true, zrank},
    {"zcard", 2, true, zcard},
    {"zrange", -4, true, zrange},
    {"zrangebyscore", -4, true, zrangebyscore},
    {"zcount", 4, true, zcount},
    {"zremrangebyscore", 4, true, zremrangebyscore},
};
const size_t model_collection_count =
    sizeof(model_collections) / sizeof(model_collections[0]);
