/* A thread that wants a lock, uses the resource when it gets it, and gives both back. */
#ifndef TESTS_FAULTS_SEEKER_H
#define TESTS_FAULTS_SEEKER_H

#include "resource.h"
#include "stage.h"

#include <pthread.h>

typedef struct seeker {
    dlock_lock *lock;
    resource *resource; /* NULL: it uses none */
    int64_t wait_ms;
    int64_t stays_ms; /* how long it keeps the lock */
    pthread_t thread;

    /* to be read when `over` */
    _Atomic bool over, held;
    dlock_err code, released;
    bool admitted;                       /* by the resource, for a look and a write */
    int64_t token, began, got_at, ended; /* by awake_now_ns() */
} seeker;

/* The fields above are set. */
bool seeker_start(seeker *me);
/* Waits for its end. */
void seeker_join(seeker *me);

#endif
