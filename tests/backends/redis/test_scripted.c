/* The redis backend against a server that misbehaves exactly as told: garbage, halves, floods,
 * silence, hanging up, errors. Nothing crashes, nothing hangs past its deadline. */
#include "backends/redis/channel.h"
#include "backends/redis/inner.h"
#include "contract/sleep.h"
#include "harness/scripted.h"
#include "harness/time.h"
#include "util/error.h"
#include "util/number.h"
#include "world.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static scripted server;
static world w;
static dlk_key *key;

static bool open_world(const char *timeout_ms)
{
    char uri[64];
    snprintf(uri, sizeof(uri), "redis://127.0.0.1:%d", server.port);
    return world_open(&w, uri, "client.timeout_ms", timeout_ms, "client.connect_ms",
                      timeout_ms, "client.backoff_min_ms", "5", "client.backoff_max_ms",
                      "10", NULL);
}

static void close_all(void)
{
    world_close(&w);
    scripted_stop(&server);
}

/* Greets well, then says `user` to everything. */
static const char *after_greeting(const void *user, int connection, int number,
                                  char **words, int count)
{
    (void)connection, (void)number;
    const char *greeting = scripted_greeting(words, count);
    return greeting ? greeting : user;
}

/* Says `user` to everything, from the first command on. */
static const char *at_once(const void *user, int connection, int number, char **words,
                           int count)
{
    (void)connection, (void)number, (void)words, (void)count;
    return user;
}

TEST(what_is_no_redis_is_told_from_the_greeting)
{
    static const char *const says[] = {
        "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n",
        "*4611686018427387904\r\n",
        "$9223372036854775807\r\n",
        ":7\r\n",
    };
    for (size_t i = 0; i < sizeof(says) / sizeof(says[0]); i++) {
        CHECK(scripted_start(&server, at_once, says[i]));
        CHECK(open_world(i == 3 ? "300" : "20000")); /* its end is waited for */
        ROUNDS_UNTIL(&w, w.downs >= 2);              /* and it goes on trying */
        CHECK_EQ_INT(w.ups, 0);
        CHECK(w.code == DLOCK_EPROTO || (i == 3 && w.code == DLOCK_EUNAVAIL));
        close_all();
    }
}

TEST(a_greeting_that_is_refused_has_its_code)
{
    static const struct {
        const char *says;
        dlock_err code;
    } cases[] = {
        {"-LOADING Redis is loading the dataset in memory\r\n", DLOCK_EUNAVAIL},
        {"-BUSY Redis is busy running a script.\r\n", DLOCK_EUNAVAIL},
        {"-MASTERDOWN Link with MASTER is down\r\n", DLOCK_EUNAVAIL},
        {"-NOAUTH Authentication required.\r\n", DLOCK_EACCES},
        {"-NOPERM no\r\n", DLOCK_EACCES},
        {"-DENIED Redis is running in protected mode\r\n", DLOCK_EACCES},
        {"-ERR max number of clients reached\r\n", DLOCK_EUNAVAIL},
        {"-ERR what is that\r\n", DLOCK_EPROTO},
        {SCRIPTED_HANG_UP, DLOCK_EUNAVAIL},
        {SCRIPTED_SILENCE, DLOCK_EUNAVAIL},
        {"+OK", DLOCK_EUNAVAIL}, /* half a reply, and no more */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool is_whole = cases[i].says && cases[i].says[0] == '-';
        CHECK(scripted_start(&server, at_once, cases[i].says));
        CHECK(open_world(is_whole ? "20000" : "200")); /* where nothing comes: so long */
        ROUNDS_UNTIL(&w, w.downs >= 1);
        CHECK_EQ_INT(w.ups, 0);
        if (w.code != cases[i].code)
            harness_note("%s: %s", cases[i].says ? cases[i].says : "silence", w.text);
        CHECK_EQ_INT(w.code, cases[i].code);
        close_all();
    }
}

TEST(nonsense_for_an_answer_leaves_the_request_unknown)
{
    static const char *const says[] = {
        "+OK\r\n",
        "$-1\r\n",
        "*0\r\n",
        "*-1\r\n",
        ":-99999\r\n",
        "$3\r\nabc\r\n",
        "$1\r\n0\r\n",
        "$25\r\n1234567890123456789012345\r\n",
        "$19\r\n9223372036854775808\r\n",
        "*4611686018427387904\r\n",
        "%2\r\n:1\r\n:2\r\n:3\r\n:4\r\n",
        "garbage\r\n",
        "$5\r\n12345XX",
        "#t\r\n",
        ",1.5\r\n",
    };
    for (size_t i = 0; i < sizeof(says) / sizeof(says[0]); i++) {
        CHECK(scripted_start(&server, after_greeting, says[i]));
        CHECK(open_world("500"));
        ROUNDS_UNTIL(&w, w.up);
        key = world_key(&w, "L");
        dlk_reply reply = world_do(&w, DLK_ACQUIRE, key, 1, NULL);
        if (reply != DLK_UNKNOWN)
            harness_note("after %s", says[i]);
        CHECK_EQ_INT(reply, DLK_UNKNOWN);
        CHECK(w.downs >= 1);
        CHECK(w.code == DLOCK_EPROTO || w.code == DLOCK_EUNAVAIL);
        ROUNDS_UNTIL(&w, w.ups >= 2); /* and it connects again */
        world_forget(&w, key);
        close_all();
    }
}

TEST(each_verb_refuses_nonsense)
{
    static const dlk_verb verbs[] = {DLK_RENEW,   DLK_RELEASE, DLK_VERIFY, DLK_BREAK,
                                     DLK_INSPECT, DLK_LIST,    DLK_DOCTOR};
    static const char *const says[] = {"+OK\r\n", ":9\r\n", "*1\r\n:1\r\n",
                                       "*2\r\n$3\r\nabc\r\n*1\r\n:1\r\n"};
    for (size_t i = 0; i < sizeof(says) / sizeof(says[0]); i++) {
        CHECK(scripted_start(&server, after_greeting, says[i]));
        CHECK(open_world("2000"));
        for (size_t k = 0; k < sizeof(verbs) / sizeof(verbs[0]); k++) {
            ROUNDS_UNTIL(&w, w.up);
            key = world_key(&w, "L");
            dlk_ask ask = world_make(&w, verbs[k], key, 1);
            ask.text = "";
            world_ask(&w, &ask);
            dlk_reply reply = world_await(&w, &ask);
            if (verbs[k] ==
                DLK_DOCTOR) /* its commands look like the greeting's: well answered */
                CHECK(reply == DLK_YES || reply == DLK_UNKNOWN);
            else
                CHECK_EQ_INT(reply, DLK_UNKNOWN);
            dlock_info_free(ask.info);
            world_forget(&w, key);
        }
        close_all();
    }
}

TEST(a_lease_of_any_length_for_an_answer_is_waited_for_by_the_clock)
{
    static const struct {
        const char *says;
        int64_t wait_ms;
    } cases[] = {
        {":0\r\n", 0},
        {":1234\r\n", 1234},
        {":-1\r\n", -1},
        {":2305843009213693951\r\n", DLK_SPAN_MAX_MS},
        {":9223372036854775806\r\n", DLK_SPAN_MAX_MS},
        {":9223372036854775807\r\n", DLK_SPAN_MAX_MS},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CHECK(scripted_start(&server, after_greeting, cases[i].says));
        CHECK(open_world("20000"));
        ROUNDS_UNTIL(&w, w.up);
        key = world_key(&w, "L");
        dlk_ask ask = world_make(&w, DLK_ACQUIRE, key, 1);
        world_ask(&w, &ask);
        CHECK_EQ_INT(world_await(&w, &ask), DLK_HELD);
        CHECK_EQ_INT(ask.wait_ms, cases[i].wait_ms);
        world_forget(&w, key);
        close_all();
    }
}

/* INFO of a master whose replica claims to be ahead by all there is. */
static const char *with_replica(const void *user, int connection, int number,
                                char **words, int count)
{
    static char says[512];
    (void)user, (void)connection;
    static const char info[] =
        "role:master\r\nconnected_slaves:2\r\n"
        "slave0:ip=1,port=1,state=online,offset=-9223372036854775808,lag="
        "99999999999999999999\r\n"
        "slave1:ip=1,port=1,state=online,offset=0,lag=9223372036854775807\r\n"
        "master_repl_offset:9223372036854775807\r\n"
        "maxmemory:0\r\n";
    static _Atomic int scripts;
    if (number == 0)
        scripts = 0;
    if (strncmp(words[0], "EVAL", 4) ==
        0) /* the greeting's probe, the doctor's, rights */
        return scripts++ < 2 ? "*2\r\n:9223372036854775807\r\n:-9223372036854775808\r\n"
                             : "-NOPERM no\r\n";
    if (strcmp(words[0], "INFO") != 0) {
        const char *greeting = scripted_greeting(words, count);
        return greeting ? greeting : "-NOPERM no\r\n";
    }
    snprintf(says, sizeof(says), "$%zu\r\n%s\r\n", strlen(info), info);
    return says;
}

TEST(an_examination_counts_whatever_a_server_says_of_its_replicas)
{
    CHECK(scripted_start(&server, with_replica, NULL));
    CHECK(open_world("20000"));
    ROUNDS_UNTIL(&w, w.up);
    dlk_ask ask = world_make(&w, DLK_DOCTOR, NULL, 1);
    world_ask(&w, &ask);
    CHECK_EQ_INT(world_await(&w, &ask), DLK_YES);
    CHECK_CONTAINS(dlock_info_json(ask.info),
                   "9223372036854775807 s and 9223372036854775807 bytes");
    dlock_info_free(ask.info);
    close_all();
}

/* Says at once what a node of a cluster does, and the map `user`. */
static const char *with_map(const void *user, int connection, int number, char **words,
                            int count)
{
    (void)connection, (void)number;
    if (strcmp(words[0], "CLUSTER") == 0)
        return strcmp(words[1], "SLOTS") == 0 ? user : "*0\r\n";
    const char *greeting = scripted_greeting(words, count);
    return greeting ? greeting : "+OK\r\n";
}

/* A map of 65,536 ranges of all slots was a billion steps, with the client's mutex held. */
TEST(a_map_that_gives_a_slot_to_more_than_one_is_none)
{
    static const char *const maps[] = {
        "*2\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:1\r\n"
        "*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:1\r\n",
        "*2\r\n*3\r\n:0\r\n:100\r\n*2\r\n$9\r\n127.0.0.1\r\n:1\r\n"
        "*3\r\n:100\r\n:101\r\n*2\r\n$9\r\n127.0.0.1\r\n:1\r\n",
        "*1\r\n*3\r\n:7\r\n:6\r\n*2\r\n$9\r\n127.0.0.1\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$9\r\n127.0.0.1\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:9223372036854775807\r\n*2\r\n$9\r\n127.0.0.1\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:5\r\n*2\r\n$9\r\n127.0.0.1\r\n:65536\r\n",
    };
    for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
        char uri[96];
        dlock_client *client = NULL;
        DLOCK_AUTO(dlock_error) err = NULL;
        CHECK(scripted_start(&server, with_map, maps[i]));
        snprintf(uri, sizeof(uri), "redis+cluster://127.0.0.1:%d?client.connect_ms=20000",
                 server.port);
        dlock_err code = dlock_client_open(uri, NULL, &client, &err);
        CHECK_ERR(code, DLOCK_EPROTO, err);
        CHECK_CONTAINS(dlock_error_text(err), "CLUSTER SLOTS with nonsense");
        dlock_client_free(client);
        scripted_stop(&server);
    }
}

typedef struct mapper {
    char map[160];
    _Atomic int asked;
} mapper;

/* A map with a node that is away, so that it is asked for again; then an error that scripts have. */
static const char *with_script_error(const void *user, int connection, int number,
                                     char **words, int count)
{
    mapper *it = (mapper *)(uintptr_t)user;
    bool slots = count > 1 && strcmp(words[1], "SLOTS") == 0;
    if (slots && it->asked++ > 0)
        return "-NOSCRIPT No matching script.\r\n";
    return with_map(it->map, connection, number, words, count);
}

/* It has no key, by which a script would be sent again. */
TEST(an_error_that_only_scripts_have_may_answer_the_map)
{
    static mapper it;
    char uri[96];
    dlock_client *client = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK(scripted_start(&server, with_script_error, &it));
    snprintf(it.map, sizeof(it.map),
             "*2\r\n*3\r\n:0\r\n:9\r\n*2\r\n$9\r\n127.0.0.1\r\n:1\r\n"
             "*3\r\n:10\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n",
             server.port);
    snprintf(uri, sizeof(uri), "redis+cluster://127.0.0.1:%d?client.connect_ms=20000",
             server.port);
    CHECK_ERR(dlock_client_open(uri, NULL, &client, &err), DLOCK_OK, err);
    AWAIT(it.asked >= 3); /* its engine asks */
    dlock_client_free(client);
    scripted_stop(&server);
}

TEST(errors_for_an_answer_refuse_the_request_and_keep_the_connection)
{
    static const struct {
        const char *says;
        dlock_err code;
    } cases[] = {
        {"-LOADING Redis is loading the dataset in memory\r\n", DLOCK_EUNAVAIL},
        {"-OOM command not allowed when used memory > 'maxmemory'.\r\n", DLOCK_EUNAVAIL},
        {"-BUSY Redis is busy running a script.\r\n", DLOCK_EUNAVAIL},
        {"-MISCONF Redis is configured to save RDB snapshots\r\n", DLOCK_EUNAVAIL},
        {"-NOREPLICAS Not enough good replicas to write.\r\n", DLOCK_EUNAVAIL},
        {"-WRONGTYPE Operation against a key\r\n", DLOCK_ECONFLICT},
        {"-NOPERM this user has no permissions\r\n", DLOCK_EACCES},
        {"-ERR something else\r\n", DLOCK_EPROTO},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CHECK(scripted_start(&server, after_greeting, cases[i].says));
        CHECK(open_world("2000"));
        ROUNDS_UNTIL(&w, w.up);
        key = world_key(&w, "L");
        CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_REFUSED);
        CHECK_EQ_INT(w.code, cases[i].code);
        CHECK_EQ_INT(w.downs, 0);
        world_forget(&w, key);
        close_all();
    }
}

TEST(a_demoted_server_is_left_in_search_of_the_master)
{
    CHECK(scripted_start(&server, after_greeting,
                         "-READONLY You can't write against a read only replica.\r\n"));
    CHECK(open_world("2000"));
    ROUNDS_UNTIL(&w, w.up);
    key = world_key(&w, "L");
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_REFUSED);
    CHECK_EQ_INT(w.code, DLOCK_EUNAVAIL);
    ROUNDS_UNTIL(&w, w.downs == 1 && w.ups == 2);
    world_forget(&w, key);
    close_all();
}

/* Knows no script by its SHA-1; with its text it grants. */
static const char *without_scripts(const void *user, int connection, int number,
                                   char **words, int count)
{
    const char *greeting = scripted_greeting(words, count);
    (void)connection, (void)number;
    if (greeting)
        return greeting;
    if (strcmp(words[0], "EVALSHA") == 0)
        return "-NOSCRIPT No matching script. Please use EVAL.\r\n";
    return user;
}

TEST(an_unknown_script_is_sent_once_with_its_text)
{
    CHECK(scripted_start(&server, without_scripts, "$3\r\n777\r\n"));
    CHECK(open_world("2000"));
    ROUNDS_UNTIL(&w, w.up);
    key = world_key(&w, "L");
    int64_t token;
    int before = atomic_load(&server.commands);
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, &token), DLK_YES);
    CHECK_EQ_INT(token, 777);
    CHECK_EQ_INT(atomic_load(&server.commands), before + 2);
    world_forget(&w, key);
    close_all();
    /* A server that doesn't know it even then is not asked for ever. */
    CHECK(scripted_start(&server, without_scripts, "-NOSCRIPT No matching script.\r\n"));
    CHECK(open_world("2000"));
    ROUNDS_UNTIL(&w, w.up);
    key = world_key(&w, "L");
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_REFUSED);
    CHECK_EQ_INT(w.code, DLOCK_EPROTO);
    world_forget(&w, key);
    close_all();
}

static _Atomic int by_text, by_digest;

/* … and says nothing to either. */
static const char *counts_scripts(const void *user, int connection, int number,
                                  char **words, int count)
{
    const char *greeting = scripted_greeting(words, count);
    (void)user, (void)connection, (void)number;
    if (greeting)
        return greeting;
    by_text += strcmp(words[0], "EVAL") == 0;
    by_digest += strcmp(words[0], "EVALSHA") == 0;
    return SCRIPTED_SILENCE;
}

/* We may have gone when both are done. */
TEST(what_undoes_an_unanswered_acquire_brings_its_script_along)
{
    by_text = by_digest = 0;
    CHECK(scripted_start(&server, counts_scripts, NULL));
    CHECK(open_world("20000"));
    ROUNDS_UNTIL(&w, w.up);
    key = world_key(&w, "L");
    int digests = by_digest; /* a probe of the greeting's */
    dlk_ask take = world_make(&w, DLK_ACQUIRE, key, 1);
    dlk_ask give = world_make(&w, DLK_RELEASE, key, 1);
    dlk_ask other = world_make(&w, DLK_RELEASE, key, 2);
    give.undoes = true;
    world_ask(&w, &take);
    world_ask(&w, &give);
    ROUNDS_UNTIL(&w, by_text == 1);
    CHECK_EQ_INT(by_digest, digests + 1);
    world_ask(&w, &other);
    ROUNDS_UNTIL(&w, by_digest == digests + 2);
    CHECK_EQ_INT(by_text, 1);
    world_forget(&w, key);
    close_all(); /* answers them */
    dlock_error_free(take.error);
    dlock_error_free(give.error);
    dlock_error_free(other.error);
}

TEST(silence_is_noticed_by_the_deadline_of_the_request)
{
    CHECK(scripted_start(&server, after_greeting, SCRIPTED_SILENCE));
    CHECK(open_world("150"));
    ROUNDS_UNTIL(&w, w.up);
    key = world_key(&w, "L");
    dlk_ask patient = world_make(&w, DLK_ACQUIRE, key, 1),
            hasty = world_make(&w, DLK_VERIFY, key, 2);
    patient.deadline += 60 * DLK_NS_PER_SEC;
    world_ask(&w, &patient);
    world_ask(&w, &hasty);
    CHECK_EQ_INT(world_await(&w, &hasty), DLK_UNKNOWN);
    CHECK(dlk_clock_now() >= hasty.deadline);
    CHECK_EQ_INT(world_await(&w, &patient),
                 DLK_UNKNOWN); /* it was in flight on the same cut */
    CHECK_EQ_INT(w.code, DLOCK_EUNAVAIL);
    world_forget(&w, key);
    close_all();
}

TEST(hanging_up_before_the_answer_leaves_it_unknown)
{
    CHECK(scripted_start(&server, after_greeting, SCRIPTED_HANG_UP));
    CHECK(open_world("2000"));
    ROUNDS_UNTIL(&w, w.up);
    key = world_key(&w, "L");
    for (int i = 0; i < 5; i++) {
        ROUNDS_UNTIL(&w, w.up);
        CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, 1, NULL), DLK_UNKNOWN);
    }
    world_forget(&w, key);
    close_all();
}

/* The connection ends between the answer of an acquire and the WAIT behind it, which nobody has sent:
 * the acquire is done all the same. */
TEST(an_acquire_is_unknown_when_its_replicas_were_not_asked_any_more)
{
    char uri[64];
    CHECK(scripted_start(&server, after_greeting, "$3\r\n777\r\n+nonsense\r\n"));
    snprintf(uri, sizeof(uri), "redis://127.0.0.1:%d", server.port);
    CHECK(world_open(&w, uri, "redis.wait_replicas", "1", "client.timeout_ms", "2000",
                     NULL));
    ROUNDS_UNTIL(&w, w.up);
    key = world_key(&w, "L");
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_UNKNOWN);
    CHECK_EQ_INT(w.code, DLOCK_EPROTO);
    world_forget(&w, key);
    close_all();
}

/* Answers well, and says more than it was asked. */
static const char *too_much(const void *user, int connection, int number, char **words,
                            int count)
{
    (void)user, (void)connection, (void)number;
    const char *greeting = scripted_greeting(words, count);
    return greeting ? greeting : ":1\r\n:1\r\n";
}

/* The server has seen how it ended. */
static bool saw_the_end(void)
{
    return AWAITED(atomic_load(&server.goodbyes) + atomic_load(&server.resets) > 0) &&
           atomic_load(&server.goodbyes) + atomic_load(&server.resets) == 1;
}

TEST(a_connection_with_nothing_under_way_ends_in_order_and_one_in_its_greeting_by_a_reset)
{
    for (int greeted = 0; greeted <= 1; greeted++) {
        CHECK(scripted_start(&server, greeted ? after_greeting : at_once,
                             SCRIPTED_SILENCE));
        CHECK(open_world("20000"));
        ROUNDS_UNTIL(&w, greeted ? w.up : atomic_load(&server.commands) > 0);
        world_close(&w);
        CHECK(saw_the_end());
        CHECK_EQ_INT(atomic_load(&server.goodbyes), greeted);
        scripted_stop(&server);
    }
}

TEST(an_answer_that_nobody_asked_for_ends_the_connection)
{
    CHECK(scripted_start(&server, too_much, NULL));
    CHECK(open_world("2000"));
    ROUNDS_UNTIL(&w, w.up);
    key = world_key(&w, "L");
    CHECK_EQ_INT(world_do(&w, DLK_VERIFY, key, 1, NULL), DLK_YES);
    ROUNDS_UNTIL(&w, w.downs == 1);
    CHECK_EQ_INT(w.code, DLOCK_EPROTO);
    world_forget(&w, key);
    close_all();
}

/* For subscriptions: `user` is said to SUBSCRIBE. */
TEST(a_subscription_that_goes_wrong_touches_no_lock)
{
    static const char *const says[] = {
        "-NOPERM no\r\n",
        "*3\r\n$9\r\nsubscribe\r\n$5\r\nother\r\n:1\r\n",
        "*2\r\n$9\r\nsubscribe\r\n:1\r\n",
        "+OK\r\n",
        "garbage\r\n",
        SCRIPTED_HANG_UP,
        SCRIPTED_SILENCE,
    };
    for (size_t i = 0; i < sizeof(says) / sizeof(says[0]); i++) {
        CHECK(scripted_start(&server, after_greeting, says[i]));
        CHECK(open_world("100"));
        ROUNDS_UNTIL(&w, w.up);
        int downs = w.downs; /* of a connect that took longer than that */
        key = world_key(&w, "L");
        world_watch(&w, key, true);
        ROUNDS_UNTIL(&w, w.log[0] != '\0'); /* it is said that there are no messages */
        CHECK_EQ_INT(w.notices, 0);
        CHECK_EQ_INT(w.downs, downs);
        world_watch(&w, key, false);
        world_spin(&w, 20);
        world_forget(&w, key);
        close_all();
    }
}

/* Confirms subscriptions but one, and says nothing to who leaves them. */
static const char *confirms(const void *user, int connection, int number, char **words,
                            int count)
{
    static _Thread_local char says[256];
    (void)user, (void)connection, (void)number;
    if (strcmp(words[0], "SUBSCRIBE") != 0)
        return scripted_greeting(words, count);
    if (strstr(words[1], "refused"))
        return "-NOPERM no\r\n";
    snprintf(says, sizeof(says), "*3\r\n$9\r\nsubscribe\r\n$%zu\r\n%s\r\n:1\r\n",
             strlen(words[1]), words[1]);
    return says;
}

static size_t unanswered(const dlk_redis_subscriber *subscriber)
{
    size_t count = 0;
    DLK_LIST_FOR (it, &subscriber->outstanding)
        count++;
    return count;
}

/* The oldest of all was refused, so it is just forgotten. */
TEST(each_idle_subscription_too_many_ends_the_oldest_though_the_server_is_slow_to_answer)
{
    enum { KEYS = DLK_CHANNEL_IDLE_MAX + 4 };
    static dlk_key *keys[KEYS];
    char name[16];
    CHECK(scripted_start(&server, confirms, NULL));
    CHECK(open_world("60000"));
    ROUNDS_UNTIL(&w, w.up);
    const dlk_redis_subscriber *subscriber = &((dlk_redis *)w.backend)->subscriber;
    for (int i = 0; i < KEYS; i++) {
        snprintf(name, sizeof(name), "%d", i);
        keys[i] = world_key(&w, i == 0 ? "refused" : name);
        world_watch(&w, keys[i], true);
    }
    ROUNDS_UNTIL(&w, w.notices >= KEYS - 1 && unanswered(subscriber) == 0);
    size_t channels = subscriber->channel_count;
    int64_t now = dlk_clock_now(); /* all at once: none has been idle for long */
    pthread_mutex_lock(&w.mutex);
    for (int i = 0; i < KEYS; i++) {
        w.backend->type->watch(w.backend, keys[i], false, now);
        int over = i + 1 - DLK_CHANNEL_IDLE_MAX;
        (void)harness_eq_int(__FILE__, __LINE__, "forgotten",
                             (int64_t)(channels - subscriber->channel_count), over > 0);
        (void)harness_eq_int(__FILE__, __LINE__, "left", (int64_t)unanswered(subscriber),
                             over > 1 ? over - 1 : 0);
    }
    pthread_mutex_unlock(&w.mutex);
    for (int i = 0; i < KEYS; i++)
        world_forget(&w, keys[i]);
    close_all();
}

TEST(a_name_that_cannot_be_found_and_a_dead_port_are_unavailable)
{
    CHECK(world_open(&w, "redis://no-such-host.invalid", "client.connect_ms", "5000",
                     NULL));
    ROUNDS_UNTIL(&w, w.downs >= 1);
    CHECK_EQ_INT(w.code, DLOCK_EUNAVAIL);
    CHECK_CONTAINS(w.text, "no-such-host.invalid");
    world_close(&w);
    /* Freed while the lookup may be running. */
    CHECK(world_open(&w, "redis://no-such-host.invalid", NULL));
    world_close(&w);
    CHECK(world_open(&w, "redis+unix:///nowhere/at/all", NULL));
    ROUNDS_UNTIL(&w, w.downs >= 1);
    CHECK_EQ_INT(w.code, DLOCK_EUNAVAIL);
    world_close(&w);
}

/* Sanitizers have memory of their own, and look for leaks themselves. */
TEST(a_try_to_connect_that_fails_leaves_no_memory)
{
    enum { WARM = 20, TIMES = 100 };
    CHECK(world_open(&w, "redis+unix:///nowhere/at/all", "client.backoff_min_ms", "1",
                     "client.backoff_max_ms", "5", NULL));
    ROUNDS_UNTIL(&w, w.downs >= WARM);
    size_t before = mallinfo2().uordblks;
    ROUNDS_UNTIL(&w, w.downs >= WARM + TIMES);
    CHECK(mallinfo2().uordblks < before + TIMES * 50);
    world_close(&w);
}

TEST(a_path_that_is_too_long_for_a_socket_is_refused)
{
    char uri[256] = "redis+unix:///";
    dlock_error *err = NULL;
    memset(uri + strlen(uri), 'a', 200);
    CHECK_ERR(world_try(uri, &err, NULL), DLOCK_EINVAL, err);
    dlk_error_clear(&err);
}

TEST(a_kick_ends_a_sleep_from_anywhere)
{
    CHECK(scripted_start(&server, after_greeting, SCRIPTED_SILENCE));
    CHECK(open_world("2000"));
    ROUNDS_UNTIL(&w, w.up);
    const dlk_backend_type *type = w.backend->type;
    for (int i = 0; i < 100; i++) {
        pthread_mutex_lock(&w.mutex);
        uint32_t seen = dlk_kicks_seen(&w.kicks);
        dlk_polls_begin(&w.polls, DLK_NEVER);
        type->arm(w.backend, &w.polls);
        pthread_mutex_unlock(&w.mutex);
        dlk_kick(&w.kicks);
        dlk_sleep_on(w.backend, &w.polls, seen, false); /* a lost kick hangs here */
        pthread_mutex_lock(&w.mutex);
        type->process(w.backend, dlk_clock_now());
        pthread_mutex_unlock(&w.mutex);
    }
    close_all();
}

TEST(a_kick_between_the_decision_to_sleep_and_arm_is_not_slept_over)
{
    CHECK(scripted_start(&server, after_greeting, SCRIPTED_SILENCE));
    CHECK(open_world("2000"));
    ROUNDS_UNTIL(&w, w.up);
    const dlk_backend_type *type = w.backend->type;
    pthread_mutex_lock(&w.mutex);
    uint32_t seen = dlk_kicks_seen(&w.kicks);
    dlk_kick(&w.kicks);
    dlk_polls_begin(&w.polls, DLK_NEVER);
    type->arm(w.backend, &w.polls);
    pthread_mutex_unlock(&w.mutex);
    dlk_sleep_on(w.backend, &w.polls, seen, false); /* a lost kick hangs here */
    pthread_mutex_lock(&w.mutex);
    type->process(w.backend, dlk_clock_now());
    pthread_mutex_unlock(&w.mutex);
    close_all();
}

static _Atomic int naps;

static void *kick_now_and_then(void *arg)
{
    unsigned seed = 7;
    (void)arg;
    for (int seen = 0; seen < 200;) {
        nap_us(rand_r(&seed) % 300);
        dlk_kick(&w.kicks);
        seen = atomic_load(&naps);
    }
    return NULL;
}

TEST(a_kick_from_another_thread_ends_a_sleep_that_began)
{
    CHECK(scripted_start(&server, after_greeting, SCRIPTED_SILENCE));
    CHECK(open_world("2000"));
    ROUNDS_UNTIL(&w, w.up);
    const dlk_backend_type *type = w.backend->type;
    pthread_t thread;
    CHECK_EQ_INT(pthread_create(&thread, NULL, kick_now_and_then, NULL), 0);
    for (int i = 0; i < 200; i++) {
        pthread_mutex_lock(&w.mutex);
        uint32_t seen = dlk_kicks_seen(&w.kicks);
        dlk_polls_begin(&w.polls, DLK_NEVER);
        type->arm(w.backend, &w.polls);
        pthread_mutex_unlock(&w.mutex);
        dlk_sleep_on(w.backend, &w.polls, seen, false);
        pthread_mutex_lock(&w.mutex);
        type->process(w.backend, dlk_clock_now());
        pthread_mutex_unlock(&w.mutex);
        atomic_fetch_add(&naps, 1);
    }
    pthread_join(thread, NULL);
    /* Without a kick it sleeps to the end. */
    world_round(&w); /* the last kick may have come after the last sleep */
    pthread_mutex_lock(&w.mutex);
    uint32_t seen = dlk_kicks_seen(&w.kicks);
    dlk_polls_begin(&w.polls, DLK_NEVER);
    type->arm(w.backend, &w.polls);
    pthread_mutex_unlock(&w.mutex);
    int64_t until = dlk_clock_now() + 20 * DLK_NS_PER_MS;
    w.polls.until = until;
    dlk_sleep_on(w.backend, &w.polls, seen, false);
    CHECK(dlk_clock_now() >= until);
    pthread_mutex_lock(&w.mutex);
    type->process(w.backend, dlk_clock_now());
    pthread_mutex_unlock(&w.mutex);
    close_all();
}

static int count_open(void)
{
    int count = 0;
    for (int fd = 3; fd < 100; fd++)
        count += lseek(fd, 0, SEEK_CUR) >= 0 || errno != EBADF;
    return count;
}

TEST(a_forks_child_closes_what_it_inherited)
{
    CHECK(scripted_start(&server, after_greeting, ":1\r\n"));
    CHECK(open_world("2000"));
    ROUNDS_UNTIL(&w, w.up);
    int before = count_open();
    pid_t child = fork();
    if (child == 0)
        _exit(before - count_open());
    int status = 0;
    CHECK_EQ_INT(waitpid(child, &status, 0), child);
    /* The connection and the eventfd; the look-up of a test before may still be under way. */
    CHECK(WEXITSTATUS(status) >= 2);
    key = world_key(&w, "L");
    CHECK_EQ_INT(world_do(&w, DLK_VERIFY, key, 1, NULL),
                 DLK_YES); /* the parent's is untouched */
    world_forget(&w, key);
    close_all();
}

TEST(a_password_a_server_quotes_shows_nowhere)
{
    CHECK(scripted_start(
        &server, at_once,
        "-ERR unknown command 'AUTH', with args beginning with: 'c4nary'\r\n"));
    char uri[64];
    snprintf(uri, sizeof(uri), "redis://u:c4nary@127.0.0.1:%d", server.port);
    CHECK(world_open(&w, uri, NULL));
    ROUNDS_UNTIL(&w, w.downs >= 1);
    CHECK(w.text[0] != '\0');
    CHECK(strstr(w.text, "c4nary") == NULL && strstr(w.log, "c4nary") == NULL);
    close_all();
}
