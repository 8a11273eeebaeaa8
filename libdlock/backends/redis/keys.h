/* The names that go with a lock's name in its layout. They are put together when they are written:
 * kept, they would take more room than all else that is known of a lock. */
#ifndef DLK_BACKENDS_REDIS_KEYS_H
#define DLK_BACKENDS_REDIS_KEYS_H

#include "backends/redis/layout.h"
#include "contract/backend.h"

typedef struct dlk_redis_key {
    dlk_key *key;
    const dlk_redis_form *form; /* of a read/write lock that of the write side; … */

    /* What a client knows of a lock that is handed on: handover.h. Of a fair lock only the contender:
     * who is in the line, and told alone on a channel of its own, or 0. */
    uint64_t contender; /* the number that was asked for last, which a message may name */
    uint64_t appointed; /* the number that a message has named … */
    uint32_t appointed_turn; /* … and which hand-over that was */
    /* While one of ours has it: how often it was handed on since it was put up for all, up to
     * DLK_REDIS_TURN_MAX, and how many of ours have had it in a row, up to DLK_REDIS_RUN. */
    uint32_t turn;
    uint8_t run;
    int8_t
        readers; /* … and so many forms behind it in the layout is the read side's, or 0 */
    /* An open turn holds us back; and since then the lock was released by somebody else. */
    bool held_back : 1, had_by_others : 1;
    /* When it was asked for, nobody could have told us that another wants it. */
    bool deaf : 1;
    bool hands_over : 1; /* the server decides who is next: handover.h */

    bool tagged : 1; /* the name has a hash tag of its own, or looks like it */
    bool told : 1;   /* a release is, on a channel */
    bool held;       /* by somebody else, when it was last asked for */
    bool looked;     /* somebody asked without wanting it, who waits for another time */
    unsigned char slot_count; /* keys behind the derived ones, where the form has such */
    uint16_t slot;            /* in a cluster */
    int64_t kept_at;   /* the `since` of who looks after the counter of tokens: asks.c */
    uint64_t asked_at; /* how many messages had come when the lock was last asked for */
    struct dlk_redis_watcher *watcher; /* while it is watched: channel.h */
} dlk_redis_key;

/* That of a side, or of a lock that has but one. */
static inline const dlk_redis_form *dlk_redis_key_form(const dlk_redis_key *key,
                                                       bool shared)
{
    return key->form + (shared ? key->readers : 0);
}

/* "p:{name}", or "{name}:s" for ":s"; without braces of ours when the name has one, and then with a
 * second colon for a p of ours. NULL without memory. */
char *dlk_redis_derive(const char *part, const char *name);

/* Whether a key of this name belongs to a lock, of whatever form, or to a client, and so is none: nobody
 * lists, inspects or breaks it as one. */
bool dlk_redis_is_derived(const char *name);

/* KEYS of a script: the lock and what is derived from it, @p own together, and the slots. How many
 * these are, room enough for them as bulks, and the bulks; answers where they end. */
size_t dlk_redis_key_count(const dlk_key *key, size_t own);
size_t dlk_redis_keys_room(const dlk_key *key, size_t own);
char *dlk_redis_put_keys(char *to, const dlk_key *key, const dlk_redis_form *form,
                         size_t own);

/* The channel where a release is told, without an end; 0: nowhere. */
#define DLK_REDIS_NAME_MAX    1024
#define DLK_REDIS_CHANNEL_MAX (DLK_REDIS_NAME_MAX + DLK_REDIS_PART_MAX)
size_t dlk_redis_channel_name(const dlk_redis_key *key, char to[DLK_REDIS_CHANNEL_MAX]);
/* The same as a bulk, as the scripts take it (tell.lua), and room enough for it. */
size_t dlk_redis_channel_room(const dlk_key *key);
char *dlk_redis_put_channel(char *to, const struct dlk_redis *redis,
                            const dlk_redis_key *key);

/* The channel of a client's own: this, then its uuid. */
#define DLK_REDIS_CLIENT_CHANNEL "dlock_client:"

/* "<uuid>:<number>", without an end; returns its size. */
#define DLK_REDIS_OWNER_MAX (DLK_UUID_SIZE + DLK_DIGITS_MAX)
size_t dlk_redis_put_owner(const struct dlk_redis *redis, uint64_t number, char *to);

dlock_err dlk_redis_key_open(dlk_backend *backend, dlk_key *key, dlock_error **err);
void dlk_redis_key_close(dlk_backend *backend, dlk_key *key);

#endif
