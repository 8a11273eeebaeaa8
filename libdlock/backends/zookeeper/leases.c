/* Who holds a semaphore: its leases, of which those of one series are one holder's. */
#include "backends/zookeeper/reports.h"

#include <stdlib.h>

static int by_place(const void *a, const void *b, void *rule)
{
    const char *one = *(char *const *)a, *other = *(char *const *)b;
    return dlk_zk_before(rule, one, other) ? -1 : dlk_zk_before(rule, other, one);
}

static void add_more(dlk_zk_report *report, dlk_zk_finding *item, const char *folder,
                     char *const *children, size_t count)
{
    item->more = calloc(count, sizeof(*item->more));
    for (size_t i = 0; item->more && i < count; i++) {
        item->more[i] = dlk_zk_join(folder, children[i]);
        if (!item->more[i])
            break;
        item->more_count++;
    }
    if (item->more_count < count)
        dlk_zk_report_no_memory(report);
}

static void add_holder(dlk_zk_report *report, const char *folder, char *const *children,
                       size_t count)
{
    if (report->count >= DLK_ZK_HOLDERS_MAX)
        return;
    dlk_zk_finding *item = dlk_zk_report_find(report, dlk_zk_join(folder, children[0]));
    if (item && count > 1)
        add_more(report, item, folder, children + 1, count - 1);
}

/* As many as there are permits, the first of them: those behind are there before they count, and whoever
 * made them waits, or is about to take them back. */
void dlk_zk_report_leases(dlk_zk_report *report, char **children, size_t count)
{
    const dlk_zk_key *home = report->home;
    const int step = home->plans[0]->steps - 1;
    const dlk_zk_rule *rule = home->plans[0]->step[step].rule;
    size_t held = 0;
    if (count > 0)
        qsort_r(children, count, sizeof(*children), by_place, (void *)(uintptr_t)rule);
    for (size_t end = 1; held < count; end++) {
        if (end < count && dlk_zk_same_series(children[held], children[end]))
            continue;
        if ((int64_t)end > home->permits)
            break;
        add_holder(report, home->parents[step], children + held, end - held);
        held = end;
    }
    report->left = home->permits - (int64_t)held;
}
