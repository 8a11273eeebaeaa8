/* dlock_conf as a caller sees it: set, dump, and no secret in what is shown. */
#include "harness/harness.h"

#include <stdio.h>
#include <string.h>

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
    CHECK_EQ_INT(keys, 71);
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
