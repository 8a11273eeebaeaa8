/* The common ground of the fault tests on ZooKeeper; see the header. */
#include "zookeeper_stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    bool ready;
    pid_t pid; /* who made it and tidies up */
    zookeeper_server server;
    zookeeper_wire hand;
    proxy *proxy;
    proxy_link *way;
} keeper = {.hand = {.fd = -1}};

static void tidy(void)
{
    if (getpid() != keeper.pid)
        return;
    if (harness_failed() && keeper.proxy)
        proxy_print_log(keeper.proxy, stdout, 40);
    proxy_free(keeper.proxy);
    zookeeper_server_stop(&keeper.server);
}

bool keeper_ready(void)
{
    if (keeper.way) {
        proxy_pass(keeper.way);
        proxy_forget_plans(keeper.way);
    }
    if (keeper.ready)
        return true;
    keeper.pid = getpid();
    keeper.ready = zookeeper_server_available() &&
                   zookeeper_server_borrow(&keeper.server) && atexit(tidy) == 0;
    return keeper.ready;
}

zookeeper_server *keeper_server(void)
{
    return &keeper.server;
}

zookeeper_wire *keeper_hand(void)
{
    zookeeper_stat status;
    if (keeper.hand.fd < 0 ||
        zookeeper_wire_stat(&keeper.hand, "/", &status) != ZOOKEEPER_OK) {
        zookeeper_wire_close(&keeper.hand);
        (void)zookeeper_wire_open(&keeper.hand, keeper.server.port);
    }
    return &keeper.hand;
}

proxy_link *keeper_way(void)
{
    char target[16];
    const char *why = "no thread";
    if (!keeper.way) {
        snprintf(target, sizeof(target), "%d", keeper.server.port);
        keeper.proxy = proxy_new(1);
        if (keeper.proxy)
            keeper.way = proxy_listen(keeper.proxy, "way", 0, target, "zookeeper", &why);
        (void)harness_check(__FILE__, __LINE__, keeper.way != NULL, why);
    }
    return keeper.way;
}

static const char *uri_of(int port, int session_ms, const char *more)
{
    static char uri[256];
    /* Requests may take their time: a disk that stands still for some seconds is seen by nobody. */
    snprintf(uri, sizeof(uri),
             "zookeeper://127.0.0.1:%d?client.connect_ms=30000&client.timeout_ms=20000"
             "&lock.ttl_ms=%d%s",
             port, session_ms, more);
    return uri;
}

const char *keeper_uri(int session_ms, const char *more)
{
    return uri_of(keeper.server.port, session_ms, more);
}

const char *keeper_way_uri(int session_ms, const char *more)
{
    return uri_of(keeper.way ? proxy_port(keeper.way) : 1, session_ms, more);
}

dlock_client *keeper_client(int session_ms)
{
    return stage_open(keeper_uri(session_ms, "&client.poll_ms=60000"), NULL);
}

int keeper_count(const char *path)
{
    return zookeeper_wire_count(keeper_hand(), path);
}

bool keeper_only_child(const char *path, char *ret, size_t size)
{
    char names[4096];
    if (zookeeper_wire_children(keeper_hand(), path, names, sizeof(names)) !=
            ZOOKEEPER_OK ||
        !names[0] || strchr(names, ' ')[1] != '\0')
        return false;
    names[strlen(names) - 1] = '\0';
    snprintf(ret, size, "%s/%s", path, names);
    return true;
}

int64_t keeper_owner(const char *path)
{
    zookeeper_stat status;
    return zookeeper_wire_stat(keeper_hand(), path, &status) == ZOOKEEPER_OK
               ? status.owner
               : 0;
}
