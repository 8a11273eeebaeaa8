/* What the actors of a scene have, and their calls. Each call is looked at when it returns: in time,
 * without a mutex, and with the cancel state as it was. Each execution is, when all is freed: nothing of
 * it may be left. */
#ifndef EXPLORE_STAGE_H
#define EXPLORE_STAGE_H

#include "scene.h"

#include "util/clock.h"

#include <dlock/dlock.h>

#include <stdbool.h>
#include <stdint.h>

#define LOCKS 4
#define OPS   4
#define MS    DLK_NS_PER_MS
#define LONG  (100 * DLK_NS_PER_SEC)

/* The scene's client and its locks a, b, c and d; what of these is left at the end is freed. */
extern dlock_client *client;
extern dlock_lock *locks[LOCKS];
extern dlock_op *ops[OPS];
extern dlock_hold *holds[LOCKS];
extern bool taken[LOCKS]; /* by one of the actors, who may rely on it */
extern const char *const lock_names[LOCKS];
extern int64_t began; /* when the execution did */

/* Around any call: it must return within @p wait_ms. */
typedef struct call {
    char text[64];
    int64_t until; /* when it must have returned */
    int cancel_state;
} call;

__attribute__((format(printf, 2, 3))) call enter(int64_t wait_ms, const char *format,
                                                 ...);
dlock_err leave(const call *made, dlock_err code);
/* It is one of these. */
void expect(dlock_err code, dlock_err a, dlock_err b);

dlock_err acquire(int lock, int64_t wait_ms, dlock_hold **ret);
dlock_err release(int lock, dlock_hold *hold);
/* Takes it, and gives it back; or it ends so. */
void use(int lock, int64_t wait_ms, dlock_err otherwise);
void free_hold(dlock_hold *hold);
dlock_op *start(int lock, int64_t wait_ms);
/* Until it is over, which must be so by then. */
dlock_err wait_for(dlock_op *op, int64_t until);
void free_op(dlock_op *op);
void cancel(dlock_op *op);
void close_client(void);

void nap_until(int64_t until);

/* Between actors. */
void raise_flag(int flag);
void await_flag(int flag);
/* The next event of this kind; others are passed over. */
dlock_event *await_event(dlock_what what);

/* The backend of clients that are opened from now on has no flush. */
extern bool only_drivers_write;
/* A connected client in `client`, with its locks. */
void begin_with(const char *settings);
/* A second one, connected and without locks, beside it. */
dlock_client *open_another(void);

#endif
