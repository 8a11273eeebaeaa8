/* A small test harness: TAP on stdout, one program per file. A test's name states the promise.
 *
 *     TEST(a_second_release_is_refused)
 *     {
 *         CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ENOTHELD);
 *     }
 *
 * The program runs every test of its file in their order, or those whose name contains argv[1].
 * A failed check ends its test (through return, so use checks in the test's own function or
 * behind `if (harness_failed()) return`), and the program exits with 1.
 *
 * A test that fails while the machine stood still (awake.h) has shown nothing: it is void, said to
 * be so, and tried again by a new program, which then goes on with the tests behind it. What no
 * clock excuses, two owners at once say, is checked by CHECK_ALWAYS. */
#ifndef HARNESS_H
#define HARNESS_H

#include <dlock/dlock.h>

#include <stdbool.h>
#include <stdint.h>

#define TEST(name)                                                                       \
    static void name(void);                                                              \
    __attribute__((constructor)) static void harness_add_##name(void)                    \
    {                                                                                    \
        harness_add(#name, __FILE__, name);                                              \
    }                                                                                    \
    static void name(void)

#define CHECK(condition)                                                                 \
    do {                                                                                 \
        if (!harness_check(__FILE__, __LINE__, (condition), #condition))                 \
            return;                                                                      \
    } while (0)

/* What has to hold however long anybody stood still. */
#define CHECK_ALWAYS(condition)                                                          \
    do {                                                                                 \
        if (!harness_check(__FILE__, __LINE__, (condition), #condition)) {               \
            harness_no_excuse();                                                         \
            return;                                                                      \
        }                                                                                \
    } while (0)

#define CHECK_EQ_INT(got, expected)                                                      \
    do {                                                                                 \
        if (!harness_eq_int(__FILE__, __LINE__, #got, (int64_t)(got),                    \
                            (int64_t)(expected)))                                        \
            return;                                                                      \
    } while (0)

/* NULL equals only NULL. */
#define CHECK_STR(got, expected)                                                         \
    do {                                                                                 \
        if (!harness_str(__FILE__, __LINE__, #got, (got), (expected)))                   \
            return;                                                                      \
    } while (0)

#define CHECK_CONTAINS(got, part)                                                        \
    do {                                                                                 \
        if (!harness_contains(__FILE__, __LINE__, #got, (got), (part)))                  \
            return;                                                                      \
    } while (0)

/* A call that answers dlock_err and was given `err`: on surprise its text is shown too. */
#define CHECK_ERR(got, expected, err)                                                    \
    do {                                                                                 \
        dlock_err harness_got = (got);                                                   \
        if (!harness_err(__FILE__, __LINE__, #got, harness_got, (expected), (err)))      \
            return;                                                                      \
    } while (0)

#define CHECK_OK(got, err) CHECK_ERR(got, DLOCK_OK, err)

/* Ends this test, which counts as skipped. */
#define SKIP(why)                                                                        \
    do {                                                                                 \
        harness_skip(why);                                                               \
        return;                                                                          \
    } while (0)

/* Ends this test, which isn't counted: what it is about doesn't exist in this setting. */
#define LEAVE_OUT(why)                                                                   \
    do {                                                                                 \
        harness_leave_out(why);                                                          \
        return;                                                                          \
    } while (0)

void harness_add(const char *name, const char *file, void (*run)(void));

/* The checks return whether they held; from any thread. */
bool harness_check(const char *file, int line, bool held, const char *condition);
bool harness_eq_int(const char *file, int line, const char *what, int64_t got,
                    int64_t expected);
bool harness_str(const char *file, int line, const char *what, const char *got,
                 const char *expected);
bool harness_contains(const char *file, int line, const char *what, const char *got,
                      const char *part);
bool harness_err(const char *file, int line, const char *what, dlock_err got,
                 dlock_err expected, const dlock_error *err);

/* A line of commentary in the output. */
void harness_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void harness_skip(const char *why);
void harness_leave_out(const char *why);

/* mkdtemp(3), for what is to be removed when the test fails and is tried again. */
char *harness_mkdtemp(char *template);

/* Whether a check of the running test has failed already. */
bool harness_failed(void);
/* The running test isn't tried again if it fails. */
void harness_no_excuse(void);

/* What main() does, unless a program has one of its own. */
int harness_main(int argc, char **argv);

#endif
