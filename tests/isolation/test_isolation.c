/* Schedules for the races of ambiguity (A) and waiting (W) of the failure catalogue: each of them in
 * all orders that make a difference, stopped at named points of the library. At the end a table
 * says which schedule stands for which race. */
#include "../api/world.h"
#include "run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Which schedule is for which races; those for none have a reason instead. */
static struct row {
    const char *ids, *schedule, *what;
    int orders;
    char why[256];
} table[] = {
#define SCHEDULE(name, ids, what) {ids, #name, what, 0, ""},
#define NOT_YET(ids, what, why)   {ids, NULL, what, 0, why},
#include "schedules.h"
#undef SCHEDULE
#undef NOT_YET
};

enum { ROWS = sizeof(table) / sizeof(*table) };

static void run(const char *schedule)
{
    BEGIN();
    for (int i = 0; i < ROWS; i++)
        if (table[i].schedule && strcmp(table[i].schedule, schedule) == 0 &&
            !schedule_run(schedule, &table[i].orders, table[i].why))
            LEAVE_OUT(table[i].why);
}

#define SCHEDULE(name, ids, what)                                                        \
    TEST(name)                                                                           \
    {                                                                                    \
        run(#name);                                                                      \
    }
#define NOT_YET(ids, what, why)
#include "schedules.h"
#undef SCHEDULE
#undef NOT_YET

static const struct row *row_of(const char *id)
{
    size_t size = strlen(id);
    for (int i = 0; i < ROWS; i++)
        for (const char *at = table[i].ids; (at = strstr(at, id)); at++)
            if (at[size] == '\0' || at[size] == ' ')
                return &table[i];
    return NULL;
}

TEST(every_race_of_the_catalogue_has_a_schedule_or_a_reason)
{
    int total = 0;
    for (int i = 0; i < ROWS; i++) {
        struct row *row = &table[i];
        bool is_unknown = row->schedule && row->orders == 0 && !row->why[0];
        if (is_unknown &&
            world_ready()) /* it ran before a void try, in another program */
            (void)schedule_run(row->schedule, &row->orders, row->why);
        total += row->orders;
        if (row->why[0])
            harness_note("%-8s N/A: %s", row->ids, row->why);
        else
            harness_note("%-8s %s: %d orders", row->ids, row->what, row->orders);
    }
    harness_note("%d orders in all", total);
    for (int i = 1; i <= 21; i++) {
        char id[8];
        snprintf(id, sizeof(id), "%c%d", i <= 12 ? 'A' : 'W', i <= 12 ? i : i - 12);
        const struct row *row = row_of(id);
        if (!row)
            harness_note("%s has none", id);
        CHECK(row != NULL);
        CHECK(row->orders > 0 || row->why[0]);
    }
}
