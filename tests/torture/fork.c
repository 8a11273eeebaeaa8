/* The story of a fork: the child is told that what it inherited isn't its own, opens a client, and
 * goes; the parent's lock is as it was. */
#include "scenarios.h"

#include "harness/fork.h"

#include <sys/wait.h>
#include <unistd.h>

#define CHILD_S 20

/* Only in builds that measure coverage. */
extern void __gcov_dump(void) __attribute__((weak));

_Noreturn void end_child(int status)
{
    if (__gcov_dump)
        __gcov_dump();
    _exit(status);
}

static const uint32_t errors =
    BIT(DLOCK_EUNAVAIL) | BIT(DLOCK_EUNKNOWN) | BIT(DLOCK_ENOMEM) | BIT(DLOCK_EACCES) |
    BIT(DLOCK_EINVAL) | BIT(DLOCK_EPROTO) | BIT(DLOCK_ETIMEDOUT) | BIT(DLOCK_ELOST);

static void live_in_child(stage *s, dlock_client *inherited, dlock_hold *hold)
{
    dlock_client *client = NULL;
    dlock_hold *own = NULL;
    (void)alarm(CHILD_S); /* its parent's isn't its own */
    SAYS(DLOCK_EFORKED, BIT(DLOCK_ENOMEM),
         dlock_acquire(inherited, s->world->name, 0, &own, &s->err));
    SAYS(DLOCK_EFORKED, BIT(DLOCK_ENOMEM), dlock_hold_release(hold, &s->err));
    HOLDS(dlock_hold_check(hold) == DLOCK_EFORKED ||
          dlock_hold_check(hold) == DLOCK_ELOST);
    dlock_hold_free(hold);
    dlock_client_free(inherited);
    if (SAYS(DLOCK_OK, errors,
             dlock_client_open(s->world->uri, NULL, &client, &s->err))) {
        /* mem: has a table for each process. */
        dlock_err busy = s->world->backend == ON_MEM ? DLOCK_OK : DLOCK_EBUSY;
        if (SAYS(busy, errors | BIT(DLOCK_OK) | BIT(DLOCK_EBUSY),
                 dlock_acquire(client, s->world->name, 0, &own, &s->err)))
            SAYS(DLOCK_OK, errors, dlock_hold_release(own, &s->err));
        dlock_hold_free(own);
        if (!SAYS(DLOCK_OK, errors, dlock_client_close(client, &s->err)))
            s->unsure = true;
    }
    dlock_client_free(client);
}

void scenario_forked(stage *s)
{
    dlock_client *client = NULL;
    dlock_hold *hold = NULL;
    int status = 0;
    if (SAYS(DLOCK_OK, errors, dlock_client_open(s->world->uri, NULL, &client, &s->err)))
        SAYS(DLOCK_OK, errors,
             dlock_acquire(client, s->world->name, s->world->long_ms, &hold, &s->err));
    if (hold) {
        pid_t pid = harness_fork();
        if (pid == 0) {
            live_in_child(s, client, hold);
            end_child(0);
        }
        while (pid > 0 && waitpid(pid, &status, 0) < 0)
            ; /* a signal */
        if (pid < 0 || status != 0)
            stage_complain(s, "the child ended with status %#x", (unsigned)status);
        SAYS(DLOCK_OK, errors, dlock_hold_release(hold, &s->err));
    }
    dlock_hold_free(hold);
    if (client && !SAYS(DLOCK_OK, errors, dlock_client_close(client, &s->err)))
        s->unsure = true;
    dlock_client_free(client);
}
