/* Leader election: acquiring campaigns, the hold is the term, releasing resigns, and what the
 * elected one publishes can be read by all. */
#include "world.h"

#include <stdio.h>
#include <string.h>

static dlock_lock *candidate(dlock_client *client, const char *name, const char *data)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    dlock_lock *lock = NULL;
    (void)harness_err(__FILE__, __LINE__, "what to publish",
                      dlock_conf_set(conf, "lock.data", data, &err), DLOCK_OK, err);
    (void)harness_err(__FILE__, __LINE__, "a candidate",
                      dlock_lock_new(client, DLOCK_ELECTION, name, conf, &lock, &err),
                      DLOCK_OK, err);
    return lock;
}

TEST(one_is_elected_and_all_can_read_who)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    TWO_CLIENTS(one, other);
    NEED(one, "kinds.election", "this layout has no elections");
    DLOCK_AUTO(dlock_lock) first = candidate(one, __func__, "node-1:8080");
    DLOCK_AUTO(dlock_lock) second = candidate(other, __func__, "node-2:8080");
    CHECK_STR(api_seen(second, "held"), "0");
    CHECK_STR(api_seen(second, "kind"), "election");
    DLOCK_AUTO(dlock_hold) term = world_take(first);
    CHECK(dlock_hold_token(term) > 0);
    CHECK_STR(api_seen(second, "held"), "1");
    CHECK_STR(api_seen(second, "kind"), "election");
    CHECK_STR(api_seen(second, "holders.0.data"), "node-1:8080");
    CHECK_STR(api_seen(second, "holders.0.owner"), dlock_hold_owner(term));
    DLOCK_AUTO(dlock_hold) none = NULL;
    CHECK_ERR(dlock_lock_acquire(second, 0, &none, &err), DLOCK_EBUSY, err);
    WAITER(campaign);
    world_wait_start(&campaign, other, second, DLOCK_FOREVER);
    CHECK_OK(dlock_hold_release(term, &err), err); /* resigns */
    CHECK_EQ_INT(world_wait_end(&campaign), DLOCK_OK);
    CHECK(dlock_hold_token(campaign.hold) > dlock_hold_token(term));
    CHECK_STR(api_seen(first, "holders.0.data"), "node-2:8080");
    CHECK_OK(dlock_hold_release(campaign.hold, &err), err);
    CHECK_STR(api_seen(first, "held"), "0");
    CHECK_STR(api_seen(first, "holders.0.data"), "");
}

TEST(candidates_of_one_client_have_their_own_data_and_exclude_each_other)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    NEED(client, "kinds.election", "this layout has no elections");
    DLOCK_AUTO(dlock_lock) first = candidate(client, __func__, "a");
    DLOCK_AUTO(dlock_lock) second = candidate(client, __func__, "b");
    DLOCK_AUTO(dlock_hold) term = world_take(first);
    DLOCK_AUTO(dlock_hold) none = NULL;
    CHECK_ERR(dlock_lock_acquire(second, 0, &none, &err), DLOCK_EBUSY, err);
    CHECK_ERR(dlock_lock_acquire(first, 0, &none, &err), DLOCK_EBUSY,
              err); /* no re-entry */
    CHECK_STR(api_seen(second, "holders.0.data"), "a");
    CHECK_OK(dlock_hold_release(term, &err), err);
    dlock_hold *next = world_take(second);
    CHECK_STR(api_seen(first, "holders.0.data"), "b");
    dlock_hold_free(next);
}

TEST(what_is_published_may_have_1024_bytes_or_none)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    NEED(client, "kinds.election", "this layout has no elections");
    char longest[1025];
    memset(longest, 'd', 1024);
    longest[1024] = '\0';
    const char *const texts[] = {longest, "", "x y\"{}"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        DLOCK_AUTO(dlock_lock) lock = candidate(client, __func__, texts[i]);
        DLOCK_AUTO(dlock_hold) term = world_take(lock);
        CHECK_STR(api_seen(lock, "holders.0.data"), texts[i]);
        CHECK_EQ_INT(dlock_hold_release(term, NULL), DLOCK_OK);
    }
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    char more[1026];
    memset(more, 'd', 1025);
    more[1025] = '\0';
    CHECK_ERR(dlock_conf_set(conf, "lock.data", more, &err), DLOCK_EINVAL, err);
}

TEST(a_term_that_is_broken_is_lost_and_the_next_token_is_larger)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    TWO_CLIENTS(one, other);
    NEED(one, "kinds.election", "this layout has no elections");
    DLOCK_AUTO(dlock_lock) first = candidate(one, __func__, "one");
    DLOCK_AUTO(dlock_lock) second = candidate(other, __func__, "other");
    DLOCK_AUTO(dlock_hold) term = world_take(first);
    CHECK_OK(dlock_lock_break(second, dlock_hold_owner(term), &err), err);
    CHECK_ERR(dlock_hold_verify(term, &err), DLOCK_ELOST, err);
    DLOCK_AUTO(dlock_hold) next = world_take(second);
    CHECK(dlock_hold_token(next) > dlock_hold_token(term));
    CHECK_STR(api_seen(first, "holders.0.data"), "other");
}

TEST(a_lock_and_an_election_dont_share_a_name)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    TWO_CLIENTS(one, other);
    NEED(one, "kinds.election", "this layout has no elections");
    DLOCK_AUTO(dlock_lock) lock = world_lock(one, __func__, NULL);
    DLOCK_AUTO(dlock_lock) election = candidate(other, __func__, "x");
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    DLOCK_AUTO(dlock_hold) term = NULL;
    CHECK_ERR(dlock_lock_acquire(election, 0, &term, &err), DLOCK_ECONFLICT, err);
    CHECK_OK(dlock_hold_release(hold, &err), err);
    CHECK_OK(dlock_lock_acquire(election, 0, &term, &err), err);
}

TEST(a_candidate_has_no_thread)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    NEED(client, "kinds.election", "this layout has no elections");
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    DLOCK_AUTO(dlock_lock) none = NULL;
    CHECK_OK(dlock_conf_set(conf, "lock.owner", "thread", &err), err);
    CHECK_ERR(dlock_lock_new(client, DLOCK_ELECTION, __func__, conf, &none, &err),
              DLOCK_EINVAL, err);
}

TEST(a_layout_without_elections_says_so)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    if (api_has(client, "kinds.election"))
        LEAVE_OUT("this layout has elections");
    DLOCK_AUTO(dlock_lock) none = NULL;
    CHECK_ERR(dlock_lock_new(client, DLOCK_ELECTION, __func__, NULL, &none, &err),
              DLOCK_ENOTSUP, err);
}
