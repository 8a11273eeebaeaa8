/* A backend without an engine, for targets that play its servers: what it is asked, and that each
 * request has one answer that makes sense. */
#ifndef TESTS_FUZZ_CLIENT_H
#define TESTS_FUZZ_CLIENT_H

#include "fuzz.h"

#include "contract/backend.h"

enum { CLIENT_KEYS = 4, CLIENT_ASKS = 8, CLIENT_WATCH = 30 /* for a verb */ };

typedef struct client_key {
    const char *name; /* NULL: none */
    dlock_kind kind;
} client_key;

#define CLIENT_UUID "11111111-2222-4333-8444-555555555555"

extern struct client {
    dlk_backend *backend;
    int64_t now;
    fuzz_bytes bytes; /* of the input, what is left */
    bool up;
    dlk_key keys[CLIENT_KEYS];
} client;

/* ---- the target's ---- */

/* A request has its answer. */
void target_answered(const dlk_ask *ask);
/* The link has come up. */
void target_up(void);

/* ---- what is done with it ---- */

/* Kinds that the layout of @p uri hasn't are left out. */
void client_open(const char *uri, const client_key keys[CLIENT_KEYS], fuzz_bytes bytes);
void client_ask(uint8_t verb, uint8_t how);
/* Stops it; all requests have to be answered then, and nothing is left. */
void client_close(void);
dlk_kicks *client_kicks(void);

#endif
