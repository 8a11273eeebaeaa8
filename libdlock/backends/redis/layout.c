/* The layouts and forms that there are; see the header. */
#include "backends/redis/layout.h"

#include "util/error.h"
#include "util/kind.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define TOKEN        "redisson_lock_token"
#define PERMITS      DLK_REDIS_PERMITS

/* How many KEYS acquire, release, renew, verify, break and inspect get. */
#define KEYS_OF_MUTEX                                                                    \
    {                                                                                    \
        2, 1, 1, 1, 1, 2                                                                 \
    }

static const dlk_redis_form redisson[] = {
    {
        .id = DLK_FORM_HANDOVER,
        .import = DLK_SCRIPT_IMPORT_HASH,
        .kind = DLOCK_MUTEX,
        .notifies = true,
        .hands_over = true,
        .tokens = true,
        .channel = "redisson_lock__channel",
        .derived = {TOKEN, "dlock_queue", "dlock_open"},
        .keys = {4, 4, 1, 1, 1, 3},
        .renews_alone = true,
        .more_count = 2,
    },
    {
        .id = DLK_FORM_MUTEX,
        .import = DLK_SCRIPT_IMPORT_HASH,
        .kind = DLOCK_MUTEX,
        .notifies = true,
        .tokens = true,
        .channel = "redisson_lock__channel",
        .derived = {TOKEN},
        .keys = KEYS_OF_MUTEX,
    },
    {
        .id = DLK_FORM_PERMITS,
        .kind = DLOCK_SEMAPHORE,
        .notifies = true,
        .channel = "redisson_sc",
        .derived = {PERMITS},
        .beside = "dlock_permit",
        .keys = {2, 2, 2, 2, 2, 2},
        .more_count = 3,
    },
    {
        .id = DLK_FORM_SEMAPHORE,
        .kind = DLOCK_SEMAPHORE,
        .plain = true,
        .notifies = true,
        .channel = "redisson_sc",
        .derived = {"dlock_permit", PERMITS},
        .keys = {3, 2, 2, 2, 2, 1},
        .renews_alone = true,
        .more_count = 2,
    },
    {
        .id = DLK_FORM_FAIR,
        .import = DLK_SCRIPT_IMPORT_HASH,
        .kind = DLOCK_MUTEX,
        .fair = true,
        .notifies = true,
        .queues = true,
        .tokens = true,
        .channel = "redisson_lock__channel",
        .derived = {TOKEN, "redisson_lock_queue", "redisson_lock_timeout",
                    "dlock_silent"},
        .keys = {5, 5, 1, 1, 5, 3},
        .renews_alone = true,
        .more_count = 3,
    },
    {
        .id = DLK_FORM_READ,
        .kind = DLOCK_WRITE,
        .shared = true,
        .notifies = true,
        .tokens = true,
        .channel = "redisson_rwlock",
        .derived = {TOKEN},
        .keys = {2, 1, 2, 1, 1, 2},
        .more_count = 1,
    },
    {
        .id = DLK_FORM_ELECTION,
        .kind = DLOCK_ELECTION,
        .notifies = true,
        .tokens = true,
        .channel = "redisson_lock__channel",
        .derived = {TOKEN, "dlock_data"},
        .keys = {3, 3, 3, 1, 3, 3},
        .more_count = 1,
    },
    {
        .id = DLK_FORM_CONDITION,
        .kind = DLK_KIND_CONDITION,
        .notifies = true,
        .signals = true,
        .channel = "dlock_cond_channel",
        .derived = {"dlock_cond", "dlock_signals"},
        .keys = {3, 3, 3, 1, 3, 3},
        .renews_alone = true,
        .more_count = 3,
    },
    {
        .id = DLK_FORM_WRITE,
        .kind = DLOCK_WRITE,
        .notifies = true,
        .tokens = true,
        .channel = "redisson_rwlock",
        .derived = {TOKEN},
        .keys = KEYS_OF_MUTEX,
    },
};

static const dlk_redis_form string[] = {
    {
        .id = DLK_FORM_STRING,
        .import = DLK_SCRIPT_IMPORT_STRING,
        .kind = DLOCK_MUTEX,
        .tokens = true,
        .channel = "dlock_channel",
        .derived = {TOKEN},
        .keys = KEYS_OF_MUTEX,
    },
};

static const dlk_redis_form timestamp[] = {
    {
        .id = DLK_FORM_TIMESTAMP,
        .kind = DLOCK_MUTEX,
        .channel = "dlock_channel",
        .tokens = true,
        .by_clocks = true,
        .import = DLK_SCRIPT_IMPORT_TIMESTAMP,
        .derived = {TOKEN, "dlock_owner"},
        .keys = {3, 3, 3, 3, 3, 3},
        .more_count = 1,
    },
};

static const dlk_redis_form rueidis[] = {
    {
        .id = DLK_FORM_RUEIDIS,
        .kind = DLOCK_MUTEX,
        .tokens = true,
        .slots = true,
        .import = DLK_SCRIPT_IMPORT_RUEIDIS,
        .channel = "dlock_channel",
        .derived = {TOKEN},
        .keys = {2, 2, 2, 2, 2, 2},
    },
};

static const dlk_redis_layout layouts[] = {
    [DLK_LAYOUT_REDISSON] = {"redisson", "hash", false, DLK_SCRIPT_LIST_HASH, redisson,
                             COUNT(redisson), false},
    [DLK_LAYOUT_STRING] = {"string", "string", true, DLK_SCRIPT_LIST_STRING, string,
                           COUNT(string), false},
    [DLK_LAYOUT_TIMESTAMP] = {"timestamp", "string", true, DLK_SCRIPT_LIST_STRING,
                              timestamp, COUNT(timestamp), false},
    [DLK_LAYOUT_RUEIDIS] = {"rueidis", NULL, true, 0, rueidis, COUNT(rueidis), false},
};

/* A Redlock's lock on one of its nodes lies there as a string's does. */
static const dlk_redis_form plain_node = {
    .id = DLK_FORM_REDLOCK,
    .kind = DLOCK_MUTEX,
    .sets = true,
    .channel = "dlock_channel",
    .keys = {1, 1, 1, 1, 1, 2},
    .derived = {TOKEN},
};
static const dlk_redis_form fenced_node = {
    .id = DLK_FORM_REDLOCK,
    .kind = DLOCK_MUTEX,
    .tokens = true,
    .channel = "dlock_channel",
    .keys = {2, 1, 1, 2, 1, 2},
    .derived = {TOKEN},
    .renews_alone = true,
    .more_count = 2,
};
static const dlk_redis_layout node_layouts[] = {
    {"string", "string", true, DLK_SCRIPT_LIST_STRING, &plain_node, 1, true},
    {"string", "string", true, DLK_SCRIPT_LIST_STRING, &fenced_node, 1, true},
};

const dlk_redis_layout *dlk_redis_node_layout(bool fencing)
{
    return &node_layouts[fencing];
}

static const char *part_of(const dlk_redis_layout *layout, size_t *i)
{
    for (size_t form = 0; form < layout->form_count; form++)
        for (size_t at = 0; at < DLK_REDIS_DERIVED; at++)
            if (layout->forms[form].derived[at] && (*i)-- == 0)
                return layout->forms[form].derived[at];
    return NULL;
}

const char *dlk_redis_derived_part(size_t i)
{
    const char *part = NULL;
    for (size_t at = 0; at < COUNT(layouts) && !part; at++)
        part = part_of(&layouts[at], &i);
    for (size_t at = 0; at < COUNT(node_layouts) && !part; at++)
        part = part_of(&node_layouts[at], &i);
    return part;
}

const dlk_redis_layout *dlk_redis_layout_of(const dlk_settings *settings)
{
    return &layouts[dlk_settings_int(settings, DLK_KEY_REDIS_LAYOUT)];
}

const dlk_redis_form *dlk_redis_form_of(const dlk_redis_layout *layout,
                                        const dlk_settings *settings, dlock_kind kind,
                                        bool shared, dlock_error **err)
{
    bool fair = kind != DLK_KIND_CONDITION && /* whose line is so always */
                dlk_settings_int(settings, DLK_KEY_LOCK_FAIR) != 0;
    bool plain = kind == DLOCK_SEMAPHORE &&
                 dlk_settings_int(settings, DLK_KEY_REDIS_SEMAPHORE) == DLK_REDIS_PLAIN;
    bool hands_over =
        dlk_settings_int(settings, DLK_KEY_REDIS_HANDOVER) &&
        /* Who releases can't wait for the replicas of the next one's. */
        !dlk_settings_int(settings, DLK_KEY_REDIS_WAIT_REPLICAS) &&
        dlk_settings_int(settings, DLK_KEY_REDIS_WAIT) == DLK_REDIS_WAIT_PUBSUB;
    for (size_t i = 0; i < layout->form_count; i++) {
        const dlk_redis_form *form = &layout->forms[i];
        if (form->hands_over && !hands_over)
            continue;
        if (form->kind == kind && form->shared == shared && form->fair == fair &&
            form->plain == plain)
            return form;
    }
    dlk_error_set(err, DLOCK_ENOTSUP, "redis: redis.layout=%s has no %s%s", layout->name,
                  fair ? "fair " : "", dlk_kind_of((int)kind)->plural);
    return NULL;
}
