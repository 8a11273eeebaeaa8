/* An array that grows. */
#ifndef DLK_UTIL_GROW_H
#define DLK_UTIL_GROW_H

#include <stddef.h>
#include <stdlib.h>

/* Room for one more behind the @p count that are in @p items: where these are now, or NULL without memory, and
 * then they are where they were. */
static inline void *dlk_grow(void *items, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return items;
    size_t more = *capacity ? *capacity * 2 : 16;
    void *to = realloc(items, more * size);
    if (to)
        *capacity = more;
    return to;
}

#endif
