/* Every setting there is, in one table that validates, documents and dumps them; and sets of
 * values for them. A set is plain: it knows neither conf objects nor clients. */
#ifndef DLK_UTIL_SETTINGS_H
#define DLK_UTIL_SETTINGS_H

#include "util/secret.h"

#include <dlock/dlock.h>

#include <stdbool.h>

/* The build puts the settings of util/ and of each backend one behind the other: all_settings.def.in. */
#define SETTING(id, ...) DLK_KEY_##id,
typedef enum dlk_key_id {
#include "all_settings.def"
    DLK_KEY_COUNT,
} dlk_key_id;
#undef SETTING

/* What dlk_settings_int answers for the enums that more than one module looks at. */
enum { DLK_RENEW_AUTO, DLK_RENEW_FED, DLK_RENEW_OFF };
enum {
    DLK_CLIENT_DEADLOCK_OFF,
    DLK_CLIENT_DEADLOCK_REPORT,
    DLK_CLIENT_DEADLOCK_BREAK_YOUNGEST
};
enum { DLK_OWNER_AUTO, DLK_OWNER_THREAD, DLK_OWNER_NONE };
enum { DLK_RELEASE_SYNC, DLK_RELEASE_ASYNC };
enum { DLK_REQUIRE_EFFICIENCY, DLK_REQUIRE_FENCING, DLK_REQUIRE_CORRECTNESS };
/* client.log_level: 0 off, else the dlock_level */

typedef enum dlk_key_type {
    DLK_TYPE_INT,
    DLK_TYPE_BOOL,
    DLK_TYPE_ENUM,
    DLK_TYPE_TEXT,
    DLK_TYPE_SECRET,
    DLK_TYPE_PATH,
    DLK_TYPE_OCTAL,
} dlk_key_type;

typedef enum dlk_key_scope {
    DLK_SCOPE_CLIENT, /* a client's conf and the URI only */
    DLK_SCOPE_LOCK,   /* a lock's conf as well; the client's value is the default */
} dlk_key_scope;

/* A URI, which often comes from elsewhere than the program, may only make these stricter. */
typedef enum dlk_key_rise {
    DLK_RISE_NONE,
    DLK_RISE_UP,   /* later words are stricter */
    DLK_RISE_DOWN, /* earlier words are stricter */
} dlk_key_rise;

#define DLK_KEY_WORDS 8

typedef struct dlk_key_spec {
    const char *name;
    dlk_key_type type;
    dlk_key_scope scope;
    dlk_key_rise rise;
    int64_t number;            /* default of int, octal and bool; enum: the index */
    const char *text;          /* default of the others; NULL = none */
    const char *default_shown; /* how to show it where the bare value misleads, or NULL */
    int64_t min, max;          /* int: range; text: max is the length, 0 = any */
    bool zero;                 /* int: 0 is fine too */
    bool printable;            /* text: ASCII from space to tilde */
    bool shapes;               /* the lock: what the service sees of it depends on this */
    const char *range_shown;   /* as default_shown */
    /* enum: the words; octal: the modes that are allowed; text: what it is made of, between commas */
    const char *words[DLK_KEY_WORDS];
    const char *backends;
    const char *doc; /* one sentence */
    const char *since;
} dlk_key_spec;

const dlk_key_spec *dlk_settings_spec(dlk_key_id id);
const char *dlk_settings_type_name(dlk_key_type type);

/* "100..2592000000", "0, 1..16", "auto, fed, off", "true, false" or "" into @p text. */
void dlk_settings_range(const dlk_key_spec *spec, char *text, size_t size);

/* The id of a key, or DLOCK_EINVAL with the key that was probably meant. */
dlock_err dlk_settings_find(const char *key, dlk_key_id *ret, dlock_error **err);

typedef struct dlk_settings dlk_settings;

dlk_settings *dlk_settings_new(void); /* NULL without memory */
dlk_settings *dlk_settings_copy(const dlk_settings *settings);
void dlk_settings_free(dlk_settings *settings); /* wipes the secrets */
/* One more owner, who frees it as well: for those who guard it with one mutex and never change
 * it again. */
dlk_settings *dlk_settings_share(dlk_settings *settings);
/* Whether each key has the same value, or none, in both. */
bool dlk_settings_same(const dlk_settings *a, const dlk_settings *b);

/* NULL unsets. DLOCK_EINVAL says what is wrong and never shows a secret. */
dlock_err dlk_settings_set(dlk_settings *settings, const char *key, const char *value,
                           dlock_error **err);
dlock_err dlk_settings_set_id(dlk_settings *settings, dlk_key_id id, const char *value,
                              dlock_error **err);
dlock_err dlk_settings_set_int(dlk_settings *settings, const char *key, int64_t value,
                               dlock_error **err);

/* Values, or the defaults where nothing is set; @p settings may be NULL. Booleans are 0 and 1,
 * enums the index of the word. A text without a default is "", never NULL. */
bool dlk_settings_is_set(const dlk_settings *settings, dlk_key_id id);
int64_t dlk_settings_int(const dlk_settings *settings, dlk_key_id id);
const char *dlk_settings_text(const dlk_settings *settings, dlk_key_id id);
const char *dlk_settings_word(const dlk_settings *settings,
                              dlk_key_id id); /* of an enum */

/* What a client goes by: default < URI < conf, and the whole is checked for contradictions. The
 * URI may make client.require and tls.verify stricter than the conf; looser is DLOCK_EINVAL. */
dlock_err dlk_settings_for_client(const dlk_settings *uri, const dlk_settings *conf,
                                  dlk_settings **ret, dlock_error **err);

/* What a lock goes by: the client's < conf. A key of the client in @p conf is DLOCK_EINVAL. */
dlock_err dlk_settings_for_lock(const dlk_settings *client, const dlk_settings *conf,
                                dlk_settings **ret, dlock_error **err);

/* Reads the secret @p id (DLK_KEY_AUTH_PASSWORD or DLK_KEY_AUTH_SENTINEL_PASSWORD) from where the
 * settings say: the value, the file's first line, the environment. Does I/O, never blocks. *ret
 * is NULL when there is none, else the caller's: dlk_secret_free (util/secret.h). */
dlock_err dlk_settings_secret(const dlk_settings *settings, dlk_key_id id, char **ret,
                              dlock_error **err);
/* The first line of the file at @p path, which the errors call @p key. *ret: as above. */
dlock_err dlk_secret_from_file(const char *key, const char *path, char **ret,
                               dlock_error **err);

#endif
