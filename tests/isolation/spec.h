/*
 * A schedule: sessions with steps, and the orders in which the steps are to be run. One text file
 * each, in specs/, of lines like these ('#' begins a comment, '\' goes on in the next line):
 *
 *     settings  lock.ttl_ms=200 ...          of all clients
 *     not redis because it has no queue      where it can't be run
 *     session   y of x                       y uses x's client; the others have one each
 *     session   a by proxy                   a reaches Redis through the proxy
 *     step wait w acquire 500 at drive.sleep
 *     order     take=OK wait release=OK w.held go w=OK
 *     order redis : ...                      only there
 *     mix       take release | wait go | cancel : OK ECANCELED
 *     long mix  ...                          only with DLK_SPECS_LONG
 *
 * In a session there is one call at a time. A step that begins one is done when the call is over,
 * has been stopped at the point behind `at`, or is known to wait for somebody else:
 *
 *     acquire MS, start MS     blocking, or as an operation; -1 is for ever
 *     release, check, verify   of the session's hold
 *     cancel W                 the operation of session W
 *
 * and these are done at once, or when what they wait for has come:
 *
 *     trap POINT   the session's next thread to come there is stopped: also the engine's
 *     go           what is stopped goes on
 *     overdue      the time of the session's call is up
 *     lapse MS     so many ms pass: longer than a lease
 *     server ...   a command of Redis, with the lock's name for $; or `server proxy ...`, a line for
 *                  the proxy (tests/proxy/README.md)
 *
 * In an order stand the names of steps, with `=` what its call must answer, and further:
 *
 *     S.held       S is stopped
 *     S.waits      S waits
 *     S.over       the call of S is over
 *     S=CODE       the same, and its answer
 *     proxied:N    N scripts have gone through the proxy since the order began
 *     asks:N       at most N acquires were sent, by all together, since the last asks
 *
 * When an order is over everything stopped goes on and holders release until nobody waits. Then
 * the lock must be free, with nobody in its line, and two must never have held it at once.
 *
 * A mix stands for all orders that keep the order within each group; behind the (last) colon is
 * what the calls may answer. A step that has nothing to do in such an order is passed over.
 */
#ifndef TESTS_ISOLATION_SPEC_H
#define TESTS_ISOLATION_SPEC_H

#include <stdbool.h>

enum {
    SPEC_SESSIONS = 8,
    SPEC_STEPS = 24,
    SPEC_ORDERS = 64,
    SPEC_TOKENS = 24,
    SPEC_WORD = 48
};

typedef struct spec_step {
    char name[SPEC_WORD], session[SPEC_WORD], verb[SPEC_WORD], arg[4 * SPEC_WORD],
        point[SPEC_WORD];
} spec_step;

typedef struct spec_session {
    char name[SPEC_WORD], of[SPEC_WORD];
    bool by_proxy;
} spec_session;

typedef struct spec_order {
    char tokens[SPEC_TOKENS][SPEC_WORD];
    int count;
    bool mix;
    char allowed[4 * SPEC_WORD]; /* of a mix */
} spec_order;

typedef struct spec {
    const char *name;
    char settings[256], not_because[256];
    spec_session sessions[SPEC_SESSIONS];
    spec_step steps[SPEC_STEPS];
    spec_order orders[SPEC_ORDERS];
    int session_count, step_count, order_count;
} spec;

/* Reads specs/NAME.spec for this backend; false after a failed check. With a line `not BACKEND`
 * the reason is in not_because. */
bool spec_read(spec *s, const char *name, const char *backend);
const spec_step *spec_find_step(const spec *s, const char *name);

/* Calls @p run for every order: as it stands, or every one that a mix stands for. False as soon as
 * that answers false. @p ret_count: how many there were. */
bool spec_each_order(const spec *s,
                     bool (*run)(const spec *s, const spec_order *order, void *arg),
                     void *arg, int *ret_count);

#endif
