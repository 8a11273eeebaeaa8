/* Greeting a server; see the header. All steps go out in one burst, so that they cost one round
 * trip; their replies are judged one by one. */
#include "backends/redis/greeting.h"

#include "backends/redis/errors.h"
#include "backends/redis/inner.h"
#include "backends/redis/layout.h"
#include "backends/redis/rights.h"
#include "backends/redis/scripts.h"
#include "util/error.h"
#include "util/number.h"
#include "util/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STEP_AUTH,
    STEP_SELECT,
    STEP_NAME,
    STEP_LOAD,
    STEP_PROBE,
    STEP_PROBE_SHA,
    STEP_RIGHTS,
    STEP_INFO,
    STEP_ROLE,
    STEP_SHARDS,
    STEP_SLOTS
};

static bool say(dlk_redis_connection *connection, unsigned char step, const dlk_arg *args,
                size_t count)
{
    if (!dlk_resp_command(&connection->link.stream.out, args, count))
        return false;
    connection->steps[connection->step_count++] = step;
    return true;
}

static bool say_password(dlk_redis_connection *connection, const char *user,
                         const char *password)
{
    dlk_arg args[3] = {dlk_arg_text("AUTH")};
    size_t count = 1;
    if (user[0])
        args[count++] = dlk_arg_text(user);
    args[count++] = dlk_arg_text(password);
    /* Room for the whole greeting at once: growing would leave a copy in freed memory. */
    size_t size = strlen(user) + strlen(password) + 1024;
    size += dlk_redis_scripts[DLK_SCRIPT_PROBE].size * 2 + 256;
    size += DLK_REDIS_RIGHTS_ROOM;
    const dlk_redis_form *mutex = connection->redis->mutex;
    for (int i = 0; i < DLK_SCRIPT_COUNT; i++)
        size += dlk_redis_script_of(mutex, (dlk_redis_script_id)i)->size + 128;
    return dlk_stream_hide(&connection->link.stream, size) &&
           say(connection, STEP_AUTH, args, count);
}

/* Clients' names must not have spaces. */
static bool say_name(dlk_redis_connection *connection)
{
    char name[129];
    snprintf(name, sizeof(name), "%s", connection->redis->base.host->name);
    for (char *at = name; *at; at++)
        if (*at <= ' ' || *at > '~')
            *at = '_';
    const dlk_arg args[] = {dlk_arg_text("CLIENT"), dlk_arg_text("SETNAME"),
                            dlk_arg_text(name)};
    return say(connection, STEP_NAME, args, 3);
}

/* Says who we are, with the password of these settings, if there is one. */
static dlock_error *say_who(dlk_redis_connection *connection, dlk_key_id user,
                            dlk_key_id password)
{
    const dlk_settings *settings = connection->redis->settings;
    char *secret = NULL;
    dlock_error *error = NULL;
    if (dlk_settings_secret(settings, password, &secret, &error) != DLOCK_OK)
        return error;
    bool fine =
        !secret || say_password(connection, dlk_settings_text(settings, user), secret);
    dlk_secret_free(secret);
    return fine ? NULL : dlk_error_make(DLOCK_ENOMEM, "redis: out of memory");
}

static dlock_error *say_messages(dlk_redis_connection *connection)
{
    dlock_error *error =
        say_who(connection, DLK_KEY_AUTH_USERNAME, DLK_KEY_AUTH_PASSWORD);
    if (error || say_name(connection))
        return error;
    return dlk_error_make(DLOCK_ENOMEM, "redis: out of memory");
}

static dlock_error *say_sentinel(dlk_redis_connection *connection)
{
    return say_who(connection, DLK_KEY_AUTH_SENTINEL_USERNAME,
                   DLK_KEY_AUTH_SENTINEL_PASSWORD);
}

bool dlk_redis_put_probe(dlk_redis *redis, dlk_buf *out, bool by_sha)
{
    const dlk_redis_script *probe = &dlk_redis_scripts[DLK_SCRIPT_PROBE];
    const dlk_arg args[] = {
        dlk_arg_text(by_sha ? "EVALSHA" : "EVAL"),
        by_sha ? dlk_arg_text(probe->sha1) : (dlk_arg){probe->text, probe->size},
        dlk_arg_text("0"),
        dlk_arg_text(redis->probe_key),
        dlk_arg_text(redis->probe_channel),
        dlk_arg_text(redis->layout->type ? redis->layout->type : "string"),
        dlk_arg_text(redis->mutex->hands_over ? "line"
                     : redis->mutex->fair     ? "fair"
                                              : ""),
    };
    return dlk_resp_command(out, args, sizeof(args) / sizeof(args[0]));
}

static bool say_select(dlk_redis_connection *connection)
{
    int64_t db = dlk_settings_int(connection->redis->settings, DLK_KEY_REDIS_DB);
    if (db == 0)
        return true;
    char digits[DLK_DIGITS_MAX];
    const dlk_arg args[] = {
        dlk_arg_text("SELECT"),
        dlk_arg_number(db, digits),
    };
    return say(connection, STEP_SELECT, args, 2);
}

/* Those of the mutex; others are sent with their text when they are first needed. */
static bool say_scripts(dlk_redis_connection *connection)
{
    const dlk_redis_form *mutex = connection->redis->mutex;
    for (int i = 0; i < DLK_SCRIPT_COUNT; i++) {
        const dlk_redis_script *script =
            dlk_redis_script_of(mutex, (dlk_redis_script_id)i);
        const dlk_arg args[] = {
            dlk_arg_text("SCRIPT"), dlk_arg_text("LOAD"), {script->text, script->size}};
        if (!say(connection, STEP_LOAD, args, 3))
            return false;
    }
    return true;
}

static bool say_probe(dlk_redis_connection *connection, unsigned char step)
{
    if (!dlk_redis_put_probe(connection->redis, &connection->link.stream.out,
                             step == STEP_PROBE_SHA))
        return false;
    connection->steps[connection->step_count++] = step;
    return true;
}

/* What the probe can't try. Fair locks alone have a call whose lack shows only when somebody has died in
 * the line. */
static bool say_rights(dlk_redis_connection *connection)
{
    dlk_redis *redis = connection->redis;
    if (!redis->mutex->fair)
        return true;
    if (!dlk_redis_rights_put_one(redis, redis->mutex, NULL))
        return false;
    connection->steps[connection->step_count++] = STEP_RIGHTS;
    return true;
}

/* Is it what sentinels, or other nodes of a cluster, say it is? */
static bool say_topology(dlk_redis_connection *connection)
{
    const dlk_redis *redis = connection->redis;
    const dlk_arg role = dlk_arg_text("ROLE");
    const dlk_arg shards[] = {dlk_arg_text("PUBSUB"), dlk_arg_text("SHARDNUMSUB")};
    const dlk_arg slots[] = {dlk_arg_text("CLUSTER"), dlk_arg_text("SLOTS")};
    if (redis->by_sentinels && !say(connection, STEP_ROLE, &role, 1))
        return false;
    return !redis->cluster || (say(connection, STEP_SHARDS, shards, 2) &&
                               say(connection, STEP_SLOTS, slots, 2));
}

static dlock_error *say_commands(dlk_redis_connection *connection)
{
    dlock_error *error = say_messages(connection);
    if (error)
        return error;
    const dlk_arg info[] = {dlk_arg_text("INFO"), dlk_arg_text("memory")};
    if (say_topology(connection) && say_select(connection) && say_scripts(connection) &&
        say_probe(connection, STEP_PROBE) && say_probe(connection, STEP_PROBE_SHA) &&
        say_rights(connection) && say(connection, STEP_INFO, info, 2))
        return NULL;
    return dlk_error_make(DLOCK_ENOMEM, "redis: out of memory");
}

/* ---- The replies ---- */

bool dlk_redis_missing_rights(const dlk_resp *reply, char *text, size_t size,
                              bool *ret_but_fair)
{
    text[0] = '\0';
    *ret_but_fair = false;
    if (reply->type != DLK_RESP_ARRAY || reply->count < 2 ||
        reply->items[0].type != DLK_RESP_INTEGER ||
        reply->items[1].type != DLK_RESP_INTEGER)
        return false;
    size_t used = 0;
    for (size_t i = 2; i < reply->count; i++) {
        *ret_but_fair = i == reply->count - 1 && reply->items[i].type == DLK_RESP_INTEGER;
        if (*ret_but_fair)
            break;
        if (reply->items[i].type != DLK_RESP_TEXT)
            return false;
        int put = snprintf(text + used, size - used, "%s+%s", used ? " " : "",
                           reply->items[i].text);
        if (put < 0 || (size_t)put >= size - used)
            break; /* enough of them are named */
        used += (size_t)put;
    }
    return true;
}

/* Nothing that a clock can show is longer. */
#define CLOCK_SECONDS_MAX (INT64_C(1) << 40)

int64_t dlk_redis_clock_offset(const dlk_resp *reply, int64_t now)
{
    int64_t seconds = dlk_number_clamp(reply->items[0].integer, 0, CLOCK_SECONDS_MAX);
    return seconds * 1000000 + dlk_number_clamp(reply->items[1].integer, 0, 999999) -
           now / 1000;
}

/* Who may use fair locks alone isn't refused, as a lock's own conf may ask for one: whoever asks for
 * another is. */
static void note_line(dlk_redis *redis, const char *missing)
{
    dlk_host *host = redis->base.host;
    dlk_error_clear(&redis->lacks_line);
    if (!missing[0])
        return;
    redis->lacks_line =
        dlk_redis_lack_error(redis, "locks that aren't fair (lock.fair)", missing);
    if (!redis->warned_line && redis->lacks_line)
        host->log(host, DLOCK_LOG_WARN, "%s", redis->lacks_line->text);
    redis->warned_line = true;
}

static dlock_error *judge_probe(dlk_redis_connection *connection, const dlk_resp *reply,
                                int64_t now)
{
    dlk_redis *redis = connection->redis;
    char missing[256];
    bool but_fair;
    if (!dlk_redis_missing_rights(reply, missing, sizeof(missing), &but_fair))
        return dlk_error_make(DLOCK_EPROTO,
                              "redis: %s answers the start-up check with nonsense",
                              redis->peer);
    if (missing[0] && !but_fair)
        return dlk_redis_lack_error(redis, "locks", missing);
    note_line(redis, missing);
    int64_t offset = dlk_redis_clock_offset(reply, now);
    redis->greeted_us = offset + now / 1000;
    if (!redis->knows_clock) {
        redis->knows_clock = true;
        redis->clock_offset = offset;
    }
    return NULL;
}

bool dlk_redis_info_value(const dlk_resp *reply, const char *name, char *value,
                          size_t size)
{
    size_t length = strlen(name);
    if (reply->type != DLK_RESP_TEXT)
        return false;
    for (const char *line = reply->text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == ':') {
            const char *from = line + length + 1;
            size_t long_is = strcspn(from, "\r\n");
            snprintf(value, size, "%.*s", (int)(long_is < size ? long_is : size - 1),
                     from);
            return true;
        }
    }
    return false;
}

/* A server that evicts may take a lock away, or the counter of its tokens. */
static dlock_error *judge_eviction(dlk_redis *redis, const dlk_resp *reply)
{
    char policy[64], limit[32];
    if (!dlk_redis_info_value(reply, "maxmemory_policy", policy, sizeof(policy)) ||
        !dlk_redis_info_value(reply, "maxmemory", limit, sizeof(limit)) ||
        strcmp(policy, "noeviction") == 0 || strcmp(limit, "0") == 0)
        return NULL;
    if (dlk_settings_int(redis->settings, DLK_KEY_CLIENT_REQUIRE) >= DLK_REQUIRE_FENCING)
        return dlk_error_make(
            DLOCK_ENOTSUP,
            "redis: client.require=fencing, but %s may evict the counter of "
            "tokens (maxmemory-policy %s; it should be noeviction)",
            redis->peer, policy);
    if (!redis->warned_eviction)
        redis->base.host->log(redis->base.host, DLOCK_LOG_WARN,
                              "redis: %s may evict locks when its memory is full: "
                              "maxmemory-policy is %s, it should be noeviction",
                              redis->peer, policy);
    redis->warned_eviction = true;
    return NULL;
}

/* Where the user may not ask for it, the first write tells. */
static dlock_error *judge_role(dlk_redis_connection *connection, const dlk_resp *reply)
{
    if (reply->type == DLK_RESP_ARRAY && reply->count > 0 &&
        dlk_resp_begins(&reply->items[0], "master"))
        return NULL;
    return dlk_error_make(DLOCK_EUNAVAIL,
                          "redis: the sentinels say that %s is the master, but it is not "
                          "(ROLE)",
                          connection->link.peer);
}

/* Does a node know channels of shards? */
static void take_shards(dlk_redis *redis, const dlk_resp *reply)
{
    int64_t publish = dlk_settings_int(redis->settings, DLK_KEY_REDIS_PUBLISH);
    if (publish != DLK_REDIS_PUBLISH_AUTO || reply->type != DLK_RESP_ERROR)
        return;
    /* Who may not ask is told nothing: servers of today know them. */
    if (!dlk_resp_begins(reply, "NOPERM"))
        redis->publish = DLK_PUBLISH_ALL;
}

static dlock_error *judge_refusal(unsigned char step, const dlk_resp *reply)
{
    switch (step) {
    case STEP_AUTH:
        return dlk_redis_error_mute(reply,
                                    "AUTH"); /* the server may quote the password */
    case STEP_SELECT:
        return dlk_redis_error(reply, "SELECT");
    case STEP_SLOTS:
        return dlk_redis_error(reply, "CLUSTER SLOTS");
    case STEP_PROBE:
        return dlk_redis_error(reply, "EVAL");
    case STEP_PROBE_SHA:
        /* Somebody flushed the scripts within this millisecond: the right is there. */
        return dlk_resp_begins(reply, "NOSCRIPT") ? NULL
                                                  : dlk_redis_error(reply, "EVALSHA");
    default:
        break;
    }
    /* A name, preloaded scripts and INFO are welcome, not needed. What concerns the whole
     * connection comes again with the probe, but a server that ends it says so first. */
    dlock_err code = dlk_redis_error_code(reply);
    if (dlk_resp_begins(reply, "NOAUTH") || dlk_resp_begins(reply, "DENIED") ||
        (code == DLOCK_EUNAVAIL && strstr(reply->text, "max number of clients")))
        return dlk_redis_error(reply, "connecting");
    return NULL;
}

static dlock_error *judge(dlk_redis_connection *connection, const dlk_resp *reply,
                          int64_t now)
{
    unsigned char step = connection->steps[connection->link.step++];
    if (step == STEP_SHARDS)
        take_shards(connection->redis, reply);
    if (reply->type == DLK_RESP_ERROR && dlk_resp_begins(reply, "NOPERM")) {
        connection->redis->lacks_load |= step == STEP_LOAD;
        connection->redis->lacks_name |= step == STEP_NAME;
        connection->redis->lacks_role |= step == STEP_ROLE;
        connection->redis->lacks_shards |= step == STEP_SHARDS;
    }
    if (reply->type == DLK_RESP_ERROR)
        return judge_refusal(step, reply);
    if (step == STEP_PROBE)
        return judge_probe(connection, reply, now);
    if (step == STEP_RIGHTS)
        return dlk_redis_rights_judge_one(connection->redis, connection->redis->mutex,
                                          NULL, reply);
    if (step == STEP_ROLE)
        return judge_role(connection, reply);
    if (step == STEP_SLOTS)
        return connection->redis->cluster->take_map(connection->redis, reply);
    if (step == STEP_SHARDS)
        return NULL;
    if (step == STEP_INFO)
        return judge_eviction(connection->redis, reply);
    if (step != STEP_PROBE_SHA && reply->type != DLK_RESP_STATUS &&
        reply->type != DLK_RESP_TEXT)
        return dlk_error_make(DLOCK_EPROTO,
                              "redis: %s answers the greeting with nonsense",
                              connection->redis->peer);
    return NULL;
}

/* ---- Operations ---- */

dlock_error *dlk_redis_greet_commands(dlk_link *link, int64_t now)
{
    return dlk_redis_connection_greet(link, now, say_commands, judge);
}

dlock_error *dlk_redis_greet_messages(dlk_link *link, int64_t now)
{
    return dlk_redis_connection_greet(link, now, say_messages, judge);
}

dlock_error *dlk_redis_greet_sentinel(dlk_link *link, int64_t now)
{
    return dlk_redis_connection_greet(link, now, say_sentinel, judge);
}
