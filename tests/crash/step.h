/* A process that is run instruction by instruction (ptrace) and can be killed after any of them.
 * It has to be forked by who steps it, and marks itself where the stepping begins and ends.
 *
 * On aarch64 a stepped load-exclusive never meets its store: that needs a processor with LSE,
 * whose atomics are single instructions. Without, the victim hangs, and the tests say so. */
#ifndef TESTS_CRASH_STEP_H
#define TESTS_CRASH_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct step_process {
    pid_t pid;
    int steps;     /* instructions since the beginning */
    bool ended;    /* it has marked its end */
    bool lost;     /* it died, or stopped for a signal that isn't ours */
    bool gone;     /* lost, and reaped */
    char why[128]; /* lost: how */
    /* What step_changed compares. */
    uintptr_t robust_head;
    uintptr_t robust[3];
    void *seen;
    const void *watched;
    size_t size;
    bool at_syscall;
} step_process;

/* NULL, or why no process may be stepped here. */
const char *step_forbidden(void);

/* In the child: it may be stepped from now on. Doesn't return when it mayn't. */
void step_offer(void);
/* In the child: the first instruction to be stepped is the one after this, the last one the one
 * before step_end. What lies outside runs at full speed. */
void step_begin(void);
void step_end(void);

/* Forks a child that runs @p body, and awaits its beginning; false: it never began. */
bool step_fork(step_process *stepper, void (*body)(void *arg), void *arg);
/* One instruction. False: it has ended, or is lost. */
bool step_once(step_process *stepper);
/* Where its next instruction is; 0: nobody knows how this processor says that. */
uintptr_t step_at(const step_process *stepper);
/* Whether that is a system call; true where nobody knows. */
bool step_is_syscall(const step_process *stepper);
/* Kills it and awaits that. */
void step_kill(step_process *stepper);
/* Lets it run to its own end, which must be _exit(0). */
bool step_finish(step_process *stepper);

/* From now on step_changed compares these bytes, which the child shares. */
void step_watch(step_process *stepper, const void *watched, size_t size);
/* Whether the last instruction changed one of them or the child's list of robust mutexes, or
 * was a system call, or the next one is. */
bool step_changed(step_process *stepper);
void step_unwatch(step_process *stepper);

#endif
