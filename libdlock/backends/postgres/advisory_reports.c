/* Inspecting, listing, and examining the server, where locks are advisory. */
#include "backends/postgres/advisory.h"

#include "util/findings.h"
#include "util/info.h"
#include "util/who.h"

#include <stdio.h>
#include <string.h>

/* Those of this database, as all others are other locks. */
#define OF_HERE                                                                          \
    "l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_catalog.pg_database "  \
    "WHERE datname = pg_catalog.current_database())"
#define WHO                                                                              \
    "SELECT l.classid, l.objid, l.objsubid, l.mode, l.granted, l.pid, "                  \
    "l.pid = pg_catalog.pg_backend_pid(), a.application_name, "                          \
    "pg_catalog.host(a.client_addr) FROM pg_catalog.pg_locks l LEFT JOIN "               \
    "pg_catalog.pg_stat_activity a ON a.pid = l.pid WHERE " OF_HERE
enum { CLASS, OBJECT, HALVES, MODE, GRANTED, PID, OURS, NAME, ADDRESS, COLUMNS };

const char dlk_pg_advisory_inspect[] = WHO " AND " DLK_PG_IS_ONE " ORDER BY l.pid";
const char dlk_pg_advisory_inspect_pair[] = WHO " AND " DLK_PG_IS_PAIR " ORDER BY l.pid";
const char dlk_pg_advisory_list[] = WHO " AND l.granted ORDER BY 3, 1, 2, l.pid";

/* A session is known by its process at the server, and by what it says of itself. */
static void add_session(dlock_info *info, const PGresult *result, int row,
                        const char *list, size_t number)
{
    dlk_who who = {.pid = 0};
    dlk_info_add_text(info, PQgetvalue(result, row, PID), "%s.%zu.owner", list, number);
    (void)snprintf(who.client, sizeof(who.client), "%s", PQgetvalue(result, row, NAME));
    (void)snprintf(who.host, sizeof(who.host), "%s", PQgetvalue(result, row, ADDRESS));
    dlk_who_tell(info, &who, list, number);
}

static bool is_shared(const PGresult *result, int row)
{
    return strcmp(PQgetvalue(result, row, MODE), "ShareLock") == 0;
}

dlock_error *dlk_pg_advisory_inspected(dlk_pg *pg, dlk_ask *ask, const PGresult *result)
{
    size_t holders = 0, waiting = 0;
    bool shared = false;
    if (PQnfields(result) != COLUMNS)
        return dlk_pg_nonsense();
    dlock_info *info = dlk_info_new();
    for (int row = 0; row < PQntuples(result); row++) {
        if (dlk_pg_letter(result, row, GRANTED) == 't') {
            shared = is_shared(result, row);
            dlk_info_add_int(info, 0, "holders.%zu.token", holders);
            add_session(info, result, row, "holders", holders++);
        } else {
            add_session(info, result, row, "waiting", waiting++);
        }
    }
    dlk_info_add_int(info, holders > 0, "held");
    const char *kind = dlk_kind_of((int)ask->key->kind)->name;
    dlk_info_add_text(info, shared && ask->key->kind == DLOCK_WRITE ? "read" : kind,
                      "kind");
    dlk_info_add_int(info, (int64_t)waiting, "waiters");
    dlk_info_add_text(info, "advisory", "layout");
    if (holders > 0)
        ask->wait_ms = dlk_pg_retry_ms(pg);
    dlk_pg_give_info(pg, ask, info);
    return NULL;
}

/* What the server knows is keys: those of hashes say no more of a name. */
dlock_error *dlk_pg_advisory_listed(dlk_pg *pg, dlk_ask *ask, const PGresult *result)
{
    const char *prefix = ask->text ? ask->text : "";
    int64_t count = 0;
    if (PQnfields(result) != COLUMNS)
        return dlk_pg_nonsense();
    dlock_info *info = dlk_info_new();
    for (int row = 0; row < PQntuples(result) && count < ask->limit; row++) {
        char text[DLK_PG_LOCK_MAX];
        dlk_pg_lock lock = dlk_pg_lock_said(result, row);
        (void)dlk_pg_lock_text(&lock, text);
        if (strncmp(text, prefix, strlen(prefix)) != 0)
            continue;
        dlk_info_add_text(info, text, "locks.%lld.name", (long long)count);
        add_session(info, result, row, "locks", (size_t)count++);
    }
    dlk_pg_give_info(pg, ask, info);
    return NULL;
}

const char dlk_pg_advisory_examine[] =
    "SELECT pg_catalog.current_setting('server_version'), "
    "pg_catalog.current_setting('max_locks_per_transaction')::bigint * "
    "(pg_catalog.current_setting('max_connections')::bigint + "
    "pg_catalog.current_setting('max_prepared_transactions')::bigint), "
    "(SELECT count(*) FROM pg_catalog.pg_locks WHERE locktype = 'advisory')";

dlock_error *dlk_pg_advisory_examined(dlk_pg *pg, dlk_ask *ask, const PGresult *result)
{
    enum { VERSION, ROOM, TAKEN, FIELDS };
    if (PQnfields(result) != FIELDS)
        return dlk_pg_nonsense();
    dlock_info *info = dlk_info_new();
    int64_t room = dlk_pg_number(result, 0, ROOM, 0),
            taken = dlk_pg_number(result, 0, TAKEN, 0);
    dlk_find(info, "server", DLK_FINE, "PostgreSQL %.40s, advisory locks",
             PQgetvalue(result, 0, VERSION));
    dlk_find(info, "tokens", DLK_WARNING,
             "an advisory lock has no token, and is free as soon as its session ends: "
             "nothing keeps a late write of its holder from what it protects "
             "(postgres.layout=table)");
    dlk_find(info, "room", taken > room / 2 ? DLK_WARNING : DLK_FINE,
             "%lld advisory locks are held of about %lld that the server has room for, "
             "tables' locks among them (max_locks_per_transaction)",
             (long long)taken, (long long)room);
    dlk_pg_judge_way(pg, info);
    dlk_find_verdict(info);
    dlk_pg_give_info(pg, ask, info);
    return NULL;
}
