/*
 * How dlock top asks the service: a list each second, and then the locks one by one, several at a
 * time, as many as a look may cost; where clients tell who waits, those alone that are on the screen,
 * for their tokens. All are ops, which the library's own thread drives: nothing here
 * waits, and a request that hangs is one that hasn't ended yet.
 */
#ifndef DLOCK_TOOLS_TOP_ASK_H
#define DLOCK_TOOLS_TOP_ASK_H

#include "cli.h"
#include "top/model.h"

enum {
    TOP_EVERY_MS = 1000,
    TOP_LOOKS = 256, /* locks asked for in one look, however many there are */
    TOP_AT_ONCE = 16,
    TOP_HISTORY = 30,
};

typedef struct top_request {
    dlock_op *op; /* NULL: none */
    char *name;
    dlock_kind kind;
    int64_t began_us;
} top_request;

typedef struct top_ask {
    cli_call *cli;
    top_model *model;
    const char *prefix;
    size_t most;          /* locks in a look */
    size_t first, screen; /* the part of the view that is seen */

    top_request list, looks[TOP_AT_ONCE];
    char **due; /* names that this look has yet to ask for */
    size_t due_count, due_at;
    size_t asked;    /* locks that the last look, or this one, asked for */
    int64_t next;    /* when the next look begins */
    int64_t began;   /* this one */
    int64_t best_us; /* the quickest answer of this one; -1: none */
    bool looking;

    bool told;            /* the list says of locks what else each would be asked for */
    bool more;            /* there may be more than the list has */
    char incomplete[160]; /* what a part couldn't be looked at for; "": nothing */
    char deadlock[200];   /* who waits for whom in a circle; "": nobody */
    int64_t deadlocks;    /* so many circles */
    dlock_err code;       /* of the last look */
    char failure[300];
    int64_t failed_at, answered_at; /* -1: never */
    int64_t history[TOP_HISTORY];   /* the latest at the end; -1: failed */
    int samples;
} top_ask;

void top_ask_begin(top_ask *ask, cli_call *cli, top_model *model, const char *prefix);
void top_ask_end(top_ask *ask);

typedef enum top_news { TOP_NOTHING, TOP_SOMETHING, TOP_LOOKED, TOP_FAILED } top_news;

/* Takes what has been answered, and asks for more. TOP_LOOKED, TOP_FAILED: a look has ended. */
top_news top_ask_turn(top_ask *ask, int64_t now);
/* When to call it again at the latest, if no event of the client's comes before. */
int64_t top_ask_wake(const top_ask *ask);
/* The latest answer's time, in microseconds; -1: none. */
int64_t top_ask_latency(const top_ask *ask);

/* For one lock, asked for as the model knows how: an op, or NULL after writing why not. */
dlock_op *top_ask_inspect(top_ask *ask, const char *name, dlock_kind kind, char *why,
                          size_t size);
dlock_op *top_ask_break(top_ask *ask, const char *name, dlock_kind kind,
                        const char *owner, char *why, size_t size);
/* Lets the client's events announce its end. */
void top_ask_watch(top_ask *ask, dlock_op *op);
/* What became of an op, in words. */
void top_ask_why(char *ret, size_t size, const dlock_op *op);

#endif
