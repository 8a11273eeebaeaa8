/* Requests without memory: what is held is renewed and given back all the same, who wants a lock
 * waits or hears of it. */
#include "harness/harness.h"
#include "world.h"

#include <stdlib.h>

static bool none_left;
static size_t none_of; /* nor for what has this size */

/* Linked in place of calloc: there is no memory for requests while `none_left`. */
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    if ((none_left && size == sizeof(dlk_ask)) || (none_of && size == none_of))
        return NULL;
    return __real_calloc(count, size);
}

static void begin(void)
{
    none_left = false;
    none_of = 0;
    world_open();
}

static int asked(dlk_verb verb)
{
    int count = 0;
    DLK_LIST_FOR (it, &w.asked)
        count += DLK_LIST_ITEM(it, dlk_ask, link)->verb == verb;
    return count;
}

TEST(what_is_held_is_renewed_and_given_back_without_memory)
{
    begin();
    dlk_wait a, done;
    world_acquire(&a, 1, 1000);
    world_answer(DLK_ACQUIRE, DLK_YES);
    none_left = true;
    world_move(4000);
    CHECK_EQ_INT(asked(DLK_RENEW), 1);
    world_release(&done, a.hold); /* while the renewal is under way */
    CHECK_EQ_INT(asked(DLK_RELEASE), 1);
    world_answer(DLK_RENEW, DLK_YES);
    world_answer(DLK_RELEASE, DLK_YES);
    CHECK(done.over && done.code == DLOCK_OK);
    world_forget(&done);
    world_forget(&a);
    world_close();
}

TEST(the_first_name_is_refused_where_its_table_has_no_memory)
{
    dlk_core core = {0};
    dlk_name name = {.key = {.name = "N", .size = 1}};
    none_of = sizeof(dlk_name *);
    CHECK(!dlk_name_add(&core, &name));
    none_of = 0;
    CHECK(dlk_name_add(&core, &name));
    free(core.names);
}

enum { MANY = 3 * DLK_SAVED_ASKS };

/* Permits of one name; and then there is no more memory. */
static void hold_many(dlk_wait all[])
{
    w.name->key.kind = DLOCK_SEMAPHORE;
    for (int i = 0; i < MANY; i++) {
        world_acquire(&all[i], 0, 1000);
        world_answer(DLK_ACQUIRE, DLK_YES);
    }
    none_left = true;
}

TEST(many_are_renewed_and_given_back_in_turn_without_memory)
{
    begin();
    dlk_wait all[MANY], done[MANY];
    hold_many(all);
    int most = 0;
    for (int i = 0; i < 300; i++) { /* three leases */
        most = asked(DLK_RENEW) > most ? asked(DLK_RENEW) : most;
        while (asked(DLK_RENEW) > 0 && i % 2)
            world_answer(DLK_RENEW, DLK_YES);
        world_move(100);
    }
    CHECK(most >= DLK_SAVED_ASKS &&
          most < MANY); /* there was no memory for all of them */
    CHECK_EQ_INT(w.states[DLOCK_LOST], 0);
    for (int i = 0; i < MANY; i++)
        world_release(&done[i], all[i].hold);
    CHECK(asked(DLK_RELEASE) > 0 && asked(DLK_RELEASE) < MANY);
    for (int i = 0; i < 100; i++) {
        while (asked(DLK_RENEW) > 0)
            world_answer(DLK_RENEW, DLK_YES);
        while (asked(DLK_RELEASE) > 0)
            world_answer(DLK_RELEASE, DLK_YES);
        world_move(20);
    }
    for (int i = 0; i < MANY; i++) {
        CHECK(done[i].over && done[i].code == DLOCK_OK);
        world_forget(&done[i]);
        world_forget(&all[i]);
    }
    w.name->key.kind = DLOCK_MUTEX;
    world_close();
}

TEST(a_try_hears_that_there_is_no_memory)
{
    begin();
    none_left = true;
    dlk_wait a;
    world_acquire(&a, 1, 0);
    CHECK(a.over && a.code == DLOCK_ENOMEM);
    CHECK_EQ_INT(w.acquires, 0);
    world_forget(&a);
    world_close();
}

TEST(who_waits_for_a_lock_waits_for_memory_too)
{
    begin();
    none_left = true;
    dlk_wait a;
    world_acquire(&a, 1, 60000);
    world_move(5000);
    CHECK(!a.over);
    CHECK_EQ_INT(w.acquires, 0);
    none_left = false;
    world_move(5000);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(a.over && a.code == DLOCK_OK);
    world_forget(&a);
    world_close();
}

TEST(another_hold_without_memory_leaves_the_first_as_it_is)
{
    begin();
    dlk_wait a, b;
    world_acquire(&a, 1, 1000);
    world_answer(DLK_ACQUIRE, DLK_YES);
    none_of = sizeof(dlk_hold);
    world_acquire(&b, 1, 1000);
    none_of = 0;
    CHECK(b.over && b.code == DLOCK_ENOMEM);
    CHECK_EQ_INT(a.grant->hold_count, 1);
    w.live_holds--; /* the one that there was no memory for */
    world_forget(&b);
    world_forget(&a);
    world_close();
}

TEST(who_waits_behind_a_try_that_there_is_no_memory_for_has_its_turn)
{
    begin();
    world_close();
    world_open_unconnected();
    w.name->key.kind = DLOCK_SEMAPHORE;
    none_left = true;
    dlk_wait a, b, c;
    world_acquire(&a, 1, 60000); /* waits for memory */
    world_acquire(&b, 2, 0); /* a try that waits for the first connection, as a does */
    world_acquire(&c, 3, 60000);
    dlk_acquire_cancel(&w.core, &a, DLOCK_ECANCELED, w.now);
    CHECK(!b.over);
    world_move(100);
    CHECK(b.over && b.code == DLOCK_ENOMEM);
    none_left = false;
    world_move(100);
    world_back();
    CHECK_EQ_INT(w.acquires, 1);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(c.over && c.code == DLOCK_OK);
    world_forget(&a);
    world_forget(&b);
    world_forget(&c);
    w.name->key.kind = DLOCK_MUTEX;
    world_close();
}

/* With requests under way that nobody answers, and its hold kept, by then it asks for nothing more. */
TEST(a_lost_grant_that_was_never_given_back_is_over_when_the_server_has_forgotten_it)
{
    begin();
    dlk_wait all[MANY], done[MANY];
    hold_many(all);
    world_move(60000);
    CHECK_EQ_INT(w.states[DLOCK_LOST], MANY);
    CHECK(asked(DLK_RENEW) >= DLK_SAVED_ASKS);
    CHECK_EQ_INT((int)dlk_core_unconfirmed(&w.core), 0);
    CHECK(dlk_core_next(&w.core) >= DLK_NEVER);
    for (int i = 0; i < MANY; i++) {
        world_release(&done[i], all[i].hold);
        CHECK(done[i].over && done[i].code == DLOCK_ELOST);
        world_forget(&done[i]);
        world_forget(&all[i]);
    }
    w.name->key.kind = DLOCK_MUTEX;
    world_close();
}

/* ---- What is kept ---- */

static dlk_terms keeping(void)
{
    dlk_terms terms = world_terms();
    terms.keep_ms = 60000;
    terms.keep_runs = 2;
    terms.keep_run_ms = 1000;
    return terms;
}

/* Thread 1 has had it, with so many tokens more, and it is kept. */
static void open_kept(dlk_wait *first, int64_t block)
{
    begin();
    dlk_wait done = {0};
    w.block = block;
    world_acquire_terms(first, 1, 60000, keeping());
    world_answer(DLK_ACQUIRE, DLK_YES);
    world_release(&done, first->hold);
    CHECK(done.over && done.code == DLOCK_OK);
    world_forget(&done);
}

TEST(what_is_kept_and_asked_for_goes_back_where_nobody_can_take_it_up)
{
    dlk_wait a, b;
    open_kept(&a, 1);
    world_acquire_terms(&b, 2, 60000, keeping()); /* waits for more tokens */
    (void)dlk_core_mark_asked(&w.name->key, a.grant->number);
    none_of = sizeof(dlk_hold);
    world_answer(DLK_RENEW, DLK_YES);
    none_of = 0;
    CHECK(b.over && b.code == DLOCK_ENOMEM);
    CHECK_EQ_INT(w.releases, 1);
    world_answer(DLK_RELEASE, DLK_YES);
    w.live_holds--; /* the one that there was no memory for */
    world_forget(&b);
    world_forget(&a);
    world_close();
}

TEST(a_try_waits_for_no_tokens_that_there_is_no_memory_to_ask_for)
{
    dlk_wait a, b;
    open_kept(&a, 1);
    while (w.core.spare_ask_count > 0) { /* nor any from before */
        dlk_ask *spare =
            DLK_LIST_ITEM(dlk_list_take_first(&w.core.spare_asks), dlk_ask, link);
        w.core.spare_ask_count--;
        w.core.ask_count--;
        free(spare);
    }
    none_left = true;
    world_acquire_terms(&b, 2, 0, keeping());
    CHECK(b.over && b.code != DLOCK_OK);
    none_left = false;
    world_move(5000);
    CHECK_EQ_INT(w.releases, 1);
    world_answer(DLK_RELEASE, DLK_YES);
    world_forget(&b);
    world_forget(&a);
    world_close();
}
