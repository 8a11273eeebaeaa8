/* Descriptors that a fork's child closes; see the header. */
#include "util/descriptor.h"

#include "util/thread.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BITS 64
#define PAGE 4096

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards: */
/* A bit for each number. More than a few aren't malloc's, whose locks others may have over a fork. */
static uint64_t few[1024];
static uint64_t *kept = few;
static size_t words = sizeof(few) / sizeof(*few);
static int cancel_state; /* of the thread that has it, which is making one */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool watched; /* or there is no memory to watch forks with */

static void lock(void)
{
    (void)pthread_mutex_lock(&mutex); /* a plain one, never taken twice */
}

static void unlock(void)
{
    (void)pthread_mutex_unlock(&mutex); /* ours */
}

/* No cancellation point, unlike close(2) alone; the system call itself would be none, but pass by
 * ThreadSanitizer, which would then take whoever gets the number next for its owner of before. */
void dlk_fd_end(int fd)
{
    int state;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    (void)close(fd);
    (void)pthread_setcancelstate(state, &state);
}

static void close_all(void)
{
    for (size_t word = 0; word < words; word++)
        for (int bit = 0; kept[word] != 0; bit++) {
            if (kept[word] & 1)
                dlk_fd_end((int)word * BITS + bit);
            kept[word] >>= 1;
        }
    unlock(); /* the forking thread had locked it */
}

static void watch_forks(void)
{
    watched = dlk_fork_watch(lock, unlock, close_all);
}

/* So that there is a bit for it. */
static bool make_room(int fd)
{
    size_t wanted = ((size_t)fd / BITS + 1) * sizeof(*kept);
    if (wanted <= words * sizeof(*kept))
        return true;
    size_t size = (wanted + PAGE - 1) / PAGE * PAGE;
    uint64_t *more =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (more == MAP_FAILED)
        return false;
    memcpy(more, kept, words * sizeof(*kept));
    if (kept != few)
        (void)munmap(kept, words * sizeof(*kept)); /* what was mapped */
    kept = more;
    words = size / sizeof(*kept);
    return true;
}

static void note(int fd, bool ours)
{
    uint64_t bit = UINT64_C(1) << fd % BITS;
    if ((size_t)fd / BITS < words)
        kept[fd / BITS] = ours ? kept[fd / BITS] | bit : kept[fd / BITS] & ~bit;
}

void dlk_fd_begin(void)
{
    int state;
    (void)pthread_once(&once, watch_forks);
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    lock();
    cancel_state = state;
}

int dlk_fd_note(int fd)
{
    if (fd >= 0 && !(watched && make_room(fd))) {
        dlk_fd_end(fd);
        fd = -1;
        errno = ENOMEM;
    }
    if (fd >= 0)
        note(fd, true);
    return fd;
}

int dlk_fd_keep(int fd)
{
    fd = dlk_fd_note(fd);
    int saved = errno;
    int state = cancel_state;
    unlock();
    (void)pthread_setcancelstate(state, NULL);
    errno = saved;
    return fd;
}

void dlk_fd_close(int fd)
{
    int saved = errno;
    if (fd < 0)
        return;
    lock();
    note(fd, false);
    dlk_fd_end(fd);
    unlock();
    errno = saved;
}
