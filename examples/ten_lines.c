/* The README's ten lines: take a lock, work under it, give it back.
 * Usage: ten_lines [URL] */
#include <dlock/dlock.h>

#include <inttypes.h>
#include <stdio.h>

/* What the lock protects sees the token, so that it can refuse whoever comes too late. */
static void ship_order(int order, int64_t token)
{
    printf("order %d shipped under token %" PRId64 "\n", order, token);
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "file:///tmp/orders.locks";
    /* doc: body */
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_hold) hold = NULL;

    if (dlock_client_open(url, NULL, &client, &err) == DLOCK_OK &&
        dlock_acquire(client, "orders/42", 5000, &hold, &err) == DLOCK_OK) {
        ship_order(42, dlock_hold_token(hold));
        dlock_hold_release(hold, &err);
    }
    if (err)
        fprintf(stderr, "%s\n", dlock_error_text(err));
    /* end: body */
    return err ? 1 : 0;
}
