/* See the header. */
#include "harness/kept.h"

#include "harness/api.h"
#include "harness/harness.h"
#include "harness/time.h"

#include <pthread.h>
#include <stdatomic.h>

int64_t kept_pair(dlock_lock *lock, int64_t wait_ms)
{
    dlock_hold *hold = NULL;
    dlock_error *err = NULL;
    if (!harness_err(__FILE__, __LINE__, "acquire",
                     dlock_lock_acquire(lock, wait_ms, &hold, &err), DLOCK_OK, err))
        return -1;
    int64_t token = dlock_hold_token(hold);
    (void)harness_err(__FILE__, __LINE__, "release", dlock_hold_release(hold, &err),
                      DLOCK_OK, err);
    dlock_hold_free(hold);
    return token;
}

bool kept_begins(dlock_client *client, dlock_lock *lock, int64_t wait_ms, int64_t least)
{
    int64_t kept;
    return AWAITED(
        (kept = api_stat(client, "kept"),
         kept_pair(lock, wait_ms) >= least && api_stat(client, "kept") > kept));
}

/* ---- several threads ---- */

static atomic_int inside, overlaps, not_rising, rounds_each;
static _Atomic int64_t last_token;

static void *work(void *lock)
{
    for (int i = 0; i < rounds_each; i++) {
        dlock_hold *hold = NULL;
        if (dlock_lock_acquire(lock, DLOCK_FOREVER, &hold, NULL) != DLOCK_OK)
            return (void *)"no lock";
        overlaps += atomic_fetch_add(&inside, 1) != 0;
        not_rising += dlock_hold_token(hold) <= atomic_load(&last_token);
        atomic_store(&last_token, dlock_hold_token(hold));
        atomic_fetch_sub(&inside, 1);
        if (dlock_hold_release(hold, NULL) != DLOCK_OK)
            return (void *)"not released";
        dlock_hold_free(hold);
    }
    return NULL;
}

bool kept_crowd(dlock_lock *const locks[KEPT_LOCKS], int threads, int rounds,
                kept_crowd_seen *ret)
{
    enum { MOST = 16 };
    pthread_t all[KEPT_LOCKS * MOST];
    bool fine = threads <= MOST;
    int count = 0;
    overlaps = not_rising = 0;
    last_token = 0;
    rounds_each = rounds;
    while (fine && count < KEPT_LOCKS * threads) {
        fine = pthread_create(&all[count], NULL, work, locks[count % KEPT_LOCKS]) == 0;
        count += fine;
    }
    (void)harness_check(__FILE__, __LINE__, fine, "threads");
    while (count-- > 0) {
        void *wrong = (void *)"not joined";
        (void)pthread_join(all[count], &wrong);
        fine &= harness_check(__FILE__, __LINE__, !wrong, wrong ? (char *)wrong : "");
    }
    *ret = (kept_crowd_seen){overlaps, not_rising};
    return fine;
}
