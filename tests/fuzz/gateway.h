/* An etcd made of the input, at the other end of the client's connection (backends/etcd/fake_end.h): the
 * simulator's keys (tests/sim/etcd/store.c), and answers as a member gives them, or as the input says. */
#ifndef TESTS_FUZZ_GATEWAY_H
#define TESTS_FUZZ_GATEWAY_H

#include "fuzz.h"

/* How a call is answered: below GATEWAY_LIES as it is, else not. */
enum { GATEWAY_LIES = 0xc0 };

/* @p bytes: of the input, what is left. */
void gateway_begin(fuzz_bytes *bytes);
void gateway_end(void);
/* What both have said is heard. */
void gateway_hear(void);
/* Somebody puts a key there. */
void gateway_put(const void *key, size_t size, fuzz_bytes value);
/* The session's lease ends. */
void gateway_expire(void);
/* One of those under way is answered, or a watch fires. False: nothing is. */
bool gateway_answer(uint8_t which, uint8_t how);

#endif
