/* Single-stepping with ptrace; see the header. Both sides share a page for the marks, so that
 * nothing has to be known about the processor but where a system call is. */
#include "step.h"

#include <elf.h>
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define REFUSED 77

typedef struct marks {
    volatile int begun, ended;
} marks;

static marks *shared;

static void share(void)
{
    if (shared)
        return;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        abort();
}

/* ---- in the child ---- */

void step_offer(void)
{
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(REFUSED);
}

void step_begin(void)
{
    /* Straight to the kernel: raise would add its own instructions to the region. */
    (void)syscall(SYS_tgkill, getpid(), (pid_t)syscall(SYS_gettid), SIGSTOP);
    shared->begun = 1;
}

void step_end(void)
{
    shared->ended = 1;
}

/* ---- in the parent ---- */

static void lose(step_process *stepper, int status)
{
    stepper->lost = true;
    stepper->gone = !WIFSTOPPED(status);
    if (WIFSIGNALED(status))
        (void)snprintf(stepper->why, sizeof(stepper->why), "it died of signal %d",
                       WTERMSIG(status));
    else if (WIFEXITED(status))
        (void)snprintf(stepper->why, sizeof(stepper->why), "it left with %d",
                       WEXITSTATUS(status));
    else
        (void)snprintf(stepper->why, sizeof(stepper->why), "it stopped for signal %d",
                       WSTOPSIG(status));
}

/* Awaits a stop by @p signal. */
static bool stopped_by(step_process *stepper, int signal)
{
    int status = 0;
    if (waitpid(stepper->pid, &status, 0) != stepper->pid)
        abort();
    if (WIFSTOPPED(status) && WSTOPSIG(status) == signal)
        return true;
    lose(stepper, status);
    return false;
}

static bool advance(step_process *stepper)
{
    if (ptrace(PTRACE_SINGLESTEP, stepper->pid, NULL, NULL) != 0)
        abort();
    return stopped_by(stepper, SIGTRAP);
}

bool step_fork(step_process *stepper, void (*body)(void *arg), void *arg)
{
    share();
    *stepper = (step_process){.pid = -1};
    shared->begun = shared->ended = 0;
    (void)fflush(stdout); /* or the child would own a copy of what waits in it */
    stepper->pid = fork();
    if (stepper->pid < 0)
        abort();
    if (stepper->pid == 0) {
        body(arg);
        _exit(0);
    }
    if (!stopped_by(stepper, SIGSTOP))
        return false;
    if (ptrace(PTRACE_SETOPTIONS, stepper->pid, NULL, PTRACE_O_EXITKILL) != 0)
        abort();
    while (!shared->begun)
        if (!advance(stepper))
            return false;
    return true;
}

bool step_once(step_process *stepper)
{
    if (stepper->lost || stepper->ended || !advance(stepper))
        return false;
    stepper->steps++;
    stepper->ended = shared->ended != 0;
    return !stepper->ended;
}

void step_kill(step_process *stepper)
{
    if (stepper->gone)
        return;
    (void)kill(stepper->pid, SIGKILL); /* ours, and not reaped: it is there */
    if (waitpid(stepper->pid, NULL, 0) != stepper->pid)
        abort();
}

bool step_finish(step_process *stepper)
{
    int status = 0;
    if (ptrace(PTRACE_DETACH, stepper->pid, NULL, NULL) != 0 ||
        waitpid(stepper->pid, &status, 0) != stepper->pid)
        abort();
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    lose(stepper, status);
    return false;
}

uintptr_t step_at(const step_process *stepper)
{
#if defined(__x86_64__) || defined(__aarch64__)
    struct user_regs_struct registers;
    struct iovec all = {&registers, sizeof(registers)};
    if (ptrace(PTRACE_GETREGSET, stepper->pid, NT_PRSTATUS, &all) != 0)
        abort();
#if defined(__x86_64__)
    return registers.rip;
#else
    return registers.pc;
#endif
#else
    (void)stepper;
    return 0;
#endif
}

bool step_is_syscall(const step_process *stepper)
{
    uintptr_t at = step_at(stepper);
    if (at == 0)
        return true;
    long text = ptrace(PTRACE_PEEKTEXT, stepper->pid, at, NULL);
#if defined(__x86_64__)
    return (text & 0xffff) == 0x050f; /* syscall */
#else
    return (text & 0xffffffff) == 0xd4000001; /* svc #0 */
#endif
}

static void try_it(void *arg)
{
    (void)arg;
    step_offer();
    step_begin();
    step_end();
}

const char *step_forbidden(void)
{
    static char why[160];
    step_process stepper;
    if (step_fork(&stepper, try_it, NULL)) {
        while (step_once(&stepper))
            continue;
        if (stepper.ended && step_finish(&stepper))
            return NULL;
    }
    (void)snprintf(why, sizeof(why), "ptrace isn't permitted here (%s)",
                   stepper.lost ? stepper.why : "it doesn't step");
    step_kill(&stepper);
    return why;
}

/* ---- what an instruction has changed ---- */

static void read_robust(const step_process *stepper, uintptr_t robust[3])
{
    struct iovec here = {robust, sizeof(uintptr_t[3])};
    struct iovec there = {(void *)stepper->robust_head, sizeof(uintptr_t[3])}; // NOLINT
    if (process_vm_readv(stepper->pid, &here, 1, &there, 1, 0) != (ssize_t)here.iov_len)
        abort();
}

void step_watch(step_process *stepper, const void *watched, size_t size)
{
    size_t length;
    if (syscall(SYS_get_robust_list, stepper->pid, &stepper->robust_head, &length) != 0)
        abort();
    stepper->watched = watched;
    stepper->size = size;
    stepper->seen = malloc(size);
    if (!stepper->seen)
        abort();
    memcpy(stepper->seen, watched, size);
    read_robust(stepper, stepper->robust);
}

bool step_changed(step_process *stepper)
{
    uintptr_t robust[3];
    bool changed = stepper->at_syscall;
    stepper->at_syscall = step_is_syscall(stepper);
    changed = changed || stepper->at_syscall;
    read_robust(stepper, robust);
    if (memcmp(robust, stepper->robust, sizeof(robust)) != 0) {
        memcpy(stepper->robust, robust, sizeof(robust));
        changed = true;
    }
    if (memcmp(stepper->seen, stepper->watched, stepper->size) != 0) {
        memcpy(stepper->seen, stepper->watched, stepper->size);
        changed = true;
    }
    return changed;
}

void step_unwatch(step_process *stepper)
{
    free(stepper->seen);
    stepper->seen = NULL;
}
