/* Waking a thread by a pipe; see the header. */
#include "util/wakeup.h"

#include "util/clock.h"
#include "util/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <unistd.h>

/* Neither end waits, and no exec keeps one: a fork waits until both are so (descriptor.h). */
static bool make_pipe(int ends[2])
{
    if (pipe(ends) != 0)
        return false;
    for (int i = 0; i < 2; i++)
        if (fcntl(ends[i], F_SETFD, FD_CLOEXEC) != 0 ||
            fcntl(ends[i], F_SETFL, O_NONBLOCK) != 0) {
            int error = errno;
            dlk_fd_end(ends[0]);
            dlk_fd_end(ends[1]);
            ends[0] = ends[1] = -1;
            errno = error;
            return false;
        }
    return true;
}

bool dlk_wakeup_open(dlk_wakeup *wakeup)
{
    int ends[2] = {-1, -1};
    dlk_fd_begin();
    if (make_pipe(ends)) {
        ends[1] = dlk_fd_note(ends[1]);
        if (ends[1] < 0) {
            dlk_fd_end(ends[0]);
            ends[0] = -1;
            errno = ENOMEM;
        }
    }
    wakeup->fd = dlk_fd_keep(ends[0]);
    wakeup->ringer = ends[1];
    if (wakeup->fd >= 0)
        return true;
    int error = errno;
    dlk_wakeup_close(wakeup);
    errno = error;
    return false;
}

void dlk_wakeup_ring(const dlk_wakeup *wakeup)
{
    int saved = errno, state;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    /* Fails for a full pipe, which is readable already. Nobody reads? Then nobody sleeps on it. */
    while (write(wakeup->ringer, "", 1) < 0 && errno == EINTR)
        ;
    (void)pthread_setcancelstate(state, &state);
    errno = saved;
}

void dlk_wakeup_quiet(const dlk_wakeup *wakeup)
{
    char rung[64];
    ssize_t got;
    int state;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    do
        got = read(wakeup->fd, rung, sizeof(rung));
    while (got == (ssize_t)sizeof(rung) || (got < 0 && errno == EINTR));
    (void)pthread_setcancelstate(state, &state);
}

void dlk_wakeup_close(dlk_wakeup *wakeup)
{
    dlk_fd_close(wakeup->ringer);
    dlk_fd_close(wakeup->fd);
    wakeup->fd = wakeup->ringer = -1;
}

int dlk_poll_until(struct pollfd *items, nfds_t count, int64_t until)
{
    int timeout = -1;
    if (until < DLK_NEVER)
        timeout = (int)dlk_clock_ms_until(until, dlk_clock_now(), INT_MAX);
    return poll(items, count, timeout);
}
