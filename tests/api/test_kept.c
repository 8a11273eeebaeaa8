/* Kept locks (lock.keep_ms) on each service that has them: local grants, who asks for one, and their tokens. */
#include "harness/kept.h"
#include "world.h"

#include <string.h>

#define KEEPS "lock.keep_ms=600000"

static bool is_kept(dlock_client *client, dlock_lock *lock)
{
    return kept_begins(client, lock, 20000, 0);
}

#define KEEPER(keeper, lock, name)                                                       \
    BEGIN();                                                                             \
    DLOCK_AUTO(dlock_client) keeper = world_client(NULL);                                \
    NEED(keeper, "keep", "locks can\'t be kept here");                                   \
    DLOCK_AUTO(dlock_lock) lock = world_lock(keeper, name, KEEPS);                       \
    CHECK(is_kept(keeper, lock))

TEST(a_kept_lock_is_taken_without_a_request)
{
    KEEPER(keeper, lock, "kept-local");
    int64_t local = api_stat(keeper, "local_grants"), last = 0;
    bool fences = api_has(keeper, "keep_tokens");
    for (int i = 0; i < 50; i++) {
        int64_t token = kept_pair(lock, 0);
        CHECK(fences ? token > last : token == 0);
        last = token;
    }
    CHECK_EQ_INT(api_stat(keeper, "local_grants") - local, 50);
    DLOCK_AUTO(dlock_client) other = world_client(NULL);
    DLOCK_AUTO(dlock_lock) same = world_lock(other, "kept-local", NULL);
    CHECK_STR(api_seen(same, "held"), "1");
    CHECK(api_seen(lock, "kept_ms")[0]);
    CHECK_OK(dlock_client_close(keeper, NULL), NULL);
    CHECK_STR(api_seen(same, "held"), "0"); /* nothing is kept after that */
}

TEST(who_wants_an_idle_one_gets_it_though_it_would_be_kept_for_long)
{
    KEEPER(keeper, lock, "kept-idle");
    DLOCK_AUTO(dlock_client) other = world_client(NULL);
    DLOCK_AUTO(dlock_lock) same = world_lock(other, "kept-idle", NULL);
    for (int i = 1; i <= 5; i++) {
        CHECK(is_kept(keeper, lock));
        int64_t asked = api_stat(keeper, "kept_asked");
        CHECK(kept_pair(same, 20000) >= 0);
        CHECK_EQ_INT(api_stat(keeper, "kept_asked") - asked, 1);
    }
    CHECK_EQ_INT(api_stat(keeper, "losses"), 0);
}

TEST(who_only_tries_an_idle_one_gets_it_soon)
{
    KEEPER(keeper, lock, "kept-tried");
    DLOCK_AUTO(dlock_client) other = world_client(NULL);
    DLOCK_AUTO(dlock_lock) same = world_lock(other, "kept-tried", NULL);
    dlock_hold *hold = NULL;
    CHECK(AWAITED(dlock_lock_acquire(same, 0, &hold, NULL) == DLOCK_OK));
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    dlock_hold_free(hold);
}

TEST(one_that_is_asked_for_while_it_is_used_goes_back_with_its_release)
{
    KEEPER(keeper, lock, "kept-used");
    DLOCK_AUTO(dlock_client) other = world_client(NULL);
    DLOCK_AUTO(dlock_lock) same = world_lock(other, "kept-used", NULL);
    dlock_hold *hold = NULL;
    CHECK_OK(dlock_lock_acquire(lock, 0, &hold, NULL), NULL);
    dlock_op *op = dlock_lock_acquire_start(same, 60000);
    CHECK_EQ_INT(dlock_op_wait(op, SHORT_MS), DLOCK_EPENDING);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    CHECK(api_ends(op, 20000, DLOCK_OK));
    dlock_hold *theirs = dlock_op_take_hold(op);
    CHECK_OK(dlock_hold_release(theirs, NULL), NULL);
    dlock_hold_free(theirs);
    dlock_hold_free(hold);
    dlock_op_free(op);
}

TEST(who_asks_for_it_back_ends_the_keeping)
{
    KEEPER(keeper, lock, "kept-revoked");
    DLOCK_AUTO(dlock_client) other = world_client(NULL);
    NEED(other, "revoke", "locks can\'t be asked for here");
    DLOCK_AUTO(dlock_lock) same = world_lock(other, "kept-revoked", NULL);
    CHECK_OK(dlock_lock_revoke(same, NULL), NULL);
    CHECK(AWAITED(strcmp(api_seen(same, "held"), "0") == 0));
    CHECK_STR(api_seen(lock, "kept_ms"), "");
}

TEST(one_that_is_broken_is_nobodys_loss)
{
    KEEPER(keeper, lock, "kept-broken");
    DLOCK_AUTO(dlock_client) other = world_client(NULL);
    DLOCK_AUTO(dlock_lock) same = world_lock(other, "kept-broken", NULL);
    int64_t back = api_stat(keeper, "kept_lost") + api_stat(keeper, "kept_asked");
    CHECK_OK(dlock_lock_break(same, api_seen(same, "holders.0.owner"), NULL), NULL);
    CHECK(kept_pair(same, 20000) >= 0);
    CHECK(AWAITED(api_stat(keeper, "kept_lost") + api_stat(keeper, "kept_asked") > back));
    CHECK_EQ_INT(api_stat(keeper, "losses"), 0);
    CHECK(is_kept(keeper, lock));
}

/* A number that two owners share would let the one pass for the other. */
TEST(whoever_needs_tokens_is_told_where_kept_locks_have_none)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client("client.require=fencing");
    NEED(client, "keep", "locks can\'t be kept here");
    dlock_lock *lock = NULL;
    dlock_error *err = NULL;
    DLOCK_AUTO(dlock_conf) conf = api_conf(KEEPS);
    dlock_err code =
        dlock_lock_new(client, DLOCK_MUTEX, "kept-fenced", conf, &lock, &err);
    CHECK_EQ_INT(code, api_has(client, "keep_tokens") ? DLOCK_OK : DLOCK_ENOTSUP);
    if (code != DLOCK_OK)
        CHECK_CONTAINS(dlock_error_text(err), "fencing token");
    dlock_error_free(err);
    dlock_lock_free(lock);
}

/* ---- several threads of two clients ---- */

#define THREADS 3
#define ROUNDS  60

TEST(threads_of_two_clients_that_keep_it_have_it_in_turn)
{
    KEEPER(keeper, lock, "kept-crowd");
    DLOCK_AUTO(dlock_client) second = world_client(NULL);
    DLOCK_AUTO(dlock_client) other = world_client(NULL);
    DLOCK_AUTO(dlock_lock) theirs = world_lock(second, "kept-crowd", KEEPS);
    DLOCK_AUTO(dlock_lock) plain = world_lock(other, "kept-crowd", NULL);
    dlock_lock *locks[3] = {lock, theirs, plain};
    kept_crowd_seen seen;
    CHECK(kept_crowd(locks, THREADS, ROUNDS, &seen));
    CHECK_EQ_INT(seen.overlaps, 0);
    CHECK(api_stat(keeper, "local_grants") > 0 && api_stat(second, "local_grants") > 0);
}
