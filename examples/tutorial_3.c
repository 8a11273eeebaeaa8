/* Tutorial, step 3: a lease can be lost; how to notice.
 * Usage: tutorial_3 [URL [PIECES]]; exits with 75 when the lock was lost */
#include <dlock/dlock.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* A piece of work: short beside the lease. */
static void do_a_piece(void)
{
    const struct timespec piece = {.tv_nsec = 200000000};
    (void)nanosleep(&piece, NULL);
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "file:///tmp/tutorial.locks";
    long left = argc > 2 ? strtol(argv[2], NULL, 10) : 100;
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_conf) conf = NULL;
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_hold) hold = NULL;

    if (setvbuf(stdout, NULL, _IOLBF, 0) != 0) /* also into a pipe, line by line */
        return 1;
    /* doc: lease */
    conf = dlock_conf_new();
    if (dlock_conf_set(conf, "lock.ttl_ms", "3000", &err) != DLOCK_OK)
        goto failed;
    if (dlock_client_open(url, conf, &client, &err) != DLOCK_OK)
        goto failed;
    /* end: lease */
    if (dlock_acquire(client, "greeting", 10000, &hold, &err) != DLOCK_OK)
        goto failed;
    printf("held, process %ld may be stopped now\n", (long)getpid());
    /* doc: work */
    while (left > 0 && dlock_hold_check(hold) == DLOCK_OK) {
        do_a_piece();
        left--;
        printf("%ld pieces left, the lock is ours for %" PRId64 " ms\n", left,
               dlock_hold_remaining_ms(hold));
    }
    if (dlock_hold_release(hold, &err) == DLOCK_ELOST) {
        printf("lost: %s\n", dlock_error_text(err));
        return 75; /* what was done since the last good check may have met another's work */
    }
    /* end: work */
    if (err)
        goto failed;
    printf("done\n");
    return 0;

failed:
    fprintf(stderr, "%s\n", dlock_error_text(err));
    return 1;
}
