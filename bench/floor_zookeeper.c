/* The floor under the ZooKeeper pairs: what a lock nobody else wants takes, by libzookeeper's own
 * synchronous calls, one after the other: create an ephemeral sequential node, list, delete. All
 * threads share one session. No data, no names of one's own, no answer may be lost, no lease is
 * watched.
 *
 * The library is taken as it comes (as-is), or told not to resolve its servers' names before each
 * request and each answer (tuned). */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADED
#include <zookeeper/zookeeper.h>

enum { SESSION_MS = 30000, RESOLVE_TO_CONNECT = -1 };

typedef struct scene {
    zhandle_t *session;
    _Atomic bool connected;
    bench_spot *page;
} scene;

static void on_event(zhandle_t *session, int type, int state, const char *path,
                     void *context)
{
    scene *at = context;
    (void)session;
    (void)path;
    if (type == ZOO_SESSION_EVENT && state == ZOO_CONNECTED_STATE)
        atomic_store(&at->connected, true);
}

static void connect_to(scene *at, const char *hosts, bool tuned)
{
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    at->session = zookeeper_init(hosts, on_event, SESSION_MS, NULL, at, 0);
    if (!at->session)
        bench_die(hosts, "no session");
    if (tuned)
        (void)zoo_set_servers_resolution_delay(at->session, RESOLVE_TO_CONNECT);
    for (int i = 0; i < 10000 && !atomic_load(&at->connected); i++)
        bench_sleep(0.001);
    if (!atomic_load(&at->connected))
        bench_die(hosts, "no server answers");
}

static void check(const char *what, int code)
{
    if (code != ZOK)
        bench_die(what, zerror(code));
}

static void make(scene *at, const char *path)
{
    int code = zoo_create(at->session, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
    if (code != ZNODEEXISTS)
        check(path, code);
}

/* Returns the name of ours. */
static void take(zhandle_t *session, const char *lock, const char *prefix, char *ret,
                 int room)
{
    struct String_vector line;
    check("create", zoo_create(session, prefix, "", 0, &ZOO_OPEN_ACL_UNSAFE,
                               ZOO_EPHEMERAL_SEQUENTIAL, ret, room));
    check("list", zoo_get_children(session, lock, 0, &line));
    if (line.count != 1)
        bench_die(lock, "somebody else has it");
    (void)deallocate_String_vector(&line);
}

static void pairs(bench_stage *stage, bench_worker *me, void *shared)
{
    scene *at = shared;
    char lock[32], prefix[48], node[96];
    (void)snprintf(lock, sizeof(lock), "/floor/%d", me->number);
    (void)snprintf(prefix, sizeof(prefix), "%s/lock-", lock);
    make(at, "/floor");
    make(at, lock);
    bench_spot *spot = &at->page[me->number];
    int64_t who = stage->options->base + me->number + 1;
    bench_ready(stage);
    BENCH_LOOP(stage, me, {
        take(at->session, lock, prefix, node, sizeof(node));
        (void)bench_enter(spot, who);
        bench_exit(spot);
        check("delete", zoo_delete(at->session, node, -1));
    });
}

int main(int argc, char **argv)
{
    bench_options options = bench_parse(argc, argv, "as-is | tuned", 1);
    scene at = {.page = bench_page(&options)};
    if (!options.uri)
        bench_die("--uri", "is missing: HOST:PORT");
    connect_to(&at, options.uri, strcmp(options.rest[0], "tuned") == 0);
    bench_result result;
    bench_run_threads(&options, pairs, &at, &result);
    bench_print(&result);
    (void)puts("}");
    return zookeeper_close(at.session) == ZOK ? 0 : 1;
}
