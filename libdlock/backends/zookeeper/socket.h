/*
 * The socket of a handle of libzookeeper's, which doesn't hand it out. So it is found by where it leads
 * to, unless something else does that could be it: the program may have connections of its own to that
 * server, which are none of our business. Several that are as many as we look for are all ours. What is
 * found survives no exec, is closed in a fork's child, and isn't waited for in vain.
 */
#ifndef DLK_BACKENDS_ZOOKEEPER_SOCKET_H
#define DLK_BACKENDS_ZOOKEEPER_SOCKET_H

#include "util/list.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

/* A socket, which has its inode for itself: a number alone may be another's by the next look. */
typedef struct dlk_zk_mark {
    int fd; /* -1: none */
    ino_t inode;
} dlk_zk_mark;

typedef struct dlk_zk_socket {
    int64_t silent_ms;
    dlk_zk_mark *others; /* those that there were before the library was asked for one */
    size_t other_count;
    bool knows_others;
    /* As far as it is known for sure: its number, -1 where it isn't, and its inode. Read one after
     * the other they may be of two sockets, and fit none. */
    _Atomic int fd;
    _Atomic ino_t inode;
    dlk_list all; /* of this process, and: */
    struct sockaddr_storage peer;
    /* 0: its socket is found, or gone; both under the mutex of all of them */
    socklen_t peer_size;
} dlk_zk_socket;

/* Before there are any; false: that can't be had. */
bool dlk_zk_sockets_watch_forks(void);
void dlk_zk_socket_init(dlk_zk_socket *ours, int64_t silent_ms);
void dlk_zk_socket_end(dlk_zk_socket *ours);
/* Whatever sockets there are now aren't what the library is going to open. */
void dlk_zk_socket_begin(dlk_zk_socket *ours);
/* It is connected with this server, or @p size is 0: not known with which. */
void dlk_zk_socket_look(dlk_zk_socket *ours, const struct sockaddr_storage *peer,
                        socklen_t size);
/* The library has closed it. */
void dlk_zk_socket_lost(dlk_zk_socket *ours);
/* In a fork's child. */
void dlk_zk_socket_close(const dlk_zk_socket *ours);

#endif
