/* A relay before a server of 127.0.0.1 that can stop taking: what a client says then stays in the
 * client's own kernel, as before a network that is cut. It takes as little in advance as the system
 * allows. When it goes on, what that kernel still delivers arrives at the server. An answer to that
 * gets lost: it would end at once what the client has closed. */
#ifndef HARNESS_RELAY_H
#define HARNESS_RELAY_H

#include <stdbool.h>

typedef struct relay relay;

/* Which connections are held. */
typedef enum relay_held {
    RELAY_NONE,
    RELAY_OLD, /* those there are: later ones pass */
    RELAY_ALL, /* and all later ones */
} relay_held;

/* To this port. NULL after a failed check. */
relay *relay_start(int to);
int relay_port(const relay *relay);
void relay_hold(relay *relay, relay_held held);
/* The connections there are by now are others' than the clients': never held, not waited for. */
void relay_spare(relay *relay);
/* All clients have ended theirs, what they said is forwarded to its last byte, and the server has
 * hung up as well. */
bool relay_is_settled(relay *relay);
/* Ends it with all its connections. NULL is fine. */
void relay_stop(relay *relay);

#endif
