/* Being woken while polling; see the header. System calls instead of libc's functions where those are
 * cancellation points. */
#include "net/kicks.h"

#include "util/clock.h"
#include "util/descriptor.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

bool dlk_kicks_open(dlk_kicks *kicks)
{
    if (kicks->fd < 0)
        kicks->fd = DLK_FD(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    return kicks->fd >= 0;
}

void dlk_kicks_close(dlk_kicks *kicks)
{
    dlk_fd_close(kicks->fd);
    kicks->fd = -1;
}

void dlk_kick(dlk_kicks *kicks)
{
    atomic_fetch_add(&kicks->count, 1);
    if (!atomic_load(&kicks->polls) || !atomic_exchange(&kicks->polls, false))
        return; /* nobody sleeps, or somebody else is waking it */
    int saved = errno;
    uint64_t one = 1;
    /* Can only fail when it is readable already. */
    (void)syscall(SYS_write, kicks->fd, &one, sizeof(one));
    errno = saved;
}

/* How long to poll; NULL is for ever. */
static const struct timespec *time_left(int64_t until, struct timespec *left)
{
    if (until >= DLK_NEVER)
        return NULL;
    int64_t ns = until - dlk_clock_now();
    *left = (struct timespec){0};
    if (ns > 0) {
        left->tv_sec = ns / DLK_NS_PER_SEC;
        left->tv_nsec = ns % DLK_NS_PER_SEC;
    }
    return left;
}

/* The one place where the library sleeps on descriptors. */
static int poll_for(dlk_polls *polls, size_t count, int64_t until)
{
    struct timespec left;
    int ready = ppoll(polls->item, count, time_left(until, &left), NULL);
    if (ready < 0 && errno != EINTR) /* no memory: not to be asked again at once */
        (void)nanosleep(&(struct timespec){.tv_nsec = DLK_NS_PER_MS}, NULL);
    for (size_t i = 0; ready <= 0 && i < count; i++)
        polls->item[i].revents = 0;
    return ready;
}

bool dlk_kicks_poll(dlk_kicks *kicks, dlk_polls *polls, uint32_t seen)
{
    struct pollfd *kicked = &polls->item[polls->count];
    *kicked = (struct pollfd){.fd = kicks->fd, .events = POLLIN};
    /* First say that we poll, then compare: whoever kicks does it the other way round. */
    atomic_store(&kicks->polls, true);
    if (dlk_kicks_seen(kicks) != seen)
        polls->doze = false;
    int ready = poll_for(polls, polls->count + 1, polls->doze ? polls->until : 0);
    atomic_store(&kicks->polls, false);
    if (kicked->revents) {
        uint64_t rung;
        (void)syscall(SYS_read, kicks->fd, &rung, sizeof(rung)); /* only to empty it */
    }
    return ready > 0;
}

bool dlk_polls_look(dlk_polls *polls)
{
    return poll_for(polls, polls->count, 0) > 0;
}
