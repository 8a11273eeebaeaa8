/*
 * What does a call execute? A program that acquires and releases a lock once, to be warm, and then is
 * stepped through one call more. It prints the address of each instruction that is the library's, which
 * is linked into it; and at last how many there were, those of the C library included, how many system
 * calls, and how many atomic ones. What other threads do meanwhile doesn't count.
 *
 *     way URI mutex|read|write acquire|release
 */
#include "../crash/step.h"

#include <dlock/dlock.h>

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <unistd.h>

typedef struct call {
    const char *uri;
    dlock_kind kind;
    bool release;
} call;

/* ---- the stepped one ---- */

static void must(dlock_err code, dlock_error **err)
{
    if (code == DLOCK_OK)
        return;
    (void)fprintf(stderr, "%s\n", dlock_error_text(*err));
    _exit(1);
}

static void acquire(dlock_lock *lock, dlock_hold **hold)
{
    dlock_error *err = NULL;
    must(dlock_lock_acquire(lock, 30000, hold, &err), &err);
}

static void release(dlock_hold *hold)
{
    dlock_error *err = NULL;
    must(dlock_hold_release(hold, &err), &err);
}

static void make(void *arg)
{
    const call *it = arg;
    dlock_client *client = NULL;
    dlock_lock *lock = NULL;
    dlock_hold *hold = NULL;
    dlock_error *err = NULL;
    must(dlock_client_open(it->uri, NULL, &client, &err), &err);
    must(dlock_lock_new(client, it->kind, "way", NULL, &lock, &err), &err);
    for (int i = 0; i < 2; i++) {
        acquire(lock, &hold);
        release(hold);
        dlock_hold_free(hold);
    }
    if (it->release)
        acquire(lock, &hold);
    step_offer();
    step_begin();
    if (it->release)
        release(hold);
    else
        acquire(lock, &hold);
    step_end();
    _exit(0);
}

/* ---- who steps it ---- */

/* What is added to an address of this program's file, where it lies in memory. */
static int find_shift(struct dl_phdr_info *info, size_t size, void *shift)
{
    (void)size;
    *(uintptr_t *)shift = info->dlpi_addr;
    return 1; /* the program comes first */
}

static bool is_own(uintptr_t at)
{
    extern const char __executable_start, etext;
    return at >= (uintptr_t)&__executable_start && at < (uintptr_t)&etext;
}

/* An instruction with the prefix LOCK, or an exchange with memory, which needs none. */
static bool is_atomic(const step_process *stepper)
{
#ifdef __x86_64__
    long text = ptrace(PTRACE_PEEKTEXT, stepper->pid, step_at(stepper), NULL);
    unsigned char bytes[sizeof(text)];
    memcpy(bytes, &text, sizeof(text));
    const unsigned char *at = bytes;
    while (*at == 0x66 || *at == 0xf2 || *at == 0xf3 || *at == 0x64 || *at == 0x65)
        if (++at == bytes + 4)
            return false;
    if (*at == 0xf0)
        return true;
    at += (*at & 0xf0) == 0x40; /* REX */
    return (*at == 0x86 || *at == 0x87) && at[1] < 0xc0;
#else
    return stepper->pid < 0; /* not known here */
#endif
}

static int follow(step_process *stepper)
{
    uintptr_t shift = 0;
    int syscalls = 0, atomics = 0;
    (void)dl_iterate_phdr(find_shift, &shift);
    do {
        uintptr_t at = step_at(stepper);
        if (is_own(at))
            (void)printf("%#lx\n", (unsigned long)(at - shift));
        syscalls += step_is_syscall(stepper);
        atomics += is_atomic(stepper);
    } while (step_once(stepper));
    if (stepper->lost)
        return -1;
    (void)printf("instructions %d\nsystem calls %d\natomics %d\n", stepper->steps,
                 syscalls, atomics);
    return 0;
}

static dlock_kind kind_of(const char *name)
{
    return strcmp(name, "read") == 0    ? DLOCK_READ
           : strcmp(name, "write") == 0 ? DLOCK_WRITE
                                        : DLOCK_MUTEX;
}

int main(int argc, char **argv)
{
    step_process stepper;
    const char *why = step_forbidden();
    if (argc != 4 || why) {
        (void)fprintf(stderr, "%s\n",
                      why ? why : "way URI mutex|read|write acquire|release");
        return why ? 77 : 64;
    }
    call it = {argv[1], kind_of(argv[2]), strcmp(argv[3], "release") == 0};
    if (step_fork(&stepper, make, &it) && follow(&stepper) == 0) {
        step_kill(&stepper);
        return 0;
    }
    (void)fprintf(stderr, "%s\n", stepper.why);
    step_kill(&stepper);
    return 1;
}
