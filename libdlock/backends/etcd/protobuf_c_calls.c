/* libprotobuf-c: where it is, and what is set up in it once. */
#include "protobuf_c_calls.h"

#include "util/error.h"

/* 1.3.0: what its compiler makes of proto3 is understood from then on. */
#define OLDEST 1003000

static dlock_err set_up(dlock_error **err)
{
    if (protobuf_c_version_number() < OLDEST)
        return dlk_error_set(err, DLOCK_ENOTSUP,
                             "libprotobuf-c %s is too old: install 1.3 or newer",
                             protobuf_c_version());
    return DLOCK_OK;
}

#ifdef DLK_LAZY_PROTOBUF_C
struct dlk_protobuf_c_calls dlk_protobuf_c_calls;
static const char *const names[] = {DLK_PROTOBUF_C_NAMES};

dlk_loaded dlk_protobuf_c = {.set_up = set_up,
                             .file = "libprotobuf-c.so.1",
                             .install =
                                 "libprotobuf-c 1.3 or newer (Debian: libprotobuf-c1)",
                             .names = names,
                             .calls = &dlk_protobuf_c_calls};
#else
dlk_loaded dlk_protobuf_c = {.set_up = set_up};
#endif
