/* A condition: whoever comes for a file that isn't there yet waits until somebody has put it there.
 * Usage: condition URL PATH [put] */
#include <dlock/dlock.h>

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static dlock_err fetch(dlock_lock *lock, dlock_cond *filled, const char *path,
                       dlock_error **err)
{
    /* doc: fetch */
    DLOCK_AUTO(dlock_hold) hold = NULL;
    dlock_err code = dlock_lock_acquire(lock, DLOCK_FOREVER, &hold, err);

    while (code == DLOCK_OK && access(path, F_OK) != 0) {
        dlock_hold *again = NULL;
        code = dlock_cond_wait(filled, hold, DLOCK_FOREVER, &again, err);
        dlock_hold_free(hold); /* it was given back … */
        hold = again;          /* … and this is a new grant */
    }
    if (code == DLOCK_OK && remove(path) == 0)
        printf("fetched under token %" PRId64 "\n", dlock_hold_token(hold));
    /* end: fetch */
    return code;
}

static dlock_err put(dlock_lock *lock, dlock_cond *filled, const char *path,
                     dlock_error **err)
{
    /* doc: put */
    DLOCK_AUTO(dlock_hold) hold = NULL;
    dlock_err code = dlock_lock_acquire(lock, DLOCK_FOREVER, &hold, err);

    if (code == DLOCK_OK) {
        int file = creat(path, 0600);
        if (file >= 0 && close(file) == 0)
            code = dlock_cond_signal(filled, 1, hold, NULL, err);
    }
    /* end: put */
    return code;
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "mem:";
    const char *path = argc > 2 ? argv[2] : "inbox";
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_lock) lock = NULL;
    DLOCK_AUTO(dlock_cond) filled = NULL;

    if (dlock_client_open(url, NULL, &client, &err) == DLOCK_OK &&
        dlock_lock_new(client, DLOCK_MUTEX, "inbox", NULL, &lock, &err) == DLOCK_OK &&
        dlock_cond_new(client, "inbox/filled", NULL, &filled, &err) == DLOCK_OK) {
        int puts_it = argc > 3 && strcmp(argv[3], "put") == 0;
        (void)(puts_it ? put : fetch)(lock, filled, path, &err);
    }
    if (err)
        fprintf(stderr, "%s\n", dlock_error_text(err));
    return err ? 1 : 0;
}
