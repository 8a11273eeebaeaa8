/* The fence in the transaction: holders that pause wherever they like, and lose their lock meanwhile, commit nothing
 * that is stale. DLK_TEST_GUARDED says how many transactions (make proof: 100,000). */
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

enum { HOLDERS = 6, TRANSACTIONS = 2000 };

typedef struct scene {
    bool checks; /* else nothing is asked of the database */
    int wanted;
    atomic_int began, committed, refused, failed;
    atomic_bool over;
} scene;

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

/* Takes the lock, and writes its token where the largest must stay, in a transaction that is guarded. */
static void write_once(scene *in, dlock_client *client, PGconn *db, unsigned *seed)
{
    DLOCK_AUTO(dlock_hold) hold = NULL;
    if (dlock_acquire(client, "guarded", DLOCK_FOREVER, &hold, NULL) != DLOCK_OK) {
        in->failed++;
        return;
    }
    int64_t token = dlock_hold_token(hold);
    pause_somewhere(seed);
    (void)say(db, "BEGIN");
    pause_somewhere(seed);
    const char *state =
        in->checks ? say(db, "SELECT dlock.check('guarded', %" PRId64 ")", token) : "";
    if (strcmp(state, "DL001") == 0) {
        in->refused++;
    } else if (state[0]) {
        in->failed++;
    } else {
        pause_somewhere(seed);
        state = say(db,
                    "UPDATE written SET stale = stale + (last > %" PRId64
                    ")::int, last = %" PRId64,
                    token, token);
        pause_somewhere(seed);
        if (state[0] || say(db, "COMMIT")[0])
            in->failed++;
        else
            in->committed++;
    }
    if (state[0])
        (void)say(db, "ROLLBACK");
    (void)dlock_hold_release(hold, NULL); /* or it was lost */
}

static void *hold_and_write(void *arg)
{
    scene *in = arg;
    unsigned seed = (unsigned)(uintptr_t)&seed;
    DLOCK_AUTO(dlock_client) client = opened();
    PGconn *db = connected();
    while (in->began++ < in->wanted)
        write_once(in, client, db, &seed);
    PQfinish(db);
    return NULL;
}

/* Takes the lock from whoever has it, again and again: what a lease's end does, without the wait for it. */
static void *take_away(void *arg)
{
    scene *in = arg;
    DLOCK_AUTO(dlock_client) client = opened();
    DLOCK_AUTO(dlock_lock) lock = NULL;
    if (dlock_lock_new(client, DLOCK_MUTEX, "guarded", NULL, &lock, NULL) != DLOCK_OK)
        in->failed++;
    while (lock && !in->over) {
        (void)dlock_lock_break(lock, NULL, NULL);
        nap_ms(2);
    }
    return NULL;
}

static int64_t play(scene *in)
{
    pthread_t holders[HOLDERS], breaker;
    DLOCK_AUTO(dlock_client)
    client =
        api_open("postgres://postgres@127.0.0.1:%d/postgres", world_postgres()->port);
    postgres_server_ask(world_postgres(), "DROP TABLE IF EXISTS written");
    postgres_server_ask(world_postgres(),
                        "CREATE TABLE written AS SELECT 0::bigint AS last, 0 AS stale");
    pthread_create(&breaker, NULL, take_away, in);
    for (int i = 0; i < HOLDERS; i++)
        pthread_create(&holders[i], NULL, hold_and_write, in);
    for (int i = 0; i < HOLDERS; i++)
        pthread_join(holders[i], NULL);
    in->over = true;
    pthread_join(breaker, NULL);
    return strtoll(postgres_server_ask(world_postgres(), "SELECT stale FROM written"),
                   NULL, 10);
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
    scene in = {.checks = false, .wanted = 500};
    int64_t stale = play(&in);
    printf("# %d committed, %d failed, %" PRId64 " stale\n", in.committed, in.failed,
           stale);
    CHECK(stale > 0);
    CHECK_EQ_INT(in.failed, 0);
}
