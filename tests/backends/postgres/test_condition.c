/* Conditions in the schema, request by request: who is signalled, where a signal goes that isn't used, and what is
 * left. That a whole wait gives its lock back and has it again says tests/api/test_condition.c. */
#include "api/world.h"
#include "harness/postgres_server.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A session of its own, as a client's is; none for whoever is behind a pool. */
static const char *in_session(PGconn *db, const char *statement)
{
    static char said[64];
    PGresult *result = PQexec(db, statement);
    bool row = PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1;
    snprintf(said, sizeof(said), "%s", row ? PQgetvalue(result, 0, 0) : "(failed)");
    PQclear(result);
    return said;
}

#define SAY(...) postgres_server_ask(world_postgres(), __VA_ARGS__)

/* "Ht": waits, at a new place; "Hf"; "Yf": it is signalled. */
static const char *wait_of(char to[256], const char *name, const char *owner,
                           bool listens)
{
    snprintf(to, 256,
             "SELECT concat(reply, placed) FROM dlock.acquire('%s', 'condition', '%s', "
             "60000, false, 1, 0, false, 60000, %s, '', '')",
             name, owner, listens ? "true" : "false");
    return to;
}

static const char *waits(const char *name, const char *owner)
{
    char text[256];
    return SAY("%s", wait_of(text, name, owner, false));
}

/* How many it has signalled; -1: it is another kind. */
static int64_t signals(const char *name, int64_t count)
{
    const char *said = SAY("SELECT reply, signalled FROM dlock.signal('%s', %lld)", name,
                           (long long)count);
    return said[0] == 'Y' ? strtoll(said + 2, NULL, 10) : -1;
}

static int64_t token_of(const char *owner)
{
    return strtoll(SAY("SELECT token FROM dlock.holders WHERE owner = '%s'", owner), NULL,
                   10);
}

static const char *use(const char *name, const char *owner, int64_t token)
{
    return SAY("SELECT dlock.use('%s', '%s', %lld)", name, owner, (long long)token);
}

static const char *release(const char *name, const char *owner)
{
    return SAY("SELECT dlock.release('%s', '%s')", name, owner);
}

/* As if the time of it were over. */
static void end_lease(const char *owner)
{
    CHECK_STR(SAY("UPDATE dlock.holders SET ends = clock_timestamp() WHERE owner = '%s'",
                  owner),
              "");
}

static void line_up(const char *name)
{
    static const char *const owners[] = {"a:1", "b:1", "c:1"};
    for (int i = 0; i < 3; i++)
        CHECK_STR(waits(name, owners[i]), "Ht");
}

static void nothing_is_left(const char *name)
{
    CHECK_STR(SAY("SELECT count(*) FROM dlock.holders WHERE name = '%s'", name), "0");
    CHECK_STR(SAY("SELECT count(*) FROM dlock.line WHERE name = '%s'", name), "0");
}

TEST(who_waits_is_granted_nothing_until_a_signal_and_then_in_order)
{
    BEGIN();
    CHECK_EQ_INT(signals("order", 1), 0);
    CHECK_STR(SAY("SELECT count(*) FROM dlock.locks WHERE name = 'order'"), "0");
    line_up("order");
    CHECK_STR(waits("order", "a:1"), "Hf");
    CHECK_EQ_INT(signals("order", 2), 2);
    int64_t first = token_of("a:1"), second = token_of("b:1");
    CHECK(first > 0 && second > first);
    CHECK_STR(waits("order", "a:1"), "Yf");
    CHECK_EQ_INT(token_of("a:1"), first); /* asked again, the same */
    CHECK_STR(waits("order", "b:1"), "Yf");
    CHECK_STR(waits("order", "c:1"), "Hf");
    CHECK_STR(use("order", "a:1", first), "Y");
    CHECK_STR(use("order", "a:1", first), "N"); /* the same request once more */
    CHECK_STR(use("order", "b:1", second), "Y");
    CHECK_STR(waits("order", "c:1"), "Hf"); /* they were used */
    CHECK_EQ_INT(signals("order", INT64_MAX), 1);
    CHECK_STR(use("order", "c:1", token_of("c:1")), "Y");
    nothing_is_left("order");
}

TEST(a_signal_that_was_not_used_goes_on)
{
    BEGIN();
    line_up("on");
    CHECK_EQ_INT(signals("on", 1), 1);
    CHECK_STR(release("on", "a:1"), "Y");
    CHECK_STR(waits("on", "b:1"), "Yf");
    CHECK_STR(SAY("SELECT dlock.break('on', 'b:1')"), "Y");
    CHECK_STR(waits("on", "c:1"), "Yf");
    CHECK_STR(release("on", "c:1"), "Y"); /* nobody is left: it is lost */
    nothing_is_left("on");
}

TEST(a_lease_that_is_over_passes_its_signal_on)
{
    BEGIN();
    line_up("over");
    CHECK_EQ_INT(signals("over", 1), 1);
    end_lease("a:1");
    CHECK_STR(waits("over", "b:1"), "Yf"); /* who is next looks … */
    end_lease("b:1");
    CHECK_EQ_INT(signals("over", 1),
                 0); /* … or somebody signals, and nobody is left for his */
    CHECK_STR(waits("over", "c:1"), "Yf");
    CHECK_STR(waits("over", "a:1"), "Ht"); /* late: it wakes up by that */
    CHECK_STR(use("over", "c:1", token_of("c:1")), "Y");
    CHECK_STR(release("over", "a:1"), "Y");
    nothing_is_left("over");
}

/* The wait that used one is over; a request of it that was on its way takes a place after that. */
TEST(a_late_place_s_signal_was_not_used_by_whoever_used_an_earlier_one)
{
    BEGIN();
    CHECK_STR(waits("late", "a:1"), "Ht");
    CHECK_EQ_INT(signals("late", 1), 1);
    int64_t token = token_of("a:1");
    CHECK_STR(use("late", "a:1", token), "Y");
    CHECK_STR(waits("late", "a:1"), "Ht");
    CHECK_STR(waits("late", "b:1"), "Ht");
    CHECK_EQ_INT(signals("late", 1), 1);
    CHECK_STR(use("late", "a:1", token), "Y");
    CHECK_STR(waits("late", "b:1"), "Yf");
    CHECK_STR(use("late", "b:1", token_of("b:1")), "Y");
    nothing_is_left("late");
}

static PGconn *session(void)
{
    char text[96];
    snprintf(text, sizeof(text), "host=127.0.0.1 port=%d user=postgres dbname=postgres",
             world_postgres()->port);
    return PQconnectdb(text);
}

TEST(the_dead_are_not_signalled)
{
    BEGIN();
    char text[256];
    PGconn *dies = session();
    CHECK_STR(in_session(dies, wait_of(text, "dead", "d:1", true)), "Ht");
    CHECK_STR(waits("dead", "b:1"), "Ht");
    PQfinish(dies);
    AWAIT(strcmp(SAY("SELECT bool_or(dlock.lives(pid)) FROM dlock.line WHERE owner = "
                     "'d:1'"),
                 "f") == 0);
    CHECK_EQ_INT(signals("dead", 1), 1);
    CHECK_STR(waits("dead", "b:1"), "Yf");
    CHECK_STR(use("dead", "b:1", token_of("b:1")), "Y");
    nothing_is_left("dead");
}

/* The first looks after the signals; nobody else comes before a third of his time. */
TEST(who_is_next_is_told_when_to_look)
{
    static const char left[] = "SELECT left_ms FROM dlock.acquire('next', 'condition', "
                               "'%s', 60000, false, 1, 0, "
                               "false, 60000, false, '', '')";
    BEGIN();
    line_up("next");
    CHECK_EQ_INT(strtoll(SAY(left, "a:1"), NULL, 10) / 10000, 2); /* 60 s / 3, + 1 ms */
    CHECK_EQ_INT(signals("next", 1), 1);
    int64_t first = strtoll(SAY(left, "b:1"), NULL, 10);
    CHECK(first > 0 && first <= 5001);
    CHECK_EQ_INT(strtoll(SAY(left, "c:1"), NULL, 10) / 10000, 2);
    CHECK_STR(SAY("SELECT dlock.break('next', '')"), "Y");
    CHECK_STR(release("next", "b:1"), "Y");
    CHECK_STR(release("next", "c:1"), "Y");
    nothing_is_left("next");
}

TEST(a_lock_and_a_condition_of_one_name_are_in_each_other_s_way)
{
    static const char lock[] = "SELECT reply FROM dlock.acquire('both', 'mutex', 'm:1', "
                               "60000, false, 1, 0, true, "
                               "60000, false, '', '')";
    BEGIN();
    CHECK_STR(SAY(lock), "Y");
    CHECK_EQ_INT(signals("both", 1), -1);
    CHECK_STR(waits("both", "a:1"), "Kf");
    CHECK_STR(release("both", "m:1"), "Y");
    CHECK_EQ_INT(signals("both", 1), 0);
    CHECK_STR(waits("both", "a:1"), "Ht");
    CHECK_STR(SAY(lock), "K");
    CHECK_EQ_INT(signals("both", 1), 1);
    CHECK_STR(SAY(lock), "K");
    CHECK_STR(SAY("SELECT count(*) FROM dlock.list('both', 9)"), "0"); /* it is no lock */
    CHECK_STR(use("both", "a:1", token_of("a:1")), "Y");
    CHECK_STR(SAY(lock), "Y");
    CHECK_STR(release("both", "m:1"), "Y");
}

/* Rows of one line are taken in the order of a renewal, which is of some of them: neither waits for the other. */
TEST(signals_that_go_on_and_their_renewals_do_not_wait_for_each_other)
{
    BEGIN();
    PGconn *one = session(), *other = session();
    char text[256];
    line_up("meet");
    CHECK_EQ_INT(signals("meet", 2), 2);
    end_lease("b:1");
    PQclear(PQexec(one,
                   "BEGIN; SELECT FROM dlock.holders WHERE name = 'meet' AND owner = "
                   "'a:1' FOR UPDATE"));
    CHECK_EQ_INT(PQsendQuery(other, wait_of(text, "meet", "a:1", false)), 1);
    AWAIT(strcmp(SAY("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = "
                     "'Lock'"),
                 "1") == 0);
    CHECK_STR(in_session(one,
                         "SELECT count(*) FROM dlock.holders h WHERE name = 'meet' AND "
                         "owner = 'b:1' AND ends <= clock_timestamp()"),
              "1");
    PGresult *locked =
        PQexec(one, "SELECT FROM dlock.holders WHERE name = 'meet' AND owner "
                    "= 'b:1' FOR UPDATE NOWAIT");
    CHECK_EQ_INT(PQresultStatus(locked), PGRES_TUPLES_OK);
    PQclear(locked);
    PQclear(PQexec(one, "COMMIT"));
    PQfinish(one);
    PQfinish(other);
}

/* Whoever takes over what another holds has no business with a signal, nor with one that has to go on. */
TEST(nobody_takes_over_a_signal)
{
    static const char taken[] =
        "SELECT reply FROM dlock.import('given', 'a:1', 'x:1', 60000, '', '')";
    BEGIN();
    line_up("given");
    CHECK_EQ_INT(signals("given", 1), 1);
    CHECK_STR(SAY(taken), "N");
    end_lease("a:1");
    CHECK_STR(SAY(taken), "N");
    CHECK_STR(waits("given", "b:1"), "Yf");
    CHECK_STR(use("given", "b:1", token_of("b:1")), "Y");
    CHECK_STR(release("given", "c:1"), "Y");
    nothing_is_left("given");
}

/* It would pass over who has stood there since. */
TEST(a_transaction_that_looks_at_an_older_state_signals_nobody)
{
    BEGIN();
    PGconn *db = session();
    PQclear(PQexec(db, "BEGIN ISOLATION LEVEL REPEATABLE READ"));
    CHECK_STR(in_session(db, "SELECT count(*) FROM dlock.line WHERE name = 'older'"),
              "0");
    CHECK_STR(waits("older", "a:1"), "Ht");
    PGresult *refused = PQexec(db, "SELECT signalled FROM dlock.signal('older', 1)");
    CHECK_STR(PQresultErrorField(refused, PG_DIAG_SQLSTATE), "DL002");
    PQclear(refused);
    PQfinish(db);
    CHECK_EQ_INT(signals("older", 1), 1);
    CHECK_STR(use("older", "a:1", token_of("a:1")), "Y");
    nothing_is_left("older");
}

enum { CROWD = 1000, CLIENTS = 4 };

TEST(a_broadcast_wakes_a_crowd_each_once)
{
    BEGIN();
    static dlock_op *ops[CROWD];
    dlock_client *clients[CLIENTS];
    dlock_cond *conds[CLIENTS];
    int64_t count = 0;
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = world_client(NULL);
        CHECK_OK(dlock_cond_new(clients[i], "crowd", NULL, &conds[i], NULL), NULL);
    }
    for (int i = 0; i < CROWD; i++)
        ops[i] = dlock_cond_wait_start(conds[i % CLIENTS], NULL, DLOCK_FOREVER);
    AWAIT(strtoll(SAY("SELECT count(*) FROM dlock.line WHERE name = 'crowd'"), NULL,
                  10) == CROWD);
    CHECK_OK(dlock_cond_broadcast(conds[0], NULL, &count, NULL), NULL);
    CHECK_EQ_INT(count, CROWD);
    for (int i = 0; i < CROWD; i++) {
        CHECK(api_ends(ops[i], 60000, DLOCK_OK));
        dlock_op_free(ops[i]);
    }
    for (int i = 0; i < CLIENTS; i++) {
        CHECK_EQ_INT(api_stat(clients[i], "spurious_wakes"), 0);
        dlock_cond_free(conds[i]);
        dlock_client_free(clients[i]);
    }
    nothing_is_left("crowd");
}
