/* Renewals: many in one statement. */
#include "backends/postgres/advisory.h"

#include "util/buf.h"
#include "util/digits.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Arrays as texts: {"…","…"}. */
typedef struct arrays {
    dlk_buf of[6];
    bool fine;
} arrays;

enum { NAMES, OWNERS, TTLS, LONGEST, NAMED, TEXTS, ARRAYS };

static void put_text(arrays *to, int which, const char *text)
{
    to->fine = to->fine && dlk_buf_append(&to->of[which], text, strlen(text));
}

static void put_bytes(arrays *to, int which, const char *bytes, size_t size)
{
    char *room = to->fine ? dlk_buf_room(&to->of[which], size * 2 + 6) : NULL, *at = room;
    if (!room) {
        to->fine = false;
        return;
    }
    memcpy(at, "\"\\\\x", 4);
    at += 4;
    for (size_t i = 0; i < size; i++)
        at = dlk_digits_put_byte(at, (unsigned char)bytes[i]);
    *at++ = '"';
    dlk_buf_added(&to->of[which], (size_t)(at - room));
}

static void put_number(arrays *to, int which, int64_t number)
{
    char text[DLK_DIGITS_MAX + 2];
    (void)snprintf(text, sizeof(text), "%" PRId64, number);
    put_text(to, which, text);
}

static void put_renewal(const dlk_pg *pg, arrays *to, const dlk_ask *ask, bool first)
{
    char owner[DLK_PG_OWNER_MAX];
    const char *data = dlk_ask_data(ask);
    for (int i = 0; i < ARRAYS; i++)
        put_text(to, i, first ? "{" : ",");
    put_bytes(to, NAMES, ask->key->name, ask->key->size);
    put_text(to, OWNERS, dlk_pg_owner(pg, ask->number, owner));
    put_number(to, TTLS, ask->ttl_ms);
    put_number(to, LONGEST, ask->most_ms);
    put_number(to, NAMED, ask->overlong);
    put_bytes(to, TEXTS, data, strlen(data));
}

/* As many as one statement has, from the front. */
static void send_batch(dlk_pg *pg)
{
    arrays to = {.fine = true};
    const char *values[ARRAYS];
    static const int sizes[ARRAYS] = {0};
    dlk_ask *first = NULL;
    int64_t count = 0;
    while (count < DLK_PG_BATCH && !dlk_list_empty(&pg->renewals)) {
        dlk_ask *ask = DLK_LIST_ITEM(dlk_list_first(&pg->renewals), dlk_ask, link);
        dlk_list_remove(&ask->link);
        put_renewal(pg, &to, ask, count == 0);
        dlk_flight_await(&pg->flight, ask);
        first = first ? first : ask;
        count++;
    }
    for (int i = 0; i < ARRAYS; i++) {
        put_text(&to, i, "}");
        to.fine = to.fine && dlk_buf_append(&to.of[i], "", 1);
        values[i] = to.fine ? dlk_buf_head(&to.of[i]) : NULL;
    }
    first->scratch = count;
    if (to.fine)
        (void)dlk_pg_say(pg, "SELECT * FROM dlock.renew($1, $2, $3, $4, $5, $6)", ARRAYS,
                         values, sizes);
    else
        dlk_pg_break_off(pg);
    for (int i = 0; i < ARRAYS; i++)
        dlk_buf_free(&to.of[i]);
}

/* Behind a gap nothing is sent: they are answered when the connection ends. */
void dlk_pg_send_renewals(dlk_pg *pg)
{
    while (!pg->broken && !dlk_list_empty(&pg->renewals))
        pg->claims ? dlk_pg_advisory_renew(pg) : send_batch(pg);
}

int64_t dlk_pg_batch_of(const dlk_ask *ask)
{
    return ask->scratch > 0 ? ask->scratch : 1;
}

dlock_error *dlk_pg_renewed(dlk_pg *pg, const PGresult *result)
{
    int64_t count = dlk_pg_batch_of(dlk_flight_first(&pg->flight));
    if (PQntuples(result) != count || PQnfields(result) != 3)
        return dlk_pg_nonsense();
    for (int i = 0; i < count; i++) {
        dlk_ask *ask = dlk_flight_first(&pg->flight);
        char reply = dlk_pg_letter(result, i, 0);
        if (!ask)
            return NULL; /* the client was closed by an answer before */
        ask->overlong = dlk_pg_number(result, i, 2, 0);
        dlk_flight_answer(&pg->flight, ask,
                          dlk_pg_has_it(pg, ask, reply) ? DLK_YES : DLK_NOT_OURS);
    }
    return NULL;
}
