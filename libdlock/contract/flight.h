/*
 * The asks that a backend has under way: what has been asked, and is PENDING. Each backend has one
 * flight for each of its connections, guarded like all of it by the client's mutex.
 */
#ifndef DLK_CONTRACT_FLIGHT_H
#define DLK_CONTRACT_FLIGHT_H

#include "contract/backend.h"

typedef struct dlk_flight {
    dlk_host *host;
    dlk_list asks;    /* dlk_ask.link, in the order in which they were sent */
    int64_t deadline; /* of the earliest of them, or earlier */
    dlk_ask *asking;  /* is being asked: its answer isn't told, but left in it */
} dlk_flight;

void dlk_flight_init(dlk_flight *flight, dlk_host *host);

static inline bool dlk_flight_is_empty(const dlk_flight *flight)
{
    return dlk_list_empty(&flight->asks);
}

/* Whether nothing is under way that would do harm if it were carried out when nobody waits for it
 * any more: a release only frees what is to be freed, anything else, one that hands the lock on to our
 * next as well, may leave a lock to nobody. */
bool dlk_flight_may_come_late(const dlk_flight *flight);
/* The same where each ask is one request, carried out in the order of sending: then what an acquire may
 * get late is given back by its own release behind it. So a backend sends a release that undoes
 * (dlk_ask.undoes) with all that it takes: nobody would be there to send anything after it. */
bool dlk_flight_undoes_itself(const dlk_flight *flight);

/* The one that was sent first, or NULL. */
static inline dlk_ask *dlk_flight_first(const dlk_flight *flight)
{
    dlk_list *first = dlk_list_first(&flight->asks);
    return first ? DLK_LIST_ITEM(first, dlk_ask, link) : NULL;
}

/* Around what a backend does to be asked @p ask, for one that may answer it from inside: `begin`
 * answers what `end` wants. */
dlk_ask *dlk_flight_begin(dlk_flight *flight, dlk_ask *ask);
void dlk_flight_end(dlk_flight *flight, dlk_ask *outer);

/* PENDING from now on. */
void dlk_flight_await(dlk_flight *flight, dlk_ask *ask);

/* The ask has its reply: told to the host if it was under way. */
void dlk_flight_answer(dlk_flight *flight, dlk_ask *ask, dlk_reply reply);
void dlk_flight_refuse(dlk_flight *flight, dlk_ask *ask, dlock_error *error);
void dlk_flight_answer_all(dlk_flight *flight, dlk_reply reply);
/* Without a connection, for this reason. */
void dlk_flight_not_sent(dlk_ask *ask, const dlock_error *why_down);

/* Moves all of them to the end of @p to, where they are under way still: each is to be answered. */
void dlk_flight_take_all(dlk_flight *flight, dlk_list *to);

/* When the first of them is out of time. */
int64_t dlk_flight_due(dlk_flight *flight, int64_t now);
/* Calls @p give_up for each that is out of time, which answers it. */
void dlk_flight_expire(dlk_flight *flight, int64_t now, dlk_backend *backend,
                       void (*give_up)(dlk_backend *backend, dlk_ask *ask));

#endif
