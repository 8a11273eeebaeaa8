/* Certificates for tests of TLS, good ones and bad ones, made anew by certificates.sh, which lists
 * them. */
#ifndef HARNESS_CERTIFICATES_H
#define HARNESS_CERTIFICATES_H

#include <dlock/dlock.h>

#include <stdbool.h>
#include <stddef.h>

typedef struct certificates {
    char dir[64];
} certificates;

/* False after a failed check, or where the test is skipped for want of the command openssl. */
bool certificates_make(certificates *made);
void certificates_remove(certificates *made);
/* The path of one of the files: valid until the thread has asked for eight more. */
const char *certificates_path(const certificates *made, const char *name);

/* What a client refuses that trusts ca.pem. */
typedef struct certificate_refusal {
    const char *shown; /* the server's certificate */
    const char *key;   /* a further setting, or NULL */
    const char *file;  /* its value: one of the files … */
    const char *value; /* … or this */
    dlock_err code;
    const char *says;
} certificate_refusal;
extern const certificate_refusal certificate_refusals[];
extern const size_t certificate_refusal_count;

#endif
