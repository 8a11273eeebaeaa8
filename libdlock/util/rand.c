/* Random numbers; see the header. The generator is SplitMix64 (Steele, Lea and Flood, 2014). */
#include "util/rand.h"

#include <stdio.h>
#include <sys/random.h> /* getentropy, on macOS */
#include <unistd.h>

#define ENTROPY_MAX 256 /* it gives no more at a time */

bool dlk_rand_bytes(void *out, size_t size)
{
    unsigned char *to = out;
    while (size > 0) {
        size_t part = size < ENTROPY_MAX ? size : ENTROPY_MAX;
        if (getentropy(to, part) != 0)
            return false;
        to += part;
        size -= part;
    }
    return true;
}

bool dlk_rand_uuid(char out[DLK_UUID_SIZE])
{
    unsigned char b[16];
    if (!dlk_rand_bytes(b, sizeof(b)))
        return false;
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
    int n =
        snprintf(out, DLK_UUID_SIZE,
                 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
                 b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11],
                 b[12], b[13], b[14], b[15]);
    return n == DLK_UUID_SIZE - 1;
}

uint64_t dlk_rand_next(dlk_rand *rand)
{
    uint64_t z = (rand->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

int64_t dlk_rand_jitter(dlk_rand *rand, int64_t value, int percent)
{
    int64_t span = value / 100 * percent;
    if (span <= 0)
        return value;
    /* 53 bits as a fraction of 1: no division, and fine enough for a delay. */
    double fraction = (double)(dlk_rand_next(rand) >> 11) * 0x1p-53;
    return value - span + (int64_t)(fraction * (double)(2 * span + 1));
}
