/* Memory that is given back all at once (util/arena.h). */
#include "harness/harness.h"
#include "util/arena.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

TEST(what_is_taken_is_ours_alone_and_fits_any_type)
{
    dlk_arena arena = {.most = 1 << 20};
    unsigned char *all[300];
    for (size_t i = 0; i < 300; i++) {
        all[i] = dlk_arena_take(&arena, 1 + i);
        CHECK(all[i] && (uintptr_t)all[i] % _Alignof(max_align_t) == 0);
        memset(all[i], (int)i, 1 + i);
    }
    for (size_t i = 0; i < 300; i++)
        for (size_t k = 0; k <= i; k++)
            CHECK(all[i][k] == (unsigned char)i);
    dlk_arena_free(&arena);
}

TEST(a_full_arena_gives_nothing_more_until_it_is_reset)
{
    dlk_arena arena = {.most = 100000};
    size_t count = 0;
    while (count < 1000 && dlk_arena_take(&arena, 1000))
        count++;
    CHECK(count >= 80 && count <= 100);
    CHECK(arena.full);
    CHECK(arena.total <= arena.most);
    dlk_arena_reset(&arena);
    CHECK(!arena.full);
    CHECK(dlk_arena_take(&arena, 1000));
    dlk_arena_free(&arena);
}

TEST(no_size_is_too_large_to_be_refused)
{
    dlk_arena arena = {.most = 100000};
    CHECK(!dlk_arena_take(&arena, SIZE_MAX));
    CHECK(arena.full);
    dlk_arena_reset(&arena);
    CHECK(!dlk_arena_take(&arena, SIZE_MAX - 5));
    CHECK(!dlk_arena_take(&arena, 100001));
    CHECK(dlk_arena_take(&arena, 50000)); /* a block of its own */
    CHECK(dlk_arena_take(&arena, 0));
    dlk_arena_free(&arena);
    CHECK(arena.total == 0);
}

TEST(a_reset_keeps_one_block_and_no_large_one)
{
    dlk_arena arena = {.most = 1 << 20};
    CHECK(dlk_arena_take(&arena, 10));
    const dlk_arena_block *first = arena.blocks;
    CHECK(dlk_arena_take(&arena, 100000));
    dlk_arena_reset(&arena);
    CHECK(arena.blocks == first);
    CHECK(arena.total < 10000);
    dlk_arena_free(&arena);
    CHECK(dlk_arena_take(&arena, 100000));
    dlk_arena_reset(&arena);
    CHECK(arena.blocks == NULL);
    dlk_arena_reset(&arena); /* again is fine, and so is to free what is free */
    dlk_arena_free(&arena);
    dlk_arena_free(&arena);
}
