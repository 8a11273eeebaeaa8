/* The promises of multi-locks and of handing on, made to fail: with the bug put in, the same check
 * that holds without it has to say so. */
#include "world.h"

#include "util/point.h"

#include <stdlib.h>
#include <string.h>

enum dlk_bug dlk_plant;

/* What the planted bugs forget to free belongs to them. */
#define LEAKS_BELONG_TO_THE_BUG()                                                        \
    const char *__lsan_default_suppressions(void);                                       \
    const char *__lsan_default_suppressions(void)                                        \
    {                                                                                    \
        return "leak:dlk_multi_acquire";                                                 \
    }
LEAKS_BELONG_TO_THE_BUG()

/* A multi-lock that fails has given back what it had taken. */
static bool a_failure_leaves_nothing(int64_t patience_ms)
{
    dlock_client *ours = world_client(NULL), *theirs = world_client(NULL);
    dlock_lock *first = world_lock(ours, "planted/a", NULL);
    dlock_lock *second = world_lock(ours, "planted/b", NULL);
    dlock_lock *const members[] = {first, second};
    dlock_lock *multi = NULL;
    dlock_hold *held = NULL, *none = NULL;
    bool fine = dlock_multi_new(members, 2, NULL, &multi, NULL) == DLOCK_OK &&
                dlock_acquire(theirs, "planted/b", 0, &held, NULL) == DLOCK_OK &&
                dlock_lock_acquire(multi, 0, &none, NULL) == DLOCK_EBUSY;
    int64_t until = world_awake_ms() + patience_ms; /* given back in the background */
    bool free = false;
    while (fine && !free && world_awake_ms() < until)
        free = world_try("planted/a") == DLOCK_OK;
    dlock_hold_free(held);
    dlock_lock_free(multi);
    dlock_lock_free(first);
    dlock_lock_free(second);
    dlock_client_free(ours);
    dlock_client_free(theirs);
    return fine && free;
}

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

TEST(a_multi_lock_that_keeps_a_member_after_a_failure_is_caught)
{
    BEGIN();
    CHECK(a_failure_leaves_nothing(world_limit_ms()));
    dlk_plant = DLK_BUG_MULTI_KEEPS_MEMBER;
    CHECK(!a_failure_leaves_nothing(1000));
    dlk_plant = DLK_BUG_NONE;
    CHECK(a_failure_leaves_nothing(world_limit_ms()));
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
