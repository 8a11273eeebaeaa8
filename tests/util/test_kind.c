/* The table of kinds. */
#include "harness/harness.h"

#include "util/kind.h"

TEST(each_kind_has_a_row_and_nothing_else_has)
{
    for (int kind = DLOCK_MUTEX; kind < DLK_KIND_COUNT; kind++)
        CHECK(dlk_kind_of(kind) && dlk_kind_of(kind)->name[0]);
    CHECK(!dlk_kind_of(0));
    CHECK(!dlk_kind_of(-1));
    CHECK(!dlk_kind_of(DLK_KIND_COUNT));
}
