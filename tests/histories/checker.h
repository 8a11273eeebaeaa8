/* Judges a history: what several processes noted (history.h), and the log of who was started,
 * hurt and killed when (the nemesis' log, README.md). It can follow a run or be given a finished
 * one.
 *
 *   source.c   the log and the files, merged by time
 *   follow.c   keeps track of acquires, stays and locks, event by event
 *   rules.c    what must hold, each rule once
 *   main.c     the program */
#ifndef TESTS_HISTORIES_CHECKER_H
#define TESTS_HISTORIES_CHECKER_H

#include "histories/history.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define MS               INT64_C(1000000)
#define SECOND           (1000 * MS)
#define NEVER            INT64_MAX

#define CHECKER_BACKENDS 8
#define CHECKER_PEERS    4096
#define CHECKER_LOCKS    4096
#define CHECKER_SIDES    2
#define CHECKER_RECENT   64  /* tokens kept, to find one given twice */
#define CHECKER_WRITES   256 /* neighbours in the resource's order */

/* What a fault may do to a lock service. */
typedef enum harm {
    HARM_ONE,   /* nothing: one of its clients is hurt */
    HARM_DELAY, /* it doesn't answer for a while */
    HARM_LOSE,  /* it may have forgotten locks: two clients may believe in one */
    HARM_WIPE,  /* it has forgotten all of them */
} harm;

typedef struct fault {
    int64_t from, until; /* until: NEVER while it lasts */
    int id;
    harm does;
    bool stops; /* it stops a process */
} fault;

/* Sums for the table. */
typedef struct tally {
    int64_t asks, grants, refusals, unanswered, losses, lost_events, checks;
    int64_t writes, stale_tried, stale_refused, stale_accepted;
    int64_t overlaps, excused; /* excused: the service had lost its state */
    int64_t lost_updates, old_tokens, overtaken, used_after_loss;
    int64_t longest_free_wait, longest_overshoot, longest_notice;
} tally;

typedef struct backend {
    char name[24];
    int64_t ttl, poll; /* ns */
    int64_t claim;     /* a free lock is kept so long for whom it was handed to; ns */
    int clients;       /* of a process */
    bool fifo;         /* it promises an order */
    bool deaths; /* it sees that a holder has died, and needn't wait for the lease */
    fault *faults;
    size_t fault_count, fault_room;
    int64_t clear_from; /* without a fault since; NEVER while one lasts */
    int64_t ran_from;   /* none of its clients was stopped or starved since */
    int64_t shaken_at;  /* a client was hurt, or had no answer */
    tally sums;
} backend;

/* A process that writes a history. */
typedef struct peer {
    uint32_t id;
    backend *backend;
    char path[700];
    history history; /* not mapped before the process has made it */
    uint64_t next;   /* record to read */
    int64_t safe;    /* everything before that was read */
    bool gone;       /* reaped: nothing comes any more (known when the file is read) */
    bool read;       /* and everything was read */
    bool dead;       /* the same, in the order of events */
    int64_t gap_end; /* it was stopped or starved until then */
    /* Since its last pulse; only the next one tells whether it was its own fault. */
    int64_t longest_overshoot, longest_free_wait;
} peer;

typedef struct op op;
typedef struct lock lock;

/* One acquire, and what came of it. */
struct op {
    uint64_t id;
    peer *peer;
    lock *lock;
    uint16_t client;
    uint8_t kind, take;
    uint16_t permits;
    int64_t asked, wait;  /* wait: ns, NEVER */
    int64_t queued;       /* FIFO: in its client's queue by then */
    int64_t head_since;   /* and surely the next of its client */
    int64_t place_since;  /* the client may have had its place in the queue since then */
    int64_t excused;      /* for so long its process didn't run */
    int64_t token_before; /* largest of the grants that were known when it began */
    bool answered, holding; /* holding: granted, and no end of it is known */
    int64_t granted, token, until;
    int64_t left, lost, told; /* when: LEAVE, not held any more, LOST event; 0 = not */
    op *next_of_lock, *next_of_table;
};

static inline bool checker_same_client(const op *a, const op *b)
{
    return a->peer == b->peer && a->client == b->client;
}

typedef struct neighbour {
    int64_t sequence, token, seen;
} neighbour;

/* What is known of one side (page or server) of the resource. */
typedef struct side {
    int64_t highest, highest_at; /* token, and when it was admitted */
    neighbour writes[CHECKER_WRITES];
} side;

struct lock {
    uint16_t number;
    op *ops;        /* all that aren't over */
    int64_t newest; /* token */
    int64_t free_since;
    int64_t recent[CHECKER_RECENT];
    uint64_t recent_ops[CHECKER_RECENT];
    unsigned recent_at;
    side sides[CHECKER_SIDES];
};

/* Something that is a violation if this process was alive at that time. */
typedef struct suspicion {
    peer *peer;
    int64_t at;
    bool needs_pulse; /* alive isn't enough: it must have been running */
    int64_t *counter;
    char text[400];
} suspicion;

#define CHECKER_BUCKETS 16384

typedef struct checker {
    char directory[512];
    FILE *log;
    int64_t log_until; /* time of the last line read */
    backend backends[CHECKER_BACKENDS];
    int backend_count;
    peer *peers[CHECKER_PEERS];
    int peer_count;
    lock *locks[CHECKER_LOCKS];
    op *table[CHECKER_BUCKETS];
    struct event *events; /* read, not judged yet */
    size_t event_count, event_room;
    suspicion *suspicions;
    size_t suspicion_count, suspicion_room;
    int64_t slack;  /* ns by which a machine may be late */
    int64_t judged; /* events up to this time */
    int64_t records;
    int64_t violations;
    char first[600]; /* the first of them, in words */
} checker;

/* A record, or a line of the log. */
typedef enum line {
    LINE_RECORD,
    LINE_DEAD,
    LINE_ENDED,
    LINE_FAULT,
    LINE_FAULT_END,
} line;

typedef struct event {
    int64_t time;
    uint64_t order; /* of reading, for equal times */
    line line;
    peer *peer;
    int fault_backend; /* -1: all */
    int fault_id;
    harm does;
    bool stops;
    history_record record;
} event;

/* ---- source.c ---- */

/* @p directory: of nemesis.log and the files it names. */
bool checker_open(checker *c, const char *directory);
void checker_close(checker *c);
/* Reads what is there and judges what is certain to be complete. `finished`: all of it is. */
void checker_read(checker *c, bool finished);

/* ---- follow.c ---- */

void checker_follow(checker *c, const event *e);
/* After the last event: what should have ended and hasn't. */
void checker_finish(checker *c);

/* ---- rules.c ---- */

void checker_violation(checker *c, int64_t *counter, int64_t at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Any record of this process: it is alive. */
void rule_alive(checker *c, peer *p, int64_t at);
/* Its pulse: it runs, and @p gap ns long it didn't. */
void rule_pulse(checker *c, peer *p, int64_t at, int64_t gap);
void rule_dead(checker *c, peer *p);
void rule_token(checker *c, op *o);
void rule_exclusion(checker *c, op *o, int64_t at);
void rule_order(checker *c, op *granted);
void rule_patience(checker *c, op *o, int64_t at);
void rule_liveness(checker *c, op *o, int64_t at);
void rule_still_held(checker *c, op *o, const history_record *r);
void rule_noticed(checker *c, op *o, int64_t at, bool held);
void rule_resource(checker *c, op *o, const history_record *r);

#endif
