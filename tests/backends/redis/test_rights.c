/* Users and their rights: the minimal ACL suffices, whatever it lacks is named before the first
 * lock is taken, and no password shows anywhere. */
#include "backends/redis/scripts.h"
#include "harness/redis_server.h"
#include "harness/server.h"
#include "util/error.h"
#include "util/info.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static redis_server server;
static world w;

static bool start_with_acl(void)
{
    char config[300];
    if (!redis_server_available())
        return false;
    snprintf(config, sizeof(config), "aclfile %s", getenv("REDIS_MINIMAL_ACL"));
    return redis_server_start(&server, config);
}

/* As a user of minimal.acl, with the prefix its patterns ask for. */
static bool open_as(const char *user, const char *password)
{
    char uri[160];
    snprintf(uri, sizeof(uri), "redis://%s:%s@127.0.0.1:%d?redis.layout=%s", user,
             password, server.port, strcmp(user, "string") == 0 ? "string" : "redisson");
    return world_open(&w, uri, "client.prefix", "app:", "client.backoff_min_ms", "10",
                      "client.backoff_max_ms", "20", "lock.fair",
                      strcmp(user, "fair") == 0 ? "true" : "false", NULL);
}

TEST(the_minimal_acl_suffices)
{
    if (!start_with_acl())
        return;
    CHECK(open_as("dlock", "secret"));
    ROUNDS_UNTIL(&w, w.up || w.downs);
    CHECK_STR(w.text, "");
    dlk_key *key = world_key(&w, "app:L");
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    world_watch(&w, key, true);
    ROUNDS_UNTIL(&w, w.notices == 1);
    static const dlk_verb verbs[] = {DLK_ACQUIRE, DLK_VERIFY, DLK_RENEW, DLK_INSPECT,
                                     DLK_RELEASE};
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        dlk_ask ask = world_make(&w, verbs[i], key, 1);
        world_ask(&w, &ask);
        CHECK_EQ_INT(world_await(&w, &ask), DLK_YES);
        dlock_info_free(ask.info);
    }
    ROUNDS_UNTIL(&w, w.notices == 2); /* the release may be published, too */
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 2, NULL), DLK_YES);
    CHECK_EQ_INT(world_do(&w, DLK_BREAK, key, 2, NULL), DLK_YES);
    world_watch(&w, key, false);
    /* What has no need of being allowed is refused without harm. */
    dlk_ask list = world_make(&w, DLK_LIST, NULL, 0);
    list.text = "app:";
    world_ask(&w, &list);
    CHECK_EQ_INT(world_await(&w, &list), DLK_REFUSED);
    CHECK_EQ_INT(w.code, DLOCK_EACCES);
    dlk_ask doctor = world_make(&w, DLK_DOCTOR, NULL, 0);
    world_ask(&w, &doctor);
    CHECK_EQ_INT(world_await(&w, &doctor), DLK_YES);
    dlock_info_free(doctor.info);
    CHECK_STR(w.log, "");
    world_forget(&w, key);
    world_close(&w);
    redis_server_stop(&server);
}

static dlk_reply look(dlk_key *key, dlk_verb verb, uint64_t number)
{
    dlk_ask ask = world_make(&w, verb, key, number);
    world_ask(&w, &ask);
    dlk_reply reply = world_await(&w, &ask);
    dlock_info_free(ask.info);
    return reply;
}

TEST(a_line_needs_some_rights_more)
{
    if (!start_with_acl())
        return;
    CHECK(open_as("fair", "secret"));
    ROUNDS_UNTIL(&w, w.up || w.downs);
    dlk_key *key = world_key(&w, "app:L");
    CHECK_EQ_INT(look(key, DLK_ACQUIRE, 1), DLK_YES);
    for (uint64_t number = 2; number <= 4; number++)
        CHECK_EQ_INT(look(key, DLK_ACQUIRE, number), DLK_HELD);
    CHECK_EQ_INT(look(key, DLK_RELEASE, 3), DLK_YES); /* from the midst of the line */
    CHECK_EQ_INT(look(key, DLK_RENEW, 1), DLK_YES);
    CHECK_EQ_INT(look(key, DLK_VERIFY, 1), DLK_YES);
    CHECK_EQ_INT(look(key, DLK_INSPECT, 1), DLK_YES);
    CHECK_EQ_INT(look(key, DLK_RELEASE, 1), DLK_YES); /* the head is silent, and noted */
    CHECK_STR(redis_server_call(&server, "HLEN dlock_silent:{app:L}"), "2");
    CHECK_EQ_INT(look(key, DLK_ACQUIRE, 4), DLK_HELD);
    CHECK_EQ_INT(look(key, DLK_ACQUIRE, 2), DLK_YES);
    CHECK_EQ_INT(look(key, DLK_BREAK, 2), DLK_YES);
    CHECK_EQ_INT(look(key, DLK_ACQUIRE, 4), DLK_YES);
    CHECK_EQ_INT(look(key, DLK_RELEASE, 4), DLK_YES);
    CHECK_STR(redis_server_call(&server, "KEYS *"), "redisson_lock_token:{app:L}");
    CHECK_STR(w.log, "");
    world_forget(&w, key);
    world_close(&w);
    redis_server_stop(&server);
}

/* What inspect says of the waiters. */
static const char *waiters(dlk_key *key)
{
    static char text[24];
    dlk_ask ask = world_make(&w, DLK_INSPECT, key, 0);
    world_ask(&w, &ask);
    (void)harness_eq_int(__FILE__, __LINE__, "inspect", world_await(&w, &ask), DLK_YES);
    const char *found = ask.info ? dlock_info_get(ask.info, "waiters") : NULL;
    snprintf(text, sizeof(text), "%s", found ? found : "unknown");
    dlk_info_free(ask.info);
    return text;
}

TEST(others_in_the_line_are_counted_for_whom_may_look_at_it)
{
    static const char line[] = "dlock_queue:{L}";
    if (!redis_server_available())
        return;
    char uri[64];
    CHECK(redis_server_start(&server, NULL));
    snprintf(uri, sizeof(uri), "redis://127.0.0.1:%d", server.port);
    CHECK(world_connect(&w, uri, NULL));
    dlk_key *key = world_key(&w, "L");
    CHECK(key);
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    CHECK_STR(waiters(key), "0");
    redis_server_call(&server, "RPUSH %s %s:2 11111111-2222-4333-8444-555555555555:1",
                      line, w.uuid); /* the core knows of its own */
    CHECK_STR(waiters(key), "1");
    redis_server_call(&server, "ACL SETUSER default -lrange");
    CHECK_STR(waiters(key), "unknown");
    redis_server_call(&server, "ACL SETUSER default +lrange");
    redis_server_call(&server, "DEL %s", line);
    redis_server_call(&server, "SET %s pear", line);
    CHECK_STR(waiters(key), "unknown");
    world_forget(&w, key);
    world_close(&w);
    redis_server_stop(&server);
}

TEST(the_string_layout_needs_no_right_to_hashes_or_channels)
{
    static const dlk_verb verbs[] = {DLK_ACQUIRE, DLK_VERIFY,  DLK_RENEW, DLK_INSPECT,
                                     DLK_RELEASE, DLK_ACQUIRE, DLK_BREAK};
    if (!start_with_acl())
        return;
    CHECK(open_as("string", "secret"));
    ROUNDS_UNTIL(&w, w.up || w.downs);
    CHECK_STR(w.text, "");
    dlk_key *key = world_key(&w, "app:L");
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        dlk_ask ask = world_make(&w, verbs[i], key, 1);
        world_ask(&w, &ask);
        CHECK_EQ_INT(world_await(&w, &ask), DLK_YES);
        dlock_info_free(ask.info);
    }
    CHECK_STR(w.log, "");
    world_forget(&w, key);
    world_close(&w);
    redis_server_stop(&server);
}

TEST(each_right_that_is_lacking_is_named_before_the_first_lock)
{
    static const char *const rights[] = {"time",    "get",  "set",     "del",     "hset",
                                         "hget",    "hdel", "hexists", "pexpire", "pttl",
                                         "publish", "eval", "evalsha", "exists",  "lpop",
                                         "lpos",    "lrem"};
    if (!start_with_acl())
        return;
    for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++) {
        redis_server_call(&server, "ACL SETUSER dlock -%s", rights[i]);
        CHECK(open_as("dlock", "secret"));
        ROUNDS_UNTIL(&w, w.downs >= 1);
        CHECK_EQ_INT(w.ups, 0);
        CHECK_EQ_INT(w.code, DLOCK_EACCES);
        CHECK_CONTAINS(w.text, rights[i]);
        dlk_key *key = world_key(&w, "app:L");
        CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_NOT_SENT);
        redis_server_call(&server, "ACL SETUSER dlock +%s", rights[i]);
        ROUNDS_UNTIL(&w, w.up); /* it goes on trying, and what was mended works */
        CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
        CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, 1, NULL), DLK_YES);
        world_forget(&w, key);
        world_close(&w);
    }
    redis_server_stop(&server);
}

TEST(a_right_that_is_taken_away_later_leaves_no_lock_behind)
{
    static const char *const rights[] = {"set", "hset", "pexpire", "time"};
    if (!start_with_acl())
        return;
    CHECK(open_as("dlock", "secret"));
    ROUNDS_UNTIL(&w, w.up);
    dlk_key *key = world_key(&w, "app:L");
    for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++) {
        redis_server_call(&server, "ACL SETUSER dlock -%s", rights[i]);
        CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_REFUSED);
        CHECK_EQ_INT(w.code, DLOCK_EACCES);
        CHECK_STR(redis_server_call(&server, "EXISTS app:L"), "0");
        redis_server_call(&server, "ACL SETUSER dlock +%s", rights[i]);
    }
    /* A name outside of the user's keys is refused before anything is done. */
    dlk_key *other = world_key(&w, "elsewhere");
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, other, 1, NULL), DLK_REFUSED);
    CHECK_EQ_INT(w.code, DLOCK_EACCES);
    CHECK_STR(redis_server_call(&server, "KEYS *elsewhere*"), "");
    /* Without the channel the lock works, and it is said once that waiters poll. */
    redis_server_call(&server, "ACL SETUSER dlock resetchannels");
    world_watch(&w, key, true);
    for (uint64_t i = 1; i < 3; i++) {
        CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, i, NULL), DLK_YES);
        CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, i, NULL), DLK_YES);
    }
    ROUNDS_UNTIL(&w, strstr(w.log, "can't subscribe") != NULL);
    CHECK_CONTAINS(w.log, "may not publish to redisson_lock__channel:{app:L}");
    CHECK(strstr(strstr(w.log, "may not publish") + 1, "may not publish") == NULL);
    world_watch(&w, key, false);
    world_forget(&w, key);
    world_forget(&w, other);
    world_close(&w);
    redis_server_stop(&server);
}

/* Asks for it until it stands in the line: that waits for the client's subscription. */
static void line_up(dlk_key *key, uint64_t number)
{
    world_watch(&w, key, true);
    ROUNDS_UNTIL(
        &w, world_do(&w, DLK_ACQUIRE, key, number, NULL) == DLK_HELD &&
                strcmp(redis_server_call(&server, "LLEN dlock_queue:{app:L}"), "1") == 0);
}

/* Whatever is missing, who is refused stands in no line, for nobody would wait in that place. */
static void is_refused_without_a_place(dlk_key *key, const char *user, const char *right)
{
    redis_server_call(&server, "ACL SETUSER %s -%s", user, right);
    dlk_reply reply = world_do(&w, DLK_ACQUIRE, key, 2, NULL);
    redis_server_call(&server, "ACL SETUSER %s +%s", user, right);
    if (reply != DLK_REFUSED)
        harness_note("without %s", right);
    CHECK_EQ_INT(reply, DLK_REFUSED);
    CHECK_EQ_INT(w.code, DLOCK_EACCES);
}

TEST(a_right_that_is_taken_away_later_leaves_no_place_behind)
{
    static const char *const rights[] = {"pexpire", "rpush"};
    if (!start_with_acl())
        return;
    CHECK(open_as("dlock", "secret"));
    ROUNDS_UNTIL(&w, w.up);
    dlk_key *key = world_key(&w, "app:L");
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    line_up(key, 2);
    CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, 2, NULL), DLK_YES);
    for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++) {
        is_refused_without_a_place(key, "dlock", rights[i]);
        CHECK_STR(redis_server_call(&server, "EXISTS dlock_queue:{app:L}"), "0");
    }
    line_up(key, 2);
    CHECK(atoll(redis_server_call(&server, "PTTL dlock_queue:{app:L}")) > 0);
    world_watch(&w, key, false);
    world_forget(&w, key);
    world_close(&w);
    redis_server_stop(&server);
}

TEST(a_right_that_is_taken_away_later_leaves_a_fair_line_whole)
{
    static const char *const rights[] = {"zadd", "rpush", "zscore", "lindex"};
    if (!start_with_acl())
        return;
    CHECK(open_as("fair", "secret"));
    ROUNDS_UNTIL(&w, w.up);
    dlk_key *key = world_key(&w, "app:L");
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++) {
        is_refused_without_a_place(key, "fair", rights[i]);
        CHECK_STR(redis_server_call(&server, "EXISTS redisson_lock_timeout:{app:L}"),
                  "0");
    }
    /* Behind what was left of it in the list, which has no time there, is the first place. */
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 3, NULL), DLK_HELD);
    CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, 1, NULL), DLK_YES);
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 3, NULL), DLK_YES);
    CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, 3, NULL), DLK_YES);
    /* A line that can't be given an end is none. */
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 2, NULL), DLK_HELD);
    redis_server_call(&server, "DEL app:L");
    redis_server_call(&server, "ACL SETUSER fair -pexpire");
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 3, NULL), DLK_REFUSED);
    CHECK_STR(redis_server_call(&server, "EXISTS dlock_silent:{app:L}"), "0");
    world_forget(&w, key);
    world_close(&w);
    redis_server_stop(&server);
}

/* The probe as it answers where every call fails with these words. */
static bool probed(const char *error, char *answer, size_t size)
{
    static const char call[] = "redis.pcall(unpack(call))";
    const dlk_redis_script *probe = &dlk_redis_scripts[DLK_SCRIPT_PROBE];
    const char *at = strstr(probe->text, call);
    char text[8192], request[9000];
    int fd = server_dial(server.port, 20);
    if (!at || fd < 0)
        return false;
    snprintf(text, sizeof(text), "%.*s{ err = \"%s\" }%s", (int)(at - probe->text),
             probe->text, error, at + strlen(call));
    snprintf(request, sizeof(request),
             "*7\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n0\r\n$1\r\nk\r\n$0\r\n\r\n$4\r\n"
             "hash\r\n$4\r\nline\r\n",
             strlen(text), text);
    ssize_t length = (ssize_t)strlen(request), got = -1;
    if (send(fd, request, (size_t)length, MSG_NOSIGNAL) == length)
        got = recv(fd, answer, size - 1, 0);
    answer[got > 0 ? got : 0] = '\0';
    close(fd);
    return got > 0;
}

TEST(the_words_of_newer_servers_are_known_as_well)
{
    static const char *const errors[] = {
        "ERR The user executing the script can't run this command or subcommand",
        "ERR ACL failure in script: User locks has no permissions to run the 'x' "
        "command"};
    char answer[1024];
    if (!start_with_acl())
        return;
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        CHECK(probed(errors[i], answer, sizeof(answer)));
        CHECK_CONTAINS(answer, "hexists");
        CHECK_CONTAINS(answer, "lpos");
    }
    CHECK(probed("ERR value is not an integer", answer, sizeof(answer)));
    CHECK_STR(answer, "*2\r\n:0\r\n:0\r\n");
    redis_server_stop(&server);
}

TEST(a_wrong_password_is_told_at_once_and_shows_nowhere)
{
    if (!start_with_acl())
        return;
    CHECK(open_as("dlock", "c4nary-Wr0ng"));
    ROUNDS_UNTIL(&w, w.downs >= 1);
    CHECK_EQ_INT(w.code, DLOCK_EACCES);
    CHECK_CONTAINS(w.text, "password is wrong");
    CHECK(strstr(w.text, "c4nary") == NULL && strstr(w.log, "c4nary") == NULL);
    world_close(&w);
    redis_server_call(&server, "ACL SETUSER default resetpass >c4nary-R1ght");
    CHECK(open_as("default", "c4nary-R1ght"));
    ROUNDS_UNTIL(&w, w.up);
    CHECK_STR(w.text, "");
    world_close(&w);
    /* No password where one is needed. */
    char uri[64];
    snprintf(uri, sizeof(uri), "redis://127.0.0.1:%d", server.port);
    CHECK(world_open(&w, uri, NULL));
    ROUNDS_UNTIL(&w, w.downs >= 1);
    CHECK_EQ_INT(w.code, DLOCK_EACCES);
    CHECK_CONTAINS(w.text, "auth.password");
    world_close(&w);
    redis_server_stop(&server);
}

TEST(a_password_file_is_read_again_at_each_connect)
{
    if (!start_with_acl())
        return;
    char file[128], uri[64];
    snprintf(file, sizeof(file), "%s/socket.pw", server.dir);
    FILE *out = fopen(file, "we");
    CHECK(out != NULL);
    fprintf(out, "secret\n");
    fclose(out);
    snprintf(uri, sizeof(uri), "redis://127.0.0.1:%d", server.port);
    CHECK(world_connect(&w, uri, "auth.username", "dlock", "auth.password_file", file,
                        "client.prefix", "app:", "client.backoff_min_ms", "10", NULL));
    out = fopen(file, "we");
    CHECK(out != NULL);
    fprintf(out, "rotated\n");
    fclose(out);
    redis_server_call(&server, "ACL SETUSER dlock resetpass >rotated");
    redis_server_call(&server, "CLIENT KILL TYPE normal SKIPME yes");
    ROUNDS_UNTIL(&w, w.ups == 2);
    world_close(&w);
    unlink(file);
    redis_server_stop(&server);
}

TEST(a_server_that_evicts_is_warned_of_and_refused_where_fencing_is_required)
{
    if (!redis_server_available())
        return;
    CHECK(redis_server_start(&server, "maxmemory 100mb\nmaxmemory-policy volatile-ttl"));
    char uri[64];
    snprintf(uri, sizeof(uri), "redis://127.0.0.1:%d", server.port);
    CHECK(world_connect(&w, uri, NULL));
    CHECK_CONTAINS(w.log, "volatile-ttl");
    world_close(&w);
    CHECK(world_open(&w, uri, "client.require", "fencing", NULL));
    ROUNDS_UNTIL(&w, w.downs == 1);
    CHECK_EQ_INT(w.code, DLOCK_ENOTSUP);
    CHECK_CONTAINS(w.text, "noeviction");
    world_close(&w);
    redis_server_stop(&server);
}
