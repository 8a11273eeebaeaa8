/* What a table decides: who gets a lock, who waits behind whom, what a lease and a token are.
 * Time is what the tests say it is. */
#include "backends/local/memory.h"
#include "client.h"
#include "harness/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MS  DLK_NS_PER_MS
#define TTL 1000 /* ms */

static fake *a, *b, *c;
static dlk_key *ka, *kb, *kc;

/* Three clients and one lock; a table of its own for every test. */
static int64_t set_up(void)
{
    static int number;
    char uri[32];
    (void)snprintf(uri, sizeof(uri), "mem:table-%d", number++);
    a = client_open(uri, NULL);
    b = client_open(uri, NULL);
    c = client_open(uri, NULL);
    ka = client_key(a, "orders/42");
    kb = client_key(b, "orders/42");
    kc = client_key(c, "orders/42");
    return dlk_clock_now();
}

static void tear_down(void)
{
    client_key_close(a, ka);
    client_key_close(b, kb);
    client_key_close(c, kc);
    client_close(a);
    client_close(b);
    client_close(c);
}

static answer acquire(fake *client, dlk_key *key, uint64_t number, int64_t now)
{
    return client_ask(client, DLK_ACQUIRE, key, number, TTL, now);
}

static dlk_reply release(fake *client, dlk_key *key, uint64_t number, int64_t now)
{
    return client_ask(client, DLK_RELEASE, key, number, 0, now).reply;
}

static int64_t wall_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

TEST(the_first_token_of_a_table_is_the_time_so_that_the_next_table_goes_on_from_there)
{
    int64_t before = wall_us(), first = dlk_table_first_token();
    CHECK(before <= first && first <= wall_us());
}

TEST(a_free_lock_is_granted_with_a_token)
{
    int64_t now = set_up();
    answer got = acquire(a, ka, 1, now);
    CHECK_EQ_INT(got.reply, DLK_YES);
    CHECK(got.token > 0);
    CHECK_EQ_INT(got.since, now);
    CHECK_EQ_INT(a->ups, 1);
    tear_down();
}

TEST(a_held_lock_tells_how_long_its_lease_lasts)
{
    int64_t now = set_up();
    (void)acquire(a, ka, 1, now);
    answer got = acquire(b, kb, 1, now + 300 * MS);
    CHECK_EQ_INT(got.reply, DLK_HELD);
    CHECK_EQ_INT(got.wait_ms, TTL - 300 + 1);
    tear_down();
}

TEST(asking_again_grants_again_with_the_same_token)
{
    int64_t now = set_up();
    answer first = acquire(a, ka, 1, now);
    answer again = acquire(a, ka, 1, now + 500 * MS);
    CHECK_EQ_INT(again.reply, DLK_YES);
    CHECK_EQ_INT(again.token, first.token);
    /* and its lease counts from the second time */
    CHECK_EQ_INT(acquire(b, kb, 1, now + 1100 * MS).reply, DLK_HELD);
    tear_down();
}

TEST(two_grants_of_one_client_exclude_each_other)
{
    int64_t now = set_up();
    CHECK_EQ_INT(acquire(a, ka, 1, now).reply, DLK_YES);
    CHECK_EQ_INT(acquire(a, ka, 2, now).reply, DLK_HELD);
    tear_down();
}

TEST(a_release_hands_over_in_the_order_of_asking)
{
    int64_t now = set_up();
    answer first = acquire(a, ka, 1, now);
    (void)acquire(b, kb, 1, now);
    (void)acquire(c, kc, 1, now);
    CHECK_EQ_INT(release(a, ka, 1, now), DLK_YES);
    answer second = acquire(b, kb, 1, now);
    CHECK_EQ_INT(second.reply, DLK_YES);
    CHECK(second.token > first.token);
    CHECK_EQ_INT(acquire(c, kc, 1, now).reply, DLK_HELD);
    CHECK_EQ_INT(release(b, kb, 1, now), DLK_YES);
    answer third = acquire(c, kc, 1, now);
    CHECK_EQ_INT(third.reply, DLK_YES);
    CHECK(third.token > second.token);
    tear_down();
}

TEST(asking_again_keeps_the_place_in_the_line)
{
    int64_t now = set_up();
    (void)acquire(a, ka, 1, now);
    (void)acquire(b, kb, 1, now);
    (void)acquire(c, kc, 1, now);
    for (int i = 0; i < 10; i++)
        CHECK_EQ_INT(acquire(b, kb, 1, now + i).reply, DLK_HELD);
    (void)release(a, ka, 1, now);
    CHECK_EQ_INT(acquire(c, kc, 1, now).reply, DLK_HELD);
    CHECK_EQ_INT(acquire(b, kb, 1, now).reply, DLK_YES);
    tear_down();
}

TEST(a_newcomer_does_not_overtake_the_line)
{
    int64_t now = set_up();
    (void)acquire(a, ka, 1, now);
    (void)acquire(b, kb, 1, now);
    (void)release(a, ka, 1, now);
    /* b has been granted but hasn't looked yet */
    CHECK_EQ_INT(acquire(a, ka, 2, now).reply, DLK_HELD);
    CHECK_EQ_INT(acquire(c, kc, 1, now).reply, DLK_HELD);
    CHECK_EQ_INT(acquire(b, kb, 1, now).reply, DLK_YES);
    tear_down();
}

TEST(who_is_granted_is_notified_and_nobody_else)
{
    int64_t now = set_up();
    (void)acquire(a, ka, 1, now);
    (void)acquire(b, kb, 1, now);
    (void)acquire(c, kc, 1, now);
    (void)release(a, ka, 1, now);
    b->backend->type->process(b->backend, now);
    c->backend->type->process(c->backend, now);
    CHECK_EQ_INT(b->told, 1);
    CHECK(b->told_key == kb);
    CHECK_EQ_INT(c->told, 0);
    b->backend->type->process(b->backend, now);
    CHECK_EQ_INT(b->told, 1);
    tear_down();
}

static answer from_inside;

static void ask_from_inside(fake *client, dlk_key *key)
{
    from_inside = acquire(client, key, 1, dlk_clock_now());
}

TEST(the_host_may_ask_from_inside_notified)
{
    int64_t now = set_up();
    (void)acquire(a, ka, 1, now);
    (void)acquire(b, kb, 1, now);
    b->on_notified = ask_from_inside;
    (void)release(a, ka, 1, now);
    b->backend->type->process(b->backend, now);
    CHECK_EQ_INT(from_inside.reply, DLK_YES);
    tear_down();
}

TEST(a_bell_that_rang_before_arm_ends_the_sleep_at_once)
{
    int64_t now = set_up();
    (void)acquire(a, ka, 1, now);
    (void)acquire(b, kb, 1, now);
    (void)release(a, ka, 1, now);
    b->backend->type->arm(b->backend, NULL);
    b->backend->type->sleep(b->backend, DLK_NEVER,
                            dlk_kicks_seen(&b->kicks)); /* hangs if the news was lost */
    b->backend->type->process(b->backend, now);
    CHECK_EQ_INT(b->told, 1);
    tear_down();
}

TEST(a_kick_ends_the_sleep)
{
    (void)set_up();
    b->backend->type->arm(b->backend, NULL);
    b->backend->type->kick(b->backend);
    b->backend->type->sleep(b->backend, DLK_NEVER, dlk_kicks_seen(&b->kicks));
    tear_down();
}

TEST(a_grant_that_was_waited_for_counts_from_the_hand_over)
{
    int64_t now = set_up();
    (void)acquire(a, ka, 1, now);
    (void)acquire(b, kb, 1, now);
    (void)release(a, ka, 1, now + 100 * MS);
    answer got = acquire(b, kb, 1, now + 400 * MS);
    CHECK_EQ_INT(got.reply, DLK_YES);
    CHECK_EQ_INT(got.since, now + 100 * MS);
    tear_down();
}

TEST(a_lease_that_is_over_goes_to_the_first_in_the_line)
{
    int64_t now = set_up();
    answer first = acquire(a, ka, 1, now);
    (void)acquire(b, kb, 1, now);
    (void)acquire(c, kc, 1, now);
    int64_t later = now + TTL * MS;
    CHECK_EQ_INT(acquire(c, kc, 1, later - 1).reply, DLK_HELD);
    CHECK_EQ_INT(acquire(c, kc, 1, later).reply, DLK_HELD); /* serves b, who is ahead */
    answer got = acquire(b, kb, 1, later);
    CHECK_EQ_INT(got.reply, DLK_YES);
    CHECK(got.token > first.token);
    CHECK_EQ_INT(release(a, ka, 1, later), DLK_NOT_OURS);
    CHECK_EQ_INT(client_ask(b, DLK_VERIFY, kb, 1, 0, later).reply, DLK_YES);
    tear_down();
}

TEST(a_grant_nobody_looked_at_in_time_is_worth_nothing)
{
    int64_t now = set_up();
    (void)acquire(a, ka, 1, now);
    (void)acquire(b, kb, 1, now);
    (void)acquire(c, kc, 1, now);
    (void)release(a, ka, 1, now); /* b's lease runs from here */
    int64_t later = now + (TTL + 1) * MS;
    CHECK_EQ_INT(acquire(b, kb, 1, later).reply, DLK_HELD); /* behind c now */
    CHECK_EQ_INT(acquire(c, kc, 1, later).reply, DLK_YES);
    CHECK_EQ_INT(release(c, kc, 1, later), DLK_YES);
    CHECK_EQ_INT(acquire(b, kb, 1, later).reply, DLK_YES);
    tear_down();
}

TEST(renew_moves_the_end_of_the_lease_but_never_back)
{
    int64_t now = set_up();
    (void)acquire(a, ka, 1, now);
    CHECK_EQ_INT(client_ask(a, DLK_RENEW, ka, 1, 5000, now).reply, DLK_YES);
    CHECK_EQ_INT(client_ask(a, DLK_RENEW, ka, 1, 100, now).reply, DLK_YES);
    CHECK_EQ_INT(acquire(b, kb, 1, now + 4999 * MS).reply, DLK_HELD);
    CHECK_EQ_INT(acquire(c, kc, 1, now + 5000 * MS).reply, DLK_HELD);
    CHECK_EQ_INT(acquire(b, kb, 1, now + 5000 * MS).reply, DLK_YES);
    tear_down();
}

TEST(renew_does_not_bring_back_what_is_gone)
{
    int64_t now = set_up();
    CHECK_EQ_INT(client_ask(a, DLK_RENEW, ka, 1, TTL, now).reply, DLK_NOT_OURS);
    (void)acquire(a, ka, 1, now);
    CHECK_EQ_INT(client_ask(a, DLK_RENEW, ka, 1, TTL, now + TTL * MS).reply,
                 DLK_NOT_OURS);
    CHECK_EQ_INT(client_ask(a, DLK_VERIFY, ka, 1, TTL, now + TTL * MS).reply,
                 DLK_NOT_OURS);
    (void)acquire(a, ka, 2, now + TTL * MS);
    CHECK_EQ_INT(release(a, ka, 2, now + TTL * MS), DLK_YES);
    CHECK_EQ_INT(client_ask(a, DLK_RENEW, ka, 2, TTL, now + TTL * MS).reply,
                 DLK_NOT_OURS);
    tear_down();
}

TEST(a_second_release_leaves_the_next_owner_alone)
{
    int64_t now = set_up();
    (void)acquire(a, ka, 1, now);
    (void)acquire(b, kb, 1, now);
    CHECK_EQ_INT(release(a, ka, 1, now), DLK_YES);
    CHECK_EQ_INT(release(a, ka, 1, now), DLK_NOT_OURS);
    CHECK_EQ_INT(client_ask(b, DLK_VERIFY, kb, 1, 0, now).reply, DLK_YES);
    tear_down();
}

TEST(giving_up_a_place_in_the_line_lets_the_next_one_through)
{
    int64_t now = set_up();
    (void)acquire(a, ka, 1, now);
    (void)acquire(b, kb, 1, now);
    (void)acquire(c, kc, 1, now);
    CHECK_EQ_INT(release(b, kb, 1, now), DLK_YES);
    CHECK_EQ_INT(release(b, kb, 1, now), DLK_NOT_OURS);
    (void)release(a, ka, 1, now);
    CHECK_EQ_INT(acquire(c, kc, 1, now).reply, DLK_YES);
    tear_down();
}

TEST(giving_up_a_grant_that_was_not_looked_at_hands_it_on)
{
    int64_t now = set_up();
    (void)acquire(a, ka, 1, now);
    (void)acquire(b, kb, 1, now);
    (void)acquire(c, kc, 1, now);
    (void)release(a, ka, 1, now);
    CHECK_EQ_INT(release(b, kb, 1, now), DLK_YES);
    CHECK_EQ_INT(acquire(c, kc, 1, now).reply, DLK_YES);
    tear_down();
}

TEST(what_a_client_leaves_behind_is_handed_on)
{
    int64_t now = set_up();
    (void)acquire(a, ka, 1, now);
    (void)acquire(b, kb, 1, now);
    (void)acquire(c, kc, 1, now);
    client_stop(a);
    client_stop(b); /* granted by a's leaving */
    CHECK_EQ_INT(acquire(c, kc, 1, now).reply, DLK_YES);
    CHECK_EQ_INT(acquire(a, ka, 2, now).reply, DLK_NOT_SENT);
    tear_down();
}

TEST(break_takes_the_lock_from_the_holder_it_names)
{
    int64_t now = set_up();
    char owner[64];
    answer got = acquire(a, ka, 7, now);
    (void)acquire(b, kb, 1, now);
    (void)snprintf(owner, sizeof(owner), "%s:8", a->uuid);
    CHECK_EQ_INT(client_break(c, kc, owner, now).reply, DLK_NOT_OURS);
    CHECK_EQ_INT(client_ask(a, DLK_VERIFY, ka, 7, 0, now).reply, DLK_YES);
    (void)snprintf(owner, sizeof(owner), "%s:7", a->uuid);
    CHECK_EQ_INT(client_break(c, kc, owner, now).reply, DLK_YES);
    CHECK_EQ_INT(client_ask(a, DLK_VERIFY, ka, 7, 0, now).reply, DLK_NOT_OURS);
    answer next = acquire(b, kb, 1, now);
    CHECK_EQ_INT(next.reply, DLK_YES);
    CHECK(next.token > got.token);
    CHECK_EQ_INT(client_break(c, kc, NULL, now).reply, DLK_YES);
    CHECK_EQ_INT(client_break(c, kc, NULL, now).reply, DLK_NOT_OURS);
    tear_down();
}

/* ---- a turn and its place ---- */

static char *waiters_of(fake *client, dlk_key *key, int64_t now)
{
    static char text[32];
    dlock_info *info = client_info(client, DLK_INSPECT, key, NULL, 0, now);
    (void)snprintf(text, sizeof(text), "%s", dlock_info_get(info, "waiters"));
    dlock_info_free(info);
    return text;
}

/* A mutex's lease is over, b is ahead in its line, and somebody asks for an election. */
static void ask_for_another_kind(void)
{
    dlk_settings *settings = dlk_settings_new();
    dlk_key *election = client_key_of(c, "orders/42", DLOCK_ELECTION, settings);
    int64_t now = dlk_clock_now(), later = now + TTL * MS;
    (void)acquire(a, ka, 1, now);
    CHECK_EQ_INT(acquire(b, kb, 1, now).reply, DLK_HELD);
    answer got = acquire(c, election, 1, later);
    CHECK_EQ_INT(got.reply, DLK_REFUSED);
    CHECK_EQ_INT(got.code, DLOCK_ECONFLICT);
    CHECK_STR(waiters_of(c, election, later), "0");
    CHECK_EQ_INT(acquire(c, election, 1, later).reply, DLK_REFUSED);
    CHECK_EQ_INT(acquire(b, kb, 1, later).reply, DLK_YES);
    CHECK_EQ_INT(release(b, kb, 1, later), DLK_YES);
    CHECK_EQ_INT(acquire(a, ka, 2, later).reply, DLK_YES);
    CHECK_EQ_INT(release(a, ka, 2, later), DLK_YES);
    CHECK_EQ_INT(acquire(c, election, 2, later).reply, DLK_YES);
    client_key_close(c, election);
    dlk_settings_free(settings);
}

TEST(who_wants_another_kind_is_refused_and_never_granted_the_lock)
{
    (void)set_up();
    ask_for_another_kind();
    tear_down();
}

static void set_up_file(void)
{
    a = client_open(temp_uri("kinds"), NULL);
    b = client_open(temp_uri("kinds"), NULL);
    c = client_open(temp_uri("kinds"), NULL);
    ka = client_key(a, "orders/42");
    kb = client_key(b, "orders/42");
    kc = client_key(c, "orders/42");
}

TEST(who_wants_another_kind_is_refused_and_never_granted_the_lock_of_a_file)
{
    set_up_file();
    ask_for_another_kind();
    tear_down();
}

/* Whatever the reason: here there is no token to hand the lock over with. */
TEST(who_is_refused_while_waiting_leaves_the_line)
{
    int64_t now = set_up(), later = now + TTL * MS;
    _Atomic int64_t *last = &dlk_local_of(a->backend)->table->head->last_token;
    (void)acquire(a, ka, 1, now);
    (void)acquire(b, kb, 1, now);
    (void)acquire(c, kc, 1, now);
    int64_t kept = atomic_exchange(last, INT64_MAX);
    CHECK_EQ_INT(acquire(c, kc, 1, later).code, DLOCK_EOVERFLOW);
    atomic_store(last, kept);
    CHECK_STR(waiters_of(a, ka, later), "1");
    CHECK_EQ_INT(acquire(b, kb, 1, later).reply, DLK_YES);
    CHECK_EQ_INT(release(b, kb, 1, later), DLK_YES);
    CHECK_EQ_INT(acquire(a, ka, 2, later).reply, DLK_YES);
    tear_down();
}

/* Whose leaving nobody was told of, as the table couldn't be entered. */
TEST(what_was_left_without_a_word_is_handed_on_by_whoever_comes_next)
{
    int64_t now = dlk_clock_now();
    a = client_open(temp_uri("left"), NULL);
    b = client_open(temp_uri("left"), NULL);
    ka = client_key(a, "orders/42");
    kb = client_key(b, "orders/42");
    CHECK_EQ_INT(acquire(a, ka, 1, now).reply, DLK_YES);
    CHECK_EQ_INT(acquire(b, kb, 1, now).reply, DLK_HELD);
    dlk_member_vanish(dlk_local_of(a->backend)->table, dlk_local_of(a->backend)->owner);
    b->backend->type->process(b->backend, now);
    CHECK_EQ_INT(b->told, 0);
    c = client_open(temp_uri("left"), NULL);
    kc = client_key(c, "orders/42");
    b->backend->type->process(b->backend, now);
    CHECK_EQ_INT(b->told, 1);
    CHECK_EQ_INT(acquire(b, kb, 1, now).reply, DLK_YES);
    tear_down();
}

TEST(a_place_that_another_name_has_got_is_not_taken_for_ones_own)
{
    static const char *const small[] = {"file.slots=16", NULL};
    int64_t now = dlk_clock_now();
    char name[16];
    a = client_open_with(temp_uri("places"), small, NULL);
    b = client_open_with(temp_uri("places"), small, NULL);
    ka = client_key(a, "name-00");
    kb = client_key(b, "name-00");
    (void)acquire(a, ka, 1, now);
    (void)release(a, ka, 1, now);
    for (unsigned i = 1; i <= dlk_local_of(a->backend)->table->row_count; i++) {
        (void)snprintf(name, sizeof(name), "name-%02u", i);
        dlk_key *other = client_key(b, name);
        CHECK_EQ_INT(acquire(b, other, i, now).reply, DLK_YES);
        (void)release(b, other, i, now);
        client_key_close(b, other);
    }
    CHECK_EQ_INT(acquire(a, ka, 2, now).reply, DLK_YES);
    CHECK_EQ_INT(acquire(b, kb, 100, now).reply, DLK_HELD);
    client_key_close(a, ka);
    client_key_close(b, kb);
    client_close(a);
    client_close(b);
}

TEST(inspect_shows_holder_token_lease_and_line)
{
    int64_t now = set_up();
    char owner[64];
    answer got = acquire(a, ka, 7, now);
    (void)acquire(b, kb, 1, now);
    (void)acquire(c, kc, 1, now);
    dlock_info *info = client_info(c, DLK_INSPECT, kc, NULL, 0, now + 400 * MS);
    (void)snprintf(owner, sizeof(owner), "%s:7", a->uuid);
    CHECK_STR(dlock_info_get(info, "held"), "1");
    CHECK_STR(dlock_info_get(info, "kind"), "mutex");
    CHECK_STR(dlock_info_get(info, "holders.0.owner"), owner);
    CHECK_EQ_INT(atoll(dlock_info_get(info, "holders.0.token")), got.token);
    CHECK_STR(dlock_info_get(info, "holders.0.remaining_ms"), "600");
    CHECK_STR(dlock_info_get(info, "holders.0.client"), a->name);
    CHECK_STR(dlock_info_get(info, "waiters"), "1"); /* b; who asks counts its own */
    dlock_info_free(info);
    info = client_info(c, DLK_INSPECT, kc, NULL, 0, now + TTL * MS);
    CHECK_STR(dlock_info_get(info, "held"), "0");
    dlock_info_free(info);
    tear_down();
}

TEST(list_shows_what_is_in_use_by_prefix_and_limit)
{
    int64_t now = set_up();
    dlk_key *other = client_key(a, "orders/7"), *far = client_key(a, "users/1");
    dlk_key *idle = client_key(a, "orders/idle");
    (void)acquire(a, ka, 1, now);
    (void)acquire(a, other, 2, now);
    (void)acquire(a, far, 3, now);
    (void)acquire(a, idle, 4, now);
    (void)release(a, idle, 4, now);
    dlock_info *info = client_info(b, DLK_LIST, NULL, "orders/", 100, now);
    CHECK_STR(dlock_info_get(info, "locks.0.name"), "orders/42");
    CHECK_STR(dlock_info_get(info, "locks.1.name"), "orders/7");
    CHECK(dlock_info_get(info, "locks.2.name") == NULL);
    dlock_info_free(info);
    info = client_info(b, DLK_LIST, NULL, NULL, 2, now);
    CHECK(dlock_info_get(info, "locks.1.name") != NULL);
    CHECK(dlock_info_get(info, "locks.2.name") == NULL);
    dlock_info_free(info);
    client_key_close(a, other);
    client_key_close(a, far);
    client_key_close(a, idle);
    tear_down();
}

TEST(names_differ_in_every_byte_and_may_be_long)
{
    int64_t now = set_up();
    char name[DLK_TABLE_NAME + 1];
    memset(name, 'x', DLK_TABLE_NAME);
    name[DLK_TABLE_NAME] = '\0';
    dlk_key *one = client_key(a, name);
    name[DLK_TABLE_NAME - 1] = '\xff';
    dlk_key *two = client_key(a, name);
    name[DLK_TABLE_NAME - 1] = '\0';
    dlk_key *three = client_key(a, name);
    CHECK_EQ_INT(acquire(a, one, 1, now).reply, DLK_YES);
    CHECK_EQ_INT(acquire(a, two, 2, now).reply, DLK_YES);
    CHECK_EQ_INT(acquire(a, three, 3, now).reply, DLK_YES);
    CHECK_EQ_INT(acquire(a, one, 4, now).reply, DLK_HELD);
    client_key_close(a, one);
    client_key_close(a, two);
    client_key_close(a, three);
    tear_down();
}

TEST(only_names_of_1_to_1024_bytes_are_taken)
{
    (void)set_up();
    dlock_error *err = NULL;
    char name[DLK_TABLE_NAME + 2];
    memset(name, 'x', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    dlk_key key = {.name = name, .size = sizeof(name) - 1, .kind = DLOCK_MUTEX};
    CHECK_ERR(a->backend->type->key_open(a->backend, &key, &err), DLOCK_EINVAL, err);
    key.size = 0;
    CHECK_ERR(a->backend->type->key_open(a->backend, &key, &err), DLOCK_EINVAL, err);
    dlock_error_free(err);
    tear_down();
}

TEST(tables_of_different_names_have_nothing_in_common)
{
    int64_t now = set_up();
    fake *other = client_open("mem:elsewhere", NULL);
    dlk_key *key = client_key(other, "orders/42");
    (void)acquire(a, ka, 1, now);
    CHECK_EQ_INT(acquire(other, key, 1, now).reply, DLK_YES);
    client_key_close(other, key);
    client_close(other);
    tear_down();
}

TEST(tokens_go_on_rising_when_a_table_is_made_anew)
{
    int64_t now = dlk_clock_now(), last = 0;
    for (int i = 0; i < 5; i++) {
        fake *one = client_open("mem:again", NULL);
        dlk_key *key = client_key(one, "n");
        answer got = acquire(one, key, 1, now);
        CHECK_EQ_INT(got.reply, DLK_YES);
        CHECK(got.token > last);
        last = got.token;
        client_key_close(one, key);
        client_close(one);
    }
}

TEST(tokens_go_on_rising_when_the_counter_is_damaged)
{
    static const int64_t damages[] = {0, 1, -1, INT64_MIN};
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        int64_t now = set_up();
        dlk_table *table = dlk_local_of(a->backend)->table;
        dlk_section section;
        int64_t before = acquire(a, ka, 1, now).token;
        CHECK(before > 1);
        CHECK_EQ_INT(dlk_table_enter(table, &section, 1000), DLK_ENTERED);
        atomic_store(&table->head->last_token, damages[i]);
        dlk_table_rebuild(&section,
                          now); /* who has a lock knows a token, and it says so */
        dlk_table_leave(&section);
        CHECK_EQ_INT(client_ask(a, DLK_VERIFY, ka, 1, 0, now).reply, DLK_YES);
        CHECK_EQ_INT(release(a, ka, 1, now), DLK_YES);
        CHECK(acquire(b, kb, 1, now).token > before);
        tear_down();
    }
}

TEST(a_counter_at_its_end_is_an_error_and_not_a_token)
{
    int64_t now = set_up();
    atomic_store(&dlk_local_of(a->backend)->table->head->last_token, INT64_MAX - 1);
    CHECK_EQ_INT(acquire(a, ka, 1, now).token, INT64_MAX);
    (void)acquire(b, kb, 1, now);
    (void)release(a, ka, 1, now);
    answer got = acquire(b, kb, 1, now);
    CHECK_EQ_INT(got.reply, DLK_REFUSED);
    CHECK_EQ_INT(got.code, DLOCK_EOVERFLOW);
    tear_down();
}

TEST(mem_with_a_host_is_refused)
{
    dlock_error *err = NULL;
    CHECK(client_open("mem://host/x", &err) == NULL);
    CHECK_EQ_INT(dlock_error_code(err), DLOCK_EINVAL);
    dlock_error_free(err);
}
