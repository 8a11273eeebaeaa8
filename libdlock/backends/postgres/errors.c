/* What PostgreSQL's and libpq's errors mean. */
#include "backends/postgres/inner.h"

#include "util/number.h"

#include <string.h>

static const struct {
    const char *state; /* SQLSTATE, or its class */
    dlock_err code;
    const char *advice; /* behind the server's words, or NULL */
} meanings[] = {
    {"28", DLOCK_EACCES, NULL}, /* who we say we are */
    {"42501", DLOCK_EACCES, "GRANT dlock_user TO its user"},
    {"3D000", DLOCK_EINVAL, NULL}, /* no such database */
    {"22021", DLOCK_EINVAL, NULL}, /* a text that its encoding hasn't */
    {"22023", DLOCK_ENOTSUP, "postgres.synchronous: set synchronous_standby_names"},
    {"3F000", DLOCK_ENOTSUP, "the schema dlock isn't there: dlock doctor --install"},
    {"42883", DLOCK_ENOTSUP,
     "the schema dlock is another version's: dlock doctor --install"},
    {"42P01", DLOCK_ENOTSUP,
     "the schema dlock is another version's: dlock doctor --install"},
    {"DL002", DLOCK_ENOTSUP,
     "ALTER ROLE … SET default_transaction_isolation = 'read committed'"},
    {"DL003", DLOCK_ENOTSUP, NULL}, /* what schema.sql says to who installs it */
    {"DL004", DLOCK_EACCES, NULL},
    {"08", DLOCK_EUNAVAIL, NULL},    /* connections */
    {"25006", DLOCK_EUNAVAIL, NULL}, /* only reads: a standby */
    {"40", DLOCK_EUNAVAIL, NULL},    /* rolled back: again may succeed */
    {"53", DLOCK_EUNAVAIL, NULL},    /* too little of something */
    {"55", DLOCK_EUNAVAIL, NULL},    /* not now */
    {"57", DLOCK_EUNAVAIL, NULL},    /* cancelled, or it shuts down */
    {"58", DLOCK_EUNAVAIL, NULL},    /* the system below it */
};

static dlock_error *meaning(const char *state, const char *words)
{
    dlock_err code = DLOCK_EPROTO;
    const char *advice = NULL;
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
        if (strncmp(state, meanings[i].state, strlen(meanings[i].state)) == 0) {
            code = meanings[i].code;
            advice = meanings[i].advice;
            break;
        }
    dlock_error *error = dlk_error_make(code, "postgres: %s%s%s", words,
                                        advice ? ": " : "", advice ? advice : "");
    dlk_error_backend(&error, state);
    return error;
}

dlock_error *dlk_pg_error(const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *words = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    if (!state)
        return dlk_error_make(DLOCK_EUNAVAIL, "postgres: the connection is lost");
    return meaning(state, words ? words : "an error without words");
}

/* In "FATAL:  28P01: password authentication failed", as libpq has it where it is to be verbose: where the
 * state begins; NULL: there is none. */
static const char *state_in(const char *text)
{
    for (const char *at = strchr(text, ':'); at; at = strchr(at + 1, ':')) {
        const char *state = at + 1 + strspn(at + 1, " ");
        size_t digits = strcspn(state, "0123456789"); /* FATAL has none */
        if (strspn(state, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 5 &&
            state[5] == ':' && digits < 5)
            return state;
    }
    return NULL;
}

dlock_error *dlk_pg_link_error(const dlk_pg *pg)
{
    const char *text = pg->conn ? PQerrorMessage(pg->conn) : "", *state = state_in(text);
    char words[512], code[6] = "";
    const char *peer = pg->servers[pg->server].host;
    const char *from = state ? state + 6 + strspn(state + 6, " ") : text;
    int size = (int)strcspn(from, "\n");
    (void)snprintf(words, sizeof(words), "%s:%d: %.*s", peer,
                   pg->servers[pg->server].port, size,
                   size ? from : "the connection is lost");
    if (!size)
        (void)snprintf(words, sizeof(words), "%s:%d: the connection is lost", peer,
                       pg->servers[pg->server].port);
    if (!state)
        return dlk_error_make(DLOCK_EUNAVAIL, "postgres: %s", words);
    memcpy(code, state, 5);
    return meaning(code, words);
}

dlock_error *dlk_pg_nonsense(void)
{
    return dlk_error_make(DLOCK_EPROTO, "postgres: an answer makes no sense");
}

int64_t dlk_pg_number(const PGresult *result, int row, int column, int64_t otherwise)
{
    if (PQgetisnull(result, row, column))
        return otherwise;
    return dlk_number_or(PQgetvalue(result, row, column), 0, INT64_MAX, otherwise);
}

char dlk_pg_letter(const PGresult *result, int row, int column)
{
    return PQgetlength(result, row, column) == 1 ? PQgetvalue(result, row, column)[0] : 0;
}
