/* Faults on demand: the k-th call that libdlock makes, of a kind, fails. The calls are those in
 * calls.def; the build redirects them, in a copy of libdlock's and hiredis' objects, to functions
 * here (redirect.syms), so neither the test's own calls nor those inside of libc are touched. */
#ifndef TORTURE_FAULTS_H
#define TORTURE_FAULTS_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Beside errno's numbers in calls.def. */
#define DONE  0x10000
#define SHORT 0x20000
#define END   0x30000

typedef enum fault_kind { MEMORY, SYSTEM, THREAD, FAULT_KINDS } fault_kind;

typedef enum fault_call {
#define CALL(name, kind, ...) FAULT_##name,
#include "calls.def"
#undef CALL
    FAULT_CALLS
} fault_call;

typedef struct fault_plan {
    fault_kind kind;
    long k;       /* 0: nothing fails, calls are counted */
    int variant;  /* which of the call's errors; beyond the last it begins anew */
    bool onwards; /* all that comes after the k-th fails too */
    int one_in; /* instead of a k-th: so many calls, of all classes, have one that fails … */
    uint64_t seed; /* … and this says which */
} fault_plan;

/* What the last plan came to; shared with children. */
typedef struct fault_report {
    fault_plan plan;
    _Atomic long seen[FAULT_KINDS]; /* calls */
    _Atomic long struck;            /* of them failed */
    _Atomic uint64_t dice;
    fault_call first; /* the k-th */
    int error;
    int depth;
    void *trace[32]; /* who made it */
} fault_report;

/* Before anything else in a process whose faults are its own. */
bool fault_prepare(void);
/* From now on, for threads that are started from now on and for this one. */
void fault_arm(const fault_plan *plan);
void fault_disarm(void);
const fault_report *fault_look(void);
/* "the 12th memory call, calloc, failed with ENOMEM", and who had called it. */
void fault_describe(const fault_report *report, char *text, unsigned long size);
void fault_print_trace(void *const *trace, int depth);

const char *fault_kind_name(fault_kind kind);
const char *fault_call_name(fault_call call);
fault_kind fault_kind_of(fault_call call);
int fault_variants(fault_call call);

/* What libdlock has and hasn't given back: blocks of memory and mappings. */
typedef struct fault_balance {
    long blocks, maps;
} fault_balance;
fault_balance fault_owed(void);

/* How often each call was made to fail, in all processes. */
long fault_count(fault_call call);

/* ---- for calls.c ---- */
/* The error to report, 0: none. */
int fault_strike(fault_call call);
void fault_block(long change);
void fault_map(long change);
bool fault_is_armed(void);
void fault_thread_begins(bool subject);

#endif
