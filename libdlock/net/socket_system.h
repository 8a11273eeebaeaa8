/* What each system does in its own way for socket.c: socket_linux.c or socket_posix.c. */
#ifndef DLK_NET_SOCKET_SYSTEM_H
#define DLK_NET_SOCKET_SYSTEM_H

#include <stdbool.h>

/* A stream socket on which nobody waits, which no exec keeps. */
int dlk_socket_make(int family);
/* Takes back at once what has not arrived, whoever else has the descriptor. False: not possible with this
 * one; a close will do it. */
bool dlk_socket_reset(int fd);

#endif
