/* Conditions on etcd: what lies there, what it hangs on, and that nobody else takes it for a lock. What a wait
 * promises is in tests/api/test_condition.c. */
#include "world.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Sooner than anybody looks by himself. */
enum { TOLD_MS = 30000 };

#define COND(name, client, text)                                                         \
    DLOCK_AUTO(dlock_cond) name = NULL;                                                  \
    CHECK_EQ_INT(dlock_cond_new(client, text, NULL, &(name), NULL), DLOCK_OK)

/* Waits without a lock, in the line when it returns; NULL after a failed check. */
static dlock_op *stand(dlock_cond *cond, dlock_lock *line, int64_t waiters)
{
    dlock_op *op = dlock_cond_wait_start(cond, NULL, DLOCK_FOREVER);
    bool stands = AWAITED(world_seen(line, "waiters") == waiters);
    return harness_check(__FILE__, __LINE__, stands, "it stands in the line") ? op : NULL;
}

static bool is_over(dlock_op *op, dlock_err code)
{
    return api_ends(op, TOLD_MS, code);
}

/* The prefix of a condition's keys; until the next call. */
static const char *prefix_of(const char *name)
{
    static char prefix[128];
    snprintf(prefix, sizeof(prefix), "dlock-conditions/%s", name);
    return prefix;
}

static int keys_beginning(const char *prefix)
{
    int count = 0;
    for (const char *at = etcd_server_keys(&world_server, prefix); *at; at++)
        count += *at == ' ';
    return count;
}

static int keys_of(const char *name)
{
    return keys_beginning(prefix_of(name));
}

TEST(nothing_is_left_of_who_has_waited_and_of_signals)
{
    BEGIN();
    CLIENT(one, "");
    CLIENT(two, "");
    COND(waits, one, "cond/left");
    COND(wakes, two, "cond/left");
    LOCK(line, two, DLOCK_MUTEX, "cond/left", NULL);
    CHECK_EQ_INT(api_signal(wakes, 1), 0);
    CHECK_EQ_INT(keys_of("cond/left"), 0); /* a signal that nobody waits for */
    DLOCK_AUTO(dlock_op) first = stand(waits, line, 1);
    DLOCK_AUTO(dlock_op) second = stand(waits, line, 2);
    CHECK_EQ_INT(keys_of("cond/left"), 2);
    CHECK_EQ_INT(api_signal(wakes, 1), 1);
    CHECK(is_over(first, DLOCK_OK));
    AWAIT(keys_of("cond/left") == 1);
    CHECK_EQ_INT(dlock_op_result(second), DLOCK_EPENDING);
    CHECK_EQ_INT(api_signal(wakes, 5), 1);
    CHECK(is_over(second, DLOCK_OK));
    AWAIT(keys_of("cond/left") == 0);
}

/* Neither to us, nor to who takes the oldest key behind "<name>/" for its holder. */
TEST(a_condition_is_no_lock_to_anybody)
{
    BEGIN();
    CLIENT(one, "");
    COND(cond, one, "cond/apart/filled");
    LOCK(line, one, DLOCK_MUTEX, "cond/apart/filled", NULL);
    DLOCK_AUTO(dlock_op) op = stand(cond, line, 1);
    CHECK_EQ_INT(keys_beginning("cond/apart"), 0);
    CHECK_STR(api_seen(line, "kind"), "condition");
    CHECK_EQ_INT(world_seen(line, "held"), 0);
    DLOCK_AUTO(dlock_info) locks = NULL;
    CHECK_EQ_INT(dlock_client_list(one, "", 1000, &locks, NULL), DLOCK_OK);
    for (size_t i = 0; i < dlock_info_count(locks); i++)
        CHECK(!strstr(dlock_info_text(locks, i), "filled"));
    LOCK(lock, one, DLOCK_MUTEX, "cond/apart", NULL);
    HOLD(outer, lock);
    HOLD(held, line); /* of the very name */
    CHECK(outer && held);
    CHECK_STR(api_seen(line, "kind"), "mutex");
    dlock_op_cancel(op);
    CHECK(is_over(op, DLOCK_ECANCELED));
}

/* The signal is on nobody's lease who may go meanwhile. */
TEST(a_signal_outlives_who_gave_it_and_whom_it_was_for)
{
    BEGIN();
    CLIENT(one, "");
    CLIENT(two, "");
    COND(dies, one, "cond/outlives");
    COND(next, two, "cond/outlives");
    LOCK(line, two, DLOCK_MUTEX, "cond/outlives", NULL);
    LOCK(lock, one, DLOCK_MUTEX, "cond/outlives/lock", NULL);
    LOCK(other, two, DLOCK_MUTEX, "cond/outlives/lock", NULL);
    HOLD(hold, lock);
    DLOCK_AUTO(dlock_op) first = dlock_cond_wait_start(dies, hold, DLOCK_FOREVER);
    AWAIT(world_seen(line, "waiters") == 1);
    uint64_t lease = world_lease(prefix_of("cond/outlives"), 0);
    DLOCK_AUTO(dlock_op) second = stand(next, line, 2);
    HOLD(held, other); /* which the first has to wait for when it is signalled */
    {
        CLIENT(three, "");
        COND(wakes, three, "cond/outlives");
        CHECK_EQ_INT(api_signal(wakes, 1), 1);
    }
    AWAIT(world_seen(other, "waiters") == 1);
    CHECK_EQ_INT(dlock_op_result(second), DLOCK_EPENDING);
    CHECK_CONTAINS(etcd_server_keys(&world_server, prefix_of("cond/outlives")),
                   "!signals");
    CHECK(lease != 0 && world_revoke(lease));
    CHECK(is_over(second, DLOCK_OK));
    AWAIT(keys_of("cond/outlives") == 0);
    dlock_op_cancel(first);
}

TEST(who_loses_its_place_wakes_up)
{
    BEGIN();
    CLIENT(one, "");
    CLIENT(two, "");
    COND(cond, one, "cond/loses");
    LOCK(line, two, DLOCK_MUTEX, "cond/loses", NULL);
    DLOCK_AUTO(dlock_op) op = stand(cond, line, 1);
    CHECK(world_revoke(world_lease(prefix_of("cond/loses"), 0)));
    CHECK(is_over(op, DLOCK_OK));
    CHECK_EQ_INT(api_stat(one, "spurious_wakes"), 1);
}

/* More than a server takes in one step. Each client watches 64 keys at most. */
TEST(a_broadcast_goes_to_as_many_as_there_are)
{
    enum { CLIENTS = 3, EACH = 45 };
    BEGIN();
    dlock_client *clients[CLIENTS];
    dlock_cond *conds[CLIENTS];
    dlock_op *ops[CLIENTS * EACH];
    CLIENT(last, "");
    LOCK(line, last, DLOCK_MUTEX, "cond/many", NULL);
    COND(wakes, last, "cond/many");
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = world_client("");
        CHECK_EQ_INT(dlock_cond_new(clients[i], "cond/many", NULL, &conds[i], NULL),
                     DLOCK_OK);
        for (int k = 0; k < EACH; k++)
            ops[i * EACH + k] = dlock_cond_wait_start(conds[i], NULL, DLOCK_FOREVER);
    }
    AWAIT(world_seen(line, "waiters") == (int64_t)CLIENTS * EACH);
    CHECK_EQ_INT(api_signal(wakes, INT64_MAX), (int64_t)CLIENTS * EACH);
    for (int i = 0; i < CLIENTS * EACH; i++) {
        CHECK(is_over(ops[i], DLOCK_OK));
        dlock_op_free(ops[i]);
    }
    AWAIT(keys_of("cond/many") == 0);
    for (int i = 0; i < CLIENTS; i++) {
        dlock_cond_free(conds[i]);
        dlock_client_free(clients[i]);
    }
}

TEST(what_is_no_count_of_signals_is_refused)
{
    BEGIN();
    CLIENT(one, "");
    COND(cond, one, "cond/other");
    LOCK(line, one, DLOCK_MUTEX, "cond/other", NULL);
    DLOCK_AUTO(dlock_op) op = stand(cond, line, 1);
    /* "dlock-conditions/cond/other\0signals" = "x" */
    const char *said = etcd_server_say(
        &world_server, "/v3/kv/put", "{\"key\":\"%s\",\"value\":\"eA==\"}",
        "ZGxvY2stY29uZGl0aW9ucy9jb25kL290aGVyAHNpZ25hbHM=");
    CHECK_CONTAINS(said, "revision");
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK_ERR(dlock_cond_signal(cond, 1, NULL, NULL, &err), DLOCK_EPROTO, err);
    CHECK_CONTAINS(dlock_error_text(err), "signals");
    CHECK(etcd_server_delete(&world_server, prefix_of("cond/other")));
    CHECK(is_over(op, DLOCK_OK)); /* its place is gone */
}
