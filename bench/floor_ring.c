/* The floor under hand-overs between processes: a token goes round a ring of n processes, each
 * asleep on a futex of its own until the token comes. */
#include "bench.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct place {
    _Alignas(128) _Atomic uint32_t token; /* 1: it is here */
} place;

static void futex(_Atomic uint32_t *word, int what, uint32_t value)
{
    if (syscall(SYS_futex, word, what, value, NULL, NULL, 0) < 0 && errno != EAGAIN &&
        errno != EINTR)
        bench_die("futex", strerrordesc_np(errno));
}

static void await_token(place *here)
{
    while (atomic_load(&here->token) == 0)
        futex(&here->token, FUTEX_WAIT, 0);
    atomic_store(&here->token, 0);
}

static void pass_token(place *next)
{
    atomic_store(&next->token, 1);
    futex(&next->token, FUTEX_WAKE, 1);
}

static void ring(bench_stage *stage, bench_worker *me, void *shared)
{
    place *places = shared;
    int number = me->number;
    place *here = &places[number], *next = &places[(number + 1) % stage->count];
    bench_ready(stage);
    if (number == 0)
        pass_token(here);
    bench_phase phase;
    do {
        await_token(here);
        phase = bench_now(stage);
        bench_count(&me->done);
        bench_count(&me->changes);
        pass_token(next); /* also at the end: the others have to see that it has come */
    } while (phase != BENCH_OVER);
}

int main(int argc, char **argv)
{
    bench_options options = bench_parse(argc, argv, "", 0);
    place *places = bench_share((size_t)options.workers * sizeof(*places));
    bench_result result;
    bench_run_processes(&options, ring, places, &result);
    bench_print(&result);
    (void)puts("}");
    return 0;
}
