/* Names of nodes, of every recipe's form and of none, out of the input. */
#ifndef TESTS_FUZZ_ZKNAMES_H
#define TESTS_FUZZ_ZKNAMES_H

#include "fuzz.h"

/* Yours to free. */
char *zk_name(fuzz_bytes *bytes);
/* What stands behind the mark at the end of a name, -1: it has none. */
long zk_number(const char *name, const char *mark);

#endif
