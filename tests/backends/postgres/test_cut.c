/* The connection is cut at each of its messages in turn; and transactions that don't end hold up nobody for ever. */
#include "api/world.h"
#include "harness/postgres_server.h"
#include "harness/time.h"
#include "proxy/proxy.h"

#include <inttypes.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGES_MAX = 32, TRIES = 8, LONG_MS = 60000 };

static const char *ask(const char *statement)
{
    return postgres_server_ask(world_postgres(), "%s", statement);
}

static dlock_client *direct(void)
{
    return api_open("postgres://postgres@127.0.0.1:%d/postgres", world_postgres()->port);
}

static dlock_client *direct_advisory(void)
{
    return api_open("postgres://postgres@127.0.0.1:%d/postgres?postgres.layout=advisory&"
                    "client.retry_ms=5",
                    world_postgres()->port);
}

/* ---- cuts ---- */

static const struct {
    proxy_deed deed;
    const char *name;
} deeds[] = {{PROXY_CUT_BEFORE, "cut before"},     {PROXY_CUT_AFTER, "cut after"},
             {PROXY_CUT_REPLY, "cut reply"},       {PROXY_DROP_REPLY, "drop reply"},
             {PROXY_TEAR_REQUEST, "tear request"}, {PROXY_TEAR_REPLY, "tear reply"}};

static dlock_client *by_way_of(proxy_link *link, const char *layout)
{
    char uri[160];
    DLOCK_AUTO(dlock_conf)
    conf = api_conf("client.lazy=true client.timeout_ms=1000 client.connect_ms=1000 "
                    "client.backoff_min_ms=1 client.backoff_max_ms=20 lock.ttl_ms=3000");
    dlock_client *client = NULL;
    snprintf(uri, sizeof(uri),
             "postgres://postgres@127.0.0.1:%d/postgres?postgres.layout=%s",
             proxy_port(link), layout);
    (void)dlock_client_open(uri, conf, &client, NULL); /* NULL is seen */
    return client;
}

/* What isn't told to have failed is so: who holds is in the table, with that token. */
static void hold_once(dlock_client *client, int64_t *ret_token)
{
    DLOCK_AUTO(dlock_hold) hold = NULL;
    dlock_err code = DLOCK_EUNAVAIL;
    for (int i = 0; i < TRIES && code != DLOCK_OK; i++)
        code = dlock_acquire(client, "cut", LONG_MS, &hold, NULL);
    CHECK_ERR(code, DLOCK_OK, NULL);
    int64_t token = *ret_token = dlock_hold_token(hold);
    if (dlock_hold_verify(hold, NULL) == DLOCK_OK)
        CHECK_EQ_INT(strtoll(ask("SELECT token FROM dlock.holders"), NULL, 10), token);
    (void)dlock_hold_extend(hold, 3000, NULL);
    (void)dlock_hold_release(hold, NULL); /* or it ends by itself */
}

/* What verify confirms the session has. */
static void hold_advisory_once(dlock_client *client)
{
    DLOCK_AUTO(dlock_hold) hold = NULL;
    dlock_err code = DLOCK_EUNAVAIL;
    for (int i = 0; i < TRIES && code != DLOCK_OK; i++)
        code = dlock_acquire(client, "cut", LONG_MS, &hold, NULL);
    CHECK_ERR(code, DLOCK_OK, NULL);
    if (dlock_hold_verify(hold, NULL) == DLOCK_OK)
        CHECK_STR(ask("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), "1");
    (void)dlock_hold_release(hold, NULL); /* or it ends with its session */
}

static void cut_advisory_at(proxy_link *link, dlock_client *other, proxy_deed deed,
                            int number)
{
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK(proxy_add_plan(link, (proxy_plan){.deed = deed, .number = number}));
    dlock_client *client = by_way_of(link, "advisory");
    CHECK(client != NULL);
    hold_advisory_once(client);
    CHECK_OK(dlock_acquire(other, "cut", LONG_MS, &hold, &err), err);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    dlock_client_free(client);
    proxy_forget_plans(link);
    AWAIT(strcmp(ask("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), "0") ==
          0);
}

static void cut_at(proxy_link *link, dlock_client *other, proxy_deed deed, int number)
{
    int64_t token = 0;
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK(proxy_add_plan(link, (proxy_plan){.deed = deed, .number = number}));
    dlock_client *client = by_way_of(link, "table");
    CHECK(client != NULL);
    hold_once(client, &token);
    CHECK_OK(dlock_acquire(other, "cut", LONG_MS, &hold, &err), err);
    CHECK(hold && dlock_hold_token(hold) > token);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    dlock_client_free(client);
    proxy_forget_plans(link);
    CHECK_STR(ask("SELECT count(*) FROM dlock.holders"), "0");
    CHECK_STR(ask("SELECT count(*) FROM dlock.line WHERE ends > now()"), "0");
}

/* ---- cuts: conditions ---- */

static int64_t in_line(void)
{
    return strtoll(ask("SELECT count(*) FROM dlock.line WHERE ends > clock_timestamp()"),
                   NULL, 10);
}

static void line_up(dlock_cond *cond, dlock_op **ret_op)
{
    int64_t before = in_line();
    *ret_op = dlock_cond_wait_start(cond, NULL, LONG_MS);
    AWAIT(in_line() > before);
}

static bool is_signalled(dlock_cond *by, const dlock_op *op)
{
    int64_t count = 0;
    return dlock_op_result(op) != DLOCK_EPENDING ||
           (dlock_cond_signal(by, 1, NULL, &count, NULL) == DLOCK_OK && count == 1);
}

/* Whoever waits by way of the link wakes up, by the signal or since it can't know of it. */
static void wait_once(dlock_cond *cond, dlock_cond *by)
{
    DLOCK_AUTO(dlock_op) op = dlock_cond_wait_start(cond, NULL, LONG_MS);
    CHECK(AWAITED(is_signalled(by, op)));
    CHECK(api_ends(op, LONG_MS / 2, DLOCK_OK));
}

/* What is confirmed has woken the first, and one at most is woken in any case. */
static void signal_once(dlock_cond *cond, dlock_cond *by)
{
    DLOCK_AUTO(dlock_op) first = NULL;
    DLOCK_AUTO(dlock_op) second = NULL;
    int64_t count = 0, rest = 0;
    line_up(by, &first);
    line_up(by, &second);
    dlock_err code = dlock_cond_signal(cond, 1, NULL, &count, NULL);
    CHECK(code == DLOCK_OK || code == DLOCK_EUNKNOWN || code == DLOCK_EUNAVAIL);
    CHECK(code != DLOCK_OK || count == 1);
    if (code == DLOCK_OK)
        CHECK(api_ends(first, LONG_MS, DLOCK_OK));
    CHECK_OK(dlock_cond_broadcast(by, NULL, &rest, NULL), NULL);
    if (code == DLOCK_EUNAVAIL)
        CHECK_EQ_INT(rest, 2);
    else
        CHECK(rest == 1 || (rest == 2 && code == DLOCK_EUNKNOWN));
    CHECK(api_ends(first, LONG_MS, DLOCK_OK));
    CHECK(api_ends(second, LONG_MS, DLOCK_OK));
}

static void cut_condition_at(proxy_link *link, dlock_client *other, proxy_deed deed,
                             int number)
{
    DLOCK_AUTO(dlock_cond) by = NULL;
    DLOCK_AUTO(dlock_cond) cond = NULL;
    CHECK_OK(dlock_cond_new(other, "cut", NULL, &by, NULL), NULL);
    CHECK(proxy_add_plan(link, (proxy_plan){.deed = deed, .number = number}));
    dlock_client *client = by_way_of(link, "table");
    CHECK(client != NULL);
    CHECK_OK(dlock_cond_new(client, "cut", NULL, &cond, NULL), NULL);
    wait_once(cond, by);
    signal_once(cond, by);
    dlock_cond_free(cond);
    cond = NULL;
    dlock_client_free(client);
    proxy_forget_plans(link);
    CHECK_EQ_INT(in_line(), 0);
    AWAIT(strcmp(ask("SELECT count(*) FROM dlock.holders WHERE ends > "
                     "clock_timestamp()"),
                 "0") == 0);
}

typedef void cutting(proxy_link *link, dlock_client *other, proxy_deed deed, int number);

static void cut_everywhere(dlock_client *other, cutting *cut)
{
    char target[32];
    const char *why = NULL;
    snprintf(target, sizeof(target), "%d", world_postgres()->port);
    proxy *between = proxy_new(1);
    proxy_link *link = proxy_listen(between, NULL, 0, target, "postgres", &why);
    int cuts = 0;
    CHECK(link != NULL);
    for (size_t i = 0; link && i < sizeof(deeds) / sizeof(deeds[0]); i++) {
        int number = 0, done;
        do {
            done = (int)proxy_get_stats(link).deeds;
            cut(link, other, deeds[i].deed, ++number);
        } while (number < MESSAGES_MAX && proxy_get_stats(link).deeds > done);
        harness_note("%s: at %d messages", deeds[i].name, number - 1);
        CHECK(number > 5); /* greeting, taking, looking, back, and what is between */
        CHECK(number < MESSAGES_MAX);
        cuts += number - 1;
    }
    harness_note("%d cuts", cuts);
    proxy_free(between);
}

TEST(cut_at_any_message_a_lock_is_held_by_one_and_comes_free)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) other = direct();
    cut_everywhere(other, cut_at);
}

TEST(cut_at_any_message_an_advisory_lock_is_held_by_one_and_comes_free)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) other = direct_advisory();
    cut_everywhere(other, cut_advisory_at);
}

TEST(cut_at_any_message_no_signal_is_lost_and_none_is_two)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) other = direct();
    cut_everywhere(other, cut_condition_at);
}

/* ---- transactions that don't end ---- */

static PGconn *guarded(int64_t token)
{
    char text[160];
    snprintf(text, sizeof(text), "host=127.0.0.1 port=%d user=postgres dbname=postgres",
             world_postgres()->port);
    PGconn *db = PQconnectdb(text);
    snprintf(text, sizeof(text), "BEGIN; SELECT dlock.check('slow', %" PRId64 ")", token);
    PGresult *result = PQexec(db, text);
    harness_check(__FILE__, __LINE__, PQresultStatus(result) == PGRES_TUPLES_OK,
                  "the token is the last");
    PQclear(result);
    return db;
}

static bool commits(PGconn *db)
{
    PGresult *result = PQexec(db, "COMMIT");
    bool fine = PQresultStatus(result) == PGRES_COMMAND_OK;
    PQclear(result);
    PQfinish(db);
    return fine;
}

/* It has passed the check, so nobody has the lock before it ends; the server's time limit ends it. */
TEST(a_guarded_transaction_that_idles_holds_up_the_next_until_the_server_ends_it)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) first = direct();
    DLOCK_AUTO(dlock_client) second = direct();
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_hold) next = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK_OK(dlock_acquire(first, "slow", 0, &hold, &err), err);
    PGconn *idle = guarded(dlock_hold_token(hold));
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    /* Not so short that there is no answer yet, which would be another error. */
    CHECK_ERR(dlock_acquire(second, "slow", 2000, &next, NULL), DLOCK_ETIMEDOUT, NULL);
    CHECK(commits(idle));
    CHECK_OK(dlock_acquire(second, "slow", LONG_MS, &next, &err), err);
    CHECK_OK(dlock_hold_release(next, NULL), NULL);
    dlock_hold_free(hold);
    dlock_hold_free(next);
    hold = next = NULL;

    CHECK_STR(
        ask("ALTER DATABASE postgres SET idle_in_transaction_session_timeout = 500"), "");
    CHECK_OK(dlock_acquire(first, "slow", LONG_MS, &hold, &err), err);
    idle = guarded(dlock_hold_token(hold));
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    CHECK_OK(dlock_acquire(second, "slow", LONG_MS, &next, &err), err);
    CHECK(!commits(idle));
    CHECK_STR(ask("ALTER DATABASE postgres RESET idle_in_transaction_session_timeout"),
              "");
}

/* An old snapshot keeps vacuum from what is dead behind it: slower, and nothing else. */
TEST(a_long_transaction_elsewhere_holds_up_nobody)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = direct();
    char text[160];
    snprintf(text, sizeof(text), "host=127.0.0.1 port=%d user=postgres dbname=postgres",
             world_postgres()->port);
    PGconn *old = PQconnectdb(text);
    PQclear(PQexec(old, "BEGIN ISOLATION LEVEL REPEATABLE READ"));
    PQclear(PQexec(old, "SELECT count(*) FROM dlock.holders"));
    int64_t last = 0;
    for (int i = 0; i < 300; i++) {
        DLOCK_AUTO(dlock_hold) hold = NULL;
        DLOCK_AUTO(dlock_error) err = NULL;
        CHECK_OK(dlock_acquire(client, "often", LONG_MS, &hold, &err), err);
        CHECK(dlock_hold_token(hold) > last);
        last = dlock_hold_token(hold);
        CHECK_OK(dlock_hold_release(hold, NULL), NULL);
        if (i % 100 == 0)
            CHECK_STR(ask("VACUUM dlock.holders"), "");
    }
    CHECK(commits(old));
}
