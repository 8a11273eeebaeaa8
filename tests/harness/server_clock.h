/* A server, a Redis mostly, whose time of day the test sets. Where there is no module for that (DLK_CLOCK says where it
 * lies) the running test is skipped. */
#ifndef HARNESS_SERVER_CLOCK_H
#define HARNESS_SERVER_CLOCK_H

#include "harness/redis_server.h"

#include <stdint.h>

typedef struct server_clock {
    int fd;
    /* Added to its time of day, in ns; and behind it where that stands, 0 if it goes on. */
    volatile int64_t *offset;
} server_clock;

/* What is started until server_clock_leave goes by this clock; false after a failed check. */
bool server_clock_enter(server_clock *clock);
void server_clock_leave(void);
bool server_clock_start(server_clock *clock, redis_server *server);
void server_clock_move(const server_clock *clock, int64_t ms);
/* From now on it stands still, wherever it is moved to, and all that is done there is done at once. */
void server_clock_stop(const server_clock *clock);
void server_clock_end(server_clock *clock);

#endif
