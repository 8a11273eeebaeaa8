/* Which backend serves a URI's scheme, among those in this build. */
#ifndef DLK_BACKENDS_REGISTRY_H
#define DLK_BACKENDS_REGISTRY_H

#include "contract/backend.h"

/* NULL when no backend of this build serves the scheme. */
const dlk_backend_type *dlk_registry_find(const char *scheme);

/* Of a scheme that none serves: why, in a sentence's part, where there is more to say than that; else NULL. */
const char *dlk_registry_why(const char *scheme);

/* The schemes of this build, separated by a space. */
const char *dlk_registry_schemes(void);

#endif
