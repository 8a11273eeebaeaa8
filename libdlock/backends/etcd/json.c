/* Base64, and small steps in JSON; see the header. */
#include "backends/etcd/json.h"

#include "util/number.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *dlk_base64(const void *data, size_t size)
{
    const unsigned char *in = data;
    char *text = malloc((size + 2) / 3 * 4 + 1), *out = text;
    if (!text)
        return NULL;
    for (size_t i = 0; i < size; i += 3) {
        uint32_t bits = (uint32_t)in[i] << 16;
        if (i + 1 < size)
            bits |= (uint32_t)in[i + 1] << 8;
        if (i + 2 < size)
            bits |= in[i + 2];
        *out++ = digits[bits >> 18];
        *out++ = digits[bits >> 12 & 63];
        *out++ = i + 1 < size ? digits[bits >> 6 & 63] : '=';
        *out++ = i + 2 < size ? digits[bits & 63] : '=';
    }
    *out = '\0';
    return text;
}

char *dlk_base64_text(const char *text)
{
    return dlk_base64(text, strlen(text));
}

dlk_bytes dlk_base64_decode(const char *text)
{
    size_t size = strlen(text), used = 0;
    uint32_t bits = 0;
    int have = 0;
    dlk_bytes bytes = {.data = malloc(size / 4 * 3 + 4)};
    for (size_t i = 0; bytes.data && i < size && text[i] != '='; i++) {
        const char *digit = memchr(digits, text[i], sizeof(digits) - 1);
        if (!digit) {
            free(bytes.data);
            return (dlk_bytes){0};
        }
        bits = bits << 6 | (uint32_t)(digit - digits);
        have += 6;
        if (have >= 8) {
            have -= 8;
            bytes.data[used++] = (char)(bits >> have & 0xff);
        }
    }
    if (bytes.data) {
        bytes.data[used] = '\0';
        bytes.size = used;
    }
    return bytes;
}

/* Most of what is said fits into this. */
#define ROOM 1024

void dlk_say_text(dlk_say *say, const char *format, ...)
{
    va_list args, again;
    char *room = dlk_buf_room(&say->buf, ROOM);
    va_start(args, format);
    va_copy(again, args);
    int size = room ? vsnprintf(room, ROOM, format, args) : -1;
    if (size >= ROOM && (room = dlk_buf_room(&say->buf, (size_t)size + 1)))
        (void)vsnprintf(room, (size_t)size + 1, format, again);
    if (size < 0 || !room)
        say->failed = true;
    else
        dlk_buf_added(&say->buf, (size_t)size);
    va_end(again);
    va_end(args);
}

char *dlk_say_end(dlk_say *say)
{
    char *text =
        say->failed ? NULL : strndup(dlk_buf_head(&say->buf), dlk_buf_size(&say->buf));
    if (say->buf.data)
        explicit_bzero(say->buf.data, say->buf.capacity); /* it may be a password */
    dlk_buf_free(&say->buf);
    return text;
}

void dlk_json_unref(json_t *json)
{
    const size_t for_ever = (size_t)-1; /* of its constants */
    if (json && json->refcount != for_ever &&
        __atomic_sub_fetch(&json->refcount, 1, __ATOMIC_ACQ_REL) == 0)
        json_delete(json);
}

int64_t dlk_json_int(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (json_is_integer(value))
        return json_integer_value(value);
    if (!json_is_string(value))
        return 0;
    return dlk_number_or(json_string_value(value), INT64_MIN, INT64_MAX, 0);
}

const char *dlk_json_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

bool dlk_json_true(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

json_t *dlk_json_response(const json_t *txn, size_t index, const char *what)
{
    return json_object_get(json_array_get(json_object_get(txn, "responses"), index),
                           what);
}

size_t dlk_json_kv_count(const json_t *range)
{
    return json_array_size(json_object_get(range, "kvs"));
}

json_t *dlk_json_kv(const json_t *range, size_t index)
{
    return json_array_get(json_object_get(range, "kvs"), index);
}
