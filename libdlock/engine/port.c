/* Between the decisions and the backend: hands requests down and news up, and keeps the memory of
 * grants and holds. Everything here runs with the engine's mutex held. */
#include "engine/engine.h"

#include "util/clock.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void ask(void *world, dlk_ask *one, int64_t now)
{
    dlk_engine *engine = world;
    engine->backend->type->ask(engine->backend, one, now);
    if (one->reply != DLK_PENDING)
        return;
    engine->unsent = true;
    if (one->deadline < engine->backend_next)
        engine->backend_next = one->deadline;
    if (++engine->in_flight >= DLK_TAKEOVER && engine->thread_state != DLK_THREAD_NONE &&
        !dlk_engine_is_left(engine))
        engine->takeover = true;
}

static void watch(void *world, dlk_key *key, bool on, int64_t now)
{
    dlk_engine *engine = world;
    if (!engine->backend->type->watch)
        return;
    engine->backend->type->watch(engine->backend, key, on, now);
    engine->unsent = true;
}

/* One of ours has the lock now: who is behind it? */
static void warn_next(dlk_engine *engine, const dlk_name *name)
{
    dlk_list *link = name->queue.first;
    if (!link)
        return;
    dlk_waiter *next =
        DLK_LIST_ITEM(DLK_LIST_ITEM(link, dlk_wait, link), dlk_waiter, wait);
    if (next->sleeper)
        dlk_engine_warn(engine, next->sleeper);
}

static void wait_over(void *world, dlk_wait *wait)
{
    dlk_engine *engine = world;
    dlk_waiter *waiter = DLK_LIST_ITEM(wait, dlk_waiter, wait);
    if (!waiter->op) {
        if (waiter->sleeper)
            dlk_engine_wake(engine, waiter->sleeper);
        if (waiter->sleeper && wait->hold)
            warn_next(engine, wait->name);
        return;
    }
    dlock_op *op = waiter->op;
    dlock_error *error = wait->error;
    wait->error = NULL;
    if (wait->hold) {
        op->hold = DLK_LIST_ITEM(wait->hold, dlock_hold, hold);
        dlk_engine_ref(engine);
    }
    dlk_op_finish(engine, op, wait->code, error);
    dlk_op_retire(engine, op);
}

static void placed(void *world, dlk_wait *wait)
{
    dlock_op *op = DLK_LIST_ITEM(wait, dlk_waiter, wait)->op;
    if (op && op->then && op->then_placed)
        dlk_op_run_then(world, op);
}

/* What nobody but this client knows of a lock: that it is only kept, and since when. */
static void add_kept(const dlk_query *query)
{
    if (!query->info || !query->name || query->ask.verb != DLK_INSPECT)
        return;
    DLK_CHAIN_FOR (it, &query->name->grants) {
        const dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, link);
        if (dlk_grant_is_kept(grant))
            dlk_info_add_int(query->info,
                             (dlk_clock_now() - grant->since) / DLK_NS_PER_MS, "kept_ms");
    }
}

/* Who couldn't connect is told of every address what was tried there last. Where its time is over, so is that
 * of what is under way, which says better why; nothing of it is digested yet. */
static dlock_error *why_not_connected(dlk_engine *engine, const dlk_query *query,
                                      dlock_error *error)
{
    int64_t now = dlk_clock_now();
    if (query->code == DLOCK_ECLOSED || query->code == DLOCK_ECANCELED || !error)
        return error;
    if (now >= query->deadline && engine->life == DLK_LIFE_OPEN)
        engine->backend_next = engine->backend->type->tick(engine->backend, now);
    const dlock_error *better =
        engine->link_news == DLK_LINK_IS_DOWN ? engine->link_error : engine->digested;
    if (better) {
        dlock_error_free(error);
        error = dlk_error_copy(better);
    }
    return dlk_whys_complete(&engine->whys, error);
}

static void query_over(void *world, dlk_query *query)
{
    dlock_op *op = DLK_LIST_ITEM(query, dlock_op, u.query);
    dlock_error *error = query->error;
    add_kept(query);
    dlock_err code = query->code;
    query->error = NULL;
    op->info = query->info;
    query->info = NULL;
    if (code != DLOCK_OK && query->kind == DLK_QUERY_CONNECT) {
        error = why_not_connected(world, query, error);
        code = error ? error->code : code;
    }
    dlk_op_finish(world, op, code, error);
}

static void free_query(void *world, dlk_query *query)
{
    dlk_op_retire(world, DLK_LIST_ITEM(query, dlock_op, u.query));
}

/* ---- holds ---- */

static dlk_grant *new_grant(void *world, dlk_hold **ret_hold)
{
    dlk_engine *engine = world;
    dlk_list *spare = dlk_list_take_first(&engine->spare_grants);
    dlk_grant_box *box;
    if (spare) {
        engine->spare_grant_count--;
        box = DLK_LIST_ITEM(spare, dlk_grant_box, grant.link);
        memset(box, 0, sizeof(*box));
    } else {
        box = calloc(1, sizeof(*box));
    }
    if (!box)
        return NULL;
    box->hold.engine = engine;
    *ret_hold = &box->hold.hold;
    return &box->grant;
}

static dlk_hold *new_hold(void *world)
{
    dlock_hold *hold = calloc(1, sizeof(*hold));
    if (!hold)
        return NULL;
    hold->engine = world;
    return &hold->hold;
}

static void free_grant(void *world, dlk_grant *grant)
{
    dlk_engine *engine = world;
    dlk_grant_box *box = DLK_LIST_ITEM(grant, dlk_grant_box, grant);
    if (engine->spare_grant_count >= DLK_SPARE_GRANTS) {
        free(box);
        return;
    }
    engine->spare_grant_count++;
    dlk_list_prepend(&engine->spare_grants, &box->grant.link); /* still in the cache */
}

void dlk_hold_more_init(dlk_hold_more *more, dlock_hold *hold)
{
    more->hold = hold;
    more->slot.kind = DLK_SLOT_HOLD;
    dlk_list_init(&more->slot.link);
    hold->more = more;
}

dlk_hold_more *dlk_hold_need(dlock_hold *hold)
{
    if (hold->more)
        return hold->more;
    dlk_hold_more *more = calloc(1, sizeof(*more));
    if (more)
        dlk_hold_more_init(more, hold);
    return more;
}

void dlk_hold_watched(dlk_engine *engine, dlk_hold_watch *watch)
{
    if (watch->queued)
        return;
    watch->queued = true;
    watch->keep(watch);
    dlk_list_append(&engine->jobs, &watch->job.link);
}

static void changed(void *world, dlk_grant *grant)
{
    dlk_engine *engine = world;
    dlock_state state = dlk_grant_state(grant);
    for (dlk_hold *it = grant->holds; it; it = it->next) {
        dlk_hold_more *more = DLK_LIST_ITEM(it, dlock_hold, hold)->more;
        if (!more)
            continue;
        if (more->watch)
            dlk_hold_watched(engine, more->watch);
        if (!more->slot.armed)
            continue;
        if (state == DLOCK_LOST)
            more->lost_news = true;
        else
            more->state_news =
                state == DLOCK_HELD ? DLOCK_EVENT_HELD : DLOCK_EVENT_SUSPECT;
        dlk_event_push(engine, &more->slot);
    }
}

/* ---- what the backend tells ---- */

static dlk_engine *of_host(dlk_host *host)
{
    return DLK_LIST_ITEM(host, dlk_engine, host);
}

static void host_answered(dlk_host *host, dlk_ask *one)
{
    dlk_engine *engine = of_host(host);
    assert(engine->in_flight > 0);
    engine->in_flight--;
    dlk_list_init(&one->link);
    dlk_list_append(&engine->answers, &one->link);
}

static void host_notified(dlk_host *host, dlk_key *key)
{
    dlk_engine *engine = of_host(host);
    dlk_engine_name *own =
        DLK_LIST_ITEM(DLK_LIST_ITEM(key, dlk_name, key), dlk_engine_name, name);
    dlk_engine_news_add(&engine->notified, own);
}

static void host_lost(dlk_host *host, dlk_key *key, uint64_t number)
{
    dlk_core_mark_gone(key, number);
    host_notified(host, key);
}

static void host_asked(dlk_host *host, uint64_t number, const char *name, size_t size)
{
    dlk_name *found = NULL;
    while (
        (found = dlk_name_find(&of_host(host)->core, DLOCK_MUTEX, name, size, found))) {
        if (dlk_core_mark_asked(&found->key, number))
            host_notified(host, &found->key);
    }
}

static dlk_told_sum host_told(dlk_host *host, int64_t now, int64_t after, dlk_told *ret,
                              size_t most)
{
    return dlk_core_told(&of_host(host)->core, now, after, ret, most);
}

static void host_deadlock(dlk_host *host, const char *name, uint64_t thread,
                          int64_t before, const char *why)
{
    size_t text = strlen(why) + 1, size = strlen(name) + 1;
    dlk_doomed *doomed = calloc(1, sizeof(*doomed) + text + size);
    if (!doomed)
        return; /* it is found again */
    memcpy(doomed->text, why, text);
    doomed->name = memcpy(doomed->text + text, name, size);
    doomed->thread = thread;
    doomed->before = before;
    dlk_list_append(&of_host(host)->doomed, &doomed->link);
}

static void host_news(dlk_host *host)
{
    dlk_engine *engine = of_host(host);
    atomic_store(&engine->news, true);
    dlk_engine_kick(engine);
}

static void host_revoked(dlk_host *host, uint64_t number)
{
    dlk_engine *engine = of_host(host);
    DLK_LIST_FOR (it, &engine->core.grants) {
        const dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, all);
        if (grant->number != number)
            continue;
        dlk_event_revoked(engine, grant);
        if (dlk_core_mark_asked(&grant->name->key, number))
            host_notified(host, &grant->name->key); /* it isn't kept any longer */
        return;
    }
}

static void host_link(dlk_host *host, bool up, const dlock_error *error)
{
    dlk_engine *engine = of_host(host);
    bool was = engine->core.up;
    if (engine->link_news != DLK_LINK_NO_NEWS)
        was = engine->link_news == DLK_LINK_IS_UP;
    engine->link_news = up ? DLK_LINK_IS_UP : DLK_LINK_IS_DOWN;
    if (up) {
        dlk_whys_clear(&engine->whys);
    } else {
        dlk_error_clear(&engine->link_error);
        engine->link_error =
            error ? dlk_error_copy(error)
                  : dlk_error_make(DLOCK_EUNAVAIL, "the connection was lost");
    }
    if (was != up || !up)
        dlk_event_note(engine, DLOCK_EVENT_CONNECTION, DLOCK_LOG_INFO,
                       up ? DLOCK_OK : engine->link_error->code,
                       strdup(up ? "connected" : engine->link_error->text));
}

__attribute__((format(printf, 3, 4))) static void
host_log(dlk_host *host, dlock_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    dlk_engine_log(of_host(host), level, format, args);
    va_end(args);
}

__attribute__((format(printf, 3, 4))) static void core_log(void *world, dlock_level level,
                                                           const char *format, ...)
{
    va_list args;
    va_start(args, format);
    dlk_engine_log(world, level, format, args);
    va_end(args);
}

void dlk_engine_connect_port(dlk_engine *engine, dlk_port *port)
{
    *port = (dlk_port){
        .world = engine,
        .ask = ask,
        .watch = watch,
        .wait_over = wait_over,
        .query_over = query_over,
        .placed = placed,
        .changed = changed,
        .attended = &engine->attended,
        .new_grant = new_grant,
        .new_hold = new_hold,
        .free_grant = free_grant,
        .free_query = free_query,
        .free_name = dlk_engine_free_name,
        .log = core_log,
        .tell = &engine->tell,
    };
    engine->host = (dlk_host){
        .answered = host_answered,
        .notified = host_notified,
        .revoked = host_revoked,
        .lost = host_lost,
        .asked = host_asked,
        .news = host_news,
        .told = host_told,
        .deadlock = host_deadlock,
        .link = host_link,
        .log = host_log,
        .tell = &engine->tell,
        .mutex = &engine->mutex,
        .kicks = &engine->kicks,
        .uuid = engine->uuid,
        .name = engine->name,
        .who = engine->who,
        .rand = &engine->core.rand,
        .whys = &engine->whys,
    };
}
