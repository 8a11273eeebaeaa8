/* What dlock_client_metrics tells: the numbers of each client, at one moment each. Whether it is OpenMetrics
 * is judged by Prometheus' own parser, in tests/python/test_metrics.py. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The text; yours. NULL after a failed check. */
static char *page_of(const dlock_client *client_or_all)
{
    char *text = NULL;
    bool told = dlock_client_metrics(client_or_all, &text, NULL) == DLOCK_OK;
    (void)harness_check(__FILE__, __LINE__, told, "there is a page");
    return text;
}

/* The value of the first sample that begins with @p name and has @p label somewhere; -1: none. */
static double value_in(const char *page, const char *name, const char *label)
{
    size_t size = strlen(name);
    for (const char *line = page; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *end = strchr(line, '\n'), *found = strstr(line, label);
        if (!end)
            break;
        if (strncmp(line, name, size) == 0 && line[size] == '{' && found && found < end)
            return strtod(strstr(line, "} ") + 2, NULL);
    }
    return -1;
}

static int times_in(const char *page, const char *line)
{
    int times = 0;
    while ((page = strstr(page, line))) {
        times++;
        page++;
    }
    return times;
}

static double value_of(const dlock_client *client, const char *name, const char *label)
{
    char *page = page_of(client);
    double value = value_in(page, name, label);
    dlock_text_free(page);
    return value;
}

TEST(a_client_tells_what_it_has_done_and_is_doing)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    CLIENT_WITH_LOCK(other, theirs, __func__, NULL);
    DLOCK_AUTO(dlock_hold) none = NULL;
    CHECK_ERR(dlock_lock_acquire(theirs, SHORT_MS, &none, &err), DLOCK_ETIMEDOUT, err);
    CHECK_EQ_INT(value_of(client, "dlock_grants_total", ""), 1);
    CHECK_EQ_INT(value_of(client, "dlock_holds", "state=\"held\""), 1);
    CHECK_EQ_INT(value_of(client, "dlock_connected", ""), 1);
    CHECK_EQ_INT(value_of(client, "dlock_wait_seconds_count", "granted"), 1);
    CHECK_EQ_INT(value_of(other, "dlock_timeouts_total", ""), 1);
    CHECK_EQ_INT(value_of(other, "dlock_wait_seconds_count", "timed_out"), 1);
    CHECK(value_of(other, "dlock_wait_seconds_sum", "timed_out") >= SHORT_MS / 1000.0);
    CHECK_EQ_INT(value_of(other, "dlock_wait_seconds_count", "granted"), 0);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(theirs, DLOCK_FOREVER);
    CHECK_EQ_INT(dlock_op_wait(op, 5), DLOCK_EPENDING);
    CHECK_EQ_INT(value_of(other, "dlock_waiting", ""), 1);
    CHECK(value_of(other, "dlock_longest_wait_seconds", "") >= 0.005);
    dlock_op_cancel(op);
    ENDS(op, DLOCK_ECANCELED);
    CHECK_EQ_INT(value_of(other, "dlock_waiting", ""), 0);
    CHECK_EQ_INT(value_of(other, "dlock_wait_seconds_count", "cancelled"), 1);
    CHECK_OK(dlock_hold_release(hold, &err), err);
    CHECK_EQ_INT(value_of(client, "dlock_holds", "state=\"held\""), 0);
    CHECK_EQ_INT(value_of(client, "dlock_hold_seconds_count", ""), 1);
}

TEST(requests_to_a_service_are_timed_by_what_they_ask)
{
    BEGIN();
    LEAVE_OUT_ON("mem", "it answers at once");
    LEAVE_OUT_ON("file", "it answers at once");
    CLIENT_WITH_HOLD(client, lock, hold, __func__, "lock.ttl_ms=300");
    CHECK_EQ_INT(value_of(client, "dlock_request_seconds_count", "acquire"), 1);
    CHECK(value_of(client, "dlock_request_seconds_sum", "acquire") > 0);
    AWAIT(value_of(client, "dlock_request_seconds_count", "renewal") >= 1);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    CHECK_EQ_INT(value_of(client, "dlock_request_seconds_count", "release"), 1);
}

TEST(losses_are_told_apart_by_their_cause)
{
    BEGIN();
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    CHECK_EQ_INT(world_evict(__func__), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_verify(hold, NULL), DLOCK_ELOST);
    CHECK_EQ_INT(value_of(client, "dlock_losses_total", "denied"), 1);
    CHECK_EQ_INT(value_of(client, "dlock_losses_total", "expired"), 0);
    CLIENT_WITH_LOCK(brief, short_lock, "losses/expired",
                     "lock.ttl_ms=200 lock.renew=off");
    DLOCK_AUTO(dlock_hold) expires = world_take(short_lock);
    AWAIT(dlock_hold_check(expires) == DLOCK_ELOST);
    AWAIT(value_of(brief, "dlock_losses_total", "expired") == 1);
    CHECK_EQ_INT(value_of(brief, "dlock_losses_total", "denied"), 0);
    CHECK_EQ_INT(api_stat(brief, "losses"), 1);
}

TEST(clients_of_one_name_are_told_apart_on_one_page)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) one = world_client("client.name=the\"na\\me");
    DLOCK_AUTO(dlock_client) two = world_client("client.name=the\"na\\me");
    DLOCK_AUTO(dlock_hold) hold = NULL;
    CHECK_EQ_INT(dlock_acquire(two, __func__, patience_ms(), &hold, NULL), DLOCK_OK);
    char *page = page_of(NULL);
    CHECK(page != NULL);
    CHECK_EQ_INT(value_in(page, "dlock_grants_total", "client=\"the\\\"na\\\\me\""), 0);
    CHECK_EQ_INT(value_in(page, "dlock_grants_total", "client=\"the\\\"na\\\\me#2\""), 1);
    CHECK_EQ_INT(times_in(page, "# TYPE dlock_grants counter\n"), 1);
    CHECK(strcmp(page + strlen(page) - 6, "# EOF\n") == 0);
    dlock_text_free(page);
    dlock_client_free(one); /* whoever is left keeps its name */
    one = NULL;
    CHECK_EQ_INT(value_of(two, "dlock_grants_total", "#2\""), 1);
    CHECK_EQ_INT(value_of(NULL, "dlock_grants_total", "the\\\"na\\\\me\""), -1);
}

TEST(a_number_that_nobody_has_any_more_is_given_again)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) one = world_client("client.name=again");
    DLOCK_AUTO(dlock_client) two = world_client("client.name=again");
    DLOCK_AUTO(dlock_client) three = world_client("client.name=again");
    dlock_client_free(two);
    two = NULL;
    CHECK_EQ_INT(value_of(NULL, "dlock_connected", "again#2\""), -1);
    for (int i = 2; i <= 4; i += 2) { /* 2 is free, then all up to 3 are taken */
        char label[32];
        DLOCK_AUTO(dlock_client) more = world_client("client.name=again");
        DLOCK_AUTO(dlock_client) last = i == 4 ? world_client("client.name=again") : NULL;
        (void)snprintf(label, sizeof label, "client=\"again#%d\"", i);
        CHECK_EQ_INT(value_of(i == 4 ? last : more, "dlock_connected", label), 1);
    }
}

TEST(a_name_that_looks_like_anothers_number_is_told_apart)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) looks = world_client("client.name=like#2");
    DLOCK_AUTO(dlock_client) one = world_client("client.name=like");
    DLOCK_AUTO(dlock_client) two = world_client("client.name=like");
    CHECK_EQ_INT(value_of(looks, "dlock_connected", "client=\"like#2#1\""), 1);
    CHECK_EQ_INT(value_of(one, "dlock_connected", "client=\"like\""), 1);
    CHECK_EQ_INT(value_of(two, "dlock_connected", "client=\"like#2\""), 1);
}

/* ---- while others are at it ---- */

static atomic_bool enough;

static void *lock_and_release(void *client)
{
    while (!atomic_load(&enough)) {
        DLOCK_AUTO(dlock_hold) hold = NULL;
        if (dlock_acquire(client, "metrics/busy", patience_ms(), &hold, NULL) == DLOCK_OK)
            (void)dlock_hold_release(hold, NULL);
    }
    return NULL;
}

static void *open_and_free(void *unused)
{
    while (!atomic_load(&enough))
        dlock_client_free(world_client("client.lazy=true"));
    return unused;
}

TEST(what_is_read_amid_the_work_is_of_one_moment)
{
    BEGIN();
    pthread_t threads[3];
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    atomic_store(&enough, false);
    CHECK_EQ_INT(pthread_create(&threads[0], NULL, lock_and_release, client), 0);
    CHECK_EQ_INT(pthread_create(&threads[1], NULL, lock_and_release, client), 0);
    CHECK_EQ_INT(pthread_create(&threads[2], NULL, open_and_free, NULL), 0);
    AWAIT(value_of(client, "dlock_grants_total", "") > 0);
    bool agree = true; /* judged when nobody uses the client any more */
    for (int i = 0; i < 200 && agree; i++) {
        char *page = page_of(client);
        double grants = value_in(page, "dlock_grants_total", "");
        const char *const same[][2] = {
            {"dlock_wait_seconds_count", "granted"},
            {"dlock_wait_seconds_bucket", "granted\",le=\"+Inf\""},
            {"dlock_wait_seconds_bucket", "granted\",le=\"274.877906944\""}};
        for (size_t k = 0; k < sizeof same / sizeof *same; k++) {
            double value = value_in(page, same[k][0], same[k][1]);
            agree = agree && value == grants;
            if (value != grants)
                (void)printf("# %s: %f, not %f\n", same[k][0], value, grants);
        }
        dlock_text_free(page);
        dlock_text_free(page_of(NULL));
    }
    atomic_store(&enough, true);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    CHECK(agree);
}

/* ---- the ends of it ---- */

static void child_has_none(void *client)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    char *text = NULL;
    CHECK_ERR(dlock_client_metrics(client, &text, &err), DLOCK_EFORKED, err);
    CHECK(text == NULL);
    CHECK_EQ_INT(value_of(NULL, "dlock_connected", ""), -1);
}

TEST(a_child_tells_nothing_of_its_parents_clients)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    CHECK_EQ_INT(world_child(child_has_none, client), 0);
    CHECK_EQ_INT(value_of(client, "dlock_connected", ""), 1);
}

TEST(a_closed_client_is_counted_until_it_is_freed)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client("client.name=closed");
    CHECK_EQ_INT(dlock_client_close(client, NULL), DLOCK_OK);
    CHECK_EQ_INT(value_of(client, "dlock_connected", ""), 0);
    CHECK_EQ_INT(value_of(NULL, "dlock_connected", "client=\"closed"), 0);
    dlock_client_free(client);
    client = NULL;
    CHECK_EQ_INT(value_of(NULL, "dlock_connected", "client=\"closed"), -1);
    dlock_text_free(NULL);
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK_ERR(dlock_client_metrics(NULL, NULL, &err), DLOCK_EINVAL, err);
}
