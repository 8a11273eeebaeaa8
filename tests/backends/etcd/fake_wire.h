/* A way to an etcd in the place of libcurl's, and to its name in the place of a name server's: it hears what
 * is sent, and answers when the test says. Its server has one lease, and one key of ours. */
#ifndef TESTS_BACKENDS_ETCD_FAKE_WIRE_H
#define TESTS_BACKENDS_ETCD_FAKE_WIRE_H

#include "backends/etcd/wire.h"
#include "session/driven.h"

#define LEASE_MS 10000

typedef enum fake_ask {
    ASK_GRANT,
    ASK_KEEP,
    ASK_READ,
    ASK_TXN,
    ASK_OTHER, /* a doctor's */
    FAKE_ASKS
} fake_ask;

extern struct fake_wire {
    dlk_list asked, watched; /* dlk_etcd_call.link */
    int requests, lookups;
    bool found;           /* the name that is looked up */
    bool held[FAKE_ASKS]; /* isn't answered for now */
    dlk_etcd_end ends[FAKE_ASKS];
    int64_t revision;
    char *key;    /* ours, in base64 */
    int64_t made; /* its revision; 0: it isn't there */
} there;

/* Opened, and nothing more: the names of two members. */
bool open_it(dlock_kind kind);
/* With a lease that was granted at this moment. */
bool begin_with(dlock_kind kind);
void end(void);
/* How many of them are under way. */
int count_asked(fake_ask what);
/* Everything is answered that isn't held, and what is asked then. */
void serve(void);

#endif
