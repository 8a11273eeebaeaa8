/* What a table makes of a condition: who is signalled, in which order, and where a signal goes that
 * wasn't used. Time is what the tests say it is. */
#include "four.h"
#include "harness/harness.h"

static int64_t set_up(void)
{
    return four_set_up(DLK_KIND_CONDITION, NULL, NULL);
}

/* In the line, or signalled. */
static dlk_reply look(int who, int64_t now)
{
    return ask(DLK_ACQUIRE, who, 1, 1, now).reply;
}

static int64_t signal_by(int who, int64_t count, int64_t now)
{
    dlk_ask one = {.verb = DLK_SIGNAL, .limit = count};
    answer got = ask_this(who, &one, now);
    return got.reply == DLK_YES ? got.count : -1;
}

static dlk_reply leave(int who, bool used, int64_t now)
{
    dlk_ask one = {.verb = DLK_RELEASE, .number = 1, .take = 1, .used = used};
    return ask_this(who, &one, now).reply;
}

TEST(nobody_is_granted_anything_without_a_signal)
{
    int64_t now = set_up(), later = now + 100 * TTL * MS;
    CHECK_EQ_INT(look(0, now), DLK_HELD);
    CHECK_EQ_INT(look(1, now), DLK_HELD);
    CHECK_EQ_INT(look(0, later), DLK_HELD);
    CHECK_EQ_INT(leave(0, false, later), DLK_YES);
    CHECK_EQ_INT(look(1, later), DLK_HELD);
    CHECK_EQ_INT(told(1), 0);
    tear_down();
}

TEST(signals_go_to_the_first_in_the_line_and_to_each_one)
{
    int64_t now = set_up();
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(look(i, now), DLK_HELD);
    CHECK_EQ_INT(signal_by(3, 1, now), 1);
    CHECK_EQ_INT(told(0), 1);
    CHECK_EQ_INT(told(1), 0);
    CHECK_EQ_INT(look(1, now), DLK_HELD);
    CHECK_EQ_INT(signal_by(3, 1, now), 1); /* the first has one already */
    CHECK_EQ_INT(told(1), 1);
    CHECK_EQ_INT(look(0, now), DLK_YES);
    CHECK_EQ_INT(look(1, now), DLK_YES);
    CHECK_EQ_INT(look(2, now), DLK_HELD);
    CHECK_EQ_INT(leave(0, true, now), DLK_YES);
    CHECK_EQ_INT(leave(1, true, now), DLK_YES);
    CHECK_EQ_INT(look(2, now), DLK_HELD); /* a signal that was used goes no further */
    tear_down();
}

TEST(no_more_are_signalled_than_wait_and_the_rest_is_lost)
{
    int64_t now = set_up();
    CHECK_EQ_INT(signal_by(3, 1, now), 0); /* nobody has ever been here */
    CHECK_EQ_INT(look(0, now), DLK_HELD);
    CHECK_EQ_INT(look(1, now), DLK_HELD);
    CHECK_EQ_INT(signal_by(3, INT64_MAX, now), 2);
    CHECK_EQ_INT(signal_by(3, 1, now), 0);
    CHECK_EQ_INT(look(2, now), DLK_HELD);
    CHECK_EQ_INT(look(0, now), DLK_YES);
    CHECK_EQ_INT(look(1, now), DLK_YES);
    tear_down();
}

TEST(who_waits_again_is_the_last_of_the_line)
{
    int64_t now = set_up();
    CHECK_EQ_INT(look(0, now), DLK_HELD);
    CHECK_EQ_INT(look(1, now), DLK_HELD);
    CHECK_EQ_INT(signal_by(3, 1, now), 1);
    CHECK_EQ_INT(look(0, now), DLK_YES);
    CHECK_EQ_INT(leave(0, true, now), DLK_YES);
    CHECK_EQ_INT(ask(DLK_ACQUIRE, 0, 2, 1, now).reply, DLK_HELD);
    CHECK_EQ_INT(signal_by(3, 1, now), 1);
    CHECK_EQ_INT(look(1, now), DLK_YES);
    tear_down();
}

/* ---- signals that weren't used ---- */

TEST(who_gives_up_passes_the_signal_on_also_one_unseen)
{
    int64_t now = set_up();
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(look(i, now), DLK_HELD);
    CHECK_EQ_INT(signal_by(3, 1, now), 1);
    CHECK_EQ_INT(leave(0, false, now), DLK_YES); /* before it has looked */
    CHECK_EQ_INT(told(1), 1);
    CHECK_EQ_INT(look(1, now), DLK_YES);
    CHECK_EQ_INT(leave(1, false, now), DLK_YES); /* after */
    CHECK_EQ_INT(told(2), 1);
    CHECK_EQ_INT(look(2, now), DLK_YES);
    CHECK_EQ_INT(leave(2, false, now), DLK_YES); /* nobody is there: it is lost */
    CHECK_EQ_INT(look(0, now), DLK_HELD);
    tear_down();
}

TEST(a_signal_that_is_late_goes_on_and_a_renewed_one_stays)
{
    int64_t now = set_up(), later = now + TTL * MS;
    CHECK_EQ_INT(look(0, now), DLK_HELD);
    CHECK_EQ_INT(look(1, now), DLK_HELD);
    CHECK_EQ_INT(signal_by(3, 1, now), 1);
    CHECK_EQ_INT(look(0, now), DLK_YES);
    CHECK_EQ_INT(ask(DLK_RENEW, 0, 1, 1, now + 500 * MS).reply, DLK_YES);
    CHECK_EQ_INT(look(1, later), DLK_HELD);
    CHECK_EQ_INT(look(1, later + 500 * MS), DLK_YES);
    CHECK_EQ_INT(ask(DLK_RENEW, 0, 1, 1, later + 500 * MS).reply, DLK_NOT_OURS);
    tear_down();
}

/* The waiter has to hear that it may have been signalled. */
TEST(who_comes_back_after_its_signal_went_on_has_another_place)
{
    int64_t now = set_up(), later = now + TTL * MS;
    answer first = ask(DLK_ACQUIRE, 0, 1, 1, now);
    CHECK(first.new_place);
    CHECK(!ask(DLK_ACQUIRE, 0, 1, 1, now).new_place);
    CHECK_EQ_INT(look(1, now), DLK_HELD);
    CHECK_EQ_INT(signal_by(3, 1, now), 1);
    CHECK_EQ_INT(look(1, later), DLK_YES);
    CHECK_EQ_INT(told(0), 1);
    answer again = ask(DLK_ACQUIRE, 0, 1, 1, later);
    CHECK_EQ_INT(again.reply, DLK_HELD);
    CHECK(again.new_place);
    tear_down();
}

TEST(who_goes_leaves_its_signals_and_its_places_to_others)
{
    int64_t now = set_up();
    CHECK_EQ_INT(look(0, now), DLK_HELD);
    CHECK_EQ_INT(ask(DLK_ACQUIRE, 0, 2, 1, now).reply, DLK_HELD);
    CHECK_EQ_INT(ask(DLK_ACQUIRE, 0, 3, 1, now).reply, DLK_HELD);
    CHECK_EQ_INT(look(1, now), DLK_HELD);
    CHECK_EQ_INT(look(2, now), DLK_HELD);
    CHECK_EQ_INT(signal_by(3, 2, now), 2);
    client_stop(clients[0]);
    CHECK_EQ_INT(told(1), 1);
    CHECK_EQ_INT(told(2), 1);
    CHECK_EQ_INT(look(1, now), DLK_YES);
    CHECK_EQ_INT(look(2, now), DLK_YES);
    CHECK_EQ_INT(signal_by(3, 1, now), 0);
    tear_down();
}

/* Who has died between others, and hasn't been cleared away yet. */
TEST(the_dead_are_not_signalled)
{
    int64_t now = set_up();
    dlk_local *dead = dlk_local_of(clients[1]->backend);
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(look(i, now), DLK_HELD);
    dlk_member_vanish(dead->table, dead->owner);
    CHECK_EQ_INT(signal_by(3, 2, now), 2);
    CHECK_EQ_INT(told(2), 1);
    CHECK_EQ_INT(look(0, now), DLK_YES);
    CHECK_EQ_INT(look(2, now), DLK_YES);
    tear_down();
}

/* ---- other kinds, and who looks ---- */

TEST(a_lock_and_a_condition_keep_each_other_s_name)
{
    int64_t now = set_up();
    dlk_key *mutex = client_key(clients[3], "orders/42");
    CHECK_EQ_INT(look(0, now), DLK_HELD);
    CHECK_EQ_INT(client_ask(clients[3], DLK_ACQUIRE, mutex, 7, TTL, now).code,
                 DLOCK_ECONFLICT);
    CHECK_EQ_INT(leave(0, false, now), DLK_YES);
    CHECK_EQ_INT(client_ask(clients[3], DLK_ACQUIRE, mutex, 7, TTL, now).reply, DLK_YES);
    CHECK_EQ_INT(ask(DLK_ACQUIRE, 0, 1, 1, now).code, DLOCK_ECONFLICT);
    dlk_ask one = {.verb = DLK_SIGNAL, .limit = 1};
    CHECK_EQ_INT(ask_this(1, &one, now).code, DLOCK_ECONFLICT);
    client_key_close(clients[3], mutex);
    tear_down();
}

TEST(a_signal_leaves_the_line_of_a_semaphore_alone)
{
    int64_t now = set_up();
    dlk_settings *settings = dlk_settings_new();
    CHECK_EQ_INT(dlk_settings_set(settings, "lock.permits", "1", NULL), DLOCK_OK);
    dlk_key *permits = client_key_of(clients[3], "orders/42", DLOCK_SEMAPHORE, settings);
    CHECK_EQ_INT(client_ask_for(clients[3], DLK_ACQUIRE, permits, 7, 1, TTL, now).reply,
                 DLK_YES);
    CHECK_EQ_INT(client_ask_for(clients[3], DLK_ACQUIRE, permits, 8, 1, TTL, now).reply,
                 DLK_HELD);
    dlk_ask one = {.verb = DLK_SIGNAL, .limit = 1};
    CHECK_EQ_INT(ask_this(0, &one, now).code, DLOCK_ECONFLICT);
    CHECK_EQ_INT(client_ask_for(clients[3], DLK_ACQUIRE, permits, 8, 1, TTL, now).reply,
                 DLK_HELD);
    client_key_close(clients[3], permits);
    dlk_settings_free(settings);
    tear_down();
}

TEST(inspect_shows_who_waits_and_list_the_name)
{
    int64_t now = set_up();
    CHECK_EQ_INT(look(0, now), DLK_HELD);
    CHECK_EQ_INT(look(1, now), DLK_HELD);
    CHECK_EQ_INT(signal_by(3, 1, now), 1);
    dlock_info *info = client_info(clients[3], DLK_INSPECT, keys[3], NULL, 0, now);
    CHECK_STR(dlock_info_get(info, "kind"), "condition");
    CHECK_STR(dlock_info_get(info, "waiters"), "1");
    CHECK_STR(dlock_info_get(info, "holders.0.client"), clients[0]->name);
    dlock_info_free(info);
    /* By a lock's handle, whose waiters the core counts, the client's own are shown as well. */
    dlk_key *mutex = client_key(clients[1], "orders/42");
    info = client_info(clients[1], DLK_INSPECT, mutex, NULL, 0, now);
    CHECK_STR(dlock_info_get(info, "waiters"), "1");
    client_key_close(clients[1], mutex);
    dlock_info_free(info);
    info = client_info(clients[3], DLK_LIST, NULL, "orders/", 100, now);
    CHECK_STR(dlock_info_get(info, "locks.0.name"), "orders/42");
    dlock_info_free(info);
    tear_down();
}
