/* Hearing that the client of any member is closed. While one member is waited for nothing else
 * would tell it of the others: neither those that are held already, nor those that come later. */
#include "multi/inner.h"

#include <stdlib.h>

/* At one member's client: under the mutex of its engine. */
typedef struct ear {
    dlk_job job;
    dlk_closing *of;
} ear;

struct dlk_closing {
    _Atomic int refs; /* whoever listens, and each ear that may be run */
    dlk_multi *multi; /* referenced, and by that the engines */
    dlk_closing_heard *heard;
    void *user; /* NULL: nobody wants to hear; under the first member's mutex */
    ear ears[];
};

bool dlk_multi_closes(const dlk_multi *multi)
{
    for (size_t i = 0; i < multi->count; i++)
        if (dlk_engine_closes(multi->members[i].engine))
            return true;
    return false;
}

static void unref(dlk_closing *closing, int count)
{
    if (atomic_fetch_sub_explicit(&closing->refs, count, memory_order_acq_rel) != count)
        return;
    dlk_multi_unref(closing->multi);
    free(closing);
}

static void closed(dlk_job *job)
{
    dlk_stay stay;
    dlk_closing *closing = DLK_LIST_ITEM(job, ear, job)->of;
    dlk_engine *first = closing->multi->members[0].engine;
    if (dlk_engine_enter(first, &stay)) {
        void *user = closing->user;
        closing->user = NULL;
        if (user)
            closing->heard(user, DLOCK_ECLOSED);
        dlk_engine_leave(first, &stay);
    }
    unref(closing, 1);
}

dlk_closing *dlk_closing_listen(dlk_multi *multi, dlk_closing_heard *heard, void *user)
{
    dlk_stay stay;
    dlk_closing *closing =
        calloc(1, sizeof(*closing) + multi->count * sizeof(closing->ears[0]));
    if (!closing)
        return NULL;
    *closing = (dlk_closing){
        .refs = 1 + (int)multi->count, .multi = multi, .heard = heard, .user = user};
    dlk_multi_ref(multi);
    for (size_t i = 0; i < multi->count; i++) {
        dlk_engine *engine = multi->members[i].engine;
        closing->ears[i] = (ear){.job = {.run = closed}, .of = closing};
        if (!dlk_engine_enter(engine, &stay))
            continue; /* in a fork's child nobody ever hears of anything */
        dlk_engine_at_close(engine, &closing->ears[i].job);
        dlk_engine_leave(engine, &stay);
    }
    return closing;
}

void dlk_closing_end(dlk_closing *closing)
{
    dlk_stay stay;
    const dlk_multi *multi = closing->multi;
    int over = 1;
    if (!dlk_engine_enter(multi->members[0].engine, &stay))
        return; /* a fork's child leaks it on purpose */
    closing->user = NULL;
    dlk_engine_leave(multi->members[0].engine, &stay);
    for (size_t i = 0; i < multi->count; i++) {
        dlk_engine *engine = multi->members[i].engine;
        if (!dlk_engine_enter(engine, &stay))
            return;
        over += dlk_engine_not_at_close(engine, &closing->ears[i].job);
        dlk_engine_leave(engine, &stay);
    }
    unref(closing, over);
}
