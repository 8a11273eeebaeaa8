/*
 * A model of a ZooKeeper ensemble, as far as locks can tell: what the files of this folder share.
 *
 *     client.c    a simulated client's end: host, driver, what it is asked
 *     wire.c      its connection, and what the client library does with it (the backend's library.h)
 *     packet.c    what is on its way
 *     serve.c     a server's end of the connections
 *     ensemble.c  three servers: a leader that orders, followers that apply; sessions and their ends
 *     trouble.c   what goes wrong with them
 *     tree.c      the nodes of one server
 *     rules.c     who holds what, read from the leader's nodes by the recipes' rules and not by the
 *                 library's; and what must be true of these nodes
 *
 * A request goes to the client's server. Reads are answered from what that has applied; writes
 * and syncs go on to the leader, which decides at once, and are answered when the server has
 * applied as much as the leader had then. Answers of one session come in order.
 */
#ifndef SIM_ZOOKEEPER_MODEL_H
#define SIM_ZOOKEEPER_MODEL_H

#include "sim.h"

#include "backends/zookeeper/inner.h"
#include "backends/zookeeper/library.h"

#define ZK_SERVERS 3
#define ZK_TICK    (200 * MS)
#define ZK_PATH    160

/* ---- tree.c ---- */

typedef struct zk_node {
    dlk_list link; /* in the order of creation */
    char *path, *data;
    size_t size;
    int64_t czxid, mzxid, pzxid; /* made; changed; its children changed */
    int64_t owner;               /* the session of an ephemeral one */
    int32_t version, made;       /* made: children so far */
    int32_t series;              /* so many were made at once */
    bool container;
    /* rules.c's, in the leader's tree: whose it is, as far as can be known. */
    uint64_t number;
    int64_t token;
    bool side; /* a downgrade's */
} zk_node;

/* What the leader has decided, as every server applies it. */
typedef struct zk_txn {
    dlk_list link; /* in a server's backlog */
    int64_t zxid, at;
    enum { ZK_TXN_CREATE, ZK_TXN_DELETE, ZK_TXN_SET, ZK_TXN_END } what;
    char *path, *data;
    size_t size;
    int64_t owner; /* of what is created; END: the session */
    int32_t series;
    bool container, numbered;
    bool goes_on; /* the next one belongs to it: nobody sees the one without the other */
} zk_txn;

typedef struct zk_tree {
    int server;
    dlk_list nodes;
    int64_t zxid; /* of what was applied last */
} zk_tree;

/* What a request comes to; owned by whoever has it. */
typedef struct zk_effect {
    dlk_zk_end end;
    char *text;
    size_t size;
    dlk_zk_stat stat;
    char **children; /* as a dlk_zk_call's */
    size_t child_count;
} zk_effect;

void zk_tree_begin(zk_tree *tree, int index);
void zk_tree_end(zk_tree *tree);
zk_node *zk_tree_find(const zk_tree *tree, const char *path);
zk_node *zk_tree_parent(const zk_tree *tree, const char *path);
bool zk_tree_is_child(const zk_node *node, const char *parent);
int32_t zk_tree_count(const zk_tree *tree, const char *parent);
dlk_zk_stat zk_tree_stat(const zk_tree *tree, const zk_node *node);
/* Fires watches; what is made is the last of the list. */
void zk_tree_apply(zk_tree *tree, const zk_txn *txn);
dlk_zk_end zk_tree_read(const zk_tree *tree, const dlk_zk_request *ask, zk_effect *ret);
void zk_effect_free(zk_effect *effect);
void *zk_need(void *memory); /* not NULL */

/* ---- ensemble.c ---- */

typedef struct zk_session {
    dlk_list link;
    int64_t id, timeout; /* ns */
    int64_t heard;       /* when the leader was last told that it lives: true time */
    bool over;
    int client, generation;
    unsigned touched; /* by servers that haven't told the leader yet, a bit each */
} zk_session;

typedef struct zk_server {
    zk_tree tree;
    dlk_list backlog; /* zk_txn.link */
    event apply;
    int64_t down_until, frozen_until, lags_until;
    int64_t alone_since, alone_until; /* cut off from the others */
} zk_server;

void zk_begin(void);
void zk_end(void);
void zk_heal(void);
zk_server *zk_server_at(int index);
zk_tree *zk_leader_tree(void);
zk_session *zk_session_find(int64_t id);
zk_session *zk_session_open(const client *client, int64_t timeout);
/* This server has heard of it. */
void zk_touch(zk_session *session, int index);
/* It is over, and what it made goes. */
void zk_session_end(zk_session *session);
/* A server that takes a connection now from who has seen so much, or -1. */
int zk_server_for(client *client, int64_t zxid);
bool zk_stands_still(int index);
bool zk_serves(int index); /* it runs, and knows a leader */
/* The leader decides. The answer may be given where its zxid has been applied. */
int64_t zk_decide(const dlk_zk_request *ask, int64_t session, zk_effect *ret);
/* The way to the leader is open from here. */
bool zk_reaches_leader(int index);
bool zk_delete(const char *path); /* by an operator */
bool zk_fault(fault what, dlk_rand *dice, client *client, int name);

/* ---- wire.c ---- */

/* A watch, as the client's library knows it, or as a server does for one connection. */
typedef struct zk_watch {
    dlk_list link;
    bool of_children;
    char path[];
} zk_watch;

struct dlk_zk_wire {
    dlk_list all;
    client *owner;
    int generation;
    dlk_zk_inbox *inbox;
    uint32_t epoch;
    int64_t timeout; /* ns */
    int64_t session; /* 0: none yet */
    int64_t zxid;    /* the last that was seen */
    int connection;  /* counts them */
    int server;
    bool up;      /* as the network has it */
    bool told_up; /* … and as the library has told it */
    bool closed, expired, silent, deaf;
    int64_t heard, spoke; /* by, to the library: true time */
    dlk_list calls;       /* dlk_zk_call.sent */
    dlk_list unsent;      /* zk_packet.lane: made while there was no connection */
    dlk_list pipeline;    /* zk_packet.lane: at the server, in order */
    dlk_list watches;     /* zk_watch.link: the library's */
    dlk_list armed;       /* … and the server's, of this connection */
    event dial, noticed;
};

void zk_wires_begin(void);
void zk_wires_end(void);
void zk_wires_tick(void); /* pings, and silence noticed */
/* What is watched there has happened at this server. */
void zk_wires_fire(int index, const char *path, bool of_children, bool gone);
/* This server has applied more, or the leader has decided: answers that waited for that go. */
void zk_wires_pump(int index);
/* All connections to it, or that of the session, break. */
void zk_wires_cut(int index, const char *why);
void zk_wires_expel(int index, int64_t session);
/* What was on its way to the leader from there is lost. */
void zk_wires_drop_forwarded(int index);
void zk_cut(client *client, const char *why);
void zk_silence(client *client, bool both_ways);
bool zk_is_quiet(const client *client);
bool zk_is_well(const client *client);
/* Whose session it is, if it is the one that he works with; else NOBODY. */
int zk_wires_client(int64_t session);
void zk_died(client *client);
bool zk_spurious(client *client, int name);

/* ---- client.c ---- */
extern const service zk_service;
void zk_wake(client *client);

/* ---- rules.c ---- */
void zk_rules_begin(void);
/* The leader's tree has changed: @p node was made, or is about to be deleted by its own session. */
void zk_rules_made(zk_node *node, bool numbered);
void zk_rules_deleted(const zk_node *node, int64_t by);
/* What lies there was written: by who is first in its line, if that counts from then on. */
void zk_rules_written(const zk_node *folder);
void zk_rules_look(int by); /* whose request it was, or NOBODY */
/* Whose nodes lie there, or ALL_NAMES. */
int zk_rules_name_of(const char *path);
int zk_holders(int name, holder ret[MAX_HELD]);
void zk_watchdog(int name);
bool zk_attends(int name);
void zk_check_rest(void);

#endif
