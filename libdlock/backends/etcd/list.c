/* Listing locks: the keys that begin as asked for, page by page, without their values, which may be anything;
 * then those of the first in each lock's line, which say whose it is. */
#include "backends/etcd/reports.h"

#include "util/error.h"
#include "util/grow.h"
#include "util/info.h"
#include "util/who.h"

#include <stdlib.h>
#include <string.h>

#define PAGE     1000
#define TOGETHER 64 /* a server takes 128 requests in a transaction */

/* The size of the lock's name in a key; 0: it is no lock's. */
static size_t name_size(dlk_etcd_bytes key)
{
    const char *from = (const char *)key.data, *slash = memrchr(from, '/', key.len);
    const char *end = memchr(from, '\0', key.len);
    bool fence =
        end && strncmp(end + 1, "late/", 5) == 0; /* there may be no more of it */
    bool condition =
        end && (strncmp(end + 1, "w/", 2) == 0 || strcmp(end + 1, "signals") == 0);
    if (fence || condition)
        return 0;
    if (end) /* of ours */
        return (size_t)(end - from);
    if (!slash || !slash[1])
        return 0;
    for (const char *at = slash + 1; *at; at++)
        if (!strchr("0123456789abcdef", *at))
            return 0;
    return (size_t)(slash - from);
}

/* ---- whose they are ---- */

/* A lock, and the first key in its line. */
typedef struct dlk_etcd_listed {
    char *name;
    dlk_etcd_bytes key;
    int64_t rev;
} listed;

void dlk_etcd_listed_free(dlk_etcd_report *report)
{
    for (size_t i = 0; i < report->listed_count; i++) {
        free(report->listed[i].name);
        dlk_etcd_bytes_free(&report->listed[i].key);
    }
    free(report->listed);
}

/* What its key says of what it is; an election's looks as a mutex'. */
static dlk_etcd_key line_of(dlk_etcd_bytes key)
{
    const char *end = memchr(key.data, '\0', key.len);
    if (!end)
        return (dlk_etcd_key){.line = DLK_ETCD_MUTEX, .base.kind = DLOCK_MUTEX};
    if (strncmp(end + 1, "sem/", 4) == 0)
        return (dlk_etcd_key){.line = DLK_ETCD_SEMAPHORE, .base.kind = DLOCK_SEMAPHORE};
    return (dlk_etcd_key){.line = DLK_ETCD_RW, .base.kind = DLOCK_WRITE};
}

/* What others publish there says nothing. */
static bool is_owner(const char *text)
{
    size_t size = dlk_who_owner_size(text);
    return size > 0 && text[size] == '\0';
}

static void tell_whose(dlk_etcd_report *report, const DlkEtcd__KeyValue *kv,
                       size_t number)
{
    dlk_etcd_entry item;
    const dlk_etcd_key line = line_of(report->listed[number].key);
    if (!kv || kv->create_revision != report->listed[number].rev ||
        !dlk_etcd_entry_read(&line, kv, &item))
        return;
    if (is_owner(item.owner)) {
        dlk_info_add_text(report->base.info, item.owner, "locks.%zu.owner", number);
        (void)dlk_who_tell_text(report->base.info, item.who, strlen(item.who), "locks",
                                number); /* since when isn't listed */
    }
    free(item.text);
}

static void ask_whose(dlk_etcd_report *report, int64_t now);

static void on_whose(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_report *report = call->owner;
    /* Too much, for the server or for us: then these locks are listed without their owners. */
    if (call->end != DLK_ETCD_OK && call->end != DLK_ETCD_BAD &&
        call->end != DLK_ETCD_BUSY) {
        dlk_etcd_report_failed(report, call, "read the keys of locks");
        return;
    }
    for (size_t i = 0; i < TOGETHER && report->told < report->listed_count; i++) {
        const size_t number = report->told++;
        dlk_info_add_text(report->base.info, report->listed[number].name,
                          "locks.%zu.name", number);
        tell_whose(report, dlk_etcd_kv(dlk_etcd_found(call, i), 0), number);
    }
    ask_whose(report, now);
}

static void ask_whose(dlk_etcd_report *report, int64_t now)
{
    dlk_etcd_txn txn;
    if (report->told == report->listed_count) {
        dlk_report_tell(&report->base);
        return;
    }
    dlk_etcd_txn_begin(&txn);
    for (size_t i = 0; i < TOGETHER && report->told + i < report->listed_count; i++)
        (void)dlk_etcd_txn_range(&txn, DLK_ETCD_THEN,
                                 report->listed[report->told + i].key);
    (void)dlk_etcd_report_send(report, DLK_ETCD_TXN, dlk_etcd_txn_end(&txn), on_whose,
                               now);
}

/* ---- which there are ---- */

/* Other names' keys may lie among a lock's. */
static listed *find(const dlk_etcd_report *report, const char *name)
{
    for (size_t i = report->listed_count; i-- > 0;)
        if (strcmp(report->listed[i].name, name) == 0)
            return &report->listed[i];
    return NULL;
}

/* NULL without memory. */
static listed *add(dlk_etcd_report *report, const char *name)
{
    listed *items = dlk_grow(report->listed, report->listed_count,
                             &report->listed_capacity, sizeof(*items));
    if (!items)
        return NULL;
    report->listed = items;
    listed *item = &report->listed[report->listed_count];
    *item = (listed){.name = strdup(name), .rev = INT64_MAX};
    report->listed_count += item->name != NULL;
    return item->name ? item : NULL;
}

/* False: it is of another lock than all that were asked for. */
static bool see(dlk_etcd_report *report, const char *name, const DlkEtcd__KeyValue *kv)
{
    listed *item = find(report, name);
    if (!item && (int64_t)report->listed_count >= report->base.ask->limit)
        return false;
    if (!item)
        item = add(report, name);
    if (item && kv->create_revision < item->rev) {
        dlk_etcd_bytes_free(&item->key);
        item->key = dlk_etcd_bytes_copy(kv->key.data, kv->key.len);
        item->rev = kv->create_revision;
    }
    if (!item || !item->key.data)
        dlk_report_refuse(&report->base,
                          dlk_error_make(DLOCK_ENOMEM, "etcd: out of memory"));
    return item && item->key.data;
}

static void ask_page(dlk_etcd_report *report, dlk_etcd_bytes from, int64_t now);

static void on_page(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_report *report = call->owner;
    if (call->end != DLK_ETCD_OK) {
        dlk_etcd_report_failed(report, call, "list keys");
        return;
    }
    const DlkEtcd__RangeResponse *range = dlk_etcd_range(call);
    dlk_etcd_bytes last = {0}; /* ours, for there is a '\0' behind it */
    bool goes_on = true;
    for (size_t i = 0; i < dlk_etcd_kv_count(range) && goes_on; i++) {
        const DlkEtcd__KeyValue *kv = dlk_etcd_kv(range, i);
        dlk_etcd_bytes_free(&last);
        last = dlk_etcd_bytes_copy(kv->key.data, kv->key.len);
        size_t size = last.data && kv->lease != 0 ? name_size(last) : 0;
        char *name = size ? strndup((char *)last.data, size) : NULL;
        goes_on = !name || see(report, name, kv);
        free(name);
    }
    last.len += last.data != NULL; /* its '\0' makes it the one after */
    if (last.data && range->more && goes_on)
        ask_page(report, last, now);
    else if (report->base.ask)
        ask_whose(report, now);
    dlk_etcd_bytes_free(&last);
}

/* The first key that doesn't begin so any more; yours. */
static dlk_etcd_bytes end_of(const char *prefix)
{
    size_t size = strlen(prefix);
    while (size > 0 && (unsigned char)prefix[size - 1] == 0xff)
        size--;
    if (size == 0)
        return dlk_etcd_bytes_copy("", 1); /* "\0": to the very end */
    dlk_etcd_bytes end = dlk_etcd_bytes_copy(prefix, size);
    if (end.data)
        end.data[size - 1]++;
    return end;
}

static void ask_page(dlk_etcd_report *report, dlk_etcd_bytes from, int64_t now)
{
    dlk_etcd_bytes end = end_of(report->base.ask->text ? report->base.ask->text : "");
    DlkEtcd__RangeRequest range = DLK_ETCD__RANGE_REQUEST__INIT;
    range.key = from;
    range.range_end = end;
    range.keys_only = true;
    range.limit = PAGE;
    dlk_etcd_request request = {.failed = true};
    if (end.data)
        request = dlk_etcd_request_of(&range.base);
    (void)dlk_etcd_report_send(report, DLK_ETCD_RANGE, request, on_page, now);
    dlk_etcd_bytes_free(&end);
}

void dlk_etcd_list_begin(dlk_etcd_report *report, int64_t now)
{
    const char *prefix = report->base.ask->text ? report->base.ask->text : "";
    size_t size = strlen(prefix);
    report->base.info = dlk_info_new();
    /* The first there can be, where all are asked for: "\0". */
    ask_page(report, (dlk_etcd_bytes){size > 0 ? size : 1, (uint8_t *)(uintptr_t)prefix},
             now);
}
