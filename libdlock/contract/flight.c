/* Asks that are under way; see the header. */
#include "contract/flight.h"

#include "util/clock.h"
#include "util/hash.h"

#include <assert.h>

void dlk_flight_init(dlk_flight *flight, dlk_host *host)
{
    *flight = (dlk_flight){.host = host, .deadline = DLK_NEVER};
    dlk_list_init(&flight->asks);
}

/* A release, and not one that begins the lease of our next contender in the same step. */
static bool only_frees(const dlk_ask *ask)
{
    return ask->verb == DLK_RELEASE && !ask->next;
}

bool dlk_flight_may_come_late(const dlk_flight *flight)
{
    DLK_LIST_FOR (it, &flight->asks)
        if (!only_frees(DLK_LIST_ITEM(it, dlk_ask, link)))
            return false;
    return true;
}

static bool only_looks(const dlk_ask *ask)
{
    return ask->verb == DLK_VERIFY || ask->verb == DLK_INSPECT || ask->verb == DLK_LIST ||
           ask->verb == DLK_DOCTOR;
}

#define BUCKETS 1024 /* a client may stop with tens of thousands under way */

static size_t bucket_of(const dlk_ask *ask, uint64_t number)
{
    uint64_t hash = dlk_hash(DLK_HASH_BEGIN, &number, sizeof(number));
    return dlk_hash(hash, &ask->key, sizeof(ask->key)) % BUCKETS;
}

/* Whether what this one gets is given back by one of these. */
static bool is_undone(const dlk_ask *ask, dlk_ask *const *releases)
{
    uint64_t number = ask->verb == DLK_RELEASE ? ask->next : ask->number;
    const dlk_ask *one = releases[bucket_of(ask, number)];
    while (one && (one->key != ask->key || one->number != number))
        one = one->chain;
    return one != NULL;
}

/* From the last to the first, so that the releases behind each have been seen. */
bool dlk_flight_undoes_itself(const dlk_flight *flight)
{
    dlk_ask *releases[BUCKETS] = {NULL};
    for (dlk_list *it = flight->asks.prev; it != &flight->asks; it = it->prev) {
        dlk_ask *ask = DLK_LIST_ITEM(it, dlk_ask, link);
        if (only_frees(ask)) {
            dlk_ask **bucket = &releases[bucket_of(ask, ask->number)];
            ask->chain = *bucket;
            *bucket = ask;
        } else if (!only_looks(ask) && !is_undone(ask, releases)) {
            return false;
        }
    }
    return true;
}

dlk_ask *dlk_flight_begin(dlk_flight *flight, dlk_ask *ask)
{
    dlk_ask *outer = flight->asking;
    dlk_list_init(&ask->link);
    ask->reply = DLK_PENDING;
    flight->asking = ask;
    return outer;
}

void dlk_flight_end(dlk_flight *flight, dlk_ask *outer)
{
    flight->asking = outer;
}

void dlk_flight_await(dlk_flight *flight, dlk_ask *ask)
{
    ask->reply = DLK_PENDING;
    dlk_list_append(&flight->asks, &ask->link);
    if (ask->deadline < flight->deadline)
        flight->deadline = ask->deadline;
}

void dlk_flight_answer(dlk_flight *flight, dlk_ask *ask, dlk_reply reply)
{
    bool under_way = ask->reply == DLK_PENDING && !dlk_list_empty(&ask->link);
    assert(reply != DLK_PENDING);
    ask->reply = reply;
    if (!under_way)
        return;
    dlk_list_remove(&ask->link);
    if (ask != flight->asking)
        flight->host->answered(flight->host, ask);
}

void dlk_flight_refuse(dlk_flight *flight, dlk_ask *ask, dlock_error *error)
{
    dlk_error_clear(&ask->error);
    ask->error = error;
    dlk_flight_answer(flight, ask, DLK_REFUSED);
}

void dlk_flight_answer_all(dlk_flight *flight, dlk_reply reply)
{
    dlk_ask *ask;
    while ((ask = dlk_flight_first(flight)))
        dlk_flight_answer(flight, ask, reply);
}

void dlk_flight_not_sent(dlk_ask *ask, const dlock_error *why_down)
{
    if (!ask->error)
        ask->error = dlk_error_copy(why_down);
    ask->reply = DLK_NOT_SENT;
}

void dlk_flight_take_all(dlk_flight *flight, dlk_list *to)
{
    dlk_list_splice(to, &flight->asks);
    flight->deadline = DLK_NEVER;
}

int64_t dlk_flight_due(dlk_flight *flight, int64_t now)
{
    if (now < flight->deadline)
        return flight->deadline;
    flight->deadline = DLK_NEVER;
    DLK_LIST_FOR (it, &flight->asks) {
        const dlk_ask *ask = DLK_LIST_ITEM(it, dlk_ask, link);
        if (ask->deadline < flight->deadline)
            flight->deadline = ask->deadline;
    }
    return flight->deadline;
}

void dlk_flight_expire(dlk_flight *flight, int64_t now, dlk_backend *backend,
                       void (*give_up)(dlk_backend *backend, dlk_ask *ask))
{
    if (now < flight->deadline)
        return;
    flight->deadline = DLK_NEVER;
    DLK_LIST_FOR (it, &flight->asks) {
        dlk_ask *ask = DLK_LIST_ITEM(it, dlk_ask, link);
        if (now >= ask->deadline)
            give_up(backend, ask);
        else if (ask->deadline < flight->deadline)
            flight->deadline = ask->deadline;
    }
}
