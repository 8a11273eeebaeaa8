/* The master that Sentinels name, through the public API: three Sentinels, a master and two
 * replicas; Sentinels that lie, disagree, or ask for a password of their own. */
#include "harness/api.h"
#include "harness/harness.h"
#include "harness/redis_topology.h"
#include "harness/scripted.h"

#include <dlock/dlock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* A wait that is to be served, and nothing but a dead machine keeps it from that. */
#define PATIENCE_MS 120000
#define SETTINGS    "lock.ttl_ms=60000&client.backoff_max_ms=200&client.timeout_ms=20000"

static redis_trio trio;

/* Made by the first test that needs it; each leaves it whole. */
static bool have_trio(void)
{
    static bool made;
    if (!redis_server_available())
        return false;
    if (!made)
        made = redis_trio_start(&trio, NULL);
    return made;
}

__attribute__((destructor)) static void tidy(void)
{
    redis_trio_stop(&trio);
}

static dlock_err open_code(const char *uri, const char *query, dlock_client **ret,
                           dlock_error **err)
{
    char text[512];
    snprintf(text, sizeof(text), "%s%c" SETTINGS "&client.connect_ms=30000%s%s", uri,
             strchr(uri, '?') ? '&' : '?', query ? "&" : "", query ? query : "");
    return dlock_client_open(text, NULL, ret, err);
}

static dlock_client *open_at(const char *uri, const char *query)
{
    return api_open("%s%c" SETTINGS "&client.connect_ms=30000%s%s", uri,
                    strchr(uri, '?') ? '&' : '?', query ? "&" : "", query ? query : "");
}

/* Opening fails; the text that says why. */
#define CHECK_REFUSED(uri, query, code, part)                                            \
    do {                                                                                 \
        dlock_client *refused = NULL;                                                    \
        DLOCK_AUTO(dlock_error) why = NULL;                                              \
        CHECK_ERR(open_code(uri, query, &refused, &why), code, why);                     \
        CHECK_CONTAINS(dlock_error_text(why), part);                                     \
    } while (0)

static const char *exists_at(int redis, const char *name)
{
    return redis_server_call(&trio.redis[redis], "EXISTS %s", name);
}

static int64_t left_at(int redis, const char *name)
{
    return atoll(redis_server_call(&trio.redis[redis], "PTTL %s", name));
}

TEST(the_master_that_sentinels_name_is_locked)
{
    if (!have_trio())
        return;
    DLOCK_AUTO(dlock_client) client = open_at(trio.uri, NULL);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    CHECK(client);
    CHECK_OK(dlock_acquire(client, "named", PATIENCE_MS, &hold, NULL), NULL);
    CHECK(dlock_hold_token(hold) > 0);
    CHECK_STR(exists_at(redis_trio_master(&trio, 0), "named"), "1");
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
}

TEST(a_sentinel_that_is_gone_is_done_without)
{
    if (!have_trio())
        return;
    char uri[200];
    snprintf(uri, sizeof(uri), "redis+sentinel://127.0.0.1:1,127.0.0.1:%d/service",
             trio.sentinel[2].port);
    DLOCK_AUTO(dlock_client) client = open_at(uri, NULL);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    CHECK(client);
    CHECK_OK(dlock_acquire(client, "one gone", PATIENCE_MS, &hold, NULL), NULL);
}

/* What was replicated is still held; what waits is served by the new master. */
TEST(a_failover_moves_holders_and_waiters_to_the_new_master)
{
    if (!have_trio())
        return;
    DLOCK_AUTO(dlock_client) client = open_at(trio.uri, NULL);
    DLOCK_AUTO(dlock_client) other = open_at(trio.uri, NULL);
    CHECK(client && other);
    DLOCK_AUTO(dlock_lock) lock = NULL;
    DLOCK_AUTO(dlock_lock) theirs = NULL;
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_hold) next = NULL;
    CHECK_OK(dlock_lock_new(client, DLOCK_MUTEX, "moved", NULL, &lock, NULL), NULL);
    CHECK_OK(dlock_lock_new(other, DLOCK_MUTEX, "moved", NULL, &theirs, NULL), NULL);
    CHECK_OK(dlock_lock_acquire(lock, PATIENCE_MS, &hold, NULL), NULL);
    int64_t token = dlock_hold_token(hold);
    DLOCK_AUTO(dlock_op) wait = dlock_lock_acquire_start(theirs, PATIENCE_MS);
    int before = redis_trio_master(&trio, 0);
    CHECK(TOPOLOGY_AWAIT(
        strstr(redis_server_call(&trio.redis[before], "WAIT 2 100"), "2")));

    CHECK(redis_trio_fail_over(&trio));
    int master = redis_trio_master(&trio, 0);
    CHECK(master != before);
    DLOCK_AUTO(dlock_error) err = NULL;
    /* By the new master: the old one takes itself for one yet, and who hasn't heard asks it. */
    CHECK(TOPOLOGY_AWAIT(dlock_hold_extend(hold, 600000, NULL) == DLOCK_OK &&
                         left_at(master, "moved") > 300000));
    CHECK_OK(dlock_hold_verify(hold, &err), err);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
    CHECK_STR(exists_at(master, "moved"), "1");
    CHECK_OK(dlock_hold_release(hold, &err), err);
    CHECK_OK(dlock_op_wait(wait, PATIENCE_MS), NULL);
    CHECK_OK(dlock_op_result(wait), dlock_op_error(wait));
    next = dlock_op_take_hold(wait);
    CHECK_ALWAYS(dlock_hold_token(next) > token);
    CHECK_STR(exists_at(master, "moved"), "1");
}

/* The sentinels haven't noticed: it is the writes that are refused. */
TEST(a_master_that_takes_no_writes_any_more_is_asked_about_again)
{
    if (!have_trio())
        return;
    DLOCK_AUTO(dlock_client) client = open_at(trio.uri, NULL);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    CHECK(client);
    int before = redis_trio_master(&trio, 0), other = (before + 1) % 3;
    CHECK_STR(redis_server_call(&trio.redis[before], "REPLICAOF 127.0.0.1 %d",
                                trio.redis[other].port),
              "OK");
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK_ERR(dlock_acquire(client, "read only", 0, &hold, &err), DLOCK_EUNAVAIL, err);
    CHECK_STR(redis_server_call(&trio.redis[before], "REPLICAOF NO ONE"), "OK");
    CHECK_OK(dlock_acquire(client, "read only", PATIENCE_MS, &hold, NULL), NULL);
}

TEST(a_service_that_no_sentinel_knows_is_refused_at_once)
{
    if (!have_trio())
        return;
    char uri[200];
    snprintf(uri, sizeof(uri), "redis+sentinel://127.0.0.1:%d/nobodys",
             trio.sentinel[0].port);
    CHECK_REFUSED(uri, NULL, DLOCK_EINVAL, "knows a service 'nobodys'");
}

TEST(a_uri_without_a_service_or_with_a_sentinel_twice_is_refused)
{
    CHECK_REFUSED("redis+sentinel://127.0.0.1", NULL, DLOCK_EINVAL,
                  "the name of the service");
    CHECK_REFUSED("redis+sentinel://127.0.0.1,127.0.0.1:26379/s", NULL, DLOCK_EINVAL,
                  "named twice");
}

TEST(tokens_that_must_not_go_back_are_not_promised_by_sentinels)
{
    CHECK_REFUSED("redis+sentinel://127.0.0.1/s", "client.require=fencing", DLOCK_ENOTSUP,
                  "fencing");
}

/* ---- Sentinels that aren't ---- */

typedef struct liar {
    scripted server;
    char answer[128], other[128];
    _Atomic bool says_other;
    _Atomic int listener; /* number of the connection that listens, from 1 on */
} liar;

static const char *lie(const void *user, int connection, int number, char **words,
                       int count)
{
    (void)number;
    liar *one = (liar *)(uintptr_t)user;
    if (count > 1 && strcmp(words[0], "SENTINEL") == 0)
        return one->says_other ? one->other : one->answer;
    if (strcmp(words[0], "UNSUBSCRIBE") == 0)
        return "*3\r\n$11\r\nunsubscribe\r\n$14\r\n+switch-master\r\n:0\r\n";
    one->listener = connection + 1;
    return "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n";
}

static void name_port(char answer[128], int port)
{
    char digits[16];
    int size = snprintf(digits, sizeof(digits), "%d", port);
    snprintf(answer, 128, "*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%s\r\n", size, digits);
}

static bool start_liar(liar *one, int port)
{
    name_port(one->answer, port);
    return scripted_start(&one->server, lie, one);
}

/* To whoever listens, if he still does. */
static bool announce(const liar *one, int from, int port)
{
    char text[160], message[256];
    int size =
        snprintf(text, sizeof(text), "service 127.0.0.1 %d 127.0.0.1 %d", from, port);
    snprintf(message, sizeof(message),
             "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$%d\r\n%s\r\n", size, text);
    int fd = one->server.fds[one->listener - 1];
    return send(fd, message, strlen(message), MSG_NOSIGNAL) > 0;
}

#define ASKED_AFTER_MS 10000 /* whatever is announced */

/* Who waits for the master's answers alone reads nothing else, but for once in a second. */
TEST(a_switch_is_heard_of_beside_a_lone_caller)
{
    if (!redis_server_available())
        return;
    static liar one;
    static redis_server old, new;
    char uri[200];
    CHECK(redis_server_start(&old, NULL) && redis_server_start(&new, NULL));
    CHECK(start_liar(&one, old.port));
    name_port(one.other, new.port);
    snprintf(uri, sizeof(uri), "redis+sentinel://127.0.0.1:%d/service", one.server.port);
    int64_t end = awake_now_ms() + ASKED_AFTER_MS;
    dlock_client *client = open_at(uri, NULL);
    CHECK(client);
    AWAIT(one.listener > 0);
    one.says_other = true;
    bool moved = false;
    for (int calls = 1; !moved && awake_now_ms() < end; calls++) {
        /* One that comes before the answer to SUBSCRIBE is nothing. */
        if (calls % 10 == 1)
            (void)announce(&one, old.port, new.port);
        DLOCK_AUTO(dlock_hold) hold = NULL;
        if (dlock_acquire(client, "lone", 0, &hold, NULL) == DLOCK_OK)
            (void)dlock_hold_release(hold, NULL);
        moved = calls % 10 == 0 && strcmp(redis_server_call(&new, "DBSIZE"), "0") != 0;
    }
    CHECK(moved);
    dlock_client_free(client);
    scripted_stop(&one.server);
    redis_server_stop(&old);
    redis_server_stop(&new);
}

TEST(one_sentinel_that_lies_is_outvoted)
{
    if (!have_trio())
        return;
    static liar one;
    static redis_server decoy;
    char uri[200];
    CHECK(redis_server_start(&decoy, NULL)); /* a master, but of nothing */
    CHECK(start_liar(&one, decoy.port));
    snprintf(uri, sizeof(uri),
             "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/service",
             one.server.port, trio.sentinel[0].port, trio.sentinel[1].port);
    dlock_client *client = open_at(uri, NULL);
    dlock_hold *hold = NULL;
    CHECK(client);
    CHECK_OK(dlock_acquire(client, "outvoted", PATIENCE_MS, &hold, NULL), NULL);
    CHECK_STR(redis_server_call(&decoy, "EXISTS outvoted"), "0");
    CHECK_STR(exists_at(redis_trio_master(&trio, 0), "outvoted"), "1");
    dlock_hold_free(hold);
    dlock_client_free(client);
    scripted_stop(&one.server);
    redis_server_stop(&decoy);
}

TEST(sentinels_that_disagree_are_followed_by_nobody)
{
    static liar two[2];
    CHECK(start_liar(&two[0], 1111) && start_liar(&two[1], 2222));
    char uri[200];
    snprintf(uri, sizeof(uri), "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d/service",
             two[0].server.port, two[1].server.port);
    CHECK_REFUSED(uri, "client.connect_ms=2000", DLOCK_EUNAVAIL, "disagree");
    for (int i = 0; i < 2; i++)
        scripted_stop(&two[i].server);
}

/* By its own word: after a failover the old master takes itself for one for ten seconds more. */
static int a_replica(void)
{
    for (int i = 0; i <= TRIO_REPLICAS; i++)
        if (strncmp(redis_server_call(&trio.redis[i], "ROLE"), "slave", 5) == 0)
            return i;
    return -1;
}

TEST(a_replica_that_a_sentinel_takes_for_the_master_is_refused)
{
    if (!have_trio())
        return;
    static liar one;
    int replica = -1;
    CHECK(TOPOLOGY_AWAIT((replica = a_replica()) >= 0));
    CHECK(start_liar(&one, trio.redis[replica].port));
    char uri[200];
    snprintf(uri, sizeof(uri), "redis+sentinel://127.0.0.1:%d/service", one.server.port);
    bool told = false;
    for (int i = 0; i < 10 && !told; i++) { /* the replica may be slow to say so */
        dlock_client *refused = NULL;
        DLOCK_AUTO(dlock_error) why = NULL;
        CHECK_ERR(open_code(uri, "client.connect_ms=2000", &refused, &why),
                  DLOCK_EUNAVAIL, why);
        told = strstr(dlock_error_text(why), "but it is not (ROLE)") != NULL;
    }
    CHECK(told);
    scripted_stop(&one.server);
}

TEST(a_sentinel_that_names_nonsense_is_refused)
{
    static liar one;
    CHECK(start_liar(&one, 70000));
    char uri[200];
    snprintf(uri, sizeof(uri), "redis+sentinel://127.0.0.1:%d/service", one.server.port);
    CHECK_REFUSED(uri, "client.connect_ms=2000", DLOCK_EPROTO, "can't be one");
    scripted_stop(&one.server);
}

/* ---- Passwords ---- */

/* Both replicas are what the Sentinels make of them: an old master that is to be one is cut off from
 * all that talk to it. */
static bool is_settled(void)
{
    int replicas = 0;
    for (int i = 0; i <= TRIO_REPLICAS; i++)
        replicas += strncmp(redis_server_call(&trio.redis[i], "ROLE"), "slave", 5) == 0;
    return replicas == TRIO_REPLICAS;
}

/* The last test, as the servers keep their passwords. */
TEST(sentinels_and_their_master_have_passwords_of_their_own)
{
    if (!have_trio())
        return;
    CHECK(TOPOLOGY_AWAIT(is_settled()));
    for (int i = 0; i < 3; i++) {
        /* Sentinels cut our connection when they changed what it is. */
        CHECK(TOPOLOGY_AWAIT(
            strcmp(redis_server_call(&trio.redis[i], "CONFIG SET masterauth inner"),
                   "OK") == 0));
        CHECK_STR(redis_server_call(&trio.redis[i], "CONFIG SET requirepass inner"),
                  "OK");
        CHECK_STR(
            redis_server_call(&trio.sentinel[i], "SENTINEL SET service auth-pass inner"),
            "OK");
        CHECK_STR(
            redis_server_call(&trio.sentinel[i], "ACL SETUSER default resetpass >outer"),
            "OK");
    }
    DLOCK_AUTO(dlock_client)
    client = open_at(trio.uri, "auth.password=inner&auth.sentinel_password=outer");
    DLOCK_AUTO(dlock_hold) hold = NULL;
    CHECK(client);
    CHECK_OK(dlock_acquire(client, "secret", PATIENCE_MS, &hold, NULL), NULL);
    CHECK_REFUSED(trio.uri, "auth.password=inner", DLOCK_EACCES, "sentinel");
    CHECK_REFUSED(trio.uri, "auth.password=inner&auth.sentinel_password=inner",
                  DLOCK_EACCES, "is wrong");
    CHECK_REFUSED(trio.uri, "auth.password=outer&auth.sentinel_password=outer",
                  DLOCK_EACCES, "is wrong");
}
