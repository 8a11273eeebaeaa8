/* Numbers from outside: read whole and within limits, added without overflow. */
#include "harness/harness.h"

#include "util/digits.h"
#include "util/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int64_t read_it(const char *text)
{
    return dlk_number_or(text, INT64_MIN, INT64_MAX, 4711);
}

TEST(a_number_is_all_of_its_text_or_none)
{
    CHECK_EQ_INT(read_it("0"), 0);
    CHECK_EQ_INT(read_it("-0"), 0);
    CHECK_EQ_INT(read_it("-17"), -17);
    CHECK_EQ_INT(read_it("0000000000000000000000000000018"), 18);
    CHECK_EQ_INT(read_it("9223372036854775807"), INT64_MAX);
    CHECK_EQ_INT(read_it("-9223372036854775808"), INT64_MIN);
    static const char *const none[] = {"",
                                       "-",
                                       "--1",
                                       "+1",
                                       " 1",
                                       "1 ",
                                       "0x10",
                                       "1e3",
                                       "6379junk",
                                       "9223372036854775808",
                                       "-9223372036854775809",
                                       "18446744073709551616",
                                       "99999999999999999999999999"};
    for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++)
        CHECK_EQ_INT(read_it(none[i]), 4711);
    CHECK_EQ_INT(read_it(NULL), 4711);
}

TEST(what_lies_beyond_the_limits_is_none)
{
    int64_t number = 7;
    CHECK(!dlk_number_read("65536", 5, 1, 65535, &number));
    CHECK(!dlk_number_read("0", 1, 1, 65535, &number));
    CHECK_EQ_INT(number, 7);
    CHECK(dlk_number_read("655360", 5, 1, 65536, &number));
    CHECK_EQ_INT(number, 65536);
    uint64_t digits = 7;
    CHECK(dlk_number_digits("18446744073709551615", 20, UINT64_MAX, &digits));
    CHECK(digits == UINT64_MAX);
    CHECK(!dlk_number_digits("18446744073709551616", 20, UINT64_MAX, &digits));
    CHECK(!dlk_number_digits("-1", 2, UINT64_MAX, &digits));
}

TEST(a_number_before_something_else_ends_there)
{
    CHECK_EQ_INT(dlk_number_before("5\nowner", "\n", 0, 9, -1), 5);
    CHECK_EQ_INT(dlk_number_before("5 owner", "\n", 0, 9, -1), -1);
    CHECK_EQ_INT(dlk_number_before("5", "\n", 0, 9, -1), 5);
    CHECK_EQ_INT(dlk_number_before("", "\n", 0, 9, -1), -1);
}

TEST(numbers_are_put_as_printf_has_them)
{
    const uint64_t numbers[] = {0, 9, 10, 15, 16, 0xabc, INT64_MAX, UINT64_MAX};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        char put[DLK_DIGITS_MAX + 1], printed[DLK_DIGITS_MAX + 1];
        snprintf(printed, sizeof(printed), "%" PRIu64, numbers[i]);
        *dlk_digits_put(put, numbers[i]) = '\0';
        CHECK_STR(put, printed);
        snprintf(printed, sizeof(printed), "%" PRIx64, numbers[i]);
        *dlk_digits_put_hex(put, numbers[i]) = '\0';
        CHECK_STR(put, printed);
    }
}

TEST(sums_and_differences_stop_at_the_ends)
{
    CHECK_EQ_INT(dlk_number_sum(INT64_MAX, 1), INT64_MAX);
    CHECK_EQ_INT(dlk_number_sum(INT64_MIN, -1), INT64_MIN);
    CHECK_EQ_INT(dlk_number_sum(INT64_MAX, INT64_MIN), -1);
    CHECK_EQ_INT(dlk_number_difference(INT64_MAX, -1), INT64_MAX);
    CHECK_EQ_INT(dlk_number_difference(INT64_MIN, 1), INT64_MIN);
    CHECK_EQ_INT(dlk_number_difference(5, 7), -2);
}

TEST(every_span_fits_the_clock)
{
    static const int64_t any[] = {
        INT64_MIN,       -2, -1, 0, 1, 1000, DLK_NEVER, INT64_MAX - 1, INT64_MAX,
        INT64_MAX / 1000};
    for (size_t i = 0; i < sizeof(any) / sizeof(*any); i++) {
        int64_t ms = dlk_span_ms(any[i]), of_s = dlk_span_of_seconds(any[i]);
        CHECK(ms >= -1 && ms <= DLK_SPAN_MAX_MS);
        CHECK(of_s >= -1 && of_s <= DLK_SPAN_MAX_MS);
        CHECK((ms < 0) == (any[i] < 0) && (of_s < 0) == (any[i] < 0));
        CHECK(dlk_clock_after(INT64_C(1) << 60, ms + 1) <= DLK_NEVER);
    }
    CHECK_EQ_INT(dlk_span_of_seconds(3), 3000);
    CHECK_EQ_INT(dlk_span_ms(3), 3);
    CHECK_EQ_INT(dlk_clock_ms_until(INT64_MAX, 1, INT64_MAX), INT64_MAX / 1000000 + 1);
}
