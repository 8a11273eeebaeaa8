/* Who comes before whom, by the names alone: no server. */
#include "harness/harness.h"

#include "backends/zookeeper/library.h"
#include "backends/zookeeper/plan.h"
#include "util/settings.h"

#include <stdlib.h>
#include <string.h>

static const dlk_zk_rule *rule_of(dlock_kind kind, bool shared, const char *layout)
{
    dlk_settings *settings = dlk_settings_new();
    (void)dlk_settings_set(settings, "zookeeper.layout", layout, NULL);
    const dlk_zk_plan *plan = dlk_zk_plan_of(settings, kind, shared, NULL);
    dlk_settings_free(settings);
    return plan->step[plan->steps - 1].rule;
}

/* The children, separated by spaces, the first is ours. */
static dlk_zk_verdict judge(const dlk_zk_rule *rule, bool strict, const char *names,
                            const char **ret_ahead)
{
    static char text[1000];
    char *children[20], *save = NULL;
    size_t count = 0;
    (void)strcpy(text, names);
    for (char *at = strtok_r(text, " ", &save); at; at = strtok_r(NULL, " ", &save))
        children[count++] = at;
    dlk_zk_look look = {
        .rule = rule, .own = children[0], .permits = 2, .take = 1, .strict = strict};
    dlk_zk_verdict verdict = dlk_zk_judge(&look, children, count);
    *ret_ahead = look.ahead;
    return verdict;
}

#define A "_c_aaaaaaaa-0000-4000-8000-000000000000-"
#define B "_c_bbbbbbbb-0000-4000-8000-000000000000-"
#define K "0123456789ab4def0123456789abcdef"

TEST(of_a_mutex_the_smallest_number_is_first_and_the_nearest_before_is_watched)
{
    const dlk_zk_rule *rule = rule_of(DLOCK_MUTEX, false, "curator");
    const char *ahead;
    CHECK_EQ_INT(judge(rule, true, A "lock-0000000003 " B "lock-0000000004", &ahead),
                 DLK_ZK_FIRST);
    CHECK_EQ_INT(judge(rule, true,
                       A "lock-0000000009 " B "lock-0000000004 " B "lock-0000000007 " B
                         "lock-0000000010",
                       &ahead),
                 DLK_ZK_BEHIND);
    CHECK_STR(ahead, B "lock-0000000007");
}

TEST(a_number_near_the_end_of_the_counter_or_past_it_is_told)
{
    const dlk_zk_rule *rule = rule_of(DLOCK_MUTEX, false, "curator");
    const char *ahead;
    CHECK_EQ_INT(judge(rule, true, A "lock-2000000000", &ahead), DLK_ZK_LIMIT);
    CHECK_EQ_INT(judge(rule, true, A "lock-1999999999", &ahead), DLK_ZK_FIRST);
    static const char *const over[] = {"lock-2147483647", "lock--2147483648",
                                       "lock--2147483647", "lock--2000000000"};
    for (size_t i = 0; i < sizeof(over) / sizeof(*over); i++) {
        char names[200];
        (void)strcpy(names, A "lock-0000000001 " B);
        (void)strcat(names, over[i]);
        CHECK_EQ_INT(judge(rule, true, names, &ahead), DLK_ZK_LIMIT);
    }
}

TEST(kazoos_nodes_count_by_their_numbers)
{
    const dlk_zk_rule *rule = rule_of(DLOCK_MUTEX, false, "curator");
    const char *ahead;
    CHECK_EQ_INT(judge(rule, true, A "lock-0000000003 " K "__lock__0000000002", &ahead),
                 DLK_ZK_BEHIND);
    CHECK_STR(ahead, K "__lock__0000000002");
    CHECK_EQ_INT(judge(rule, true, A "lock-0000000003 " K "__rlock__0000000004", &ahead),
                 DLK_ZK_FIRST);
}

TEST(readers_wait_for_the_nearest_writer_before_them_only)
{
    const dlk_zk_rule *read = rule_of(DLOCK_WRITE, true, "curator");
    const dlk_zk_rule *write = rule_of(DLOCK_WRITE, false, "curator");
    const char *ahead;
    CHECK_EQ_INT(
        judge(read, true, A "__READ__0000000003 " B "__READ__0000000001", &ahead),
        DLK_ZK_FIRST);
    CHECK_EQ_INT(judge(read, true,
                       A "__READ__0000000005 " B "__WRIT__0000000001 " B
                         "__WRIT__0000000003 " B "__WRIT__0000000007",
                       &ahead),
                 DLK_ZK_BEHIND);
    CHECK_STR(ahead, B "__WRIT__0000000003");
    CHECK_EQ_INT(
        judge(write, true, A "__WRIT__0000000003 " B "__READ__0000000001", &ahead),
        DLK_ZK_BEHIND);
}

TEST(what_is_of_another_kind_is_told_or_sorted_as_curator_does)
{
    const dlk_zk_rule *rule = rule_of(DLOCK_MUTEX, false, "curator");
    const char *ahead;
    static const char *const strange[] = {"0", "zzz", "leases", B "__WRIT__0000000001",
                                          B "latch-0000000001"};
    for (size_t i = 0; i < sizeof(strange) / sizeof(*strange); i++) {
        char names[200];
        (void)strcpy(names, A "lock-0000000003 ");
        (void)strcat(names, strange[i]);
        CHECK_EQ_INT(judge(rule, true, names, &ahead), DLK_ZK_FOREIGN);
        CHECK_STR(ahead, strange[i]);
        CHECK_EQ_INT(judge(rule, false, names, &ahead),
                     strcmp(strange[i], "0") == 0 ? DLK_ZK_BEHIND : DLK_ZK_FIRST);
    }
}

TEST(a_node_that_isnt_there_is_missed)
{
    const dlk_zk_rule *rule = rule_of(DLOCK_MUTEX, false, "curator");
    char child[] = B "lock-0000000003", *children[] = {child};
    dlk_zk_look look = {.rule = rule, .own = A "lock-0000000002", .strict = true};
    CHECK_EQ_INT(dlk_zk_judge(&look, children, 1), DLK_ZK_MISSING);
}

TEST(leases_are_counted_whatever_their_order)
{
    const dlk_zk_rule *rule = rule_of(DLOCK_SEMAPHORE, false, "curator");
    const char *ahead;
    CHECK_EQ_INT(judge(rule, true, A "lease-0000000009 " B "lease-0000000001", &ahead),
                 DLK_ZK_FIRST);
    CHECK_EQ_INT(judge(rule, true,
                       A "lease-0000000001 " B "lease-0000000002 " B "lease-0000000003",
                       &ahead),
                 DLK_ZK_BEHIND);
    CHECK_EQ_INT(judge(rule, true, A "lease-0000000001 " A "lease-0000000002", &ahead),
                 DLK_ZK_MISSING); /* two of one series, where one was wanted */
    CHECK_EQ_INT(judge(rule, true, A "lease-0000000001 junk", &ahead), DLK_ZK_FOREIGN);
    CHECK_EQ_INT(judge(rule, false, A "lease-0000000001 junk more", &ahead),
                 DLK_ZK_BEHIND);
}

TEST(only_names_of_the_same_form_contend_in_a_pattern)
{
    char head[] = "a-", tail[] = "-", none[] = "", plain[] = "a";
    dlk_zk_form session = {.head = head, .tail = tail, .session = true};
    dlk_zk_form bare = {.head = plain, .tail = none};
    CHECK(dlk_zk_has_form(&session, "a-123-0000000001"));
    CHECK(dlk_zk_has_form(&session, "a-0x15ab-0000000001"));
    CHECK(!dlk_zk_has_form(&session, "a-b-123-0000000001"));
    CHECK(!dlk_zk_has_form(&session, "b-123-0000000001"));
    CHECK(!dlk_zk_has_form(&session, "a-123-000000001"));
    CHECK(dlk_zk_has_form(&bare, "a0000000001"));
    CHECK(!dlk_zk_has_form(&bare, "a10000000001"));
    CHECK(!dlk_zk_has_form(&bare, "ab0000000001"));
}

TEST(only_what_the_leader_alone_can_say_proves_that_the_session_lives)
{
    CHECK(dlk_zk_is_leaders(DLK_ZK_OK));
    CHECK(dlk_zk_is_leaders(DLK_ZK_NODE_EXISTS) && dlk_zk_is_leaders(DLK_ZK_NO_NODE));
    CHECK(!dlk_zk_is_leaders(DLK_ZK_BUSY)); /* a follower throttles by itself */
    CHECK(!dlk_zk_is_leaders(DLK_ZK_BAD));  /* … and says that it only reads */
    CHECK(!dlk_zk_is_leaders(DLK_ZK_NOT_KNOWN));
    CHECK(!dlk_zk_is_leaders(DLK_ZK_GONE) && !dlk_zk_is_leaders(DLK_ZK_CUT));
    CHECK(!dlk_zk_is_leaders(DLK_ZK_NO_MEMORY));
}
