/* What the files of this backend share: the backend itself. All of it is guarded by the client's
 * mutex but what says otherwise. */
#ifndef DLK_BACKENDS_REDIS_INNER_H
#define DLK_BACKENDS_REDIS_INNER_H

#include "backends/redis/link.h"
#include "contract/backend.h"
#include "contract/flight.h"

#include <poll.h>
#include <stdatomic.h>
#include <time.h>

/* How waiters are told of a release: by PUBLISH, or in a cluster by SPUBLISH, or by both. */
typedef enum dlk_redis_publish {
    DLK_PUBLISH_ALL,
    DLK_PUBLISH_SHARD,
    DLK_PUBLISH_BOTH,
} dlk_redis_publish;

typedef struct dlk_redis_channel dlk_redis_channel;

/* The connection on which a client hears that locks were released: subscriber.h. */
typedef struct dlk_redis_subscriber {
    dlk_redis_connection connection;
    dlk_redis_channel **buckets; /* channels by name */
    size_t bucket_count, channel_count;
    dlk_list all;  /* every channel */
    dlk_list idle; /* those that nobody watches, the longest so first */
    size_t idle_count;
    /* those with an unanswered command, in the order of the answers */
    dlk_list outstanding;
    dlk_list to_tell; /* dlk_redis_watcher.to_tell: the host has to hear of its key */
    dlk_redis_channel *own; /* the client's, kept once it was needed; or NULL */
    bool listening;         /* … and somebody may be told there who waits for nothing */
    uint64_t messages;      /* how many came, and subscriptions that were confirmed */
    /* How long somebody has been listening for the first answer: a client where nobody waits
     * reads nothing, so the mere passing of time says nothing about the server. */
    int64_t listened_ns, listening_since;
    int64_t heard_at; /* the last sign of life */
    bool warned, warned_own;
} dlk_redis_subscriber;

#define DLK_REDIS_TAG_MAX DLK_DIGITS_MAX

/* Whom a node of a cluster tells what its server says of the others: topology/cluster_inner.h. */
typedef struct dlk_redis_cluster {
    /* The answer to CLUSTER SLOTS in the greeting; an error ends the connection. */
    dlock_error *(*take_map)(dlk_redis *node, const dlk_resp *reply);
    /* The same to DLK_REDIS_MAP, which has its answer then. */
    void (*mapped)(dlk_redis *node, dlk_ask *ask, const dlk_resp *reply);
    /* The map is out of date. */
    void (*moved)(dlk_redis *node);
    /* An error reply that says where to ask instead: the ask, whose first in flight it was, has been
     * sent on, or answered. */
    bool (*redirects)(dlk_redis *node, dlk_ask *ask, const dlk_resp *reply);
    /* A hash tag of the node's first slot, so that everybody finds there what has it; false: it has none. */
    bool (*tag)(const dlk_redis *node, char ret[DLK_REDIS_TAG_MAX]);
} dlk_redis_cluster;

/* What is known of circles of waits, circles.h. */
#define DLK_REDIS_CIRCLES 8 /* that are followed at a time */
typedef struct dlk_redis_circle {
    uint64_t id;
    int64_t looks, since; /* so many in a row have found it, since this one began */
    bool met;             /* the last one has */
} dlk_redis_circle;

typedef struct dlk_redis_circles {
    dlk_ask ask;
    int64_t span;        /* client.deadlock_ms in ns; 0: they aren't looked for */
    int64_t waits_since; /* the longest wait that was told; DLK_NEVER: there is none */
    int64_t looked_at;
    int64_t rest; /* between two looks at least, with as many clients as there are */
    bool breaks, asked, lacks;
    dlk_redis_circle seen[DLK_REDIS_CIRCLES];
} dlk_redis_circles;

struct dlk_redis {
    dlk_backend base; /* first: a dlk_backend * is a dlk_redis * */

    /* set by open, never changed */
    dlk_settings *settings;
    char *host; /* NULL for a Unix socket. Of a master that sentinels name, the latest */
    uint16_t port;
    char *peer; /* for messages: "host:port" or the path */
    dlk_link_common links;
    bool by_sentinels;                /* it has to say that it is a master */
    const dlk_redis_cluster *cluster; /* NULL: it isn't a node of one */
    int64_t timeout_ns;
    const struct dlk_redis_layout *layout; /* the client's; a lock may have another */
    /* of that: what is loaded and checked beforehand */
    const struct dlk_redis_form *mutex;
    char *probe_key, *probe_channel;
    char owner[DLK_UUID_SIZE]; /* "<uuid>:", without the end */
    size_t owner_size;

    dlk_redis_connection commands;
    dlk_redis_subscriber subscriber;
    dlk_list renewals;     /* asks that go out with the next burst */
    dlk_list resting;      /* lists between two pages (list.c) */
    dlk_flight flight;     /* those that are sent */
    dlock_error *why_down; /* while the link is down */
    /* why none but fair locks can be had, though the link is up */
    dlock_error *lacks_line;
    /* forms whose rights were looked at, a bit each; after a reconnect, when all names are asked for
     * at once, not anew */
    uint32_t checked;
    bool stopped, was_up;
    bool poll_only;            /* redis.wait=poll: no subscriber */
    bool notify;               /* redis.notify */
    dlk_redis_publish publish; /* how releases are told */
    int64_t replicas_missed;   /* when WAIT last found too few of them, or 0 */
    int64_t retry_ms;
    /* When the client's own key ends, or 0; and how long it lasts: client_key.h. */
    int64_t said_until, said_ms;
    /* What is told of our locks, told.h: when to look for it again (0: nothing has changed), how much of it
     * stands in our key, and whether the answer to that is under way. */
    dlk_ask telling;
    int64_t tell_at, looked_at;
    int64_t told;
    uint64_t told_hash;
    int64_t tell_after; /* what lasts for less isn't told */
    bool tells, tell_asked, lacks_told;
    struct dlk_redis_told_memory *told_memory; /* of the last list, told_list.h */
    unsigned
        breaks; /* that we made: what a list knew of locks before one isn't so any more */
    dlk_redis_circles circles;
    bool warned_publish, warned_eviction, warned_line;
    bool lacks_load, lacks_name, lacks_role, lacks_switch,
        lacks_shards;      /* rights that are welcome, seen at a greeting */
    bool lacks_client_key; /* … and when it was needed */
    bool knows_clock;
    /* server's wall clock less our boot clock, us, at the first greeting */
    int64_t clock_offset;
    int64_t greeted_us; /* its wall clock when it was greeted last */

    /* The driver's sleep, frozen by arm. */
    bool expects; /* an answer is sure to come soon, and nothing else */
};

/* Makes the driver arm anew. Any thread, with or without the mutex, in signal handlers. */
static inline void dlk_redis_wake(const dlk_redis *redis)
{
    dlk_kick(redis->base.host->kicks);
}

/* ---- backend.c, for topology/: a server that is one of several, or has to be found ---- */

#define DLK_REDIS_TRAITS                                                                 \
    .layout_key = DLK_KEY_REDIS_LAYOUT, .fair_asked = true, .tokens = true,              \
    .hands_on = true, .keeps = true, .margin_percent = 1, .margin_ms = 2,                \
    .kinds = {                                                                           \
        [DLOCK_MUTEX] = true, [DLOCK_ELECTION] = true, [DLOCK_SEMAPHORE] = true,         \
        [DLOCK_READ] = true,  [DLOCK_WRITE] = true,    [DLK_KIND_CONDITION] = true}

bool dlk_redis_has_kind(const dlk_settings *settings, dlock_kind kind);
void dlk_redis_adapt(const dlk_settings *settings, dlk_traits *traits);
/* Makes it, in zeroed memory; where it leads to is still to be said (dlk_redis_aim). Its end, also when
 * that has failed, is dlk_redis_end. */
dlock_err dlk_redis_begin(dlk_redis *redis, const dlk_backend_type *type, dlk_host *host,
                          const dlk_uri *uri, const dlk_settings *settings,
                          const struct dlk_redis_layout *layout, dlock_error **err);
void dlk_redis_end(dlk_redis *redis);
/* Whether an answer is sure to come soon, and no message. Since arm, with the mutex. */
bool dlk_redis_expects(const dlk_redis *redis);
/* Ends both connections for now; what is in flight is answered. */
void dlk_redis_rest(dlk_redis *redis, const dlock_error *why);
/* What a flush has left has to wait for the socket: it is to be polled for. */
void dlk_redis_leave_rest(dlk_redis *redis);

#endif
