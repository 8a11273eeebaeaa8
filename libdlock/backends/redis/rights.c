/*
 * Trying rights; see the header.
 *
 * Redis looks whether a user may run a command, with this key or channel, before it looks whether
 * a script may write at all. So a script that must not write can try every command: those that
 * read change nothing, and those that write are refused for one reason or for the other.
 */
#include "backends/redis/rights.h"

#include "backends/redis/client_key.h"
#include "backends/redis/inner.h"
#include "backends/redis/layout.h"
#include "backends/redis/rights_names.h"
#include "util/error.h"
#include "util/settings.h"

#include <stdio.h>
#include <string.h>

/* What scripts call, with as many arguments as each needs. K: a key, C: a channel. */
#define CALLS                                                                            \
    "decrby K 0\ndel K\nexists K\nget K\nhdel K f\nhexists K f\nhget K f\nhgetall K\n"   \
    "hkeys K\nhlen K\nhset K f v\nhsetnx K f v\nincrby K 0\nlindex K 0\nllen K\nlpop "   \
    "K\n"                                                                                \
    "lpos K e\nlrange K 0 0\nlrem K 0 e\npexpire K 1\npttl K\npublish C 0\n"             \
    "pubsub numsub\nrpush K e\nset K v\ntime\nzadd K 1 m\nzcard K\nzcount K 0 0\n"       \
    "zrange K 0 0\nzrangebyscore K 0 0\nzrem K m\nzscore K m\nscan 0\n"                  \
    "spublish C 0\nasking\nzremrangebyscore K 0 0\ngetrange K 0 0\n"

/* ARGV: 1 the calls, 2 how many keys follow, 3 … the keys, then channels. Answers for each of them
 * which right is missing: '+' the command, '~' the key, '&' the channel; '' none. */
static const char script[] =
    "#!lua flags=no-writes\n"
    "local keys, answer = tonumber(ARGV[2]), {}\n"
    "local function try(call)\n"
    "local result, sign = redis.pcall(unpack(call)), ''\n"
    "local why = type(result) == 'table' and result.err or ''\n"
    "local function says(old, new)\n" /* as in denial.lua */
    "return string.find(why, old, 1, true) or string.find(why, new, 1, true)\n"
    "end\n"
    "if says(\"can't run this command\", 'no permissions to run') then sign = '+'\n"
    "elseif says(\"can't access at least one\", 'o permissions to access a key') then "
    "sign = '~'\n"
    "elseif says(\"can't publish\", 'o permissions to access a channel') then sign = '&' "
    "end\n"
    "answer[#answer + 1] = sign\n"
    "end\n"
    "for line in string.gmatch(ARGV[1], '[^\\n]+') do\n"
    "local call = {}\n"
    "for word in string.gmatch(line, '%S+') do\n"
    "if word == 'K' then word = ARGV[3] elseif word == 'C' then word = ARGV[3 + keys] "
    "end\n"
    "call[#call + 1] = word\n"
    "end\n"
    "try(call)\n"
    "end\n"
    "for i = 3, #ARGV do\n"
    "try(i < 3 + keys and { 'pttl', ARGV[i] } or { 'publish', ARGV[i], '0' })\n"
    "end\n"
    "return answer\n";

/* ---- Asking ---- */

static bool put(dlk_redis *redis, const char *calls, const dlk_rights_names *keys,
                const dlk_rights_names *channels)
{
    dlk_arg args[5 + 2 * DLK_RIGHTS_NAMES_MAX];
    char number[64];
    size_t used = 0;
    args[used++] = dlk_arg_text("EVAL");
    args[used++] = (dlk_arg){script, sizeof(script) - 1};
    args[used++] = dlk_arg_text("0");
    args[used++] = dlk_arg_text(calls);
    args[used++] = dlk_arg_number((int64_t)keys->count, number);
    for (size_t i = 0; i < keys->count; i++)
        args[used++] = dlk_arg_text(keys->text[i]);
    for (size_t i = 0; i < channels->count; i++)
        args[used++] = dlk_arg_text(channels->text[i]);
    return !keys->failed && !channels->failed &&
           dlk_resp_command(&redis->commands.link.stream.out, args, used);
}

bool dlk_redis_rights_put(dlk_redis *redis)
{
    dlk_rights_kind kinds[DLK_RIGHTS_KINDS_MAX];
    dlk_rights_names keys = {.count = 0}, channels = {.count = 0};
    size_t count = dlk_rights_list_kinds(redis, kinds);
    dlk_rights_list_keys(redis, kinds, count, &keys);
    dlk_rights_list_channels(redis, kinds, count, &channels);
    bool fine = put(redis, CALLS, &keys, &channels);
    dlk_rights_free_names(&keys);
    dlk_rights_free_names(&channels);
    return fine;
}

/* ---- Judging ---- */

static void add_lack(char list[DLK_LACK_MAX], char sign, const char *name, size_t size,
                     const char *more)
{
    char one[200];
    snprintf(one, sizeof(one), "%c%.*s%s", sign, (int)size, name, more);
    size_t used = strlen(list);
    const char *there = strstr(list, one);
    if (there && (there[strlen(one)] == ' ' || there[strlen(one)] == '\0'))
        return;
    snprintf(list + used, DLK_LACK_MAX - used, "%s%s", used ? " " : "", one);
}

typedef struct word {
    const char *at;
    size_t size;
} word;

static bool is(word command, const char *name)
{
    return strlen(name) == command.size && strncmp(command.at, name, command.size) == 0;
}

/* Who may not be told waits longer, and who can't be counted is taken to be there. */
static bool is_wish(word command)
{
    return is(command, "publish") || is(command, "spublish") || is(command, "pubsub") ||
           is(command, "llen") || is(command, "hkeys");
}

static bool calls(const dlk_redis_script *in, word command)
{
    char call[64];
    for (int protected = 0; protected < 2; protected ++) {
        snprintf(call, sizeof(call), "redis.%scall('%.*s'", protected ? "p" : "",
                 (int)command.size, command.at);
        if (strstr(in->text, call))
            return true;
    }
    return false;
}

/* Whether these settings and this server have anybody told in this way. */
static bool tells(const dlk_redis *redis, const dlk_rights_kind *of, word command)
{
    if (!of->form->notifies && !redis->notify)
        return false;
    if (is(command, "publish") &&
        (of->form->hands_over || of->form->signals)) /* to one client, wherever it is */
        return true;
    return redis->publish !=
           (is(command, "publish") ? DLK_PUBLISH_SHARD : DLK_PUBLISH_ALL);
}

static bool kind_calls(const dlk_redis *redis, const dlk_rights_kind *of, word command)
{
    static const dlk_redis_script_id use[] = {DLK_SCRIPT_ACQUIRE, DLK_SCRIPT_RELEASE,
                                              DLK_SCRIPT_RENEW, DLK_SCRIPT_VERIFY},
                                     operate[] = {DLK_SCRIPT_BREAK, DLK_SCRIPT_INSPECT};
    const dlk_redis_script_id *ids = of->operating ? operate : use;
    if ((is(command, "publish") || is(command, "spublish")) && !tells(redis, of, command))
        return false;
    /* To tell a mutex from an election whose data was evicted; taken for the latter without. */
    if (is(command, "hgetall") && of->form->kind == DLOCK_ELECTION && !of->operating)
        return false;
    if (is(command, "asking")) /* before a key that is being moved */
        return redis->cluster && !of->operating;
    for (size_t i = 0; i < (of->operating ? 2U : 4U); i++)
        if (calls(dlk_redis_script_of(of->form, ids[i]), command))
            return true;
    if (!of->operating || !redis->layout->list)
        return false;
    return is(command, "scan") || calls(&dlk_redis_scripts[redis->layout->list], command);
}

/* How many rights it has that a mutex doesn't need: none, and it isn't meant to be used. */
static size_t judge_commands(const dlk_redis *redis, const dlk_rights_kind *kinds,
                             size_t at, const dlk_resp *items, dlk_redis_lack *lack)
{
    size_t item = 0, granted = 0;
    for (const char *line = CALLS; *line; line = strchr(line, '\n') + 1, item++) {
        const word command = {line, strcspn(line, " \n")};
        if (!kind_calls(redis, &kinds[at], command))
            continue;
        if (items[item].text[0] == '+') /* a subcommand as ACL SETUSER wants it */
            add_lack(is_wish(command) ? lack->wishes : lack->names, '+', command.at,
                     command.size, is(command, "pubsub") ? "|numsub" : "");
        else if (at > 0 && !kind_calls(redis, &kinds[0], command))
            granted++;
    }
    return granted;
}

/* Also a right of the mutex's? */
static bool has_mutex(const dlk_rights_names *list, size_t at)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->of[i] == 0 && strcmp(list->text[i], list->text[at]) == 0)
            return true;
    return false;
}

/* A key or channel made of the name @p of, which stands for all below the prefix, and the key of
 * one reader for those of all. */
static void add_lack_of(const dlk_redis *redis, char lack[DLK_LACK_MAX], char sign,
                        const char *name, const char *of)
{
    size_t below = strlen(dlk_settings_text(redis->settings, DLK_KEY_CLIENT_PREFIX));
    const char *at = strstr(name, of);
    const char *owner = strstr(name, redis->owner);
    size_t size = at ? (size_t)(at - name) + below : strlen(name);
    if (below)
        add_lack(lack, sign, name, size, "*");
    else if (owner)
        add_lack(lack, sign, name, (size_t)(owner - name), "*");
    else
        add_lack(lack, sign, name, strlen(name), "");
}

static size_t judge_names(const dlk_redis *redis, const dlk_rights_names *list, size_t at,
                          char sign, const dlk_resp *items, char lack[DLK_LACK_MAX])
{
    const char *prefix = dlk_settings_text(redis->settings, DLK_KEY_CLIENT_PREFIX);
    size_t granted = 0;
    for (size_t i = 0; i < list->count && prefix[0]; i++) {
        const char *name = list->text[i];
        if (list->of[i] != at || !name[0])
            continue;
        if (items[i].text[0] == sign)
            add_lack_of(redis, lack, sign, name, redis->probe_key);
        else if (!has_mutex(list, i))
            granted++;
    }
    return granted;
}

/* Locks do without, so it is told apart from what they lack. */
static void judge_client_key(const dlk_rights_names *list, const dlk_resp *items,
                             void (*tell)(void *to, const dlk_redis_lack *lack), void *to)
{
    const dlk_redis_lack lack = {
        .id = "rights.client_key",
        .needs = "locks, of which inspect and ls then show no more than the owner's id,",
        .wishes = "~" DLK_REDIS_CLIENT_KEY "*"};
    for (size_t i = 0; i < list->count; i++)
        if (list->of[i] == DLK_RIGHTS_CLIENT_KEY && items[i].text[0] == '~')
            tell(to, &lack);
}

/* A client that tells nothing of its locks isn't listed (told.h), and who may not read that goes through all
 * keys. */
static void judge_telling(const dlk_resp *items,
                          void (*tell)(void *to, const dlk_redis_lack *lack), void *to)
{
    static const char *const writes[] = {"zadd", "zremrangebyscore", "zrem"};
    dlk_redis_lack told = {.id = "rights.told",
                           .needs = "locks, which ls and top then don't show,"},
                   list = {.id = "rights.list",
                           .needs = "ls and top, which then go through all keys,"},
                   anew = {.id = "rights.top",
                           .needs = "top, which then reads with each refresh who tells,"};
    size_t item = 0;
    for (const char *line = CALLS; *line; line = strchr(line, '\n') + 1, item++) {
        const word command = {line, strcspn(line, " \n")};
        bool lacks = items[item].text[0] == '+';
        for (size_t i = 0; lacks && i < sizeof(writes) / sizeof(*writes); i++)
            if (is(command, writes[i]))
                add_lack(told.wishes, '+', command.at, command.size, "");
        if (lacks && (is(command, "zrangebyscore") || is(command, "getrange")))
            add_lack(list.wishes, '+', command.at, command.size, "");
        if (lacks && is(command, "zcount"))
            add_lack(anew.wishes, '+', command.at, command.size, "");
    }
    tell(to, &told);
    tell(to, &list);
    tell(to, &anew);
}

static size_t count_calls(void)
{
    size_t count = 0;
    for (const char *at = CALLS; *at; at++)
        count += *at == '\n';
    return count;
}

static bool makes_sense(const dlk_resp *reply, size_t count)
{
    if (reply->type != DLK_RESP_ARRAY || reply->count != count)
        return false;
    for (size_t i = 0; i < count; i++)
        if (reply->items[i].type != DLK_RESP_TEXT)
            return false;
    return true;
}

dlock_err dlk_redis_rights_judge(const dlk_redis *redis, const dlk_resp *reply,
                                 void (*tell)(void *to, const dlk_redis_lack *lack),
                                 void *to)
{
    dlk_rights_kind kinds[DLK_RIGHTS_KINDS_MAX];
    dlk_rights_names keys = {.count = 0}, channels = {.count = 0};
    size_t count = dlk_rights_list_kinds(redis, kinds), calls_made = count_calls();
    dlk_rights_list_keys(redis, kinds, count, &keys);
    dlk_rights_list_channels(redis, kinds, count, &channels);
    dlock_err code = DLOCK_OK;
    if (keys.failed || channels.failed)
        code = DLOCK_ENOMEM;
    else if (!makes_sense(reply, calls_made + keys.count + channels.count))
        code = DLOCK_EPROTO;
    for (size_t i = 0; code == DLOCK_OK && i < count; i++) {
        dlk_redis_lack lack = {.id = kinds[i].id,
                               .needs = kinds[i].needs,
                               .mutex = i == 0,
                               .operating = kinds[i].operating};
        const dlk_resp *items = reply->items;
        size_t granted = judge_commands(redis, kinds, i, items, &lack);
        items += calls_made;
        size_t own = judge_names(redis, &keys, i, '~', items, lack.names);
        own += judge_names(redis, &keys, DLK_RIGHTS_BESIDE + i, '~', items, lack.wishes);
        items += keys.count;
        own += judge_names(redis, &channels, i, '&', items, lack.wishes);
        /* Commands are shared by many kinds, names by few. */
        lack.all = dlk_rights_has_prefix(redis) ? own == 0 : granted == 0;
        tell(to, &lack);
    }
    if (code == DLOCK_OK)
        judge_client_key(&keys, reply->items + calls_made, tell, to);
    if (code == DLOCK_OK && redis->tells && !redis->cluster)
        judge_telling(reply->items, tell, to);
    dlk_rights_free_names(&keys);
    dlk_rights_free_names(&channels);
    return code;
}

/* ---- One kind, before its first lock ---- */

/* The calls that it can't do without. */
static size_t list_calls(const dlk_redis *redis, const dlk_rights_kind *of,
                         char text[sizeof(CALLS)])
{
    size_t count = 0, used = 0;
    text[0] = '\0';
    for (const char *line = CALLS; *line; line = strchr(line, '\n') + 1) {
        const word command = {line, strcspn(line, " \n")};
        if (is_wish(command) || !kind_calls(redis, of, command))
            continue;
        size_t size = strcspn(line, "\n") + 1;
        memcpy(text + used, line, size);
        text[used += size] = '\0';
        count++;
    }
    return count;
}

bool dlk_redis_rights_put_one(dlk_redis *redis, const dlk_redis_form *form,
                              const dlk_key *key)
{
    const dlk_rights_kind of = dlk_rights_kind_of(redis, form);
    dlk_rights_names keys = {.count = 0}, none = {.count = 0};
    char text[sizeof(CALLS)];
    (void)list_calls(redis, &of, text);
    dlk_rights_list_own_names(&of, key, redis, &keys);
    bool fine = put(redis, text, &keys, &none);
    dlk_rights_free_names(&keys);
    return fine;
}

dlock_error *dlk_redis_rights_judge_one(const dlk_redis *redis,
                                        const dlk_redis_form *form, const dlk_key *key,
                                        const dlk_resp *reply)
{
    const dlk_rights_kind of = dlk_rights_kind_of(redis, form);
    dlk_rights_names keys = {.count = 0};
    char text[sizeof(CALLS)], lack[DLK_LACK_MAX] = "";
    size_t count = list_calls(redis, &of, text), item = 0;
    dlk_rights_list_own_names(&of, key, redis, &keys);
    if (!keys.failed && makes_sense(reply, count + keys.count)) {
        for (const char *line = text; *line; line = strchr(line, '\n') + 1, item++)
            if (reply->items[item].text[0] == '+')
                add_lack(lack, '+', line, strcspn(line, " \n"), "");
        for (size_t i = 0; key && i < keys.count; i++)
            if (reply->items[item + i].text[0] == '~')
                add_lack_of(redis, lack, '~', keys.text[i], key->name);
    }
    dlk_rights_free_names(&keys);
    return lack[0] ? dlk_redis_lack_error(redis, of.needs, lack) : NULL;
}

dlock_error *dlk_redis_lack_error(const dlk_redis *redis, const char *needs,
                                  const char *lack)
{
    const char *user = dlk_settings_text(redis->settings, DLK_KEY_AUTH_USERNAME);
    return dlk_error_make(DLOCK_EACCES,
                          "redis: user %s at %s lacks rights that %s need: %s (ACL "
                          "SETUSER)",
                          user[0] ? user : "default", redis->peer, needs, lack);
}
