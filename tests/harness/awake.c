/* Watching how long the machine stands still; see the header. */
#include "harness/awake.h"

#include "harness/harness.h"

#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NAP_NS       (INT64_C(5) * 1000000)
#define LATE_NS      (INT64_C(25) * 1000000) /* less is usual where cores are shared */
#define WATCHERS_MAX 8

/* Of one core, for a virtual machine may have one of its cores stopped while the others go on.
 * Shared with whoever is forked. */
typedef struct watch {
    _Atomic int64_t seen_ns; /* the watcher was awake then */
    _Atomic int64_t lost_ns; /* and hadn't been for so long in all */
    _Atomic int64_t longest_ns;
} watch;
static watch *watches;
static pid_t watchers[WATCHERS_MAX];
static int count;

/* Asked of the system itself: a test may have put a clock of its own in the C library's place. */
static int64_t now_ns(void)
{
    struct timespec now;
    (void)syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &now); /* it is always there */
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static int64_t lateness(int64_t now, int64_t seen)
{
    int64_t late = now - seen - NAP_NS;
    return late > LATE_NS ? late : 0;
}

static void keep_watch(watch *mine)
{
    struct timespec nap = {.tv_nsec = NAP_NS};
    for (;;) {
        nanosleep(&nap, NULL);
        int64_t now = now_ns(), late = lateness(now, atomic_load(&mine->seen_ns));
        if (late > atomic_load(&mine->longest_ns))
            atomic_store(&mine->longest_ns, late);
        /* In this order, and read in the other: rather counted twice for a moment than not. */
        atomic_fetch_add(&mine->lost_ns, late);
        atomic_store(&mine->seen_ns, now);
    }
}

static void give_up(const char *what)
{
    perror(what);
    exit(2);
}

pid_t awake_fork_watcher(void)
{
    pid_t parent = getpid(), pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    for (int fd = 0; fd < 3; fd++)
        close(fd); /* who reads the program's output waits for its end only */
    return 0;
}

static pid_t watch_core(watch *mine, int core)
{
    pid_t pid = awake_fork_watcher();
    if (pid < 0)
        give_up("fork");
    if (pid > 0)
        return pid;
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET((size_t)core, &only);
    (void)sched_setaffinity(0, sizeof(only),
                            &only); /* else it watches whichever it is on */
    keep_watch(mine);
    return 0;
}

/* Before the program has threads. */
__attribute__((constructor)) static void begin(void)
{
    size_t size = sizeof(watches[0]) * WATCHERS_MAX;
    cpu_set_t cores;
    if (getenv(AWAKE_NOT_HERE))
        return;
    watches = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (watches == MAP_FAILED)
        give_up("mmap");
    if (sched_getaffinity(0, sizeof(cores), &cores) != 0)
        give_up("sched_getaffinity");
    for (int core = 0; core < CPU_SETSIZE && count < WATCHERS_MAX; core++) {
        if (!CPU_ISSET((size_t)core, &cores))
            continue;
        atomic_store(&watches[count].seen_ns, now_ns());
        watchers[count] = watch_core(&watches[count], core);
        count++;
    }
}

int64_t awake_now_ns(void)
{
    int64_t most = 0, now = now_ns(); /* where nobody watches, it has lost nothing */
    for (int i = 0; i < count; i++) {
        int64_t seen = atomic_load(&watches[i].seen_ns);
        int64_t lost = atomic_load(&watches[i].lost_ns);
        now = now_ns();
        lost += lateness(now, seen); /* the watcher may wake after us */
        if (lost > most)
            most = lost;
    }
    return now - most;
}

int64_t awake_longest_ms(void)
{
    int64_t most = 0;
    for (int i = 0; i < count; i++) {
        int64_t late = lateness(now_ns(), atomic_load(&watches[i].seen_ns));
        int64_t longest = atomic_load(&watches[i].longest_ns);
        most = late > most ? late : most;
        most = longest > most ? longest : most;
    }
    return most / 1000000;
}

void awake_forget(void)
{
    for (int i = 0; i < count; i++)
        atomic_store(&watches[i].longest_ns, 0);
}

bool awake_is_watcher(pid_t pid)
{
    for (int i = 0; i < count; i++)
        if (watchers[i] == pid)
            return true;
    return false;
}

/* ---- Leases that the machine sleeps through ---- */

static bool too_slow;

void awake_too_slow(void)
{
    too_slow = true;
}

void awake_with_lease_from(int64_t ttl_ms, int64_t most_ms,
                           void (*run)(const char *name, int64_t ttl_ms),
                           const char *name)
{
    do {
        too_slow = false;
        run(name, ttl_ms);
        if (too_slow)
            harness_note("too slow for a lease of %" PRId64 " ms", ttl_ms);
        ttl_ms *= 4;
    } while (too_slow && !harness_failed() && ttl_ms < most_ms);
    (void)harness_check(__FILE__, __LINE__, !too_slow,
                        "this machine keeps a lease of seconds");
}
