/* Runs seeds, counts what was covered, and makes the story of a failure as short as it can. */
#include "sim.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct options {
    double seconds;     /* at most; 0: as long as it takes */
    int64_t operations; /* 0: as many as there is time for */
    int64_t least;      /* how often each fault has to hit each step */
    int64_t runs;       /* so many seeds; 0: no such limit */
    int workers, mode;
    uint64_t first;
    const char *regressions, *timeline;
} options;

/* What a worker found. */
typedef struct finding {
    totals totals;
    bool fine;
    config failing; /* drawn, so without `only` */
} finding;

static int tests, failures;

/* A run that ends the program by a bad access must say which one it was. */
static void on_crash(int signal)
{
    static bool again;
    if (!again) {
        again = true; /* what is printed here may itself go wrong */
        printf("# crashed (signal %d) at %.3f ms of: ", signal,
               (double)s.now / (double)MS);
        config_print(stdout, &s.config);
        printf("\nnot ok - no_seed_breaks_a_promise\n");
        (void)fflush(stdout); /* the last thing we do */
    }
    _exit(1);
}

static void result(bool fine, const char *promise)
{
    printf("%s %d - %s\n", fine ? "ok" : "not ok", ++tests, promise);
    failures += !fine;
}

/* ---- counting ---- */

static int64_t decided(const totals *t)
{
    int64_t sum = 0;
    for (int p = 0; p < STEP_COUNT; p++)
        sum += t->decided[p];
    return sum;
}

static void add(totals *to, const totals *from)
{
    to->runs += from->runs;
    to->acquires += from->acquires;
    to->grants += from->grants;
    to->reentries += from->reentries;
    to->losses += from->losses;
    to->timeouts += from->timeouts;
    to->cancels += from->cancels;
    to->unknowns += from->unknowns;
    to->stale_refused += from->stale_refused;
    to->writes += from->writes;
    to->events += from->events;
    to->recoveries += from->recoveries;
    for (int m = 0; m < MODE_COUNT; m++)
        to->runs_of[m] += from->runs_of[m];
    for (int k = 0; k < KIND_COUNT; k++)
        to->of_kind[k] += from->of_kind[k];
    for (int p = 0; p < STEP_COUNT; p++)
        to->decided[p] += from->decided[p];
    for (int m = 0; m < MODE_COUNT; m++)
        for (int f = 0; f < FAULT_COUNT; f++)
            for (int p = 0; p < STEP_COUNT; p++)
                to->faults[m][f][p] += from->faults[m][f][p];
}

static void show_totals(const totals *t, double took)
{
    printf("# operations (requests that the server or the table decided): %" PRId64
           ": %" PRId64 " acquire, %" PRId64 " renew, %" PRId64 " release, %" PRId64
           " cancel\n",
           decided(t), t->decided[STEP_ACQUIRE], t->decided[STEP_RENEW],
           t->decided[STEP_RELEASE], t->decided[STEP_CANCEL]);
    printf("# callers: %" PRId64 " acquires, %" PRId64 " grants, %" PRId64
           " re-entries, %" PRId64 " losses, %" PRId64 " time-outs, %" PRId64
           " cancels, %" PRId64 " unknown\n",
           t->acquires, t->grants, t->reentries, t->losses, t->timeouts, t->cancels,
           t->unknowns);
    printf("# resource: %" PRId64 " writes, %" PRId64 " stale ones refused; %" PRId64
           " recoveries of the table's mutex; %" PRId64 " runs, %" PRId64
           " events, %.1f s\n",
           t->writes, t->stale_refused, t->recoveries, t->runs, t->events, took);
}

static bool has_recipes(int which)
{
    return which > MODE_REDIS && which < MODE_COUNT;
}

/* False: some recipe had no turn. */
static bool show_recipes(const totals *t, int which)
{
    bool all = true;
    printf("# operations of each recipe:");
    for (int k = 0; k < KIND_COUNT; k++) {
        if ((int)kind_mode((enum kind)k) != which)
            continue;
        printf(" %s %" PRId64, kinds[k].name, t->of_kind[k]);
        all &= t->of_kind[k] > 0;
    }
    printf("\n");
    return all;
}

/* False: some cell that can be hit was hit too seldom. */
static bool show_matrix(const totals *t, int64_t least)
{
    bool enough = true;
    for (int m = 0; m < MODE_COUNT; m++) {
        if (t->runs_of[m] == 0)
            continue;
        printf("# %-18s %9s %9s %9s %9s %9s\n", mode_names[m], "acquire", "renew",
               "release", "cancel", "(idle)");
        for (int f = 0; f < FAULT_COUNT; f++) {
            const int64_t *cell = t->faults[m][f];
            const char *why = fault_infos[f].not_in[m];
            if (why) {
                printf("# %-18s       n/a: %s\n", fault_infos[f].name, why);
                continue;
            }
            bool seldom = false;
            for (int p = 0; p < STEP_IDLE; p++)
                seldom |= cell[p] < least;
            printf("# %-18s %9" PRId64 " %9" PRId64 " %9" PRId64 " %9" PRId64 " %9" PRId64
                   "%s\n",
                   fault_infos[f].name, cell[0], cell[1], cell[2], cell[3], cell[4],
                   seldom ? "  too seldom" : "");
            enough &= !seldom;
        }
    }
    return enough;
}

/* ---- a failure ---- */

static void show_failure(config failing, const options *how)
{
    totals ignored;
    struck *only;
    printf("# failed: ");
    config_print(stdout, &failing);
    failing = shrink(failing, 20, &only);
    telling = true;
    (void)run(&failing, &ignored);
    telling = false;
    printf("\n# shrunk to %zu faults, a line for tests/sim/regressions:\n# ",
           failing.only_count);
    config_print(stdout, &failing);
    printf("\n# %s\n", s.violation);
    show_timeline(stdout);
    FILE *file = how->timeline ? fopen(how->timeline, "w") : NULL;
    if (file) {
        (void)fprintf(file, "# %s\n", s.violation);
        show_story(file);   /* all of it */
        (void)fclose(file); /* it was for reading; what is printed counts */
    }
    free(only);
}

/* ---- many seeds ---- */

static finding work(const options *how, int worker)
{
    finding found = {.fine = true};
    double end = seconds_now() + how->seconds;
    uint64_t seed = how->first + (uint64_t)worker;
    int64_t share = how->operations / how->workers;
    for (; found.fine; seed += (uint64_t)how->workers) {
        if (how->seconds > 0 && seconds_now() >= end)
            break;
        if (how->operations > 0 && decided(&found.totals) >= share)
            break;
        if (how->runs > 0 && found.totals.runs >= how->runs / how->workers)
            break;
        totals one = {0};
        found.failing = config_of(seed, how->mode);
        found.fine = run(&found.failing, &one);
        add(&found.totals, &one);
    }
    return found;
}

static bool hand_over(int fd, const void *data, size_t size)
{
    for (const char *at = data; size > 0;) {
        ssize_t some = write(fd, at, size);
        if (some <= 0)
            return false;
        at += some;
        size -= (size_t)some;
    }
    return true;
}

static bool take_over(int fd, void *data, size_t size)
{
    for (char *at = data; size > 0;) {
        ssize_t some = read(fd, at, size);
        if (some <= 0)
            return false;
        at += some;
        size -= (size_t)some;
    }
    return true;
}

static pid_t start_worker(const options *how, int worker, int *ret_fd)
{
    int ends[2];
    (void)fflush(stdout); /* or it would be printed twice */
    if (pipe(ends) != 0)
        abort();
    pid_t pid = fork();
    if (pid < 0)
        abort();
    if (pid == 0) {
        (void)close(ends[0]); /* the parent's */
        finding found = work(how, worker);
        _exit(hand_over(ends[1], &found, sizeof(found)) ? 0 : 1);
    }
    (void)close(ends[1]); /* the child's */
    *ret_fd = ends[0];
    return pid;
}

static finding work_together(const options *how)
{
    enum { MOST = 16 };
    pid_t pids[MOST];
    int fds[MOST];
    finding all = {.fine = true};
    if (how->workers == 1)
        return work(how, 0);
    for (int i = 0; i < how->workers && i < MOST; i++)
        pids[i] = start_worker(how, i, &fds[i]);
    for (int i = 0; i < how->workers && i < MOST; i++) {
        finding one;
        int status;
        bool whole = take_over(fds[i], &one, sizeof(one));
        (void)close(fds[i]); /* nothing more comes */
        if (waitpid(pids[i], &status, 0) != pids[i] || !whole) {
            printf("# worker %d didn't report\n", i);
            failures++;
            continue;
        }
        add(&all.totals, &one.totals);
        if (!one.fine && all.fine) {
            all.fine = false;
            all.failing = one.failing;
        }
    }
    return all;
}

/* ---- the same seed twice ---- */

static char *story_of(const config *how, totals *ret, size_t *ret_size)
{
    char *text = NULL;
    FILE *to = open_memstream(&text, ret_size);
    if (!to)
        abort();
    telling = true;
    (void)run(how, ret);
    telling = false;
    show_story(to);
    (void)fclose(to); /* memory */
    return text;
}

static bool repeats(uint64_t seed, int which, int64_t *bytes)
{
    config how = config_of(seed, which);
    totals silent, first, second;
    size_t size, again;
    (void)run(&how, &silent);
    char *one = story_of(&how, &first, &size);
    char *two = story_of(&how, &second, &again);
    bool same = size == again && memcmp(one, two, size) == 0 &&
                first.hash == second.hash && first.hash == silent.hash &&
                first.events == second.events;
    *bytes += (int64_t)size;
    free(one);
    free(two);
    return same;
}

static bool all_repeat(uint64_t first, int which)
{
    int64_t bytes = 0;
    bool same = true;
    for (uint64_t seed = first; seed < first + 8; seed++)
        same &= repeats(seed, which, &bytes);
    printf("# 8 seeds told twice, %" PRId64 " bytes each time\n", bytes);
    return same;
}

/* ---- former failures ---- */

/* Without libnghttp2 and libprotobuf-c there is no client of etcd. */
static bool is_built(int which)
{
#ifdef DLK_WITH_ETCD
    return which < MODE_COUNT;
#else
    return which != MODE_ETCD;
#endif
}

static bool replay(const char *line, const options *how)
{
    config c;
    struck *only;
    totals one;
    bool fine = config_parse(line, &c, &only);
    if (!fine)
        printf("# not a run: %s", line);
    else if (is_built((int)c.mode) && !(fine = run(&c, &one)))
        show_failure(c, how);
    free(only);
    return fine;
}

static bool replay_all(const options *how)
{
    char *line = NULL;
    size_t room = 0;
    int count = 0;
    bool fine = true;
    FILE *from = fopen(how->regressions, "r");
    if (!from) {
        printf("# can't read %s\n", how->regressions);
        return false;
    }
    while (getline(&line, &room, from) > 0) {
        if (line[0] == '#' || line[0] == '\n')
            continue;
        fine &= replay(line, how);
        count++;
    }
    free(line);
    (void)fclose(from); /* only read */
    printf("# %d former failures replayed\n", count);
    return fine && count > 0;
}

/* ---- one seed ---- */

static int tell_one(const options *how)
{
    config c = config_of(how->first, how->mode);
    totals one = {0};
    telling = true;
    bool fine = run(&c, &one);
    telling = false;
    show_story(stdout);
    if (!fine) {
        show_failure(c, how);
        return 1;
    }
    show_totals(&one, 0);
    return 0;
}

/* ---- options ---- */

static void usage(void)
{
    (void)fprintf(stderr, "usage: sim [SECONDS [FIRST_SEED]] [--seed SEED] [--mode "
                          "mem|file|redis|zookeeper|memcached|etcd|redlock|KIND]\n"
                          "           [--operations N] [--runs N] [--workers N] [--least "
                          "N] [--regressions FILE] [--hands-on true]\n"
                          "           [--line RUN] [--timeline FILE]\n");
    exit(2);
}

static int mode_named(const char *text)
{
    for (int m = 0; m < MODE_COUNT; m++)
        if (strcmp(text, mode_names[m]) == 0 && is_built(m))
            return m;
    for (int k = 0; k < KIND_COUNT; k++)
        if (strcmp(text, kinds[k].name) == 0 && is_built((int)kind_mode((enum kind)k)))
            return MODE_COUNT + k;
    usage();
    return -1;
}

static bool set_option(options *o, const char *key, const char *value)
{
    if (strcmp(key, "--mode") == 0)
        o->mode = mode_named(value);
    else if (strcmp(key, "--operations") == 0)
        o->operations = strtoll(value, NULL, 10);
    else if (strcmp(key, "--hands-on") == 0)
        sim_hands_on = strcmp(value, "true") == 0;
    else if (strcmp(key, "--runs") == 0)
        o->runs = strtoll(value, NULL, 10);
    else if (strcmp(key, "--workers") == 0)
        o->workers = atoi(value);
    else if (strcmp(key, "--least") == 0)
        o->least = strtoll(value, NULL, 10);
    else if (strcmp(key, "--regressions") == 0)
        o->regressions = value;
    else if (strcmp(key, "--timeline") == 0)
        o->timeline = value;
    else
        return false;
    return true;
}

int main(int argc, char **argv)
{
    options how = {.seconds = 5, .workers = 1, .mode = -1, .first = 1};
    const char *line = NULL;
    bool one = false;
    int plain = 0;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (argv[i][0] == '-' && !value)
            usage();
        if (argv[i][0] != '-') {
            if (plain++ == 0)
                how.seconds = strtod(argv[i], NULL);
            else
                how.first = strtoull(argv[i], NULL, 10);
            continue;
        }
        if (strcmp(argv[i], "--seed") == 0) {
            how.first = strtoull(value, NULL, 10);
            one = true;
        } else if (strcmp(argv[i], "--line") == 0) {
            line = value;
        } else if (!set_option(&how, argv[i], value)) {
            usage();
        }
        i++;
    }
    if (how.workers < 1 || how.workers > 16)
        usage();
    if (signal(SIGSEGV, on_crash) != SIG_DFL)
        (void)signal(SIGSEGV, SIG_DFL);     /* a sanitizer's says more */
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* else only buffered less well */
    if (line)
        return replay(line, &how) ? 0 : 1;
    if (one)
        return tell_one(&how);

    printf("1..%d\n", 2 + (how.regressions != NULL) + (how.operations > 0) +
                          (how.least > 0) + has_recipes(how.mode));
    if (how.regressions)
        result(replay_all(&how), "former_failures_stay_mended");
    double began = seconds_now();
    finding all = work_together(&how);
    double took = seconds_now() - began;
    if (!all.fine)
        show_failure(all.failing, &how);
    show_totals(&all.totals, took);
    bool enough = show_matrix(&all.totals, how.least);
    result(all.fine, "no_seed_breaks_a_promise");
    if (has_recipes(how.mode))
        result(show_recipes(&all.totals, how.mode), "each_recipe_had_its_turn");
    result(all_repeat(how.first, how.mode), "the_same_seed_is_the_same_story");
    if (how.operations > 0)
        result(decided(&all.totals) >= how.operations, "so_many_operations_were_decided");
    if (how.least > 0)
        result(enough, "each_fault_hits_each_step_often_enough");
    return failures ? 1 : 0;
}
