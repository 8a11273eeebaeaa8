/* Building and reading ordered lists of keys and values. */
#include "util/info.h"

#include "util/error.h"
#include "util/grow.h"
#include "util/number.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

dlock_info *dlk_info_new(void)
{
    return calloc(1, sizeof(dlock_info));
}

void dlk_info_free(dlock_info *info)
{
    if (!info)
        return;
    for (size_t i = 0; i < info->count; i++) {
        free(info->entries[i].key);
        free(info->entries[i].text);
    }
    free(info->entries);
    free(info->json);
    free(info);
}

static bool make_room(dlock_info *info)
{
    dlk_info_entry *entries =
        dlk_grow(info->entries, info->count, &info->capacity, sizeof(*entries));
    if (entries)
        info->entries = entries;
    return entries != NULL;
}

static void add(dlock_info *info, dlk_info_entry entry, const char *key_format,
                va_list args) __attribute__((format(printf, 3, 0)));

/* Takes over entry.text; NULL there means that the caller had no memory for it. */
static void add(dlock_info *info, dlk_info_entry entry, const char *key_format,
                va_list args)
{
    free(info->json);
    info->json = NULL;
    if (entry.text && make_room(info) && vasprintf(&entry.key, key_format, args) >= 0) {
        info->entries[info->count++] = entry;
        return;
    }
    free(entry.text);
    info->failed = true;
}

void dlk_info_add_text(dlock_info *info, const char *value, const char *key_format, ...)
{
    if (!info || !value)
        return;
    va_list args;
    va_start(args, key_format);
    add(info, (dlk_info_entry){.text = strdup(value)}, key_format, args);
    va_end(args);
}

void dlk_info_add_int(dlock_info *info, int64_t value, const char *key_format, ...)
{
    if (!info)
        return;
    char text[24];
    snprintf(text, sizeof(text), "%" PRId64, value);
    va_list args;
    va_start(args, key_format);
    add(info, (dlk_info_entry){.text = strdup(text), .number = value, .is_number = true},
        key_format, args);
    va_end(args);
}

void dlk_info_raise(dlock_info *info, int64_t by, const char *key)
{
    dlk_info_entry *entry = NULL;
    for (size_t i = 0; info && i < info->count && !entry; i++)
        if (strcmp(info->entries[i].key, key) == 0)
            entry = &info->entries[i];
    if (!entry) {
        dlk_info_add_int(info, by, "%s", key);
        return;
    }
    char text[24];
    int64_t sum = dlk_number_sum(entry->number, by);
    snprintf(text, sizeof(text), "%" PRId64, sum);
    char *copy = strdup(text);
    if (!copy) {
        info->failed = true;
        return;
    }
    free(entry->text);
    entry->text = copy;
    entry->number = sum;
    free(info->json);
    info->json = NULL;
}

bool dlk_info_failed(const dlock_info *info)
{
    return !info || info->failed;
}

dlock_err dlk_info_give(dlock_info *info, dlock_info **ret, dlock_error **err)
{
    if (dlk_info_failed(info)) {
        dlk_info_free(info);
        return dlk_error_nomem(err);
    }
    *ret = info;
    return dlk_error_clear(err);
}
