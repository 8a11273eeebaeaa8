/* Tutorial, step 1: open a lock service, take a lock, give it back.
 * Usage: tutorial_1 URL */
/* doc: program */
#include <dlock/dlock.h>

#include <inttypes.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "file:///tmp/tutorial.locks";
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_hold) hold = NULL;

    if (dlock_client_open(url, NULL, &client, &err) != DLOCK_OK)
        goto failed;
    if (dlock_acquire(client, "greeting", DLOCK_FOREVER, &hold, &err) != DLOCK_OK)
        goto failed;
    printf("held, token %" PRId64 "\n", dlock_hold_token(hold));
    if (dlock_hold_release(hold, &err) != DLOCK_OK)
        goto failed;
    printf("released\n");
    return 0;

failed:
    fprintf(stderr, "%s\n", dlock_error_text(err));
    return 1;
}
/* end: program */
