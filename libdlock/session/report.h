/*
 * Looking at locks, and at the service: inspect, break, list, doctor. A report is made of one or more
 * calls, the last of which answers. Its ask may be answered before, when its time is up: then what was
 * begun ends by itself. Guarded by the client's mutex.
 */
#ifndef DLK_SESSION_REPORT_H
#define DLK_SESSION_REPORT_H

#include "session/place.h"
#include "util/findings.h"

/* Each service's own begins with it. */
typedef struct dlk_report {
    dlk_list link; /* in the session's reports */
    dlk_session *session;
    dlk_ask *ask;     /* NULL: nobody waits for it any more */
    dlk_line *line;   /* NULL: of the whole service */
    int calls;        /* under way, and of ours that are in it */
    bool unanswered;  /* some call of it got no answer: it ends as UNKNOWN */
    dlock_error *why; /* it can't be done: it ends as REFUSED */
    int64_t acted;    /* holders that were broken, or told */
    dlock_info *info; /* what it tells in the end */
} dlk_report;

void dlk_report_begin(dlk_session *session, dlk_ask *ask, int64_t now);
/* A call of its that was counted is over. Nothing else under way, and still not answered: it ends as
 * UNKNOWN, for what it has asked may have been done. */
void dlk_report_settle(dlk_report *report);
/* As `why` and `unanswered` have it, or else @p reply. */
void dlk_report_answer(dlk_report *report, dlk_reply reply);
/* It can't be done, for this reason, which is taken over; the first one counts. */
void dlk_report_refuse(dlk_report *report, dlock_error *why);
/* Answers with report->info. */
void dlk_report_tell(dlk_report *report);
/* Answers with what a doctor found, and the verdict. */
void dlk_report_conclude(dlk_report *report);

/* The ask's time is up. */
void dlk_reports_drop(dlk_session *session, const dlk_ask *ask);
void dlk_reports_stop(dlk_session *session);
void dlk_reports_free(dlk_session *session);

#endif
