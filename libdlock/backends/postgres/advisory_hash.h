/* The hashes of names that programs make keys of advisory locks with: numbers for tables, no secrets. */
#ifndef DLK_BACKENDS_POSTGRES_ADVISORY_HASH_H
#define DLK_BACKENDS_POSTGRES_ADVISORY_HASH_H

#include <stddef.h>
#include <stdint.h>

/* IEEE 802.3's, as zlib's. */
uint32_t dlk_crc32(const void *data, size_t size);
/* What the server's hashtextextended(…, 0) says; the low half is hashtext's. On a server of the other byte
 * order it says something else. */
uint64_t dlk_hashtext(const void *data, size_t size);

#define DLK_SHA_MAX 32
/* 20 bytes. */
void dlk_sha1(const void *data, size_t size, unsigned char ret[DLK_SHA_MAX]);
/* 32 bytes. */
void dlk_sha256(const void *data, size_t size, unsigned char ret[DLK_SHA_MAX]);

#endif
