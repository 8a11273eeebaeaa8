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
 * a minute or two reach. Each time is a process of its own, as many at once as there are processors.
 */
#include "heap.h"
#include "scene.h"
#include "search.h"
#include "strand.h"
#include "workers.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* ---- all of them: each pass of a scene is a worker's, so what fails leaves everything as it is ---- */

/* How far a pass goes, and whether there is one. */
static bool has_pass(const scene *one, bool finely, search_limits *ret)
{
    const char *how = getenv("DLK_EXPLORE");
    *ret = one->limits;
    if (how && strcmp(how, "short") == 0) {
        ret->preemptions = ret->turns = 1;
        return !finely;
    }
    if (how && strcmp(how, "proof") == 0) {
        *ret = one->proof;
        ret->seconds = finely ? 60 : 120;
        if (finely)
            ret->preemptions = 2;
    } else if (finely) /* one fewer: there are twice as many places */
        *ret = (search_limits){
            .preemptions = ret->preemptions > 2 ? ret->preemptions - 1 : 1, .turns = 1};
    ret->finely = finely;
    return true;
}

typedef struct pass {
    const scene *of;
    search_limits limits;
} pass;

static pass *passes;
static int passes_count, scenes_over;
static bool fine_so_far = true, all_fine = true;

static int go_through(int number)
{
    playing = passes[number].of;
    return explore(&passes[number].limits);
}

static void pass_over(int number, bool fine)
{
    const scene *of = passes[number].of;
    fine_so_far = fine_so_far && fine;
    if (number + 1 < passes_count && passes[number + 1].of == of)
        return;
    (void)printf("%s %d - %s\n", fine_so_far ? "ok" : "not ok", ++scenes_over, of->name);
    all_fine = all_fine && fine_so_far;
    fine_so_far = true;
}

static int run_all(const char *part)
{
    int count = 0;
    passes = calloc((size_t)scene_count * 2, sizeof(*passes));
    if (!passes)
        return 2;
    for (int i = 0; i < scene_count; i++) {
        if (part && !strstr(scenes[i].name, part))
            continue;
        count++;
        for (int finely = 0; finely < 2; finely++) {
            pass *next = &passes[passes_count];
            next->of = &scenes[i];
            passes_count += has_pass(next->of, finely, &next->limits);
        }
    }
    (void)printf("1..%d\n", count);
    if (count)
        workers_run(passes_count, go_through, pass_over);
    return !all_fine || !count;
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
