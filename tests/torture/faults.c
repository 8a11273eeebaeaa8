/* Which call fails, and what came of it; see the header. */
#include "faults.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct call {
    const char *name;
    fault_kind kind;
    int errors[12];
} calls[FAULT_CALLS] = {
#define CALL(name, kind, ...) [FAULT_##name] = {#name, kind, {__VA_ARGS__}},
#include "calls.def"
#undef CALL
};

/* A fork's child goes on counting where its parent was: it all lies in shared memory. */
static struct {
    _Atomic bool armed;
    fault_report report;
} * state;
static _Atomic long *counts; /* of all processes */

static _Atomic long blocks, maps;
static _Thread_local bool spared; /* began before the faults, so belongs to the test */

bool fault_prepare(void)
{
    void *memory = mmap(NULL, sizeof(*state), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    state = memory;
    if (!counts) {
        memory = mmap(NULL, sizeof(*counts) * FAULT_CALLS, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            return false;
        counts = memory;
    }
    void *trace[2];
    return backtrace(trace, 2) > 0; /* its first call takes memory and opens files */
}

void fault_arm(const fault_plan *plan)
{
    state->report.plan = *plan;
    for (int kind = 0; kind < FAULT_KINDS; kind++)
        atomic_store(&state->report.seen[kind], 0);
    atomic_store(&state->report.struck, 0);
    state->report.depth = 0;
    atomic_store(&state->report.dice, plan->seed);
    atomic_store(&state->armed, true);
}

void fault_disarm(void)
{
    atomic_store(&state->armed, false);
}

bool fault_is_armed(void)
{
    return state && atomic_load(&state->armed);
}

const fault_report *fault_look(void)
{
    return &state->report;
}

/* What is over in a moment doesn't happen each time. */
static bool lasts(fault_call call)
{
    int error = calls[call].errors[0] & ~DONE;
    return error != EINTR && error != EAGAIN;
}

/* SplitMix64 (Steele, Lea and Flood, 2014). */
static uint64_t roll(fault_report *report)
{
    uint64_t z = atomic_fetch_add(&report->dice, UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Which of its errors the call has this time, or -1. */
static int variant_of(fault_report *report, fault_call call, long number)
{
    const fault_plan *plan = &report->plan;
    if (plan->one_in > 0)
        return roll(report) % (uint64_t)plan->one_in == 0 ? (int)(roll(report) % 64) : -1;
    if (plan->k == 0 || calls[call].kind != plan->kind || number < plan->k ||
        (number > plan->k && !(plan->onwards && lasts(call))))
        return -1;
    return plan->variant;
}

int fault_strike(fault_call call)
{
    if (!fault_is_armed() || spared)
        return 0;
    fault_report *report = &state->report;
    long number = atomic_fetch_add(&report->seen[calls[call].kind], 1) + 1;
    int variant = variant_of(report, call, number);
    if (variant < 0)
        return 0;
    int error = calls[call].errors[variant % fault_variants(call)];
    atomic_fetch_add(&counts[call], 1);
    if (atomic_fetch_add(&report->struck, 1) == 0) {
        report->first = call;
        report->error = error;
        report->depth = backtrace(report->trace, 32);
    }
    return error;
}

const char *fault_kind_name(fault_kind kind)
{
    static const char *const names[] = {"memory", "system", "thread"};
    return names[kind];
}

const char *fault_call_name(fault_call call)
{
    return calls[call].name;
}

fault_kind fault_kind_of(fault_call call)
{
    return calls[call].kind;
}

int fault_variants(fault_call call)
{
    int count = 0;
    while (calls[call].errors[count] != 0)
        count++;
    return count;
}

long fault_count(fault_call call)
{
    return atomic_load(&counts[call]);
}

static const char *name_error(int error)
{
    if (error == SHORT || error == END)
        return error == SHORT ? "short" : "end";
    return strerrorname_np(error & ~DONE);
}

void fault_describe(const fault_report *report, char *text, unsigned long size)
{
    const fault_plan *plan = &report->plan;
    int used = plan->one_in > 0
                   ? snprintf(text, size, "one call in %d, seed %llu", plan->one_in,
                              (unsigned long long)plan->seed)
                   : snprintf(text, size, "%s call %ld%s", fault_kind_name(plan->kind),
                              plan->k, plan->onwards ? " and on" : "");
    if (report->depth == 0)
        (void)snprintf(text + used, size - (unsigned long)used, ": not reached");
    else
        (void)snprintf(text + used, size - (unsigned long)used, ": %s%s, %s",
                       plan->one_in > 0 ? "first " : "", calls[report->first].name,
                       name_error(report->error));
}

/* ---- what is owed ---- */

void fault_block(long change)
{
    atomic_fetch_add(&blocks, change);
}

void fault_map(long change)
{
    atomic_fetch_add(&maps, change);
}

void fault_thread_begins(bool subject)
{
    spared = !subject;
}

fault_balance fault_owed(void)
{
    return (fault_balance){.blocks = atomic_load(&blocks), .maps = atomic_load(&maps)};
}

/* ---- traces ---- */

/* The names come from addr2line, which wants addresses as they stand in the file. */
void fault_print_trace(void *const *trace, int depth)
{
    char command[1200] = "", line[512];
    Dl_info self, where;
    if (dladdr((void *)(uintptr_t)fault_print_trace, &self) == 0)
        return;
    for (int i = 2; i < depth && i < 18; i++) {
        if (dladdr(trace[i], &where) == 0 || where.dli_fbase != self.dli_fbase)
            continue;
        size_t used = strlen(command);
        if (used == 0)
            used = (size_t)snprintf(command, sizeof(command),
                                    "addr2line -s -fpe /proc/%d/exe", (int)getpid());
        (void)snprintf(command + used, sizeof(command) - used, " %#lx",
                       (unsigned long)((char *)trace[i] - (char *)where.dli_fbase - 1));
    }
    FILE *out = command[0] ? popen(command, "re") : NULL;
    char all[4096] = "";
    while (out && fgets(line, sizeof(line), out)) {
        size_t used = strlen(all);
        (void)snprintf(all + used, sizeof(all) - used, "#       %s",
                       line); /* may be cut */
    }
    (void)!write(STDOUT_FILENO, all, strlen(all)); /* in one piece: others write too */
    if (out)
        (void)pclose(out);
}
