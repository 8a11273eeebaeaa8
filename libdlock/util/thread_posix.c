/* What any system knows of a thread; see the header. */
#include "util/thread.h"

#include <unistd.h>

/* POSIX has no names for threads, and each system another function. */
void dlk_thread_name(const char *name)
{
    (void)name;
}

/* Of the machine: where this thread may run is nothing that POSIX tells. */
bool dlk_thread_has_cores(void)
{
    return sysconf(_SC_NPROCESSORS_ONLN) != 1;
}
