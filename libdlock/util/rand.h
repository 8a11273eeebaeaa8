/* Random numbers: bytes of the kernel for identities, and a small seeded generator for jitter,
 * which a simulator can seed so that a run repeats. */
#ifndef DLK_UTIL_RAND_H
#define DLK_UTIL_RAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct dlk_rand {
    uint64_t state;
} dlk_rand;

bool dlk_rand_bytes(void *out, size_t size);

/* A random UUID (version 4), 36 lower-case characters and the end. */
#define DLK_UUID_SIZE 37
bool dlk_rand_uuid(char out[DLK_UUID_SIZE]);

uint64_t dlk_rand_next(dlk_rand *rand);

/* @p value moved by up to @p percent of itself in either direction. */
int64_t dlk_rand_jitter(dlk_rand *rand, int64_t value, int percent);

#endif
