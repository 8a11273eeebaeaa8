/* Handing a mutex on, on a real ZooKeeper: one transaction makes a node of the importer's in the place of the
 * giver's. */
#include "world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_MS         60000
#define CLIENT(name, query) DLOCK_AUTO(dlock_client) name = world_client(query)
#define LOCK(name, client, text)                                                         \
    DLOCK_AUTO(dlock_lock) name = world_lock(client, DLOCK_MUTEX, text, NULL)
#define HOLD(name, lock)                                                                 \
    dlock_err code_of_##name;                                                            \
    DLOCK_AUTO(dlock_hold) name = world_try(lock, PATIENCE_MS, &code_of_##name);         \
    CHECK_EQ_INT(code_of_##name, DLOCK_OK)
#define IMPORT(name, client, ticket)                                                     \
    DLOCK_AUTO(dlock_hold) name = NULL;                                                  \
    CHECK_EQ_INT(dlock_client_import((client), (ticket), &(name), NULL), DLOCK_OK)
#define REFUSED(client, ticket, wanted)                                                  \
    do {                                                                                 \
        DLOCK_AUTO(dlock_hold) none = NULL;                                              \
        CHECK_EQ_INT(dlock_client_import((client), (ticket), &none, NULL), (wanted));    \
    } while (0)

/* Valid as long as the hold is; "" when it can't be exported, which is no ticket. */
static const char *export_of(dlock_hold *hold)
{
    const char *ticket = "";
    return dlock_hold_export(hold, &ticket, NULL) == DLOCK_OK ? ticket : "";
}

/* The only node below the path, and what is said of it. */
static zookeeper_stat only(const char *path, char *name, size_t size)
{
    char full[600];
    zookeeper_stat stat = {.czxid = 0};
    name[0] = '\0';
    if (zookeeper_wire_children(&world_wire, path, name, size) == 0)
        name[strcspn(name, " ")] = '\0';
    (void)snprintf(full, sizeof(full), "%s/%s", path, name);
    (void)zookeeper_wire_stat(&world_wire, full, &stat);
    return stat;
}

static const char *digits_of(const char *name)
{
    size_t size = strlen(name);
    return size > 10 ? name + size - 10 : name;
}

TEST(the_importers_node_stands_where_the_givers_stood)
{
    BEGIN();
    CLIENT(giver, "");
    CLIENT(taker, "");
    LOCK(lock, giver, "h/place");
    LOCK(same, taker, "h/place");
    HOLD(hold, lock);
    char before[300], after[300];
    const zookeeper_stat gave = only("/h/place", before, sizeof(before));
    const char *ticket = export_of(hold);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_ENOTHELD);
    CHECK_STR(world_inspect(same, "holders.0.owner"), dlock_hold_owner(hold));
    IMPORT(taken, taker, ticket);
    CHECK_EQ_INT(world_children("/h/place"), 1);
    const zookeeper_stat took = only("/h/place", after, sizeof(after));
    CHECK(strcmp(before, after) != 0);
    CHECK_STR(digits_of(after), digits_of(before));
    CHECK(strncmp(after, "_c_", 3) == 0);
    CHECK_CONTAINS(after, "-lock-");
    CHECK(took.owner != gave.owner && took.owner != 0);
    CHECK_EQ_INT(dlock_hold_token(taken), took.czxid);
    CHECK(dlock_hold_token(taken) > dlock_hold_token(hold));
    CHECK_STR(world_inspect(lock, "holders.0.owner"), dlock_hold_owner(taken));
    REFUSED(giver, ticket, DLOCK_ENOTHELD);
    REFUSED(taker, ticket, DLOCK_ENOTHELD);
    CHECK_EQ_INT(dlock_client_close(giver, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_verify(taken, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(taken, NULL), DLOCK_OK);
    CHECK_EQ_INT(world_children("/h/place"), 0);
}

/* By their nodes, which are older than the importer's, their tokens would be smaller. */
TEST(who_has_waited_since_before_the_import_comes_next_and_has_a_larger_token)
{
    BEGIN();
    CLIENT(giver, "");
    CLIENT(taker, "");
    CLIENT(one, "");
    CLIENT(two, "");
    CLIENT(three, "");
    LOCK(lock, giver, "h/line");
    LOCK(first, one, "h/line");
    LOCK(second, two, "h/line");
    LOCK(third, three, "h/line");
    HOLD(hold, lock);
    CHECK_EQ_INT(zookeeper_wire_set(&world_wire, "/h/line", "somebody's"), 0);
    DLOCK_AUTO(dlock_op) before = dlock_lock_acquire_start(first, DLOCK_FOREVER);
    AWAIT(world_children("/h/line") == 2);
    DLOCK_AUTO(dlock_op) also = dlock_lock_acquire_start(second, DLOCK_FOREVER);
    AWAIT(world_children("/h/line") == 3);
    IMPORT(taken, taker, export_of(hold));
    DLOCK_AUTO(dlock_op) behind = dlock_lock_acquire_start(third, DLOCK_FOREVER);
    AWAIT(world_children("/h/line") == 4);
    CHECK_EQ_INT(dlock_op_wait(before, 1), DLOCK_EPENDING);
    CHECK_EQ_INT(dlock_hold_verify(taken, NULL), DLOCK_OK);
    dlock_op *line[] = {before, also, behind};
    dlock_lock *locks[] = {first, second, third};
    int64_t last = dlock_hold_token(taken);
    CHECK_EQ_INT(dlock_hold_release(taken, NULL), DLOCK_OK);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ_INT(dlock_op_wait(line[i], PATIENCE_MS), DLOCK_OK);
        DLOCK_AUTO(dlock_hold) next = dlock_op_take_hold(line[i]);
        CHECK(dlock_hold_token(next) > last);
        last = dlock_hold_token(next);
        char said[32];
        (void)snprintf(said, sizeof(said), "%" PRId64, last);
        CHECK_STR(world_inspect(locks[i], "holders.0.token"), said);
        CHECK_EQ_INT(dlock_hold_release(next, NULL), DLOCK_OK);
    }
    char data[64];
    CHECK_EQ_INT(zookeeper_wire_get(&world_wire, "/h/line", data, sizeof(data)), 0);
    CHECK_STR(data, "somebody's"); /* written, and the same */
}

TEST(a_ticket_outlives_its_giver_and_lapses_by_itself)
{
    BEGIN();
    CLIENT(taker, "");
    CLIENT(giver, "&lock.ttl_ms=3000");
    LOCK(lock, giver, "h/lapse");
    LOCK(same, taker, "h/lapse");
    HOLD(hold, lock);
    char ticket[2048];
    (void)snprintf(ticket, sizeof(ticket), "%s", export_of(hold));
    CHECK_EQ_INT(dlock_client_close(giver, NULL), DLOCK_OK);
    CHECK_EQ_INT(world_children("/h/lapse"), 1);
    HOLD(next, same); /* when it is over */
    CHECK(dlock_hold_token(next) > dlock_hold_token(hold));
    REFUSED(taker, ticket, DLOCK_ENOTHELD);
    CHECK_EQ_INT(dlock_hold_verify(next, NULL), DLOCK_OK);
}

TEST(a_giver_that_stays_deletes_its_node_when_nobody_has_come)
{
    BEGIN();
    CLIENT(giver, "&lock.ttl_ms=2000");
    CLIENT(taker, "");
    LOCK(lock, giver, "h/stays");
    LOCK(same, taker, "h/stays");
    HOLD(hold, lock);
    const char *ticket = export_of(hold);
    HOLD(next, same);
    REFUSED(taker, ticket, DLOCK_ENOTHELD);
    CHECK_EQ_INT(dlock_hold_verify(next, NULL), DLOCK_OK);
}

TEST(what_the_giver_does_when_its_lease_is_over_leaves_the_importer_alone)
{
    BEGIN();
    CLIENT(giver, "&lock.ttl_ms=1000");
    CLIENT(taker, "");
    LOCK(lock, giver, "h/late");
    LOCK(other, giver, "h/late/clock");
    HOLD(hold, lock);
    IMPORT(taken, taker, export_of(hold));
    for (int i = 0; i < 2; i++) { /* two of its leases have gone by */
        HOLD(mark, other);
        const char *lapses = export_of(mark);
        CHECK(lapses[0]);
        AWAIT(world_children("/h/late/clock") == 0);
    }
    CHECK_EQ_INT(dlock_hold_verify(taken, NULL), DLOCK_OK);
}

TEST(of_many_who_have_the_ticket_one_has_the_lock)
{
    BEGIN();
    enum { TAKERS = 6 };
    CLIENT(giver, "");
    LOCK(lock, giver, "h/many");
    HOLD(hold, lock);
    const char *ticket = export_of(hold);
    dlock_client *clients[TAKERS];
    dlock_op *ops[TAKERS];
    int got = 0, refused = 0;
    for (int i = 0; i < TAKERS; i++)
        clients[i] = world_client("");
    for (int i = 0; i < TAKERS; i++)
        ops[i] = dlock_client_import_start(clients[i], ticket);
    for (int i = 0; i < TAKERS; i++) {
        CHECK_EQ_INT(dlock_op_wait(ops[i], PATIENCE_MS), DLOCK_OK);
        dlock_err code = dlock_op_result(ops[i]);
        got += code == DLOCK_OK;
        refused += code == DLOCK_ENOTHELD;
    }
    CHECK_EQ_INT(got, 1);
    CHECK_EQ_INT(refused, TAKERS - 1);
    CHECK_EQ_INT(world_children("/h/many"), 1);
    for (int i = 0; i < TAKERS; i++) {
        dlock_op_free(ops[i]);
        dlock_client_free(clients[i]);
    }
    CHECK_EQ_INT(world_children("/h/many"), 0);
}

TEST(a_broken_lock_makes_its_ticket_worthless)
{
    BEGIN();
    CLIENT(giver, "");
    CLIENT(taker, "");
    LOCK(lock, giver, "h/broken");
    HOLD(hold, lock);
    const char *ticket = export_of(hold);
    CHECK_EQ_INT(dlock_lock_break(lock, NULL, NULL), DLOCK_OK);
    CHECK_EQ_INT(world_children("/h/broken"), 0);
    REFUSED(taker, ticket, DLOCK_ENOTHELD);
}

TEST(it_goes_on_from_hand_to_hand_and_back)
{
    BEGIN();
    CLIENT(one, "");
    CLIENT(two, "");
    LOCK(lock, one, "h/back");
    HOLD(first, lock);
    IMPORT(second, two, export_of(first));
    IMPORT(third, one, export_of(second));
    IMPORT(fourth, one, export_of(third)); /* to itself */
    CHECK(dlock_hold_token(second) > dlock_hold_token(first));
    CHECK(dlock_hold_token(third) > dlock_hold_token(second));
    CHECK(dlock_hold_token(fourth) > dlock_hold_token(third));
    CHECK_EQ_INT(dlock_hold_verify(fourth, NULL), DLOCK_OK);
    CHECK_EQ_INT(world_children("/h/back"), 1);
    CHECK_EQ_INT(dlock_hold_release(fourth, NULL), DLOCK_OK);
    CHECK_EQ_INT(world_children("/h/back"), 0);
}

static void hands_on_in(const char *settings, const char *path, int nodes)
{
    DLOCK_AUTO(dlock_client) giver = world_client(settings);
    DLOCK_AUTO(dlock_client) taker = world_client(settings);
    DLOCK_AUTO(dlock_client) next = world_client(settings);
    LOCK(lock, giver, path + 1);
    LOCK(same, next, path + 1);
    HOLD(hold, lock);
    DLOCK_AUTO(dlock_op) waits = dlock_lock_acquire_start(same, DLOCK_FOREVER);
    AWAIT(world_children(path) > nodes);
    const char *ticket = export_of(hold);
    IMPORT(taken, taker, ticket);
    REFUSED(giver, ticket, DLOCK_ENOTHELD);
    CHECK_EQ_INT(dlock_op_wait(waits, 1), DLOCK_EPENDING);
    CHECK_EQ_INT(dlock_hold_verify(taken, NULL), DLOCK_OK);
    CHECK(dlock_hold_token(taken) > dlock_hold_token(hold));
    CHECK_EQ_INT(dlock_hold_release(taken, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(waits, PATIENCE_MS), DLOCK_OK);
    DLOCK_AUTO(dlock_hold) own = dlock_op_take_hold(waits);
    CHECK(dlock_hold_token(own) > dlock_hold_token(taken));
    CHECK_EQ_INT(dlock_hold_release(own, NULL), DLOCK_OK);
    CHECK_EQ_INT(world_children(path), 0);
}

TEST(in_kazoos_layout)
{
    BEGIN();
    hands_on_in("&zookeeper.layout=kazoo", "/h/kazoo", 1);
}

TEST(in_the_bridges_both_nodes_go_over)
{
    BEGIN();
    hands_on_in("&zookeeper.layout=bridge", "/h/bridge", 2);
}

TEST(in_a_pattern_with_a_uuid)
{
    BEGIN();
    hands_on_in("&zookeeper.layout=pattern&zookeeper.node=/{name}/n-{uuid}-end-{seq}",
                "/h/p", 1);
}

/* What comes late would hit whoever has the name by then. */
TEST(where_names_are_everybodys_it_is_refused_and_still_held)
{
    BEGIN();
    static const char *const settings[] = {
        "&zookeeper.layout=exclusive",
        "&zookeeper.layout=pattern&zookeeper.node=/h/{name}-{seq}",
        "&zookeeper.layout=pattern&zookeeper.node=/h/{name}-{session}-{seq}",
        /* … and what is written in the folder would be for all locks there */
        "&zookeeper.layout=pattern&zookeeper.node=/h/{name}-{uuid}-{seq}"};
    for (int i = 0; i < 4; i++) {
        CLIENT(client, settings[i]);
        LOCK(lock, client, "h/everybodys");
        HOLD(hold, lock);
        const char *ticket = NULL;
        CHECK_EQ_INT(dlock_hold_export(hold, &ticket, NULL), DLOCK_ENOTSUP);
        CHECK_EQ_INT(dlock_hold_verify(hold, NULL), DLOCK_OK);
    }
}
