/*
 * What a lock service must be able to do, and how it tells its user what happened.
 *
 * A backend answers ONE request at a time and per request; it decides nothing: who waits, when to
 * ask again, when a lease is lost is the business of locks/ and engine/. A backend is written
 * sans-I/O where it can be: `ask`, `watch`, `tick` and `process` only fill and empty buffers, and
 * the only place that may sleep, read or write is `sleep` (and `flush`, which only writes).
 *
 * Threads. One mutex, the client's, guards the whole backend. Every function is called with it
 * held, except `sleep` and `kick` (marked below). Exactly one thread, the driver, is in
 * arm → sleep → process at any time; other threads may `ask`, `watch`, `tick` and `flush`
 * meanwhile. So what `sleep` touches must be either frozen by `arm` or owned by the driver.
 *
 * Waking the driver. There is one count of kicks, the host's. The engine reads it under the mutex
 * before it computes how long to sleep, and hands it to `sleep`: no kick after that is slept over,
 * whether it comes before `arm`, after it, or while the mutex was let go between the two.
 *
 * The host's functions (what the backend calls) are called with the mutex held, and may call
 * `ask` and `watch` again from inside: a backend must be ready for that wherever it reports.
 */
#ifndef DLK_BACKENDS_BACKEND_H
#define DLK_BACKENDS_BACKEND_H

#include <dlock/dlock.h>

#include "locks/ask.h"
#include "net/kicks.h"
#include "util/error.h"
#include "util/info.h"
#include "util/kind.h"
#include "util/list.h"
#include "util/rand.h"
#include "util/settings.h"
#include "util/uri.h"

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct dlk_backend dlk_backend;
typedef struct dlk_backend_type dlk_backend_type;
typedef struct dlk_host dlk_host;

/* Whom the backend tells. All with the client's mutex held. */
struct dlk_host {
    /* A PENDING ask has its reply now. Not called for one that `ask` answered at once. */
    void (*answered)(dlk_host *host, dlk_ask *ask);
    /* A watched key may be free: ask again. Sent for nothing now and then; never relied on. */
    void (*notified)(dlk_host *host, dlk_key *key);
    /* The grant of this number is asked for by somebody: an event for its holds. Told only after
     * `listen`. */
    void (*revoked)(dlk_host *host, uint64_t number);
    /* The service has taken the grant of this number away, however much of its lease was left: it
     * is lost at once. Nothing of it is left there that would have to be given back. */
    void (*lost)(dlk_host *host, dlk_key *key, uint64_t number);
    /* There is something to process that nobody may be waiting for: have somebody drive soon. By
     * any thread, WITHOUT the mutex. NULL: somebody always drives. */
    void (*news)(dlk_host *host);
    /* The link is ready for requests (up, error NULL) or isn't (error says why, lent). While it
     * is down every ask is answered NOT_SENT at once. Down is told once per failed try, with
     * error->code EUNAVAIL when another try follows by itself, else (EACCES, EPROTO, EINVAL …)
     * what everybody waiting should fail with; the backend goes on trying all the same. */
    void (*link)(dlk_host *host, bool up, const dlock_error *error);
    /* For the log; must not contain a secret. Formats at once, is delivered later. */
    void (*log)(dlk_host *host, dlock_level level, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
    /* The mutex that guards everything here, for `flush`. */
    pthread_mutex_t *mutex;
    /* Ends the driver's sleep; the nodes of a backend made of backends share it. A backend that polls
     * opens it, and its own reasons to look anew are kicks as well. */
    dlk_kicks *kicks;
    const char *uuid; /* this client's identity, 36 characters */
    const char *name; /* client.name: host:pid unless set */
    dlk_rand *rand;   /* for jitter; under the mutex */
    /* Set by the engine before `arm`: who drives does so for a call of its own, and all others
     * write what they ask themselves. */
    bool by_caller;
    /* Counted up by the backend whenever what `wires` would answer may have changed. */
    uint64_t wiring;
    /* The backend's: some of what was asked waits until the socket takes it. */
    bool rest;
    /* Counted by the backend, reported by dlock_client_stats. */
    int64_t commands, bytes_sent, bytes_received, reconnects;
};

/* What differs between services, for the engine and for dlock_client_features. */
typedef struct dlk_traits {
    const char *layout;    /* the only one; NULL: … */
    dlk_key_id layout_key; /* … this setting says which */
    int class;             /* as client.require: 0 efficiency, 1 fencing, 2 correctness */
    /* The lease is the client's, and what it has is looked at again after each reconnect; see
     * dlk_limits. */
    bool session;
    bool queues;        /* HELD leaves a place in the line that RELEASE gives back */
    bool fair;          /* always first in, first out among clients … */
    bool fair_asked;    /* … or where lock.fair asks for it and the layout can */
    bool tokens;        /* grants can fence */
    bool hands_on;      /* grants of some kinds can be exported and imported */
    int margin_percent; /* taken off every lease, of the ttl … */
    int64_t margin_ms;  /* … and as a constant */
    bool kinds[DLK_KIND_COUNT];
} dlk_traits;

#define DLK_BACKEND_POLLS 8

/* What is given back, and nobody waits for. */
typedef enum dlk_unsettled {
    DLK_SETTLED,
    DLK_UNSETTLED_HARMLESS, /* it keeps nobody out, as on one of three nodes */
    DLK_UNSETTLED_BLOCKING, /* until it is done, nobody else can have it */
} dlk_unsettled;

struct dlk_backend_type {
    const char *name;           /* folder name: "local", "redis" */
    const char *const *schemes; /* URI schemes it serves, NULL at the end */
    dlk_traits traits;
    /* What these settings make of them. NULL: nothing. */
    void (*adapt)(const dlk_settings *settings, dlk_traits *traits);

    /* Makes the backend. No I/O beyond local files; nothing is connected yet. Everything in
     * @p uri and @p settings is copied or kept only for the call. */
    dlock_err (*open)(dlk_host *host, const dlk_uri *uri, const dlk_settings *settings,
                      dlk_backend **ret, dlock_error **err);
    /* Begins to connect. host->link tells when it is up; may be told before `start` returns. */
    void (*start)(dlk_backend *backend, int64_t now);
    /* Ends the connections in good order. Everything PENDING has been answered before, or is
     * answered UNKNOWN or NOT_SENT now. No driver is inside. `ask` answers NOT_SENT from now on. */
    void (*stop)(dlk_backend *backend);
    /* Whether something is being given back that nobody waits for, and that takes requests which
     * aren't written yet, or answers: closing waits for that, as for releases. NULL: never. */
    dlk_unsettled (*unsettled)(const dlk_backend *backend);
    void (*free)(
        dlk_backend *backend); /* after stop; joins what threads it has. No mutex held. */
    /* In a fork's child, called from the atfork handler: closes what was inherited and is none of
     * util/descriptor.h's, touches nothing else (locks may be held by threads that don't exist
     * here). NULL: there is nothing. */
    void (*forked)(dlk_backend *backend);

    /* Whether the layout that these settings choose has the kind. NULL: traits.kinds says it. */
    bool (*has_kind)(const dlk_settings *settings, dlock_kind kind);
    /* Can the service carry this name and kind? EINVAL, ENOTSUP with the reason. Fills key->data.
     * Any thread, no mutex held. */
    dlock_err (*key_open)(dlk_backend *backend, dlk_key *key, dlock_error **err);
    void (*key_close)(dlk_backend *backend, dlk_key *key);

    /* Answers at once by setting ask->reply, or leaves it PENDING. */
    void (*ask)(dlk_backend *backend, dlk_ask *ask, int64_t now);
    /* From now on (on), or no longer, tell host->notified about the key. Never fails: where the
     * service can't notify, the engine's own polling is all there is. */
    void (*watch)(dlk_backend *backend, dlk_key *key, bool on, int64_t now);
    /* From now on tell host->revoked. NULL: never told. */
    void (*listen)(dlk_backend *backend, int64_t now);
    /* Time-outs, reconnects. Returns when to call it again (DLK_NEVER: no need); may be called
     * early. */
    int64_t (*tick)(dlk_backend *backend, int64_t now);

    /* The driver's three steps. `arm` freezes what to sleep on. `sleep` runs WITHOUT the mutex:
     * writes what is waiting to be written, sleeps until there is something to digest, somebody has
     * kicked since host->kicks counted @p seen, or @p until has come, and reads. No cancellation point may act in it
     * (the engine has switched cancellation off). `process` digests. */
    void (*arm)(dlk_backend *backend);
    void (*sleep)(dlk_backend *backend, int64_t until, uint32_t seen);
    void (*process)(dlk_backend *backend, int64_t now);
    /* Ends `sleep` where that isn't a dlk_kicks_poll; called behind each kick of the engine. WITHOUT the
     * mutex, any thread, safe in a signal handler. NULL: it is one. */
    void (*kick)(dlk_backend *backend);
    /* The two halves of `sleep`, for who sleeps on several backends at a time: between arm and
     * process, by the driver, WITHOUT the mutex. `push` writes what is waiting to be written, puts
     * what to sleep on into @p polls, at most DLK_BACKEND_POLLS, and answers how many they are;
     * *ret_doze is set to false when there is something to digest at once. Whoever sleeps looks after
     * the kicks. `pull` gets them back
     * and reads what has come. NULL: can't be slept on together with others. */
    size_t (*push)(dlk_backend *backend, struct pollfd *polls, bool *ret_doze);
    void (*pull)(dlk_backend *backend, const struct pollfd *polls);
    /* For a program that waits in a poller of its own, see engine/visit.c; NULL: it can't. `wires`,
     * with the mutex, puts the descriptors on which all comes that is to be read into @p fds, at
     * most DLK_BACKEND_POLLS, or none while somebody has to drive; false: it is never possible.
     * `look` is what the driver does in the place of `sleep`: it writes and reads what can be,
     * without waiting, and answers whether that was all. */
    bool (*wires)(const dlk_backend *backend, int *fds, size_t *ret_count);
    bool (*look)(dlk_backend *backend);
    /* Writes what is waiting to be written, without blocking, though another thread may drive.
     * Lets go of host->mutex while it writes and has it again when it returns. NULL: nothing
     * ever waits to be written. */
    void (*flush)(dlk_backend *backend);
};

/* The traits of a client with these settings. */
static inline dlk_traits dlk_backend_traits(const dlk_backend_type *type,
                                            const dlk_settings *settings)
{
    dlk_traits traits = type->traits;
    if (type->adapt)
        type->adapt(settings, &traits);
    return traits;
}

/* Every backend begins with this. */
struct dlk_backend {
    const dlk_backend_type *type;
    dlk_host *host;
};

#endif
