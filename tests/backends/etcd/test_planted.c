/* The check that nobody is let in whose key went with its lease while it waited, made to fail: with
 * only the others looked at it has to. */
#include "queue.h"

#include "util/point.h"

enum dlk_bug dlk_plant;

TEST(who_is_first_by_the_others_alone_is_caught)
{
    BEGIN();
    CHECK(queue_passes_over_the_dead("planted/before"));
    dlk_plant = DLK_BUG_GRANT_AFTER_EXPIRY;
    CHECK(!queue_passes_over_the_dead("planted/on"));
    dlk_plant = DLK_BUG_NONE;
    CHECK(queue_passes_over_the_dead("planted/after"));
}
