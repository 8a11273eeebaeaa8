/* Asking holders to give a lock up, through the public API. */
#include "harness/api.h"
#include "harness/harness.h"
#include "harness/redis_server.h"
#include "harness/time.h"

#include <dlock/dlock.h>

#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static redis_server server;
static dlock_client *holder, *asker;

static dlock_client *open_with(const char *query)
{
    return api_open("redis://127.0.0.1:%d?lock.ttl_ms=60000&%s", server.port, query);
}

#define SETUP(query)                                                                     \
    do {                                                                                 \
        if (!redis_server_available())                                                   \
            return;                                                                      \
        CHECK(redis_server_start(&server, NULL));                                        \
        holder = open_with(query);                                                       \
        asker = open_with(query);                                                        \
        CHECK(holder &&asker);                                                           \
    } while (0)

static void teardown(void)
{
    dlock_client_free(holder);
    dlock_client_free(asker);
    redis_server_stop(&server);
}

static dlock_lock *lock_of(dlock_client *client, dlock_kind kind, const char *name)
{
    dlock_lock *lock = NULL;
    dlock_conf *conf = dlock_conf_new();
    if (kind == DLOCK_SEMAPHORE)
        (void)dlock_conf_set(conf, "lock.permits", "3", NULL);
    (void)harness_err(__FILE__, __LINE__, name,
                      dlock_lock_new(client, kind, name, conf, &lock, NULL), DLOCK_OK,
                      NULL);
    dlock_conf_free(conf);
    return lock;
}

/* Asks until somebody listens, whose subscription may just be on its way. */
static dlock_err ask_until_heard(dlock_lock *lock)
{
    dlock_err code = DLOCK_ENOTSUP;
    (void)AWAITED((code = dlock_lock_revoke(lock, NULL)) != DLOCK_ENOTSUP);
    return code;
}

/* The next event that isn't about the connection; NULL after a long wait. */
static dlock_event *await_event(dlock_client *client)
{
    dlock_event *event;
    while (AWAITED((event = dlock_client_next_event(client)) != NULL) &&
           dlock_event_what(event) == DLOCK_EVENT_CONNECTION)
        dlock_event_free(event);
    return event;
}

static bool is_revoke(dlock_event *event, uint64_t tag, int64_t token, const char *name)
{
    bool fine = event && dlock_event_what(event) == DLOCK_EVENT_REVOKE &&
                dlock_event_tag(event) == tag && dlock_event_token(event) == token &&
                dlock_event_code(event) == DLOCK_OK &&
                strcmp(dlock_event_text(event), name) == 0;
    if (event && !fine)
        harness_note("event %d, tag %d, %s", (int)dlock_event_what(event),
                     (int)dlock_event_tag(event), dlock_event_text(event));
    dlock_event_free(event);
    return fine;
}

TEST(an_armed_hold_is_told_and_goes_on)
{
    SETUP("client.prefix=app:");
    dlock_lock *held = lock_of(holder, DLOCK_MUTEX, "L"),
               *same = lock_of(asker, DLOCK_MUTEX, "L");
    dlock_hold *hold = NULL;
    CHECK_OK(dlock_lock_acquire(held, 0, &hold, NULL), NULL);
    CHECK(dlock_client_event_fd(holder) >= 0);
    CHECK_OK(dlock_hold_notify(hold, 7), NULL);
    CHECK_OK(ask_until_heard(same), NULL);
    struct pollfd fd = {.fd = dlock_client_event_fd(holder), .events = POLLIN};
    CHECK_EQ_INT(poll(&fd, 1, 20000), 1);
    CHECK(is_revoke(await_event(holder), 7, dlock_hold_token(hold), "L"));
    CHECK_OK(dlock_hold_check(hold), NULL);
    CHECK_OK(dlock_hold_verify(hold, NULL), NULL);
    CHECK_OK(dlock_lock_revoke(held, NULL), NULL); /* by oneself */
    CHECK(is_revoke(await_event(holder), 7, dlock_hold_token(hold), "L"));
    /* The connection for messages is made again, and heard on. */
    redis_server_call(&server, "CLIENT KILL TYPE pubsub");
    CHECK_OK(ask_until_heard(same), NULL);
    CHECK(is_revoke(await_event(holder), 7, dlock_hold_token(hold), "L"));
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    dlock_hold_free(hold);
    dlock_lock_free(held);
    dlock_lock_free(same);
    teardown();
}

#ifndef DLK_PORTABLE /* whose threads have no names to know the client's by */
/* How often the client's thread has gone to sleep. */
static long sleeps_of_thread(void)
{
    long sum = 0;
    char path[64], text[4096];
    const struct dirent *task;
    DIR *tasks = opendir("/proc/self/task");
    while (tasks && (task = readdir(tasks))) {
        snprintf(path, sizeof(path), "/proc/self/task/%.20s/status", task->d_name);
        FILE *status = fopen(path, "r");
        size_t size = status ? fread(text, 1, sizeof(text) - 1, status) : 0;
        text[size] = '\0';
        const char *count = strstr(text, "\nvoluntary_ctxt_switches:");
        if (count && strstr(text, "Name:\tdlock\n") == text)
            sum += atol(strchr(count, ':') + 1);
        if (status)
            fclose(status);
    }
    if (tasks)
        closedir(tasks);
    return sum;
}

#define PAIRS 200

/* As long as a hold is to be told something, the client's thread reads, and wakes whoever waits for
 * an answer. With the hold that ends, however often it was armed: a lone caller reads for itself. */
TEST(without_an_armed_hold_the_thread_sleeps_while_a_caller_reads)
{
    SETUP("lock.owner=none");
    dlock_client_free(asker);
    asker = NULL;
    dlock_lock *lock = lock_of(holder, DLOCK_MUTEX, "L");
    dlock_hold *hold = NULL;
    long slept = 0;
    CHECK(dlock_client_event_fd(holder) >= 0);
    for (int i = 0; i <= PAIRS; i++) {
        CHECK_OK(dlock_lock_acquire(lock, DLOCK_FOREVER, &hold, NULL), NULL);
        if (i == 0) {
            CHECK_OK(dlock_hold_notify(hold, 1), NULL);
            CHECK_OK(dlock_hold_notify(hold, 2), NULL);
        }
        CHECK_OK(dlock_hold_release(hold, NULL), NULL);
        dlock_hold_free(hold);
        if (i == 0)
            slept = sleeps_of_thread();
    }
    CHECK(slept > 0);
    slept = sleeps_of_thread() - slept;
    harness_note("the client's thread went to sleep %ld times", slept);
    CHECK(slept < PAIRS / 4);
    dlock_lock_free(lock);
    teardown();
}
#endif

/* What is told of a hold lies in one place: what was fetched first must not take the rest with it. */
TEST(being_asked_is_told_behind_the_news_of_the_lease)
{
    SETUP("client.timeout_ms=200&client.retry_ms=50");
    dlock_conf *conf = dlock_conf_new();
    CHECK_OK(dlock_conf_set(conf, "lock.ttl_ms", "20000", NULL), NULL);
    dlock_lock *held = NULL, *same = lock_of(asker, DLOCK_MUTEX, "L");
    CHECK_OK(dlock_lock_new(holder, DLOCK_MUTEX, "L", conf, &held, NULL), NULL);
    dlock_hold *hold = NULL;
    CHECK_OK(dlock_lock_acquire(held, 0, &hold, NULL), NULL);
    CHECK(dlock_client_event_fd(holder) >= 0);
    CHECK_OK(dlock_hold_notify(hold, 4), NULL);
    CHECK_OK(ask_until_heard(same), NULL);
    int64_t token = dlock_hold_token(hold);
    struct pollfd fd = {.fd = dlock_client_event_fd(holder), .events = POLLIN};
    CHECK_EQ_INT(poll(&fd, 1, 20000), 1); /* pending, and not fetched */
    server_freeze(server.pid);
    (void)AWAITED(dlock_hold_state(hold) != DLOCK_HELD);
    dlock_event *first = await_event(holder);
    server_thaw(server.pid);
    CHECK(first && dlock_event_what(first) == DLOCK_EVENT_SUSPECT);
    dlock_event_free(first);
    bool told = false;
    for (int i = 0; i < 3 && !told; i++) { /* it may be held again by now */
        dlock_event *event = await_event(holder);
        bool again = event && dlock_event_what(event) == DLOCK_EVENT_HELD;
        if (again)
            dlock_event_free(event);
        else
            told = is_revoke(event, 4, token, "L");
    }
    CHECK(told);
    dlock_hold_free(hold);
    dlock_conf_free(conf);
    dlock_lock_free(held);
    dlock_lock_free(same);
    teardown();
}

TEST(whom_nobody_hears_is_said)
{
    SETUP("");
    dlock_lock *held = lock_of(holder, DLOCK_MUTEX, "L"),
               *same = lock_of(asker, DLOCK_MUTEX, "L");
    dlock_error *err = NULL;
    dlock_hold *hold = NULL;
    CHECK_ERR(dlock_lock_revoke(same, &err), DLOCK_ENOTHELD, err);
    CHECK_OK(dlock_lock_acquire(held, 0, &hold, NULL), NULL);
    CHECK_ERR(dlock_lock_revoke(same, &err), DLOCK_ENOTSUP, err);
    CHECK_CONTAINS(dlock_error_text(err), "no holder listens");
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    dlock_hold_free(hold);
    redis_server_call(&server, "HSET L 11111111-2222-3333-4444-555555555555:1 1");
    CHECK_ERR(dlock_lock_revoke(same, &err), DLOCK_ENOTSUP, err);
    redis_server_call(&server, "DEL L");
    redis_server_call(&server, "SET L something");
    CHECK_ERR(dlock_lock_revoke(same, &err), DLOCK_ECONFLICT, err);
    dlock_error_free(err);
    dlock_lock_free(held);
    dlock_lock_free(same);
    teardown();
}

TEST(a_hold_that_is_not_armed_or_lost_or_given_back_hears_nothing_of_it)
{
    SETUP("");
    dlock_lock *first = lock_of(holder, DLOCK_MUTEX, "L"),
               *second = lock_of(holder, DLOCK_MUTEX, "M"),
               *same = lock_of(asker, DLOCK_MUTEX, "L"),
               *other = lock_of(asker, DLOCK_MUTEX, "M");
    dlock_hold *armed = NULL, *quiet = NULL;
    CHECK_OK(dlock_lock_acquire(first, 0, &armed, NULL), NULL);
    CHECK_OK(dlock_lock_acquire(second, 0, &quiet, NULL), NULL);
    CHECK(dlock_client_event_fd(holder) >= 0);
    CHECK_OK(dlock_hold_notify(armed, 1), NULL);
    CHECK_OK(ask_until_heard(same), NULL);
    CHECK(is_revoke(await_event(holder), 1, dlock_hold_token(armed), "L"));
    CHECK_OK(dlock_lock_revoke(other, NULL), NULL); /* its client has heard … */
    CHECK_OK(dlock_lock_revoke(same, NULL), NULL);
    /* … but the next event is about the other hold. */
    CHECK(is_revoke(await_event(holder), 1, dlock_hold_token(armed), "L"));
    CHECK_OK(dlock_hold_release(armed, NULL), NULL);
    dlock_hold_free(armed);
    CHECK_ERR(dlock_lock_revoke(same, NULL), DLOCK_ENOTHELD, NULL);
    CHECK_OK(dlock_hold_release(quiet, NULL), NULL);
    dlock_hold_free(quiet);
    dlock_lock_free(first);
    dlock_lock_free(second);
    dlock_lock_free(same);
    dlock_lock_free(other);
    teardown();
}

TEST(each_holder_is_told_and_each_armed_hold_of_it)
{
    SETUP("");
    dlock_lock *ours = lock_of(holder, DLOCK_READ, "RW"),
               *theirs = lock_of(asker, DLOCK_READ, "RW");
    dlock_hold *holds[3] = {NULL};
    CHECK_OK(dlock_lock_acquire(ours, 0, &holds[0], NULL), NULL);
    CHECK_OK(dlock_lock_acquire(ours, 0, &holds[1], NULL), NULL); /* the same grant */
    CHECK_OK(dlock_lock_acquire(theirs, 0, &holds[2], NULL), NULL);
    CHECK(dlock_client_event_fd(holder) >= 0 && dlock_client_event_fd(asker) >= 0);
    for (int i = 0; i < 3; i++)
        CHECK_OK(dlock_hold_notify(holds[i], (uint64_t)i), NULL);
    CHECK_OK(ask_until_heard(ours), NULL);
    bool told[3] = {false};
    while (!(told[0] && told[1] && told[2])) {
        dlock_client *client = told[0] && told[1] ? asker : holder;
        dlock_event *event = dlock_client_next_event(client);
        if (event && dlock_event_what(event) == DLOCK_EVENT_REVOKE)
            told[dlock_event_tag(event)] = true;
        dlock_event_free(event);
        nap_ms(2);
        if (!event) /* one of the two may have begun to listen too late */
            CHECK_OK(dlock_lock_revoke(ours, NULL), NULL);
    }
    for (int i = 0; i < 3; i++)
        dlock_hold_free(holds[i]);
    dlock_lock_free(ours);
    dlock_lock_free(theirs);
    teardown();
}

TEST(every_kind_and_layout_can_be_asked_for)
{
    static const struct {
        const char *query;
        dlock_kind kind;
    } forms[] = {{"", DLOCK_MUTEX},
                 {"redis.handover=false", DLOCK_MUTEX},
                 {"lock.fair=true", DLOCK_MUTEX},
                 {"", DLOCK_WRITE},
                 {"", DLOCK_READ},
                 {"", DLOCK_ELECTION},
                 {"redis.layout=string", DLOCK_MUTEX},
                 {"redis.layout=rueidis", DLOCK_MUTEX},
                 {"redis.layout=timestamp", DLOCK_MUTEX}};
    if (!redis_server_available())
        return;
    CHECK(redis_server_start(&server, NULL));
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        dlock_client *first = open_with(forms[i].query),
                     *second = open_with(forms[i].query);
        CHECK(first && second);
        dlock_lock *held = lock_of(first, forms[i].kind, "L"),
                   *same = lock_of(second, forms[i].kind, "L");
        dlock_hold *hold = NULL;
        CHECK_OK(dlock_lock_acquire(held, 0, &hold, NULL), NULL);
        CHECK(dlock_client_event_fd(first) >= 0);
        CHECK_OK(dlock_hold_notify(hold, 9), NULL);
        dlock_err code = ask_until_heard(same);
        if (code != DLOCK_OK)
            harness_note("%s, kind %d", forms[i].query, (int)forms[i].kind);
        CHECK_OK(code, NULL);
        CHECK(is_revoke(await_event(first), 9, dlock_hold_token(hold), "L"));
        dlock_hold_free(hold);
        dlock_lock_free(held);
        dlock_lock_free(same);
        dlock_client_free(first);
        dlock_client_free(second);
        redis_server_call(&server, "FLUSHALL");
    }
    redis_server_stop(&server);
}

/* Redisson's semaphores don't say who has a permit. */
static void ask_for_a_permit(const char *query)
{
    SETUP(query);
    dlock_lock *held = lock_of(holder, DLOCK_SEMAPHORE, "L"),
               *same = lock_of(asker, DLOCK_SEMAPHORE, "L");
    dlock_hold *hold = NULL;
    CHECK_OK(dlock_lock_acquire(held, 0, &hold, NULL), NULL);
    CHECK_OK(dlock_hold_notify(hold, 1), NULL);
    CHECK_ERR(dlock_lock_revoke(same, NULL), DLOCK_ENOTSUP, NULL);
    dlock_hold_free(hold);
    dlock_lock_free(held);
    dlock_lock_free(same);
    teardown();
}

TEST(whose_a_permit_is_can_not_be_told)
{
    ask_for_a_permit("");
    ask_for_a_permit("redis.semaphore=plain");
}

TEST(a_multi_lock_is_told_of_what_is_asked_of_a_member)
{
    SETUP("");
    dlock_lock *members[] = {lock_of(holder, DLOCK_MUTEX, "L"),
                             lock_of(asker, DLOCK_MUTEX, "M")};
    dlock_lock *whole = NULL, *same = lock_of(holder, DLOCK_MUTEX, "M");
    dlock_hold *hold = NULL;
    CHECK_OK(dlock_multi_new(members, 2, NULL, &whole, NULL), NULL);
    CHECK_OK(dlock_lock_acquire(whole, 60000, &hold, NULL), NULL);
    CHECK(dlock_client_event_fd(holder) >= 0);
    CHECK_OK(dlock_hold_notify(hold, 3), NULL);
    CHECK_OK(ask_until_heard(same), NULL);
    dlock_event *event = await_event(holder);
    CHECK(event && dlock_event_what(event) == DLOCK_EVENT_REVOKE);
    CHECK_EQ_INT(dlock_event_tag(event), 3);
    dlock_event_free(event);
    CHECK_ERR(dlock_lock_revoke(whole, NULL), DLOCK_ENOTSUP, NULL);
    dlock_hold_free(hold);
    dlock_lock_free(whole);
    dlock_lock_free(same);
    dlock_lock_free(members[0]);
    dlock_lock_free(members[1]);
    teardown();
}

TEST(it_is_a_feature_that_some_services_lack)
{
    SETUP("");
    dlock_client *lacks = NULL;
    dlock_info *info = NULL;
    CHECK_OK(dlock_client_open(
                 "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3?client.lazy=true", NULL,
                 &lacks, NULL),
             NULL);
    CHECK_OK(dlock_client_features(lacks, &info, NULL), NULL);
    CHECK_STR(dlock_info_get(info, "revoke"), "0");
    dlock_info_free(info);
    CHECK_OK(dlock_client_features(holder, &info, NULL), NULL);
    CHECK_STR(dlock_info_get(info, "revoke"), "1");
    dlock_info_free(info);
    dlock_client_free(lacks);
    teardown();
}
