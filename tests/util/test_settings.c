/* Settings: validation that helps, precedence, and secrets that stay secret. */
#include "harness/harness.h"

#include "util/error.h"
#include "util/settings.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static dlock_error *err;

/* A set with the given "key", "value" pairs, ended by NULL. */
static dlk_settings *with(const char *const *pairs)
{
    dlk_settings *settings = dlk_settings_new();
    for (; *pairs; pairs += 2)
        if (!harness_err(__FILE__, __LINE__, pairs[0],
                         dlk_settings_set(settings, pairs[0], pairs[1], &err), DLOCK_OK,
                         err))
            exit(1);
    return settings;
}
#define WITH(...) with((const char *const[]){__VA_ARGS__, NULL})

TEST(every_key_is_complete_and_its_default_is_in_its_own_range)
{
    dlk_settings *settings = dlk_settings_new();
    for (int i = 0; i < DLK_KEY_COUNT; i++) {
        const dlk_key_spec *spec = dlk_settings_spec((dlk_key_id)i);
        CHECK(spec->name && spec->doc && spec->since && spec->backends);
        CHECK(spec->doc[strlen(spec->doc) - 1] == '.');
        if (spec->type == DLK_TYPE_INT || spec->type == DLK_TYPE_OCTAL)
            CHECK_OK(dlk_settings_set_int(settings, spec->name, spec->number, &err), err);
        if (spec->type == DLK_TYPE_ENUM)
            CHECK(spec->words[spec->number] != NULL);
        if (spec->type == DLK_TYPE_TEXT)
            CHECK_OK(dlk_settings_set(settings, spec->name, spec->text ? spec->text : "",
                                      &err),
                     err);
    }
    dlk_settings_free(settings);
}

TEST(defaults_are_the_documented_ones)
{
    CHECK_EQ_INT(dlk_settings_int(NULL, DLK_KEY_LOCK_TTL_MS), 30000);
    CHECK_EQ_INT(dlk_settings_int(NULL, DLK_KEY_LOCK_REENTRANT), 1);
    CHECK_EQ_INT(dlk_settings_int(NULL, DLK_KEY_CLIENT_TIMEOUT_MS), 3000);
    CHECK_EQ_INT(dlk_settings_int(NULL, DLK_KEY_CLIENT_LOG_LEVEL), DLOCK_LOG_WARN);
    CHECK_EQ_INT(dlk_settings_int(NULL, DLK_KEY_FILE_MODE), 0600);
    CHECK_STR(dlk_settings_word(NULL, DLK_KEY_LOCK_OWNER), "auto");
    CHECK_STR(dlk_settings_text(NULL, DLK_KEY_REDIS_RUEIDIS_PREFIX), "rueidislock");
    CHECK_STR(dlk_settings_text(NULL, DLK_KEY_CLIENT_PREFIX), "");
}

TEST(values_are_set_replaced_and_unset)
{
    dlk_settings *settings =
        WITH("lock.ttl_ms", "500", "lock.renew", "fed", "client.prefix", "a");
    CHECK_EQ_INT(dlk_settings_int(settings, DLK_KEY_LOCK_TTL_MS), 500);
    CHECK_EQ_INT(dlk_settings_int(settings, DLK_KEY_LOCK_RENEW), DLK_RENEW_FED);
    CHECK_OK(dlk_settings_set(settings, "client.prefix", "b", &err), err);
    CHECK_STR(dlk_settings_text(settings, DLK_KEY_CLIENT_PREFIX), "b");
    CHECK_OK(dlk_settings_set(settings, "lock.ttl_ms", NULL, &err), err);
    CHECK(!dlk_settings_is_set(settings, DLK_KEY_LOCK_TTL_MS));
    CHECK_EQ_INT(dlk_settings_int(settings, DLK_KEY_LOCK_TTL_MS), 30000);
    dlk_settings_free(settings);
}

TEST(booleans_have_three_spellings_each)
{
    static const char *const yes[] = {"true", "on", "1"}, *const no[] = {"false", "off",
                                                                         "0"};
    dlk_settings *settings = dlk_settings_new();
    for (int i = 0; i < 3; i++) {
        CHECK_OK(dlk_settings_set(settings, "lock.fair", yes[i], &err), err);
        CHECK_EQ_INT(dlk_settings_int(settings, DLK_KEY_LOCK_FAIR), 1);
        CHECK_OK(dlk_settings_set(settings, "lock.fair", no[i], &err), err);
        CHECK_EQ_INT(dlk_settings_int(settings, DLK_KEY_LOCK_FAIR), 0);
    }
    CHECK_ERR(dlk_settings_set(settings, "lock.fair", "yes", &err), DLOCK_EINVAL, err);
    dlk_settings_free(settings);
    dlk_error_clear(&err);
}

TEST(bad_values_are_refused_with_what_would_be_right)
{
    static const char *const cases[][3] = {
        {"lock.ttl_ms", "0", "100..2592000000"},
        {"lock.ttl_ms", "-1", "100..2592000000"},
        {"lock.ttl_ms", "99", "100..2592000000"},
        {"lock.ttl_ms", "2592000001", "100..2592000000"},
        {"lock.ttl_ms", "9223372036854775807", "100..2592000000"},
        {"lock.ttl_ms", "9223372036854775808", "100..2592000000"},
        {"lock.ttl_ms", "", "whole number"},
        {"lock.ttl_ms", "30s", "whole number"},
        {"lock.ttl_ms", " 300", "whole number"},
        {"lock.ttl_ms", "+300", "whole number"},
        {"lock.ttl_ms", "--300", "whole number"},
        {"lock.ttl_ms", "1e3", "whole number"},
        {"lock.max_hold_ms", "50", "0, ttl.."},
        {"lock.renew", "Auto", "auto, fed, off"},
        {"lock.renew", "", "auto, fed, off"},
        {"file.mode", "0777", "0600, 0660, 0666"},
        {"file.mode", "384", "0600, 0660, 0666"},
        {"file.mode", "", "0600, 0660, 0666"},
        {"tls.ca_file", "", "empty"},
        {"client.name", "a\tb", "printable"},
        {"client.name", "caf\xc3\xa9", "printable"},
    };
    dlk_settings *settings = dlk_settings_new();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        dlock_err code = dlk_settings_set(settings, cases[i][0], cases[i][1], &err);
        if (!harness_err(__FILE__, __LINE__, cases[i][1], code, DLOCK_EINVAL, err))
            return;
        CHECK_CONTAINS(dlock_error_text(err), cases[i][0]);
        CHECK_CONTAINS(dlock_error_text(err), cases[i][2]);
    }
    for (int i = 0; i < DLK_KEY_COUNT; i++)
        CHECK(!dlk_settings_is_set(settings, (dlk_key_id)i));
    dlk_settings_free(settings);
    dlk_error_clear(&err);
}

TEST(the_ends_of_a_range_are_inside)
{
    dlk_settings *settings = WITH("lock.ttl_ms", "100");
    CHECK_OK(dlk_settings_set(settings, "lock.ttl_ms", "2592000000", &err), err);
    CHECK_OK(dlk_settings_set(settings, "lock.max_hold_ms", "0", &err), err);
    CHECK_OK(dlk_settings_set(settings, "lock.max_hold_ms", "9007199254740992", &err),
             err);
    CHECK_OK(dlk_settings_set(settings, "lock.permits", "2147483647", &err), err);
    CHECK_ERR(dlk_settings_set(settings, "lock.permits", "2147483648", &err),
              DLOCK_EINVAL, err);
    dlk_settings_free(settings);
    dlk_error_clear(&err);
}

TEST(long_texts_are_measured)
{
    char text[1026];
    memset(text, 'x', sizeof(text));
    text[1025] = '\0';
    dlk_settings *settings = dlk_settings_new();
    CHECK_ERR(dlk_settings_set(settings, "lock.data", text, &err), DLOCK_EINVAL, err);
    CHECK_CONTAINS(dlock_error_text(err), "1024");
    text[1024] = '\0';
    CHECK_OK(dlk_settings_set(settings, "lock.data", text, &err), err);
    dlk_settings_free(settings);
}

TEST(an_unknown_key_names_the_one_that_was_meant)
{
    static const char *const cases[][2] = {
        {"lock.tl_ms", "'lock.ttl_ms'"},
        {"lock.ttlms", "'lock.ttl_ms'"},
        {"ttl_ms", "'lock.ttl_ms'"},
        {"lock.timeout_ms", "'client.timeout_ms'"},
        {"lock.renewal", "'lock.renew'"},
        {"client.requires", "'client.require'"},
        {"auth.pasword", "'auth.password'"},
        {"redis.layuot", "'redis.layout'"},
        {"LOCK.TTL_MS", "unknown key"},
        {"banana", "unknown key"},
        {"", "unknown key"},
    };
    dlk_settings *settings = dlk_settings_new();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CHECK_ERR(dlk_settings_set(settings, cases[i][0], "1", &err), DLOCK_EINVAL, err);
        CHECK_CONTAINS(dlock_error_text(err), cases[i][1]);
    }
    CHECK(strstr(dlock_error_text(err), "did you mean") == NULL);
    dlk_settings_free(settings);
    dlk_error_clear(&err);
}

TEST(an_absurdly_long_key_or_value_is_refused_briefly)
{
    static char text[65537];
    memset(text, 'k', sizeof(text) - 1);
    dlk_settings *settings = dlk_settings_new();
    CHECK_ERR(dlk_settings_set(settings, text, "1", &err), DLOCK_EINVAL, err);
    CHECK(strlen(dlock_error_text(err)) < 200);
    CHECK_ERR(dlk_settings_set(settings, "lock.renew", text, &err), DLOCK_EINVAL, err);
    CHECK(strlen(dlock_error_text(err)) < 200);
    CHECK_ERR(dlk_settings_set(settings, "lock.ttl_ms", text, &err), DLOCK_EINVAL, err);
    CHECK(strlen(dlock_error_text(err)) < 200);
    dlk_settings_free(settings);
    dlk_error_clear(&err);
}

TEST(numbers_can_be_set_without_going_through_text)
{
    dlk_settings *settings = dlk_settings_new();
    CHECK_OK(dlk_settings_set_int(settings, "lock.ttl_ms", 700, &err), err);
    CHECK_OK(dlk_settings_set_int(settings, "lock.fair", 1, &err), err);
    CHECK_OK(dlk_settings_set_int(settings, "file.mode", 0660, &err), err);
    CHECK_EQ_INT(dlk_settings_int(settings, DLK_KEY_LOCK_TTL_MS), 700);
    CHECK_EQ_INT(dlk_settings_int(settings, DLK_KEY_FILE_MODE), 0660);
    CHECK_ERR(dlk_settings_set_int(settings, "lock.ttl_ms", INT64_MAX, &err),
              DLOCK_EINVAL, err);
    CHECK_ERR(dlk_settings_set_int(settings, "lock.fair", 2, &err), DLOCK_EINVAL, err);
    CHECK_ERR(dlk_settings_set_int(settings, "file.mode", 600, &err), DLOCK_EINVAL, err);
    CHECK_ERR(dlk_settings_set_int(settings, "lock.renew", 1, &err), DLOCK_EINVAL, err);
    CHECK_CONTAINS(dlock_error_text(err), "words");
    CHECK_ERR(dlk_settings_set_int(settings, "client.prefix", 1, &err), DLOCK_EINVAL,
              err);
    CHECK_ERR(dlk_settings_set_int(settings, "lock.tl_ms", 1, &err), DLOCK_EINVAL, err);
    dlk_settings_free(settings);
    dlk_error_clear(&err);
}

TEST(the_clients_conf_goes_over_the_uri_and_the_locks_over_the_clients)
{
    dlk_settings *uri =
        WITH("lock.ttl_ms", "1000", "lock.fair", "true", "client.prefix", "u");
    dlk_settings *conf = WITH("lock.ttl_ms", "2000", "client.prefix", "c");
    dlk_settings *own = WITH("lock.ttl_ms", "3000");
    dlk_settings *client = NULL, *lock = NULL;
    CHECK_OK(dlk_settings_for_client(uri, conf, &client, &err), err);
    CHECK_EQ_INT(dlk_settings_int(client, DLK_KEY_LOCK_TTL_MS), 2000);
    CHECK_EQ_INT(dlk_settings_int(client, DLK_KEY_LOCK_FAIR), 1);
    CHECK_STR(dlk_settings_text(client, DLK_KEY_CLIENT_PREFIX), "c");
    CHECK_OK(dlk_settings_for_lock(client, own, &lock, &err), err);
    CHECK_EQ_INT(dlk_settings_int(lock, DLK_KEY_LOCK_TTL_MS), 3000);
    CHECK_EQ_INT(dlk_settings_int(lock, DLK_KEY_LOCK_FAIR), 1);
    dlk_settings_free(lock);
    CHECK_OK(dlk_settings_for_lock(client, NULL, &lock, &err), err);
    CHECK_EQ_INT(dlk_settings_int(lock, DLK_KEY_LOCK_TTL_MS), 2000);
    dlk_settings_free(uri);
    dlk_settings_free(conf);
    dlk_settings_free(own);
    dlk_settings_free(client);
    dlk_settings_free(lock);
}

TEST(nothing_set_at_all_is_fine)
{
    dlk_settings *client = NULL;
    CHECK_OK(dlk_settings_for_client(NULL, NULL, &client, &err), err);
    CHECK_EQ_INT(dlk_settings_int(client, DLK_KEY_LOCK_TTL_MS), 30000);
    dlk_settings_free(client);
}

/* What a client ends up with for @p key, given by URI and conf; NULL when it is refused. */
static const char *merged(const char *key, const char *in_uri, const char *in_conf)
{
    dlk_settings *uri = WITH(key, in_uri), *conf = WITH(key, in_conf), *client = NULL;
    const char *word = NULL;
    dlk_key_id id;
    if (dlk_settings_find(key, &id, &err) == DLOCK_OK &&
        dlk_settings_for_client(uri, conf, &client, &err) == DLOCK_OK)
        word = dlk_settings_word(client, id);
    dlk_settings_free(uri);
    dlk_settings_free(conf);
    dlk_settings_free(client);
    return word;
}

TEST(a_uri_may_raise_what_is_required_but_never_lower_it)
{
    CHECK_STR(merged("client.require", "correctness", "fencing"), "correctness");
    CHECK_STR(merged("client.require", "fencing", NULL), "fencing");
    CHECK_STR(merged("client.require", "fencing", "fencing"), "fencing");
    CHECK_STR(merged("client.require", NULL, "fencing"), "fencing");
    CHECK_STR(merged("client.require", "efficiency", "fencing"), NULL);
    CHECK_CONTAINS(dlock_error_text(err), "client.require");
    CHECK_STR(merged("tls.verify", "full", "chain"), "full");
    CHECK_STR(merged("tls.verify", NULL, "insecure_none"), "insecure_none");
    CHECK_STR(merged("tls.verify", "insecure_none", NULL), NULL);
    CHECK_STR(merged("tls.verify", "chain", "full"), NULL);
    CHECK_CONTAINS(dlock_error_text(err), "tls.verify");
    dlk_error_clear(&err);
}

TEST(a_key_of_the_client_is_refused_in_a_locks_conf_by_name)
{
    dlk_settings *client = dlk_settings_new(), *own = WITH("client.timeout_ms", "100");
    dlk_settings *lock = NULL;
    CHECK_ERR(dlk_settings_for_lock(client, own, &lock, &err), DLOCK_EINVAL, err);
    CHECK_CONTAINS(dlock_error_text(err), "client.timeout_ms");
    CHECK(lock == NULL);
    dlk_settings_free(client);
    dlk_settings_free(own);
    dlk_error_clear(&err);
}

TEST(settings_that_contradict_each_other_are_refused)
{
    static const char *const cases[][5] = {
        {"lock.ttl_ms", "500", "lock.max_hold_ms", "499", "lock.max_hold_ms"},
        {"lock.permits", "2", "lock.take", "3", "lock.take"},
        {"client.backoff_min_ms", "3000", "client.backoff_max_ms", "2000", "backoff"},
        {"auth.password", "a", "auth.password_env", "B", "at most one"},
        {"auth.sentinel_password_file", "/a", "auth.sentinel_password_env", "B",
         "at most one"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        dlk_settings *conf = WITH(cases[i][0], cases[i][1], cases[i][2], cases[i][3]);
        dlk_settings *client = NULL;
        CHECK_ERR(dlk_settings_for_client(NULL, conf, &client, &err), DLOCK_EINVAL, err);
        CHECK_CONTAINS(dlock_error_text(err), cases[i][4]);
        dlk_settings_free(conf);
    }
    dlk_settings *conf = WITH("lock.ttl_ms", "500", "lock.max_hold_ms", "500"),
                 *client = NULL;
    CHECK_OK(dlk_settings_for_client(NULL, conf, &client, &err), err);
    dlk_settings_free(conf);
    dlk_settings_free(client);
}

TEST(a_copy_is_independent)
{
    dlk_settings *a = WITH("client.prefix", "one", "auth.password", "x");
    dlk_settings *b = dlk_settings_copy(a);
    CHECK_OK(dlk_settings_set(a, "client.prefix", "two", &err), err);
    CHECK_STR(dlk_settings_text(b, DLK_KEY_CLIENT_PREFIX), "one");
    dlk_settings_free(a);
    CHECK_STR(dlk_settings_text(b, DLK_KEY_AUTH_PASSWORD), "x");
    dlk_settings_free(b);
}

/* The secret that a client with this setting would send; the caller's. */
static char *secret_of(const char *key, const char *value)
{
    dlk_settings *settings = WITH(key, value);
    char *secret = NULL;
    dlock_err code = dlk_settings_secret(settings, DLK_KEY_AUTH_PASSWORD, &secret, &err);
    dlk_settings_free(settings);
    return code ? NULL : secret;
}

static void write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        exit(2);
    close(fd);
}

TEST(a_secret_comes_from_its_value_a_files_first_line_or_the_environment)
{
    char path[] = "/tmp/dlock-secret-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);

    char *secret = secret_of("auth.password", "direct");
    CHECK_STR(secret, "direct");
    dlk_secret_free(secret);

    write_file(path, "from file \r\nsecond line\n");
    secret = secret_of("auth.password_file", path);
    CHECK_STR(secret, "from file ");
    dlk_secret_free(secret);
    write_file(path, "changed"); /* read anew at each connect */
    secret = secret_of("auth.password_file", path);
    CHECK_STR(secret, "changed");
    dlk_secret_free(secret);

    CHECK_EQ_INT(setenv("DLOCK_TEST_SECRET", "from env", 1), 0);
    secret = secret_of("auth.password_env", "DLOCK_TEST_SECRET");
    CHECK_STR(secret, "from env");
    dlk_secret_free(secret);
    unlink(path);
}

TEST(no_secret_is_not_an_error)
{
    char *secret = NULL;
    CHECK_OK(dlk_settings_secret(NULL, DLK_KEY_AUTH_PASSWORD, &secret, &err), err);
    CHECK(secret == NULL);
    CHECK(secret_of("auth.password", "") == NULL);
    CHECK(err == NULL);
}

TEST(a_secret_that_cannot_be_read_is_refused_by_name)
{
    char directory[] = "/tmp/dlock-secret-XXXXXX", path[64];
    CHECK(mkdtemp(directory) != NULL);
    snprintf(path, sizeof(path), "%s/file", directory);

    CHECK(secret_of("auth.password_file", path) == NULL);
    CHECK_EQ_INT(dlock_error_code(err), DLOCK_EINVAL);
    CHECK_CONTAINS(dlock_error_text(err), path);
    CHECK(secret_of("auth.password_file", directory) == NULL);
    CHECK_EQ_INT(dlock_error_code(err), DLOCK_EINVAL);

    write_file(path, "\nsecond");
    CHECK(secret_of("auth.password_file", path) == NULL);
    CHECK_CONTAINS(dlock_error_text(err), "empty");
    unlink(path);
    CHECK_EQ_INT(mkfifo(path, 0600), 0); /* nobody writes: must not wait */
    CHECK(secret_of("auth.password_file", path) == NULL);
    unlink(path);
    static char line[5000];
    memset(line, 's', sizeof(line) - 1);
    write_file(path, line);
    CHECK(secret_of("auth.password_file", path) == NULL);
    CHECK(strstr(dlock_error_text(err), "sss") == NULL);
    unlink(path);
    rmdir(directory);

    CHECK(secret_of("auth.password_env", "DLOCK_TEST_UNSET") == NULL);
    CHECK_CONTAINS(dlock_error_text(err), "DLOCK_TEST_UNSET");
    dlk_error_clear(&err);
}

TEST(the_callers_way_to_give_a_secret_replaces_the_uris)
{
    dlk_settings *uri = WITH("auth.password", "from uri");
    dlk_settings *conf = WITH("auth.password_env", "DLOCK_TEST_SECRET"), *client = NULL;
    CHECK_EQ_INT(setenv("DLOCK_TEST_SECRET", "from env", 1), 0);
    CHECK_OK(dlk_settings_for_client(uri, conf, &client, &err), err);
    char *secret = NULL;
    CHECK_OK(dlk_settings_secret(client, DLK_KEY_AUTH_PASSWORD, &secret, &err), err);
    CHECK_STR(secret, "from env");
    dlk_secret_free(secret);
    dlk_settings_free(uri);
    dlk_settings_free(conf);
    dlk_settings_free(client);
}
