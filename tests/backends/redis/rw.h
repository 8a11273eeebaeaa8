/* What the tests of read/write locks on Redis share: one lock, asked for by hand on either side, a
 * look at what lies on the server, and others who leave something there. */
#ifndef TESTS_BACKENDS_REDIS_RW_H
#define TESTS_BACKENDS_REDIS_RW_H

#include "single.h"

#define TOKEN_KEY "redisson_lock_token:{L}"
#define CHANNEL   "redisson_rwlock:{L}"

enum { WRITE_SIDE, READ_SIDE };

extern int64_t ttl_ms;                /* of what is asked for; 20 s at first */
extern int64_t last_token, last_wait; /* of the last answer */

bool set_up_name(const char *name);
bool set_up(void); /* "L" */

dlk_reply ask_of(dlk_verb verb, int side, uint64_t number, const char *text);

#define READ(number)     ask_of(DLK_ACQUIRE, READ_SIDE, (number), NULL)
#define WRITE(number)    ask_of(DLK_ACQUIRE, WRITE_SIDE, (number), NULL)
#define READ_END(number) ask_of(DLK_RELEASE, READ_SIDE, (number), NULL)
#define WRITE_END(n)     ask_of(DLK_RELEASE, WRITE_SIDE, (n), NULL)
#define RENEW(side, n)   ask_of(DLK_RENEW, (side), (n), NULL)
#define VERIFY(side, n)  ask_of(DLK_VERIFY, (side), (n), NULL)
#define BREAK(text)      ask_of(DLK_BREAK, WRITE_SIDE, 0, (text))

/* What the server answers to a command, as a number. */
int64_t number_of(const char *command);
/* The key of a reader of ours, and what is left of it. */
const char *own_key(uint64_t number);
int64_t own_left(uint64_t number);
/* Whether the lock has a field of ours with this behind the number. */
bool has_field(uint64_t number, const char *behind);
/* Somebody else's reader, as Redisson writes it down. */
void foreign_reader(const char *owner, int64_t lease_ms);

#endif
