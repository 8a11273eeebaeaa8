/*
 * The event queue. What belongs to an op or a hold lies in it, so it can't be dropped and costs no
 * memory; only notes (log lines, connections) are counted and may overflow. The fd is readable
 * exactly while the queue has something.
 */
#include "engine/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Raw calls: read and write are cancellation points, and we hold the mutex. */
static void raise_fd(const dlk_engine *engine)
{
    uint64_t one = 1;
    if (engine->event_fd >= 0)
        (void)syscall(SYS_write, engine->event_fd, &one,
                      sizeof(one)); /* full is raised too */
}

static void lower_fd(const dlk_engine *engine)
{
    uint64_t count;
    if (engine->event_fd >= 0)
        (void)syscall(SYS_read, engine->event_fd, &count,
                      sizeof(count)); /* empty is lowered */
}

int dlk_event_fd(dlk_engine *engine)
{
    if (engine->life == DLK_LIFE_CLOSED)
        return -1; /* the descriptor itself stays until the end, for those who poll it */
    if (engine->event_fd < 0) {
        engine->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        engine->event_fd_on = engine->event_fd >= 0;
        if (!dlk_list_empty(&engine->events))
            raise_fd(engine);
    }
    return engine->event_fd;
}

void dlk_event_push(dlk_engine *engine, dlk_slot *slot)
{
    if (!dlk_list_empty(&slot->link))
        return;
    if (dlk_list_empty(&engine->events))
        raise_fd(engine);
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

void dlk_note_free(dlk_note *note)
{
    free(note->text);
    free(note);
}

void dlk_event_note(dlk_engine *engine, dlock_what what, dlock_level level,
                    dlock_err code, char *text)
{
    dlk_note *note = NULL;
    if (engine->event_fd_on && engine->notes < engine->note_limit)
        note = calloc(1, sizeof(*note));
    if (!note) {
        engine->overflowed += engine->event_fd_on;
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

static void from_op(dlk_slot *slot, dlock_event *event)
{
    dlock_op *op = DLK_LIST_ITEM(slot, dlock_op, slot);
    event->what = DLOCK_EVENT_DONE;
    event->code = op->code;
    if (op->hold)
        event->token = op->hold->hold.grant->token;
    if (op->error)
        event->text = strdup(op->error->text);
}

static void from_hold(dlk_engine *engine, dlk_slot *slot, dlock_event *event)
{
    dlock_hold *hold = DLK_LIST_ITEM(slot, dlock_hold, slot);
    event->token = hold->hold.grant->token;
    event->text = strdup(hold->hold.grant->name->key.name + engine->prefix_size);
    if (hold->lost_news) { /* what came before it says nothing any more */
        event->what = DLOCK_EVENT_LOST;
        event->code = DLOCK_ELOST;
        hold->lost_news = false;
        hold->state_news = 0;
    } else {
        event->what = (dlock_what)hold->state_news;
        hold->state_news = 0;
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
    DLK_LIST_FOR(it, &engine->events)
    {
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
    if (dlk_list_empty(&engine->events) && engine->overflowed == 0)
        return NULL;
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
    if (engine->event_fd >= 0)
        (void)close(engine->event_fd);
    engine->event_fd = -1;
}
