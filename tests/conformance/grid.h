/* The rows of the conformance suite: what every lock promises, and every fault that it has to
 * survive, each written once and run in each column (backend, kind, layout, binding).
 *
 *     ROW(T10, a_renewal_never_creates_what_is_gone, "the key deleted under its holder")
 *     {
 *         NEEDS(CAN_CALL);
 *         …
 *     }
 *
 * A cell runs in a process of its own with a lock service of its own; it passes, fails, or says
 * why it can't apply. To add a backend, add its entry to the table in services.c and a line to
 * columns.c, or bring both along, as tests/skeleton/columns.c does; to add a binding, an agent
 * (agent.h) and a line. No row changes for that. */
#ifndef CONFORMANCE_GRID_H
#define CONFORMANCE_GRID_H

#include "agent.h"
#include "party.h"
#include "services.h"

#include "api/world.h"

/* @p what: the fault, or the promise, in a few words for the page. */
#define ROW(id, name, what)                                                              \
    static void row_##id(void);                                                          \
    __attribute__((constructor)) static void row_add_##id(void)                          \
    {                                                                                    \
        grid_add(#id, #name, what, row_##id);                                            \
    }                                                                                    \
    static void row_##id(void)

/* Ends the cell with the column's reason when it lacks one of these. */
#define NEEDS(...)                                                                       \
    do {                                                                                 \
        if (!grid_can((const ability[]){__VA_ARGS__, CAN_ALL}))                          \
            return;                                                                      \
    } while (0)

/* Ends the cell as one that can't apply, because of @p why. */
#define CANNOT(why)                                                                      \
    do {                                                                                 \
        grid_cannot(why);                                                                \
        return;                                                                          \
    } while (0)

/* What belongs to one system alone. */
#define ONLY_FOR(name, why)                                                              \
    do {                                                                                 \
        if (!world_is(name))                                                             \
            CANNOT(why);                                                                 \
    } while (0)

/* A check that holds however slow the machine is. Another one that fails while the machine stood
 * still proves nothing: then the cell is run again, alone (grid.py). */
#define MUST(condition)                                                                  \
    do {                                                                                 \
        if (!harness_check(__FILE__, __LINE__, (condition), #condition)) {               \
            grid_must();                                                                 \
            return;                                                                      \
        }                                                                                \
    } while (0)

typedef struct column {
    const char *backend, *kind, *layout, *binding;
} column;

extern const column columns[];
extern const size_t column_count;

/* Rows that aren't about a backend, kind or layout, and why. */
typedef struct exception {
    const char *backend, *kind, *layout; /* NULL: any */
    const char *rows;                    /* their ids, with spaces between */
    const char *reason;
} exception;

extern const exception exceptions[];
extern const size_t exception_count;

void grid_add(const char *id, const char *name, const char *what, void (*run)(void));
bool grid_can(const ability *wanted);
void grid_cannot(const char *why);
void grid_must(void);
/* The cell stands on that test of tests/, too; grid.py looks whether it still exists. */
void grid_shown_by(const char *file, const char *test);
bool grid_binding_is(const char *name);
bool grid_layout_is(const char *name);
bool grid_kind_is(const char *name);
bool grid_has_tokens(void);
/* A later grant's token is larger, where grants have one. */
bool grid_rises(int64_t earlier, int64_t later);

/* Nothing of anybody is left on the service, though no lease has ended meanwhile. */
bool grid_nothing_left(void);
/* Waits for that; fails a check when it doesn't come in time. */
bool grid_settles(void);
/* Fails a check unless @p began was at most so long ago; the machine's slack is added. */
bool grid_in_time(const char *what, int64_t began_ms, int64_t limit_ms);
/* How long a lease of this lasts there, at most, when nobody renews it. */
int64_t grid_lease_ms(int64_t ttl_ms);
/* Whether a wait ended because its time was over. Over a wire the last request may just have been
 * under way then, or have had no time to leave. */
bool grid_timed_out(dlock_err code);
/* What a loaded machine may add to any time. */
int64_t grid_slack_ms(void);
/* A client at another address than the service's own, and with short patience. */
dlock_client *grid_client_at(const char *uri, const char *settings);

#endif
