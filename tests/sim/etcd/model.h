/*
 * A model of an etcd cluster behind its JSON gateway, as far as locks can tell: what the
 * files of this folder share.
 *
 *     client.c    a simulated client's end: host, driver, what it is asked
 *     wire.c      its connections, one for each call under way (the backend's wire.h)
 *     packet.c    what is on its way, and what strikes it there
 *     member.c    a member's end: calls wait for a leader, are decided and answered; watches
 *     cluster.c   three members: who leads in which term, and who hasn't heard of it; leases
 *     store.c     keys and what happened to them: transactions, ranges, compaction
 *     trouble.c   what goes wrong with them
 *     rules.c     who holds what, read from the keys by the rules of package concurrency and of our
 *                 own layout, and not by the library's code; and what must be true of the keys
 *
 * Requests and answers are the gateway's JSON. The log is one: what the leader decides
 * is decided, and a member answers when it has applied as much. Its term is the one that
 * it knows of when it answers; who has been replaced and doesn't know renews leases all
 * the same, as etcd 3.4 does.
 */
#ifndef SIM_ETCD_MODEL_H
#define SIM_ETCD_MODEL_H

#include "sim.h"

#include "backends/etcd/inner.h"
#include "backends/etcd/wire.h"

#define ETCD_MEMBERS  3
#define ETCD_TICK     (50 * MS)
#define ETCD_PATIENCE (7 * SEC) /* of a member with what it proposes */
#define NO_LEADER     (-1)

/* ---- store.c ---- */

/* From one key to before the other; all: the first alone doesn't say it. */
typedef struct etcd_span {
    dlk_bytes from, to;
    bool many;
} etcd_span;

typedef struct etcd_key {
    dlk_list link; /* in the order of creation */
    dlk_bytes key;
    char *value; /* base64 */
    int64_t made, changed, version, lease;
    /* rules.c's: what it stands for */
    int name; /* or ALL_NAMES */
    uint64_t number;
    int32_t weight;
    bool reads;
} etcd_key;

/* What a request comes to; the JSON is owned by whoever has it. */
typedef struct etcd_effect {
    long status;
    json_t *json;
    int64_t revision;
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
/* @p by: whose request it is, or NOBODY. */
void etcd_store_txn(const json_t *ask, int by, etcd_effect *ret);
void etcd_store_range(const json_t *ask, etcd_effect *ret);
void etcd_store_delete(const etcd_key *key); /* by an operator */
void etcd_store_end_lease(int64_t lease);
void etcd_store_compact(void);
bool etcd_span_read(const json_t *from, etcd_span *ret);
void etcd_span_free(etcd_span *span);
bool etcd_span_has(const etcd_span *span, const dlk_bytes *key);
etcd_past etcd_store_past(const etcd_span *span, bool puts, int64_t start);
void etcd_effect_error(etcd_effect *ret, long status, int code, const char *words);
void *etcd_need(void *memory); /* not NULL */

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

typedef struct etcd_member {
    int64_t down_until, frozen_until, lags_until;
    int64_t alone_since, alone_until; /* cut off from the others */
    int64_t blind_since;              /* 0: it hears what is decided */
    int64_t term;
    bool leads; /* as it believes */
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

typedef enum etcd_where { ON_WAY, BEFORE, BEHIND, ON_WAY_BACK } etcd_where;

/* A call under way: there, at its member, and back. */
typedef struct etcd_packet {
    dlk_list all;
    event event;         /* what happens to it next */
    event end;           /* … and to the call, whatever becomes of the request */
    dlk_etcd_call *call; /* NULL: nobody waits for it any more */
    CURLcode code;       /* of that end */
    int client, generation, member;
    const char *path;
    json_t *ask;
    int64_t arrived, decided; /* true time; 0: not yet */
    int64_t term;             /* in which it was sent on */
    int64_t term_said;        /* 0: the member's when it answers */
    etcd_effect effect;
    bool lost; /* it isn't carried out any more, if it hasn't been */
    bool dead; /* it isn't answered */
    bool busy; /* somebody goes on with it, so it must stay */
    /* a watch */
    bool watch, armed, fired, puts, deaf;
    etcd_span span;
    int64_t start;

    fault strike;
    step at;
    int name;
    etcd_where where; /* … it strikes */
} etcd_packet;

extern dlk_list etcd_limbo; /* etcd_packet.all */

int64_t etcd_delay(client *client);
etcd_packet *etcd_packet_new(const client *client, const char *path, const char *body);
void etcd_packet_free(etcd_packet *packet);
/* Frees it when nothing can become of it any more. */
void etcd_packet_settle(etcd_packet *packet);
/* The call ends so, soon. */
void etcd_packet_fail(etcd_packet *packet, CURLcode code);
/* Nobody listens any more: what hasn't been done may be done yet, or not. */
void etcd_packet_abandon(etcd_packet *packet);
int etcd_packet_name(const etcd_packet *packet);
const char *etcd_packet_verb(const etcd_packet *packet);
/* For which key of its client's own it asks who is before that, base64; NULL: it doesn't. */
const char *etcd_packet_looks_for(const etcd_packet *packet);
void etcd_packet_aim(etcd_packet *packet);
void etcd_packet_strike(etcd_packet *packet); /* here and now */
void etcd_packet_strike_on_way(etcd_packet *packet, int64_t until);

/* ---- member.c ---- */
void etcd_arrive(event *event);
void etcd_members_changed(const dlk_bytes *key, bool put, int64_t revision);
void etcd_watch_fire(etcd_packet *packet);
/* Its process is gone, and what was in it. */
void etcd_member_cut(int index, const char *why);

/* ---- wire.c ---- */
void etcd_wires_begin(void);
void etcd_deliver(event *event);
/* Out of the process, whether there is an answer or not. */
void etcd_give(etcd_packet *packet, CURLcode code);
void etcd_cut(client *client, const char *why);
void etcd_cut_news(client *client);
void etcd_silence(client *client, bool both_ways);
bool etcd_is_quiet(const client *client);
bool etcd_hears(const client *client);
void etcd_died(client *client);
bool etcd_spurious(client *client, int name);
/* When the last look at the line that it has heard of was decided. */
int64_t etcd_looked(const client *client, const char *key);

/* ---- client.c ---- */
extern const service etcd_service;
void etcd_wake(client *client);

/* ---- rules.c ---- */
void etcd_rules_begin(void);
void etcd_rules_put(etcd_key *key); /* it is there, or has changed */
void etcd_rules_deleted(const etcd_key *key, int by);
void etcd_rules_look(int by); /* whose request it was, or NOBODY */
int etcd_rules_name_of(const dlk_bytes *key);
/* The signals of a condition. */
bool etcd_rules_is_tally(const dlk_bytes *key);
/* Whose lease it is, if it is the one that he works with; else NOBODY. */
int etcd_rules_client(int64_t lease);
int etcd_holders(int name, holder ret[MAX_HELD]);
void etcd_told(const actor *me);
void etcd_watchdog(int name);
bool etcd_attends(int name);
void etcd_check_rest(void);

#endif
