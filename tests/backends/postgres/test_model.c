/* What schema.sql does is what the model does: random requests to both, at moments that the test sets, to the
 * microsecond. Compared is what is answered, what is told to whom, and all that lies in the tables, after each one.
 * DLK_TEST_REQUESTS says how many, DLK_TEST_SEED which; both are printed. */
#include "harness/harness.h"
#include "harness/postgres_server.h"
#include "harness/server_clock.h"
#include "harness/time.h"
#include "model.h"

#include <inttypes.h>
#include <libpq-fe.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUESTS = 6000, MS = 1000 };

typedef struct scene {
    postgres_server server;
    server_clock clock;
    PGconn *db, *guard; /* who asks; whose transaction checks tokens */
    model model;
    unsigned dice;
    int name; /* which the next request is about */
    char request[512], got[MODEL_TEXT];
} scene;

static int64_t number_of(const char *variable, int64_t otherwise)
{
    const char *text = getenv(variable);
    return text ? strtoll(text, NULL, 10) : otherwise;
}

static int roll(scene *in, int sides)
{
    return (int)((unsigned)rand_r(&in->dice) % (unsigned)sides);
}

/* ---- the server ---- */

static PGconn *connected(const scene *in)
{
    char about[160];
    snprintf(about, sizeof(about), "host=127.0.0.1 port=%d user=postgres dbname=postgres",
             in->server.port);
    PGconn *db = PQconnectdb(about);
    (void)harness_check(__FILE__, __LINE__, PQstatus(db) == CONNECTION_OK,
                        "a connection");
    return db;
}

/* What it answers, as the model says it; an error by its SQLSTATE. */
static void ask(PGconn *db, const char *statement, char *to, size_t room)
{
    PGresult *result = PQexec(db, statement);
    size_t used = 0;
    to[0] = '\0';
    if (PQresultStatus(result) != PGRES_TUPLES_OK &&
        PQresultStatus(result) != PGRES_COMMAND_OK)
        snprintf(to, room, "%s", PQresultErrorField(result, PG_DIAG_SQLSTATE));
    for (int row = 0; row < PQntuples(result); row++)
        for (int column = 0; column < PQnfields(result); column++) {
            bool is_null = PQgetisnull(result, row, column);
            used += (size_t)snprintf(to + used, used < room ? room - used : 0, "%s%s",
                                     column ? " "
                                     : row  ? "\n"
                                            : "",
                                     is_null ? "-" : PQgetvalue(result, row, column));
        }
    PQclear(result);
}

static int by_text(const void *one, const void *other)
{
    return strcmp(one, other);
}

static void join(char messages[][64], int count, char *to, size_t room)
{
    size_t used = 0;
    to[0] = '\0';
    qsort(messages, (size_t)count, sizeof(messages[0]), by_text);
    for (int i = 0; i < count && used < room; i++)
        used += (size_t)snprintf(to + used, room - used, "%s; ", messages[i]);
}

static void take_messages(PGconn *db, char *to, size_t room)
{
    char messages[MODEL_MESSAGES][64];
    int count = 0;
    PGnotify *message;
    (void)PQconsumeInput(db);
    while (count < MODEL_MESSAGES && (message = PQnotifies(db))) {
        snprintf(messages[count++], 64, "%s %s", message->relname + strlen("dlock:"),
                 message->extra);
        PQfreemem(message);
    }
    join(messages, count, to, room);
}

static void hear_all(PGconn *db)
{
    char text[64];
    ask(db, "LISTEN \"dlock:u0\"; LISTEN \"dlock:u1\"; LISTEN \"dlock:u2\"", text,
        sizeof(text));
}

static const char tables[] =
    "SELECT convert_from(t.name, 'UTF8') || t.says || E'\\n' FROM ("
    "SELECT l.name, 0 AS nth, '' AS who, 0::bigint AS place, format(' %s %s %s token "
    "%s', "
    "l.kind, coalesce(l.permits, 0), l.id, f.token) AS says FROM dlock.locks l JOIN "
    "dlock.fences f USING (name) "
    "UNION ALL SELECT name, 1, owner, 0, format(' holder %s %s %s %s %s %s', owner, "
    "shared, "
    "take, token, (extract(epoch FROM since) * 1000000)::bigint, (extract(epoch FROM "
    "ends) * "
    "1000000)::bigint) FROM dlock.holders "
    "UNION ALL SELECT name, 2, '', place, format(' waiter %s %s %s %s %s %s %s', owner, "
    "shared, take, place, (extract(epoch FROM since) * 1000000)::bigint, (extract(epoch "
    "FROM "
    "ends) * 1000000)::bigint, coalesce((extract(epoch FROM due) * 1000000)::bigint, 0)) "
    "FROM "
    "dlock.line) t ORDER BY t.name, nth, who COLLATE \"C\", place";

/* Whether both say the same; else what each said. */
static bool same(scene *in, const char *what, const char *got, const char *expected)
{
    if (strcmp(got, expected) == 0)
        return true;
    harness_note("%s differs at %s\n# the server:\n%s\n# the model:\n%s", what,
                 in->request, got, expected);
    return harness_check(__FILE__, __LINE__, false,
                         "the server does what the model does");
}

static bool compare_tables(scene *in)
{
    char text[MODEL_TEXT];
    size_t used = 0;
    ask(in->db, tables, in->got, sizeof(in->got));
    /* Each row has a line's end of its own, behind which stands that of the answer. */
    for (const char *at = in->got; *at; at++)
        if (used + 1 < sizeof(text) && !(at[0] == '\n' && at > in->got && at[-1] == '\n'))
            text[used++] = *at;
    text[used] = '\0';
    in->model.text[0] = '\0';
    model_dump(&in->model);
    return same(in, "what lies there", text, in->model.text);
}

/* What was asked of the model is asked of the server. */
__attribute__((format(printf, 2, 3))) static bool compare(scene *in, const char *format,
                                                          ...)
{
    char told[MODEL_MESSAGES * 64], expected[MODEL_MESSAGES * 64];
    va_list args;
    va_start(args, format);
    vsnprintf(in->request, sizeof(in->request), format, args);
    va_end(args);
    ask(in->db, in->request, in->got, sizeof(in->got));
    take_messages(in->db, told, sizeof(told));
    join(in->model.messages, in->model.message_count, expected, sizeof(expected));
    return same(in, "the answer", in->got, in->model.text) &&
           same(in, "what is told", told, expected) && compare_tables(in);
}

/* ---- one request ---- */

/* One in four may keep what it has. */
static void think_of_owner(scene *in, char to[24])
{
    static const char *const numbers[] = {"1", "2", "3", "4611686018427387905"};
    snprintf(to, 24, "u%d:%s", roll(in, 3), numbers[roll(in, 4)]);
}

static model_ask think_of_one(scene *in)
{
    static const char *const kinds[MODEL_NAMES] = {"mutex", "write", "semaphore",
                                                   "election", "condition"};
    static const int sizes[] = {0, 2, 3, 3};
    model_ask ask = {.name = in->name, .take = 1};
    /* Mostly each name is of one kind. */
    ask.kind = kinds[roll(in, 12) ? ask.name : roll(in, MODEL_NAMES)];
    ask.ttl_ms = 1 + roll(in, 8000);
    ask.stay_ms = roll(in, 4) ? 10000 : 1 + roll(in, 500);
    ask.longest_ms = roll(in, 2) ? 1 + roll(in, 8000) : 0;
    ask.shared = strcmp(ask.kind, "write") == 0 && roll(in, 2);
    ask.once = roll(in, 4) == 0;
    ask.listens = roll(in, 2);
    if (strcmp(ask.kind, "semaphore") == 0) {
        ask.take = 1 + (roll(in, 4) == 0) + (roll(in, 16) == 0);
        ask.size = roll(in, 12) ? 3 : sizes[roll(in, 4)];
    }
    ask.most = roll(in, 4) ? 1 + roll(in, 3) : INT64_MAX;
    think_of_owner(in, ask.owner);
    think_of_owner(in, ask.giver);
    return ask;
}

static bool acquire(scene *in, const model_ask *ask)
{
    model_acquire(&in->model, ask);
    return compare(
        in,
        "SELECT reply, token, left_ms, id, placed FROM dlock.acquire('%s', '%s', "
        "'%s', %" PRId64 ", %d::boolean, %d, %d, %d::boolean, %" PRId64
        ", %d::boolean, '', '')",
        model_name_of(ask->name), ask->kind, ask->owner, ask->ttl_ms, ask->shared,
        ask->take, ask->size, ask->once, ask->stay_ms, ask->listens);
}

/* One time in four the lease that stands there is named, as one is that lasts too long. */
static bool renew(scene *in, model_ask *ask)
{
    const model_name *n = &in->model.names[ask->name];
    for (int i = 0; i < n->holder_count && roll(in, 4) == 0; i++)
        if (strcmp(n->holders[i].owner, ask->owner) == 0)
            ask->named = n->holders[i].ends;
    model_renew(&in->model, ask);
    return compare(
        in,
        "SELECT reply, token, overlong FROM dlock.renew('{%s}', '{%s}', '{%" PRId64
        "}', '{%" PRId64 "}', '{%" PRId64 "}', '{\"\"}')",
        model_name_of(ask->name), ask->owner, ask->ttl_ms, ask->longest_ms, ask->named);
}

/* Mostly the signal that the owner has. */
static bool use(scene *in, model_ask *ask)
{
    const model_name *n = &in->model.names[ask->name];
    for (int i = 0; i < n->holder_count; i++)
        if (strcmp(n->holders[i].owner, ask->owner) == 0)
            ask->used = n->holders[i].token - (roll(in, 4) == 0);
    model_use(&in->model, ask);
    return compare(in, "SELECT dlock.use('%s', '%s', %" PRId64 ")",
                   model_name_of(ask->name), ask->owner, ask->used);
}

/* In a transaction that stays open if it passes, and ends with the next such request. */
static bool check_token(scene *in, const model_ask *one)
{
    char text[64];
    const model_name *n = &in->model.names[one->name];
    int64_t token = n->token - (roll(in, 4) == 0);
    if (in->model.guarded >= 0) {
        ask(in->guard, roll(in, 2) ? "COMMIT" : "ROLLBACK", text, sizeof(text));
        in->model.guarded = -1;
        return true;
    }
    ask(in->guard, "BEGIN", text, sizeof(text));
    snprintf(in->request, sizeof(in->request),
             "SELECT dlock.check('%s'::bytea, %" PRId64 ")", model_name_of(one->name),
             token);
    ask(in->guard, in->request, in->got, sizeof(in->got));
    if (model_check(&in->model, one->name, token))
        return same(in, "the check", in->got, "");
    ask(in->guard, "ROLLBACK", text, sizeof(text));
    return same(in, "the check", in->got, "DL001");
}

static bool is_gone(const scene *in, int pid)
{
    return strcmp(postgres_server_ask(
                      &in->server, "SELECT count(*) FROM pg_stat_get_activity(%d)", pid),
                  "0") == 0;
}

static bool reconnect(scene *in)
{
    int pid = PQbackendPID(in->db);
    PQfinish(in->db);
    if (!harness_check(__FILE__, __LINE__, AWAITED(is_gone(in, pid)),
                       "the session's end"))
        return false;
    in->db = connected(in);
    hear_all(in->db);
    model_reconnect(&in->model);
    return compare_tables(in);
}

static bool request(scene *in)
{
    model_ask ask = think_of_one(in);
    model *m = &in->model;
    const char *name = model_name_of(ask.name);
    int which = roll(in, 110);
    m->text[0] = '\0';
    m->message_count = 0;
    if (which < 45)
        return acquire(in, &ask);
    if (which < 55)
        return renew(in, &ask);
    if (which < 71) {
        model_release(m, &ask);
        return compare(in, "SELECT dlock.release('%s', '%s')", name, ask.owner);
    }
    if (which < 74) {
        model_downgrade(m, &ask);
        return compare(in, "SELECT * FROM dlock.downgrade('%s', '%s', %" PRId64 ")", name,
                       ask.owner, ask.ttl_ms);
    }
    if (which < 76) {
        model_verify(m, &ask);
        return compare(in, "SELECT dlock.verify('%s', '%s')", name, ask.owner);
    }
    if (which < 79) {
        if (roll(in, 2))
            ask.owner[0] = '\0';
        model_break(m, &ask);
        return compare(in, "SELECT dlock.break('%s', '%s')", name, ask.owner);
    }
    if (which < 83) {
        model_import(m, &ask);
        return compare(
            in, "SELECT * FROM dlock.import('%s', '%s', '%s', %" PRId64 ", '', '')", name,
            ask.giver, ask.owner, ask.ttl_ms);
    }
    if (which < 85) {
        model_listen(m, &ask);
        return compare(in, "SELECT dlock.listen('dlock:%.2s')", ask.owner);
    }
    if (which < 88) {
        model_revoke(m, &ask);
        return compare(in, "SELECT dlock.revoke('%s')", name);
    }
    if (which < 91) {
        model_inspect(m, &ask);
        return compare(in,
                       "SELECT what, kind, permits, owner, shared, take, token, left_ms, "
                       "since_ms FROM dlock.inspect('%s')",
                       name);
    }
    if (which < 93) {
        ask.size = 1 + roll(in, 4);
        ask.owner[roll(in, 2)] = '\0';
        model_list(m, &ask);
        return compare(in, "SELECT name, owner, left_ms FROM dlock.list('%s', %d)",
                       ask.owner, ask.size);
    }
    if (which < 94) {
        model_forget(m, INT64_C(1000) * ask.ttl_ms);
        return compare(in, "SELECT dlock.forget(%" PRId64 " * interval '1 ms')",
                       ask.ttl_ms);
    }
    if (which < 99)
        return check_token(in, &ask);
    if (which < 104)
        return use(in, &ask);
    if (which < 108) {
        model_signal(m, &ask);
        return compare(in, "SELECT * FROM dlock.signal('%s', %" PRId64 ")", name,
                       ask.most);
    }
    return reconnect(in);
}

/* ---- time ---- */

/* One of the moments at which something of the name ends. */
static int64_t some_end(scene *in)
{
    const model_name *n = &in->model.names[in->name];
    if (n->line_count > 0 && roll(in, 2)) {
        const model_place *one = &n->line[roll(in, n->line_count)];
        return one->due && roll(in, 2) ? one->due : one->ends;
    }
    return n->holder_count > 0 ? n->holders[roll(in, n->holder_count)].ends
                               : in->model.now;
}

/* Mostly on by a little; to the very end of something, or beside it; far on; and back. */
static void pass_time(scene *in)
{
    int64_t to = in->model.now;
    int which = roll(in, 100);
    in->name = roll(in, MODEL_NAMES);
    if (which < 40)
        to += roll(in, 50 * MS);
    else if (which < 55)
        to = some_end(in) + roll(in, 3) - 1;
    else if (which < 60)
        to += (int64_t)roll(in, 12000) * MS;
    else if (which < 62)
        to -= (int64_t)roll(in, 60000) * MS;
    *in->clock.offset += (to - in->model.now) * 1000;
    in->model.now = to;
}

static bool begin(scene *in)
{
    char text[64];
    if (!postgres_server_available() || !getenv("DLK_CLOCK"))
        return harness_skip(
                   "no PostgreSQL, or no module that sets its clock (DLK_CLOCK)"),
               false;
    bool runs = server_clock_enter(&in->clock) && postgres_server_start(&in->server);
    server_clock_leave();
    if (!runs)
        return false;
    server_clock_stop(&in->clock);
    *in->clock.offset = -(in->clock.offset[1] % 1000);
    in->db = connected(in);
    in->guard = connected(in);
    hear_all(in->db);
    ask(in->db, "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint", text,
        sizeof(text));
    in->model = (model){.now = (in->clock.offset[1] + *in->clock.offset) / 1000,
                        .next = 1,
                        .session = 1,
                        .guarded = -1};
    return harness_eq_int(__FILE__, __LINE__, "its clock", strtoll(text, NULL, 10),
                          in->model.now);
}

TEST(what_the_functions_do_is_what_the_model_does)
{
    static scene in;
    int64_t wanted = number_of("DLK_TEST_REQUESTS", REQUESTS), done = 0;
    in.dice = (unsigned)number_of("DLK_TEST_SEED", now_ns() % 1000000);
    harness_note("seed %u", in.dice);
    if (!begin(&in))
        return;
    while (done < wanted) {
        pass_time(&in);
        if (!request(&in))
            break;
        done++;
    }
    harness_note("%" PRId64 " requests", done);
    CHECK_EQ_INT(done, wanted);
    PQfinish(in.db);
    PQfinish(in.guard);
    postgres_server_stop(&in.server);
    server_clock_end(&in.clock);
}
