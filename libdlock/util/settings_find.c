/* Keys by name, the guess at what a misspelt one was meant to be, and ranges in words. */
#include "util/error.h"
#include "util/settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define KEY_LONGEST 64 /* longer than any key; nothing longer is guessed at */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* How many characters to insert, drop or replace to make one of the other (Levenshtein). */
static size_t distance(const char *a, const char *b)
{
    size_t row[KEY_LONGEST + 1];
    size_t width = strlen(b);
    for (size_t j = 0; j <= width; j++)
        row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < width; j++) {
            size_t above = row[j + 1];
            size_t replaced = diagonal + (a[i] != b[j]);
            row[j + 1] = least(replaced, least(above, row[j]) + 1);
            diagonal = above;
        }
    }
    return row[width];
}

static const char *behind_dot(const char *key)
{
    const char *dot = strchr(key, '.');
    return dot ? dot + 1 : key;
}

/* A wrong section ("lock.timeout_ms") or none ("ttl_ms") costs as much as one wrong letter. */
static size_t how_far(const char *key, const char *known)
{
    size_t size = strlen(key);
    if (size > 0 && strncmp(known, key, size) == 0 && known[size] == '_')
        return 1; /* only the unit is missing: "lock.ttl" */
    return least(distance(key, known), distance(behind_dot(key), behind_dot(known)) + 1);
}

static const char *probably_meant(const char *key)
{
    if (strlen(key) > KEY_LONGEST)
        return NULL;
    const char *best = NULL;
    size_t best_far = 2 + strlen(behind_dot(key)) / 4; /* further off is no help */
    for (int id = 0; id < DLK_KEY_COUNT; id++) {
        const char *known = dlk_settings_spec((dlk_key_id)id)->name;
        size_t far = how_far(key, known);
        if (far < best_far) {
            best_far = far;
            best = known;
        }
    }
    return best;
}

dlock_err dlk_settings_find(const char *key, dlk_key_id *ret, dlock_error **err)
{
    for (int id = 0; id < DLK_KEY_COUNT; id++) {
        if (strcmp(dlk_settings_spec((dlk_key_id)id)->name, key) == 0) {
            *ret = (dlk_key_id)id;
            return dlk_error_clear(err);
        }
    }
    const char *meant = err ? probably_meant(key) : NULL; /* guessing is slow */
    if (meant)
        return dlk_error_set(err, DLOCK_EINVAL, "unknown key '%.80s': did you mean '%s'?",
                             key, meant);
    return dlk_error_set(err, DLOCK_EINVAL, "unknown key '%.80s'", key);
}

const char *dlk_settings_type_name(dlk_key_type type)
{
    switch (type) {
    case DLK_TYPE_INT:
        return "int";
    case DLK_TYPE_BOOL:
        return "bool";
    case DLK_TYPE_ENUM:
        return "enum";
    case DLK_TYPE_TEXT:
        return "text";
    case DLK_TYPE_SECRET:
        return "secret";
    case DLK_TYPE_PATH:
        return "path";
    case DLK_TYPE_OCTAL:
        return "octal";
    }
    return "";
}

static void words_in_a_row(const dlk_key_spec *spec, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < DLK_KEY_WORDS && spec->words[i] && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "",
                                 spec->words[i]);
}

void dlk_settings_range(const dlk_key_spec *spec, char *text, size_t size)
{
    if (spec->range_shown) {
        snprintf(text, size, "%s", spec->range_shown);
        return;
    }
    switch (spec->type) {
    case DLK_TYPE_INT:
        snprintf(text, size, "%s%" PRId64 "..%" PRId64, spec->zero ? "0, " : "",
                 spec->min, spec->max);
        return;
    case DLK_TYPE_BOOL:
        snprintf(text, size, "true, false");
        return;
    case DLK_TYPE_ENUM:
    case DLK_TYPE_OCTAL:
        words_in_a_row(spec, text, size);
        return;
    case DLK_TYPE_TEXT:
    case DLK_TYPE_SECRET:
    case DLK_TYPE_PATH:
        break;
    }
    if (spec->words[0]) {
        words_in_a_row(spec, text, size);
        return;
    }
    if (spec->max)
        snprintf(text, size, "at most %" PRId64 " %s", spec->max,
                 spec->printable ? "printable characters" : "bytes");
    else
        snprintf(text, size, "%s", "");
}
