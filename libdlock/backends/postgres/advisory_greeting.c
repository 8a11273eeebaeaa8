/* What is said first on a connection whose session is to have advisory locks. */
#include "backends/postgres/advisory.h"

#include <inttypes.h>
#include <stdio.h>

/* The answers to them come in this order. */
enum { SERVER, MINDING };

bool dlk_pg_advisory_greet(dlk_pg *pg)
{
    pg->hears = false;
    pg->step = SERVER;
    return dlk_pg_say(
        pg, "SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.pg_backend_pid()", 0, NULL,
        NULL);
}

/* Who isn't heard of any more has the locks for a lease, and not for the two hours after which the system looks; nor
 * for less, as a client that can't be reached believes in them for so long. */
static dlock_error *mind(dlk_pg *pg)
{
    int64_t ms = dlk_settings_int(pg->settings, DLK_KEY_LOCK_TTL_MS), s = ms / 1000;
    char whole[24], idle[24], between[24];
    const char *values[] = {whole, idle, between};
    static const int sizes[3] = {0};
    (void)snprintf(whole, sizeof(whole), "%" PRId64, ms);
    (void)snprintf(idle, sizeof(idle), "%" PRId64, s / 2 < 32000 ? s / 2 + 1 : 32000);
    (void)snprintf(between, sizeof(between), "%" PRId64,
                   s / 8 < 32000 ? s / 8 + 1 : 32000);
    return dlk_pg_say(pg,
                      "SELECT pg_catalog.set_config('tcp_user_timeout', $1, false), "
                      "pg_catalog.set_config('tcp_keepalives_idle', $2, false), "
                      "pg_catalog.set_config('tcp_keepalives_interval', $3, false), "
                      "pg_catalog.set_config('tcp_keepalives_count', '5', false)",
                      3, values, sizes)
               ? NULL
               : dlk_pg_link_error(pg);
}

static dlock_error *judge(dlk_pg *pg, const PGresult *result)
{
    enum { STANDBY, PID, FIELDS };
    const dlk_pg_server *server = &pg->servers[pg->server];
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        return dlk_pg_error(result);
    if (PQntuples(result) != 1 || PQnfields(result) != FIELDS)
        return dlk_error_make(DLOCK_EPROTO, "postgres: its greeting makes no sense");
    if (dlk_pg_letter(result, 0, STANDBY) == 't')
        return dlk_error_make(DLOCK_EUNAVAIL,
                              "postgres: %s:%d is a standby, whose advisory locks are "
                              "not those of its primary",
                              server->host, server->port);
    /* Who pools connections invents the number of the process. */
    if (dlk_pg_number(result, 0, PID, 0) != PQbackendPID(pg->conn))
        return dlk_error_make(DLOCK_ENOTSUP,
                              "postgres: %s:%d is a pool of connections: an advisory "
                              "lock is its session's, which another client may have "
                              "next: connect to the server itself, or use "
                              "postgres.layout=table",
                              server->host, server->port);
    return mind(pg);
}

/* What of the settings of TCP a system hasn't stays as it is. */
dlock_error *dlk_pg_advisory_greeted(dlk_pg *pg, const PGresult *result, bool *ret_done)
{
    if (pg->step++ == SERVER)
        return judge(pg, result);
    *ret_done = PQresultStatus(result) == PGRES_TUPLES_OK;
    return *ret_done ? NULL : dlk_pg_error(result);
}
