/* What is asked of a place, and what befalls all of them at once; see the header. */
#include "session/session.h"

#include "util/error.h"

#include <stdlib.h>
#include <string.h>

/* ---- lines ---- */

void dlk_line_unref(dlk_line *line)
{
    if (--line->refs > 0)
        return;
    line->session->type->line_close(line);
    free(line);
}

bool dlk_line_waits(const dlk_line *line)
{
    DLK_LIST_FOR (it, &line->places) {
        const dlk_place *place = DLK_LIST_ITEM(it, dlk_place, of_line);
        if (!place->granted && !place->leaving)
            return true;
    }
    return false;
}

/* ---- memory ---- */

dlk_place *dlk_place_find(const dlk_line *line, uint64_t number)
{
    DLK_LIST_FOR (it, &line->places) {
        dlk_place *place = DLK_LIST_ITEM(it, dlk_place, of_line);
        if (place->number == number)
            return place;
    }
    return NULL;
}

static dlk_place *place_of(const dlk_ask *ask)
{
    return dlk_place_find(dlk_line_of(ask->key), ask->number);
}

dlk_place *dlk_place_new(dlk_session *session, const dlk_ask *ask)
{
    const char *data = dlk_ask_data(ask);
    dlk_place *place = calloc(1, session->type->place_size);
    if (!place || (data[0] && !(place->data = strdup(data)))) {
        free(place);
        return NULL;
    }
    place->session = session;
    place->line = dlk_line_of(ask->key);
    place->line->refs++;
    place->number = ask->number;
    place->shared = ask->shared;
    /* Whoever had another one there before was maybe signalled meanwhile. */
    place->new_place = place->line->kind == DLK_KIND_CONDITION;
    dlk_list_append(&session->places, &place->all);
    dlk_list_append(&place->line->places, &place->of_line);
    session->type->place_open(place, ask);
    return place;
}

static void free_place(dlk_place *place)
{
    place->session->type->place_close(place);
    dlk_list_remove(&place->all);
    dlk_list_remove(&place->of_line);
    dlk_line_unref(place->line);
    free(place->data);
    free(place);
}

void dlk_place_settle(dlk_place *place)
{
    bool asked = place->take || place->give || place->keep || place->verify;
    bool wanted = place->granted && !place->leaving;
    if (place->calls == 0 && !wanted && !asked && place->session->type->is_nowhere(place))
        free_place(place);
}

/* ---- answering ---- */

void dlk_place_answer(dlk_place *place, dlk_ask **asked, dlk_reply reply,
                      dlock_error *why)
{
    dlk_ask *ask = *asked;
    *asked = NULL;
    if (!ask) {
        dlk_error_clear(&why);
        return;
    }
    if (why) {
        dlk_error_clear(&ask->error);
        ask->error = why;
    }
    dlk_flight_answer(&place->session->flight, ask, reply);
}

void dlk_place_fail(dlk_place *place, dlk_ask **asked, dlk_reply reply)
{
    dlk_place_answer(place, asked, reply,
                     *asked ? dlk_error_copy(place->session->why_down) : NULL);
}

void dlk_place_lasts(dlk_place *place, dlk_ask **asked, int64_t since, int64_t ttl_ms)
{
    dlk_ask *ask = *asked;
    if (!ask)
        return;
    /* Between the numbers of two grants there is none for those that a kept one has in turn. */
    ask->token = dlk_number_keeps(place->number) ? 0 : place->token;
    ask->asked = place->wanted;
    ask->ttl_ms = ttl_ms;
    if (since < ask->since)
        ask->since = since;
    ask->lasts = true;
    dlk_place_answer(place, asked, DLK_YES, NULL);
}

void dlk_place_behind(dlk_place *place)
{
    dlk_ask *take = place->take;
    if (!take)
        return;
    /* Nothing watches for who only tries: should somebody go on with his place, he asks again. */
    take->wait_ms = take->once ? 0 : -1;
    take->new_place = place->new_place;
    place->new_place = false;
    dlk_place_answer(place, &place->take, DLK_HELD, NULL);
}

void dlk_place_wanted(dlk_place *place)
{
    dlk_host *host = place->session->backend.host;
    const dlk_key *key = place->line->key;
    place->wanted = true;
    if (place->granted && !place->leaving && key)
        host->asked(host, place->number, key->name, key->size);
}

void dlk_place_lost(dlk_place *place)
{
    dlk_host *host = place->session->backend.host;
    bool left = place->leaving;
    bool told = place->keep || place->take; /* who verifies may listen no more */
    place->leaving = true;
    dlk_place_answer(place, &place->keep, DLK_NOT_OURS, NULL);
    dlk_place_answer(place, &place->verify, DLK_NOT_OURS, NULL);
    if (left)
        return;
    dlk_place_answer(place, &place->take, DLK_NOT_SENT, NULL);
    if (!told && place->line->key)
        host->lost(host, place->line->key, place->number);
}

void dlk_place_drop(const dlk_ask *ask)
{
    dlk_place *place = ask->key && ask->number ? place_of(ask) : NULL;
    if (!place)
        return;
    dlk_ask **all[] = {&place->take, &place->give, &place->keep, &place->verify};
    for (int i = 0; i < 4; i++)
        if (*all[i] == ask)
            *all[i] = NULL;
}

/* ---- asking ---- */

/* Begins what is asked. The place stays, whatever comes of it at once. */
static void begin(dlk_place *place, dlk_ask **asked, dlk_ask *ask,
                  void (*step)(dlk_place *place, int64_t now), int64_t now)
{
    *asked = ask;
    dlk_flight_await(&place->session->flight, ask);
    place->calls++;
    step(place, now);
    place->calls--;
    dlk_place_settle(place);
}

void dlk_place_acquire(dlk_session *session, dlk_ask *ask, int64_t now)
{
    dlk_place *place = place_of(ask);
    if (!place)
        place = dlk_place_new(session, ask);
    if (!place)
        dlk_flight_refuse(&session->flight, ask,
                          dlk_error_make(DLOCK_ENOMEM, "out of memory"));
    else if (place->leaving || place->take) /* never: a number is given up once, … */
        dlk_flight_answer(&session->flight, ask,
                          DLK_NOT_SENT); /* … asked once at a time */
    else
        begin(place, &place->take, ask, session->type->take, now);
}

static void give_back(dlk_place *place, int64_t now)
{
    int64_t used = place->give->used;
    place->leaving = true;
    place->used |= used && place->granted && used == place->token;
    dlk_place_answer(place, &place->take, DLK_NOT_SENT, NULL); /* given up */
    place->session->type->leave(place, now);
}

void dlk_place_release(dlk_session *session, dlk_ask *ask, int64_t now)
{
    dlk_place *place = place_of(ask);
    if (!place && session->type->stranger)
        place = session->type->stranger(session, ask);
    if (!place || place->give)
        dlk_flight_answer(&session->flight, ask, DLK_NOT_OURS);
    else
        begin(place, &place->give, ask, give_back, now);
}

void dlk_place_renew(dlk_session *session, dlk_ask *ask, int64_t now)
{
    dlk_place *place = place_of(ask);
    if (!place || !place->granted || place->leaving || place->keep)
        dlk_flight_answer(&session->flight, ask, DLK_NOT_OURS);
    else
        begin(place, &place->keep, ask, session->type->keep, now);
}

void dlk_place_verify(dlk_session *session, dlk_ask *ask, int64_t now)
{
    dlk_place *place = place_of(ask);
    if (!place || !place->granted || place->leaving)
        dlk_flight_answer(&session->flight, ask, DLK_NOT_OURS);
    else if (place->verify) /* two at a time: the second goes by what is known */
        dlk_flight_answer(&session->flight, ask, DLK_NOT_SENT);
    else
        begin(place, &place->verify, ask, session->type->verify, now);
}

/* ---- all of them ---- */

void dlk_places_each(dlk_session *session,
                     void (*act)(dlk_place *place, const void *with, int64_t now),
                     const void *with, int64_t now)
{
    dlk_list todo, *link;
    dlk_list_init(&todo);
    dlk_list_splice(&todo, &session->places);
    while ((link = dlk_list_take_first(&todo))) {
        dlk_place *place = DLK_LIST_ITEM(link, dlk_place, all);
        dlk_list_append(&session->places, link);
        place->calls++;
        act(place, with, now);
        place->calls--;
        dlk_place_settle(place);
    }
}

static void sweep(dlk_place *place, const void *with, int64_t now)
{
    const dlk_session_type *type = place->session->type;
    (void)with;
    if (place->leaving)
        type->leave(place, now);
    else if (type->tidy)
        type->tidy(place, now);
}

void dlk_places_sweep(dlk_session *session, int64_t now)
{
    dlk_places_each(session, sweep, NULL, now);
}

static void forget(dlk_place *place, const void *with, int64_t now)
{
    const dlock_error *why = with;
    place->session->type->forget(place, now);
    dlk_place_answer(place, &place->give, place->granted ? DLK_NOT_OURS : DLK_YES, NULL);
    dlk_place_answer(place, &place->take, DLK_NOT_SENT,
                     place->take ? dlk_error_copy(why) : NULL);
}

void dlk_places_forget(dlk_session *session, const dlock_error *why, int64_t now)
{
    dlk_places_each(session, forget, why, now);
}

static void orphan(dlk_place *place, const void *line, int64_t now)
{
    if (place->line != line || place->leaving)
        return;
    place->leaving = true;
    place->session->type->leave(place, now);
}

void dlk_line_orphan(dlk_line *line, int64_t now)
{
    dlk_places_each(line->session, orphan, line, now);
}

void dlk_places_free(dlk_session *session)
{
    DLK_LIST_FOR (it, &session->places)
        free_place(DLK_LIST_ITEM(it, dlk_place, all));
}
