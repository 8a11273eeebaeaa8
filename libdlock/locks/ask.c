/*
 * Requests: filled in, sent, and the answer handed on. Those of a grant are there only while they
 * are under way: a client that holds ten thousand locks asks for a hundred of them at a time.
 */
#include "locks/inner.h"

#include "util/number.h"

#include <assert.h>
#include <stdlib.h>

/* ---- the memory of requests ---- */

static void spare_ask(dlk_core *core, dlk_ask *ask)
{
    core->spare_ask_count++;
    dlk_list_prepend(&core->spare_asks, &ask->link); /* still in the cache */
}

static dlk_ask *take_ask(dlk_core *core, bool may_use_saved)
{
    size_t saved = may_use_saved ? 0 : DLK_SAVED_ASKS;
    if (core->spare_ask_count > saved) {
        core->spare_ask_count--;
        return DLK_LIST_ITEM(dlk_list_take_first(&core->spare_asks), dlk_ask, link);
    }
    dlk_ask *ask = calloc(1, sizeof(*ask));
    core->ask_count += ask != NULL;
    return ask;
}

bool dlk_asks_init(dlk_core *core)
{
    dlk_list_init(&core->spare_asks);
    while (core->spare_ask_count < DLK_SAVED_ASKS) {
        dlk_ask *ask = calloc(1, sizeof(*ask));
        if (!ask)
            return false;
        core->ask_count++;
        spare_ask(core, ask);
    }
    return true;
}

void dlk_asks_free(dlk_core *core)
{
    assert(core->spare_ask_count == core->ask_count); /* all have been answered */
    dlk_list *spare;
    while ((spare = dlk_list_take_first(&core->spare_asks)))
        free(DLK_LIST_ITEM(spare, dlk_ask, link));
}

static void free_ask(dlk_core *core, dlk_ask *ask)
{
    if (ask->error)
        dlk_error_clear(&ask->error);
    ask->text = NULL;
    if (core->spare_ask_count < DLK_SPARE_ASKS) {
        spare_ask(core, ask);
        return;
    }
    core->ask_count--;
    free(ask);
}

/* ---- asking ---- */

void dlk_ask_prepare(dlk_ask *ask, dlk_verb verb, const dlk_grant *grant, int64_t ttl_ms,
                     int64_t deadline, int64_t now)
{
    if (ask->error)
        dlk_error_clear(&ask->error);
    ask->verb = verb;
    ask->shared = ask->once = ask->no_place = ask->new_place = ask->spent = false;
    ask->lasts = false;
    ask->take = 1;
    ask->next = 0;
    ask->undoes = ask->exported = ask->used = false;
    ask->data = NULL;
    if (grant) {
        ask->key = &grant->name->key;
        ask->number = grant->number;
        ask->shared = grant->terms.shared;
        ask->take = grant->terms.take;
        ask->used = grant->used;
        ask->data = dlk_label_text(grant->terms.label);
    }
    ask->ttl_ms = ttl_ms;
    ask->deadline = deadline;
    ask->since = now;
    ask->token = 0;
    ask->most_ms = ask->overlong = 0;
    ask->wait_ms = -1;
    ask->next_reply = DLK_PENDING;
}

bool dlk_ask_send(dlk_core *core, dlk_ask *ask, int64_t now)
{
    if (core->up) {
        ask->reply = DLK_PENDING;
        core->port.ask(core->port.world, ask, now);
    } else {
        ask->reply = DLK_NOT_SENT;
    }
    return ask->reply != DLK_PENDING;
}

void dlk_ask_trim(dlk_ask *ask)
{
    ask->wait_ms = dlk_span_ms(ask->wait_ms);
    ask->ttl_ms = dlk_number_clamp(ask->ttl_ms, 0, DLK_SPAN_MAX_MS);
}

int64_t dlk_ask_rest_over(const dlk_ask *ask, int64_t now, int64_t at)
{
    if (ask->wait_ms < 0)
        return at;
    int64_t over = dlk_clock_after(now, ask->wait_ms + 1); /* trimmed */
    return over < at ? over : at;
}

dlock_error *dlk_ask_error(dlk_ask *ask)
{
    dlock_error *error = ask->error;
    ask->error = NULL;
    return error;
}

dlk_ask *dlk_ask_new(dlk_core *core, dlk_verb verb, dlk_grant *grant, int64_t within_ms,
                     int64_t now)
{
    if (grant->why)
        dlk_error_clear(&grant->why);
    dlk_ask *ask = take_ask(core, verb == DLK_RELEASE || verb == DLK_RENEW);
    if (!ask)
        return NULL;
    ask->grant = grant;
    ask->heir = NULL;
    dlk_ask_prepare(ask, verb, grant, grant->terms.ttl_ms,
                    dlk_clock_after(now, within_ms), now);
    return ask;
}

void dlk_grant_answered(dlk_core *core, dlk_ask *ask, int64_t now)
{
    dlk_grant *grant = ask->grant;
    dlk_ask_trim(ask);
    if (ask->verb == DLK_ACQUIRE)
        dlk_trying_answered(core, grant, ask, now);
    else if (ask->verb == DLK_RELEASE)
        dlk_give_answered(core, grant, ask, now);
    else if (ask->verb == DLK_RENEW)
        dlk_grant_keep_answered(core, grant, ask, now);
    else
        dlk_import_answered(core, grant, ask, now);
    free_ask(core, ask);
}

bool dlk_ask_go(dlk_core *core, dlk_ask *ask, int64_t now)
{
    if (!dlk_ask_send(core, ask, now))
        return false;
    dlk_grant_answered(core, ask, now);
    return true;
}
