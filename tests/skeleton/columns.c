/* The skeleton's column of the conformance grid, with all that the grid has to know of a backend: its
 * service for tests, what can be done to that, and what it doesn't promise. */
#include "server.h"

#include "conformance/grid.h"
#include "harness/server.h"

#include <stdio.h>
#include <string.h>

const column columns[] = {{"skeleton", "mutex", "map", "C"}};
const size_t column_count = 1;

/* ---- the service ---- */

static bool make(char *uri, size_t size)
{
    if (!skeleton_server_start())
        return false;
    snprintf(uri, size, "skeleton://127.0.0.1:%d", skeleton_server_port());
    return true;
}

static bool evict(const char *name)
{
    return strcmp(skeleton_server_call("forget", name), "YES") == 0;
}

static const world_service own = {
    .backend = "skeleton", .make = make, .end = skeleton_server_stop, .evict = evict};
const world_service *const world_own = &own;

static void freeze(void)
{
    server_freeze(skeleton_server_pid());
}

static void thaw(void)
{
    server_thaw(skeleton_server_pid());
}

static bool forget(void)
{
    return evict("*");
}

static const char *leftovers(void)
{
    const char *keys = skeleton_server_call("keys", "*");
    return keys + strcspn(keys, " "); /* behind the word KEYS */
}

static const service here = {
    .backend = "skeleton",
    .layout = "map",
    .class = "efficiency",
    .lacks = {[CAN_QUEUE] = "who asks first after a release gets it",
              [CAN_CLOCK] = "a lease ends by the server's monotonic clock",
              [CAN_MESSAGES] = "no messages: waiters look again every client.retry_ms",
              [CAN_RIGHTS] = "no users, passwords or rights",
              [CAN_EVICT] = "nothing is thrown away",
              [CAN_COUNTER] = "nobody sets its counter of tokens"},
    .take = "acquire",
    .give = "release",
    .keep = "renew",
    .grant = "acquire",
    .framing = "line",
    .port = skeleton_server_port,
    .freeze = freeze,
    .thaw = thaw,
    .kill = skeleton_server_stop,
    .restart = skeleton_server_start,
    .forget = forget,
    .leftovers = leftovers,
};
const service *const service_own = &here;

static const char no_inspect[] = "inspect is a part of backend.h that it leaves out";
static const char no_break[] = "break is a part of backend.h that it leaves out";
static const char no_names[] = "its hosts are addresses, and its names single words";
static const char no_limits[] = "its server has no limit of connections to set";
static const char in_the_program[] = "it is in the test program and in no library";

const exception exceptions[] = {
    {NULL, NULL, NULL, "P13 P29 P31 A1 T3 T10 N4 N6 N9", no_inspect},
    {NULL, NULL, NULL, "P30", no_break},
    {NULL, NULL, NULL, "N7 C11", no_names},
    {NULL, NULL, NULL, "N23", no_limits},
    {NULL, NULL, NULL, "C13", in_the_program},
};
const size_t exception_count = sizeof(exceptions) / sizeof(*exceptions);
