/* What is said first on a connection: our schema, if we are to; who we are to hear of, and whether this is a server
 * to lock on. */
#include "backends/postgres/advisory.h"

#include <stdio.h>

/* The answers to them come in this order. */
enum { INSTALLING, SERVER, MINDING, LISTENING };

static bool ask_who_it_is(dlk_pg *pg)
{
    return dlk_pg_say(pg,
                      "SELECT dlock.version(), pg_is_in_recovery(), pg_backend_pid(), "
                      "current_setting('synchronous_standby_names') = ''",
                      0, NULL, NULL);
}

/* Behind a schema that is refused nothing is asked: it would call what somebody else has put there. */
bool dlk_pg_greet(dlk_pg *pg)
{
    if (pg->claims)
        return dlk_pg_advisory_greet(pg);
    pg->hears = false;
    pg->done[0] = '\0';
    pg->step = pg->installs ? INSTALLING : SERVER;
    return pg->installs ? dlk_pg_say(pg, dlk_pg_schema, 0, NULL, NULL)
                        : ask_who_it_is(pg);
}

/* Not on a connection of a pool: it would be another client's next, and listen on. */
static dlock_error *listen_on(dlk_pg *pg)
{
    /* Else what we have given up waits on in the server for whoever has the row, which with a standby that is
     * away may be for ever, and each of our tries takes one of its connections. */
    static const char mind[] = "SET client_connection_check_interval = '1s'";
    char listen[80];
    (void)snprintf(listen, sizeof(listen), "LISTEN \"%s\"", pg->channel);
    return dlk_pg_say(pg, mind, 0, NULL, NULL) && dlk_pg_say(pg, listen, 0, NULL, NULL)
               ? NULL
               : dlk_pg_link_error(pg);
}

/* Of its answer to who it is. */
enum { VERSION, STANDBY, PID, ALONE, FIELDS };

static dlock_error *judge(dlk_pg *pg, const PGresult *result)
{
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        return dlk_pg_error(result);
    if (PQntuples(result) != 1 || PQnfields(result) != FIELDS)
        return dlk_error_make(DLOCK_EPROTO, "postgres: its greeting makes no sense");
    if (dlk_pg_letter(result, 0, STANDBY) == 't')
        return dlk_error_make(DLOCK_EUNAVAIL,
                              "postgres: %s:%d is a standby, which only reads",
                              pg->servers[pg->server].host, pg->servers[pg->server].port);
    int64_t schema = dlk_pg_number(result, 0, VERSION, 0);
    if (schema != DLK_PG_SCHEMA)
        return dlk_error_make(DLOCK_ENOTSUP,
                              "postgres: its schema dlock is version %lld, and %d is "
                              "wanted: %s",
                              (long long)schema, DLK_PG_SCHEMA,
                              schema < DLK_PG_SCHEMA ? "dlock doctor --install"
                                                     : "a newer libdlock made it");
    if (pg->synchronous && dlk_pg_letter(result, 0, ALONE) == 't')
        return dlk_error_make(DLOCK_ENOTSUP,
                              "postgres: postgres.synchronous: %s:%d waits for no "
                              "standby: set synchronous_standby_names",
                              pg->servers[pg->server].host, pg->servers[pg->server].port);
    /* Who pools connections invents the number of the process; there is no session to listen in. */
    pg->pooled = dlk_pg_number(result, 0, PID, 0) != PQbackendPID(pg->conn);
    return NULL;
}

dlock_error *dlk_pg_greeted(dlk_pg *pg, const PGresult *result, bool *ret_done)
{
    if (pg->claims)
        return dlk_pg_advisory_greeted(pg, result, ret_done);
    int step = pg->step++;
    if (step == SERVER) {
        dlock_error *error = judge(pg, result);
        *ret_done = pg->pooled;
        return error || pg->pooled ? error : listen_on(pg);
    }
    if (step == MINDING)
        return NULL; /* not before PostgreSQL 14, nor on every system */
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        return dlk_pg_error(result);
    if (step == INSTALLING)
        return ask_who_it_is(pg) ? NULL : dlk_pg_link_error(pg);
    pg->hears = *ret_done = true;
    return NULL;
}
