/*
 * How our sockets begin and end.
 *
 * What was written and could not be delivered the kernel goes on delivering after an ordinary close,
 * for minutes: an acquire that was given up long ago arrives, is granted, and nobody holds the lock.
 * So a socket of ours is born to be reset: whatever ends it, a close anywhere, an exec, the death
 * of the process, takes back what has not arrived. Only who knows that nothing unanswered may do
 * harm any more asks for the orderly end.
 */
#ifndef DLK_NET_SOCKET_H
#define DLK_NET_SOCKET_H

#include <sys/socket.h>

/* For send: nobody waits, and no signal comes where nobody reads. A system without this flag says the
 * latter of the socket itself. */
#ifdef MSG_NOSIGNAL
#define DLK_SEND (MSG_DONTWAIT | MSG_NOSIGNAL)
#else
#define DLK_SEND MSG_DONTWAIT
#endif

typedef enum dlk_ending {
    DLK_END_RESET,   /* what has not arrived never will */
    DLK_END_ORDERLY, /* what was said is still delivered */
} dlk_ending;

/* A stream socket on which nobody waits, closed in an exec and in a fork's child, and reset when it is
 * closed, which dlk_fd_close does; -1 and errno. */
int dlk_socket_new(int family);
/* From now on no byte goes in either direction but, if orderly, those under way; who sleeps on it
 * wakes up. At once, whoever else has the descriptor, a fork's child say. It is still to be closed. */
void dlk_socket_end(int fd, dlk_ending ending);

#endif
