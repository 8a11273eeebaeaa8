/* What is asked of a lock's keys: each step is one transaction, written as the gateway's JSON. Which keys these
 * are, and what the answers say, stands in layout.c. */
#include "backends/etcd/inner.h"

#include <stdio.h>
#include <stdlib.h>

static void say_range(dlk_say *say, dlk_etcd_span span, const char *more)
{
    dlk_say_text(say, "{\"request_range\":{\"key\":\"%s\",\"range_end\":\"%s\"%s}}",
                 span.from, span.to, more);
}

/* Those before us, as far as this kind of place has to know them; @p below 0: all there are. */
static void say_line(dlk_say *say, const dlk_etcd_place *place, int64_t below)
{
    const dlk_etcd_key *home = place->home;
    char limit[64] = "", more[192];
    bool reads = home->line == DLK_ETCD_RW && place->base.shared;
    if (below)
        (void)snprintf(limit, sizeof(limit), ",\"max_create_revision\":\"%" PRId64 "\"",
                       below - 1);
    bool all = reads || home->line == DLK_ETCD_SEMAPHORE;
    (void)snprintf(more, sizeof(more),
                   ",\"sort_target\":\"CREATE\",\"sort_order\":\"DESCEND\"%s%s", limit,
                   all ? "" : ",\"keys_only\":true,\"limit\":\"8\"");
    say_range(say, reads ? home->writers : home->all, more);
}

static void say_put(dlk_say *say, const dlk_etcd_place *place, const char *value)
{
    dlk_say_text(say,
                 "{\"request_put\":{\"key\":\"%s\",\"value\":\"%s\",\"lease\":\"%" PRId64
                 "\"}}",
                 place->key, value, place->et->lease);
}

static void say_read(dlk_say *say, const char *key)
{
    dlk_say_text(say, "{\"request_range\":{\"key\":\"%s\"}}", key);
}

/* What isn't there has version 0. Target VERSION and result EQUAL are what a comparison has that
 * doesn't say them, and the gateway's work grows with what it has to read. */
static void say_if_none(dlk_say *say, const char *key)
{
    dlk_say_text(say, "{\"key\":\"%s\",\"version\":\"0\"}", key);
}

static void say_if_empty(dlk_say *say, dlk_etcd_span span)
{
    dlk_say_text(say, ",{\"key\":\"%s\",\"range_end\":\"%s\",\"version\":\"0\"}",
                 span.from, span.to);
}

static void say_if_fence(dlk_say *say, const dlk_etcd_key *home)
{
    dlk_say_text(say, ",");
    if (home->fence.rev == 0)
        say_if_none(say, home->fence.key);
    else
        dlk_say_text(
            say, "{\"key\":\"%s\",\"target\":\"MOD\",\"mod_revision\":\"%" PRId64 "\"}",
            home->fence.key, home->fence.rev);
}

/* One step: the place is ours by now, or it was, and who is before it. Where another kind of lock
 * of the name is in use nothing is done. */
char *dlk_etcd_layout_join(const dlk_etcd_place *place)
{
    const dlk_etcd_key *home = place->home;
    bool apart = home->line == DLK_ETCD_RW || home->line == DLK_ETCD_SEMAPHORE;
    dlk_say say = {0};
    dlk_say_text(&say, "{\"compare\":[");
    say_if_none(&say, place->key);
    say_if_fence(&say, home);
    for (size_t i = 0; i < dlk_etcd_layout_others(home); i++)
        say_if_empty(&say, home->others[i]);
    if (apart && !place->loose)
        say_if_empty(&say, home->mutexes);
    dlk_say_text(&say, "],\"success\":[");
    say_put(&say, place, place->value);
    if (home->line != DLK_ETCD_CONDITION) { /* no signal is for who comes now */
        dlk_say_text(&say, ",");
        say_line(&say, place, 0);
    }
    if (apart && place->loose) {
        dlk_say_text(&say, ",");
        say_range(&say, home->mutexes, ",\"keys_only\":true,\"limit\":\"64\"");
    }
    dlk_say_text(&say, "],\"failure\":[");
    say_read(&say, place->key);
    dlk_say_text(&say, ",");
    say_read(&say, home->fence.key);
    if (apart) {
        dlk_say_text(&say, ",");
        say_range(&say, home->mutexes, ",\"keys_only\":true,\"limit\":\"64\"");
    }
    dlk_say_text(&say, "]}");
    return dlk_say_end(&say);
}

char *dlk_etcd_layout_look(const dlk_etcd_place *place)
{
    dlk_say say = {0};
    if (place->home->line == DLK_ETCD_CONDITION)
        return dlk_etcd_condition_look(place);
    dlk_say_text(&say, "{\"success\":[");
    say_read(&say, place->key);
    dlk_say_text(&say, ",");
    say_line(&say, place, place->below ? place->below : place->rev);
    dlk_say_text(&say, "]}");
    return dlk_say_end(&say);
}

/* By what can't be any other's that ever has this key, even years later. */
static void say_if_made(dlk_say *say, const char *key, int64_t rev)
{
    dlk_say_text(say,
                 "{\"compare\":[{\"key\":\"%s\",\"target\":\"CREATE\","
                 "\"create_revision\":\"%" PRId64 "\"}",
                 key, rev);
}

/* A mutex' value has its holder's number in it, which no other has had. */
static void say_if_value(dlk_say *say, const char *key, const char *value)
{
    dlk_say_text(say, ",{\"key\":\"%s\",\"target\":\"VALUE\",\"value\":\"%s\"}", key,
                 value);
}

static void say_if_lease(dlk_say *say, const char *key, int64_t lease)
{
    dlk_say_text(say, ",{\"key\":\"%s\",\"target\":\"LEASE\",\"lease\":\"%" PRId64 "\"}",
                 key, lease);
}

char *dlk_etcd_layout_delete(const char *key, int64_t rev, const char *value,
                             int64_t lease)
{
    dlk_say say = {0};
    say_if_made(&say, key, rev);
    if (value)
        say_if_value(&say, key, value);
    if (lease)
        say_if_lease(&say, key, lease);
    dlk_say_text(&say, "],\"success\":[{\"request_delete_range\":{\"key\":\"%s\"}}]}",
                 key);
    return dlk_say_end(&say);
}

char *dlk_etcd_layout_touch(const char *key, int64_t rev)
{
    dlk_say say = {0};
    say_if_made(&say, key, rev);
    dlk_say_text(&say,
                 "],\"success\":[{\"request_put\":{\"key\":\"%s\",\"ignore_value\":true,"
                 "\"ignore_lease\":true}}]}",
                 key);
    return dlk_say_end(&say);
}

char *dlk_etcd_layout_fence(const dlk_etcd_place *place)
{
    dlk_say say = {0};
    dlk_say_text(&say,
                 "{\"success\":[{\"request_put\":{\"key\":\"%s\",\"lease\":\"%" PRId64
                 "\"}},",
                 place->home->fence.key, place->et->lease);
    say_read(&say, place->key);
    dlk_say_text(&say, "]}");
    return dlk_say_end(&say);
}

char *dlk_etcd_layout_turn(const dlk_etcd_place *place)
{
    dlk_say say = {0};
    char *value = dlk_etcd_layout_value(place, true);
    say_if_made(&say, place->key, place->rev);
    dlk_say_text(&say, "],\"success\":[");
    say_put(&say, place, value ? value : "");
    dlk_say_text(&say, "]}");
    say.failed |= !value;
    free(value);
    return dlk_say_end(&say);
}

/* ---- handing on ---- */

char *dlk_etcd_layout_export(const dlk_etcd_place *place)
{
    dlk_say say = {0};
    say_if_made(&say, place->key, place->rev);
    say_if_value(&say, place->key, place->value);
    say_if_lease(&say, place->key, place->et->lease);
    dlk_say_text(&say,
                 "],\"success\":[{\"request_put\":{\"key\":\"%s\",\"ignore_value\":true,"
                 "\"lease\":\"%" PRId64 "\"}}],\"failure\":[",
                 place->key, place->ticket);
    say_read(&say, place->key);
    dlk_say_text(&say, "]}");
    return dlk_say_end(&say);
}

char *dlk_etcd_layout_import(const dlk_etcd_place *place, const char *value)
{
    dlk_say say = {0};
    say_if_made(&say, place->key, place->rev);
    say_if_value(&say, place->key, value);
    say_if_fence(&say, place->home);
    dlk_say_text(&say, "],\"success\":[");
    say_put(&say, place, place->value);
    dlk_say_text(&say, "],\"failure\":[");
    say_read(&say, place->home->fence.key);
    dlk_say_text(&say, "]}");
    return dlk_say_end(&say);
}
