/* Certificates for tests of TLS, good ones and bad ones, made anew by certificates.sh, which lists
 * them. */
#ifndef HARNESS_CERTIFICATES_H
#define HARNESS_CERTIFICATES_H

#include <stdbool.h>

typedef struct certificates {
    char dir[64];
} certificates;

/* False after a failed check, or where the test is skipped for want of the command openssl. */
bool certificates_make(certificates *made);
void certificates_remove(certificates *made);
/* The path of one of the files: valid until the thread has asked for eight more. */
const char *certificates_path(const certificates *made, const char *name);

#endif
