/* Handing a mutex on, on a real etcd: its key goes from lease to lease and stays where it stands. */
#include "proxy/proxy.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IMPORT(name, client, ticket)                                                     \
    DLOCK_AUTO(dlock_hold) name = NULL;                                                  \
    CHECK_EQ_INT(dlock_client_import((client), (ticket), &(name), NULL), DLOCK_OK)

/* What is said of the only key below "handoff/key/". */
typedef struct seen {
    char key[256];
    int64_t made, lease;
} seen;

static seen look(void)
{
    char made[32], lease[32];
    seen ret = {.made = 0};
    static const char range[] =
        "{\"key\":\"aGFuZG9mZi9rZXkv\",\"range_end\":\"aGFuZG9mZi9rZXkw\"}";
    const char *said = etcd_server_say(&world_server, "/v3/kv/range", "%s", range);
    world_field(said, "key", ret.key, sizeof(ret.key));
    world_field(said, "create_revision", made, sizeof(made));
    world_field(said, "lease", lease, sizeof(lease));
    ret.made = atoll(made);
    ret.lease = atoll(lease);
    return ret;
}

/* Valid as long as the hold is; "" when it can't be exported, which is no ticket. */
static const char *export_of(dlock_hold *hold)
{
    const char *ticket = "";
    return dlock_hold_export(hold, &ticket, NULL) == DLOCK_OK ? ticket : "";
}

TEST(the_key_keeps_its_name_and_its_place_and_goes_to_the_importers_lease)
{
    BEGIN();
    CLIENT(giver, "");
    CLIENT(taker, "");
    LOCK(lock, giver, DLOCK_MUTEX, "handoff/key", NULL);
    LOCK(same, taker, DLOCK_MUTEX, "handoff/key", NULL);
    HOLD(hold, lock);
    const seen before = look();
    const char *ticket = export_of(hold);
    AWAIT(look().lease != before.lease); /* the export is told behind the caller's back */
    const seen between = look();
    CHECK_STR(api_seen(same, "holders.0.owner"), dlock_hold_owner(hold));
    IMPORT(taken, taker, ticket);
    const seen after = look();
    CHECK_STR(after.key, before.key);
    CHECK(after.made == before.made && between.made == before.made);
    CHECK(after.lease != before.lease && after.lease != between.lease);
    CHECK(dlock_hold_token(taken) > dlock_hold_token(hold));
    CHECK_STR(api_seen(lock, "holders.0.owner"), dlock_hold_owner(taken));
    CHECK_EQ_INT(world_seen(same, "holders.0.token"), dlock_hold_token(taken));
    CHECK_EQ_INT(dlock_client_close(giver, NULL), DLOCK_OK); /* its lease is revoked */
    CHECK_EQ_INT(dlock_hold_verify(taken, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(taken, NULL), DLOCK_OK);
    CHECK_EQ_INT(world_keys("handoff/key"), 0);
}

TEST(a_ticket_outlives_its_giver_and_lapses_by_itself)
{
    BEGIN();
    CLIENT(taker, "");
    CLIENT(giver, "&lock.ttl_ms=3000");
    LOCK(lock, giver, DLOCK_MUTEX, "handoff/lapse", NULL);
    LOCK(same, taker, DLOCK_MUTEX, "handoff/lapse", NULL);
    HOLD(hold, lock);
    char ticket[2048];
    snprintf(ticket, sizeof(ticket), "%s", export_of(hold));
    CHECK_EQ_INT(dlock_client_close(giver, NULL), DLOCK_OK);
    CHECK_EQ_INT(world_keys("handoff/lapse"), 1);
    HOLD(next, same); /* when it is over */
    CHECK(dlock_hold_token(next) > dlock_hold_token(hold));
    DLOCK_AUTO(dlock_hold) none = NULL;
    CHECK_EQ_INT(dlock_client_import(taker, ticket, &none, NULL), DLOCK_ENOTHELD);
    CHECK_EQ_INT(dlock_hold_verify(next, NULL), DLOCK_OK);
}

/* By a key of another name, as its own is with the ticket; and nothing of the first is deleted. */
TEST(the_giver_may_want_it_again_and_waits_as_anybody_else)
{
    BEGIN();
    CLIENT(giver, "");
    CLIENT(taker, "");
    LOCK(lock, giver, DLOCK_MUTEX, "handoff/again", NULL);
    HOLD(hold, lock);
    const char *ticket = export_of(hold);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
    AWAIT(world_keys("handoff/again/") == 2);
    IMPORT(taken, taker, ticket);
    CHECK(etcd_server_put(&world_server, "elsewhere", "")); /* a revision more */
    CHECK_EQ_INT(dlock_op_wait(op, 1), DLOCK_EPENDING);
    CHECK_EQ_INT(dlock_hold_verify(taken, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(taken, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(op, PATIENCE_MS), DLOCK_OK);
    DLOCK_AUTO(dlock_hold) own = dlock_op_take_hold(op);
    /* It had joined before the import: by its key's revision its token would be the smaller one. */
    CHECK(dlock_hold_token(own) > dlock_hold_token(taken));
    CHECK_EQ_INT(dlock_hold_release(own, NULL), DLOCK_OK);
    CHECK_EQ_INT(world_keys("handoff/again"), 0);
}

/* Its key is Go's as well, and that name is out: not even at the ticket's lease yet, whose grant is late. */
TEST(an_election_of_the_givers_waits_for_who_has_the_ticket)
{
    BEGIN();
    const char *why = "";
    char target[32];
    snprintf(target, sizeof(target), "127.0.0.1:%d", world_server.port);
    proxy *way = proxy_new(1);
    proxy_link *link = proxy_listen(way, NULL, 0, target, "grpc", &why);
    CHECK(link);
    CLIENT(taker, "");
    dlock_client *giver = world_client_at(proxy_port(link), "");
    dlock_lock *lock = api_lock(giver, DLOCK_MUTEX, "handoff/both", NULL);
    dlock_lock *election = api_lock(giver, DLOCK_ELECTION, "handoff/both", NULL);
    dlock_hold *hold = world_take(lock, PATIENCE_MS, NULL);
    const proxy_plan late = {.deed = PROXY_DELAY_REPLY,
                             .number = 1,
                             .command = "LeaseGrant",
                             .delay_ms = 1000};
    CHECK(proxy_add_plan(link, late));
    const char *ticket = export_of(hold);
    dlock_op *op = dlock_lock_acquire_start(election, DLOCK_FOREVER);
    AWAIT(world_keys("handoff/both/") == 2 || dlock_op_wait(op, 0) == DLOCK_OK);
    IMPORT(taken, taker, ticket);
    CHECK_EQ_INT(dlock_op_wait(op, 1), DLOCK_EPENDING);
    CHECK_EQ_INT(dlock_hold_verify(taken, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(taken, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(op, PATIENCE_MS), DLOCK_OK);
    dlock_hold *term = dlock_op_take_hold(op);
    CHECK_EQ_INT(dlock_hold_verify(term, NULL), DLOCK_OK);
    dlock_hold_free(term);
    dlock_op_free(op);
    dlock_hold_free(hold);
    dlock_lock_free(election);
    dlock_lock_free(lock);
    dlock_client_free(giver);
    proxy_free(way);
}

TEST(it_may_come_back_to_its_giver_while_that_waits_for_it)
{
    BEGIN();
    CLIENT(giver, "");
    CLIENT(taker, "");
    LOCK(lock, giver, DLOCK_MUTEX, "handoff/back", NULL);
    HOLD(hold, lock);
    const char *ticket = export_of(hold);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
    AWAIT(world_keys("handoff/back/") == 2);
    IMPORT(taken, taker, ticket);
    const char *other = export_of(taken);
    IMPORT(back, giver, other);
    CHECK(dlock_hold_token(back) > dlock_hold_token(taken));
    CHECK_EQ_INT(dlock_op_wait(op, 1), DLOCK_EPENDING);
    CHECK_EQ_INT(dlock_hold_verify(back, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(back, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(op, PATIENCE_MS), DLOCK_OK);
    DLOCK_AUTO(dlock_hold) own = dlock_op_take_hold(op);
    CHECK(dlock_hold_token(own) > dlock_hold_token(back));
}

TEST(who_has_been_asked_for_it_can_hand_it_on_and_who_takes_it_isnt_asked)
{
    BEGIN();
    CLIENT(giver, "");
    CLIENT(taker, "");
    LOCK(lock, giver, DLOCK_MUTEX, "handoff/asked", NULL);
    LOCK(wanted, taker, DLOCK_MUTEX, "handoff/asked", NULL);
    HOLD(hold, lock);
    CHECK_EQ_INT(dlock_lock_revoke(wanted, NULL), DLOCK_OK);
    const char *ticket = export_of(hold);
    IMPORT(taken, taker, ticket);
    CHECK(dlock_client_event_fd(taker) >= 0);
    CHECK_EQ_INT(dlock_hold_notify(taken, 5), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_verify(taken, NULL), DLOCK_OK);
    CHECK(dlock_client_next_event(taker) == NULL);
    CHECK_EQ_INT(dlock_lock_break(wanted, dlock_hold_owner(hold), NULL), DLOCK_ENOTHELD);
    CHECK_EQ_INT(dlock_hold_verify(taken, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_lock_break(wanted, dlock_hold_owner(taken), NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_verify(taken, NULL), DLOCK_ELOST);
}

TEST(only_mutexes_are_handed_on)
{
    static const dlock_kind kinds[] = {DLOCK_WRITE, DLOCK_READ, DLOCK_ELECTION};
    BEGIN();
    CLIENT(client, "");
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        LOCK(lock, client, kinds[i], "handoff/kinds", NULL);
        HOLD(hold, lock);
        const char *ticket = NULL;
        CHECK_EQ_INT(dlock_hold_export(hold, &ticket, NULL), DLOCK_ENOTSUP);
        CHECK_EQ_INT(dlock_hold_verify(hold, NULL), DLOCK_OK);
        CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    }
}
