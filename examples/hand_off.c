/* Handing a lock on: one process takes it and prints a ticket, another one goes on with the ticket.
 * Usage: hand_off URL | hand_off URL TICKET */
#include <dlock/dlock.h>

#include <inttypes.h>
#include <stdio.h>

/* doc: give */
static dlock_err give(dlock_client *client, dlock_error **err)
{
    DLOCK_AUTO(dlock_hold) hold = NULL;
    const char *ticket = NULL;
    dlock_err code = dlock_acquire(client, "upload/17", 5000, &hold, err);
    if (code != DLOCK_OK)
        return code;
    /* … the first half of the work … */
    code = dlock_hold_export(hold, &ticket, err);
    if (code == DLOCK_OK) /* from here on the lock isn't ours; and nobody else gets it */
        printf("%s\n", ticket);
    return code;
}
/* end: give */

/* doc: take */
static dlock_err take(dlock_client *client, const char *ticket, dlock_error **err)
{
    DLOCK_AUTO(dlock_hold) hold = NULL;
    dlock_err code = dlock_client_import(client, ticket, &hold, err);
    if (code != DLOCK_OK)
        return code; /* DLOCK_ENOTHELD: it was used, or its lease is over */
    /* … the second half, under a larger token … */
    printf("goes on under token %" PRId64 "\n", dlock_hold_token(hold));
    return dlock_hold_release(hold, err);
}
/* end: take */

int main(int argc, char **argv)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = NULL;
    if (argc < 2) {
        fprintf(stderr, "usage: hand_off URL [TICKET]\n");
        return 64;
    }
    dlock_err code = dlock_client_open(argv[1], NULL, &client, &err);
    if (code == DLOCK_OK)
        code = argc > 2 ? take(client, argv[2], &err) : give(client, &err);
    if (err)
        fprintf(stderr, "%s\n", dlock_error_text(err));
    return code == DLOCK_OK ? 0 : 1;
}
