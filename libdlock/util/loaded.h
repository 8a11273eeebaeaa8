/*
 * Libraries of others that are loaded when something of them is first needed, so that who doesn't need
 * them neither has to have them nor pays for them (docs/design/0026-loaded.md).
 *
 * What is called of one is a list of names in a meson.build. The build makes a header of it: where
 * libdlock.so loads the library (DLK_LAZY_…), each name stands for a pointer in a table, of the type that
 * the library's own header gives it; everywhere else it is the function itself, and nothing is left of
 * this but setting the library up.
 */
#ifndef DLK_UTIL_LOADED_H
#define DLK_UTIL_LOADED_H

#include <dlock/dlock.h>

#include <stdatomic.h>
#include <stdbool.h>

typedef struct dlk_loaded {
    /* Once, before anybody else calls it, and never beside a fork; or NULL. */
    dlock_err (*set_up)(dlock_error **err);
    _Atomic bool ready;

    /* of one that is loaded; else NULL */
    const char *file;    /* a SONAME, without a path */
    const char *install; /* how to get it, for messages: "OpenSSL 3 (Debian: libssl3)" */
    const char *const *names; /* NULL behind the last */
    void *calls;              /* a pointer for each name */
} dlk_loaded;

/* Has it loaded and set up: before anything of it is called. It stays for good. Any thread. ENOTSUP: it
 * isn't there, or too old; tried again with the next call. EFORKED: this is a child that was forked while
 * one was being set up. */
dlock_err dlk_loaded_need(dlk_loaded *library, dlock_error **err);

/* Around what may set up more the first time it is done, and is soon over: no fork comes in between. */
void dlk_loaded_begin(void);
void dlk_loaded_end(void);

#endif
