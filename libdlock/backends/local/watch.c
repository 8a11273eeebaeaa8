/*
 * The watcher of deaths.
 *
 * Who waits must see the death of the holder, but also of everybody ahead in the line (they will
 * have to wake it) and of whoever was about to wake it. The rule that needs no traffic for each
 * hand-over: watch all clients who are registered, and look again when the registry has changed
 * since. Who comes later is behind us.
 *
 * The thread owns everything here but `stop`, `seen` and the wake descriptor. It enters the table
 * like any other process, never holds the client's mutex, and after a death rings its own
 * client's bell whatever it found: somebody else may have buried the dead and died in turn
 * before he woke us.
 */
#include "backends/local/watch.h"

#include "backends/local/process.h"
#include "util/clock.h"
#include "util/descriptor.h"
#include "util/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define BLIND_MS    100
#define RETRY_MS    20
#define PATIENCE_MS 40

static uint64_t owner_of(uint32_t ref, uint64_t word)
{
    return (word >> 32 << 32) | ref;
}

/* False: the table can't be entered just now. */
static bool bury(dlk_table *table, uint64_t owner)
{
    dlk_section section;
    dlk_entry entry = dlk_table_enter(table, &section, PATIENCE_MS);
    if (entry == DLK_ENTRY_BUSY)
        return false;
    if (entry == DLK_ENTERED) {
        dlk_member_bury(&section, owner, dlk_clock_now());
        dlk_table_leave(&section);
    }
    return true;
}

void dlk_watch_reap(dlk_table *table)
{
    uint32_t used = dlk_table_used(&table->head->member_high, table->member_count);
    for (uint32_t ref = 1; ref <= used; ref++) {
        const dlk_member *member = dlk_member_at(table, ref);
        uint64_t word = atomic_load(&member->word);
        uint32_t pid = (uint32_t)word;
        int pidfd = -1;
        if (pid == 0 || pid == table->pid)
            continue;
        if (dlk_process_open(pid, DLK_GET(member->started), &pidfd) == DLK_LIFE_ALIVE) {
            dlk_fd_close(pidfd);
            continue;
        }
        /* A word that has changed meanwhile is another member's, whom this doesn't touch. A
         * table that can't be entered is somebody else's to clean. */
        (void)bury(table, owner_of(ref, word));
    }
}

static void forget(dlk_watch *watch, uint32_t at)
{
    int fd = watch->pidfds[at].fd;
    watch->pidfds[at].fd = -1;
    watch->words[at] = 0;
    dlk_fd_close(fd);
}

static void bury_member(dlk_watch *watch, uint32_t at, uint64_t word)
{
    if (!bury(watch->table, owner_of(at + 1, word))) {
        watch->unburied = true;
        return;
    }
    forget(watch, at);
    dlk_member *self = dlk_member_of(watch->table, watch->self);
    if (self)
        dlk_member_ring(watch->table, self);
}

static void look_at(dlk_watch *watch, uint32_t at)
{
    const dlk_member *member = dlk_member_at(watch->table, at + 1);
    uint64_t word = atomic_load(&member->word);
    uint32_t pid = (uint32_t)word;
    if (word == watch->words[at])
        return;
    forget(watch, at);
    if (pid == 0 || pid == watch->table->pid)
        return;
    int pidfd = -1;
    if (dlk_process_open(pid, DLK_GET(member->started), &pidfd) == DLK_LIFE_DEAD) {
        bury_member(watch, at, word);
        return;
    }
    if (pidfd < 0) {
        watch->blind = true; /* words[at] stays 0: looked at again next time */
        return;
    }
    watch->pidfds[at].fd = pidfd;
    watch->words[at] = word;
}

static void look_at_all(dlk_watch *watch)
{
    uint32_t registry = atomic_load(&watch->table->head->registry);
    if (registry == atomic_load(&watch->seen) && !watch->blind && !watch->unburied)
        return;
    uint32_t used =
        dlk_table_used(&watch->table->head->member_high, watch->table->member_count);
    /* A mark that goes back was damaged: who is watched behind it is watched on. */
    if (watch->high < used)
        watch->high = used;
    watch->blind = watch->unburied = false;
    for (uint32_t at = 0; at < watch->high; at++)
        look_at(watch, at);
    atomic_store(&watch->seen, registry);
}

void dlk_watch_step(dlk_watch *watch, int timeout_ms)
{
    if (!watch->words)
        return;
    look_at_all(watch);
    if (watch->blind && (timeout_ms < 0 || timeout_ms > BLIND_MS))
        timeout_ms = BLIND_MS;
    if (watch->unburied && (timeout_ms < 0 || timeout_ms > RETRY_MS))
        timeout_ms = RETRY_MS;
    uint32_t last = watch->table->member_count;
    /* Behind `high` there is nothing, so the wake moves up to keep the set short. */
    watch->pidfds[watch->high] = watch->pidfds[last];
    int ready = poll(watch->pidfds, watch->high + 1, timeout_ms);
    if (ready < 0 && errno != EINTR) /* no memory: not to be asked again at once */
        (void)nanosleep(&(struct timespec){.tv_nsec = DLK_NS_PER_MS}, NULL);
    bool woken = watch->pidfds[watch->high].revents != 0;
    if (watch->high != last)
        watch->pidfds[watch->high].fd = -1;
    eventfd_t count;
    if (woken)
        (void)eventfd_read(watch->wake, &count); /* only to empty it */
    for (uint32_t at = 0; ready > 0 && at < watch->high; at++)
        if (watch->pidfds[at].fd >= 0 && watch->pidfds[at].revents != 0)
            bury_member(watch, at, watch->words[at]);
}

static void *run(void *arg)
{
    dlk_watch *watch = arg;
    while (!atomic_load(&watch->stop))
        dlk_watch_step(watch, -1);
    return NULL;
}

bool dlk_watch_start(dlk_watch *watch, dlk_table *table, uint64_t self)
{
    watch->table = table;
    watch->self = self;
    watch->words = calloc(table->member_count, sizeof(*watch->words));
    watch->pidfds = malloc(sizeof(*watch->pidfds) * (table->member_count + 1));
    if (!watch->words || !watch->pidfds) {
        free(watch->words);
        free(watch->pidfds);
        watch->words = NULL;
        watch->pidfds = NULL;
        return false;
    }
    for (uint32_t at = 0; at <= table->member_count; at++)
        watch->pidfds[at] = (struct pollfd){.fd = -1, .events = POLLIN};
    watch->wake = DLK_FD(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    watch->pidfds[table->member_count].fd = watch->wake;
    atomic_store(&watch->seen, atomic_load(&table->head->registry) - 1);
    if (watch->wake < 0)
        return false;
    watch->role = (dlk_thread_role){"dlock-watch", run, watch};
    watch->running = dlk_thread_start(&watch->thread, &watch->role);
    return watch->running;
}

void dlk_watch_scan(dlk_watch *watch)
{
    if (watch->running &&
        atomic_load_explicit(&watch->table->head->registry, memory_order_relaxed) !=
            atomic_load_explicit(&watch->seen, memory_order_relaxed))
        (void)eventfd_write(watch->wake, 1); /* full: it will wake all the same */
}

void dlk_watch_stop(dlk_watch *watch)
{
    if (watch->running) {
        atomic_store(&watch->stop, true);
        (void)eventfd_write(watch->wake, 1);     /* full: it will wake all the same */
        (void)pthread_join(watch->thread, NULL); /* ours, joined once */
        watch->running = false;
    }
    for (uint32_t at = 0; watch->words && at < watch->high; at++)
        forget(watch, at);
    if (watch->words)
        dlk_fd_close(watch->wake);
    free(watch->words);
    free(watch->pidfds);
    watch->words = NULL;
    watch->pidfds = NULL;
    watch->wake = -1;
}
