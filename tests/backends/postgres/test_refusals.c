/* What a server says no to, and in which words; and names and databases of every kind. */
#include "api/world.h"
#include "harness/postgres_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *ask(const char *statement)
{
    return postgres_server_ask(world_postgres(), "%s", statement);
}

/* As this user, in this database: whether a lock can be had; else what is said. */
static dlock_err try_as(const char *user, const char *database, char *text, size_t room)
{
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_conf)
    conf = api_conf("client.connect_ms=20000 client.timeout_ms=20000");
    char uri[256];
    snprintf(uri, sizeof(uri), "postgres://%s@127.0.0.1:%d/%s", user,
             world_postgres()->port, database);
    dlock_err code = dlock_client_open(uri, conf, &client, &err);
    code = code ? code : dlock_acquire(client, "refusals", 0, &hold, &err);
    snprintf(text, room, "%s", err ? dlock_error_text(err) : "");
    return code;
}

TEST(who_has_no_rights_is_told_which_role_gives_them)
{
    char text[512];
    BEGIN();
    CHECK_STR(ask("CREATE ROLE nobody_yet LOGIN"), "");
    CHECK_ERR(try_as("nobody_yet", "postgres", text, sizeof(text)), DLOCK_EACCES, NULL);
    CHECK_CONTAINS(text, "GRANT dlock_user TO");
    CHECK_STR(ask("GRANT dlock_guard TO nobody_yet"), "");
    CHECK_ERR(try_as("nobody_yet", "postgres", text, sizeof(text)), DLOCK_EACCES, NULL);
    CHECK_CONTAINS(text, "GRANT dlock_user TO");
    CHECK_STR(ask("GRANT dlock_user TO nobody_yet"), "");
    CHECK_ERR(try_as("nobody_yet", "postgres", text, sizeof(text)), DLOCK_OK, NULL);
    CHECK_ERR(try_as("stranger", "postgres", text, sizeof(text)), DLOCK_EACCES, NULL);
    CHECK_CONTAINS(text, "stranger");
}

TEST(a_user_touches_the_functions_and_not_the_tables)
{
    BEGIN();
    CHECK_STR(ask("CREATE ROLE curious LOGIN IN ROLE dlock_user"), "");
    CHECK_STR(ask("SELECT bool_or(has_table_privilege('curious', c.oid, 'SELECT, INSERT, "
                  "UPDATE, DELETE')) "
                  "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE "
                  "n.nspname = 'dlock' "
                  "AND c.relkind = 'r'"),
              "f");
    CHECK_STR(ask("SELECT has_function_privilege('public', 'dlock.break(bytea, text)', "
                  "'EXECUTE'), "
                  "has_function_privilege('dlock_guard', 'dlock.break(bytea, text)', "
                  "'EXECUTE')"),
              "f f");
}

TEST(a_database_without_the_schema_says_how_to_get_it)
{
    char text[512];
    BEGIN();
    CHECK_STR(ask("CREATE DATABASE bare"), "");
    CHECK_ERR(try_as("postgres", "bare", text, sizeof(text)), DLOCK_ENOTSUP, NULL);
    CHECK_CONTAINS(text, "dlock doctor --install");
    CHECK_ERR(try_as("postgres", "missing", text, sizeof(text)), DLOCK_EINVAL, NULL);
    CHECK_CONTAINS(text, "missing");
}

TEST(a_schema_of_another_version_is_refused)
{
    char text[512];
    BEGIN();
    CHECK_STR(ask("CREATE DATABASE newer"), "");
    postgres_server other = *world_postgres();
    snprintf(other.database, sizeof(other.database), "newer");
    CHECK_STR(postgres_server_load(&other, postgres_server_schema), "");
    CHECK_STR(postgres_server_ask(
                  &other, "CREATE OR REPLACE FUNCTION dlock.version() RETURNS int "
                          "LANGUAGE sql IMMUTABLE AS 'SELECT 1000'"),
              "");
    CHECK_ERR(try_as("postgres", "newer", text, sizeof(text)), DLOCK_ENOTSUP, NULL);
    CHECK_CONTAINS(text, "1000");
}

TEST(where_transactions_repeat_their_reads_it_says_so)
{
    char text[512];
    BEGIN();
    CHECK_STR(ask("CREATE ROLE strict LOGIN IN ROLE dlock_user"), "");
    CHECK_STR(ask("ALTER ROLE strict SET default_transaction_isolation = 'serializable'"),
              "");
    CHECK_ERR(try_as("strict", "postgres", text, sizeof(text)), DLOCK_ENOTSUP, NULL);
    CHECK_CONTAINS(text, "default_transaction_isolation");
}

/* The server says what a statement answers before it commits: that is no grant yet, and the answer of who asked
 * before isn't taken for that of who asked behind. */
TEST(what_cannot_be_committed_is_no_grant_and_nobody_elses_answer)
{
    BEGIN();
    DLOCK_AUTO(dlock_client)
    client =
        api_open("postgres://postgres@127.0.0.1:%d/postgres", world_postgres()->port);
    DLOCK_AUTO(dlock_hold) held = NULL;
    DLOCK_AUTO(dlock_hold) again = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK_STR(ask("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                  "IF NEW.name = 'late' THEN RAISE EXCEPTION 'not committed' USING "
                  "ERRCODE = '53100'; END IF; RETURN NULL; END $$"),
              "");
    CHECK_STR(ask("CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON dlock.holders "
                  "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()"),
              "");
    CHECK_ERR(dlock_acquire(client, "late", 0, &held, &err), DLOCK_EUNAVAIL, NULL);
    CHECK(err && strstr(dlock_error_text(err), "not committed"));
    CHECK(!held);
    dlock_error_free(err);
    err = NULL;
    for (int i = 0; i < 3; i++) {
        CHECK_ERR(dlock_acquire(client, "late", 0, &again, NULL), DLOCK_EUNAVAIL, NULL);
        CHECK_OK(dlock_acquire(client, "punctual", 0, &held, &err), err);
        CHECK_STR(ask("SELECT name = 'punctual' FROM dlock.holders"), "t");
        CHECK_OK(dlock_hold_release(held, NULL), NULL);
        dlock_hold_free(held);
        held = NULL;
        CHECK_STR(ask("SELECT count(*) FROM dlock.holders"), "0");
    }
    CHECK_STR(ask("DROP TRIGGER refuse ON dlock.holders"), "");
    CHECK_STR(ask("DROP FUNCTION refuse()"), "");
}

/* ---- names ---- */

static void lock_and_look(dlock_client *client, const postgres_server *server,
                          const char *name, const char *hex)
{
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK_OK(dlock_acquire(client, name, 0, &hold, &err), err);
    if (hex)
        CHECK_STR(
            postgres_server_ask(server, "SELECT encode(name, 'hex') FROM dlock.holders"),
            hex);
    CHECK_STR(postgres_server_ask(server, "SELECT count(*) FROM dlock.holders"), "1");
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    CHECK_STR(postgres_server_ask(server, "SELECT count(*) FROM dlock.holders"), "0");
}

static void lock_all(const char *database)
{
    char all[256], large[1025];
    postgres_server server = *world_postgres();
    snprintf(server.database, sizeof(server.database), "%s", database);
    DLOCK_AUTO(dlock_client)
    client = api_open("postgres://postgres@127.0.0.1:%d/%s", server.port, database);
    for (int i = 1; i < 256; i++)
        all[i - 1] = (char)i;
    all[255] = '\0';
    memset(large, '\'', 1024);
    large[1024] = '\0';
    lock_and_look(client, &server, "'; DROP TABLE dlock.locks; --", NULL);
    lock_and_look(client, &server, "\xc3\xa4\\x00", "c3a45c783030");
    lock_and_look(client, &server, all, NULL);
    lock_and_look(client, &server, large, NULL);
}

TEST(any_bytes_are_a_name_in_utf8)
{
    BEGIN();
    lock_all("postgres");
}

TEST(any_bytes_are_a_name_in_sql_ascii)
{
    BEGIN();
    CHECK_STR(ask("CREATE DATABASE ascii ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE "
                  "'C' TEMPLATE "
                  "template0"),
              "");
    postgres_server server = *world_postgres();
    snprintf(server.database, sizeof(server.database), "ascii");
    CHECK_STR(postgres_server_load(&server, postgres_server_schema), "");
    lock_all("ascii");
    /* The guard's text is the same name. */
    CHECK_CONTAINS(
        postgres_server_ask(&server,
                            "SELECT dlock.check(E'\\303\\244\\\\x00'::text, token) IS "
                            "NULL FROM dlock.fences WHERE name = '\\xc3a45c783030'"),
        "f");
}
