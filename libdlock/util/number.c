/* Reading numbers; see the header. */
#include "util/number.h"

bool dlk_number_digits(const char *text, size_t size, uint64_t max, uint64_t *ret)
{
    uint64_t number = 0;
    for (size_t i = 0; i < size; i++) {
        unsigned digit = (unsigned)(unsigned char)text[i] - '0';
        if (digit > 9 || number > (UINT64_MAX - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    if (size == 0 || number > max)
        return false;
    *ret = number;
    return true;
}

bool dlk_number_read(const char *text, size_t size, int64_t min, int64_t max,
                     int64_t *ret)
{
    bool minus = size > 0 && text[0] == '-';
    uint64_t most = minus ? (uint64_t)INT64_MAX + 1 : INT64_MAX, digits;
    if (!dlk_number_digits(text + minus, size - minus, most, &digits))
        return false;
    /* The least there is has no positive twin. */
    int64_t number = !minus               ? (int64_t)digits
                     : digits > INT64_MAX ? INT64_MIN
                                          : -(int64_t)digits;
    if (number < min || number > max)
        return false;
    *ret = number;
    return true;
}

int64_t dlk_number_before(const char *text, const char *ends, int64_t min, int64_t max,
                          int64_t otherwise)
{
    int64_t number;
    bool fine = dlk_number_read(text, strcspn(text, ends), min, max, &number);
    return fine ? number : otherwise;
}
