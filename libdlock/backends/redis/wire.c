/* RESP; see the header. hiredis' reader works with any object functions: ours put the nodes into
 * an arena, refuse long arrays before anything is allocated for them (the reader of 0.14 would
 * take up to 2^31 elements), and make no difference between hiredis' versions. */
#include "backends/redis/wire.h"

#include "util/arena.h"
#include "util/number.h"

#include <hiredis/hiredis.h>
#include <limits.h>
#include <stdlib.h>

#define REPLY_BYTES (8u << 20) /* of one reply on the wire */
#define LINE_BYTES  (1u << 16) /* of a status, an error, a number or a size */
#define ARRAY_ITEMS (1u << 16)
#define ARRAY_DEPTH 7
#define ARENA_BYTES (16u << 20)

struct dlk_resp_reader {
    redisReader *reader;
    size_t pending; /* bytes fed since the last reply: an upper limit of the next one */
    const char *problem;
    dlk_arena arena;
};

static void *take(dlk_resp_reader *reader, size_t size)
{
    void *room = dlk_arena_take(&reader->arena, size);
    if (reader->arena.full)
        reader->problem = "the reply is too large";
    return room;
}

/* ---- What hiredis' reader calls ---- */

static dlk_resp *new_node(const redisReadTask *task, dlk_resp_type type)
{
    dlk_resp *node;
    if (task->parent) {
        dlk_resp *array = task->parent->obj;
        node = &array->items[task->idx];
    } else {
        node = take(task->privdata, sizeof(*node));
    }
    if (node)
        *node = (dlk_resp){.type = type};
    return node;
}

static void *make_text(const redisReadTask *task, char *text, size_t size)
{
    dlk_resp_type type = task->type == REDIS_REPLY_ERROR    ? DLK_RESP_ERROR
                         : task->type == REDIS_REPLY_STATUS ? DLK_RESP_STATUS
                                                            : DLK_RESP_TEXT;
    /* hiredis waits for the end of a bulk, but doesn't look at it. */
    if (task->type == REDIS_REPLY_STRING && memcmp(text + size, "\r\n", 2) != 0) {
        dlk_resp_reader *reader = task->privdata;
        reader->problem = "it is not RESP";
        return NULL;
    }
    dlk_resp *node = new_node(task, type);
    char *copy = node ? take(task->privdata, size + 1) : NULL;
    if (!copy)
        return NULL;
    memcpy(copy, text, size);
    copy[size] = '\0';
    node->text = copy;
    node->size = size;
    return node;
}

#if HIREDIS_MAJOR >= 1
static void *make_array(const redisReadTask *task, size_t count)
#else
static void *make_array(const redisReadTask *task, int count)
#endif
{
    dlk_resp_reader *reader = task->privdata;
    int depth = 1;
    for (const redisReadTask *up = task->parent; up; up = up->parent)
        depth++;
    if ((size_t)count > ARRAY_ITEMS || depth > ARRAY_DEPTH) {
        reader->problem = "the reply is too large";
        return NULL;
    }
    dlk_resp *node = new_node(task, DLK_RESP_ARRAY);
    if (!node)
        return NULL;
    node->count = (size_t)count;
    node->items = take(reader, (node->count + 1) * sizeof(*node->items));
    if (!node->items)
        return NULL;
    memset(node->items, 0, node->count * sizeof(*node->items)); /* all NIL until read */
    return node;
}

static void *make_integer(const redisReadTask *task, long long value)
{
    dlk_resp *node = new_node(task, DLK_RESP_INTEGER);
    if (node)
        node->integer = value;
    return node;
}

static void *make_nil(const redisReadTask *task)
{
    return new_node(task, DLK_RESP_NIL);
}

#if HIREDIS_MAJOR >= 1
/* Types of RESP3, which we never ask for. Left out of the table they would be made up. */
static void *make_double(const redisReadTask *task, double value, char *text, size_t size)
{
    (void)value, (void)text, (void)size;
    dlk_resp_reader *reader = task->privdata;
    reader->problem = "it is RESP3, which was not asked for";
    return NULL;
}

static void *make_bool(const redisReadTask *task, int value)
{
    return make_double(task, value, NULL, 0);
}
#endif

static void forget(void *node)
{
    (void)node; /* the arena has it */
}

static redisReplyObjectFunctions functions = {
    .createString = make_text,
    .createArray = make_array,
    .createInteger = make_integer,
    .createNil = make_nil,
    .freeObject = forget,
#if HIREDIS_MAJOR >= 1
    .createDouble = make_double,
    .createBool = make_bool,
#endif
};

/* ---- The reader ---- */

dlk_resp_reader *dlk_resp_new(void)
{
    dlk_resp_reader *reader = calloc(1, sizeof(*reader));
    if (!reader)
        return NULL;
    reader->arena.most = ARENA_BYTES;
    if (!dlk_resp_reset(reader)) {
        dlk_resp_free(reader);
        return NULL;
    }
    return reader;
}

void dlk_resp_free(dlk_resp_reader *reader)
{
    if (!reader)
        return;
    dlk_arena_free(&reader->arena);
    if (reader->reader)
        redisReaderFree(reader->reader);
    free(reader);
}

bool dlk_resp_reset(dlk_resp_reader *reader)
{
    dlk_arena_reset(&reader->arena);
    reader->pending = 0;
    reader->problem = NULL;
    if (reader->reader)
        redisReaderFree(reader->reader);
    reader->reader = redisReaderCreateWithFunctions(&functions);
    if (!reader->reader)
        return false;
    reader->reader->privdata = reader; /* hiredis' macro for it casts a pointer to int */
    return true;
}

bool dlk_resp_feed(dlk_resp_reader *reader, const char *data, size_t size)
{
    reader->pending += size;
    if (reader->pending > REPLY_BYTES) {
        reader->problem = "the reply is too large";
        return false;
    }
    return redisReaderFeed(reader->reader, data, size) == REDIS_OK;
}

/* hiredis looks at the whole of a line that has no end yet whenever a piece of it comes: one of
 * megabytes in small pieces would keep the client busy for minutes. */
static bool line_goes_on(dlk_resp_reader *reader)
{
    const redisReader *from = reader->reader;
    if (from->len - from->pos < LINE_BYTES ||
        memchr(from->buf + from->pos, '\n', LINE_BYTES))
        return false;
    reader->problem = "the reply is too large";
    return true;
}

dlk_resp_got dlk_resp_next(dlk_resp_reader *reader, const dlk_resp **ret)
{
    /* A reply that began in an earlier burst has its nodes in the arena already. */
    if (!redisReaderGetObject(reader->reader))
        dlk_arena_reset(&reader->arena);
    void *reply = NULL;
    if (redisReaderGetReply(reader->reader, &reply) != REDIS_OK)
        return DLK_RESP_BAD;
    if (!reply)
        return line_goes_on(reader) ? DLK_RESP_BAD : DLK_RESP_MORE;
    reader->pending = reader->reader->len - reader->reader->pos;
    *ret = reply;
    return DLK_RESP_ONE;
}

const char *dlk_resp_problem(const dlk_resp_reader *reader)
{
    if (reader->problem)
        return reader->problem;
    return dlk_resp_out_of_memory(reader) ? "out of memory" : "it is not RESP";
}

bool dlk_resp_out_of_memory(const dlk_resp_reader *reader)
{
    return !reader->problem && reader->reader && reader->reader->err == REDIS_ERR_OOM;
}

bool dlk_resp_begins(const dlk_resp *resp, const char *word)
{
    size_t size = strlen(word);
    return resp->size >= size && memcmp(resp->text, word, size) == 0 &&
           (resp->size == size || resp->text[size] == ' ');
}

bool dlk_resp_decimal(const dlk_resp *resp, int64_t *ret)
{
    return resp->type == DLK_RESP_TEXT && resp->size < DLK_DIGITS_MAX &&
           dlk_number_read(resp->text, resp->size, 0, INT64_MAX, ret);
}

/* ---- Writing ---- */

static inline char *end_line(char *to)
{
    *to++ = '\r';
    *to++ = '\n';
    return to;
}

/* A line with a size; nearly all have one digit or two. */
static inline char *put_size(char *to, char type, size_t size)
{
    *to++ = type;
    if (size >= 100)
        return end_line(dlk_digits_put(to, size));
    if (size >= 10)
        *to++ = (char)('0' + size / 10);
    *to++ = (char)('0' + size % 10);
    return end_line(to);
}

char *dlk_resp_count(char *to, size_t args)
{
    return put_size(to, '*', args);
}

char *dlk_resp_bulk_begin(char *to, size_t size)
{
    return put_size(to, '$', size);
}

char *dlk_resp_bulk_end(char *to)
{
    return end_line(to);
}

char *dlk_resp_bulk(char *to, const char *data, size_t size)
{
    to = put_size(to, '$', size);
    if (size > 0)
        memcpy(to, data, size);
    return end_line(to + size);
}

char *dlk_resp_bulk_number(char *to, uint64_t number)
{
    char digits[DLK_DIGITS_MAX];
    size_t size = (size_t)(dlk_digits_put(digits, number) - digits);
    return dlk_resp_bulk(to, digits, size);
}

bool dlk_resp_command(dlk_buf *out, const dlk_arg *args, size_t count)
{
    size_t size = DLK_RESP_OVERHEAD;
    for (size_t i = 0; i < count; i++)
        size += args[i].size + DLK_RESP_OVERHEAD;
    char *begin = dlk_buf_room(out, size);
    if (!begin)
        return false;
    char *to = dlk_resp_count(begin, count);
    for (size_t i = 0; i < count; i++)
        to = dlk_resp_bulk(to, args[i].data, args[i].size);
    dlk_buf_added(out, (size_t)(to - begin));
    return true;
}
