/*
 * The parts of the demo: eight workers that increment one number in a file under one lock, and
 * the parent that draws them, kills two, and counts.
 *
 * The parent sees the workers through memory they share. It holds no client: the library is used
 * by the workers alone, each of which opens its own after the fork.
 */
#ifndef DLOCK_DEMO_H
#define DLOCK_DEMO_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { WORKERS = 8, KILLS = 2 };

typedef enum worker_state {
    WORKER_STARTS, /* opens its client */
    WORKER_WAITS,
    WORKER_HOLDS,
    WORKER_RESTS,  /* between two turns */
    WORKER_DOOMED, /* holds, and waits to be killed */
    WORKER_KILLED,
    WORKER_DONE,
    WORKER_FAILED, /* `failure` says why */
} worker_state;

/* What a worker tells the parent. One writer: the worker, after its death the parent. */
typedef struct demo_worker {
    _Atomic int state;
    _Atomic int64_t turns;      /* increments that are in the file */
    _Atomic int64_t token;      /* of the last grant */
    _Atomic int64_t granted_us; /* when that was */
    _Atomic int64_t refused;    /* writes that the file refused, and had to */
    char failure[256];          /* complete before `state` says FAILED */
} demo_worker;

/* Who is doomed: nobody, or whoever gets the lock next (not one of our choice, who may have to wait
 * for long where the order isn't that of asking). */
enum { DOOM_NOBODY = -1, DOOM_NEXT = -2 };

typedef struct demo_shared {
    demo_worker workers[WORKERS];
    _Atomic int doomed; /* who keeps the lock and waits for its death, or DOOM_… */
    _Atomic bool stop;
    _Atomic int64_t rising;     /* grants whose token was larger than all before */
    _Atomic int64_t not_rising; /* and the others: 0 at the end, or the demo fails */
} demo_shared;

/* A killed holder, and how long the lock took to reach the next one. */
typedef struct demo_kill {
    int worker;
    pid_t pid;
    int64_t token;
    int64_t at_us;
    int64_t next_us; /* 0: nobody yet */
    int next;        /* the worker that was next */
} demo_kill;

typedef struct demo_state {
    const char *url;
    int64_t ttl_ms;
    char name[64];       /* of the lock */
    char directory[256]; /* temporary: the counter, and the locks when no URL was given */
    char counter[300];
    char own_url[320];
    demo_shared *shared;
    pid_t pids[WORKERS]; /* 0: ended and waited for */
    demo_kill killings[KILLS];
    int killed;
    int64_t began_us;
} demo_state;

int64_t demo_now_us(void);

/* counter.c: the resource. A file with a number and the highest token that wrote it. */

/* Reads the number. Returns 0, or -1 with errno. */
int counter_read(const char *path, int64_t *ret_count, int64_t *ret_token);
/* Writes the number if `token` is larger than that of the last write. Returns 1 when written,
 * 0 when refused, -1 with errno. */
int counter_write(const char *path, int64_t count, int64_t token);

/* worker.c: the life of a worker; never returns. */
_Noreturn void worker_live(const demo_state *demo, int number);

/* draw.c */
void draw_begin(const demo_state *demo);
void draw_frame(const demo_state *demo);
void draw_kill(const demo_state *demo, const demo_kill *killing);
void draw_end(void);

#endif
