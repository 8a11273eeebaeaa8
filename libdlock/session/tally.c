/* Who is signalled, by how many signals are out; see the header. */
#include "session/tally.h"

#include "util/error.h"
#include "util/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY_SIZE 48 /* as text, two numbers of 64 bits */

/* ---- as text ---- */

/* "<last>:<count>", of so many bytes. */
static bool read_entry(const char *at, size_t size, int64_t least, dlk_tally_entry *ret)
{
    const char *colon = memchr(at, ':', size);
    size_t before = colon ? (size_t)(colon - at) : 0;
    return colon && dlk_number_read(at, before, least, INT64_MAX, &ret->last) &&
           dlk_number_read(colon + 1, size - before - 1, 1, INT64_MAX, &ret->count);
}

dlock_err dlk_tally_read(dlk_tally *ret, const char *text, const char *what,
                         dlock_error **err)
{
    size_t most = 1;
    for (const char *at = text; (at = strchr(at, ' ')); at++)
        most++;
    *ret = (dlk_tally){.entries = calloc(most, sizeof(*ret->entries))};
    if (!ret->entries)
        return dlk_error_nomem(err);
    int64_t least = 0;
    for (const char *at = text; *at;) {
        size_t size = strcspn(at, " ");
        dlk_tally_entry *entry = &ret->entries[ret->count++];
        if (!read_entry(at, size, least, entry)) {
            dlk_tally_free(ret);
            return dlk_error_set(
                err, DLOCK_EPROTO,
                "%s: what lies at this condition says nothing of signals", what);
        }
        least = entry->last;
        at += size;
        at += *at == ' ';
    }
    return DLOCK_OK;
}

void dlk_tally_free(dlk_tally *tally)
{
    free(tally->entries);
    *tally = (dlk_tally){.count = 0};
}

char *dlk_tally_text(const dlk_tally *tally)
{
    char *text = malloc(tally->count * ENTRY_SIZE + 1), *at = text;
    if (!text)
        return NULL;
    *at = '\0';
    for (size_t i = 0; i < tally->count; i++)
        at += snprintf(at, ENTRY_SIZE, "%s%" PRId64 ":%" PRId64, i ? " " : "",
                       tally->entries[i].last, tally->entries[i].count);
    return text;
}

/* ---- who is signalled ---- */

/* So many of those behind the first @p done, who have theirs, an entry reaches. */
static size_t reached(const dlk_tally_entry *entry, dlk_queue line, size_t done)
{
    size_t end = done;
    while (end < line.count && line.places[end] <= entry->last &&
           (int64_t)(end - done) < entry->count)
        end++;
    return end - done;
}

size_t dlk_tally_signalled(const dlk_tally *tally, dlk_queue line)
{
    size_t done = 0;
    for (size_t i = 0; i < tally->count; i++)
        done += reached(&tally->entries[i], line, done);
    return done;
}

/* Takes out what reaches nobody any more: the first in the line stands at @p first. */
static void prune(dlk_tally *tally, int64_t first)
{
    size_t kept = 0;
    for (size_t i = 0; i < tally->count; i++)
        if (tally->entries[i].last >= first && tally->entries[i].count > 0)
            tally->entries[kept++] = tally->entries[i];
    tally->count = kept;
}

/* Takes out what is over, as those it was for have gone; and says how many are signalled. What was given since the
 * line was read is left. */
static size_t take_excess(dlk_tally *tally, dlk_queue line)
{
    size_t done = 0;
    for (size_t i = 0; i < tally->count && line.count > 0; i++) {
        dlk_tally_entry *entry = &tally->entries[i];
        size_t count = reached(entry, line, done);
        done += count;
        if (entry->last <= line.places[line.count - 1])
            entry->count = (int64_t)count;
    }
    prune(tally, line.count > 0 ? line.places[0] : INT64_MAX);
    return done;
}

bool dlk_tally_add(dlk_tally *tally, dlk_queue line, int64_t wanted, size_t *ret)
{
    size_t waits = line.count - take_excess(tally, line);
    *ret = wanted < (int64_t)waits ? (size_t)wanted : waits;
    if (*ret == 0)
        return true;
    int64_t last = line.places[line.count - 1];
    size_t size = (tally->count + 1) * sizeof(*tally->entries);
    dlk_tally_entry *entries = realloc(tally->entries, size);
    if (!entries)
        return false;
    tally->entries = entries;
    dlk_tally_entry *end = tally->count ? &entries[tally->count - 1] : NULL;
    if (end && end->last >= last) /* nobody has come since */
        end->count = dlk_number_sum(end->count, (int64_t)*ret);
    else
        entries[tally->count++] = (dlk_tally_entry){last, (int64_t)*ret};
    return true;
}

void dlk_tally_use(dlk_tally *tally, dlk_queue line, int64_t place)
{
    size_t first = line.count > 0 && line.places[0] == place;
    size_t signalled = dlk_tally_signalled(tally, line);
    bool has_one = false;
    for (size_t i = 0; i < signalled && !has_one; i++)
        has_one = line.places[i] == place;
    for (size_t i = 0; i < tally->count && has_one; i++) {
        if (tally->entries[i].last < place)
            continue;
        tally->entries[i].count--;
        break;
    }
    prune(tally, line.count > first ? line.places[first] : INT64_MAX);
}
