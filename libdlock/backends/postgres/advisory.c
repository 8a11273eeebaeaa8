/* Asks of the layout advisory as statements, and their answers. */
#include "backends/postgres/advisory.h"

#include "util/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what it can ---- */

void dlk_pg_advisory_adapt(dlk_traits *traits)
{
    traits->layout = "advisory";
    traits->class = DLK_REQUIRE_EFFICIENCY;
    traits->session = true;
    traits->queues = traits->fair = traits->tokens = traits->hands_on = false;
    traits->deaf = true;
    traits->keeps = false;
    traits->no_keep = "nobody can ask a session for its advisory lock "
                      "(postgres.layout=table)";
}

bool dlk_pg_advisory_has(dlock_kind kind)
{
    return kind == DLOCK_MUTEX || kind == DLOCK_READ || kind == DLOCK_WRITE;
}

dlock_err dlk_pg_advisory_check(const dlk_settings *settings, dlock_error **err)
{
    int64_t ttl = dlk_settings_int(settings, DLK_KEY_LOCK_TTL_MS);
    const char *which = dlk_settings_int(settings, DLK_KEY_POSTGRES_SYNCHRONOUS)
                            ? "synchronous"
                        : dlk_settings_int(settings, DLK_KEY_POSTGRES_INSTALL) ? "install"
                                                                               : NULL;
    if (which)
        return dlk_error_set(err, DLOCK_ENOTSUP,
                             "postgres: postgres.%s is for postgres.layout=table: an "
                             "advisory lock is in the server's memory alone",
                             which);
    if (ttl > INT32_MAX)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "postgres: lock.ttl_ms=%" PRId64 ": a session that is not "
                             "heard of can be kept for %d at most (tcp_user_timeout)",
                             ttl, INT32_MAX);
    return DLOCK_OK;
}

dlock_err dlk_pg_advisory_key(dlk_key *key, dlock_error **err)
{
    dlk_pg_key *data = key->data;
    if (!dlk_pg_advisory_has(key->kind))
        return dlk_error_set(err, DLOCK_ENOTSUP,
                             "postgres: an advisory lock is exclusive or shared; it has "
                             "no permits, candidates or line (postgres.layout=table)");
    dlock_err code = dlk_pg_lock_of(dlk_settings_int(key->settings, DLK_KEY_POSTGRES_KEY),
                                    key->name, key->size, &data->lock, err);
    key->queues = key->hands_on = false;
    return code;
}

/* ---- asking ---- */

/* The server's functions, for one number or two. */
#define TRY(key)           "SELECT pg_catalog.pg_try_advisory_lock(" key ")"
#define TRY_SHARED(key)    "SELECT pg_catalog.pg_try_advisory_lock_shared(" key ")"
#define UNLOCK(key)        "SELECT pg_catalog.pg_advisory_unlock(" key ")"
#define UNLOCK_SHARED(key) "SELECT pg_catalog.pg_advisory_unlock_shared(" key ")"
#define UNLOCK_EITHER(key)                                                               \
    "SELECT CASE WHEN pg_catalog.pg_advisory_unlock_shared(" key                         \
    ") THEN true ELSE pg_catalog.pg_advisory_unlock(" key ") END"
#define OURS                                                                             \
    "pg_catalog.pg_locks WHERE locktype = 'advisory' AND granted AND "                   \
    "pid = pg_catalog.pg_backend_pid()"
/* A try would fail as soon as anybody waits for the lock in the server's own line, though we have it. Who has it is
 * let past that line, and doesn't wait; so it is looked at first whether we have. */
#define TURN(key, as)                                                                    \
    "SELECT CASE WHEN NOT EXISTS (SELECT FROM " OURS                                     \
    " AND mode = 'ExclusiveLock' AND " as                                                \
    ") THEN false WHEN pg_catalog.pg_advisory_lock_shared(" key                          \
    ") IS NULL THEN false ELSE pg_catalog.pg_advisory_unlock(" key ") END"
static const char turn[] = TURN("$1::bigint", DLK_PG_IS_ONE);
static const char turn_pair[] = TURN("$1::int, $2::int", DLK_PG_IS_PAIR);

/* What is ours there, whichever of our owners has it. */
static const char ours[] = "SELECT classid, objid, objsubid, mode FROM " OURS;

/* Sends a statement about its lock: $1 and $2 are the halves of its key. */
static void send_about(dlk_pg *pg, dlk_ask *ask, const char *statement)
{
    static const int sizes[2] = {0};
    const dlk_pg_key *data = ask->key->data;
    char text[DLK_PG_LOCK_MAX], *comma = strchr(dlk_pg_lock_text(&data->lock, text), ',');
    const char *values[] = {text, comma ? comma + 1 : NULL};
    if (comma)
        *comma = '\0';
    dlk_flight_await(&pg->flight, ask);
    (void)dlk_pg_say(pg, statement, comma ? 2 : 1, values, sizes);
}

/* … @p one of one number, @p two of two. */
static void send_key(dlk_pg *pg, dlk_ask *ask, const char *one, const char *two)
{
    const dlk_pg_key *data = ask->key->data;
    send_about(pg, ask, data->lock.pair ? two : one);
}
#define SEND(pg, ask, of) send_key((pg), (ask), of("$1"), of("$1, $2"))

/* Where what is ours is looked at, for this ask alone or for those behind it. */
static void look(dlk_pg *pg, dlk_ask *ask, int64_t count)
{
    ask->scratch = count;
    (void)dlk_pg_say(pg, ours, 0, NULL, NULL);
}

static void acquire(dlk_pg *pg, dlk_ask *ask, dlk_pg_claim *claim)
{
    if (claim && claim->stand == DLK_PG_HAS) {
        dlk_flight_await(&pg->flight, ask);
        look(pg, ask, 1);
        return;
    }
    if (dlk_pg_claims_bar(pg->claims, ask)) {
        ask->wait_ms = dlk_pg_retry_ms(pg);
        ask->reply = DLK_HELD;
        return;
    }
    if (!dlk_pg_claim_add(pg, ask))
        (void)dlk_ask_refuse(ask,
                             dlk_error_make(DLOCK_ENOMEM, "postgres: out of memory"));
    else if (ask->shared)
        SEND(pg, ask, TRY_SHARED);
    else
        SEND(pg, ask, TRY);
}

/* Behind an acquire that isn't answered, too: it is carried out in that order. */
static void release(dlk_pg *pg, dlk_ask *ask, dlk_pg_claim *claim)
{
    bool again = claim && claim->stand == DLK_PG_LEAVES;
    if (again && !claim->got) {
        dlk_pg_claim_end(pg, claim);
        claim = NULL;
    }
    if (!claim) {
        ask->reply = DLK_NOT_OURS;
        return;
    }
    claim->stand = DLK_PG_LEAVES;
    if (claim->turns)
        SEND(pg, ask, UNLOCK_EITHER);
    else if (claim->shared)
        SEND(pg, ask, UNLOCK_SHARED);
    else
        SEND(pg, ask, UNLOCK);
}

/* The shared one first, which nobody can keep from who has the other. */
static void downgrade(dlk_pg *pg, dlk_ask *ask, dlk_pg_claim *claim)
{
    ask->scratch = -1;
    claim->turns = true;
    send_key(pg, ask, turn, turn_pair);
}

static void refuse(dlk_ask *ask, const char *why)
{
    (void)dlk_ask_refuse(
        ask, dlk_error_make(DLOCK_ENOTSUP, "postgres: %s (postgres.layout=table)", why));
}

static void say_report(dlk_pg *pg, dlk_ask *ask)
{
    if (ask->verb == DLK_INSPECT) {
        send_key(pg, ask, dlk_pg_advisory_inspect, dlk_pg_advisory_inspect_pair);
        return;
    }
    dlk_flight_await(&pg->flight, ask);
    (void)dlk_pg_say(
        pg, ask->verb == DLK_LIST ? dlk_pg_advisory_list : dlk_pg_advisory_examine, 0,
        NULL, NULL);
}

void dlk_pg_advisory_bide(const dlk_pg *pg, dlk_ask *ask, int64_t now)
{
    if (ask->deadline < now + pg->timeout_ns)
        ask->deadline = now + pg->timeout_ns;
}

void dlk_pg_advisory_ask(dlk_pg *pg, dlk_ask *ask)
{
    dlk_pg_claim *claim =
        ask->key ? dlk_pg_claim_find(pg->claims, ask->key, ask->number) : NULL;
    switch (ask->verb) {
    case DLK_ACQUIRE:
        acquire(pg, ask, claim);
        return;
    case DLK_RELEASE:
        release(pg, ask, claim);
        return;
    case DLK_RENEW: /* with `shared`; the others are looked after together */
    case DLK_VERIFY:
        if (!claim || claim->stand != DLK_PG_HAS) {
            ask->reply = DLK_NOT_OURS;
        } else if (ask->verb == DLK_RENEW && !claim->shared) {
            downgrade(pg, ask, claim);
        } else {
            dlk_flight_await(&pg->flight, ask);
            look(pg, ask, 1);
        }
        return;
    case DLK_INSPECT:
    case DLK_LIST:
    case DLK_DOCTOR:
        say_report(pg, ask);
        return;
    case DLK_BREAK:
        refuse(ask, "only the session that has an advisory lock can give it back; to "
                    "end that session is pg_terminate_backend(), by the pid that "
                    "inspect shows");
        return;
    case DLK_REVOKE:
        refuse(ask, "nobody can ask a session for its advisory lock");
        return;
    case DLK_IMPORT:
        refuse(ask, "an advisory lock is its session's, and can't be handed on");
        return;
    case DLK_SIGNAL:
        break;
    }
    refuse(ask, "it can't do that");
}

void dlk_pg_advisory_renew(dlk_pg *pg)
{
    int64_t count = 0;
    dlk_ask *first = NULL;
    while (!dlk_list_empty(&pg->renewals)) {
        dlk_ask *ask = DLK_LIST_ITEM(dlk_list_first(&pg->renewals), dlk_ask, link);
        dlk_list_remove(&ask->link);
        dlk_flight_await(&pg->flight, ask);
        first = first ? first : ask;
        count++;
    }
    look(pg, first, count);
}

/* ---- answers ---- */

/* What isn't there any more somebody else has given back, who had our session: it is nobody's claim. */
static void answer_looked(dlk_pg *pg, dlk_ask *ask)
{
    dlk_pg_claim *claim = dlk_pg_claim_find(pg->claims, ask->key, ask->number);
    bool leaves = claim && claim->stand == DLK_PG_LEAVES;
    bool has = claim && !leaves && claim->seen == pg->claims->looks;
    if (claim && !leaves && !has)
        dlk_pg_claim_end(pg, claim);
    ask->lasts = has && ask->verb != DLK_VERIFY;
    ask->wait_ms = 0;
    dlk_flight_answer(&pg->flight, ask,
                      has                        ? DLK_YES
                      : ask->verb == DLK_ACQUIRE ? DLK_HELD
                                                 : DLK_NOT_OURS);
}

static dlock_error *looked(dlk_pg *pg, const PGresult *result)
{
    int64_t count = dlk_pg_batch_of(dlk_flight_first(&pg->flight));
    dlk_ask *ask;
    if (PQnfields(result) != 4)
        return dlk_pg_nonsense();
    pg->claims->looks++;
    for (int row = 0; row < PQntuples(result); row++) {
        dlk_pg_lock lock = dlk_pg_lock_said(result, row);
        dlk_pg_claims_see(pg->claims, &lock,
                          strcmp(PQgetvalue(result, row, 3), "ShareLock") == 0);
    }
    for (int64_t i = 0; i < count && (ask = dlk_flight_first(&pg->flight)); i++)
        answer_looked(pg, ask);
    return NULL;
}

static void tried(dlk_pg *pg, dlk_ask *ask, dlk_pg_claim *claim, bool yes)
{
    if (claim)
        claim->got = yes;
    if (claim && claim->stand == DLK_PG_TRIES && yes)
        claim->stand = DLK_PG_HAS;
    else if (claim && claim->stand == DLK_PG_TRIES)
        dlk_pg_claim_end(pg, claim);
    ask->lasts = yes;
    ask->wait_ms = dlk_pg_retry_ms(pg);
    dlk_flight_answer(&pg->flight, ask, yes ? DLK_YES : DLK_HELD);
}

static void turned(dlk_pg *pg, dlk_ask *ask, dlk_pg_claim *claim, bool yes)
{
    bool leaves = claim && claim->stand == DLK_PG_LEAVES;
    if (claim)
        claim->turns = false;
    if (claim && yes)
        claim->shared = true;
    else if (claim && !leaves)
        dlk_pg_claim_end(pg, claim);
    ask->lasts = yes;
    dlk_flight_answer(&pg->flight, ask, yes ? DLK_YES : DLK_NOT_OURS);
}

dlock_error *dlk_pg_advisory_answered(dlk_pg *pg, dlk_ask *ask, const PGresult *result)
{
    if (ask->scratch > 0)
        return looked(pg, result);
    if (ask->verb == DLK_INSPECT)
        return dlk_pg_advisory_inspected(pg, ask, result);
    if (ask->verb == DLK_LIST)
        return dlk_pg_advisory_listed(pg, ask, result);
    if (PQntuples(result) != 1)
        return dlk_pg_nonsense();
    if (ask->verb == DLK_DOCTOR)
        return dlk_pg_advisory_examined(pg, ask, result);
    char reply = dlk_pg_letter(result, 0, 0);
    if (reply != 't' && reply != 'f')
        return dlk_pg_nonsense();
    bool yes = reply == 't';
    dlk_pg_claim *claim = dlk_pg_claim_find(pg->claims, ask->key, ask->number);
    if (ask->verb == DLK_ACQUIRE) {
        tried(pg, ask, claim, yes);
    } else if (ask->verb == DLK_RENEW) {
        turned(pg, ask, claim, yes);
    } else {
        if (claim)
            dlk_pg_claim_end(pg, claim);
        dlk_flight_answer(&pg->flight, ask, yes ? DLK_YES : DLK_NOT_OURS);
    }
    return NULL;
}

/* Stopped behind what it did, as it may be: cancelled or out of its time (57), or by what went wrong in the server
 * itself (XX), or in its system (58). */
static bool may_have_done_it(const char *state)
{
    return !state || strncmp(state, "57", 2) == 0 || strncmp(state, "58", 2) == 0 ||
           strncmp(state, "XX", 2) == 0;
}

/* Advisory locks aren't undone with their transaction. So where nothing is known of the lock the session ends, and
 * with it all. */
dlock_error *dlk_pg_advisory_failed(dlk_pg *pg, dlk_ask *ask, const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    bool changes = ask->verb == DLK_ACQUIRE || ask->verb == DLK_RELEASE;
    bool turns = ask->verb == DLK_RENEW && ask->scratch < 0; /* it does two things */
    if (turns || (changes && may_have_done_it(state)))
        return dlk_pg_error(result);
    int64_t count = dlk_pg_batch_of(ask);
    for (int64_t i = 0; i < count && (ask = dlk_flight_first(&pg->flight)); i++) {
        dlk_pg_claim *claim =
            ask->key ? dlk_pg_claim_find(pg->claims, ask->key, ask->number) : NULL;
        if (claim && ask->verb == DLK_ACQUIRE && claim->stand == DLK_PG_TRIES)
            dlk_pg_claim_end(pg, claim);
        dlk_flight_refuse(&pg->flight, ask, dlk_pg_error(result));
    }
    return NULL;
}
