/*
 * One client's end of a table: being there, sleeping and being woken. What it asks is in asks.c.
 *
 * Everything is guarded by the client's mutex but `kick` and `sleep`, which touch only what is
 * atomic or frozen by `arm`. The bell is read BEFORE the turns are looked at, and `arm` goes by
 * that value: what is granted after the look has changed the bell, and `sleep` returns at once.
 */
#include "backends/local/inner.h"

#include "backends/local/process.h"
#include "util/clock.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE_MS       50
#define START_PATIENCE_MS 2000 /* nobody uses the client yet */
#define RETRY_MIN_MS      10
#define RETRY_MAX_MS      50
#define LOOK_MS           1000 /* the bell may be silenced by whoever else may write the file */
#define UNWATCHED_MS      100 /* how often to look for the dead when no thread could be had */

dlk_local *dlk_local_new(const dlk_backend_type *type, dlk_host *host)
{
    dlk_local *local = calloc(1, sizeof(*local));
    if (!local)
        return NULL;
    local->base = (dlk_backend){.type = type, .host = host};
    local->file.fd = -1;
    local->watch.wake = -1;
    dlk_list_init(&local->turns);
    dlk_list_init(&local->held);
    dlk_list_init(&local->spare);
    uint32_t pid = (uint32_t)getpid();
    local->who = (dlk_identity){.pid = pid, .started = dlk_process_started(pid)};
    return local;
}

/* ---- up and down ---- */

static void go_down(dlk_local *local, dlock_error *why, int64_t now)
{
    local->up = false;
    local->retry_ms = RETRY_MIN_MS;
    local->retry_at = now + local->retry_ms * DLK_NS_PER_MS;
    local->base.host->link(local->base.host, false, why);
}

static dlock_error *entry_error(const dlk_local *local, dlk_entry entry)
{
    char who[256];
    if (entry == DLK_ENTRY_BROKEN)
        return dlk_error_make(
            DLOCK_EPROTO,
            "the mutex of the table %s is broken; it heals when nobody has the "
            "file open",
            local->file.path);
    dlk_table_describe_inside(local->table, who, sizeof(who));
    return dlk_error_make(DLOCK_EUNAVAIL, "the table %s is held by %s", local->file.path,
                          who);
}

bool dlk_local_enter(dlk_local *local, dlk_section *section, dlk_ask *ask, int64_t now)
{
    dlk_entry entry = dlk_table_enter(local->table, section, PATIENCE_MS);
    if (entry == DLK_ENTERED)
        return true;
    ask->error = entry_error(local, entry);
    ask->reply = DLK_NOT_SENT;
    go_down(local, ask->error, now);
    return false;
}

bool dlk_local_leave(dlk_local *local, dlk_section *section, dlk_ask *ask)
{
    dlk_table_leave(section);
    if (!section->damaged)
        return true;
    dlk_ask_refuse(
        ask, dlk_error_make(DLOCK_EPROTO,
                            "the table %s is damaged; it is mended when nobody has it "
                            "open",
                            local->file.path ? local->file.path : "in memory"));
    return false;
}

static void say_whether_we_listen(dlk_local *local)
{
    dlk_member *me = atomic_load_explicit(&local->me, memory_order_relaxed);
    if (me)
        atomic_store(&me->listens, local->listens);
}

/* Enters, and takes a slot among the members if it hasn't one yet. */
static dlk_entry join(dlk_local *local, int patience)
{
    dlk_section section;
    dlk_entry entry = dlk_table_enter(local->table, &section, patience);
    if (entry != DLK_ENTERED)
        return entry;
    if (!local->owner) {
        local->who.uuid = local->base.host->uuid;
        local->who.name = local->base.host->name;
        dlk_member_let_go(&section, 0, dlk_clock_now());
        local->owner = dlk_member_join(&section, &local->who);
        atomic_store(&local->me, dlk_member_of(local->table, local->owner));
        say_whether_we_listen(local);
    }
    dlk_table_leave(&section);
    return entry;
}

/* Registers, or only sees whether the table can be entered again. NULL: it is up. */
static dlock_error *try_up(dlk_local *local, int patience)
{
    bool is_new = !local->owner && local->table->shared;
    dlk_entry entry = join(local, patience);
    if (entry == DLK_ENTERED && is_new) {
        /* As a member: if we die over it ourselves, that is seen, and whoever was given something
         * is woken all the same. The dead may also have had our slot. */
        dlk_watch_reap(local->table);
        if (!local->owner)
            entry = join(local, patience);
    }
    if (entry != DLK_ENTERED)
        return entry_error(local, entry);
    if (!local->owner)
        return dlk_error_make(
            DLOCK_EUNAVAIL,
            "the table %s has no place for another client; make it anew with a "
            "larger file.slots",
            local->file.path ? local->file.path : "in memory");
    return NULL;
}

static void come_up(dlk_local *local, int patience, int64_t now)
{
    dlock_error *why = try_up(local, patience);
    local->up = why == NULL;
    if (why) {
        local->retry_ms =
            local->retry_ms * 2 > RETRY_MAX_MS ? RETRY_MAX_MS : local->retry_ms * 2;
        local->retry_at = now + local->retry_ms * DLK_NS_PER_MS;
    }
    local->base.host->link(local->base.host, local->up, why);
    dlock_error_free(why);
}

void dlk_local_start(dlk_backend *backend, int64_t now)
{
    dlk_local *local = dlk_local_of(backend);
    local->retry_ms = RETRY_MIN_MS / 2;
    come_up(local, START_PATIENCE_MS, now);
}

static void free_turns(dlk_list *turns)
{
    dlk_list *node;
    while ((node = dlk_list_take_first(turns))) {
        dlk_local_turn *turn = DLK_LIST_ITEM(node, dlk_local_turn, all);
        dlk_list_remove(&turn->of_key);
        free(turn);
    }
}

void dlk_local_stop(dlk_backend *backend)
{
    dlk_local *local = dlk_local_of(backend);
    dlk_section section;
    local->up = false;
    local->stopped = true;
    free_turns(&local->turns);
    free_turns(&local->held);
    if (!local->owner)
        return;
    if (dlk_table_enter(local->table, &section, PATIENCE_MS) == DLK_ENTERED) {
        dlk_member_let_go(&section, local->owner, dlk_clock_now());
        dlk_table_leave(&section);
    }
    /* Not before those who got something were woken: who dies over that has to be missed. */
    dlk_member_vanish(local->table, local->owner);
}

void dlk_local_free(dlk_backend *backend)
{
    dlk_local *local = dlk_local_of(backend);
    dlk_watch_stop(&local->watch);
    free_turns(&local->spare);
    dlock_error_free(local->gone);
    local->leave(local);
    free(local);
}

/* ---- names ---- */

static uint32_t permits_of(const dlk_key *key)
{
    if (key->kind == DLK_KIND_CONDITION)
        return 0;
    return key->kind == DLOCK_SEMAPHORE
               ? (uint32_t)dlk_settings_int(key->settings, DLK_KEY_LOCK_PERMITS)
               : DLK_POOL_ALL;
}

dlock_err dlk_local_key_open(dlk_backend *backend, dlk_key *key, dlock_error **err)
{
    (void)backend;
    if (key->size < 1 || key->size > DLK_TABLE_NAME)
        return dlk_error_set(err, DLOCK_EINVAL, "a name has 1 to %d bytes, not %" PRIu32,
                             DLK_TABLE_NAME, key->size);
    dlk_local_key *data = calloc(1, sizeof(*data));
    if (!data)
        return dlk_error_nomem(err);
    dlk_list_init(&data->turns);
    data->hash = dlk_table_hash(key->name, key->size);
    data->permits = permits_of(key);
    key->queues = true;
    key->hands_on = key->told_exports = key->kind == DLOCK_MUTEX;
    key->data = data;
    return DLOCK_OK;
}

void dlk_local_key_close(dlk_backend *backend, dlk_key *key)
{
    /* There are none unless a release was never confirmed; then the table keeps the places until
     * we leave it. */
    dlk_local_key *data = key->data;
    dlk_list *node;
    while ((node = dlk_list_take_first(&data->turns))) {
        dlk_local_turn *turn = DLK_LIST_ITEM(node, dlk_local_turn, of_key);
        dlk_list_remove(&turn->all);
        dlk_list_append(&dlk_local_of(backend)->spare, &turn->all);
    }
    free(data);
    key->data = NULL;
}

/* ---- being asked for what we hold ---- */

void dlk_local_listen(dlk_backend *backend, int64_t now)
{
    dlk_local *local = dlk_local_of(backend);
    (void)now;
    if (local->listens)
        return;
    local->listens = true;
    local->wishes_heard = atomic_load(&local->table->head->wishes);
    say_whether_we_listen(local);
}

/* Tells the host which of ours in the row are wanted. False: the row can't be seen just now. */
static bool hear_wish(dlk_local *local, uint32_t row, int64_t wanted)
{
    dlk_host *host = local->base.host;
    dlk_section section;
    int64_t token, until;
    if (dlk_table_enter(local->table, &section, PATIENCE_MS) != DLK_ENTERED)
        return false;
    const dlk_record record = dlk_row_record(dlk_row_at(local->table, row));
    dlk_table_leave(&section);
    if (record.owner == local->owner && record.token <= wanted)
        host->revoked(host, record.number);
    /* Of pools we know which places are ours. */
    DLK_LIST_FOR (it, &local->held) {
        const dlk_local_turn *turn = DLK_LIST_ITEM(it, dlk_local_turn, all);
        const dlk_line_place *place = dlk_line_place_of(local->table, &turn->turn);
        if (place && dlk_line_place_row(place) == row &&
            dlk_turn_granted(local->table, &turn->turn, &token, &until) &&
            token <= wanted)
            host->revoked(host, turn->number);
    }
    return true;
}

/* What was revoked since we last looked: a look at each row, as seldom as anybody revokes. False: the
 * table can't be entered, so once more, a little later; who has been told may be told twice. */
static bool hear_wishes(dlk_local *local)
{
    const dlk_table *table = local->table;
    uint64_t wishes = atomic_load(&table->head->wishes);
    if (!local->listens || local->wishes_heard == wishes)
        return true;
    uint32_t used = dlk_table_used(&table->head->row_high, table->row_count);
    for (uint32_t row = 1; row <= used; row++) {
        int64_t wanted = dlk_table_wanted(table, row, local->wishes_heard);
        if (wanted != 0 && !hear_wish(local, row, wanted))
            return false;
    }
    local->wishes_heard = wishes;
    return true;
}

int64_t dlk_local_tick(dlk_backend *backend, int64_t now)
{
    dlk_local *local = dlk_local_of(backend);
    if (local->stopped)
        return DLK_NEVER;
    if (!local->up && now >= local->retry_at)
        come_up(local, 1, now);
    if (!local->up)
        return local->retry_at;
    /* The bell was read before, by process. */
    int64_t next = hear_wishes(local) ? DLK_NEVER : now + RETRY_MAX_MS * DLK_NS_PER_MS;
    if (!local->watching || local->watch.running || dlk_list_empty(&local->turns))
        return next;
    dlk_watch_step(&local->watch, 0);
    int64_t look_at = now + UNWATCHED_MS * DLK_NS_PER_MS;
    return next < look_at ? next : look_at;
}

/* ---- sleeping ---- */

void dlk_local_arm(dlk_backend *backend, dlk_polls *polls)
{
    dlk_local *local = dlk_local_of(backend);
    (void)polls;
    local->armed_me = atomic_load_explicit(&local->me, memory_order_relaxed);
    local->armed = local->armed_me ? &local->armed_me->bell : &local->own_bell;
    local->armed_value = local->seen;
}

void dlk_local_sleep(dlk_backend *backend, int64_t until, uint32_t seen)
{
    dlk_local *local = dlk_local_of(backend);
    if (local->armed_me && local->file.others_write) {
        int64_t look_at = dlk_clock_after(dlk_clock_now(), LOOK_MS);
        until = look_at < until ? look_at : until;
    }
    /* See dlk_member_ring: first say that we sleep, then look, and that in the kernel. The bell may be
     * another one than when we last looked at the turns: kicks from before that are counted. */
    if (local->armed_me)
        atomic_store(&local->armed_me->asleep, 1);
    if (dlk_kicks_seen(backend->host->kicks) == seen &&
        atomic_load(local->armed) == local->armed_value)
        dlk_futex_wait(local->armed, local->armed_value, until,
                       local->armed_me && local->table->shared);
    if (local->armed_me)
        atomic_store_explicit(&local->armed_me->asleep, 0, memory_order_relaxed);
}

void dlk_local_kick(dlk_backend *backend)
{
    dlk_local *local = dlk_local_of(backend);
    dlk_member *me = atomic_load(&local->me);
    atomic_fetch_add(&local->own_bell, 1);
    dlk_futex_wake(&local->own_bell, 1, false);
    if (me)
        dlk_member_ring(local->table, me);
}

/* Its turn has come, or has come and gone: a grant that nobody looked at in time went to somebody
 * else, and the place with it. */
static bool has_news(const dlk_local *local, const dlk_local_turn *turn)
{
    int64_t token, until;
    return dlk_turn_granted(local->table, &turn->turn, &token, &until) ||
           !dlk_turn_has_place(local->table, &turn->turn);
}

void dlk_local_process(dlk_backend *backend, int64_t now)
{
    dlk_local *local = dlk_local_of(backend);
    dlk_member *me = atomic_load_explicit(&local->me, memory_order_relaxed);
    (void)now; /* whether a grant is still in time is looked at when it is asked for */
    local->seen = atomic_load(me ? &me->bell : &local->own_bell);
    dlk_list news, *node;
    dlk_list_init(&news);
    DLK_LIST_FOR (it, &local->turns) {
        dlk_local_turn *turn = DLK_LIST_ITEM(it, dlk_local_turn, all);
        if (turn->told || !has_news(local, turn))
            continue;
        dlk_list_remove(it);
        dlk_list_append(&news, it);
    }
    /* The host may ask from inside, and so remove any of them from wherever it is. */
    while ((node = dlk_list_take_first(&news))) {
        dlk_local_turn *turn = DLK_LIST_ITEM(node, dlk_local_turn, all);
        dlk_list_append(&local->turns, node);
        turn->told = true;
        local->base.host->notified(local->base.host, turn->key);
    }
}
