/* Tickets of a hand-off: whatever text comes, it is refused or is exactly what writing its parts
 * would have made; and whatever parts are written come back, and only from the whole text. */
#include "fuzz.h"

#include "api/ticket.h"
#include "util/error.h"
#include "util/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char fuzz_name[] = "ticket";
const size_t fuzz_longest = 2200;
const char *const fuzz_words[] = {"dlock1.",
                                  "dlock1.1.redisson.30000.",
                                  ".string.",
                                  "550e8400-e29b-41d4-a716-446655440000:7",
                                  ".b3JkZXJz.",
                                  ".",
                                  "-_",
                                  "AAAA",
                                  "9223372036854775808",
                                  "\x80",
                                  NULL};

static bool same(const dlk_ticket *a, const dlk_ticket *b)
{
    return a->kind == b->kind && a->ttl_ms == b->ttl_ms &&
           strcmp(a->layout, b->layout) == 0 && strcmp(a->owner, b->owner) == 0 &&
           strcmp(a->name, b->name) == 0;
}

/* Read, or refused with a reason. */
static bool reads(const char *text, dlk_ticket *ret)
{
    dlock_error *err = NULL;
    dlock_err code = dlk_ticket_read(text, ret, &err);
    FUZZ_CHECK(code == DLOCK_OK ? !err
                                : code == DLOCK_EINVAL && err && err->text[0] != '\0',
               "%d", (int)code);
    dlk_error_clear(&err);
    return code == DLOCK_OK;
}

static void check_text(const char *text)
{
    char again[DLK_TICKET_MAX];
    dlk_ticket ticket, second;
    if (!reads(text, &ticket))
        return;
    FUZZ_CHECK(ticket.kind >= DLOCK_MUTEX && ticket.kind <= DLOCK_ELECTION, "kind %d",
               (int)ticket.kind);
    FUZZ_CHECK(ticket.layout[0] && ticket.owner[0] && ticket.name[0] &&
                   ticket.ttl_ms >= 0,
               "a part is missing in '%s'", text);
    dlk_ticket_write(&ticket, again);
    FUZZ_CHECK(reads(again, &second) && same(&ticket, &second),
               "'%s' became '%s', which is another", text, again);
}

/* The input with the checksum that it should have, so that more than one in 2^64 is looked at. */
static void check_signed(const char *text)
{
    size_t room = strlen(text) + sizeof("dlock1.") + sizeof(".0123456789abcdef");
    /* Another fuzzer's inputs may be longer than fuzz_longest. */
    char *whole = malloc(room);
    if (!whole)
        abort();
    int size = snprintf(whole, room, "dlock1.%s", text);
    (void)snprintf(whole + size, room - (size_t)size, ".%016" PRIx64,
                   dlk_hash(DLK_HASH_BEGIN, whole, (size_t)size)); /* it fits */
    check_text(whole);
    free(whole);
}

/* Up to @p most bytes, none of which ends a field; @p otherwise for none. */
static void fill(char *to, size_t most, fuzz_bytes from, bool any, const char *otherwise)
{
    size_t used = 0;
    for (size_t i = 0; i < from.left && used < most; i++)
        if (any || from.at[i] != '.')
            to[used++] = (char)from.at[i];
    to[used] = '\0';
    if (used == 0)
        strcpy(to, otherwise);
}

static void check_parts(fuzz_bytes bytes)
{
    char text[DLK_TICKET_MAX];
    dlk_ticket ticket = {.kind = (dlock_kind)(DLOCK_MUTEX + fuzz_byte(&bytes) % 5),
                         .ttl_ms =
                             (int64_t)(fuzz_number(&bytes, 5) % UINT64_C(2592000001))};
    size_t spoilt = fuzz_number(&bytes, 2);
    uint8_t by = fuzz_byte(&bytes);
    fill(ticket.layout, sizeof(ticket.layout) - 1, fuzz_take_until(&bytes, '\0'), false,
         "redisson");
    fill(ticket.owner, sizeof(ticket.owner) - 1, fuzz_take_until(&bytes, '\0'), false,
         "o:1");
    fill(ticket.name, 1024, fuzz_take_until(&bytes, '\0'), true, "n");
    dlk_ticket_write(&ticket, text);
    size_t size = strlen(text);
    dlk_ticket second;
    FUZZ_CHECK(size < DLK_TICKET_MAX && reads(text, &second) && same(&ticket, &second),
               "what was written can't be read: '%s'", text);
    spoilt %= size;
    if (by != 0) {
        text[spoilt] = (char)(text[spoilt] ^ by);
        FUZZ_CHECK(!reads(text, &second), "a changed ticket is taken: '%s'", text);
        text[spoilt] = (char)(text[spoilt] ^ by);
    }
    text[spoilt] = '\0';
    FUZZ_CHECK(!reads(text, &second), "a part of a ticket is taken: '%s'", text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text((fuzz_bytes){data, size});
    check_text(text);
    check_signed(text);
    free(text);
    check_parts((fuzz_bytes){data, size});
    return 0;
}
