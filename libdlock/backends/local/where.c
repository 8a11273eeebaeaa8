/* Where a lock is in the table; and that somebody has its name by another kind. */
#include "backends/local/inner.h"

static uint32_t remember(dlk_section *section, dlk_local_key *data, uint32_t row)
{
    if (row != 0) {
        data->row = row;
        data->title = DLK_GET(dlk_row_at(section->table, row)->title);
    }
    return row;
}

uint32_t dlk_local_find_row(dlk_section *section, const dlk_key *key)
{
    dlk_local_key *data = key->data;
    return remember(section, data,
                    dlk_table_find(section, key->name, key->size, data->hash));
}

uint32_t dlk_local_make_row(dlk_section *section, const dlk_key *key, int64_t now)
{
    dlk_local_key *data = key->data;
    return remember(section, data,
                    dlk_table_make(section, key->name, key->size, data->hash, now));
}

void dlk_local_refuse_kind(dlk_ask *ask)
{
    dlk_ask_refuse(ask, dlk_error_make(DLOCK_ECONFLICT,
                                       "a lock of another kind is held under this name"));
}
