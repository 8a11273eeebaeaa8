/* A request, an answer or news on its way; among packet.c, serve.c and wire.c. */
#ifndef SIM_ZOOKEEPER_PACKET_H
#define SIM_ZOOKEEPER_PACKET_H

#include "zookeeper/model.h"

typedef enum zk_what { PACKET_ASK, PACKET_PING, PACKET_BYE, PACKET_NEWS } zk_what;
typedef enum zk_way { WAY_THERE, WAY_ON, WAY_BACK } zk_way;
typedef enum zk_where { ON_WAY, BEFORE, BEHIND, ON_WAY_BACK } zk_where;

typedef struct zk_packet {
    /* in zk_net.limbo; those that travel the same way in the order of sending */
    dlk_list all;
    dlk_list lane; /* in a wire's unsent or pipeline */
    event event;
    dlk_zk_wire *wire;
    int connection, server;
    zk_what what;
    zk_way way;
    dlk_zk_request ask, also; /* also: if `ask` has one */
    char *path, *data, *also_path, *also_data, **made;
    char **paths;      /* of several */
    dlk_zk_call *call; /* NULL: nobody waits for it any more */
    zk_effect effect;
    int64_t zxid; /* of a decision; of an answer: what its server had applied */
    bool decided, lost;
    dlk_zk_news news;
    bool for_nothing; /* news of a watch that hasn't fired */
    fault strike;
    step at;
    int name;
    zk_where where; /* … it strikes */
} zk_packet;

extern struct zk_net {
    dlk_list wires, limbo;
} zk_net;

/* ---- packet.c ---- */
int64_t zk_delay(client *client);
/* The process is there, and hasn't closed it. */
bool zk_wire_lives(const dlk_zk_wire *wire);
zk_packet *zk_packet_new(dlk_zk_wire *wire, zk_what what);
void zk_packet_drop(zk_packet *packet);
void zk_packet_travel(zk_packet *packet, zk_way way, int64_t at, void (*next)(event *));
/* Nothing overtakes on one connection, whatever delays it: true, and it comes later. */
bool zk_packet_stays_behind(zk_packet *packet);
const char *zk_packet_verb(const zk_packet *packet);
/* What the client was about to be struck with hits one of its next requests. */
void zk_packet_aim(zk_packet *packet);
void zk_packet_strike(zk_packet *packet); /* here and now */
void zk_packet_strike_on_way(zk_packet *packet, int64_t until);
zk_watch *zk_watch_find(const dlk_list *in, const char *path, bool of_children);
void zk_watch_add(dlk_list *to, const char *path, bool of_children);
bool zk_watch_remove(dlk_list *from, const char *path, bool of_children);
void zk_watches_free(dlk_list *of);

/* ---- serve.c ---- */
void zk_serve_arrive(event *event);
void zk_serve_send_back(zk_packet *packet);
void zk_serve_news(dlk_zk_wire *wire, dlk_zk_news news, const char *path, bool gone);
/* On a new connection: what has changed since the last that was seen is told, the rest watched. */
void zk_serve_set_watches(dlk_zk_wire *wire);
/* The server answers nobody there any more; what it has sent on goes on. */
void zk_serve_leave(dlk_zk_wire *wire);

/* ---- wire.c ---- */
void zk_wire_cut(dlk_zk_wire *wire, const char *why);
void zk_wire_deliver(event *event);

#endif
