/* Listing locks: the tree below the chroot is walked, and a folder with lock nodes in it is a lock
 * that somebody has or wants. */
#include "backends/zookeeper/paths.h"
#include "backends/zookeeper/reports.h"

#include "util/grow.h"
#include "util/info.h"

#include <stdlib.h>
#include <string.h>

#define TOGETHER 32 /* folders looked into at a time */
/* And in all: a tree may hold anything. Whatever is left out for it is told (finish). */
#ifndef DLK_ZK_FOLDERS_MAX
#define DLK_ZK_FOLDERS_MAX 1000000
#endif

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* How a lock's path, or one above it, is to what is asked for. */
typedef enum fit {
    NEITHER,
    ABOVE, /* what is asked for may be below it */
    WANTED,
} fit;

static fit fit_of(dlk_zk_report *report, const char *path)
{
    const char *want = report->base.ask->text ? report->base.ask->text : "";
    want += want[0] == '/'; /* which means nothing, as before a name */
    char *whole = dlk_zk_name_of(report->zk->chroot, path);
    const char *name = whole ? dlk_zk_proper_name(whole) : NULL;
    if (!whole)
        dlk_zk_report_no_memory(report);
    fit fits = name && starts(name, want)   ? WANTED
               : name && starts(want, name) ? ABOVE
                                            : NEITHER;
    free(whole);
    return fits;
}

static void push(dlk_zk_report *report, const char *parent, const char *child)
{
    char *path = dlk_zk_join(parent, child);
    if (!path)
        dlk_zk_report_no_memory(report);
    bool fits = path && fit_of(report, path) != NEITHER;
    bool other =
        path && (strcmp(path, "/zookeeper") == 0 ||
                 strcmp(path + strlen(report->zk->chroot), DLK_ZK_CONDITIONS) == 0);
    bool left_out = fits && !other && report->folder_count >= DLK_ZK_FOLDERS_MAX;
    if (!fits || other || left_out) {
        report->left_out += left_out;
        free(path);
        return;
    }
    char **folders = dlk_grow(report->folders, report->folder_count,
                              &report->folder_capacity, sizeof(*folders));
    if (!folders) {
        dlk_zk_report_no_memory(report);
        free(path);
        return;
    }
    report->folders = folders;
    report->folders[report->folder_count++] = path;
}

static bool is_lock_node(const char *child)
{
    dlk_zk_sort sort = dlk_zk_sort_of(child);
    return sort != DLK_SORT_OTHER && sort != DLK_SORT_PART && sort != DLK_SORT_WAIT;
}

/* In the line beside a plain node nobody has anything. */
static bool is_line_beside(const char *folder)
{
    size_t size = strlen(folder), end = strlen(DLK_ZK_BESIDE);
    return size > end && strcmp(folder + size - end, DLK_ZK_BESIDE) == 0;
}

/* The lock whose nodes lie in this folder, and the first of them: a semaphore's lie one further down, and
 * those that hold it in "leases". */
static void add_lock(dlk_zk_report *report, const char *folder, const char *first)
{
    const char *part = dlk_zk_base_name(folder);
    bool waits = strcmp(part, "locks") == 0;
    char *path = strdup(folder);
    if (path && (waits || strcmp(part, "leases") == 0))
        path[strlen(path) - strlen(part) - 1] = '\0';
    if (path && fit_of(report, path) != WANTED) {
        free(path);
        return;
    }
    dlk_zk_finding *item = dlk_zk_report_find(report, path);
    if (item && !waits && !is_line_beside(folder))
        item->node = dlk_zk_join(folder, first); /* NULL: whose it is isn't told */
}

/* Of one lock the one that says whose it is comes first. */
static int by_path(const void *a, const void *b)
{
    const dlk_zk_finding *one = a, *other = b;
    int order = strcmp(one->path, other->path);
    return order ? order : (other->node != NULL) - (one->node != NULL);
}

/* A semaphore may be found twice. */
static bool has_enough(const dlk_zk_report *report)
{
    return (int64_t)(report->count / 2) >= report->base.ask->limit;
}

static void finish(dlk_zk_report *report)
{
    dlock_info *info = report->base.info = dlk_info_new();
    int64_t told = 0;
    if (report->count > 0)
        qsort(report->found, report->count, sizeof(*report->found), by_path);
    for (size_t i = 0; i < report->count && told < report->base.ask->limit; i++) {
        if (i > 0 && strcmp(report->found[i].path, report->found[i - 1].path) == 0)
            continue;
        char *name = dlk_zk_name_of(report->zk->chroot, report->found[i].path);
        if (!name)
            dlk_zk_report_no_memory(report);
        dlk_info_add_text(info, name, "locks.%lld.name", (long long)told);
        dlk_zk_party_list(report, &report->found[i], (size_t)told++);
        free(name);
    }
    if (report->left_out > 0 ||
        (report->looked < report->folder_count && !has_enough(report)))
        dlk_info_add_text(
            info, "some nodes weren't looked into: there are too many, or no right to",
            "incomplete");
    dlk_report_tell(&report->base);
}

/* ---- whose they are ---- */

static void read_on(dlk_zk_report *report, int64_t now);

static void on_node(dlk_zk_call *call, int64_t now)
{
    dlk_zk_finding *item = call->extra;
    if (call->end == DLK_ZK_OK) {
        item->text = call->item.text;
        call->item.text = NULL;
    }
    read_on(call->owner, now);
}

static void read_on(dlk_zk_report *report, int64_t now)
{
    while (report->read < report->count && report->base.calls < TOGETHER) {
        dlk_zk_finding *item = &report->found[report->read++];
        const dlk_zk_request request = {.verb = DLK_ZK_GET, .path = item->node};
        if (item->node && !dlk_zk_report_send(report, &request, on_node, item, now))
            report->read = report->count;
    }
    if (report->base.calls == 1)
        finish(report);
}

/* ---- which there are ---- */

static void go_on(dlk_zk_report *report, int64_t now);

/* Whoever is first has it, or will at once; a bridge by its node that is like the others'. */
static bool is_before(const char *child, const char *first)
{
    bool bridge = dlk_zk_sort_of(child) == DLK_SORT_BRIDGE;
    if (first && bridge != (dlk_zk_sort_of(first) == DLK_SORT_BRIDGE))
        return !bridge;
    return !first || strcmp(dlk_zk_digits(child), dlk_zk_digits(first)) < 0;
}

static void on_folder(dlk_zk_call *call, int64_t now)
{
    dlk_zk_report *report = call->owner;
    char *folder = call->extra;
    const char *first = NULL;
    /* One that has gone meanwhile leaves nothing out. */
    report->left_out += call->end != DLK_ZK_OK && call->end != DLK_ZK_NO_NODE;
    for (size_t i = 0; i < call->child_count; i++) {
        if (!is_lock_node(call->children[i]))
            push(report, folder, call->children[i]);
        else if (is_before(call->children[i], first))
            first = call->children[i];
    }
    if (first)
        add_lock(report, folder, first);
    go_on(report, now);
}

/* on_folder isn't called where nobody waits any more, so the report keeps the names. */
static void go_on(dlk_zk_report *report, int64_t now)
{
    while (report->looked < report->folder_count && report->base.calls < TOGETHER &&
           !has_enough(report)) {
        char *folder = report->folders[report->looked];
        const dlk_zk_request request = {.verb = DLK_ZK_CHILDREN, .path = folder};
        if (!dlk_zk_report_send(report, &request, on_folder, folder, now))
            break;
        report->looked++;
    }
    if (report->base.calls == 1)
        read_on(report, now);
}

void dlk_zk_list_begin(dlk_zk_report *report, int64_t now)
{
    char *root = strdup(report->zk->chroot[0] ? report->zk->chroot : "/");
    report->folders = calloc(1, sizeof(*report->folders));
    if (!root || !report->folders) {
        free(root);
        dlk_zk_report_no_memory(report);
        return;
    }
    report->folders[0] = root;
    report->folder_count = report->folder_capacity = 1;
    go_on(report, now);
}
