/* Listing locks: the keys that begin as asked for, page by page, and whose lock each of them is. */
#include "backends/etcd/reports.h"

#include "util/info.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 1000

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

/* Other names' keys may lie among a lock's. */
static bool is_listed(const dlk_etcd_report *report, const char *name)
{
    for (size_t i = dlock_info_count(report->base.info); i-- > 0;)
        if (strcmp(dlock_info_text(report->base.info, i), name) == 0)
            return true;
    return false;
}

static bool by_lease(const json_t *kv)
{
    return dlk_json_int(kv, "lease") != 0;
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
    bool full = false;
    for (size_t i = 0; i < dlk_json_kv_count(call->json) && !full; i++) {
        const json_t *kv = dlk_json_kv(call->json, i);
        free(last.data);
        last = dlk_base64_decode(dlk_json_text(kv, "key"));
        size_t size = last.data && by_lease(kv) ? name_size(&last) : 0;
        char *name = size ? strndup(last.data, size) : NULL;
        full = (int64_t)dlock_info_count(report->base.info) >= report->base.ask->limit;
        if (name && !full && !is_listed(report, name))
            dlk_info_add_text(report->base.info, name, "locks.%zu.name",
                              dlock_info_count(report->base.info));
        free(name);
    }
    char *next = NULL;
    if (last.data && dlk_json_true(call->json, "more") && !full)
        next = dlk_base64(last.data, last.size + 1); /* its '\0' makes it the one after */
    free(last.data);
    if (next)
        ask_page(report, next, now);
    else
        dlk_report_tell(&report->base);
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
