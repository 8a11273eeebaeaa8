/* Making, reading and writing replies; see the header. */
#include "replies.h"

#include "util/rand.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put(dlk_buf *out, const char *data, size_t size)
{
    if (!dlk_buf_append(out, data, size))
        abort();
}

__attribute__((format(printf, 2, 3))) static void say(dlk_buf *out, const char *format,
                                                      ...)
{
    char text[64];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    put(out, text, (size_t)size);
}

/* ---- making ---- */

/* What our scripts and the server really say, so that inputs get far with few bytes. */
static const char *const texts[] = {
    "0",
    "1",
    "17",
    "1700000000000001",
    "9223372036854775807",
    "9223372036854775808",
    "",
    "message",
    "subscribe",
    "unsubscribe",
    "redisson_lock__channel:{a}",
    "redisson_lock__channel:{b}",
    "mode",
    "read",
    "a",
    "b",
    "11111111-2222-4333-8444-555555555555:7",
    "hset",
    "time",
    "maxmemory:100\r\nmaxmemory_policy:allkeys-lru\r\naof_enabled:0\r\n",
    "redis_version:7.0.15\r\nmaxmemory:0\r\nrole:slave\r\n"};
static const char *const errors[] = {
    "ERR",
    "NOSCRIPT No matching script.",
    "WRONGTYPE Operation",
    "NOAUTH Authentication",
    "WRONGPASS invalid",
    "NOPERM no",
    "LOADING Redis",
    "BUSY Redis",
    "READONLY You can't",
    "MASTERDOWN Link",
    "OOM command",
    "DLOCKKIND a",
    "DLOCKTOKEN b",
    "DLOCKFULL c",
    "ERR Error running script: WRONGTYPE x",
    "ERR max number of clients reached",
    "ERR unknown command `x`, with args beginning with: `s3cret-pw`",
    "-",
    "MISCONF",
    "DENIED"};
static const int64_t numbers[] = {0, 1, 2, 3, -1, -2, 100, 30000, INT64_MAX, INT64_MIN};

#define PICK(array, byte) (array)[(byte) % (sizeof(array) / sizeof((array)[0]))]

static void make_text(dlk_buf *out, fuzz_bytes *bytes, uint8_t how)
{
    const char *text = PICK(texts, how >> 1);
    fuzz_bytes raw = {(const uint8_t *)text, strlen(text)};
    if (how & 1)
        raw = fuzz_take(bytes, fuzz_byte(bytes) % 32);
    say(out, "$%zu\r\n", raw.left);
    put(out, (const char *)raw.at, raw.left);
    put(out, "\r\n", 2);
}

static void make_line(dlk_buf *out, fuzz_bytes *bytes, char kind, uint8_t how)
{
    put(out, &kind, 1);
    const char *text = kind == '-' ? PICK(errors, how) : how % 2 ? "OK" : "QUEUED";
    put(out, text, strlen(text));
    if (how & 0x80) {
        fuzz_bytes raw = fuzz_take(bytes, fuzz_byte(bytes) % 16);
        for (size_t i = 0; i < raw.left; i++)
            if (raw.at[i] != '\r' && raw.at[i] != '\n')
                put(out, (const char *)raw.at + i, 1);
    }
    put(out, "\r\n", 2);
}

static void make(dlk_buf *out, fuzz_bytes *bytes, int depth)
{
    uint8_t kind = fuzz_byte(bytes), how = fuzz_byte(bytes);
    switch (kind % 8) {
    case 0:
    case 1:
        make_text(out, bytes, how);
        return;
    case 2:
        say(out, ":%" PRId64 "\r\n",
            how & 0x80 ? (int64_t)fuzz_number(bytes, 8) : PICK(numbers, how));
        return;
    case 3:
        make_line(out, bytes, '-', how);
        return;
    case 4:
        make_line(out, bytes, '+', how);
        return;
    case 5:
        put(out, "$-1\r\n", 5);
        return;
    default:
        break;
    }
    int count = depth < 5 ? how % 8 : 0;
    say(out, "*%d\r\n", count);
    for (int i = 0; i < count; i++)
        make(out, bytes, depth + 1);
}

void replies_make(dlk_buf *out, fuzz_bytes *bytes, int count)
{
    for (int i = 0; i < count && bytes->left > 0; i++)
        make(out, bytes, 0);
}

/* ---- writing ---- */

void replies_print(dlk_buf *out, const dlk_resp *reply)
{
    switch (reply->type) {
    case DLK_RESP_NIL:
        put(out, "$-1\r\n", 5);
        return;
    case DLK_RESP_STATUS:
    case DLK_RESP_ERROR:
        put(out, reply->type == DLK_RESP_STATUS ? "+" : "-", 1);
        put(out, reply->text, reply->size);
        put(out, "\r\n", 2);
        return;
    case DLK_RESP_TEXT:
        FUZZ_CHECK(reply->text[reply->size] == '\0', "a text without its end");
        say(out, "$%zu\r\n", reply->size);
        put(out, reply->text, reply->size);
        put(out, "\r\n", 2);
        return;
    case DLK_RESP_INTEGER:
        say(out, ":%" PRId64 "\r\n", reply->integer);
        return;
    case DLK_RESP_ARRAY:
        say(out, "*%zu\r\n", reply->count);
        for (size_t i = 0; i < reply->count; i++)
            replies_print(out, &reply->items[i]);
        return;
    }
}

/* ---- reading ---- */

bool replies_read(dlk_resp_reader *reader, const char *data, size_t size, uint64_t slices,
                  dlk_buf *out)
{
    dlk_rand dice = {.state = slices};
    if (!dlk_resp_reset(reader))
        abort();
    while (size > 0) {
        size_t piece = slices ? (size_t)(dlk_rand_next(&dice) % 24 + 1) : size;
        piece = piece < size ? piece : size;
        if (!dlk_resp_feed(reader, data, piece))
            return false;
        data += piece;
        size -= piece;
        const dlk_resp *reply;
        dlk_resp_got got;
        while ((got = dlk_resp_next(reader, &reply)) == DLK_RESP_ONE)
            replies_print(out, reply);
        if (got == DLK_RESP_BAD) {
            FUZZ_CHECK(dlk_resp_problem(reader)[0], "no reason");
            return false;
        }
    }
    return true;
}
