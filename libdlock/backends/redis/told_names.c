/* What was told: the names to ask the service about, and what comes of that.
 *
 * Nobody vouches for what is told, and it is as old as a second or, of who died, minutes. So the locks of what looks
 * like a circle are asked about first, however few are to be listed; a holder whom the service doesn't know is
 * none, one that wasn't asked about is taken to get on, and so is who has permits that nobody tells of. */
#include "backends/redis/told_inner.h"

#include "backends/redis/keys.h"
#include "locks/deadlock.h"
#include "util/hash.h"
#include "util/info.h"
#include "util/who.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_semaphore(const told_line *one)
{
    return strcmp(one->kind, "semaphore") == 0;
}

/* Of one lock, as far as it is asked about. */
static bool is_same(const told_line *one, const told_line *other)
{
    return strcmp(one->name, other->name) == 0 &&
           is_semaphore(one) == is_semaphore(other);
}

static int by_name(const void *a, const void *b)
{
    const told_line *one = a, *other = b;
    int order = strcmp(one->name, other->name);
    if (order != 0)
        return order;
    if (is_semaphore(one) != is_semaphore(other))
        return is_semaphore(one) ? 1 : -1;
    if (one->waits != other->waits)
        return one->waits ? 1 : -1;
    return one->since_ms < other->since_ms ? -1 : one->since_ms > other->since_ms;
}

/* ---- Circles ---- */

static dlock_kind kind_of(const told_line *one)
{
    for (int kind = 1; kind < DLK_KIND_COUNT; kind++)
        if (dlk_kind_is_lock(kind) && strcmp(dlk_kind_of(kind)->name, one->kind) == 0)
            return (dlock_kind)kind;
    return DLOCK_MUTEX;
}

/* As the pure function has them: as many as the list's, in their order. NULL without memory. */
static dlk_deadlock_line *make_lines(const dlk_redis_told_list *list, bool checked)
{
    dlk_deadlock_line *lines = calloc(list->count + 1, sizeof(*lines));
    for (size_t i = 0; lines && i < list->count; i++) {
        const told_line *one = &list->lines[i];
        bool known = one->waits || !checked || (one->suspect && !one->denied);
        lines[i] = (dlk_deadlock_line){.client = one->by->uuid,
                                       .name = one->name,
                                       .thread = known ? one->thread : 0,
                                       .kind = kind_of(one),
                                       .waits = one->waits,
                                       .since = one->since_ms};
    }
    return lines;
}

/* All lines of the locks that somebody waits for for ever, were what is told true: whether a circle is one may hang
 * on others that are behind it, as of a semaphore on what each of its holders waits for. Without memory there are
 * none. */
static void find_suspects(dlk_redis_told_list *list)
{
    dlk_deadlocks all;
    dlk_deadlock_line *lines = make_lines(list, false);
    if (!lines || !dlk_deadlocks_find(lines, list->count, &all)) {
        free(lines);
        return;
    }
    for (size_t i = 0; i < list->count; i++)
        list->lines[i].suspect = all.stuck[i];
    dlk_deadlocks_free(&all);
    free(lines);
    for (size_t i = 1; i < list->count; i++)
        if (is_same(&list->lines[i - 1], &list->lines[i]))
            list->lines[i].suspect |= list->lines[i - 1].suspect;
    for (size_t i = list->count; i-- > 1;)
        if (is_same(&list->lines[i - 1], &list->lines[i]))
            list->lines[i - 1].suspect |= list->lines[i].suspect;
}

/* ---- What is known of a lock ---- */

/* The lines of the same lock end before this. */
static size_t end_of(const dlk_redis_told_list *list, size_t first)
{
    size_t end = first + 1;
    while (end < list->count && is_same(&list->lines[first], &list->lines[end]))
        end++;
    return end;
}

/* Of who has it and who waits, as they tell; not of when they began, for a wait is told anew as it goes on. */
static uint64_t hash_of(const dlk_redis_told_list *list, size_t first, size_t end)
{
    uint64_t hash = DLK_HASH_BEGIN;
    for (size_t i = first; i < end; i++) {
        const told_line *one = &list->lines[i];
        const uint64_t what[] = {one->number, one->thread, one->waits};
        hash = dlk_hash(hash, what, sizeof(what));
        hash = dlk_hash(hash, one->by->uuid, sizeof(one->by->uuid));
    }
    return hash;
}

static void find_known(dlk_redis_told_list *list)
{
    for (size_t i = 0, end; list->memory && i < list->count; i = end) {
        told_line *one = &list->lines[i];
        end = end_of(list, i);
        if (!one->suspect && !is_semaphore(one))
            one->known = dlk_told_memory_find(list->memory, one->name,
                                              hash_of(list, i, end), list->now_ms);
    }
}

/* ---- Names to ask about ---- */

static void sort(dlk_redis_told_list *list)
{
    if (list->sorted || list->count == 0)
        return;
    qsort(list->lines, list->count, sizeof(*list->lines), by_name);
    list->sorted = true;
    find_suspects(list);
    find_known(list);
}

static const char *name_of(told_line *one, bool permits)
{
    if (permits && !one->permits)
        one->permits = dlk_redis_derive(DLK_REDIS_PERMITS, one->name);
    return permits ? one->permits : one->name;
}

size_t dlk_redis_told_list_names(dlk_redis_told_list *list, bool permits, bool others,
                                 dlk_resp *ret, size_t most)
{
    size_t count = 0;
    told_cursor *at = &list->named[permits];
    sort(list);
    while (count < most) {
        if (at->next == list->count && (at->others || !others))
            break;
        if (at->next == list->count) {
            *at = (told_cursor){.others = true};
            continue;
        }
        told_line *one = &list->lines[at->next++];
        if (one->suspect == at->others || is_semaphore(one) != permits ||
            (at->next > 1 && is_same(one - 1, one)) || one->known)
            continue;
        one->asked = true;
        const char *name = name_of(one, permits);
        if (name)
            ret[count++] = (dlk_resp){.type = DLK_RESP_TEXT,
                                      .text = (char *)(uintptr_t)name,
                                      .size = strlen(name)};
    }
    return count;
}

bool dlk_redis_told_list_passed(dlk_redis_told_list *list, dlk_redis_held *ret)
{
    const told_cursor *at = &list->named[false];
    while (at->others && list->passed < at->next) {
        const told_line *one = &list->lines[list->passed++];
        if (!one->known || !one->known->owner)
            continue;
        int64_t gone = list->now_ms - one->known->at, left = one->known->left;
        *ret = (dlk_redis_held){.name = one->name,
                                .owner = one->known->owner,
                                .client = one->known->client,
                                .left = left < 0 ? left : left - gone};
        return true;
    }
    return false;
}

/* ---- What the service says ---- */

static size_t put_owner(const told_line *one, char to[DLK_UUID_SIZE + DLK_DIGITS_MAX])
{
    memcpy(to, one->by->uuid, DLK_UUID_SIZE - 1);
    to[DLK_UUID_SIZE - 1] = ':';
    char *end = dlk_digits_put(to + DLK_UUID_SIZE, one->number);
    *end = '\0';
    return (size_t)(end - to);
}

/* Of readers it names one. */
static bool is_denied(const told_line *one, const char *owner)
{
    char own[DLK_UUID_SIZE + DLK_DIGITS_MAX];
    (void)put_owner(one, own);
    return !owner || (kind_of(one) != DLOCK_READ && strcmp(own, owner) != 0);
}

/* More permits are taken than there are holders who tell of them, each of one at least. */
static void judge_permits(dlk_redis_told_list *list, size_t first, int64_t taken)
{
    int64_t holders = 0;
    size_t i = first;
    for (; i < list->count && is_same(&list->lines[first], &list->lines[i]); i++)
        holders += !list->lines[i].waits;
    bool all = taken > 0 && taken <= holders;
    for (; !all && i-- > first;)
        list->lines[i].denied |= !list->lines[i].waits;
}

void dlk_redis_told_list_judge(dlk_redis_told_list *list, dlk_redis_held_fn *held,
                               const void *of)
{
    for (size_t i = 0; i < list->count; i++) {
        told_line *one = &list->lines[i];
        dlk_redis_held has = {0};
        if (!one->suspect)
            continue;
        (void)held(of, one->name, &has);
        if (!is_semaphore(one))
            one->denied = !one->waits && is_denied(one, has.owner);
        else if (i == 0 || !is_same(one - 1, one))
            judge_permits(list, i, has.taken);
    }
}

/* ---- Remembering it ---- */

static bool is_told(const dlk_redis_told_list *list, size_t first, size_t end,
                    const char *owner)
{
    char own[DLK_UUID_SIZE + DLK_DIGITS_MAX];
    for (size_t i = first; i < end && !list->lines[i].waits; i++)
        if (put_owner(&list->lines[i], own) > 0 && strcmp(own, owner) == 0)
            return true;
    return false;
}

/* False without memory. */
static bool remember(const dlk_redis_told_list *list, size_t first,
                     const dlk_redis_held *has, told_lock *ret)
{
    size_t end = end_of(list, first);
    const char *name = list->lines[first].name;
    const told_lock *was = dlk_told_memory_of(list->memory, name);
    *ret = (told_lock){.name = strdup(name),
                       .lines = hash_of(list, first, end),
                       .left = has->left,
                       .whole = has->left,
                       .at = list->now_ms};
    if (!has->owner)
        return ret->name != NULL;
    ret->owner = strdup(has->owner);
    ret->client = strdup(has->client);
    ret->by_teller = is_told(list, first, end, has->owner);
    if (was && was->owner && strcmp(was->owner, has->owner) == 0 &&
        was->whole > ret->whole)
        ret->whole = was->whole;
    return ret->name && ret->owner && ret->client;
}

dlk_redis_told_memory *dlk_redis_told_list_remember(dlk_redis_told_list *list,
                                                    dlk_redis_held_fn *held,
                                                    const void *of)
{
    dlk_redis_told_memory *memory = list->memory;
    told_lock *locks = calloc(list->count + 1, sizeof(*locks));
    size_t made = 0;
    for (size_t i = 0; locks && i < list->count; i++) {
        const told_line *one = &list->lines[i];
        dlk_redis_held has = {.left = -1};
        if (!one->asked || is_semaphore(one))
            continue;
        (void)held(of, one->name, &has);
        if (remember(list, i, &has, &locks[made]))
            made++;
        else /* without memory: it is asked about anew */
            dlk_told_lock_clear(&locks[made]);
    }
    for (size_t i = 0; locks && i < list->count; i++) {
        told_lock *known = list->lines[i].known;
        if (!known)
            continue;
        locks[made++] = *known;
        *known = (told_lock){0};
    }
    dlk_told_memory_keep(memory, locks, made);
    list->memory = NULL;
    return memory;
}

/* ---- Telling ---- */

static void tell_who(dlock_info *info, const told_line *one, const char *list, size_t i)
{
    dlk_info_add_text(info, one->name, "%s.%zu.name", list, i);
    dlk_info_add_text(info, one->kind, "%s.%zu.kind", list, i);
    dlk_info_add_text(info, one->by->uuid, "%s.%zu.uuid", list, i);
    if (one->thread > 0)
        dlk_info_add_int(info, (int64_t)one->thread, "%s.%zu.thread", list, i);
    dlk_info_add_int(info, one->since_ms, "%s.%zu.since", list, i);
    (void)dlk_who_tell_text(info, one->by->who, strlen(one->by->who), list, i);
}

/* Those of semaphores are permits' ids. */
static bool has_owner(const told_line *one)
{
    return one->number > 0 && !is_semaphore(one);
}

static void tell_line(dlock_info *info, const told_line *one, size_t i)
{
    char owner[DLK_UUID_SIZE + DLK_DIGITS_MAX];
    tell_who(info, one, "told", i);
    dlk_info_add_text(info, one->waits ? "waiting" : "held", "told.%zu.state", i);
    if (has_owner(one) && put_owner(one, owner))
        dlk_info_add_text(info, owner, "told.%zu.owner", i);
}

/* They were read in the order of their uuids. */
const char *dlk_redis_told_list_who(const dlk_redis_told_list *list, const char *owner)
{
    size_t low = 0, high = list->who_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const told_by *by = list->parties[middle];
        int order = strncmp(by->uuid, owner, DLK_UUID_SIZE - 1);
        if (order == 0)
            return by->who;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* Its first line; as many as there are when nobody tells of it. */
static size_t first_of(const dlk_redis_told_list *list, const dlk_redis_held *held)
{
    size_t low = 0, high = list->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const told_line *one = &list->lines[middle];
        int order = strcmp(one->name, held->name);
        if (order < 0 || (order == 0 && held->taken > 0 && !is_semaphore(one)))
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < list->count && strcmp(list->lines[low].name, held->name) == 0 &&
                 is_semaphore(&list->lines[low]) == (held->taken > 0);
    return found ? low : list->count;
}

void dlk_redis_told_list_tell_lock(const dlk_redis_told_list *list,
                                   const dlk_redis_held *held, dlock_info *info, size_t i)
{
    char own[DLK_UUID_SIZE + DLK_DIGITS_MAX];
    size_t first = first_of(list, held), waits = 0;
    if (first == list->count)
        return;
    const told_line *one = &list->lines[first], *wait = NULL;
    if (!is_semaphore(one))
        dlk_info_add_text(info, one->kind, "locks.%zu.kind", i);
    for (size_t end = end_of(list, first); first < end; first++) {
        one = &list->lines[first];
        wait = one->waits && !wait ? one : wait;
        waits += one->waits;
        if (!one->waits && put_owner(one, own) > 0 && strcmp(own, held->owner) == 0)
            dlk_info_add_int(info, one->since_ms, "locks.%zu.since", i);
    }
    dlk_info_add_int(info, (int64_t)waits, "locks.%zu.waiters", i);
    if (wait)
        dlk_info_add_int(info, wait->since_ms, "locks.%zu.waiting.0.since", i);
}

/* The waits of a circle, each for what the next one has; who waits for the shortest time, and what that has. */
static void tell_circle(const dlk_redis_told_list *list, const dlk_deadlock_line *lines,
                        const dlk_deadlocks *all, size_t number, dlock_info *info)
{
    char waits[64], owner[DLK_UUID_SIZE + DLK_DIGITS_MAX];
    size_t begin = dlk_deadlock_begin(all, number), size = all->ends[number] - begin;
    size_t last = dlk_deadlock_youngest(lines, all, number) - begin;
    snprintf(waits, sizeof(waits), "deadlocks.%zu.waits", number);
    for (size_t i = 0; i < size; i++) {
        const dlk_deadlock_step *before = &all->steps[begin + (i + size - 1) % size];
        tell_who(info, &list->lines[all->steps[begin + i].waits], waits, i);
        dlk_info_add_text(info, list->lines[before->holds].name, "%s.%zu.has", waits, i);
        dlk_info_add_int(info, (int64_t)list->lines[before->holds].number, "%s.%zu.grant",
                         waits, i);
    }
    const told_line *has =
        &list->lines[all->steps[begin + (last + size - 1) % size].holds];
    dlk_info_add_int(info, (int64_t)last, "deadlocks.%zu.last", number);
    dlk_info_add_text(info, has->name, "deadlocks.%zu.break.name", number);
    dlk_info_add_text(info, has->kind, "deadlocks.%zu.break.kind", number);
    if (has_owner(has) && put_owner(has, owner))
        dlk_info_add_text(info, owner, "deadlocks.%zu.break.owner", number);
}

static bool tell_circles(const dlk_redis_told_list *list, dlock_info *info)
{
    dlk_deadlocks all;
    dlk_deadlock_line *lines = make_lines(list, true);
    bool fine = lines && dlk_deadlocks_find(lines, list->count, &all);
    for (size_t i = 0; fine && i < all.count; i++)
        tell_circle(list, lines, &all, i, info);
    if (fine)
        dlk_deadlocks_free(&all);
    free(lines);
    return fine;
}

bool dlk_redis_told_list_tell(const dlk_redis_told_list *list, dlock_info *info)
{
    for (size_t i = 0; i < list->count && (int64_t)i < list->limit; i++)
        tell_line(info, &list->lines[i], i);
    dlk_info_add_int(info, list->client_count, "clients");
    dlk_info_add_int(info, list->now_ms, "date");
    if (list->why[0])
        dlk_info_add_text(info, list->why, "scan.why");
    if (list->more > 0)
        dlk_info_add_int(info, list->more, "untold");
    if (list->cut)
        dlk_info_add_text(info, "more clients tell what they have than are asked",
                          "incomplete");
    if (list->unread > 0)
        dlk_info_add_int(info, list->unread, "unread");
    return tell_circles(list, info);
}
