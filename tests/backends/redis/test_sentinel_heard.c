/* Sentinels are listened to by whoever else drives for the master's answers alone, and when nobody does. */
#include "harness/api.h"
#include "harness/harness.h"
#include "harness/redis_topology.h"

#include <dlock/dlock.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

#define TIMEOUT_MS 2500
/* They are asked every 10 s; by then an answer that nobody reads has cost its connection. */
#define WATCHED_S 14

/* The connections on which they would tell of a switch, by their numbers. */
static void list_listeners(redis_server *sentinel, char *text, size_t size)
{
    const char *at = redis_server_call(sentinel, "CLIENT LIST");
    text[0] = '\0';
    while (at && *at) {
        size_t line = strcspn(at, "\n"), used = strlen(text);
        char one[512];
        snprintf(one, sizeof(one), "%.*s", (int)line, at);
        if (strstr(one, " sub=1 "))
            snprintf(text + used, size - used, "%.*s ", (int)strcspn(one, " "), one);
        at += line + (at[line] == '\n');
    }
}

static dlock_client *open_at(const char *uri)
{
    return api_open("%s?client.timeout_ms=%d&client.connect_ms=30000", uri, TIMEOUT_MS);
}

TEST(sentinels_are_heard_beside_a_lone_caller_and_beside_none)
{
    static redis_trio trio;
    char before[256] = "", after[256] = "";
    if (!redis_server_available() || !redis_trio_start(&trio, NULL)) {
        redis_trio_stop(&trio);
        return;
    }
    DLOCK_AUTO(dlock_client) busy = open_at(trio.uri);
    DLOCK_AUTO(dlock_client) idle = open_at(trio.uri);
    int calls = 0;
    for (time_t end = time(NULL) + WATCHED_S; busy && idle && time(NULL) < end; calls++) {
        DLOCK_AUTO(dlock_hold) hold = NULL;
        if (dlock_acquire(busy, "lone", 0, &hold, NULL) == DLOCK_OK)
            (void)dlock_hold_release(hold, NULL);
        if (!before[0] || strchr(before, ' ') == strrchr(before, ' ')) /* not both yet */
            list_listeners(&trio.sentinel[0], before, sizeof(before));
        nap_ms(20);
    }
    list_listeners(&trio.sentinel[0], after, sizeof(after));
    harness_note("%d calls; listening %s", calls, after);
    CHECK(strchr(before, ' ') != strrchr(before, ' '));
    CHECK_STR(after, before);
    dlock_client_free(busy);
    dlock_client_free(idle);
    busy = idle = NULL;
    redis_trio_stop(&trio);
}
