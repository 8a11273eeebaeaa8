/* What one sleep waits for; see the header. */
#include "net/polls.h"

#include "util/clock.h"

#include <stdlib.h>
#include <string.h>

void dlk_polls_free(dlk_polls *polls)
{
    if (polls->item != polls->few)
        free(polls->item);
    *polls = (dlk_polls){0};
}

bool dlk_polls_grow(dlk_polls *polls)
{
    size_t room = polls->room * 2;
    bool few = polls->item == polls->few;
    struct pollfd *item =
        realloc(few ? NULL : polls->item, (room + 1) * sizeof(*polls->item));
    if (!item) {
        dlk_polls_hurry(polls, dlk_clock_now() + DLK_NS_PER_MS);
        return false;
    }
    if (few)
        memcpy(item, polls->few, sizeof(polls->few));
    polls->item = item;
    polls->room = room;
    return true;
}

void dlk_polls_presume(dlk_polls *polls)
{
    for (size_t i = 0; i < polls->count; i++)
        polls->item[i].revents = (short)(polls->item[i].events & POLLIN);
}
