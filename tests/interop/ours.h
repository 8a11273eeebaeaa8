/* What one owner of the interop tests does with libdlock: a command in, the answer out. */
#ifndef OURS_H
#define OURS_H

#include <dlock/dlock.h>

#include <pthread.h>

enum { OURS_MAX_HOLDS = 16, OURS_MAX_ANSWER = 512 };

/* Shared by the owners of a process: how waits are told is a client's setting. */
typedef struct ours_clients {
    dlock_client *told, *polling;
    int64_t ttl_ms; /* the renewed lease of whoever names none; 0: the session's */
} ours_clients;

typedef struct contender {
    const char *name;
    const ours_clients *clients;
    struct {
        dlock_lock *lock;
        dlock_hold *hold;
    } holds[OURS_MAX_HOLDS];
    int held;
    pthread_mutex_t mutex; /* guards op */
    dlock_op *op;          /* the acquire that waits, for contender_cancel */
} contender;

void contender_init(contender *me, const char *name, const ours_clients *clients);

/* Does one command, which it takes apart; the answer is one line. Any one thread. */
void contender_obey(contender *me, char *line, char answer[OURS_MAX_ANSWER]);

/* Ends a wait of it. Any thread. */
void contender_cancel(contender *me);

#endif
