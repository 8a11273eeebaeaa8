/* Is a table sound? What the tests of deaths and the storm ask after each disaster. */
#ifndef TESTS_LOCAL_CHECK_H
#define TESTS_LOCAL_CHECK_H

#include "backends/local/table.h"

/* Inside a section. NULL, or what is wrong. */
const char *table_fault(const dlk_table *table);

#endif
