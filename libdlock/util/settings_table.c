/* The table of all settings: what conf, URI, dump, bindings and the settings page live on. Its rows are
 * in util/settings.def and in each backend's settings.def. */
#include "util/settings.h"

#define V01              .since = "0.1"
#define INT_MAX_         2147483647

#define SETTING(id, ...) [DLK_KEY_##id] = {__VA_ARGS__},
static const dlk_key_spec table[DLK_KEY_COUNT] = {
#include "all_settings.def"
};
#undef SETTING

const dlk_key_spec *dlk_settings_spec(dlk_key_id id)
{
    return &table[id];
}
