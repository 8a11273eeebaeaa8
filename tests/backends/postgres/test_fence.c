/* The fence in the transaction: holders that pause wherever they like, and lose their lock meanwhile, commit nothing
 * that is stale. DLK_TEST_GUARDED says how many transactions (make proof: a million). */
#include "api/world.h"
#include "harness/postgres_server.h"
#include "harness/time.h"

#include <inttypes.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each name has holders of its own, and a row that they write. */
enum { NAMES = 4, HOLDERS = 8, TRANSACTIONS = 6000 };

typedef struct scene {
    bool checks; /* else nothing is asked of the database */
    int wanted;
    atomic_int began, committed, refused, failed;
    atomic_bool over;
} scene;

typedef struct holder {
    scene *in;
    char name[16];
    unsigned seed;
} holder;

static const char *name_of(int which, char to[16])
{
    snprintf(to, 16, "guarded/%d", which);
    return to;
}

static int wanted(void)
{
    const char *text = getenv("DLK_TEST_GUARDED");
    return text ? atoi(text) : TRANSACTIONS;
}

/* One for each holder: those of one client wait for each other in its process. */
static dlock_client *opened(void)
{
    return api_open("postgres://postgres@127.0.0.1:%d/postgres", world_postgres()->port);
}

static PGconn *connected(void)
{
    char about[160];
    snprintf(about, sizeof(about), "host=127.0.0.1 port=%d user=postgres dbname=postgres",
             world_postgres()->port);
    return PQconnectdb(about);
}

/* The SQLSTATE, or "" where all is well. */
__attribute__((format(printf, 2, 3))) static const char *say(PGconn *db,
                                                             const char *format, ...)
{
    static _Thread_local char state[8];
    char statement[256];
    va_list args;
    va_start(args, format);
    vsnprintf(statement, sizeof(statement), format, args);
    va_end(args);
    PGresult *result = PQexec(db, statement);
    const char *field = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    bool fine = PQresultStatus(result) == PGRES_COMMAND_OK ||
                PQresultStatus(result) == PGRES_TUPLES_OK;
    snprintf(state, sizeof(state), "%s", field ? field : fine ? "" : "lost");
    PQclear(result);
    return state;
}

/* The holder stands still, for no time or for some ms, wherever it is: that is the fault. */
static void pause_somewhere(unsigned *seed)
{
    if (rand_r(seed) % 3 == 0)
        nap_ms(rand_r(seed) % 8);
}

/* Writes the token where the largest must stay, in a transaction that is guarded. */
static const char *write_guarded(holder *me, PGconn *db, int64_t token)
{
    (void)say(db, "BEGIN");
    pause_somewhere(&me->seed);
    const char *state =
        me->in->checks ? say(db, "SELECT dlock.check('%s', %" PRId64 ")", me->name, token)
                       : "";
    if (state[0])
        return state;
    pause_somewhere(&me->seed);
    state = say(db,
                "UPDATE written SET stale = stale + (last > %" PRId64
                ")::int, last = %" PRId64 " WHERE name = '%s'",
                token, token, me->name);
    pause_somewhere(&me->seed);
    return state[0] ? state : say(db, "COMMIT");
}

static void hold_once(holder *me, dlock_client *client, PGconn *db)
{
    DLOCK_AUTO(dlock_hold) hold = NULL;
    if (dlock_acquire(client, me->name, DLOCK_FOREVER, &hold, NULL) != DLOCK_OK) {
        me->in->failed++;
        return;
    }
    pause_somewhere(&me->seed);
    const char *state = write_guarded(me, db, dlock_hold_token(hold));
    if (!state[0])
        me->in->committed++;
    else if (strcmp(state, "DL001") == 0)
        me->in->refused++;
    else
        me->in->failed++;
    if (state[0])
        (void)say(db, "ROLLBACK");
    (void)dlock_hold_release(hold, NULL); /* or it was lost */
}

static void *hold_and_write(void *arg)
{
    holder *me = arg;
    DLOCK_AUTO(dlock_client) client = opened();
    PGconn *db = connected();
    while (me->in->began++ < me->in->wanted)
        hold_once(me, client, db);
    PQfinish(db);
    return NULL;
}

/* Takes the locks from whoever has them, again and again: what a lease's end does, without the wait for it. */
static void *take_away(void *arg)
{
    scene *in = arg;
    DLOCK_AUTO(dlock_client) client = opened();
    dlock_lock *locks[NAMES] = {NULL};
    char name[16];
    for (int i = 0; i < NAMES; i++)
        if (dlock_lock_new(client, DLOCK_MUTEX, name_of(i, name), NULL, &locks[i],
                           NULL) != DLOCK_OK)
            in->failed++;
    while (!in->over) {
        for (int i = 0; i < NAMES && locks[i]; i++)
            (void)dlock_lock_break(locks[i], NULL, NULL);
        nap_ms(2);
    }
    for (int i = 0; i < NAMES; i++)
        dlock_lock_free(locks[i]);
    return NULL;
}

static int64_t play(scene *in)
{
    pthread_t threads[NAMES * HOLDERS], breaker;
    holder holders[NAMES * HOLDERS];
    postgres_server_ask(world_postgres(), "DROP TABLE IF EXISTS written");
    postgres_server_ask(
        world_postgres(),
        "CREATE TABLE written WITH (fillfactor = 10) AS SELECT 'guarded/' || i AS "
        "name, 0::bigint AS last, 0 AS stale FROM generate_series(0, %d) i",
        NAMES - 1);
    pthread_create(&breaker, NULL, take_away, in);
    for (int i = 0; i < NAMES * HOLDERS; i++) {
        holders[i] = (holder){.in = in, .seed = (unsigned)(i + 1)};
        (void)name_of(i % NAMES, holders[i].name);
        pthread_create(&threads[i], NULL, hold_and_write, &holders[i]);
    }
    for (int i = 0; i < NAMES * HOLDERS; i++)
        pthread_join(threads[i], NULL);
    in->over = true;
    pthread_join(breaker, NULL);
    return strtoll(
        postgres_server_ask(world_postgres(), "SELECT sum(stale) FROM written"), NULL,
        10);
}

TEST(a_guarded_transaction_is_never_committed_behind_a_later_one)
{
    BEGIN();
    scene in = {.checks = true, .wanted = wanted()};
    CHECK_EQ_INT(play(&in), 0);
    printf("# %d committed, %d refused\n", in.committed, in.refused);
    CHECK_EQ_INT(in.failed, 0);
    CHECK_EQ_INT(in.committed + in.refused, in.wanted);
    CHECK(in.refused > 0 && in.committed > 0);
}

/* That the one above can fail. */
TEST(without_the_check_some_are)
{
    BEGIN();
    scene in = {.checks = false, .wanted = 1000};
    int64_t stale = play(&in);
    printf("# %d committed, %d failed, %" PRId64 " stale\n", in.committed, in.failed,
           stale);
    CHECK(stale > 0);
    CHECK_EQ_INT(in.failed, 0);
}
