/* A server's clock that the test sets; see the header, and server_clock_module.c for the other side. */
#include "harness/server_clock.h"

#include "harness/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define SIZE (2 * sizeof(int64_t))

bool server_clock_enter(server_clock *clock)
{
    static char path[64];
    clock->fd = memfd_create("server-clock", 0);
    void *at = clock->fd >= 0 && ftruncate(clock->fd, SIZE) == 0
                   ? mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, clock->fd, 0)
                   : MAP_FAILED;
    if (!harness_check(__FILE__, __LINE__, at != MAP_FAILED, "memory for a clock"))
        return false;
    clock->offset = at;
    /* Its own, inherited: of ours another user's process may see nothing. */
    snprintf(path, sizeof(path), "/proc/self/fd/%d", clock->fd);
    (void)setenv("DLK_CLOCK_FILE", path, 1);
    (void)setenv("LD_PRELOAD", getenv("DLK_CLOCK"), 1);
    return true;
}

void server_clock_leave(void)
{
    (void)unsetenv("LD_PRELOAD");
}

bool server_clock_start(server_clock *clock, redis_server *server)
{
    if (!getenv("DLK_CLOCK")) {
        harness_skip("no module that sets a server's clock (DLK_CLOCK)");
        return false;
    }
    bool runs = server_clock_enter(clock) && redis_server_start(server, NULL);
    server_clock_leave();
    return runs;
}

void server_clock_move(const server_clock *clock, int64_t ms)
{
    *clock->offset += ms * 1000000;
}

void server_clock_stop(const server_clock *clock)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    clock->offset[1] = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void server_clock_end(server_clock *clock)
{
    munmap((void *)(uintptr_t)clock->offset, SIZE);
    close(clock->fd);
}
