/* memcached's text protocol, as far as locks need it: the meta commands of 1.6 and the classic
 * ones before them. Requests are appended to a buffer, replies are taken from one; both kinds of
 * answers come out alike. Knows nothing of locks. */
#ifndef DLK_BACKENDS_MEMCACHED_WIRE_H
#define DLK_BACKENDS_MEMCACHED_WIRE_H

#include "util/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DLK_MC_KEY_MAX 250
/* The largest items of a server that isn't told otherwise; a line of a reply is far shorter. */
#define DLK_MC_VALUE_MAX (1024 * 1024)
#define DLK_MC_LINE_MAX  2048
/* More seconds than these mean a date. */
#define DLK_MC_SECONDS_MAX 2592000

typedef enum dlk_mc_kind {
    DLK_MC_DONE,         /* stored, deleted; `cas` where a store says it, else 0 */
    DLK_MC_NOT_STORED,   /* an add found something */
    DLK_MC_CHANGED,      /* another store came in between: the number isn't the item's */
    DLK_MC_GONE,         /* there is nothing; also the end of statistics */
    DLK_MC_VALUE,        /* `text`, `cas`, `left` */
    DLK_MC_STAT,         /* `name` and `text` */
    DLK_MC_BARRIER,      /* the answer to mn */
    DLK_MC_VERSION,      /* `text` */
    DLK_MC_UNKNOWN,      /* ERROR: no such command; `text` in case it says more */
    DLK_MC_CLIENT_ERROR, /* `text`: what we said makes no sense to it */
    DLK_MC_SERVER_ERROR, /* `text`: it can't */
} dlk_mc_kind;

typedef struct dlk_mc_reply {
    dlk_mc_kind kind;
    uint64_t cas;
    int64_t left; /* seconds until it expires, rounded up; -1: never, or it wasn't said */
    const char *text; /* in the buffer, without an end */
    size_t size;
    const char *name;
    size_t name_size;
} dlk_mc_reply;

typedef enum dlk_mc_got {
    DLK_MC_ONE,  /* *ret is a reply of *ret_used bytes */
    DLK_MC_MORE, /* nothing complete yet */
    DLK_MC_BAD,  /* this isn't memcached's protocol, or too much of it */
} dlk_mc_got;

dlk_mc_got dlk_mc_parse(const char *data, size_t size, dlk_mc_reply *ret,
                        size_t *ret_used);

/* Is the reply's name, or text, this one? */
bool dlk_mc_name_is(const dlk_mc_reply *reply, const char *name);
bool dlk_mc_text_is(const dlk_mc_reply *reply, const char *text);
/* The reply's text as a number; false when it isn't one. */
bool dlk_mc_number(const dlk_mc_reply *reply, int64_t *ret);

typedef struct dlk_mc_text {
    const char *data;
    size_t size;
} dlk_mc_text;

/* All of these append one request; false without memory, and then nothing of it. With @p cas 0 a
 * store is an add. A classic store doesn't say the number of what it has stored. */
bool dlk_mc_put_store(dlk_buf *out, bool meta, dlk_mc_text key, dlk_mc_text value,
                      int64_t seconds, uint64_t cas);
bool dlk_mc_put_read(dlk_buf *out, bool meta, dlk_mc_text key);
/* Deletes that item and no other. */
bool dlk_mc_put_drop(dlk_buf *out, bool meta, dlk_mc_text key, uint64_t cas);
bool dlk_mc_put_line(dlk_buf *out, const char *line);

#endif
