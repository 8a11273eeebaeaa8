/* See the header. */
#include "party.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *name_of(char name[128], const char *test)
{
    (void)snprintf(name, 128, "%s/cond", test); /* fits */
    return name;
}

dlock_cond *condition_of(dlock_client *client, const char *test, const char *settings)
{
    char name[128];
    dlock_cond *cond = NULL;
    dlock_error *err = NULL;
    DLOCK_AUTO(dlock_conf) conf = api_conf(settings);
    (void)harness_err(__FILE__, __LINE__, "dlock_cond_new",
                      dlock_cond_new(client, name_of(name, test), conf, &cond, &err),
                      DLOCK_OK, err);
    dlock_error_free(err);
    return cond;
}

dlock_lock *namesake_of(dlock_client *client, const char *test)
{
    char name[128];
    return world_lock(client, name_of(name, test), NULL);
}

/* On Redis a signal is waited for so long that one who is busy for a moment doesn't lose it to the next. */
static dlock_client *patient_client(const char *settings)
{
    char text[256];
    const char *backend = getenv("DLK_TEST_BACKEND");
    if (!backend || strncmp(backend, "redis", 5) != 0)
        return world_client(settings);
    (void)snprintf(text, sizeof(text), "redis.claim_ms=5000 %s",
                   settings ? settings : "");
    return world_client(text);
}

void come(party *one, const char *test, const char *settings)
{
    one->client = patient_client(settings);
    one->lock = world_lock(one->client, test, NULL);
    one->cond = condition_of(one->client, test, NULL);
}

/* Ends in the line: on a service that answers at once. */
void line_up(party *one, int64_t wait_ms)
{
    one->hold = world_take(one->lock);
    one->op = dlock_cond_wait_start(one->cond, one->hold, wait_ms);
    (void)harness_check(__FILE__, __LINE__,
                        AWAITED(dlock_hold_state(one->hold) == DLOCK_RELEASED),
                        "the lock is given back");
}

void go(party *one)
{
    dlock_op_free(one->op);
    dlock_hold_free(one->hold);
    dlock_cond_free(one->cond);
    dlock_lock_free(one->lock);
    dlock_client_free(one->client);
    *one = (party){.client = NULL};
}

int64_t signal_by(party *one, int64_t count)
{
    return api_signal(one->cond, count);
}

bool ends_held(party *one, dlock_err code)
{
    if (dlock_op_wait(one->op, patience_ms()) != DLOCK_OK ||
        dlock_op_result(one->op) != code)
        return false;
    DLOCK_AUTO(dlock_hold) again = dlock_op_take_hold(one->op);
    return again && dlock_hold_check(again) == DLOCK_OK &&
           dlock_hold_token(again) > dlock_hold_token(one->hold) &&
           dlock_hold_release(again, NULL) == DLOCK_OK;
}

bool waits(const party *one)
{
    return dlock_op_result(one->op) == DLOCK_EPENDING;
}

void close_waiter(party *one)
{
    CHECK_EQ_INT(dlock_client_close(one->client, NULL), DLOCK_OK);
    ENDS(one->op, DLOCK_ECLOSED);
}
