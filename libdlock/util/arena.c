/* Memory in blocks; see the header. */
#include "util/arena.h"

#include <stddef.h>
#include <stdlib.h>

#define BLOCK 8192
#define ALIGN _Alignof(max_align_t)

struct dlk_arena_block {
    dlk_arena_block *next;
    size_t size;
    max_align_t data[];
};

/* @p size is what there has to be room for at least. */
static bool add_block(dlk_arena *arena, size_t size)
{
    size_t room = size > BLOCK ? size : BLOCK;
    if (room > arena->most - arena->total) {
        arena->full = true;
        return false;
    }
    dlk_arena_block *block = malloc(sizeof(*block) + room);
    if (!block)
        return false;
    *block = (dlk_arena_block){.next = arena->blocks, .size = room};
    arena->blocks = block;
    arena->used = 0;
    arena->total += room;
    return true;
}

void *dlk_arena_take(dlk_arena *arena, size_t size)
{
    if (size > arena->most) {
        arena->full = true;
        return NULL;
    }
    size = (size + ALIGN - 1) & ~(ALIGN - 1);
    if ((!arena->blocks || size > arena->blocks->size - arena->used) &&
        !add_block(arena, size))
        return NULL;
    void *at = (char *)arena->blocks->data + arena->used;
    arena->used += size;
    return at;
}

static void drop_first(dlk_arena *arena)
{
    dlk_arena_block *first = arena->blocks;
    arena->blocks = first->next;
    arena->total -= first->size;
    free(first);
}

void dlk_arena_reset(dlk_arena *arena)
{
    while (arena->blocks && (arena->blocks->next || arena->blocks->size > BLOCK))
        drop_first(arena);
    arena->used = 0;
    arena->full = false;
}

void dlk_arena_free(dlk_arena *arena)
{
    while (arena->blocks)
        drop_first(arena);
    arena->used = 0;
}
