/* The floors under the pairs that need no server: a pthread mutex, and flock(2) on a file. */
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
    pthread_mutex_t *mutex = shared;
    bench_ready(stage);
    BENCH_LOOP(stage, me, {
        if (pthread_mutex_lock(mutex) != 0 || pthread_mutex_unlock(mutex) != 0)
            bench_die("pthread_mutex_lock", "failed");
    });
}

static void flock_pairs(bench_stage *stage, bench_worker *me, void *shared)
{
    int fd = *(int *)shared;
    bench_ready(stage);
    BENCH_LOOP(stage, me, {
        if (flock(fd, LOCK_EX) != 0 || flock(fd, LOCK_UN) != 0)
            bench_die("flock", strerrordesc_np(errno));
    });
}

int main(int argc, char **argv)
{
    bench_options options = bench_parse(argc, argv, "mutex | FILE", 1);
    bench_result result;
    if (strcmp(options.rest[0], "mutex") == 0) {
        static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
        bench_run_threads(&options, mutex_pairs, &mutex, &result);
    } else {
        int fd = open(options.rest[0], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0)
            bench_die(options.rest[0], strerrordesc_np(errno));
        bench_run_threads(&options, flock_pairs, &fd, &result);
        (void)close(fd);
    }
    bench_print(&result);
    (void)puts("}");
    return 0;
}
