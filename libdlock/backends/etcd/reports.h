/* Looking at locks: inspect, break, list, doctor. */
#ifndef DLK_BACKENDS_ETCD_REPORTS_H
#define DLK_BACKENDS_ETCD_REPORTS_H

#include "backends/etcd/inner.h"

typedef struct dlk_etcd_report {
    dlk_list link; /* in et->reports */
    dlk_etcd *et;
    dlk_ask *ask; /* NULL: nobody waits for it any more */
    dlk_etcd_key *home;
    int calls; /* under way, and of ours that are in it */
    int acted; /* holders that were broken */
    dlock_info *info;
    int64_t findings, worst; /* doctor */
    char *probe;             /* doctor: base64 of the key it tries */
} dlk_etcd_report;

void dlk_etcd_report_begin(dlk_etcd *et, dlk_ask *ask, int64_t now);
/* Its time is up; what was begun ends by itself. */
void dlk_etcd_report_drop(dlk_etcd *et, const dlk_ask *ask);
void dlk_etcd_reports_stop(dlk_etcd *et);
void dlk_etcd_reports_free(dlk_etcd *et);
/* Somebody waits until the name is free, and stands in no line. */
void dlk_etcd_idle_watch(dlk_etcd *et, dlk_etcd_key *home, bool on);

/* ---- among reports.c, list.c and doctor.c ---- */
bool dlk_etcd_report_send(dlk_etcd_report *report, const char *path, char *body,
                          dlk_etcd_done *then, int64_t now);
void dlk_etcd_report_answer(dlk_etcd_report *report, dlk_reply reply, dlock_error *why);
/* With report->info. */
void dlk_etcd_report_tell(dlk_etcd_report *report);
/* It wasn't answered, or refused. */
void dlk_etcd_report_failed(dlk_etcd_report *report, const dlk_etcd_call *call,
                            const char *what);
void dlk_etcd_list_begin(dlk_etcd_report *report, int64_t now);
void dlk_etcd_doctor_begin(dlk_etcd_report *report, int64_t now);

#endif
