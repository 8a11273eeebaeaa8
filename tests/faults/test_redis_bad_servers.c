/* What a program is told of servers that refuse, misbehave or aren't a Redis: the right code, in
 * time, and nothing of it stays, here or there. (tests/backends/redis goes through more of them.) */
#include "harness/scripted.h"
#include "stage.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static stage s;
static scripted liar;

enum { TIMEOUT_MS = 300, CONNECT_MS = 400, CLOSE_MS = 300 };

static dlock_err open_for(const char *uri, int64_t timeout_ms, dlock_client **ret,
                          dlock_error **err)
{
    dlock_conf *conf = dlock_conf_new();
    (void)dlock_conf_set(conf, "client.log_level", "off", NULL);
    (void)dlock_conf_set_int(conf, "client.timeout_ms", timeout_ms, NULL);
    (void)dlock_conf_set_int(conf, "client.connect_ms", CONNECT_MS, NULL);
    (void)dlock_conf_set_int(conf, "client.close_ms", CLOSE_MS, NULL);
    (void)dlock_conf_set_int(conf, "client.backoff_min_ms", 5, NULL);
    (void)dlock_conf_set_int(conf, "client.backoff_max_ms", 20, NULL);
    (void)dlock_conf_set_int(conf, "lock.ttl_ms", 1000, NULL);
    dlock_err code = dlock_client_open(uri, conf, ret, err);
    dlock_conf_free(conf);
    return code;
}

static dlock_err open_at(const char *uri, dlock_client **ret, dlock_error **err)
{
    return open_for(uri, TIMEOUT_MS, ret, err);
}

/* At a server that answers, however slow the machine is: without an answer nothing is known. */
static dlock_err open_patient(const char *uri, dlock_client **ret, dlock_error **err)
{
    return open_for(uri, patience_ms(), ret, err);
}

static bool took_at_most(int64_t began, int64_t limit_ms)
{
    int64_t took = (awake_now_ns() - began) / STAGE_MS;
    if (took > limit_ms + stage_slack_ms())
        harness_note("it took %" PRId64 " ms", took);
    return took <= limit_ms + stage_slack_ms();
}

/* ---- A real Redis that refuses ---- */

/* Whether a single try says so. What the last ill left over is given back before it, and may be
 * what is refused, for the reason of then. */
static bool is_refused_for(dlock_lock *lock, const char *word)
{
    dlock_hold *hold = NULL;
    dlock_error *err = NULL;
    dlock_err code = dlock_lock_acquire(lock, 0, &hold, &err);
    (void)harness_err(__FILE__, __LINE__, "a try", code, DLOCK_EUNAVAIL, err);
    (void)harness_check(__FILE__, __LINE__, dlock_error_retriable(err),
                        "it may go later");
    const char *said = dlock_error_backend(err);
    bool found =
        strstr(dlock_error_text(err), word) || (said != NULL && strstr(said, word));
    dlock_error_free(err);
    dlock_hold_free(hold);
    return found;
}

/* Single tries and waits say what is wrong; once it is mended the same client goes on. */
static void check_unavailable(dlock_client *client, const char *ill, const char *word,
                              const char *well)
{
    dlock_lock *lock = stage_lock(client, "L");
    dlock_hold *hold = NULL;
    dlock_error *err = NULL;
    if (ill)
        redis_server_call(&s.server, "%s", ill);
    AWAIT(is_refused_for(lock, word) || harness_failed());
    CHECK(!harness_failed());
    int64_t began = awake_now_ns();
    dlock_err code = dlock_lock_acquire(lock, 200, &hold, &err);
    CHECK(code == DLOCK_EUNAVAIL ||
          code == DLOCK_EUNKNOWN); /* the last try may be on its way */
    CHECK(took_at_most(began, 200));
    /* A wait that is long enough lives to see it mended. */
    dlock_op *op = dlock_lock_acquire_start(lock, patience_ms());
    CHECK_EQ_INT(dlock_op_wait(op, 50), DLOCK_EPENDING);
    if (well)
        redis_server_call(&s.server, "%s", well);
    CHECK_EQ_INT(dlock_op_wait(op, patience_ms()), DLOCK_OK);
    CHECK_ERR(dlock_op_result(op), DLOCK_OK, dlock_op_error(op));
    hold = dlock_op_take_hold(op);
    dlock_op_free(op);
    CHECK_OK(dlock_hold_release(hold, &err), err);
    dlock_hold_free(hold);
    dlock_error_free(err);
    dlock_lock_free(lock);
}

TEST(a_redis_that_refuses_writes_is_unavailable_until_it_is_mended)
{
    static const struct {
        const char *ill, *word, *well;
    } cases[] = {
        {"CONFIG SET maxmemory 1", "OOM", "CONFIG SET maxmemory 0"},
        {"CONFIG SET min-replicas-to-write 1", "NOREPLICAS",
         "CONFIG SET min-replicas-to-write 0"},
        {"REPLICAOF 127.0.0.1 1", "READONLY", "REPLICAOF NO ONE"},
    };
    if (!stage_set(&s, NULL))
        return;
    dlock_client *client = NULL;
    dlock_error *err = NULL;
    CHECK_OK(open_patient(s.uri, &client, &err), err);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]) && !harness_failed(); i++)
        check_unavailable(client, cases[i].ill, cases[i].word, cases[i].well);
    dlock_client_free(client);
    CHECK(!harness_failed() && stage_clear(&s, 1000));
}

TEST(a_redis_that_cannot_save_is_unavailable)
{
    char command[160];
    if (!stage_set(&s, "dbfilename blocked.rdb\nsave 3600 1"))
        return;
    dlock_client *client = NULL;
    CHECK_OK(open_patient(s.uri, &client, NULL), NULL);
    /* Where the file should go lies a directory that isn't empty. */
    snprintf(command, sizeof(command), "mkdir -p %s/blocked.rdb/x", s.server.dir);
    CHECK_EQ_INT(system(command), 0);
    redis_server_call(&s.server, "SET a b");
    redis_server_call(&s.server, "BGSAVE");
    AWAIT(strstr(redis_server_call(&s.server, "INFO persistence"), "bgsave_status:err"));
    check_unavailable(client, NULL, "MISCONF",
                      "CONFIG SET stop-writes-on-bgsave-error no");
    snprintf(command, sizeof(command), "rm -rf %s/blocked.rdb", s.server.dir);
    CHECK_EQ_INT(system(command), 0);
    redis_server_call(&s.server, "DEL a");
    dlock_client_free(client);
    CHECK(!harness_failed() && stage_clear(&s, 1000));
}

static void *run_busy_script(void *arg)
{
    redis_server other = *(redis_server *)arg; /* with a connection of its own */
    other.control = -1;
    redis_server_call(&other, "EVAL \"while true do end\" 0");
    close(other.control);
    return NULL;
}

TEST(a_redis_busy_with_a_script_is_unavailable)
{
    if (!stage_set(&s, "busy-reply-threshold 20"))
        return;
    dlock_client *client = NULL;
    pthread_t thread;
    CHECK_OK(open_patient(s.uri, &client, NULL), NULL);
    CHECK_EQ_INT(pthread_create(&thread, NULL, run_busy_script, &s.server), 0);
    AWAIT(strstr(redis_server_call(&s.server, "PING"), "BUSY"));
    check_unavailable(client, NULL, "BUSY", "SCRIPT KILL");
    pthread_join(thread, NULL);
    dlock_client_free(client);
    CHECK(!harness_failed() && stage_clear(&s, 1000));
}

static void check_refused(const char *uri, const char *word)
{
    dlock_client *client = NULL;
    dlock_error *err = NULL;
    int64_t began = awake_now_ns();
    CHECK_ERR(open_at(uri, &client, &err), DLOCK_EACCES, err);
    CHECK(client == NULL);
    CHECK(took_at_most(began, CONNECT_MS));
    CHECK(!dlock_error_retriable(err));
    CHECK_CONTAINS(dlock_error_text(err), word);
    CHECK(!strstr(dlock_error_text(err), "c4nary") &&
          !strstr(dlock_error_backend(err), "c4nary"));
    dlock_error_free(err);
}

TEST(a_wrong_password_and_a_missing_one_are_told_at_open)
{
    char uri[160];
    if (!stage_set(&s, NULL))
        return;
    redis_server_call(&s.server, "ACL SETUSER admin on nopass ~* &* +@all");
    redis_server_call(&s.server, "AUTH admin x");
    redis_server_call(&s.server, "ACL SETUSER default resetpass >c4nary-right");
    check_refused(s.uri, "auth.password");
    snprintf(uri, sizeof(uri), "redis://:c4nary-wrong@127.0.0.1:%d", s.server.port);
    check_refused(uri, "");
    snprintf(uri, sizeof(uri), "redis://nobody:c4nary-right@127.0.0.1:%d", s.server.port);
    check_refused(uri, "");
    CHECK(!harness_failed());
    snprintf(uri, sizeof(uri), "redis://:c4nary-right@127.0.0.1:%d", s.server.port);
    dlock_client *client = NULL;
    CHECK_OK(open_at(uri, &client, NULL), NULL);
    CHECK(!strstr(dlock_client_uri(client), "c4nary"));
    dlock_client_free(client);
    CHECK(stage_clear(&s, 0));
}

TEST(a_right_that_is_missing_is_named_at_open)
{
    static const char *const rights[] = {"hset", "set", "pexpire", "publish", "time"};
    char uri[160], word[32];
    if (!stage_set(&s, NULL))
        return;
    snprintf(uri, sizeof(uri), "redis://limited:c4nary@127.0.0.1:%d", s.server.port);
    redis_server_call(&s.server, "ACL SETUSER limited on >c4nary ~* &* +@all");
    for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]) && !harness_failed(); i++) {
        redis_server_call(&s.server, "ACL SETUSER limited -%s", rights[i]);
        snprintf(word, sizeof(word), "+%s", rights[i]);
        check_refused(uri, word);
        redis_server_call(&s.server, "ACL SETUSER limited +%s", rights[i]);
    }
    CHECK_STR(redis_server_call(&s.server, "DBSIZE"), "0");
    CHECK(!harness_failed() && stage_clear(&s, 0));
}

TEST(a_key_of_another_type_is_a_conflict_and_stays_as_it_is)
{
    static const char *const values[][2] =
        {
            {"SET L text", "TYPE L"},        {"RPUSH L a b", "TYPE L"},
            {"SADD L a", "TYPE L"},          {"ZADD L 1 a", "TYPE L"},
            {"HSET L mode write", "TYPE L"}, /* a read/write lock of Redisson's */
        };
    if (!stage_set(&s, NULL))
        return;
    dlock_client *client = NULL;
    dlock_error *err = NULL;
    char before[256];
    CHECK_OK(open_patient(s.uri, &client, &err), err);
    dlock_lock *lock = stage_lock(client, "L");
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        dlock_hold *hold = NULL;
        redis_server_call(&s.server, "%s", values[i][0]);
        snprintf(before, sizeof(before), "%s", redis_server_call(&s.server, "DUMP L"));
        CHECK_ERR(dlock_lock_acquire(lock, 0, &hold, &err), DLOCK_ECONFLICT, err);
        int64_t began = awake_now_ns();
        CHECK_ERR(dlock_lock_acquire(lock, DLOCK_FOREVER, &hold, &err), DLOCK_ECONFLICT,
                  err);
        CHECK(took_at_most(began, 0));
        CHECK_STR(redis_server_call(&s.server, "DUMP L"), before);
        redis_server_call(&s.server, "DEL L");
    }
    dlock_error_free(err);
    dlock_lock_free(lock);
    dlock_client_free(client);
    CHECK(stage_clear(&s, 0));
}

/* ---- What is no Redis ---- */

/* Says `user` to everything. */
static const char *at_once(const void *user, int connection, int number, char **words,
                           int count)
{
    (void)connection, (void)number, (void)words, (void)count;
    return user;
}

/* Greets well, and says `user` to whatever a lock may need. */
static const char *after_greeting(const void *user, int connection, int number,
                                  char **words, int count)
{
    (void)connection, (void)number;
    const char *greeting = scripted_greeting(words, count);
    return greeting ? greeting : user;
}

static const struct {
    const char *name, *says;
    bool is_silent; /* it may go on yet */
} lies[] = {
    {"HTTP", "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", false},
    {"garbage", "\x7f\x45\x4c\x46\x02 what?\r\n", false},
    {"an array of 2^62", "*4611686018427387904\r\n", false},
    {"a text of 2^63", "$9223372036854775807\r\nx", true},
    {"half a reply", "$40\r\n0123", true},
    {"silence", NULL, true},
    {"hanging up", SCRIPTED_HANG_UP, true},
};
enum { LIES = sizeof(lies) / sizeof(lies[0]) };

static bool start_liar(scripted_answer *answer, const char *says, char *uri, size_t size)
{
    bool fine = scripted_start(&liar, answer, says);
    snprintf(uri, size, "redis://127.0.0.1:%d", liar.port);
    return fine;
}

TEST(what_is_no_redis_is_told_at_open_and_in_time)
{
    char uri[64];
    for (int i = 0; i < LIES; i++) {
        dlock_client *client = NULL;
        dlock_error *err = NULL;
        stage_note_base_line(&s);
        CHECK(start_liar(at_once, lies[i].says, uri, sizeof(uri)));
        int64_t began = awake_now_ns();
        dlock_err code = open_at(uri, &client, &err);
        if (code != DLOCK_EPROTO && (code != DLOCK_EUNAVAIL || !lies[i].is_silent))
            harness_note("%s: %s: %s", lies[i].name, dlock_errname(code),
                         dlock_error_text(err));
        CHECK(code == DLOCK_EPROTO || (code == DLOCK_EUNAVAIL && lies[i].is_silent));
        CHECK(took_at_most(began, CONNECT_MS));
        CHECK(client == NULL);
        dlock_error_free(err);
        scripted_stop(&liar);
        CHECK(stage_back_to_base_line(&s));
    }
}

TEST(a_redis_that_goes_mad_ends_every_call_in_time)
{
    char uri[64];
    for (int i = 0; i < LIES; i++) {
        dlock_client *client = NULL;
        dlock_error *err = NULL;
        dlock_hold *hold = NULL;
        dlock_info *info = NULL;
        stage_note_base_line(&s);
        CHECK(start_liar(after_greeting, lies[i].says, uri, sizeof(uri)));
        CHECK_OK(open_at(uri, &client, &err), err);
        dlock_lock *lock = stage_lock(client, "L");
        int64_t began = awake_now_ns();
        dlock_err code = dlock_lock_acquire(lock, 0, &hold, &err);
        if (code != DLOCK_EUNKNOWN)
            harness_note("%s: %s: %s", lies[i].name, dlock_errname(code),
                         dlock_error_text(err));
        CHECK(code == DLOCK_EUNKNOWN || code == DLOCK_EPROTO);
        CHECK(took_at_most(began, TIMEOUT_MS));
        began = awake_now_ns();
        code = dlock_lock_acquire(lock, 100, &hold, &err);
        CHECK(code == DLOCK_EUNKNOWN || code == DLOCK_EUNAVAIL || code == DLOCK_EPROTO);
        CHECK(took_at_most(began, 100));
        began = awake_now_ns();
        code = dlock_lock_inspect(lock, &info, &err);
        CHECK(code == DLOCK_EUNKNOWN || code == DLOCK_EUNAVAIL || code == DLOCK_EPROTO);
        CHECK(took_at_most(began, TIMEOUT_MS));
        dlock_error_free(err);
        dlock_lock_free(lock);
        began = awake_now_ns();
        dlock_client_free(client);
        CHECK(took_at_most(began, CLOSE_MS));
        scripted_stop(&liar);
        CHECK(stage_back_to_base_line(&s));
    }
}

TEST(a_redis_that_loads_its_data_is_unavailable)
{
    static const char loading[] = "-LOADING Redis is loading the dataset in memory\r\n";
    char uri[64];
    dlock_client *client = NULL;
    dlock_error *err = NULL;
    dlock_hold *hold = NULL;
    CHECK(start_liar(at_once, loading, uri, sizeof(uri)));
    CHECK_ERR(open_at(uri, &client, &err), DLOCK_EUNAVAIL, err);
    CHECK_CONTAINS(dlock_error_text(err), "oading");
    scripted_stop(&liar);
    CHECK(start_liar(after_greeting, loading, uri, sizeof(uri)));
    CHECK_OK(open_patient(uri, &client, &err), err);
    dlock_lock *lock = stage_lock(client, "L");
    CHECK_ERR(dlock_lock_acquire(lock, 0, &hold, &err), DLOCK_EUNAVAIL, err);
    int64_t began = awake_now_ns();
    dlock_err code = dlock_lock_acquire(lock, 100, &hold, &err);
    CHECK(code == DLOCK_EUNAVAIL ||
          code == DLOCK_EUNKNOWN); /* the last try may be on its way */
    CHECK(took_at_most(began, 100));
    dlock_error_free(err);
    dlock_lock_free(lock);
    dlock_client_free(client);
    scripted_stop(&liar);
}

TEST(nobody_there_is_told_at_open)
{
    char uri[64];
    dlock_client *client = NULL;
    dlock_error *err = NULL;
    CHECK(start_liar(at_once, NULL, uri, sizeof(uri)));
    scripted_stop(&liar); /* so its port is free now */
    int64_t began = awake_now_ns();
    CHECK_ERR(open_at(uri, &client, &err), DLOCK_EUNAVAIL, err);
    CHECK(took_at_most(began, CONNECT_MS));
    CHECK_CONTAINS(dlock_error_text(err), "refused");
    dlock_error_free(err);
}
