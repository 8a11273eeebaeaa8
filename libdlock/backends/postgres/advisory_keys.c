/* Which advisory lock a name is: as other programs make keys of their names. docs/how-to/postgres.md has the
 * table; tests/interop/postgres observes it on them. */
#include "backends/postgres/advisory.h"
#include "backends/postgres/advisory_hash.h"
#include "util/digits.h"
#include "util/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int64_t pair_of(uint32_t first, uint32_t second)
{
    return (int64_t)((uint64_t)first << 32 | second);
}

/* "<number>", or "<number>,<number>". */
static dlock_err number(const char *name, size_t size, dlk_pg_lock *ret,
                        dlock_error **err)
{
    const char *comma = memchr(name, ',', size);
    size_t first = comma ? (size_t)(comma - name) : size;
    int64_t one, two;
    ret->pair = comma != NULL;
    if (!comma && dlk_number_read(name, size, INT64_MIN, INT64_MAX, &ret->key))
        return DLOCK_OK;
    if (comma && dlk_number_read(name, first, INT32_MIN, INT32_MAX, &one) &&
        dlk_number_read(comma + 1, size - first - 1, INT32_MIN, INT32_MAX, &two)) {
        ret->key = pair_of((uint32_t)one, (uint32_t)two);
        return DLOCK_OK;
    }
    return dlk_error_set(err, DLOCK_EINVAL,
                         "postgres: %s is no key of an advisory lock: a bigint, or two "
                         "ints with a comma between them (postgres.key=number); "
                         "other words of postgres.key make keys of any name",
                         name);
}

/* So many hexadecimal digits, of either case. */
static bool hex(const char *text, size_t digits, uint64_t *ret)
{
    *ret = 0;
    for (size_t i = 0; i < digits; i++) {
        bool large = text[i] >= 'A' && text[i] <= 'F';
        int digit = dlk_digits_hex(large ? (char)(text[i] - 'A' + 'a') : text[i]);
        if (digit < 0)
            return false;
        *ret = *ret << 4 | (unsigned)digit;
    }
    return true;
}

/* The first eight, in the order of a little machine or a big one. */
static int64_t first_bytes(const unsigned char *bytes, bool big)
{
    uint64_t number = 0;
    for (int i = 0; i < 8; i++)
        number = number << 8 | bytes[big ? i : 7 - i];
    return (int64_t)number;
}

/* Seven bits for each of up to nine characters, a 0, and ones. */
static bool ascii(const char *name, size_t size, int64_t *ret)
{
    uint64_t bits = 0;
    if (size > 9)
        return false;
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)name[i] > 127)
            return false;
        bits = bits << 7 | (unsigned char)name[i];
    }
    bits <<= 1;
    for (size_t i = size; i < 9; i++)
        bits = bits << 7 | 127;
    *ret = (int64_t)bits;
    return true;
}

/* madelson's DistributedLock: PostgresAdvisoryLockKey(name, allowHashing: true). */
static void distributed_lock(const char *name, size_t size, dlk_pg_lock *ret)
{
    unsigned char digest[DLK_SHA_MAX];
    uint64_t one, two;
    ret->pair = true;
    if (ascii(name, size, &ret->key))
        return;
    if (size == 17 && name[8] == ',' && hex(name, 8, &one) && hex(name + 9, 8, &two)) {
        ret->key = pair_of((uint32_t)one, (uint32_t)two);
        return;
    }
    ret->pair = false;
    if (size == 16 && hex(name, 16, &one)) {
        ret->key = (int64_t)one;
        return;
    }
    dlk_sha1(name, size, digest);
    ret->key = first_bytes(digest, false);
}

/* The words of postgres.key, in their order. */
enum {
    HASHTEXTEXTENDED,
    HASHTEXT,
    NUMBER,
    DJANGO_PGLOCKS,
    DJANGO_PGLOCK,
    DJANGO_PGWARE,
    WITH_ADVISORY_LOCK,
    DISTRIBUTED_LOCK
};

dlock_err dlk_pg_lock_of(int64_t word, const char *name, size_t size, dlk_pg_lock *ret,
                         dlock_error **err)
{
    unsigned char digest[DLK_SHA_MAX];
    ret->pair = false;
    switch (word) {
    case HASHTEXTEXTENDED:
        ret->key = (int64_t)dlk_hashtext(name, size);
        return DLOCK_OK;
    case HASHTEXT:
        ret->key = (int32_t)dlk_hashtext(name, size);
        return DLOCK_OK;
    case NUMBER:
        return number(name, size, ret, err);
    case DJANGO_PGLOCKS:
        ret->key = (int32_t)dlk_crc32(name, size);
        return DLOCK_OK;
    case DJANGO_PGLOCK:
    case DJANGO_PGWARE:
        dlk_sha256(name, size, digest);
        ret->key = first_bytes(digest, word == DJANGO_PGWARE);
        return DLOCK_OK;
    case WITH_ADVISORY_LOCK:
        ret->pair = true;
        ret->key = pair_of(dlk_crc32(name, size) & INT32_MAX, 0);
        return DLOCK_OK;
    default:
        distributed_lock(name, size, ret);
        return DLOCK_OK;
    }
}

dlk_pg_lock dlk_pg_lock_said(const PGresult *result, int row)
{
    return (dlk_pg_lock){
        .key = pair_of((uint32_t)dlk_pg_number(result, row, 0, 0),
                       (uint32_t)dlk_pg_number(result, row, 1, 0)),
        .pair = dlk_pg_number(result, row, 2, 1) == 2,
    };
}

const char *dlk_pg_lock_text(const dlk_pg_lock *lock, char to[DLK_PG_LOCK_MAX])
{
    if (lock->pair)
        (void)snprintf(to, DLK_PG_LOCK_MAX, "%" PRId32 ",%" PRId32,
                       (int32_t)((uint64_t)lock->key >> 32), (int32_t)lock->key);
    else
        (void)snprintf(to, DLK_PG_LOCK_MAX, "%" PRId64, lock->key);
    return to;
}
