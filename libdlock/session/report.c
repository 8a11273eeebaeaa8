/* The life of a report; see the header. */
#include "session/session.h"

#include "util/error.h"
#include "util/info.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static void free_report(dlk_report *report)
{
    if (report->session->type->report_close)
        report->session->type->report_close(report);
    dlk_list_remove(&report->link);
    if (report->line)
        dlk_line_unref(report->line);
    dlk_error_clear(&report->why);
    dlk_info_free(report->info);
    free(report);
}

void dlk_report_settle(dlk_report *report)
{
    if (--report->calls > 0)
        return;
    dlk_report_answer(report, DLK_UNKNOWN); /* nothing could answer it any more */
    free_report(report);
}

void dlk_report_begin(dlk_session *session, dlk_ask *ask, int64_t now)
{
    dlk_report *report = calloc(1, session->type->report_size);
    if (!report) {
        dlk_flight_refuse(&session->flight, ask,
                          dlk_error_make(DLOCK_ENOMEM, "out of memory"));
        return;
    }
    report->session = session;
    report->ask = ask;
    dlk_list_append(&session->reports, &report->link);
    dlk_flight_await(&session->flight, ask);
    if (ask->key) {
        report->line = dlk_line_of(ask->key);
        report->line->refs++;
    }
    report->calls++;
    session->type->report_open(report, now);
    dlk_report_settle(report);
}

/* ---- answering ---- */

void dlk_report_answer(dlk_report *report, dlk_reply reply)
{
    dlk_flight *flight = &report->session->flight;
    dlk_ask *ask = report->ask;
    dlock_error *why = report->why;
    report->ask = NULL;
    if (!ask)
        return;
    report->why = NULL;
    if (why)
        dlk_flight_refuse(flight, ask, why);
    else
        dlk_flight_answer(flight, ask, report->unanswered ? DLK_UNKNOWN : reply);
}

void dlk_report_refuse(dlk_report *report, dlock_error *why)
{
    if (report->why)
        dlk_error_clear(&why);
    else
        report->why = why;
    dlk_report_answer(report, DLK_UNKNOWN);
}

void dlk_report_tell(dlk_report *report)
{
    if (!report->why && dlk_info_failed(report->info))
        report->why = dlk_error_make(DLOCK_ENOMEM, "out of memory");
    if (report->ask && !report->why && !report->unanswered) {
        report->ask->info = report->info;
        report->info = NULL;
    }
    dlk_report_answer(report, DLK_YES);
}

void dlk_report_conclude(dlk_report *report)
{
    dlk_find_verdict(report->info);
    dlk_report_tell(report);
}

/* ---- all of them ---- */

void dlk_reports_drop(dlk_session *session, const dlk_ask *ask)
{
    DLK_LIST_FOR (it, &session->reports) {
        dlk_report *report = DLK_LIST_ITEM(it, dlk_report, link);
        if (report->ask == ask)
            report->ask = NULL;
    }
}

void dlk_reports_stop(dlk_session *session)
{
    DLK_LIST_FOR (it, &session->reports)
        dlk_report_answer(DLK_LIST_ITEM(it, dlk_report, link), DLK_UNKNOWN);
}

void dlk_reports_free(dlk_session *session)
{
    DLK_LIST_FOR (it, &session->reports)
        free_report(DLK_LIST_ITEM(it, dlk_report, link));
}
