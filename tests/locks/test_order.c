/* Which orders are learnt, which contradict them, and where it ends. */
#include "locks/order.h"

#include "harness/harness.h"
#include "util/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ME = 1, OTHER = 2 };

static dlk_order *order;
static dlk_grant living;
static char said[2048];

static void begin(void)
{
    order = dlk_order_new();
    living.state = DLOCK_HELD;
    living.lease.ends_at = DLK_NEVER;
    said[0] = '\0';
}

static void end(void)
{
    dlk_order_free(order);
    order = NULL;
}

static dlk_order_lock lock_of(uint64_t owner, const char *name, bool shared)
{
    return (dlk_order_lock){.owner = owner,
                            .number = dlk_order_class(order, "mem:", name, 0),
                            .shared = shared,
                            .name = name};
}

static dlk_ordered ask_for(dlk_order_lock lock, bool always)
{
    char *text;
    dlk_ordered answer = dlk_order_ask(order, &lock, always, 0, &text);
    snprintf(said, sizeof(said), "%s", text ? text : "");
    free(text);
    return answer;
}

/* One is held while the other is asked for, for reading where the name ends in 'r'. */
static dlk_ordered then(uint64_t owner, const char *first, const char *second)
{
    bool reads = strchr(first, 'r') != NULL, reads_second = strchr(second, 'r') != NULL;
    dlk_order_lock has = lock_of(owner, first, reads);
    dlk_order_held *held = dlk_order_take(order, &has, &living);
    dlk_ordered answer = ask_for(lock_of(owner, second, reads_second), false);
    dlk_order_give(held);
    return answer;
}

TEST(a_class_is_the_name_to_its_first_digit_or_slash_behind_a_leading_one)
{
    static const struct {
        const char *name, *class;
    } cases[] = {{"orders/42", "orders"},
                 {"orders", "orders"},
                 {"user7/x", "user"},
                 {"/locks/db/1", "/locks"},
                 {"//a/b", "//a"},
                 {"a:b:3", "a:b:"},
                 {"42", ""},
                 {"/42", ""},
                 {"/", ""},
                 {"", ""},
                 {"\xc3\xbc/1", "\xc3\xbc"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        size_t size = dlk_order_class_size(cases[i].name);
        CHECK_EQ_INT((int64_t)size, (int64_t)strlen(cases[i].class));
        CHECK(strncmp(cases[i].name, cases[i].class, size) == 0);
    }
}

TEST(a_class_is_one_of_its_service_and_prefix)
{
    begin();
    uint16_t one = dlk_order_class(order, "mem:", "a/1", 0);
    CHECK(one != 0);
    CHECK_EQ_INT(dlk_order_class(order, "mem:", "a/2", 0), one);
    CHECK(dlk_order_class(order, "mem:x", "a/1", 0) != one);
    CHECK(dlk_order_class(order, "mem:", "p1/a/1", 3) != one);
    CHECK(dlk_order_class(order, "mem:", "p1/a/1", 3) !=
          dlk_order_class(order, "mem:", "p2/a/1", 3));
    CHECK_EQ_INT(dlk_order_class(order, "mem:", "p1/1", 3), 0);
    end();
}

TEST(the_other_way_round_is_told_once)
{
    begin();
    CHECK_EQ_INT(then(ME, "a/1", "b/1"), DLK_ORDER_FINE);
    CHECK_EQ_INT(then(OTHER, "a/2", "b/2"), DLK_ORDER_FINE);
    CHECK_EQ_INT(then(OTHER, "b/3", "a/4"), DLK_ORDER_AGAINST);
    CHECK_STR(said,
              "lock order: asked for while 'b/3' is held, 'b' before 'a'; before, it was "
              "the other way round: 'b/1' while 'a/1' was held");
    CHECK_EQ_INT(then(ME, "b/1", "a/1"), DLK_ORDER_FINE); /* it was said */
    CHECK_STR(said, "");
    CHECK_EQ_INT(then(ME, "a/1", "b/1"), DLK_ORDER_FINE); /* as it was learnt */
    end();
}

TEST(whoever_refuses_has_the_sentence_each_time)
{
    begin();
    CHECK_EQ_INT(then(ME, "a", "b"), DLK_ORDER_FINE);
    dlk_order_lock b = lock_of(ME, "b", false);
    dlk_order_held *held = dlk_order_take(order, &b, &living);
    CHECK_EQ_INT(ask_for(lock_of(ME, "a", false), true), DLK_ORDER_AGAINST);
    CHECK(said[0] != '\0');
    CHECK_EQ_INT(ask_for(lock_of(ME, "a", false), true), DLK_ORDER_AGAINST_AGAIN);
    CHECK_CONTAINS(said, "'b' while 'a' was held");
    dlk_order_give(held);
    end();
}

/* Its twin runs in another process. */
TEST(a_thread_that_contradicts_itself_is_told_as_well)
{
    begin();
    CHECK_EQ_INT(then(ME, "a", "b"), DLK_ORDER_FINE);
    CHECK_EQ_INT(then(ME, "b", "a"), DLK_ORDER_AGAINST);
    end();
}

TEST(a_long_way_back_is_a_contradiction_and_told_pair_by_pair)
{
    begin();
    CHECK_EQ_INT(then(ME, "a", "b"), DLK_ORDER_FINE);
    CHECK_EQ_INT(then(ME, "b", "c"), DLK_ORDER_FINE);
    CHECK_EQ_INT(then(ME, "a", "c"), DLK_ORDER_FINE);
    CHECK_EQ_INT(then(ME, "c", "d"), DLK_ORDER_FINE);
    CHECK_EQ_INT(then(OTHER, "d", "b"), DLK_ORDER_AGAINST);
    CHECK_CONTAINS(said, "round: 'c' while 'b' was held, and 'd' while 'c' was held");
    /* What was told is no order itself: nothing follows from it. */
    CHECK_EQ_INT(then(ME, "b", "e"), DLK_ORDER_FINE);
    CHECK_EQ_INT(then(ME, "e", "d"), DLK_ORDER_FINE);
    end();
}

TEST(readers_are_in_the_way_of_writers_only)
{
    begin();
    CHECK_EQ_INT(then(ME, "xr", "y"), DLK_ORDER_FINE);
    CHECK_EQ_INT(then(ME, "y", "xr"), DLK_ORDER_FINE); /* two readers of x */
    CHECK_EQ_INT(then(ME, "vr", "wr"), DLK_ORDER_FINE);
    CHECK_EQ_INT(then(ME, "wr", "vr"), DLK_ORDER_FINE);
    end();
}

/* The same class as writer, for which the name here has another letter. */
TEST(a_writer_and_a_reader_are_in_each_other_s_way)
{
    begin();
    dlk_order_lock read = lock_of(ME, "x", true), write = lock_of(ME, "x", false),
                   y = lock_of(ME, "y", false);
    dlk_order_held *held = dlk_order_take(order, &read, &living);
    CHECK_EQ_INT(ask_for(y, false), DLK_ORDER_FINE);
    dlk_order_give(held);
    held = dlk_order_take(order, &y, &living);
    CHECK_EQ_INT(ask_for(read, false), DLK_ORDER_FINE);
    CHECK_EQ_INT(ask_for(write, false), DLK_ORDER_AGAINST);
    dlk_order_give(held);
    end();
}

TEST(one_that_turns_into_a_reader_is_held_as_one)
{
    begin();
    dlk_order_lock write = lock_of(ME, "x", false), read = lock_of(ME, "x", true),
                   y = lock_of(ME, "y", false);
    dlk_order_held *held = dlk_order_take(order, &write, &living);
    dlk_order_turn(held);
    CHECK_EQ_INT(ask_for(y, false), DLK_ORDER_FINE);
    dlk_order_give(held);
    held = dlk_order_take(order, &y, &living);
    CHECK_EQ_INT(ask_for(read, false), DLK_ORDER_FINE);
    dlk_order_give(held);
    end();
}

TEST(those_taken_together_have_no_order_among_themselves)
{
    begin();
    dlk_order_lock a = lock_of(ME, "a", false), b = lock_of(ME, "b", false),
                   c = lock_of(ME, "c", false);
    a.together = b.together = 7;
    dlk_order_held *held = dlk_order_take(order, &a, &living);
    CHECK_EQ_INT(ask_for(b, false), DLK_ORDER_FINE);
    CHECK_EQ_INT(ask_for(c, false), DLK_ORDER_FINE); /* but one to others */
    dlk_order_give(held);
    CHECK_EQ_INT(then(ME, "b", "a"), DLK_ORDER_FINE);
    CHECK_EQ_INT(then(ME, "c", "a"), DLK_ORDER_AGAINST);
    end();
}

TEST(what_is_lost_is_held_no_longer)
{
    begin();
    dlk_order_lock a = lock_of(ME, "a", false);
    dlk_grant lost = {.state = DLOCK_LOST}, over = {.state = DLOCK_HELD};
    dlk_order_held *one = dlk_order_take(order, &a, &lost);
    dlk_order_held *two = dlk_order_take(order, &a, &over);
    CHECK_EQ_INT(ask_for(lock_of(ME, "b", false), false), DLK_ORDER_FINE);
    dlk_order_give(one);
    dlk_order_give(two);
    CHECK_EQ_INT(then(ME, "b", "a"), DLK_ORDER_FINE);
    end();
}

TEST(within_one_class_and_of_names_without_one_nothing_is_learnt)
{
    begin();
    CHECK_EQ_INT(then(ME, "a/1", "a/2"), DLK_ORDER_FINE);
    CHECK_EQ_INT(then(ME, "a/2", "a/1"), DLK_ORDER_FINE);
    dlk_order_lock nameless = lock_of(ME, "42", false);
    CHECK(dlk_order_take(order, &nameless, &living) == NULL);
    CHECK_EQ_INT(ask_for(nameless, false), DLK_ORDER_FINE);
    end();
}

/* "aaa", "aab", …: no digit, no slash, no 'r' */
static const char *nth(int i, char name[4])
{
    static const char letters[] = "abcdefghijklm";
    name[0] = letters[i / 169 % 13];
    name[1] = letters[i / 13 % 13];
    name[2] = letters[i % 13];
    name[3] = '\0';
    return name;
}

TEST(beyond_its_classes_nothing_is_learnt_and_that_is_said_once)
{
    begin();
    char name[4];
    for (int i = 0; i < DLK_ORDER_CLASSES; i++)
        CHECK_EQ_INT(dlk_order_class(order, "mem:", nth(i, name), 0), i + 1);
    CHECK_EQ_INT(then(ME, "aaa", "aab"), DLK_ORDER_FINE);
    dlk_order_lock more = lock_of(ME, "one-more", false);
    CHECK_EQ_INT(more.number, 0);
    CHECK_EQ_INT(ask_for(more, false), DLK_ORDER_FULL);
    CHECK_EQ_INT(ask_for(more, false), DLK_ORDER_FINE);
    /* What is known stays so. */
    CHECK_EQ_INT(then(ME, "aab", "aaa"), DLK_ORDER_AGAINST);
    end();
}

TEST(beyond_its_pairs_nothing_is_learnt_and_that_is_said_once)
{
    begin();
    char one[4], other[4];
    int told = 0, fine = 0;
    for (int i = 0; i < 200; i++)
        for (int k = i + 1; k < 200; k++) {
            dlk_ordered answer = then(ME, nth(i, one), nth(k, other));
            told += answer == DLK_ORDER_FULL;
            fine += answer == DLK_ORDER_FINE;
        }
    CHECK_EQ_INT(told, 1);
    CHECK_EQ_INT(told + fine, 200 * 199 / 2);
    CHECK_EQ_INT(then(ME, nth(199, one), nth(198, other)), DLK_ORDER_FINE);
    CHECK_EQ_INT(then(ME, nth(1, one), nth(0, other)), DLK_ORDER_AGAINST);
    end();
}
