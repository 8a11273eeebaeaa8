/* Since when somebody has a lock of a table, or waits for it: dates are kept by the boot clock, coarsely, and
 * told by the wall clock. Time is what the tests say it is, and lies before they look. */
#include "client.h"
#include "harness/harness.h"

#include <stdio.h>
#include <stdlib.h>

#define MS  DLK_NS_PER_MS
#define TTL 60000 /* ms */

static fake *a, *b, *c;
static dlk_key *ka, *kb, *kc;
static int64_t wall_ms[2]; /* before, and behind, the moment that set_up gives */

static int64_t set_up(dlock_kind kind)
{
    static int number;
    char uri[32];
    (void)snprintf(uri, sizeof(uri), "mem:since-%d", number++);
    a = client_open(uri, NULL);
    b = client_open(uri, NULL);
    c = client_open(uri, NULL);
    ka = client_key_of(a, "orders/42", kind, NULL);
    kb = client_key_of(b, "orders/42", kind, NULL);
    kc = client_key_of(c, "orders/42", kind, NULL);
    wall_ms[0] = dlk_clock_date_ms();
    int64_t now = dlk_clock_now();
    wall_ms[1] = dlk_clock_date_ms();
    return now;
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

static dlk_reply ask(fake *client, dlk_verb verb, dlk_key *key, int32_t take, int64_t now)
{
    return client_ask_for(client, verb, key, 1, take, TTL, now).reply;
}

/* What is told is so many ms before the test began: to 17 ms, and a few for rounding. */
static void check_ago(const char *of, int64_t ago_ms)
{
    dlock_info *info = client_info(c, DLK_INSPECT, kc, NULL, 0, dlk_clock_now());
    const char *text = dlock_info_get(info, of);
    int64_t since = text ? atoll(text) : 0;
    harness_note("%s", of);
    CHECK(since >= wall_ms[0] - ago_ms - 20 && since <= wall_ms[1] - ago_ms + 3);
    dlock_info_free(info);
}

TEST(a_grant_that_was_waited_for_dates_from_the_hand_over)
{
    int64_t now = set_up(DLOCK_MUTEX);
    CHECK_EQ_INT(ask(a, DLK_ACQUIRE, ka, 1, now - 9000 * MS), DLK_YES);
    CHECK_EQ_INT(ask(b, DLK_ACQUIRE, kb, 1, now - 7000 * MS), DLK_HELD);
    CHECK_EQ_INT(ask(c, DLK_ACQUIRE, kc, 1, now - 5000 * MS), DLK_HELD);
    CHECK_EQ_INT(ask(a, DLK_RENEW, ka, 1, now - 4000 * MS), DLK_YES);
    CHECK_EQ_INT(ask(b, DLK_ACQUIRE, kb, 1, now - 4000 * MS), DLK_HELD);
    check_ago("holders.0.since", 9000);
    check_ago("waiting.0.since", 7000);
    check_ago("waiting.1.since", 5000);
    CHECK_EQ_INT(ask(a, DLK_RELEASE, ka, 1, now - 3000 * MS), DLK_YES);
    check_ago("holders.0.since", 3000);
    check_ago("waiting.0.since", 5000);
    tear_down();
}

TEST(those_who_share_date_each_from_when_it_was_let_in)
{
    int64_t now = set_up(DLOCK_WRITE);
    CHECK_EQ_INT(ask(a, DLK_ACQUIRE, ka, 1, now - 9000 * MS), DLK_YES);
    CHECK_EQ_INT(ask(b, DLK_ACQUIRE, kb, 0, now - 7000 * MS), DLK_HELD);
    CHECK_EQ_INT(ask(a, DLK_RENEW, ka, 1, now - 6000 * MS), DLK_YES);
    check_ago("holders.0.since", 9000);
    check_ago("waiting.0.since", 7000);
    CHECK_EQ_INT(ask(a, DLK_RELEASE, ka, 1, now - 3000 * MS), DLK_YES);
    check_ago("holders.0.since", 3000);
    tear_down();
}

TEST(a_lock_that_was_handed_on_dates_from_the_import)
{
    int64_t now = set_up(DLOCK_MUTEX);
    CHECK_EQ_INT(ask(a, DLK_ACQUIRE, ka, 1, now - 9000 * MS), DLK_YES);
    CHECK_EQ_INT(client_export(a, ka, 1, now - 7000 * MS).reply, DLK_YES);
    check_ago("holders.0.since", 9000);
    CHECK_EQ_INT(client_import(b, kb, 5, a->uuid, 1, TTL, now - 3000 * MS).reply,
                 DLK_YES);
    check_ago("holders.0.since", 3000);
    tear_down();
}

/* Whatever stands in a file, and however long the machine runs, it is a time that has passed. */
TEST(dates_come_round_and_none_lies_ahead)
{
    const int64_t unit = INT64_C(1) << DLK_DATE_BITS, round = unit << 32;
    const int64_t moments[] = {0,
                               1,
                               unit - 1,
                               unit,
                               round - 1,
                               round,
                               round + 1,
                               3 * round - 5,
                               INT64_MAX - round};
    for (size_t i = 0; i < sizeof(moments) / sizeof(*moments); i++) {
        int64_t then = moments[i];
        for (int64_t ago = 0; ago < round - unit; ago = ago * 7 + 12345) {
            int64_t told = dlk_date_ago(dlk_date_of(then), then + ago);
            CHECK(told >= ago && told < ago + unit);
        }
        for (uint64_t date = 0; date <= UINT32_MAX; date += UINT32_MAX / 3) {
            int64_t told = dlk_date_ago((uint32_t)date, then);
            CHECK(told >= 0 && told < round);
        }
    }
}
