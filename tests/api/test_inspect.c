/* What inspect says, the same whatever the service: each hold's own data. */
#include "world.h"

#include <stdio.h>
#include <string.h>

static dlock_lock *make(dlock_client *client, dlock_kind kind, const char *name,
                        const char *settings)
{
    DLOCK_AUTO(dlock_conf) conf = world_conf(settings);
    DLOCK_AUTO(dlock_error) err = NULL;
    dlock_lock *lock = NULL;
    dlock_err code = dlock_lock_new(client, kind, name, conf, &lock, &err);
    (void)harness_err(__FILE__, __LINE__, "dlock_lock_new", code, DLOCK_OK, err);
    return lock;
}

static bool has_kind(dlock_client *client, const char *kind)
{
    char key[32];
    DLOCK_AUTO(dlock_info) features = NULL;
    snprintf(key, sizeof(key), "kinds.%s", kind);
    return dlock_client_features(client, &features, NULL) == DLOCK_OK &&
           strcmp(dlock_info_get(features, key), "1") == 0;
}

/* ---- lock.data ---- */

/* Elsewhere only what is elected is published. */
static bool shows_data(dlock_kind kind)
{
    return kind == DLOCK_ELECTION || world_is("zookeeper") || world_is("etcd") ||
           world_is("memcached");
}

/* Of the first holder; "" is none. */
static const char *data_of(dlock_lock *lock, const char *key)
{
    static char text[64];
    DLOCK_AUTO(dlock_info) info = NULL;
    text[0] = '\0';
    if (dlock_lock_inspect(lock, &info, NULL) == DLOCK_OK && dlock_info_get(info, key))
        snprintf(text, sizeof(text), "%s", dlock_info_get(info, key));
    return text;
}

static const struct {
    dlock_kind kind;
    const char *name;
} sole[] = {{DLOCK_MUTEX, "mutex"}, {DLOCK_WRITE, "write"}, {DLOCK_ELECTION, "election"}};
#define SOLE (sizeof(sole) / sizeof(*sole))

TEST(a_hold_shows_the_data_of_the_handle_that_acquired_it)
{
    BEGIN();
    for (size_t i = 0; i < SOLE; i++) {
        char name[100];
        snprintf(name, sizeof(name), "%s/%s", __func__, sole[i].name);
        DLOCK_AUTO(dlock_client) client = world_client(NULL);
        DLOCK_AUTO(dlock_client) other = world_client(NULL);
        if (!has_kind(client, sole[i].name))
            continue;
        dlock_kind kind = sole[i].kind;
        bool shows = shows_data(kind);
        DLOCK_AUTO(dlock_lock) looker = make(other, kind, name, "lock.data=looker");
        DLOCK_AUTO(dlock_lock) none = make(client, kind, name, NULL);
        DLOCK_AUTO(dlock_lock) one = make(client, kind, name, "lock.data=one");
        DLOCK_AUTO(dlock_lock) two = make(client, kind, name, "lock.data=two");
        dlock_lock *const locks[] = {two, none, one};
        static const char *const data[] = {"two", "", "one"};
        for (size_t j = 0; j < 3; j++) {
            DLOCK_AUTO(dlock_hold) hold = world_take(locks[j]);
            CHECK_STR(data_of(looker, "holders.0.data"), shows ? data[j] : "");
            CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
        }
    }
}

TEST(who_comes_after_one_that_gave_up_shows_his_own_data)
{
    BEGIN();
    for (size_t i = 0; i < SOLE; i++) {
        char name[100];
        snprintf(name, sizeof(name), "%s/%s", __func__, sole[i].name);
        DLOCK_AUTO(dlock_client) client = world_client(NULL);
        DLOCK_AUTO(dlock_client) other = world_client(NULL);
        if (!has_kind(client, sole[i].name))
            continue;
        dlock_kind kind = sole[i].kind;
        DLOCK_AUTO(dlock_lock) theirs = make(other, kind, name, NULL);
        DLOCK_AUTO(dlock_lock) one = make(client, kind, name, "lock.data=one");
        DLOCK_AUTO(dlock_hold) hold = world_take(theirs);
        DLOCK_AUTO(dlock_op) first = dlock_lock_acquire_start(one, DLOCK_FOREVER);
        DLOCK_AUTO(dlock_op) second = NULL;
        { /* the handle may go; what waits by it doesn't need it */
            DLOCK_AUTO(dlock_lock) two = make(client, kind, name, "lock.data=two");
            second = dlock_lock_acquire_start(two, DLOCK_FOREVER);
        }
        AWAIT(world_stat(client, "waits") >= 1); /* the server said: held */
        dlock_op_cancel(first);
        CHECK_EQ_INT(dlock_op_wait(first, world_limit_ms()), DLOCK_OK);
        CHECK_EQ_INT(dlock_op_result(first), DLOCK_ECANCELED);
        CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
        CHECK_EQ_INT(dlock_op_wait(second, world_limit_ms()), DLOCK_OK);
        CHECK_EQ_INT(dlock_op_result(second), DLOCK_OK);
        DLOCK_AUTO(dlock_hold) next = dlock_op_take_hold(second);
        CHECK(next);
        CHECK_STR(data_of(theirs, "holders.0.data"), shows_data(kind) ? "two" : "");
    }
}

TEST(a_writer_that_turns_reader_shows_its_data_still)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_client) other = world_client(NULL);
    if (!has_kind(client, "write"))
        LEAVE_OUT("no read/write locks");
    DLOCK_AUTO(dlock_lock) looker = make(other, DLOCK_READ, __func__, NULL);
    DLOCK_AUTO(dlock_lock) one = make(client, DLOCK_READ, __func__, "lock.data=one");
    dlock_lock *two = make(client, DLOCK_WRITE, __func__, "lock.data=two");
    DLOCK_AUTO(dlock_hold) hold = world_take(two);
    dlock_lock_free(two);
    CHECK_EQ_INT(dlock_hold_downgrade(hold, NULL), DLOCK_OK);
    AWAIT(strcmp(data_of(looker, "kind"), "read") == 0);
    CHECK_STR(data_of(looker, "holders.0.data"), shows_data(DLOCK_WRITE) ? "two" : "");
    CHECK_STR(data_of(looker, "holders.0.owner"), dlock_hold_owner(hold));
}

TEST(holders_of_a_semaphore_show_each_its_own_data)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_client) other = world_client(NULL);
    if (!has_kind(client, "semaphore"))
        LEAVE_OUT("no semaphores");
    DLOCK_AUTO(dlock_lock)
    looker = make(other, DLOCK_SEMAPHORE, __func__, "lock.permits=2");
    DLOCK_AUTO(dlock_lock)
    one = make(client, DLOCK_SEMAPHORE, __func__, "lock.permits=2 lock.data=sem1");
    DLOCK_AUTO(dlock_lock)
    two = make(client, DLOCK_SEMAPHORE, __func__, "lock.permits=2 lock.data=sem2");
    DLOCK_AUTO(dlock_hold) first = world_take(one);
    DLOCK_AUTO(dlock_hold) second = world_take(two);
    DLOCK_AUTO(dlock_info) info = NULL;
    CHECK_EQ_INT(dlock_lock_inspect(looker, &info, NULL), DLOCK_OK);
    const char *shown[] = {dlock_info_get(info, "holders.0.data"),
                           dlock_info_get(info, "holders.1.data")};
    if (!shows_data(DLOCK_SEMAPHORE)) {
        CHECK(!shown[0] && !shown[1]);
        return;
    }
    CHECK(shown[0] && shown[1]);
    const char *owner = dlock_info_get(info, "holders.0.owner");
    bool in_order = strcmp(owner, dlock_hold_owner(first)) == 0;
    CHECK_STR(shown[!in_order], "sem1");
    CHECK_STR(shown[in_order], "sem2");
}

TEST(another_hold_of_the_same_grant_shows_what_the_first_did)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_lock) one = make(client, DLOCK_MUTEX, __func__, "lock.data=one");
    DLOCK_AUTO(dlock_lock) two = make(client, DLOCK_MUTEX, __func__, "lock.data=two");
    DLOCK_AUTO(dlock_hold) first = world_take(one);
    DLOCK_AUTO(dlock_hold) again = world_take(two);
    CHECK_EQ_INT(dlock_hold_token(first), dlock_hold_token(again));
    CHECK_EQ_INT(dlock_hold_release(first, NULL), DLOCK_OK);
    CHECK_STR(data_of(two, "holders.0.data"), shows_data(DLOCK_MUTEX) ? "one" : "");
}
