"""The settings as keyword arguments. Written by tools/python-settings: don't edit."""
from __future__ import annotations

import os
from typing import Literal, TypedDict

from ._settings import Seconds


class LockSettings(TypedDict, total=False):
    """What a lock may be told; a client's values are the defaults of its locks.

    ttl, ttl_ms
        How long a grant lasts when nobody renews it. On zookeeper, etcd and advisory locks it is
        the session's and belongs into the client's conf. (default 30000; 100..2592000000; both in
        ms; backends: all)
    renew
        Renew every third of the ttl (auto), only if dlock_hold_feed was called since (fed), or
        never (off). (default auto; auto, fed, off; backends: all)
    max_hold, max_hold_ms
        The longest time a grant is renewed; then it ends LOST. (default 0 = none; 0,
        ttl..9007199254740992; both in ms; backends: all)
    keep, keep_ms
        How long a client may keep a mutex after its release, for its next owner here, until
        another client asks for it. (default 0 = off; 0..2147483647; both in ms; backends: redis,
        zookeeper, etcd, postgres)
    keep_runs
        How often a kept lock goes to owners of its client at most while another client waits.
        (default 8; 1..65535; backends: redis, zookeeper, etcd, postgres)
    keep_run, keep_run_ms
        And for how long, whichever is first; looked at when it is released. (default 2; 0..60000;
        both in ms; backends: redis, zookeeper, etcd, postgres)
    reentrant
        A second acquire by the same thread gets another hold of the grant; false: it is
        DLOCK_EDEADLK. (default True; backends: all)
    release
        Whether a release waits for the server's answer (sync) or is only queued (async; failures
        are counted and logged). (default sync; sync, async; backends: all)
    fair
        First come, first served. mem, file, zookeeper, etcd and postgres always are; redis with
        layout redisson when asked; elsewhere true is DLOCK_ENOTSUP. (default False; backends:
        all)
    data
        An election's published id; elsewhere shown by inspect where the layout has room. (at most
        1024 bytes; backends: all)
    redis_layout
        Whose keys and scripts we share: Redisson's, SET NX PX with compare-and-delete, SETNX with
        a time stamp, or rueidis'. (default redisson; redisson, string, timestamp, rueidis;
        backends: redis (redlock: string))
    redis_semaphore
        Which of Redisson's semaphores: RPermitExpirableSemaphore, or RSemaphore, where the
        permits of the dead are lost. (default expirable; expirable, plain; backends: redis
        (redisson))
    redis_wait_replicas
        How many replicas must have a grant before it counts. (default 0; 0..16; backends: redis,
        redis+sentinel, redis+cluster)
    redis_timestamp_format
        The unit of the time stamps. (default ms; ms, s; backends: redis (timestamp))
    redis_rueidis_majority
        KeyMajority, as the others have it. (default 2; 1..16; backends: redis (rueidis))
    redis_rueidis_prefix
        KeyPrefix, as the others have it. (default rueidislock; at most 512 bytes; backends: redis
        (rueidis))
    zookeeper_layout
        Whose nodes we share: Curator's, kazoo's, both, one plain ephemeral node, or those of
        zookeeper.node. (default curator; curator, kazoo, bridge, exclusive, pattern; backends:
        zookeeper)
    zookeeper_node
        The node's path below the chroot, in which {name}, {session}, {uuid}, {side} (W or R) and
        {seq} stand for what they say. (has {name}, ends with {seq}; backends: zookeeper
        (pattern))
    zookeeper_election
        Which of Curator's elections. (default latch; latch, selector; backends: zookeeper)
    zookeeper_strict
        Nodes of another kind are DLOCK_ECONFLICT; false: only a warning. (default True; backends:
        zookeeper)
    postgres_key
        Which advisory lock a name is: a hash of the server's, the number that it says, or what
        another library makes of it. (default hashtextextended; hashtextextended, hashtext,
        number, django-pglocks, django-pglock, django-pgware, with_advisory_lock, distributedlock;
        backends: postgres (advisory))
    """

    ttl: Seconds
    ttl_ms: int
    renew: Literal['auto', 'fed', 'off']
    max_hold: Seconds
    max_hold_ms: int
    keep: Seconds
    keep_ms: int
    keep_runs: int
    keep_run: Seconds
    keep_run_ms: int
    reentrant: bool
    release: Literal['sync', 'async']
    fair: bool
    data: str
    redis_layout: Literal['redisson', 'string', 'timestamp', 'rueidis']
    redis_semaphore: Literal['expirable', 'plain']
    redis_wait_replicas: int
    redis_timestamp_format: Literal['ms', 's']
    redis_rueidis_majority: int
    redis_rueidis_prefix: str
    zookeeper_layout: Literal['curator', 'kazoo', 'bridge', 'exclusive', 'pattern']
    zookeeper_node: str
    zookeeper_election: Literal['latch', 'selector']
    zookeeper_strict: bool
    postgres_key: Literal[
        'hashtextextended', 'hashtext', 'number', 'django-pglocks', 'django-pglock',
        'django-pgware', 'with_advisory_lock', 'distributedlock']


class ConditionSettings(TypedDict, total=False):
    """What a condition may be told.

    ttl, ttl_ms
        How long a grant lasts when nobody renews it. On zookeeper, etcd and advisory locks it is
        the session's and belongs into the client's conf. (default 30000; 100..2592000000; both in
        ms; backends: all)
    cond_owner
        A signal has to bring a valid hold; else it is DLOCK_ENOTHELD or DLOCK_ELOST. (default
        False; backends: those with conditions)
    """

    ttl: Seconds
    ttl_ms: int
    cond_owner: bool


class ClientSettings(LockSettings, total=False):
    """What a client may be told.

    require
        What the backend must be able to promise, checked at open and for each lock. A URI may
        only raise it. (default efficiency; efficiency, fencing, correctness; backends: all)
    prefix
        Goes before the name of every lock; prefix and name together have at most 1024 bytes. (at
        most 512 bytes; backends: all)
    name
        Who we are, for people: shown by inspect, and to the server where allowed. (default
        host:pid; at most 128 printable characters; backends: all)
    lazy
        dlock_client_open does no I/O; dlock_client_connect does it later. (default False;
        backends: all)
    timeout, timeout_ms
        How long one command may take. (default 3000; 10..600000; both in ms; backends: networked)
    connect, connect_ms
        How long dlock_client_open may take; each address is tried once. (default 5000;
        10..600000; both in ms; backends: networked)
    close, close_ms
        How long dlock_client_close waits for releases to be confirmed. (default 2000; 0..60000;
        both in ms; backends: all)
    deadlock
        Look for who waits for whom in a circle, across processes: log it, or end the wait that
        began last as well, with DLOCK_EDEADLK. (default off; off, report, break-youngest;
        backends: redis, redis+sentinel)
    deadlock_ms
        Such a circle is found after half this time, at the latest after twice as long. (default
        5000; 500..600000; in ms; backends: redis, redis+sentinel)
    poll, poll_ms
        The longest wait for a message before looking again, give or take 25 %. (default 1000;
        10..60000; both in ms; backends: redis, zookeeper, etcd)
    retry, retry_ms
        The pause between two tries where nothing notifies, give or take 33 %. (default 75;
        1..60000; both in ms; backends: redis (string, timestamp), redlock, memcached, memlock,
        postgres (advisory, or through a pool))
    backoff_min, backoff_min_ms
        The pause before the first reconnect; it doubles from there. (default 50; 1..600000; both
        in ms; backends: networked)
    backoff_max, backoff_max_ms
        The longest pause between two reconnects. (default 2000; 1..600000; both in ms; backends:
        networked)
    events
        How many LOG and CONNECTION events may wait to be fetched; the others can't be dropped.
        (default 1024; 16..1048576; backends: all)
    log_level
        The least urgent lines that are logged. (default warn; off, error, warn, info, debug;
        backends: all)
    debug
        Topics of which each decision is logged, with commas between them. The level is debug,
        unless it is set. (default none; lock, renew, wait, net, tls, cluster, all; backends: all)
    order
        Learns in which order threads take locks, by class of name (up to its first digit, or
        slash behind a leading one), and tells when one contradicts it: in the log (warn), or by
        refusing (error, DLOCK_EDEADLK). (default off; off, warn, error; backends: all)
    auth_username
        The user to authenticate as. (backends: redis, etcd, postgres, zookeeper (digest))
    auth_password
        The password; at most one of auth.password, _file and _env. (backends: redis, etcd,
        postgres, zookeeper)
    auth_password_file
        A file whose first line is the password; read again at each connect. (backends: redis,
        etcd, postgres, zookeeper)
    auth_password_env
        An environment variable that is the password; read again at each connect. (backends:
        redis, etcd, postgres, zookeeper)
    auth_sentinel_username
        The user to authenticate as at the Sentinels. (backends: redis+sentinel)
    auth_sentinel_password
        The Sentinels' password; at most one of the three. Empty means none. (backends:
        redis+sentinel)
    auth_sentinel_password_file
        A file whose first line is the Sentinels' password. (backends: redis+sentinel)
    auth_sentinel_password_env
        An environment variable that is the Sentinels' password. (backends: redis+sentinel)
    tls_verify
        Check chain and host name (full), the chain only, or nothing. A URI may only raise it.
        (default full; full, chain, insecure_none; backends: rediss, redlocks, memcacheds,
        memlocks, etcds, zookeepers, postgres)
    tls_ca_file
        The authorities to trust. (default system; backends: rediss, redlocks, memcacheds,
        memlocks, etcds, zookeepers, postgres)
    tls_ca_dir
        A directory of authorities to trust, named by hash. (default system; backends: rediss,
        redlocks, memcacheds, memlocks, etcds, zookeepers)
    tls_crl_file
        Certificates that were revoked. (backends: rediss, redlocks, memcacheds, memlocks, etcds,
        zookeepers, postgres)
    tls_cert_file
        Our own certificate, where the server asks for one. (backends: rediss, redlocks,
        memcacheds, memlocks, etcds, zookeepers, postgres)
    tls_key_file
        The key of our own certificate. (backends: rediss, redlocks, memcacheds, memlocks, etcds,
        zookeepers, postgres)
    tls_key_password_file
        A file whose first line unlocks the key. (backends: rediss, redlocks, memcacheds,
        memlocks, etcds, zookeepers)
    tls_server_name
        The name the server's certificate must carry. (default host of the URI; at most 255
        printable characters; backends: rediss, redlocks, memcacheds, memlocks, etcds, zookeepers,
        postgres)
    tls_min_version
        The oldest TLS to accept. (default 1.2; 1.2, 1.3; backends: rediss, redlocks, memcacheds,
        memlocks, etcds, zookeepers, postgres)
    redis_db
        The number of the database; the URI's path in redis:// and rediss://. (default 0;
        0..2147483647; backends: redis (cluster: 0))
    redis_wait
        Wait for the release message (bounded by client.poll_ms), or only look again from time to
        time. (default pubsub; pubsub, poll; backends: redis (redisson))
    redis_notify
        Publish releases on a channel of our own with layout string or timestamp. (default False;
        backends: redis)
    redis_publish
        How a release is announced in a cluster. (default auto; auto, publish, spublish, both;
        backends: redis+cluster)
    redis_handover
        Let the server decide who is next instead of letting all race. (default True; backends:
        redis (redisson))
    redis_open_turn
        Every so many hand-overs the lock is put up for all, if Redisson's waiters may want it; 0:
        never. (default 4; 0..1000000; backends: redis (redisson))
    redis_claim, redis_claim_ms
        How long a lock that was handed on is kept for who was told, at most its lease. (default
        500; 50..60000; both in ms; backends: redis (redisson))
    redis_fair_wait, redis_fair_wait_ms
        After how long a silent waiter loses its place in the line. (default 30000; 10000..300000;
        both in ms; backends: redis (fair))
    redis_token_keep, redis_token_keep_ms
        How long nothing is forgotten of a name that nobody uses: its fencing tokens go on rising
        after that, by the server's clock. 0: for ever. (default 86400000; 0, 60000..31536000000;
        both in ms; backends: redis, redis+sentinel, redis+cluster, redlock)
    redis_client_key
        Keep one key that says who this client is (client.name, host, pid), and show what those of
        others say in inspect and list. (default True; backends: redis, redis+sentinel,
        redis+cluster, redlock)
    redis_list
        What a list is made from: all keys of the server, a page at a time; what clients tell that
        have held a lock, or waited for it, for more than a second; or all keys, with a rest as
        long as each page took. (default scan; scan, clients, slowly; backends: redis,
        redis+sentinel)
    redlock_fencing
        Give each grant a token; a second round trip where nodes disagree. Off: tokens are 0.
        (default False; backends: redlock)
    zookeeper_acl
        Who may touch the nodes we create. (default open; open, creator; backends: zookeeper)
    zookeeper_auth
        How auth.username and its password are shown: ZooKeeper's own digest scheme, or SASL's
        DIGEST-MD5 where libzookeeper has it. (default digest; digest, sasl; backends: zookeeper)
    memcached_protocol
        Which commands to use: meta ones where the server has them, and for stores where it may
        evict (auto), always, or never. (default auto; auto, meta, classic; backends: memcached,
        memlock)
    memcached_key_encoding
        How to send names: escaped where memcached's keys can't carry them, all of them in base64,
        or as they are (none), and refuse others. (default escaped; none, base64, escaped;
        backends: memcached, memlock)
    file_slots
        How many holders and waiters the file has room for, fixed when it is created. (default
        1024; 16..65536; backends: file)
    file_mode
        The file's mode when it is created: for one user, a group, or everybody. (default 0600;
        0600, 0660, 0666; backends: file)
    postgres_database
        The database that has the schema dlock. (default the URI's path, else the user's name; at
        most 63 bytes; backends: postgres)
    postgres_tls
        Speak TLS to the server: always (on), never, or to any but this machine (auto). (default
        auto; auto, on, off; backends: postgres)
    postgres_synchronous
        A grant and each renewal waits until a standby has it on its disk; without one to wait for
        (synchronous_standby_names) nothing is granted. (default False; backends: postgres)
    postgres_install
        Make the schema dlock, and its two roles, where they are missing or of an older version;
        what `dlock doctor --install` sets. (default False; backends: postgres)
    postgres_layout
        Rows of the schema dlock, or advisory locks, as other programs take them: no tokens, no
        line. (default table; table, advisory; backends: postgres)
    """

    require: Literal['efficiency', 'fencing', 'correctness']
    prefix: str
    name: str
    lazy: bool
    timeout: Seconds
    timeout_ms: int
    connect: Seconds
    connect_ms: int
    close: Seconds
    close_ms: int
    deadlock: Literal['off', 'report', 'break-youngest']
    deadlock_ms: int
    poll: Seconds
    poll_ms: int
    retry: Seconds
    retry_ms: int
    backoff_min: Seconds
    backoff_min_ms: int
    backoff_max: Seconds
    backoff_max_ms: int
    events: int
    log_level: Literal['off', 'error', 'warn', 'info', 'debug']
    debug: str
    order: Literal['off', 'warn', 'error']
    auth_username: str
    auth_password: str
    auth_password_file: str | os.PathLike[str]
    auth_password_env: str
    auth_sentinel_username: str
    auth_sentinel_password: str
    auth_sentinel_password_file: str | os.PathLike[str]
    auth_sentinel_password_env: str
    tls_verify: Literal['full', 'chain', 'insecure_none']
    tls_ca_file: str | os.PathLike[str]
    tls_ca_dir: str | os.PathLike[str]
    tls_crl_file: str | os.PathLike[str]
    tls_cert_file: str | os.PathLike[str]
    tls_key_file: str | os.PathLike[str]
    tls_key_password_file: str | os.PathLike[str]
    tls_server_name: str
    tls_min_version: Literal['1.2', '1.3']
    redis_db: int
    redis_wait: Literal['pubsub', 'poll']
    redis_notify: bool
    redis_publish: Literal['auto', 'publish', 'spublish', 'both']
    redis_handover: bool
    redis_open_turn: int
    redis_claim: Seconds
    redis_claim_ms: int
    redis_fair_wait: Seconds
    redis_fair_wait_ms: int
    redis_token_keep: Seconds
    redis_token_keep_ms: int
    redis_client_key: bool
    redis_list: Literal['scan', 'clients', 'slowly']
    redlock_fencing: bool
    zookeeper_acl: Literal['open', 'creator']
    zookeeper_auth: Literal['digest', 'sasl']
    memcached_protocol: Literal['auto', 'meta', 'classic']
    memcached_key_encoding: Literal['none', 'base64', 'escaped']
    file_slots: int
    file_mode: str
    postgres_database: str
    postgres_tls: Literal['auto', 'on', 'off']
    postgres_synchronous: bool
    postgres_install: bool
    postgres_layout: Literal['table', 'advisory']
