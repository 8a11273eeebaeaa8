/* A program that a test runs beside itself has no watchers (harness/awake.h); meson sets that here. */
#include "harness/awake.h"
#include "harness/harness.h"

#include <stdlib.h>
#include <time.h>

TEST(time_goes_on_where_nobody_watches)
{
    CHECK(getenv(AWAKE_NOT_HERE));
    struct timespec nap = {.tv_nsec = 1000000}, before;
    CHECK(clock_gettime(CLOCK_BOOTTIME, &before) == 0);
    int64_t began = awake_now_ns();
    CHECK(began / 1000000000 >= before.tv_sec);
    CHECK(nanosleep(&nap, NULL) == 0);
    CHECK(awake_now_ns() >= began + nap.tv_nsec);
}
