/* The check that one reader's release leaves the others their lock, made to fail: with the
 * readers' timeout keys dropped it has to. */
#include "rw.h"

#include "util/point.h"

enum dlk_bug dlk_plant;

/* Takes and leaves the lock as two readers would; a writer must find the other one there. */
static bool a_reader_is_left_alone(void)
{
    ttl_ms = 20000;
    bool fine = READ(1) == DLK_YES && READ(2) == DLK_YES;
    world_spin(&w, 20); /* a key that is as good as not there has gone by then */
    fine = fine && READ_END(2) == DLK_YES;
    fine = fine && WRITE(3) == DLK_HELD;
    fine = fine && RENEW(READ_SIDE, 1) == DLK_YES;
    (void)BREAK(NULL);
    return fine;
}

TEST(readers_whose_timeout_keys_are_dropped_are_caught)
{
    if (!set_up())
        return;
    CHECK(a_reader_is_left_alone());
    dlk_plant = DLK_BUG_READERS_UNMARKED;
    CHECK(!a_reader_is_left_alone());
    dlk_plant = DLK_BUG_NONE;
    CHECK(a_reader_is_left_alone());
    teardown();
}
