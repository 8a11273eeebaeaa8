/* Reading a dlock_info. */
#include "util/info.h"

#include "util/number.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

size_t dlock_info_count(const dlock_info *info)
{
    return info ? info->count : 0;
}

static const dlk_info_entry *entry(const dlock_info *info, size_t index)
{
    return index < dlock_info_count(info) ? &info->entries[index] : NULL;
}

const char *dlock_info_key(const dlock_info *info, size_t index)
{
    const dlk_info_entry *found = entry(info, index);
    return found ? found->key : NULL;
}

const char *dlock_info_text(const dlock_info *info, size_t index)
{
    const dlk_info_entry *found = entry(info, index);
    return found ? found->text : NULL;
}

int64_t dlock_info_int(const dlock_info *info, size_t index)
{
    const dlk_info_entry *found = entry(info, index);
    if (!found)
        return 0;
    if (found->is_number)
        return found->number;
    return dlk_number_or(found->text, INT64_MIN, INT64_MAX, 0);
}

const char *dlock_info_get(const dlock_info *info, const char *key)
{
    for (size_t i = 0; key && i < dlock_info_count(info); i++)
        if (strcmp(info->entries[i].key, key) == 0)
            return info->entries[i].text;
    return NULL;
}

const char *dlock_info_json(dlock_info *info)
{
    if (info && !info->json)
        info->json = dlk_info_json(info);
    return info ? info->json : NULL;
}

void dlock_info_free(dlock_info *info)
{
    dlk_info_free(info);
}
