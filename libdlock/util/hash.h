/* FNV-1a, for tables of names: those are the caller's own, so nobody gains by collisions. */
#ifndef DLK_UTIL_HASH_H
#define DLK_UTIL_HASH_H

#include <stddef.h>
#include <stdint.h>

#define DLK_HASH_BEGIN UINT64_C(0xcbf29ce484222325)

/* Goes on from @p hash. */
static inline uint64_t dlk_hash(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
