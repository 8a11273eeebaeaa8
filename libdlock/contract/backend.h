/*
 * What a lock service must be able to do, and how it tells its user what happened. How to
 * write one: docs/how-to/add-a-backend.md.
 *
 * A backend answers ONE request at a time and per request; it decides nothing: who waits,
 * when to ask again, when a lease is lost is the business of locks/ and engine/.
 *
 * Threads. One mutex, the client's, guards the whole backend. Every function is called
 * with it held, except where a part says otherwise. Exactly one thread, the driver, is in
 * arm → sleep → process at any time; other threads may call `ask`, `tick` and the like
 * meanwhile. So what is used while the driver sleeps must be either frozen by `arm` or
 * owned by the driver. `start`, `stop` and `free` are called once each, in this order;
 * `stop` and `free` when nobody drives. No function is a cancellation point: the engine
 * has switched cancellation off.
 *
 * Sleeping is the engine's (sleep.h): a backend only says for what. There is one count of
 * kicks, the host's. The engine reads it under the mutex before it computes how long to
 * sleep: no kick after that is slept over, whether it comes before `arm`, after it, or
 * while the mutex was let go between the two. Whatever makes what `arm` has said wrong
 * while a driver may be asleep, a new connection or one that was closed, is followed by
 * dlk_kick(host->kicks).
 *
 * The host's functions (what the backend calls) are called with the mutex held, and may
 * call `ask` and `watch` again from inside: a backend must be ready for that wherever it
 * reports. A backend may call them from inside any of its functions that has the mutex.
 *
 * What is NULL does nothing, or what its part says.
 */
#ifndef DLK_CONTRACT_BACKEND_H
#define DLK_CONTRACT_BACKEND_H

#include <dlock/dlock.h>

#include "locks/ask.h"
#include "locks/told.h"
#include "net/kicks.h"
#include "net/polls.h"
#include "util/error.h"
#include "util/info.h"
#include "util/kind.h"
#include "util/list.h"
#include "util/rand.h"
#include "util/settings.h"
#include "util/tell.h"
#include "util/uri.h"
#include "util/whys.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct dlk_backend dlk_backend;
typedef struct dlk_backend_type dlk_backend_type;
typedef struct dlk_host dlk_host;

/* Whom the backend tells. All with the client's mutex held, but for `news`. */
struct dlk_host {
    /* ---- what every backend calls ---- */

    /* A PENDING ask has its reply now. Not called for one that `ask` answered at once. */
    void (*answered)(dlk_host *host, dlk_ask *ask);
    /* The link is ready for requests (up, error NULL) or isn't (error says why, lent).
     * While it is down every ask is answered NOT_SENT at once. Down is told once per
     * failed try, with error->code EUNAVAIL when another try follows by itself, else
     * (EACCES, EPROTO, EINVAL …) what everybody waiting should fail with; the backend
     * goes on trying all the same. */
    void (*link)(dlk_host *host, bool up, const dlock_error *error);
    /* For the log; must not contain a secret. Formats at once, is delivered later. */
    void (*log)(dlk_host *host, dlock_level level, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

    /* ---- where the service tells something by itself ---- */

    /* A watched key may be free: ask again. Sent for nothing now and then; never relied
     * on. */
    void (*notified)(dlk_host *host, dlk_key *key);
    /* The grant of this number is asked for by somebody: an event for its holds. Told
     * only after `listen`; nothing is asked from inside. */
    void (*revoked)(dlk_host *host, uint64_t number);
    /* Somebody else wants the lock @p name (of @p size), which the grant of this number keeps, or may
     * (dlk_number_keeps). */
    void (*asked)(dlk_host *host, uint64_t number, const char *name, size_t size);
    /* The service has taken the grant of this number away, however much of its lease was
     * left: it is lost at once. Nothing of it is left there that would have to be given
     * back. */
    void (*lost)(dlk_host *host, dlk_key *key, uint64_t number);
    /* There is something to process that nobody may be waiting for: have somebody drive
     * soon. By any thread, WITHOUT the mutex. NULL: somebody always drives. */
    void (*news)(dlk_host *host);

    /* ---- where others are told what this client has ---- */

    /* What it has had, or waited for, for @p after at least: up to @p most lines in @p ret, which are
     * good as long as the mutex is held. NULL: of a node (node.h). */
    dlk_told_sum (*told)(dlk_host *host, int64_t now, int64_t after, dlk_told *ret,
                         size_t most);

    /* The wait of this thread for @p name that began before @p before is part of a circle of waits, and is to end
     * with DLOCK_EDEADLK. */
    void (*deadlock)(dlk_host *host, const char *name, uint64_t thread, int64_t before,
                     const char *why);

    /* ---- what it gives, fixed ---- */

    const char *uuid; /* this client's identity, 36 characters */
    const char *name; /* client.name: host:pid unless set */
    const char *who;  /* it with host and pid, for others to read: util/who.h */
    dlk_rand *rand;   /* for jitter; under the mutex */
    dlk_tell *tell;   /* for DLK_TELL */
    /* What was tried at which address, for the error of who connects; under the mutex. */
    dlk_whys *whys;
    /* The mutex that guards everything here, for `flush`. */
    pthread_mutex_t *mutex;
    /* Ends the driver's sleep; the nodes of a backend made of backends share it. */
    dlk_kicks *kicks;
    /* of such a node: that of the backend which it is a part of (node.h) */
    dlk_host *whole;

    /* ---- what the backend writes ---- */

    /* Counted by it, reported by dlock_client_stats. */
    int64_t commands, bytes_sent, bytes_received, reconnects;
    /* With `wires`: counted up whenever what they answer may have changed; … */
    uint64_t wiring;
    /* … some of what was asked waits until the socket takes it. */
    bool rest;
    /* Something may come at any time that can't wait for the next request, as the end of a connection which all
     * depends on: somebody drives though nobody waits. */
    bool heed;
};

/* What differs between services, for the engine and for dlock_client_features. */
typedef struct dlk_traits {
    const char *layout;    /* the only one; NULL: … */
    dlk_key_id layout_key; /* … this setting says which */
    int class;             /* as client.require: 0 efficiency, 1 fencing, 2 correctness */
    /* The lease is the client's, and what it has is looked at again after each reconnect;
     * see dlk_limits. */
    bool session;
    bool queues;        /* HELD leaves a place in the line that RELEASE gives back */
    bool fair;          /* always first in, first out among clients … */
    bool fair_asked;    /* … or where lock.fair asks for it and the layout can */
    bool tokens;        /* grants can fence */
    bool hands_on;      /* grants of some kinds can be exported and imported */
    bool deaf;          /* though the type has `listen`, nobody can be asked for a lock */
    int margin_percent; /* taken off every lease, of the ttl … */
    int64_t margin_ms;  /* … and as a constant */
    bool kinds[DLK_KIND_COUNT];
    /* Why it has no conditions; NULL: it has, or could have. */
    const char *no_conditions;
    bool tells;          /* clients tell what they have and wait for (client.deadlock) */
    bool keeps;          /* mutexes can be kept (lock.keep_ms) … */
    const char *no_keep; /* … or why they can't; NULL: they could */
    /* why they have no fencing tokens then; NULL: they have */
    const char *no_keep_tokens;
} dlk_traits;

/* What is given back, and nobody waits for. */
typedef enum dlk_unsettled {
    DLK_SETTLED,
    DLK_UNSETTLED_HARMLESS, /* it keeps nobody out, as on one of three nodes */
    DLK_UNSETTLED_BLOCKING, /* until it is done, nobody else can have it */
} dlk_unsettled;

/* So long an `expect` may take. */
#define DLK_EXPECT_MS 5
/* So many wires a backend may have. */
#define DLK_BACKEND_WIRES 8

struct dlk_backend_type {
    const char *name;           /* folder name: "local", "redis" */
    const char *const *schemes; /* URI schemes it serves, NULL at the end */
    dlk_traits traits;

    /* ---- the core: every backend has these eight ---- */

    /* Makes the backend. No I/O beyond local files; nothing is connected yet. Everything
     * in @p uri and @p settings is copied or kept only for the call. No other thread
     * knows of it: no mutex held. */
    dlock_err (*open)(dlk_host *host, const dlk_uri *uri, const dlk_settings *settings,
                      dlk_backend **ret, dlock_error **err);
    /* Begins to connect. host->link tells when it is up; may be told before `start`
     * returns. */
    void (*start)(dlk_backend *backend, int64_t now);
    /* Ends the connections in good order. Everything PENDING has been answered before, or
     * is answered UNKNOWN or NOT_SENT now. No driver is inside. `ask` answers NOT_SENT
     * from now on. */
    void (*stop)(dlk_backend *backend);
    /* After stop, or instead of start; joins what threads it has. No mutex held. */
    void (*free)(dlk_backend *backend);
    /* Answers at once by setting ask->reply, or leaves it PENDING and calls
     * host->answered later, exactly once, by ask->deadline at the latest. Never waits.
     * What it can't do it refuses (dlk_ask_refuse) with ENOTSUP. */
    void (*ask)(dlk_backend *backend, dlk_ask *ask, int64_t now);
    /* Time-outs, reconnects. Returns when to call it again (DLK_NEVER: no need); may be
     * called early, and while a driver sleeps. */
    int64_t (*tick)(dlk_backend *backend, int64_t now);
    /* The driver is about to sleep: says for what (dlk_polls_add), and until when at most
     * (dlk_polls_hurry). Writes what is waiting to be written, as far as that needs no
     * waiting, or, with `push`, freezes what that will write. */
    void (*arm)(dlk_backend *backend, dlk_polls *polls);
    /* The driver has slept, maybe for nothing: reads, without waiting, if there is no
     * `pull`, and digests what came. Something else may have happened to the backend
     * meanwhile, but no other `process`. */
    void (*process)(dlk_backend *backend, int64_t now);

    /* ---- names, where more is made of them than key->name. NULL: any name will do ---- */

    /* Can the service carry this name and kind? EINVAL, ENOTSUP with the reason. Fills
     * key->data and what else in dlk_key is the backend's. Any thread, no mutex held. */
    dlock_err (*key_open)(dlk_backend *backend, dlk_key *key, dlock_error **err);
    void (*key_close)(dlk_backend *backend, dlk_key *key);

    /* ---- settings that change what it can do. NULL: `traits` says it all ---- */

    /* What these settings make of the traits. */
    void (*adapt)(const dlk_settings *settings, dlk_traits *traits);
    /* Whether the layout that these settings choose has the kind. NULL: traits.kinds says
     * it. */
    bool (*has_kind)(const dlk_settings *settings, dlock_kind kind);

    /* ---- a service that tells something by itself. NULL: the engine's own polling is all ---- */

    /* From now on (on), or no longer, tell host->notified about the key. Never fails. */
    void (*watch)(dlk_backend *backend, dlk_key *key, bool on, int64_t now);
    /* From now on tell host->revoked. */
    void (*listen)(dlk_backend *backend, int64_t now);

    /* ---- I/O without the mutex, while others ask. NULL: `arm` writes, `process` reads ---- */

    /* Before and after the sleep, by the driver, WITHOUT the mutex. `push` writes; it may
     * change what `arm` has put into @p polls, or add to it. `pull` reads what has come,
     * and says in polls->more whether there may be more. Each push is followed by a pull,
     * unless `expect` has read. */
    void (*push)(dlk_backend *backend, dlk_polls *polls);
    void (*pull)(dlk_backend *backend, dlk_polls *polls);
    /* In the place of a poll, for a caller that waits for an answer of its own: a read
     * that waits, for DLK_EXPECT_MS at most, where an answer is sure to come soon and
     * nothing else is to be listened to. It can't be kicked: kicks are heard at its end.
     * WITHOUT the mutex. False: nothing came, or it isn't so: poll. */
    bool (*expect)(dlk_backend *backend, const dlk_polls *polls);
    /* Writes what is waiting to be written, without blocking, though another thread may
     * drive. What the socket doesn't take is left to the driver, who is kicked. Lets go
     * of host->mutex while it writes and has it again when it returns. NULL: the driver
     * is woken, or the engine's thread, to write it. */
    void (*flush)(dlk_backend *backend);

    /* ---- a sleep of its own, without descriptors. NULL: it is on what `arm` said ---- */

    /* Sleeps until there is something to digest, somebody has kicked since host->kicks
     * counted @p seen, or @p until has come. By the driver, WITHOUT the mutex. `arm` says
     * nothing then, and whatever is asked goes out without `flush`. */
    void (*sleep)(dlk_backend *backend, int64_t until, uint32_t seen);
    /* Ends it; called behind each kick of the engine. WITHOUT the mutex, any thread, safe
     * in a signal handler. */
    void (*kick)(dlk_backend *backend);

    /* ---- a program that waits in a poller of its own: engine/visit.c. NULL: it can't ---- */

    /* Puts the descriptors on which all comes that is to be read into @p fds, at most
     * DLK_BACKEND_WIRES, or none while somebody has to drive; false: it is never
     * possible. */
    bool (*wires)(const dlk_backend *backend, int *fds, size_t *ret_count);

    /* ---- its end ---- */

    /* Whether something is being given back that nobody waits for, and that takes
     * requests which aren't written yet, or answers: closing waits for that, as for
     * releases. NULL: never. */
    dlk_unsettled (*unsettled)(const dlk_backend *backend);
    /* In a fork's child, called from the atfork handler: closes what was inherited and is
     * none of util/descriptor.h's, touches nothing else (locks may be held by threads
     * that don't exist here). NULL: there is nothing. */
    void (*forked)(dlk_backend *backend);
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
