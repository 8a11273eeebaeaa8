/* Taking the address of a lock service apart. What a scheme means is for others to say: here it
 * is text. No error and nothing "masked" shows a password, also not one that was mistyped. */
#ifndef DLK_UTIL_URI_H
#define DLK_UTIL_URI_H

#include "util/settings.h"

#include <dlock/dlock.h>

#include <stdint.h>

#define DLK_URI_MAX 4096 /* bytes of a URI */

typedef struct dlk_uri_host {
    char *host;    /* a name or an address; IPv6 without its brackets */
    uint16_t port; /* 0 = not given */
} dlk_uri_host;

typedef struct dlk_uri_parameter {
    char *key, *value; /* decoded */
} dlk_uri_parameter;

typedef struct dlk_uri {
    char *scheme; /* in small letters: "redis", "redis+unix", "mem" */
    dlk_uri_host *hosts;
    size_t host_count;
    char *path;     /* decoded, "" when absent; "mem:NAME" has NAME here */
    char *user;     /* decoded, or NULL */
    char *password; /* decoded, or NULL; a secret */
    dlk_uri_parameter *parameters;
    size_t parameter_count;
    char *masked;
    /* an @ where none should be: perhaps a password that wasn't encoded */
    bool ambiguous;
} dlk_uri;

dlock_err dlk_uri_parse(const char *text, dlk_uri **ret, dlock_error **err);
void dlk_uri_free(dlk_uri *uri); /* wipes the secrets; NULL is fine */

/* What the URI sets: its parameters, user and password as auth.*, the database of redis:// and
 * rediss://. Also refuses a missing host, which parse leaves to whoever knows the scheme. */
dlock_err dlk_uri_apply(const dlk_uri *uri, dlk_settings *settings, dlock_error **err);

/* The URI as it was written, with *** for each secret. */
const char *dlk_uri_masked(const dlk_uri *uri);

#endif
