/* The error object behind dlock_error, and how the inside of the library fills one in. All of it
 * works without memory: what can't be allocated becomes a static object of the same code. */
#ifndef DLK_UTIL_ERROR_H
#define DLK_UTIL_ERROR_H

#include <dlock/dlock.h>

#include <stdbool.h>

struct dlock_error {
    dlock_err code;
    char *text;    /* one line, never NULL */
    char *backend; /* the backend's own words, or NULL */
};

/* A new error, never NULL; @p code must not be DLOCK_OK. Control characters in
 * the text become spaces. */
dlock_error *dlk_error_make(dlock_err code, const char *format, ...)
    __attribute__((format(printf, 2, 3), returns_nonnull));

/* Replaces *err by a new error and returns @p code; only returns it when err is NULL. */
dlock_err dlk_error_set(dlock_error **err, dlock_err code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* dlk_error_set for DLOCK_ENOMEM; allocates nothing. */
dlock_err dlk_error_nomem(dlock_error **err);

/* Success: frees *err, sets it to NULL and returns DLOCK_OK. */
dlock_err dlk_error_clear(dlock_error **err);

/* Moves @p error into *err, replacing what was there, or frees it when err is NULL. Returns its
 * code; NULL is DLOCK_OK. */
dlock_err dlk_error_give(dlock_error **err, dlock_error *error);

/* A copy of its own; NULL of NULL. */
dlock_error *dlk_error_copy(const dlock_error *error);

/* Attaches what the backend said to *err, in which control characters become spaces. Without
 * effect when there is no error, or no memory. */
void dlk_error_backend(dlock_error **err, const char *words);

/* The codes after which the same call may succeed without anything being mended. */
bool dlk_error_retriable(dlock_err code);

/* The system's words for an errno value, in @p text or static. */
const char *dlk_error_errno(int number, char *text, size_t size);

#endif
