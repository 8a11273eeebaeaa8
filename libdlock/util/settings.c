/* Sets of values for the keys of the table: setting with validation, reading with defaults. */
#include "util/settings.h"

#include "util/error.h"
#include "util/number.h"
#include "util/settings_values.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANGE_TEXT 128

dlk_settings *dlk_settings_new(void)
{
    return calloc(1, sizeof(dlk_settings));
}

void dlk_value_unset(dlk_value *value)
{
    if (value->secret)
        dlk_secret_free(value->text);
    else
        free(value->text);
    *value = (dlk_value){0};
}

bool dlk_value_copy(dlk_value *to, const dlk_value *from)
{
    char *text = NULL;
    if (from->secret)
        text = dlk_secret_share(from->text);
    else if (from->text && !(text = strdup(from->text)))
        return false;
    dlk_value_unset(to);
    *to = *from;
    to->text = text;
    return true;
}

void dlk_settings_free(dlk_settings *settings)
{
    if (!settings || settings->sharers-- > 0)
        return;
    for (int id = 0; id < DLK_KEY_COUNT; id++)
        dlk_value_unset(&settings->values[id]);
    free(settings);
}

dlk_settings *dlk_settings_share(dlk_settings *settings)
{
    settings->sharers++;
    return settings;
}

bool dlk_settings_same(const dlk_settings *a, const dlk_settings *b)
{
    for (int id = 0; id < DLK_KEY_COUNT; id++) {
        const dlk_value *one = &a->values[id], *other = &b->values[id];
        const char *text = one->text ? one->text : "";
        if (one->set != other->set || one->number != other->number ||
            strcmp(text, other->text ? other->text : "") != 0)
            return false;
    }
    return true;
}

dlk_settings *dlk_settings_copy(const dlk_settings *settings)
{
    dlk_settings *copy = dlk_settings_new();
    for (int id = 0; copy && id < DLK_KEY_COUNT; id++) {
        if (!dlk_value_copy(&copy->values[id], &settings->values[id])) {
            dlk_settings_free(copy);
            return NULL;
        }
    }
    return copy;
}

static dlock_err refuse_range(const dlk_key_spec *spec, const char *value,
                              dlock_error **err)
{
    char range[RANGE_TEXT];
    dlk_settings_range(spec, range, sizeof(range));
    return dlk_error_set(err, DLOCK_EINVAL, "%s: '%.64s' is out of range, allowed: %s",
                         spec->name, value, range);
}

static dlock_err refuse_word(const dlk_key_spec *spec, const char *value,
                             dlock_error **err)
{
    char range[RANGE_TEXT];
    dlk_settings_range(spec, range, sizeof(range));
    return dlk_error_set(err, DLOCK_EINVAL, "%s: '%.64s' is none of: %s", spec->name,
                         value, range);
}

static bool in_range(const dlk_key_spec *spec, int64_t number)
{
    return (number >= spec->min && number <= spec->max) || (number == 0 && spec->zero);
}

/* Digits behind at most one minus, however many. */
static bool looks_decimal(const char *value)
{
    const char *digits = value + (*value == '-');
    return *digits && strspn(digits, "0123456789") == strlen(digits);
}

static dlock_err parse_int(const dlk_key_spec *spec, const char *value, int64_t *ret,
                           dlock_error **err)
{
    if (!looks_decimal(value))
        return dlk_error_set(err, DLOCK_EINVAL, "%s: '%.64s' is not a whole number",
                             spec->name, value);
    if (!dlk_number_read(value, strlen(value), INT64_MIN, INT64_MAX, ret) ||
        !in_range(spec, *ret))
        return refuse_range(spec, value, err);
    return DLOCK_OK;
}

static dlock_err parse_bool(const dlk_key_spec *spec, const char *value, int64_t *ret,
                            dlock_error **err)
{
    static const char *const words[2][3] = {{"false", "off", "0"}, {"true", "on", "1"}};
    for (int truth = 0; truth < 2; truth++) {
        for (int i = 0; i < 3; i++) {
            if (strcmp(value, words[truth][i]) == 0) {
                *ret = truth;
                return DLOCK_OK;
            }
        }
    }
    return dlk_error_set(err, DLOCK_EINVAL,
                         "%s: '%.64s' is neither true, on, 1 nor false, off, 0",
                         spec->name, value);
}

static dlock_err parse_word(const dlk_key_spec *spec, const char *value, int64_t *ret,
                            dlock_error **err)
{
    for (int i = 0; i < DLK_KEY_WORDS && spec->words[i]; i++) {
        if (strcmp(value, spec->words[i]) == 0) {
            *ret = i;
            return DLOCK_OK;
        }
    }
    return refuse_word(spec, value, err);
}

/* Of a few octal digits. */
static int64_t octal_of(const char *digits)
{
    int64_t mode = 0;
    for (; *digits; digits++)
        mode = mode * 8 + (*digits - '0');
    return mode;
}

static bool mode_allowed(const dlk_key_spec *spec, int64_t mode)
{
    for (int i = 0; i < DLK_KEY_WORDS && spec->words[i]; i++)
        if (octal_of(spec->words[i]) == mode)
            return true;
    return false;
}

static dlock_err parse_octal(const dlk_key_spec *spec, const char *value, int64_t *ret,
                             dlock_error **err)
{
    bool octal =
        *value && strlen(value) <= 8 && strspn(value, "01234567") == strlen(value);
    *ret = octal ? octal_of(value) : -1;
    return mode_allowed(spec, *ret) ? DLOCK_OK : refuse_word(spec, value, err);
}

/* One or more of them, with commas between. */
static dlock_err check_words(const dlk_key_spec *spec, const char *value,
                             dlock_error **err)
{
    int64_t index;
    char word[32];
    while (*value) {
        value += strspn(value, ", ");
        size_t size = strcspn(value, ", ");
        snprintf(word, sizeof(word), "%.*s", (int)(size < 32 ? size : 31), value);
        dlock_err code = word[0] ? parse_word(spec, word, &index, err) : DLOCK_OK;
        if (code)
            return code;
        value += size;
    }
    return DLOCK_OK;
}

static dlock_err check_text(const dlk_key_spec *spec, const char *value,
                            dlock_error **err)
{
    size_t length = strlen(value);
    if (spec->max && length > (size_t)spec->max)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "%s: %zu bytes are too long, at most %" PRId64, spec->name,
                             length, spec->max);
    if (spec->type == DLK_TYPE_PATH && length == 0)
        return dlk_error_set(err, DLOCK_EINVAL, "%s: the path is empty", spec->name);
    if (spec->words[0])
        return check_words(spec, value, err);
    for (size_t i = 0; spec->printable && i < length; i++)
        if (value[i] < ' ' || value[i] > '~')
            return dlk_error_set(err, DLOCK_EINVAL,
                                 "%s: byte %zu isn't a printable ASCII character",
                                 spec->name, i + 1);
    return DLOCK_OK;
}

static dlock_err parse(const dlk_key_spec *spec, const char *value, int64_t *ret,
                       dlock_error **err)
{
    switch (spec->type) {
    case DLK_TYPE_INT:
        return parse_int(spec, value, ret, err);
    case DLK_TYPE_BOOL:
        return parse_bool(spec, value, ret, err);
    case DLK_TYPE_ENUM:
        return parse_word(spec, value, ret, err);
    case DLK_TYPE_OCTAL:
        return parse_octal(spec, value, ret, err);
    case DLK_TYPE_TEXT:
    case DLK_TYPE_SECRET:
    case DLK_TYPE_PATH:
        return check_text(spec, value, err);
    }
    return DLOCK_EINVAL;
}

static bool has_text(const dlk_key_spec *spec)
{
    return spec->type == DLK_TYPE_TEXT || spec->type == DLK_TYPE_SECRET ||
           spec->type == DLK_TYPE_PATH;
}

dlock_err dlk_settings_set_id(dlk_settings *settings, dlk_key_id id, const char *value,
                              dlock_error **err)
{
    const dlk_key_spec *spec = dlk_settings_spec(id);
    if (!value) {
        dlk_value_unset(&settings->values[id]);
        return dlk_error_clear(err);
    }
    int64_t number = 0;
    dlock_err code = parse(spec, value, &number, err);
    if (code)
        return code;
    char *text = NULL;
    bool secret = spec->type == DLK_TYPE_SECRET;
    if (has_text(spec) && !(text = secret ? dlk_secret_dup(value) : strdup(value)))
        return dlk_error_nomem(err);
    dlk_value_unset(&settings->values[id]);
    settings->values[id] =
        (dlk_value){.set = true, .number = number, .text = text, .secret = secret};
    return dlk_error_clear(err);
}

dlock_err dlk_settings_set(dlk_settings *settings, const char *key, const char *value,
                           dlock_error **err)
{
    dlk_key_id id;
    dlock_err code = dlk_settings_find(key, &id, err);
    return code ? code : dlk_settings_set_id(settings, id, value, err);
}

/* Whether the number itself is a value of the key; the modes are compared as numbers. */
static bool takes_number(const dlk_key_spec *spec, int64_t number)
{
    switch (spec->type) {
    case DLK_TYPE_INT:
        return in_range(spec, number);
    case DLK_TYPE_BOOL:
        return number == 0 || number == 1;
    case DLK_TYPE_OCTAL:
        return mode_allowed(spec, number);
    case DLK_TYPE_ENUM:
    case DLK_TYPE_TEXT:
    case DLK_TYPE_SECRET:
    case DLK_TYPE_PATH:
        break;
    }
    return false;
}

dlock_err dlk_settings_set_int(dlk_settings *settings, const char *key, int64_t value,
                               dlock_error **err)
{
    dlk_key_id id;
    dlock_err code = dlk_settings_find(key, &id, err);
    if (code)
        return code;
    const dlk_key_spec *spec = dlk_settings_spec(id);
    if (has_text(spec) || spec->type == DLK_TYPE_ENUM)
        return dlk_error_set(err, DLOCK_EINVAL, "%s takes no number but %s", spec->name,
                             spec->type == DLK_TYPE_ENUM ? "one of its words" : "text");
    if (!takes_number(spec, value)) {
        char shown[24];
        snprintf(shown, sizeof(shown),
                 spec->type == DLK_TYPE_OCTAL ? "%#" PRIo64 : "%" PRId64, value);
        return refuse_range(spec, shown, err);
    }
    settings->values[id] = (dlk_value){.set = true, .number = value};
    return dlk_error_clear(err);
}

bool dlk_settings_is_set(const dlk_settings *settings, dlk_key_id id)
{
    return settings && settings->values[id].set;
}

int64_t dlk_settings_int(const dlk_settings *settings, dlk_key_id id)
{
    return dlk_settings_is_set(settings, id) ? settings->values[id].number
                                             : dlk_settings_spec(id)->number;
}

const char *dlk_settings_text(const dlk_settings *settings, dlk_key_id id)
{
    const char *text = dlk_settings_is_set(settings, id) ? settings->values[id].text
                                                         : dlk_settings_spec(id)->text;
    return text ? text : "";
}

const char *dlk_settings_word(const dlk_settings *settings, dlk_key_id id)
{
    return dlk_settings_spec(id)->words[dlk_settings_int(settings, id)];
}
