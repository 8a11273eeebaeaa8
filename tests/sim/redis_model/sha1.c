/* SHA-1, for redis.sha1hex (FIPS 180-4, section 6.1). Not for secrets, and not fast. */
#include "model.h"

#include <stdio.h>
#include <string.h>

static uint32_t turn(uint32_t word, int by)
{
    return word << by | word >> (32 - by);
}

static void digest(uint32_t state[5], const unsigned char block[64])
{
    static const uint32_t constants[] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
    uint32_t w[80], v[5];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[i * 4] << 24 | (uint32_t)block[i * 4 + 1] << 16 |
               (uint32_t)block[i * 4 + 2] << 8 | block[i * 4 + 3];
    for (int i = 16; i < 80; i++)
        w[i] = turn(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    memcpy(v, state, sizeof(v));
    for (int i = 0; i < 80; i++) {
        uint32_t mixed = i < 20   ? (v[1] & v[2]) | (~v[1] & v[3])
                         : i < 40 ? v[1] ^ v[2] ^ v[3]
                         : i < 60 ? (v[1] & v[2]) | (v[1] & v[3]) | (v[2] & v[3])
                                  : v[1] ^ v[2] ^ v[3];
        uint32_t next = turn(v[0], 5) + mixed + v[4] + constants[i / 20] + w[i];
        v[4] = v[3];
        v[3] = v[2];
        v[2] = turn(v[1], 30);
        v[1] = v[0];
        v[0] = next;
    }
    for (int i = 0; i < 5; i++)
        state[i] += v[i];
}

void model_sha1(const dlk_arg *text, char hex[41])
{
    uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    unsigned char block[64];
    size_t at = 0;
    for (; text->size - at >= 64; at += 64) {
        memcpy(block, text->data + at, 64);
        digest(state, block);
    }
    size_t rest = text->size - at;
    memset(block, 0, sizeof(block));
    if (rest)
        memcpy(block, text->data + at, rest);
    block[rest] = 0x80;
    if (rest >= 56) {
        digest(state, block);
        memset(block, 0, sizeof(block));
    }
    uint64_t bits = (uint64_t)text->size * 8;
    for (int i = 0; i < 8; i++)
        block[56 + i] = (unsigned char)(bits >> (56 - 8 * i));
    digest(state, block);
    for (int i = 0; i < 5; i++)
        (void)snprintf(hex + (size_t)i * 8, 9, "%08x", state[i]); /* fits */
}
