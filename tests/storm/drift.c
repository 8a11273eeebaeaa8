/* Counts descriptors and threads, and asks the allocator and the kernel for memory. */
#include "drift.h"

#include "harness/fork.h"
#include "harness/harness.h"

#include <dirent.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#define OWN_ALLOCATOR (THREAD_SANITIZER || ADDRESS_SANITIZER)

static int entries(const char *path)
{
    int count = 0;
    DIR *dir = opendir(path);
    if (!dir)
        return -1;
    for (struct dirent *it = readdir(dir); it; it = readdir(dir))
        count += it->d_name[0] != '.';
    closedir(dir);
    return count;
}

static int64_t resident(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file && fscanf(file, "%*d %ld", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

drift drift_now(void)
{
    drift d = {.fds = entries("/proc/self/fd") - 1, /* less the one that counts */
               .threads = entries("/proc/self/task")};
    if (OWN_ALLOCATOR)
        return d;
    struct mallinfo2 info = mallinfo2();
    d.heap = (int64_t)(info.uordblks + info.hblkhd);
    d.rss = resident();
    return d;
}

void drift_note(const char *when, const drift *d)
{
    harness_note("%s: %d descriptors, %d threads, heap %" PRId64 " KiB, resident %" PRId64
                 " KiB",
                 when, d->fds, d->threads, d->heap / 1024, d->rss / 1024);
}
