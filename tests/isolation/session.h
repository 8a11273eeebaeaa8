/*
 * Sessions of a schedule: a client and a thread each, which can be stopped at the named points of
 * the library (util/point.h).
 *
 * Who runs what. The runner's thread begins calls and looks on; a session's thread makes them. The
 * hook of the points runs on whatever thread comes by: a session's own, or the engine's thread of
 * its client, which is known by the moment it begins. One mutex guards all of it, and is never
 * held while the library is called.
 */
#ifndef TESTS_ISOLATION_SESSION_H
#define TESTS_ISOLATION_SESSION_H

#include "spec.h"

#include <dlock/dlock.h>

#include <pthread.h>
#include <stdint.h>

typedef enum session_call {
    CALL_NONE,
    CALL_ACQUIRE,
    CALL_START,
    CALL_RELEASE,
    CALL_CHECK,
    CALL_VERIFY,
    CALL_CANCEL,
    CALL_END,
} session_call;

typedef struct session {
    const char *name;
    dlock_client *client;
    bool own_client, shares; /* both: others use it, too */
    dlock_lock *lock;
    pthread_t thread;

    session_call call;      /* CALL_NONE: the last one is over */
    int64_t wait_ms, until; /* of an acquire */
    dlock_op *to_cancel;
    dlock_err result;
    dlock_hold *hold;
    dlock_op *op;

    char trap[SPEC_WORD];
    bool held;  /* stopped at the trap */
    bool waits; /* has been told that somebody else holds it, or has lain down */
} session;

/* Installs the hook; once. */
void sessions_begin(void);

/* With the client of @p of, if there is one. False after a failed check. */
bool session_open(session *s, const char *name, session *of, const char *uri,
                  const char *settings, const char *lock);
/* All of them, with nothing under way and nobody stopped. */
void sessions_close(session *all, int count);

bool session_busy(session *s);
bool session_stopped(session *s);
/* The operation of its last `start`, or NULL; lives until sessions_close. */
dlock_op *session_op(session *s);
/* Begins a call; when it is over, stopped or waiting this returns. False: it took too long. */
bool session_do(session *s, session_call call, int64_t wait_ms, dlock_op *to_cancel,
                const char *trap);
void session_trap(session *s, const char *point);
void session_go(session *s);

/* These wait until it is so; false when it takes too long. */
bool session_await_held(session *s);
bool session_await_waits(session *s);
bool session_await_over(session *s, dlock_err *ret);

/* Nobody is stopped from now on, and whoever is goes on; or traps count again. */
void sessions_drain(session *all, int count, bool drain);
/* How many acquires were sent since the last time it was asked. */
int sessions_asks(void);

int64_t session_now_ms(void);

#endif
