/* A ZooKeeper made of the input, in the place of libdlock/backends/zookeeper/library.c: a few nodes, and
 * answers as a server gives them, or as the input says. Others' nodes are put in by the target. */
#ifndef TESTS_FUZZ_ZOO_H
#define TESTS_FUZZ_ZOO_H

#include "fuzz.h"

#include "backends/zookeeper/inner.h"

typedef struct zoo_node {
    char *path, *data;
    size_t size;
    int64_t czxid, owner;
    bool watched, children_watched;
} zoo_node;

enum { ZOO_NODES = 48 };

extern struct zoo {
    zoo_node nodes[ZOO_NODES];
    size_t count;
    int64_t zxid, session;
    int32_t sequence; /* of the next node that is made with one */
    bool lied;        /* some answer wasn't what a server would say */
} zoo;

/* How an answer is given: below ZOO_LIES as it is, else not. */
enum { ZOO_LIES = 0xc0 };

/* Somebody makes a node, with the folders above it; NULL: there is one, or no room. */
zoo_node *zoo_make(const char *path, const void *data, size_t size, int64_t owner);
void zoo_remove(size_t index);
/* The first of what was asked is answered. False: nothing was. */
bool zoo_answer(uint8_t how);
/* The session's news: CONNECTED and so on. */
void zoo_tell(dlk_zk_news news, const char *path);
/* The target's: a list of children is about to be answered, as it is. */
void zoo_listed(const char *folder);
void zoo_free(void);

#endif
