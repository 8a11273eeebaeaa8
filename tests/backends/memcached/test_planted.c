/* The checks that a renewal leaves a stranger's lease alone and a release a stranger's lock, made to
 * fail: with renewals by touch and plain deletes they have to. */
#include "harness/harness.h"
#include "harness/memcached_server.h"
#include "util/point.h"

#include <dlock/dlock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum dlk_bug dlk_plant;

static memcached_server server;
static dlock_client *client;

static bool set_up(void)
{
    char uri[64];
    DLOCK_AUTO(dlock_error) err = NULL;
    if (!memcached_server_available() || !memcached_server_start(&server, NULL))
        return false;
    snprintf(uri, sizeof(uri), "memcached://127.0.0.1:%d", server.port);
    dlock_err code = dlock_client_open(uri, NULL, &client, &err);
    return harness_err(__FILE__, __LINE__, "dlock_client_open", code, DLOCK_OK, err);
}

static void tear_down(void)
{
    dlock_client_free(client);
    memcached_server_stop(&server);
}

/* A hold whose item is a stranger's by now, as if its lease had ended. */
static dlock_hold *overtaken(void)
{
    dlock_hold *hold = NULL;
    (void)memcached_server_say(&server, "flush_all");
    if (dlock_acquire(client, "L", 0, &hold, NULL) != DLOCK_OK)
        return NULL;
    (void)memcached_server_say(&server, "delete L");
    (void)memcached_server_say(&server, "add L 0 50 6\r\ntheirs");
    return hold;
}

static bool a_strangers_lease_is_left_alone(void)
{
    DLOCK_AUTO(dlock_hold) hold = overtaken();
    bool lost = hold && dlock_hold_extend(hold, 600000, NULL) == DLOCK_ELOST;
    const char *left = strstr(memcached_server_say(&server, "mg L t"), " t");
    return lost && left && atoi(left + 2) <= 50;
}

static bool a_strangers_lock_is_left_alone(void)
{
    DLOCK_AUTO(dlock_hold) hold = overtaken();
    bool lost = hold && dlock_hold_release(hold, NULL) == DLOCK_ELOST;
    return lost && strcmp(memcached_server_get(&server, "L"), "theirs") == 0;
}

TEST(a_renewal_by_touch_and_a_plain_delete_are_caught)
{
    static const struct {
        bool (*check)(void);
        enum dlk_bug bug;
    } all[] = {
        {a_strangers_lease_is_left_alone, DLK_BUG_RENEWAL_BY_TOUCH},
        {a_strangers_lock_is_left_alone, DLK_BUG_PLAIN_DELETE},
    };
    if (!set_up())
        return;
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        CHECK(all[i].check());
        dlk_plant = all[i].bug;
        CHECK(!all[i].check());
        dlk_plant = DLK_BUG_NONE;
        CHECK(all[i].check());
    }
    tear_down();
}
