/* What can't be: refused at once, with a text that says what was wrong and helps; never a crash. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TEST(names_that_no_lock_can_have_are_refused)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    static const size_t sizes[] = {0, 1025, 65536, 1 << 20};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        DLOCK_AUTO(dlock_error) err = NULL;
        DLOCK_AUTO(dlock_lock) lock = NULL;
        DLOCK_AUTO(dlock_hold) hold = NULL;
        char *name = malloc(sizes[i] + 1);
        CHECK(name != NULL);
        memset(name, 'x', sizes[i]);
        name[sizes[i]] = '\0';
        dlock_err made = dlock_lock_new(client, DLOCK_MUTEX, name, NULL, &lock, &err);
        dlock_err taken = dlock_acquire(client, name, 0, &hold, NULL);
        free(name);
        CHECK_EQ_INT(made, DLOCK_EINVAL);
        CHECK_EQ_INT(taken, DLOCK_EINVAL);
        CHECK_CONTAINS(dlock_error_text(err), "name");
        CHECK(strlen(dlock_error_text(err)) < 1000);
        CHECK(!lock && !hold);
    }
}

TEST(prefix_and_name_together_have_at_most_1024_bytes)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = world_client("client.prefix=0123456789");
    DLOCK_AUTO(dlock_lock) lock = NULL;
    char name[1016];
    memset(name, 'x', 1015);
    name[1015] = '\0';
    CHECK_ERR(dlock_lock_new(client, DLOCK_MUTEX, name, NULL, &lock, &err), DLOCK_EINVAL,
              err);
    CHECK_CONTAINS(dlock_error_text(err), "client.prefix");
    CHECK_OK(dlock_lock_new(client, DLOCK_MUTEX, name + 1, NULL, &lock, &err), err);
}

TEST(a_name_that_is_no_utf8_works_and_breaks_no_text)
{
    BEGIN();
    static const char name[] = "\xff\xc3\x28\x80 \x01\n\"\\";
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(client, lock, hold, name, "lock.owner=none");
    DLOCK_AUTO(dlock_hold) none = NULL;
    DLOCK_AUTO(dlock_info) list = NULL;
    CHECK_STR(dlock_hold_name(hold), name);
    CHECK_ERR(dlock_lock_acquire(lock, 0, &none, &err), DLOCK_EBUSY, err);
    CHECK(strchr(dlock_error_text(err), '\n') == NULL); /* one line, whatever the name */
    CHECK_OK(dlock_client_list(client, "\xff", 10, &list, &err), err);
    CHECK_STR(dlock_info_get(list, "locks.0.name"), name);
    CHECK_CONTAINS(dlock_info_json(list), "\\u0001");
    CHECK(strchr(dlock_info_json(list), '\xff') == NULL);
}

/* ---- URIs ---- */

TEST(a_uri_that_leads_nowhere_is_refused_with_what_was_meant)
{
    static const struct {
        const char *uri, *part;
        dlock_err code;
    } cases[] = {
        {"", "empty", DLOCK_EINVAL},
        {"nothing", "scheme", DLOCK_EINVAL},
        {"://", "scheme", DLOCK_EINVAL},
        {"nosuch://localhost", "mem", DLOCK_ENOTSUP},
        {"redi://localhost", "redis", DLOCK_ENOTSUP},
        {"redis://localhost:0", "port", DLOCK_EINVAL},
        {"redis://localhost:99999", "port", DLOCK_EINVAL},
        {"redis://localhost:x", "port", DLOCK_EINVAL},
        {"redis://localhost:-1", "port", DLOCK_EINVAL},
        {"redis://[::1", "]", DLOCK_EINVAL},
        {"mem:x?lock.tl_ms=500", "lock.ttl_ms", DLOCK_EINVAL},
        {"mem:x?ttl=500", "ttl", DLOCK_EINVAL},
        {"mem:x?lock.ttl_ms=0", "lock.ttl_ms", DLOCK_EINVAL},
        {"mem:x?lock.ttl_ms=-1", "lock.ttl_ms", DLOCK_EINVAL},
        {"mem:x?lock.ttl_ms=9223372036854775807", "lock.ttl_ms", DLOCK_EINVAL},
        {"mem:x?lock.ttl_ms=99999999999999999999999", "lock.ttl_ms", DLOCK_EINVAL},
        {"mem:x?lock.ttl_ms=1e9", "lock.ttl_ms", DLOCK_EINVAL},
        {"mem:x?lock.ttl_ms=", "lock.ttl_ms", DLOCK_EINVAL},
        {"mem:x?lock.renew=sometimes", "auto", DLOCK_EINVAL},
        {"mem:x?lock.reentrant=maybe", "lock.reentrant", DLOCK_EINVAL},
        {"mem:x?%zz=1", "%", DLOCK_EINVAL},
        {"mem://host", "host", DLOCK_EINVAL},
#ifdef DLK_PORTABLE
        {"file:///tmp/x", "file: it needs mutexes that outlive their owner",
         DLOCK_ENOTSUP},
#else
        {"file:", "file:///", DLOCK_EINVAL},
        {"file://otherhost/x", "host", DLOCK_EINVAL},
        {"file:///", "file:///", DLOCK_EINVAL},
        {"file:///no/such/folder/at/all", "/no/such/folder", DLOCK_EUNAVAIL},
#endif
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        DLOCK_AUTO(dlock_error) err = NULL;
        DLOCK_AUTO(dlock_client) client = NULL;
        dlock_err code = dlock_client_open(cases[i].uri, NULL, &client, &err);
        if (!harness_err(__FILE__, __LINE__, cases[i].uri, code, cases[i].code, err))
            continue; /* all of the table is of interest */
        CHECK_EQ_INT(dlock_error_code(err), code);
        (void)harness_contains(__FILE__, __LINE__, cases[i].uri, dlock_error_text(err),
                               cases[i].part);
        CHECK(client == NULL);
    }
}

TEST(a_long_or_strange_uri_is_survived)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = NULL;
    static char uri[70000];
    memset(uri, 'a', sizeof(uri) - 1);
    CHECK_EQ_INT(dlock_client_open(uri, NULL, &client, &err), DLOCK_EINVAL);
    memcpy(uri, "mem:x?", 6);
    CHECK_EQ_INT(dlock_client_open(uri, NULL, &client, &err), DLOCK_EINVAL);
    memcpy(uri, "file:///", 8);
    CHECK(dlock_client_open(uri, NULL, &client, &err) != DLOCK_OK);
    CHECK(strlen(dlock_error_text(err)) < 4096);
    memcpy(uri, "redis://", 8);
    CHECK(dlock_client_open(uri, NULL, &client, &err) != DLOCK_OK);
    CHECK(client == NULL);
}

TEST(a_password_in_a_uri_is_in_no_text)
{
    if (!strstr(dlock_backends(), "redis"))
        LEAVE_OUT("this build has no backend with passwords");
    static const char *const uris[] = {
        "redis://user:s3cr3t@127.0.0.1:1",
        "redis://user:s3cr3t@127.0.0.1:99999",
        "redis://user:s3cr3t@127.0.0.1:1?nokey=1",
        "redis://127.0.0.1:1?auth.password=s3cr3t",
        "rediss://user:s3cr3t@[bad",
        "redis://user:s3cr3t@127.0.0.1:1/x",
    };
    DLOCK_AUTO(dlock_conf) conf = api_conf("client.connect_ms=50");
    for (size_t i = 0; i < sizeof(uris) / sizeof(*uris); i++) {
        DLOCK_AUTO(dlock_error) err = NULL;
        DLOCK_AUTO(dlock_client) client = NULL;
        CHECK(dlock_client_open(uris[i], conf, &client, &err) != DLOCK_OK);
        CHECK(err && !strstr(dlock_error_text(err), "s3cr3t"));
        CHECK(!strstr(dlock_error_backend(err), "s3cr3t"));
    }
    DLOCK_AUTO(dlock_conf) lazy = api_conf("client.lazy=true");
    DLOCK_AUTO(dlock_client) client = NULL;
    CHECK_EQ_INT(dlock_client_open(uris[0], lazy, &client, NULL), DLOCK_OK);
    CHECK(!strstr(dlock_client_uri(client), "s3cr3t"));
    CHECK_CONTAINS(dlock_client_uri(client), "127.0.0.1");
}

/* ---- settings ---- */

TEST(settings_out_of_range_or_misspelt_are_refused_with_the_range_or_the_likely_key)
{
    static const struct {
        const char *key, *value, *part;
    } cases[] = {
        {"lock.ttl", "500", "lock.ttl_ms"},
        {"lock.tll_ms", "500", "lock.ttl_ms"},
        {"client.timeout", "500", "client.timeout_ms"},
        {"locks.ttl_ms", "500", "lock.ttl_ms"},
        {"", "500", "key"},
        {"lock.ttl_ms", "0", "100"},
        {"lock.ttl_ms", "-1", "100"},
        {"lock.ttl_ms", "99", "100"},
        {"lock.ttl_ms", "2592000001", "2592000000"},
        {"lock.ttl_ms", "9223372036854775807", "2592000000"},
        {"lock.ttl_ms", "30s", "lock.ttl_ms"},
        {"lock.ttl_ms", " 500", "lock.ttl_ms"},
        {"lock.owner", "process", "thread"},
        {"lock.release", "later", "async"},
        {"client.require", "best", "correctness"},
        {"client.close_ms", "60001", "60000"},
        {"client.events", "15", "16"},
        {"client.log_level", "loud", "debug"},
        {"client.debug", "lock,loud", "cluster, all"},
        {"file.mode", "0777", "0600"},
        {"file.slots", "1", "16"},
    };
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        DLOCK_AUTO(dlock_error) err = NULL;
        dlock_err code = dlock_conf_set(conf, cases[i].key, cases[i].value, &err);
        if (!harness_err(__FILE__, __LINE__, cases[i].key, code, DLOCK_EINVAL, err))
            continue;
        (void)harness_contains(__FILE__, __LINE__, cases[i].key, dlock_error_text(err),
                               cases[i].part);
    }
}

TEST(numbers_are_checked_as_texts_are)
{
    static const int64_t bad[] = {0, -1, 99, INT64_C(2592000001), INT64_MAX, INT64_MIN};
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        CHECK_EQ_INT(dlock_conf_set_int(conf, "lock.ttl_ms", bad[i], NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_conf_set_int(conf, "lock.ttl_ms", 100, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_conf_set_int(conf, "lock.ttl_ms", INT64_C(2592000000), NULL),
                 DLOCK_OK);
    CHECK_EQ_INT(dlock_conf_set_int(conf, "lock.reentrant", 1, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_conf_set_int(conf, "lock.reentrant", 2, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_conf_set_int(conf, "client.prefix", 1, NULL), DLOCK_EINVAL);
}

TEST(a_lock_takes_no_settings_of_the_client_and_no_limit_below_its_lease)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_lock) lock = NULL;
    DLOCK_AUTO(dlock_conf) of_client = api_conf("client.timeout_ms=500");
    DLOCK_AUTO(dlock_conf)
    too_short = api_conf("lock.ttl_ms=5000 lock.max_hold_ms=1000");
    CHECK_ERR(dlock_lock_new(client, DLOCK_MUTEX, "x", of_client, &lock, &err),
              DLOCK_EINVAL, err);
    CHECK_CONTAINS(dlock_error_text(err), "client.timeout_ms");
    CHECK_ERR(dlock_lock_new(client, DLOCK_MUTEX, "x", too_short, &lock, &err),
              DLOCK_EINVAL, err);
    CHECK_CONTAINS(dlock_error_text(err), "max_hold");
    CHECK_ERR(dlock_lock_new(client, (dlock_kind)0, "x", NULL, &lock, &err), DLOCK_EINVAL,
              err);
    CHECK_ERR(dlock_lock_new(client, (dlock_kind)99, "x", NULL, &lock, &err),
              DLOCK_EINVAL, err);
    CHECK(lock == NULL);
}

/* ---- arguments ---- */

TEST(waits_below_minus_one_are_refused_by_every_call_that_waits)
{
    BEGIN();
    static const int64_t bad[] = {-2, -1000, INT64_MIN};
    CLIENT_WITH_LOCK(client, lock, __func__, NULL);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        DLOCK_AUTO(dlock_error) err = NULL;
        CHECK_ERR(dlock_lock_acquire(lock, bad[i], &hold, &err), DLOCK_EINVAL, err);
        CHECK_CONTAINS(dlock_error_text(err), "wait");
        CHECK_ERR(dlock_acquire(client, "x", bad[i], &hold, &err), DLOCK_EINVAL, err);
        CHECK_CONTAINS(dlock_error_text(err), "wait");
        CHECK_ERR(dlock_lock_wait_idle(lock, bad[i], &err), DLOCK_EINVAL, err);
        CHECK_CONTAINS(dlock_error_text(err), "wait");
        DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, bad[i]);
        CHECK_EQ_INT(dlock_op_result(op), DLOCK_EINVAL);
        CHECK_CONTAINS(dlock_error_text(dlock_op_error(op)), "wait");
    }
    CHECK(hold == NULL);
    CHECK_EQ_INT(world_try(__func__), DLOCK_OK);
}

TEST(null_for_what_is_needed_is_einval_and_null_for_what_is_not_is_fine)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_LOCK(client, lock, __func__, NULL);
    dlock_lock *none = NULL;
    dlock_hold *hold = NULL;
    dlock_info *info = NULL;
    CHECK_EQ_INT(dlock_client_open(NULL, NULL, &client, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_client_open("mem:", NULL, NULL, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_client_new(NULL, NULL, &client, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_client_new("mem:", NULL, NULL, NULL), DLOCK_EINVAL);
    CHECK_ERR(dlock_client_connect(NULL, &err), DLOCK_EINVAL, err);
    CHECK_ERR(dlock_client_close(NULL, &err), DLOCK_EINVAL, err);
    CHECK_EQ_INT(dlock_client_stats(NULL, &info, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_client_stats(client, NULL, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_client_features(NULL, &info, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_client_features(client, NULL, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_client_settings(NULL, &info, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_client_settings(client, NULL, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_lock_settings(NULL, &info, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_client_list(NULL, "", 1, &info, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_client_list(client, "", 1, NULL, NULL), DLOCK_EINVAL);
    CHECK_ERR(dlock_client_list(client, "", 0, &info, &err), DLOCK_EINVAL, err);
    CHECK_ERR(dlock_client_list(client, "", -1, &info, &err), DLOCK_EINVAL, err);
    CHECK_EQ_INT(dlock_client_doctor(NULL, &info, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_client_doctor(client, NULL, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_client_import(client, NULL, &hold, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_client_import(NULL, "t", &hold, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_lock_new(NULL, DLOCK_MUTEX, "x", NULL, &none, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_lock_new(client, DLOCK_MUTEX, NULL, NULL, &none, NULL),
                 DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_lock_new(client, DLOCK_MUTEX, "x", NULL, NULL, NULL),
                 DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_multi_new(NULL, 1, NULL, &none, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_multi_new(&lock, 0, NULL, &none, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_acquire(NULL, "x", 0, &hold, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_acquire(client, NULL, 0, &hold, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_acquire(client, "x", 0, NULL, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_lock_acquire(NULL, 0, &hold, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_lock_acquire(lock, 0, NULL, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_lock_wait_idle(NULL, 0, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_lock_inspect(NULL, &info, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_lock_inspect(lock, NULL, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_lock_break(NULL, NULL, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_lock_revoke(NULL, NULL), DLOCK_EINVAL);
    CHECK(dlock_client_uri(NULL) != NULL);
    CHECK(!none && !hold && !info);
    dlock_lock_free(NULL);
    dlock_client_free(NULL);
    dlock_info_free(NULL);
    dlock_conf_free(NULL);
    CHECK_EQ_INT(world_try(__func__), DLOCK_OK); /* none of it took the lock */
}

TEST(an_info_that_is_not_there_is_empty)
{
    CHECK_EQ_INT(dlock_info_count(NULL), 0);
    CHECK(!dlock_info_key(NULL, 0) && !dlock_info_text(NULL, 0) &&
          !dlock_info_get(NULL, "x"));
    CHECK_EQ_INT(dlock_info_int(NULL, 0), 0);
    CHECK(dlock_info_json(NULL) == NULL || dlock_info_json(NULL)[0]);
}
