/* What PostgreSQL's words are taken for, without a server. */
#include "backends/postgres/inner.h"
#include "harness/harness.h"

#include <stdint.h>
#include <string.h>

static const char *said;
char *__wrap_PQerrorMessage(const PGconn *conn);
char *__wrap_PQerrorMessage(const PGconn *conn)
{
    (void)conn;
    return (char *)(uintptr_t)said;
}

TEST(a_connections_end_is_what_its_state_says)
{
    static const struct {
        const char *text;
        dlock_err code;
        const char *words;
    } all[] = {
        {"connection to server at \"db\" (::1), port 5432 failed: FATAL:  28P01: "
         "password "
         "authentication failed for user \"app\"\nLOCATION:  auth_failed, auth.c:326\n",
         DLOCK_EACCES, "password authentication failed for user \"app\""},
        {"FATAL:  3D000: database \"x\" does not exist\n", DLOCK_EINVAL,
         "does not exist"},
        {"FATAL:  57P03: the database system is starting up\n", DLOCK_EUNAVAIL,
         "starting up"},
        {"connection to server at \"127.0.0.1\", port 1 failed: Connection refused\n",
         DLOCK_EUNAVAIL, "Connection refused"},
        {"server closed the connection unexpectedly\n\tmore\n", DLOCK_EUNAVAIL,
         "unexpectedly"},
        {"FATAL:  XX000: what nobody knows\n", DLOCK_EPROTO, "what nobody knows"},
        {"FATAL: 12345", DLOCK_EUNAVAIL, "FATAL"}, /* cut off: no state */
        {":::: :", DLOCK_EUNAVAIL, ""},
        {"", DLOCK_EUNAVAIL, "the connection is lost"},
    };
    char host[] = "db";
    dlk_pg_server server = {.host = host, .port = 5432};
    int it = 0;
    dlk_pg pg = {.servers = &server, .conn = (PGconn *)(void *)&it};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        said = all[i].text;
        dlock_error *error = dlk_pg_link_error(&pg);
        CHECK_EQ_INT(dlock_error_code(error), all[i].code);
        CHECK_CONTAINS(dlock_error_text(error), all[i].words);
        CHECK_CONTAINS(dlock_error_text(error), "db:5432");
        CHECK(!strchr(dlock_error_text(error), '\n'));
        dlock_error_free(error);
    }
}
