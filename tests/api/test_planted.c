/* The promise of handing on, made to fail: with the bug put in, the same check that holds without it
 * has to say so. */
#include "world.h"

#include "util/point.h"

enum dlk_bug dlk_plant;

/* Who has given a lock away doesn't hold it any more. */
static bool an_import_leaves_one_owner(void)
{
    dlock_client *giver = world_client("lock.renew=off"), *taker = world_client(NULL);
    dlock_hold *hold = NULL, *taken = NULL;
    const char *ticket = NULL;
    bool fine = dlock_acquire(giver, "planted/c", 0, &hold, NULL) == DLOCK_OK &&
                dlock_hold_export(hold, &ticket, NULL) == DLOCK_OK &&
                dlock_client_import(taker, ticket, &taken, NULL) == DLOCK_OK &&
                dlock_hold_check(taken) == DLOCK_OK;
    bool alone = fine && dlock_hold_check(hold) != DLOCK_OK;
    dlock_hold_free(hold);
    dlock_hold_free(taken);
    dlock_client_free(giver);
    dlock_client_free(taker);
    return alone;
}

TEST(an_import_that_leaves_both_sides_owner_is_caught)
{
    BEGIN();
    LEAVE_OUT_ON("mem", "locks can't be handed on here");
    CHECK(an_import_leaves_one_owner());
    dlk_plant = DLK_BUG_EXPORT_KEEPS;
    CHECK(!an_import_leaves_one_owner());
    dlk_plant = DLK_BUG_NONE;
    CHECK(an_import_leaves_one_owner());
}
