/* What the stories are told with: the steps that most of them take. */
#ifndef TORTURE_STEPS_H
#define TORTURE_STEPS_H

#include "world.h"

/* What may come instead where a server, a file or memory is needed. */
#define MEM_ERRORS  BIT(DLOCK_ENOMEM)
#define LINK_ERRORS (BIT(DLOCK_EUNAVAIL) | BIT(DLOCK_EUNKNOWN) | MEM_ERRORS)
#define OPEN_ERRORS                                                                      \
    (BIT(DLOCK_EUNAVAIL) | BIT(DLOCK_EACCES) | BIT(DLOCK_EINVAL) | BIT(DLOCK_EPROTO) |   \
     MEM_ERRORS)
#define ASK_ERRORS     (LINK_ERRORS | BIT(DLOCK_EACCES))
#define ACQUIRE_ERRORS (ASK_ERRORS | BIT(DLOCK_ETIMEDOUT))
#define RELEASE_ERRORS (LINK_ERRORS | BIT(DLOCK_ELOST))
#define CLOSE_ERRORS   (BIT(DLOCK_EUNKNOWN) | MEM_ERRORS)
#define OK             BIT(DLOCK_OK)

#define LONG_MS        (s->world->long_ms)
/* A wait in vain; where the answer must be "held", there has to be the time to hear it. */
#define SHORT_MS (s->baseline ? 100 : 20)

dlock_client *open_at(stage *s, const char *uri);
dlock_client *open_client(stage *s);
void close_client(stage *s, dlock_client *client);
/* A mutex of the world's name, and any other; NULL without a client. */
dlock_lock *make_lock(stage *s, dlock_client *client);
dlock_lock *make_kind(stage *s, dlock_client *client, dlock_kind kind, const char *name,
                      const char *settings);
dlock_hold *acquire(stage *s, dlock_lock *lock);
/* Of a mutex, which has a token, and of anything. */
void give_back(stage *s, dlock_hold *hold);
void give_back_any(stage *s, dlock_hold *hold);
void read_info(stage *s, dlock_info *info);

/* A pair of clients with a handle each. */
typedef struct pair {
    dlock_client *client[2];
    dlock_lock *lock[2];
} pair;

bool open_pair(stage *s, pair *two);
void close_pair(stage *s, pair *two);

/* Waits for the event with this tag, of which there may be none without memory. */
void await_event(stage *s, dlock_client *client, int fd, uint64_t tag);

/* The first client's hold is lost, as the second's lock is broken; its events come by @p fd. Releases it. */
void lose(stage *s, pair *two, int fd, dlock_hold *hold);

#endif
