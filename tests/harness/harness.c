/* Runs the tests a program registered and speaks TAP; see the header. */
#include "harness/harness.h"

#include "harness/awake.h"
#include "harness/starved.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define TESTS_MAX  512
#define TRIES_MAX  6
#define STALLED_MS 100
#define STARVED_MS 1000 /* less is usual where many share a core */

static struct test {
    const char *name, *file;
    void (*run)(void);
} tests[TESTS_MAX];
static int test_count;
static atomic_bool failed; /* the running test; checks may come from any thread */
static atomic_bool inexcusable;
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

void harness_no_excuse(void)
{
    inexcusable = true;
    harness_note("no clock excuses this"); /* tools/tally.py knows it by that */
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

/* ---- Void tries ---- */

/* How far a program is, which goes on from there as a new one. */
struct progress {
    int next, tries, reported, failures;
};
static const char goes_on[] = "HARNESS_GOES_ON", leaves[] = "HARNESS_LEAVES";
static struct rlimit descriptors;   /* as they were */
static char progress_text[64];      /* not on the stack, */
static char directories[64 * 1024]; /* see go_on_afresh; with blanks between them */

char *harness_mkdtemp(char *template)
{
    size_t used = strlen(directories);
    char *made = mkdtemp(template);
    if (made && used + strlen(made) + 2 < sizeof(directories))
        snprintf(directories + used, sizeof(directories) - used, " %s", made);
    return made;
}

/* The processes that a failed test has left behind, which may have some of their own. */
static void end_children(void)
{
    char path[64];
    int pid;
    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    FILE *children = fopen(path, "re");
    while (children && fscanf(children, "%d", &pid) == 1) {
        if (awake_is_watcher(pid))
            continue;
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    if (children)
        fclose(children);
}

static void clear_up(void)
{
    char *rest = NULL;
    end_children();
    const char *text = getenv(leaves);
    snprintf(directories, sizeof(directories), "%s", text ? text : "");
    for (char *dir = strtok_r(directories, " ", &rest); dir;
         dir = strtok_r(NULL, " ", &rest)) {
        pid_t pid = fork();
        if (pid == 0) {
            execlp("rm", "rm", "-rf", "--", dir, (char *)NULL);
            _exit(127);
        }
        waitpid(pid, NULL, 0);
    }
    directories[0] = '\0';
    unsetenv(leaves);
}

static struct progress begin(void)
{
    struct progress at = {0};
    const char *text = getenv(goes_on);
    getrlimit(RLIMIT_NOFILE, &descriptors);
    if (!text)
        return at;
    if (sscanf(text, "%d %d %d %d", &at.next, &at.tries, &at.reported, &at.failures) != 4)
        exit(2);
    unsetenv(goes_on);
    clear_up();
    return at;
}

static bool is_void(const struct progress *at)
{
    return failed && !inexcusable && at->tries + 1 < TRIES_MAX &&
           (awake_longest_ms() >= STALLED_MS || starved_longest_ms() >= STARVED_MS);
}

/* As a new program, because nobody knows what the failed test has left behind in this one. Its
 * threads may still run, and use what was its stack: nothing is written to ours. */
static void go_on_afresh(const struct progress *at, char **argv)
{
    static const struct itimerval never; /* stays armed otherwise */
    static sigset_t none;
    printf(
        "# void: the machine stood still for %d ms and starved us for %d ms; %s is tried "
        "again\n",
        (int)awake_longest_ms(), (int)starved_longest_ms(), tests[at->next].name);
    fflush(stdout);
    snprintf(progress_text, sizeof(progress_text), "%d %d %d %d", at->next, at->tries + 1,
             at->reported, at->failures);
    setenv(goes_on, progress_text, 1);
    setenv(leaves, directories, 1);
    setrlimit(RLIMIT_NOFILE, &descriptors);
    setitimer(ITIMER_REAL, &never, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execv("/proc/self/exe", argv);
}

int harness_main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0); /* a crash must not eat what was said before it */
    struct progress at = begin();
    if (!starved_watch())
        harness_note("nobody watches whether we are starved");
    int count = select_tests(argc > 1 ? argv[1] : NULL);
    for (; at.next < count; at.next++, at.tries = 0) {
        const char *name = tests[at.next].name;
        failed = inexcusable = false;
        skipped = left_out = NULL;
        awake_forget();
        starved_forget();
        tests[at.next].run();
        if (is_void(&at))
            go_on_afresh(&at, argv); /* comes back only when it can't */
        if (left_out && !failed) {
            harness_note("%s says nothing here: %s", name, left_out);
            continue;
        }
        at.failures += failed;
        printf("%sok %d - %s%s%s\n", failed ? "not " : "", ++at.reported, name,
               skipped ? " # SKIP " : "", skipped ? skipped : "");
    }
    printf("1..%d\n",
           at.reported); /* last, as only then it is known; who dies before has none */
    return at.failures > 0;
}
