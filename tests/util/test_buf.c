/* A byte buffer: what it holds, and the memory that it keeps. */
#include "harness/harness.h"

#include "util/buf.h"

#include <string.h>

static bool fill(dlk_buf *buf, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!dlk_buf_append(buf, &(char){(char)i}, 1))
            return false;
    return true;
}

static bool holds(const dlk_buf *buf, size_t from, size_t size)
{
    const char *at = dlk_buf_head(buf);
    if (dlk_buf_size(buf) != size)
        return false;
    for (size_t i = 0; i < size; i++)
        if (at[i] != (char)(from + i))
            return false;
    return true;
}

TEST(what_is_eaten_is_gone_and_the_rest_stays_in_order)
{
    dlk_buf buf = {0};
    CHECK(fill(&buf, 1000));
    dlk_buf_eat(&buf, 300);
    CHECK(holds(&buf, 300, 700));
    dlk_buf_eat(&buf, 700);
    CHECK_EQ_INT(dlk_buf_size(&buf), 0);
    dlk_buf_free(&buf);
}

TEST(memory_is_kept_for_what_comes_next)
{
    dlk_buf buf = {0};
    CHECK(fill(&buf, 2000));
    const char *was = buf.data;
    dlk_buf_eat(&buf, 2000);
    CHECK(fill(&buf, 2000) && buf.data == was);
    dlk_buf_free(&buf);
}

TEST(memory_that_only_a_burst_needs_goes_back_when_all_is_eaten)
{
    dlk_buf buf = {0};
    CHECK(fill(&buf, DLK_BUF_KEPT + 1));
    dlk_buf_eat(&buf, DLK_BUF_KEPT);
    CHECK(holds(&buf, DLK_BUF_KEPT, 1)); /* not before */
    dlk_buf_eat(&buf, 1);
    CHECK_EQ_INT(buf.capacity, 0);
    CHECK(fill(&buf, 100) && holds(&buf, 0, 100));
    CHECK(buf.capacity < DLK_BUF_KEPT);
    dlk_buf_free(&buf);
}
