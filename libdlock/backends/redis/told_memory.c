/* What one list of what clients tell leaves to the next; see told_list.h. */
#include "backends/redis/told_inner.h"

#include "util/number.h"

#include <stdlib.h>
#include <string.h>

#define TEXTS_MAX (4 * 1024 * 1024) /* of texts that are kept */
/* So long what was said is good of a lock that nobody has, or whose lease doesn't end. */
#define GOOD_MS 5000
/* … and of one that is renewed, however long its lease: it may have been broken. */
#define HELD_MS 15000

/* ---- Ends ---- */

void dlk_told_lock_clear(told_lock *lock)
{
    free(lock->name);
    free(lock->owner);
    free(lock->client);
    *lock = (told_lock){0};
}

static void clear_locks(dlk_redis_told_memory *memory)
{
    for (size_t i = 0; i < memory->lock_count; i++)
        dlk_told_lock_clear(&memory->locks[i]);
    free(memory->locks);
}

void dlk_told_memory_clear(dlk_redis_told_memory *memory)
{
    for (size_t i = 0; i < memory->client_count; i++)
        free(memory->clients[i].text);
    clear_locks(memory);
    free(memory->clients);
    *memory = (dlk_redis_told_memory){0};
}

void dlk_redis_told_memory_free(dlk_redis_told_memory *memory)
{
    if (memory)
        dlk_told_memory_clear(memory);
    free(memory);
}

/* ---- Clients ---- */

static int by_half(const void *a, const void *b)
{
    return strcmp(((const told_client *)a)->half, ((const told_client *)b)->half);
}

/* Sorted, each once. */
static size_t read_pairs(told_client *to, const dlk_resp *pairs, size_t count,
                         int64_t *unread)
{
    size_t all = 0, once = 0;
    for (size_t i = 0; i < count; i++) {
        const dlk_resp *half = &pairs[2 * i], *ends = &pairs[2 * i + 1];
        if (half->type != DLK_RESP_TEXT || half->size != DLK_REDIS_CLIENT_HALF ||
            strspn(half->text, "0123456789abcdef-") != half->size) {
            ++*unread;
            continue;
        }
        to[all] = (told_client){.ends = -1};
        memcpy(to[all].half, half->text, half->size + 1);
        if (!dlk_resp_decimal(ends, &to[all].ends))
            to[all].ends = -1;
        all++;
    }
    if (all > 0)
        qsort(to, all, sizeof(*to), by_half);
    for (size_t i = 0; i < all; i++)
        if (once == 0 || by_half(&to[i], &to[once - 1]) != 0)
            to[once++] = to[i];
    return once;
}

/* What is known of one goes on to be so. */
static void go_on(told_client *to, told_client *from)
{
    *to = *from;
    from->text = NULL;
}

bool dlk_told_memory_merge(dlk_redis_told_memory *memory, const dlk_resp *pairs,
                           size_t count, bool whole, int64_t now, int64_t *unread)
{
    told_client *changed = malloc((count + 1) * sizeof(*changed));
    told_client *all = malloc((memory->client_count + count + 1) * sizeof(*all));
    size_t old = 0, at = 0, made = 0;
    if (!changed || !all) {
        free(changed);
        free(all);
        return false;
    }
    count = read_pairs(changed, pairs, count, unread);
    while (old < memory->client_count || at < count) {
        told_client *was = old < memory->client_count ? &memory->clients[old] : NULL;
        int order = !was ? 1 : at == count ? -1 : by_half(was, &changed[at]);
        if (order > 0) {
            all[made++] = changed[at++];
            continue;
        }
        bool same = order == 0 && was->ends == changed[at].ends && was->ends >= 0;
        if (order < 0 ? !whole && was->ends >= now : same)
            go_on(&all[made++], was);
        else if (order == 0)
            all[made++] = changed[at];
        free(was->text);
        old++;
        at += order == 0;
    }
    free(changed);
    free(memory->clients);
    memory->clients = all;
    memory->client_count = made;
    return true;
}

/* Texts are kept as long as they aren't too many. */
static void bound_texts(dlk_redis_told_memory *memory)
{
    size_t sum = 0;
    for (size_t i = 0; i < memory->client_count; i++) {
        told_client *client = &memory->clients[i];
        sum += client->size;
        if (sum <= TEXTS_MAX)
            continue;
        free(client->text);
        client->text = NULL;
    }
}

/* ---- Locks ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const told_lock *)a)->name, ((const told_lock *)b)->name);
}

void dlk_told_memory_keep(dlk_redis_told_memory *memory, told_lock *locks, size_t count)
{
    clear_locks(memory);
    if (count > 0)
        qsort(locks, count, sizeof(*locks), by_name);
    memory->locks = locks;
    memory->lock_count = count;
    bound_texts(memory);
}

told_lock *dlk_told_memory_of(dlk_redis_told_memory *memory, const char *name)
{
    const told_lock key = {.name = (char *)(uintptr_t)name};
    return memory->lock_count > 0 ? bsearch(&key, memory->locks, memory->lock_count,
                                            sizeof(*memory->locks), by_name)
                                  : NULL;
}

/* Of what is renewed in time two thirds of the lease are left at least, and what has less than half of it is late. What
 * is said of a lock needn't be asked anew before that, of some locks earlier: those that were asked about together
 * aren't again. */
static bool is_good(const told_lock *lock, int64_t now)
{
    int64_t gone = now - lock->at, part = (int64_t)(lock->lines % 256);
    if (!lock->owner || (lock->by_teller && lock->left < 0))
        return gone < GOOD_MS - GOOD_MS / 512 * part;
    return lock->by_teller && gone < HELD_MS - HELD_MS / 1024 * part &&
           lock->left - gone > lock->whole / 100 * 52 + lock->whole / 2560 * part;
}

told_lock *dlk_told_memory_find(dlk_redis_told_memory *memory, const char *name,
                                uint64_t lines, int64_t now)
{
    told_lock *lock = dlk_told_memory_of(memory, name);
    return lock && lock->lines == lines && is_good(lock, now) ? lock : NULL;
}
