/* The list of keys and values behind dlock_info, and how the inside of the library builds one.
 *
 * Adding never fails where it is called: a list that ran out of memory remembers it, and
 * dlk_info_give asks once at the end. Keys are dotted; numbered components ("holders.0.owner",
 * counted from 0 without a gap) become arrays in JSON. */
#ifndef DLK_UTIL_INFO_H
#define DLK_UTIL_INFO_H

#include <dlock/dlock.h>

#include <stdbool.h>

typedef struct dlk_info_entry {
    char *key;
    char *text; /* a number has its decimal text here */
    int64_t number;
    bool is_number;
} dlk_info_entry;

struct dlock_info {
    dlk_info_entry *entries;
    size_t count, capacity;
    bool failed;
    int findings, worst; /* findings.h */
    char *json;          /* made at the first dlock_info_json, dropped by an add */
};

/* NULL without memory; all of the following take NULL as a list that failed. */
dlock_info *dlk_info_new(void);
void dlk_info_free(dlock_info *info);

/* A NULL value means "unknown" and adds nothing. */
void dlk_info_add_text(dlock_info *info, const char *value, const char *key_format, ...)
    __attribute__((format(printf, 3, 4)));
void dlk_info_add_int(dlock_info *info, int64_t value, const char *key_format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds to the number under this key, which may have been unknown. */
void dlk_info_raise(dlock_info *info, int64_t by, const char *key);

bool dlk_info_failed(const dlock_info *info);

/* Hands a finished list to the caller: DLOCK_OK and *ret, or DLOCK_ENOMEM and it is freed. */
dlock_err dlk_info_give(dlock_info *info, dlock_info **ret, dlock_error **err);

/* The list as JSON, yours to free(); NULL without memory. */
char *dlk_info_json(const dlock_info *info);

#endif
