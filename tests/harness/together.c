/* See the header. */
#include "harness/together.h"

#include "harness/harness.h"

#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>

void *together_map(size_t size)
{
    void *at =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return harness_check(__FILE__, __LINE__, at != MAP_FAILED, "shared memory") ? at
                                                                                : NULL;
}

void together_say(together *all, const char *what, dlock_err code, const dlock_error *err)
{
    if (atomic_fetch_add(&all->errors, 1) == 0)
        snprintf(all->what, sizeof(all->what), "%s: %s, %s | %s", what,
                 dlock_errname(code), dlock_error_text(err), dlock_error_backend(err));
}

bool together_write(together *all, int64_t token)
{
    int64_t seen = atomic_load(&all->fence);
    while (token >= seen)
        if (atomic_compare_exchange_weak(&all->fence, &seen, token))
            return true;
    return false;
}

void together_end(together *all, const pid_t *children, int count)
{
    atomic_store(&all->over, true);
    for (int i = 0; i < count; i++) {
        int status = 0;
        waitpid(children[i], &status, 0);
        if (status != 0 && !all->what[0])
            snprintf(all->what, sizeof(all->what), "a process ended with status %d",
                     status);
    }
}
