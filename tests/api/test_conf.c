/* dlock_conf as a caller sees it: set, dump, and no secret in what is shown. */
#include "harness/harness.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

TEST(a_null_conf_is_refused_so_that_nothing_is_dropped_silently)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK_ERR(dlock_conf_set(NULL, "client.require", "correctness", &err), DLOCK_EINVAL,
              err);
    CHECK_CONTAINS(dlock_error_text(err), "NULL");
    CHECK_ERR(dlock_conf_set_int(NULL, "lock.ttl_ms", 500, &err), DLOCK_EINVAL, err);
    CHECK_EQ_INT(dlock_conf_set_log(NULL, NULL, NULL), DLOCK_EINVAL);
    dlock_conf_free(NULL);
}

TEST(a_null_key_and_a_null_err_are_survived)
{
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    CHECK_EQ_INT(dlock_conf_set(conf, NULL, "x", NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_conf_set(conf, "lock.ttl_ms", "0", NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_conf_set(conf, "lock.ttl_ms", "500", NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_conf_dump(conf, NULL, NULL), DLOCK_EINVAL);
}

TEST(success_clears_the_error_of_before)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    CHECK_ERR(dlock_conf_set(conf, "lock.tl_ms", "500", &err), DLOCK_EINVAL, err);
    CHECK_CONTAINS(dlock_error_text(err), "'lock.ttl_ms'");
    CHECK_OK(dlock_conf_set(conf, "lock.ttl_ms", "500", &err), err);
    CHECK(err == NULL);
}

TEST(the_dump_of_null_documents_every_key)
{
    static const char *const parts[] = {"default",  "range", "scope",
                                        "backends", "doc",   "since"};
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_info) info = NULL;
    CHECK_OK(dlock_conf_dump(NULL, &info, &err), err);
    int keys = 0;
    for (size_t i = 0; i < dlock_info_count(info); i++) {
        const char *key = dlock_info_key(info, i);
        size_t size = strlen(key);
        CHECK(strcmp(key + size - 6, ".value") != 0);
        if (strcmp(key + size - 5, ".type") != 0)
            continue;
        keys++;
        for (size_t j = 0; j < sizeof(parts) / sizeof(parts[0]); j++) {
            char name[128];
            snprintf(name, sizeof(name), "%.*s.%s", (int)size - 5, key, parts[j]);
            CHECK(dlock_info_get(info, name) != NULL);
        }
    }
    CHECK_EQ_INT(keys, 82);
    CHECK_STR(dlock_info_get(info, "lock.ttl_ms.range"), "100..2592000000");
    CHECK_STR(dlock_info_get(info, "lock.ttl_ms.default"), "30000");
    CHECK_STR(dlock_info_get(info, "lock.ttl_ms.scope"), "lock");
    CHECK_STR(dlock_info_get(info, "client.require.scope"), "client");
    CHECK_STR(dlock_info_get(info, "file.mode.default"), "0600");
    CHECK_STR(dlock_info_get(info, "client.name.default"), "host:pid");
    CHECK_CONTAINS(dlock_info_json(info), "{\"lock\":{\"ttl_ms\":{\"type\":\"int\"");
}

TEST(the_dump_of_a_conf_shows_its_values_but_no_secret)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    DLOCK_AUTO(dlock_info) info = NULL;
    CHECK_OK(dlock_conf_set(conf, "auth.password", "hush", &err), err);
    CHECK_OK(dlock_conf_set(conf, "auth.password_file", "/run/pw", &err), err);
    CHECK_OK(dlock_conf_set(conf, "lock.fair", "on", &err), err);
    CHECK_OK(dlock_conf_set(conf, "file.mode", "660", &err), err);
    CHECK_OK(dlock_conf_dump(conf, &info, &err), err);
    CHECK_STR(dlock_info_get(info, "auth.password.value"), "***");
    CHECK_STR(dlock_info_get(info, "auth.password_file.value"), "/run/pw");
    CHECK_STR(dlock_info_get(info, "lock.fair.value"), "true");
    CHECK_STR(dlock_info_get(info, "file.mode.value"), "0660");
    CHECK_STR(dlock_info_get(info, "lock.ttl_ms.value"), NULL);
    CHECK(strstr(dlock_info_json(info), "hush") == NULL);
}

/* ---- what clients and locks go by ---- */

static dlock_client *opened(const char *uri, const dlock_conf *conf)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    dlock_client *client = NULL;
    (void)harness_err(__FILE__, __LINE__, uri,
                      dlock_client_open(uri, conf, &client, &err), DLOCK_OK, err);
    return client;
}

static dlock_info *of_lock(const dlock_lock *lock)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    dlock_info *info = NULL;
    (void)harness_err(__FILE__, __LINE__, "settings",
                      dlock_lock_settings(lock, &info, &err), DLOCK_OK, err);
    return info;
}

TEST(a_client_goes_by_its_conf_over_its_uri_over_the_defaults)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_info) info = NULL;
    DLOCK_AUTO(dlock_info) table = NULL;
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    CHECK_OK(dlock_conf_set(conf, "lock.ttl_ms", "7000", &err), err);
    DLOCK_AUTO(dlock_client)
    client = opened("mem:?lock.ttl_ms=8000&client.lazy=on&client.prefix=a%2F&"
                    "client.require=fencing",
                    conf);
    CHECK_OK(dlock_client_settings(client, &info, &err), err);
    CHECK_STR(dlock_info_get(info, "lock.ttl_ms"), "7000");
    CHECK_STR(dlock_info_get(info, "client.lazy"), "true");
    CHECK_STR(dlock_info_get(info, "client.prefix"), "a/");
    CHECK_STR(dlock_info_get(info, "client.require"), "fencing");
    CHECK_STR(dlock_info_get(info, "lock.renew"), "auto");
    CHECK_STR(dlock_info_get(info, "lock.reentrant"), "true");
    CHECK_STR(dlock_info_get(info, "file.mode"), "0600");
    CHECK_STR(dlock_info_get(info, "tls.ca_file"), "");
    /* host:pid, which is no value of the table's */
    char pid[24];
    snprintf(pid, sizeof(pid), ":%ld", (long)getpid());
    CHECK_CONTAINS(dlock_info_get(info, "client.name"), pid);
    CHECK_OK(dlock_conf_dump(NULL, &table, &err), err);
    size_t keys = 0;
    for (size_t i = 0; i < dlock_info_count(table); i++) {
        const char *key = dlock_info_key(table, i);
        size_t size = strlen(key);
        if (strcmp(key + size - 5, ".type") == 0)
            CHECK(strncmp(dlock_info_key(info, keys++), key, size - 5) == 0);
    }
    CHECK_EQ_INT(dlock_info_count(info), keys);
}

TEST(a_lock_goes_by_its_conf_over_its_clients)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = opened("mem:?lock.ttl_ms=8000&lock.take=2", NULL);
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    CHECK_OK(dlock_conf_set(conf, "lock.max_hold_ms", "9000", &err), err);
    CHECK_OK(dlock_conf_set(conf, "lock.permits", "3", &err), err);
    DLOCK_AUTO(dlock_lock) plain = NULL;
    DLOCK_AUTO(dlock_lock) own = NULL;
    DLOCK_AUTO(dlock_lock) again = NULL;
    CHECK_OK(dlock_lock_new(client, DLOCK_MUTEX, "x", NULL, &plain, &err), err);
    CHECK_OK(dlock_lock_new(client, DLOCK_SEMAPHORE, "x", conf, &own, &err), err);
    CHECK_OK(dlock_conf_set(conf, "lock.max_hold_ms", "8500", &err), err);
    CHECK_OK(dlock_lock_new(client, DLOCK_SEMAPHORE, "x", conf, &again, &err), err);
    DLOCK_AUTO(dlock_info) of_plain = of_lock(plain);
    DLOCK_AUTO(dlock_info) of_own = of_lock(own);
    DLOCK_AUTO(dlock_info) of_again = of_lock(again);
    CHECK_STR(dlock_info_get(of_plain, "lock.ttl_ms"), "8000");
    CHECK_STR(dlock_info_get(of_plain, "lock.max_hold_ms"), "0");
    CHECK_STR(dlock_info_get(of_plain, "lock.owner"), "auto");
    CHECK_STR(dlock_info_get(of_own, "lock.ttl_ms"), "8000");
    CHECK_STR(dlock_info_get(of_own, "lock.max_hold_ms"), "9000");
    CHECK_STR(dlock_info_get(of_own, "lock.take"), "2");
    CHECK_STR(dlock_info_get(of_own, "lock.permits"), "3");
    CHECK_STR(dlock_info_get(of_own, "lock.owner"), "none"); /* as semaphores do */
    CHECK_STR(dlock_info_get(of_own, "client.lazy"), NULL);  /* no lock's */
    CHECK_STR(dlock_info_get(of_again, "lock.max_hold_ms"), "8500");
    DLOCK_AUTO(dlock_lock) multi = NULL;
    dlock_info *none = NULL;
    CHECK_OK(dlock_multi_new(&plain, 1, NULL, &multi, &err), err);
    CHECK_ERR(dlock_lock_settings(multi, &none, &err), DLOCK_ENOTSUP, err);
}

TEST(what_a_client_goes_by_shows_no_secret)
{
    if (!strstr(dlock_backends(), "redis"))
        LEAVE_OUT("built without Redis");
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client)
    client = opened("redis://me:hush@127.0.0.1:1/7?client.lazy=true", NULL);
    DLOCK_AUTO(dlock_info) info = NULL;
    CHECK_OK(dlock_client_settings(client, &info, &err), err);
    CHECK_STR(dlock_info_get(info, "auth.password"), "***");
    CHECK_STR(dlock_info_get(info, "auth.sentinel_password"), "");
    CHECK_STR(dlock_info_get(info, "auth.username"), "me");
    CHECK_STR(dlock_info_get(info, "redis.db"), "7");
    CHECK(strstr(dlock_info_json(info), "hush") == NULL);
}
