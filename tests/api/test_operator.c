/* What an operator asks and orders: inspect, break, list, wait_idle, doctor, stats, features. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TEST(inspect_tells_who_holds_it_since_which_token_and_for_how_long)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    CLIENT_WITH_LOCK(other, theirs, __func__, NULL);
    DLOCK_AUTO(dlock_info) info = NULL;
    CHECK_OK(dlock_lock_inspect(theirs, &info, &err), err);
    CHECK_STR(dlock_info_get(info, "kind"), "mutex");
    CHECK_STR(dlock_info_get(info, "holders.0.owner"), dlock_hold_owner(hold));
    CHECK_EQ_INT(world_seen(theirs, "held"), 1);
    CHECK_EQ_INT(world_seen(theirs, "holders.0.token"), dlock_hold_token(hold));
    CHECK_EQ_INT(world_seen(theirs, "holders.0.count"), 1);
    int64_t left = world_seen(theirs, "holders.0.remaining_ms");
    CHECK(left > 0 && left <= 30000);
    CHECK(dlock_info_get(info, "layout") != NULL);
    CHECK(dlock_info_get(info, "holders.1.owner") == NULL);
    CHECK_CONTAINS(dlock_info_json(info), "\"holders\":[{\"owner\":\"");
}

TEST(inspect_of_a_free_lock_says_so_and_leaves_nothing_behind)
{
    BEGIN();
    CLIENT_WITH_LOCK(client, lock, __func__, NULL);
    CHECK_EQ_INT(world_seen(lock, "held"), 0);
    CHECK_EQ_INT(world_seen(lock, "holders.0.token"), -1);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    CHECK_EQ_INT(world_seen(lock, "held"), 1);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    CHECK_EQ_INT(world_seen(lock, "held"), 0);
}

TEST(a_break_takes_the_lock_from_the_named_owner_only)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_LOCK(client, lock, __func__, NULL);
    CLIENT_WITH_LOCK(other, theirs, __func__, NULL);
    CHECK_ERR(dlock_lock_break(theirs, NULL, &err), DLOCK_ENOTHELD, err);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    CHECK_ERR(dlock_lock_break(theirs, "somebody:1", &err), DLOCK_ENOTHELD, err);
    CHECK_ERR(dlock_lock_break(theirs, "", &err), DLOCK_ENOTHELD, err);
    CHECK_EQ_INT(dlock_hold_verify(hold, NULL), DLOCK_OK);
    CHECK_OK(dlock_lock_break(theirs, dlock_hold_owner(hold), &err), err);
    CHECK_ERR(dlock_lock_break(theirs, dlock_hold_owner(hold), &err), DLOCK_ENOTHELD,
              err);
    DLOCK_AUTO(dlock_hold) next = NULL;
    CHECK_OK(dlock_lock_acquire(theirs, 0, &next, &err), err);
    CHECK(dlock_hold_token(next) > dlock_hold_token(hold));
    CHECK_EQ_INT(dlock_hold_verify(hold, NULL), DLOCK_ELOST);
}

/* How many lines another client reads of this name: what its holder tells. */
static int lines_told(const char *name)
{
    DLOCK_AUTO(dlock_client) reader = world_client("redis.list=clients");
    DLOCK_AUTO(dlock_info) info = NULL;
    int count = 0;
    if (dlock_client_list(reader, name, 10, &info, NULL) != DLOCK_OK)
        return -1;
    for (size_t i = 0; i < dlock_info_count(info); i++) {
        const char *key = dlock_info_key(info, i);
        count += strncmp(key, "told.", 5) == 0 && strstr(key, ".state") != NULL;
    }
    return count;
}

TEST(a_client_tells_what_it_has_for_a_while_and_no_longer)
{
    BEGIN();
    if (!world_is_one_redis())
        LEAVE_OUT("only clients of one Redis tell");
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    AWAIT(lines_told(__func__) == 1);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    AWAIT(lines_told(__func__) == 0);
}

TEST(a_break_serves_those_who_wait)
{
    BEGIN();
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    CLIENT_WITH_LOCK(other, theirs, __func__, NULL);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(theirs, DLOCK_FOREVER);
    CHECK_EQ_INT(dlock_op_wait(op, 5), DLOCK_EPENDING);
    CHECK_EQ_INT(world_evict(__func__), DLOCK_OK);
    ENDS(op, DLOCK_OK);
}

TEST(a_victim_notices_a_break_by_itself_at_its_next_renewal)
{
    BEGIN();
    CLIENT_WITH_HOLD(client, lock, hold, __func__, "lock.ttl_ms=600");
    CHECK_EQ_INT(dlock_hold_notify(hold, 3), DLOCK_OK);
    CHECK_EQ_INT(world_evict(__func__), DLOCK_OK);
    DLOCK_AUTO(dlock_event) event = world_event(client, DLOCK_EVENT_LOST);
    CHECK_EQ_INT(dlock_event_tag(event), 3);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_ELOST);
    CHECK_EQ_INT(api_stat(client, "losses"), 1);
}

static int count_names(dlock_info *info)
{
    char key[64];
    for (int i = 0;; i++) {
        snprintf(key, sizeof(key), "locks.%d.name", i);
        if (!dlock_info_get(info, key))
            return i;
    }
}

TEST(list_names_the_locks_behind_a_prefix_up_to_a_limit)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = world_client("client.prefix=list*:");
    DLOCK_AUTO(dlock_client) plain = world_client(NULL);
    dlock_hold *holds[6] = {NULL};
    static const char *const names[] = {"a1", "a2", "a3", "b1", "b2", "a[x]"};
    for (int i = 0; i < 6; i++)
        CHECK_EQ_INT(dlock_acquire(client, names[i], 0, &holds[i], NULL), DLOCK_OK);
    DLOCK_AUTO(dlock_info) all = NULL;
    DLOCK_AUTO(dlock_info) some = NULL;
    DLOCK_AUTO(dlock_info) few = NULL;
    DLOCK_AUTO(dlock_info) odd = NULL;
    DLOCK_AUTO(dlock_info) none = NULL;
    CHECK_OK(dlock_client_list(client, NULL, 100, &all, &err), err);
    CHECK_EQ_INT(count_names(all), 6);
    CHECK_OK(dlock_client_list(client, "b", 100, &some, &err), err);
    CHECK_EQ_INT(count_names(some), 2);
    CHECK_OK(dlock_client_list(plain, "list*:", 4, &few, &err), err);
    CHECK_EQ_INT(count_names(few), 4);
    CHECK_OK(dlock_client_list(client, "a[", 100, &odd, &err), err); /* no pattern */
    CHECK_EQ_INT(count_names(odd), 1);
    CHECK_OK(dlock_client_list(client, "zzz", 100, &none, &err), err);
    CHECK_EQ_INT(count_names(none), 0);
    for (int i = 0; i < 6; i++)
        dlock_hold_free(holds[i]);
}

TEST(list_shows_the_holder_and_nothing_that_is_free)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    DLOCK_AUTO(dlock_info) held = NULL;
    DLOCK_AUTO(dlock_info) free_again = NULL;
    CHECK_OK(dlock_client_list(client, __func__, 10, &held, &err), err);
    CHECK_STR(dlock_info_get(held, "locks.0.name"), __func__);
    CHECK_STR(dlock_info_get(held, "locks.0.owner"), dlock_hold_owner(hold));
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    CHECK_OK(dlock_client_list(client, __func__, 10, &free_again, &err), err);
    CHECK_EQ_INT(count_names(free_again), 0);
}

TEST(wait_idle_waits_until_nobody_holds_it_and_takes_nothing)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_LOCK(client, lock, __func__, NULL);
    CLIENT_WITH_LOCK(other, theirs, __func__, NULL);
    CHECK_OK(dlock_lock_wait_idle(theirs, 0, &err), err);
    CHECK_OK(dlock_lock_wait_idle(theirs, DLOCK_FOREVER, &err), err);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    CHECK_ERR(dlock_lock_wait_idle(theirs, 0, &err), DLOCK_EBUSY, err);
    CHECK_ERR(dlock_lock_wait_idle(theirs, SHORT_MS, &err), DLOCK_ETIMEDOUT, err);
    CHECK_ERR(dlock_lock_wait_idle(lock, 0, &err), DLOCK_EBUSY,
              err); /* the holder itself, too */
    DLOCK_AUTO(dlock_op) op = dlock_lock_wait_idle_start(theirs, DLOCK_FOREVER);
    CHECK_EQ_INT(dlock_op_wait(op, 10), DLOCK_EPENDING);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    ENDS(op, DLOCK_OK);
    CHECK_EQ_INT(world_try(__func__), DLOCK_OK);
}

TEST(the_doctor_gives_a_verdict_and_explains_each_finding)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_info) info = NULL;
    CHECK_OK(dlock_client_doctor(client, &info, &err), err);
    const char *verdict = dlock_info_get(info, "verdict");
    CHECK(verdict && strchr("012", verdict[0]) && !verdict[1]);
    char key[64];
    for (int i = 0;; i++) {
        snprintf(key, sizeof(key), "findings.%d.id", i);
        if (!dlock_info_get(info, key))
            break;
        snprintf(key, sizeof(key), "findings.%d.severity", i);
        CHECK(dlock_info_get(info, key) != NULL);
        snprintf(key, sizeof(key), "findings.%d.text", i);
        CHECK(dlock_info_get(info, key) && strlen(dlock_info_get(info, key)) > 10);
    }
}

TEST(the_statistics_count_what_happened)
{
    BEGIN();
    CLIENT_WITH_LOCK(client, lock, __func__, NULL);
    CLIENT_WITH_LOCK(other, theirs, __func__, NULL);
    for (int i = 0; i < 5; i++) {
        DLOCK_AUTO(dlock_hold) hold = world_take(lock);
        DLOCK_AUTO(dlock_hold) again = world_take(lock);
        DLOCK_AUTO(dlock_hold) none = NULL;
        CHECK_EQ_INT(dlock_lock_acquire(theirs, i % 2 ? 0 : SHORT_MS, &none, NULL),
                     i % 2 ? DLOCK_EBUSY : DLOCK_ETIMEDOUT);
        /* Its place in the line, or it would be handed the lock, and we wait. */
        AWAIT(api_stat(other, "unconfirmed") == 0);
        CHECK_EQ_INT(dlock_hold_release(again, NULL), DLOCK_OK);
        CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    }
    static const struct {
        const char *key;
        int64_t ours, theirs;
    } expected[] = {
        {"grants", 5, 0},      {"reentries", 5, 0},   {"waits", 0, 5},
        {"timeouts", 0, 3},    {"releases", 5, 0},    {"losses", 0, 0},
        {"wait.count", 5, 0},  {"hold.count", 5, 0},  {"cancels", 0, 0},
        {"late_grants", 0, 0}, {"unconfirmed", 0, 0}, {"connected", 1, 1},
    };
    for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++) {
        if (api_stat(client, expected[i].key) != expected[i].ours ||
            api_stat(other, expected[i].key) != expected[i].theirs)
            harness_note("it is about %s", expected[i].key);
        CHECK_EQ_INT(api_stat(client, expected[i].key), expected[i].ours);
        CHECK_EQ_INT(api_stat(other, expected[i].key), expected[i].theirs);
    }
    CHECK(api_stat(client, "hold.max_ns") > 0);
    CHECK(api_stat(client, "hold.sum_ns") >= api_stat(client, "hold.max_ns"));
    CHECK(api_stat(client, "hold.p99_ns") >= api_stat(client, "hold.p50_ns"));
    if (world_is("redis")) {
        CHECK(api_stat(client, "commands") >= 10);
        CHECK(api_stat(client, "bytes_sent") > 0);
        CHECK(api_stat(client, "bytes_received") > 0);
    }
}

/* A short hold and a long one: half of them, in the order of their length, is the short one. */
TEST(the_middle_of_the_statistics_is_that_of_the_shorter_half)
{
    BEGIN();
    CLIENT_WITH_LOCK(client, lock, __func__, NULL);
    dlock_hold_free(world_take(lock));
    AWAIT(api_stat(client, "hold.count") == 1);
    int64_t shorter = api_stat(client, "hold.max_ns");
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    int64_t longer_ms = 4 * shorter / 1000000 + 2; /* two buckets higher */
    for (int64_t began = now_ms(); now_ms() - began < longer_ms;)
        nap_ms(1);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    CHECK_EQ_INT(api_stat(client, "hold.buckets.0.count"), 1);
    CHECK_EQ_INT(api_stat(client, "hold.p50_ns"),
                 api_stat(client, "hold.buckets.0.below_ns"));
    CHECK(api_stat(client, "hold.p99_ns") > api_stat(client, "hold.p50_ns"));
}

/* What it is good for at most. */
static bool fences_only(void)
{
    return world_is("redis") || world_is("postgres");
}

TEST(the_features_say_what_the_backend_can_do)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_info) info = NULL;
    CHECK_OK(dlock_client_features(client, &info, &err), err);
    CHECK_STR(dlock_info_get(info, "kinds.mutex"), "1");
    CHECK_STR(dlock_info_get(info, "tokens"), "1");
    CHECK_STR(dlock_info_get(info, "class"), fences_only() ? "fencing" : "correctness");
    CHECK_STR(dlock_info_get(info, "fair"), world_is_fair() ? "1" : "0");
    static const char *const kinds[] = {[DLOCK_READ] = "kinds.read",
                                        [DLOCK_WRITE] = "kinds.write",
                                        [DLOCK_SEMAPHORE] = "kinds.semaphore",
                                        [DLOCK_ELECTION] = "kinds.election"};
    for (int kind = DLOCK_READ; kind <= DLOCK_ELECTION; kind++) {
        DLOCK_AUTO(dlock_lock) lock = NULL;
        bool there = strcmp(dlock_info_get(info, kinds[kind]), "1") == 0;
        CHECK_ERR(dlock_lock_new(client, (dlock_kind)kind, __func__, NULL, &lock, &err),
                  there ? DLOCK_OK : DLOCK_ENOTSUP, err);
    }
}

TEST(the_required_class_is_checked_at_open)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = NULL;
    char uri[256];
    snprintf(uri, sizeof(uri), "%s%cclient.require=correctness", world_uri(),
             strchr(world_uri(), '?') ? '&' : '?');
    CHECK_ERR(dlock_client_open(uri, NULL, &client, &err),
              fences_only() ? DLOCK_ENOTSUP : DLOCK_OK, err);
    CHECK(!err || strstr(dlock_error_text(err), "correctness"));
    DLOCK_AUTO(dlock_client) fencing = world_client("client.require=fencing");
    CHECK(fencing != NULL);
}

TEST(a_lazy_client_connects_when_asked_or_at_its_first_need)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) asked = world_client("client.lazy=true");
    DLOCK_AUTO(dlock_client) needed = world_client("client.lazy=true");
    CHECK_EQ_INT(api_stat(asked, "connected"), 0);
    CHECK_OK(dlock_client_connect(asked, &err), err);
    CHECK_EQ_INT(api_stat(asked, "connected"), 1);
    CHECK_OK(dlock_client_connect(asked, &err), err);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    CHECK_OK(dlock_acquire(needed, __func__, patience_ms(), &hold, &err), err);
    CHECK_OK(dlock_hold_release(hold, &err), err);
    dlock_hold_free(hold);
    hold = NULL;
    DLOCK_AUTO(dlock_client) tried = world_client("client.lazy=true");
    CHECK_OK(dlock_acquire(tried, __func__, 0, &hold, &err), err);
    CHECK_EQ_INT(api_stat(tried, "connected"), 1);
}

TEST(a_new_client_sends_nothing_before_it_is_told_to_connect)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_info) info = NULL;
    CHECK_OK(dlock_client_new(world_uri(), NULL, &client, &err), err);
    CHECK_EQ_INT(api_stat(client, "connected"), 0);
    CHECK_OK(dlock_client_settings(client, &info, &err), err);
    CHECK_STR(dlock_info_get(info, "client.lazy"), "false");
    CHECK_OK(dlock_client_connect(client, &err), err);
    CHECK_EQ_INT(api_stat(client, "connected"), 1);
}

TEST(the_library_names_its_backends_and_every_code)
{
    CHECK_CONTAINS(dlock_backends(), "mem");
    CHECK_STR(dlock_version(), DLOCK_VERSION_STRING);
    CHECK_EQ_INT(dlock_version_num(), DLOCK_VERSION_NUM);
    for (int code = DLOCK_OK; code <= DLOCK_ENOMEM; code++) {
        CHECK(strncmp(dlock_errname((dlock_err)code), "DLOCK_", 6) == 0);
        CHECK(strcmp(dlock_errname((dlock_err)code), "DLOCK_E?") != 0);
        CHECK(strlen(dlock_strerror((dlock_err)code)) > 1);
    }
    CHECK_STR(dlock_errname((dlock_err)99), "DLOCK_E?");
    CHECK(dlock_strerror((dlock_err)99) != NULL);
    CHECK_EQ_INT(dlock_error_code(NULL), DLOCK_OK);
    CHECK_STR(dlock_error_text(NULL), "");
    CHECK_STR(dlock_error_backend(NULL), "");
    CHECK_EQ_INT(dlock_error_retriable(NULL), 0);
    dlock_error_free(NULL);
}
