/* Runs a schedule on the backend under test; spec.h says what one is. */
#ifndef TESTS_ISOLATION_RUN_H
#define TESTS_ISOLATION_RUN_H

#include <stdbool.h>

/* Runs specs/NAME.spec in all its orders. False: it says nothing on this backend, *ret_why says
 * why. Failed checks are the test's. @p ret_orders: how many were run. */
bool schedule_run(const char *name, int *ret_orders, char ret_why[256]);

#endif
