/* Descriptors in a descriptor: readable while one of them is. Linux has epolls; POSIX has nothing of the
 * kind. */
#ifndef DLK_ENGINE_NEST_H
#define DLK_ENGINE_NEST_H

#include <stdbool.h>

/* A new one, to be closed by dlk_fd_close; -1: none can be had. */
int dlk_nest_new(void);
/* False without memory. */
bool dlk_nest_add(int nest, int fd);
/* Nothing happens for one that has been closed. */
void dlk_nest_remove(int nest, int fd);

#endif
