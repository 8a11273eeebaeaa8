/*
 * Where the simulator ends and the kernel would begin, for the client of etcd. Its code
 * (libdlock/backends/etcd, net/grpc.c) is compiled as it is, with this header put before it. What
 * libdlock's http2.c does with libnghttp2 is done by the http2.c of this folder, and its link's
 * socket is one of stream.c.
 */
#ifndef SIM_ETCD_SEAM_H
#define SIM_ETCD_SEAM_H

#include "util/clock.h"
#include "util/thread.h"

#include <stdbool.h>
#include <stdint.h>

int64_t sim_clock_now(void);
#define dlk_clock_now()     sim_clock_now()
#define dlk_clock_date_ms() (sim_clock_now() / DLK_NS_PER_MS)

/* What the thread would do in half a second is done at once. */
bool sim_farewell(void *calls);
#define dlk_thread_start(thread, role) sim_farewell((role)->arg)

#endif
