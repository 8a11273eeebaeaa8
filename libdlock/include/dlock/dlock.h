/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file dlock.h
 * libdlock: correct distributed locks over what you already run.
 *
 * What it promises: nobody else can get a lock before the validity of your hold ends, as long as
 * the server keeps its state. Validity is decided on this machine, by its clock, without trusting
 * any event. State which a server loses (restart, eviction, failover, an operator's break) is
 * noticed by the next renewal, at most a third of the lease later; until then, and against a pause
 * between your check and your write, only the fencing token protects the resource.
 *
 *     dlock_client *client = NULL;
 *     dlock_hold *hold = NULL;
 *     dlock_error *err = NULL;
 *     if (dlock_client_open("file:///run/lock/app", NULL, &client, &err) == DLOCK_OK &&
 *         dlock_acquire(client, "orders/42", 5000, &hold, &err) == DLOCK_OK) {
 *         while (dlock_hold_check(hold) == DLOCK_OK && work_is_left())
 *             do_a_piece_of_it(dlock_hold_token(hold));
 *         (void)dlock_hold_release(hold, &err);
 *     }
 *     if (err != NULL)
 *         fprintf(stderr, "%s\n", dlock_error_text(err));
 *     dlock_hold_free(hold);
 *     dlock_client_free(client);
 *     dlock_error_free(err);
 *
 * WHO MAY SHARE WHAT BETWEEN THREADS
 *
 *   | object                                             | may be used by                         |
 *   |----------------------------------------------------|----------------------------------------|
 *   | dlock_client, _lock, _hold, _cond, _op             | any thread, several at once            |
 *   | dlock_conf, dlock_info, dlock_error, dlock_event   | one thread at a time                   |
 *   | any of them, while it is freed                     | nobody else                            |
 *   | client, lock, hold, cond, op in a fork's child     | nobody: calls answer DLOCK_EFORKED     |
 *   | conf, info, error in a fork's child                | as before: they are plain memory       |
 *   | dlock_op_cancel in a signal handler                | yes; no other function                 |
 *
 * WHO FREES WHAT
 *
 *   | what                                               | who frees it                           |
 *   |----------------------------------------------------|----------------------------------------|
 *   | what _new, _open, _start, _next_event and _take_…  | you, with the _free of its type;       |
 *   | return, and every ret_…                            | NULL is fine, never free()             |
 *   | a dlock_error stored through `err`                 | you; a later call replaces or clears it|
 *   | the error of dlock_op_error                        | the op; valid until it is freed        |
 *   | the text of dlock_client_metrics                   | you: dlock_text_free()                 |
 *   | every returned const char *                        | the object asked; valid until its free |
 *   | dlock_version, _backends, _strerror, _errname      | nobody: static                         |
 *   | a conf given to a constructor                      | you: it was copied                     |
 *   | client, locks, holds, conds and ops                | in any order: each keeps what it needs |
 *   | the event fd                                       | the client; dup() it freely            |
 *
 * WHICH FUNCTIONS NEVER DO I/O (and never wait for anything but a short mutex)
 *
 *   | object  | no I/O                                                                           |
 *   |---------|----------------------------------------------------------------------------------|
 *   | library | all                                                                              |
 *   | error   | all                                                                              |
 *   | conf    | all (password files are read when a client connects)                             |
 *   | client  | _new _uri _stats _metrics _features _settings _event_fd _poll_fd _next_event;    |
 *   |         | _open when client.lazy=true                                                      |
 *   | lock    | _new _settings _free, dlock_multi_new                                            |
 *   | hold    | all but _release, _verify, _extend, and _guard's callbacks, which are yours;     |
 *   |         | _free, _downgrade: what a server has to hear is sent in the background           |
 *   | cond    | _new _free                                                                       |
 *   | op      | all but _wait                                                                    |
 *   | event   | all                                                                              |
 *   | info    | all                                                                              |
 *   | _start  | all return without waiting; the request may leave on the calling thread          |
 *
 * RULES FOR EVERY CALL
 *
 *   Every call that can fail returns a dlock_err. `err` may be NULL; else it points to NULL or to
 *   an error of ours: success sets it to NULL, failure replaces it. A ret_… is written only on
 *   success. A NULL conf means "no settings".
 *   These answers are possible everywhere and not repeated below: DLOCK_EINVAL (a NULL or a value
 *   out of range), DLOCK_ENOMEM, and for client, lock, hold, cond and op DLOCK_ECLOSED (the client was
 *   closed) and DLOCK_EFORKED (in a fork's child).
 *   Times are int64_t milliseconds, relative; a wait of 0 tries once, DLOCK_FOREVER has no limit,
 *   other negatives are DLOCK_EINVAL. Names and texts are C strings of any bytes.
 */
#ifndef DLOCK_H
#define DLOCK_H

#include <stddef.h>
#include <stdint.h>

#include <dlock/version.h>

#ifndef DLOCK_API
#if defined(__GNUC__)
#define DLOCK_API __attribute__((visibility("default")))
#else
#define DLOCK_API
#endif
#endif

/** Marks the calls whose result must be looked at: to ignore it is a bug. */
#ifndef DLOCK_CHECKED
#if defined(__GNUC__)
#define DLOCK_CHECKED __attribute__((warn_unused_result))
#else
#define DLOCK_CHECKED
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** A wait without limit. Plain, without a cast: SWIG would drop it. */
#define DLOCK_FOREVER (-1)

/** Text-keyed settings; see docs/reference/settings.md or dlock_conf_dump(). */
typedef struct dlock_conf dlock_conf;
/** One lock service, one random identity, its connections and its engine thread. */
typedef struct dlock_client dlock_client;
/** A kind, a name and settings; cheap. Also what dlock_multi_new() returns. */
typedef struct dlock_lock dlock_lock;
/** A reference to a grant: token, remaining validity, state. */
typedef struct dlock_hold dlock_hold;
/** A line of waiters for a signal, each of whom holds a lock again when it has one. */
typedef struct dlock_cond dlock_cond;
/** One thing being waited for; completes exactly once. */
typedef struct dlock_op dlock_op;
/** Something that happened; carries numbers and text, never pointers. */
typedef struct dlock_event dlock_event;
/** A read-only ordered list of keys with text or int64 values. */
typedef struct dlock_info dlock_info;
/** A code, one line of text, and the backend's own words. */
typedef struct dlock_error dlock_error;

/** What every call answers. Values are never renumbered or reused; new ones may be added. */
typedef enum dlock_err {
    /** Done. */
    DLOCK_OK = 0,
    /** Held by somebody else and the wait was 0; or the grant still has other holds. Retriable. */
    DLOCK_EBUSY = 1,
    /** Held by somebody else to the end of the wait. Retriable. */
    DLOCK_ETIMEDOUT = 2,
    /** dlock_op_cancel() or a free ended the wait; you hold nothing. */
    DLOCK_ECANCELED = 3,
    /** The validity is over, or the server said that the grant isn't ours. Final for that grant. */
    DLOCK_ELOST = 4,
    /** This hold was released, or the lock isn't held (any more) by the one you named. */
    DLOCK_ENOTHELD = 5,
    /** The wait could never end: the calling thread holds the lock already, or its holder waits, itself or
     * by way of others, for what the calling thread holds. */
    DLOCK_EDEADLK = 6,
    /** Not finished yet. */
    DLOCK_EPENDING = 7,
    /** The backend can't be reached, and nothing of the call is left there: nothing was sent, or the
     * last of it was answered and came to nothing. Retriable. */
    DLOCK_EUNAVAIL = 8,
    /** It may have happened, or happen yet: a request was sent and not answered, or a waiter lost the
     * connection while it had a place in the service's line. The library cleans up behind.
     * Retriable. */
    DLOCK_EUNKNOWN = 9,
    /** An argument, a key or a value is wrong; the text says which and why. */
    DLOCK_EINVAL = 10,
    /** This backend, layout or build can't do that. */
    DLOCK_ENOTSUP = 11,
    /** Wrong credentials, or a right is missing; the text names it. */
    DLOCK_EACCES = 12,
    /** Another layout or another kind of object is in use under this name. */
    DLOCK_ECONFLICT = 13,
    /** Too few of the servers answered. Retriable. */
    DLOCK_EQUORUM = 14,
    /** A counter or a buffer is at its end. */
    DLOCK_EOVERFLOW = 15,
    /** The client was closed. */
    DLOCK_ECLOSED = 16,
    /** The object was made before a fork() and this is the child. */
    DLOCK_EFORKED = 17,
    /** The peer doesn't speak the protocol we expect. */
    DLOCK_EPROTO = 18,
    /** Your own callback failed. */
    DLOCK_EUSER = 19,
    /** Out of memory. */
    DLOCK_ENOMEM = 20
} dlock_err;

/** What a lock is. */
typedef enum dlock_kind {
    /** One holder, reentrant for its owner. */
    DLOCK_MUTEX = 1,
    /**
     * The shared side of a read/write lock: its holders keep out those of the other side only. Each
     * grant has a token of its own, larger than all before it. For a thread that writes it is
     * another hold of the write's grant.
     */
    DLOCK_READ = 2,
    /**
     * The exclusive side of a read/write lock. For a thread that reads it is DLOCK_EDEADLK: there
     * is no way up, only down (dlock_hold_downgrade()). When a thread releases its last write hold
     * before a read hold within it, the grant goes on as a reader's. A DLOCK_MUTEX is another
     * kind: both on one name are DLOCK_ECONFLICT.
     */
    DLOCK_WRITE = 3,
    /**
     * `lock.permits` permits, of which one acquire takes `lock.take`. Every acquire is a grant of
     * its own, also by the same thread, and can't fence: its token is 0. A size other than that
     * of the semaphore that is there is DLOCK_ECONFLICT; without a size it has to be there
     * (DLOCK_EINVAL).
     */
    DLOCK_SEMAPHORE = 4,
    /** Acquire campaigns, the hold is the term, release resigns. */
    DLOCK_ELECTION = 5
} dlock_kind;

/** The life of a grant. LOST and RELEASED are final. */
typedef enum dlock_state {
    /** Yours. */
    DLOCK_HELD = 1,
    /** Yours still, but not renewed for half the lease. */
    DLOCK_SUSPECT = 2,
    /** Not yours any more, without your doing. */
    DLOCK_LOST = 3,
    /** Given back. */
    DLOCK_RELEASED = 4
} dlock_state;

/** How loud a log line is. */
typedef enum dlock_level {
    DLOCK_LOG_ERROR = 1,
    DLOCK_LOG_WARN = 2,
    DLOCK_LOG_INFO = 3,
    DLOCK_LOG_DEBUG = 4
} dlock_level;

/** What an event tells. */
typedef enum dlock_what {
    /** An op has finished (asked for by dlock_op_notify()). */
    DLOCK_EVENT_DONE = 1,
    /** A SUSPECT hold was renewed (this and the next three: asked for by dlock_hold_notify()). */
    DLOCK_EVENT_HELD = 2,
    /** A hold wasn't renewed for half its lease. */
    DLOCK_EVENT_SUSPECT = 3,
    /** A hold is lost. */
    DLOCK_EVENT_LOST = 4,
    /** Somebody asks for the lock; nothing is taken from you. */
    DLOCK_EVENT_REVOKE = 5,
    /** A connection came up (code DLOCK_OK) or went down. */
    DLOCK_EVENT_CONNECTION = 6,
    /** A log line, when no log sink is set. */
    DLOCK_EVENT_LOG = 7,
    /** LOG or CONNECTION events were dropped: the queue was full. */
    DLOCK_EVENT_OVERFLOW = 8,
    /** The client is closed; its last event. */
    DLOCK_EVENT_CLOSED = 9
} dlock_what;

/* ---- Library --------------------------------------------------------------------------- */

/**
 * The version of the library that is loaded, "major.minor.patch".
 *
 * Compare it with DLOCK_VERSION_STRING, the version compiled against.
 *
 * @return static text
 * @threads any
 * @since 0.1
 */
DLOCK_API const char *dlock_version(void);

/**
 * The version of the library that is loaded as one number, comparable with DLOCK_VERSION_NUM.
 *
 * @return major * 10000 + minor * 100 + patch
 * @threads any
 * @since 0.1
 */
DLOCK_API uint32_t dlock_version_num(void);

/**
 * The URI schemes this build can open.
 *
 * @return static text, words separated by one space: "mem file redis redis+unix"
 * @threads any
 * @since 0.1
 */
DLOCK_API const char *dlock_backends(void);

/**
 * One line in English on what a code means.
 *
 * Say dlock_error_text() to a person where you have an error object: it knows the circumstances.
 *
 * @return static text, also for a code this version doesn't know
 * @threads any; the log sink may call it
 * @since 0.1
 */
DLOCK_API const char *dlock_strerror(dlock_err code);

/**
 * The stable identifier of a code, "DLOCK_EBUSY".
 *
 * @return static text; "DLOCK_E?" for a code this version doesn't know
 * @threads any; the log sink may call it
 * @since 0.1
 */
DLOCK_API const char *dlock_errname(dlock_err code);

/**
 * Free a text that a call gave you as a char *. NULL is fine.
 *
 * @threads any
 * @since 0.1
 */
DLOCK_API void dlock_text_free(char *text);

/* ---- Error ----------------------------------------------------------------------------- */

/**
 * The code of an error.
 *
 * @return the code, the same as the call returned; DLOCK_OK for NULL
 * @threads one at a time
 * @since 0.1
 */
DLOCK_API dlock_err dlock_error_code(const dlock_error *error);

/**
 * One line, without a newline, that says what went wrong and where it helps, what to do.
 *
 * Never contains a secret.
 *
 * @return text owned by the error, never NULL; "" for NULL
 * @threads one at a time
 * @since 0.1
 */
DLOCK_API const char *dlock_error_text(const dlock_error *error);

/**
 * What the backend itself said, unchanged.
 *
 * @return text owned by the error; "" when the backend said nothing
 * @threads one at a time
 * @since 0.1
 */
DLOCK_API const char *dlock_error_backend(const dlock_error *error);

/**
 * Whether the same call may succeed later without anything being mended.
 *
 * @return 1 for EBUSY, ETIMEDOUT, EUNAVAIL, EUNKNOWN and EQUORUM, else 0
 * @threads one at a time
 * @since 0.1
 */
DLOCK_API int dlock_error_retriable(const dlock_error *error);

/**
 * Free an error. NULL is fine.
 *
 * Not for what dlock_op_error() lends.
 *
 * @threads one at a time
 * @since 0.1
 */
DLOCK_API void dlock_error_free(dlock_error *error);

/* ---- Conf ------------------------------------------------------------------------------ */

/**
 * Takes a log line. Called on whatever thread has something to say, without a mutex of ours held.
 *
 * It may call nothing of this library but dlock_strerror() and dlock_errname(), and should be
 * quick: the engine waits for it.
 *
 * @param user   as given to dlock_conf_set_log()
 * @param level  how loud; lines above `client.log_level` don't come
 * @param line   text without a newline and without secrets, valid during the call only
 */
typedef void dlock_log_fn(void *user, dlock_level level, const char *line);

/**
 * An empty set of settings.
 *
 * Constructors copy it, so one conf can serve many clients and locks and be freed at once.
 * Precedence: default < URI < the client's conf < the lock's conf.
 *
 * @return a conf, or NULL when out of memory; dlock_conf_set(NULL, …) then says DLOCK_EINVAL
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_conf *dlock_conf_new(void);

/**
 * Set one key, as text.
 *
 * Key and value are validated here; an unknown key names the one that was probably meant.
 * Setting twice replaces. A `client.`, `auth.` … key may be set here and is refused by
 * dlock_lock_new() when the conf is used for a lock.
 *
 * @param key    such as "lock.ttl_ms"; units are part of it
 * @param value  booleans: true/false, on/off, 1/0; NULL unsets
 * @return DLOCK_OK, DLOCK_EINVAL (also for a NULL conf)
 * @threads one at a time
 * @since 0.1
 */
DLOCK_API dlock_err dlock_conf_set(dlock_conf *conf, const char *key, const char *value,
                                   dlock_error **err);

/**
 * Set one key that takes a number or a boolean.
 *
 * @param value  in the unit the key names; a boolean takes 0 and 1
 * @return DLOCK_OK, DLOCK_EINVAL (also when the key takes no number)
 * @threads one at a time
 * @since 0.1
 */
DLOCK_API dlock_err dlock_conf_set_int(dlock_conf *conf, const char *key, int64_t value,
                                       dlock_error **err);

/**
 * Send a client's log lines to @p fn instead of making LOG events of them.
 *
 * @param fn    NULL unsets
 * @param user  handed to @p fn; must live until the client is freed
 * @return DLOCK_OK, DLOCK_EINVAL for a NULL conf
 * @threads one at a time
 * @since 0.1
 */
DLOCK_API dlock_err dlock_conf_set_log(dlock_conf *conf, dlock_log_fn *fn, void *user);

/**
 * List every key this build knows: `KEY.type`, `.default`, `.range`, `.scope`, `.backends`,
 * `.doc`, `.since`, and `.value` where @p conf sets it.
 *
 * Secrets are masked.
 *
 * @param conf      NULL lists the table alone
 * @param ret_info  yours to free
 * @return DLOCK_OK
 * @threads one at a time
 * @since 0.1
 */
DLOCK_API dlock_err dlock_conf_dump(const dlock_conf *conf, dlock_info **ret_info,
                                    dlock_error **err);

/**
 * Free a conf and wipe its secrets. NULL is fine.
 *
 * @threads one at a time
 * @since 0.1
 */
DLOCK_API void dlock_conf_free(dlock_conf *conf);

/* ---- Client ---------------------------------------------------------------------------- */

/**
 * Open a lock service: connect, authenticate, and check `client.require`.
 *
 * With `client.lazy=true` nothing is sent and dlock_client_connect() does that later, or whatever
 * is asked first: a try (0 ms) waits for that first connection, up to `client.connect_ms`.
 * URIs: `mem:`, `mem:NAME`, `file:///run/lock/app`, `redis://[user:pw@]host[:port][/db]`,
 * `redis+unix:///path` and what dlock_backends() names; parameters are conf keys:
 * `redis://h?lock.ttl_ms=10000`. A URI may raise `client.require` and `tls.verify`, never lower.
 *
 * @param conf        may be NULL; copied
 * @param ret_client  yours: dlock_client_free()
 * @return DLOCK_OK, DLOCK_EINVAL (URI or settings), DLOCK_EUNAVAIL (nobody answered within
 *         `client.connect_ms`), DLOCK_EACCES, DLOCK_ECONFLICT (a foreign file), DLOCK_EPROTO,
 *         DLOCK_ENOTSUP (no such backend in this build, or it can't give what is required, or a
 *         library isn't there that it needs)
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_err dlock_client_open(const char *uri, const dlock_conf *conf,
                                      dlock_client **ret_client, dlock_error **err);

/**
 * As dlock_client_open(), but nothing is sent, whatever `client.lazy` says: for those who connect by
 * dlock_client_connect_start(), which they can wait for in their own way, and cancel.
 *
 * `client.lazy` of dlock_client_settings() then says whether they were asked to leave it for later.
 *
 * @param conf        may be NULL; copied
 * @param ret_client  yours: dlock_client_free()
 * @return DLOCK_OK, DLOCK_EINVAL, DLOCK_ENOTSUP: as dlock_client_open()
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_err dlock_client_new(const char *uri, const dlock_conf *conf,
                                     dlock_client **ret_client, dlock_error **err);

/**
 * Connect a client that was opened with `client.lazy=true`; without effect when connected.
 *
 * @return as dlock_client_open()
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_err dlock_client_connect(dlock_client *client, dlock_error **err);

/**
 * dlock_client_connect() as an op.
 *
 * @return an op, never NULL
 * @threads any
 * @since 0.1
 */
DLOCK_API DLOCK_CHECKED dlock_op *dlock_client_connect_start(dlock_client *client);

/**
 * Stop a client: end every wait with DLOCK_ECLOSED, release every hold, join the engine.
 *
 * The memory stays until dlock_client_free(), so other threads may still be inside calls.
 * Closing twice is fine. Every hold is RELEASED afterwards; exported grants aren't released.
 *
 * @return DLOCK_OK, DLOCK_EUNKNOWN (a release wasn't confirmed within `client.close_ms`; it ends
 *         with its lease)
 * @threads any, but not the log sink
 * @since 0.1
 */
DLOCK_API dlock_err dlock_client_close(dlock_client *client, dlock_error **err);

/**
 * dlock_client_close() as an op; the client's last event is CLOSED.
 *
 * @return an op, never NULL
 * @threads any
 * @since 0.1
 */
DLOCK_API DLOCK_CHECKED dlock_op *dlock_client_close_start(dlock_client *client);

/**
 * Drop the caller's reference, closing first if need be. NULL is fine.
 *
 * Locks, holds and ops of this client keep what they need and may be freed later.
 *
 * @threads any, once, and not the log sink
 * @since 0.1
 */
DLOCK_API void dlock_client_free(dlock_client *client);

/**
 * Where the client is connected, without the password.
 *
 * @return text owned by the client
 * @threads any
 * @since 0.1
 */
DLOCK_API const char *dlock_client_uri(const dlock_client *client);

/**
 * What the client has counted since it was opened: grants, waits, renewals, losses (all, and by their
 * causes: `losses_expired`, `_denied`, `_taken`), commands, bytes, and histograms of waits (`wait`:
 * granted, `wait_timed_out`, `wait_cancelled`), holds and requests (`request_acquire`, `_renewal`,
 * `_release`, `_other`). Of kept locks (`lock.keep_ms`): `kept`, releases that sent nothing;
 * `local_grants`, acquires that asked nobody; and why they went back: `kept_asked` by others,
 * `kept_run_over` while others waited, `kept_idle` after their time, `kept_lost` at the service.
 *
 * @param ret_info  yours to free
 * @return DLOCK_OK
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_err dlock_client_stats(const dlock_client *client, dlock_info **ret_info,
                                       dlock_error **err);

/**
 * What one client, or each of this process, has counted and is doing, for Prometheus and whatever else
 * reads OpenMetrics text: counters, gauges, and histograms of waits, holds and requests.
 *
 *     GET /metrics → Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8
 *
 * Every name begins with dlock_, every series has the labels `client` (client.name; "#2", … behind
 * it where several clients of one process have the same one at one service, the lowest that is free, and
 * a number in any case behind one that ends like that) and `service` (the URI, without the password). Times are in seconds. A client's numbers are of one moment. One whose
 * memory isn't freed yet is counted, closed or not. The names: docs/how-to/metrics.md
 *
 * @param client_or_all  NULL: all clients of this process, on one page; none is fine
 * @param ret_text       ends with "# EOF"; yours: dlock_text_free()
 * @return DLOCK_OK
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_err dlock_client_metrics(const dlock_client *client_or_all,
                                         char **ret_text, dlock_error **err);

/**
 * What this backend, as configured, can do: kinds (`kinds.condition`, too), tokens, fairness, hand-off,
 * extending, keeping (`keep`: mutexes can have `lock.keep_ms`; `keep_tokens`: and have fencing tokens
 * then, too), class.
 *
 * @param ret_info  yours to free
 * @return DLOCK_OK
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_err dlock_client_features(const dlock_client *client,
                                          dlock_info **ret_info, dlock_error **err);

/**
 * What the client goes by: the value of every key that this build knows, as it came of the defaults, the
 * URI over them and the conf over both. `client.name` is the one that others see.
 *
 * A key is as in docs/reference/settings.md, a value as it could be set. A secret is `***`, or empty
 * where there is none.
 *
 * @param ret_info  yours to free
 * @return DLOCK_OK
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_err dlock_client_settings(const dlock_client *client,
                                          dlock_info **ret_info, dlock_error **err);

/**
 * List the locks whose names begin with @p prefix, as the server knows them.
 *
 * A snapshot, not one moment: locks come and go while it is taken. Where a part of the service
 * couldn't be looked at, the info has an entry `incomplete` that says why; that there are more than
 * @p max is no such case.
 *
 * @param prefix    NULL or "" for all; `client.prefix` goes before it
 * @param max       at most so many, 1 or more
 * @param ret_info  yours to free
 * @return DLOCK_OK, DLOCK_ENOTSUP, DLOCK_EUNAVAIL, DLOCK_EUNKNOWN, DLOCK_EACCES, DLOCK_EPROTO
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_err dlock_client_list(dlock_client *client, const char *prefix,
                                      int64_t max, dlock_info **ret_info,
                                      dlock_error **err);

/**
 * dlock_client_list() as an op; dlock_op_take_info() gives the list.
 *
 * @param max  at most so many, 1 or more
 * @return an op, never NULL
 * @threads any
 * @since 0.1
 */
DLOCK_API DLOCK_CHECKED dlock_op *
dlock_client_list_start(dlock_client *client, const char *prefix, int64_t max);

/**
 * Look at the server as an operator would: rights, layout, eviction, persistence, clock.
 *
 * @param ret_info  `verdict` 0 fine, 1 warning, 2 unsafe; `findings.N.id`, `.severity`, `.text`;
 *                  yours to free
 * @return DLOCK_OK (also with a bad verdict), DLOCK_ENOTSUP, DLOCK_EUNAVAIL, DLOCK_EUNKNOWN,
 *         DLOCK_EACCES, DLOCK_EPROTO
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_err dlock_client_doctor(dlock_client *client, dlock_info **ret_info,
                                        dlock_error **err);

/**
 * dlock_client_doctor() as an op; dlock_op_take_info() gives the findings.
 *
 * @return an op, never NULL
 * @threads any
 * @since 0.1
 */
DLOCK_API DLOCK_CHECKED dlock_op *dlock_client_doctor_start(dlock_client *client);

/**
 * Take over a grant that dlock_hold_export() gave away, under a new and larger token.
 *
 * Works once per ticket; kind, name, layout and ttl come from the ticket (etcd, ZooKeeper: the
 * client's ttl).
 *
 * @param ticket    a secret: whoever has it has the lock
 * @param ret_hold  yours: dlock_hold_free()
 * @return DLOCK_OK, DLOCK_ENOTHELD (used, lapsed, or nobody gave it out), DLOCK_EINVAL (no ticket,
 *         not all of one, or for another layout or prefix), DLOCK_ENOTSUP, DLOCK_EUNAVAIL,
 *         DLOCK_EUNKNOWN, DLOCK_EACCES, DLOCK_EPROTO
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_err dlock_client_import(dlock_client *client, const char *ticket,
                                        dlock_hold **ret_hold, dlock_error **err);

/**
 * dlock_client_import() as an op; dlock_op_take_hold() gives the hold.
 *
 * @return an op, never NULL
 * @threads any
 * @since 0.1
 */
DLOCK_API DLOCK_CHECKED dlock_op *dlock_client_import_start(dlock_client *client,
                                                            const char *ticket);

/**
 * A descriptor that is readable while dlock_client_next_event() has something to give.
 *
 * Level-triggered: put it into poll, epoll or an event loop, never read it, and call
 * dlock_client_next_event() until NULL. Made by the first call, which also turns LOG and
 * CONNECTION events on.
 *
 * @return the descriptor, owned by the client; -1 when closed, forked or out of descriptors
 * @threads any
 * @since 0.1
 */
DLOCK_API int dlock_client_event_fd(dlock_client *client);

/**
 * For a program whose threads sleep in a poller of its own: a descriptor that is readable when
 * dlock_client_drive() or dlock_client_next_event() has something to do.
 *
 * It takes the place of dlock_client_event_fd(), which it includes. From then on answers are read by
 * the program, on the thread that its poller has woken, instead of by a thread of the client's that
 * would have to wake the program in turn. What else there is to do (leases, deadlines, connections)
 * stays with the client's thread, which also reads what the program leaves lying for 50 ms.
 * Level-triggered; a poller that is told of changes only is fine as well. Never read it.
 *
 * Redis on one server, without TLS, has it, as long as no message has to be heard; at other times
 * it is the descriptor of events. A client that keeps locks (`lock.keep_ms`) always has to hear.
 *
 * @return the descriptor, owned by the client; -1 when closed, forked, out of descriptors, or when
 *         the service has nothing of the kind: use dlock_client_event_fd()
 * @threads any
 * @since 0.1
 */
DLOCK_API int dlock_client_poll_fd(dlock_client *client);

/**
 * What is to be done when dlock_client_poll_fd() is readable: read and digest what has come, without
 * waiting. Call dlock_client_next_event() until NULL after it: what this announces doesn't make the
 * descriptor readable.
 *
 * @return DLOCK_OK; DLOCK_EPENDING: several operations have finished at once, call it again as soon
 *         as those who waited for them have run: what they ask meanwhile leaves with that call;
 *         DLOCK_ENOTSUP: the client's thread reads now, and events are to be fetched as ever
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_err dlock_client_drive(dlock_client *client);

/**
 * The next event, if there is one; never waits.
 *
 * Several consumers share one stream: each event is given once. Events inform; whether a lock is
 * still held is for dlock_hold_check() to say.
 *
 * @return an event, yours to free, or NULL
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_event *dlock_client_next_event(dlock_client *client);

/* ---- Lock ------------------------------------------------------------------------------ */

/**
 * Describe a lock. Nothing is sent, and the name isn't touched before an acquire.
 *
 * Handles of one client on one name work together; those that disagree on what the server sees
 * (kind, layout, fairness, permits) get DLOCK_ECONFLICT at acquire.
 *
 * @param name      1…1024 bytes (with `client.prefix`), any byte but NUL. Where the service's keys
 *                  can't have some of them, as ZooKeeper's and memcached's, it lies there escaped, and
 *                  any other name as it is. DLOCK_EINVAL: too long for its keys (memcached: 250
 *                  bytes), or the name of a key that belongs to another lock (Redis)
 * @param conf      `lock.*` and other settings of scope L; may be NULL; copied
 * @param ret_lock  yours: dlock_lock_free()
 * @return DLOCK_OK, DLOCK_EINVAL, DLOCK_ENOTSUP (kind or setting this backend can't give)
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_err dlock_lock_new(dlock_client *client, dlock_kind kind,
                                   const char *name, const dlock_conf *conf,
                                   dlock_lock **ret_lock, dlock_error **err);

/**
 * One lock made of several: acquire takes all or nothing within one deadline.
 *
 * The members are taken in an order that can't deadlock. A member's loss is the loss of all;
 * dlock_hold_token() is 0, ask dlock_hold_member_token(). Inspect, break, revoke and wait_idle
 * on it: DLOCK_ENOTSUP.
 *
 * @param locks     none a multi-lock itself, no name twice; references are kept
 * @param count     1…64
 * @param conf      may be NULL; copied
 * @param ret_lock  yours: dlock_lock_free()
 * @return DLOCK_OK, DLOCK_EINVAL, DLOCK_ENOTSUP
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_err dlock_multi_new(dlock_lock *const *locks, size_t count,
                                    const dlock_conf *conf, dlock_lock **ret_lock,
                                    dlock_error **err);

/**
 * What the lock goes by: as dlock_client_settings(), of the keys whose scope is the lock; its own conf
 * goes over the client's. Multi-locks have none of their own: DLOCK_ENOTSUP.
 *
 * @param ret_info  yours to free
 * @return DLOCK_OK, DLOCK_ENOTSUP
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_err dlock_lock_settings(const dlock_lock *lock, dlock_info **ret_info,
                                        dlock_error **err);

/**
 * Free a lock handle; holds and ops made with it live on. NULL is fine.
 *
 * @threads any, once
 * @since 0.1
 */
DLOCK_API void dlock_lock_free(dlock_lock *lock);

/**
 * Acquire the mutex @p name with the client's settings: dlock_lock_new(), dlock_lock_acquire()
 * and dlock_lock_free() in one call.
 *
 * @param wait_ms   0 tries once, DLOCK_FOREVER waits without limit
 * @param ret_hold  yours: dlock_hold_free()
 * @return as dlock_lock_new() and dlock_lock_acquire()
 * @threads any
 * @since 0.1
 */
DLOCK_API DLOCK_CHECKED dlock_err dlock_acquire(dlock_client *client, const char *name,
                                                int64_t wait_ms, dlock_hold **ret_hold,
                                                dlock_error **err);

/**
 * Ask for the lock and wait up to @p wait_ms.
 *
 * A lock this owner already holds is taken once more, without a round trip: another hold of the
 * same grant. Who the owner is, `lock.owner` says; by default the calling thread.
 * On DLOCK_EUNKNOWN the lock may be granted all the same, to a request without an answer or to a
 * place in the service's line: the engine gives it back as soon as the backend answers; until then
 * it blocks others for one TTL at most. After any failure you hold nothing. An absent server is
 * retried to the deadline. Signals don't end the wait.
 *
 * Threads of this process that would wait for each other in a circle, by locks of whichever of its
 * clients: the one that would close it gets DLOCK_EDEADLK at once, whatever its deadline, and keeps
 * what it has; the text names the locks. A thread waits so in this call, and in dlock_op_wait() for an
 * acquire of its own (`lock.owner=thread`). Whoever has another thread release what it holds says
 * `lock.owner=none`. Holders in other processes, or with another client of this one, aren't looked at.
 * With `client.order=error` DLOCK_EDEADLK also says that the order in which the thread takes its locks
 * contradicts one that was learnt before; the text has both.
 *
 * @param wait_ms   0 tries once, DLOCK_FOREVER waits without limit
 * @param ret_hold  yours: dlock_hold_free()
 * @return DLOCK_OK, DLOCK_EBUSY (only with 0), DLOCK_ETIMEDOUT (the last answer was "held"),
 *         DLOCK_EUNAVAIL (can't be reached, and nothing asked here can be granted any more),
 *         DLOCK_EUNKNOWN (can't be reached, or doesn't answer, and something may be),
 *         DLOCK_EQUORUM, DLOCK_EDEADLK, DLOCK_ELOST (this owner still has an unreleased LOST hold
 *         on the name), DLOCK_EACCES, DLOCK_ECONFLICT, DLOCK_EPROTO, DLOCK_ENOTSUP,
 *         DLOCK_EOVERFLOW
 * @threads any
 * @since 0.1
 */
DLOCK_API DLOCK_CHECKED dlock_err dlock_lock_acquire(dlock_lock *lock, int64_t wait_ms,
                                                     dlock_hold **ret_hold,
                                                     dlock_error **err);

/**
 * dlock_lock_acquire() as an op; dlock_op_take_hold() gives the hold.
 *
 * By default each such acquire is an owner of its own, so that one thread may wait for the same
 * name many times; with `lock.owner=thread` it acts for the calling thread.
 * Cancelling is prompt and needs no network; the result is then DLOCK_ECANCELED, or DLOCK_OK when
 * the grant came first.
 *
 * @param wait_ms  0 tries once, DLOCK_FOREVER waits without limit
 * @return an op, never NULL
 * @threads any
 * @since 0.1
 */
DLOCK_API DLOCK_CHECKED dlock_op *dlock_lock_acquire_start(dlock_lock *lock,
                                                           int64_t wait_ms);

/**
 * Wait until nobody holds the lock, without taking it.
 *
 * Somebody else may have it by the time this returns.
 *
 * @param wait_ms  0 looks once, DLOCK_FOREVER waits without limit
 * @return DLOCK_OK, DLOCK_EBUSY (only with 0), DLOCK_ETIMEDOUT, DLOCK_EUNAVAIL, DLOCK_EUNKNOWN,
 *         DLOCK_EQUORUM, DLOCK_EACCES, DLOCK_ECONFLICT, DLOCK_EPROTO, DLOCK_ENOTSUP
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_err dlock_lock_wait_idle(dlock_lock *lock, int64_t wait_ms,
                                         dlock_error **err);

/**
 * dlock_lock_wait_idle() as an op.
 *
 * @param wait_ms  0 looks once, DLOCK_FOREVER waits without limit
 * @return an op, never NULL
 * @threads any
 * @since 0.1
 */
DLOCK_API DLOCK_CHECKED dlock_op *dlock_lock_wait_idle_start(dlock_lock *lock,
                                                             int64_t wait_ms);

/**
 * Ask the server who holds the lock and who waits.
 *
 * @param ret_info  held, kind, holders.N.{owner,token,remaining_ms,count,data}, waiters, layout;
 *                  of each holder client (its client.name), host, pid and since (when it was granted,
 *                  or asked, in ms since 1970) where the service knows them; of the first who wait in the service's
 *                  line, in its order, waiting.N.{owner,client,host,pid,since,data}; what is absent
 *                  is unknown (docs/reference/inspect.md).
 *                  waiters: those of this client, and of others those in the service's line, where
 *                  those of one client that wait with the same conf are one; absent: none of ours,
 *                  and there is no line.
 *                  Of a semaphore permits, how many there are (where the service doesn't keep
 *                  that: as lock.permits says), and permits_free, how many of them nobody has.
 *                  kept_ms: this client keeps it (`lock.keep_ms`), idle for so long.
 *                  clock_back_ms: the server's clock was set back by so much, and a lease from
 *                  before lasts as much longer; yours to free
 * @return DLOCK_OK, DLOCK_ECONFLICT, DLOCK_EUNAVAIL, DLOCK_EUNKNOWN, DLOCK_EQUORUM, DLOCK_EACCES,
 *         DLOCK_EPROTO, DLOCK_ENOTSUP
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_err dlock_lock_inspect(dlock_lock *lock, dlock_info **ret_info,
                                       dlock_error **err);

/**
 * dlock_lock_inspect() as an op; dlock_op_take_info() gives the answer.
 *
 * @return an op, never NULL
 * @threads any
 * @since 0.1
 */
DLOCK_API DLOCK_CHECKED dlock_op *dlock_lock_inspect_start(dlock_lock *lock);

/**
 * Take the lock away from its holder. For operators.
 *
 * The victim notices at its next renewal, so the next holder may overlap with what the victim
 * believes: only the fencing token, which is larger for the next, keeps a resource safe. Of a kept lock
 * (`lock.keep_ms`) all who have it one after the other are one owner: a later one may be hit.
 *
 * @param owner  as dlock_lock_inspect() showed it; NULL for whoever holds it
 * @return DLOCK_OK, DLOCK_ENOTHELD (nobody holds it, or another than @p owner), DLOCK_EUNAVAIL,
 *         DLOCK_EUNKNOWN, DLOCK_EQUORUM, DLOCK_EACCES, DLOCK_ECONFLICT, DLOCK_EPROTO,
 *         DLOCK_ENOTSUP
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_err dlock_lock_break(dlock_lock *lock, const char *owner,
                                     dlock_error **err);

/**
 * dlock_lock_break() as an op. Cancelling doesn't stop a break already sent.
 *
 * @param owner  as dlock_lock_inspect() showed it; NULL for whoever holds it
 * @return an op, never NULL
 * @threads any
 * @since 0.1
 */
DLOCK_API DLOCK_CHECKED dlock_op *dlock_lock_break_start(dlock_lock *lock,
                                                         const char *owner);

/**
 * Ask the holders to give the lock up: those whose hold is armed with dlock_hold_notify() get a REVOKE
 * event. Takes nothing away, and promises nothing: OK means that a holder's client has heard of it, or
 * will if it listens: on ZooKeeper, and on etcd with its next renewal. ENOTSUP: none did, because it
 * isn't libdlock or has armed no hold; or this service can't, or doesn't say whose a semaphore's permits
 * are. A client is heard a moment after it has armed its first hold; one that listens for another
 * reason, as for locks it keeps (`lock.keep_ms`), has heard though no hold is armed.
 *
 * @return DLOCK_OK, DLOCK_ENOTHELD, DLOCK_EUNAVAIL, DLOCK_EUNKNOWN, DLOCK_EACCES,
 *         DLOCK_ECONFLICT, DLOCK_EPROTO, DLOCK_ENOTSUP
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_err dlock_lock_revoke(dlock_lock *lock, dlock_error **err);

/**
 * dlock_lock_revoke() as an op.
 *
 * @return an op, never NULL
 * @threads any
 * @since 0.1
 */
DLOCK_API DLOCK_CHECKED dlock_op *dlock_lock_revoke_start(dlock_lock *lock);

/* ---- Hold ------------------------------------------------------------------------------ */

/**
 * The five steps of dlock_hold_guard(). Set `size` to sizeof(dlock_guarded).
 *
 * Each runs on the thread that called dlock_hold_guard(), without a mutex of ours held, and returns
 * DLOCK_OK or why not; your own detail lives in `user`. NULL members are skipped, except `run` and
 * `commit`, which are needed.
 */
typedef struct dlock_guarded {
    /** sizeof(dlock_guarded) as you compiled it. */
    size_t size;
    /** Record the state before. */
    dlock_err (*prepare)(void *user);
    /** Do the work where it can still be undone. */
    dlock_err (*run)(void *user);
    /** Make it final; let the resource compare the token. DLOCK_ELOST: it refused. */
    dlock_err (*commit)(void *user, int64_t token);
    /** Restore the state before. Runs when the lock may not be held: fenced or private state only. */
    void (*undo)(void *user);
    /** The lock was lost on the way; called exactly when the answer is DLOCK_ELOST. */
    void (*lost)(void *user);
} dlock_guarded;

/**
 * Whether the lock is still yours. Decided by this machine's clock alone, so call it often.
 *
 * @return DLOCK_OK (HELD or SUSPECT, and validity remains), DLOCK_ELOST, DLOCK_ENOTHELD (released)
 * @threads any
 * @since 0.1
 */
DLOCK_API DLOCK_CHECKED dlock_err dlock_hold_check(const dlock_hold *hold);

/**
 * How long the lock is yours for certain if no renewal succeeds any more.
 *
 * @return milliseconds; 0 whenever dlock_hold_check() isn't DLOCK_OK
 * @threads any
 * @since 0.1
 */
DLOCK_API int64_t dlock_hold_remaining_ms(const dlock_hold *hold);

/**
 * The lease that the service has granted: how long it lasts when nobody renews it. Less than
 * `lock.ttl_ms` where the service gives less, as a ZooKeeper with a shorter maxSessionTimeout does.
 *
 * @return milliseconds; of a multi-lock the shortest of its members; 0 in a fork's child and for NULL
 * @threads any
 * @since 0.1
 */
DLOCK_API int64_t dlock_hold_ttl_ms(const dlock_hold *hold);

/**
 * The fencing token: later grants of this name have larger ones. Readable after the release.
 *
 * Hand it to the resource with each write; the resource keeps the highest it has seen and refuses
 * smaller ones. Nothing else may be read into the number.
 *
 * @return > 0, or 0 when this grant can't fence (also in a fork's child)
 * @threads any
 * @since 0.1
 */
DLOCK_API int64_t dlock_hold_token(const dlock_hold *hold);

/**
 * The fencing token of one member of a multi-lock.
 *
 * @param index  0…count - 1, as given to dlock_multi_new(); 0 is the hold itself elsewhere
 * @return > 0, or 0 when there is none
 * @threads any
 * @since 0.1
 */
DLOCK_API int64_t dlock_hold_member_token(const dlock_hold *hold, size_t index);

/**
 * The state of the grant. Use dlock_hold_check() to decide, this to report.
 *
 * @return the state; DLOCK_LOST in a fork's child and for NULL
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_state dlock_hold_state(const dlock_hold *hold);

/**
 * The owner id under which the server knows this grant; of a multi-lock its first member's.
 *
 * @return text owned by the hold; "" in a fork's child, or when there is no memory for it
 * @threads any
 * @since 0.1
 */
DLOCK_API const char *dlock_hold_owner(const dlock_hold *hold);

/**
 * The name of the lock, without `client.prefix`; of a multi-lock all names, with '+' between them.
 *
 * @return text owned by the hold
 * @threads any
 * @since 0.1
 */
DLOCK_API const char *dlock_hold_name(const dlock_hold *hold);

/**
 * Say that the work still moves: with `lock.renew=fed` a lease is only renewed after this.
 *
 * @return as dlock_hold_check()
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_err dlock_hold_feed(dlock_hold *hold);

/**
 * Ask for this hold's HELD, SUSPECT, LOST and REVOKE events, under @p tag.
 *
 * @param tag  comes back in dlock_event_tag(); don't reuse one that may still be on its way
 * @return DLOCK_OK; DLOCK_ELOST, DLOCK_ENOTHELD: it is over already, no event comes
 * @threads any
 * @since 0.1
 */
DLOCK_API DLOCK_CHECKED dlock_err dlock_hold_notify(dlock_hold *hold, uint64_t tag);

/**
 * Turn this write hold into a read hold, without letting another writer in between. Its token
 * and its validity stay.
 *
 * At once here, then at the server in the background, as a release: other clients' readers come
 * in when the server has heard of it.
 *
 * @return DLOCK_OK, DLOCK_ENOTHELD, DLOCK_ELOST, DLOCK_ENOTSUP (not a write hold), DLOCK_EBUSY
 *         (the grant has other write holds)
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_err dlock_hold_downgrade(dlock_hold *hold, dlock_error **err);

/**
 * Give this grant away: the hold is RELEASED and the ticket lets dlock_client_import() take it.
 *
 * Renewal stops: a ticket that nobody imports lapses with the lease. Where locks go with their
 * client (`mem:`, `file:`, etcd), the service is told, as of a release, and keeps it until then;
 * on ZooKeeper the client's session outlives its close for that.
 *
 * @param ret_ticket  text of at most 2 KiB owned by the hold; a secret
 * @return DLOCK_OK, DLOCK_ENOTHELD, DLOCK_ELOST, DLOCK_EBUSY (the grant has other holds),
 *         DLOCK_ENOTSUP
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_err dlock_hold_export(dlock_hold *hold, const char **ret_ticket,
                                      dlock_error **err);

/**
 * Run an operation so that it takes effect only while the lock is held: check, prepare, run, check,
 * commit.
 *
 * prepare fails: nothing to undo, DLOCK_EUSER. run fails: undo, DLOCK_EUSER. The second check fails
 * or commit answers DLOCK_ELOST: undo, lost, DLOCK_ELOST. Another failure of commit: undo,
 * DLOCK_EUSER. When commit succeeded the answer is DLOCK_OK even if time ran out meanwhile.
 * Never releases the hold.
 *
 * @param guarded  copied before the first callback
 * @param user     handed to the callbacks
 * @return DLOCK_OK, DLOCK_ELOST, DLOCK_ENOTHELD (released before it began), DLOCK_EUSER
 * @threads any; the callbacks run on the calling thread
 * @since 0.1
 */
DLOCK_API dlock_err dlock_hold_guard(dlock_hold *hold, const dlock_guarded *guarded,
                                     void *user, dlock_error **err);

/**
 * Give this hold back; the server hears of it when it is the grant's last.
 *
 * Whatever the answer, the lock isn't yours afterwards, and this client's next acquire of the name
 * goes out behind the release. The object stays until dlock_hold_free().
 * With `lock.release=async`: DLOCK_OK when queued.
 *
 * @return DLOCK_OK (confirmed inside validity), DLOCK_ELOST (validity was over or the server said
 *         "not yours"), DLOCK_ENOTHELD (released before), DLOCK_EUNKNOWN (unanswered; repeated in
 *         the background), DLOCK_EUNAVAIL (not sent yet; likewise)
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_err dlock_hold_release(dlock_hold *hold, dlock_error **err);

/**
 * dlock_hold_release() as an op. Cancelling stops the waiting, never the release.
 *
 * @return an op, never NULL
 * @threads any
 * @since 0.1
 */
DLOCK_API DLOCK_CHECKED dlock_op *dlock_hold_release_start(dlock_hold *hold);

/**
 * Ask the server whether it still has this grant as ours, and renew nothing.
 *
 * For what the clock can't know: a wiped server, an operator's break.
 *
 * @return DLOCK_OK, DLOCK_ELOST, DLOCK_ENOTHELD; DLOCK_EUNAVAIL, DLOCK_EUNKNOWN, DLOCK_EQUORUM:
 *         nothing learnt, state and validity as they were
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_err dlock_hold_verify(dlock_hold *hold, dlock_error **err);

/**
 * dlock_hold_verify() as an op.
 *
 * @return an op, never NULL
 * @threads any
 * @since 0.1
 */
DLOCK_API DLOCK_CHECKED dlock_op *dlock_hold_verify_start(dlock_hold *hold);

/**
 * Set the grant's ttl from now on, up to `lock.max_hold_ms`.
 *
 * Less than what remains changes nothing. On ZooKeeper and etcd leases belong to the client's
 * session: DLOCK_ENOTSUP however much remains; `extend` of dlock_client_features() is 0 there.
 *
 * @param ttl_ms  100…2592000000 (30 days)
 * @return DLOCK_OK, DLOCK_ELOST, DLOCK_ENOTHELD, DLOCK_ENOTSUP;
 *         DLOCK_EUNAVAIL, DLOCK_EUNKNOWN, DLOCK_EQUORUM: state and validity as they were
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_err dlock_hold_extend(dlock_hold *hold, int64_t ttl_ms,
                                      dlock_error **err);

/**
 * dlock_hold_extend() as an op. Cancelling doesn't take an extend back.
 *
 * @param ttl_ms  100…2592000000 (30 days)
 * @return an op, never NULL
 * @threads any
 * @since 0.1
 */
DLOCK_API DLOCK_CHECKED dlock_op *dlock_hold_extend_start(dlock_hold *hold,
                                                          int64_t ttl_ms);

/**
 * Free a hold; one that is still held is released in the background. NULL is fine.
 *
 * Withdraws its events that weren't fetched.
 *
 * @threads any, once
 * @since 0.1
 */
DLOCK_API void dlock_hold_free(dlock_hold *hold);

/* ---- Condition ------------------------------------------------------------------------- */

/**
 * Describe a condition: a line in which holders of a lock wait for a signal, as at a pthread_cond_t.
 * Nothing is sent.
 *
 *     while (code == DLOCK_OK && nothing_to_do()) {
 *         dlock_hold *again = NULL;
 *         code = dlock_cond_wait(cond, hold, DLOCK_FOREVER, &again, &err);
 *         dlock_hold_free(hold);
 *         hold = again;
 *     }
 *
 * Always in a loop: a wait may end without a signal (`spurious_wakes` of dlock_client_stats()), and
 * another holder may have been there before.
 *
 * @param name      one among the names of locks: where it is a lock's, in use, DLOCK_ECONFLICT; on
 *                  ZooKeeper and etcd conditions have names of their own, and no lock is in the way
 * @param conf      may be NULL; copied. `lock.ttl_ms` is how long a signal stays with a waiter that
 *                  can't be heard of any more; `cond.owner`
 * @param ret_cond  yours: dlock_cond_free()
 * @return DLOCK_OK, DLOCK_EINVAL, DLOCK_ENOTSUP (this backend has no conditions; the text says why)
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_err dlock_cond_new(dlock_client *client, const char *name,
                                   const dlock_conf *conf, dlock_cond **ret_cond,
                                   dlock_error **err);

/**
 * Free a condition's handle; ops made with it live on. NULL is fine.
 *
 * @threads any, once
 * @since 0.1
 */
DLOCK_API void dlock_cond_free(dlock_cond *cond);

/**
 * Give the lock back, wait for a signal up to @p wait_ms, and take the lock again.
 *
 * The place in the line is confirmed before the lock goes back: no signal of whoever has it next is
 * missed. Signals come in the order of the line. Whoever dies, is cancelled or can't take the lock any
 * more passes its signal on to the next.
 * As in POSIX @p wait_ms bounds the waiting for the signal; taking the lock again takes as long as it
 * takes, unless it is cancelled or the client closed. The lock is then a new grant, with a larger token.
 * What fails before the lock was given back leaves @p hold as it was; what fails later, and
 * dlock_op_cancel(), leave nothing held: dlock_hold_check() says which.
 *
 * @param hold      of a mutex or of a read/write lock's write side, this client's, and the only one of
 *                  its grant; stays yours to free. NULL: without a lock, for those who look elsewhere
 *                  whether what they wait for is so, and may miss a signal in between
 * @param wait_ms   0 lets others have the lock for a moment, DLOCK_FOREVER has no limit
 * @param ret_hold  yours: dlock_hold_free(); written with DLOCK_OK and with DLOCK_ETIMEDOUT, and not
 *                  without @p hold
 * @return DLOCK_OK (signalled, or, rarely, not), DLOCK_ETIMEDOUT (not signalled in time; the lock is
 *         held again), DLOCK_EBUSY (the grant has other holds), DLOCK_ENOTHELD, DLOCK_ELOST (the lock
 *         was lost before it was given back), DLOCK_ENOTSUP (another kind of lock), DLOCK_ECONFLICT,
 *         and for the line and the lock what dlock_lock_acquire() answers
 * @threads any
 * @since 0.1
 */
DLOCK_API DLOCK_CHECKED dlock_err dlock_cond_wait(dlock_cond *cond, dlock_hold *hold,
                                                  int64_t wait_ms, dlock_hold **ret_hold,
                                                  dlock_error **err);

/**
 * dlock_cond_wait() as an op; dlock_op_take_hold() gives the hold, also with DLOCK_ETIMEDOUT.
 *
 * @param hold     released or freed before the lock was given back: DLOCK_ENOTHELD
 * @param wait_ms  0 lets others have the lock for a moment, DLOCK_FOREVER has no limit
 * @return an op, never NULL
 * @threads any
 * @since 0.1
 */
DLOCK_API DLOCK_CHECKED dlock_op *
dlock_cond_wait_start(dlock_cond *cond, dlock_hold *hold, int64_t wait_ms);

/**
 * Signal the first @p count of those who wait, in their order.
 *
 * Where nobody waits it is lost. The lock need not be held; what its holder changed is seen by whom
 * this wakes either way.
 *
 * @param count      1 or more
 * @param hold       one that has to be valid, or nothing is signalled; NULL: none, which is
 *                   DLOCK_ENOTHELD with `cond.owner=true`
 * @param ret_count  how many were signalled; may be NULL
 * @return DLOCK_OK (also when nobody waits), DLOCK_ENOTHELD, DLOCK_ELOST, DLOCK_ECONFLICT,
 *         DLOCK_EUNAVAIL, DLOCK_EUNKNOWN (sent and not answered, and not sent again: doing it once more
 *         wakes too many at worst; so it is with DLOCK_ENOMEM), DLOCK_EACCES, DLOCK_EPROTO
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_err dlock_cond_signal(dlock_cond *cond, int64_t count, dlock_hold *hold,
                                      int64_t *ret_count, dlock_error **err);

/**
 * dlock_cond_signal() as an op; dlock_op_take_info() gives `signalled`.
 *
 * @param count  1 or more
 * @return an op, never NULL
 * @threads any
 * @since 0.1
 */
DLOCK_API DLOCK_CHECKED dlock_op *dlock_cond_signal_start(dlock_cond *cond, int64_t count,
                                                          dlock_hold *hold);

/**
 * Signal all who wait: dlock_cond_signal() without a count.
 *
 * @param hold       as of dlock_cond_signal()
 * @param ret_count  how many were signalled; may be NULL
 * @return as dlock_cond_signal()
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_err dlock_cond_broadcast(dlock_cond *cond, dlock_hold *hold,
                                         int64_t *ret_count, dlock_error **err);

/**
 * dlock_cond_broadcast() as an op; dlock_op_take_info() gives `signalled`.
 *
 * @return an op, never NULL
 * @threads any
 * @since 0.1
 */
DLOCK_API DLOCK_CHECKED dlock_op *dlock_cond_broadcast_start(dlock_cond *cond,
                                                             dlock_hold *hold);

/* ---- Op -------------------------------------------------------------------------------- */

/**
 * Ask for one DONE event when the op finishes, under @p tag.
 *
 * @param tag  comes back in dlock_event_tag(); don't reuse one that may still be on its way
 * @return DLOCK_EPENDING: exactly one event comes, unless the op is freed before;
 *         DLOCK_OK: it has finished, look now, no event comes
 * @threads any
 * @since 0.1
 */
DLOCK_API DLOCK_CHECKED dlock_err dlock_op_notify(dlock_op *op, uint64_t tag);

/**
 * Wait for an op to finish; its own deadline and cancellation go on meanwhile.
 *
 * The end of this wait ends nothing but this wait.
 *
 * @param wait_ms  0 looks, DLOCK_FOREVER waits without limit
 * @return DLOCK_OK (finished: see dlock_op_result()), DLOCK_EPENDING
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_err dlock_op_wait(dlock_op *op, int64_t wait_ms);

/**
 * What came of it: what the blocking call would have returned.
 *
 * @return DLOCK_EPENDING while it runs; DLOCK_ECANCELED, or the answer
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_err dlock_op_result(const dlock_op *op);

/**
 * The detail of a failed op.
 *
 * @return an error lent until dlock_op_free(); NULL while it runs and when it succeeded
 * @threads any
 * @since 0.1
 */
DLOCK_API const dlock_error *dlock_op_error(const dlock_op *op);

/**
 * Take the hold that an acquire, an import or a wait for a signal got.
 *
 * @return a hold, yours to free, the first time; then and for other ops NULL
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_hold *dlock_op_take_hold(dlock_op *op);

/**
 * Take the info that a list, doctor, inspect or signal got.
 *
 * @return an info, yours to free, the first time; then and for other ops NULL
 * @threads any
 * @since 0.1
 */
DLOCK_API dlock_info *dlock_op_take_info(dlock_op *op);

/**
 * Stop waiting. Without effect on an op that has finished.
 *
 * Prompt, and needs no network. The only function that a signal handler may call.
 *
 * @threads any, and signal handlers
 * @since 0.1
 */
DLOCK_API void dlock_op_cancel(dlock_op *op);

/**
 * Free an op: cancel it if it runs, release its hold if nobody took it. NULL is fine.
 *
 * @threads any, once
 * @since 0.1
 */
DLOCK_API void dlock_op_free(dlock_op *op);

/* ---- Event ----------------------------------------------------------------------------- */

/**
 * What happened.
 *
 * @return the kind of event; new kinds may be added, skip what you don't know
 * @threads one at a time
 * @since 0.1
 */
DLOCK_API dlock_what dlock_event_what(const dlock_event *event);

/**
 * The number given to dlock_op_notify() or dlock_hold_notify().
 *
 * @return the tag; 0 for events of the client
 * @threads one at a time
 * @since 0.1
 */
DLOCK_API uint64_t dlock_event_tag(const dlock_event *event);

/**
 * The code that goes with it: the op's result, the reason of a loss, why a connection ended.
 *
 * @return a code
 * @threads one at a time
 * @since 0.1
 */
DLOCK_API dlock_err dlock_event_code(const dlock_event *event);

/**
 * The token of the hold it is about.
 *
 * @return the token; 0 when it is about none
 * @threads one at a time
 * @since 0.1
 */
DLOCK_API int64_t dlock_event_token(const dlock_event *event);

/**
 * One line for people: the log line, the server, the name of the lock.
 *
 * @return text owned by the event, never NULL
 * @threads one at a time
 * @since 0.1
 */
DLOCK_API const char *dlock_event_text(const dlock_event *event);

/**
 * Free an event. NULL is fine.
 *
 * @threads one at a time
 * @since 0.1
 */
DLOCK_API void dlock_event_free(dlock_event *event);

/* ---- Info ------------------------------------------------------------------------------ */

/**
 * How many entries there are.
 *
 * @return the count; 0 for NULL
 * @threads one at a time
 * @since 0.1
 */
DLOCK_API size_t dlock_info_count(const dlock_info *info);

/**
 * The key of an entry, dotted: "holders.0.owner".
 *
 * @param index  0…count - 1
 * @return text owned by the info; NULL beyond the end
 * @threads one at a time
 * @since 0.1
 */
DLOCK_API const char *dlock_info_key(const dlock_info *info, size_t index);

/**
 * The value of an entry as text; a number in decimal.
 *
 * @param index  0…count - 1
 * @return text owned by the info; NULL beyond the end
 * @threads one at a time
 * @since 0.1
 */
DLOCK_API const char *dlock_info_text(const dlock_info *info, size_t index);

/**
 * The value of an entry as a number.
 *
 * @param index  0…count - 1
 * @return the number; a text parsed as decimal; 0 when it is none or beyond the end
 * @threads one at a time
 * @since 0.1
 */
DLOCK_API int64_t dlock_info_int(const dlock_info *info, size_t index);

/**
 * The value of @p key as text.
 *
 * @return text owned by the info; NULL when there is no such key
 * @threads one at a time
 * @since 0.1
 */
DLOCK_API const char *dlock_info_get(const dlock_info *info, const char *key);

/**
 * Everything as one line of JSON: dotted keys nested, numbered ones as arrays.
 *
 * Texts that aren't UTF-8 have the bad bytes replaced by U+FFFD.
 *
 * @return text owned by the info, made at the first call; NULL when out of memory
 * @threads one at a time
 * @since 0.1
 */
DLOCK_API const char *dlock_info_json(dlock_info *info);

/**
 * Free an info. NULL is fine.
 *
 * @threads one at a time
 * @since 0.1
 */
DLOCK_API void dlock_info_free(dlock_info *info);

/* ---- Scoped cleanup (gcc and clang) ---------------------------------------------------- */

#if defined(__GNUC__) && !defined(SWIG)
/**
 * Declares a pointer to a T that is freed when its scope ends: DLOCK_AUTO(dlock_hold) hold = NULL;
 *
 * Declare them in the order error, client, lock, hold, so that they go in the reverse.
 */
#define DLOCK_AUTO(T) __attribute__((cleanup(T##_auto_), unused)) T *

#define DLOCK_AUTO_DEFINE_(T)                                                            \
    static __inline__ __attribute__((unused)) void T##_auto_(T **object)                 \
    {                                                                                    \
        T##_free(*object);                                                               \
    }

DLOCK_AUTO_DEFINE_(dlock_conf)
DLOCK_AUTO_DEFINE_(dlock_client)
DLOCK_AUTO_DEFINE_(dlock_lock)
DLOCK_AUTO_DEFINE_(dlock_hold)
DLOCK_AUTO_DEFINE_(dlock_cond)
DLOCK_AUTO_DEFINE_(dlock_op)
DLOCK_AUTO_DEFINE_(dlock_event)
DLOCK_AUTO_DEFINE_(dlock_info)
DLOCK_AUTO_DEFINE_(dlock_error)
#undef DLOCK_AUTO_DEFINE_
#endif

#ifdef __cplusplus
}
#endif

#endif
