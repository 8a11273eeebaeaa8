/* What Linux knows of a thread; see the header. */
#include "util/thread.h"

#include <sched.h>

void dlk_thread_name(const char *name)
{
    (void)pthread_setname_np(pthread_self(), name); /* it is short enough */
}

bool dlk_thread_has_cores(void)
{
    cpu_set_t cores; /* the call fails where there are more than fit */
    return sched_getaffinity(0, sizeof(cores), &cores) != 0 || CPU_COUNT(&cores) > 1;
}
