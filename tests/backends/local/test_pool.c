/* What a table decides of locks that several hold at a time: who comes in together, who waits
 * behind whom, how many are in. Time is what the tests say it is. */
#include "check.h"
#include "four.h"
#include "harness/harness.h"

#include <stdio.h>
#include <stdlib.h>

#define READ  1
#define WRITE 0 /* what is taken then is all */

static int64_t set_up(dlock_kind kind, const char *permits)
{
    return four_set_up(kind, "lock.permits", permits);
}

static dlk_reply acquire(int who, int32_t take, int64_t now)
{
    return ask(DLK_ACQUIRE, who, 1, take, now).reply;
}

static dlk_reply release(int who, int64_t now)
{
    return ask(DLK_RELEASE, who, 1, 1, now).reply;
}

static bool holds(int who, int32_t take, int64_t now)
{
    return ask(DLK_VERIFY, who, 1, take, now).reply == DLK_YES;
}

/* ---- readers and writers ---- */

TEST(readers_are_in_together_and_a_writer_waits_for_all_of_them)
{
    int64_t now = set_up(DLOCK_WRITE, NULL);
    answer first = ask(DLK_ACQUIRE, 0, 1, READ, now);
    answer second = ask(DLK_ACQUIRE, 1, 1, READ, now);
    CHECK_EQ_INT(first.reply, DLK_YES);
    CHECK_EQ_INT(second.reply, DLK_YES);
    CHECK(second.token > first.token);
    CHECK_EQ_INT(acquire(2, WRITE, now), DLK_HELD);
    CHECK_EQ_INT(release(0, now), DLK_YES);
    CHECK_EQ_INT(acquire(2, WRITE, now), DLK_HELD);
    CHECK_EQ_INT(told(2), 0);
    CHECK_EQ_INT(release(1, now), DLK_YES);
    CHECK_EQ_INT(told(2), 1);
    answer writer = ask(DLK_ACQUIRE, 2, 1, WRITE, now);
    CHECK_EQ_INT(writer.reply, DLK_YES);
    CHECK(writer.token > second.token);
    CHECK_EQ_INT(acquire(0, READ, now), DLK_HELD);
    tear_down();
}

TEST(a_writer_waits_for_no_reader_that_came_later_and_neighbours_come_in_together)
{
    int64_t now = set_up(DLOCK_WRITE, NULL);
    CHECK_EQ_INT(acquire(0, READ, now), DLK_YES);
    CHECK_EQ_INT(acquire(1, WRITE, now), DLK_HELD);
    CHECK_EQ_INT(acquire(2, READ, now), DLK_HELD);
    CHECK_EQ_INT(acquire(3, READ, now), DLK_HELD);
    CHECK_EQ_INT(release(0, now), DLK_YES);
    CHECK_EQ_INT(told(1), 1);
    CHECK_EQ_INT(told(2), 0);
    CHECK_EQ_INT(acquire(1, WRITE, now), DLK_YES);
    CHECK_EQ_INT(release(1, now), DLK_YES);
    CHECK_EQ_INT(told(2), 1);
    CHECK_EQ_INT(told(3), 1);
    CHECK_EQ_INT(acquire(2, READ, now), DLK_YES);
    CHECK_EQ_INT(acquire(3, READ, now), DLK_YES);
    tear_down();
}

TEST(a_writer_that_gives_up_lets_those_behind_it_in)
{
    int64_t now = set_up(DLOCK_WRITE, NULL);
    CHECK_EQ_INT(acquire(0, READ, now), DLK_YES);
    CHECK_EQ_INT(acquire(1, WRITE, now), DLK_HELD);
    CHECK_EQ_INT(acquire(2, READ, now), DLK_HELD);
    CHECK_EQ_INT(release(1, now), DLK_YES);
    CHECK_EQ_INT(told(2), 1);
    CHECK_EQ_INT(acquire(2, READ, now), DLK_YES);
    tear_down();
}

TEST(a_writer_turns_into_a_reader_and_lets_readers_in_but_no_writer)
{
    int64_t now = set_up(DLOCK_WRITE, NULL);
    answer got = ask(DLK_ACQUIRE, 0, 1, WRITE, now);
    CHECK_EQ_INT(acquire(1, READ, now), DLK_HELD);
    CHECK_EQ_INT(acquire(2, WRITE, now), DLK_HELD);
    CHECK_EQ_INT(ask(DLK_RENEW, 0, 1, READ, now).reply, DLK_YES);
    CHECK_EQ_INT(ask(DLK_RENEW, 0, 1, READ, now).reply, DLK_YES); /* told again */
    CHECK_EQ_INT(ask(DLK_RENEW, 0, 1, WRITE, now).reply, DLK_NOT_OURS);
    CHECK(holds(0, READ, now));
    CHECK(!holds(0, WRITE, now));
    CHECK_EQ_INT(told(1), 1);
    CHECK_EQ_INT(told(2), 0);
    answer reader = ask(DLK_ACQUIRE, 1, 1, READ, now);
    CHECK_EQ_INT(reader.reply, DLK_YES);
    CHECK(reader.token > got.token);
    CHECK_EQ_INT(release(0, now), DLK_YES);
    CHECK_EQ_INT(acquire(2, WRITE, now), DLK_HELD);
    CHECK_EQ_INT(release(1, now), DLK_YES);
    CHECK_EQ_INT(acquire(2, WRITE, now), DLK_YES);
    tear_down();
}

/* Or else a try to write would have those who try to read told that somebody else has it. */
TEST(who_only_tries_keeps_nobody_out)
{
    int64_t now = set_up(DLOCK_WRITE, NULL);
    CHECK_EQ_INT(acquire(0, READ, now), DLK_YES);
    answer tried = client_try(clients[1], keys[1], 1, WRITE, TTL, now);
    CHECK_EQ_INT(tried.reply, DLK_HELD);
    CHECK(tried.no_place);
    CHECK(tried.wait_ms >= TTL && tried.wait_ms <= TTL + 2);
    answer reads = client_try(clients[2], keys[2], 1, READ, TTL, now);
    CHECK_EQ_INT(reads.reply, DLK_YES);
    CHECK_EQ_INT(release(1, now), DLK_NOT_OURS);
    /* One that waits has a place, and who tries isn't let past it. */
    CHECK_EQ_INT(acquire(1, WRITE, now), DLK_HELD);
    CHECK_EQ_INT(client_try(clients[3], keys[3], 1, READ, TTL, now).reply, DLK_HELD);
    tear_down();
}

/* ---- permits ---- */

TEST(as_many_are_in_as_there_are_permits_and_a_big_wish_is_not_starved)
{
    int64_t now = set_up(DLOCK_SEMAPHORE, "3");
    CHECK_EQ_INT(acquire(0, 2, now), DLK_YES);
    CHECK_EQ_INT(ask(DLK_ACQUIRE, 0, 1, 2, now).token, 0);
    CHECK_EQ_INT(acquire(1, 2, now), DLK_HELD);
    CHECK_EQ_INT(acquire(2, 1, now), DLK_HELD); /* though one is free */
    CHECK_EQ_INT(release(0, now), DLK_YES);
    CHECK_EQ_INT(told(1), 1);
    CHECK_EQ_INT(told(2), 1);
    CHECK_EQ_INT(acquire(1, 2, now), DLK_YES);
    CHECK_EQ_INT(acquire(2, 1, now), DLK_YES);
    CHECK_EQ_INT(acquire(3, 1, now), DLK_HELD);
    CHECK_EQ_INT(release(1, now), DLK_YES);
    CHECK_EQ_INT(acquire(3, 1, now), DLK_YES);
    tear_down();
}

TEST(permits_of_one_client_are_its_grants_each_by_itself)
{
    int64_t now = set_up(DLOCK_SEMAPHORE, "3");
    for (uint64_t number = 1; number <= 3; number++)
        CHECK_EQ_INT(ask(DLK_ACQUIRE, 0, number, 1, now).reply, DLK_YES);
    CHECK_EQ_INT(ask(DLK_ACQUIRE, 0, 4, 1, now).reply, DLK_HELD);
    CHECK_EQ_INT(ask(DLK_RELEASE, 0, 2, 1, now).reply, DLK_YES);
    CHECK_EQ_INT(ask(DLK_RELEASE, 0, 2, 1, now).reply, DLK_NOT_OURS);
    CHECK_EQ_INT(ask(DLK_ACQUIRE, 0, 4, 1, now).reply, DLK_YES);
    CHECK_EQ_INT(ask(DLK_VERIFY, 0, 2, 1, now).reply, DLK_NOT_OURS);
    CHECK_EQ_INT(ask(DLK_VERIFY, 0, 3, 1, now).reply, DLK_YES);
    tear_down();
}

TEST(a_size_counts_while_anybody_is_there)
{
    int64_t now = set_up(DLOCK_SEMAPHORE, "3");
    dlk_settings *other = dlk_settings_new(), *none = dlk_settings_new();
    CHECK_EQ_INT(dlk_settings_set(other, "lock.permits", "5", NULL), DLOCK_OK);
    dlk_key *five = client_key_of(clients[3], "orders/42", DLOCK_SEMAPHORE, other);
    dlk_key *any = client_key_of(clients[3], "orders/42", DLOCK_SEMAPHORE, none);
    CHECK_EQ_INT(client_ask_for(clients[3], DLK_ACQUIRE, any, 9, 1, TTL, now).code,
                 DLOCK_EINVAL);
    CHECK_EQ_INT(acquire(0, 1, now), DLK_YES);
    answer got = client_ask_for(clients[3], DLK_ACQUIRE, five, 9, 1, TTL, now);
    CHECK_EQ_INT(got.code, DLOCK_ECONFLICT);
    CHECK_CONTAINS(got.text, "3 permits");
    CHECK_EQ_INT(client_ask_for(clients[3], DLK_ACQUIRE, any, 9, 4, TTL, now).code,
                 DLOCK_EINVAL);
    CHECK_EQ_INT(client_ask_for(clients[3], DLK_ACQUIRE, any, 9, 2, TTL, now).reply,
                 DLK_YES);
    CHECK_EQ_INT(client_ask_for(clients[3], DLK_RELEASE, any, 9, 2, TTL, now).reply,
                 DLK_YES);
    /* Whose time is over isn't there. */
    CHECK_EQ_INT(
        client_ask_for(clients[3], DLK_ACQUIRE, five, 9, 5, TTL, now + TTL * MS).reply,
        DLK_YES);
    client_key_close(clients[3], five);
    client_key_close(clients[3], any);
    dlk_settings_free(other);
    dlk_settings_free(none);
    tear_down();
}

/* ---- leases, and those who go ---- */

TEST(whose_lease_is_over_makes_room_when_anybody_asks)
{
    int64_t now = set_up(DLOCK_SEMAPHORE, "2"), later = now + TTL * MS;
    CHECK_EQ_INT(acquire(0, 1, now), DLK_YES);
    CHECK_EQ_INT(acquire(1, 1, now + MS), DLK_YES);
    answer got = ask(DLK_ACQUIRE, 2, 1, 2, now);
    CHECK_EQ_INT(got.reply, DLK_HELD);
    CHECK(got.wait_ms >= TTL && got.wait_ms <= TTL + 2); /* the first end */
    CHECK_EQ_INT(acquire(2, 2, later), DLK_HELD);
    CHECK_EQ_INT(ask(DLK_RENEW, 0, 1, 1, later).reply, DLK_NOT_OURS);
    CHECK_EQ_INT(acquire(2, 2, later + MS), DLK_YES);
    CHECK_EQ_INT(release(1, later + MS), DLK_NOT_OURS);
    tear_down();
}

TEST(who_waits_behind_one_just_let_in_looks_again_when_that_lease_is_over)
{
    int64_t now = set_up(DLOCK_WRITE, NULL), later = now + TTL * MS;
    CHECK_EQ_INT(acquire(0, WRITE, now), DLK_YES);
    CHECK_EQ_INT(acquire(1, WRITE, now), DLK_HELD);
    CHECK_EQ_INT(acquire(2, WRITE, now), DLK_HELD);
    answer got = ask(DLK_ACQUIRE, 2, 1, WRITE, later);
    CHECK_EQ_INT(got.reply, DLK_HELD);
    CHECK(got.wait_ms >= TTL && got.wait_ms <= TTL + 2);
    CHECK(holds(1, WRITE, later));
    tear_down();
}

TEST(a_renewal_moves_the_end_but_never_back)
{
    int64_t now = set_up(DLOCK_WRITE, NULL);
    CHECK_EQ_INT(acquire(0, READ, now), DLK_YES);
    CHECK_EQ_INT(ask(DLK_RENEW, 0, 1, READ, now + 500 * MS).reply, DLK_YES);
    CHECK_EQ_INT(ask(DLK_RENEW, 0, 1, READ, now).reply, DLK_YES);
    CHECK_EQ_INT(acquire(1, WRITE, now + 1499 * MS), DLK_HELD);
    CHECK_EQ_INT(acquire(1, WRITE, now + 1500 * MS), DLK_YES);
    tear_down();
}

TEST(a_grant_that_ran_out_unseen_is_a_place_at_the_end_of_the_line)
{
    int64_t now = set_up(DLOCK_WRITE, NULL), later = now + TTL * MS;
    CHECK_EQ_INT(acquire(0, WRITE, now), DLK_YES);
    CHECK_EQ_INT(acquire(1, WRITE, now), DLK_HELD);
    CHECK_EQ_INT(acquire(0, WRITE, later), DLK_HELD);
    CHECK_EQ_INT(acquire(1, WRITE, later), DLK_YES);
    CHECK_EQ_INT(release(1, later), DLK_YES);
    CHECK_EQ_INT(told(0), 1);
    CHECK_EQ_INT(acquire(0, WRITE, later), DLK_YES);
    tear_down();
}

TEST(what_a_client_leaves_behind_is_handed_on)
{
    int64_t now = set_up(DLOCK_WRITE, NULL);
    CHECK_EQ_INT(acquire(0, READ, now), DLK_YES);
    CHECK_EQ_INT(acquire(1, WRITE, now), DLK_HELD);
    CHECK_EQ_INT(acquire(2, READ, now), DLK_HELD);
    client_stop(clients[1]); /* waits */
    CHECK_EQ_INT(told(2), 1);
    CHECK_EQ_INT(acquire(2, READ, now), DLK_YES);
    CHECK_EQ_INT(acquire(3, WRITE, now), DLK_HELD);
    client_stop(clients[0]); /* reads */
    client_stop(clients[2]);
    CHECK_EQ_INT(told(3), 1);
    CHECK_EQ_INT(acquire(3, WRITE, now), DLK_YES);
    tear_down();
}

/* ---- other kinds, and who looks ---- */

TEST(a_pool_and_a_mutex_keep_each_other_out)
{
    int64_t now = set_up(DLOCK_WRITE, NULL), later = now + TTL * MS;
    dlk_key *mutex = client_key(clients[3], "orders/42");
    CHECK_EQ_INT(acquire(0, READ, now), DLK_YES);
    CHECK_EQ_INT(client_ask(clients[3], DLK_ACQUIRE, mutex, 7, TTL, now).code,
                 DLOCK_ECONFLICT);
    CHECK(holds(0, READ, now));
    /* Its time is over. */
    CHECK_EQ_INT(client_ask(clients[3], DLK_ACQUIRE, mutex, 7, TTL, later).reply,
                 DLK_YES);
    CHECK_EQ_INT(ask(DLK_ACQUIRE, 0, 2, READ, later).code, DLOCK_ECONFLICT);
    CHECK_EQ_INT(client_ask(clients[3], DLK_VERIFY, mutex, 7, TTL, later).reply, DLK_YES);
    later += TTL * MS;
    CHECK_EQ_INT(ask(DLK_ACQUIRE, 0, 3, READ, later).reply, DLK_YES);
    client_key_close(clients[3], mutex);
    tear_down();
}

TEST(a_break_takes_it_from_one_or_from_all_who_have_it)
{
    int64_t now = set_up(DLOCK_WRITE, NULL);
    char owner[64];
    CHECK_EQ_INT(acquire(0, READ, now), DLK_YES);
    CHECK_EQ_INT(acquire(1, READ, now), DLK_YES);
    CHECK_EQ_INT(acquire(2, WRITE, now), DLK_HELD);
    (void)snprintf(owner, sizeof(owner), "%s:1", clients[1]->uuid);
    CHECK_EQ_INT(client_break(clients[3], keys[3], owner, now).reply, DLK_YES);
    CHECK_EQ_INT(client_break(clients[3], keys[3], owner, now).reply, DLK_NOT_OURS);
    CHECK(holds(0, READ, now));
    CHECK(!holds(1, READ, now));
    CHECK_EQ_INT(ask(DLK_ACQUIRE, 1, 2, READ, now).reply, DLK_HELD);
    CHECK_EQ_INT(client_break(clients[3], keys[3], NULL, now).reply, DLK_YES);
    CHECK(!holds(0, READ, now));
    CHECK(holds(2, WRITE, now)); /* who came in with that keeps it */
    tear_down();
}

TEST(who_is_late_is_not_listed_and_stands_in_no_break_s_way)
{
    int64_t now = set_up(DLOCK_WRITE, NULL), later = now + TTL * MS;
    dlk_key *mutex = client_key(clients[3], "orders/42");
    CHECK_EQ_INT(acquire(0, READ, now), DLK_YES);
    CHECK_EQ_INT(client_break(clients[3], mutex, NULL, now).code, DLOCK_ECONFLICT);
    dlock_info *info = client_info(clients[3], DLK_LIST, NULL, "", 100, later);
    CHECK(dlock_info_get(info, "locks.0.name") == NULL);
    dlock_info_free(info);
    CHECK_EQ_INT(acquire(0, READ, now), DLK_YES);
    CHECK_EQ_INT(client_break(clients[3], mutex, NULL, later).reply, DLK_NOT_OURS);
    client_key_close(clients[3], mutex);
    tear_down();
}

TEST(nothing_is_kept_of_a_share_that_was_broken)
{
    int64_t now = set_up(DLOCK_WRITE, NULL);
    dlk_local_key *data = keys[0]->data;
    for (uint64_t number = 1; number <= 2; number++) {
        dlk_verb verb = number == 1 ? DLK_RENEW : DLK_VERIFY;
        CHECK_EQ_INT(ask(DLK_ACQUIRE, 0, number, READ, now).reply, DLK_YES);
        CHECK(!dlk_list_empty(&data->turns));
        CHECK_EQ_INT(client_break(clients[1], keys[1], NULL, now).reply, DLK_YES);
        CHECK_EQ_INT(ask(verb, 0, number, READ, now).reply, DLK_NOT_OURS);
        CHECK(dlk_list_empty(&data->turns)); /* nobody releases what was taken away */
    }
    tear_down();
}

TEST(inspect_shows_all_who_have_it_and_how_much_is_left)
{
    int64_t now = set_up(DLOCK_SEMAPHORE, "5");
    CHECK_EQ_INT(acquire(0, 2, now), DLK_YES);
    CHECK_EQ_INT(acquire(1, 1, now), DLK_YES);
    CHECK_EQ_INT(acquire(2, 3, now), DLK_HELD);
    dlock_info *info = client_info(clients[3], DLK_INSPECT, keys[3], NULL, 0, now);
    CHECK_STR(dlock_info_get(info, "kind"), "semaphore");
    CHECK_STR(dlock_info_get(info, "held"), "1");
    CHECK_STR(dlock_info_get(info, "permits"), "5");
    CHECK_STR(dlock_info_get(info, "permits_free"), "2");
    CHECK_STR(dlock_info_get(info, "holders.0.count"), "2");
    CHECK_STR(dlock_info_get(info, "holders.1.client"), clients[1]->name);
    CHECK(dlock_info_get(info, "holders.2.owner") == NULL);
    CHECK_STR(dlock_info_get(info, "holders.0.token"), "0");
    CHECK_STR(dlock_info_get(info, "waiters"), "1");
    dlock_info_free(info);
    info = client_info(clients[3], DLK_LIST, NULL, "orders/", 100, now);
    CHECK_STR(dlock_info_get(info, "locks.0.name"), "orders/42");
    CHECK(dlock_info_get(info, "locks.0.owner") != NULL);
    dlock_info_free(info);
    tear_down();
}

TEST(a_table_that_is_full_says_so)
{
    static const char *const small[] = {"file.slots=16", NULL};
    int64_t now = dlk_clock_now();
    fake *client = client_open_with(temp_uri("full"), small, NULL);
    dlk_key *key = client_key_of(client, "n", DLOCK_WRITE, NULL);
    uint32_t places = dlk_local_of(client->backend)->table->place_count;
    for (uint64_t number = 1; number <= places; number++)
        CHECK_EQ_INT(client_ask_for(client, DLK_ACQUIRE, key, number, 1, TTL, now).reply,
                     DLK_YES);
    CHECK_EQ_INT(client_ask_for(client, DLK_ACQUIRE, key, places + 1, 1, TTL, now).code,
                 DLOCK_EOVERFLOW);
    CHECK_EQ_INT(client_ask_for(client, DLK_RELEASE, key, 1, 1, TTL, now).reply, DLK_YES);
    CHECK_EQ_INT(client_ask_for(client, DLK_ACQUIRE, key, places + 1, 1, TTL, now).reply,
                 DLK_YES);
    client_key_close(client, key);
    client_close(client);
}

TEST(a_name_whose_readers_are_all_late_makes_room_for_another)
{
    static const char *const small[] = {"file.slots=16", NULL};
    int64_t now = dlk_clock_now();
    char name[16];
    fake *client = client_open_with(temp_uri("late"), small, NULL);
    uint32_t rows = dlk_local_of(client->backend)->table->row_count;
    for (uint32_t i = 0; i <= rows; i++) {
        (void)snprintf(name, sizeof(name), "name-%u", i);
        dlk_key *key = client_key_of(client, name, DLOCK_WRITE, NULL);
        int64_t at = i < rows ? now : now + TTL * MS;
        CHECK_EQ_INT(client_ask_for(client, DLK_ACQUIRE, key, i + 1, READ, TTL, at).reply,
                     DLK_YES);
        client_key_close(client, key);
    }
    client_close(client);
}

TEST(places_of_those_who_are_late_are_free_in_a_full_table)
{
    static const char *const small[] = {"file.slots=16", NULL};
    int64_t now = dlk_clock_now(), later = now + TTL * MS;
    fake *client = client_open_with(temp_uri("places"), small, NULL);
    dlk_table *table = dlk_local_of(client->backend)->table;
    dlk_key *key = client_key_of(client, "n", DLOCK_WRITE, NULL);
    dlk_key *mutex = client_key(client, "m");
    for (uint64_t number = 1; number <= table->place_count; number++)
        CHECK_EQ_INT(client_ask_for(client, DLK_ACQUIRE, key, number, 1, TTL, now).reply,
                     DLK_YES);
    CHECK_EQ_INT(client_ask(client, DLK_ACQUIRE, mutex, 900, TTL, now).reply, DLK_YES);
    CHECK_EQ_INT(client_ask(client, DLK_ACQUIRE, mutex, 901, TTL, now).code,
                 DLOCK_EOVERFLOW);
    /* A reader fits beside those who are late, so nothing else would look for them. */
    CHECK_EQ_INT(client_ask_for(client, DLK_ACQUIRE, key, 902, 1, TTL, later).reply,
                 DLK_YES);
    CHECK_STR(table_fault(table) ? table_fault(table) : "", "");
    client_key_close(client, key);
    client_key_close(client, mutex);
    client_close(client);
}

TEST(who_waits_for_a_mutex_gets_the_place_of_a_reader_who_is_late)
{
    static const char *const small[] = {"file.slots=16", NULL};
    int64_t now = dlk_clock_now(), later = now + TTL * MS;
    fake *client = client_open_with(temp_uri("mutex"), small, NULL);
    uint32_t places = dlk_local_of(client->backend)->table->place_count;
    dlk_key *key = client_key_of(client, "n", DLOCK_WRITE, NULL);
    dlk_key *mutex = client_key(client, "m");
    for (uint64_t number = 1; number <= places; number++)
        CHECK_EQ_INT(client_ask_for(client, DLK_ACQUIRE, key, number, 1, TTL, now).reply,
                     DLK_YES);
    CHECK_EQ_INT(client_ask(client, DLK_ACQUIRE, mutex, 900, TTL, later).reply, DLK_YES);
    CHECK_EQ_INT(client_ask(client, DLK_ACQUIRE, mutex, 901, TTL, later).reply, DLK_HELD);
    client_key_close(client, key);
    client_key_close(client, mutex);
    client_close(client);
}

/* ---- recovery ---- */

TEST(a_table_that_is_made_anew_knows_who_has_what_and_who_is_next)
{
    int64_t now = set_up(DLOCK_WRITE, NULL);
    dlk_table *table = dlk_local_of(clients[0]->backend)->table;
    dlk_section section;
    CHECK_EQ_INT(acquire(0, READ, now), DLK_YES);
    CHECK_EQ_INT(acquire(1, READ, now), DLK_YES);
    CHECK_EQ_INT(acquire(2, WRITE, now), DLK_HELD);
    CHECK_EQ_INT(acquire(3, READ, now), DLK_HELD);
    CHECK_EQ_INT(dlk_table_enter(table, &section, 1000), DLK_ENTERED);
    for (uint32_t i = 0; i < table->row_count; i++)
        table->pools[i].taken = table->pools[i].next = 7;
    dlk_table_rebuild(&section, now);
    const char *fault = table_fault(table);
    dlk_table_leave(&section);
    CHECK_STR(fault ? fault : "", "");
    CHECK(holds(0, READ, now) && holds(1, READ, now));
    CHECK_EQ_INT(release(0, now), DLK_YES);
    CHECK_EQ_INT(release(1, now), DLK_YES);
    CHECK_EQ_INT(told(3), 0);
    CHECK_EQ_INT(told(2), 1);
    tear_down();
}
