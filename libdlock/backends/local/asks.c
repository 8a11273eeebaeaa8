/* What a client asks of its table, and what the table makes of it. */
#include "backends/local/inner.h"

#include "util/clock.h"

#include <stdlib.h>
#include <string.h>

#define CHECK_NS DLK_NS_PER_SEC /* how often the file is looked at */

static dlk_local_key *data_of(const dlk_key *key)
{
    return key->data;
}

/* ---- our places in lines ---- */

static dlk_local_turn *find_turn(const dlk_ask *ask)
{
    DLK_LIST_FOR (it, &data_of(ask->key)->turns) {
        dlk_local_turn *turn = DLK_LIST_ITEM(it, dlk_local_turn, of_key);
        if (turn->number == ask->number)
            return turn;
    }
    return NULL;
}

/* False without memory. */
static bool has_spare(dlk_local *local)
{
    if (!dlk_list_empty(&local->spare))
        return true;
    dlk_local_turn *turn = calloc(1, sizeof(*turn));
    if (!turn)
        return false;
    dlk_list_init(&turn->of_key);
    dlk_list_append(&local->spare, &turn->all);
    return true;
}

static dlk_local_turn *keep_turn(dlk_local *local, const dlk_ask *ask,
                                 const dlk_turn *own)
{
    dlk_local_turn *turn =
        DLK_LIST_ITEM(dlk_list_take_first(&local->spare), dlk_local_turn, all);
    turn->key = ask->key;
    turn->number = ask->number;
    turn->turn = *own;
    turn->told = false;
    dlk_list_append(&local->turns, &turn->all);
    dlk_list_append(&data_of(ask->key)->turns, &turn->of_key);
    return turn;
}

/* Its place is a holder's from now on: there is nothing more to be told. */
static void keep_held(dlk_local *local, dlk_local_turn *turn)
{
    dlk_list_remove(&turn->all);
    dlk_list_append(&local->held, &turn->all);
}

static void drop_turn(dlk_local *local, dlk_local_turn *turn)
{
    dlk_list_remove(&turn->all);
    dlk_list_remove(&turn->of_key);
    dlk_list_append(&local->spare, &turn->all);
}

/* ---- acquire ---- */

static bool is_pooled(const dlk_ask *ask)
{
    return dlk_is_pooled((uint32_t)ask->key->kind);
}

static dlk_request request_of(const dlk_local *local, const dlk_ask *ask, int64_t now)
{
    dlk_request request = {
        .owner = local->owner,
        .number = ask->number,
        .ttl = ask->ttl_ms * DLK_NS_PER_MS,
        .now = now,
        .kind = (uint32_t)ask->key->kind,
        .once = ask->once,
        .used = ask->used != 0,
    };
    if (is_pooled(ask)) {
        bool writes = ask->key->kind == DLOCK_WRITE && !ask->shared;
        request.permits = data_of(ask->key)->permits;
        request.take = writes ? DLK_POOL_ALL : (uint32_t)ask->take;
    }
    return request;
}

static dlk_reply refuse(const dlk_local *local, dlk_ask *ask, const char *what)
{
    return dlk_ask_refuse(
        ask, dlk_error_make(DLOCK_EOVERFLOW, "the table %s %s",
                            local->file.path ? local->file.path : "in memory", what));
}

/* True: refused, since nothing is granted in a file that others may have left. */
static bool refuse_gone(const dlk_local *local, dlk_ask *ask)
{
    if (local->gone)
        dlk_ask_refuse(ask, dlk_error_copy(local->gone));
    return local->gone != NULL;
}

static const char given_out[] = "has given all its tokens";

/* The watch for the deaths of others begins when somebody first has to wait for them. */
static void watch_others(dlk_local *local)
{
    if (!local->table->shared)
        return;
    if (!local->watching) {
        local->watching = true;
        if (!dlk_watch_start(&local->watch, local->table, local->owner))
            local->base.host->log(
                local->base.host, DLOCK_LOG_WARN,
                "%s: no thread to watch other processes; their deaths are "
                "noticed later",
                local->file.path);
    }
    dlk_watch_scan(&local->watch);
}

static void held(dlk_local *local, dlk_ask *ask, dlk_local_turn *turn,
                 const dlk_turn *own, int64_t until, int64_t now)
{
    ask->wait_ms = dlk_clock_ms_until(until, now, INT64_MAX / DLK_NS_PER_MS) + 1;
    ask->reply = DLK_HELD;
    ask->no_place = own->ticket == 0;
    if (ask->no_place)
        return;
    ask->new_place = !turn || turn->turn.ticket != own->ticket;
    if (turn) {
        turn->turn = *own;
        turn->told = false; /* what it was told is over; it waits for the next */
        dlk_list_remove(&turn->all);
        dlk_list_append(&local->turns, &turn->all);
    } else {
        keep_turn(local, ask, own);
    }
    watch_others(local);
}

/* Of a semaphore's grants none is the later one. */
static int64_t token_for(const dlk_ask *ask, int64_t token)
{
    return ask->key->kind == DLOCK_SEMAPHORE ? 0 : token;
}

static void granted(dlk_local *local, dlk_ask *ask, dlk_local_turn *turn,
                    const dlk_turn *own)
{
    ask->token = token_for(ask, ask->token);
    ask->lasts = true;
    ask->reply = DLK_YES;
    if (!is_pooled(ask))
        return;
    if (turn)
        turn->turn = *own;
    else
        turn = keep_turn(local, ask, own);
    keep_held(local, turn);
}

/* About the size of a pool. */
static void disagree(dlk_ask *ask, dlk_outcome outcome, uint32_t permits)
{
    dlock_error *error;
    if (outcome == DLK_OTHER_SIZE)
        error = dlk_error_make(DLOCK_ECONFLICT,
                               "the semaphore has %u permits, lock.permits says %u",
                               permits, data_of(ask->key)->permits);
    else if (outcome == DLK_NO_SIZE)
        error = dlk_error_make(DLOCK_EINVAL, "nobody uses this semaphore just now, and "
                                             "only its users know how large it is; set "
                                             "lock.permits to make it");
    else
        error = dlk_error_make(DLOCK_EINVAL,
                               "lock.take=%d is more than the %u permits there are",
                               (int)ask->take, permits);
    dlk_ask_refuse(ask, error);
}

/* Of those who share a lock none does: there is room for one text. */
static bool publishes(const dlk_ask *ask)
{
    return dlk_ask_data(ask)[0] != '\0' && !is_pooled(ask);
}

static void acquire_inside(dlk_local *local, dlk_ask *ask, dlk_local_turn *turn,
                           int64_t now)
{
    dlk_section section;
    dlk_turn own = turn ? turn->turn : (dlk_turn){.place = 0};
    dlk_outcome outcome = DLK_NOTHING;
    int64_t until = 0;
    uint32_t permits = 0;
    if (!dlk_local_enter(local, &section, ask, now))
        return;
    dlk_request request = request_of(local, ask, now);
    uint32_t row = dlk_local_row_made(&section, ask->key, now);
    if (row != 0)
        outcome = dlk_table_acquire(&section, row, &request, &own, &ask->token, &until);
    else
        dlk_turn_end(&section, &own);
    if (outcome == DLK_GRANTED && publishes(ask))
        dlk_table_publish(&section, row, ask->token, dlk_ask_data(ask));
    if (outcome == DLK_OTHER_SIZE || outcome == DLK_TOO_MANY)
        permits = DLK_GET(dlk_pool_at(local->table, row)->size);
    bool fine = dlk_local_leave(local, &section, ask);
    if (turn && own.ticket == 0)
        drop_turn(local, turn); /* granted, or refused for good */
    if (!fine)
        return;
    switch (outcome) {
    case DLK_GRANTED:
        granted(local, ask, turn, &own);
        return;
    case DLK_QUEUED:
        held(local, ask, turn, &own, until, now);
        return;
    case DLK_NO_PLACE:
        refuse(local, ask,
               "is full of those who wait and who share; make it anew with a larger "
               "file.slots");
        return;
    case DLK_NO_TOKEN:
        refuse(local, ask, given_out);
        return;
    case DLK_OTHER_KIND:
        dlk_local_refuse_kind(ask);
        return;
    case DLK_OTHER_SIZE:
    case DLK_NO_SIZE:
    case DLK_TOO_MANY:
        disagree(ask, outcome, permits);
        return;
    case DLK_NOTHING:
        refuse(local, ask, "is full of locks; make it anew with a larger file.slots");
        return;
    }
}

static void acquire(dlk_local *local, dlk_ask *ask, int64_t now)
{
    dlk_local_turn *turn = find_turn(ask);
    int64_t token, until;
    if (refuse_gone(local, ask))
        return;
    if (turn && !publishes(ask) && /* which is done inside */
        dlk_turn_granted(local->table, &turn->turn, &token, &until) && until > now) {
        int64_t since = until - ask->ttl_ms * DLK_NS_PER_MS;
        ask->since = since < ask->since ? since : ask->since;
        ask->token = token_for(ask, token);
        ask->lasts = true; /* from when it was handed over */
        ask->reply = DLK_YES;
        if (is_pooled(ask))
            keep_held(local, turn);
        else
            drop_turn(local, turn); /* the place goes with the lock */
        return;
    }
    if (!turn && !has_spare(local)) {
        dlk_ask_refuse(ask, dlk_error_make(DLOCK_ENOMEM, "out of memory"));
        return;
    }
    acquire_inside(local, ask, turn, now);
}

/* ---- renew, release, verify ---- */

/* Where the place is that they hold a pool by. */
static dlk_turn share_of(const dlk_ask *ask)
{
    const dlk_local_turn *turn = is_pooled(ask) ? find_turn(ask) : NULL;
    return turn ? turn->turn : (dlk_turn){.place = 0};
}

/* They hear that it isn't theirs, and then nobody releases it. */
static void forget_taken(dlk_local *local, const dlk_ask *ask)
{
    dlk_local_turn *turn = is_pooled(ask) ? find_turn(ask) : NULL;
    if (turn && !dlk_turn_has_place(local->table, &turn->turn))
        drop_turn(local, turn);
}

static void renew(dlk_local *local, dlk_ask *ask, int64_t now)
{
    dlk_section section;
    bool ours = false;
    ask->reply = DLK_NOT_OURS;
    if (local->gone || !dlk_local_enter(local, &section, ask, now))
        return;
    uint32_t row = dlk_local_row(&section, ask->key);
    if (row != 0) {
        dlk_request request = request_of(local, ask, now);
        dlk_turn own = share_of(ask);
        ours = dlk_table_renew(&section, row, &request, &own);
    }
    if (dlk_local_leave(local, &section, ask))
        ask->reply = ours ? DLK_YES : DLK_NOT_OURS;
    ask->lasts = ours;
    if (ask->reply == DLK_NOT_OURS)
        forget_taken(local, ask);
}

static void verify(dlk_local *local, dlk_ask *ask, int64_t now)
{
    dlk_section section;
    ask->reply = DLK_NOT_OURS;
    if (local->gone || !dlk_local_enter(local, &section, ask, now))
        return;
    uint32_t row = dlk_local_row(&section, ask->key);
    dlk_request request = request_of(local, ask, now);
    dlk_turn own = share_of(ask);
    bool ours = dlk_table_has(&section, row, &request, &own);
    if (dlk_local_leave(local, &section, ask))
        ask->reply = ours ? DLK_YES : DLK_NOT_OURS;
    if (ask->reply == DLK_NOT_OURS)
        forget_taken(local, ask);
}

static void release(dlk_local *local, dlk_ask *ask, int64_t now)
{
    dlk_section section;
    dlk_local_turn *turn = find_turn(ask);
    dlk_turn own = turn ? turn->turn : (dlk_turn){.place = 0};
    bool ours = false;
    if (!dlk_local_enter(local, &section, ask, now))
        return;
    uint32_t row = dlk_local_row(&section, ask->key);
    if (row != 0) {
        dlk_request request = request_of(local, ask, now);
        ours = ask->exported ? dlk_table_export(&section, row, &request)
                             : dlk_table_release(&section, row, &request, &own);
    }
    if (own.ticket != 0)
        dlk_turn_end(&section, &own);
    if (turn)
        drop_turn(local, turn);
    if (dlk_local_leave(local, &section, ask))
        ask->reply = ours ? DLK_YES : DLK_NOT_OURS;
}

/* ---- import ---- */

static void import(dlk_local *local, dlk_ask *ask, int64_t now)
{
    dlk_section section;
    if (!ask->key->hands_on || !ask->text) {
        dlk_ask_refuse(ask, dlk_error_make(DLOCK_ENOTSUP, "only mutexes are handed on"));
        return;
    }
    if (refuse_gone(local, ask) || !dlk_local_enter(local, &section, ask, now))
        return;
    uint32_t row = dlk_local_row(&section, ask->key);
    dlk_request request = request_of(local, ask, now);
    bool ours = dlk_table_import(&section, row, &request, ask->text, &ask->token);
    if (ours && ask->token != 0 && publishes(ask))
        dlk_table_publish(&section, row, ask->token, dlk_ask_data(ask));
    if (!dlk_local_leave(local, &section, ask))
        return;
    ask->reply = ours ? DLK_YES : DLK_NOT_OURS;
    ask->lasts = ours;
    if (ours && ask->token == 0)
        refuse(local, ask, given_out);
}

/* ---- signal ---- */

static void signal_waiters(dlk_local *local, dlk_ask *ask, int64_t now)
{
    dlk_section section;
    if (refuse_gone(local, ask) || !dlk_local_enter(local, &section, ask, now))
        return;
    uint32_t row = dlk_local_row(&section, ask->key);
    int64_t signalled = dlk_pool_signal(&section, row, ask->limit, now);
    if (!dlk_local_leave(local, &section, ask))
        return;
    if (signalled < 0) {
        dlk_local_refuse_kind(ask);
        return;
    }
    dlock_info *info = dlk_info_new();
    dlk_info_add_int(info, signalled, "signalled");
    dlk_local_tell(ask, info);
}

/* ---- all of them ---- */

/* Now and then: is the file still what others lock in? */
static void check_file(dlk_local *local, int64_t now)
{
    local->check_at = now + CHECK_NS;
    if (!local->table->shared || local->gone ||
        dlk_file_check(&local->file, local->table, &local->gone) == DLOCK_OK)
        return;
    if (dlk_file_is_truncated(&local->file, local->table))
        dlk_file_sink(local->table);
    local->base.host->log(local->base.host, DLOCK_LOG_ERROR, "%s",
                          dlock_error_text(local->gone));
}

void dlk_local_ask(dlk_backend *backend, dlk_ask *ask, int64_t now)
{
    dlk_local *local = dlk_local_of(backend);
    backend->host->commands++;
    ask->reply = DLK_PENDING;
    if (!local->up) {
        ask->reply = DLK_NOT_SENT;
        return;
    }
    if (now >= local->check_at)
        check_file(local, now);
    switch (ask->verb) {
    case DLK_ACQUIRE:
        acquire(local, ask, now);
        return;
    case DLK_RENEW:
        renew(local, ask, now);
        return;
    case DLK_RELEASE:
        release(local, ask, now);
        return;
    case DLK_VERIFY:
        verify(local, ask, now);
        return;
    case DLK_BREAK:
        dlk_local_break(local, ask, now);
        return;
    case DLK_INSPECT:
        dlk_local_inspect(local, ask, now);
        return;
    case DLK_LIST:
        dlk_local_list(local, ask, now);
        return;
    case DLK_DOCTOR:
        dlk_local_doctor(local, ask, now);
        return;
    case DLK_IMPORT:
        import(local, ask, now);
        return;
    case DLK_SIGNAL:
        signal_waiters(local, ask, now);
        return;
    case DLK_REVOKE:
        dlk_local_revoke(local, ask, now);
        return;
    }
}
