/*
 * A model of an etcd cluster, as far as locks can tell: what the files of this folder share.
 *
 *     client.c    a simulated client's end: what it is asked
 *     http2.c     its end of the connection to its present member (net/http2.h): streams, and the
 *                 messages on them
 *     packet.c    what is on its way, and what strikes it there
 *     member.c    a member's end: calls wait for a leader, are decided and answered
 *     watches.c   … and its watches
 *     cluster.c   three members: who leads in which term, and who hasn't heard of it; leases
 *     store.c     keys and what happened to them: transactions, ranges, compaction
 *     trouble.c   what goes wrong with them
 *     rules.c     who holds what, read from the keys by the rules of package concurrency and of our
 *                 own layout, and not by the library's code; and what must be true of the keys
 *
 * Connections are the wires of net.c, one to a member. On them go packets, each a frame or a whole
 * request of HTTP/2: of each a wire carries one byte, and the packet itself is here. A wire that is
 * cut takes all with it that is under way there; each request has its own way there and back, so
 * answers overtake each other.
 *
 * The log is one: what the leader decides is decided, and a member answers when it has applied as
 * much. Its term is the one that it knows of when it answers; who has been replaced and doesn't
 * know renews leases all the same, as etcd 3.4 does.
 */
#ifndef SIM_ETCD_MODEL_H
#define SIM_ETCD_MODEL_H

#include "sim.h"

#include "backends/etcd/inner.h"

#define ETCD_MEMBERS  3
#define ETCD_TICK     (50 * MS)
#define ETCD_PATIENCE (7 * SEC) /* of a member with what it proposes */
#define NO_LEADER     (-1)

/* ---- store.c ---- */

/* From one key to before the other; without that the first alone. */
typedef struct etcd_span {
    dlk_etcd_bytes from, to;
} etcd_span;

typedef struct etcd_key {
    dlk_list link; /* in the order of creation */
    dlk_etcd_bytes key, value;
    int64_t made, changed, version, lease;
    /* rules.c's: what it stands for */
    int name; /* or ALL_NAMES */
    uint64_t number;
    int32_t weight;
    bool reads;
} etcd_key;

/* What a request comes to. */
typedef struct etcd_effect {
    int status;        /* gRPC's */
    const char *words; /* of an error */
    dlk_buf body;      /* packed, but for its header */
    int64_t revision;
    bool succeeded; /* of a transaction */
} etcd_effect;

/* Whether a watch that begins there has missed something. */
typedef enum etcd_past {
    PAST_QUIET,
    PAST_NEWS,
    PAST_COMPACTED, /* nobody knows any more: the watch is ended */
    PAST_FORGOTTEN, /* a deletion at the revision of compaction: it isn't told */
} etcd_past;

void etcd_store_begin(void);
void etcd_store_end(void);
dlk_list *etcd_store_keys(void);
int64_t etcd_store_revision(void);
/* What one request asks for: a transaction, or several in one. */
#define ETCD_PARTS 16
typedef struct etcd_parts {
    size_t count;
    bool nested;
    const DlkEtcd__TxnRequest *asks[ETCD_PARTS];
    dlk_arena arenas[ETCD_PARTS]; /* of those that are nested */
} etcd_parts;

/* The request is lent as long as they are used. */
void etcd_parts_read(etcd_parts *ret, const DlkEtcd__TxnRequest *ask);
void etcd_parts_free(etcd_parts *parts);

/* @p by: whose request it is, or NOBODY. */
void etcd_store_txn(const etcd_parts *parts, int by, etcd_effect *ret);
void etcd_store_range(const DlkEtcd__RangeRequest *ask, etcd_effect *ret);
void etcd_store_delete(const etcd_key *key); /* by an operator */
void etcd_store_end_lease(int64_t lease);
void etcd_store_compact(void);
int64_t etcd_store_compacted(void);
bool etcd_span_has(const etcd_span *span, dlk_etcd_bytes key);
etcd_past etcd_store_past(const etcd_span *span, dlk_etcd_news of, int64_t start);
static inline bool etcd_is_news(dlk_etcd_news of, bool put)
{
    return of == DLK_ETCD_CHANGES || put == (of == DLK_ETCD_PUTS);
}
void etcd_effect_says(etcd_effect *ret, const ProtobufCMessage *answer);
void etcd_effect_error(etcd_effect *ret, int status, const char *words);
void *etcd_need(void *memory); /* not NULL */
uint64_t etcd_hash_of(dlk_etcd_bytes key);
void etcd_pack(const ProtobufCMessage *message, dlk_buf *to);

/* ---- cluster.c ---- */

typedef struct etcd_lease {
    dlk_list link;
    int64_t id, seconds;
    int64_t ends_at;      /* leader's time … */
    int64_t ended_before; /* … and as who has been replaced has it */
    int64_t made;         /* true time */
    bool over, revoked;   /* revoked: by an operator */
    int client, generation;
} etcd_lease;

/* When it is down, and when it stands still, is in sim.nodes. */
typedef struct etcd_member {
    int64_t lags_until;
    int64_t alone_since, alone_until; /* cut off from the others */
    int64_t blind_since;              /* 0: it hears what is decided */
    int64_t term;
    bool leads;  /* as it believes */
    bool leaves; /* it takes no more requests, and is gone in a moment … */
    int64_t returns_at;
} etcd_member;

extern struct etcd_cluster {
    etcd_member members[ETCD_MEMBERS];
    dlk_list leases;
    int leader;
    int64_t term, last_lease;
    int64_t elect_at; /* 0: there is no need */
    event tick;
    unsigned ticks;
} etcd_all;

void etcd_begin(void);
void etcd_end(void);
void etcd_heal(void);
bool etcd_is_down(int index);
int64_t etcd_still_until(int index); /* past: it runs */
/* What is decided is applied there then at the soonest. */
int64_t etcd_applies_at(int index);
/* It runs, and reaches the others. */
bool etcd_takes_part(int index);
/* A proposal of this one is heard by a leader with a majority. */
bool etcd_reaches_leader(int index);
void etcd_member_down(int index, int64_t until, const char *why);
/* … in good order, when it has answered what it has got. */
void etcd_member_stops(int index, int64_t until);
void etcd_lead_lost(void);
etcd_lease *etcd_lease_find(int64_t id);
etcd_lease *etcd_lease_grant(const client *client, int64_t seconds);
void etcd_lease_end(etcd_lease *lease, const char *why);
/* False: it has expired, and isn't over yet. */
bool etcd_lease_renew(etcd_lease *lease);
bool etcd_lease_renew_in_vain(
    etcd_lease *lease);          /* … by a leader that isn't one any more */
void etcd_unwell(int64_t until); /* nothing prompt can be asked for until then */

/* ---- trouble.c ---- */
bool etcd_fault(fault what, dlk_rand *dice, client *client, int name);

/* ---- packet.c ---- */

typedef enum etcd_says {
    ETCD_SAYS_HELLO, /* there and back, before anything else */
    ETCD_SAYS_ASK,   /* a whole request; and back with its answer */
    ETCD_SAYS_WATCH, /* there: a message more on the stream of watches */
    ETCD_SAYS_DROP,  /* there: the stream is broken off */
    ETCD_SAYS_NEWS,  /* back: a message on the stream of watches */
    ETCD_SAYS_END,   /* back: the stream is over */
    ETCD_SAYS_LEAVE, /* back: GOAWAY */
    ETCD_SAYS_NOTHING,
} etcd_says;

typedef enum etcd_where { ON_WAY, BEFORE, BEHIND, ON_WAY_BACK } etcd_where;

typedef struct etcd_packet {
    dlk_list all;
    dlk_list queue; /* to be sent, or to be read: http2.c */
    event event;    /* what happens to it next */
    int client, generation, member;
    etcd_says says;
    wire *wire; /* NULL: it isn't sent yet */
    int32_t stream;
    bool opens;                /* the first on it */
    dlk_http2_outcome outcome; /* how the stream is over */

    /* a request, or a message to the stream of watches */
    dlk_etcd_method method;
    dlk_arena arena;
    const ProtobufCMessage *ask;
    etcd_parts *parts;        /* of a transaction */
    int64_t arrived, decided; /* true time; 0: not yet */
    int64_t term;             /* in which it was sent on */
    int64_t term_said;        /* 0: the member's when it answers */
    etcd_effect effect;       /* what is said back */
    bool dropped;             /* nobody waits for it any more … */
    bool cut;                 /* … which the member has noticed */
    bool kept;                /* it is carried out all the same */
    bool lost;                /* it isn't carried out any more, if it hasn't been */
    bool dead;                /* it isn't answered */
    int64_t watch;            /* of news */

    fault strike;
    step at;
    int name;
    etcd_where where; /* … it strikes */
} etcd_packet;

extern dlk_list etcd_limbo; /* etcd_packet.all */

int64_t etcd_delay(client *client);
etcd_packet *etcd_packet_new(const client *client, etcd_says says);
/* Of what goes back on a wire. */
etcd_packet *etcd_packet_back(const client *client, etcd_says says, wire *wire,
                              int32_t stream);
void etcd_packet_free(etcd_packet *packet);
/* Fills in what it asks: a message as it was packed. */
void etcd_packet_read(etcd_packet *packet, const char *path, const void *message,
                      size_t size);
/* The wire is up as far as its client knows, and somebody waits. */
bool etcd_packet_is_awaited(const etcd_packet *packet);
/* Of one whose connection or stream is broken: it may not be carried out any more. */
bool etcd_packet_is_lost(etcd_packet *packet);
int etcd_packet_name(const etcd_packet *packet);
const char *etcd_packet_verb(const etcd_packet *packet);
/* For which key of its client's own that part of a transaction asks who is before that; empty: it doesn't. */
dlk_etcd_bytes etcd_packet_looks_for(const etcd_packet *packet, size_t part);
/* How many parts it has: none if it is no transaction. */
size_t etcd_packet_parts(const etcd_packet *packet);
void etcd_packet_aim(etcd_packet *packet);
void etcd_packet_strike(etcd_packet *packet); /* here and now */
void etcd_packet_strike_on_way(etcd_packet *packet, int64_t until);
/* Its stream breaks, and nothing else, or all of its connection does. */
void etcd_packet_break(const etcd_packet *packet, dlk_http2_outcome outcome);

/* ---- member.c ---- */
void etcd_arrive(event *event);
/* Its process is gone, and what was in it. */
void etcd_member_cut(int index, const char *why);
/* It says so to all that are connected. */
void etcd_member_says_goodbye(int index);

/* ---- watches.c ---- */

typedef struct etcd_watch {
    dlk_list link;
    int client;
    wire *wire;
    int32_t stream;
    int64_t number, start;
    int64_t synced_at; /* it tells of nothing before */
    etcd_span span;    /* owned */
    dlk_etcd_news of;
    bool deaf; /* it tells of nothing any more, and nobody has noticed */
} etcd_watch;

void etcd_watches_begin(void);
void etcd_watches_end(void);
void etcd_watches_hear(etcd_packet *packet); /* a message of their stream, or its end */
void etcd_members_changed(dlk_etcd_bytes key, bool put, int64_t revision);
void etcd_cut_news(client *client);
bool etcd_spurious(client *client, int name);
bool etcd_hears(const client *client);

/* ---- http2.c ---- */
void etcd_ends_begin(void);
void etcd_sent(wire *wire, size_t size); /* so many packets */
void etcd_deliver(event *event);
bool sim_farewell(void *calls); /* seam.h */
/* When the last look at the line that it has heard of was decided. */
int64_t etcd_looked(const client *client, dlk_etcd_bytes key);

/* ---- client.c ---- */
extern const service etcd_service;
dlk_etcd *etcd_of(const client *client); /* NULL: it has none */

/* ---- rules.c ---- */
void etcd_rules_begin(void);
void etcd_rules_put(etcd_key *key); /* it is there, or has changed */
void etcd_rules_deleted(const etcd_key *key, int by);
void etcd_rules_look(int by); /* whose request it was, or NOBODY */
int etcd_rules_name_of(dlk_etcd_bytes key);
/* The signals of a condition. */
bool etcd_rules_is_tally(dlk_etcd_bytes key);
/* Whose lease it is, if it is the one that he works with; else NOBODY. */
int etcd_rules_client(int64_t lease);
int etcd_holders(int name, holder ret[MAX_HELD]);
void etcd_told(const actor *me);
void etcd_watchdog(int name);
bool etcd_attends(int name);
void etcd_check_rest(void);

#endif
