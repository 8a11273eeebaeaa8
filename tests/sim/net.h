/* A request, an answer or a message on its way; between net.c and server.c. */
#ifndef SIM_NET_H
#define SIM_NET_H

#include "sim.h"

typedef struct message {
    dlk_list link; /* in sim.limbo */
    event event;
    wire *wire;
    int client, generation;
    dlk_buf bytes; /* on the way there the request, on the way back what is answered */
    /* Of a request that carries an ask; else no verb and ALL_NAMES. */
    dlk_verb verb;
    uint64_t number, next;
    int32_t take;
    bool shared, once;
    int name;
    int64_t ttl_ms;
    step at;
    dlk_reply reply; /* for the story */

    bool reply_lost, copy, queued;
    int64_t sent_at;
    fault strike; /* when it is at the server, or on its way back */
    bool strike_before;
} message;

#define NET_ARGS 256

/* Takes a command apart; returns its size, 0 when it isn't whole yet. */
size_t net_parse(const char *data, size_t size, dlk_arg args[NET_ARGS],
                 size_t *ret_count);

/* ---- redlock/client.c, servers.c ---- */
const dlk_list *redlock_flight(const client *client,
                               int node); /* what it has asked a node */
step redlock_step_of(const client *client,
                     const dlk_ask *ask); /* of one node's request */
void redlock_apply(message *message, dlk_buf *answer);

/* ---- conditions.c ---- */
void conditions_before(
    int name); /* to be called around each request that carries an ask */
void conditions_after(const message *message, const dlk_arg *args, size_t count,
                      const dlk_buf *answer);

/* ---- memcached/client.c ---- */
const dlk_list *mc_flight(const client *client); /* dlk_ask.link: what it has asked */

/* ---- memcached/server.c ---- */
size_t mc_command_size(const char *data, size_t size);
void mc_apply(const message *message, dlk_buf *answer);

#endif
