/* The floors under the rows of PostgreSQL, by plain, synchronous libpq. No lease is watched, no answer may be lost.
 *
 * pairs: the two calls of a pair as libdlock makes them, each thread with a lock of its own and a connection of its own.
 * shared: the same, and the threads take turns at one connection: as many server processes as a client of libdlock has.
 * advisory: one lock that all want, pg_advisory_lock(), each thread waiting in a session of its own. */
#include "bench.h"

#include <libpq-fe.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef struct scene {
    const char *where;
    bench_spot *page;
    PGconn *common; /* NULL: each has its own */
    pthread_mutex_t turn;
} scene;

static PGconn *dial(const char *where)
{
    PGconn *db = PQconnectdb(where);
    if (PQstatus(db) != CONNECTION_OK)
        bench_die(where, PQerrorMessage(db));
    return db;
}

/* The first letter of the answer. */
static char call(PGconn *db, const char *statement, int count, const char *const *values)
{
    PGresult *result = PQexecParams(db, statement, count, NULL, values, NULL, NULL, 0);
    if (PQresultStatus(result) != PGRES_TUPLES_OK || PQntuples(result) != 1)
        bench_die(statement, PQerrorMessage(db));
    char letter = PQgetvalue(result, 0, 0)[0];
    PQclear(result);
    return letter;
}

static void take(PGconn *db, const char *name, const char *owner)
{
    const char *values[] = {name, "mutex", owner,   "30000", "f",         "1",
                            "0",  "f",     "10000", "t",     "bench 1 1", ""};
    if (call(db,
             "SELECT * FROM dlock.acquire($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, "
             "$12)",
             12, values) != 'Y')
        bench_die(name, "somebody has it");
}

static void give(PGconn *db, const char *name, const char *owner)
{
    const char *values[] = {name, owner};
    if (call(db, "SELECT dlock.release($1, $2)", 2, values) != 'Y')
        bench_die(name, "it isn't ours");
}

static void pairs(bench_stage *stage, bench_worker *me, void *shared)
{
    scene *at = shared;
    char name[32], owner[64];
    int64_t who = stage->options->base + me->number + 1;
    bench_spot *spot = &at->page[me->number];
    PGconn *db = at->common ? at->common : dial(at->where);
    (void)snprintf(name, sizeof(name), "bench/%d", me->number);
    (void)snprintf(owner, sizeof(owner), "6f9619ff-8b86-4d01-b42d-00cf4fc9%04x:100000",
                   (unsigned)me->number & 0xffff);
    bench_ready(stage);
    BENCH_LOOP(stage, me, {
        if (at->common)
            pthread_mutex_lock(&at->turn);
        take(db, name, owner);
        if (at->common)
            pthread_mutex_unlock(&at->turn);
        (void)bench_enter(spot, who);
        bench_exit(spot);
        if (at->common)
            pthread_mutex_lock(&at->turn);
        give(db, name, owner);
        if (at->common)
            pthread_mutex_unlock(&at->turn);
    });
    if (!at->common)
        PQfinish(db);
}

static void contend(bench_stage *stage, bench_worker *me, void *shared)
{
    const scene *at = shared;
    int64_t who = stage->options->base + me->number + 1;
    PGconn *db = dial(at->where);
    bench_ready(stage);
    while (bench_now(stage) != BENCH_OVER) {
        int64_t from = bench_now_ns();
        (void)call(db, "SELECT pg_advisory_lock(42)", 0, NULL);
        bool changed = bench_enter(at->page, who) != who;
        bench_took(stage, me, bench_now_ns() - from, changed);
        bench_exit(at->page);
        if (call(db, "SELECT pg_advisory_unlock(42)", 0, NULL) != 't')
            bench_die("pg_advisory_unlock", "it isn't ours");
    }
    PQfinish(db);
}

int main(int argc, char **argv)
{
    bench_options options = bench_parse(argc, argv, "CONNINFO pairs|shared|advisory", 2);
    scene at = {.where = options.rest[0],
                .page = bench_page(&options),
                .turn = PTHREAD_MUTEX_INITIALIZER};
    bool one_name = strcmp(options.rest[1], "advisory") == 0;
    if (strcmp(options.rest[1], "shared") == 0)
        at.common = dial(at.where);
    bench_result result;
    bench_run_threads(&options, one_name ? contend : pairs, &at, &result);
    if (one_name) {
        bench_print_contention(&result, at.page);
        return 0;
    }
    bench_print(&result);
    (void)puts("}");
    return 0;
}
