/* What goes wrong while an input is run: a crash or a failed check (both end in a signal), a run
 * that doesn't end, memory that isn't given back. The input is then written to a file and, in
 * hex, to stderr. No system call an execution: a timer looks now and then whether the same one
 * is still running. */
#include "driver.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN
#endif
#endif
#ifdef WITH_ASAN
/* gcc has the function, but not the header that declares it. */
size_t __sanitizer_get_current_allocated_bytes(void);
#endif

/* A report of ASan or UBSan is a finding like any other: it ends in SIGABRT and so in ours. */
const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

const char *__asan_default_options(void)
{
    /* Little of what was freed is kept, and short stacks of who asked for memory: much faster. */
    return "abort_on_error=1:handle_abort=0:allocator_may_return_null=1:"
           "quarantine_size_mb=8:malloc_context_size=5";
}

const char *__ubsan_default_options(void)
{
    return "abort_on_error=1:halt_on_error=1:print_stacktrace=1";
}

static char finding[4096]; /* path of the file, up to its number */
static int limit;
static const uint8_t *_Atomic current; /* any thread may get the tick that looks */
static atomic_size_t current_size;
static atomic_ulong executions;

/* FNV-1a: the same input makes the same file. */
static uint32_t hash_of(const uint8_t *data, size_t size)
{
    uint32_t hash = UINT32_C(2166136261);
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ data[i]) * UINT32_C(16777619);
    return hash;
}

/* From here on only what a signal handler may do. */

static char *put_hex(char *to, uint32_t number, int digits)
{
    for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4)
        *to++ = "0123456789abcdef"[(number >> shift) & 15];
    return to;
}

static void say(int fd, const char *text, size_t size)
{
    while (size > 0) {
        ssize_t put = write(fd, text, size);
        if (put <= 0)
            return; /* there is nobody left to tell */
        text += put;
        size -= (size_t)put;
    }
}

static void say_text(const char *text)
{
    say(STDERR_FILENO, text, strlen(text));
}

static void show_input(const char *what)
{
    const uint8_t *data = current;
    size_t size = current_size;
    char hex[2];
    say_text(fuzz_name);
    say_text(what);
    for (size_t i = 0; i < size; i++) {
        (void)put_hex(hex, data[i], 2);
        say(STDERR_FILENO, hex, 2);
    }
    say_text("\n");
    if (!finding[0])
        return;
    char path[sizeof(finding) + 16];
    size_t used = strlen(finding);
    memcpy(path, finding, used);
    *put_hex(path + used, hash_of(data, size), 8) = '\0';
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return;
    say(fd, (const char *)data, size);
    (void)close(fd); /* we are about to die anyway */
    say_text("written to ");
    say_text(path);
    say_text("\n");
}

static void clean_up(void)
{
    if (fuzz_litter[0])
        (void)unlink(fuzz_litter); /* gone already is as good */
}

static void die_of(int number)
{
    clean_up();
    if (current)
        show_input(": died of this input: ");
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

static void look(int number)
{
    static atomic_ulong before; /* each tick may come to another thread */
    static atomic_int same;
    (void)number;
    unsigned long now = atomic_load(&executions);
    if (atomic_exchange(&before, now) != now || !current)
        atomic_store(&same, 0);
    else
        atomic_fetch_add(&same, 1);
    if (atomic_load(&same) < limit)
        return;
    show_input(": doesn't end with this input: ");
    clean_up();
    (void)signal(SIGABRT, SIG_DFL);
    abort();
}

/* ---- in ordinary times ---- */

void fuzz_watch_start(const char *directory, int limit_s)
{
    static const int deaths[] = {SIGABRT, SIGTERM, SIGINT,
#ifndef WITH_ASAN /* which reports these itself, and aborts */
                                 SIGSEGV, SIGBUS,  SIGFPE,
                                 SIGILL
#endif
    };
    if (directory)
        (void)snprintf(finding, sizeof(finding), "%s/%s-", directory, fuzz_name);
    limit = limit_s;
    (void)atexit(clean_up); /* cannot fail for the first few */
    for (size_t i = 0; i < sizeof(deaths) / sizeof(deaths[0]); i++)
        (void)sigaction(deaths[i], &(struct sigaction){.sa_handler = die_of}, NULL);
    struct sigaction ticks = {.sa_handler = look, .sa_flags = SA_RESTART};
    struct itimerval second = {{.tv_sec = 1}, {.tv_sec = 1}};
    if (sigaction(SIGALRM, &ticks, NULL) != 0 ||
        setitimer(ITIMER_REAL, &second, NULL) != 0)
        abort();
}

static void run_once(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        abort();
    memcpy(copy, data, size);
    (void)LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static size_t memory_in_use(void)
{
#ifdef WITH_ASAN
    return __sanitizer_get_current_allocated_bytes();
#else
    return 0; /* unknown: the build with ASan looks */
#endif
}

/* More memory than before may be a cache that was filled; the same once more is a leak. */
static void check_leak(const uint8_t *data, size_t size, size_t before)
{
    for (int again = 0; again < 3; again++) {
        size_t in_use = memory_in_use();
        if (in_use <= before)
            return;
        before = in_use;
        run_once(data, size);
    }
    if (memory_in_use() > before)
        fuzz_fail(__FILE__, __LINE__, "memory in use == before",
                  "each run of this input leaves memory behind");
}

void fuzz_watch_run(const uint8_t *data, size_t size)
{
    current_size = size;
    current = data;
    size_t before = memory_in_use();
    run_once(data, size);
    if (memory_in_use() > before)
        check_leak(data, size, before);
    current = NULL;
    atomic_fetch_add(&executions, 1);
}
