/* Numbers in decimal, without the cost of printf: what every request on a wire has. */
#ifndef DLK_UTIL_DIGITS_H
#define DLK_UTIL_DIGITS_H

#include <stddef.h>
#include <stdint.h>

#define DLK_DIGITS_MAX 20 /* of any uint64_t */

/* Returns where they end; no NUL is put there. */
static inline char *dlk_digits_put(char *to, uint64_t number)
{
    char digits[DLK_DIGITS_MAX];
    size_t count = 0;
    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    while (count > 0)
        *to++ = digits[--count];
    return to;
}

#endif
