/* What a user needs rights to: the kinds of lock there are, and each one's keys and channels. Of
 * rights.c, which tries them. */
#ifndef DLK_BACKENDS_REDIS_RIGHTS_NAMES_H
#define DLK_BACKENDS_REDIS_RIGHTS_NAMES_H

#include "backends/redis/layout.h"
#include "backends/redis/link.h"
#include "contract/backend.h"

#define DLK_RIGHTS_KINDS_MAX 12

typedef struct dlk_rights_kind {
    const char *id, *needs;
    const dlk_redis_form *form;
    bool operating;
} dlk_rights_kind;

dlk_rights_kind dlk_rights_kind_of(const dlk_redis *redis, const dlk_redis_form *form);
/* The mutex first; answers how many there are. */
size_t dlk_rights_list_kinds(const dlk_redis *redis,
                             dlk_rights_kind kinds[DLK_RIGHTS_KINDS_MAX]);

#define DLK_RIGHTS_NAMES_MAX 64

/* In the place of a kind: it is the client's own. */
#define DLK_RIGHTS_CLIENT_KEY DLK_RIGHTS_KINDS_MAX
/* And beside the kind: what it does without. */
#define DLK_RIGHTS_BESIDE (DLK_RIGHTS_KINDS_MAX + 1)

typedef struct dlk_rights_names {
    char *text[DLK_RIGHTS_NAMES_MAX];
    size_t of[DLK_RIGHTS_NAMES_MAX]; /* the kind */
    size_t count;
    bool failed; /* for want of memory one is missing */
} dlk_rights_names;

void dlk_rights_free_names(dlk_rights_names *list);
/* Keys and channels can be told only below a prefix. */
bool dlk_rights_has_prefix(const dlk_redis *redis);
void dlk_rights_list_keys(const dlk_redis *redis, const dlk_rights_kind *kinds,
                          size_t count, dlk_rights_names *to);
void dlk_rights_list_channels(const dlk_redis *redis, const dlk_rights_kind *kinds,
                              size_t count, dlk_rights_names *to);
/* Of a lock: it, and what is made of its name. Without one names aren't tried. */
void dlk_rights_list_own_names(const dlk_rights_kind *of, const dlk_key *key,
                               const dlk_redis *redis, dlk_rights_names *to);

#endif
