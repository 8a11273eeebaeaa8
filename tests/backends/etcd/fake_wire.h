/* A member of etcd's at the other end of the connection (fake_end.h), and a name in the place of a name
 * server's: it hears what is sent, and answers when the test says. It has one lease, and one key of ours. */
#ifndef TESTS_BACKENDS_ETCD_FAKE_WIRE_H
#define TESTS_BACKENDS_ETCD_FAKE_WIRE_H

#include "backends/etcd/calls.h"
#include "fake_end.h"
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
    int requests, lookups; /* without watches */
    int watches;
    int64_t watches_from; /* the last watch's first revision, as it was asked for */
    bool found;           /* the name that is looked up */
    bool held[FAKE_ASKS]; /* isn't answered for now */
    dlk_etcd_end ends[FAKE_ASKS];
    int well; /* so many transactions end well before that counts */
    int64_t revision;
    dlk_etcd_bytes key; /* ours */
    const char *value;  /* what it says; NULL: nothing */
    int64_t made;       /* its revision; 0: it isn't there */
    bool other;         /* somebody is before us in the line */
} there;

/* Opened, and nothing more: the names of two members. */
bool open_it(dlock_kind kind);
/* With a lease that was granted at this moment. */
bool begin_with(dlock_kind kind);
void end(void);
/* How many of them are under way. */
int count_asked(fake_ask what);
/* The first watch stands, as of that revision; false: there is none. */
bool say_it_watches(int64_t revision);
/* Everything is answered that isn't held, and what is asked then. */
void serve(void);

#endif
