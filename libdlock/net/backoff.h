/* How long to wait before the next try: doubling from a smallest to a largest time, and jittered
 * so that many clients don't come back to a restarted server at the same moment. */
#ifndef DLK_NET_BACKOFF_H
#define DLK_NET_BACKOFF_H

#include "util/rand.h"

#include <stdint.h>

typedef struct dlk_backoff {
    int64_t min_ms, max_ms;
    int64_t next_ms; /* 0 = from the beginning */
} dlk_backoff;

/* Nanoseconds until the next try: between half and all of the present step. */
int64_t dlk_backoff_next(dlk_backoff *backoff, dlk_rand *rand);

static inline void dlk_backoff_reset(dlk_backoff *backoff)
{
    backoff->next_ms = 0;
}

#endif
