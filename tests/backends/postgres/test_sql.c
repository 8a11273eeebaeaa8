/* The schema's functions, as its own users call them: in any order, from any session. */
#include "api/world.h"
#include "harness/kept.h"
#include "harness/postgres_server.h"
#include "harness/time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *ask(const char *statement)
{
    return postgres_server_ask(world_postgres(), "%s", statement);
}

static int64_t number(const char *statement)
{
    return strtoll(ask(statement), NULL, 10);
}

/* "Y <token>", "H", "K", …: once, or as one who stands in line. */
static const char *acquire(const char *name, const char *kind, const char *owner,
                           int size, int take, bool once)
{
    return postgres_server_ask(
        world_postgres(),
        "SELECT reply FROM dlock.acquire('%s', '%s', '%s', 60000, false, %d, "
        "%d, %s, 60000, false, '', '')",
        name, kind, owner, take, size, once ? "true" : "false");
}

static const char *release(const char *name, const char *owner)
{
    return postgres_server_ask(world_postgres(), "SELECT dlock.release('%s', '%s')", name,
                               owner);
}

static int64_t token_of(const char *name)
{
    return strtoll(postgres_server_ask(world_postgres(),
                                       "SELECT token FROM dlock.fences WHERE name = '%s'",
                                       name),
                   NULL, 10);
}

TEST(one_holder_at_a_time_and_each_grant_has_a_larger_token)
{
    BEGIN();
    CHECK_STR(acquire("one", "mutex", "a:1", 0, 1, true), "Y");
    int64_t first = token_of("one");
    CHECK_STR(acquire("one", "mutex", "a:1", 0, 1, true), "Y");
    CHECK_EQ_INT(token_of("one"), first); /* the same grant */
    CHECK_STR(acquire("one", "mutex", "b:1", 0, 1, true), "H");
    CHECK_STR(release("one", "b:1"), "N");
    CHECK_STR(release("one", "a:1"), "Y");
    CHECK_STR(acquire("one", "mutex", "b:1", 0, 1, true), "Y");
    CHECK(token_of("one") > first);
    CHECK_STR(release("one", "b:1"), "Y");
}

TEST(another_kind_or_size_is_refused_while_the_name_is_in_use)
{
    BEGIN();
    CHECK_STR(acquire("kinds", "semaphore", "a:1", 0, 1, true), "P");
    CHECK_STR(acquire("kinds", "semaphore", "a:1", 3, 2, true), "Y");
    CHECK_STR(acquire("kinds", "semaphore", "b:1", 0, 1, true), "Y");
    CHECK_STR(acquire("kinds", "semaphore", "c:1", 3, 1, true), "H");
    CHECK_STR(acquire("kinds", "semaphore", "c:1", 4, 1, true), "S");
    CHECK_STR(acquire("kinds", "semaphore", "c:1", 3, 4, true), "S");
    CHECK_STR(acquire("kinds", "mutex", "c:1", 0, 1, true), "K");
    CHECK_STR(release("kinds", "a:1"), "Y");
    CHECK_STR(release("kinds", "b:1"), "Y");
    CHECK_STR(acquire("kinds", "mutex", "c:1", 0, 1, true), "Y");
    CHECK_STR(release("kinds", "c:1"), "Y");
}

/* ---- many sessions at once ---- */

enum { SESSIONS = 8, ROUNDS = 25 };

/* In one session: takes the lock again and again, and counts without any other care. */
static void *take_often(void *number_of)
{
    return (
        void *)(intptr_t)(strcmp(
                              postgres_server_ask(
                                  world_postgres(),
                                  "DO $$ DECLARE r \"char\"; n int; done int := 0; BEGIN "
                                  "WHILE done < %d LOOP "
                                  "  SELECT reply INTO r FROM dlock.acquire('crowd', "
                                  "'mutex', 'c%d:1', "
                                  "    60000, false, 1, 0, true, 60000, false, '', ''); "
                                  "COMMIT; "
                                  "  IF r = 'Y' THEN "
                                  "    SELECT value INTO n FROM counted; COMMIT; "
                                  "    UPDATE counted SET value = n + 1; COMMIT; "
                                  "    PERFORM dlock.release('crowd', 'c%d:1'); COMMIT; "
                                  "    done := done + 1; "
                                  "  END IF; END LOOP; END $$",
                                  ROUNDS, (int)(intptr_t)number_of,
                                  (int)(intptr_t)number_of),
                              "") == 0);
}

TEST(of_sessions_that_acquire_at_once_one_is_inside)
{
    BEGIN();
    pthread_t threads[SESSIONS];
    CHECK_STR(ask("CREATE TABLE counted (value int)"), "");
    CHECK_STR(ask("INSERT INTO counted VALUES (0)"), "");
    for (intptr_t i = 0; i < SESSIONS; i++)
        CHECK(pthread_create(&threads[i], NULL, take_often, (void *)i) == 0);
    for (int i = 0; i < SESSIONS; i++) {
        void *fine = NULL;
        CHECK(pthread_join(threads[i], &fine) == 0);
        CHECK(fine != NULL);
    }
    CHECK_EQ_INT(number("SELECT value FROM counted"), SESSIONS * ROUNDS);
}

/* Each grant leaves dead rows, and an index that is asked about the name may look at all of them each time. */
TEST(what_is_dead_is_not_looked_at_again_and_again)
{
    enum { GRANTS = 2000, A_GRANT_AT_MOST = 50 };
    BEGIN();
    CHECK_STR(
        postgres_server_ask(
            world_postgres(),
            "DO $$ BEGIN FOR i IN 1 .. %d LOOP "
            "  PERFORM FROM dlock.acquire('busy', 'mutex', 'a:' || i, 60000, false, 1, "
            "    0, true, 60000, false, '', ''); COMMIT; "
            "  PERFORM dlock.release('busy', 'a:' || i); COMMIT; "
            "END LOOP; END $$",
            GRANTS),
        "");
    int64_t looks = number("SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE "
                           "schemaname = 'dlock' AND relname = 'holders'");
    printf("# %lld rows looked at for %d grants\n", (long long)looks, GRANTS);
    CHECK(looks > 0 && looks < (int64_t)GRANTS * A_GRANT_AT_MOST);
}

/* A transaction that looks at an older state would grant what another has. */
TEST(a_transaction_that_repeats_its_reads_is_refused)
{
    BEGIN();
    CHECK_CONTAINS(
        ask("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT reply FROM "
            "dlock.acquire('old', 'mutex', 'a:1', 60000, false, 1, 0, true, 1, false, "
            "'', '')"),
        "(failed)");
    CHECK_STR(ask("SELECT count(*) FROM dlock.holders WHERE name = 'old'"), "0");
}

/* ---- the fence ---- */

static const char *check(const char *name, int64_t token)
{
    return postgres_server_ask(
        world_postgres(),
        "DO $$ BEGIN PERFORM dlock.check('%s', %lld); EXCEPTION WHEN SQLSTATE "
        "'DL001' THEN CREATE TABLE IF NOT EXISTS stale (); END $$; "
        "DROP TABLE stale",
        name, (long long)token);
}

/* A stale one leaves a table to drop. */
static bool is_stale(const char *name, int64_t token)
{
    return strcmp(check(name, token), "") == 0;
}

TEST(check_refuses_all_but_the_last_grant)
{
    BEGIN();
    CHECK(is_stale("fence", 1)); /* never granted */
    CHECK_STR(acquire("fence", "semaphore", "a:1", 0, 1, true), "P");
    CHECK(is_stale("fence", 0)); /* asked for, and never granted */
    CHECK_CONTAINS(ask("SELECT dlock.check('fence', NULL)"), "(failed)");
    CHECK_CONTAINS(ask("SELECT dlock.check('never', NULL)"), "(failed)");
    CHECK_STR(acquire("fence", "mutex", "a:1", 0, 1, true), "Y");
    int64_t first = token_of("fence");
    CHECK(!is_stale("fence", first));
    CHECK(is_stale("fence", first + 1));
    CHECK_STR(release("fence", "a:1"), "Y");
    CHECK(!is_stale("fence", first)); /* nobody has had it since */
    CHECK_STR(acquire("fence", "mutex", "b:1", 0, 1, true), "Y");
    CHECK(is_stale("fence", first));
    int64_t second = token_of("fence");
    CHECK_STR(ask("SELECT dlock.break('fence', '')"), "Y");
    CHECK(is_stale("fence", second));
}

/* A session that has passed the check and doesn't end. */
static void *guarded(void *token)
{
    (void)postgres_server_ask(
        world_postgres(),
        "BEGIN; SELECT dlock.check('guard', %lld); SELECT FROM pg_sleep(3600)",
        (long long)(intptr_t)token);
    return NULL;
}

TEST(no_later_grant_is_made_while_a_transaction_that_passed_is_open)
{
    static const char sleeping[] =
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    BEGIN();
    pthread_t thread;
    CHECK_STR(acquire("guard", "mutex", "a:1", 0, 1, true), "Y");
    CHECK(pthread_create(&thread, NULL, guarded, (void *)(intptr_t)token_of("guard")) ==
          0);
    AWAIT(number(sleeping) == 1);
    CHECK_STR(release("guard", "a:1"), "Y"); /* who has it may end */
    CHECK_STR(acquire("guard", "mutex", "b:1", 0, 1, true), "H");
    CHECK_STR(ask("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE "
                  "wait_event = "
                  "'PgSleep'"),
              "1");
    CHECK(pthread_join(thread, NULL) == 0);
    AWAIT(strcmp(acquire("guard", "mutex", "b:1", 0, 1, true), "Y") == 0);
    CHECK_STR(release("guard", "b:1"), "Y");
}

/* ---- the order of locks ---- */

static void *say(void *statement)
{
    return (void *)(intptr_t)(strcmp(ask(statement), "(failed)") != 0);
}

/* Both wait for the row in the middle, which is let go when both have what lies on their way to it: where they come from
 * two sides, each has what the other wants. */
static void meet_renewal(const char *statement, const char *left)
{
    static const char waiting[] =
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    static char keep[] =
        "BEGIN; SELECT FROM dlock.holders WHERE name = 'order' AND owner = 'm:1' FOR "
        "UPDATE; SELECT FROM pg_sleep(3600)";
    static char renew[] =
        "SELECT string_agg(reply::text, '') FROM dlock.renew(ARRAY['order', 'order', "
        "'order']::bytea[], ARRAY['z:1', 'm:1', 'a:1'], ARRAY[60000, 60000, 60000], "
        "ARRAY[0, 0, 0], ARRAY[0, 0, 0], ARRAY['', '', '']::bytea[])";
    pthread_t keeper, renewal, other;
    void *renewed = NULL, *done = NULL;
    CHECK(pthread_create(&keeper, NULL, say, keep) == 0);
    AWAIT(number("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") ==
          1);
    CHECK(pthread_create(&renewal, NULL, say, renew) == 0);
    AWAIT(number(waiting) == 1);
    AWAIT(strcmp(ask("SELECT count(*) FROM dlock.holders WHERE name = 'order' AND ends > "
                     "clock_timestamp()"),
                 left) == 0);
    CHECK(pthread_create(&other, NULL, say, (void *)(uintptr_t)statement) == 0);
    AWAIT(number(waiting) == 2);
    CHECK_STR(ask("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE "
                  "wait_event = 'PgSleep'"),
              "1");
    CHECK(pthread_join(keeper, NULL) == 0);
    CHECK(pthread_join(renewal, &renewed) == 0 && renewed != NULL);
    CHECK(pthread_join(other, &done) == 0 && done != NULL);
}

static void hold_three(const char *ends)
{
    static const char *const owners[] = {"a:1", "m:1", "z:1"};
    (void)ask("DELETE FROM dlock.holders WHERE name = 'order'");
    for (int i = 0; i < 3; i++)
        CHECK_STR(acquire("order", "semaphore", owners[i], 3, 1, true), "Y");
    CHECK_STR(postgres_server_ask(
                  world_postgres(),
                  "UPDATE dlock.holders SET ends = %s WHERE name = 'order'", ends),
              "");
}

TEST(who_takes_several_rows_and_a_renewal_do_not_wait_for_each_other)
{
    BEGIN();
    hold_three("ends");
    meet_renewal("SELECT dlock.break('order', '')", "3");
    CHECK_STR(ask("SELECT count(*) FROM dlock.holders WHERE name = 'order'"), "0");
    hold_three(
        "clock_timestamp() + interval '1 s'"); /* they end behind the renewal's start */
    meet_renewal("SELECT reply FROM dlock.acquire('order', 'semaphore', 'b:1', 60000, "
                 "false, 1, 3, true, 60000, false, '', '')",
                 "0");
    CHECK_STR(ask("SELECT dlock.break('order', '')"), "Y");
}

/* ---- being asked for it ---- */

static void *listening(void *channel)
{
    (void)postgres_server_ask(world_postgres(),
                              "SELECT dlock.listen('%s'), pg_sleep(3600)",
                              (const char *)channel);
    return NULL;
}

/* As long as its session is there. */
TEST(only_who_listens_is_asked)
{
    BEGIN();
    pthread_t thread;
    char channel[] = "dlock:ear";
    CHECK_STR(ask("SELECT dlock.revoke('ear')"), "N");
    CHECK_STR(acquire("ear", "mutex", "ear:1", 0, 1, true), "Y");
    CHECK_STR(ask("SELECT dlock.revoke('ear')"), "D");
    CHECK(pthread_create(&thread, NULL, listening, channel) == 0);
    AWAIT(strcmp(ask("SELECT dlock.revoke('ear')"), "Y") == 0);
    CHECK_STR(ask("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE "
                  "wait_event = 'PgSleep'"),
              "1");
    CHECK(pthread_join(thread, NULL) == 0);
    AWAIT(strcmp(ask("SELECT dlock.revoke('ear')"), "D") == 0);
    CHECK_STR(release("ear", "ear:1"), "Y");
}

/* ---- kept locks ---- */

static const char *renew(const char *name, const char *owner)
{
    return postgres_server_ask(
        world_postgres(),
        "SELECT reply FROM dlock.renew(ARRAY['%s']::bytea[], ARRAY['%s'], ARRAY[60000], "
        "ARRAY[0], ARRAY[0], ARRAY['']::bytea[])",
        name, owner);
}

/* Those in the line have asked whoever had it before. */
TEST(whoever_may_keep_it_hears_whether_others_are_in_the_line)
{
    static const char keeper[] = "k:4611686018427387905";
    BEGIN();
    CHECK_STR(acquire("keep", "mutex", keeper, 0, 1, true), "Y");
    CHECK_STR(renew("keep", keeper), "Y");
    CHECK_STR(acquire("keep", "mutex", "b:1", 0, 1, false), "H");
    CHECK_STR(renew("keep", keeper), "A");
    CHECK_STR(acquire("keep", "mutex", keeper, 0, 1, true), "A");
    CHECK_STR(acquire("keep", "mutex", "c:1", 0, 1, false), "H");
    CHECK_STR(release("keep", keeper), "Y");
    CHECK_STR(acquire("keep", "mutex", "b:1", 0, 1, false), "Y"); /* he keeps nothing */
    CHECK_STR(renew("keep", "b:1"), "Y");
    CHECK_STR(acquire("keep", "mutex", keeper, 0, 1, false), "H");
    CHECK_STR(release("keep", "b:1"), "Y");
    CHECK_STR(release("keep", "c:1"), "Y");
    CHECK_STR(acquire("keep", "mutex", "d:1", 0, 1, false), "H");
    CHECK_STR(acquire("keep", "mutex", keeper, 0, 1, false), "A");
    CHECK_STR(release("keep", "d:1"), "Y");
    CHECK_STR(release("keep", keeper), "Y");
}

/* Anybody who may connect can send on any channel. */
TEST(what_others_say_on_a_keepers_channel_ends_nothing_but_its_keeping)
{
    static const char *const said[] = {"",
                                       " ",
                                       "asked",
                                       "asked ",
                                       "asked 4611686018427387905",
                                       "asked -1 666f72676564",
                                       "asked 0 666f72676564",
                                       "asked 99999999999999999999999999 666f72676564",
                                       "asked 4611686018427387905 ",
                                       "asked 4611686018427387905 6",
                                       "asked 4611686018427387905 zz",
                                       "asked 4611686018427387905  66",
                                       "asked 4611686018427387905 6f74686572",
                                       "asked 1 666f72676564",
                                       "wake 4611686018427387905",
                                       "wake 99999999999999999999999999",
                                       "free -9223372036854775808",
                                       "soon 9223372036854775807",
                                       "revoke 9223372036854775807"};
    BEGIN();
    DLOCK_AUTO(dlock_client) keeper = world_client(NULL);
    DLOCK_AUTO(dlock_lock) lock = world_lock(keeper, "forged", "lock.keep_ms=600000");
    CHECK(kept_begins(keeper, lock, 20000, 0));
    char owner[80], large[7901] = "";
    snprintf(owner, sizeof(owner), "%s", api_seen(lock, "holders.0.owner"));
    memset(large, '6', sizeof(large) - 1);
    for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++)
        (void)postgres_server_ask(
            world_postgres(),
            "SELECT pg_notify('dlock:' || split_part('%s', ':', 1), '%s')", owner,
            said[i]);
    (void)postgres_server_ask(world_postgres(),
                              "SELECT pg_notify('dlock:' || split_part('%s', ':', 1), "
                              "'asked ' || split_part('%s', ':', 2) || ' %s')",
                              owner, owner, large);
    int64_t local = api_stat(keeper, "local_grants");
    CHECK_STR(api_seen(lock, "held"), "1"); /* asked behind all of these */
    CHECK_EQ_INT(kept_pair(lock, 0), 0);
    CHECK_EQ_INT(api_stat(keeper, "local_grants") - local, 1);
    (void)postgres_server_ask(world_postgres(),
                              "SELECT pg_notify('dlock:' || split_part('%s', ':', 1), "
                              "'asked ' || split_part('%s', ':', 2) || ' 666f72676564')",
                              owner, owner);
    CHECK(AWAITED(strcmp(api_seen(lock, "held"), "0") == 0));
    CHECK_EQ_INT(api_stat(keeper, "losses"), 0);
}

/* ---- what is left ---- */

TEST(names_that_nobody_uses_are_forgotten_and_tokens_go_on)
{
    BEGIN();
    CHECK_STR(acquire("kept", "mutex", "a:1", 0, 1, true), "Y");
    CHECK_STR(acquire("gone", "mutex", "a:1", 0, 1, true), "Y");
    int64_t last = token_of("gone");
    CHECK_STR(release("gone", "a:1"), "Y");
    CHECK(number("SELECT dlock.forget('0')") >= 1);
    CHECK_STR(ask("SELECT count(*) FROM dlock.locks WHERE name = 'gone'"), "0");
    CHECK_STR(ask("SELECT count(*) FROM dlock.locks WHERE name = 'kept'"), "1");
    CHECK(is_stale("gone", last));
    CHECK_STR(acquire("gone", "mutex", "a:1", 0, 1, true), "Y");
    CHECK(token_of("gone") > last);
    CHECK_STR(release("gone", "a:1"), "Y");
    CHECK_STR(release("kept", "a:1"), "Y");
}

TEST(the_schema_can_be_installed_again)
{
    BEGIN();
    CHECK_STR(acquire("again", "mutex", "a:1", 0, 1, true), "Y");
    CHECK_STR(postgres_server_load(world_postgres(), postgres_server_schema), "");
    CHECK_STR(acquire("again", "mutex", "b:1", 0, 1, true), "H");
    CHECK_STR(release("again", "a:1"), "Y");
}
