/* Looking into a table: inspect and list; and break and revoke, which go by what was seen. */
#include "backends/local/inner.h"

#include "util/clock.h"
#include "util/kind.h"
#include "util/who.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOLDERS_MAX 128

void dlk_local_tell(dlk_ask *ask, dlock_info *info)
{
    if (dlk_info_failed(info)) {
        dlk_info_free(info);
        dlk_ask_refuse(ask, dlk_error_make(DLOCK_ENOMEM, "out of memory"));
        return;
    }
    ask->info = info;
    ask->reply = DLK_YES;
}

/* ---- who has it ---- */

/* The places of a row's line, one after the other, from a zeroed step on: false at the end. */
typedef struct step {
    uint32_t ref, count;
    const dlk_line_place *place;
} step;

static bool next_place(dlk_section *section, uint32_t row_ref, step *at)
{
    const dlk_table *table = section->table;
    const dlk_row *row = dlk_row_at(table, row_ref);
    if (!row || section->damaged)
        return false;
    at->ref = at->place ? DLK_GET(at->place->next) : DLK_GET(row->first);
    at->place = dlk_line_place_at(table, at->ref);
    if (at->place && at->count++ == table->place_count)
        section->damaged = true;
    return at->place && !section->damaged;
}

/* What a place says of a holder of a pool; false: it is none. */
static bool shares(const dlk_section *section, const dlk_line_place *place, int64_t now,
                   dlk_record *ret)
{
    *ret = (dlk_record){
        .owner = DLK_GET(place->owner),
        .number = DLK_GET(place->number),
        .token = DLK_GET(place->token),
        .until = DLK_GET(place->until),
        .at = dlk_at_of(0, dlk_line_place_kind(place)),
        .since = DLK_GET(place->since),
    };
    return dlk_is_pooled(ret->kind) && ret->token > 0 && ret->until > now &&
           dlk_member_of(section->table, ret->owner);
}

/* Those of a pool whose time is over are nobody, to whoever looks and whoever breaks. */
static void forget_late(dlk_section *section, uint32_t row, int64_t now)
{
    if (dlk_pool_is_here(section, row))
        (void)dlk_pool_settle(section, row, now); /* nobody asks until when */
}

/* ---- whose process that is ---- */

typedef struct party {
    char owner[DLK_OWNER_SIZE];
    uint32_t pid; /* 0: nobody's, it was exported */
    uint32_t since;
    char client[DLK_MEMBER_NAME];
} party;

/* Copies what is to be told, so that no memory is asked for inside the mutex. */
static void see_party(const dlk_section *section, uint32_t row, const dlk_record *record,
                      party *ret)
{
    const dlk_member *member = dlk_member_of(section->table, record->owner);
    dlk_table_owner_text(section, row, record, ret->owner);
    ret->pid = member ? (uint32_t)DLK_GET(member->word) : 0;
    ret->since = record->since;
    ret->client[0] = '\0';
    if (member)
        dlk_member_name(member, ret->client);
}

/* A table is this machine's alone. */
static void tell_party(dlock_info *info, const party *one, const char *list,
                       size_t number)
{
    dlk_info_add_text(info, one->owner, "%s.%zu.owner", list, number);
    if (one->pid == 0)
        return;
    dlk_who who = dlk_who_here(one->client);
    who.pid = one->pid;
    dlk_who_tell(info, &who, list, number);
}

/* What lies there is by the boot clock, and coarse; it is told by the wall clock of now. */
static void tell_since(dlock_info *info, const party *one, const char *list,
                       size_t number)
{
    int64_t ago_ms = dlk_date_ago(one->since, dlk_clock_now()) / DLK_NS_PER_MS;
    dlk_info_add_int(info, dlk_clock_date_ms() - ago_ms, "%s.%zu.since", list, number);
}

/* ---- inspect ---- */

typedef struct holder {
    dlk_record record;
    party who;
    uint32_t take;
} holder;

typedef struct view {
    uint32_t asked; /* the key's kind */
    uint32_t kind;
    int64_t holders; /* of which HOLDERS_MAX are shown */
    int64_t waiters, taken;
    uint32_t permits; /* 0: unknown */
    bool reads, publishes;
    char data[DLK_TABLE_NAME + 1];
    holder shown[HOLDERS_MAX];
    size_t waiting_count;
    party waiting[DLK_WAITING_MAX];
} view;

static void see_holder(const dlk_section *section, uint32_t row, const dlk_record *record,
                       uint32_t take, view *seen)
{
    seen->taken += take;
    seen->kind = record->kind;
    if (seen->holders++ >= HOLDERS_MAX)
        return;
    holder *one = &seen->shown[seen->holders - 1];
    one->record = *record;
    one->take = take;
    see_party(section, row, record, &one->who);
}

static void see_waiter(const dlk_local *local, const dlk_section *section, uint32_t row,
                       const dlk_record *record, view *seen)
{
    if (!dlk_member_of(section->table, record->owner))
        return;
    /* Our own of this kind the core counts, and those of another it doesn't look for. */
    seen->waiters += record->owner != local->owner || record->kind != seen->asked;
    if (seen->waiting_count < DLK_WAITING_MAX)
        see_party(section, row, record, &seen->waiting[seen->waiting_count++]);
}

static void inspect_line(const dlk_local *local, dlk_section *section, uint32_t ref,
                         int64_t now, view *seen)
{
    dlk_record record;
    for (step at = {.ref = 0}; next_place(section, ref, &at);) {
        if (shares(section, at.place, now, &record)) {
            uint32_t take = DLK_GET(at.place->take);
            seen->reads |= record.kind == DLOCK_WRITE && take != DLK_POOL_ALL;
            see_holder(section, ref, &record, take, seen);
        } else if (record.token == 0) {
            see_waiter(local, section, ref, &record, seen);
        }
    }
}

static void inspect_row(const dlk_local *local, dlk_section *section, uint32_t ref,
                        int64_t now, view *seen)
{
    dlk_record record;
    forget_late(section, ref, now);
    if (dlk_table_holder(section, ref, now, &record)) {
        see_holder(section, ref, &record, 0, seen);
        seen->publishes = record.owner != DLK_OWNER_EXPORTED &&
                          dlk_table_published(section, ref, record.token, seen->data);
    }
    inspect_line(local, section, ref, now, seen);
    if (dlk_pool_is_here(section, ref))
        seen->permits = DLK_GET(dlk_pool_at(section->table, ref)->size);
}

/* A holder who is dead, but hasn't been noticed, is noticed when somebody looks. */
static void notice_deaths(const dlk_local *local)
{
    if (local->table->shared)
        dlk_watch_reap(local->table);
}

static void tell_holder(dlock_info *info, const holder *one, int64_t index, int64_t now)
{
    bool permits = one->record.kind == DLOCK_SEMAPHORE;
    tell_party(info, &one->who, "holders", (size_t)index);
    tell_since(info, &one->who, "holders", (size_t)index);
    dlk_info_add_int(info, permits ? 0 : one->record.token, "holders.%" PRId64 ".token",
                     index);
    dlk_info_add_int(info, dlk_clock_ms_until(one->record.until, now, INT64_MAX),
                     "holders.%" PRId64 ".remaining_ms", index);
    dlk_info_add_int(info, permits ? one->take : 1, "holders.%" PRId64 ".count", index);
}

/* How many permits there are, where anybody says it. */
static void tell_permits(dlock_info *info, const dlk_ask *ask, const view *seen)
{
    const dlk_local_key *data = ask->key->data;
    bool here = seen->kind == DLOCK_SEMAPHORE && seen->permits != 0;
    int64_t permits = here ? seen->permits : data->permits;
    if (seen->kind != DLOCK_SEMAPHORE || permits == 0)
        return;
    dlk_info_add_int(info, permits, "permits");
    dlk_info_add_int(info, permits > seen->taken ? permits - seen->taken : 0,
                     "permits_free");
}

/* What the table says may be no kind at all. */
static const char *kind_name(const dlk_ask *ask, const view *seen)
{
    const dlk_kind_traits *kind = dlk_kind_of(seen->reads ? DLOCK_READ : (int)seen->kind);
    return kind ? kind->name : dlk_kind_of((int)ask->key->kind)->name;
}

static void tell(const dlk_local *local, dlk_ask *ask, const view *seen, int64_t now)
{
    dlock_info *info = dlk_info_new();
    dlk_info_add_int(info, seen->holders > 0, "held");
    dlk_info_add_text(info, kind_name(ask, seen), "kind");
    for (int64_t i = 0; i < seen->holders && i < HOLDERS_MAX; i++)
        tell_holder(info, &seen->shown[i], i, now);
    if (seen->publishes)
        dlk_info_add_text(info, seen->data, "holders.0.data");
    for (size_t i = 0; i < seen->waiting_count; i++) {
        tell_party(info, &seen->waiting[i], "waiting", i);
        tell_since(info, &seen->waiting[i], "waiting", i);
    }
    tell_permits(info, ask, seen);
    dlk_info_add_int(info, seen->waiters, "waiters");
    dlk_info_add_text(info, local->base.type->traits.layout, "layout");
    dlk_local_tell(ask, info);
}

void dlk_local_inspect(dlk_local *local, dlk_ask *ask, int64_t now)
{
    dlk_section section;
    view *seen = calloc(1, sizeof(*seen));
    if (!seen) {
        dlk_ask_refuse(ask, dlk_error_make(DLOCK_ENOMEM, "out of memory"));
        return;
    }
    seen->asked = seen->kind = (uint32_t)ask->key->kind;
    notice_deaths(local);
    if (dlk_local_enter(local, &section, ask, now)) {
        inspect_row(local, &section, dlk_local_row(&section, ask->key), now, seen);
        if (dlk_local_leave(local, &section, ask))
            tell(local, ask, seen, now);
    }
    free(seen);
}

/* ---- break ---- */

static bool is_meant(const dlk_section *section, uint32_t row, const dlk_ask *ask,
                     const dlk_record *record)
{
    char owner[DLK_OWNER_SIZE];
    dlk_table_owner_text(section, row, record, owner);
    return !ask->text || strcmp(ask->text, owner) == 0;
}

/* The first holder of a pool who is meant; 0: there is none (any more). */
static uint32_t meant_in_line(dlk_section *section, uint32_t row, const dlk_ask *ask,
                              int64_t now)
{
    dlk_record record;
    for (step at = {.ref = 0}; next_place(section, row, &at);)
        if (shares(section, at.place, now, &record) &&
            is_meant(section, row, ask, &record))
            return at.ref;
    return 0;
}

/* Those who are let in by it came later, and keep what they get. */
static bool break_shares(dlk_section *section, uint32_t row, const dlk_ask *ask,
                         int64_t now)
{
    uint32_t ref, last = 0;
    dlk_record record;
    for (step at = {.ref = 0}; next_place(section, row, &at);)
        last = shares(section, at.place, now, &record) ? at.ref : last;
    bool done = last == 0;
    while (!done && (ref = meant_in_line(section, row, ask, now)) != 0) {
        done = ref == last || ask->text;
        dlk_pool_drop(section, row, ref, now);
        if (done)
            return true;
    }
    return false;
}

/* What a key of this kind can't mean: nobody takes away, or asks for, what he knows by another kind. */
static bool is_other(dlk_section *section, uint32_t row, const dlk_ask *ask, int64_t now)
{
    uint32_t kind = (uint32_t)ask->key->kind;
    dlk_record record;
    step at = {.ref = 0};
    if (dlk_table_holder(section, row, now, &record))
        return dlk_is_pooled(kind);
    return dlk_pool_is_here(section, row) && next_place(section, row, &at) &&
           dlk_line_place_kind(at.place) != kind;
}

void dlk_local_break(dlk_local *local, dlk_ask *ask, int64_t now)
{
    dlk_section section;
    if (!dlk_local_enter(local, &section, ask, now))
        return;
    uint32_t row = dlk_local_row(&section, ask->key);
    dlk_record record;
    forget_late(&section, row, now);
    bool meant = false, other = is_other(&section, row, ask, now);
    if (!other && dlk_table_holder(&section, row, now, &record)) {
        meant = is_meant(&section, row, ask, &record);
        if (meant)
            dlk_table_evict(&section, row, now);
    } else if (!other) {
        meant = break_shares(&section, row, ask, now);
    }
    if (!dlk_local_leave(local, &section, ask))
        return;
    ask->reply = meant ? DLK_YES : DLK_NOT_OURS;
    if (other)
        dlk_local_refuse_kind(ask);
}

/* ---- revoke ---- */

typedef struct asked {
    int64_t holders, listeners;
} asked;

static void ask_holder(dlk_section *section, const dlk_record *record, asked *of)
{
    const dlk_member *member = dlk_member_of(section->table, record->owner);
    of->holders++;
    if (!member || DLK_GET(member->listens) == 0)
        return;
    of->listeners++;
    dlk_section_ring(section, (uint32_t)record->owner);
}

static asked ask_holders(dlk_section *section, uint32_t row, int64_t now)
{
    asked of = {0};
    dlk_record record;
    if (dlk_table_holder(section, row, now, &record))
        ask_holder(section, &record, &of);
    for (step at = {.ref = 0}; next_place(section, row, &at);)
        if (shares(section, at.place, now, &record))
            ask_holder(section, &record, &of);
    if (of.listeners > 0)
        dlk_table_revoke(section, row);
    return of;
}

void dlk_local_revoke(dlk_local *local, dlk_ask *ask, int64_t now)
{
    dlk_section section;
    asked of = {0};
    notice_deaths(local);
    if (!dlk_local_enter(local, &section, ask, now))
        return;
    uint32_t row = dlk_local_row(&section, ask->key);
    forget_late(&section, row, now);
    bool other = is_other(&section, row, ask, now);
    if (!other)
        of = ask_holders(&section, row, now);
    if (!dlk_local_leave(local, &section, ask))
        return;
    ask->reply = of.holders > 0 ? DLK_YES : DLK_NOT_OURS;
    if (other)
        dlk_local_refuse_kind(ask);
    else if (of.holders > 0 && of.listeners == 0)
        dlk_ask_refuse(ask, dlk_error_make(DLOCK_ENOTSUP,
                                           "no holder listens: it has not asked for the "
                                           "events of its hold, or has handed it on"));
}

/* ---- list ---- */

typedef struct entry {
    size_t size; /* 0: not in use */
    char name[DLK_TABLE_NAME + 1];
    party who;
    int64_t until; /* 0: nobody holds it just now */
} entry;

static void look_at_entry(dlk_section *section, uint32_t ref, int64_t now, entry *found)
{
    const dlk_row *row = dlk_row_at(section->table, ref);
    dlk_record record;
    forget_late(section, ref, now);
    bool held = dlk_table_holder(section, ref, now, &record);
    for (step at = {.ref = 0}; !held && next_place(section, ref, &at);)
        held = shares(section, at.place, now, &record);
    size_t size = (size_t)(atomic_load(&row->title) & 0xffff);
    found->size = 0;
    if (size > DLK_TABLE_NAME)
        section->damaged = true;
    if (section->damaged || (DLK_GET(row->first) == 0 && !held))
        return;
    found->size = size;
    memcpy(found->name, dlk_row_name(section->table, ref), size);
    found->name[size] = '\0';
    found->until = held ? record.until : 0;
    if (held)
        see_party(section, ref, &record, &found->who);
}

static void add_entry(dlock_info *info, const entry *found, int64_t number, int64_t now)
{
    dlk_info_add_text(info, found->name, "locks.%" PRId64 ".name", number);
    if (found->until == 0)
        return;
    tell_party(info, &found->who, "locks", (size_t)number);
    dlk_info_add_int(info, dlk_clock_ms_until(found->until, now, INT64_MAX),
                     "locks.%" PRId64 ".remaining_ms", number);
}

void dlk_local_list(dlk_local *local, dlk_ask *ask, int64_t now)
{
    dlk_section section;
    entry found;
    const char *prefix = ask->text ? ask->text : "";
    int64_t count = 0;
    uint32_t high = local->table->row_count;
    notice_deaths(local);
    dlock_info *info = dlk_info_new();
    /* A section for each lock: a long list must not keep everybody out. */
    for (uint32_t ref = 1; ref <= high && count < ask->limit; ref++) {
        if (!dlk_local_enter(local, &section, ask, now))
            break;
        high = dlk_table_used(&local->table->head->row_high, local->table->row_count);
        found.size = 0;
        if (ref <= high)
            look_at_entry(&section, ref, now, &found);
        if (!dlk_local_leave(local, &section, ask))
            break;
        if (found.size > 0 && strncmp(found.name, prefix, strlen(prefix)) == 0)
            add_entry(info, &found, count++, now);
    }
    if (ask->reply != DLK_PENDING) {
        dlk_info_free(info);
        return;
    }
    dlk_local_tell(ask, info);
}
