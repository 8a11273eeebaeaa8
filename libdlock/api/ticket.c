/* Tickets as text; see the header. */
#include "api/ticket.h"

#include "util/error.h"
#include "util/hash.h"
#include "util/kind.h"
#include "util/number.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Nothing that a ticket counts is longer. */
#define NUMBER_MAX INT64_C(999999999999999)

static const char letters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* base64url without padding (RFC 4648, 5). */
static char *encode(char *to, const char *from, size_t size)
{
    uint32_t bits = 0;
    int count = 0;
    for (size_t i = 0; i < size; i++) {
        bits = bits << 8 | (unsigned char)from[i];
        for (count += 8; count >= 6; count -= 6)
            *to++ = letters[bits >> (count - 6) & 63];
    }
    if (count > 0)
        *to++ = letters[bits << (6 - count) & 63];
    return to;
}

static bool decode(char *to, size_t room, const char *from, size_t size)
{
    uint32_t bits = 0;
    int count = 0;
    size_t used = 0;
    for (size_t i = 0; i < size; i++) {
        const char *at = from[i] ? strchr(letters, from[i]) : NULL;
        if (!at || used >= room)
            return false;
        bits = bits << 6 | (uint32_t)(at - letters);
        count += 6;
        if (count >= 8) {
            count -= 8;
            to[used++] = (char)(bits >> count & 255);
        }
    }
    if (used >= room || memchr(to, '\0', used))
        return false;
    to[used] = '\0';
    return true;
}

static uint64_t checksum(const char *text, size_t size)
{
    return dlk_hash(DLK_HASH_BEGIN, text, size);
}

void dlk_ticket_write(const dlk_ticket *ticket, char *text)
{
    int begin =
        snprintf(text, DLK_TICKET_MAX, "dlock1.%d.%s.%" PRId64 ".%s.", (int)ticket->kind,
                 ticket->layout, ticket->ttl_ms, ticket->owner);
    char *end = encode(text + begin, ticket->name, strlen(ticket->name));
    snprintf(end, (size_t)(text + DLK_TICKET_MAX - end), ".%016" PRIx64,
             checksum(text, (size_t)(end - text)));
}

/* ---- reading ---- */

/* The next field, up to a dot; NULL when there is none. */
static const char *field(const char **at, size_t *size)
{
    const char *begin = *at, *dot = strchr(begin, '.');
    if (!dot)
        return NULL;
    *size = (size_t)(dot - begin);
    *at = dot + 1;
    return begin;
}

static bool copy(char *to, size_t room, const char *from, size_t size)
{
    if (size == 0 || size >= room)
        return false;
    memcpy(to, from, size);
    to[size] = '\0';
    return true;
}

static bool number(const char *from, size_t size, int64_t *ret)
{
    return dlk_number_read(from, size, 0, NUMBER_MAX, ret);
}

static bool is_whole(const char *text)
{
    const char *last = strrchr(text, '.');
    char sum[17];
    if (!last)
        return false;
    snprintf(sum, sizeof(sum), "%016" PRIx64, checksum(text, (size_t)(last - text)));
    return strcmp(last + 1, sum) == 0;
}

static bool take_apart(const char *text, dlk_ticket *ret)
{
    const char *at = text, *part;
    int64_t kind;
    size_t size;
    if (strncmp(at, "dlock1.", 7) != 0 || !is_whole(text))
        return false;
    at += 7;
    if (!(part = field(&at, &size)) || !number(part, size, &kind) || kind > INT_MAX ||
        !dlk_kind_is_lock((int)kind))
        return false;
    ret->kind = (dlock_kind)kind;
    if (!(part = field(&at, &size)) ||
        !copy(ret->layout, sizeof(ret->layout), part, size))
        return false;
    if (!(part = field(&at, &size)) || !number(part, size, &ret->ttl_ms))
        return false;
    if (!(part = field(&at, &size)) || !copy(ret->owner, sizeof(ret->owner), part, size))
        return false;
    return (part = field(&at, &size)) &&
           decode(ret->name, sizeof(ret->name), part, size) && ret->name[0];
}

dlock_err dlk_ticket_read(const char *text, dlk_ticket *ret, dlock_error **err)
{
    if (strnlen(text, DLK_TICKET_MAX) < DLK_TICKET_MAX && take_apart(text, ret))
        return DLOCK_OK;
    return dlk_error_set(err, DLOCK_EINVAL,
                         "that is no ticket of dlock_hold_export, or not all of it");
}
