/*
 * Taking the members of a multi-lock, one after the other: what is done next, and what it comes to.
 * Pure: it reads no clock, owns no thread, and knows a member by its index only.
 *
 * One action is under way at a time. Whoever carries it out says what came of it
 * (dlk_taking_done), and gets the next one; FINISH and LEAVE are the last. Beside that the taking
 * may be called off, once, between any two calls. All calls are made one at a time.
 */
#ifndef DLK_MULTI_TAKING_H
#define DLK_MULTI_TAKING_H

#include <dlock/dlock.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DLK_MULTI_MAX 64

typedef enum dlk_taking_state {
    DLK_TAKING_NEW,
    DLK_TAKING_ASKING,          /* a member has been asked */
    DLK_TAKING_LOOKING,         /* all were granted: is each of them held still? */
    DLK_TAKING_BEGINNING_ANEW,  /* one isn't: all go back, and are asked for again */
    DLK_TAKING_GIVING_UP,       /* one can't be had: all go back, then it ends */
    DLK_TAKING_UNWANTED_ASKING, /* called off while a member is asked */
    DLK_TAKING_UNWANTED,        /* called off: all go back, then it ends */
    DLK_TAKING_OVER,
    DLK_TAKING_STATES
} dlk_taking_state;

typedef enum dlk_taking_event {
    DLK_TAKING_DONE,       /* the action that was under way is */
    DLK_TAKING_CALLED_OFF, /* the caller has been told so */
    DLK_TAKING_EVENTS
} dlk_taking_event;

typedef enum dlk_taking_what {
    DLK_TAKING_ASK,     /* `member`, for `wait_ms`; DLOCK_OK: it is ours */
    DLK_TAKING_LOOK,    /* whether `member` is held still; DLOCK_OK: it is */
    DLK_TAKING_RELEASE, /* `member`, in the background; whatever comes of it */
    DLK_TAKING_FINISH,  /* tell the caller `code`; OK: all are held, else none is */
    DLK_TAKING_LEAVE,   /* none is held, and the caller was told when it was called off */
} dlk_taking_what;

/* Why it ends with the code it ends with. */
typedef enum dlk_taking_why {
    DLK_TAKING_MEMBER_SAID, /* `member` has said it, or it is DLOCK_OK */
    DLK_TAKING_DEADLINE,    /* `member` was held by another to the deadline */
    DLK_TAKING_TOO_LATE, /* the lease of one was over before the last came, and so is the time */
} dlk_taking_why;

typedef struct dlk_taking_action {
    dlk_taking_what what;
    size_t member;
    int64_t wait_ms;
    dlock_err code;
    dlk_taking_why why;
} dlk_taking_action;

typedef struct dlk_taking {
    dlk_taking_state state;
    const uint8_t *order; /* the members in the order of taking */
    size_t count;
    int64_t wait_ms, until;
    size_t taken;          /* so many, the first in that order, are held */
    size_t looked;         /* LOOKING: so many were looked at */
    dlk_taking_action end; /* GIVING_UP: how it ends */
} dlk_taking;

/* @p order outlives the taking. */
dlk_taking_action dlk_taking_begin(dlk_taking *taking, const uint8_t *order, size_t count,
                                   int64_t wait_ms, int64_t now);
/* Whether it matters to what follows from this result when it came: reading a clock takes as long as
 * deciding. */
bool dlk_taking_needs_time(const dlk_taking *taking, dlock_err result);
/* The action that was under way is done, with this result. */
dlk_taking_action dlk_taking_done(dlk_taking *taking, dlock_err result, int64_t now);
/* The caller wants it no more. True: a member is asked just now, and need not go on. */
bool dlk_taking_call_off(dlk_taking *taking);
/* Whether this may happen in that state. */
bool dlk_taking_may(dlk_taking_state state, dlk_taking_event event);

#endif
