/* What a fuzz target offers to the driver, and small helpers for targets. A target is one file
 * with the five symbols below; it aborts (FUZZ_CHECK) when a property doesn't hold, so that it
 * runs under libFuzzer as well as under our own driver (main.c). */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- The target's ---- */

extern const char fuzz_name[];
extern const size_t fuzz_longest;      /* inputs aren't made longer than this */
extern const char *const fuzz_words[]; /* what its inputs are made of; NULL at the end */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- Eating an input: what is behind its end is zero ---- */

typedef struct fuzz_bytes {
    const uint8_t *at;
    size_t left;
} fuzz_bytes;

static inline uint8_t fuzz_byte(fuzz_bytes *bytes)
{
    if (bytes->left == 0)
        return 0;
    bytes->left--;
    return *bytes->at++;
}

/* Of @p size bytes, the low one first. */
static inline uint64_t fuzz_number(fuzz_bytes *bytes, unsigned size)
{
    uint64_t number = 0;
    for (unsigned i = 0; i < size; i++)
        number |= (uint64_t)fuzz_byte(bytes) << (8 * i);
    return number;
}

/* The next @p size bytes, or what is left of them. */
static inline fuzz_bytes fuzz_take(fuzz_bytes *bytes, size_t size)
{
    fuzz_bytes taken = {bytes->at, size < bytes->left ? size : bytes->left};
    bytes->at += taken.left;
    bytes->left -= taken.left;
    return taken;
}

/* Up to the next @p end (which is eaten, too) or the end of the input. */
fuzz_bytes fuzz_take_until(fuzz_bytes *bytes, uint8_t end);
/* A C string: up to its first NUL. Yours to free. */
char *fuzz_text(fuzz_bytes bytes);

/* A file that the target makes: removed at the end, however that comes. */
extern char fuzz_litter[128];

/* ---- Judging ---- */

#define FUZZ_CHECK(condition, ...)                                                       \
    do {                                                                                 \
        if (!(condition))                                                                \
            fuzz_fail(__FILE__, __LINE__, #condition, __VA_ARGS__);                      \
    } while (0)

/* Says what didn't hold and why that matters, and aborts. */
void fuzz_fail(const char *file, int line, const char *condition, const char *format, ...)
    __attribute__((noreturn, format(printf, 4, 5)));

/* Aborts unless it is one JSON value, in UTF-8, and nothing behind it. */
void fuzz_check_json(const char *text);

#endif
