/* Several locks as one, of two clients. */
#ifndef TESTS_API_SEVERAL_H
#define TESTS_API_SEVERAL_H

#include "world.h"

extern char names[3][128];

/* After the test. */
void name_them(const char *test);
/* Of the first two names, the second first: the order given isn't the order of taking. */
dlock_lock *both(dlock_client *one, dlock_client *other);

#endif
