/* libdlock as the benchmark programs use it: whatever fails ends the program. */
#ifndef BENCH_DLOCK_USE_H
#define BENCH_DLOCK_USE_H

#include "bench.h"

#include <dlock/dlock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline dlock_client *bench_open(const bench_options *options)
{
    dlock_client *client = NULL;
    dlock_error *error = NULL;
    if (!options->uri)
        bench_die("--uri", "is missing");
    if (dlock_client_open(options->uri, NULL, &client, &error) != DLOCK_OK)
        bench_die(options->uri, dlock_error_text(error));
    return client;
}

static inline dlock_kind bench_kind(const bench_options *options)
{
    static const struct {
        const char *name;
        dlock_kind kind;
    } kinds[] = {{"mutex", DLOCK_MUTEX}, {"read", DLOCK_READ}, {"write", DLOCK_WRITE}};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        if (strcmp(options->kind, kinds[i].name) == 0)
            return kinds[i].kind;
    bench_die(options->kind, "is no kind: mutex, read or write");
}

/* The lock "bench/<number>", of the kind that --kind says. */
static inline dlock_lock *bench_lock(const bench_options *options, dlock_client *client,
                                     int number)
{
    char name[32];
    dlock_lock *lock = NULL;
    dlock_error *error = NULL;
    (void)snprintf(name, sizeof(name), "bench/%d", number);
    if (dlock_lock_new(client, bench_kind(options), name, NULL, &lock, &error) !=
        DLOCK_OK)
        bench_die(name, dlock_error_text(error));
    return lock;
}

static inline dlock_hold *bench_acquire(dlock_lock *lock)
{
    dlock_hold *hold = NULL;
    dlock_error *error = NULL;
    if (dlock_lock_acquire(lock, 30000, &hold, &error) != DLOCK_OK)
        bench_die("acquire", dlock_error_text(error));
    return hold;
}

static inline void bench_release(dlock_hold *hold)
{
    dlock_error *error = NULL;
    if (dlock_hold_release(hold, &error) != DLOCK_OK)
        bench_die("release", dlock_error_text(error));
    dlock_hold_free(hold);
}

/* 0 for what isn't in it. */
static inline double bench_number(const dlock_info *info, const char *key)
{
    const char *value = dlock_info_get(info, key);
    return value ? strtod(value, NULL) : 0;
}

#endif
