/* Running certificates.sh; see the header. */
#include "harness/certificates.h"

#include "harness/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool certificates_make(certificates *made)
{
    char command[256];
    *made = (certificates){0};
    if (system("command -v openssl >/dev/null 2>&1") != 0) {
        harness_skip("openssl is not installed");
        return false;
    }
    strcpy(made->dir, "/tmp/dlock-tls-XXXXXX");
    if (!harness_check(__FILE__, __LINE__, harness_mkdtemp(made->dir) != NULL,
                       "a directory"))
        return false;
    snprintf(command, sizeof(command), "'%s' '%s'", CERTIFICATES_SCRIPT, made->dir);
    return harness_check(__FILE__, __LINE__, system(command) == 0, "certificates");
}

void certificates_remove(certificates *made)
{
    char command[128];
    if (!made->dir[0])
        return;
    snprintf(command, sizeof(command), "rm -rf '%s'", made->dir);
    (void)harness_check(__FILE__, __LINE__, system(command) == 0, command);
    made->dir[0] = '\0';
}

const char *certificates_path(const certificates *made, const char *name)
{
    static _Thread_local char paths[8][96];
    static _Thread_local unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof(paths[0]), "%s/%s", made->dir, name);
    return path;
}

/* ---- Refused ---- */

const certificate_refusal certificate_refusals[] = {
    {.shown = "expired",
     .code = DLOCK_EACCES,
     .says = "has expired: it was valid until 2020"},
    {.shown = "early", .code = DLOCK_EACCES, .says = "not valid before 2090"},
    {.shown = "selfsigned", .code = DLOCK_EACCES, .says = "self-signed"},
    {.shown = "wrong",
     .code = DLOCK_EACCES,
     .says = "not for 127.0.0.1 but for elsewhere.example"},
    {.shown = "nameless", .code = DLOCK_EACCES, .says = "subjectAltName"},
    {.shown = "server",
     .key = "tls.server_name",
     .value = "elsewhere.example",
     .code = DLOCK_EACCES,
     .says = "not for elsewhere.example but for localhost, 127.0.0.1, ::1"},
    {.shown = "revoked",
     .key = "tls.crl_file",
     .file = "crl.pem",
     .code = DLOCK_EACCES,
     .says = "was revoked"},
    {.shown = "server",
     .key = "tls.crl_file",
     .file = "old.pem",
     .code = DLOCK_EACCES,
     .says = "tls.crl_file has expired"},
    {.shown = "server",
     .key = "tls.ca_file",
     .file = "other.pem",
     .code = DLOCK_EACCES,
     .says = "authority that is not trusted"},
};
const size_t certificate_refusal_count =
    sizeof(certificate_refusals) / sizeof(certificate_refusals[0]);
