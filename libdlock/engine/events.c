/*
 * The event queue. What belongs to an op or a hold lies in it, so it can't be dropped and costs no
 * memory; only notes (log lines, connections) are counted and may overflow. The fd is readable
 * exactly while the queue has something.
 */
#include "engine/engine.h"

#include "util/clock.h"
#include "util/descriptor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void dlk_event_raise(dlk_engine *engine)
{
    if (engine->event.fd < 0 || engine->event_fd_raised)
        return;
    engine->event_fd_raised = true;
    dlk_wakeup_ring(&engine->event);
}

static void lower_fd(dlk_engine *engine)
{
    if (!engine->event_fd_raised)
        return;
    engine->event_fd_raised = false;
    dlk_wakeup_quiet(&engine->event);
}

int dlk_event_fd(dlk_engine *engine)
{
    if (engine->life == DLK_LIFE_CLOSED)
        return -1; /* the descriptor itself stays until the end, for those who poll it */
    if (engine->event.fd < 0) {
        (void)dlk_wakeup_open(&engine->event); /* the caller sees */
        if (!dlk_list_empty(&engine->events))
            dlk_event_raise(engine);
        dlk_engine_tell(engine);
    }
    return engine->event.fd;
}

void dlk_event_push(dlk_engine *engine, dlk_slot *slot)
{
    if (!dlk_list_empty(&slot->link))
        return;
    engine->announced++;
    if (engine->driven != DLK_DRIVEN_TO_BE_FETCHED)
        dlk_event_raise(engine);
    dlk_list_append(&engine->events, &slot->link);
}

void dlk_event_withdraw(dlk_engine *engine, dlk_slot *slot)
{
    slot->armed = false;
    if (dlk_list_empty(&slot->link))
        return;
    dlk_list_remove(&slot->link);
    if (dlk_list_empty(&engine->events))
        lower_fd(engine);
}

void dlk_event_listen(dlk_engine *engine, dlk_hold_more *more)
{
    if (more->listens || !engine->backend->type->listen)
        return;
    more->listens = true;
    engine->attended++;
    engine->backend->type->listen(engine->backend, dlk_clock_now());
    engine->unsent = true;
}

void dlk_event_revoked(dlk_engine *engine, const dlk_grant *grant)
{
    if (!dlk_grant_lives(grant))
        return;
    for (dlk_hold *hold = grant->holds; hold; hold = hold->next) {
        dlk_hold_more *more = DLK_LIST_ITEM(hold, dlock_hold, hold)->more;
        if (!more)
            continue;
        if (more->watch) {
            more->watch->revoked = true;
            dlk_hold_watched(engine, more->watch);
        }
        more->revoke_news = more->slot.armed;
        if (more->slot.armed)
            dlk_event_push(engine, &more->slot);
    }
}

void dlk_note_free(dlk_note *note)
{
    free(note->text);
    free(note);
}

void dlk_event_note(dlk_engine *engine, dlock_what what, dlock_level level,
                    dlock_err code, char *text)
{
    dlk_note *note = NULL;
    if (engine->event.fd >= 0 && engine->notes < engine->note_limit)
        note = calloc(1, sizeof(*note));
    if (!note) {
        engine->overflowed += engine->event.fd >= 0;
        free(text);
        return;
    }
    *note = (dlk_note){.slot = {.kind = DLK_SLOT_NOTE},
                       .what = what,
                       .level = level,
                       .code = code,
                       .text = text};
    dlk_list_init(&note->slot.link);
    engine->notes++;
    dlk_event_push(engine, &note->slot);
}

void dlk_event_closed(dlk_engine *engine)
{
    engine->closed =
        (dlk_note){.slot = {.kind = DLK_SLOT_NOTE}, .what = DLOCK_EVENT_CLOSED};
    dlk_list_init(&engine->closed.slot.link);
    dlk_event_push(engine, &engine->closed.slot);
}

/* ---- fetching ---- */

static void from_note(dlk_engine *engine, dlk_slot *slot, dlock_event *event)
{
    dlk_note *note = DLK_LIST_ITEM(slot, dlk_note, slot);
    event->what = note->what;
    event->code = note->code;
    event->token = (int64_t)note->level;
    event->text = note->text;
    note->text = NULL;
    if (note == &engine->closed)
        return;
    engine->notes--;
    dlk_note_free(note);
}

/* That of a group has none of its own. */
static int64_t token_of(const dlock_hold *hold)
{
    return dlk_hold_is_group(hold) ? 0 : hold->hold.token;
}

static void from_op(dlk_slot *slot, dlock_event *event)
{
    dlock_op *op = DLK_LIST_ITEM(slot, dlock_op, slot);
    event->what = DLOCK_EVENT_DONE;
    event->code = op->code;
    if (op->hold)
        event->token = token_of(op->hold);
    if (op->error)
        event->text = strdup(op->error->text);
}

static void from_hold(dlk_engine *engine, dlk_slot *slot, dlock_event *event)
{
    dlk_hold_more *more = DLK_LIST_ITEM(slot, dlk_hold_more, slot);
    const dlock_hold *hold = more->hold;
    event->token = token_of(hold);
    event->text = strdup(dlk_hold_is_group(hold)
                             ? more->group_name
                             : hold->hold.grant->name->key.name + engine->prefix_size);
    if (more->lost_news) { /* what came before it says nothing any more */
        event->what = DLOCK_EVENT_LOST;
        event->code = DLOCK_ELOST;
        more->lost_news = more->revoke_news = false;
        more->state_news = 0;
    } else if (more->state_news) {
        event->what = (dlock_what)more->state_news;
        more->state_news = 0;
        if (more->revoke_news) /* comes next */
            dlk_event_push(engine, slot);
    } else {
        event->what = DLOCK_EVENT_REVOKE;
        more->revoke_news = false;
    }
}

static void from_overflow(dlk_engine *engine, dlock_event *event)
{
    event->what = DLOCK_EVENT_OVERFLOW;
    event->token = engine->overflowed;
    engine->overflowed = 0;
}

/* DLOCK_EVENT_CLOSED is the last: what belongs to ops and holds goes before it. */
static dlk_slot *choose(dlk_engine *engine)
{
    dlk_slot *closed = NULL;
    DLK_LIST_FOR (it, &engine->events) {
        dlk_slot *slot = DLK_LIST_ITEM(it, dlk_slot, link);
        if (slot->kind != DLK_SLOT_NOTE ||
            DLK_LIST_ITEM(slot, dlk_note, slot)->what != DLOCK_EVENT_CLOSED)
            return slot;
        closed = slot;
    }
    return closed;
}

dlock_event *dlk_event_next(dlk_engine *engine)
{
    if (dlk_list_empty(&engine->events) && engine->overflowed == 0) {
        lower_fd(engine); /* raised for a visit */
        return NULL;
    }
    dlock_event *event = calloc(1, sizeof(*event));
    if (!event)
        return NULL; /* nothing is lost: it comes with the next call */
    dlk_slot *slot = choose(engine);
    if (!slot || (engine->overflowed > 0 && slot->kind == DLK_SLOT_NOTE)) {
        from_overflow(engine, event);
        return event;
    }
    event->tag = slot->tag;
    dlk_list_remove(&slot->link);
    if (slot->kind == DLK_SLOT_NOTE)
        from_note(engine, slot, event);
    else if (slot->kind == DLK_SLOT_OP)
        from_op(slot, event);
    else
        from_hold(engine, slot, event);
    if (dlk_list_empty(&engine->events))
        lower_fd(engine);
    return event;
}

void dlk_events_free(dlk_engine *engine)
{
    dlk_list *link;
    while ((link = dlk_list_take_first(&engine->events))) {
        dlk_slot *slot = DLK_LIST_ITEM(link, dlk_slot, link);
        if (slot->kind == DLK_SLOT_NOTE && slot != &engine->closed.slot)
            dlk_note_free(DLK_LIST_ITEM(slot, dlk_note, slot));
    }
    dlk_wakeup_close(&engine->event);
    dlk_fd_close(engine->poll_fd);
    engine->poll_fd = -1;
}
