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

#include "util/error.h"
#include "util/number.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* So many neighbours are looked at in one step: locks whose names go on behind this one's '/' have
 * keys among ours. */
#define NEIGHBOURS 8

static const dlk_etcd_span nothing;

/* ---- names ---- */

/* base64 of the name with something behind it, which may begin with a '\0'. */
static char *key_with(const dlk_etcd_key *home, const char *tail, size_t size)
{
    char *all = malloc(home->size + size);
    if (!all)
        return NULL;
    memcpy(all, home->name, home->size);
    memcpy(all + home->size, tail, size);
    char *text = dlk_base64(all, home->size + size);
    free(all);
    return text;
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
    return span->from && span->to;
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
                 (home->line != DLK_ETCD_CONDITION || home->tally);
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
    free(span->from);
    free(span->to);
    *span = nothing;
}

void dlk_etcd_layout_free(dlk_etcd_key *home)
{
    free_span(&home->all);
    free_span(&home->writers);
    free_span(&home->mutexes);
    for (size_t i = 0; i < 3; i++)
        free_span(&home->others[i]);
    free(home->tally);
    free(home->fence.key);
}

static char *own_key(const dlk_etcd_place *place)
{
    char tail[96];
    uint64_t lease = (uint64_t)place->et->lease;
    unsigned spare = place->home->spare % 16;
    int size = 0;
    switch (place->home->line) {
    case DLK_ETCD_MUTEX:
        /* … and while a ticket, or who has used it, has that: one digit more than any lease has. */
        size = spare ? snprintf(tail, sizeof(tail), "/%016" PRIx64 "%x", lease, spare)
                     : snprintf(tail, sizeof(tail), "/%" PRIx64, lease);
        break;
    case DLK_ETCD_RW:
        size = snprintf(tail, sizeof(tail), "%crw/%c/%" PRIx64 "-%" PRIu64, '\0',
                        place->base.shared ? 'r' : 'w', lease, place->base.number);
        break;
    case DLK_ETCD_SEMAPHORE:
        size = snprintf(tail, sizeof(tail), "%csem/%" PRId64 "/%" PRIx64 "-%" PRIu64,
                        '\0', place->home->permits, lease, place->base.number);
        break;
    case DLK_ETCD_CONDITION:
        size = snprintf(tail, sizeof(tail), "%cw/%" PRIx64 "-%" PRIu64, '\0', lease,
                        place->base.number);
        break;
    }
    return key_with(place->home, tail, (size_t)size);
}

char *dlk_etcd_layout_value(const dlk_etcd_place *place, bool reads)
{
    const dlk_etcd_key *home = place->home;
    const dlk_host *host = place->et->base.backend.host;
    const char *data = place->base.data ? place->base.data : "";
    char first[64] = "", *text = NULL;
    if (home->base.kind == DLOCK_ELECTION)
        return dlk_base64_text(data);
    if (home->line == DLK_ETCD_RW)
        (void)snprintf(first, sizeof(first), "%c\n", reads ? 'R' : 'W');
    if (home->line == DLK_ETCD_SEMAPHORE)
        (void)snprintf(first, sizeof(first), "%" PRId32 "\n", place->weight);
    if (asprintf(&text, "%s%s:%" PRIu64 "\n%s\t%" PRId64 "\n%s", first, host->uuid,
                 place->base.number, host->who, place->since_ms, data) < 0)
        return NULL;
    char *value = dlk_base64_text(text);
    free(text);
    return value;
}

/* The one before went with its lease. */
static bool name_fence(dlk_etcd_key *home, int64_t lease)
{
    char tail[40];
    if (home->fence.key && home->fence.lease == lease)
        return true;
    free(home->fence.key);
    int size = snprintf(tail, sizeof(tail), "%clate/%" PRIx64, '\0', (uint64_t)lease);
    home->fence.key = key_with(home, tail, (size_t)size);
    home->fence.lease = lease;
    home->fence.rev = 0;
    home->fence.wanted = false;
    return home->fence.key != NULL;
}

bool dlk_etcd_layout_name(dlk_etcd_place *place)
{
    if (place->et->lease == 0)
        return false; /* what goes with no lease would stay for ever */
    if (!place->key && !place->imports)
        place->key = own_key(place);
    if (!place->value)
        place->value = dlk_etcd_layout_value(place, place->base.shared);
    return name_fence(place->home, place->et->lease) && (place->key || place->imports) &&
           place->value;
}

bool dlk_etcd_layout_direct(const dlk_etcd_key *home, const char *key64)
{
    if (home->line != DLK_ETCD_MUTEX)
        return true;
    dlk_bytes key = dlk_base64_decode(key64);
    size_t begin = home->size + 1;
    bool direct = key.size > begin;
    for (size_t i = begin; direct && i < key.size; i++)
        direct = strchr("0123456789abcdef", key.data[i]) && key.data[i];
    free(key.data);
    return direct;
}

static bool by_us(const dlk_etcd_place *place, const json_t *kv)
{
    return dlk_json_int(kv, "lease") == place->et->lease;
}

bool dlk_etcd_layout_is_mine(const dlk_etcd_place *place, const json_t *kv)
{
    return by_us(place, kv) && strcmp(dlk_json_text(kv, "value"), place->value) == 0;
}

/* Our key by name has another holder: it was handed on, and has maybe come back to us by a ticket; or it
 * is of another line that this client has for this name, as an election has beside a mutex. */
static bool is_anothers(const dlk_etcd_place *place, const json_t *kv)
{
    if (!by_us(place, kv))
        return place->home->line == DLK_ETCD_MUTEX;
    if (dlk_etcd_layout_is_mine(place, kv))
        return false;
    DLK_LIST_FOR (it, &place->et->base.places) {
        const dlk_etcd_place *other =
            dlk_etcd_place_of(DLK_LIST_ITEM(it, dlk_place, all));
        if (other != place && other->state != DLK_PLACE_NONE && other->key &&
            strcmp(other->key, dlk_json_text(kv, "key")) == 0)
            return true;
    }
    return false;
}

/* ---- what is answered ---- */

static bool is_own(const dlk_etcd_place *place, const json_t *kv)
{
    return strcmp(dlk_json_text(kv, "key"), place->key) == 0;
}

const json_t *dlk_etcd_layout_fenced(const dlk_etcd_place *place,
                                     const dlk_etcd_call *call)
{
    const json_t *own = dlk_json_response(call->json, 1, "response_range");
    const json_t *kv = dlk_json_kv(own, 0);
    bool ours = place->imports ? dlk_etcd_layout_is_mine(place, kv)
                               : kv && !is_anothers(place, kv) && by_us(place, kv);
    place->home->fence.rev = call->revision;
    place->home->fence.wanted = false;
    return ours ? kv : NULL;
}

/* The nearest one before us; the range is sorted backwards. */
static dlk_etcd_verdict nearest(const dlk_etcd_place *place, const json_t *range,
                                dlk_etcd_position *position)
{
    size_t count = dlk_json_kv_count(range);
    for (size_t i = 0; i < count; i++) {
        const json_t *kv = dlk_json_kv(range, i);
        position->below = dlk_json_int(kv, "create_revision");
        if (is_own(place, kv) ||
            !dlk_etcd_layout_direct(place->home, dlk_json_text(kv, "key")))
            continue;
        position->from = dlk_json_text(kv, "key");
        return DLK_ETCD_BEHIND;
    }
    return count < NEIGHBOURS ? DLK_ETCD_FIRST : DLK_ETCD_FURTHER;
}

/* The last writer before us who hasn't turned into a reader. */
static dlk_etcd_verdict behind_writer(const json_t *range, dlk_etcd_position *position)
{
    for (size_t i = 0; i < dlk_json_kv_count(range); i++) {
        const json_t *kv = dlk_json_kv(range, i);
        dlk_bytes value = dlk_base64_decode(dlk_json_text(kv, "value"));
        bool reads = value.size >= 2 && memcmp(value.data, "R\n", 2) == 0;
        free(value.data);
        if (reads)
            continue;
        position->from = dlk_json_text(kv, "key");
        return DLK_ETCD_BEHIND;
    }
    return DLK_ETCD_FIRST;
}

int64_t dlk_etcd_weight(const char *value)
{
    bool number = *value >= '0' && *value <= '9';
    return dlk_number_before(value, "\n", 0, INT32_MAX, number ? INT32_MAX : 0);
}

static dlk_etcd_verdict among_permits(const dlk_etcd_place *place, const json_t *range,
                                      dlk_etcd_position *position)
{
    const dlk_etcd_key *home = place->home;
    int64_t taken = 0;
    for (size_t i = 0; i < dlk_json_kv_count(range); i++) {
        const json_t *kv = dlk_json_kv(range, i);
        errno = 0;
        dlk_bytes value = dlk_base64_decode(dlk_json_text(kv, "value"));
        if (!value.data && errno == ENOMEM) {
            position->why = dlk_error_make(DLOCK_ENOMEM, "etcd: out of memory");
            return DLK_ETCD_REFUSED;
        }
        if (!value.data)
            return DLK_ETCD_UNCLEAR;
        if (!is_own(place, kv))
            taken += dlk_etcd_weight(value.data);
        free(value.data);
    }
    position->from = home->all.from;
    position->to = home->all.to;
    return taken + place->weight <= home->permits ? DLK_ETCD_FIRST : DLK_ETCD_BEHIND;
}

static dlk_etcd_verdict judge(const dlk_etcd_place *place, const json_t *range,
                              dlk_etcd_position *position)
{
    if (!json_is_object(range))
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

static bool has_mutex(const dlk_etcd_place *place, const json_t *range)
{
    const dlk_etcd_key as_mutex = {.size = place->home->size, .line = DLK_ETCD_MUTEX};
    for (size_t i = 0; i < dlk_json_kv_count(range); i++)
        if (dlk_etcd_layout_direct(&as_mutex,
                                   dlk_json_text(dlk_json_kv(range, i), "key")))
            return true;
    return false;
}

static dlk_etcd_verdict not_joined(const dlk_etcd_place *place, const dlk_etcd_call *call,
                                   dlk_etcd_position *position)
{
    const json_t *own = dlk_json_response(call->json, 0, "response_range");
    const json_t *fence = dlk_json_response(call->json, 1, "response_range");
    const json_t *mutexes = dlk_json_response(call->json, 2, "response_range");
    const json_t *kv = dlk_json_kv(own, 0);
    int64_t fence_rev = dlk_json_int(dlk_json_kv(fence, 0), "mod_revision");
    if (!own || !fence)
        return DLK_ETCD_UNCLEAR;
    if (!kv && fence_rev != place->home->fence.rev) {
        place->home->fence.rev = fence_rev;
        return DLK_ETCD_FENCED;
    }
    if (!kv && !place->loose && dlk_json_kv_count(mutexes) > 0 &&
        !has_mutex(place, mutexes))
        return DLK_ETCD_NESTED;
    if (!kv)
        return conflict(place, position);
    if (is_anothers(place, kv))
        return DLK_ETCD_TAKEN;
    position->rev = position->below = dlk_json_int(kv, "create_revision");
    return position->rev > 0 ? DLK_ETCD_FURTHER : DLK_ETCD_UNCLEAR;
}

dlk_etcd_verdict dlk_etcd_layout_joined(const dlk_etcd_place *place,
                                        const dlk_etcd_call *call,
                                        dlk_etcd_position *position)
{
    *position = (dlk_etcd_position){0};
    if (call->revision <= 0) /* that would be our key's, or our token */
        return DLK_ETCD_UNCLEAR;
    if (!dlk_json_true(call->json, "succeeded"))
        return not_joined(place, call, position);
    position->rev = call->revision;
    if (place->home->line == DLK_ETCD_CONDITION)
        return dlk_etcd_condition_waits(place, position);
    if (has_mutex(place, dlk_json_response(call->json, 2, "response_range")))
        return conflict(place, position);
    return judge(place, dlk_json_response(call->json, 1, "response_range"), position);
}

dlk_etcd_verdict dlk_etcd_layout_looked(const dlk_etcd_place *place,
                                        const dlk_etcd_call *call,
                                        dlk_etcd_position *position)
{
    const json_t *own = dlk_json_response(call->json, 0, "response_range");
    const json_t *kv = dlk_json_kv(own, 0);
    *position = (dlk_etcd_position){.rev = place->rev};
    if (!json_is_object(own) || call->revision <= 0)
        return DLK_ETCD_UNCLEAR;
    bool there =
        kv && dlk_json_int(kv, "create_revision") == place->rev && by_us(place, kv);
    if (!there)
        return DLK_ETCD_MISSING;
    if (place->home->line == DLK_ETCD_CONDITION)
        return dlk_etcd_condition_judge(place, call, position);
    return judge(place, dlk_json_response(call->json, 1, "response_range"), position);
}
