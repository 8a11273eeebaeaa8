/* A way to a ZooKeeper in the place of libzookeeper's: it hears what is sent, answers when the test says, and
 * brings the library's news in the order that the test wants. Its server has no more than one node of ours,
 * or several that were made at once, and one of the test's. */
#ifndef TESTS_BACKENDS_ZOOKEEPER_FAKE_WIRE_H
#define TESTS_BACKENDS_ZOOKEEPER_FAKE_WIRE_H

#include "backends/zookeeper/library.h"
#include "session/driven.h"

#define SESSION    0x77
#define SESSION_MS 10000
#define THEIRS     "somebody's"

extern struct fake_wire {
    dlk_zk_wire *wire; /* the one that is open */
    int opened, closed, requests, made, deleted;
    bool full;      /* none can be opened */
    bool busy;      /* it needs memory itself */
    char *node;     /* the one that was made last, or the first of them; NULL: deleted */
    size_t several; /* how many there are, with the numbers behind its own */
    char *beside;   /* the test's, or NULL */
    int64_t
        zxid; /* of the last one that was made by a MOVE, or written: the next is larger */
    char *data;  /* what lies in the folder "/n"; owned, NULL: nothing */
    int version; /* … and how often that was written */
    char *giver; /* owned: of whom number 2 imports */
    dlk_zk_end ends[DLK_ZK_UNWATCH + 1]; /* of requests to come, by their verbs */
} there;

/* Opened, and nothing more. */
bool open_it(dlock_kind kind);
/* Connected, and proved to live at this moment. */
bool begin_with(dlock_kind kind);
bool begin(void); /* a mutex */
/* … and what number 1 has made, with THEIRS in the folder, is another client's: number 2 has a ticket for it. */
bool begin_behind_a_giver(void);
dlk_reply ask_as_second(dlk_verb verb);
void end(void);

void bring_of(dlk_zk_news news, int64_t session, const char *path);
void bring(dlk_zk_news news, int64_t session);
/* As many of those that were asked are answered, and what is asked then. */
void serve_some(int count);
/* Everything. */
void serve(void);

#endif
