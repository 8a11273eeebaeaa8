/* OpenSSL: where it is, and what is set up in it once. */
#include "openssl_calls.h"

#include "util/error.h"

static dlock_err set_up(dlock_error **err)
{
    /* Not at exit: our threads may be inside of it then. Without effect where the program has set
     * it up already. */
    if (!OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL))
        return dlk_error_set(err, DLOCK_ENOTSUP, "TLS: OpenSSL can't be set up");
    return DLOCK_OK;
}

#ifdef DLK_LAZY_OPENSSL
#define TEXT_OF(number) #number
#define SONAME(number)  "libssl.so." TEXT_OF(number)

struct dlk_openssl_calls dlk_openssl_calls;
static const char *const names[] = {DLK_OPENSSL_NAMES};

/* libcrypto comes along. */
dlk_loaded dlk_openssl = {.set_up = set_up,
                          .file = SONAME(OPENSSL_SHLIB_VERSION),
                          .install = "OpenSSL 3 (Debian: libssl3)",
                          .names = names,
                          .calls = &dlk_openssl_calls};
#else
dlk_loaded dlk_openssl = {.set_up = set_up};
#endif
