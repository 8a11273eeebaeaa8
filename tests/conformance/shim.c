/* See the header. Only builds without a sanitizer have it: those bring an allocator of their own. */
#include "shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS INT64_C(1000000000)

_Atomic int64_t shim_boot, shim_real;
atomic_bool shim_no_threads;
static _Atomic int64_t drift, drift_since;
static atomic_int countdown;
static atomic_bool has_failed;

/* ---- Clocks ---- */

static int64_t true_ns(clockid_t clock)
{
    struct timespec now = {0};
    (void)syscall(SYS_clock_gettime, clock, &now); /* these clocks are always there */
    return now.tv_sec * NS + now.tv_nsec;
}

static int64_t shimmed(clockid_t clock)
{
    int64_t now = true_ns(clock), millionths = atomic_load(&drift);
    if (clock == CLOCK_REALTIME)
        return now + atomic_load(&shim_real);
    if (clock != CLOCK_BOOTTIME)
        return now;
    if (millionths != 0)
        now += (now - atomic_load(&drift_since)) / 1000000 * millionths;
    return now + atomic_load(&shim_boot);
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
    if (clock != CLOCK_REALTIME && clock != CLOCK_BOOTTIME)
        return (int)syscall(SYS_clock_gettime, clock, ret);
    int64_t now = shimmed(clock);
    *ret = (struct timespec){.tv_sec = now / NS, .tv_nsec = now % NS};
    return 0;
}

void shim_drift(int64_t millionths)
{
    atomic_store(&drift_since, true_ns(CLOCK_BOOTTIME));
    atomic_store(&drift, millionths);
}

int64_t shim_true_ms(void)
{
    return true_ns(CLOCK_BOOTTIME) / 1000000;
}

/* ---- Memory ---- */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *old, size_t size);

void shim_fail_allocation(int number)
{
    atomic_store(&has_failed, false);
    atomic_store(&countdown, number);
}

bool shim_allocation_failed(void)
{
    return atomic_load(&has_failed);
}

/* Where the code of one library lies; nowhere: all of them count. */
typedef struct place {
    uintptr_t wanted, begin, end;
} place;

static place only;

static int note_place(struct dl_phdr_info *info, size_t size, void *user)
{
    place *it = user;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        uintptr_t end = begin + info->dlpi_phdr[i].p_memsz;
        if (info->dlpi_phdr[i].p_type == PT_LOAD && it->wanted >= begin &&
            it->wanted < end) {
            it->begin = begin;
            it->end = end;
        }
    }
    return 0;
}

void shim_fail_only_in(void (*function)(void))
{
    only.wanted = (uintptr_t)function;
    (void)dl_iterate_phdr(note_place, &only);
}

static bool is_the_one(const void *caller)
{
    uintptr_t at = (uintptr_t)caller;
    if (atomic_load(&countdown) <= 0 ||
        (only.end && (at < only.begin || at >= only.end)) ||
        atomic_fetch_sub(&countdown, 1) != 1)
        return false;
    atomic_store(&has_failed, true);
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    return is_the_one(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return is_the_one(__builtin_return_address(0)) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    return is_the_one(__builtin_return_address(0)) ? NULL : __libc_realloc(old, size);
}

/* ---- Threads ---- */

typedef int create_fn(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *),
                      void *arg);

int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *),
                   void *arg)
{
    static create_fn *real;
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return atomic_load(&shim_no_threads) ? EAGAIN : real(thread, how, run, arg);
}
