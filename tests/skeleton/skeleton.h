/* The skeleton of a backend: mutexes as entries of a map in another process. What it is
 * for, and how to begin with a copy of it: docs/how-to/add-a-backend.md. */
#ifndef TESTS_SKELETON_H
#define TESTS_SKELETON_H

#include "contract/backend.h"

extern const dlk_backend_type skeleton_backend;

#endif
