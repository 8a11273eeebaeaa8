/* A Redis whose time of day the test sets. Where there is no module for that (DLK_CLOCK says where it
 * lies) the running test is skipped. */
#ifndef HARNESS_SERVER_CLOCK_H
#define HARNESS_SERVER_CLOCK_H

#include "harness/redis_server.h"

#include <stdint.h>

typedef struct server_clock {
    int fd;
    volatile int64_t *offset; /* added to its time of day, in ns */
} server_clock;

/* What is started until server_clock_leave goes by this clock; false after a failed check. */
bool server_clock_enter(server_clock *clock);
void server_clock_leave(void);
bool server_clock_start(server_clock *clock, redis_server *server);
void server_clock_move(const server_clock *clock, int64_t ms);
void server_clock_end(server_clock *clock);

#endif
