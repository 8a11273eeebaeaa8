/*
 * What dlock_client_metrics tells: OpenMetrics 1.0 text. All clients are counted first, each at one
 * moment with its mutex held, and written about when no mutex is: a page costs an acquire the copying of
 * some 4 KB, and a look at each name and grant, at most. Buckets, count and sum of a histogram are of that moment, so they agree.
 *
 * The size of the text is bounded by the number of clients: nothing in it comes from a lock's name.
 */
#include "engine/metrics.h"

#include "util/buf.h"
#include "util/clock.h"
#include "util/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Buckets end at 2^14 ns (16 µs), and so on by powers of four, up to 2^38 ns (275 s). */
#define FIRST_END 14
#define LAST_END  38
#define END_STEP  2

typedef struct subject {
    dlk_engine *engine; /* referenced */
    char *labels;       /* client="…",service="…" */
    dlk_snapshot at;
} subject;

typedef struct metrics_page {
    dlk_buf text;
    bool failed; /* no memory */
    const subject *subjects;
    size_t count;
} metrics_page;

/* ---- what there is just now ---- */

static void count_grants(const dlk_core *core, dlk_snapshot *ret)
{
    DLK_LIST_FOR (it, &core->grants) {
        const dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, all);
        if (!dlk_grant_lives(grant))
            continue;
        if (dlk_grant_is_kept(grant))
            ret->kept++;
        else if (dlk_grant_state(grant) == DLOCK_SUSPECT)
            ret->suspect++;
        else
            ret->held++;
    }
}

static void count_waits(const dlk_core *core, int64_t now, dlk_snapshot *ret)
{
    for (size_t i = 0; i < core->name_buckets; i++) {
        for (const dlk_name *name = core->names[i]; name; name = name->next) {
            DLK_CHAIN_FOR (it, &name->queue) {
                int64_t waited = now - DLK_LIST_ITEM(it, dlk_wait, link)->began;
                ret->waiting++;
                if (waited > ret->longest_wait)
                    ret->longest_wait = waited;
            }
        }
    }
}

void dlk_engine_count_all(const dlk_engine *engine, int64_t now, dlk_snapshot *ret)
{
    dlk_engine_count(engine, ret);
    count_grants(&engine->core, ret);
    count_waits(&engine->core, now, ret);
}

/* ---- writing ---- */

__attribute__((format(printf, 2, 3))) static void put(metrics_page *page,
                                                      const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (size < 0 || (size_t)size >= sizeof(line) ||
        !dlk_buf_append(&page->text, line, (size_t)size))
        page->failed = true;
}

static void put_text(metrics_page *page, const char *text)
{
    if (!dlk_buf_append(&page->text, text, strlen(text)))
        page->failed = true;
}

/* As OpenMetrics has it: UTF-8, with three characters escaped. */
static void put_label_value(metrics_page *page, const char *value)
{
    size_t left = strlen(value);
    while (left > 0) {
        size_t size = dlk_utf8_size(value, left);
        if (size == 0) {
            put_text(page, "\xef\xbf\xbd");
            size = 1;
        } else if (*value == '\\' || *value == '"') {
            put(page, "\\%c", *value);
        } else if (*value == '\n') {
            put_text(page, "\\n");
        } else if (!dlk_buf_append(&page->text, value, size)) {
            page->failed = true;
        }
        value += size;
        left -= size;
    }
}

static void put_seconds(metrics_page *page, int64_t ns)
{
    put(page, "%lld.%09lld", (long long)(ns / DLK_NS_PER_SEC),
        (long long)(ns % DLK_NS_PER_SEC));
}

static void put_family(metrics_page *page, const char *family, const char *type,
                       const char *unit, const char *help)
{
    put(page, "# TYPE dlock_%s %s\n", family, type);
    if (unit)
        put(page, "# UNIT dlock_%s %s\n", family, unit);
    put(page, "# HELP dlock_%s %s\n", family, help);
}

/* "dlock_grants_total{client=…,cause=…" up to the brace, or what else comes. */
static void put_name(metrics_page *page, const char *family, const char *suffix,
                     const subject *of, const char *label)
{
    put(page, "dlock_%s%s{", family, suffix);
    put_text(page, of->labels);
    if (label)
        put(page, ",%s", label);
}

static void put_count(metrics_page *page, const dlk_count *count, const subject *of)
{
    bool up = count->type == DLK_COUNT_UP || count->type == DLK_COUNT_BYTES;
    int64_t value = dlk_count_of(&of->at, count);
    put_name(page, count->family, up ? "_total" : "", of, count->label);
    put_text(page, "} ");
    if (count->type == DLK_COUNT_GAUGE_SECONDS)
        put_seconds(page, value);
    else
        put(page, "%lld", (long long)value);
    put_text(page, "\n");
}

static void put_spread(metrics_page *page, const dlk_spread *spread, const subject *of)
{
    const dlk_hist *hist = dlk_spread_of(&of->at, spread);
    int64_t seen = 0;
    int end = 0;
    for (int at = FIRST_END; at <= LAST_END; at += END_STEP) {
        for (; end < at; end++)
            seen += hist->bucket[end]; /* it ends at 2^(end + 1) */
        put_name(page, spread->family, "_bucket", of, spread->label);
        put_text(page, ",le=\"");
        put_seconds(page, INT64_C(1) << at);
        put(page, "\"} %lld\n", (long long)seen);
    }
    put_name(page, spread->family, "_bucket", of, spread->label);
    put(page, ",le=\"+Inf\"} %lld\n", (long long)hist->count);
    put_name(page, spread->family, "_sum", of, spread->label);
    put_text(page, "} ");
    put_seconds(page, hist->sum);
    put_text(page, "\n");
    put_name(page, spread->family, "_count", of, spread->label);
    put(page, "} %lld\n", (long long)hist->count);
}

/* One family after the other, and in each all of a client's numbers after the other's. */
static void put_counts(metrics_page *page)
{
    static const char *const types[] = {"counter", "counter", "gauge", "gauge"};
    static const char *const units[] = {NULL, "bytes", NULL, "seconds"};
    for (size_t i = 0, end; i < dlk_count_count; i = end) {
        const dlk_count *first = &dlk_counts[i];
        for (end = i + 1; end < dlk_count_count; end++)
            if (strcmp(dlk_counts[end].family, first->family) != 0)
                break;
        put_family(page, first->family, types[first->type], units[first->type],
                   first->help);
        for (size_t of = 0; of < page->count; of++)
            for (size_t k = i; k < end; k++)
                put_count(page, &dlk_counts[k], &page->subjects[of]);
    }
}

static void put_spreads(metrics_page *page)
{
    for (size_t i = 0, end; i < dlk_spread_count; i = end) {
        const dlk_spread *first = &dlk_spreads[i];
        for (end = i + 1; end < dlk_spread_count; end++)
            if (strcmp(dlk_spreads[end].family, first->family) != 0)
                break;
        put_family(page, first->family, "histogram", "seconds", first->help);
        for (size_t of = 0; of < page->count; of++)
            for (size_t k = i; k < end; k++)
                put_spread(page, &dlk_spreads[k], &page->subjects[of]);
    }
}

static void put_infos(metrics_page *page)
{
    put_family(page, "client", "info", NULL, "A client, and the library it runs on.");
    for (size_t of = 0; of < page->count; of++) {
        put_name(page, "client", "_info", &page->subjects[of], NULL);
        put(page, ",version=\"%s\"} 1\n", DLOCK_VERSION_STRING);
    }
}

/* ---- whom it is about ---- */

/* Whether it could be taken for one that we have put a number to. */
static bool looks_numbered(const char *name)
{
    size_t size = strlen(name), digits = 0;
    while (digits < size && name[size - 1 - digits] >= '0' &&
           name[size - 1 - digits] <= '9')
        digits++;
    return digits > 0 && digits < size && name[size - 1 - digits] == '#';
}

/* Clients of one process may have one name and one service. */
static char *labels_of(const dlk_engine *engine)
{
    metrics_page page = {0};
    put_text(&page, "client=\"");
    put_label_value(&page, engine->name);
    if (engine->namesake > 0 || looks_numbered(engine->name))
        put(&page, "#%u", engine->namesake + 1);
    put_text(&page, "\",service=\"");
    put_label_value(&page, engine->uri);
    put_text(&page, "\"");
    if (page.failed || !dlk_buf_append(&page.text, "", 1)) {
        dlk_buf_free(&page.text);
        return NULL;
    }
    return page.text.data;
}

/* Nobody else's code runs here, and nothing is caught up with: the mutex is only for reading. */
static void look(subject *one, int64_t now)
{
    (void)pthread_mutex_lock(&one->engine->mutex);
    dlk_engine_count_all(one->engine, now, &one->at);
    (void)pthread_mutex_unlock(&one->engine->mutex);
}

static dlock_err write_page(subject *subjects, size_t count, char **ret_text)
{
    metrics_page page = {.subjects = subjects, .count = count};
    int64_t now = dlk_clock_now();
    for (size_t i = 0; i < count; i++) {
        look(&subjects[i], now);
        subjects[i].labels = labels_of(subjects[i].engine);
        page.failed |= subjects[i].labels == NULL;
    }
    if (!page.failed) {
        put_infos(&page);
        put_counts(&page);
        put_spreads(&page);
        put_text(&page, "# EOF\n");
    }
    if (page.failed || !dlk_buf_append(&page.text, "", 1)) {
        dlk_buf_free(&page.text);
        return DLOCK_ENOMEM;
    }
    *ret_text = page.text.data; /* nothing was eaten: it begins there */
    return DLOCK_OK;
}

dlock_err dlk_metrics_text(dlk_engine *const *engines, size_t count, char **ret_text)
{
    subject *subjects = calloc(count + 1, sizeof(*subjects));
    if (!subjects)
        return DLOCK_ENOMEM;
    for (size_t i = 0; i < count; i++)
        subjects[i].engine = engines[i];
    dlock_err code = write_page(subjects, count, ret_text);
    for (size_t i = 0; i < count; i++)
        free(subjects[i].labels);
    free(subjects);
    return code;
}
