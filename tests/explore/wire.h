/*
 * Descriptors that the kernel knows nothing of: eventfds, sockets to the service, and epolls of
 * these. What is written to a socket is heard by the service (service.h), what that says lies in the
 * socket until it is read.
 */
#ifndef EXPLORE_WIRE_H
#define EXPLORE_WIRE_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Before each execution: there are none. */
void wires_reset(void);
bool is_wire(int fd);
/* Until it can be read. */
void wire_await(int fd);
/* Until something has happened to it since the last time: a poller that tells of changes only. */
void wire_await_change(int fd);

/* A connection to the service. */
int socket_new(void);
/* The service says something, or hangs up. */
void socket_put(int fd, const void *data, size_t size);
void socket_cut(int fd);
bool socket_is_open(int fd);
/* Something lies in it, unread. */
bool socket_is_full(int fd);

/* What is written comes here: service.c. */
void service_hear(int fd, const void *data, size_t size);

#endif
