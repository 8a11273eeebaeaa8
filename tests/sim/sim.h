/*
 * A simulator for the decisions of libdlock: many clients, one lock service, a network that
 * delays, loses, repeats and delivers late, clocks that drift and jump, processes that stop and
 * die; all in one thread and driven by one 64-bit seed. One seed is one run, bit for bit.
 *
 * True time is `s.now` (ns). Each client and the server read clocks of their own, which run a
 * little fast or slow. What the clients do is the real code of libdlock/locks. The lock service
 * is, by mode:
 *
 *     mem, file   the real table and its client of libdlock/backends/local, in memory; what is
 *                 modelled is the kernel below it (seam.h): mutex, futex, pidfds, time
 *     redis       the real client of libdlock/backends/redis, with every kind of lock that it has;
 *                 what is modelled are its connections (stream.c, net.c) and the server, which
 *                 runs the real scripts (server.c, redis_model/)
 *     zookeeper   the real client of libdlock/backends/zookeeper, with every recipe of every
 *                 layout; what is modelled is all below its wire.h: the client library and an
 *                 ensemble of three (zookeeper/)
 *     memcached   the real client of libdlock/backends/memcached, with every kind of lock, by the
 *                 meta commands and by the classic ones; what is modelled are its connections, as
 *                 with redis, and the server (memcached/)
 *     etcd        the real client of libdlock/backends/etcd, with every kind of lock; what is
 *                 modelled is all below net/http2.h: streams on one connection, and a cluster of
 *                 three (etcd/)
 *     redlock     the real client of libdlock/backends/redlock and in it those of redis, with and
 *                 without fencing; modelled are its connections, as with redis, and three or five
 *                 servers (redlock/)
 *
 * Faults are aimed at requests: whenever a client asks for something, it is drawn whether a fault
 * strikes that request, and where on its way. So it is known which step of a grant's life each
 * fault hit, and a fault has a name (client and number of the request) that shrinking can use.
 */
#ifndef SIM_H
#define SIM_H

#include "backends/local/inner.h"
#include "backends/redis/inner.h"
#include "locks/core.h"
#include "redis_model/model.h"
#include "util/clock.h"
#include "util/list.h"

#include <stdio.h>

#define MS          DLK_NS_PER_MS
#define SEC         DLK_NS_PER_SEC
#define MAX_CLIENTS 6
#define MAX_ACTORS  4 /* a client */
#define MAX_NAMES   3
#define MAX_HELD    256 /* holders of a name that are looked at */
#define SIM_NODES   5   /* of one service; so many connections a client may have */
#define MAX_LINE    (MAX_CLIENTS * MAX_ACTORS * 4)
/* Longer than the default, so that a lost wake-up isn't hidden by the next poll. */
#define SIM_POLL_MS      5000
#define SIM_POLL_TEXT    "5000"
#define SIM_PERMITS      3
#define SIM_PERMITS_TEXT "3"
#define NOBODY           (-1)
#define UNNAMED          (-2)
#define SERVER           (-1)
#define ALL_NAMES        (-1)

typedef enum mode {
    MODE_MEM,
    MODE_FILE,
    MODE_REDIS,
    MODE_ZOOKEEPER,
    MODE_MEMCACHED,
    MODE_ETCD,
    MODE_REDLOCK,
    MODE_COUNT
} mode;
extern const char *const mode_names[MODE_COUNT];

/* What kind of lock a run is about; each has its settings and its own idea of who holds what. */
typedef enum kind {
    KIND_HANDOVER, /* a mutex, as it is by default */
    KIND_MUTEX,    /* … for which all race */
    KIND_STRING,
    KIND_RW,
    KIND_PERMITS,
    KIND_SEMAPHORE, /* without leases */
    KIND_FAIR,
    KIND_ELECTION,
    KIND_TIMESTAMP,
    KIND_RUEIDIS,
    KIND_REPLICATED, /* a mutex that a replica has, too; it has rows of its own */
    KIND_MOVED, /* … in a cluster whose slots move: some requests are sent on; the same */
    KIND_MOVED_FAIR,
    KIND_MOVED_RW,
    KIND_MOVED_CONDITION,
    KIND_CONDITION, /* the same */
    KIND_KEPT,      /* a mutex that half of the clients keep; the same */
    /* from here on ZooKeeper's */
    KIND_CURATOR,
    KIND_CURATOR_RW,
    KIND_CURATOR_PERMITS,
    KIND_CURATOR_SINGLE, /* Curator's mutex that isn't reentrant: one permit */
    KIND_LATCH,
    KIND_SELECTOR,
    KIND_KAZOO,
    KIND_KAZOO_RW,
    KIND_KAZOO_ELECTION,
    KIND_BRIDGE,
    KIND_BRIDGE_ELECTION,
    KIND_EXCLUSIVE,
    KIND_EXCLUSIVE_ELECTION,
    KIND_PATTERN, /* many names below one parent, and nothing in a node's name says whose it is */
    KIND_PATTERN_RW,
    KIND_PATTERN_ELECTION,
    KIND_ZK_CONDITION,
    KIND_ZK_KEPT, /* as KIND_KEPT */
    KIND_ZK_KEPT_BRIDGE,
    /* from here on memcached's */
    KIND_MC_MUTEX,
    KIND_MC_RW,
    KIND_MC_PERMITS,
    KIND_MC_ELECTION,
    KIND_MC_CLASSIC, /* by the commands of before 1.6.12 */
    KIND_MC_CLASSIC_RW,
    KIND_MC_CLASSIC_PERMITS,
    /* from here on etcd's */
    KIND_ETCD_MUTEX,
    KIND_ETCD_ELECTION,
    KIND_ETCD_RW,
    KIND_ETCD_PERMITS,
    KIND_ETCD_CONDITION,
    KIND_ETCD_KEPT, /* as KIND_KEPT */
    /* from here on Redlock's */
    KIND_REDLOCK,
    KIND_REDLOCK_FENCING,
    /* from here on the table's, which has KIND_MUTEX too */
    KIND_TABLE_RW,
    KIND_TABLE_PERMITS,
    KIND_COUNT
} kind;
#define KIND_REDIS_COUNT KIND_CURATOR
#define KIND_REDIS_DRAWN KIND_REPLICATED
#define KIND_SETTINGS    4

typedef struct kind_info {
    const char *name;
    dlock_kind kind;
    const char *settings[KIND_SETTINGS]; /* key, value, … */
    int permits;                         /* of a semaphore; 0: SIM_PERMITS */
} kind_info;
extern const kind_info kinds[KIND_COUNT];

/* ---- what may go wrong ---- */
typedef enum fault {
    FAULT_NONE = -1,
    /* one request and its answer */
    FAULT_DROP_REQUEST, /* the connection breaks before the request arrives */
    FAULT_DROP_REPLY,   /* … after it was sent and carried out */
    FAULT_LATE_REQUEST, /* broken, and yet the request arrives later */
    FAULT_DUPLICATE,    /* carried out twice, and then asked once more by the retry */
    FAULT_SLOW,         /* request or answer takes up to seconds */
    /* a client's connections */
    FAULT_HALF_OPEN,   /* nothing arrives on either side and nobody is told */
    FAULT_DEAF,        /* requests arrive, answers don't */
    FAULT_REORDER,     /* notifications overtake answers, or fall far behind */
    FAULT_NO_NEWS,     /* notifications are lost */
    FAULT_NEWS_CUT,    /* their connection breaks */
    FAULT_UNREACHABLE, /* cut, and no new connection for a while */
    /* the server */
    FAULT_FREEZE,
    FAULT_REFUSE,       /* answers "loading" for a while */
    FAULT_RESTART,      /* with its state */
    FAULT_WIPE,         /* … without any */
    FAULT_EVICT,        /* one key goes: the lock, or the counter of its tokens */
    FAULT_FAILOVER,     /* to a replica that lags behind */
    FAULT_SERVER_CLOCK, /* its time of day jumps, and with it its leases */
    FAULT_BREAK,        /* an operator takes the lock away */
    /* a client's process */
    FAULT_PAUSE,        /* stopped, or given no processor */
    FAULT_SUSPEND,      /* its machine sleeps: the boot clock runs on, timers come late */
    FAULT_STARVE,       /* its timers come late for a while */
    FAULT_CLIENT_CLOCK, /* its time of day jumps */
    FAULT_CLOSE,        /* it closes, and another one opens */
    FAULT_DEATH,        /* killed */
    /* the table's mutex */
    FAULT_DEATH_INSIDE, /* killed inside it */
    FAULT_STOP_INSIDE,  /* stopped inside it */
    FAULT_REBUILD,      /* the table is rebuilt, which must change nothing */
    FAULT_SPURIOUS,     /* woken for nothing */
    /* an ensemble (behind the others, whose bits stand in tests/sim/regressions) */
    FAULT_EXPIRE, /* a client's session is ended */
    FAULT_LEADER, /* the leader dies */
    FAULT_LAG,    /* a server falls behind, or is cut off from its leader */
    /* a server that keeps a history */
    FAULT_COMPACT, /* it is forgotten, up to now */
    FAULT_COUNT,
} fault;
#define FAULT_BIT(what)    (UINT64_C(1) << (what))
#define FAULT_SINGLE_COUNT FAULT_EXPIRE /* of services that are one server, or none */

typedef struct fault_info {
    const char *name;
    const char *not_in[MODE_COUNT]; /* why it can't be there; NULL: it can */
} fault_info;
extern const fault_info fault_infos[FAULT_COUNT];

/* Which step of a grant's life a request belongs to. */
typedef enum step {
    STEP_ACQUIRE,
    STEP_RENEW,
    STEP_RELEASE,
    STEP_CANCEL, /* giving back what was never held: the wait was cancelled or ran out of time */
    STEP_IDLE, /* no request: the fault came by itself */
    STEP_COUNT
} step;
extern const char *const step_names[STEP_COUNT];

/* One fault: whose which request was struck by what. Client 0 is nobody's. */
typedef struct struck {
    uint32_t who, nth;
    fault what;
} struck;

typedef struct config {
    uint64_t seed;
    mode mode;
    kind kind;
    int clients, actors, names;
    int64_t duration; /* ns of true time during which faults happen */
    uint64_t faults;  /* bit set of what may happen */
    bool hands_on;    /* some grants are handed on to another client */
    bool chosen;      /* only what is in `only`, instead of drawing */
    const struct struck *only;
    size_t only_count;
} config;

typedef struct totals {
    int64_t runs;
    int64_t decided[STEP_COUNT]; /* requests that the server or table decided */
    int64_t acquires, grants, reentries, losses, timeouts, cancels, unknowns;
    int64_t stale_refused, writes, events;
    int64_t faults[MODE_COUNT][FAULT_COUNT][STEP_COUNT];
    int64_t recoveries;
    int64_t runs_of[MODE_COUNT],
        of_kind[KIND_COUNT]; /* runs; requests decided: ZooKeeper's */
    uint64_t hash;           /* of the whole story */
} totals;

/* A grant and the hold that is made with it. */
typedef struct sim_grant {
    dlk_grant grant;
    dlk_hold first;
} sim_grant;

/* ---- events ---- */
typedef struct event event;
struct event {
    dlk_timer timer;
    int64_t at;
    uint64_t order; /* equal times happen in the order they were made */
    void (*run)(event *event);
    void *of;
    int64_t number;
    bool loose; /* nobody's: freed when it has run, or with the run */
};

/* ---- the model server ---- */
typedef struct server {
    double rate;        /* of its clock to true time */
    int64_t wall;       /* … and how far it was set */
    bool wall_was_back; /* set back at some time */
    int64_t set_back;   /* by so much in all */
    model model;
    model_keys snapshot;
    int64_t snapshot_at;
    int64_t frozen_until, refuses_until; /* true time */
    int64_t down_until;                  /* no connection is accepted */
    int64_t thaws, busy_until;
} server;

/* Which connection of a client it is; where there are several nodes, by the node. */
enum {
    WIRE_COMMANDS,
    WIRE_MESSAGES,
};

/* A connection of a client of Redis, memcached, Redlock or etcd. */
typedef struct wire {
    dlk_list all; /* in sim.wires */
    int fd;
    struct client *owner;
    int generation;
    int slot;
    server *server;
    enum { WIRE_DIALLING, WIRE_REFUSED, WIRE_UP, WIRE_CUT, WIRE_CLOSED } state;
    bool silent, deaf;
    bool orphaned; /* the process that it led to is gone: nothing on its way arrives */
    dlk_buf inbox, outbox; /* bytes that wait to be read; a command that isn't whole */
    int64_t position;      /* bytes of whole commands so far */
    int64_t up_since;
    int64_t request_front, reply_front; /* nothing overtakes on one connection */
    int64_t heard_until; /* cut: so long the server believes that somebody listens */
    char **channels;
    size_t channel_count, channel_room;
} wire;

/* ---- the table's processes ---- */
/* Someone in the line of a table's lock, as the answers told it. */
typedef struct waiting {
    int client;
    uint64_t number;
    bool leaving;         /* asks to leave, or has */
    uint64_t began, told; /* when it asked, and was told to wait: counted, not timed */
} waiting;

#define MAX_SHARES 256

typedef struct table {
    dlk_table view; /* nobody's: to look at it */
    char *memory;
    int inside;            /* client in the mutex, NOBODY, or OPERATOR */
    bool inside_died;      /* … and was killed there */
    int64_t stopped_until; /* when the last one who stopped inside went on */
    waiting line[MAX_NAMES][MAX_LINE];
    int line_size[MAX_NAMES];
    uint64_t turns; /* counts questions and answers */
    dlk_record last[MAX_NAMES];
    /* The place's word, when those who share were seen to have got theirs. */
    uint64_t shares[MAX_SHARES];
    bool recovered; /* rebuilt since it was last looked at */
    uint32_t pids;
} table;

/* ---- clients ---- */
typedef struct client client;

typedef enum mood {
    MOOD_THINKING,
    MOOD_WAITING,
    MOOD_HOLDING,
    MOOD_RELEASING,
    MOOD_GONE
} mood;

typedef struct actor {
    client *client;
    int index, name;
    mood mood;
    dlk_rand rand;
    dlk_wait wait, reentry;
    dlk_hold *hold, *again; /* again: a re-entry */
    event next;             /* what it does next */
    int writes_left;
    int64_t asked_at, deadline;
    int64_t write_token; /* a checked write on its way to the resource … */
    int write_name;      /* … of this name */
    event write;
} actor;

/* One end of a table: a process with a backend of its own. */
typedef struct process {
    dlk_host host;
    dlk_kicks kicks;
    dlk_local *local;
    dlk_table view; /* its own, with its pid */
    char uuid[40], name[40];
    dlk_futex *parked; /* what its driver sleeps on, NULL: awake */
    event wake;
    event watcher; /* the step of its watch's thread */
    bool watching;
    int64_t next_tick;
    /* What the backend has told and nobody has digested yet. */
    unsigned news; /* a bit for each name */
    bool link_changed, link_up;
    dlock_error *link_error;
} process;

struct client {
    int index;
    int generation; /* grows with each death */
    dlk_core core;
    dlk_rand rand; /* of its wire */
    double rate;
    int64_t offset, wall;
    dlk_name *names[MAX_NAMES];
    actor actors[MAX_ACTORS];
    event tick;
    int64_t up_since;

    int64_t paused_until, starved_until;
    int64_t upset_at; /* true time of the last thing that excuses a late wake-up */
    int blocked;      /* its stack is in the middle of something */
    bool dead, closing;
    event end; /* when it is replaced */

    /* a service behind a wire */
    dlk_settings *settings;
    dlk_host host;
    dlk_kicks kicks;
    char uuid[DLK_UUID_SIZE];
    struct dlk_zk *zk;
    int64_t session_ms;
    dlk_backend *backend;   /* of those that live by life.c */
    wire *wires[SIM_NODES]; /* the last of each */
    event drive;            /* its driver reads and digests */
    dlk_list answers;       /* dlk_ask.link, to be digested */
    dlk_list detours;       /* redis.c: what another node has been asked */
    int64_t unreachable_until, news_lost_until, news_odd_until;
    bool news_late;

    /* mem, file; of the others: what the backend has told and nobody has digested, next_tick */
    bool connected;
    process process;
    /* at a named point of the request under way; zookeeper: at one of the next */
    fault strike;
    step strike_at;
    int points_left;
    /* Counted by table.turns: its last acquire, grant, and place in the line. */
    uint64_t began[MAX_NAMES], given[MAX_NAMES], placed[MAX_NAMES],
        place_began[MAX_NAMES];
    int asking;       /* the name */
    uint64_t imports; /* the number that it imports by, in the ask that is carried out */
    char *image;      /* the table when it died, put back when its stack has unwound */
};

/* Which token was given to whom. */
#define MAX_GIVEN 32
typedef struct given {
    int sender;
    uint64_t number;
    int64_t token, before; /* the last, and one that was lost and may come back */
    int64_t at;            /* when the last was given */
} given;

/* A service behind a wire: a client's end of it, and the rest. */
typedef struct holder holder;
struct dlk_dial;
typedef struct service {
    const dlk_backend_type *type;
    void (*begin)(void);
    void (*end)(void);
    void (*heal)(void); /* NULL: sim.server's times are all there is */
    void (*join)(client *client);
    void (*start)(client *client);
    void (*stop)(client *client); /* what is in flight is answered */
    void (*free)(client *client);
    void (*key_open)(client *client, dlk_key *key);
    void (*key_close)(client *client, dlk_key *key);
    void (*ask)(client *client, dlk_ask *ask, int64_t now);
    void (*watch)(client *client, dlk_key *key, bool on, int64_t now);
    void (*tick)(client *client);
    void (*wake)(client *client); /* its driver: something has come over net.c's wires */
    int64_t (*after)(
        client *client); /* sends what waits; the deadline of what is in flight */
    /* Over net.c's wires: to which node it dials, of several; and NULL, or takes what is sent. */
    int (*dials)(const client *client, const struct dlk_dial *dial);
    void (*sent)(wire *wire, size_t size);
    bool (*idle)(const client *client); /* it waits for no answer */
    bool (*hears)(
        const client *client); /* it would be told at once, and has been for long */
    void (*cut)(client *client, const char *why);
    void (*cut_news)(client *client);
    void (*silence)(client *client, bool both_ways);
    bool (*is_quiet)(const client *client); /* silent or deaf */
    void (*died)(client *client);
    bool (*spurious)(client *client, int name);
    bool (*fault)(fault what, dlk_rand *dice, client *client, int name); /* a server's */
    int (*holders)(int name, holder *ret);                               /* MAX_HELD */
    void (*watchdog)(int name);    /* promises of its own; NULL: none */
    void (*told)(const actor *me); /* likewise, when a caller is told that it holds */
    /* Whoever stands in line is well: nobody is waited for that can't come. */
    bool (*attends)(int name);
    void (*check_rest)(void);
} service;

/* A grant that was handed on: who gave it, '' when somebody has taken it; and what it was. */
typedef struct ticket {
    char giver[DLK_UUID_SIZE + 24];
    bool shared;
    int32_t take;
} ticket;

typedef struct sim {
    config config;
    const service *service; /* NULL: the table */
    totals totals;
    int64_t now;
    dlk_heap events;
    uint64_t order, sequence;
    dlk_rand rand;
    server server;
    server nodes
        [SIM_NODES]; /* of a service that has several, which know nothing of each other … */
    int node_count; /* … so many; 0: it is one, `server` */
    table table;
    process operator;
    client clients[MAX_CLIENTS];
    client *running;                 /* whose code is in the table */
    uint32_t asked[MAX_CLIENTS + 1]; /* names the faults */
    int64_t failed_over_at;
    int64_t state_lost_at[MAX_NAMES]; /* true time of the last wipe, break, jump … */
    int64_t orphans_until[MAX_NAMES]; /* … and how long it may leave something behind */
    int64_t grants_of[MAX_NAMES];
    int64_t free_since[MAX_NAMES], free_grants[MAX_NAMES];
    bool given_back[MAX_NAMES]; /* redis: free, and not because a lease only ran out */
    int64_t orphan_since[MAX_NAMES];  /* held for nobody; 0: not so */
    int64_t unheard_since[MAX_NAMES]; /* given to who doesn't know; 0: not so */
    ticket tickets[MAX_NAMES];        /* of who was handed on last */
    int64_t resource[MAX_NAMES];      /* the highest token that wrote */
    int64_t granted_token[MAX_NAMES]; /* the highest ever given */
    int64_t told_token[MAX_NAMES];    /* kept: the highest with which a caller had it */
    int64_t kept_from_others
        [MAX_NAMES]; /* kept: since when one keeps it that others want; 0: not so */
    given given[MAX_NAMES][MAX_GIVEN]; /* the last grants that had one */
    uint64_t given_count[MAX_NAMES];
    bool ending;
    char violation[512];
    int violated_name;
    struct struck *struck; /* all of this run */
    size_t struck_count, struck_room;
    dlk_list limbo; /* message.link: all that are on their way */
    dlk_list wires;
    int fds;
} sim;
extern sim s;

/* ---- sim.c: time and chance ---- */
uint64_t mix(uint64_t seed, uint64_t a, uint64_t b);
bool chance(dlk_rand *rand, int in_thousand);
int64_t between(dlk_rand *rand, int64_t low, int64_t high);
void event_at(event *event, int64_t at, void (*run)(struct event *), void *of);
void event_cancel(event *event);
event *event_new(void); /* a loose one */
void go_until(int64_t end);
void events_free(void);

/* ---- story.c: what happened ---- */
extern bool telling; /* keep the text, not only its hash */
void note(int line, int who);
void tell_text(int who, int name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Of client @p who, or SERVER, about a name or ALL_NAMES. */
#define tell(who, name, ...)                                                             \
    do {                                                                                 \
        note(__LINE__, (who));                                                           \
        if (telling)                                                                     \
            tell_text((who), (name), __VA_ARGS__);                                       \
    } while (0)
void violated(int name, const char *format, ...) __attribute__((format(printf, 2, 3)));
void story_begin(void);
void show_story(FILE *to);    /* all of it, as far as it is kept */
void show_timeline(FILE *to); /* its end, one column a client */
const char *verb_name(dlk_verb verb);
const char *reply_name(dlk_reply reply);

/* ---- faults.c: when they strike ---- */
void faults_begin(void);
/* What strikes the request that a client is about to make. */
fault fault_draw(client *client, step at);
/* Does what isn't the wire's or the mutex's own business. False: it can't be just now. */
bool fault_apply(fault what, client *client, int name);
void fault_count(fault what, step at);
bool server_fault(fault what, dlk_rand *dice, client *client, int name); /* Redis' */
bool fault_is_of_wire(fault what);
step step_of(const dlk_ask *ask);
void nemesis_begin(void);

/* ---- client.c ---- */
int64_t sim_time(void); /* of the machine of mem and file */
int64_t client_time(const client *client);
int64_t true_time(const client *client, int64_t local);
void client_init(client *client, int index);
void client_free(client *client);
void client_after(client *client);  /* sees to the next tick */
void client_digest(client *client); /* what its backend has told */
void client_kill(client *client);
void client_close(client *client);
void client_upset(client *client, int64_t until);
void client_pause(client *client, int64_t ns);
void client_suspend(client *client, int64_t ns);
bool client_stopped(const client *client);
bool client_put_off(const client *client,
                    event *event); /* until it is no longer stopped */
bool client_has_grant(const client *client, uint64_t number);
/* That of the holder; one that it waits for, if the holder has no number. */
bool client_knows(const client *client, int name, const holder *holder);
bool client_waits_for(const client *client, int name, const holder *holder);
bool client_holds(const client *client, int name, int64_t token);

/* ---- who has what ---- */
struct holder {
    int client; /* NOBODY: of none that lives; UNNAMED: the service doesn't know whose */
    uint64_t number; /* 0: not known */
    int64_t token;   /* where that says which grant it is; else 0 */
};

/* ---- kinds.c ---- */
bool kind_is_there(kind which); /* in this version */
mode kind_mode(kind which);     /* whose it is; the table's are redis' */
bool kind_counts(void);         /* permits … */
int kind_permits(void);         /* … so many */
bool kind_signals(void);
bool kind_keeps(void); /* half of the clients keep what they have had */ /* conditions */
bool kind_has_sides(void);
bool kind_is_fair(void);
bool kind_moves(void); /* its slots do */
/* What its names are to a client, and whether one of another kind was refused for that. */
dlock_kind kind_of_client(const client *c);
bool kind_is_refused(const dlock_error *error);
bool kind_forgets(void); /* who died gives back, when its lease ends */
int server_holders(int name, holder ret[MAX_HELD]);
/* "<uuid>:<number>": whose it is; false: none of ours. */
bool owner_named(const dlk_arg *text, holder *ret);

/* ---- host.c: what backends tell ---- */
dlk_settings *settings_of(kind which);
void host_begin(client *client);
void host_count(const client *client, const dlk_ask *ask);

/* ---- life.c: what clients have in common whose requests go over net.c's wires ---- */
/* As if the client's own thread ran. */
#define AS(c, call)                                                                      \
    do {                                                                                 \
        client *before_ = s.running;                                                     \
        s.running = (c);                                                                 \
        call;                                                                            \
        s.running = before_;                                                             \
    } while (0)
void life_join(client *client, const char *address);
void life_start(client *client);
void life_stop(client *client);
void life_free(client *client);
void life_key_open(client *client, dlk_key *key);
void life_key_close(client *client, dlk_key *key);
void life_tick(client *client);
void life_wake(client *client); /* its driver */
void life_flush(client *client);
void life_ask(client *client, dlk_ask *ask, int64_t now);
void life_watch_nothing(client *client, dlk_key *key, bool on, int64_t now);

/* ---- redis.c: a client's end ---- */
extern const service redis_service;
bool redis_hears(const client *client);
dlk_redis *redis_of(const client *client);

/* ---- zookeeper/client.c ---- */
extern const service zk_service;

/* ---- memcached/client.c ---- */
extern const service mc_service;

/* ---- etcd/client.c ---- */
extern const service etcd_service;

/* ---- redlock/client.c ---- */
extern const service redlock_service;

/* ---- net.c: the wires ---- */
wire *net_dial(client *client, int slot);
/* Arms, writes and reads: all of a round but `process`. */
void sim_drive(dlk_backend *backend);
wire *net_wire(int fd);
void net_send(wire *wire, const char *data, size_t size);
void net_close(wire *wire);
void net_cut(client *client, const char *why);
void net_cut_news(client *client);
void net_silence(client *client, bool both_ways);
void net_silence_wire(wire *wire, bool both_ways);
void net_cut_wire(wire *wire, const char *why); /* this one alone */
void net_break_wire(wire *wire);                /* … which both notice a while later */
bool net_is_quiet(const client *client);        /* silent or deaf */
void net_died(client *client);
void net_orphan(void); /* the server's process is gone, and what was on its way there */
bool net_spurious(client *client, int name);
int64_t net_publish(void *world, const dlk_arg *channel, const dlk_arg *text);
int64_t net_listeners(void *world, const dlk_arg *channel);
void net_free(void);

/* ---- server.c ---- */
int64_t server_time(void);
void server_begin(void);
void server_end(void);
struct message;
void server_apply(struct message *message, dlk_buf *answer);
model *server_model(void);
const dlk_key *server_key(int name);
/* The name of a derived key of its form. */
const char *server_derived(int name, int index);
void server_restart(void);
void server_wipe(void);
bool server_break(int name);
bool server_evict(int name, bool counter);
void server_failover(void);
void server_snapshot(void);

/* ---- table.c ---- */
void table_begin(void);
void table_end(void);
void table_join(client *client);
void table_leave(client *client); /* in good order */
void table_free(client *client);
void table_ask(client *client, dlk_ask *ask, int64_t now);
void table_died(client *client); /* the kernel lets the others know */
bool table_wake(client *client);
bool table_watch(client *client); /* seam.c: wakes its watch's thread */
void table_start(client *client);
void table_tick(client *client);

/* ---- outside.c: the table seen from outside ---- */
waiting *line_find(int name, int client, uint64_t number);
void line_stay(const client *client, int name, uint64_t number);
void line_leave(int name, int client, uint64_t number);
void line_forget(const client *client);
void table_look(void); /* at every commit */
int table_holders(int name, holder ret[MAX_HELD]);
/* Somebody has it by its record or its place, and it is over, or a dead one's. */
bool table_has_remains(int name);
/* Whoever is next among those who share could have what it wants; NOBODY: none, or it can't. */
int table_next_fits(int name);
bool table_break(int name);
bool table_rebuild(void);
void table_check_rest(void);

/* ---- check.c: the promises ---- */
/* Those who have it, as the service sees it: how many, and the first of them. */
int service_holders(int name, holder ret[MAX_HELD]);
bool service_holder(int name, holder *ret);
/* What somebody is given. */
typedef struct wish {
    int client; /* NOBODY: of none that lives */
    int sender; /* stands for the client, dead or alive */
    uint64_t number;
    bool shared;
    int32_t take;
} wish;
bool is_local(void);
const dlk_traits *sim_traits(void); /* the type's own: what its clients have to go by */
bool has_sessions(void);            /* a client's locks go with what it keeps alive */
/* The service gives the lock to this grant now. */
void check_given(int name, const wish *what, int64_t token);
bool is_calm(int64_t until); /* that was long enough ago for polls to have mended it */
bool service_is_calm(void);
bool client_is_well(const client *client);
bool client_is_reachable(const client *client);
/* Nothing excuses that it should know less of this name, or do less, than it could. */
bool client_has_no_excuse(const client *client, int name);
/* Whoever has got it hears of it in time. */
void check_place_heard(int name);
/* The caller is told that it holds it. */
bool tokens_may_repeat(void);
bool waits_long(const client *client, int name);
void kept_told(const actor *me); /* kept.c */
void kept_watch(int name);
void check_told(const actor *me);
/* It is about to rely on it: the service says so, too. */
void check_backed(const actor *me);
void check_lost(const client *c, const dlk_grant *grant);
void state_lost(int name, int64_t orphans_for);
bool state_lost_of_late(int name);
/* What was given back may lie there again for so long. */
void orphans_may_last(int name, int64_t ns);
void watchdog_begin(void);
void check_rest(void);

/* ---- conditions.c ---- */
void conditions_begin(void);
void conditions_watch(int name);

/* ---- tallies.c: the same where signals are counted ---- */
typedef struct stander {
    int64_t place;          /* by which the line is ordered */
    int client, generation; /* who has asked for it */
    uint64_t number;
} stander;
void tallies_begin(void);
/* How many at the head of the line are signalled. */
int tally_signalled(const char *text, const stander *who, int count);
/* What lies there has changed by a request of the client @p by, or NOBODY's. */
void tally_seen(int name, int by, const stander *who, int count, const char *text);
/* Who is about to give back its place has said that its signal was used. */
void tally_used(const client *client, const dlk_grant *grant);
/* For a signal that is about to be asked for, and when it is answered. */
dlk_query *tally_signal(int name);
void tally_told(const client *client, const dlk_query *query);

/* ---- lines.c: what Redis' scripts keep ---- */
void lines_begin(void);
void lines_forget(int name); /* the state is lost, and the line with it */
void check_line(const struct message *message); /* after each request */
bool lines_attend(int name);
void lines_told(const dlk_arg *channel, const dlk_arg *text);
bool lines_were_lost(uint64_t since);
void server_check_rest(void);

/* ---- actor.c ---- */
void actor_init(actor *actor, client *client, int index);
void actor_over(client *client, dlk_wait *wait);
void actors_stop(client *client);
void actors_hurry(client *client, int name);
bool actor_idle(const actor *actor);

/* ---- run.c ---- */
bool run(const config *how, totals *ret); /* false: violated */

/* ---- shrink.c ---- */
/* Of a mode, or MODE_COUNT + kind; which < 0: by the seed. */
config config_of(uint64_t seed, int which);
extern bool
    sim_hands_on; /* all of Redis' locks that can be handed on, and in every run */
void config_print(FILE *to, const config *how);
bool config_parse(const char *text, config *ret, struct struck **ret_only);
/* The shortest schedule found that still fails, within so many seconds. The faults are in *ret_only. */
config shrink(config failing, double seconds, struct struck **ret_only);
double seconds_now(void);

#endif
