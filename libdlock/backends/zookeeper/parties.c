/* What is told of whoever holds a lock, and of whoever waits: as their nodes say it. */
#include "backends/zookeeper/reports.h"

#include "util/number.h"
#include "util/who.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- whose a node is ---- */

/* How long the owner is in what we write, "<owner>[ <token>]\n<who>\n<data>"; 0: it isn't ours. The token
 * is that of the grant of who was a writer before. */
static size_t owner_size(const char *data)
{
    size_t size = dlk_who_owner_size(data), end = size;
    if (size > 0 && data[size] == ' ')
        end += 1 + strspn(data + size + 1, "0123456789");
    return data[end] == '\n' ? size : 0;
}

char *dlk_zk_party_owner(const dlk_zk_report *report, const dlk_zk_finding *item)
{
    const char *data = item->text ? item->text : "";
    size_t size = owner_size(data);
    char *text = NULL;
    if (size > 0)
        return strndup(data, size);
    DLK_LIST_FOR (it, &report->home->base.places) /* elections publish something else */
    {
        const dlk_zk_place *place = DLK_ZK_PLACE_IN_LINE(it);
        const char *path = place->nodes[place->plan->steps - 1].path;
        if (path && strcmp(path, item->path) == 0)
            return asprintf(&text, "%s:%" PRIu64, report->zk->base.backend.host->uuid,
                            place->base.number) < 0
                       ? NULL
                       : text;
    }
    return strdup(dlk_zk_base_name(item->path));
}

int64_t dlk_zk_party_token(const char *data, int64_t czxid)
{
    size_t size = data ? owner_size(data) : 0;
    return size > 0 && data[size] == ' '
               ? dlk_number_before(data + size + 1, " \n", 0, INT64_MAX, czxid)
               : czxid;
}

/* ---- what it says ---- */

static const char *behind_line(const char *text)
{
    text += strcspn(text, "\n");
    return text + (*text == '\n');
}

/* Answers what stands behind it. */
static const char *tell_who(dlock_info *info, const char *text, const char *list,
                            size_t number)
{
    text = behind_line(text);
    (void)dlk_who_tell_text(info, text, strcspn(text, "\n"), list, number);
    return behind_line(text);
}

void dlk_zk_party_tell(const dlk_zk_report *report, const dlk_zk_finding *item,
                       const char *list, size_t number)
{
    dlock_info *info = report->base.info;
    const char *text = item->text ? item->text : "";
    dlk_info_add_text(info, item->owner, "%s.%zu.owner", list, number);
    dlk_info_add_text(info, dlk_zk_base_name(item->path), "%s.%zu.node", list, number);
    if (item->since_ms > 0)
        dlk_info_add_int(info, item->since_ms, "%s.%zu.since", list, number);
    if (!report->home->plans[0]->publishes && owner_size(text) > 0)
        text = tell_who(info, text, list, number);
    if (text[0])
        dlk_info_add_text(info, text, "%s.%zu.data", list, number);
}

void dlk_zk_party_list(dlk_zk_report *report, dlk_zk_finding *item, size_t number)
{
    const char *text = item->text ? item->text : "";
    size_t size = owner_size(text);
    if (size == 0) /* others', or an election's */
        return;
    item->owner = strndup(text, size);
    if (!item->owner)
        dlk_zk_report_no_memory(report);
    dlk_info_add_text(report->base.info, item->owner, "locks.%zu.owner", number);
    (void)tell_who(report->base.info, text, "locks", number);
}

/* ---- who waits ---- */

/* Where it belongs among those of its line; lines stand one behind the other. Those without a rule come in
 * their order. */
static size_t place_of(const dlk_zk_report *report, const dlk_zk_rule *rule,
                       const char *child)
{
    size_t at = report->waiting_count;
    while (rule && at > 0 && report->waiting[at - 1].rule == rule &&
           dlk_zk_before(rule, child, dlk_zk_base_name(report->waiting[at - 1].path)))
        at--;
    return at;
}

void dlk_zk_party_waits(dlk_zk_report *report, const dlk_zk_rule *rule,
                        const char *folder, const char *child)
{
    size_t at = place_of(report, rule, child), count = report->waiting_count;
    if (at == DLK_WAITING_MAX || report->base.ask->verb != DLK_INSPECT ||
        report->base.ask->brief)
        return;
    char *path = dlk_zk_join(folder, child);
    if (!report->waiting)
        report->waiting = calloc(DLK_WAITING_MAX, sizeof(*report->waiting));
    if (!path || !report->waiting) {
        free(path);
        dlk_zk_report_no_memory(report);
        return;
    }
    if (count == DLK_WAITING_MAX)
        free(report->waiting[--count].path);
    memmove(&report->waiting[at + 1], &report->waiting[at],
            (count - at) * sizeof(*report->waiting));
    report->waiting[at] = (dlk_zk_finding){.report = report, .path = path, .rule = rule};
    report->waiting_count = count + 1;
}
