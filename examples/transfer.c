/* Several locks as one: money goes from one account to another, under the locks of both.
 * Usage: transfer [URL [FROM TO]] */
#include <dlock/dlock.h>

#include <inttypes.h>
#include <stdio.h>

static void move_money(dlock_hold *hold)
{
    /* Each account is a resource of its own, and is shown the token of its own lock. */
    printf("moved under tokens %" PRId64 " and %" PRId64 "\n",
           dlock_hold_member_token(hold, 0), dlock_hold_member_token(hold, 1));
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "mem:";
    const char *from = argc > 3 ? argv[2] : "account/7";
    const char *to = argc > 3 ? argv[3] : "account/3";
    /* doc: body */
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_lock) giver = NULL;
    DLOCK_AUTO(dlock_lock) taker = NULL;
    DLOCK_AUTO(dlock_lock) both = NULL;
    DLOCK_AUTO(dlock_hold) hold = NULL;

    if (dlock_client_open(url, NULL, &client, &err) == DLOCK_OK &&
        dlock_lock_new(client, DLOCK_MUTEX, from, NULL, &giver, &err) == DLOCK_OK &&
        dlock_lock_new(client, DLOCK_MUTEX, to, NULL, &taker, &err) == DLOCK_OK &&
        dlock_multi_new((dlock_lock *[]){giver, taker}, 2, NULL, &both, &err) ==
            DLOCK_OK &&
        dlock_lock_acquire(both, 5000, &hold, &err) == DLOCK_OK) {
        move_money(hold);
        dlock_hold_release(hold, &err); /* of both; OK: both were confirmed */
    }
    /* end: body */
    if (err)
        fprintf(stderr, "%s\n", dlock_error_text(err));
    return err ? 1 : 0;
}
