/* A condition, the client's side: what its scripts are told. Who waits hears of a signal as of a hand-over,
 * on the one channel of its client (handover.h). */
#ifndef DLK_BACKENDS_REDIS_CONDITION_H
#define DLK_BACKENDS_REDIS_CONDITION_H

#include "backends/redis/keys.h"

dlk_redis_more dlk_redis_condition_more;

#endif
