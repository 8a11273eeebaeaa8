/* Forks beside other threads; see the header. */
#include "harness/fork.h"

#include "harness/awake.h"
#include "harness/harness.h"
#include "harness/time.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOKS       3 /* in a row, a millisecond apart */
#define PATIENCE_NS (INT64_C(60) * 1000000000)

/* The state follows the name in parentheses, which may hold anything. */
static bool sleeps(const char *tid)
{
    char path[320], text[512] = "";
    (void)snprintf(path, sizeof(path), "/proc/self/task/%s/stat", tid);
    FILE *file = fopen(path, "re");
    if (!file)
        return true; /* it is gone */
    size_t got = fread(text, 1, sizeof(text) - 1, file);
    (void)fclose(file); /* only read */
    const char *end = got > 0 ? strrchr(text, ')') : NULL;
    return end && strlen(end) > 2 && end[2] == 'S';
}

int harness_threads_at_work(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/task");
    for (struct dirent *it; dir && (it = readdir(dir));)
        count += it->d_name[0] != '.' && !sleeps(it->d_name);
    if (dir)
        (void)closedir(dir);
    return count;
}

static bool await_quiet(void)
{
    int64_t end = awake_now_ns() + PATIENCE_NS;
    int quiet = 0;
    while (quiet < LOOKS && awake_now_ns() < end) {
        quiet = harness_threads_at_work() > 1 ? 0 : quiet + 1;
        if (quiet < LOOKS)
            nap_ms(1);
    }
    return harness_check(__FILE__, __LINE__, quiet == LOOKS,
                         "the other threads sleep, so that AddressSanitizer can fork");
}

pid_t harness_fork(void)
{
    if (ADDRESS_SANITIZER && !await_quiet())
        return -1;
    return fork();
}

bool harness_aborts(void (*act)(void))
{
    pid_t child = harness_fork();
    if (child == 0) {
        const struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none); /* no file is left of what is meant to die */
        (void)signal(SIGABRT, SIG_DFL);
        (void)close(STDERR_FILENO); /* what it says is expected */
        act();
        _exit(0);
    }
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
           WTERMSIG(status) == SIGABRT;
}
