/* The layout advisory: which lock a name is, who excludes whom, and how a lock gets lost, as the server's own
 * functions have it. Beside other libraries: tests/interop/test_postgres.py. */
#include "api/world.h"
#include "harness/postgres_server.h"
#include "harness/time.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONG_MS = 60000 };
/* Of how many locks the server knows, of whomever. */
#define HELD ask("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted")
/* Ends the sessions of ours, as an operator does. */
#define TERMINATE                                                                        \
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE "               \
    "application_name = 'victim'"

#define SESSIONS "SELECT pid FROM pg_stat_activity WHERE application_name = 'victim'"

/* A function of the server is another one for a while; what stands for it may call it by the name hidden. */
#define HIDE "ALTER FUNCTION pg_catalog.pg_try_advisory_lock(bigint) RENAME TO hidden"
#define SHOW                                                                             \
    "DROP FUNCTION pg_catalog.pg_try_advisory_lock(bigint); "                            \
    "ALTER FUNCTION pg_catalog.hidden(bigint) RENAME TO pg_try_advisory_lock"

static const char *ask(const char *statement)
{
    return postgres_server_ask(world_postgres(), "%s", statement);
}

static dlock_client *advisory(const char *settings)
{
    dlock_client *client = NULL;
    char uri[160];
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_conf) conf = api_conf(settings);
    snprintf(uri, sizeof(uri),
             "postgres://postgres@127.0.0.1:%d/postgres?postgres.layout=advisory",
             world_postgres()->port);
    dlock_err code = dlock_client_open(uri, conf, &client, &err);
    harness_check(__FILE__, __LINE__, code == DLOCK_OK, err ? dlock_error_text(err) : "");
    return client;
}

/* Its classid, objid and objsubid, while it is held. */
static const char *key_of(dlock_client *client, const char *word, const char *name)
{
    static char key[64];
    char setting[64];
    snprintf(setting, sizeof(setting), "postgres.key=%s", word);
    DLOCK_AUTO(dlock_lock) lock = api_lock(client, DLOCK_MUTEX, name, setting);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    snprintf(key, sizeof(key), "%s",
             ask("SELECT CASE objsubid WHEN 1 THEN (classid::bigint << 32 | "
                 "objid::bigint)::text ELSE classid::text || ',' || objid::text END FROM "
                 "pg_locks WHERE locktype = 'advisory'"));
    (void)dlock_hold_release(hold, NULL); /* what is left is seen */
    return key;
}

/* ---- names ---- */

/* Of the server's own: hashtext('orders/42'); of the others what the real ones took, django-pglocks 1.0.4,
 * django-pglock 1.8.0, django-pgware 1.0.0, and what DistributedLock's own test expects. */
static const struct {
    const char *word, *name, *key;
} keys[] = {
    {"number", "42", "42"},
    {"number", "-9223372036854775808", "-9223372036854775808"},
    {"number", "3,-1", "3,4294967295"},
    {"django-pglocks", "orders/42", "370287966"},
    {"django-pglocks", "käse", "-1417430281"},
    {"django-pglock", "orders/42", "-8692014323669213756"},
    {"django-pglock", "käse", "2914254291541029672"},
    {"django-pgware", "orders/42", "-4261225075031449721"},
    {"django-pgware", "käse", "2950831342713205032"},
    {"with_advisory_lock", "orders/42", "370287966,0"},
    {"with_advisory_lock", "käse", "730053367,0"},
    {"distributedlock", "漢漢漢漢漢漢漢漢漢漢漢漢漢漢漢漢漢漢", "-5707277204051710361"},
    {"distributedlock", "00000003,ffffffff", "3,4294967295"},
    {"distributedlock", "000000000000000A", "10"},
    {"distributedlock", "a", "3271557119,4294967295"},
};

TEST(a_name_is_the_lock_that_others_make_of_it)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = advisory(NULL);
    for (size_t i = 0; client && i < sizeof(keys) / sizeof(keys[0]); i++) {
        harness_note("%s %s", keys[i].word, keys[i].name);
        CHECK_STR(key_of(client, keys[i].word, keys[i].name), keys[i].key);
    }
    CHECK_STR(HELD, "0");
}

TEST(hashes_of_the_server_are_the_servers)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = advisory(NULL);
    char name[80], said[64];
    for (size_t size = 1; client && size < sizeof(name); size++) {
        for (size_t i = 0; i < size; i++)
            name[i] = (char)('a' + (i * 7 + size) % 26);
        name[size] = '\0';
        for (int wide = 0; wide < 2; wide++) {
            const char *word = wide ? "hashtextextended" : "hashtext";
            snprintf(said, sizeof(said), "%s",
                     postgres_server_ask(world_postgres(), "SELECT %s('%s'%s)", word,
                                         name, wide ? ", 0" : ""));
            CHECK_STR(key_of(client, word, name), said);
        }
    }
}

TEST(a_name_that_is_no_number_is_refused_as_one)
{
    BEGIN();
    static const char *const none[] = {"x",  "1x", "9223372036854775808", "1,2,3",
                                       "1,", ",1", "2147483648,1",        " 1",
                                       "+1", "0x1"};
    DLOCK_AUTO(dlock_client) client = advisory("postgres.key=number");
    for (size_t i = 0; client && i < sizeof(none) / sizeof(none[0]); i++) {
        DLOCK_AUTO(dlock_hold) hold = NULL;
        DLOCK_AUTO(dlock_error) err = NULL;
        CHECK_ERR(dlock_acquire(client, none[i], 0, &hold, &err), DLOCK_EINVAL, err);
        CHECK(err && strstr(dlock_error_text(err), "postgres.key"));
    }
}

/* ---- what it can't ---- */

TEST(what_advisory_locks_cant_is_refused_with_its_reason)
{
    BEGIN();
    static const dlock_kind kinds[] = {DLOCK_SEMAPHORE, DLOCK_ELECTION};
    DLOCK_AUTO(dlock_client) client = advisory(NULL);
    DLOCK_AUTO(dlock_info) info = NULL;
    CHECK_OK(dlock_client_features(client, &info, NULL), NULL);
    CHECK_STR(dlock_info_get(info, "layout"), "advisory");
    CHECK_STR(dlock_info_get(info, "class"), "efficiency");
    CHECK_STR(dlock_info_get(info, "tokens"), "0");
    CHECK_STR(dlock_info_get(info, "revoke"), "0");
    CHECK_STR(dlock_info_get(info, "handoff"), "0");
    CHECK_STR(dlock_info_get(info, "kinds.semaphore"), "0");
    CHECK_STR(dlock_info_get(info, "kinds.read"), "1");
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        dlock_lock *lock = NULL;
        DLOCK_AUTO(dlock_error) err = NULL;
        DLOCK_AUTO(dlock_conf)
        conf = api_conf(kinds[i] == DLOCK_SEMAPHORE ? "lock.permits=2" : NULL);
        CHECK_ERR(dlock_lock_new(client, kinds[i], "none", conf, &lock, &err),
                  DLOCK_ENOTSUP, err);
    }
    DLOCK_AUTO(dlock_lock) lock = api_lock(client, DLOCK_MUTEX, __func__, NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    CHECK_EQ_INT(dlock_hold_token(hold), 0);
    CHECK_ERR(dlock_hold_extend(hold, 60000, NULL), DLOCK_ENOTSUP, NULL);
    CHECK_ERR(dlock_lock_break(lock, NULL, NULL), DLOCK_ENOTSUP, NULL);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
}

static dlock_err open_with(const char *settings, char *text, size_t room)
{
    dlock_client *client = NULL;
    char uri[256];
    DLOCK_AUTO(dlock_error) err = NULL;
    snprintf(uri, sizeof(uri),
             "postgres://postgres@127.0.0.1:%d/postgres?postgres.layout=advisory&%s",
             world_postgres()->port, settings);
    dlock_err code = dlock_client_open(uri, NULL, &client, &err);
    snprintf(text, room, "%s", err ? dlock_error_text(err) : "");
    dlock_client_free(client);
    return code;
}

TEST(settings_that_promise_more_are_refused)
{
    BEGIN();
    char text[256];
    CHECK_EQ_INT(open_with("client.require=fencing", text, sizeof(text)), DLOCK_ENOTSUP);
    CHECK(strstr(text, "efficiency"));
    CHECK_EQ_INT(open_with("postgres.synchronous=true", text, sizeof(text)),
                 DLOCK_ENOTSUP);
    CHECK(strstr(text, "postgres.synchronous"));
    CHECK_EQ_INT(open_with("postgres.install=true", text, sizeof(text)), DLOCK_ENOTSUP);
    CHECK_EQ_INT(open_with("lock.ttl_ms=2147483648", text, sizeof(text)), DLOCK_EINVAL);
    CHECK_EQ_INT(open_with("client.require=efficiency", text, sizeof(text)), DLOCK_OK);
}

/* It needs nothing of ours there. */
TEST(a_database_without_our_schema_will_do)
{
    BEGIN();
    CHECK_STR(ask("DROP SCHEMA dlock CASCADE"), "");
    DLOCK_AUTO(dlock_client) client = advisory(NULL);
    DLOCK_AUTO(dlock_lock) lock = api_lock(client, DLOCK_MUTEX, __func__, NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    CHECK_STR(postgres_server_load(world_postgres(), postgres_server_schema), "");
}

/* ---- who excludes whom ---- */

/* The server would give a session what it has already. */
TEST(owners_of_one_client_exclude_each_other_whatever_they_call_the_lock)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = advisory("client.retry_ms=5");
    DLOCK_AUTO(dlock_lock)
    hashed = api_lock(client, DLOCK_MUTEX, "orders/42", "postgres.key=django-pglocks");
    DLOCK_AUTO(dlock_lock)
    number = api_lock(client, DLOCK_MUTEX, "370287966", "postgres.key=number");
    DLOCK_AUTO(dlock_lock)
    writer = api_lock(client, DLOCK_WRITE, "370287966", "postgres.key=number");
    DLOCK_AUTO(dlock_lock)
    reader = api_lock(client, DLOCK_READ, "370287966", "postgres.key=number");
    DLOCK_AUTO(dlock_hold) hold = world_take(hashed);
    dlock_lock *const others[] = {number, writer, reader};
    for (size_t i = 0; i < 3; i++) {
        DLOCK_AUTO(dlock_hold) none = NULL;
        CHECK_ERR(dlock_lock_acquire(others[i], 0, &none, NULL), DLOCK_EBUSY, NULL);
    }
    DLOCK_AUTO(dlock_op) waits = dlock_lock_acquire_start(number, DLOCK_FOREVER);
    CHECK_EQ_INT(dlock_op_wait(waits, SHORT_MS), DLOCK_EPENDING);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    ENDS(waits, DLOCK_OK);
    DLOCK_AUTO(dlock_hold) next = dlock_op_take_hold(waits);
    CHECK_STR(HELD, "1");
    CHECK_OK(dlock_hold_release(next, NULL), NULL);
    CHECK_STR(HELD, "0");
}

TEST(readers_share_and_each_gives_back_its_own)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) one = advisory("client.retry_ms=5");
    DLOCK_AUTO(dlock_client) two = advisory("client.retry_ms=5");
    DLOCK_AUTO(dlock_lock) first = api_lock(one, DLOCK_READ, __func__, "lock.owner=none");
    DLOCK_AUTO(dlock_lock) second = api_lock(two, DLOCK_READ, __func__, NULL);
    DLOCK_AUTO(dlock_lock) writer = api_lock(two, DLOCK_WRITE, __func__, NULL);
    DLOCK_AUTO(dlock_hold) a = world_take(first);
    DLOCK_AUTO(dlock_hold) b = world_take(first);
    DLOCK_AUTO(dlock_hold) c = world_take(second);
    DLOCK_AUTO(dlock_op) waits = dlock_lock_acquire_start(writer, DLOCK_FOREVER);
    dlock_hold *const readers[] = {a, c, b};
    for (size_t i = 0; i < 3; i++) {
        CHECK_EQ_INT(dlock_op_wait(waits, SHORT_MS), DLOCK_EPENDING);
        CHECK_OK(dlock_hold_release(readers[i], NULL), NULL);
    }
    ENDS(waits, DLOCK_OK);
    DLOCK_AUTO(dlock_hold) hold = dlock_op_take_hold(waits);
    DLOCK_AUTO(dlock_hold) none = NULL;
    CHECK_ERR(dlock_lock_acquire(first, 0, &none, NULL), DLOCK_EBUSY, NULL);
    CHECK_OK(dlock_hold_downgrade(hold, NULL), NULL);
    CHECK_STR(ask("SELECT mode FROM pg_locks WHERE locktype = 'advisory'"), "ShareLock");
    DLOCK_AUTO(dlock_hold) beside = world_take(first);
    CHECK_OK(dlock_hold_release(beside, NULL), NULL);
    CHECK_OK(dlock_hold_verify(hold, NULL), NULL);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    CHECK_STR(HELD, "0");
}

/* As a peer does that blocks, in the server's own line. */
static void *wait_at_the_server(void *key)
{
    static const char done[] = "";
    const char *said = postgres_server_ask(
        world_postgres(), "SELECT pg_advisory_lock(%s)", (const char *)key);
    return strcmp(said, "") == 0 ? (void *)done : NULL;
}

/* Nobody gets past those who wait there by a try, not even who has the lock. */
TEST(a_writer_becomes_a_reader_though_somebody_waits_at_the_server)
{
    BEGIN();
    static char names[][8] = {"4711", "47,-11"};
    DLOCK_AUTO(dlock_client) client = advisory("postgres.key=number");
    for (size_t i = 0; client && i < 2; i++) {
        pthread_t peer;
        void *done = NULL;
        DLOCK_AUTO(dlock_lock) lock = api_lock(client, DLOCK_WRITE, names[i], NULL);
        DLOCK_AUTO(dlock_hold) hold = world_take(lock);
        CHECK(pthread_create(&peer, NULL, wait_at_the_server, names[i]) == 0);
        AWAIT(strcmp(ask("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND "
                         "NOT granted"),
                     "1") == 0);
        CHECK_OK(dlock_hold_downgrade(hold, NULL), NULL);
        CHECK_OK(dlock_hold_verify(hold, NULL), NULL);
        CHECK_STR(
            ask("SELECT mode FROM pg_locks WHERE locktype = 'advisory' AND granted"),
            "ShareLock");
        CHECK_OK(dlock_hold_release(hold, NULL), NULL);
        AWAIT(strcmp(HELD, "0") == 0);
        if (strcmp(HELD, "0") != 0)
            CHECK_STR(ask("SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE "
                          "locktype = 'advisory' AND granted"),
                      "0");
        (void)pthread_join(peer, &done);
        CHECK(done);
    }
}

TEST(a_thousand_locks_are_looked_after_together)
{
    BEGIN();
    enum { COUNT = 1000 };
    static dlock_hold *holds[COUNT];
    DLOCK_AUTO(dlock_client) client = advisory("lock.ttl_ms=3000");
    for (int i = 0; i < COUNT; i++) {
        char name[32];
        snprintf(name, sizeof(name), "many-%d", i);
        CHECK_OK(dlock_acquire(client, name, LONG_MS, &holds[i], NULL), NULL);
    }
    CHECK_STR(HELD, "1000");
    int64_t before = api_stat(client, "commands");
    AWAIT(api_stat(client, "renewals") >= 2 * COUNT);
    CHECK(api_stat(client, "commands") - before < COUNT / 5);
    for (int i = 0; i < COUNT; i++) {
        CHECK_OK(dlock_hold_release(holds[i], NULL), NULL);
        dlock_hold_free(holds[i]);
    }
    CHECK_STR(HELD, "0");
}

/* A grant may come when nobody wants it any more: it goes back. */
TEST(an_acquire_that_is_cancelled_at_any_time_leaves_nothing)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = advisory("client.retry_ms=1");
    DLOCK_AUTO(dlock_lock) lock = api_lock(client, DLOCK_MUTEX, __func__, NULL);
    for (int i = 0; i < 300; i++) {
        DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
        for (int spin = 0; spin < i * 40; spin++)
            __asm__ __volatile__("");
        dlock_op_cancel(op);
        CHECK_EQ_INT(dlock_op_wait(op, patience_ms()), DLOCK_OK);
        DLOCK_AUTO(dlock_hold) hold = dlock_op_take_hold(op);
        if (hold)
            CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    }
    AWAIT(strcmp(HELD, "0") == 0);
}

/* ---- all at once ---- */

enum { THREADS = 3, ROUNDS = 150 };

typedef struct crowd {
    dlock_client *client;
    unsigned seed;
    pthread_t thread;
    bool fine;
} crowd;

/* Who is inside, of all clients: a writer counts for a thousand readers. */
static atomic_int inside[2];

static bool mixes(atomic_int *here, int weight)
{
    int before = atomic_fetch_add(here, weight);
    bool fine = weight == 1 ? before < 1000 : before == 0;
    sched_yield();
    return fine;
}

/* One try with an end of any kind: in time, cancelled, as a reader. Two words of postgres.key call the second lock
 * by other names. */
static bool one_round(crowd *one)
{
    static const dlock_kind kinds[] = {DLOCK_MUTEX, DLOCK_READ, DLOCK_READ, DLOCK_WRITE};
    unsigned dice = (unsigned)rand_r(&one->seed);
    int which = (int)(dice & 1);
    dlock_kind kind = kinds[dice >> 1 & 3];
    bool other_name = which && (dice >> 3 & 1);
    DLOCK_AUTO(dlock_lock)
    lock = api_lock(one->client, kind,
                    other_name ? "00000000000003E8"
                    : which    ? "1000"
                               : "7,8",
                    other_name ? "lock.owner=none postgres.key=distributedlock"
                               : "lock.owner=none postgres.key=number");
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
    if (dice >> 4 & 1) {
        for (unsigned spin = 0; spin < (dice >> 8 & 0xffff); spin++)
            __asm__ __volatile__("");
        dlock_op_cancel(op);
    }
    if (dlock_op_wait(op, LONG_MS) != DLOCK_OK)
        return false;
    DLOCK_AUTO(dlock_hold) hold = dlock_op_take_hold(op);
    if (!hold)
        return dlock_op_result(op) == DLOCK_ECANCELED;
    int weight = kind == DLOCK_READ ? 1 : 1000;
    bool fine = mixes(&inside[which], weight);
    if (kind == DLOCK_WRITE && (dice >> 5 & 1)) {
        atomic_fetch_sub(&inside[which], 999);
        weight = 1;
        fine &= dlock_hold_downgrade(hold, NULL) == DLOCK_OK;
        fine &= (dice >> 6 & 1) || dlock_hold_verify(hold, NULL) == DLOCK_OK;
    }
    atomic_fetch_sub(&inside[which], weight);
    return dlock_hold_release(hold, NULL) == DLOCK_OK && fine;
}

static void *many_rounds(void *arg)
{
    crowd *one = arg;
    one->fine = true;
    for (int i = 0; i < ROUNDS && one->fine; i++)
        one->fine = one_round(one);
    return NULL;
}

TEST(whatever_is_asked_cancelled_and_given_back_nobody_is_let_in_and_nothing_is_left)
{
    BEGIN();
    static crowd crowds[2 * THREADS];
    DLOCK_AUTO(dlock_client) first = advisory("client.retry_ms=1");
    DLOCK_AUTO(dlock_client) second = advisory("client.retry_ms=1");
    for (int i = 0; i < 2 * THREADS; i++) {
        crowds[i] = (crowd){.client = i % 2 ? first : second, .seed = (unsigned)i + 1};
        CHECK(pthread_create(&crowds[i].thread, NULL, many_rounds, &crowds[i]) == 0);
    }
    for (int i = 0; i < 2 * THREADS; i++) {
        (void)pthread_join(crowds[i].thread, NULL);
        CHECK(crowds[i].fine);
    }
    AWAIT(strcmp(HELD, "0") == 0);
    CHECK_EQ_INT(api_stat(first, "losses") + api_stat(second, "losses"), 0);
}

/* ---- how it gets lost ---- */

TEST(a_session_that_is_ended_loses_its_locks_at_once)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) victim = advisory("client.name=victim lock.ttl_ms=600000");
    DLOCK_AUTO(dlock_client) other = advisory(NULL);
    DLOCK_AUTO(dlock_lock) lock = api_lock(victim, DLOCK_MUTEX, __func__, NULL);
    DLOCK_AUTO(dlock_lock) same = api_lock(other, DLOCK_MUTEX, __func__, NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    CHECK_STR(ask(TERMINATE), "1");
    AWAIT(dlock_hold_state(hold) == DLOCK_LOST); /* ten minutes before its lease ends */
    CHECK_ERR(dlock_hold_release(hold, NULL), DLOCK_ELOST, NULL);
    DLOCK_AUTO(dlock_hold) next = world_take(same);
    CHECK_OK(dlock_hold_release(next, NULL), NULL);
    DLOCK_AUTO(dlock_hold) again = world_take(lock);
    CHECK_OK(dlock_hold_release(again, NULL), NULL);
}

/* As behind a pool that nobody knows of, whose next client says DISCARD ALL: here the server's function takes
 * nothing. */
TEST(a_renewal_sees_that_the_lock_is_no_longer_the_sessions)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = advisory("lock.ttl_ms=900");
    DLOCK_AUTO(dlock_lock) lock = api_lock(client, DLOCK_MUTEX, __func__, NULL);
    DLOCK_AUTO(dlock_lock) beside = api_lock(client, DLOCK_MUTEX, "beside", NULL);
    DLOCK_AUTO(dlock_hold) kept = world_take(beside);
    CHECK_STR(ask(HIDE), "");
    CHECK_STR(ask("CREATE FUNCTION pg_catalog.pg_try_advisory_lock(bigint) RETURNS bool "
                  "LANGUAGE sql AS 'SELECT true'"),
              "");
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    AWAIT(dlock_hold_state(hold) == DLOCK_LOST);
    CHECK_ERR(dlock_hold_release(hold, NULL), DLOCK_ELOST, NULL);
    DLOCK_AUTO(dlock_hold) second = world_take(lock);
    CHECK_ERR(dlock_hold_verify(second, NULL), DLOCK_ELOST, NULL);
    CHECK_STR(ask(SHOW), "");
    CHECK_OK(dlock_hold_verify(kept, NULL), NULL);
    CHECK_OK(dlock_hold_release(kept, NULL), NULL);
}

/* Its locks would be gone with it, those too whose leases have only begun. */
TEST(a_session_waits_for_an_answer_longer_than_the_end_of_one_lease)
{
    BEGIN();
    DLOCK_AUTO(dlock_client)
    client = advisory("client.name=victim lock.ttl_ms=1000 client.timeout_ms=60000");
    DLOCK_AUTO(dlock_lock) lock = api_lock(client, DLOCK_MUTEX, __func__, NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    char before[64];
    snprintf(before, sizeof(before), "%s", ask(SESSIONS));
    postgres_server_freeze(world_postgres());
    AWAIT(dlock_hold_state(hold) == DLOCK_LOST);
    postgres_server_thaw(world_postgres());
    AWAIT(strcmp(HELD, "0") == 0);
    CHECK_STR(ask(SESSIONS), before);
}

/* A statement that was stopped may have taken the lock: the session ends rather than keep it for nobody. */
static void leaves_nothing(const char *state, dlock_err ends)
{
    harness_note("%s", state);
    DLOCK_AUTO(dlock_client)
    client =
        advisory("client.name=victim client.backoff_min_ms=1 client.backoff_max_ms=5");
    DLOCK_AUTO(dlock_lock) lock = api_lock(client, DLOCK_MUTEX, state, NULL);
    CHECK_STR(ask(HIDE), "");
    CHECK_STR(
        postgres_server_ask(
            world_postgres(),
            "CREATE FUNCTION pg_catalog.pg_try_advisory_lock(bigint) RETURNS bool "
            "LANGUAGE plpgsql AS $$ BEGIN BEGIN PERFORM pg_catalog.hidden($1); EXCEPTION "
            "WHEN undefined_function THEN NULL; END; "
            "RAISE EXCEPTION USING ERRCODE = '%s'; END $$",
            state),
        "");
    char before[64];
    snprintf(before, sizeof(before), "%s", ask(SESSIONS));
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
    AWAIT(strcmp(ask(SESSIONS), before) != 0 && ask(SESSIONS)[0]);
    CHECK_STR(ask(SHOW), "");
    ENDS(op, ends);
    DLOCK_AUTO(dlock_hold) hold = dlock_op_take_hold(op);
    if (ends == DLOCK_OK)
        CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    AWAIT(strcmp(HELD, "0") == 0);
}

/* Cancelled, and not: what goes wrong in the server itself. */
TEST(statements_that_are_cancelled_leave_no_lock_to_nobody)
{
    BEGIN();
    leaves_nothing("57014", DLOCK_OK);
    leaves_nothing("XX000", DLOCK_EPROTO);
    leaves_nothing("58030", DLOCK_OK);
}

TEST(the_server_keeps_a_session_that_it_hears_nothing_of_for_a_lease)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = advisory("lock.ttl_ms=20000");
    DLOCK_AUTO(dlock_lock) lock = api_lock(client, DLOCK_MUTEX, __func__, NULL);
    char text[96];
    /* The functions answer for the session that calls them: ours says it as a name of a lock. */
    CHECK_STR(ask(HIDE), "");
    CHECK_STR(ask("CREATE TABLE told AS SELECT ''::text AS what"), "");
    CHECK_STR(
        ask("CREATE FUNCTION pg_catalog.pg_try_advisory_lock(bigint) RETURNS bool "
            "LANGUAGE plpgsql AS $$ BEGIN UPDATE public.told SET what = concat_ws(' ', "
            "current_setting('tcp_user_timeout'), "
            "current_setting('tcp_keepalives_idle'), "
            "current_setting('tcp_keepalives_interval'), "
            "current_setting('tcp_keepalives_count')); RETURN pg_catalog.hidden($1); END "
            "$$"),
        "");
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    snprintf(text, sizeof(text), "%s", ask("SELECT what FROM told"));
    CHECK_STR(text, "20000 11 3 5");
    CHECK_STR(ask(SHOW), "");
    CHECK_STR(ask("DROP TABLE told"), "");
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
}

/* It is two things that the server does, and neither is undone. */
TEST(a_downgrade_that_fails_in_its_middle_leaves_no_lock_to_nobody)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = advisory(NULL);
    DLOCK_AUTO(dlock_lock) lock = api_lock(client, DLOCK_WRITE, __func__, NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    CHECK_STR(
        ask("ALTER FUNCTION pg_catalog.pg_advisory_unlock(bigint) RENAME TO hidden"), "");
    CHECK_STR(ask("CREATE FUNCTION pg_catalog.pg_advisory_unlock(bigint) RETURNS bool "
                  "LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION USING ERRCODE = '42501'; "
                  "END $$"),
              "");
    (void)dlock_hold_downgrade(hold, NULL);
    AWAIT(dlock_hold_state(hold) == DLOCK_LOST);
    CHECK_STR(ask("DROP FUNCTION pg_catalog.pg_advisory_unlock(bigint); ALTER FUNCTION "
                  "pg_catalog.hidden(bigint) RENAME TO pg_advisory_unlock"),
              "");
    AWAIT(strcmp(HELD, "0") == 0);
}

/* Else a session of nobody would have its locks for hours. */
TEST(a_server_that_does_not_let_it_be_so_is_refused)
{
    BEGIN();
    char text[256];
    CHECK_STR(
        ask("ALTER FUNCTION pg_catalog.set_config(text, text, boolean) RENAME TO other"),
        "");
    CHECK_EQ_INT(open_with("", text, sizeof(text)), DLOCK_ENOTSUP);
    CHECK_STR(
        ask("ALTER FUNCTION pg_catalog.other(text, text, boolean) RENAME TO set_config"),
        "");
    CHECK_EQ_INT(open_with("", text, sizeof(text)), DLOCK_OK);
}

/* ---- what is shown ---- */

TEST(inspect_and_list_show_the_sessions)
{
    BEGIN();
    DLOCK_AUTO(dlock_client)
    client = advisory("client.name=shown postgres.key=number client.retry_ms=5");
    DLOCK_AUTO(dlock_lock) lock = api_lock(client, DLOCK_MUTEX, "-7,2147483647", NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    DLOCK_AUTO(dlock_info) info = NULL;
    DLOCK_AUTO(dlock_info) list = NULL;
    CHECK_OK(dlock_lock_inspect(lock, &info, NULL), NULL);
    CHECK_STR(dlock_info_get(info, "held"), "1");
    CHECK_STR(dlock_info_get(info, "kind"), "mutex");
    CHECK_STR(dlock_info_get(info, "layout"), "advisory");
    CHECK_STR(dlock_info_get(info, "holders.0.client"), "shown");
    CHECK_STR(dlock_info_get(info, "holders.0.owner"),
              ask("SELECT pid FROM pg_locks WHERE locktype = 'advisory'"));
    CHECK_OK(dlock_client_list(client, "-7", 10, &list, NULL), NULL);
    CHECK_STR(dlock_info_get(list, "locks.0.name"), "-7,2147483647");
    CHECK(!dlock_info_get(list, "locks.1.name"));
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    dlock_info_free(info);
    info = NULL;
    CHECK_OK(dlock_lock_inspect(lock, &info, NULL), NULL);
    CHECK_STR(dlock_info_get(info, "held"), "0");
}
