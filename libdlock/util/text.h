/* Text that others wrote, on its way to a line that somebody reads at a terminal. */
#ifndef DLK_UTIL_TEXT_H
#define DLK_UTIL_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* The length of the UTF-8 character at @p text, of which @p left bytes are there; 0 when it is none
 * (also: overlong, surrogate). */
size_t dlk_utf8_size(const char *text, size_t left);
/* Whether the character of @p size bytes there is U+0080 to U+009F. */
static inline bool dlk_utf8_is_c1(const char *text, size_t size)
{
    return size == 2 && text[0] == '\xc2' && (unsigned char)text[1] < 0xa0;
}
/* Control characters become spaces: C0, DEL, and C1, which terminals obey as UTF-8 and, where they
 * go by 8 bits, as the byte alone. What else is no UTF-8 stays. */
void dlk_text_one_line(char *text);
/* The same characters, and bytes that are no UTF-8, as \x1b, and a backslash as two: what was there can be told
 * from it. Yours to free; NULL without memory. */
char *dlk_text_shown(const char *text);

#endif
