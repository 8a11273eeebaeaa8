/* A row of an SQL database as a fenced resource: the statement that writes it compares the token,
 * and a row that wasn't updated is a lock that was lost.
 *
 * The same two columns and the same WHERE do for PostgreSQL, MySQL and the others.
 *
 * Usage: guarded_sqlite URL PATH */
#include "two_holders.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS stock ("
    "  item TEXT PRIMARY KEY,"
    "  pieces INTEGER NOT NULL,"
    "  fence INTEGER NOT NULL DEFAULT 0);"
    "INSERT OR IGNORE INTO stock (item, pieces) VALUES ('bolt', 0);";

static dlock_err complain(sqlite3 *db)
{
    fprintf(stderr, "sqlite: %s\n", sqlite3_errmsg(db));
    return DLOCK_EUSER;
}

static dlock_err prepare(void *user)
{
    struct work *work = user;
    sqlite3 *db = work->resource;
    sqlite3_stmt *query = NULL;
    dlock_err rc = DLOCK_OK;
    if (sqlite3_prepare_v2(db, "SELECT pieces FROM stock WHERE item = 'bolt'", -1, &query,
                           NULL) == SQLITE_OK &&
        sqlite3_step(query) == SQLITE_ROW)
        work->value = sqlite3_column_int64(query, 0);
    else
        rc = complain(db);
    (void)sqlite3_finalize(query); /* says again what step said */
    return rc;
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
    static const char update[] = "UPDATE stock SET pieces = ?1, fence = ?2 "
                                 "WHERE item = 'bolt' AND fence <= ?2";
    struct work *work = user;
    sqlite3 *db = work->resource;
    sqlite3_stmt *write = NULL;
    dlock_err rc = DLOCK_OK;
    if (work->pause)
        work->pause(work);
    if (sqlite3_prepare_v2(db, update, -1, &write, NULL) != SQLITE_OK ||
        sqlite3_bind_int64(write, 1, work->value) != SQLITE_OK ||
        sqlite3_bind_int64(write, 2, token) != SQLITE_OK ||
        sqlite3_step(write) != SQLITE_DONE)
        rc = complain(db);
    else if (sqlite3_changes(db) == 0)
        rc = DLOCK_ELOST;          /* a larger token has been here */
    (void)sqlite3_finalize(write); /* says again what step said */
    return rc;
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

static int play(const char *url, sqlite3 *db)
{
    struct work look = {.who = "check", .resource = db};
    if (sqlite3_exec(db, schema, NULL, NULL, NULL) != SQLITE_OK) {
        (void)complain(db); /* prints */
        return 1;
    }
    if (prepare(&look) != DLOCK_OK)
        return 1;
    int64_t before = look.value;
    if (two_holders(url, "guarded-sqlite", &guarded, db) != 0 ||
        prepare(&look) != DLOCK_OK)
        return 1;
    if (look.value != before + 10) {
        printf("a stale write came through\n");
        return 1;
    }
    printf("only the second holder's write is there: %" PRId64 " pieces\n", look.value);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: guarded_sqlite URL PATH\n");
        return 64;
    }
    sqlite3 *db = NULL;
    int rc = 1;
    if (sqlite3_open(argv[2], &db) == SQLITE_OK)
        rc = play(argv[1], db);
    else
        fprintf(stderr, "sqlite: can't open %s: %s\n", argv[2], sqlite3_errmsg(db));
    return sqlite3_close(db) == SQLITE_OK ? rc : 1;
}
