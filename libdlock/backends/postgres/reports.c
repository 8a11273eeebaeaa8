/* Inspecting, listing, and examining the server. */
#include "backends/postgres/inner.h"

#include "util/digits.h"
#include "util/findings.h"
#include "util/info.h"
#include "util/number.h"
#include "util/who.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dlk_pg_give_info(dlk_pg *pg, dlk_ask *ask, dlock_info *info)
{
    if (dlk_info_failed(info)) {
        dlk_info_free(info);
        dlk_flight_refuse(&pg->flight, ask,
                          dlk_error_make(DLOCK_ENOMEM, "postgres: out of memory"));
        return;
    }
    ask->info = info;
    dlk_flight_answer(&pg->flight, ask, DLK_YES);
}

char *dlk_pg_unhex(const char *hex)
{
    size_t size = strlen(hex) / 2;
    char *text = malloc(size + 1);
    for (size_t i = 0; text && i < size; i++) {
        int high = dlk_digits_hex(hex[2 * i]), low = dlk_digits_hex(hex[2 * i + 1]);
        if (high < 0 || low < 0) {
            free(text);
            return NULL;
        }
        text[i] = (char)(high << 4 | low);
    }
    if (text)
        text[size] = '\0';
    return text;
}

/* dlock.inspect's columns. */
enum { WHAT, KIND, PERMITS, OWNER, SHARED, TAKE, TOKEN, LEFT, SINCE, WHO, DATA, COLUMNS };

/* Since when by the server's clock, in ms of the epoch. */
static void tell_since(dlock_info *info, const PGresult *result, int row,
                       const char *list, size_t number)
{
    int64_t since = dlk_pg_number(result, row, SINCE, 0);
    if (since > 0)
        dlk_info_add_int(info, since, "%s.%zu.since", list, number);
}

static void tell_client(dlock_info *info, const PGresult *result, int row, int column,
                        const char *list, size_t number)
{
    char *who = dlk_pg_unhex(PQgetvalue(result, row, column));
    if (who)
        (void)dlk_who_tell_text(info, who, strlen(who), list, number);
    free(who);
}

/* ---- inspect ---- */

static void add_holder(dlock_info *info, const PGresult *result, int row, size_t holder,
                       bool tokens)
{
    char *data = dlk_pg_unhex(PQgetvalue(result, row, DATA));
    dlk_info_add_text(info, PQgetvalue(result, row, OWNER), "holders.%zu.owner", holder);
    dlk_info_add_int(info, tokens ? dlk_pg_number(result, row, TOKEN, 0) : 0,
                     "holders.%zu.token", holder);
    dlk_info_add_int(info, dlk_pg_number(result, row, LEFT, 0),
                     "holders.%zu.remaining_ms", holder);
    dlk_info_add_int(info, dlk_pg_number(result, row, TAKE, 1), "holders.%zu.count",
                     holder);
    tell_client(info, result, row, WHO, "holders", holder);
    tell_since(info, result, row, "holders", holder);
    if (data && data[0])
        dlk_info_add_text(info, data, "holders.%zu.data", holder);
    free(data);
}

/* Of this client's waiters the core knows, but not of those that want another kind of this name, as its condition. */
static bool is_known(const dlk_pg *pg, const dlk_ask *ask, const char *kind,
                     const char *owner)
{
    return kind && strcmp(kind, dlk_pg_word(ask->key->kind)) == 0 &&
           strncmp(owner, pg->base.host->uuid, strlen(pg->base.host->uuid)) == 0;
}

static void add_waiter(dlock_info *info, const PGresult *result, int row, size_t waiter)
{
    dlk_info_add_text(info, PQgetvalue(result, row, OWNER), "waiting.%zu.owner", waiter);
    tell_client(info, result, row, WHO, "waiting", waiter);
    tell_since(info, result, row, "waiting", waiter);
}

static void add_permits(dlock_info *info, int64_t permits, int64_t taken)
{
    if (permits == 0)
        return;
    dlk_info_add_int(info, permits, "permits");
    dlk_info_add_int(info, permits > taken ? permits - taken : 0, "permits_free");
}

dlock_error *dlk_pg_inspected(dlk_pg *pg, dlk_ask *ask, const PGresult *result)
{
    const char *kind = NULL;
    int64_t left = -1, waiters = 0, permits = 0, taken = 0;
    size_t holders = 0, waiting = 0;
    bool shared = false;
    if (PQnfields(result) != COLUMNS)
        return dlk_pg_nonsense();
    dlock_info *info = dlk_info_new();
    for (int row = 0; row < PQntuples(result); row++) {
        const char *what = PQgetvalue(result, row, WHAT);
        if (what[0] == 'l') {
            kind = PQgetvalue(result, row, KIND);
            permits = dlk_pg_number(result, row, PERMITS, 0);
            waiters = dlk_pg_number(result, row, TAKE, 0);
        } else if (what[0] == 'h') {
            int64_t its = dlk_pg_number(result, row, LEFT, 0);
            left = left < 0 || its < left ? its : left;
            taken = dlk_number_sum(taken, dlk_pg_number(result, row, TAKE, 1));
            shared = dlk_pg_letter(result, row, SHARED) == 't';
            add_holder(info, result, row, holders++,
                       !kind || strcmp(kind, "semaphore") != 0);
        } else {
            add_waiter(info, result, row, waiting++);
            waiters -= is_known(pg, ask, kind, PQgetvalue(result, row, OWNER));
        }
    }
    if (!kind)
        kind = dlk_kind_of((int)ask->key->kind)->name;
    dlk_info_add_int(info, holders > 0, "held");
    dlk_info_add_text(info, shared && strcmp(kind, "write") == 0 ? "read" : kind, "kind");
    dlk_info_add_int(info, waiters > 0 ? waiters : 0, "waiters");
    if (strcmp(kind, "semaphore") == 0)
        add_permits(info,
                    permits ? permits
                            : dlk_settings_int(ask->key->settings, DLK_KEY_LOCK_PERMITS),
                    taken);
    dlk_info_add_text(info, pg->base.type->traits.layout, "layout");
    if (holders > 0) {
        int64_t retry_ms = dlk_pg_retry_ms(pg);
        ask->wait_ms = pg->hears || left < retry_ms ? dlk_span_ms(left) : retry_ms;
    }
    dlk_pg_give_info(pg, ask, info);
    return NULL;
}

/* ---- list ---- */

dlock_error *dlk_pg_listed(dlk_pg *pg, dlk_ask *ask, const PGresult *result)
{
    if (PQnfields(result) != 4)
        return dlk_pg_nonsense();
    dlock_info *info = dlk_info_new();
    for (int row = 0; row < PQntuples(result); row++) {
        char *name = dlk_pg_unhex(PQgetvalue(result, row, 0));
        dlk_info_add_text(info, name ? name : "?", "locks.%d.name", row);
        dlk_info_add_text(info, PQgetvalue(result, row, 1), "locks.%d.owner", row);
        dlk_info_add_int(info, dlk_pg_number(result, row, 2, 0), "locks.%d.remaining_ms",
                         row);
        tell_client(info, result, row, 3, "locks", (size_t)row);
        free(name);
    }
    dlk_pg_give_info(pg, ask, info);
    return NULL;
}

/* ---- doctor ---- */

void dlk_pg_judge_way(const dlk_pg *pg, dlock_info *info)
{
    bool tls = PQsslInUse(pg->conn) == 1;
    dlk_find(
        info, "transport", tls || pg->servers[pg->server].local ? DLK_FINE : DLK_WARNING,
        tls ? "TLS" : "plain: whoever is on the way can forge grants (postgres.tls)");
}

const char dlk_pg_examine[] =
    "SELECT current_setting('server_version'), current_setting('synchronous_commit'), "
    "current_setting('fsync'), (SELECT count(*) FROM pg_stat_get_wal_senders())";

enum { VERSION, COMMIT, FSYNC, STANDBYS, EXAMINED };

dlock_error *dlk_pg_examined(dlk_pg *pg, dlk_ask *ask, const PGresult *result)
{
    char text[320];
    if (PQnfields(result) != EXAMINED)
        return dlk_pg_nonsense();
    dlock_info *info = dlk_info_new();
    (void)snprintf(text, sizeof(text), "PostgreSQL %.40s, schema dlock %d%s",
                   PQgetvalue(result, 0, VERSION), DLK_PG_SCHEMA,
                   pg->hears ? "" : ", through a pool of connections: no messages");
    dlk_find(info, "server", pg->hears ? DLK_FINE : DLK_WARNING, "%s", text);
    if (pg->installs)
        dlk_find(info, "install", DLK_FINE, "%s",
                 pg->done[0] ? pg->done : "the schema dlock was there: nothing was done");
    bool loses = strcmp(PQgetvalue(result, 0, COMMIT), "off") == 0 ||
                 strcmp(PQgetvalue(result, 0, FSYNC), "on") != 0;
    dlk_find(info, "commit", loses ? DLK_UNSAFE : DLK_FINE,
             loses ? "a crash may forget grants that were confirmed: set fsync=on and "
                     "synchronous_commit=on"
                   : "a grant is on disk before it is confirmed");
    int64_t standbys = dlk_pg_number(result, 0, STANDBYS, 0);
    if (standbys > 0)
        dlk_find(
            info, "standbys", pg->synchronous ? DLK_FINE : DLK_WARNING, "%s",
            pg->synchronous
                ? "a grant waits until a standby has it"
                : "a standby that is promoted may not know the last grants: locks may be "
                  "granted "
                  "twice then, and tokens given again, unless commits wait for it");
    dlk_pg_judge_way(pg, info);
    dlk_find_verdict(info);
    dlk_pg_give_info(pg, ask, info);
    return NULL;
}
