/* Memory that is taken bit by bit and given back all at once, up to a limit: for what is made of bytes
 * from outside. */
#ifndef DLK_UTIL_ARENA_H
#define DLK_UTIL_ARENA_H

#include <stdbool.h>
#include <stddef.h>

typedef struct dlk_arena_block dlk_arena_block;

/* It starts as {.most = …}. */
typedef struct dlk_arena {
    dlk_arena_block *blocks; /* the first is filled; the last is kept by a reset */
    size_t used, total;      /* of the first block; of all */
    size_t most;
    bool full; /* more than `most` was asked for */
} dlk_arena;

/* For any type. NULL: the arena is full, or there is no memory. */
void *dlk_arena_take(dlk_arena *arena, size_t size);
/* What was taken is gone. */
void dlk_arena_reset(dlk_arena *arena);
void dlk_arena_free(dlk_arena *arena);

#endif
