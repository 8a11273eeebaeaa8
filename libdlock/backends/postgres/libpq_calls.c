/* libpq: where it is. */
#include "libpq_calls.h"

#include "util/error.h"

/* 14: the first with pipelines. */
#define OLDEST 140000

static dlock_err set_up(dlock_error **err)
{
    if (PQlibVersion() < OLDEST)
        return dlk_error_set(err, DLOCK_ENOTSUP,
                             "libpq %d is too old: install 14 or newer",
                             PQlibVersion() / 10000);
    return DLOCK_OK;
}

#ifdef DLK_LAZY_LIBPQ
struct dlk_libpq_calls dlk_libpq_calls;
static const char *const names[] = {DLK_LIBPQ_NAMES};

dlk_loaded dlk_libpq = {.set_up = set_up,
                        .file = "libpq.so.5",
                        .install = "libpq 14 or newer (Debian: libpq5)",
                        .names = names,
                        .calls = &dlk_libpq_calls};
#else
dlk_loaded dlk_libpq = {.set_up = set_up};
#endif
