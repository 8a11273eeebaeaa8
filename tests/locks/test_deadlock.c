/* Who waits for whom in a circle, of what clients tell. */
#include "harness/harness.h"
#include "locks/deadlock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, MANY = 50000 };

static dlk_deadlock_line lines[MOST];
static size_t count;
static int64_t date;

static void add(bool waits, const char *client, dlock_kind kind, const char *name)
{
    lines[count++] = (dlk_deadlock_line){.client = client,
                                         .name = name,
                                         .thread = 1,
                                         .kind = kind,
                                         .waits = waits,
                                         .since = ++date};
}

static void has(const char *client, dlock_kind kind, const char *name)
{
    add(false, client, kind, name);
}

static void waits(const char *client, dlock_kind kind, const char *name)
{
    add(true, client, kind, name);
}

static int compare_words(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* "a b; c d": who is in each, by name, and in front of a '!' who began to wait last. */
static const char *found(void)
{
    static char text[1024];
    dlk_deadlocks all;
    text[0] = '\0';
    if (!dlk_deadlocks_find(lines, count, &all))
        return "no memory";
    for (size_t i = 0; i < all.count; i++) {
        const char *who[MOST];
        size_t size = 0;
        const dlk_deadlock_step *youngest =
            &all.steps[dlk_deadlock_youngest(lines, &all, i)];
        for (size_t k = dlk_deadlock_begin(&all, i); k < all.ends[i]; k++)
            who[size++] = lines[all.steps[k].waits].client;
        qsort(who, size, sizeof(*who), compare_words);
        strcat(text, i > 0 ? "; " : "");
        for (size_t k = 0; k < size; k++) {
            bool last = strcmp(who[k], lines[youngest->waits].client) == 0;
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s%s",
                     k > 0 ? " " : "", who[k], last ? "!" : "");
        }
    }
    dlk_deadlocks_free(&all);
    return text;
}

/* Forgets what was told. */
static const char *of_these(void)
{
    const char *text = found();
    count = 0;
    return text;
}

TEST(two_that_wait_for_each_other_are_found_and_who_came_last)
{
    has("a", DLOCK_MUTEX, "x");
    has("b", DLOCK_MUTEX, "y");
    waits("b", DLOCK_MUTEX, "x");
    waits("a", DLOCK_MUTEX, "y");
    CHECK_STR(of_these(), "a! b");
}

TEST(each_waits_for_what_the_next_one_has)
{
    has("a", DLOCK_MUTEX, "x");
    has("b", DLOCK_ELECTION, "y");
    has("c", DLOCK_MUTEX, "z");
    waits("a", DLOCK_MUTEX, "y");
    waits("b", DLOCK_MUTEX, "z");
    waits("c", DLOCK_MUTEX, "x");
    dlk_deadlocks all;
    CHECK(dlk_deadlocks_find(lines, count, &all));
    CHECK_EQ_INT(all.count, 1);
    CHECK_EQ_INT(all.ends[0], 3);
    for (size_t i = 0; i < 3; i++) {
        const dlk_deadlock_line *wait = &lines[all.steps[i].waits],
                                *held = &lines[all.steps[i].holds];
        CHECK(wait->waits && !held->waits);
        CHECK_STR(wait->name, held->name);
        CHECK_STR(held->client, lines[all.steps[(i + 1) % 3].waits].client);
    }
    dlk_deadlocks_free(&all);
    CHECK_STR(of_these(), "a b c!");
}

TEST(a_circle_of_fifty_is_found_and_with_one_that_gets_on_none)
{
    static char names[50][8];
    static dlk_deadlock_line many[100];
    for (size_t i = 0; i < 50; i++)
        snprintf(names[i], sizeof(names[i]), "n%zu", i);
    for (size_t i = 0; i < 50; i++) {
        many[2 * i] = (dlk_deadlock_line){
            .client = names[i], .name = names[i], .thread = 1, .kind = DLOCK_MUTEX};
        many[2 * i + 1] = many[2 * i];
        many[2 * i + 1].waits = true;
        many[2 * i + 1].since = (int64_t)i;
        many[2 * i + 1].name = names[(i + 1) % 50];
    }
    dlk_deadlocks all;
    CHECK(dlk_deadlocks_find(many, 100, &all));
    CHECK_EQ_INT(all.count, 1);
    CHECK_EQ_INT(all.ends[0], 50);
    CHECK_EQ_INT(all.steps[dlk_deadlock_youngest(many, &all, 0)].waits, 99);
    dlk_deadlocks_free(&all);
    CHECK(dlk_deadlocks_find(many, 99, &all)); /* without the last wait */
    CHECK_EQ_INT(all.count, 0);
    dlk_deadlocks_free(&all);
}

TEST(a_line_of_waiters_is_no_circle)
{
    has("a", DLOCK_MUTEX, "x");
    has("b", DLOCK_MUTEX, "y");
    waits("b", DLOCK_MUTEX, "x");
    waits("c", DLOCK_MUTEX, "y");
    waits("d", DLOCK_MUTEX, "nobody has it");
    CHECK_STR(of_these(), "");
    CHECK_STR(of_these(), ""); /* nothing at all */
}

TEST(who_waits_for_a_circle_is_not_in_it)
{
    has("a", DLOCK_MUTEX, "x");
    has("b", DLOCK_MUTEX, "y");
    waits("b", DLOCK_MUTEX, "x");
    waits("a", DLOCK_MUTEX, "y");
    has("0", DLOCK_MUTEX, "z");
    waits("0", DLOCK_MUTEX, "x");
    waits("zz", DLOCK_MUTEX, "z");
    CHECK_STR(of_these(), "a! b");
}

TEST(two_circles_are_two)
{
    const char *const who[] = {"a", "b", "c", "d"};
    for (size_t i = 0; i < 4; i++)
        has(who[i], DLOCK_MUTEX, who[i]);
    for (size_t i = 0; i < 4; i++)
        waits(who[i], DLOCK_MUTEX, who[i ^ 1]);
    CHECK_STR(of_these(), "a b!; c d!");
}

TEST(threads_of_a_client_are_apart)
{
    has("a", DLOCK_MUTEX, "x");
    has("b", DLOCK_MUTEX, "y");
    waits("b", DLOCK_MUTEX, "x");
    waits("a", DLOCK_MUTEX, "y");
    lines[count - 1].thread = 2;
    CHECK_STR(of_these(), "");
}

TEST(where_no_thread_is_known_nobody_is_taken_to_wait_for_ever)
{
    has("a", DLOCK_MUTEX, "x");
    has("b", DLOCK_MUTEX, "y");
    waits("b", DLOCK_MUTEX, "x");
    waits("a", DLOCK_MUTEX, "y");
    for (size_t i = 0; i < count; i++)
        lines[i].thread = 0;
    CHECK_STR(of_these(), "");
}

TEST(lines_that_are_told_twice_change_nothing)
{
    for (int i = 0; i < 2; i++) {
        has("a", DLOCK_MUTEX, "x");
        has("b", DLOCK_MUTEX, "y");
        waits("b", DLOCK_MUTEX, "x");
        waits("a", DLOCK_MUTEX, "y");
    }
    CHECK_STR(of_these(), "a! b");
}

TEST(locks_of_one_name_and_different_kinds_are_different)
{
    has("a", DLOCK_MUTEX, "x");
    has("b", DLOCK_WRITE, "y");
    waits("b", DLOCK_MUTEX, "x");
    waits("a", DLOCK_MUTEX, "y");
    CHECK_STR(of_these(), "");
}

/* ---- read/write locks ---- */

/* A writer waits for each reader, so one of them in the circle is enough. */
TEST(a_writer_waits_for_all_who_read)
{
    has("a", DLOCK_READ, "x");
    has("b", DLOCK_READ, "x");
    has("w", DLOCK_MUTEX, "y");
    waits("w", DLOCK_WRITE, "x");
    waits("b", DLOCK_MUTEX, "y");
    CHECK_STR(of_these(), "b! w");
}

TEST(a_reader_waits_for_the_writer_and_for_no_reader)
{
    has("a", DLOCK_READ, "x");
    has("b", DLOCK_MUTEX, "y");
    waits("b", DLOCK_READ, "x");
    waits("a", DLOCK_MUTEX, "y");
    CHECK_STR(of_these(), "");
    has("a", DLOCK_WRITE, "x");
    has("b", DLOCK_MUTEX, "y");
    waits("b", DLOCK_READ, "x");
    waits("a", DLOCK_MUTEX, "y");
    CHECK_STR(of_these(), "a! b");
}

/* ---- semaphores ---- */

TEST(a_semaphore_is_in_a_circle_when_all_who_have_permits_are)
{
    for (int free = 0; free < 2; free++) {
        has("a", DLOCK_SEMAPHORE, "s");
        has("b", DLOCK_SEMAPHORE, "s");
        has("w", DLOCK_MUTEX, "x");
        waits("w", DLOCK_SEMAPHORE, "s");
        waits("a", DLOCK_MUTEX, "x");
        if (!free)
            waits("b", DLOCK_MUTEX, "x");
        CHECK_STR(of_these(), free ? "" : "a! w");
    }
}

TEST(a_permit_of_whom_nothing_is_known_is_given_back)
{
    has("a", DLOCK_SEMAPHORE, "s");
    has("w", DLOCK_MUTEX, "x");
    has("?", DLOCK_SEMAPHORE, "s");
    lines[count - 1].thread = 0;
    waits("w", DLOCK_SEMAPHORE, "s");
    waits("a", DLOCK_MUTEX, "x");
    CHECK_STR(of_these(), "");
}

TEST(who_waits_for_permits_beside_all_that_it_has_itself_is_a_circle_of_one)
{
    has("a", DLOCK_SEMAPHORE, "s");
    waits("a", DLOCK_SEMAPHORE, "s");
    CHECK_STR(of_these(), "a!");
}

/* ---- several waits of a party ---- */

TEST(who_waits_for_several_things_gets_on_with_one_of_them)
{
    has("a", DLOCK_MUTEX, "x");
    has("b", DLOCK_MUTEX, "y");
    waits("b", DLOCK_MUTEX, "x");
    waits("a", DLOCK_MUTEX, "y");
    waits("a", DLOCK_MUTEX, "z");
    CHECK_STR(of_these(), "");
}

/* ---- hostile lines ---- */

static dlk_deadlock_line *crowd(size_t size)
{
    return calloc(size, sizeof(dlk_deadlock_line));
}

/* All have it and all wait for it, in one and in many: the time is that of sorting them. */
TEST(a_crowd_is_looked_at_in_no_time)
{
    static char names[MANY][8];
    dlk_deadlock_line *many = crowd(2 * (size_t)MANY);
    CHECK(many != NULL);
    for (size_t i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof(names[i]), "%zu", i);
        many[2 * i] = many[2 * i + 1] = (dlk_deadlock_line){
            .client = names[i], .name = "x", .thread = 1, .kind = DLOCK_MUTEX};
        many[2 * i + 1].waits = true;
    }
    dlk_deadlocks all;
    CHECK(dlk_deadlocks_find(many, 2 * (size_t)MANY, &all));
    CHECK_EQ_INT(all.count, 1);
    dlk_deadlocks_free(&all);
    for (size_t i = 0; i < MANY;
         i++) /* a long line, in the order in which it is slowest */
        many[2 * i].name = names[i], many[2 * i + 1].name = names[i > 0 ? i - 1 : 0];
    many[1].thread = 0;
    CHECK(dlk_deadlocks_find(many, 2 * (size_t)MANY, &all));
    CHECK_EQ_INT(all.count, 0);
    dlk_deadlocks_free(&all);
    free(many);
}

/* Whatever is told: each circle leads back to where it began, and nobody is in two. */
TEST(any_lines_make_circles_that_are_circles)
{
    static const char *const who[] = {"a", "b", "c", "d"}, *const names[] = {"x", "y",
                                                                             "z"};
    static const dlock_kind kinds[] = {DLOCK_MUTEX, DLOCK_READ, DLOCK_WRITE,
                                       DLOCK_SEMAPHORE};
    unsigned seed = 1;
    for (int round = 0; round < 20000; round++) {
        dlk_deadlocks all;
        for (count = 0; count < 12; count++) {
            seed = seed * 1103515245U + 12345U;
            unsigned pick = seed >> 8;
            lines[count] = (dlk_deadlock_line){.client = who[pick % 4],
                                               .name = names[pick / 4 % 3],
                                               .kind = kinds[pick / 12 % 4],
                                               .thread = pick / 48 % 8 != 0,
                                               .waits = pick / 384 % 2,
                                               .since = pick / 768 % 4};
        }
        CHECK(dlk_deadlocks_find(lines, count, &all));
        unsigned seen = 0;
        for (size_t i = 0; i < all.count; i++) {
            size_t begin = dlk_deadlock_begin(&all, i), size = all.ends[i] - begin;
            CHECK(size > 0);
            for (size_t k = 0; k < size; k++) {
                const dlk_deadlock_step *step = &all.steps[begin + k],
                                        *next = &all.steps[begin + (k + 1) % size];
                unsigned bit = 1U << (lines[step->waits].client[0] - 'a');
                CHECK((seen & bit) == 0);
                seen |= bit;
                CHECK(lines[step->waits].waits && !lines[step->holds].waits);
                CHECK(lines[step->waits].thread != 0 && lines[step->holds].thread != 0);
                CHECK_STR(lines[step->waits].name, lines[step->holds].name);
                CHECK_STR(lines[step->holds].client, lines[next->waits].client);
            }
        }
        dlk_deadlocks_free(&all);
        CHECK(!harness_failed());
    }
    count = 0;
}
