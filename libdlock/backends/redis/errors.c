/* Error replies of Redis and of our scripts (DLOCK…); see the header.
 *
 * Scripts report a missing right as "ERR The user executing the script can't run this command…", newer
 * servers as "ERR ACL failure in script: User x has no permissions to run the 'hset' command", not as
 * NOPERM. Which ones are missing is what rights.h is for. */
#include "backends/redis/errors.h"

#include "util/error.h"

#include <string.h>

typedef struct meaning {
    const char *word; /* the first of the reply */
    dlock_err code;
    const char *text; /* NULL: what follows the word */
} meaning;

static const meaning meanings[] = {
    {"NOAUTH", DLOCK_EACCES, "the server asks for a password (auth.password)"},
    {"WRONGPASS", DLOCK_EACCES, "user or password is wrong, or the user is disabled"},
    {"NOPERM", DLOCK_EACCES, "the user's ACL forbids it"},
    {"DENIED", DLOCK_EACCES,
     "the server is in protected mode and takes no remote clients"},
    {"WRONGTYPE", DLOCK_ECONFLICT,
     "the key holds another type of value, not a lock of this layout"},
    {"DLOCKKIND", DLOCK_ECONFLICT, "another kind of lock is in use under this name"},
    {"DLOCKTOKEN", DLOCK_ECONFLICT, "the key of the fencing tokens holds something else"},
    {"DLOCKFULL", DLOCK_EOVERFLOW, "the counter of fencing tokens is at its end"},
    {"DLOCKSIZE", DLOCK_ECONFLICT, NULL},
    {"DLOCKMANY", DLOCK_EOVERFLOW, NULL},
    {"DLOCKNONE", DLOCK_EINVAL, NULL},
    {"DLOCKTAKE", DLOCK_EINVAL, NULL},
    {"DLOCKWHOM", DLOCK_ENOTSUP, NULL},
    {"LOADING", DLOCK_EUNAVAIL, "the server is still loading its data"},
    {"BUSY", DLOCK_EUNAVAIL, "the server is busy with somebody's script"},
    {"MASTERDOWN", DLOCK_EUNAVAIL, "the server is a replica without its master"},
    {"MISCONF", DLOCK_EUNAVAIL,
     "the server refuses writes because it can't save to disk"},
    {"NOREPLICAS", DLOCK_EUNAVAIL,
     "the server refuses writes because too few replicas are there"},
    {"OOM", DLOCK_EUNAVAIL, "the server refuses writes because its memory is full"},
    {"READONLY", DLOCK_EUNAVAIL, "the server is a replica and takes no writes"},
    {"TRYAGAIN", DLOCK_EUNAVAIL, "the cluster is moving the key"},
    {"CLUSTERDOWN", DLOCK_EUNAVAIL, "the cluster is down"},
    {"UNKILLABLE", DLOCK_EUNAVAIL, "the server is busy with somebody's script"},
};

/* Those that all begin with ERR are told apart by their words. */
static const meaning phrases[] = {
    {"can't run this command", DLOCK_EACCES,
     "the user's ACL lacks the right to a command that the scripts call"},
    {"can't access at least one of the keys", DLOCK_EACCES,
     "the user's ACL lacks the right to a key that the scripts use"},
    {"can't publish to the channel", DLOCK_EACCES,
     "the user's ACL lacks the right to the channel"},
    {"no permissions to run the", DLOCK_EACCES,
     "the user's ACL lacks the right to a command that the scripts call"},
    {"o permissions to access a key", DLOCK_EACCES,
     "the user's ACL lacks the right to a key that the scripts use"},
    {"o permissions to access a channel", DLOCK_EACCES,
     "the user's ACL lacks the right to the channel"},
    {"invalid password", DLOCK_EACCES, "the password is wrong"},
    {"without any password configured", DLOCK_EACCES,
     "a password was given, but the server has none set for this user"},
    {"no password is set", DLOCK_EACCES,
     "a password was given, but the server has none set"},
    {"operation not permitted", DLOCK_EACCES,
     "the server asks for a password (auth.password)"},
    {"access a non local key", DLOCK_EUNAVAIL, "the cluster is moving the key"},
    {"while the cluster is down", DLOCK_EUNAVAIL, "the cluster is down"},
    {"cluster support disabled", DLOCK_EINVAL,
     "the server is no node of a cluster: write redis:// instead of redis+cluster://"},
    {"max number of clients", DLOCK_EUNAVAIL, "the server has too many clients"},
    {"DB index is out of range", DLOCK_EINVAL,
     "the server has no database of that number"},
    {"syntax error", DLOCK_ENOTSUP, "the server is too old for this (Redis 6.0 has it)"},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const meaning *find(const dlk_resp *reply)
{
    static const meaning other = {"", DLOCK_EPROTO, "the server answered with an error"};
    for (size_t i = 0; i < COUNT(meanings); i++)
        if (dlk_resp_begins(reply, meanings[i].word))
            return &meanings[i];
    for (size_t i = 0; i < COUNT(phrases); i++)
        if (strstr(reply->text, phrases[i].word))
            return &phrases[i];
    /* Inside a script Redis 6 and older put the word of the failed command further back. */
    for (size_t i = 0; i < COUNT(meanings); i++) {
        const char *at = strstr(reply->text, meanings[i].word);
        if (at && at - reply->text >= 2 &&
            (at[-1] == '-' || memcmp(at - 2, ": ", 2) == 0))
            return &meanings[i];
    }
    return &other;
}

dlock_err dlk_redis_error_code(const dlk_resp *reply)
{
    return find(reply)->code;
}

static const char *text_of(const meaning *is, const dlk_resp *reply)
{
    if (is->text)
        return is->text;
    const char *rest = strstr(reply->text, is->word) + strlen(is->word);
    return *rest == ' ' ? rest + 1 : rest;
}

dlock_error *dlk_redis_error(const dlk_resp *reply, const char *doing)
{
    const meaning *is = find(reply);
    dlock_error *error =
        dlk_error_make(is->code, "redis, %s: %s", doing, text_of(is, reply));
    /* The server quotes the arguments of a command that it doesn't know. */
    if (!strstr(reply->text, "with args beginning"))
        dlk_error_backend(&error, reply->text);
    return error;
}

dlock_error *dlk_redis_error_mute(const dlk_resp *reply, const char *doing)
{
    const meaning *is = find(reply);
    return dlk_error_make(is->code, "redis, %s: %s", doing,
                          is->text ? is->text : is->word);
}

bool dlk_redis_error_demoted(const dlk_resp *reply)
{
    return strcmp(find(reply)->word, "READONLY") == 0;
}
