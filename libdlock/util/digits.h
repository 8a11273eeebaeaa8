/* Numbers in decimal, and in hexadecimal, without the cost of printf: what every request on a wire has. */
#ifndef DLK_UTIL_DIGITS_H
#define DLK_UTIL_DIGITS_H

#include <stddef.h>
#include <stdint.h>

#define DLK_DIGITS_MAX 20 /* of any uint64_t, by either */

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

/* The same with small letters, as %x has it. */
static inline char *dlk_digits_put_hex(char *to, uint64_t number)
{
    int shift = 60;
    while (shift > 0 && number >> shift == 0)
        shift -= 4;
    for (; shift >= 0; shift -= 4)
        *to++ = "0123456789abcdef"[number >> shift & 15];
    return to;
}

/* Always two of them. */
static inline char *dlk_digits_put_byte(char *to, unsigned char byte)
{
    *to++ = "0123456789abcdef"[byte >> 4];
    *to++ = "0123456789abcdef"[byte & 15];
    return to;
}

/* What one of them stands for; -1: it is none. */
static inline int dlk_digits_hex(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

#endif
