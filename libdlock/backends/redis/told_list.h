/* A list of what clients tell (told.h): who does so, then what each says, some clients at a time. Nobody
 * vouches for it, so the locks themselves are asked about afterwards (list.c). */
#ifndef DLK_BACKENDS_REDIS_TOLD_LIST_H
#define DLK_BACKENDS_REDIS_TOLD_LIST_H

#include "backends/redis/inner.h"
#include "backends/redis/wire.h"

#define DLK_REDIS_TOLD_CLIENTS 10000 /* are asked at most */

typedef struct dlk_redis_told_list dlk_redis_told_list;

/* What one list leaves to the next of the same connection, which so reads what has changed alone: the texts of
 * clients, and what the server said of their locks. A lock is asked about anew when its lines change, when less than
 * most of its lease is left, and, where nobody has it or without a lease, after some seconds. */
typedef struct dlk_redis_told_memory dlk_redis_told_memory;
void dlk_redis_told_memory_free(dlk_redis_told_memory *memory);

/* Of names that begin so, and as many of them at most; takes over @p memory, NULL: there is none. NULL without
 * memory. */
dlk_redis_told_list *dlk_redis_told_list_new(const char *begin, int64_t limit,
                                             dlk_redis_told_memory *memory);
void dlk_redis_told_list_free(dlk_redis_told_list *list);

typedef enum dlk_told_step {
    DLK_TOLD_BAD, /* the reply makes no sense */
    DLK_TOLD_NOMEM,
    DLK_TOLD_MORE, /* dlk_redis_told_list_put has more to ask */
    DLK_TOLD_ALL,  /* that was all */
    DLK_TOLD_REFUSED /* the server doesn't say who tells anything; why: dlk_redis_told_list_why */
} dlk_told_step;

/* The next command; false without memory. */
bool dlk_redis_told_list_put(dlk_redis *redis, dlk_redis_told_list *list);
dlk_told_step dlk_redis_told_list_take(dlk_redis_told_list *list, const dlk_resp *reply);
const char *dlk_redis_told_list_why(const dlk_redis_told_list *list);

/* The next names, each once, at most so many, of all but semaphores; then, with @p permits, the keys of the
 * permits of those. First those that seem to be part of a circle; without @p others no more. 0: there are no
 * more. */
size_t dlk_redis_told_list_names(dlk_redis_told_list *list, bool permits, bool others,
                                 dlk_resp *ret, size_t most);
/* What is known without asking of a lock whose name would have been next; NULL: there is no more. To be taken
 * after each batch of names. */
typedef struct dlk_redis_held {
    const char *name, *owner, *client;
    int64_t left;  /* of the lease, ms; -1: it has none */
    int64_t taken; /* permits; 0: it is no semaphore */
} dlk_redis_held;
bool dlk_redis_told_list_passed(dlk_redis_told_list *list, dlk_redis_held *ret);
/* All that was asked about is there: who has a lock? False: nobody. */
typedef bool dlk_redis_held_fn(const void *of, const char *name, dlk_redis_held *ret);
void dlk_redis_told_list_judge(dlk_redis_told_list *list, dlk_redis_held_fn *held,
                               const void *of);
/* For the next list; from then on @p list has no memory. */
dlk_redis_told_memory *dlk_redis_told_list_remember(dlk_redis_told_list *list,
                                                    dlk_redis_held_fn *held,
                                                    const void *of);
/* What the client of this owner says of itself; NULL: it tells nothing. */
const char *dlk_redis_told_list_who(const dlk_redis_told_list *list, const char *owner);
/* Adds to locks.@p i what clients tell of it: kind, since, who waits. */
void dlk_redis_told_list_tell_lock(const dlk_redis_told_list *list,
                                   const dlk_redis_held *held, dlock_info *info,
                                   size_t i);
/* Adds what they say, told.N.…, and who waits for whom in circles, deadlocks.N.…; false without memory. */
bool dlk_redis_told_list_tell(const dlk_redis_told_list *list, dlock_info *info);

#endif
