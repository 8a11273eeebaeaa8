/* The table of all settings: what conf, URI, dump, bindings and the settings page live on.
 * A key is never renamed or given another meaning; a new one gets its own `since`. */
#include "util/settings.h"

#define V01      .since = "0.1"
#define INT_MAX_ 2147483647

static const dlk_key_spec table[DLK_KEY_COUNT] = {
    [DLK_KEY_LOCK_TTL_MS] =
        {"lock.ttl_ms", DLK_TYPE_INT, DLK_SCOPE_LOCK, .number = 30000, .min = 100,
         .max = 2592000000, .backends = "all",
         .doc =
             "How long a grant lasts when nobody renews it. On zookeeper and etcd it is "
             "the session's and belongs into the client's conf.",
         V01},
    [DLK_KEY_LOCK_RENEW] =
        {"lock.renew", DLK_TYPE_ENUM, DLK_SCOPE_LOCK, .words = {"auto", "fed", "off"},
         .backends = "all",
         .doc = "Renew every third of the ttl (auto), only if dlock_hold_feed was called "
                "since (fed), or never (off).",
         V01},
    [DLK_KEY_LOCK_MAX_HOLD_MS] =
        {"lock.max_hold_ms", DLK_TYPE_INT, DLK_SCOPE_LOCK, .min = 100,
         .max = INT64_C(1) << 53, .zero = true, .default_shown = "0 = none",
         .range_shown = "0, ttl..9007199254740992", .backends = "all",
         .doc = "The longest time a grant is renewed; then it ends LOST.", V01},
    [DLK_KEY_LOCK_OWNER] =
        {"lock.owner", DLK_TYPE_ENUM, DLK_SCOPE_LOCK, .words = {"auto", "thread", "none"},
         .backends = "all",
         .doc =
             "Who holds: the calling thread in blocking calls and each _start by itself "
             "(auto), the calling thread in both (thread), each acquire by itself (none; "
             "always so for semaphores and elections).",
         V01},
    [DLK_KEY_LOCK_REENTRANT] =
        {"lock.reentrant", DLK_TYPE_BOOL, DLK_SCOPE_LOCK, .number = 1, .backends = "all",
         .doc =
             "A second acquire by the same thread gets another hold of the grant; false: "
             "it is DLOCK_EDEADLK.",
         V01},
    [DLK_KEY_LOCK_RELEASE] =
        {"lock.release", DLK_TYPE_ENUM, DLK_SCOPE_LOCK, .words = {"sync", "async"},
         .backends = "all",
         .doc =
             "Whether a release waits for the server's answer (sync) or is only queued "
             "(async; failures are counted and logged).",
         V01},
    [DLK_KEY_LOCK_FAIR] =
        {"lock.fair", DLK_TYPE_BOOL, DLK_SCOPE_LOCK, .shapes = true, .backends = "all",
         .doc =
             "First come, first served. mem, file, zookeeper and etcd always are; redis "
             "with layout redisson when asked; elsewhere true is DLOCK_ENOTSUP.",
         V01},
    [DLK_KEY_LOCK_PERMITS] =
        {"lock.permits", DLK_TYPE_INT, DLK_SCOPE_LOCK, .shapes = true, .min = 1,
         .max = INT_MAX_, .zero = true, .default_shown = "0 = must exist",
         .backends = "those with semaphores",
         .doc = "The size of a semaphore, which the first acquire makes. 0 "
                "takes it as it is.",
         V01},
    [DLK_KEY_LOCK_TAKE] = {"lock.take", DLK_TYPE_INT, DLK_SCOPE_LOCK, .number = 1,
                           .min = 1, .max = INT_MAX_, .range_shown = "1..permits",
                           .backends = "those with semaphores (curator: 1)",
                           .doc = "How many permits one acquire takes.", V01},
    [DLK_KEY_LOCK_DATA] =
        {"lock.data", DLK_TYPE_TEXT, DLK_SCOPE_LOCK, .max = 1024, .backends = "all",
         .doc = "An election's published id; elsewhere shown by inspect where the layout "
                "has room.",
         V01},

    [DLK_KEY_CLIENT_REQUIRE] =
        {"client.require", DLK_TYPE_ENUM, .rise = DLK_RISE_UP,
         .words = {"efficiency", "fencing", "correctness"}, .backends = "all",
         .doc = "What the backend must be able to promise, checked at open and for each "
                "lock. A URI may only raise it.",
         V01},
    [DLK_KEY_CLIENT_PREFIX] =
        {"client.prefix", DLK_TYPE_TEXT, .max = 512, .backends = "all",
         .doc =
             "Goes before the name of every lock; prefix and name together have at most "
             "1024 bytes.",
         V01},
    [DLK_KEY_CLIENT_NAME] =
        {"client.name", DLK_TYPE_TEXT, .max = 128, .printable = true,
         .default_shown = "host:pid", .backends = "all",
         .doc =
             "Who we are, for people: shown by inspect, and to the server where allowed.",
         V01},
    [DLK_KEY_CLIENT_LAZY] =
        {"client.lazy", DLK_TYPE_BOOL, .backends = "all",
         .doc = "dlock_client_open does no I/O; dlock_client_connect does it later.",
         V01},
    [DLK_KEY_CLIENT_TIMEOUT_MS] = {"client.timeout_ms", DLK_TYPE_INT, .number = 3000,
                                   .min = 10, .max = 600000, .backends = "networked",
                                   .doc = "How long one command may take.", V01},
    [DLK_KEY_CLIENT_CONNECT_MS] =
        {"client.connect_ms", DLK_TYPE_INT, .number = 5000, .min = 10, .max = 600000,
         .backends = "networked",
         .doc = "How long dlock_client_open may take; each address is tried once.", V01},
    [DLK_KEY_CLIENT_CLOSE_MS] =
        {"client.close_ms", DLK_TYPE_INT, .number = 2000, .max = 60000, .backends = "all",
         .doc = "How long dlock_client_close waits for releases to be confirmed.", V01},
    [DLK_KEY_CLIENT_POLL_MS] =
        {"client.poll_ms", DLK_TYPE_INT, .number = 1000, .min = 10, .max = 60000,
         .backends = "redis, zookeeper, etcd",
         .doc = "The longest wait for a message before looking again, give or take 25 %.",
         V01},
    [DLK_KEY_CLIENT_RETRY_MS] =
        {"client.retry_ms", DLK_TYPE_INT, .number = 75, .min = 1, .max = 60000,
         .backends = "redis (string, timestamp), redlock, memcached, memlock",
         .doc = "The pause between two tries where nothing notifies, give or take 33 %.",
         V01},
    [DLK_KEY_CLIENT_BACKOFF_MIN_MS] =
        {"client.backoff_min_ms", DLK_TYPE_INT, .number = 50, .min = 1, .max = 600000,
         .backends = "networked",
         .doc = "The pause before the first reconnect; it doubles from there.", V01},
    [DLK_KEY_CLIENT_BACKOFF_MAX_MS] = {"client.backoff_max_ms", DLK_TYPE_INT,
                                       .number = 2000, .min = 1, .max = 600000,
                                       .backends = "networked",
                                       .doc = "The longest pause between two reconnects.",
                                       V01},
    [DLK_KEY_CLIENT_EVENTS] =
        {"client.events", DLK_TYPE_INT, .number = 1024, .min = 16, .max = 1048576,
         .backends = "all",
         .doc = "How many LOG and CONNECTION events may wait to be fetched; the others "
                "can't be dropped.",
         V01},
    [DLK_KEY_CLIENT_LOG_LEVEL] = {"client.log_level", DLK_TYPE_ENUM,
                                  .number = DLOCK_LOG_WARN,
                                  .words = {"off", "error", "warn", "info", "debug"},
                                  .backends = "all",
                                  .doc = "The least urgent lines that are logged.", V01},

    [DLK_KEY_AUTH_USERNAME] = {"auth.username", DLK_TYPE_TEXT,
                               .backends = "redis, etcd, zookeeper (digest)",
                               .doc = "The user to authenticate as.", V01},
    [DLK_KEY_AUTH_PASSWORD] =
        {"auth.password", DLK_TYPE_SECRET, .backends = "redis, etcd, zookeeper",
         .doc = "The password; at most one of auth.password, _file and _env.", V01},
    [DLK_KEY_AUTH_PASSWORD_FILE] =
        {"auth.password_file", DLK_TYPE_PATH, .backends = "redis, etcd, zookeeper",
         .doc = "A file whose first line is the password; read again at each connect.",
         V01},
    [DLK_KEY_AUTH_PASSWORD_ENV] =
        {"auth.password_env", DLK_TYPE_TEXT, .backends = "redis, etcd, zookeeper",
         .doc =
             "An environment variable that is the password; read again at each connect.",
         V01},
    [DLK_KEY_AUTH_SENTINEL_USERNAME] =
        {"auth.sentinel_username", DLK_TYPE_TEXT, .backends = "redis+sentinel",
         .doc = "The user to authenticate as at the Sentinels.", V01},
    [DLK_KEY_AUTH_SENTINEL_PASSWORD] =
        {"auth.sentinel_password", DLK_TYPE_SECRET, .backends = "redis+sentinel",
         .doc = "The Sentinels' password; at most one of the three. Empty means none.",
         V01},
    [DLK_KEY_AUTH_SENTINEL_PASSWORD_FILE] =
        {"auth.sentinel_password_file", DLK_TYPE_PATH, .backends = "redis+sentinel",
         .doc = "A file whose first line is the Sentinels' password.", V01},
    [DLK_KEY_AUTH_SENTINEL_PASSWORD_ENV] =
        {"auth.sentinel_password_env", DLK_TYPE_TEXT, .backends = "redis+sentinel",
         .doc = "An environment variable that is the Sentinels' password.", V01},

    [DLK_KEY_TLS_VERIFY] =
        {"tls.verify", DLK_TYPE_ENUM, .rise = DLK_RISE_DOWN,
         .words = {"full", "chain", "insecure_none"},
         .backends = "rediss, redlocks, memcacheds, memlocks, etcds",
         .doc = "Check chain and host name (full), the chain only, or nothing. A URI may "
                "only raise it.",
         V01},
    [DLK_KEY_TLS_CA_FILE] = {"tls.ca_file", DLK_TYPE_PATH, .default_shown = "system",
                             .backends = "rediss, redlocks, memcacheds, memlocks, etcds",
                             .doc = "The authorities to trust.", V01},
    [DLK_KEY_TLS_CA_DIR] = {"tls.ca_dir", DLK_TYPE_PATH, .default_shown = "system",
                            .backends = "rediss, redlocks, memcacheds, memlocks, etcds",
                            .doc = "A directory of authorities to trust, named by hash.",
                            V01},
    [DLK_KEY_TLS_CRL_FILE] = {"tls.crl_file", DLK_TYPE_PATH,
                              .backends = "rediss, redlocks, memcacheds, memlocks, etcds",
                              .doc = "Certificates that were revoked.", V01},
    [DLK_KEY_TLS_CERT_FILE] = {"tls.cert_file", DLK_TYPE_PATH,
                               .backends =
                                   "rediss, redlocks, memcacheds, memlocks, etcds",
                               .doc =
                                   "Our own certificate, where the server asks for one.",
                               V01},
    [DLK_KEY_TLS_KEY_FILE] = {"tls.key_file", DLK_TYPE_PATH,
                              .backends = "rediss, redlocks, memcacheds, memlocks, etcds",
                              .doc = "The key of our own certificate.", V01},
    [DLK_KEY_TLS_KEY_PASSWORD_FILE] =
        {"tls.key_password_file", DLK_TYPE_PATH,
         .backends = "rediss, redlocks, memcacheds, memlocks, etcds",
         .doc = "A file whose first line unlocks the key.", V01},
    [DLK_KEY_TLS_SERVER_NAME] = {"tls.server_name", DLK_TYPE_TEXT, .max = 255,
                                 .printable = true, .default_shown = "host of the URI",
                                 .backends =
                                     "rediss, redlocks, memcacheds, memlocks, etcds",
                                 .doc = "The name the server's certificate must carry.",
                                 V01},
    [DLK_KEY_TLS_MIN_VERSION] = {"tls.min_version", DLK_TYPE_ENUM,
                                 .words = {"1.2", "1.3"},
                                 .backends =
                                     "rediss, redlocks, memcacheds, memlocks, etcds",
                                 .doc = "The oldest TLS to accept.", V01},

    [DLK_KEY_REDIS_DB] =
        {"redis.db", DLK_TYPE_INT, .max = INT_MAX_, .backends = "redis (cluster: 0)",
         .doc = "The number of the database; the URI's path in redis:// and rediss://.",
         V01},
    [DLK_KEY_REDIS_LAYOUT] =
        {"redis.layout", DLK_TYPE_ENUM, DLK_SCOPE_LOCK, .shapes = true,
         .words = {"redisson", "string", "timestamp", "rueidis"},
         .backends = "redis (redlock: string)",
         .doc = "Whose keys and scripts we share: Redisson's, SET NX PX with "
                "compare-and-delete, SETNX with a time stamp, or rueidis'.",
         V01},
    [DLK_KEY_REDIS_WAIT] =
        {"redis.wait", DLK_TYPE_ENUM, .words = {"pubsub", "poll"},
         .backends = "redis (redisson)",
         .doc = "Wait for the release message (bounded by client.poll_ms), or only look "
                "again from time to time.",
         V01},
    [DLK_KEY_REDIS_NOTIFY] =
        {"redis.notify", DLK_TYPE_BOOL, .backends = "redis",
         .doc =
             "Publish releases on a channel of our own with layout string or timestamp.",
         V01},
    [DLK_KEY_REDIS_PUBLISH] = {"redis.publish", DLK_TYPE_ENUM,
                               .words = {"auto", "publish", "spublish", "both"},
                               .backends = "redis+cluster",
                               .doc = "How a release is announced in a cluster.", V01},
    [DLK_KEY_REDIS_HANDOVER] =
        {"redis.handover", DLK_TYPE_BOOL, .number = 1, .backends = "redis (redisson)",
         .doc = "Let the server decide who is next instead of letting all race.", V01},
    [DLK_KEY_REDIS_OPEN_TURN] =
        {"redis.open_turn", DLK_TYPE_INT, .number = 4, .min = 0, .max = 1000000,
         .backends = "redis (redisson)",
         .doc = "Every so many hand-overs the lock is put up for all, if Redisson's "
                "waiters may want it; 0: never.",
         V01},
    [DLK_KEY_REDIS_CLAIM_MS] =
        {"redis.claim_ms", DLK_TYPE_INT, .number = 500, .min = 50, .max = 60000,
         .backends = "redis (redisson)",
         .doc =
             "How long a lock that was handed on is kept for who was told, at most its "
             "lease.",
         V01},
    [DLK_KEY_REDIS_SEMAPHORE] = {"redis.semaphore", DLK_TYPE_ENUM, DLK_SCOPE_LOCK,
                                 .shapes = true, .words = {"expirable", "plain"},
                                 .backends = "redis (redisson)",
                                 .doc = "Which of Redisson's semaphores: "
                                        "RPermitExpirableSemaphore, or RSemaphore, where "
                                        "the permits of the dead are lost.",
                                 V01},
    [DLK_KEY_REDIS_FAIR_WAIT_MS] =
        {"redis.fair_wait_ms", DLK_TYPE_INT, .number = 30000, .min = 10000, .max = 300000,
         .backends = "redis (fair)",
         .doc = "After how long a silent waiter loses its place in the line.", V01},
    [DLK_KEY_REDIS_WAIT_REPLICAS] =
        {"redis.wait_replicas", DLK_TYPE_INT, DLK_SCOPE_LOCK, .shapes = true, .max = 16,
         .backends = "redis, redis+sentinel, redis+cluster",
         .doc = "How many replicas must have a grant before it counts.", V01},
    [DLK_KEY_REDIS_TIMESTAMP_FORMAT] = {"redis.timestamp_format", DLK_TYPE_ENUM,
                                        DLK_SCOPE_LOCK, .shapes = true,
                                        .words = {"ms", "s"},
                                        .backends = "redis (timestamp)",
                                        .doc = "The unit of the time stamps.", V01},
    [DLK_KEY_REDIS_RUEIDIS_MAJORITY] = {"redis.rueidis_majority", DLK_TYPE_INT,
                                        DLK_SCOPE_LOCK, .shapes = true, .number = 2,
                                        .min = 1, .max = 16,
                                        .backends = "redis (rueidis)",
                                        .doc = "KeyMajority, as the others have it.",
                                        V01},
    [DLK_KEY_REDIS_RUEIDIS_PREFIX] = {"redis.rueidis_prefix", DLK_TYPE_TEXT,
                                      DLK_SCOPE_LOCK, .shapes = true,
                                      .text = "rueidislock", .max = 512,
                                      .backends = "redis (rueidis)",
                                      .doc = "KeyPrefix, as the others have it.", V01},

    [DLK_KEY_REDLOCK_FENCING] =
        {"redlock.fencing", DLK_TYPE_BOOL, .backends = "redlock",
         .doc = "Give each grant a token, for a second round trip; off: "
                "one, and tokens are 0.",
         V01},

    [DLK_KEY_ZOOKEEPER_LAYOUT] =
        {"zookeeper.layout", DLK_TYPE_ENUM, DLK_SCOPE_LOCK, .shapes = true,
         .words = {"curator", "kazoo", "bridge", "exclusive", "pattern"},
         .backends = "zookeeper",
         .doc =
             "Whose nodes we share: Curator's, kazoo's, both, one plain ephemeral node, "
             "or those of zookeeper.node.",
         V01},
    [DLK_KEY_ZOOKEEPER_NODE] = {"zookeeper.node", DLK_TYPE_TEXT, DLK_SCOPE_LOCK,
                                .shapes = true, .max = 1024,
                                .range_shown = "has {name}, ends with {seq}",
                                .backends = "zookeeper (pattern)",
                                .doc = "The node's path below the chroot, in which "
                                       "{name}, {session}, {uuid}, {side} "
                                       "(W or R) and {seq} stand for what they say.",
                                V01},
    [DLK_KEY_ZOOKEEPER_ELECTION] = {"zookeeper.election", DLK_TYPE_ENUM, DLK_SCOPE_LOCK,
                                    .shapes = true, .words = {"latch", "selector"},
                                    .backends = "zookeeper",
                                    .doc = "Which of Curator's elections.", V01},
    [DLK_KEY_ZOOKEEPER_ACL] = {"zookeeper.acl", DLK_TYPE_ENUM,
                               .words = {"open", "creator"}, .backends = "zookeeper",
                               .doc = "Who may touch the nodes we create.", V01},
    [DLK_KEY_ZOOKEEPER_STRICT] =
        {"zookeeper.strict", DLK_TYPE_BOOL, DLK_SCOPE_LOCK, .number = 1,
         .backends = "zookeeper",
         .doc = "Nodes of another kind are DLOCK_ECONFLICT; false: only a warning.", V01},

    [DLK_KEY_MEMCACHED_PROTOCOL] = {"memcached.protocol", DLK_TYPE_ENUM,
                                    .words = {"auto", "meta", "classic"},
                                    .backends = "memcached, memlock",
                                    .doc = "Which commands to use: meta ones where the "
                                           "server has them, and for stores where it may "
                                           "evict (auto), always, or never.",
                                    V01},
    [DLK_KEY_MEMCACHED_KEY_ENCODING] =
        {"memcached.key_encoding", DLK_TYPE_ENUM, .words = {"none", "base64"},
         .backends = "memcached, memlock",
         .doc =
             "How to send names: as they are, or all of them in base64, for those that "
             "memcached's keys can't carry.",
         V01},

    [DLK_KEY_FILE_SLOTS] =
        {"file.slots", DLK_TYPE_INT, .number = 1024, .min = 16, .max = 65536,
         .backends = "file",
         .doc = "How many holders and waiters the file has room for, fixed when it is "
                "created.",
         V01},
    [DLK_KEY_FILE_MODE] =
        {"file.mode", DLK_TYPE_OCTAL, .number = 0600, .words = {"0600", "0660", "0666"},
         .backends = "file",
         .doc =
             "The file's mode when it is created: for one user, a group, or everybody.",
         V01},
};

const dlk_key_spec *dlk_settings_spec(dlk_key_id id)
{
    return &table[id];
}
