/*
 * Which keys a lock has, and what an answer about them says.
 *
 *     <name>/<lease>                  mutex, election: as Go's package concurrency has them
 *     <name>/<lease><digit>           mutex, while that one is with a ticket, or who has used it (handoff.c)
 *     <name>\0rw/w/<lease>-<number>   a writer's place; \0rw/r/… a reader's
 *     <name>\0sem/<size>/<lease>-<number>   a place at a semaphore
 *     <name>\0late/<lease>            a fence against what comes late (leave.c); nobody's place
 *
 * Conditions lie apart: condition.c.
 *
 * No name has a '\0' in it, so ours are nobody's else. The order is that of creation, and the place
 * in it is the key's as long as it is there: a writer that turns into a reader keeps its key.
 */
#include "backends/etcd/inner.h"

#include "util/digits.h"
#include "util/error.h"
#include "util/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

/* The name with something behind it, which may begin with a '\0'. */
static dlk_etcd_bytes key_with(const dlk_etcd_key *home, const char *tail, size_t size)
{
    dlk_etcd_bytes key = {.data = malloc(home->size + size + 1)};
    if (!key.data)
        return key;
    memcpy(key.data, home->name, home->size);
    memcpy(key.data + home->size, tail, size);
    key.len = home->size + size;
    key.data[key.len] = '\0';
    return key;
}

#define KEY_WITH(home, tail) key_with((home), (tail), sizeof(tail) - 1)

#define SPAN_OF(home, begin, end)                                                        \
    ((dlk_etcd_span){KEY_WITH(home, begin), KEY_WITH(home, end)})

/* Those of its size, and all that have another. */
static void make_permits(dlk_etcd_key *home)
{
    char from[40], to[40];
    int size = snprintf(from, sizeof(from), "%csem/%" PRId64 "/", '\0', home->permits);
    memcpy(to, from, sizeof(to));
    to[size - 1]++;
    home->all = (dlk_etcd_span){key_with(home, from, (size_t)size),
                                key_with(home, to, (size_t)size)};
    home->others[0] = SPAN_OF(home, "\0rw/", "\0rw0");
    home->others[1] =
        (dlk_etcd_span){KEY_WITH(home, "\0sem/"), key_with(home, from, (size_t)size)};
    home->others[2] =
        (dlk_etcd_span){key_with(home, to, (size_t)size), KEY_WITH(home, "\0sem0")};
}

static void make_spans(dlk_etcd_key *home)
{
    home->mutexes = SPAN_OF(home, "/", "0");
    switch (home->line) {
    case DLK_ETCD_MUTEX:
        home->all = SPAN_OF(home, "/", "0");
        home->others[0] = SPAN_OF(home, "\0r", "\1"); /* both, but for the fence */
        break;
    case DLK_ETCD_RW:
        home->all = SPAN_OF(home, "\0rw/", "\0rw0");
        home->others[0] = SPAN_OF(home, "\0sem/", "\0sem0");
        home->writers = SPAN_OF(home, "\0rw/w/", "\0rw/w0");
        break;
    case DLK_ETCD_SEMAPHORE:
        make_permits(home);
        break;
    case DLK_ETCD_CONDITION:
        home->all = SPAN_OF(home, "\0w/", "\0w0");
        home->tally = KEY_WITH(home, "\0signals");
        break;
    }
}

static bool is_whole(const dlk_etcd_span *span)
{
    return span->from.data && span->to.data;
}

size_t dlk_etcd_layout_others(const dlk_etcd_key *home)
{
    switch (home->line) {
    case DLK_ETCD_SEMAPHORE:
        return 3;
    case DLK_ETCD_CONDITION:
        return 0;
    case DLK_ETCD_MUTEX:
    case DLK_ETCD_RW:
        break;
    }
    return 1;
}

static bool has_spans(const dlk_etcd_key *home)
{
    bool whole = is_whole(&home->mutexes) && is_whole(&home->all) &&
                 (home->line != DLK_ETCD_RW || is_whole(&home->writers)) &&
                 (home->line != DLK_ETCD_CONDITION || home->tally.data);
    for (size_t i = 0; i < dlk_etcd_layout_others(home); i++)
        whole = whole && is_whole(&home->others[i]);
    return whole;
}

dlock_err dlk_etcd_layout_open(dlk_etcd_key *home, dlock_error **err)
{
    home->line = home->base.kind == DLOCK_WRITE          ? DLK_ETCD_RW
                 : home->base.kind == DLOCK_SEMAPHORE    ? DLK_ETCD_SEMAPHORE
                 : home->base.kind == DLK_KIND_CONDITION ? DLK_ETCD_CONDITION
                                                         : DLK_ETCD_MUTEX;
    make_spans(home);
    return has_spans(home) ? DLOCK_OK : dlk_error_nomem(err);
}

static void free_span(dlk_etcd_span *span)
{
    dlk_etcd_bytes_free(&span->from);
    dlk_etcd_bytes_free(&span->to);
}

void dlk_etcd_layout_free(dlk_etcd_key *home)
{
    free_span(&home->all);
    free_span(&home->writers);
    free_span(&home->mutexes);
    for (size_t i = 0; i < 3; i++)
        free_span(&home->others[i]);
    dlk_etcd_bytes_free(&home->tally);
    dlk_etcd_bytes_free(&home->fence.key);
}

static char *put(char *to, const char *text, size_t size)
{
    memcpy(to, text, size);
    return to + size;
}

#define PUT(to, text) put((to), (text), sizeof(text) - 1)

static char *put_lease_and_number(char *to, const dlk_etcd_place *place)
{
    to = dlk_digits_put_hex(to, (uint64_t)place->et->lease);
    to = PUT(to, "-");
    return dlk_digits_put(to, place->base.number);
}

static dlk_etcd_bytes own_key(const dlk_etcd_place *place)
{
    char tail[96], *to = tail;
    uint64_t lease = (uint64_t)place->et->lease;
    unsigned spare = place->home->spare % 16;
    switch (place->home->line) {
    case DLK_ETCD_MUTEX:
        /* … and while a ticket, or who has used it, has that: one digit more than any lease has. */
        if (spare)
            to += snprintf(to, sizeof(tail), "/%016" PRIx64 "%x", lease, spare);
        else
            to = dlk_digits_put_hex(PUT(to, "/"), lease);
        break;
    case DLK_ETCD_RW:
        to = place->base.shared ? PUT(to, "\0rw/r/") : PUT(to, "\0rw/w/");
        to = put_lease_and_number(to, place);
        break;
    case DLK_ETCD_SEMAPHORE:
        to = dlk_digits_put(PUT(to, "\0sem/"), (uint64_t)place->home->permits);
        to = put_lease_and_number(PUT(to, "/"), place);
        break;
    case DLK_ETCD_CONDITION:
        to = put_lease_and_number(PUT(to, "\0w/"), place);
        break;
    }
    return key_with(place->home, tail, (size_t)(to - tail));
}

dlk_etcd_bytes dlk_etcd_layout_value(const dlk_etcd_place *place, bool reads)
{
    const dlk_etcd_key *home = place->home;
    const dlk_host *host = place->et->base.backend.host;
    const char *data = place->base.data ? place->base.data : "";
    size_t uuid = strlen(host->uuid), who = strlen(host->who), size = strlen(data);
    if (home->base.kind == DLOCK_ELECTION)
        return dlk_etcd_bytes_copy(data, size);
    dlk_etcd_bytes value = {.data = malloc(3 * DLK_DIGITS_MAX + 8 + uuid + who + size)};
    char *to = (char *)value.data;
    if (!to)
        return value;
    if (home->line == DLK_ETCD_RW)
        to = reads ? PUT(to, "R\n") : PUT(to, "W\n");
    if (home->line == DLK_ETCD_SEMAPHORE)
        to = PUT(dlk_digits_put(to, (uint64_t)place->weight), "\n");
    to = PUT(put(to, host->uuid, uuid), ":");
    to = PUT(dlk_digits_put(to, place->base.number), "\n");
    to = PUT(put(to, host->who, who), "\t");
    to = PUT(dlk_digits_put(to, (uint64_t)place->since_ms), "\n");
    to = put(to, data, size);
    *to = '\0';
    value.len = (size_t)(to - (char *)value.data);
    return value;
}

/* The one before went with its lease. */
static bool name_fence(dlk_etcd_key *home, int64_t lease)
{
    char tail[40];
    if (home->fence.key.data && home->fence.lease == lease)
        return true;
    dlk_etcd_bytes_free(&home->fence.key);
    int size = snprintf(tail, sizeof(tail), "%clate/%" PRIx64, '\0', (uint64_t)lease);
    home->fence.key = key_with(home, tail, (size_t)size);
    home->fence.lease = lease;
    home->fence.rev = 0;
    home->fence.wanted = false;
    return home->fence.key.data != NULL;
}

bool dlk_etcd_layout_name(dlk_etcd_place *place)
{
    if (place->et->lease == 0)
        return false; /* what goes with no lease would stay for ever */
    if (!place->key.data && !place->imports)
        place->key = own_key(place);
    if (!place->value.data)
        place->value = dlk_etcd_layout_value(place, place->base.shared);
    return name_fence(place->home, place->et->lease) &&
           (place->key.data || place->imports) && place->value.data;
}

bool dlk_etcd_layout_direct(const dlk_etcd_key *home, dlk_etcd_bytes key)
{
    if (home->line != DLK_ETCD_MUTEX)
        return true;
    size_t begin = home->size + 1;
    bool direct = key.len > begin;
    for (size_t i = begin; direct && i < key.len; i++)
        direct = memchr("0123456789abcdef", key.data[i], 16) != NULL;
    return direct;
}

static bool by_us(const dlk_etcd_place *place, const DlkEtcd__KeyValue *kv)
{
    return kv && kv->lease == place->et->lease;
}

bool dlk_etcd_layout_is_mine(const dlk_etcd_place *place, const DlkEtcd__KeyValue *kv)
{
    return by_us(place, kv) && dlk_etcd_bytes_same(kv->value, place->value);
}

/* Our key by name has another holder: it was handed on, and has maybe come back to us by a ticket; or it
 * is of another line that this client has for this name, as an election has beside a mutex. */
static bool is_anothers(const dlk_etcd_place *place, const DlkEtcd__KeyValue *kv)
{
    if (!by_us(place, kv))
        return place->home->line == DLK_ETCD_MUTEX;
    if (dlk_etcd_layout_is_mine(place, kv))
        return false;
    DLK_LIST_FOR (it, &place->et->base.places) {
        const dlk_etcd_place *other =
            dlk_etcd_place_of(DLK_LIST_ITEM(it, dlk_place, all));
        if (other != place && other->state != DLK_PLACE_NONE && other->key.data &&
            dlk_etcd_bytes_same(other->key, kv->key))
            return true;
    }
    return false;
}

/* ---- what is answered ---- */

static bool is_own(const dlk_etcd_place *place, const DlkEtcd__KeyValue *kv)
{
    return dlk_etcd_bytes_same(kv->key, place->key);
}

const DlkEtcd__KeyValue *dlk_etcd_layout_fenced(const dlk_etcd_place *place,
                                                const dlk_etcd_call *call)
{
    const DlkEtcd__KeyValue *kv = dlk_etcd_kv(dlk_etcd_found(call, 1), 0);
    bool ours = place->imports ? dlk_etcd_layout_is_mine(place, kv)
                               : kv && !is_anothers(place, kv) && by_us(place, kv);
    place->home->fence.rev = call->revision;
    place->home->fence.wanted = false;
    return ours ? kv : NULL;
}

/* The nearest one before us; the range is sorted backwards. */
static dlk_etcd_verdict nearest(const dlk_etcd_place *place,
                                const DlkEtcd__RangeResponse *range,
                                dlk_etcd_position *position)
{
    size_t count = dlk_etcd_kv_count(range);
    for (size_t i = 0; i < count; i++) {
        const DlkEtcd__KeyValue *kv = dlk_etcd_kv(range, i);
        position->below = kv->create_revision;
        if (is_own(place, kv) || !dlk_etcd_layout_direct(place->home, kv->key))
            continue;
        position->from = kv->key;
        return DLK_ETCD_BEHIND;
    }
    return count < DLK_ETCD_NEIGHBOURS ? DLK_ETCD_FIRST : DLK_ETCD_FURTHER;
}

/* The last writer before us who hasn't turned into a reader. */
static dlk_etcd_verdict behind_writer(const DlkEtcd__RangeResponse *range,
                                      dlk_etcd_position *position)
{
    for (size_t i = 0; i < dlk_etcd_kv_count(range); i++) {
        const DlkEtcd__KeyValue *kv = dlk_etcd_kv(range, i);
        if (kv->value.len >= 2 && memcmp(kv->value.data, "R\n", 2) == 0)
            continue;
        position->from = kv->key;
        return DLK_ETCD_BEHIND;
    }
    return DLK_ETCD_FIRST;
}

int64_t dlk_etcd_weight(dlk_etcd_bytes value)
{
    char first[16]; /* longer than any number of permits */
    size_t size = value.len < sizeof(first) - 1 ? value.len : sizeof(first) - 1;
    if (size > 0)
        memcpy(first, value.data, size);
    first[size] = '\0';
    bool number = first[0] >= '0' && first[0] <= '9';
    return dlk_number_before(first, "\n", 0, INT32_MAX, number ? INT32_MAX : 0);
}

static dlk_etcd_verdict among_permits(const dlk_etcd_place *place,
                                      const DlkEtcd__RangeResponse *range,
                                      dlk_etcd_position *position)
{
    const dlk_etcd_key *home = place->home;
    int64_t taken = 0;
    for (size_t i = 0; i < dlk_etcd_kv_count(range); i++) {
        const DlkEtcd__KeyValue *kv = dlk_etcd_kv(range, i);
        if (!is_own(place, kv))
            taken += dlk_etcd_weight(kv->value);
    }
    position->from = home->all.from;
    position->to = home->all.to;
    return taken + place->weight <= home->permits ? DLK_ETCD_FIRST : DLK_ETCD_BEHIND;
}

static dlk_etcd_verdict judge(const dlk_etcd_place *place,
                              const DlkEtcd__RangeResponse *range,
                              dlk_etcd_position *position)
{
    if (!range)
        return DLK_ETCD_UNCLEAR;
    switch (place->home->line) {
    case DLK_ETCD_MUTEX:
        return nearest(place, range, position);
    case DLK_ETCD_RW:
        return place->base.shared ? behind_writer(range, position)
                                  : nearest(place, range, position);
    case DLK_ETCD_SEMAPHORE:
        return among_permits(place, range, position);
    case DLK_ETCD_CONDITION:
        break; /* its own file's */
    }
    return DLK_ETCD_UNCLEAR;
}

static dlk_etcd_verdict conflict(const dlk_etcd_place *place, dlk_etcd_position *position)
{
    position->why = dlk_error_make(
        DLOCK_ECONFLICT,
        "etcd: somebody holds or wants a lock of another kind%s of this name",
        place->home->line == DLK_ETCD_SEMAPHORE ? ", or with other lock.permits," : "");
    return DLK_ETCD_REFUSED;
}

static bool has_mutex(const dlk_etcd_place *place, const DlkEtcd__RangeResponse *range)
{
    const dlk_etcd_key as_mutex = {.size = place->home->size, .line = DLK_ETCD_MUTEX};
    for (size_t i = 0; i < dlk_etcd_kv_count(range); i++)
        if (dlk_etcd_layout_direct(&as_mutex, dlk_etcd_kv(range, i)->key))
            return true;
    return false;
}

static dlk_etcd_verdict not_joined(const dlk_etcd_place *place, const dlk_etcd_call *call,
                                   dlk_etcd_position *position)
{
    const DlkEtcd__RangeResponse *own = dlk_etcd_found(call, 0);
    const DlkEtcd__RangeResponse *fence = dlk_etcd_found(call, 1);
    const DlkEtcd__RangeResponse *mutexes = dlk_etcd_found(call, 2);
    const DlkEtcd__KeyValue *kv = dlk_etcd_kv(own, 0), *fence_kv = dlk_etcd_kv(fence, 0);
    int64_t fence_rev = fence_kv ? fence_kv->mod_revision : 0;
    if (!own || !fence)
        return DLK_ETCD_UNCLEAR;
    if (!kv && fence_rev != place->home->fence.rev) {
        place->home->fence.rev = fence_rev;
        return DLK_ETCD_FENCED;
    }
    if (!kv && !place->loose && dlk_etcd_kv_count(mutexes) > 0 &&
        !has_mutex(place, mutexes))
        return DLK_ETCD_NESTED;
    if (!kv)
        return conflict(place, position);
    if (is_anothers(place, kv))
        return DLK_ETCD_TAKEN;
    position->rev = position->below = kv->create_revision;
    return position->rev > 0 ? DLK_ETCD_FURTHER : DLK_ETCD_UNCLEAR;
}

dlk_etcd_verdict dlk_etcd_layout_joined(const dlk_etcd_place *place,
                                        const dlk_etcd_call *call,
                                        dlk_etcd_position *position)
{
    *position = (dlk_etcd_position){0};
    if (call->revision <= 0) /* that would be our key's, or our token */
        return DLK_ETCD_UNCLEAR;
    if (!dlk_etcd_succeeded(call))
        return not_joined(place, call, position);
    position->rev = call->revision;
    if (place->home->line == DLK_ETCD_CONDITION)
        return dlk_etcd_condition_waits(place, position);
    if (has_mutex(place, dlk_etcd_found(call, 2)))
        return conflict(place, position);
    return judge(place, dlk_etcd_found(call, 1), position);
}

dlk_etcd_verdict dlk_etcd_layout_looked(const dlk_etcd_place *place,
                                        const dlk_etcd_call *call,
                                        dlk_etcd_position *position)
{
    const DlkEtcd__RangeResponse *own = dlk_etcd_found(call, 0);
    const DlkEtcd__KeyValue *kv = dlk_etcd_kv(own, 0);
    *position = (dlk_etcd_position){.rev = place->rev};
    if (!own || call->revision <= 0)
        return DLK_ETCD_UNCLEAR;
    bool there = kv && kv->create_revision == place->rev && by_us(place, kv);
    if (!there)
        return DLK_ETCD_MISSING;
    if (place->home->line == DLK_ETCD_CONDITION)
        return dlk_etcd_condition_judge(place, call, position);
    return judge(place, dlk_etcd_found(call, 1), position);
}
