/* Infos: order, the two kinds of values, and JSON that any parser takes. */
#include "harness/harness.h"

#include "util/info.h"

#include <stdlib.h>
#include <string.h>

TEST(entries_keep_their_order_and_both_kinds_of_value)
{
    dlock_info *info = dlk_info_new();
    dlk_info_add_text(info, "mutex", "kind");
    dlk_info_add_int(info, INT64_MIN, "holders.%d.token", 0);
    dlk_info_add_text(info, NULL, "unknown");
    CHECK(!dlk_info_failed(info));
    CHECK_EQ_INT(dlock_info_count(info), 2);
    CHECK_STR(dlock_info_key(info, 1), "holders.0.token");
    CHECK_STR(dlock_info_text(info, 1), "-9223372036854775808");
    CHECK_EQ_INT(dlock_info_int(info, 1), INT64_MIN);
    CHECK_STR(dlock_info_get(info, "kind"), "mutex");
    CHECK(dlock_info_get(info, "kin") == NULL);
    CHECK(dlock_info_key(info, 2) == NULL);
    CHECK(dlock_info_text(info, 2) == NULL);
    CHECK_EQ_INT(dlock_info_int(info, 2), 0);
    dlock_info_free(info);
}

TEST(a_text_read_as_a_number_is_the_number_or_0)
{
    dlock_info *info = dlk_info_new();
    static const char *const texts[] = {"42", "-7", "42x", "", "9223372036854775808"};
    static const int64_t numbers[] = {42, -7, 0, 0, 0};
    for (int i = 0; i < 5; i++)
        dlk_info_add_text(info, texts[i], "n.%d", i);
    for (size_t i = 0; i < 5; i++)
        CHECK_EQ_INT(dlock_info_int(info, i), numbers[i]);
    dlock_info_free(info);
}

TEST(dotted_keys_nest_and_numbers_make_arrays)
{
    dlock_info *info = dlk_info_new();
    dlk_info_add_int(info, 1, "held");
    for (int i = 0; i < 2; i++) {
        dlk_info_add_text(info, i ? "b" : "a", "holders.%d.owner", i);
        dlk_info_add_int(info, 10 + i, "holders.%d.token", i);
    }
    dlk_info_add_int(info, 3, "waiters");
    CHECK_STR(dlock_info_json(info),
              "{\"held\":1,\"holders\":[{\"owner\":\"a\",\"token\":10},"
              "{\"owner\":\"b\",\"token\":11}],\"waiters\":3}");
    CHECK(dlock_info_json(info) == dlock_info_json(info)); /* made once */
    dlk_info_add_int(info, 4, "late");
    CHECK_CONTAINS(dlock_info_json(info), "\"late\":4}");
    dlock_info_free(info);
}

TEST(a_number_is_raised_where_it_stands_or_begins_there)
{
    dlock_info *info = dlk_info_new();
    dlk_info_add_int(info, 3, "waiters");
    dlk_info_add_text(info, "x", "layout");
    CHECK_STR(dlock_info_json(info), "{\"waiters\":3,\"layout\":\"x\"}");
    dlk_info_raise(info, 2, "waiters");
    dlk_info_raise(info, 4, "others");
    CHECK_STR(dlock_info_json(info), "{\"waiters\":5,\"layout\":\"x\",\"others\":4}");
    CHECK_STR(dlock_info_get(info, "waiters"), "5");
    dlk_info_raise(info, INT64_MAX, "waiters"); /* what a server says may be anything */
    CHECK_EQ_INT(dlock_info_int(info, 0), INT64_MAX);
    dlk_info_raise(NULL, 1, "waiters");
    dlock_info_free(info);
}

/* Keys with the numbers 1, 2, …, up to NULL. */
static void check_numbered(const char *const *keys, const char *json)
{
    dlock_info *info = dlk_info_new();
    for (int i = 0; keys[i]; i++)
        dlk_info_add_int(info, i + 1, "%s", keys[i]);
    CHECK_STR(dlock_info_json(info), json);
    dlock_info_free(info);
}

TEST(keys_that_come_back_to_a_parent_still_nest)
{
    check_numbered((const char *[]){"a.x", "b", "a.y", "b.z", "a.x", NULL},
                   "{\"a\":{\"x\":5,\"y\":3},\"b\":{\"\":2,\"z\":4}}");
}

TEST(numbers_with_a_gap_make_an_object)
{
    check_numbered((const char *[]){"le.0", "le.2", "x.1", "y.00", NULL},
                   "{\"le\":{\"0\":1,\"2\":2},\"x\":{\"1\":3},\"y\":{\"00\":4}}");
}

TEST(an_array_of_ten_and_more_stays_in_order)
{
    dlock_info *info = dlk_info_new();
    for (int i = 0; i < 12; i++)
        dlk_info_add_int(info, i, "n.%d", i);
    CHECK_STR(dlock_info_json(info), "{\"n\":[0,1,2,3,4,5,6,7,8,9,10,11]}");
    dlock_info_free(info);
}

TEST(an_empty_info_is_an_empty_object)
{
    dlock_info *info = dlk_info_new();
    CHECK_EQ_INT(dlock_info_count(info), 0);
    CHECK_STR(dlock_info_json(info), "{}");
    dlock_info_free(info);
}

TEST(json_escapes_what_it_must)
{
    dlock_info *info = dlk_info_new();
    dlk_info_add_text(
        info,
        "q\" b\\ n\n t\t r\r e\x1b d\x7f c\xc2\x9b \xc2\xa0 \xc3\xa9 \xf0\x9f\x94\x92",
        "v");
    CHECK_STR(dlock_info_json(info),
              "{\"v\":\"q\\\" b\\\\ n\\n t\\t r\\r e\\u001b d\\u007f c\\u009b \xc2\xa0 "
              "\xc3\xa9 \xf0\x9f\x94\x92\"}");
    dlock_info_free(info);
}

TEST(bytes_that_are_no_utf8_become_replacement_characters)
{
    static const struct {
        const char *text, *json;
    } cases[] = {
        {"a\xff"
         "b",
         "{\"v\":\"a\\ufffdb\"}"},
        {"\xc3", "{\"v\":\"\\ufffd\"}"},                                  /* cut off */
        {"\xc0\xaf", "{\"v\":\"\\ufffd\\ufffd\"}"},                       /* overlong */
        {"\xed\xa0\x80", "{\"v\":\"\\ufffd\\ufffd\\ufffd\"}"},            /* surrogate */
        {"\xf4\x90\x80\x80", "{\"v\":\"\\ufffd\\ufffd\\ufffd\\ufffd\"}"}, /* too large */
        {"\xe2\x82", "{\"v\":\"\\ufffd\\ufffd\"}"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        dlock_info *info = dlk_info_new();
        dlk_info_add_text(info, cases[i].text, "v");
        CHECK_STR(dlock_info_json(info), cases[i].json);
        dlock_info_free(info);
    }
}

TEST(a_list_that_ran_out_of_memory_is_not_given_away)
{
    dlock_info *ret = NULL;
    dlock_error *err = NULL;
    dlk_info_add_int(NULL, 1, "x");
    dlk_info_add_text(NULL, "1", "x");
    CHECK(dlk_info_failed(NULL));
    CHECK_ERR(dlk_info_give(NULL, &ret, &err), DLOCK_ENOMEM, err);

    dlock_info *info = dlk_info_new();
    info->failed = true;
    CHECK_ERR(dlk_info_give(info, &ret, &err), DLOCK_ENOMEM, err);
    CHECK(ret == NULL);
    CHECK_OK(dlk_info_give(dlk_info_new(), &ret, &err), err);
    CHECK(ret != NULL && err == NULL);
    dlock_info_free(ret);
}

TEST(null_is_an_empty_info)
{
    CHECK_EQ_INT(dlock_info_count(NULL), 0);
    CHECK(dlock_info_key(NULL, 0) == NULL);
    CHECK(dlock_info_get(NULL, "x") == NULL);
    CHECK(dlock_info_json(NULL) == NULL);
    dlock_info_free(NULL);
}
