/*
 * Why nobody can be reached: for each address what was tried last, and what came of it. Kept while a client
 * connects, forgotten when it is up, and put behind the error that says so. Bounded: of further addresses it is
 * said that there are some, long reasons are cut.
 */
#ifndef DLK_UTIL_WHYS_H
#define DLK_UTIL_WHYS_H

#include <dlock/dlock.h>

#include <stdbool.h>
#include <stddef.h>

typedef enum dlk_whys_step {
    DLK_STEP_LOOK_UP,
    DLK_STEP_CONNECT,
    DLK_STEP_TLS,
    DLK_STEP_GREET,
    DLK_STEP_LOG_IN,
    DLK_STEP_REQUEST,
} dlk_whys_step;

/* What is said of a step that is under way. */
#define DLK_WHYS_NO_ANSWER "no answer yet"

#define DLK_WHYS_MAX       32

typedef struct dlk_why dlk_why;

/* Zeroed: empty. */
typedef struct dlk_whys {
    dlk_why *items; /* DLK_WHYS_MAX, made with the first; NULL: none */
    size_t count;
    bool left_out; /* there were others, which found no room */
} dlk_whys;

/* This is what was tried last at @p address. No secret may be in @p reason. @p whys may be NULL: nobody wants
 * to know; without memory nothing is noted. */
void dlk_whys_note(dlk_whys *whys, const char *address, dlk_whys_step step,
                   const char *reason);
/* It was found, or has answered: nothing is wrong with it. */
void dlk_whys_forget(dlk_whys *whys, const char *address);
void dlk_whys_clear(dlk_whys *whys);

/* @p error, which is taken over, with what it doesn't say itself, as "address: …". */
dlock_error *dlk_whys_complete(const dlk_whys *whys, dlock_error *error);

#endif
