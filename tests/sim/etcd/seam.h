/*
 * Where the simulator ends and the kernel would begin, for the client of etcd. Its code
 * (libdlock/backends/etcd, all but wire.c) is compiled as it is, with this header put
 * before it. What wire.c does with libcurl is done by the wire.c of this folder.
 */
#ifndef SIM_ETCD_SEAM_H
#define SIM_ETCD_SEAM_H

#include "util/clock.h"

#include <stdint.h>

int64_t sim_clock_now(void);
#define dlk_clock_now()     sim_clock_now()
#define dlk_clock_date_ms() (sim_clock_now() / DLK_NS_PER_MS)

#endif
