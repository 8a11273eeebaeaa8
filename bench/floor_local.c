/* The floors under the pairs that need no server: a mutex or a read/write lock of pthreads, and
 * flock(2) on a file. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static void mutex_pairs(bench_stage *stage, bench_worker *me, void *shared)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    (void)shared;
    bench_ready(stage);
    BENCH_LOOP(stage, me, {
        if (pthread_mutex_lock(&mutex) != 0 || pthread_mutex_unlock(&mutex) != 0)
            bench_die("pthread_mutex_lock", "failed");
    });
}

static void read_pairs(bench_stage *stage, bench_worker *me, void *shared)
{
    static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    (void)shared;
    bench_ready(stage);
    BENCH_LOOP(stage, me, {
        if (pthread_rwlock_rdlock(&lock) != 0 || pthread_rwlock_unlock(&lock) != 0)
            bench_die("pthread_rwlock_rdlock", "failed");
    });
}

/* Each worker opens the file for itself: flock(2) counts by that. */
static void flock_pairs(bench_stage *stage, bench_worker *me, void *shared)
{
    const char *path = shared;
    int how = strcmp(stage->options->kind, "read") == 0 ? LOCK_SH : LOCK_EX;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        bench_die(path, strerrordesc_np(errno));
    bench_ready(stage);
    BENCH_LOOP(stage, me, {
        if (flock(fd, how) != 0 || flock(fd, LOCK_UN) != 0)
            bench_die("flock", strerrordesc_np(errno));
    });
    (void)close(fd);
}

int main(int argc, char **argv)
{
    bench_options options = bench_parse(argc, argv, "mutex | rwlock | FILE", 1);
    char *what = options.rest[0];
    bench_body *body = strcmp(what, "mutex") == 0    ? mutex_pairs
                       : strcmp(what, "rwlock") == 0 ? read_pairs
                                                     : flock_pairs;
    bench_result result;
    bench_run_troupes(&options, &(bench_troupe){.body = body}, what, &result);
    bench_print(&result);
    (void)puts("}");
    return 0;
}
