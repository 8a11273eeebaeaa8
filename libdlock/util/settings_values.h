/* What a set of values looks like inside, for the files that make up util/settings. */
#ifndef DLK_UTIL_SETTINGS_VALUES_H
#define DLK_UTIL_SETTINGS_VALUES_H

#include "util/settings.h"

typedef struct dlk_value {
    bool set;
    int64_t number; /* int, bool, octal; enum: the index of the word */
    char *text;     /* text, secret, path; else NULL */
    bool secret;    /* text is one, of dlk_secret_dup */
} dlk_value;

struct dlk_settings {
    int sharers; /* besides the first owner; whoever shares it guards it */
    dlk_value values[DLK_KEY_COUNT];
};

void dlk_value_unset(dlk_value *value);
bool dlk_value_copy(dlk_value *to, const dlk_value *from); /* false without memory */

#endif
