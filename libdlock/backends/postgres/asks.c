/* Asks as statements, and their answers. */
#include "backends/postgres/advisory.h"

#include "util/clock.h"
#include "util/digits.h"
#include "util/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

static const char *const words[DLK_KIND_COUNT] = {
    /* what the server calls the kinds */
    [DLOCK_MUTEX] = "mutex",       [DLOCK_READ] = "write",
    [DLOCK_WRITE] = "write",       [DLOCK_SEMAPHORE] = "semaphore",
    [DLOCK_ELECTION] = "election", [DLK_KIND_CONDITION] = "condition"};

const char *dlk_pg_word(dlock_kind kind)
{
    return words[kind];
}

dlock_err dlk_pg_key_open(dlk_backend *backend, dlk_key *key, dlock_error **err)
{
    const dlk_pg *pg = dlk_pg_of(backend);
    dlk_pg_key *data = calloc(1, sizeof(*data));
    if (!data)
        return dlk_error_nomem(err);
    dlk_list_init(&data->watched);
    data->key = key;
    key->data = data;
    key->queues = true;
    key->hands_on = key->kind == DLOCK_MUTEX;
    dlock_err code = pg->claims ? dlk_pg_advisory_key(key, err) : DLOCK_OK;
    if (code != DLOCK_OK)
        dlk_pg_key_close(backend, key);
    return code;
}

void dlk_pg_key_close(dlk_backend *backend, dlk_key *key)
{
    (void)backend;
    free(key->data);
    key->data = NULL;
}

/* ---- one statement each ---- */

const char *dlk_pg_owner(const dlk_pg *pg, uint64_t number, char to[DLK_PG_OWNER_MAX])
{
    (void)snprintf(to, DLK_PG_OWNER_MAX, "%s:%" PRIu64, pg->base.host->uuid, number);
    return to;
}

/* What is said of an ask: values, and the sizes of those that are bytes. */
typedef struct saying {
    const char *values[12];
    int sizes[12], count;
    char numbers[6][DLK_DIGITS_MAX + 2];
    int used;
    char owner[DLK_PG_OWNER_MAX];
} saying;

static void add_text(saying *to, const char *text)
{
    to->sizes[to->count] = 0;
    to->values[to->count++] = text;
}

/* As bytes, whatever they are; no bytes are no bytes as a text, too. */
static void add_bytes(saying *to, const char *bytes, size_t size)
{
    to->sizes[to->count] = (int)size;
    to->values[to->count++] = size ? bytes : "";
}

static void add_number(saying *to, int64_t number)
{
    char *text = to->numbers[to->used++];
    (void)snprintf(text, sizeof(to->numbers[0]), "%" PRId64, number);
    add_text(to, text);
}

static void add_about(const dlk_pg *pg, saying *to, const dlk_ask *ask)
{
    const char *data = dlk_ask_data(ask), *who = pg->base.host->who;
    add_bytes(to, who, strlen(who));
    add_bytes(to, data, strlen(data));
}

static void add_name(const dlk_pg *pg, saying *to, const dlk_ask *ask)
{
    add_bytes(to, ask->key->name, ask->key->size);
    if (ask->number)
        add_text(to, dlk_pg_owner(pg, ask->number, to->owner));
}

/* So long its place is kept. In a condition's line it may be long until there is anything to ask for. */
static int64_t stay_ms(const dlk_ask *ask)
{
    return ask->key->kind == DLK_KIND_CONDITION && ask->ttl_ms > DLK_PG_STAY_MS
               ? ask->ttl_ms
               : DLK_PG_STAY_MS;
}

static const char *acquire(const dlk_pg *pg, saying *to, const dlk_ask *ask)
{
    bool counts = ask->key->kind == DLOCK_SEMAPHORE;
    add_bytes(to, ask->key->name, ask->key->size);
    add_text(to, dlk_pg_word(ask->key->kind));
    add_text(to, dlk_pg_owner(pg, ask->number, to->owner));
    add_number(to, ask->ttl_ms);
    add_text(to, ask->shared ? "t" : "f");
    add_number(to, ask->take);
    add_number(to,
               counts ? dlk_settings_int(ask->key->settings, DLK_KEY_LOCK_PERMITS) : 0);
    add_text(to, ask->once ? "t" : "f");
    add_number(to, stay_ms(ask));
    add_text(to, pg->hears ? "t" : "f");
    add_about(pg, to, ask);
    return "SELECT * FROM dlock.acquire($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, "
           "$12)";
}

/* What is asked, and which statement that is; NULL: it can't be. */
static const char *put(const dlk_pg *pg, saying *to, const dlk_ask *ask)
{
    switch (ask->verb) {
    case DLK_ACQUIRE:
        return acquire(pg, to, ask);
    case DLK_RENEW: /* with `shared`; the others are sent in batches */
        add_name(pg, to, ask);
        add_number(to, ask->ttl_ms);
        return "SELECT * FROM dlock.downgrade($1, $2, $3)";
    case DLK_RELEASE:
        add_name(pg, to, ask);
        if (ask->used == 0)
            return "SELECT dlock.release($1, $2)";
        add_number(to, ask->used);
        return "SELECT dlock.use($1, $2, $3)";
    case DLK_VERIFY:
        add_name(pg, to, ask);
        return "SELECT dlock.verify($1, $2)";
    case DLK_BREAK:
        add_bytes(to, ask->key->name, ask->key->size);
        add_text(to, ask->text ? ask->text : "");
        return "SELECT dlock.break($1, $2)";
    case DLK_REVOKE:
        add_bytes(to, ask->key->name, ask->key->size);
        return "SELECT dlock.revoke($1)";
    case DLK_IMPORT:
        add_bytes(to, ask->key->name, ask->key->size);
        add_text(to, ask->text);
        add_text(to, dlk_pg_owner(pg, ask->number, to->owner));
        add_number(to, ask->ttl_ms);
        add_about(pg, to, ask);
        return "SELECT * FROM dlock.import($1, $2, $3, $4, $5, $6)";
    case DLK_INSPECT:
        add_bytes(to, ask->key->name, ask->key->size);
        return "SELECT * FROM dlock.inspect($1)";
    case DLK_LIST:
        add_bytes(to, ask->text ? ask->text : "", ask->text ? strlen(ask->text) : 0);
        add_number(to, ask->limit);
        return "SELECT * FROM dlock.list($1, $2)";
    case DLK_DOCTOR:
        return dlk_pg_examine;
    case DLK_SIGNAL:
        add_bytes(to, ask->key->name, ask->key->size);
        add_number(to, ask->limit);
        return "SELECT * FROM dlock.signal($1, $2)";
    }
    return NULL;
}

/* Whether it was written isn't known then: it is answered when the connection ends, with those behind it. */
static void send_one(dlk_pg *pg, dlk_ask *ask)
{
    saying with = {.count = 0};
    const char *statement = put(pg, &with, ask);
    if (!statement) {
        (void)dlk_ask_refuse(ask,
                             dlk_error_make(DLOCK_ENOTSUP, "postgres: it can't do that"));
        return;
    }
    dlk_flight_await(&pg->flight, ask);
    (void)dlk_pg_say(pg, statement, with.count, with.values, with.sizes);
}

void dlk_pg_ask(dlk_backend *backend, dlk_ask *ask, int64_t now)
{
    dlk_pg *pg = dlk_pg_of(backend);
    dlk_list_init(&ask->link);
    ask->scratch = 0;
    if (pg->claims)
        dlk_pg_advisory_bide(pg, ask, now);
    if (ask->key && ask->verb == DLK_ACQUIRE) {
        dlk_pg_key *key = ask->key->data;
        key->asked_at = pg->messages;
        key->look_at = 0;
        key->number = ask->number;
    }
    if (pg->phase != DLK_PG_READY || pg->broken) {
        dlk_flight_not_sent(ask, pg->why_down);
    } else if (ask->verb == DLK_RENEW && !ask->shared) {
        ask->reply = DLK_PENDING;
        if (dlk_list_empty(&pg->renewals))
            dlk_kick(pg->base.host->kicks); /* the driver sends them */
        dlk_list_append(&pg->renewals, &ask->link);
    } else {
        dlk_pg_send_renewals(pg); /* the order of asking is that of doing */
        if (pg->claims)
            dlk_pg_advisory_ask(pg, ask);
        else
            send_one(pg, ask);
    }
}

/* ---- answers ---- */

static void conflict(dlk_pg *pg, dlk_ask *ask, char reply, int64_t size)
{
    dlock_error *error = NULL;
    switch (reply) {
    case 'K':
        error = dlk_error_make(
            DLOCK_ECONFLICT, "postgres: another kind of lock is in use under this name");
        break;
    case 'S':
        error = dlk_error_make(
            DLOCK_ECONFLICT,
            "postgres: the semaphore has %" PRId64 " permits, lock.permits says %" PRId64
            ", lock.take %" PRId64,
            size, dlk_settings_int(ask->key->settings, DLK_KEY_LOCK_PERMITS),
            (int64_t)ask->take);
        break;
    case 'P':
        error = dlk_error_make(DLOCK_EINVAL,
                               "postgres: the semaphore doesn't exist: set lock.permits");
        break;
    default:
        error = dlk_error_make(
            DLOCK_EUNAVAIL,
            "postgres: a transaction that checked the token is still open");
    }
    dlk_flight_refuse(&pg->flight, ask, error);
}

/* Where nobody tells of a release it is asked again soon, and so where a transaction holds the token. */
static int64_t look_again(dlk_pg *pg, int64_t left_ms)
{
    if (pg->hears && left_ms > 0)
        return dlk_span_ms(left_ms);
    int64_t retry_ms = dlk_pg_retry_ms(pg);
    return left_ms > 0 && left_ms < retry_ms ? left_ms : retry_ms;
}

bool dlk_pg_has_it(const dlk_pg *pg, dlk_ask *ask, char reply)
{
    ask->lasts = reply == 'Y' || reply == 'A';
    /* Nobody could tell us that he wants it. */
    ask->asked = dlk_number_keeps(ask->number) && (reply == 'A' || !pg->hears);
    return ask->lasts;
}

/* Those who have a kept lock in turn would have one number, and dlock.check would pass them all. */
static int64_t token_of(const dlk_ask *ask, const PGresult *result, int column)
{
    bool none = ask->key->kind == DLOCK_SEMAPHORE || dlk_number_keeps(ask->number);
    return none ? 0 : dlk_pg_number(result, 0, column, 0);
}

enum { REPLY, TOKEN, LEFT, ID, PLACED };

static dlock_error *acquired(dlk_pg *pg, dlk_ask *ask, const PGresult *result)
{
    char reply = dlk_pg_letter(result, 0, REPLY);
    if (PQnfields(result) != 5)
        return dlk_pg_nonsense();
    ((dlk_pg_key *)ask->key->data)->id = dlk_pg_number(result, 0, ID, 0);
    if (dlk_pg_has_it(pg, ask, reply)) {
        ask->token = token_of(ask, result, TOKEN);
        dlk_flight_answer(&pg->flight, ask, DLK_YES);
    } else if (reply == 'H') {
        ask->wait_ms = look_again(pg, dlk_pg_number(result, 0, LEFT, -1));
        ask->new_place = dlk_pg_letter(result, 0, PLACED) == 't';
        ask->no_place = ask->once;
        dlk_flight_answer(&pg->flight, ask, DLK_HELD);
    } else if (reply == 'K' || reply == 'S' || reply == 'P') {
        conflict(pg, ask, reply, dlk_pg_number(result, 0, LEFT, 0));
    } else {
        return dlk_pg_nonsense();
    }
    return NULL;
}

static dlock_error *said_yes_or_no(dlk_pg *pg, dlk_ask *ask, const PGresult *result)
{
    char reply = dlk_pg_letter(result, 0, REPLY);
    if (reply == 'D' && ask->verb == DLK_REVOKE) {
        dlk_flight_refuse(
            &pg->flight, ask,
            dlk_error_make(DLOCK_ENOTSUP,
                           "postgres: no holder listens: it hasn't asked for the events "
                           "of its hold, or is behind a pool of connections"));
        return NULL;
    }
    if (reply != 'Y' && reply != 'N' && !(reply == 'G' && ask->verb == DLK_IMPORT))
        return dlk_pg_nonsense();
    if (reply == 'G') {
        conflict(pg, ask, reply, 0);
        return NULL;
    }
    if (reply == 'Y' && PQnfields(result) > 1)
        ask->token = token_of(ask, result, TOKEN);
    ask->lasts = reply == 'Y' && (ask->verb == DLK_RENEW || ask->verb == DLK_IMPORT);
    dlk_flight_answer(&pg->flight, ask, reply == 'Y' ? DLK_YES : DLK_NOT_OURS);
    return NULL;
}

/* Of dlock.signal's answer. */
enum { SAID, SIGNALLED, SAID_OF_SIGNAL };

static dlock_error *signalled(dlk_pg *pg, dlk_ask *ask, const PGresult *result)
{
    char reply = dlk_pg_letter(result, 0, SAID);
    if (PQnfields(result) != SAID_OF_SIGNAL || (reply != 'Y' && reply != 'K'))
        return dlk_pg_nonsense();
    if (reply == 'K') {
        conflict(pg, ask, reply, 0);
        return NULL;
    }
    dlock_info *info = dlk_info_new();
    dlk_info_add_int(info, dlk_pg_number(result, 0, SIGNALLED, 0), "signalled");
    dlk_pg_give_info(pg, ask, info);
    return NULL;
}

static void refuse_all(dlk_pg *pg, const PGresult *result)
{
    int64_t count = dlk_pg_batch_of(dlk_flight_first(&pg->flight));
    for (int64_t i = 0; i < count && !dlk_flight_is_empty(&pg->flight); i++)
        dlk_flight_refuse(&pg->flight, dlk_flight_first(&pg->flight),
                          dlk_pg_error(result));
}

/* It is no ask, so which answer is its is known by number. */
void dlk_pg_lend_ear(dlk_pg *pg)
{
    const char *channel = pg->channel;
    static const int size = 0;
    if (pg->phase != DLK_PG_READY || !pg->hears || !pg->listens || pg->ear > 0)
        return;
    if (dlk_pg_say(pg, "SELECT dlock.listen($1)", 1, &channel, &size))
        pg->ear = pg->said;
}

dlock_error *dlk_pg_answered(dlk_pg *pg, const PGresult *result)
{
    dlk_ask *ask = dlk_flight_first(&pg->flight);
    if (++pg->answers == pg->ear)
        return PQresultStatus(result) == PGRES_TUPLES_OK ? NULL : dlk_pg_error(result);
    if (!ask)
        return dlk_pg_nonsense();
    if (PQresultStatus(result) == PGRES_FATAL_ERROR && pg->claims)
        return dlk_pg_advisory_failed(pg, ask, result);
    if (PQresultStatus(result) == PGRES_FATAL_ERROR) {
        refuse_all(pg, result);
        return NULL;
    }
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        return dlk_pg_nonsense();
    if (pg->claims)
        return dlk_pg_advisory_answered(pg, ask, result);
    if (ask->scratch > 0)
        return dlk_pg_renewed(pg, result);
    if (ask->verb == DLK_INSPECT)
        return dlk_pg_inspected(pg, ask, result);
    if (ask->verb == DLK_LIST)
        return dlk_pg_listed(pg, ask, result);
    if (PQntuples(result) != 1)
        return dlk_pg_nonsense();
    if (ask->verb == DLK_DOCTOR)
        return dlk_pg_examined(pg, ask, result);
    if (ask->verb == DLK_SIGNAL)
        return signalled(pg, ask, result);
    return ask->verb == DLK_ACQUIRE ? acquired(pg, ask, result)
                                    : said_yes_or_no(pg, ask, result);
}

void dlk_pg_asks_fail(dlk_pg *pg)
{
    dlk_list sent, waiting;
    dlk_list_init(&sent);
    dlk_list_init(&waiting);
    dlk_flight_take_all(&pg->flight, &sent);
    dlk_list_splice(&waiting, &pg->renewals);
    while (!dlk_list_empty(&sent)) {
        dlk_ask *ask = DLK_LIST_ITEM(dlk_list_first(&sent), dlk_ask, link);
        dlk_flight_answer(&pg->flight, ask, DLK_UNKNOWN);
    }
    while (!dlk_list_empty(&waiting)) {
        dlk_ask *ask = DLK_LIST_ITEM(dlk_list_first(&waiting), dlk_ask, link);
        dlk_list_remove(&ask->link);
        dlk_flight_not_sent(ask, pg->why_down);
        pg->base.host->answered(pg->base.host, ask);
    }
    if (pg->claims)
        dlk_pg_claims_lose(pg);
}
