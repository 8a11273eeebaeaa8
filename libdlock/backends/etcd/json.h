/* What the gateway speaks: JSON in which bytes are base64 and 64-bit numbers are strings, and what
 * is 0, false or empty is left out. */
#ifndef DLK_BACKENDS_ETCD_JSON_H
#define DLK_BACKENDS_ETCD_JSON_H

#include "jansson_calls.h"
#include "util/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that may hold anything, with a '\0' behind them that doesn't count. */
typedef struct dlk_bytes {
    char *data; /* NULL: no memory */
    size_t size;
} dlk_bytes;

/* Yours to free(); NULL without memory. */
char *dlk_base64(const void *data, size_t size);
char *dlk_base64_text(const char *text);
/* data NULL: it is none, or there is no memory. */
dlk_bytes dlk_base64_decode(const char *text);

/* Appends; false without memory, and `failed` stays set. */
typedef struct dlk_say {
    dlk_buf buf;
    bool failed;
} dlk_say;
void dlk_say_text(dlk_say *say, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* As text, yours to free(); NULL when anything failed. */
char *dlk_say_end(dlk_say *say);

/* Its own json_decref() is inline and would call json_delete() past what is loaded (util/loaded.h). */
void dlk_json_unref(json_t *json);

/* 0, "" and NULL stand for what isn't there. */
int64_t dlk_json_int(const json_t *object, const char *key);
const char *dlk_json_text(const json_t *object, const char *key);
bool dlk_json_true(const json_t *object, const char *key);

/* The answer to the n-th request of a transaction, as "response_range"; NULL: none. */
json_t *dlk_json_response(const json_t *txn, size_t index, const char *what);
/* The keys that a range has found. */
size_t dlk_json_kv_count(const json_t *range);
json_t *dlk_json_kv(const json_t *range, size_t index);

#endif
