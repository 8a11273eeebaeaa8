/* The table of a client's names: one for each kind and text, and several where their settings differ. */
#include "harness/harness.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 300 }; /* the table begins with room for 64 */

static char texts[MANY][8];

static void end(dlk_name *first)
{
    w.name = first; /* the world forgets whichever name is freed */
    world_close();
}

static dlk_name *add(const char *text, dlock_kind kind, uint64_t agreed)
{
    dlk_name *name = calloc(1, sizeof(*name));
    if (!name)
        return NULL;
    name->key = (dlk_key){.name = text, .size = (uint32_t)strlen(text), .kind = kind};
    name->agreed = agreed;
    return dlk_name_add(&w.core, name) ? name : NULL;
}

static dlk_name *find(const char *text, dlock_kind kind, dlk_name *after)
{
    return dlk_name_find(&w.core, kind, text, strlen(text), after);
}

TEST(each_of_many_names_is_found_while_it_is_there_and_no_longer)
{
    dlk_name *all[MANY], *first;
    world_open();
    first = w.name;
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(texts[i], sizeof(texts[i]), "l%d", i);
        CHECK(!find(texts[i], DLOCK_MUTEX, NULL));
        all[i] = add(texts[i], DLOCK_MUTEX, 0);
        CHECK(all[i] && !all[i]->twin);
    }
    CHECK_EQ_INT(w.core.name_count, MANY + 1);
    CHECK(w.core.name_buckets >= MANY); /* it has grown, so that chains stay short */
    for (int i = 0; i < MANY; i++)
        CHECK(find(texts[i], DLOCK_MUTEX, NULL) == all[i]);
    for (int i = 0; i < MANY; i += 2)
        dlk_name_unref(&w.core, all[i]);
    for (int i = 0; i < MANY; i++)
        CHECK(find(texts[i], DLOCK_MUTEX, NULL) == (i % 2 ? all[i] : NULL));
    for (int i = 1; i < MANY; i += 2)
        dlk_name_unref(&w.core, all[i]);
    CHECK_EQ_INT(w.core.name_count, 1);
    CHECK(find("n", DLOCK_MUTEX, NULL) == first);
    end(first);
}

TEST(the_table_grows_when_it_is_full_and_not_before)
{
    dlk_name *all[64], *first;
    world_open();
    first = w.name;
    for (int i = 0; i < 64; i++) {
        CHECK_EQ_INT(w.core.name_buckets, 64);
        (void)snprintf(texts[i], sizeof(texts[i]), "l%d", i);
        all[i] = add(texts[i], DLOCK_MUTEX, 0); /* `n` is there already */
        CHECK(all[i] != NULL);
    }
    CHECK_EQ_INT(w.core.name_buckets, 128);
    for (int i = 0; i < 64; i++)
        dlk_name_unref(&w.core, all[i]);
    end(first);
}

TEST(another_kind_or_a_longer_text_is_another_name)
{
    world_open();
    dlk_name *first = w.name, *semaphore = add("n", DLOCK_SEMAPHORE, 0);
    dlk_name *longer = add("nn", DLOCK_MUTEX, 0);
    CHECK(semaphore && longer);
    CHECK(!first->twin && !semaphore->twin && !longer->twin);
    CHECK(find("n", DLOCK_MUTEX, NULL) == first);
    CHECK(find("n", DLOCK_SEMAPHORE, NULL) == semaphore);
    CHECK(find("nn", DLOCK_MUTEX, NULL) == longer);
    CHECK(!find("n", DLOCK_WRITE, NULL));
    CHECK(!find("n", DLOCK_MUTEX, first));
    dlk_name_unref(&w.core, semaphore);
    dlk_name_unref(&w.core, longer);
    end(first);
}

TEST(names_of_one_text_are_found_one_after_the_other_and_know_of_each_other)
{
    world_open();
    dlk_name *first = w.name, *second = add("n", DLOCK_MUTEX, 7);
    dlk_name *third = add("n", DLOCK_MUTEX, 8);
    CHECK(second && third);
    CHECK(first->twin && second->twin && third->twin);
    dlk_name *found[3] = {find("n", DLOCK_MUTEX, NULL)};
    found[1] = find("n", DLOCK_MUTEX, found[0]);
    found[2] = find("n", DLOCK_MUTEX, found[1]);
    CHECK(found[0] == third && found[1] == second && found[2] == first);
    CHECK(!find("n", DLOCK_MUTEX, found[2]));
    dlk_name_unref(&w.core, second); /* from the middle of its chain */
    CHECK(find("n", DLOCK_MUTEX, third) == first);
    dlk_name_unref(&w.core, third);
    CHECK(find("n", DLOCK_MUTEX, NULL) == first);
    end(first);
}

static dlk_wait a, b;

static void want(dlk_wait *wait, dlk_name *name, int64_t wait_ms)
{
    *wait = (dlk_wait){
        .name = name,
        .owner = dlk_core_new_owner(&w.core),
        .once = wait_ms == 0,
        .terms = world_terms(),
    };
    dlk_acquire_start(&w.core, wait, dlk_clock_after(w.now, wait_ms), w.now);
}

/* Asked for, held, and contended for by another owner. */
TEST(who_disagrees_with_a_name_in_use_is_refused)
{
    world_open();
    dlk_name *first = w.name, *other = add("n", DLOCK_MUTEX, 7);
    dlk_name *same = add("n", DLOCK_MUTEX, 0);
    CHECK(other && same);
    CHECK(!dlk_name_rival(&w.core, other)); /* nobody uses the first */
    want(&a, first, 5000);
    CHECK(dlk_name_rival(&w.core, other) == first);
    CHECK(!dlk_name_rival(&w.core, same));
    CHECK(!dlk_name_rival(&w.core, first));
    want(&b, other, 5000);
    CHECK(b.over && b.code == DLOCK_ECONFLICT);
    world_forget(&b);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(dlk_name_rival(&w.core, other) == first);
    want(&b, other, 0);
    CHECK(b.over && b.code == DLOCK_ECONFLICT);
    CHECK_EQ_INT(w.acquires, 1);
    world_forget(&b);
    world_forget(&a);
    world_answer(DLK_RELEASE, DLK_YES);
    CHECK(!dlk_name_rival(&w.core, other));
    want(&b, other, 0);
    CHECK_EQ_INT(w.acquires, 2);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(b.over && b.code == DLOCK_OK);
    world_forget(&b);
    world_answer(DLK_RELEASE, DLK_YES);
    dlk_name_unref(&w.core, other);
    dlk_name_unref(&w.core, same);
    a = b = (dlk_wait){0};
    end(first);
}

/* What waits behind what is tried, when that has just been given up. */
TEST(who_only_waits_uses_a_name_too)
{
    world_open();
    dlk_name *first = w.name, *other = add("n", DLOCK_MUTEX, 7);
    CHECK(other != NULL);
    want(&a, first, 5000);
    world_answer(DLK_ACQUIRE, DLK_YES);
    want(&b, first, 5000); /* behind a, which will be lost */
    w.now += 11000 * MS;
    CHECK(!dlk_grant_settle(&w.core, a.grant, w.now));
    CHECK(dlk_name_rival(&w.core, other) == first);
    dlk_core_close(&w.core, w.now);
    world_forget(&a);
    world_forget(&b);
    a = b = (dlk_wait){0};
    dlk_name_unref(&w.core, other);
    end(first);
}
