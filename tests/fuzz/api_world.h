/* The world of the API's target: two clients, what was made with them, the model of it all. */
#ifndef TESTS_FUZZ_API_WORLD_H
#define TESTS_FUZZ_API_WORLD_H

#include "api_model.h"

#include <stdio.h>

typedef struct api_world {
    model model;
    dlock_client *clients[CLIENTS];
    dlock_op *pings[CLIENTS]; /* finished ones: to look at them makes a client catch up */
    bool saw_closed[CLIENTS];
    uint64_t last_tag;
    bool seen_info;
    fuzz_bytes *bytes;
    bool loud;
} api_world;

extern api_world world;

/* FUZZ_TELL=1 in the environment: each call and its answer, to understand a finding. */
#define TELL(...)                                                                        \
    do {                                                                                 \
        if (world.loud)                                                                  \
            printf("# " __VA_ARGS__);                                                    \
    } while (0)

/* In a file, or in memory. */
void open_world(bool in_file);
/* In an order of the input's choice: each keeps what it needs. */
void close_world(uint8_t order);

/* Three threads, one at a time; 0 is the caller. */
void on_thread(int number, void (*run)(void *), void *with);

/* Of the input. What there is nothing of is NULL. */
uint8_t next(void);
lock *some_lock(void);
hold *some_hold(void);
op *some_op(void);
op *free_op(void);

/* Every answer has its error, and success has none; both are freed. */
void check_error(dlock_err code, dlock_error *err);
void check_info(dlock_err code, dlock_info *info);
/* Holds that were freed, and the like, are seen to by whoever enters next. */
void catch_up(void);
/* A hold that @p by has got. */
void keep_hold(dlock_hold *got, const op *by);
/* Fetches and judges what there is. */
void take_events(void);

#endif
