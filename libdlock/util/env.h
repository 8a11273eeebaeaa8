/* What the environment says. */
#ifndef DLK_UTIL_ENV_H
#define DLK_UTIL_ENV_H

/* NULL: nothing, or the program has rights that whoever calls it doesn't have. */
const char *dlk_trusted_env(const char *name);

#endif
