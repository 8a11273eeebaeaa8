/* libcurl: where it is, and what is set up in it once. */
#include "curl_calls.h"

#include "util/error.h"

/* 7.85.0. An older one passes over what it is told of protocols, and goes on. */
#define OLDEST 0x075500

static dlock_err set_up(dlock_error **err)
{
    const curl_version_info_data *is = curl_version_info(CURLVERSION_NOW);
    if (is->version_num < OLDEST)
        return dlk_error_set(err, DLOCK_ENOTSUP,
                             "libcurl %s is too old: install 7.85 or newer", is->version);
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return dlk_error_nomem(err);
    return DLOCK_OK;
}

#ifdef DLK_LAZY_CURL
struct dlk_curl_calls dlk_curl_calls;
static const char *const names[] = {DLK_CURL_NAMES};

dlk_loaded dlk_curl = {.set_up = set_up,
                       .file = "libcurl.so.4",
                       .install = "libcurl 7.85 or newer (Debian: libcurl4)",
                       .names = names,
                       .calls = &dlk_curl_calls};
#else
dlk_loaded dlk_curl = {.set_up = set_up};
#endif
