/* URIs: what is understood can be written down and understood again; nothing that is shown, be it
 * an error or the masked URI, depends on what a password says. */
#include "fuzz.h"

#include "util/buf.h"
#include "util/settings.h"
#include "util/uri.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char fuzz_name[] = "uri";
const size_t fuzz_longest = 512;
const char *const fuzz_words[] = {"redis://",
                                  "rediss://",
                                  "redis+unix:///",
                                  "file:///",
                                  "mem:",
                                  "zookeeper://",
                                  "@",
                                  ":",
                                  "//",
                                  "/",
                                  "?",
                                  "&",
                                  "=",
                                  ",",
                                  "[::1]",
                                  "[fe80::1%25eth0]",
                                  "]",
                                  "%",
                                  "%2F",
                                  "%00",
                                  "%40",
                                  ":6379",
                                  ":65535",
                                  ":65536",
                                  "user:secret@",
                                  "auth.password=",
                                  "auth.username=",
                                  "auth.sentinel_password=",
                                  "lock.ttl_ms=10000",
                                  "redis.db=",
                                  "client.require=fencing",
                                  "client.prefix=",
                                  "tls.verify=",
                                  "localhost",
                                  "127.0.0.1",
                                  "\xc3\xa4",
                                  "%c3%a4",
                                  NULL};

/* ---- writing one down ---- */

static void put(dlk_buf *out, const char *text)
{
    if (!dlk_buf_append(out, text, strlen(text)))
        abort();
}

static void put_encoded(dlk_buf *out, const char *text, const char *plain)
{
    for (; *text; text++) {
        char code[4] = {*text};
        unsigned char c = (unsigned char)*text;
        if (!(c < 0x80 && isalnum(c)) && !strchr(plain, *text))
            (void)snprintf(code, sizeof(code), "%%%02X", c);
        put(out, code);
    }
}

static void put_host(dlk_buf *out, const dlk_uri_host *host)
{
    bool address = strpbrk(host->host, ":%") != NULL;
    put(out, address ? "[" : "");
    put_encoded(out, host->host, address ? ":._-~" : "._-~");
    put(out, address ? "]" : "");
    if (host->port == 0)
        return;
    char port[8];
    (void)snprintf(port, sizeof(port), ":%u", host->port);
    put(out, port);
}

static void put_authority(dlk_buf *out, const dlk_uri *uri)
{
    if (uri->user || uri->password) {
        put_encoded(out, uri->user ? uri->user : "", "");
        if (uri->password) {
            put(out, ":");
            put_encoded(out, uri->password, "");
        }
        put(out, "@");
    }
    for (size_t i = 0; i < uri->host_count; i++) {
        put(out, i ? "," : "");
        put_host(out, &uri->hosts[i]);
    }
}

/* The same URI as we would write it; yours to free. */
static char *print(const dlk_uri *uri)
{
    dlk_buf out = {0};
    put(&out, uri->scheme);
    put(&out, uri->host_count ? "://" : ":");
    put_authority(&out, uri);
    /* Without hosts even the slashes are encoded: two at the beginning would announce some. */
    put_encoded(&out, uri->path, uri->host_count ? "/" : "");
    for (size_t i = 0; i < uri->parameter_count; i++) {
        put(&out, i ? "&" : "?");
        put_encoded(&out, uri->parameters[i].key, ".");
        put(&out, "=");
        put_encoded(&out, uri->parameters[i].value, "");
    }
    char *text = strndup(dlk_buf_head(&out), dlk_buf_size(&out));
    dlk_buf_free(&out);
    return text;
}

/* ---- properties ---- */

static bool same(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static void check_same(const dlk_uri *a, const dlk_uri *b, const char *text)
{
    FUZZ_CHECK(same(a->scheme, b->scheme) && same(a->path, b->path), "as '%s'", text);
    FUZZ_CHECK(same(a->user, b->user) && same(a->password, b->password), "as '%s'", text);
    FUZZ_CHECK(a->host_count == b->host_count, "as '%s'", text);
    for (size_t i = 0; i < a->host_count; i++)
        FUZZ_CHECK(same(a->hosts[i].host, b->hosts[i].host) &&
                       a->hosts[i].port == b->hosts[i].port,
                   "host %zu, as '%s'", i, text);
    FUZZ_CHECK(a->parameter_count == b->parameter_count, "as '%s'", text);
    for (size_t i = 0; i < a->parameter_count; i++)
        FUZZ_CHECK(same(a->parameters[i].key, b->parameters[i].key) &&
                       same(a->parameters[i].value, b->parameters[i].value),
                   "parameter %zu, as '%s'", i, text);
}

static void check_sound(const dlk_uri *uri)
{
    FUZZ_CHECK(uri->scheme[0] && uri->path && uri->masked, "parts are missing");
    FUZZ_CHECK(uri->host_count <= 64, "%zu hosts", uri->host_count);
    for (size_t i = 0; i < uri->host_count; i++) {
        size_t size = strlen(uri->hosts[i].host);
        FUZZ_CHECK(size > 0 && size < 256, "a host of %zu bytes", size);
    }
}

static void check_reprint(const dlk_uri *uri)
{
    dlk_uri *again = NULL;
    dlock_error *err = NULL;
    char *text = print(uri);
    if (text && strlen(text) <= DLK_URI_MAX) {
        dlock_err code = dlk_uri_parse(text, &again, &err);
        FUZZ_CHECK(code == DLOCK_OK, "'%s': %s", text, dlock_error_text(err));
        check_same(uri, again, text);
        FUZZ_CHECK(!again->ambiguous, "'%s' has no stray @", text);
    }
    dlk_uri_free(again);
    free(text);
}

/* What a URI leads to, as far as anybody sees it. */
typedef struct shown {
    dlock_err code;
    char *masked, *error;
} shown;

static shown show(const char *text)
{
    shown it = {0};
    dlk_uri *uri = NULL;
    dlock_error *err = NULL;
    dlk_settings *settings = dlk_settings_new();
    it.code = dlk_uri_parse(text, &uri, &err);
    if (it.code == DLOCK_OK) {
        it.masked = strdup(dlk_uri_masked(uri));
        it.code = dlk_uri_apply(uri, settings, &err);
    }
    FUZZ_CHECK(dlock_error_code(err) == it.code, "error and code disagree");
    it.error = strdup(dlock_error_text(err));
    dlock_error_free(err);
    dlk_uri_free(uri);
    dlk_settings_free(settings);
    return it;
}

/* Other letters, which neither are hexadecimal nor mean anything to the syntax. */
static void disguise(char *from, const char *to)
{
    for (; from < to; from++)
        if ((*from >= 'g' && *from <= 'z') || (*from >= 'G' && *from <= 'Z'))
            *from = (*from | 0x20) == 'z' ? (char)(*from - 19) : (char)(*from + 1);
}

static bool is_local(const char *text, size_t scheme)
{
    return (scheme == 3 && strncasecmp(text, "mem", 3) == 0) ||
           (scheme == 4 && strncasecmp(text, "file", 4) == 0) ||
           (scheme >= 5 && strncasecmp(text + scheme - 5, "+unix", 5) == 0);
}

/* Everything before the last @ may be the password's, except a user that is shown. */
static void disguise_user(char *text, bool understood)
{
    char *colon = strchr(text, ':'), *at = strrchr(text, '@');
    if (!colon || !at || at < colon || is_local(text, (size_t)(colon - text)))
        return;
    char *from = colon + 1;
    if (understood && strncmp(from, "//", 2) == 0) {
        char *end = strpbrk(from + 2, "/?"), *password = strchr(from + 2, ':');
        bool stray = end && end < at;
        if (!stray && password && password < at)
            from = password;
    }
    disguise(from, at);
}

/* The values of parameters that are secrets. */
static void disguise_parameters(char *text)
{
    static const char *const keys[] = {"auth.password=", "auth.sentinel_password="};
    char *at = strchr(text, '?');
    while (at) {
        char *end = at + 1 + strcspn(at + 1, "&");
        for (int i = 0; i < 2; i++)
            if (strncmp(at + 1, keys[i], strlen(keys[i])) == 0)
                disguise(at + 1 + strlen(keys[i]), end);
        at = *end ? end : NULL;
    }
}

static void check_secrets(const char *text, bool understood)
{
    char *other = strdup(text);
    disguise_user(other, understood);
    disguise_parameters(other);
    if (strcmp(text, other) != 0) {
        shown a = show(text), b = show(other);
        FUZZ_CHECK(same(a.masked, b.masked), "'%s' shows as '%s', '%s' as '%s'", text,
                   a.masked, other, b.masked);
        /* Behind a stray @ other letters may make another key, and so another outcome. */
        FUZZ_CHECK(a.code != b.code || same(a.error, b.error),
                   "'%s' and '%s': '%s' tells them apart", text, other, a.error);
        free(a.masked);
        free(a.error);
        free(b.masked);
        free(b.error);
    }
    free(other);
}

static void check_applied(const dlk_uri *uri)
{
    dlk_settings *settings = dlk_settings_new(), *whole = NULL;
    dlock_error *err = NULL;
    if (dlk_uri_apply(uri, settings, &err) == DLOCK_OK) {
        FUZZ_CHECK(!err, "success leaves an error behind");
        FUZZ_CHECK(!uri->password ||
                       strcmp(uri->password,
                              dlk_settings_text(settings, DLK_KEY_AUTH_PASSWORD)) == 0,
                   "the password isn't the one that was given");
        (void)dlk_settings_for_client(settings, NULL, &whole, &err);
    }
    dlock_error_free(err);
    dlk_settings_free(whole);
    dlk_settings_free(settings);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text((fuzz_bytes){data, size});
    dlk_uri *uri = NULL;
    dlock_error *err = NULL;
    dlock_err code = dlk_uri_parse(text, &uri, &err);
    FUZZ_CHECK(dlock_error_code(err) == code, "error and code disagree");
    FUZZ_CHECK((code == DLOCK_OK) == (uri != NULL), "a URI comes with success alone");
    FUZZ_CHECK(uri || dlock_error_text(err)[0], "an error without a text");
    if (uri)
        check_sound(uri);
    /* One or the other, by the size, which changes all the time: twice as many inputs. */
    if (size % 2 == 0) {
        check_secrets(text, uri != NULL);
    } else if (uri) {
        check_reprint(uri);
        check_applied(uri);
    }
    dlk_uri_free(uri);
    dlock_error_free(err);
    free(text);
    return 0;
}
