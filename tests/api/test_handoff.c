/* Handing a grant on: export fences the giver at once, import makes it another's, once. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TEST(a_ticket_makes_the_lock_anothers_under_a_larger_token)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) giver = world_client("lock.ttl_ms=40000");
    /* A session's lease is its client's; others have it from the ticket. */
    DLOCK_AUTO(dlock_client)
    taker = world_client(world_is("etcd") || world_is("zookeeper") ? "lock.ttl_ms=40000"
                                                                   : NULL);
    NEED(giver, "handoff", "locks can\'t be handed on here");
    DLOCK_AUTO(dlock_lock) lock = world_lock(giver, __func__, NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    const char *ticket = NULL;
    CHECK_OK(dlock_hold_export(hold, &ticket, &err), err);
    CHECK(ticket != NULL && strlen(ticket) < 2048);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_ENOTHELD);
    CHECK_EQ_INT(dlock_hold_state(hold), DLOCK_RELEASED);
    CHECK(dlock_hold_token(hold) > 0);
    CHECK_EQ_INT(world_try(__func__), DLOCK_EBUSY); /* nobody can come between */
    DLOCK_AUTO(dlock_hold) theirs = NULL;
    CHECK_OK(dlock_client_import(taker, ticket, &theirs, &err), err);
    CHECK_EQ_INT(dlock_hold_check(theirs), DLOCK_OK);
    CHECK(dlock_hold_token(theirs) > dlock_hold_token(hold));
    CHECK(dlock_hold_remaining_ms(theirs) > 30000);
    CHECK_STR(dlock_hold_name(theirs), __func__);
    CHECK(strcmp(dlock_hold_owner(theirs), dlock_hold_owner(hold)) != 0);
    CHECK_EQ_INT(world_try(__func__), DLOCK_EBUSY);
    CHECK_OK(dlock_hold_verify(theirs, &err), err);
    CHECK_ERR(dlock_hold_release(hold, &err), DLOCK_ENOTHELD, err);
    CHECK_OK(dlock_hold_verify(theirs, &err), err);
    CHECK_OK(dlock_hold_release(theirs, &err), err);
    CHECK_EQ_INT(world_try(__func__), DLOCK_OK);
}

TEST(a_ticket_works_once)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    TWO_CLIENTS(giver, taker);
    NEED(giver, "handoff", "locks can\'t be handed on here");
    DLOCK_AUTO(dlock_lock) lock = world_lock(giver, __func__, NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    DLOCK_AUTO(dlock_hold) first = NULL;
    DLOCK_AUTO(dlock_hold) second = NULL;
    const char *ticket = NULL;
    CHECK_OK(dlock_hold_export(hold, &ticket, &err), err);
    CHECK_OK(dlock_client_import(taker, ticket, &first, &err), err);
    CHECK_ERR(dlock_client_import(taker, ticket, &second, &err), DLOCK_ENOTHELD, err);
    CHECK_ERR(dlock_client_import(giver, ticket, &second, &err), DLOCK_ENOTHELD, err);
    CHECK(second == NULL);
    CHECK_OK(dlock_hold_verify(first, &err), err);
    CHECK_OK(dlock_hold_release(first, &err), err);
    CHECK_ERR(dlock_client_import(taker, ticket, &second, &err), DLOCK_ENOTHELD, err);
    CHECK_EQ_INT(world_try(__func__), DLOCK_OK);
}

TEST(of_two_who_import_at_once_one_gets_it)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    TWO_CLIENTS(giver, one);
    DLOCK_AUTO(dlock_client) other = world_client(NULL);
    NEED(giver, "handoff", "locks can\'t be handed on here");
    DLOCK_AUTO(dlock_lock) lock = world_lock(giver, __func__, NULL);
    for (int i = 0; i < 20; i++) {
        DLOCK_AUTO(dlock_hold) hold = world_take(lock);
        const char *ticket = NULL;
        CHECK_OK(dlock_hold_export(hold, &ticket, &err), err);
        DLOCK_AUTO(dlock_op) first = dlock_client_import_start(one, ticket);
        DLOCK_AUTO(dlock_op) second = dlock_client_import_start(other, ticket);
        CHECK_EQ_INT(dlock_op_wait(first, patience_ms()), DLOCK_OK);
        CHECK_EQ_INT(dlock_op_wait(second, patience_ms()), DLOCK_OK);
        dlock_err a = dlock_op_result(first), b = dlock_op_result(second);
        CHECK((a == DLOCK_OK && b == DLOCK_ENOTHELD) ||
              (b == DLOCK_OK && a == DLOCK_ENOTHELD));
    } /* freeing the ops gives the lock back */
    AWAIT(world_try(__func__) == DLOCK_OK);
}

TEST(an_exported_grant_isnt_released_by_free_or_close)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) taker = world_client(NULL);
    NEED(taker, "handoff", "locks can\'t be handed on here");
    dlock_client *giver = world_client(NULL);
    dlock_lock *lock = world_lock(giver, __func__, NULL);
    dlock_hold *hold = world_take(lock);
    const char *lent = NULL;
    CHECK_OK(dlock_hold_export(hold, &lent, &err), err);
    char *ticket = strdup(lent);
    dlock_hold_free(hold);
    dlock_lock_free(lock);
    CHECK_OK(dlock_client_close(giver, &err), err);
    dlock_client_free(giver);
    DLOCK_AUTO(dlock_hold) theirs = NULL;
    dlock_err code = dlock_client_import(taker, ticket, &theirs, &err);
    free(ticket);
    CHECK_OK(code, err);
    CHECK_EQ_INT(dlock_hold_check(theirs), DLOCK_OK);
}

TEST(a_ticket_that_nobody_imports_lapses_with_the_lease)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) giver = world_client("lock.ttl_ms=300");
    DLOCK_AUTO(dlock_client) taker = world_client(NULL);
    NEED(giver, "handoff", "locks can\'t be handed on here");
    DLOCK_AUTO(dlock_lock) lock = world_lock(giver, __func__, NULL);
    const char *ticket = NULL;
    dlock_hold *hold = NULL;
    do { /* a machine that slept through the lease tries again */
        dlock_hold_free(hold);
        hold = world_take(lock);
    } while (hold && dlock_hold_export(hold, &ticket, &err) == DLOCK_ELOST);
    CHECK(ticket != NULL);
    AWAIT(world_try(__func__) == DLOCK_OK);
    DLOCK_AUTO(dlock_hold) theirs = NULL;
    CHECK_ERR(dlock_client_import(taker, ticket, &theirs, &err), DLOCK_ENOTHELD, err);
    dlock_hold_free(hold);
}

TEST(those_who_wait_get_it_after_the_importer)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    TWO_CLIENTS(giver, taker);
    NEED(giver, "handoff", "locks can\'t be handed on here");
    DLOCK_AUTO(dlock_lock) lock = world_lock(giver, __func__, NULL);
    DLOCK_AUTO(dlock_lock) same = world_lock(taker, __func__, NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    WAITER(ours);   /* of the client that gives it away */
    WAITER(theirs); /* and of the one that takes it */
    world_wait_start(&ours, giver, lock, DLOCK_FOREVER);
    world_wait_start(&theirs, taker, same, DLOCK_FOREVER);
    const char *ticket = NULL;
    CHECK_OK(dlock_hold_export(hold, &ticket, &err), err);
    dlock_hold *taken = NULL;
    CHECK_OK(dlock_client_import(taker, ticket, &taken, &err), err);
    CHECK(!ours.over && !theirs.over);
    int64_t token = dlock_hold_token(taken);
    CHECK_OK(dlock_hold_release(taken, &err), err);
    dlock_hold_free(taken);
    AWAIT(ours.over || theirs.over);
    world_waiter *first = ours.over ? &ours : &theirs;
    world_waiter *second = ours.over ? &theirs : &ours;
    CHECK_EQ_INT(world_wait_end(first), DLOCK_OK);
    CHECK(dlock_hold_token(first->hold) > token);
    CHECK_OK(dlock_hold_release(first->hold, &err), err);
    CHECK_EQ_INT(world_wait_end(second), DLOCK_OK);
    CHECK_OK(dlock_hold_release(second->hold, &err), err);
}

/* ---- What can't be handed on ---- */

TEST(only_a_hold_that_is_held_and_alone_can_be_exported)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    NEED(client, "handoff", "locks can\'t be handed on here");
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, __func__, NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    DLOCK_AUTO(dlock_hold) again = world_take(lock);
    const char *ticket = NULL;
    CHECK_ERR(dlock_hold_export(hold, NULL, &err), DLOCK_EINVAL, err);
    CHECK_ERR(dlock_hold_export(NULL, &ticket, &err), DLOCK_EINVAL, err);
    CHECK_ERR(dlock_hold_export(hold, &ticket, &err), DLOCK_EBUSY, err);
    CHECK_OK(dlock_hold_release(again, &err), err);
    CHECK_ERR(dlock_hold_export(again, &ticket, &err), DLOCK_ENOTHELD, err);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
    CHECK(world_lose(__func__, hold));
    CHECK_ERR(dlock_hold_export(hold, &ticket, &err), DLOCK_ELOST, err);
    CHECK(ticket == NULL);
}

TEST(what_is_no_ticket_is_refused)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    NEED(client, "handoff", "locks can\'t be handed on here");
    DLOCK_AUTO(dlock_hold) none = NULL;
    static const char *const bad[] = {"", "dlock1.", "x", "dlock1.1.redisson.1000.o.bg.0",
                                      "dlock1....."};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        CHECK_ERR(dlock_client_import(client, bad[i], &none, &err), DLOCK_EINVAL, err);
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, __func__, NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    const char *ticket = NULL;
    CHECK_OK(dlock_hold_export(hold, &ticket, &err), err);
    char spoilt[2048];
    for (size_t i = 0; i < strlen(ticket);
         i++) { /* any letter changed, or the end cut off */
        snprintf(spoilt, sizeof(spoilt), "%s", ticket);
        spoilt[i] = spoilt[i] == 'a' ? 'b' : 'a';
        CHECK_ERR(dlock_client_import(client, spoilt, &none, &err), DLOCK_EINVAL, err);
        spoilt[i] = '\0';
        CHECK_ERR(dlock_client_import(client, spoilt, &none, &err), DLOCK_EINVAL, err);
    }
    DLOCK_AUTO(dlock_client) elsewhere = world_client("client.prefix=other/");
    CHECK_ERR(dlock_client_import(elsewhere, ticket, &none, &err), DLOCK_EINVAL, err);
    CHECK(none == NULL);
    DLOCK_AUTO(dlock_hold) taken = NULL;
    CHECK_OK(dlock_client_import(client, ticket, &taken, &err), err);
}

TEST(names_of_any_bytes_and_length_can_be_handed_on)
{
    BEGIN();
    LEAVE_OUT_ON("memcached", "names are keys there: tests/backends/memcached");
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    NEED(client, "handoff", "locks can\'t be handed on here");
    char longest[1025];
    memset(longest, '\xff', 1024);
    longest[1024] = '\0';
    const char *const names[] = {"a.b.c", "\x01\x80.", "~", "xy", longest};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        DLOCK_AUTO(dlock_lock) lock = world_lock(client, names[i], NULL);
        DLOCK_AUTO(dlock_hold) hold = world_take(lock);
        DLOCK_AUTO(dlock_hold) taken = NULL;
        const char *ticket = NULL;
        CHECK_OK(dlock_hold_export(hold, &ticket, &err), err);
        CHECK_OK(dlock_client_import(client, ticket, &taken, &err), err);
        CHECK_STR(dlock_hold_name(taken), names[i]);
    }
}

TEST(where_it_cant_be_done_it_is_said_and_the_hold_stays)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    if (api_has(client, "handoff"))
        LEAVE_OUT("locks can be handed on here");
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, __func__, NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    const char *ticket = NULL;
    CHECK_ERR(dlock_hold_export(hold, &ticket, &err), DLOCK_ENOTSUP, err);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
}
