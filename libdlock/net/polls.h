/*
 * What one sleep waits for: descriptors, each with its poll events, and until when. It
 * belongs to whoever is going to sleep, who begins it, has it filled, sleeps
 * (net/kicks.h) and has it read.
 */
#ifndef DLK_NET_POLLS_H
#define DLK_NET_POLLS_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* So many need no memory. */
#define DLK_POLLS_FEW 8

typedef struct dlk_polls {
    bool doze;     /* there is nothing to digest at once */
    bool more;     /* said by whoever reads: there may be more to read */
    int64_t until; /* when to wake up at the latest; may be moved forward */
    size_t count, room;
    /* `few`, or memory of its own; behind the last is room for the kicks */
    struct pollfd *item;
    struct pollfd few[DLK_POLLS_FEW + 1];
} dlk_polls;

/* It starts as {0}, is begun before each sleep, and mustn't be moved in between. */
static inline void dlk_polls_begin(dlk_polls *polls, int64_t until)
{
    if (!polls->item) {
        polls->item = polls->few;
        polls->room = DLK_POLLS_FEW;
    }
    polls->count = 0;
    polls->doze = true;
    polls->more = false;
    polls->until = until;
}

void dlk_polls_free(dlk_polls *polls);

static inline void dlk_polls_hurry(dlk_polls *polls, int64_t until)
{
    if (until < polls->until)
        polls->until = until;
}

/* Waits for these events there. 0: there is something to digest at once, so don't
 * sleep. */
static inline void dlk_polls_change(dlk_polls *polls, int at, short events)
{
    if (at >= 0)
        polls->item[at].events = events;
    if (!events)
        polls->doze = false;
}

/* polls.c's. False: without memory, and the sleep is so short that this does no harm. */
bool dlk_polls_grow(dlk_polls *polls);

/* Answers the descriptor's number; -1 for none (@p fd < 0), or without memory. */
static inline int dlk_polls_add(dlk_polls *polls, int fd, short events)
{
    if (fd < 0 || (polls->count == polls->room && !dlk_polls_grow(polls)))
        return -1;
    int at = (int)polls->count++;
    polls->item[at] = (struct pollfd){.fd = fd};
    dlk_polls_change(polls, at, events);
    return at;
}

static inline short dlk_polls_events(const dlk_polls *polls, int at)
{
    return at < 0 ? (short)0 : polls->item[at].events;
}

/* Instead of a poll: whoever reads finds out what has come. */
void dlk_polls_presume(dlk_polls *polls);

/* What has come: poll's revents. */
static inline short dlk_polls_came(const dlk_polls *polls, int at)
{
    return at < 0 ? (short)0 : polls->item[at].revents;
}

#endif
