/* What a client tells of itself: what it has had, or waited for, for a while. */
#include "harness/harness.h"
#include "world.h"

#include <string.h>

enum { MOST = 4, SECOND = 1000 };

static dlk_wait a, b, c;
static dlk_told lines[MOST];

static dlk_told_sum told(size_t most)
{
    memset(lines, 0, sizeof(lines));
    return dlk_core_told(&w.core, w.now, SECOND * MS, lines, most);
}

static void end(void)
{
    dlk_core_close(&w.core, w.now);
    dlk_wait *const waits[] = {&a, &b, &c};
    for (size_t i = 0; i < sizeof(waits) / sizeof(*waits); i++) {
        world_forget(waits[i]);
        *waits[i] = (dlk_wait){0};
    }
    w.name->key.kind = DLOCK_MUTEX;
    world_close();
}

TEST(what_is_held_for_a_while_is_told_with_its_thread_and_number)
{
    world_open();
    world_acquire(&a, 7, 5000);
    world_answer(DLK_ACQUIRE, DLK_YES);
    world_move(SECOND);
    CHECK_EQ_INT(told(MOST).count, 1);
    CHECK(lines[0].key == &w.name->key && !lines[0].waits && !lines[0].shared);
    CHECK_EQ_INT(lines[0].thread, 7);
    CHECK_EQ_INT(lines[0].number, a.grant->number);
    CHECK_EQ_INT(lines[0].token, a.grant->token);
    CHECK_EQ_INT(w.now - lines[0].since, SECOND * MS);
    end();
}

TEST(what_is_younger_is_not_told_and_is_said_to_come)
{
    world_open();
    world_acquire(&a, 7, 5000);
    world_answer(DLK_ACQUIRE, DLK_YES);
    int64_t began = w.now;
    world_move(SECOND - 1);
    dlk_told_sum sum = told(MOST);
    CHECK_EQ_INT(sum.count, 0);
    CHECK_EQ_INT(sum.more, 0);
    CHECK_EQ_INT(sum.next, began + SECOND * MS);
    world_move(1);
    sum = told(MOST);
    CHECK_EQ_INT(sum.count, 1);
    CHECK_EQ_INT(sum.next, DLK_NEVER);
    end();
}

TEST(who_waits_is_told_but_for_a_try)
{
    world_open();
    world_acquire(&a, 7, 5000);
    world_held(60000);
    world_acquire(&b, 8, 5000);
    world_move(SECOND);
    world_acquire(&c, 9, 0);
    world_move(SECOND);
    CHECK_EQ_INT(told(MOST).count, 2);
    CHECK(lines[0].waits && lines[1].waits);
    CHECK_EQ_INT(lines[0].thread, 7);
    CHECK(lines[0].number != 0); /* the server knows this one */
    CHECK_EQ_INT(lines[1].thread, 8);
    CHECK_EQ_INT(lines[1].number, 0);
    end();
}

TEST(an_owner_that_is_no_thread_has_none)
{
    world_open();
    world_acquire(&a, 0, 5000);
    world_answer(DLK_ACQUIRE, DLK_YES);
    world_move(SECOND);
    CHECK_EQ_INT(told(MOST).count, 1);
    CHECK_EQ_INT(lines[0].thread, 0);
    end();
}

TEST(what_was_given_back_is_not_told)
{
    dlk_wait release = {0};
    world_open();
    world_acquire(&a, 7, 5000);
    world_answer(DLK_ACQUIRE, DLK_YES);
    world_move(SECOND);
    world_release(&release, a.hold);
    world_answer(DLK_RELEASE, DLK_YES);
    dlk_told_sum sum = told(MOST);
    CHECK_EQ_INT(sum.count, 0);
    CHECK_EQ_INT(sum.next, DLK_NEVER);
    world_forget(&release);
    end();
}

TEST(more_than_there_is_room_for_are_counted)
{
    world_open();
    w.name->key.kind = DLOCK_SEMAPHORE;
    dlk_wait *const waits[] = {&a, &b, &c};
    for (size_t i = 0; i < 3; i++) {
        world_acquire(waits[i], 0, 5000);
        world_answer(DLK_ACQUIRE, DLK_YES);
    }
    world_move(SECOND);
    dlk_told_sum sum = told(2);
    CHECK_EQ_INT(sum.count, 2);
    CHECK_EQ_INT(sum.more, 1);
    CHECK_EQ_INT(lines[0].number, a.grant->number); /* the oldest first */
    CHECK_EQ_INT(lines[1].number, b.grant->number);
    end();
}

TEST(only_a_wait_that_is_old_enough_is_ended_for_a_circle)
{
    world_open();
    world_acquire(&b, 7, 5000);
    world_held(60000);
    int64_t began = w.now;
    CHECK(!dlk_core_break_wait(&w.core, w.name->key.name, 7, began, "x", w.now));
    CHECK(!dlk_core_break_wait(&w.core, w.name->key.name, 8, began + 1, "x", w.now));
    CHECK(!b.over);
    CHECK(dlk_core_break_wait(&w.core, w.name->key.name, 7, began + 1, "x", w.now));
    CHECK(b.over);
    CHECK_EQ_INT(b.code, DLOCK_EDEADLK);
    end();
}
