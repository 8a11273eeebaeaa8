/* What the tests of a mutex that is handed over share: three clients of one Redis, driven by hand, and
 * what lies on the server after each step. */
#ifndef TESTS_BACKENDS_REDIS_HANDOVER_H
#define TESTS_BACKENDS_REDIS_HANDOVER_H

#include "harness/redis_server.h"
#include "world.h"

enum { CLIENTS = 3 };

#define QUEUE   "dlock_queue:{L}"
#define CHANNEL "redisson_lock__channel:{L}"

/* What a client is seen to be told: a subscription of the test's own would be a receiver. */
typedef struct client {
    world w;
    dlk_key *key;
} client;

extern redis_server server;
extern client clients[CLIENTS];
extern const char *claim_ms; /* at most the lease: nobody is too late by accident */
#define A (&clients[0])
#define B (&clients[1])
#define C (&clients[2])

bool open_client(client *c, const char *handover);
void close_client(client *c);

/* After the server is started; false after a failed check. */
bool open_clients(void);

#define SETUP()                                                                          \
    do {                                                                                 \
        if (!redis_server_available())                                                   \
            return;                                                                      \
        CHECK(redis_server_start(&server, NULL) && open_clients());                      \
    } while (0)

void teardown(void);

dlk_reply do_it(client *c, dlk_verb verb, uint64_t number);
const char *owner(const client *c, uint64_t number);
const char *holder(void);
int64_t number_from(const char *command);
/* The line, as the server has it. */
bool line_is(const char *first, const char *second);
/* Waits until the client is heard on its own channel. */
bool listens(client *c);
/* Releases, naming the next of its own. */
dlk_ask pass(client *c, uint64_t number, uint64_t next);
bool nothing_is_left(void);

#endif
