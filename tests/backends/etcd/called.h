/* An etcd of the test's, without a JSON gateway, behind calls of the test's (caller.h). */
#ifndef TESTS_BACKENDS_ETCD_CALLED_H
#define TESTS_BACKENDS_ETCD_CALLED_H

#define AWAIT_LIMIT_MS INT64_C(120000) /* it takes its time to be there again */

#include "caller.h"
#include "harness/certificates.h"
#include "harness/etcd_server.h"

extern struct called {
    etcd_server server;
    certificates made;
    dlk_tls *tls; /* or NULL */
} called;

/* Starts it, and connects; false: the test is skipped, or has failed. */
bool called_begin(void);
bool called_connect(void);
void called_end(void);

/* The next that is over; NULL: none is. */
dlk_etcd_call *called_next_over(void);

#endif
