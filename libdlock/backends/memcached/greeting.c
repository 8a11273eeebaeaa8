/*
 * What is said first: is it a memcached, which commands does it have, does it evict, when did it
 * begin. One burst of four commands:
 *
 *     mn               MN, or ERROR where there are no meta commands
 *     version
 *     stats            time and uptime, for tokens
 *     stats settings   -M
 *
 * The last two may be denied by what stands in between: then nothing is known of them.
 */
#include "backends/memcached/inner.h"

#include "util/number.h"

#include <stdio.h>
#include <string.h>

enum { AUTO, META, CLASSIC }; /* memcached.protocol */

enum { STEP_BARRIER, STEP_VERSION, STEP_STATS, STEP_SETTINGS };

/* The meta commands had other forms in the first releases that had them. */
#define META_SINCE 10612 /* 1.6.12 */

bool dlk_mc_greet(dlk_mc *mc)
{
    dlk_buf *out = &mc->link.stream.out;
    mc->server = (dlk_mc_server){.evicts = true};
    return dlk_mc_put_line(out, "mn") && dlk_mc_put_line(out, "version") &&
           dlk_mc_put_line(out, "stats") && dlk_mc_put_line(out, "stats settings");
}

void dlk_mc_note_stat(dlk_mc_server *server, const dlk_mc_reply *reply)
{
    int64_t number;
    if (dlk_mc_name_is(reply, "evictions") && dlk_mc_text_is(reply, "off"))
        server->evicts = false; /* of "stats settings"; in "stats" it is a number */
    if (!dlk_mc_number(reply, &number))
        return;
    if (dlk_mc_name_is(reply, "time"))
        server->clock = number;
    else if (dlk_mc_name_is(reply, "uptime"))
        server->uptime = number;
}

static dlock_error *complain(const dlk_mc *mc, dlock_err code, const char *what,
                             const dlk_mc_reply *reply)
{
    char words[256];
    dlock_error *error = dlk_error_make(code, "memcached: %s %s", mc->peer, what);
    snprintf(words, sizeof(words), "%.*s", (int)reply->size, reply->text);
    dlk_error_backend(&error, words);
    return error;
}

/* An answer to the first two that isn't the one that was asked for. */
static dlock_error *judge_stranger(const dlk_mc *mc, const dlk_mc_reply *reply)
{
    if (reply->kind == DLK_MC_CLIENT_ERROR)
        return complain(mc, DLOCK_EACCES,
                        "asks for a user and password, which libdlock has none for",
                        reply);
    if (reply->kind == DLK_MC_SERVER_ERROR ||
        (reply->kind == DLK_MC_UNKNOWN && reply->size > 0))
        return complain(mc, DLOCK_EUNAVAIL, "takes no requests just now", reply);
    return complain(mc, DLOCK_EPROTO, "doesn't answer as a memcached does", reply);
}

/* "1.6.18" as 10618; 0 when it isn't such a text. */
static int number_of_version(const char *version)
{
    int number = 0;
    for (int part = 0; part < 3; part++) {
        size_t size = strspn(version, "0123456789");
        int64_t value;
        if (!dlk_number_read(version, size, 0, 99, &value) ||
            (part < 2 && version[size] != '.'))
            return 0;
        number = number * 100 + (int)value;
        version += size + 1;
    }
    return number;
}

static dlock_error *take_version(dlk_mc *mc, const dlk_mc_reply *reply)
{
    dlk_mc_server *server = &mc->server;
    int64_t protocol = dlk_settings_int(mc->settings, DLK_KEY_MEMCACHED_PROTOCOL);
    if (reply->kind != DLK_MC_VERSION)
        return judge_stranger(mc, reply);
    snprintf(server->version, sizeof(server->version), "%.*s", (int)reply->size,
             reply->text);
    int number = number_of_version(server->version);
    server->meta = server->meta && number >= META_SINCE && protocol != CLASSIC;
    if (protocol == META && !server->meta)
        return complain(mc, DLOCK_ENOTSUP,
                        "has no meta commands (1.6.12 and later have them), and "
                        "memcached.protocol=meta asks for them; it says",
                        reply);
    return NULL;
}

static void finish(dlk_mc *mc)
{
    dlk_mc_server *server = &mc->server;
    int64_t protocol = dlk_settings_int(mc->settings, DLK_KEY_MEMCACHED_PROTOCOL);
    server->meta_stores = server->meta && (server->evicts || protocol == META);
    if (server->clock > server->uptime)
        server->started = server->clock - server->uptime;
    if (server->meta_stores && !server->evicts)
        mc->base.host->log(
            mc->base.host, DLOCK_LOG_WARN,
            "memcached: %s runs with -M: when its memory is full, a meta store deletes "
            "the item that is there; leave memcached.protocol at auto",
            mc->peer);
}

dlock_error *dlk_mc_greeted(dlk_mc *mc, const dlk_mc_reply *reply, bool *ret_over)
{
    bool denied = reply->kind == DLK_MC_UNKNOWN || reply->kind == DLK_MC_CLIENT_ERROR;
    switch (mc->link.step) {
    case STEP_BARRIER:
        mc->server.meta = reply->kind == DLK_MC_BARRIER;
        mc->link.step++;
        return mc->server.meta || (reply->kind == DLK_MC_UNKNOWN && reply->size == 0)
                   ? NULL
                   : judge_stranger(mc, reply);
    case STEP_VERSION:
        mc->link.step++;
        return take_version(mc, reply);
    default:
        break;
    }
    if (reply->kind == DLK_MC_STAT) {
        dlk_mc_note_stat(&mc->server, reply);
        return NULL;
    }
    if (!denied && reply->kind != DLK_MC_GONE)
        return judge_stranger(mc, reply);
    *ret_over = mc->link.step == STEP_SETTINGS;
    mc->link.step++;
    if (*ret_over)
        finish(mc);
    return NULL;
}
