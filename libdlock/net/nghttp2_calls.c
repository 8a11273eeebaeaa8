/* libnghttp2: where it is, and what is set up in it once. */
#include "nghttp2_calls.h"

#include "util/error.h"

/* 1.40.0: the first that bounds how many answers to pings wait in it. */
#define OLDEST 0x012800

static dlock_err set_up(dlock_error **err)
{
    const nghttp2_info *is = nghttp2_version(0);
    if (is->version_num < OLDEST)
        return dlk_error_set(err, DLOCK_ENOTSUP,
                             "libnghttp2 %s is too old: install 1.40 or newer",
                             is->version_str);
    return DLOCK_OK;
}

#ifdef DLK_LAZY_NGHTTP2
struct dlk_nghttp2_calls dlk_nghttp2_calls;
static const char *const names[] = {DLK_NGHTTP2_NAMES};

dlk_loaded dlk_nghttp2 = {.set_up = set_up,
                          .file = "libnghttp2.so.14",
                          .install = "libnghttp2 1.40 or newer (Debian: libnghttp2-14)",
                          .names = names,
                          .calls = &dlk_nghttp2_calls};
#else
dlk_loaded dlk_nghttp2 = {.set_up = set_up};
#endif
