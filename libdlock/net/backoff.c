/* Jittered exponential backoff; see the header. */
#include "net/backoff.h"

#include "util/clock.h"

int64_t dlk_backoff_next(dlk_backoff *backoff, dlk_rand *rand)
{
    int64_t step = backoff->next_ms ? backoff->next_ms : backoff->min_ms;
    if (step > backoff->max_ms)
        step = backoff->max_ms;
    backoff->next_ms = step * 2;
    uint64_t half = (uint64_t)(step * DLK_NS_PER_MS / 2);
    return (int64_t)(half + dlk_rand_next(rand) % (half + 1));
}
