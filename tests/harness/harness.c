/* Runs the tests a program registered and speaks TAP; see the header. Contains main(). */
#include "harness/harness.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TESTS_MAX 512

static struct test {
    const char *name, *file;
    void (*run)(void);
} tests[TESTS_MAX];
static int test_count;
static atomic_bool failed; /* the running test; checks may come from any thread */
static const char *skipped, *left_out;

void harness_add(const char *name, const char *file, void (*run)(void))
{
    if (test_count == TESTS_MAX) {
        fprintf(stderr, "more than %d tests in %s\n", TESTS_MAX, file);
        exit(2);
    }
    tests[test_count++] = (struct test){.name = name, .file = file, .run = run};
}

void harness_note(const char *format, ...)
{
    char line[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    printf("# %s\n", line);
}

void harness_skip(const char *why)
{
    skipped = why;
}

void harness_leave_out(const char *why)
{
    left_out = why;
}

bool harness_failed(void)
{
    return failed;
}

bool harness_check(const char *file, int line, bool held, const char *condition)
{
    if (held)
        return true;
    failed = true;
    harness_note("%s:%d: not true: %s", file, line, condition);
    return false;
}

bool harness_eq_int(const char *file, int line, const char *what, int64_t got,
                    int64_t expected)
{
    if (got == expected)
        return true;
    failed = true;
    harness_note("%s:%d: %s is %" PRId64 ", expected %" PRId64, file, line, what, got,
                 expected);
    return false;
}

bool harness_str(const char *file, int line, const char *what, const char *got,
                 const char *expected)
{
    if (got == expected || (got && expected && strcmp(got, expected) == 0))
        return true;
    failed = true;
    harness_note("%s:%d: %s is \"%s\", expected \"%s\"", file, line, what,
                 got ? got : "(NULL)", expected ? expected : "(NULL)");
    return false;
}

bool harness_contains(const char *file, int line, const char *what, const char *got,
                      const char *part)
{
    if (got && strstr(got, part))
        return true;
    failed = true;
    harness_note("%s:%d: %s is \"%s\", expected \"%s\" in it", file, line, what,
                 got ? got : "(NULL)", part);
    return false;
}

bool harness_err(const char *file, int line, const char *what, dlock_err got,
                 dlock_err expected, const dlock_error *err)
{
    if (got == expected)
        return true;
    failed = true;
    harness_note("%s:%d: %s is %s, expected %s", file, line, what, dlock_errname(got),
                 dlock_errname(expected));
    if (err)
        harness_note("    \"%s\" [%s]", dlock_error_text(err), dlock_error_backend(err));
    return false;
}

/* What is wanted, in the order in which it stands in the file. */
static int select_tests(const char *part)
{
    int wanted = 0;
    for (int i = 0; i < test_count; i++)
        if (!part || strstr(tests[i].name, part))
            tests[wanted++] = tests[i];
    return wanted;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0); /* a crash must not eat what was said before it */
    int failures = 0, reported = 0, count = select_tests(argc > 1 ? argv[1] : NULL);
    for (int i = 0; i < count; i++) {
        failed = false;
        skipped = left_out = NULL;
        tests[i].run();
        if (left_out && !failed) {
            harness_note("%s says nothing here: %s", tests[i].name, left_out);
            continue;
        }
        failures += failed;
        printf("%sok %d - %s%s%s\n", failed ? "not " : "", ++reported, tests[i].name,
               skipped ? " # SKIP " : "", skipped ? skipped : "");
    }
    printf("1..%d\n",
           reported); /* last, as only then it is known; who dies before has none */
    return failures > 0;
}
