/* Looking at locks: inspect, break, revoke, list, doctor; and signals. */
#ifndef DLK_BACKENDS_ZOOKEEPER_REPORTS_H
#define DLK_BACKENDS_ZOOKEEPER_REPORTS_H

#include "backends/zookeeper/inner.h"

/* So many holders are told, asked and broken at most. */
#define DLK_ZK_HOLDERS_MAX 128

typedef struct dlk_zk_report dlk_zk_report;

/* Somebody of a holder's, or a lock that was found. */
typedef struct dlk_zk_finding {
    dlk_zk_report *report;
    char *path;  /* of the node, of several the first; list: of the lock … */
    char *node;  /* … and of its holder's node; NULL: not known */
    char **more; /* the others, owned as it is */
    size_t more_count;
    char *owner;             /* NULL: not known */
    char *text;              /* the node's data */
    int64_t token, since_ms; /* since_ms: the date when it was made; 0: not known */
    bool gone;               /* when it was to be read */
    const dlk_zk_rule *rule; /* of who waits: that of his line */
} dlk_zk_finding;

struct dlk_zk_report {
    dlk_report base; /* first */
    dlk_zk *zk;
    dlk_zk_key *home;
    dlk_zk_finding *found;
    size_t count, capacity;
    dlk_zk_finding *waiting; /* the first of those who wait, in their order; … */
    size_t waiting_count;
    int64_t waiters; /* … and how many of other clients do */
    /* what lies in the line's folder: whoever has the lock may count from that */
    int64_t written;
    int64_t left; /* a semaphore's permits that nobody has */

    char **folders; /* list: still to be looked into */
    size_t folder_count, folder_capacity, looked;
    size_t read;     /* so many of `found` were asked for, whose they are */
    size_t left_out; /* folders that aren't looked into, or couldn't be */

    /* signal: what lies at the condition, and what is to lie there with these signals */
    char *text, *tally; /* owned */
    int32_t version;
    size_t signalled;
    char *beside;   /* inspect: where the condition of the lock's name lies; owned */
    bool condition; /* … and somebody waits there: that is told */
};

void dlk_zk_report_open(dlk_report *base, int64_t now);
void dlk_zk_report_close(dlk_report *base);

/* Somebody wants to hear, or no longer, that the name is free, and doesn't stand in line. */
void dlk_zk_line_watch(dlk_line *base, bool on);
/* The list of children of a path has changed. */
void dlk_zk_idle_changed(dlk_zk *zk, const char *path);

/* Among themselves: reports.c, parties.c, leases.c, list.c, signal.c, doctor.c. */
void dlk_zk_signal_begin(dlk_zk_report *report, int64_t now);
/* A mutex that nobody has or wants may have the name of a condition: who waits there comes next, and
 * dlk_zk_report_read_holders behind it. False: there is nothing to ask. */
bool dlk_zk_condition_inspect(dlk_zk_report *report, int64_t now);
/* Reads what was found, and tells it. */
void dlk_zk_report_read_holders(dlk_zk_report *report, int64_t now);
/* Nothing was found. */
void dlk_zk_report_forget(dlk_zk_report *report);
bool dlk_zk_report_send(dlk_zk_report *report, const dlk_zk_request *request,
                        dlk_zk_done *then, void *extra, int64_t now);
/* One more finding, or NULL without memory; @p path is taken over. */
dlk_zk_finding *dlk_zk_report_find(dlk_zk_report *report, char *path);
/* It can't be done for want of memory. Other calls of it may be under way: the last one answers. */
void dlk_zk_report_no_memory(dlk_zk_report *report);
/* Finds those who hold a semaphore among its leases, which are put into their order. */
void dlk_zk_report_leases(dlk_zk_report *report, char **children, size_t count);
/* ---- parties.c ---- */
/* The node's name, unless it says more of its owner; NULL without memory. */
char *dlk_zk_party_owner(const dlk_zk_report *report, const dlk_zk_finding *item);
/* Of a node with these data, which was made so. */
int64_t dlk_zk_party_token(const char *data, int64_t czxid);
/* Adds to report->base.info what is told of number @p of a list. */
void dlk_zk_party_tell(const dlk_zk_report *report, const dlk_zk_finding *item,
                       const char *list, size_t number);
/* Of a lock in a list adds whose it is. */
void dlk_zk_party_list(dlk_zk_report *report, dlk_zk_finding *item, size_t number);
/* Notes one who waits, unless enough do who come before. */
void dlk_zk_party_waits(dlk_zk_report *report, const dlk_zk_rule *rule,
                        const char *folder, const char *child);

void dlk_zk_list_begin(dlk_zk_report *report, int64_t now);
void dlk_zk_doctor_begin(dlk_zk_report *report, int64_t now);

#endif
