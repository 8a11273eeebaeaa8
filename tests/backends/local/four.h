/* Four clients of one table and one name that each of them has a key of. Time is what the tests say. */
#ifndef TESTS_LOCAL_FOUR_H
#define TESTS_LOCAL_FOUR_H

#include "client.h"

#define MS  DLK_NS_PER_MS
#define TTL 1000 /* ms */

enum { CLIENTS = 4 };

extern fake *clients[CLIENTS];
extern dlk_key *keys[CLIENTS];

/* A table of its own for every test; @p setting with this value, unless that is NULL. Returns now. */
int64_t four_set_up(dlock_kind kind, const char *setting, const char *value);
void tear_down(void);
/* The answer to number @p number of this client; the table is sound after it. */
answer ask(dlk_verb verb, int who, uint64_t number, int32_t take, int64_t now);
/* The same of a request that the test has filled in; its info is freed. */
answer ask_this(int who, dlk_ask *one, int64_t now);
/* How often the client was told since it was asked last. */
int told(int who);

#endif
