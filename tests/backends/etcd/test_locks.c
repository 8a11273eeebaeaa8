/* The etcd backend through the public API, on a real server: keys, lines, kinds, leases. */
#include "harness/deaf.h"
#include "proxy/proxy.h"
#include "queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TEST(a_mutex_that_is_free_has_the_key_of_gos_package_and_its_create_revision_as_token)
{
    BEGIN();
    CLIENT(client, "");
    LOCK(lock, client, DLOCK_MUTEX, "locks/key", NULL);
    HOLD(hold, lock);
    char key[64];
    snprintf(key, sizeof(key), "locks/key/%llx ",
             (unsigned long long)world_lease("locks/key/", 0));
    CHECK_STR(etcd_server_keys(&world_server, "locks/key"), key);
    CHECK_EQ_INT(world_seen(lock, "holders.0.token"), dlock_hold_token(hold));
    CHECK_STR(api_seen(lock, "holders.0.owner"), dlock_hold_owner(hold));
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    CHECK_STR(etcd_server_keys(&world_server, "locks/key"), "");
}

TEST(what_is_asked_and_answered_is_counted)
{
    BEGIN();
    CLIENT(client, "");
    LOCK(lock, client, DLOCK_MUTEX, "locks/counted", NULL);
    HOLD(hold, lock);
    int64_t sent = api_stat(client, "bytes_sent");
    int64_t received = api_stat(client, "bytes_received");
    CHECK(sent > 0 && received > 0);
    CHECK_EQ_INT(dlock_hold_verify(hold, NULL), DLOCK_OK);
    CHECK(api_stat(client, "bytes_sent") > sent);
    CHECK(api_stat(client, "bytes_received") > received);
}

TEST(closing_leaves_neither_key_nor_lease)
{
    BEGIN();
    dlock_client *client = world_client("&lock.ttl_ms=600000");
    dlock_lock *lock = api_lock(client, DLOCK_MUTEX, "locks/close", NULL);
    dlock_hold *hold = world_take(lock, PATIENCE_MS, NULL);
    CHECK(hold);
    char lease[32];
    snprintf(lease, sizeof(lease), "\"%lld\"", (long long)world_lease("locks/close/", 0));
    CHECK_CONTAINS(etcd_server_say(&world_server, "/v3/lease/leases", "{}"), lease);
    CHECK_EQ_INT(dlock_client_close(client, NULL), DLOCK_OK);
    dlock_hold_free(hold);
    dlock_lock_free(lock);
    dlock_client_free(client);
    CHECK_STR(etcd_server_keys(&world_server, "locks/close"), "");
    AWAIT(!strstr(etcd_server_say(&world_server, "/v3/lease/leases", "{}"), lease));
}

TEST(a_waiter_whose_lease_ended_is_passed_over_and_stands_behind)
{
    BEGIN();
    CHECK(queue_passes_over_the_dead(__func__));
}

TEST(a_waiter_whose_watch_is_cut_off_without_a_word_is_served_sooner_than_it_polls)
{
    enum { POLL_MS = 60000 };
    BEGIN();
    CLIENT(client, "");
    LOCK(lock, client, DLOCK_MUTEX, "locks/deaf", NULL);
    HOLD(hold, lock);
    const deaf_sockets others = deaf_look(world_server.port);
    DLOCK_AUTO(dlock_client) other = NULL;
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    char uri[64];
    snprintf(uri, sizeof(uri), "etcd://127.0.0.1:%d", world_server.port);
    CHECK_EQ_INT(dlock_conf_set_int(conf, "client.poll_ms", POLL_MS, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_conf_set_int(conf, "lock.ttl_ms", 600000, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_client_open(uri, conf, &other, NULL), DLOCK_OK);
    LOCK(wanted, other, DLOCK_MUTEX, "locks/deaf", NULL);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(wanted, DLOCK_FOREVER);
    AWAIT(api_stat(other, "waits") > 0); /* it was told that somebody else holds it */
    CHECK(deaf_make(world_server.port, &others) > 0);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(op, POLL_MS / 2), DLOCK_OK);
    DLOCK_AUTO(dlock_hold) mine = dlock_op_take_hold(op);
    CHECK_EQ_INT(dlock_hold_check(mine), DLOCK_OK);
}

/* ---- losing ---- */

TEST(a_lease_that_is_revoked_loses_its_locks_and_the_next_ones_have_another)
{
    BEGIN();
    CLIENT(client, "&lock.ttl_ms=9000");
    LOCK(lock, client, DLOCK_MUTEX, "locks/revoked", NULL);
    HOLD(hold, lock);
    uint64_t lease = world_lease("locks/revoked/", 0);
    int64_t token = dlock_hold_token(hold);
    CHECK(world_revoke(lease));
    AWAIT(dlock_hold_check(hold) == DLOCK_ELOST); /* by the next renewal */
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ELOST);
    HOLD(again, lock);
    CHECK(dlock_hold_token(again) > token);
    CHECK(world_lease("locks/revoked/", lease) != 0);
    CHECK_EQ_INT(dlock_hold_verify(again, NULL), DLOCK_OK);
}

TEST(a_key_that_somebody_binds_to_another_lease_isnt_ours_any_more)
{
    BEGIN();
    CLIENT(client, "");
    LOCK(lock, client, DLOCK_MUTEX, "locks/foreign", NULL);
    HOLD(hold, lock);
    char key[64];
    snprintf(key, sizeof(key), "locks/foreign/%llx",
             (unsigned long long)world_lease("locks/foreign/", 0));
    CHECK(etcd_server_put(&world_server, key, "mine")); /* to none */
    CHECK_EQ_INT(dlock_hold_verify(hold, NULL), DLOCK_ELOST);
    CHECK(etcd_server_delete(&world_server, "locks/foreign/"));
}

/* Deletes the only key below "locks/remade/" and puts it again, as it was: as a join that comes late
 * does when somebody has deleted what it made before. */
static bool remake(void)
{
    static const char range[] = "{\"key\":\"bG9ja3MvcmVtYWRlLw==\","
                                "\"range_end\":\"bG9ja3MvcmVtYWRlMA==\"}";
    char key[256], value[1024], lease[32];
    const char *said = etcd_server_say(&world_server, "/v3/kv/range", "%s", range);
    world_field(said, "key", key, sizeof(key));
    world_field(said, "value", value, sizeof(value));
    world_field(said, "lease", lease, sizeof(lease));
    return key[0] && lease[0] && etcd_server_delete(&world_server, "locks/remade/") &&
           strstr(etcd_server_say(&world_server, "/v3/kv/put",
                                  "{\"key\":\"%s\",\"value\":\"%s\",\"lease\":\"%s\"}",
                                  key, value, lease),
                  "revision");
}

TEST(a_key_that_is_made_anew_is_another_grant)
{
    BEGIN();
    CLIENT(client, "");
    LOCK(lock, client, DLOCK_MUTEX, "locks/remade", NULL);
    {
        HOLD(hold, lock);
        CHECK(remake());
        CHECK_EQ_INT(dlock_hold_verify(hold, NULL), DLOCK_ELOST);
    }
    CHECK(etcd_server_delete(&world_server, "locks/remade/"));
    CLIENT(renewing, "&lock.ttl_ms=9000");
    LOCK(same, renewing, DLOCK_MUTEX, "locks/remade", NULL);
    HOLD(again, same);
    CHECK(remake());
    AWAIT(dlock_hold_check(again) == DLOCK_ELOST); /* by the next renewal */
    CHECK(etcd_server_delete(&world_server, "locks/remade/"));
}

/* A join whose answer was lost was asked twice, and may be done once more when its key is gone. */
TEST(what_a_late_join_makes_anew_is_deleted_with_the_release)
{
    BEGIN();
    const char *why = "";
    char target[32];
    snprintf(target, sizeof(target), "127.0.0.1:%d", world_server.port);
    proxy *way = proxy_new(1);
    proxy_link *link = proxy_listen(way, NULL, 0, target, "grpc", &why);
    CHECK(link);
    const proxy_plan cut = {.deed = PROXY_CUT_REPLY, .number = 1, .command = "put"};
    CHECK(proxy_add_plan(link, cut));
    dlock_client *client = world_client_at(proxy_port(link), "");
    dlock_lock *lock = api_lock(client, DLOCK_MUTEX, "locks/remade", NULL);
    dlock_hold *hold = world_take(lock, PATIENCE_MS, NULL);
    CHECK_EQ_INT(proxy_get_stats(link).deeds, 1);
    CHECK(remake());
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ELOST);
    CHECK_EQ_INT(world_keys("locks/remade/"), 0);
    DLOCK_AUTO(dlock_info) list = NULL;
    CHECK_EQ_INT(world_keys("locks/remade"), 1); /* a fence, which is no lock */
    CHECK_EQ_INT(dlock_client_list(client, "locks/remade", 10, &list, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_info_count(list), 0);
    dlock_hold_free(hold);
    dlock_lock_free(lock);
    dlock_client_free(client);
    proxy_free(way);
}

TEST(a_broken_lock_is_lost_and_the_next_owners_token_is_larger)
{
    BEGIN();
    CLIENT(client, "");
    CLIENT(operator, "");
    LOCK(lock, client, DLOCK_MUTEX, "locks/broken", NULL);
    LOCK(same, operator, DLOCK_MUTEX, "locks/broken", NULL);
    HOLD(hold, lock);
    CHECK_EQ_INT(dlock_lock_break(same, "nobody", NULL), DLOCK_ENOTHELD);
    CHECK_EQ_INT(dlock_lock_break(same, dlock_hold_owner(hold), NULL), DLOCK_OK);
    HOLD(next, same);
    CHECK(dlock_hold_token(next) > dlock_hold_token(hold));
    CHECK_EQ_INT(dlock_hold_verify(hold, NULL), DLOCK_ELOST);
    CHECK_EQ_INT(dlock_hold_verify(next, NULL), DLOCK_OK);
}

/* ---- waiting ---- */

TEST(a_watch_of_what_has_been_compacted_is_made_up_for_by_a_look)
{
    BEGIN();
    const char *why = "";
    char target[32];
    snprintf(target, sizeof(target), "127.0.0.1:%d", world_server.port);
    proxy *way = proxy_new(1);
    proxy_link *link = proxy_listen(way, NULL, 0, target, "grpc", &why);
    CHECK(link);
    const proxy_plan late = {
        .deed = PROXY_DELAY_REQUEST, .number = 1, .command = "Watch", .delay_ms = 1000};
    CHECK(proxy_add_plan(link, late));
    CLIENT(holder, "");
    dlock_client *waiter = world_client_at(proxy_port(link), "");
    LOCK(lock, holder, DLOCK_MUTEX, "locks/compacted", NULL);
    dlock_lock *wanted = api_lock(waiter, DLOCK_MUTEX, "locks/compacted", NULL);
    HOLD(hold, lock);
    dlock_op *op = dlock_lock_acquire_start(wanted, DLOCK_FOREVER);
    AWAIT(world_seen(lock, "waiters") == 1);
    /* While the watch is on its way, what it wants to begin with goes. */
    for (int i = 0; i < 3; i++)
        CHECK(etcd_server_put(&world_server, "other/key", "x"));
    const char *said =
        etcd_server_say(&world_server, "/v3/kv/range", "{\"key\":\"b3RoZXI=\"}");
    long long revision = atoll(strstr(said, "\"revision\":\"") + 12);
    CHECK_CONTAINS(etcd_server_say(&world_server, "/v3/kv/compaction",
                                   "{\"revision\":\"%lld\"}", revision),
                   "revision");
    AWAIT(proxy_get_stats(link).deeds == 1);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(op, PATIENCE_MS / 2), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_OK);
    dlock_op_free(op);
    dlock_lock_free(wanted);
    dlock_client_free(waiter);
    proxy_free(way);
}

TEST(a_dead_member_in_the_uri_is_passed_over)
{
    BEGIN();
    char uri[128];
    dlock_err code;
    snprintf(uri, sizeof(uri), "etcd://127.0.0.1:1,127.0.0.1:%d", world_server.port);
    for (int i = 0; i < 8; i++) { /* it begins anywhere */
        CHECK_STR(world_refusal(uri, &code), "");
        CHECK_EQ_INT(code, DLOCK_OK);
    }
}

TEST(a_hold_outlives_a_restart_of_the_server)
{
    BEGIN();
    CLIENT(client, "");
    LOCK(lock, client, DLOCK_MUTEX, "locks/restart", NULL);
    HOLD(hold, lock);
    CHECK(etcd_server_restart(&world_server));
    AWAIT(dlock_hold_verify(hold, NULL) == DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
    AWAIT(world_seen(lock, "holders.0.token") == dlock_hold_token(hold));
}

/* ---- kinds ---- */

TEST(names_that_go_on_behind_a_slash_are_other_locks)
{
    BEGIN();
    CLIENT(client, "");
    LOCK(inner, client, DLOCK_MUTEX, "nested/a/b", NULL);
    LOCK(outer, client, DLOCK_MUTEX, "nested/a", NULL);
    HOLD(in, inner);
    HOLD(out, outer);
    CHECK(in && out);
    LOCK(write, client, DLOCK_WRITE, "nested", NULL);
    HOLD(over, write);
    CHECK(over);
    DLOCK_AUTO(dlock_info) list = NULL;
    CHECK_EQ_INT(dlock_client_list(client, "nested", 10, &list, NULL), DLOCK_OK);
    CHECK(!dlock_info_get(list, "locks.3.name"));
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"\"nested\"", "\"nested/a\"",
                                            "\"nested/a/b\""};
        const dlock_hold *const holds[] = {over, out, in};
        CHECK_CONTAINS(dlock_info_json(list), names[i]);
        CHECK_CONTAINS(dlock_info_json(list), dlock_hold_owner(holds[i]));
    }
}

/* In the order of their keys, which isn't that of their coming; and more than are asked for at once. */
TEST(a_list_says_of_each_lock_who_holds_it_and_not_who_waits)
{
    enum { LOCKS = 70 };
    BEGIN();
    CLIENT(one, "&client.name=holder");
    CLIENT(two, "&client.name=waiter");
    dlock_hold *holds[LOCKS] = {NULL};
    dlock_op *waits[LOCKS] = {NULL};
    for (int i = 0; i < LOCKS; i++) {
        char name[32];
        snprintf(name, sizeof(name), "many/%03d", i);
        /* Of half of them the holder's client has the larger lease, and so the later key. */
        dlock_client *holder = i % 2 ? one : two, *waiter = i % 2 ? two : one;
        LOCK(theirs, holder, DLOCK_MUTEX, name, NULL);
        LOCK(other, waiter, DLOCK_MUTEX, name, NULL);
        CHECK_OK(dlock_lock_acquire(theirs, patience_ms(), &holds[i], NULL), NULL);
        waits[i] = dlock_lock_acquire_start(other, DLOCK_FOREVER);
        AWAIT(api_seen(theirs, "waiting.0.owner")[0]);
    }
    DLOCK_AUTO(dlock_info) list = NULL;
    CHECK_EQ_INT(dlock_client_list(one, "many/", LOCKS + 1, &list, NULL), DLOCK_OK);
    for (int i = 0; i < LOCKS; i++) {
        char key[40];
        snprintf(key, sizeof(key), "locks.%d.owner", i);
        CHECK_STR(dlock_info_get(list, key), dlock_hold_owner(holds[i]));
        snprintf(key, sizeof(key), "locks.%d.client", i);
        CHECK_STR(dlock_info_get(list, key), i % 2 ? "holder" : "waiter");
    }
    CHECK(!dlock_info_get(list, "locks.70.name"));
    for (int i = 0; i < LOCKS; i++) {
        dlock_op_free(waits[i]);
        dlock_hold_free(holds[i]);
    }
}

TEST(another_kind_of_the_same_name_is_a_conflict_and_leaves_nothing)
{
    BEGIN();
    static const dlock_kind kinds[] = {DLOCK_MUTEX, DLOCK_WRITE, DLOCK_SEMAPHORE};
    static const char *const settings[] = {NULL, NULL, "lock.permits=2"};
    CLIENT(one, "");
    CLIENT(two, "");
    for (int i = 0; i < 9; i++) {
        int mine = i / 3, others = i % 3;
        if (mine == others)
            continue;
        LOCK(held, one, kinds[mine], "locks/kinds", settings[mine]);
        LOCK(other, two, kinds[others], "locks/kinds", settings[others]);
        HOLD(hold, held);
        dlock_err code;
        CHECK(hold && !world_take(other, 0, &code));
        CHECK_EQ_INT(code, DLOCK_ECONFLICT);
        AWAIT(world_keys("locks/kinds") == 1);
        CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    }
}

/* The keys of both are Go's, which are named after the lease. */
TEST(a_mutex_and_an_election_of_one_client_keep_each_other_out)
{
    BEGIN();
    CLIENT(client, "");
    LOCK(mutex, client, DLOCK_MUTEX, "locks/both", NULL);
    LOCK(election, client, DLOCK_ELECTION, "locks/both", NULL);
    dlock_lock *const both[] = {mutex, election};
    for (int i = 0; i < 2; i++) {
        dlock_err code;
        HOLD(hold, both[i]);
        CHECK(!world_take(both[1 - i], 0, &code));
        CHECK_EQ_INT(code, DLOCK_EBUSY);
        CHECK_EQ_INT(dlock_hold_verify(hold, NULL), DLOCK_OK);
        CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    }
}

TEST(readers_share_writers_do_not_and_all_come_in_order)
{
    BEGIN();
    CLIENT(a, "");
    CLIENT(b, "");
    CLIENT(c, "");
    LOCK(read_a, a, DLOCK_READ, "locks/rw", NULL);
    LOCK(read_b, b, DLOCK_READ, "locks/rw", NULL);
    LOCK(write_c, c, DLOCK_WRITE, "locks/rw", NULL);
    HOLD(first, read_a);
    HOLD(second, read_b);
    CHECK(first && second);
    DLOCK_AUTO(dlock_op) writer = dlock_lock_acquire_start(write_c, DLOCK_FOREVER);
    AWAIT(world_seen(read_a, "waiters") == 1);
    DLOCK_AUTO(dlock_op) late = dlock_lock_acquire_start(read_b, DLOCK_FOREVER);
    AWAIT(world_seen(read_a, "waiters") == 2); /* behind the writer */
    CHECK_EQ_INT(dlock_hold_release(first, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(second, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(writer, PATIENCE_MS), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_result(late), DLOCK_EPENDING);
    DLOCK_AUTO(dlock_hold) written = dlock_op_take_hold(writer);
    /* In place: whoever reads comes in, and the place in the line stays. */
    CHECK_EQ_INT(dlock_hold_downgrade(written, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(late, PATIENCE_MS), DLOCK_OK);
    DLOCK_AUTO(dlock_hold) read = dlock_op_take_hold(late);
    CHECK_EQ_INT(dlock_hold_verify(written, NULL), DLOCK_OK);
    CHECK(dlock_hold_token(read) > dlock_hold_token(written));
    LOCK(write_a, a, DLOCK_WRITE, "locks/rw", NULL);
    dlock_err code;
    CHECK(!world_take(write_a, 0, &code));
    CHECK_EQ_INT(code, DLOCK_EBUSY);
}

/* Requests of one client overtake each other: what the try has left behind goes first. */
TEST(a_try_in_vain_never_stands_before_the_next_one)
{
    BEGIN();
    CLIENT(a, "");
    CLIENT(b, "");
    LOCK(held, a, DLOCK_SEMAPHORE, "locks/vain", "lock.permits=1");
    LOCK(tried, b, DLOCK_SEMAPHORE, "locks/vain", "lock.permits=1");
    for (int i = 0; i < 100; i++) {
        dlock_err code;
        HOLD(first, held);
        CHECK(!world_take(tried, 0, &code));
        CHECK_EQ_INT(code, DLOCK_EBUSY);
        CHECK_EQ_INT(dlock_hold_release(first, NULL), DLOCK_OK);
        DLOCK_AUTO(dlock_hold) next = world_take(tried, 0, &code);
        CHECK_EQ_INT(code, DLOCK_OK);
        CHECK_EQ_INT(dlock_hold_release(next, NULL), DLOCK_OK);
    }
}

TEST(an_election_publishes_the_leaders_data_as_gos_does)
{
    BEGIN();
    CLIENT(client, "");
    LOCK(lock, client, DLOCK_ELECTION, "locks/election", "lock.data=node-7");
    HOLD(term, lock);
    CHECK(term);
    CHECK_CONTAINS(etcd_server_say(&world_server, "/v3/election/leader",
                                   "{\"name\":\"bG9ja3MvZWxlY3Rpb24=\"}"),
                   "bm9kZS03"); /* "node-7" */
    CHECK_STR(api_seen(lock, "holders.0.data"), "node-7");
}

TEST(who_says_no_name_is_told_by_the_end_of_the_key)
{
    BEGIN();
    CLIENT(client, "");
    LOCK(lock, client, DLOCK_MUTEX, "locks/strangers", NULL);
    /* "locks/strangers/00c0ffee", as Go's Mutex makes it */
    CHECK_CONTAINS(etcd_server_say(&world_server, "/v3/kv/put",
                                   "{\"key\":\"bG9ja3Mvc3RyYW5nZXJzLzAwYzBmZmVl\"}"),
                   "revision");
    CHECK_STR(api_seen(lock, "holders.0.owner"), "00c0ffee");
    CHECK_OK(dlock_lock_break(lock, NULL, NULL), NULL);
}

/* ---- the doctor ---- */

TEST(the_doctor_tells_lease_server_members_and_rights)
{
    BEGIN();
    CLIENT(client, "");
    DLOCK_AUTO(dlock_info) info = NULL;
    CHECK_EQ_INT(dlock_client_doctor(client, &info, NULL), DLOCK_OK);
    static const char *const ids[] = {"lease",   "transport", "server",
                                      "members", "member",    "rights"};
    for (int i = 0; i < 6; i++) {
        char key[32];
        snprintf(key, sizeof(key), "findings.%d.id", i);
        CHECK_STR(dlock_info_get(info, key), ids[i]);
    }
    CHECK_STR(dlock_info_get(info, "verdict"), "1"); /* one member isn't many */
    CHECK_STR(etcd_server_keys(&world_server, "dlock-doctor"), "");
}
