/* Tutorial, step 2: waiting for a lock, not waiting, and waiting for so long.
 * Usage: tutorial_2 [URL [WAIT_MS]]; exits with 75 when somebody else kept the lock */
#include <dlock/dlock.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "file:///tmp/tutorial.locks";
    int64_t wait_ms = argc > 2 ? strtoll(argv[2], NULL, 10) : 2000;
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_hold) hold = NULL;

    if (dlock_client_open(url, NULL, &client, &err) != DLOCK_OK)
        goto failed;
    /* doc: wait */
    dlock_err rc = dlock_acquire(client, "greeting", wait_ms, &hold, &err);
    if (rc == DLOCK_EBUSY || rc == DLOCK_ETIMEDOUT) {
        printf("somebody else has it: %s\n", dlock_error_text(err));
        return 75;
    }
    if (rc != DLOCK_OK)
        goto failed;
    printf("held, token %" PRId64 "\n", dlock_hold_token(hold));
    /* end: wait */
    if (dlock_hold_release(hold, &err) != DLOCK_OK)
        goto failed;
    return 0;

failed:
    fprintf(stderr, "%s\n", dlock_error_text(err));
    return 1;
}
