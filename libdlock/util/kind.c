/* The table of kinds; see the header. */
#include "util/kind.h"

#include <stddef.h>

const dlk_kind_traits *dlk_kind_of(int kind)
{
    static const dlk_kind_traits mutex = {"mutex", "mutexes", .fences = true};
    static const dlk_kind_traits reads = {"read", "read/write locks", .fences = true,
                                          .shared = true};
    static const dlk_kind_traits writes = {"write", "read/write locks", .fences = true};
    static const dlk_kind_traits semaphore = {"semaphore", "semaphores", .apart = true};
    static const dlk_kind_traits election = {"election", "elections", .apart = true,
                                             .fences = true};
    /* What it guards, its lock's tokens fence. */
    static const dlk_kind_traits condition = {"condition", "conditions", .fences = true};
    if (kind == (int)DLK_KIND_CONDITION)
        return &condition;
    switch ((dlock_kind)kind) {
    case DLOCK_MUTEX:
        return &mutex;
    case DLOCK_READ:
        return &reads;
    case DLOCK_WRITE:
        return &writes;
    case DLOCK_SEMAPHORE:
        return &semaphore;
    case DLOCK_ELECTION:
        return &election;
    }
    return NULL;
}
