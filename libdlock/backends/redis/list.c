/* Listing; see reports.h.
 *
 * Names come from SCAN, which finds keys whose names begin right, or from what clients tell (told_list.h); then
 * a script says which of these are locks, and whose; and then once more for the permits of semaphores, which are
 * sorted sets. Each step has the whole time-out of a command: a large database takes many steps, and the
 * connection must not be given up for that. Between its pages a scan may rest for as long as they took
 * (redis.list=slowly): others have half of the server at least. */
#include "backends/redis/asks.h"
#include "backends/redis/client_key.h"
#include "backends/redis/inner.h"
#include "backends/redis/keys.h"
#include "backends/redis/layout.h"
#include "backends/redis/list_items.h"
#include "backends/redis/reports.h"
#include "backends/redis/told_list.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/info.h"
#include "util/who.h"

#include <stdlib.h>
#include <string.h>

#define SCAN_COUNT "500"
#define BATCH      4096 /* names of one SCAN that are looked at; SCAN itself stays far below */
#define TOLD_BATCH 50 /* names that clients tell, in a request */

typedef struct listing {
    dlk_redis_told_list *told;   /* what clients tell; NULL: all keys are gone through */
    dlk_redis_told_list *untold; /* that was to be so, and the server doesn't let us */
    bool reading;                /* the reply that comes is of those, … */
    bool scanning;               /* … is SCAN's; else the script's */
    bool permits;                /* the second time, for permits */
    bool naming;     /* … and then, whose those are whose clients tell nothing */
    char cursor[24]; /* "0" after the last SCAN */
    bool dropped;    /* names that came with the others weren't looked at */
    int64_t pages,
        took; /* SCANs, and how long they and what was asked behind them took, ns */
    int64_t sent_at; /* the last of them */
    char *pattern;
    dlk_redis_items found;
    unsigned breaks; /* that had been made when it began */
} listing;

/* ask->scratch holds the listing while it lasts. */
static listing *listing_of(const dlk_ask *ask)
{
    return (listing *)(intptr_t)ask->scratch;
}

void dlk_redis_reports_drop(dlk_ask *ask)
{
    if (ask->verb == DLK_DOCTOR) {
        dlk_info_free(ask->info);
        ask->info = NULL;
    }
    if (ask->verb != DLK_LIST || ask->scratch == 0)
        return;
    listing *list = listing_of(ask);
    dlk_redis_items_free(&list->found);
    dlk_redis_told_list_free(list->told);
    dlk_redis_told_list_free(list->untold);
    free(list->pattern);
    free(list);
    ask->scratch = 0;
}

/* The beginning with what SCAN takes for special made plain, and "*"; of a key of permits, between what may
 * stand before and behind it. */
static char *make_pattern(const char *begin, bool permits)
{
    char *pattern = malloc(strlen(begin) * 2 + sizeof("**" DLK_REDIS_PERMITS)),
         *to = pattern;
    if (!pattern)
        return NULL;
    if (permits)
        *to++ = '*';
    for (; *begin; begin++) {
        if (strchr("*?[]\\^-", *begin))
            *to++ = '\\';
        *to++ = *begin;
    }
    *to++ = '*';
    strcpy(to, permits ? DLK_REDIS_PERMITS : "");
    return pattern;
}

static bool put_scan(dlk_redis *redis, listing *list)
{
    const dlk_arg args[] = {
        dlk_arg_text("SCAN"),  dlk_arg_text(list->cursor),
        dlk_arg_text("MATCH"), dlk_arg_text(list->pattern),
        dlk_arg_text("COUNT"), dlk_arg_text(SCAN_COUNT),
        dlk_arg_text("TYPE"),  dlk_arg_text(list->permits ? "zset" : redis->layout->type),
    };
    list->scanning = true;
    list->pages++;
    list->sent_at = dlk_clock_now();
    return dlk_resp_command(&redis->commands.link.stream.out, args, 8);
}

static bool begin_scan(dlk_redis *redis, const dlk_ask *ask, listing *list)
{
    free(list->pattern);
    list->pattern = make_pattern(ask->text ? ask->text : "", list->permits);
    strcpy(list->cursor, "0");
    return list->pattern && put_scan(redis, list);
}

/* Clients of a cluster don't tell: their keys lie on each node they ask. Nor do those of a Redlock. */
static bool reads_told(const dlk_redis *redis, const dlk_ask *ask)
{
    if (ask == &redis->circles.ask)
        return true;
    return dlk_settings_int(redis->settings, DLK_KEY_REDIS_LIST) ==
               DLK_REDIS_LIST_CLIENTS &&
           redis->tells && !redis->cluster;
}

static bool begin_told(dlk_redis *redis, const dlk_ask *ask, listing *list)
{
    list->reading = true;
    list->breaks = redis->breaks;
    list->told = dlk_redis_told_list_new(ask->text ? ask->text : "", ask->limit,
                                         redis->told_memory);
    redis->told_memory = NULL; /* a second list at the same time reads all */
    return list->told && dlk_redis_told_list_put(redis, list->told);
}

bool dlk_redis_list_begin(dlk_redis *redis, dlk_ask *ask)
{
    listing *list = calloc(1, sizeof(*list));
    if (!list)
        return false;
    ask->scratch = (int64_t)(intptr_t)list;
    if (reads_told(redis, ask) ? begin_told(redis, ask, list)
                               : begin_scan(redis, ask, list))
        return true;
    dlk_redis_reports_drop(ask);
    return false;
}

/* Sends the names to the script that knows locks. */
static bool put_names(dlk_redis *redis, listing *list, const dlk_resp *names, size_t all)
{
    const dlk_redis_script *script =
        &dlk_redis_scripts[list->permits ? DLK_SCRIPT_LIST_PERMITS : redis->layout->list];
    size_t count = all < BATCH ? all : BATCH;
    list->dropped |= count < all;
    char clients[DLK_REDIS_CLIENT_PREFIX];
    dlk_arg *args = malloc((count + 4) * sizeof(*args));
    if (!args)
        return false;
    args[0] = dlk_arg_text("EVAL");
    args[1] = (dlk_arg){script->text, script->size};
    args[2] = dlk_arg_text("0");
    bool known = list->told && !list->permits && !list->naming; /* who tells says it */
    args[3] = dlk_arg_text(known ? "" : dlk_redis_client_prefix(redis, clients));
    for (size_t i = 0; i < count; i++)
        args[i + 4] = (dlk_arg){names[i].text, names[i].size};
    list->scanning = false;
    bool fine = dlk_resp_command(&redis->commands.link.stream.out, args, count + 4);
    free(args);
    return fine;
}

static void add_scan(const listing *list, dlock_info *info)
{
    dlk_info_add_int(info, list->pages, "scan.pages");
    dlk_info_add_int(info, list->took / DLK_NS_PER_MS, "scan.ms");
    if (list->untold)
        dlk_info_add_text(info, dlk_redis_told_list_why(list->untold), "scan.why");
}

/* Without memory for some of it the next list asks about more. */
static void remember(dlk_redis *redis, listing *list)
{
    if (list->breaks != redis->breaks)
        return;
    dlk_redis_told_memory_free(redis->told_memory);
    redis->told_memory =
        dlk_redis_told_list_remember(list->told, dlk_redis_items_find, &list->found);
}

static bool finish(dlk_redis *redis, dlk_ask *ask)
{
    listing *list = listing_of(ask);
    dlock_info *info = dlk_info_new();
    for (size_t i = 0; i < list->found.count && (int64_t)i < ask->limit; i++) {
        const dlk_redis_found *item = &list->found.items[i];
        dlk_info_add_text(info, item->name, "locks.%zu.name", i);
        dlk_info_add_text(info, item->owner, "locks.%zu.owner", i);
        if (item->left >= 0)
            dlk_info_add_int(info, item->left, "locks.%zu.remaining_ms", i);
        const char *who =
            list->told ? dlk_redis_told_list_who(list->told, item->owner) : NULL;
        who = who ? who : item->client;
        /* nothing behind it */
        (void)dlk_who_tell_text(info, who, strlen(who), "locks", i);
        if (item->taken > 0) {
            dlk_info_add_text(info, "semaphore", "locks.%zu.kind", i);
            dlk_info_add_int(info, item->taken, "locks.%zu.taken", i);
        }
        if (list->told) {
            const dlk_redis_held held = dlk_redis_held_of(item);
            dlk_redis_told_list_tell_lock(list->told, &held, info, i);
        }
    }
    if (list->dropped)
        dlk_info_add_text(info, "the server told more keys at a time than are looked at",
                          "incomplete");
    if (!list->told) {
        add_scan(list, info);
    } else {
        dlk_redis_told_list_judge(list->told, dlk_redis_items_find, &list->found);
        if (!dlk_redis_told_list_tell(list->told, info) && info)
            info->failed = true;
        remember(redis, list);
    }
    dlk_redis_reports_drop(ask);
    return dlk_redis_give_info(redis, ask, info);
}

/* The script's answer; *fine tells whether it made sense. False without memory. */
static bool take_locks(listing *list, const char *begin, const dlk_resp *reply,
                       bool *fine)
{
    const size_t width = list->permits ? 5 : 4;
    *fine = reply->type == DLK_RESP_ARRAY && reply->count % width == 0;
    for (size_t i = 0; *fine && i < reply->count; i += width) {
        const dlk_resp *item = &reply->items[i];
        *fine = item[0].type == DLK_RESP_TEXT && item[1].type == DLK_RESP_TEXT &&
                item[2].type == DLK_RESP_INTEGER && item[3].type == DLK_RESP_TEXT &&
                (!list->permits || item[4].type == DLK_RESP_INTEGER);
        /* A name with a NUL inside is nobody's we know. */
        bool lock = *fine && strlen(item[0].text) == item[0].size &&
                    strncmp(item[0].text, begin, strlen(begin)) == 0 &&
                    !dlk_redis_is_derived(item[0].text);
        const dlk_redis_held one = {item[0].text, item[1].text, item[3].text,
                                    item[2].integer, list->permits ? item[4].integer : 0};
        if (lock && !dlk_redis_items_keep(&list->found, &one, list->naming))
            return false;
    }
    dlk_redis_items_sort(&list->found);
    return true;
}

/* SCAN's answer: the cursor to go on with, and names. */
static bool take_cursor(listing *list, const dlk_resp *reply)
{
    if (reply->type != DLK_RESP_ARRAY || reply->count != 2 ||
        reply->items[0].type != DLK_RESP_TEXT || reply->items[1].type != DLK_RESP_ARRAY ||
        reply->items[0].size >= sizeof(list->cursor))
        return false;
    for (size_t i = 0; i < reply->items[1].count; i++)
        if (reply->items[1].items[i].type != DLK_RESP_TEXT)
            return false;
    memcpy(list->cursor, reply->items[0].text, reply->items[0].size + 1);
    return true;
}

/* What comes of a reply. */
typedef enum step { BAD, NOMEM, SENT, REST, DONE } step;

static step sent(bool done)
{
    return done ? SENT : NOMEM;
}

/* Once more, for permits; false: that was it, or there are none in this layout. */
static bool turns_to_permits(const dlk_redis *redis, listing *list)
{
    bool turns = !list->permits && redis->layout->list == DLK_SCRIPT_LIST_HASH;
    list->permits = true;
    return turns;
}

static bool is_unnamed(const listing *list, const dlk_redis_found *item)
{
    return !item->named && item->taken == 0 && item->client[0] == '\0' &&
           !dlk_redis_told_list_who(list->told, item->owner);
}

/* Asks once more about those whose client tells nothing, as who has each for a moment only: such a lock may be the
 * one that all wait for. */
static step ask_who(dlk_redis *redis, listing *list)
{
    dlk_resp names[TOLD_BATCH];
    size_t count = 0, kept = 0;
    dlk_redis_found items[TOLD_BATCH];
    for (size_t i = 0; i < list->found.count; i++) {
        if (count == TOLD_BATCH || !is_unnamed(list, &list->found.items[i])) {
            list->found.items[kept++] = list->found.items[i];
            continue;
        }
        const char *name = list->found.items[i].name;
        names[count] = (dlk_resp){
            .type = DLK_RESP_TEXT, .text = (char *)(uintptr_t)name, .size = strlen(name)};
        items[count++] = list->found.items[i];
    }
    list->found.count = kept;
    list->naming = true;
    list->permits = false;
    step next = count > 0 ? sent(put_names(redis, list, names, count)) : DONE;
    while (count > 0)
        dlk_redis_found_free(&items[--count]);
    return next;
}

/* What is known of those that needn't be asked about. */
static bool take_passed(listing *list)
{
    dlk_redis_held one;
    while (dlk_redis_told_list_passed(list->told, &one))
        if (!dlk_redis_items_keep(&list->found, &one, list->naming))
            return false;
    dlk_redis_items_sort(&list->found);
    return true;
}

/* The next names that clients tell, if there are more. */
static step ask_about_told(dlk_redis *redis, listing *list, const dlk_ask *ask)
{
    dlk_resp names[TOLD_BATCH];
    bool others = (int64_t)list->found.count < ask->limit;
    if (list->naming)
        return ask_who(redis, list);
    size_t count =
        dlk_redis_told_list_names(list->told, list->permits, others, names, TOLD_BATCH);
    if (count == 0 && turns_to_permits(redis, list))
        count = dlk_redis_told_list_names(list->told, true, others, names, TOLD_BATCH);
    if (!take_passed(list))
        return NOMEM;
    return count > 0 ? sent(put_names(redis, list, names, count)) : ask_who(redis, list);
}

static step take_told(dlk_redis *redis, listing *list, const dlk_ask *ask,
                      const dlk_resp *reply)
{
    switch (dlk_redis_told_list_take(list->told, reply)) {
    case DLK_TOLD_BAD:
        return BAD;
    case DLK_TOLD_NOMEM:
        return NOMEM;
    case DLK_TOLD_MORE:
        return sent(dlk_redis_told_list_put(redis, list->told));
    case DLK_TOLD_ALL:
        list->reading = false;
        return ask_about_told(redis, list, ask);
    case DLK_TOLD_REFUSED:
        if (ask == &redis->circles.ask) /* which a scan wouldn't show */
            return DONE;
        break;
    }
    list->reading = false;
    list->untold = list->told;
    list->told = NULL;
    return sent(begin_scan(redis, ask, list));
}

static step next_page(dlk_redis *redis, const dlk_ask *ask, listing *list)
{
    if (strcmp(list->cursor, "0") == 0) {
        if (!turns_to_permits(redis, list))
            return DONE;
        list->took += dlk_clock_now() - list->sent_at;
        return sent(begin_scan(redis, ask, list));
    }
    if (dlk_settings_int(redis->settings, DLK_KEY_REDIS_LIST) == DLK_REDIS_LIST_SLOWLY)
        return REST;
    list->took += dlk_clock_now() - list->sent_at;
    return sent(put_scan(redis, list));
}

static step take_page(dlk_redis *redis, listing *list, const dlk_ask *ask,
                      const dlk_resp *reply)
{
    if (!take_cursor(list, reply))
        return BAD;
    const dlk_resp *names = &reply->items[1];
    if (names->count > 0)
        return sent(put_names(redis, list, names->items, names->count));
    return next_page(redis, ask, list);
}

static step take(dlk_redis *redis, listing *list, const dlk_ask *ask,
                 const dlk_resp *reply)
{
    bool fine = true;
    if (list->reading)
        return take_told(redis, list, ask, reply);
    if (list->scanning)
        return take_page(redis, list, ask, reply);
    if (!take_locks(list, ask->text ? ask->text : "", reply, &fine))
        return fine ? NOMEM : BAD;
    if (!fine)
        return BAD;
    if (list->told)
        return ask_about_told(redis, list, ask);
    return (int64_t)list->found.count >= ask->limit ? DONE : next_page(redis, ask, list);
}

/* It goes on later (dlk_redis_list_tick), nobody waits for it in the meantime. */
static void rest(dlk_redis *redis, dlk_ask *ask, listing *list, int64_t now)
{
    int64_t took = now - list->sent_at;
    took = took > 0 ? took : 0;
    list->took += took;
    list->sent_at = now + took;
    dlk_list_append(&redis->resting, &ask->link);
}

static void fail(dlk_redis *redis, dlk_ask *ask)
{
    dlk_redis_reports_drop(ask);
    dlk_redis_ask_refuse(redis, ask,
                         dlk_error_make(DLOCK_ENOMEM, "redis: out of memory"));
}

static void follow(dlk_redis *redis, dlk_ask *ask, int64_t now)
{
    if (ask->deadline < now + redis->timeout_ns)
        ask->deadline = now + redis->timeout_ns;
    dlk_redis_ask_sent(redis, ask);
}

bool dlk_redis_list_go_on(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply,
                          int64_t now)
{
    listing *list = listing_of(ask);
    step next = take(redis, list, ask, reply);
    if (next == BAD)
        return false;
    if (next == DONE && list->pages > 0)
        list->took += now - list->sent_at;
    if (next == DONE)
        return finish(redis, ask);
    dlk_list_remove(&ask->link);
    if (next == REST)
        rest(redis, ask, list, now);
    else if (next == SENT)
        follow(redis, ask, now);
    else
        fail(redis, ask);
    return true;
}

int64_t dlk_redis_list_wake(dlk_redis *redis, int64_t now)
{
    int64_t next = DLK_NEVER;
    DLK_LIST_FOR (it, &redis->resting) {
        dlk_ask *ask = DLK_LIST_ITEM(it, dlk_ask, link);
        listing *list = listing_of(ask);
        if (now < list->sent_at) {
            next = list->sent_at < next ? list->sent_at : next;
            continue;
        }
        dlk_list_remove(it);
        if (put_scan(redis, list))
            follow(redis, ask, now);
        else
            fail(redis, ask);
        dlk_redis_wake(redis);
    }
    return next;
}
