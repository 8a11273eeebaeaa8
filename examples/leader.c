/* Leader election: campaign, lead until the work is done or the term is lost, resign.
 * Usage: leader [URL [ADDRESS]] */
#include <dlock/dlock.h>

#include <inttypes.h>
#include <stdio.h>

/* One piece of what only the leader does; what it writes to carries the token of its term. */
static void lead(int piece, int64_t token)
{
    printf("piece %d under token %" PRId64 "\n", piece, token);
}

/* doc: find */
/* Anybody can ask who leads, without being a candidate. */
static void say_who_leads(dlock_lock *election)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_info) info = NULL;
    if (dlock_lock_inspect(election, &info, &err) != DLOCK_OK) {
        fprintf(stderr, "%s\n", dlock_error_text(err));
        return;
    }
    const char *where = dlock_info_get(info, "holders.0.data");
    printf("%s leads\n", where ? where : "nobody");
}
/* end: find */

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "mem:";
    const char *address = argc > 2 ? argv[2] : "node-1:8080";
    /* doc: body */
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_lock) election = NULL;
    DLOCK_AUTO(dlock_hold) term = NULL;

    if (dlock_conf_set(conf, "lock.data", address, &err) == DLOCK_OK &&
        dlock_client_open(url, NULL, &client, &err) == DLOCK_OK &&
        dlock_lock_new(client, DLOCK_ELECTION, "sweeper", conf, &election, &err) ==
            DLOCK_OK &&
        dlock_lock_acquire(election, DLOCK_FOREVER, &term, &err) == DLOCK_OK) {
        say_who_leads(election);
        for (int piece = 1; piece <= 3 && dlock_hold_check(term) == DLOCK_OK; piece++)
            lead(piece, dlock_hold_token(term));
        dlock_hold_release(term, &err); /* resigns: the next one is elected at once */
    }
    /* end: body */
    if (err)
        fprintf(stderr, "%s\n", dlock_error_text(err));
    return err ? 1 : 0;
}
