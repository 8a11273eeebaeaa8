/*
 * The torture: the k-th call that libdlock makes for memory, to the system, or for a thread fails,
 * for every k and every plausible error, once or from then on, in every scenario on every backend;
 * and then, at random, many calls of a run.
 *
 * Some workers, processes, share the k's of a scenario: most of the time is waiting. A worker that
 * crashes or hangs is a failure, told with what had been made to fail and by whom that was
 * called; another one goes on behind it.
 *
 * DLK_TORTURE=all     every k with every error; every: with one of them, in turn; else a stride
 *                     of them, for DLK_TORTURE_MS (150) a scenario, and every k of the shortest
 * DLK_TORTURE_SEED    where the strides begin; printed
 * DLK_TEST_BACKEND    mem, file or redis; else all of them
 * DLK_TORTURE_WORKERS (3)
 * DLK_TORTURE_WAIT_MS (300, 600 with DLK_TEST_SLOW=1) how long a server may be silent
 */
#include "scenarios.h"

#include "harness/fork.h"
#include "harness/harness.h"

#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORKERS_MAX    16
#define RANDOM_RUNS    100 /* of a scenario */
#define STRIDES_MIN    10  /* at least, while none has had a fault */
#define COMPLAINTS_MAX 5   /* of a scenario; the rest says the same */

/* Where a worker is, and what it has found; shared with the parent. */
typedef struct desk {
    stage stage;
    fault_plan plan;    /* what it is at … */
    bool done, at_work; /* … or not any more */
    bool verifying;     /* the scenario is over */
    const fault_report *report;
    long most[FAULT_KINDS]; /* the calls that a run makes at most */
    long runs, struck, late, complaints;
} desk;

static struct {
    bool ready, all, every;
    int workers;
    long budget_ms;
    uint64_t seed;
    int backends;
    char dir[64];
    redis_server redis;
    desk *desks;
} torture;

/* ---- hanging ---- */

static void show_own_trace(int number)
{
    void *trace[48];
    int depth = backtrace(trace, 48);
    (void)number;
    backtrace_symbols_fd(trace, depth, STDOUT_FILENO);
}

/* Lets each thread say where it is, then ends the process. */
static void hang_up(int number)
{
    static const char line[] = "# it hangs; each of its threads, from the inside out:\n";
    (void)!write(STDOUT_FILENO, line, sizeof(line) - 1);
    show_own_trace(number);
    for (pid_t tid = getpid() + 1; tid < getpid() + 64; tid++)
        if (syscall(SYS_tgkill, getpid(), tid, SIGUSR2) == 0) {
            (void)!write(STDOUT_FILENO, "# --\n", 5);
            (void)usleep(100000); /* for it to have said so */
        }
    _exit(99);
}

/* ---- one run ---- */

static int limit_s(void)
{
    const char *slow = getenv("DLK_TEST_SLOW");
    return slow && slow[0] == '1' ? 120 : 40;
}

static void complain(desk *d, const scenario *it, const world *w)
{
    char what[256];
    fault_describe(fault_look(), what, sizeof(what));
    d->complaints++;
    harness_note("%s on %s, %s%s:", it->name, backend_name(w->backend), what,
                 d->verifying ? ", afterwards" : "");
    harness_note("    %s", d->stage.complaint);
    fault_print_trace(fault_look()->trace, fault_look()->depth);
}

/* Returns whether the k-th call was there to fail. */
static bool run_once(desk *d, const scenario *it, world *w, const fault_plan *plan)
{
    fault_balance before = fault_owed();
    d->stage = (stage){.world = w, .baseline = plan->k == 0 && !plan->one_in};
    d->plan = *plan;
    d->verifying = false;
    (void)alarm((unsigned)limit_s());
    fault_arm(plan);
    it->run(&d->stage);
    fault_disarm();
    const fault_report *report = fault_look();
    for (int kind = 0; !plan->onwards && !plan->one_in && kind < FAULT_KINDS; kind++)
        if (report->seen[kind] > d->most[kind])
            d->most[kind] = report->seen[kind];
    d->verifying = !d->stage.complained;
    world_verify(w, &d->stage, before);
    (void)alarm(0);
    d->runs++;
    d->struck += report->struck > 0;
    d->late += d->stage.late;
    if (d->stage.complained)
        complain(d, it, w);
    return report->struck > 0;
}

/* With nothing failing it must go as it is told; a machine that stood still meanwhile gets another
 * chance. */
static void run_baseline(desk *d, const scenario *it, world *w)
{
    const fault_plan nothing = {.k = 0};
    for (int i = 0; i < 3 && (i == 0 || d->complaints > 0); i++) {
        d->complaints = 0;
        (void)run_once(d, it, w, &nothing);
    }
}

/* ---- a worker's share ---- */

/* Each error that the k-th call may have, or one of them; then all calls that follow fail. */
static bool run_all_of(desk *d, const scenario *it, world *w, fault_kind kind, long k)
{
    int variants = 1;
    for (int v = 0; v < variants; v++) {
        fault_plan plan = {
            .kind = kind, .k = k, .variant = torture.all ? v : (int)(k % 12)};
        if (!run_once(d, it, w, &plan))
            return v > 0; /* another thread was faster this time */
        variants = torture.all ? fault_variants(fault_look()->first) : 1;
    }
    (void)run_once(d, it, w, &(fault_plan){.kind = kind, .k = k, .onwards = true});
    return true;
}

static void run_every(desk *d, const scenario *it, world *w, int worker)
{
    fault_plan from = d->plan; /* behind a crash: what comes after it */
    for (int kind = (int)from.kind; kind < FAULT_KINDS && !from.one_in; kind++) {
        long k =
            kind == (int)from.kind && from.k > 0 ? from.k + torture.workers : worker + 1;
        while (d->complaints < COMPLAINTS_MAX &&
               run_all_of(d, it, w, (fault_kind)kind, k))
            k += torture.workers;
    }
}

/* The seed counts up from where a crash was, if there was one. */
static void run_at_random(desk *d, const scenario *it, world *w, int worker)
{
    static const int one_in[] = {4, 8, 16, 32, 64};
    uint64_t seed =
        d->plan.one_in ? d->plan.seed + 1 : torture.seed << 16 ^ (uint64_t)worker << 10;
    for (; (int)(seed % 1024) < RANDOM_RUNS / torture.workers &&
           d->complaints < COMPLAINTS_MAX;
         seed++)
        (void)run_once(d, it, w, &(fault_plan){.one_in = one_in[seed % 5], .seed = seed});
}

static uint64_t roll(uint64_t *dice)
{
    *dice = *dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *dice >> 33;
}

/* A stride through each kind, from a place and with errors that the seed says. */
static void run_some(desk *d, const scenario *it, world *w, int worker)
{
    uint64_t dice = torture.seed ^ (uint64_t)(uintptr_t)(it - scenarios) << 32 ^
                    (uint64_t)worker << 8 ^ w->backend;
    int64_t until = now_ms() + torture.budget_ms; /* the first run not counted */
    while ((now_ms() < until || (d->struck == 0 && d->runs < STRIDES_MIN)) &&
           d->complaints < COMPLAINTS_MAX) {
        uint64_t one = roll(&dice);
        if (one % 32 == 5) {
            (void)run_once(d, it, w, &(fault_plan){.one_in = 16, .seed = roll(&dice)});
            continue;
        }
        fault_kind kind = one % 16 == 0 ? THREAD : one % 2 ? MEMORY : SYSTEM;
        if (d->most[kind] == 0)
            continue;
        fault_plan plan = {.kind = kind,
                           .k = 1 + (long)(roll(&dice) % (uint64_t)d->most[kind]),
                           .variant = (int)(roll(&dice) % 12),
                           .onwards = roll(&dice) % 24 == 0};
        if (plan.onwards)
            plan.variant = 0;
        (void)run_once(d, it, w, &plan);
    }
}

static _Noreturn void work(const scenario *it, torture_backend which, int worker)
{
    desk *d = &torture.desks[worker];
    world w;
    (void)signal(SIGALRM, hang_up);
    (void)signal(SIGUSR2, show_own_trace);
    if (!fault_prepare() || !world_open(&w, which, worker, torture.dir, &torture.redis)) {
        harness_note("worker %d has no world", worker);
        exit(2);
    }
    d->report = fault_look();
    if (d->runs == 0)
        run_baseline(d, it, &w);
    if (torture.every) {
        run_every(d, it, &w, worker);
        run_at_random(d, it, &w, worker);
    } else {
        run_some(d, it, &w, worker);
    }
    world_close(&w);
    d->done = true;
    exit(0); /* the leak checker's hour */
}

/* ---- the parent ---- */

static pid_t hire(const scenario *it, torture_backend which, int worker)
{
    (void)fflush(stdout);
    pid_t parent = getpid(), pid = fork();
    if (pid != 0)
        return pid;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        exit(2);
    work(it, which, worker);
}

/* A worker has ended: whether another one has to go on for it. */
static bool look_at_end(const scenario *it, torture_backend which, int worker, int status)
{
    desk *d = &torture.desks[worker];
    if (status == 0 && d->done)
        return false;
    d->complaints++;
    harness_note("%s on %s: worker %d ended with status %#x%s at %s call %ld, error %d%s",
                 it->name, backend_name(which), worker, (unsigned)status,
                 d->verifying ? ", afterwards," : "", fault_kind_name(d->plan.kind),
                 d->plan.k, d->plan.variant, d->plan.onwards ? " and on" : "");
    if (d->stage.complained)
        harness_note("    %s", d->stage.complaint);
    return !d->done && torture.every && d->complaints < COMPLAINTS_MAX;
}

static void say_result(const scenario *it, torture_backend which, int64_t began)
{
    desk sum = {0};
    for (int i = 0; i < torture.workers; i++) {
        const desk *d = &torture.desks[i];
        sum.runs += d->runs;
        sum.struck += d->struck;
        sum.late += d->late;
        sum.complaints += d->complaints;
        for (int kind = 0; kind < FAULT_KINDS; kind++)
            if (d->most[kind] > sum.most[kind])
                sum.most[kind] = d->most[kind];
    }
    harness_note("%-6s %-34s k: memory %4ld, system %4ld, thread %3ld; %6ld runs, %6ld "
                 "with a fault, %3ld leases ran out; %.1f s",
                 backend_name(which), it->name, sum.most[MEMORY], sum.most[SYSTEM],
                 sum.most[THREAD], sum.runs, sum.struck, sum.late,
                 (double)(now_ms() - began) / 1000);
    harness_check(__FILE__, __LINE__, sum.complaints == 0, "nothing to complain of");
    harness_check(__FILE__, __LINE__, sum.struck > 0, "something was made to fail");
}

static void run_scenario(const scenario *it, torture_backend which)
{
    pid_t pids[WORKERS_MAX];
    int64_t began = now_ms();
    memset(torture.desks, 0, sizeof(desk) * WORKERS_MAX);
    for (int i = 0; i < torture.workers; i++)
        pids[i] = hire(it, which, i);
    for (int i = 0; i < torture.workers; i++)
        for (;;) {
            int status = 0;
            if (waitpid(pids[i], &status, 0) != pids[i] ||
                !look_at_end(it, which, i, status))
                break;
            pids[i] = hire(it, which, i);
        }
    say_result(it, which, began);
}

static long from_environment(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtol(text, NULL, 10) : otherwise;
}

static bool make_ready(void)
{
    const char *one = getenv("DLK_TEST_BACKEND"), *all = getenv("DLK_TORTURE");
    torture.all = all && strcmp(all, "all") == 0;
    torture.every = torture.all || (all && strcmp(all, "every") == 0);
    torture.workers = (int)from_environment("DLK_TORTURE_WORKERS", 3);
    torture.budget_ms = from_environment("DLK_TORTURE_MS", 150);
    torture.seed = (uint64_t)from_environment("DLK_TORTURE_SEED", now_ms() % 1000000);
    torture.backends = ON_ALL;
    for (int which = ON_MEM; one && which <= ON_REDIS; which <<= 1)
        if (strcmp(one, backend_name((torture_backend)which)) == 0)
            torture.backends = which;
    if (torture.workers > WORKERS_MAX)
        torture.workers = WORKERS_MAX;
    torture.desks = mmap(NULL, sizeof(desk) * WORKERS_MAX, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    strcpy(torture.dir, "/tmp/dlock-torture-XXXXXX");
    if (!harness_check(__FILE__, __LINE__,
                       torture.desks != MAP_FAILED && harness_mkdtemp(torture.dir) &&
                           fault_prepare(),
                       "room to work in"))
        return false;
    if (torture.backends & ON_REDIS &&
        (!redis_server_available() || !redis_server_start(&torture.redis, NULL)))
        return false;
    harness_note("seed %llu, %d workers", (unsigned long long)torture.seed,
                 torture.workers);
    return torture.ready = true;
}

static void run_named(const char *name)
{
    int backends = 0;
    if (!torture.ready && !make_ready())
        return;
    for (const scenario *it = scenarios; it->name; it++)
        for (int which = ON_MEM; which <= ON_REDIS; which <<= 1)
            if (strcmp(it->name, name) == 0 && it->backends & which & torture.backends) {
                run_scenario(it, (torture_backend)which);
                backends++;
            }
    if (backends == 0)
        harness_leave_out("it is told on another backend");
}

#define TORTURE(scenario)                                                                \
    TEST(scenario##_ends_well_or_with_an_error)                                          \
    {                                                                                    \
        run_named(#scenario);                                                            \
    }

TORTURE(open_and_close)
TORTURE(acquire_and_release)
TORTURE(contended_acquire_with_a_time_out)
TORTURE(queue_and_hand_over)
TORTURE(op_with_an_event)
TORTURE(cancelled)
TORTURE(renewed)
TORTURE(lost)
TORTURE(guarded)
TORTURE(looked_at)
TORTURE(many)
TORTURE(closed_early)
TORTURE(several_as_one)
TORTURE(a_member_lost)
TORTURE(handed_on)
TORTURE(elected)
TORTURE(read_and_written)
TORTURE(permits)
TORTURE(revoked)
TORTURE(signalled)
TORTURE(set_up)
TORTURE(password_from_a_file)

/* So short that every k has its turn. */
TEST(opened_ends_well_or_with_an_error)
{
    if (!torture.ready && !make_ready())
        return;
    bool every = torture.every;
    torture.every = true;
    run_named("opened");
    torture.every = every;
}

TEST(forked_ends_well_or_with_an_error)
{
    if (THREAD_SANITIZER)
        LEAVE_OUT("ThreadSanitizer can't follow threads that a fork's child starts");
    run_named("forked");
}

/* The last test tidies up as well. */
TEST(what_was_made_to_fail)
{
    int system = 0;
    char line[1024] = "";
    for (fault_kind kind = 0; torture.ready && kind < FAULT_KINDS; kind++) {
        line[0] = '\0';
        for (fault_call call = 0; call < FAULT_CALLS; call++) {
            if (fault_kind_of(call) != kind || fault_count(call) == 0)
                continue;
            system += kind == SYSTEM;
            size_t used = strlen(line);
            (void)snprintf(line + used, sizeof(line) - used, " %s %ld",
                           fault_call_name(call), fault_count(call)); /* may be cut */
        }
        harness_note("%s:%s", fault_kind_name(kind), line);
    }
    if (torture.backends & ON_REDIS)
        redis_server_stop(&torture.redis);
    if (torture.dir[0])
        (void)rmdir(torture.dir); /* the workers have emptied it */
    if (torture.all)
        CHECK(system >= (torture.backends == ON_MEM ? 8 : 18));
}
