/* How long a grant stays valid: renewal by itself, by feeding, not at all, up to a limit, and by
 * extending. Leases are short here; nothing is asserted of how fast the machine is. */
#include "world.h"

#include <stdio.h>

static void renews_itself(const char *name, int64_t ttl_ms)
{
    DLOCK_AUTO(dlock_client) client = world_client_of(ttl_ms, "");
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, name, NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    int64_t begin = now_ms();
    while (now_ms() - begin < 3 * ttl_ms) {
        CHECK(dlock_hold_remaining_ms(hold) <= ttl_ms); /* never more than was asked */
        nap_ms(1);
    }
    dlock_err held = dlock_hold_check(hold), tried = world_try(name);
    if (api_stat(client, "suspects") > 0 || api_stat(client, "losses") > 0)
        TOO_SLOW();
    CHECK_EQ_INT(held, DLOCK_OK);
    CHECK_EQ_INT(tried, DLOCK_EBUSY);
    CHECK(api_stat(client, "renewals") >= 3);
}

TEST(a_grant_renews_itself_and_stays_valid_far_beyond_its_ttl)
{
    BEGIN();
    WITH_LEASE_FROM(300, renews_itself);
}

TEST(without_renewal_it_is_lost_by_the_clock_and_never_suspect)
{
    BEGIN();
    CLIENT_WITH_LOCK(client, lock, __func__, "lock.ttl_ms=250 lock.renew=off");
    int64_t begin = now_ms();
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    dlock_state state;
    while ((state = dlock_hold_state(hold)) != DLOCK_LOST) {
        CHECK_EQ_INT(state, DLOCK_HELD);
        nap_ms(1);
    }
    CHECK(now_ms() - begin >= 240); /* a margin of ttl/100 + 2 ms may be off */
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_ELOST);
    CHECK_EQ_INT(dlock_hold_remaining_ms(hold), 0);
    CHECK_EQ_INT(api_stat(client, "renewals"), 0);
    AWAIT(world_try(__func__) == DLOCK_OK);
}

TEST(nobody_else_gets_it_before_the_check_of_the_first_says_lost)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client("lock.ttl_ms=150 lock.renew=off");
    DLOCK_AUTO(dlock_client) other = world_client(NULL);
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, __func__, NULL);
    DLOCK_AUTO(dlock_lock) theirs = world_lock(other, __func__, NULL);
    for (int i = 0; i < 3; i++) {
        DLOCK_AUTO(dlock_hold) hold = world_take(lock);
        DLOCK_AUTO(dlock_hold) next = world_take(theirs);
        CHECK_ALWAYS(dlock_hold_check(hold) == DLOCK_ELOST);
        CHECK_ALWAYS(dlock_hold_token(next) > dlock_hold_token(hold));
        CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ELOST);
        CHECK_EQ_INT(dlock_hold_verify(next, NULL),
                     DLOCK_OK); /* untouched by that release */
    }
}

static void lives_while_fed(const char *name, int64_t ttl_ms)
{
    DLOCK_AUTO(dlock_client) client = world_client_of(ttl_ms, "lock.renew=fed");
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, name, NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    int64_t begin = now_ms();
    dlock_err fed = DLOCK_OK;
    while (fed == DLOCK_OK && now_ms() - begin < ttl_ms * 5 / 2) {
        fed = dlock_hold_feed(hold);
        nap_ms(1);
    }
    if (fed != DLOCK_OK)
        TOO_SLOW();
    AWAIT(api_stat(client, "in_flight") == 0); /* that one isn't counted yet */
    int64_t renewals = api_stat(client, "renewals");
    CHECK(renewals >= 2 &&
          renewals <= 8); /* about every third of the ttl, however often fed */
    AWAIT(dlock_hold_check(hold) == DLOCK_ELOST);
    CHECK(api_stat(client, "renewals") <= renewals + 1);
    CHECK_EQ_INT(dlock_hold_feed(hold), DLOCK_ELOST);
}

TEST(a_fed_grant_lives_while_it_is_fed_and_dies_when_it_is_not)
{
    BEGIN();
    WITH_LEASE_FROM(400, lives_while_fed);
}

static void ends_at_max_hold(const char *name, int64_t ttl_ms)
{
    char more[64];
    int64_t most = ttl_ms * 5 / 2;
    snprintf(more, sizeof(more), "lock.max_hold_ms=%lld", (long long)most);
    DLOCK_AUTO(dlock_client) client = world_client_of(ttl_ms, more);
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, name, NULL);
    int64_t begin = now_ms();
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    int64_t granted = now_ms();
    while (dlock_hold_check(hold) == DLOCK_OK) {
        int64_t spent = now_ms() - granted;
        CHECK(dlock_hold_remaining_ms(hold) <= most - spent + 2);
        nap_ms(1);
    }
    int64_t lasted = now_ms() - begin;
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_ELOST);
    /* Too early is what a renewal that came too late makes of it, with a short lease. */
    if (api_stat(client, "renewals") < 2 || lasted < most - 10)
        TOO_SLOW();
}

TEST(at_max_hold_the_grant_ends_lost_however_it_is_renewed)
{
    BEGIN();
    WITH_LEASE_FROM(200, ends_at_max_hold);
}

TEST(extend_sets_the_lease_from_now_on_and_never_shortens_it)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(client, lock, hold, __func__, "lock.ttl_ms=10000 lock.renew=off");
    CHECK_EQ_INT(dlock_hold_ttl_ms(hold), 10000);
    CHECK_OK(dlock_hold_extend(hold, 100, &err), err);
    CHECK(dlock_hold_remaining_ms(hold) > 100);
    CHECK_OK(dlock_hold_extend(hold, 60000, &err), err);
    CHECK_EQ_INT(dlock_hold_ttl_ms(hold), 60000);
    CHECK(dlock_hold_remaining_ms(hold) > 30000);
    CHECK(dlock_hold_remaining_ms(hold) <= 60000);
    int64_t seen = world_seen(lock, "holders.0.remaining_ms");
    CHECK(seen > 30000 && seen <= 60000);
    CHECK_OK(dlock_hold_extend(hold, 20000, &err), err);
    CHECK(dlock_hold_remaining_ms(hold) > 30000);
    CHECK(world_seen(lock, "holders.0.remaining_ms") > 30000);
}

TEST(features_say_that_a_lease_can_be_extended)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_info) features = NULL;
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    CHECK_OK(dlock_client_features(client, &features, &err), err);
    CHECK_STR(dlock_info_get(features, "extend"), "1");
}

TEST(extend_acts_on_the_grant_and_goes_up_to_max_hold)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(client, lock, one, __func__,
                     "lock.ttl_ms=2000 lock.max_hold_ms=30000");
    DLOCK_AUTO(dlock_hold) two = world_take(lock);
    CHECK_OK(dlock_hold_extend(one, 90000, &err), err);
    CHECK(dlock_hold_remaining_ms(two) > 10000);
    CHECK(dlock_hold_remaining_ms(two) <= 30000);
}

TEST(an_extended_grant_is_renewed_with_its_new_ttl)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(client, lock, hold, __func__, "lock.ttl_ms=1000");
    CHECK_OK(dlock_hold_extend(hold, 1500, &err), err);
    int64_t before = api_stat(client, "renewals");
    AWAIT(api_stat(client, "renewals") > before || dlock_hold_check(hold) != DLOCK_OK);
    CHECK(dlock_hold_remaining_ms(hold) > 1000);
}

TEST(extend_refuses_what_no_lease_can_be)
{
    BEGIN();
    static const int64_t bad[] = {INT64_MIN, -1, 0, 99, INT64_C(2592000001), INT64_MAX};
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        DLOCK_AUTO(dlock_error) err = NULL;
        CHECK_ERR(dlock_hold_extend(hold, bad[i], &err), DLOCK_EINVAL, err);
        CHECK_CONTAINS(dlock_error_text(err), "100 ms");
    }
    CHECK_EQ_INT(dlock_hold_extend(hold, INT64_C(2592000000), NULL), DLOCK_OK);
    CHECK(dlock_hold_remaining_ms(hold) > INT64_C(2500000000));
}

TEST(the_server_is_told_of_the_loss_by_time_so_that_others_need_not_wait)
{
    BEGIN();
    /* max_hold ends the validity long before the server would forget the lease. */
    CLIENT_WITH_HOLD(client, lock, hold, __func__,
                     "lock.ttl_ms=300 lock.max_hold_ms=300");
    AWAIT(dlock_hold_check(hold) == DLOCK_ELOST);
    AWAIT(world_try(__func__) == DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ELOST);
}
