/* What the torture happens in: a lock service, a scenario's answers, and what must be true when a
 * scenario is over, whatever was made to fail in it. */
#ifndef TORTURE_WORLD_H
#define TORTURE_WORLD_H

#include "faults.h"

#include "harness/redis_server.h"

#include <dlock/dlock.h>

#include <stdint.h>

typedef enum torture_backend {
    ON_MEM = 1,
    ON_FILE = 2,
    ON_REDIS = 4,
    ON_ALL = 7
} torture_backend;

/* The service as one worker sees it: a table, or a database, of its own. */
typedef struct world {
    torture_backend backend;
    int worker;
    char path[96], fresh_path[96];
    char uri[400];   /* somebody (the observer) has it open already */
    char fresh[400]; /* nobody has */
    char name[32];   /* of the lock */
    int ttl_ms;      /* short: what may be left for the length of a lease costs little */
    int long_ms;     /* longer than anything takes when nothing fails */
    char patient[400]; /* the service once more, for who must get an answer */
    redis_server *redis;
    dlock_client *observer;   /* keeps a table from being made anew, and shows it to us */
    int descriptors, threads; /* that are there between runs */
} world;

/* One run of a scenario; in memory that is shared with its children. */
typedef struct stage {
    const world *world;
    bool baseline; /* nothing fails: every answer is the expected one */
    bool unsure;   /* an answer left open what happened, so a lease may have to run out */
    /* something was: only its lease ends that, also where deaths are seen */
    bool exported;
    bool late; /* a lease had to run out */
    int answers;
    bool complained;
    char complaint[1024]; /* the first */
    dlock_error *err;
} stage;

#define PERMITS_NAME "permits" /* behind the name and a slash: a semaphore of two */

const char *backend_name(torture_backend which);

/* In the worker. */
bool world_open(world *w, torture_backend which, int worker, const char *dir,
                redis_server *redis);
void world_close(world *w);

/* Looks around when a run is over, and complains in the stage. What libdlock owed before must be
 * all that it owes now. */
void world_verify(world *w, stage *s, fault_balance before);

__attribute__((format(printf, 2, 3))) void stage_complain(stage *s, const char *format,
                                                          ...);
/* Looks at an answer and its error: it must be @p expected, or when something fails one of
 * @p others, a set of bits. Returns whether the answer was DLOCK_OK. */
bool stage_said(stage *s, int line, const char *call, dlock_err code, dlock_err expected,
                uint32_t others);
/* The same for an op, awaited before. */
bool stage_finished(stage *s, int line, const char *what, dlock_op *op,
                    dlock_err expected, uint32_t others);

#define BIT(code) (UINT32_C(1) << (code))
/* `s` is the stage; calls report to &s->err. */
#define SAYS(expected, others, call)                                                     \
    stage_said(s, __LINE__, #call, (call), (expected), (others))
#define FINISHES(expected, others, op)                                                   \
    stage_finished(s, __LINE__, #op, (op), (expected), (others))
#define HOLDS(condition)                                                                 \
    do {                                                                                 \
        if (!(condition))                                                                \
            stage_complain(s, "line %d: not true: %s", __LINE__, #condition);            \
    } while (0)

int64_t now_ms(void);
void nap_ms(int ms);

typedef struct scenario {
    const char *name;
    int backends;
    void (*run)(stage *s);
} scenario;

#endif
