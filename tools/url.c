/*
 * The URL as the command of `dlock run` gets it.
 *
 * A secret that came by the environment goes on by it: whoever could read it in the one process can
 * read it in the other. One that came by an option, or lies in a file, stays with us: the command,
 * and whatever that starts, would show it in its environment to all who may look there.
 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

/* A part of the URL. */
typedef struct part {
    const char *at;
    size_t size;
} part;

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static int hex(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *found =
        c != '\0' ? strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c) : NULL;
    return found != NULL ? (int)(found - digits) : -1;
}

/* The name of a parameter as the library reads it; false when it is longer than any. */
static bool read_key(part pair, char *key, size_t room)
{
    size_t used = 0;
    for (size_t i = 0; i < pair.size && pair.at[i] != '='; i++) {
        char c = pair.at[i];
        if (c == '%' && i + 2 < pair.size) {
            c = (char)(16 * hex(pair.at[i + 1]) + hex(pair.at[i + 2]));
            i += 2;
        }
        if (used + 1 == room)
            return false;
        key[used++] = c;
    }
    key[used] = '\0';
    return true;
}

/* What isn't known to be harmless is taken for a secret. */
static bool is_secret(part pair, const dlock_info *table)
{
    char key[80], entry[96];
    if (!read_key(pair, key, sizeof key))
        return true;
    (void)snprintf(entry, sizeof entry, "%s.type", key);
    const char *type = dlock_info_get(table, entry);
    return type == NULL || strcmp(type, "secret") == 0;
}

/* Whether one of the ways to give a password is in the query. */
static bool gives_password(const char *query)
{
    char key[80];
    for (const char *at = query; *at != '\0';) {
        at++; /* '?' or '&' */
        const part pair = {at, strcspn(at, "&")};
        if (read_key(pair, key, sizeof key) && begins(key, "auth.password"))
            return true;
        at += pair.size;
    }
    return false;
}

/* The same by an option. */
static bool has_password(const dlock_info *table, const char *key)
{
    static const char *const ways[] = {"", "_file", "_env"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char entry[96];
        (void)snprintf(entry, sizeof entry, "%s%s.value", key, ways[i]);
        if (dlock_info_get(table, entry) != NULL)
            return true;
    }
    return false;
}

static char *put(char *to, part what)
{
    memcpy(to, what.at, what.size);
    return to + what.size;
}

/* The user without the password. A user alone is kept where it has one elsewhere: else it may be a
 * password that lacks its colon. */
static char *put_user(char *to, part user, bool is_user)
{
    const char *colon = memchr(user.at, ':', user.size);
    if (colon != NULL)
        user.size = (size_t)(colon - user.at);
    else if (!is_user)
        user.size = 0;
    to = put(to, user);
    if (user.size > 0)
        *to++ = '@';
    return to;
}

static char *put_query(char *to, const char *query, const dlock_info *table)
{
    char sign = '?';
    for (const char *at = query; *at != '\0';) {
        at++;
        const part pair = {at, strcspn(at, "&")};
        at += pair.size;
        if (pair.size == 0 || is_secret(pair, table))
            continue;
        *to++ = sign;
        to = put(to, pair);
        sign = '&';
    }
    return to;
}

/* The library has opened the URL, so it is one. The parts are those that it sees: the query begins at
 * the first question mark, the hosts end at the first slash and begin behind the last @. */
static char *without_secrets(const char *url, const dlock_info *table)
{
    char *bare = malloc(strlen(url) + 1), *to = bare;
    if (bare == NULL)
        return NULL;
    const char *rest = url, *query = url + strcspn(url, "?");
    const char *hosts = strchr(url, ':') + 1;
    if (begins(hosts, "//")) {
        hosts += 2;
        const char *at = memrchr(hosts, '@', strcspn(hosts, "/?"));
        to = put(to, (part){url, (size_t)(hosts - url)});
        rest = hosts;
        if (at != NULL) {
            bool is_user = gives_password(query) || has_password(table, "auth.password");
            to = put_user(to, (part){hosts, (size_t)(at - hosts)}, is_user);
            rest = at + 1;
        }
    }
    to = put(to, (part){rest, (size_t)(query - rest)});
    *put_query(to, query, table) = '\0';
    return bare;
}

int cli_url_for_command(const cli_call *cli, char **ret_url)
{
    DLOCK_AUTO(dlock_info) table = NULL;
    dlock_error *error = NULL;
    *ret_url = NULL;
    dlock_err code = dlock_conf_dump(cli->conf, &table, &error);
    if (code != DLOCK_OK) {
        int status = cli_fail(cli, NULL, code, error);
        dlock_error_free(error);
        return status;
    }
    if (cli->url == getenv("DLOCK_URL") && !has_password(table, "auth.password") &&
        !has_password(table, "auth.sentinel_password"))
        return 0;
    *ret_url = without_secrets(cli->url, table);
    return *ret_url != NULL ? 0 : cli_fail(cli, NULL, DLOCK_ENOMEM, NULL);
}
