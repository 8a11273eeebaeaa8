/*
 * Every order in which the threads of a scene can run, within limits:
 *
 *     explore [PART]                             all scenes as TAP, or those with this in their name
 *     explore --scenario PART --preemptions 4 --turns 9 --seconds 60
 *     explore --scenario PART --schedule 12E,30B   one of its schedules, told step by step
 *     explore --list
 *
 * Each is gone through twice, the second time with every atomic step of the engine as a place to switch.
 * DLK_EXPLORE=short: once, and not far, where another compiler or a sanitizer looks on; =proof: as far as
 * a few minutes reach.
 */
#include "heap.h"
#include "scene.h"
#include "search.h"
#include "strand.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const scene *playing;
static bool tells, is_child;

/* ---- telling ---- */

bool explore_tells(void)
{
    return tells;
}

__attribute__((format(printf, 1, 0))) static void tell(const char *format, va_list args)
{
    char line[400];
    int used = snprintf(line, sizeof(line), "# %10.3f ms %4d | ",
                        (double)(strands_now() % 1000000000000) / 1e6, strands_steps());
    (void)vsnprintf(line + used, sizeof(line) - (size_t)used, format, args);
    (void)printf("%s\n", line);
    (void)fflush(stdout);
}

void explore_tell(const char *format, ...)
{
    va_list args;
    if (!tells)
        return;
    va_start(args, format);
    tell(format, args);
    va_end(args);
}

/* Once more from the beginning, and told. */
static void tell_again(void)
{
    char schedule[256];
    (void)snprintf(schedule, sizeof(schedule), "%s", search_schedule());
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)execl("/proc/self/exe", "explore", "--scenario", playing->name, "--schedule",
                schedule, (char *)NULL);
    _exit(1);
}

void explore_fail(const char *format, ...)
{
    bool again = !tells && !is_child;
    va_list args;
    va_start(args, format);
    (void)printf("# FAILED: ");
    (void)vprintf(format, args);
    (void)printf("\n");
    va_end(args);
    if (again)
        (void)printf("# its schedule: explore --scenario %s --schedule %s\n",
                     playing ? playing->name : "?", search_schedule());
    (void)fflush(stdout);
    if (again)
        tell_again();
    _exit(1);
}

static void on_signal(int number)
{
    static const char crashed[] = "# FAILED: it crashes\n";
    if (!tells && !is_child && playing)
        explore_fail("it crashes");
    (void)!write(STDOUT_FILENO, crashed, sizeof(crashed) - 1);
    _exit(128 + number);
}

static void catch_crashes(void)
{
    static char stack[65536];
    stack_t own = {.ss_sp = stack, .ss_size = sizeof(stack)};
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    (void)sigaltstack(&own, NULL);
    (void)sigaction(SIGSEGV, &act, NULL);
    (void)sigaction(SIGBUS, &act, NULL);
    (void)sigaction(SIGABRT, &act, NULL);
}

/* ---- one scene ---- */

static void execute(void)
{
    scene_play(playing);
}

static int run_again(const char *schedule)
{
    tells = true;
    strands_finely(*schedule == 'f');
    if (!search_one(schedule + (*schedule == 'f'), execute)) {
        (void)printf("# no schedule: %s\n", schedule);
        return 2;
    }
    (void)printf("# nothing is wrong with it\n");
    return 0;
}

static int explore(const search_limits *limits)
{
    struct timespec from, to;
    (void)clock_gettime(CLOCK_MONOTONIC, &from);
    strands_finely(limits->finely);
    search_sum sum = search_all(limits, execute);
    (void)clock_gettime(CLOCK_MONOTONIC, &to);
    (void)printf("# %s%s: %lld schedules of up to %lld places, %s %d preemptions and %d "
                 "turns, in %.1f s\n",
                 playing->name, limits->finely ? ", finely" : "",
                 (long long)sum.schedules, (long long)sum.longest,
                 sum.all ? "all that have up to" : "some of those with up to",
                 limits->preemptions, limits->turns,
                 (double)(to.tv_sec - from.tv_sec) +
                     (double)(to.tv_nsec - from.tv_nsec) / 1e9);
    return 0;
}

/* In a process of its own: what fails leaves everything as it is. */
static bool explore_apart(const scene *one, search_limits limits)
{
    int status;
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        playing = one;
        exit(explore(&limits)); /* where LeakSanitizer looks as well */
    }
    while (child > 0 && waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool is_fine(const scene *one)
{
    const char *how = getenv("DLK_EXPLORE");
    search_limits limits = one->limits, finely = {1, 1, true, 0};
    if (limits.preemptions > 2) /* one fewer: there are twice as many places */
        finely.preemptions = limits.preemptions - 1;
    if (how && strcmp(how, "short") == 0) {
        limits.preemptions = limits.turns = 1;
        return explore_apart(one, limits);
    }
    if (how && strcmp(how, "proof") == 0) {
        limits = one->proof;
        limits.seconds = 240;
        finely = limits;
        finely.finely = true;
        finely.preemptions = 2;
        finely.seconds = 120;
    }
    return explore_apart(one, limits) && explore_apart(one, finely);
}

static int run_all(const char *part)
{
    int count = 0, failed = 0, number = 0;
    for (int i = 0; i < scene_count; i++)
        count += !part || strstr(scenes[i].name, part) != NULL;
    (void)printf("1..%d\n", count);
    for (int i = 0; i < scene_count; i++) {
        if (part && !strstr(scenes[i].name, part))
            continue;
        bool fine = is_fine(&scenes[i]);
        failed += !fine;
        (void)printf("%s %d - %s\n", fine ? "ok" : "not ok", ++number, scenes[i].name);
    }
    return failed || !count;
}

static const scene *find(const char *part)
{
    for (int i = 0; i < scene_count; i++)
        if (strcmp(scenes[i].name, part) == 0)
            return &scenes[i];
    for (int i = 0; i < scene_count; i++)
        if (strstr(scenes[i].name, part))
            return &scenes[i];
    (void)fprintf(stderr, "explore: no scene has this in its name: %s\n", part);
    exit(2);
}

static void now_a_child(void)
{
    if (playing) {
        is_child = true;
        strands_alone();
    }
}

int main(int argc, char **argv)
{
    const char *schedule = NULL;
    const scene *one = NULL;
    search_limits limits = {.preemptions = -1, .turns = -1};
    /* Before the library's own: the child runs them in this order. */
    (void)pthread_atfork(NULL, NULL, now_a_child);
    catch_crashes();
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--list") == 0) {
            for (int k = 0; k < scene_count; k++)
                (void)printf("%s\n", scenes[k].name);
            return 0;
        }
        if (argv[i][0] != '-')
            return run_all(argv[i]);
        if (strcmp(argv[i], "--scenario") == 0)
            one = find(value);
        else if (strcmp(argv[i], "--schedule") == 0)
            schedule = value;
        else if (strcmp(argv[i], "--preemptions") == 0)
            limits.preemptions = atoi(value);
        else if (strcmp(argv[i], "--turns") == 0)
            limits.turns = atoi(value);
        else if (strcmp(argv[i], "--seconds") == 0)
            limits.seconds = atof(value);
        else if (strcmp(argv[i], "--finely") == 0)
            limits.finely = atoi(value) != 0;
        else {
            (void)fprintf(stderr, "explore: %s?\n", argv[i]);
            return 2;
        }
    }
    if (!one)
        return run_all(NULL);
    playing = one;
    if (schedule)
        return run_again(schedule);
    if (limits.preemptions < 0)
        limits.preemptions = one->limits.preemptions;
    if (limits.turns < 0)
        limits.turns = one->limits.turns;
    return explore(&limits);
}
