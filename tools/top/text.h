/*
 * Texts for the cells of a terminal, by the standard's widths of characters (wcwidth): what
 * somebody else wrote is made harmless, and nothing is cut in its middle.
 */
#ifndef DLOCK_TOOLS_TOP_TEXT_H
#define DLOCK_TOOLS_TOP_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes exactly `cells` cells of `text` to `ret`, filled up with blanks; where it has more, the
 * last one says so. A control or format character, what isn't UTF-8, and where the terminal isn't
 * UTF-8 (`utf8` false) what isn't ASCII, is a "?". Combining characters stay with their base, two
 * for each at most. Stops early where `ret` is full. */
void top_text_cells(char *ret, size_t size, const char *text, int cells, bool utf8);

/* "850ms" would change all the time: "0s", "59s", "3m07s", "2h05m", "3d04h"; with > in front when
 * that is the least; "-" for what is unknown (< 0). */
void top_text_age(char *ret, size_t size, int64_t ms, bool at_least);

/* How much of `whole` is left, in `cells` cells. */
void top_text_bar(char *ret, size_t size, int64_t left, int64_t whole, int cells,
                  bool utf8);

/* The last `count` of these values as a line, a cell each, the largest the highest; one that is
 * missing (< 0) is an x. */
void top_text_history(char *ret, size_t size, const int64_t *values, int count,
                      bool utf8);

/* Microseconds as milliseconds, with as many digits as say something. */
void top_text_ms(char *ret, size_t size, int64_t us);

#endif
