/* CRC-32, Bob Jenkins' lookup3 as PostgreSQL has it, SHA-1 and SHA-256 (FIPS 180-4). */
#include "backends/postgres/advisory_hash.h"

#include <string.h>

uint32_t dlk_crc32(const void *data, size_t size)
{
    const unsigned char *bytes = data;
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xedb88320) : 0);
    }
    return ~crc;
}

static uint32_t left(uint32_t word, unsigned by)
{
    return word << by | word >> (32 - by);
}

static uint32_t right(uint32_t word, unsigned by)
{
    return left(word, 32 - by);
}

/* ---- lookup3 ---- */

/* Up to four bytes, the first the lowest. */
static uint32_t little(const unsigned char *bytes, size_t count)
{
    uint32_t word = 0;
    for (size_t i = 0; i < count && i < 4; i++)
        word |= (uint32_t)bytes[i] << (8 * i);
    return word;
}

static void mix(uint32_t s[3])
{
    static const unsigned char turns[] = {4, 6, 8, 16, 19, 4};
    for (unsigned i = 0; i < 6; i++) {
        uint32_t *a = &s[i % 3], *b = &s[(i + 1) % 3], *c = &s[(i + 2) % 3];
        *a -= *c;
        *a ^= left(*c, turns[i]);
        *c += *b;
    }
}

static void finish(uint32_t s[3])
{
    static const unsigned char turns[] = {14, 11, 25, 16, 4, 14, 24};
    for (unsigned i = 0; i < 7; i++) {
        uint32_t *to = &s[(i + 2) % 3], *from = &s[(i + 1) % 3];
        *to ^= *from;
        *to -= left(*from, turns[i]);
    }
}

/* The lowest byte of the last word is left to the length. */
uint64_t dlk_hashtext(const void *data, size_t size)
{
    const unsigned char *at = data;
    uint32_t begin = UINT32_C(0x9e3779b9) + (uint32_t)size + 3923095;
    uint32_t s[3] = {begin, begin, begin};
    for (; size >= 12; at += 12, size -= 12) {
        for (size_t i = 0; i < 3; i++)
            s[i] += little(at + 4 * i, 4);
        mix(s);
    }
    s[0] += little(at, size);
    s[1] += size > 4 ? little(at + 4, size - 4) : 0;
    s[2] += size > 8 ? little(at + 8, size - 8) << 8 : 0;
    finish(s);
    return (uint64_t)s[1] << 32 | s[2];
}

/* ---- SHA ---- */

static const uint32_t sha1_begin[] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476,
                                      0xc3d2e1f0};
static const uint32_t sha256_begin[] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
static const uint32_t sha256_add[] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
    0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
    0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
    0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
    0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
    0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
    0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2};

typedef void sha_block(uint32_t state[8], const uint32_t words[16]);

static void sha1_block(uint32_t state[8], const uint32_t words[16])
{
    static const uint32_t add[] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
    uint32_t w[80], a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    memcpy(w, words, 16 * sizeof(w[0]));
    for (int i = 16; i < 80; i++)
        w[i] = left(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    for (int i = 0; i < 80; i++) {
        int round = i / 20;
        uint32_t f = round == 0   ? (b & c) | (~b & d)
                     : round == 2 ? (b & c) | (b & d) | (c & d)
                                  : b ^ c ^ d;
        uint32_t next = left(a, 5) + f + e + add[round] + w[i];
        e = d;
        d = c;
        c = left(b, 30);
        b = a;
        a = next;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
}

static void sha256_block(uint32_t state[8], const uint32_t words[16])
{
    uint32_t w[64], s[8];
    memcpy(w, words, 16 * sizeof(w[0]));
    memcpy(s, state, sizeof(s));
    for (int i = 16; i < 64; i++) {
        uint32_t x = w[i - 15], y = w[i - 2];
        w[i] = w[i - 16] + (right(x, 7) ^ right(x, 18) ^ x >> 3) + w[i - 7] +
               (right(y, 17) ^ right(y, 19) ^ y >> 10);
    }
    for (int i = 0; i < 64; i++) {
        uint32_t one = s[7] + (right(s[4], 6) ^ right(s[4], 11) ^ right(s[4], 25)) +
                       ((s[4] & s[5]) ^ (~s[4] & s[6])) + sha256_add[i] + w[i];
        uint32_t two = (right(s[0], 2) ^ right(s[0], 13) ^ right(s[0], 22)) +
                       ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof(s[0]));
        s[4] += one;
        s[0] = one + two;
    }
    for (int i = 0; i < 8; i++)
        state[i] += s[i];
}

static void digest_block(sha_block *digest, uint32_t state[8], const unsigned char *bytes)
{
    uint32_t words[16];
    for (int i = 0; i < 16; i++)
        words[i] = (uint32_t)bytes[4 * i] << 24 | (uint32_t)bytes[4 * i + 1] << 16 |
                   (uint32_t)bytes[4 * i + 2] << 8 | bytes[4 * i + 3];
    digest(state, words);
}

/* In blocks of 64 bytes; behind the last one stands a one, zeros, and how many bits it all was. */
static void sha(sha_block *digest, uint32_t state[8], int words, const void *data,
                size_t size, unsigned char ret[DLK_SHA_MAX])
{
    const unsigned char *at = data;
    unsigned char rest[128] = {0};
    size_t left_over = size % 64, padded = left_over < 56 ? 64 : 128;
    for (size_t i = 0; i < size / 64; i++)
        digest_block(digest, state, at + 64 * i);
    if (left_over)
        memcpy(rest, at + size - left_over, left_over);
    rest[left_over] = 0x80;
    for (size_t i = 0; i < 8; i++)
        rest[padded - 1 - i] = (unsigned char)((uint64_t)size * 8 >> (8 * i));
    for (size_t i = 0; i < padded; i += 64)
        digest_block(digest, state, rest + i);
    for (int i = 0; i < 4 * words; i++)
        ret[i] = (unsigned char)(state[i / 4] >> (24 - 8 * (i % 4)));
}

void dlk_sha1(const void *data, size_t size, unsigned char ret[DLK_SHA_MAX])
{
    uint32_t state[8] = {0};
    memcpy(state, sha1_begin, sizeof(sha1_begin));
    sha(sha1_block, state, 5, data, size, ret);
}

void dlk_sha256(const void *data, size_t size, unsigned char ret[DLK_SHA_MAX])
{
    uint32_t state[8];
    memcpy(state, sha256_begin, sizeof(sha256_begin));
    sha(sha256_block, state, 8, data, size, ret);
}
