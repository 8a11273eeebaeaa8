/* RESP, Redis' protocol: commands are written by our own few lines, replies are taken apart by
 * hiredis' reader into nodes that live in one arena until the next reply. Array lengths, the
 * number of nodes and the size of a reply are limited: a peer can't make us allocate at will. */
#ifndef DLK_BACKENDS_REDIS_WIRE_H
#define DLK_BACKENDS_REDIS_WIRE_H

#include "util/buf.h"
#include "util/digits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef enum dlk_resp_type {
    DLK_RESP_NIL,
    DLK_RESP_STATUS,
    DLK_RESP_ERROR,
    DLK_RESP_TEXT,
    DLK_RESP_INTEGER,
    DLK_RESP_ARRAY,
} dlk_resp_type;

typedef struct dlk_resp dlk_resp;
struct dlk_resp {
    dlk_resp_type type;
    int64_t integer;
    const char *text; /* of status, error and text; a NUL follows, others may be inside */
    size_t size;
    dlk_resp *items; /* of an array */
    size_t count;
};

typedef struct dlk_resp_reader dlk_resp_reader;

dlk_resp_reader *dlk_resp_new(void); /* NULL without memory */
void dlk_resp_free(dlk_resp_reader *reader);
/* Forgets everything, for a new connection; false without memory. */
bool dlk_resp_reset(dlk_resp_reader *reader);
/* False when memory or the limit of a reply is used up. */
bool dlk_resp_feed(dlk_resp_reader *reader, const char *data, size_t size);

typedef enum dlk_resp_got {
    DLK_RESP_ONE,  /* *ret is a reply, valid until the next call */
    DLK_RESP_MORE, /* nothing complete yet */
    DLK_RESP_BAD,  /* this isn't RESP, or too much of it: dlk_resp_problem */
} dlk_resp_got;

dlk_resp_got dlk_resp_next(dlk_resp_reader *reader, const dlk_resp **ret);
const char *dlk_resp_problem(const dlk_resp_reader *reader);
/* Whether that was no fault of the peer's. */
bool dlk_resp_out_of_memory(const dlk_resp_reader *reader);

/* Does the text begin with @p word? For errors, whose first word is their kind. */
bool dlk_resp_begins(const dlk_resp *resp, const char *word);
/* All digits, and in the range of a positive int64_t. */
bool dlk_resp_decimal(const dlk_resp *resp, int64_t *ret);

/* A text without a NUL inside, which would be its end to whoever takes it for a string. */
static inline bool dlk_resp_plain(const dlk_resp *resp)
{
    return resp->type == DLK_RESP_TEXT && strlen(resp->text) == resp->size;
}

/* One argument of a command. */
typedef struct dlk_arg {
    const char *data;
    size_t size;
} dlk_arg;

static inline dlk_arg dlk_arg_text(const char *text)
{
    return (dlk_arg){text, strlen(text)};
}

/* Not negative; the digits are the caller's to keep. */
static inline dlk_arg dlk_arg_number(int64_t number, char digits[DLK_DIGITS_MAX])
{
    return (dlk_arg){digits, (size_t)(dlk_digits_put(digits, (uint64_t)number) - digits)};
}

/* Appends a whole command; false without memory, and then nothing of it. */
bool dlk_resp_command(dlk_buf *out, const dlk_arg *args, size_t count);

/* The pieces of one, for those who know the size beforehand. They answer where they ended. */
#define DLK_RESP_OVERHEAD                                                                \
    ((size_t)DLK_DIGITS_MAX + 5)             /* what a bulk needs besides its data */
char *dlk_resp_count(char *to, size_t args); /* "*3\r\n" */
char *dlk_resp_bulk(char *to, const char *data, size_t size); /* "$2\r\nab\r\n" */
char *dlk_resp_bulk_number(char *to, uint64_t number);
/* A bulk of this size whose data the caller puts between the two. */
char *dlk_resp_bulk_begin(char *to, size_t size); /* "$2\r\n" */
char *dlk_resp_bulk_end(char *to);                /* "\r\n" */

#endif
