/* The Lua scripts, embedded from the .lua files of this folder by embed.py. */
#ifndef DLK_BACKENDS_REDIS_SCRIPTS_H
#define DLK_BACKENDS_REDIS_SCRIPTS_H

#include <stddef.h>

typedef struct dlk_redis_script {
    const char *name;
    const char *text;
    size_t size;
    char sha1[41];
} dlk_redis_script;

/* In the order in which meson.build gives the files to embed.py. */
typedef enum dlk_redis_script_id {
    DLK_SCRIPT_ACQUIRE,
    DLK_SCRIPT_RELEASE,
    DLK_SCRIPT_RENEW,
    DLK_SCRIPT_VERIFY,
    DLK_SCRIPT_BREAK,
    DLK_SCRIPT_INSPECT,
    DLK_SCRIPT_PROBE, /* those before it are loaded at the greeting */
    DLK_SCRIPT_LIST,
    DLK_SCRIPT_COUNT,
} dlk_redis_script_id;

extern const dlk_redis_script dlk_redis_scripts[];

#endif
