/*
 * A simulator for the decisions of libdlock: many clients, one model server, a network that
 * delays, loses and delivers late, and clocks that drift, all in one thread and driven by one
 * 64-bit seed. One seed is one run, bit for bit.
 *
 * True time is `sim.now` (ns). Each client and the server read clocks of their own, which run a
 * little fast or slow. What the clients do is the real code of libdlock/locks; what is modelled
 * is the server, the wire and the callers.
 */
#ifndef SIM_H
#define SIM_H

#include "locks/core.h"
#include "util/clock.h"
#include "util/list.h"

#include <stdio.h>

#define MS          DLK_NS_PER_MS
#define SEC         DLK_NS_PER_SEC
#define MAX_CLIENTS 6
#define MAX_ACTORS  4 /* a client */
#define MAX_NAMES   3
/* Longer than the default, so that a lost wake-up isn't hidden by the next poll. */
#define SIM_POLL_MS 5000

/* ---- what may go wrong ---- */
typedef enum fault {
    FAULT_DROP_REQUEST, /* the connection breaks before the request arrives */
    FAULT_DROP_REPLY,   /* … after it was carried out */
    FAULT_LATE_REQUEST, /* broken, and yet the request arrives later */
    FAULT_SILENCE,      /* half-open: nothing arrives and nobody is told */
    FAULT_PAUSE,        /* a client's process is stopped */
    FAULT_DEATH,        /* a client dies and another one takes its place */
    FAULT_FREEZE,       /* the server stands still */
    FAULT_RESTART,      /* … restarts with its state */
    FAULT_WIPE,         /* … without any */
    FAULT_ROLLBACK,     /* … with the state of a while ago, as a lagging replica */
    FAULT_REFUSE,       /* answers "loading" for a while */
    FAULT_NO_NEWS,      /* notifications are lost */
    FAULT_BREAK,        /* an operator deletes the lock */
    FAULT_COUNT,
} fault;
extern const char *const fault_names[FAULT_COUNT];

/* Which step of a grant's life a fault hit, for the count of what was covered. */
typedef enum step {
    STEP_ACQUIRE,
    STEP_RENEW,
    STEP_RELEASE,
    STEP_CANCEL,
    STEP_IDLE,
    STEP_COUNT
} step;

typedef struct config {
    uint64_t seed;
    int clients, actors, names;
    bool table;       /* the shared lease table instead of a server behind a network */
    int64_t duration; /* ns of true time during which faults happen */
    unsigned faults;  /* bit set of what may happen */
    bool verbose;     /* keep the whole story, not only its end */
} config;

typedef struct totals {
    int64_t operations, grants, losses, timeouts, cancels, unknowns, stale_refused,
        writes, events;
    int64_t faults[FAULT_COUNT][STEP_COUNT];
    uint64_t hash; /* of the whole story */
} totals;

/* ---- events ---- */
typedef struct event event;
struct event {
    dlk_timer timer;
    uint64_t order; /* equal times happen in the order they were made */
    void (*run)(event *event);
    void *of;
    int64_t number;
    bool loose; /* nobody's: freed when it has run, or with the run */
};

/* ---- the model server ---- */
typedef struct waiting {
    int client;
    uint64_t number;
    int64_t ttl_ms;
} waiting;

typedef struct record {
    bool held;
    int client;
    uint64_t number;
    int64_t ends_at; /* the server's clock */
    int64_t token;
    int64_t last_token; /* of the name; survives a release */
    waiting line[MAX_CLIENTS * MAX_ACTORS * 4];
    int line_size;
} record;

typedef struct server {
    double rate; /* of its clock to true time */
    record names[MAX_NAMES], snapshot[MAX_NAMES];
    int64_t frozen_until, refuses_until, quiet_until; /* true time */
    int64_t state_lost_at[MAX_NAMES]; /* true time of the last wipe, rollback, break */
    int64_t wall_floor;               /* tokens after a wipe begin at the wall clock */
    int64_t free_since[MAX_NAMES];
    int64_t orphan_since[MAX_NAMES]; /* held for nobody; 0: not so */
} server;

/* ---- clients ---- */
typedef struct message message;
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
    dlk_wait wait;
    dlk_hold *hold, *again; /* again: a re-entry */
    event next;             /* what it does next */
    int writes_left;
    int64_t asked_at, deadline;
    int64_t write_token; /* a checked write on its way to the resource */
    event write;
} actor;

struct client {
    int index;
    int generation; /* grows with each death */
    dlk_core core;
    double rate;
    int64_t offset;
    dlk_name *names[MAX_NAMES];
    bool watched[MAX_NAMES];    /* it wants to be told … */
    bool subscribed[MAX_NAMES]; /* … and the server knows */
    actor actors[MAX_ACTORS];
    int64_t paused_until;
    event tick;
    bool connected, silent;
    int64_t up_since;
    int epoch; /* grows with each connection */
    event reconnect;
    dlk_list in_flight;                 /* dlk_ask.link */
    int64_t request_front, reply_front; /* nothing overtakes on one connection */
    bool ticking;
};

typedef struct sim {
    config config;
    totals totals;
    int64_t now;
    dlk_heap events;
    uint64_t order;
    dlk_rand rand;
    server server;
    client clients[MAX_CLIENTS];
    int64_t resource[MAX_NAMES];      /* the highest token that wrote */
    int64_t granted_token[MAX_NAMES]; /* the highest ever given */
    int64_t thaws;
    bool ending;
    char violation[512];
    int64_t violated_at;
    char (*story)[160];
    size_t story_size, story_from;
    dlk_list limbo; /* message.link: all that are on their way */
} sim;
extern sim s;

#define STORY 400

/* ---- sim.c ---- */
bool chance(int in_thousand);
int64_t between(int64_t low, int64_t high);
void event_at(event *event, int64_t at, void (*run)(struct event *), void *of);
void event_cancel(event *event);
event *event_new(void); /* a loose one */
void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
void violated(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool fault_on(fault fault);
void count_fault(fault fault, step step);

/* ---- client.c ---- */
int64_t client_time(const client *client);
int64_t true_time(const client *client, int64_t local);
void client_init(client *client, int index);
void client_free(client *client);
void client_after(client *client); /* sees to the next tick */
void client_answer(client *client, int epoch, uint64_t sequence, const dlk_ask *answer);
void client_notified(client *client, int name);
void client_cut(client *client, const char *why);
void client_die(client *client);
void client_pause(client *client, int64_t ns);
bool client_stopped(const client *client);

/* ---- net.c ---- */
void net_send(client *client, const dlk_ask *ask);
void net_notify(int name);
void net_free(void);

/* ---- server.c ---- */
int64_t server_time(void);
void server_apply(int client, int generation, dlk_ask *ask);
void server_wipe(void);
void server_break(int name);
void server_rollback(void);
void server_snapshot(void);
void server_forget(int client);
int server_name(const dlk_ask *ask);
bool server_free(int name);

/* ---- actor.c ---- */
void actor_init(actor *actor, client *client, int index);
void actor_over(actor *actor);
void actors_stop(client *client);
bool actor_idle(const actor *actor);

/* ---- run.c ---- */
bool run(const config *how, totals *ret); /* false: violated; the story is in s */
void show_story(FILE *to);

#endif
