/* Being woken while polling; see the header. */
#include "net/kicks.h"

#include "util/clock.h"

#include <errno.h>
#include <time.h>

bool dlk_kicks_open(dlk_kicks *kicks)
{
    return kicks->wakeup.fd >= 0 || dlk_wakeup_open(&kicks->wakeup);
}

void dlk_kicks_close(dlk_kicks *kicks)
{
    dlk_wakeup_close(&kicks->wakeup);
}

void dlk_kick(dlk_kicks *kicks)
{
    atomic_fetch_add(&kicks->count, 1);
    if (!atomic_load(&kicks->polls) || !atomic_exchange(&kicks->polls, false))
        return; /* nobody sleeps, or somebody else is waking it */
    dlk_wakeup_ring(&kicks->wakeup);
}

/* The one place where the library sleeps on descriptors. */
static int poll_for(dlk_polls *polls, size_t count, int64_t until)
{
    int ready = dlk_poll_until(polls->item, (nfds_t)count, until);
    if (ready < 0 && errno != EINTR) /* no memory: not to be asked again at once */
        (void)nanosleep(&(struct timespec){.tv_nsec = DLK_NS_PER_MS}, NULL);
    for (size_t i = 0; ready <= 0 && i < count; i++)
        polls->item[i].revents = 0;
    return ready;
}

bool dlk_kicks_poll(dlk_kicks *kicks, dlk_polls *polls, uint32_t seen)
{
    struct pollfd *kicked = &polls->item[polls->count];
    *kicked = (struct pollfd){.fd = kicks->wakeup.fd, .events = POLLIN};
    /* First say that we poll, then compare: whoever kicks does it the other way round. */
    atomic_store(&kicks->polls, true);
    if (dlk_kicks_seen(kicks) != seen)
        polls->doze = false;
    int ready = poll_for(polls, polls->count + 1, polls->doze ? polls->until : 0);
    atomic_store(&kicks->polls, false);
    if (kicked->revents)
        dlk_wakeup_quiet(&kicks->wakeup);
    return ready > 0;
}

bool dlk_polls_look(dlk_polls *polls)
{
    return poll_for(polls, polls->count, 0) > 0;
}
