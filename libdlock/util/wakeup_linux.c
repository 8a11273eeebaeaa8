/* Waking a thread by an eventfd; see the header. System calls instead of libc's functions where those
 * are cancellation points. */
#include "util/wakeup.h"

#include "util/clock.h"
#include "util/descriptor.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

bool dlk_wakeup_open(dlk_wakeup *wakeup)
{
    wakeup->fd = wakeup->ringer = DLK_FD(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    return wakeup->fd >= 0;
}

void dlk_wakeup_ring(const dlk_wakeup *wakeup)
{
    int saved = errno;
    uint64_t one = 1;
    /* Can only fail when it is readable already. */
    (void)syscall(SYS_write, wakeup->ringer, &one, sizeof(one));
    errno = saved;
}

void dlk_wakeup_quiet(const dlk_wakeup *wakeup)
{
    uint64_t rung;
    (void)syscall(SYS_read, wakeup->fd, &rung, sizeof(rung)); /* only to empty it */
}

void dlk_wakeup_close(dlk_wakeup *wakeup)
{
    dlk_fd_close(wakeup->fd);
    wakeup->fd = wakeup->ringer = -1;
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

int dlk_poll_until(struct pollfd *items, nfds_t count, int64_t until)
{
    struct timespec left;
    return ppoll(items, count, time_left(until, &left), NULL);
}
