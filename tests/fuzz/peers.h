/* Servers made of the input, for targets where a client has several of them: whoever it connects to is
 * us. They read its commands and answer as a Redis does, or as the input says; time is the input's. */
#ifndef TESTS_FUZZ_PEERS_H
#define TESTS_FUZZ_PEERS_H

#include "client.h"
#include "replies.h"

enum { PEERS = 48 };

/* A connection of the client's, from the other end. */
typedef struct peer {
    int fd; /* -1: none */
    char host[64];
    uint16_t port;
    dlk_resp_reader *reader;
} peer;

extern struct peers_world {
    bool odd;     /* the answer to each command is the input's choice */
    bool refuses; /* connections */
    /* something was said for nothing, or not said: answers may be others' */
    bool shifted;
    peer peers[PEERS];
    int granted; /* answers to scripts that may be taken for a grant */
} peers;

/* ---- the target's ---- */

/* Its own answer, if it has one: @p how is the input's, 0 the usual. */
bool target_answers(peer *of, const dlk_resp *command, uint8_t how, dlk_buf *out);

/* ---- what is done with them ---- */

void peers_open(const char *uri, fuzz_bytes bytes);
/* Somebody has said that there is a server; the client has to have heard of those it connects to. */
void peers_name(const char *host, long port);
/* Goes through the input: a round is a step of the driver's. @p act: what isn't the servers'. */
void peers_go(void (*act)(uint8_t how));
/* All answer as they should from now on, and time passes: the link has to be up then. */
void peers_settle(void);
/* Each request has to have its one answer. */
void peers_close(void);

void peers_say(peer *to, const dlk_buf *what);
/* The commands that have come; then the client's driver, once. */
void peers_round(void);
peer *peers_some(uint8_t which); /* or NULL */
/* Of the input, up to a line's end, which isn't told. */
fuzz_bytes peers_line(void);
__attribute__((format(printf, 2, 3))) void peers_put(dlk_buf *out, const char *format,
                                                     ...);

#endif
