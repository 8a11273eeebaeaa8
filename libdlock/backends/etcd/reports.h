/* Looking at locks: inspect, break, list, doctor; and signals. */
#ifndef DLK_BACKENDS_ETCD_REPORTS_H
#define DLK_BACKENDS_ETCD_REPORTS_H

#include "backends/etcd/inner.h"

/* What a key's value says: "[R|W or weight]\n<owner>\n<who><tab><since>\n<data>". */
typedef struct dlk_etcd_entry {
    char *text; /* owned; the others point into it */
    const char *owner, *who, *data;
    char name[64]; /* the key behind the lock's name: of those who say no more */
    bool reads;
    int64_t weight, rev;
    int64_t token; /* 0: not known */
} dlk_etcd_entry;

typedef struct dlk_etcd_report {
    dlk_report base; /* first */
    dlk_etcd *et;
    dlk_etcd_key *home;
    dlk_etcd_bytes probe;   /* doctor: the key it tries */
    dlk_etcd_key condition; /* inspect: of the lock's name */
    /* What is known of a condition: its line and its signals. */
    const DlkEtcd__TxnResponse *found; /* the answer to a look, … */
    dlk_arena found_in;                /* … and where it lies */
    size_t first, signalled; /* who are signalled, as it is, or by this signal */
    char *tally;             /* the signals with those of this signal */
    int64_t rev;             /* of the signals without them */
    /* list: those that were found, and how many of them are told */
    struct dlk_etcd_listed *listed;
    size_t listed_count, listed_capacity, told;
} dlk_etcd_report;

void dlk_etcd_report_open(dlk_report *base, int64_t now);
void dlk_etcd_report_close(dlk_report *base);
void dlk_etcd_line_watch(dlk_line *base, bool on);

/* ---- among reports.c, list.c, condition.c and doctor.c ---- */
bool dlk_etcd_report_send(dlk_etcd_report *report, dlk_etcd_method method,
                          dlk_etcd_request request, dlk_etcd_done *then, int64_t now);
/* It wasn't answered, or refused. */
void dlk_etcd_report_failed(dlk_etcd_report *report, const dlk_etcd_call *call,
                            const char *what);
void dlk_etcd_signal_begin(dlk_etcd_report *report, int64_t now);
/* What it knows of a condition. */
void dlk_etcd_report_forget(dlk_etcd_report *report);
/* Of a key of a line such as @p home's; false without memory. */
bool dlk_etcd_entry_read(const dlk_etcd_key *home, const DlkEtcd__KeyValue *kv,
                         dlk_etcd_entry *ret);
void dlk_etcd_listed_free(dlk_etcd_report *report);
void dlk_etcd_list_begin(dlk_etcd_report *report, int64_t now);
void dlk_etcd_doctor_begin(dlk_etcd_report *report, int64_t now);

#endif
