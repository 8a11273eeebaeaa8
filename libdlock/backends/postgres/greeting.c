/* What is said first on a connection: who we are to hear of, and whether this is a server to lock on. */
#include "backends/postgres/inner.h"

#include <stdio.h>

/* The answers to them come in this order. */
enum { SERVER, LISTENING };

bool dlk_pg_greet(dlk_pg *pg)
{
    pg->step = 0;
    pg->hears = false;
    return dlk_pg_say(pg, "SELECT dlock.version(), pg_is_in_recovery(), pg_backend_pid()",
                      0, NULL, NULL);
}

/* Not on a connection of a pool: it would be another client's next, and listen on. */
static dlock_error *listen_on(dlk_pg *pg)
{
    char listen[80];
    (void)snprintf(listen, sizeof(listen), "LISTEN \"%s\"", pg->channel);
    return dlk_pg_say(pg, listen, 0, NULL, NULL) ? NULL : dlk_pg_link_error(pg);
}

static dlock_error *judge(dlk_pg *pg, const PGresult *result)
{
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        return dlk_pg_error(result);
    if (PQntuples(result) != 1 || PQnfields(result) != 3)
        return dlk_error_make(DLOCK_EPROTO, "postgres: its greeting makes no sense");
    if (dlk_pg_letter(result, 0, 1) == 't')
        return dlk_error_make(DLOCK_EUNAVAIL,
                              "postgres: %s:%d is a standby, which only reads",
                              pg->servers[pg->server].host, pg->servers[pg->server].port);
    int64_t schema = dlk_pg_number(result, 0, 0, 0);
    if (schema != DLK_PG_SCHEMA)
        return dlk_error_make(DLOCK_ENOTSUP,
                              "postgres: its schema dlock is version %lld, and %d is "
                              "wanted: psql -f postgres.sql",
                              (long long)schema, DLK_PG_SCHEMA);
    /* Who pools connections invents the number of the process; there is no session to listen in. */
    pg->pooled = dlk_pg_number(result, 0, 2, 0) != PQbackendPID(pg->conn);
    return NULL;
}

dlock_error *dlk_pg_greeted(dlk_pg *pg, const PGresult *result, bool *ret_done)
{
    dlock_error *error = NULL;
    if (pg->step++ == SERVER) {
        error = judge(pg, result);
        *ret_done = pg->pooled;
        return error || pg->pooled ? error : listen_on(pg);
    }
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        error = dlk_pg_error(result);
    pg->hears = true;
    *ret_done = true;
    return error;
}
