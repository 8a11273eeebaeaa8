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
static size_t name_size(const dlk_bytes *key)
{
    const char *slash = memrchr(key->data, '/', key->size);
    const char *end = memchr(key->data, '\0', key->size);
    bool fence =
        end && strncmp(end + 1, "late/", 5) == 0; /* there may be no more of it */
    bool condition =
        end && (strncmp(end + 1, "w/", 2) == 0 || strcmp(end + 1, "signals") == 0);
    if (fence || condition)
        return 0;
    if (end) /* of ours */
        return (size_t)(end - key->data);
    if (!slash || !slash[1])
        return 0;
    for (const char *at = slash + 1; *at; at++)
        if (!strchr("0123456789abcdef", *at))
            return 0;
    return (size_t)(slash - key->data);
}

/* ---- whose they are ---- */

/* A lock, and the first key in its line. */
typedef struct dlk_etcd_listed {
    char *name, *key; /* key: base64 */
    int64_t rev;
} listed;

void dlk_etcd_listed_free(dlk_etcd_report *report)
{
    for (size_t i = 0; i < report->listed_count; i++) {
        free(report->listed[i].name);
        free(report->listed[i].key);
    }
    free(report->listed);
}

/* What its key says of what it is; an election's looks as a mutex'. */
static dlk_etcd_key line_of(const char *key64, dlk_bytes *ret)
{
    *ret = dlk_base64_decode(key64);
    const char *end = ret->data ? memchr(ret->data, '\0', ret->size) : NULL;
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

static void tell_whose(dlk_etcd_report *report, const json_t *kv, size_t number)
{
    dlk_etcd_entry item;
    dlk_bytes key;
    const dlk_etcd_key line = line_of(report->listed[number].key, &key);
    if (kv && dlk_json_int(kv, "create_revision") == report->listed[number].rev &&
        dlk_etcd_entry_read(&line, kv, &item)) {
        if (is_owner(item.owner)) {
            dlk_info_add_text(report->base.info, item.owner, "locks.%zu.owner", number);
            (void)dlk_who_tell_text(report->base.info, item.who, strlen(item.who),
                                    "locks", number); /* since when isn't listed */
        }
        free(item.text);
    }
    free(key.data);
}

static void ask_whose(dlk_etcd_report *report, int64_t now);

static void on_whose(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_report *report = call->owner;
    /* Too much, for the server or for us: then these locks are listed without their owners. */
    if (call->end != DLK_ETCD_OK && call->end != DLK_ETCD_BAD) {
        dlk_etcd_report_failed(report, call, "read the keys of locks");
        return;
    }
    for (size_t i = 0; i < TOGETHER && report->told < report->listed_count; i++) {
        const size_t number = report->told++;
        dlk_info_add_text(report->base.info, report->listed[number].name,
                          "locks.%zu.name", number);
        tell_whose(report,
                   dlk_json_kv(dlk_json_response(call->json, i, "response_range"), 0),
                   number);
    }
    ask_whose(report, now);
}

static void ask_whose(dlk_etcd_report *report, int64_t now)
{
    dlk_say say = {0};
    if (report->told == report->listed_count) {
        dlk_report_tell(&report->base);
        return;
    }
    dlk_say_text(&say, "{\"success\":[");
    for (size_t i = 0; i < TOGETHER && report->told + i < report->listed_count; i++)
        dlk_say_text(&say, "%s{\"requestRange\":{\"key\":\"%s\"}}", i > 0 ? "," : "",
                     report->listed[report->told + i].key);
    dlk_say_text(&say, "]}");
    (void)dlk_etcd_report_send(report, "/v3/kv/txn", dlk_say_end(&say), on_whose, now);
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

static bool by_lease(const json_t *kv)
{
    return dlk_json_int(kv, "lease") != 0;
}

/* False: it is of another lock than all that were asked for. */
static bool see(dlk_etcd_report *report, const char *name, const json_t *kv)
{
    listed *item = find(report, name);
    if (!item && (int64_t)report->listed_count >= report->base.ask->limit)
        return false;
    if (!item)
        item = add(report, name);
    int64_t rev = dlk_json_int(kv, "create_revision");
    if (item && rev < item->rev) {
        free(item->key);
        item->key = strdup(dlk_json_text(kv, "key"));
        item->rev = rev;
    }
    if (!item || !item->key)
        dlk_report_refuse(&report->base,
                          dlk_error_make(DLOCK_ENOMEM, "etcd: out of memory"));
    return item && item->key;
}

static void ask_page(dlk_etcd_report *report, const char *from, int64_t now);

static void on_page(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_report *report = call->owner;
    if (call->end != DLK_ETCD_OK) {
        dlk_etcd_report_failed(report, call, "list keys");
        return;
    }
    dlk_bytes last = {0};
    bool goes_on = true;
    for (size_t i = 0; i < dlk_json_kv_count(call->json) && goes_on; i++) {
        const json_t *kv = dlk_json_kv(call->json, i);
        free(last.data);
        last = dlk_base64_decode(dlk_json_text(kv, "key"));
        size_t size = last.data && by_lease(kv) ? name_size(&last) : 0;
        char *name = size ? strndup(last.data, size) : NULL;
        goes_on = !name || see(report, name, kv);
        free(name);
    }
    char *next = NULL;
    if (last.data && dlk_json_true(call->json, "more") && goes_on)
        next = dlk_base64(last.data, last.size + 1); /* its '\0' makes it the one after */
    free(last.data);
    if (next)
        ask_page(report, next, now);
    else if (report->base.ask)
        ask_whose(report, now);
    free(next);
}

/* The first key that doesn't begin so any more; base64. */
static char *end_of(const char *prefix)
{
    size_t size = strlen(prefix);
    char *text = strdup(prefix), *end = NULL;
    while (text && size > 0 && (unsigned char)text[size - 1] == 0xff)
        size--;
    if (text && size > 0) {
        text[size - 1]++;
        end = dlk_base64(text, size);
    } else if (text) {
        end = dlk_base64("", 1); /* "\0": to the very end */
    }
    free(text);
    return end;
}

static void ask_page(dlk_etcd_report *report, const char *from, int64_t now)
{
    dlk_say say = {0};
    char *end = end_of(report->base.ask->text ? report->base.ask->text : "");
    dlk_say_text(
        &say, "{\"key\":\"%s\",\"range_end\":\"%s\",\"keys_only\":true,\"limit\":\"%d\"}",
        from, end ? end : "", PAGE);
    say.failed |= !end;
    free(end);
    (void)dlk_etcd_report_send(report, "/v3/kv/range", dlk_say_end(&say), on_page, now);
}

void dlk_etcd_list_begin(dlk_etcd_report *report, int64_t now)
{
    const char *prefix = report->base.ask->text ? report->base.ask->text : "";
    char *from = prefix[0] ? dlk_base64_text(prefix) : dlk_base64("", 1);
    report->base.info = dlk_info_new();
    if (from)
        ask_page(report, from, now);
    free(from);
}
