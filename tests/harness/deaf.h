/* Connections of this process to which every packet gets lost, and nobody is told: a cut network,
 * for them alone. New ones are as ever. */
#ifndef HARNESS_DEAF_H
#define HARNESS_DEAF_H

#include <stdbool.h>

#define DEAF_MAX 64

typedef struct deaf_sockets {
    int fds[DEAF_MAX];
    int count;
} deaf_sockets;

/* Those that lead to this port of 127.0.0.1 now. */
deaf_sockets deaf_look(int port);
/* Deafens all that lead there and weren't there @p before; how many, or -1 where the kernel won't. */
int deaf_make(int port, const deaf_sockets *before);

#endif
