/*
 * Where the master is, as Redis Sentinels know it. All sentinels of the URI are kept connected;
 * at each try to connect to the master every one of them is asked, and what more than half of
 * them say holds. Between tries they tell of a failover by themselves (+switch-master), and are
 * asked now and then in case that was lost. The backend is the master's, with theirs around it.
 */
#ifndef DLK_BACKENDS_REDIS_TOPOLOGY_SENTINEL_H
#define DLK_BACKENDS_REDIS_TOPOLOGY_SENTINEL_H

#include "backends/redis/inner.h"

#define DLK_SENTINELS_MAX     16
#define DLK_SENTINEL_HOST_MAX 256

typedef enum dlk_sentinel_word {
    DLK_SENTINEL_SILENT,    /* hasn't said anything yet */
    DLK_SENTINEL_NAMES,     /* a master */
    DLK_SENTINEL_KNOWS_NOT, /* no such service */
    DLK_SENTINEL_FAILED,    /* `why` */
} dlk_sentinel_word;

typedef struct dlk_sentinel {
    dlk_redis_connection connection;
    char *host, *peer;
    int to_come; /* replies to the last question, 0: none */
    int64_t answer_until;
    dlk_sentinel_word says;
    char master[DLK_SENTINEL_HOST_MAX];
    uint16_t port;
    dlock_error *why;
} dlk_sentinel;

typedef struct dlk_sentinels {
    dlk_redis redis;  /* first: the master, as a backend */
    dlk_link_ops ops; /* of its link, which seeks */
    char *service;
    size_t count;
    /* with what has been said until then; DLK_NEVER: nobody said anything */
    int64_t decide_at;
    int64_t check_at;
    bool checking; /* they were asked though a master is known */
    /* when somebody is to be called to drive, while an answer is on its way */
    int64_t news_at;
    int64_t heard_at; /* when the driver read from them last; the driver's */
    dlk_sentinel item[DLK_SENTINELS_MAX];
} dlk_sentinels;

/* ---- sentinel_votes.c ---- */

/* The reply to the question where the master is. An error: it is nonsense. */
dlock_error *dlk_sentinel_take_vote(dlk_sentinel *one, const dlk_resp *reply);

size_t dlk_sentinels_count(const dlk_sentinels *all, dlk_sentinel_word what);
/* The one whose master most others name, too; *ret: how many they are. */
const dlk_sentinel *dlk_sentinels_most_named(const dlk_sentinels *all, size_t *ret);
dlock_error *dlk_sentinels_disagree(const dlk_sentinels *all);
/* Why nobody names a master. What no waiting mends goes first. */
dlock_error *dlk_sentinels_know_nobody(const dlk_sentinels *all);

#endif
