/* What a hold says of itself while it is held, after its release, its loss and the close. */
#include "world.h"

#include <stdio.h>
#include <string.h>

TEST(a_fresh_hold_is_held_valid_and_known_by_name_owner_and_token)
{
    BEGIN();
    CLIENT_WITH_HOLD(client, lock, hold, __func__, "lock.ttl_ms=5000");
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_state(hold), DLOCK_HELD);
    CHECK(dlock_hold_remaining_ms(hold) > 0 && dlock_hold_remaining_ms(hold) <= 5000);
    CHECK(dlock_hold_token(hold) > 0);
    CHECK_EQ_INT(dlock_hold_member_token(hold, 0), dlock_hold_token(hold));
    CHECK_EQ_INT(dlock_hold_member_token(hold, 1), 0);
    CHECK_STR(dlock_hold_name(hold), __func__);
    const char *owner = dlock_hold_owner(hold); /* <uuid>:<number> */
    CHECK(strlen(owner) > 37 && owner[8] == '-' && owner[36] == ':');
}

TEST(the_name_of_a_hold_is_without_the_prefix_and_the_server_knows_both)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = world_client("client.prefix=team/");
    DLOCK_AUTO(dlock_client) plain = world_client(NULL);
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, __func__, NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    DLOCK_AUTO(dlock_hold) theirs = NULL;
    char name[256];
    CHECK_STR(dlock_hold_name(hold), __func__);
    snprintf(name, sizeof(name), "team/%s", __func__);
    CHECK_ERR(dlock_acquire(plain, name, 0, &theirs, &err), DLOCK_EBUSY, err);
    CHECK_OK(dlock_acquire(plain, __func__, 0, &theirs, &err), err);
}

TEST(names_of_any_bytes_are_different_locks)
{
    BEGIN();
    static const char *const names[] = {
        " ",    "a b",     "\xff\xfe",         "a\r\nb", "{}", "*",
        "?[x]", "../../x", "dlock:{any}\t'\"", "%s%n",   "A",  "a"};
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    dlock_hold *holds[sizeof(names) / sizeof(*names)] = {NULL};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        CHECK_EQ_INT(dlock_acquire(client, names[i], 0, &holds[i], NULL), DLOCK_OK);
        CHECK_STR(dlock_hold_name(holds[i]), names[i]);
        CHECK_EQ_INT(api_stat(client, "reentries"), 0);
        CHECK_EQ_INT(world_try(names[i]), DLOCK_EBUSY);
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        CHECK_EQ_INT(dlock_hold_release(holds[i], NULL), DLOCK_OK);
        dlock_hold_free(holds[i]);
    }
}

TEST(names_may_have_1024_bytes)
{
    BEGIN();
    char name[1025];
    memset(name, 'n', 1024);
    name[1024] = '\0';
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    CHECK_OK(dlock_acquire(client, name, 0, &hold, &err), err);
    CHECK_STR(dlock_hold_name(hold), name);
    CHECK_EQ_INT(world_try(name), DLOCK_EBUSY);
    name[1023] = '\0';
    CHECK_EQ_INT(world_try(name), DLOCK_OK);
}

static int no_call;

static dlock_err not_called(void *user)
{
    (void)user;
    no_call++;
    return DLOCK_OK;
}

static dlock_err not_committed(void *user, int64_t token)
{
    (void)token;
    return not_called(user);
}

/* Everything that can be asked of a hold answers @p code. */
static void check_over(dlock_hold *hold, dlock_err code, dlock_state state)
{
    static const dlock_guarded table = {
        .size = sizeof(table), .run = not_called, .commit = not_committed};
    DLOCK_AUTO(dlock_error) err = NULL;
    const char *ticket = NULL;
    no_call = 0;
    CHECK_EQ_INT(dlock_hold_check(hold), code);
    CHECK_EQ_INT(dlock_hold_state(hold), state);
    CHECK_EQ_INT(dlock_hold_remaining_ms(hold), 0);
    CHECK_EQ_INT(dlock_hold_feed(hold), code);
    CHECK_EQ_INT(dlock_hold_notify(hold, 1), code);
    CHECK_ERR(dlock_hold_verify(hold, &err), code, err);
    CHECK_EQ_INT(dlock_error_code(err), code);
    CHECK_ERR(dlock_hold_extend(hold, 60000, &err), code, err);
    CHECK_ERR(dlock_hold_downgrade(hold, &err), code, err);
    CHECK_ERR(dlock_hold_export(hold, &ticket, &err), code, err);
    CHECK_ERR(dlock_hold_guard(hold, &table, NULL, &err), code, err);
    CHECK(no_call == 0 && ticket == NULL);
    CHECK(dlock_error_text(err)[0] != '\0');
}

TEST(a_released_hold_says_so_and_keeps_token_owner_and_name)
{
    BEGIN();
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    int64_t token = dlock_hold_token(hold);
    char owner[80];
    snprintf(owner, sizeof(owner), "%s", dlock_hold_owner(hold));
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    check_over(hold, DLOCK_ENOTHELD, DLOCK_RELEASED);
    CHECK_EQ_INT(dlock_hold_token(hold), token);
    CHECK_STR(dlock_hold_owner(hold), owner);
    CHECK_STR(dlock_hold_name(hold), __func__);
}

TEST(a_released_hold_says_so_while_another_of_its_grant_is_held)
{
    BEGIN();
    CLIENT_WITH_HOLD(client, lock, kept, __func__, NULL);
    DLOCK_AUTO(dlock_hold) gone = world_take(lock);
    CHECK_EQ_INT(dlock_hold_release(gone, NULL), DLOCK_OK);
    check_over(gone, DLOCK_ENOTHELD, DLOCK_RELEASED);
    CHECK_EQ_INT(dlock_hold_check(kept), DLOCK_OK);
}

TEST(all_holds_of_a_lost_grant_say_so_and_keep_the_token)
{
    BEGIN();
    CLIENT_WITH_HOLD(client, lock, one, __func__, NULL);
    DLOCK_AUTO(dlock_hold) two = world_take(lock);
    int64_t token = dlock_hold_token(one);
    CHECK(world_lose(__func__, one));
    check_over(one, DLOCK_ELOST, DLOCK_LOST);
    check_over(two, DLOCK_ELOST, DLOCK_LOST);
    CHECK_EQ_INT(dlock_hold_token(two), token);
    CHECK_STR(dlock_hold_name(two), __func__);
}

TEST(after_the_close_every_hold_is_released)
{
    BEGIN();
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    DLOCK_AUTO(dlock_lock) other = world_lock(client, "after_the_close_lost", NULL);
    DLOCK_AUTO(dlock_hold) lost = world_take(other);
    int64_t token = dlock_hold_token(hold);
    CHECK(world_lose("after_the_close_lost", lost));
    CHECK_EQ_INT(dlock_client_close(client, NULL), DLOCK_OK);
    check_over(hold, DLOCK_ENOTHELD, DLOCK_RELEASED);
    check_over(lost, DLOCK_ENOTHELD, DLOCK_RELEASED);
    CHECK_EQ_INT(dlock_hold_token(hold), token);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ENOTHELD);
    CHECK_EQ_INT(world_try(__func__), DLOCK_OK);
}

TEST(tokens_rise_from_grant_to_grant_over_all_clients_and_through_a_break)
{
    BEGIN();
    int64_t last = 0;
    for (int i = 0; i < 12; i++) {
        CLIENT_WITH_LOCK(client, lock, __func__, NULL);
        for (int j = 0; j < 3; j++) {
            DLOCK_AUTO(dlock_hold) hold = world_take(lock);
            CHECK(dlock_hold_token(hold) > last);
            last = dlock_hold_token(hold);
            if (j == 1)
                CHECK_EQ_INT(world_evict(__func__), DLOCK_OK);
            CHECK_EQ_INT(dlock_hold_release(hold, NULL), j == 1 ? DLOCK_ELOST : DLOCK_OK);
        }
    }
}

TEST(verify_asks_the_server_and_renews_nothing)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(client, lock, hold, __func__, "lock.renew=off");
    int64_t before = dlock_hold_remaining_ms(hold);
    AWAIT(dlock_hold_remaining_ms(hold) < before);
    before = dlock_hold_remaining_ms(hold);
    CHECK_OK(dlock_hold_verify(hold, &err), err);
    CHECK(dlock_hold_remaining_ms(hold) <= before);
    CHECK_EQ_INT(world_evict(__func__), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK); /* what the clock can't know */
    CHECK_ERR(dlock_hold_verify(hold, &err), DLOCK_ELOST, err);
    CHECK_CONTAINS(dlock_error_text(err), __func__);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_ELOST);
}

TEST(a_hold_outlives_its_lock_and_what_is_left_of_its_client)
{
    BEGIN();
    dlock_client *client = world_client(NULL);
    dlock_lock *lock = world_lock(client, __func__, NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    int64_t token = dlock_hold_token(hold);
    dlock_lock_free(lock);
    dlock_err after_lock = dlock_hold_check(hold);
    dlock_client_free(client);
    CHECK_EQ_INT(after_lock, DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_ENOTHELD);
    CHECK_EQ_INT(dlock_hold_token(hold), token);
    CHECK_STR(dlock_hold_name(hold), __func__);
}

typedef struct asked {
    dlock_hold *hold;
    const char *name;
    int64_t ttl_ms;
} asked;

static void *ask_all_the_time(void *arg)
{
    const asked *of = arg;
    dlock_hold *hold = of->hold;
    intptr_t odd = 0;
    while (dlock_hold_check(hold) != DLOCK_ENOTHELD) {
        odd += dlock_hold_token(hold) <= 0;
        odd += strcmp(dlock_hold_name(hold), of->name) != 0 || !dlock_hold_owner(hold)[0];
        odd += dlock_hold_remaining_ms(hold) > of->ttl_ms ||
               dlock_hold_state(hold) == DLOCK_LOST;
        (void)dlock_hold_feed(hold);
    }
    return (void *)odd;
}

static void is_asked_by_many(const char *name, int64_t ttl_ms)
{
    DLOCK_AUTO(dlock_client) client = world_client_of(ttl_ms, "");
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, name, NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    asked of = {hold, name, ttl_ms};
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, ask_all_the_time, &of) == 0);
    int64_t end = now_ms() + patience_ms();
    while (api_stat(client, "renewals") < 3 && api_stat(client, "losses") == 0 &&
           now_ms() < end)
        nap_ms(1);
    dlock_err released = dlock_hold_release(hold, NULL);
    intptr_t odd = 0;
    for (int i = 0; i < 3; i++) {
        void *found;
        pthread_join(threads[i], &found);
        odd += (intptr_t)found;
    }
    if (api_stat(client, "losses") > 0)
        TOO_SLOW();
    CHECK_EQ_INT(released, DLOCK_OK);
    CHECK_EQ_INT(odd, 0);
}

TEST(a_hold_may_be_asked_by_many_threads_while_it_is_renewed_and_released)
{
    BEGIN();
    WITH_LEASE_FROM(200, is_asked_by_many);
}

TEST(no_hold_is_survived)
{
    CHECK_EQ_INT(dlock_hold_check(NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_hold_state(NULL), DLOCK_LOST);
    CHECK_EQ_INT(dlock_hold_remaining_ms(NULL), 0);
    CHECK_EQ_INT(dlock_hold_ttl_ms(NULL), 0);
    CHECK_EQ_INT(dlock_hold_token(NULL), 0);
    CHECK_EQ_INT(dlock_hold_member_token(NULL, 0), 0);
    CHECK_EQ_INT(dlock_hold_feed(NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_hold_notify(NULL, 1), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_hold_release(NULL, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_hold_verify(NULL, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_hold_extend(NULL, 500, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_hold_downgrade(NULL, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_hold_export(NULL, NULL, NULL), DLOCK_EINVAL);
    CHECK_STR(dlock_hold_name(NULL), "");
    CHECK_STR(dlock_hold_owner(NULL), "");
    dlock_hold_free(NULL);
}
