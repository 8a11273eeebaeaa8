/*
 * Numbers from outside: from a server, from what others have written there, from a peer's message,
 * from a ticket, an option or an environment. Whatever they say, no sum overflows: a text is read
 * here and nowhere else, as a whole and within limits that the caller names; what is added,
 * subtracted or counted saturates; and a span of time is cut to one that fits the clock.
 *
 * tests/util/numbers_in_one_place.py sees to it that nobody else reads one.
 */
#ifndef DLK_UTIL_NUMBER_H
#define DLK_UTIL_NUMBER_H

#include "util/clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- reading ---- */

/* Decimal digits and nothing else, all @p size of them; false, and nothing is written, for any
 * other text and for what is more than @p max. */
bool dlk_number_digits(const char *text, size_t size, uint64_t max, uint64_t *ret);

/* The same behind at most one minus, from @p min to @p max. */
bool dlk_number_read(const char *text, size_t size, int64_t min, int64_t max,
                     int64_t *ret);

/* Of a text that begins with a number and goes on with something else, such as a line: the number,
 * or @p otherwise. */
int64_t dlk_number_before(const char *text, const char *ends, int64_t min, int64_t max,
                          int64_t otherwise);

/* Of a whole text; NULL is none. */
static inline int64_t dlk_number_or(const char *text, int64_t min, int64_t max,
                                    int64_t otherwise)
{
    int64_t number;
    return text && dlk_number_read(text, strlen(text), min, max, &number) ? number
                                                                          : otherwise;
}

/* ---- sums ---- */

static inline int64_t dlk_number_clamp(int64_t number, int64_t min, int64_t max)
{
    return number < min ? min : number > max ? max : number;
}

static inline int64_t dlk_number_sum(int64_t a, int64_t b)
{
    int64_t sum;
    if (!__builtin_add_overflow(a, b, &sum))
        return sum;
    return a < 0 ? INT64_MIN : INT64_MAX;
}

static inline int64_t dlk_number_difference(int64_t a, int64_t b)
{
    int64_t difference;
    if (!__builtin_sub_overflow(a, b, &difference))
        return difference;
    return a < 0 ? INT64_MIN : INT64_MAX;
}

/* ---- spans of time ---- */

/* More than a human life, which dlk_clock_after takes for "never"; so much that neither ns nor small
 * sums of it overflow. */
#define DLK_SPAN_MAX_MS (DLK_NEVER / 2 / DLK_NS_PER_MS)

/* Negative, whatever it is, says that it is unknown: -1. */
static inline int64_t dlk_span_ms(int64_t ms)
{
    return dlk_number_clamp(ms, -1, DLK_SPAN_MAX_MS);
}

static inline int64_t dlk_span_of_seconds(int64_t seconds)
{
    return seconds < 0 ? -1 : dlk_number_clamp(seconds, 0, DLK_SPAN_MAX_MS / 1000) * 1000;
}

#endif
