/* jansson: where it is, and what is set up in it once. */
#include "jansson_calls.h"

/* Else the first to make an object does it, and a fork beside that leaves a child that waits for it. */
static dlock_err set_up(dlock_error **err)
{
    (void)err;
    json_object_seed(0);
    return DLOCK_OK;
}

#ifdef DLK_LAZY_JANSSON
struct dlk_jansson_calls dlk_jansson_calls;
static const char *const names[] = {DLK_JANSSON_NAMES};

dlk_loaded dlk_jansson = {.set_up = set_up,
                          .file = "libjansson.so.4",
                          .install = "jansson 2.10 or newer (Debian: libjansson4)",
                          .names = names,
                          .calls = &dlk_jansson_calls};
#else
dlk_loaded dlk_jansson = {.set_up = set_up};
#endif
