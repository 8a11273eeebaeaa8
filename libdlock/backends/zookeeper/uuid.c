/* The UUID in a node's name: fresh for each series of creates, and so never that of an earlier
 * session. Its second half follows from the first and the owner: so whoever is told the owner knows
 * his node, though an election's says nothing of him. */
#include "backends/zookeeper/inner.h"

#include "util/hash.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS 32
/* The bits that the version and the variant of a UUID leave. */
#define HALF_BITS  UINT64_C(0x3fffffffffffffff)
#define LOW_DIGITS 0xfffu

static uint64_t half_of(uint64_t first, const char *owner)
{
    uint64_t hash = dlk_hash(DLK_HASH_BEGIN, &first, sizeof(first));
    return dlk_hash(hash, owner, strlen(owner)) & HALF_BITS;
}

void dlk_zk_uuid_new(dlk_zk_node *node)
{
    const dlk_host *host = node->place->zk->base.backend.host;
    char owner[DLK_UUID_SIZE + 24];
    (void)snprintf(owner, sizeof(owner), "%s:%" PRIu64, host->uuid,
                   node->place->base.number);
    uint64_t first =
        dlk_rand_next(host->rand) >> 4; /* 12 digits, the version, 3 digits */
    uint64_t half = half_of(first, owner);
    unsigned version = node->rule->bridge ? 0xb : 4;
    const char *form = node->rule->kazoo ? "%08x%04x%x%03x%04x%012" PRIx64
                                         : "%08x-%04x-%x%03x-%04x-%012" PRIx64;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void)snprintf(node->uuid, sizeof(node->uuid), form, (unsigned)(first >> 28),
                   (unsigned)(first >> 12 & 0xffff), version,
                   (unsigned)(first & LOW_DIGITS), (unsigned)(0x8000 | half >> 48),
                   half & 0xffffffffffff); /* fits */
#pragma GCC diagnostic pop
}

/* Its digits, without what may stand before and between them. */
static bool read_digits(const char *name, char ret[DIGITS + 1])
{
    size_t count = 0;
    name += strncmp(name, "_c_", 3) == 0 ? 3 : 0;
    for (; *name && count < DIGITS; name++) {
        if (isxdigit((unsigned char)*name))
            ret[count++] = *name;
        else if (*name != '-')
            return false;
    }
    ret[count] = '\0';
    return count == DIGITS;
}

bool dlk_zk_uuid_is_of(const char *name, const char *owner)
{
    char digits[DIGITS + 1], low[4];
    if (!read_digits(name, digits))
        return false;
    uint64_t half = strtoull(digits + DIGITS / 2, NULL, 16) & HALF_BITS;
    memcpy(low, digits + 13, 3);
    low[3] = digits[12] = '\0';
    uint64_t first = strtoull(digits, NULL, 16) << 12 | strtoul(low, NULL, 16);
    return half == half_of(first, owner);
}
