/* URIs: what they mean, what is refused, and that no password gets out. */
#include "harness/harness.h"

#include "util/error.h"
#include "util/uri.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dlock_error *err;

/* Parses what must parse. */
static dlk_uri *parsed(const char *text)
{
    dlk_uri *uri = NULL;
    dlock_err code = dlk_uri_parse(text, &uri, &err);
    if (!harness_err(__FILE__, __LINE__, text, code, DLOCK_OK, err))
        exit(1);
    return uri;
}

/* Parses and applies; DLOCK_OK or why not. Keeps nothing. */
static dlock_err tried(const char *text)
{
    dlk_uri *uri = NULL;
    dlk_settings *settings = dlk_settings_new();
    dlock_err code = dlk_uri_parse(text, &uri, &err);
    if (!code)
        code = dlk_uri_apply(uri, settings, &err);
    dlk_uri_free(uri);
    dlk_settings_free(settings);
    return code;
}

TEST(a_redis_uri_has_host_port_database_user_and_password)
{
    dlk_uri *uri =
        parsed("redis://us%40er:p%2Fw%3a@example.org:6380/3?lock.ttl_ms=10000");
    CHECK_STR(uri->scheme, "redis");
    CHECK_EQ_INT(uri->host_count, 1);
    CHECK_STR(uri->hosts[0].host, "example.org");
    CHECK_EQ_INT(uri->hosts[0].port, 6380);
    CHECK_STR(uri->user, "us@er");
    CHECK_STR(uri->password, "p/w:");
    CHECK_STR(uri->path, "/3");
    dlk_settings *settings = dlk_settings_new();
    CHECK_OK(dlk_uri_apply(uri, settings, &err), err);
    CHECK_EQ_INT(dlk_settings_int(settings, DLK_KEY_REDIS_DB), 3);
    CHECK_EQ_INT(dlk_settings_int(settings, DLK_KEY_LOCK_TTL_MS), 10000);
    CHECK_STR(dlk_settings_text(settings, DLK_KEY_AUTH_USERNAME), "us@er");
    CHECK_STR(dlk_settings_text(settings, DLK_KEY_AUTH_PASSWORD), "p/w:");
    dlk_settings_free(settings);
    dlk_uri_free(uri);
}

TEST(what_is_not_given_is_absent)
{
    dlk_uri *uri = parsed("REDIS://127.0.0.1");
    CHECK_STR(uri->scheme, "redis");
    CHECK_EQ_INT(uri->hosts[0].port, 0);
    CHECK_STR(uri->path, "");
    CHECK(uri->user == NULL && uri->password == NULL);
    dlk_settings *settings = dlk_settings_new();
    CHECK_OK(dlk_uri_apply(uri, settings, &err), err);
    CHECK(!dlk_settings_is_set(settings, DLK_KEY_REDIS_DB));
    CHECK(!dlk_settings_is_set(settings, DLK_KEY_AUTH_PASSWORD));
    dlk_settings_free(settings);
    dlk_uri_free(uri);
}

TEST(several_hosts_and_ipv6_addresses_are_told_apart)
{
    dlk_uri *uri =
        parsed("redis+sentinel://a:1,[::1]:26379,[fe80::1%25eth0],b-2/service");
    CHECK_EQ_INT(uri->host_count, 4);
    CHECK_STR(uri->hosts[0].host, "a");
    CHECK_EQ_INT(uri->hosts[0].port, 1);
    CHECK_STR(uri->hosts[1].host, "::1");
    CHECK_EQ_INT(uri->hosts[1].port, 26379);
    CHECK_STR(uri->hosts[2].host, "fe80::1%eth0");
    CHECK_EQ_INT(uri->hosts[2].port, 0);
    CHECK_STR(uri->hosts[3].host, "b-2");
    CHECK_STR(uri->path, "/service");
    dlk_uri_free(uri);
}

TEST(local_schemes_have_a_path_and_no_host)
{
    static const struct {
        const char *text, *scheme, *path;
    } cases[] = {
        {"mem:", "mem", ""},
        {"mem:orders", "mem", "orders"},
        {"file:///run/lock/a%20b", "file", "/run/lock/a b"},
        {"file:/run/lock/app?lock.ttl_ms=500", "file", "/run/lock/app"},
        {"redis+unix:///run/redis.sock?redis.db=2", "redis+unix", "/run/redis.sock"},
        {"file:///tmp/user@host", "file", "/tmp/user@host"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        dlk_uri *uri = parsed(cases[i].text);
        CHECK_STR(uri->scheme, cases[i].scheme);
        CHECK_STR(uri->path, cases[i].path);
        CHECK_EQ_INT(uri->host_count, 0);
        CHECK_STR(dlk_uri_masked(uri), cases[i].text);
        dlk_uri_free(uri);
        CHECK_OK(tried(cases[i].text), err);
    }
}

TEST(bad_uris_are_refused_with_a_reason)
{
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"", "empty"},
        {"redis", "scheme"},
        {"://host", "scheme"},
        {"re dis://host", "scheme"},
        {"redis://", "empty host"},
        {"redis:///0", "empty host"},
        {"redis:host", "needs a host"},
        {"redis://a,,b", "empty host"},
        {"redis://a,", "empty host"},
        {"redis://a:0", "1 to 65535"},
        {"redis://a:99999", "1 to 65535"},
        {"redis://a:", "1 to 65535"},
        {"redis://a:+1", "1 to 65535"},
        {"redis://a:18446744073709551617", "1 to 65535"},
        {"redis://::1", "[ ]"},
        {"redis://[::1", "without a ]"},
        {"redis://[::1]x", "between ]"},
        {"redis://[]", "empty host"},
        {"redis://a b", "host name"},
        {"redis://a%0ab", "host name"},
        {"redis://a/x", "redis.db"},
        {"redis://a/-1", "redis.db"},
        {"redis://a/1?redis.db=1", "twice"},
        {"redis://:x@a?auth.password=y", "twice"},
        {"redis://a?", NULL},
        {"redis://a?&lock.ttl_ms=500&", NULL},
        {"redis://a?lock.ttl_ms", "without a value"},
        {"redis://a?lock.tl_ms=1", "lock.ttl_ms"},
        {"redis://a?lock.ttl_ms=0", "100..2592000000"},
        {"redis://a%", "%25"},
        {"redis://a/%4", "%25"},
        {"redis://a/%zz", "%25"},
        {"redis://a/%00", "NUL"},
        {"redis://a\n", "control character"},
        {"file://relative/path", "three slashes"},
        {"file:relative", "absolute"},
        {"file:///", "absolute"},
        {"redis+unix://", "absolute"},
        {"mem://name", "mem:NAME"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        dlock_err expected = cases[i].reason ? DLOCK_EINVAL : DLOCK_OK;
        dlock_err code = tried(cases[i].text);
        if (!harness_err(__FILE__, __LINE__, cases[i].text, code, expected, err))
            return;
        if (cases[i].reason)
            CHECK_CONTAINS(dlock_error_text(err), cases[i].reason);
    }
    dlk_error_clear(&err);
}

TEST(an_over_long_uri_is_refused)
{
    static char text[DLK_URI_MAX + 2];
    memset(text, 'a', sizeof(text) - 1);
    memcpy(text, "mem:", 4);
    CHECK_ERR(tried(text), DLOCK_EINVAL, err);
    CHECK_CONTAINS(dlock_error_text(err), "4096");
    text[DLK_URI_MAX] = '\0';
    CHECK_OK(tried(text), err);
}

TEST(an_unknown_scheme_is_parsed_and_left_to_others)
{
    dlk_uri *uri = parsed("gopher://host:70/path");
    CHECK_STR(uri->scheme, "gopher");
    dlk_uri_free(uri);
}

TEST(masking_keeps_all_but_the_secrets)
{
    static const struct {
        const char *text, *masked;
    } cases[] = {
        {"redis://u:hush@h:1/2?lock.ttl_ms=500", "redis://u:***@h:1/2?lock.ttl_ms=500"},
        {"redis://:hush@h", "redis://:***@h"},
        {"redis://hush@h", "redis://***@h"},
        {"redis://h?auth.password=hush&redis.db=1",
         "redis://h?auth.password=***&redis.db=1"},
        {"redis://h?&auth.pasword=hush", "redis://h?&auth.pasword=***"},
        {"redis://h?auth.password_file=/run/pw", "redis://h?auth.password_file=/run/pw"},
        {"redis://u:12/hush@h", "redis://***"},
        {"u:hush@h:6379", "u:***"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        dlk_uri *uri = parsed(cases[i].text);
        CHECK_STR(dlk_uri_masked(uri), cases[i].masked);
        dlk_uri_free(uri);
    }
    dlk_error_clear(&err);
}

TEST(no_error_contains_the_password_however_it_was_mistyped)
{
    static const char *const cases[] = {
        "redis://u:hush/hush@h",
        "redis://u:1/hush@h",
        "redis://u:1?hush@h",
        "redis://u:hush?hush@h",
        "redis://:hush",
        "redis://:hush@h:hush",
        "redis://u:%hush@h",
        "redis://u:hush%@h",
        "redis://u:hush@",
        "redis://u:hush@h:0",
        "redis://u:hush@h/x",
        "redis://u:hush@h?lock.tl_ms=1",
        "redis://u:hush@h?auth.password=hush",
        "redis://h?auth.pasword=hush",
        "file://u:hush@h/x",
        "mem://hush@x",
        "redis://u:1?lock.ttl_ms=hush@h",
        "redis:u:hush@h",
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        dlock_err code = tried(cases[i]);
        CHECK_ERR(code, DLOCK_EINVAL, err);
        CHECK(strstr(dlock_error_text(err), "hush") == NULL);
    }
    dlk_error_clear(&err);
}
