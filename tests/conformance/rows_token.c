/* Fencing tokens: larger with every grant, whatever happens to the service. */
#include "grid.h"

#include "faults/resource.h"

#include <string.h>

ROW(F1, tokens_rise, "tokens that are equal or go back: each grant's is larger")
{
    PARTY(one) = party_new(NULL, NULL);
    PARTY(other) = party_new(NULL, NULL);
    int64_t last = 0;
    for (int i = 0; i < 8; i++) {
        party *p = i % 2 ? other : one;
        CHECK_EQ_INT(party_take(p, "L", 0), DLOCK_OK);
        MUST(grid_rises(last, party_token(p)));
        last = party_token(p);
        if (i % 4 == 3) /* and through a break */
            CHECK_EQ_INT(world_evict("L"), DLOCK_OK);
        (void)party_give_back(p); /* ELOST after that */
    }
}

ROW(F2, the_resource_refuses, "a stale token at the resource is refused there")
{
    NEEDS(CAN_CALL);
    int64_t seen;
    resource *shelf = resource_new();
    CLIENT_WITH_HOLD(client, lock, stale, "L", NULL);
    CLIENT_WITH_LOCK(other, same, "L", NULL);
    CHECK(resource_look(shelf, dlock_hold_token(stale), &seen));
    CHECK(resource_write(shelf, dlock_hold_token(stale), seen));
    CHECK_EQ_INT(world_evict("L"), DLOCK_OK); /* which the first doesn't know yet */
    DLOCK_AUTO(dlock_hold) fresh = world_take(same);
    CHECK(resource_look(shelf, dlock_hold_token(fresh), &seen));
    MUST(!resource_write(shelf, dlock_hold_token(stale), seen));
    CHECK(resource_write(shelf, dlock_hold_token(fresh), seen));
    verdict v = resource_judge(shelf, RESOURCE_STATE_LOST);
    CHECK_EQ_INT(v.lost_updates, 0);
    CHECK_EQ_INT(v.refused, 1);
    resource_free(shelf);
}

ROW(F3, several_masters, "each of several masters counts for itself")
{
    CANNOT("one service gives the tokens; of several masters: "
           "tests/backends/redlock/test_redlock.c");
}

ROW(F4, tokens_after_a_wipe,
    "a service that has lost everything: tokens rise all the same")
{
    NEEDS(CAN_FORGET);
    int64_t last = 0;
    for (int i = 0; i < 3; i++) {
        PARTY(p) = party_new(NULL, NULL); /* one that comes after the loss */
        CHECK_EQ_INT(party_take(p, "L", 0), DLOCK_OK);
        MUST(grid_rises(last, party_token(p)));
        last = party_token(p);
        CHECK_EQ_INT(party_give_back(p), DLOCK_OK);
        party_drop(&p);
        CHECK(service_here()->forget());
    }
}
