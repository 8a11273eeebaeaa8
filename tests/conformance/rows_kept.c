/* Promises about a lock that its client keeps while nobody uses it (lock.keep_ms): what is lost then is nobody's
 * loss, and what may be lost is handed out to nobody. */
#include "grid.h"

#include "harness/kept.h"

#include <stdio.h>
#include <string.h>

#define KEEPS "lock.keep_ms=600000"
#define LEASE "lock.ttl_ms=1500" /* may be a session's, so the client's */

/* Ends the cell with what the library says where such a lock isn't kept; the command keeps none. */
#define NEEDS_KEEPING()                                                                  \
    do {                                                                                 \
        NEEDS(CAN_CALL);                                                                 \
        if (!may_be_kept())                                                              \
            return;                                                                      \
    } while (0)

static bool may_be_kept(void)
{
    static char why[300];
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_conf) conf = api_conf(KEEPS);
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_lock) lock = NULL;
    dlock_err code = dlock_lock_new(client, world_kind(), "L", conf, &lock, &err);
    if (code == DLOCK_ENOTSUP) {
        snprintf(why, sizeof(why), "%s", dlock_error_text(err));
        grid_cannot(why);
        return false;
    }
    return harness_err(__FILE__, __LINE__, "a lock with keep", code, DLOCK_OK, err);
}

/* A client that keeps "L", and one that doesn't; each is used by its handle. */
#define KEEPER_AND_RIVAL()                                                               \
    NEEDS_KEEPING();                                                                     \
    DLOCK_AUTO(dlock_client) keeper = world_client(LEASE);                               \
    DLOCK_AUTO(dlock_client) rival = world_client(NULL);                                 \
    DLOCK_AUTO(dlock_lock) kept = world_lock(keeper, "L", KEEPS);                        \
    DLOCK_AUTO(dlock_lock) wanted = world_lock(rival, "L", NULL);                        \
    CHECK(kept_begins(keeper, kept, patience_ms(), 0))

/* How many times it has noticed that what it kept is gone, or is about to be. */
static int64_t gone(dlock_client *keeper)
{
    return api_stat(keeper, "kept_lost") + api_stat(keeper, "kept_asked") +
           api_stat(keeper, "kept_idle");
}

static bool takes_again(dlock_client *keeper, dlock_lock *kept)
{
    return api_stat(keeper, "losses") == 0 && kept_begins(keeper, kept, patience_ms(), 0);
}

ROW(P39, kept_and_broken, "kept and broken: the next has it, and it is nobody's loss")
{
    KEEPER_AND_RIVAL();
    int64_t before = gone(keeper);
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK_OK(dlock_lock_break(wanted, api_seen(wanted, "holders.0.owner"), &err), err);
    CHECK(strcmp(api_seen(wanted, "held"), "0") == 0);
    CHECK(kept_pair(wanted, patience_ms()) >= 0);
    AWAIT(gone(keeper) > before);
    CHECK(takes_again(keeper, kept));
    CHECK_OK(dlock_client_close(keeper, &err), err);
    CHECK(grid_settles());
}

ROW(N24, kept_and_forgotten,
    "the server forgets what is kept: nobody's loss, and tokens rise all the same")
{
    NEEDS(CAN_FORGET);
    KEEPER_AND_RIVAL();
    int64_t before = gone(keeper), last = kept_pair(kept, patience_ms());
    CHECK(service_here()->forget());
    int64_t token = kept_pair(wanted, patience_ms());
    MUST(token == 0 || last == 0 || grid_rises(last, token));
    AWAIT(gone(keeper) > before);
    CHECK(takes_again(keeper, kept));
    last = kept_pair(kept, patience_ms());
    MUST(token == 0 || last == 0 || grid_rises(token, last));
}

ROW(N25, kept_and_lost,
    "what is kept can't be renewed: it is handed out to nobody beyond its lease")
{
    NEEDS(CAN_SERVER);
    KEEPER_AND_RIVAL();
    int64_t before = gone(keeper);
    service_here()->freeze();
    AWAIT(gone(keeper) > before);
    dlock_hold *none = NULL;
    MUST(dlock_lock_acquire(kept, 0, &none, NULL) != DLOCK_OK);
    service_here()->thaw();
    CHECK(kept_pair(wanted, patience_ms()) >= 0);
    CHECK(takes_again(keeper, kept));
}

/* Its client's process takes "L" and gives it back until it is kept. */
static bool keeps(party *keeper, dlock_lock *seen)
{
    return AWAITED(party_take(keeper, "L", patience_ms()) == DLOCK_OK &&
                   party_give_back(keeper) == DLOCK_OK &&
                   strcmp(api_seen(seen, "held"), "1") == 0);
}

ROW(T14, kept_by_one_who_stands_still,
    "who keeps it stands still: free with the lease, and not handed out after that")
{
    NEEDS(CAN_PROCESSES);
    NEEDS_KEEPING();
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_lock) seen = world_lock(client, "L", NULL);
    PARTY(keeper) = party_new(NULL, KEEPS " " LEASE);
    PARTY(rival) = party_new(NULL, "client.poll_ms=50");
    for (int i = 0; i < 2; i++) {
        CHECK(keeps(keeper, seen));
        party_pause(keeper);
        CHECK_EQ_INT(party_take(rival, "L", patience_ms()), DLOCK_OK);
        party_go_on(keeper);
        MUST(party_take(keeper, "L", 0) != DLOCK_OK);
        MUST(party_still(rival) == DLOCK_OK);
        CHECK_EQ_INT(party_give_back(rival), DLOCK_OK);
    }
}
