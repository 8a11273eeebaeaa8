/* The other end of a client's connection to etcd, in a test's memory: calls are heard on it, and answered as the
 * test wants. Whatever the client connects to is this; of its connections there is one at a time. */
#ifndef TESTS_BACKENDS_ETCD_FAKE_END_H
#define TESTS_BACKENDS_ETCD_FAKE_END_H

#include "backends/etcd/messages.h"
#include "net/http2_peer.h"

enum { FAKE_PREFIX = 5 /* of a message: a flag and its size */ };

extern struct fake_end {
    int fd; /* -1: none */
    peer peer;
} fake_end;

/* The test's: a step of the client's driver, and what it does when one has connected. */
void fake_end_drive(void);
void fake_end_connected(void);

void fake_end_begin(void);
void fake_end_hang_up(void);
/* What is said on either side is heard on the other, until both are silent. */
void fake_end_exchange(void);

dlk_etcd_method fake_end_method(const peer_request *request);
/* Its first message; NULL: it isn't whole. Later ones lie behind it. */
const char *fake_end_message(const peer_request *request, size_t *ret_size);

/* ---- of an answer, all or its parts ---- */

void fake_end_say_head(int stream);
void fake_end_say_message(int stream, const void *message, size_t size);
void fake_end_say_status(int stream, int status, const char *words);
/* Nothing but a status; @p words without spaces: "%20". */
void fake_end_refuse(int stream, int status, const char *words);

#endif
