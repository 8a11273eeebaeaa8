/* A lock that is left to a ticket, and one that is asked for: what the table makes of it. Time is what
 * the tests say it is. */
#include "check.h"
#include "client.h"
#include "harness/harness.h"

#include <stdio.h>
#include <stdlib.h>

#define MS  DLK_NS_PER_MS
#define TTL 1000 /* ms */

static fake *a, *b, *c;
static dlk_key *ka, *kb, *kc;

/* Three clients of one file, and one lock of this kind. */
static int64_t set_up_kind(dlock_kind kind, dlk_settings *settings)
{
    static int number;
    char file[32];
    (void)snprintf(file, sizeof(file), "table-%d", number++);
    a = client_open(temp_uri(file), NULL);
    b = client_open(temp_uri(file), NULL);
    c = client_open(temp_uri(file), NULL);
    ka = client_key_of(a, "orders/42", kind, settings);
    kb = client_key_of(b, "orders/42", kind, settings);
    kc = client_key_of(c, "orders/42", kind, settings);
    return dlk_clock_now();
}

static int64_t set_up(void)
{
    return set_up_kind(DLOCK_MUTEX, NULL);
}

static const dlk_table *table(void)
{
    return dlk_local_of(c->backend)->table;
}

static void leave_one(fake **client, dlk_key **key)
{
    if (!*client)
        return;
    client_key_close(*client, *key);
    client_close(*client);
    *client = NULL;
}

static void tear_down(void)
{
    const char *fault = c ? table_fault(table()) : NULL;
    CHECK_STR(fault ? fault : "", "");
    leave_one(&a, &ka);
    leave_one(&b, &kb);
    leave_one(&c, &kc);
}

static answer acquire(fake *client, dlk_key *key, uint64_t number, int64_t now)
{
    return client_ask(client, DLK_ACQUIRE, key, number, TTL, now);
}

static dlk_reply ask(fake *client, dlk_verb verb, dlk_key *key, uint64_t number,
                     int64_t now)
{
    return client_ask(client, verb, key, number, TTL, now).reply;
}

/* a has had it, and b imports it as its number 5. */
static answer import(int64_t now)
{
    return client_import(b, kb, 5, a->uuid, 1, TTL, now);
}

/* a gives it away: its token, or 0. */
static int64_t give(int64_t now)
{
    int64_t token = acquire(a, ka, 1, now).token;
    return client_export(a, ka, 1, now).reply == DLK_YES ? token : 0;
}

/* ---- handing on ---- */

TEST(what_was_exported_is_its_givers_no_more)
{
    int64_t now = set_up();
    CHECK(give(now) > 0);
    CHECK_EQ_INT(ask(a, DLK_RENEW, ka, 1, now), DLK_NOT_OURS);
    CHECK_EQ_INT(ask(a, DLK_VERIFY, ka, 1, now), DLK_NOT_OURS);
    CHECK_EQ_INT(ask(a, DLK_RELEASE, ka, 1, now), DLK_NOT_OURS);
    CHECK_EQ_INT(client_export(a, ka, 1, now).reply, DLK_NOT_OURS);
    CHECK_EQ_INT(acquire(a, ka, 2, now).reply, DLK_HELD);
    CHECK_EQ_INT(acquire(c, kc, 1, now).reply, DLK_HELD);
    CHECK_EQ_INT(import(now).reply, DLK_YES);
    tear_down();
}

TEST(an_import_is_a_new_grant_with_a_lease_of_its_own)
{
    int64_t now = set_up(), token = give(now);
    answer got = import(now + 900 * MS);
    CHECK_EQ_INT(got.reply, DLK_YES);
    CHECK(got.lasts);
    CHECK(got.token > token);
    CHECK_EQ_INT(ask(b, DLK_VERIFY, kb, 5, now + 1800 * MS), DLK_YES);
    CHECK_EQ_INT(acquire(c, kc, 1, now + 1800 * MS).reply, DLK_HELD);
    CHECK_EQ_INT(acquire(c, kc, 1, now + 1900 * MS).reply, DLK_YES);
    tear_down();
}

TEST(a_ticket_works_once_but_for_whoever_has_used_it)
{
    int64_t now = set_up();
    CHECK(give(now) > 0);
    answer first = import(now), again = import(now + 500 * MS);
    CHECK_EQ_INT(again.reply, DLK_YES);
    CHECK_EQ_INT(again.token, first.token);
    CHECK(again.lasts);
    CHECK_EQ_INT(ask(b, DLK_VERIFY, kb, 5, now + 1400 * MS), DLK_YES);
    CHECK_EQ_INT(client_import(c, kc, 1, a->uuid, 1, TTL, now).reply, DLK_NOT_OURS);
    CHECK_EQ_INT(client_import(a, ka, 2, a->uuid, 1, TTL, now).reply, DLK_NOT_OURS);
    CHECK_EQ_INT(ask(b, DLK_RELEASE, kb, 5, now), DLK_YES);
    CHECK_EQ_INT(import(now).reply, DLK_NOT_OURS);
    tear_down();
}

TEST(a_ticket_is_that_of_one_grant)
{
    int64_t now = set_up();
    CHECK_EQ_INT(import(now).reply, DLK_NOT_OURS); /* of a name that nobody knows */
    CHECK(give(now) > 0);
    CHECK_EQ_INT(client_import(b, kb, 5, a->uuid, 2, TTL, now).reply, DLK_NOT_OURS);
    CHECK_EQ_INT(client_import(b, kb, 5, c->uuid, 1, TTL, now).reply, DLK_NOT_OURS);
    CHECK_EQ_INT(import(now).reply, DLK_YES);
    tear_down();
}

TEST(a_ticket_that_nobody_brings_lapses_with_the_lease)
{
    int64_t now = set_up();
    CHECK(give(now) > 0);
    answer waits = acquire(c, kc, 1, now);
    CHECK_EQ_INT(waits.reply, DLK_HELD);
    CHECK(waits.wait_ms >= TTL && waits.wait_ms <= TTL + 1);
    CHECK_EQ_INT(import(now + TTL * MS).reply, DLK_NOT_OURS);
    CHECK_EQ_INT(acquire(c, kc, 1, now + TTL * MS).reply, DLK_YES);
    CHECK_EQ_INT(import(now + TTL * MS).reply, DLK_NOT_OURS);
    tear_down();
}

TEST(those_who_wait_wait_for_the_importer)
{
    int64_t now = set_up();
    (void)acquire(a, ka, 1, now);
    CHECK_EQ_INT(acquire(c, kc, 1, now).reply, DLK_HELD);
    CHECK_EQ_INT(client_export(a, ka, 1, now).reply, DLK_YES);
    CHECK_EQ_INT(import(now).reply, DLK_YES);
    CHECK_EQ_INT(acquire(c, kc, 1, now).reply, DLK_HELD);
    CHECK_EQ_INT(ask(b, DLK_RELEASE, kb, 5, now), DLK_YES);
    CHECK_EQ_INT(acquire(c, kc, 1, now).reply, DLK_YES);
    tear_down();
}

TEST(what_was_handed_over_to_its_giver_can_be_given_away)
{
    int64_t now = set_up();
    (void)acquire(c, kc, 1, now);
    CHECK_EQ_INT(acquire(a, ka, 1, now).reply, DLK_HELD);
    CHECK_EQ_INT(ask(c, DLK_RELEASE, kc, 1, now), DLK_YES);
    CHECK_EQ_INT(acquire(a, ka, 1, now).reply, DLK_YES);
    CHECK_EQ_INT(client_export(a, ka, 1, now).reply, DLK_YES);
    for (uint32_t ref = 0; ref < table()->place_count; ref++)
        CHECK(table()->places[ref].word == 0); /* the place has gone with it */
    CHECK_EQ_INT(import(now).reply, DLK_YES);
    tear_down();
}

TEST(it_outlives_its_giver)
{
    int64_t now = set_up();
    char uuid[DLK_UUID_SIZE];
    CHECK(give(now) > 0);
    (void)snprintf(uuid, sizeof(uuid), "%s", a->uuid);
    leave_one(&a, &ka);
    CHECK_EQ_INT(acquire(c, kc, 1, now).reply, DLK_HELD);
    CHECK_EQ_INT(client_import(b, kb, 5, uuid, 1, TTL, now).reply, DLK_YES);
    tear_down();
}

TEST(an_importer_that_goes_leaves_it_to_whoever_is_next)
{
    int64_t now = set_up();
    CHECK(give(now) > 0);
    CHECK_EQ_INT(import(now).reply, DLK_YES);
    CHECK_EQ_INT(acquire(c, kc, 1, now).reply, DLK_HELD);
    leave_one(&b, &kb);
    CHECK_EQ_INT(acquire(c, kc, 1, now).reply, DLK_YES);
    tear_down();
}

/* Until the table has heard of it, the lock is the giver's: the import doesn't ask for more. */
TEST(a_ticket_may_come_before_the_export)
{
    int64_t now = set_up(), token = acquire(a, ka, 1, now).token;
    answer got = import(now);
    CHECK_EQ_INT(got.reply, DLK_YES);
    CHECK(got.token > token);
    CHECK_EQ_INT(client_export(a, ka, 1, now).reply, DLK_NOT_OURS);
    CHECK_EQ_INT(ask(b, DLK_VERIFY, kb, 5, now), DLK_YES);
    tear_down();
}

static int64_t number_of(const dlock_info *info, const char *key)
{
    const char *text = dlock_info_get(info, key);
    return text ? strtoll(text, NULL, 10) : -1;
}

TEST(inspect_and_list_name_the_giver_and_break_takes_it_from_the_ticket)
{
    int64_t now = set_up();
    char owner[64];
    int64_t token = give(now);
    (void)snprintf(owner, sizeof(owner), "%s:1", a->uuid);
    dlock_info *info = client_info(c, DLK_INSPECT, kc, NULL, 0, now);
    CHECK_EQ_INT(number_of(info, "held"), 1);
    CHECK_STR(dlock_info_get(info, "holders.0.owner"), owner);
    CHECK_EQ_INT(number_of(info, "holders.0.token"), token);
    CHECK_EQ_INT(number_of(info, "holders.0.remaining_ms"), TTL);
    CHECK(dlock_info_get(info, "holders.0.pid") == NULL);
    CHECK(dlock_info_get(info, "holders.0.data") == NULL);
    dlock_info_free(info);
    info = client_info(c, DLK_LIST, NULL, "", 10, now);
    CHECK_STR(dlock_info_get(info, "locks.0.owner"), owner);
    dlock_info_free(info);
    CHECK_EQ_INT(client_break(c, kc, "somebody", now).reply, DLK_NOT_OURS);
    CHECK_EQ_INT(client_break(c, kc, owner, now).reply, DLK_YES);
    CHECK_EQ_INT(import(now).reply, DLK_NOT_OURS);
    CHECK_EQ_INT(acquire(c, kc, 1, now).reply, DLK_YES);
    tear_down();
}

TEST(only_mutexes_are_handed_on)
{
    int64_t now = set_up_kind(DLOCK_ELECTION, NULL);
    CHECK(!ka->hands_on);
    answer no = import(now);
    CHECK_EQ_INT(no.reply, DLK_REFUSED);
    CHECK_EQ_INT(no.code, DLOCK_ENOTSUP);
    tear_down();
}

/* ---- a file that nobody has open meanwhile ---- */

/* Somebody exports and goes, nobody has the file open, somebody comes; after @p edit. */
static dlk_reply import_later(const char *file, void (*edit)(dlk_table_stamp *stamp))
{
    int64_t now = dlk_clock_now();
    fake *giver = client_open(temp_uri(file), NULL);
    dlk_key *key = client_key(giver, "n");
    char uuid[DLK_UUID_SIZE];
    if (client_ask(giver, DLK_ACQUIRE, key, 1, 3600 * 1000, now).reply != DLK_YES ||
        client_export(giver, key, 1, now).reply != DLK_YES)
        abort();
    (void)snprintf(uuid, sizeof(uuid), "%s", giver->uuid);
    client_key_close(giver, key);
    client_close(giver);
    if (edit)
        temp_edit_stamp(file, edit);
    fake *taker = client_open(temp_uri(file), NULL);
    dlk_key *same = client_key(taker, "n");
    dlk_reply reply = client_import(taker, same, 2, uuid, 1, TTL, now).reply;
    client_key_close(taker, same);
    client_close(taker);
    return reply;
}

TEST(a_ticket_outlives_everybody_who_has_the_file_open)
{
    CHECK_EQ_INT(import_later("alone", NULL), DLK_YES);
    CHECK_EQ_INT(import_later("namespace", other_pid_ns), DLK_YES);
}

TEST(a_ticket_of_another_clock_is_void)
{
    CHECK_EQ_INT(import_later("boot", other_boot), DLK_NOT_OURS);
    CHECK_EQ_INT(import_later("time", other_time_ns), DLK_NOT_OURS);
}

/* ---- asking for it ---- */

static void listen_all(int64_t now)
{
    fake *all[] = {a, b, c};
    for (size_t i = 0; i < 3; i++)
        all[i]->backend->type->listen(all[i]->backend, now);
}

/* As whoever drives. */
static void process(fake *client, int64_t now)
{
    client->backend->type->process(client->backend, now);
    (void)client->backend->type->tick(client->backend, now); /* nobody sleeps */
}

static answer want(fake *client, dlk_key *key, int64_t now)
{
    return client_ask(client, DLK_REVOKE, key, 0, 0, now);
}

TEST(a_holder_that_listens_is_told_of_each_revoke_once)
{
    int64_t now = set_up();
    (void)acquire(a, ka, 7, now);
    listen_all(now);
    for (int i = 1; i <= 3; i++) {
        uint32_t bell = atomic_load(&dlk_local_of(a->backend)->me->bell);
        CHECK_EQ_INT(want(b, kb, now).reply, DLK_YES);
        CHECK(atomic_load(&dlk_local_of(a->backend)->me->bell) != bell);
        process(a, now);
        process(a, now);
        process(c, now);
        CHECK_EQ_INT(a->revokes, i);
        CHECK_EQ_INT(a->revoked, i * 7);
    }
    CHECK_EQ_INT(b->revokes + c->revokes, 0);
    CHECK_EQ_INT(ask(a, DLK_VERIFY, ka, 7, now), DLK_YES); /* nothing is taken away */
    tear_down();
}

TEST(who_comes_after_a_revoke_isnt_meant)
{
    int64_t now = set_up();
    listen_all(now);
    (void)acquire(a, ka, 1, now);
    CHECK_EQ_INT(acquire(c, kc, 2, now).reply, DLK_HELD);
    CHECK_EQ_INT(want(b, kb, now).reply, DLK_YES);
    CHECK_EQ_INT(ask(a, DLK_RELEASE, ka, 1, now), DLK_YES); /* before it has looked */
    process(a, now);
    process(c, now);
    CHECK_EQ_INT(a->revokes + c->revokes, 0);
    tear_down();
}

TEST(a_revoke_that_nobody_hears_says_so)
{
    int64_t now = set_up();
    CHECK_EQ_INT(want(b, kb, now).reply, DLK_NOT_OURS);
    (void)acquire(a, ka, 1, now);
    answer no = want(b, kb, now);
    CHECK_EQ_INT(no.reply, DLK_REFUSED);
    CHECK_EQ_INT(no.code, DLOCK_ENOTSUP);
    listen_all(now);
    process(a, now);
    CHECK_EQ_INT(a->revokes, 0); /* that was before */
    CHECK_EQ_INT(want(b, kb, now).reply, DLK_YES);
    CHECK_EQ_INT(client_export(a, ka, 1, now).reply, DLK_YES);
    CHECK_EQ_INT(want(b, kb, now).code, DLOCK_ENOTSUP); /* a ticket has no ears */
    CHECK_EQ_INT(ask(a, DLK_RELEASE, ka, 1, now), DLK_NOT_OURS);
    tear_down();
}

TEST(all_who_share_a_lock_are_asked)
{
    int64_t now = set_up_kind(DLOCK_WRITE, NULL);
    listen_all(now);
    for (uint64_t number = 1; number <= 8;
         number++) /* more than a section rings at once */
        (void)client_ask_for(a, DLK_ACQUIRE, ka, number, 1, TTL, now);
    (void)client_ask_for(b, DLK_ACQUIRE, kb, 9, 1, TTL, now);
    CHECK_EQ_INT(want(c, kc, now).reply, DLK_YES);
    (void)client_ask_for(b, DLK_ACQUIRE, kb, 10, 1, TTL, now); /* comes later */
    process(a, now);
    process(b, now);
    CHECK_EQ_INT(a->revokes, 8);
    CHECK_EQ_INT(a->revoked, 36);
    CHECK_EQ_INT(b->revokes, 1);
    CHECK_EQ_INT(b->revoked, 9);
    dlk_key *other = client_key(c, "orders/42");
    CHECK_EQ_INT(want(c, other, now).code, DLOCK_ECONFLICT);
    client_key_close(c, other);
    tear_down();
}

TEST(a_client_that_comes_back_listens_still)
{
    int64_t now = set_up();
    a->backend->type->listen(a->backend, now);
    a->backend->type->listen(a->backend, now); /* twice is fine */
    CHECK_EQ_INT(atomic_load(&dlk_local_of(a->backend)->me->listens), 1);
    CHECK_EQ_INT(atomic_load(&dlk_local_of(b->backend)->me->listens), 0);
    leave_one(&a, &ka);
    /* Who gets the slot hasn't said that it listens. */
    a = client_open(temp_uri("table-0"), NULL);
    ka = client_key(a, "orders/42");
    CHECK_EQ_INT(atomic_load(&dlk_local_of(a->backend)->me->listens), 0);
    tear_down();
}
