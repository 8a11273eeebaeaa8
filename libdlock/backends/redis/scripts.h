/* The Lua scripts, embedded from the .lua files of scripts/ by embed.py. */
#ifndef DLK_BACKENDS_REDIS_SCRIPTS_H
#define DLK_BACKENDS_REDIS_SCRIPTS_H

#include <stddef.h>

typedef struct dlk_redis_script {
    const char *name;
    const char *text;
    size_t size;
    char sha1[41];
} dlk_redis_script;

/* In the order in which meson.build gives the files to embed.py: these, then the scripts of each
 * form in the order of dlk_redis_form_id (layout.h), then each form's renew for many locks. */
enum {
    DLK_SCRIPT_PROBE,
    DLK_SCRIPT_LIST_HASH,
    DLK_SCRIPT_LIST_STRING,
    DLK_SCRIPT_LIST_PERMITS,
    DLK_SCRIPT_IMPORT_HASH,
    DLK_SCRIPT_IMPORT_STRING,
    DLK_SCRIPT_IMPORT_TIMESTAMP,
    DLK_SCRIPT_IMPORT_RUEIDIS,
    DLK_SCRIPT_REVOKE,
    DLK_SCRIPT_SIGNAL,
    DLK_SCRIPT_SAY,
    DLK_SCRIPT_CLIENTS,
    DLK_SCRIPT_TOLD,
    DLK_SCRIPT_FORMS,
};

/* The scripts of one form. */
typedef enum dlk_redis_script_id {
    DLK_SCRIPT_ACQUIRE,
    DLK_SCRIPT_RELEASE,
    DLK_SCRIPT_RENEW,
    DLK_SCRIPT_VERIFY,
    DLK_SCRIPT_BREAK,
    DLK_SCRIPT_INSPECT,
    DLK_SCRIPT_COUNT,
} dlk_redis_script_id;

extern const dlk_redis_script dlk_redis_scripts[];
extern const size_t dlk_redis_script_count;

#endif
