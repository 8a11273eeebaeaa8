/*
 * Where the simulator ends and the kernel would begin, for the clients of Redis and memcached. Their
 * code (libdlock/backends/redis, memcached) is compiled as it is, with this header put before it: time and sleep
 * are answered by the simulator. Their sockets are those of stream.c, which stands in for
 * libdlock/net's stream.c and dial.c.
 */
#ifndef SIM_REDIS_SEAM_H
#define SIM_REDIS_SEAM_H

#include "util/clock.h"
#include "util/descriptor.h"

#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int64_t sim_clock_now(void);
#define dlk_clock_now() sim_clock_now()

/* Says which connections can be read, and doesn't sleep: the simulator calls when they can. */
int sim_ppoll(struct pollfd *set, nfds_t count);
#define nanosleep(time, left) ((void)(time), 0)

static inline long sim_syscall(long number, ...)
{
    (void)number;
    return 0;
}
#define syscall(...) sim_syscall(__VA_ARGS__)
#define close(fd)    sim_syscall(fd)
#undef DLK_FD
#define DLK_FD(make)     (make)
#define dlk_fd_close(fd) ((void)(fd))

#endif
