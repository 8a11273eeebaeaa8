/*
 * The one way to sleep on a backend: for the engine, and for tests that drive a backend
 * without it. Between the backend's `arm` and `process`, by the driver, without the
 * mutex.
 */
#ifndef DLK_CONTRACT_SLEEP_H
#define DLK_CONTRACT_SLEEP_H

#include "contract/backend.h"
#include "net/kicks.h"
#include "net/polls.h"
#include "util/clock.h"

/* Is there time for a read that waits? Nobody's deadline is to be missed by it. */
static inline bool dlk_sleep_is_long(const dlk_polls *polls)
{
    return polls->until - dlk_clock_now() >= 4 * DLK_EXPECT_MS * DLK_NS_PER_MS;
}

/* @p polls as `arm` has filled it. The kicks were @p seen when it was decided until when
 * to sleep. @p by_caller: who drives waits for an answer of its own. */
static inline void dlk_sleep_on(dlk_backend *backend, dlk_polls *polls, uint32_t seen,
                                bool by_caller)
{
    const dlk_backend_type *type = backend->type;
    dlk_kicks *kicks = backend->host->kicks;
    if (type->sleep) {
        type->sleep(backend, polls->until, seen);
        return;
    }
    if (type->push)
        type->push(backend, polls);
    if (by_caller && type->expect && polls->doze && dlk_kicks_seen(kicks) == seen &&
        dlk_sleep_is_long(polls) && type->expect(backend, polls))
        return;
    (void)dlk_kicks_poll(kicks, polls, seen);
    if (type->pull)
        type->pull(backend, polls);
}

/* The same for who doesn't sleep: writes and reads what can be. */
static inline void dlk_look_at(dlk_backend *backend, dlk_polls *polls)
{
    const dlk_backend_type *type = backend->type;
    if (type->push)
        type->push(backend, polls);
    (void)dlk_polls_look(polls);
    if (type->pull)
        type->pull(backend, polls);
}

/* And for who was told by another poller that something has come. Answers whether that
 * was all. */
static inline bool dlk_read_at(dlk_backend *backend, dlk_polls *polls)
{
    const dlk_backend_type *type = backend->type;
    if (type->push)
        type->push(backend, polls);
    dlk_polls_presume(polls);
    if (type->pull)
        type->pull(backend, polls);
    return polls->doze && !polls->more;
}

#endif
