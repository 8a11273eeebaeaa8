/* A row in PostgreSQL, where its lock is, too: the database checks the token in the transaction that writes, and
 * grants the lock to nobody else before that ends.
 *
 * Usage: guarded_postgres postgres://USER@HOST:PORT/DATABASE[?…] */
#include "two_holders.h"

#include <libpq-fe.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "guarded-postgres"

static bool is_stale(const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    return state && strcmp(state, "DL001") == 0;
}

/* Which each statement has to end with; the rows' first value, if there are any, to @p ret_value. */
static dlock_err run_sql(PGconn *db, const char *statement, int64_t *ret_value)
{
    PGresult *result = PQexec(db, statement);
    ExecStatusType status = PQresultStatus(result);
    dlock_err rc = DLOCK_OK;
    if (is_stale(result))
        rc = DLOCK_ELOST; /* a later grant exists */
    else if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        rc = DLOCK_EUSER;
    if (rc == DLOCK_EUSER)
        fprintf(stderr, "postgres: %s", PQerrorMessage(db));
    if (rc == DLOCK_OK && ret_value && PQntuples(result) > 0)
        *ret_value = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return rc;
}

static dlock_err prepare(void *user)
{
    struct work *work = user;
    return run_sql(work->resource, "SELECT pieces FROM stock WHERE item = 'bolt'",
                   &work->value);
}

/* The long part: nothing of it is in the database yet, so there is little to undo. */
static dlock_err run(void *user)
{
    struct work *work = user;
    work->value += work->amount;
    return DLOCK_OK;
}

/* doc: commit */
static dlock_err commit(void *user, int64_t token)
{
    struct work *work = user;
    PGconn *db = work->resource;
    char check[160], update[160];
    if (work->pause)
        work->pause(work);
    (void)snprintf(check, sizeof(check), "SELECT dlock.check('%s', %" PRId64 ")", NAME,
                   token);
    (void)snprintf(update, sizeof(update),
                   "UPDATE stock SET pieces = %" PRId64 " WHERE item = 'bolt'",
                   work->value);
    dlock_err rc = run_sql(db, "BEGIN", NULL);
    if (rc == DLOCK_OK)
        rc = run_sql(db, check, NULL); /* DLOCK_ELOST: DL001, a later grant exists */
    if (rc == DLOCK_OK)
        rc = run_sql(db, update, NULL);
    dlock_err ended = run_sql(db, rc == DLOCK_OK ? "COMMIT" : "ROLLBACK", NULL);
    return rc == DLOCK_OK ? ended : rc;
}
/* end: commit */

static void undo(void *user)
{
    struct work *work = user;
    work->value = 0;
    printf("%s: undone\n", work->who);
}

static void lost(void *user)
{
    struct work *work = user;
    printf("%s: lost the lock\n", work->who);
}

static const dlock_guarded guarded = {
    .size = sizeof guarded,
    .prepare = prepare,
    .run = run,
    .commit = commit,
    .undo = undo,
    .lost = lost,
};

static int play(const char *url, PGconn *db)
{
    struct work look = {.who = "check", .resource = db};
    if (run_sql(db, "CREATE TEMPORARY TABLE stock (item text PRIMARY KEY, pieces bigint)",
                NULL) != DLOCK_OK ||
        run_sql(db, "INSERT INTO stock VALUES ('bolt', 0)", NULL) != DLOCK_OK ||
        two_holders(url, NAME, &guarded, db) != 0 || prepare(&look) != DLOCK_OK)
        return 1;
    if (look.value != 10) {
        printf("a stale write came through\n");
        return 1;
    }
    printf("only the second holder's write is there: %" PRId64 " pieces\n", look.value);
    return 0;
}

int main(int argc, char **argv)
{
    char plain[512];
    if (argc != 2) {
        fprintf(stderr, "usage: guarded_postgres postgres://USER@HOST:PORT/DATABASE\n");
        return 64;
    }
    /* libpq takes the same URI, but for our settings. */
    (void)snprintf(plain, sizeof(plain), "%.*s", (int)strcspn(argv[1], "?"), argv[1]);
    PGconn *db = PQconnectdb(plain);
    int rc = 1;
    if (PQstatus(db) == CONNECTION_OK)
        rc = play(argv[1], db);
    else
        fprintf(stderr, "postgres: %s", PQerrorMessage(db));
    PQfinish(db);
    return rc;
}
