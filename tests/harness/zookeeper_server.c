/* Starting and ending ZooKeeper for tests; see the header. */
#include "harness/zookeeper_server.h"
#include "harness/time.h"

#include "harness/awake.h"
#include "harness/harness.h"
#include "harness/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Debian's; the first one's manifest names the others. The second drops what they log. */
#define JAR   "/usr/share/java/zookeeper.jar"
#define QUIET "/usr/share/java/slf4j-nop.jar"

enum { START_MS = 60000, FIRST_PORTS = 5, ANSWER_S = 20, START_ANSWER_S = 2 };

bool zookeeper_server_available(void)
{
    if (access(JAR, R_OK) == 0)
        return server_is_installed("java");
    harness_skip("ZooKeeper is not installed");
    return false;
}

/* Ports that were free at the same time, so that they differ. */
static void free_ports(int *ports, int count)
{
    int fds[3 * ZOOKEEPER_MEMBERS];
    for (int i = 0; i < count; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof(address);
        ports[i] = 0;
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fds[i] >= 0 && bind(fds[i], (struct sockaddr *)&address, size) == 0 &&
            getsockname(fds[i], (struct sockaddr *)&address, &size) == 0)
            ports[i] = ntohs(address.sin_port);
    }
    for (int i = 0; i < count; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* ---- Four-letter words ---- */

static const char *say(const zookeeper_server *server, const char *word, int answer_s)
{
    static _Thread_local char text[262144];
    size_t used = 0;
    int fd = server_dial(server->port, answer_s);
    if (fd >= 0 && send(fd, word, 4, MSG_NOSIGNAL) == 4) {
        ssize_t got;
        while (used + 1 < sizeof(text) &&
               ((got = recv(fd, text + used, sizeof(text) - 1 - used, 0)) > 0 ||
                (got < 0 && errno == EINTR)))
            used += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0)
        close(fd);
    text[used] = '\0';
    return text;
}

const char *zookeeper_server_say(const zookeeper_server *server, const char *word)
{
    return say(server, word, ANSWER_S);
}

long long zookeeper_server_count(const zookeeper_server *server, const char *key)
{
    const char *at = zookeeper_server_say(server, "mntr");
    size_t size = strlen(key);
    for (; (at = strstr(at, key)); at += size)
        if (at[size] == '\t')
            return strtoll(at + size, NULL, 10);
    return -1;
}

/* ---- The process ---- */

static bool write_file(const char *dir, const char *name, const char *text,
                       const char *more)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *out = fopen(path, "we");
    if (!out)
        return false;
    fprintf(out, "%s%s", text, more);
    return fclose(out) == 0;
}

static bool write_config(const zookeeper_server *server)
{
    char text[1024];
    snprintf(text, sizeof(text),
             "dataDir=%s/data\nclientPort=%d\nclientPortAddress=127.0.0.1\ntickTime=%d\n"
             "minSessionTimeout=100\nmaxSessionTimeout=60000\nmaxClientCnxns=0\n"
             "admin.enableServer=false\n4lw.commands.whitelist=*\npreAllocSize=64\n",
             server->dir, server->port, server->is_member ? 200 : 500);
    return write_file(server->dir, "zoo.cfg", text, server->config);
}

static void become(const void *one)
{
    const zookeeper_server *server = one;
    char file[128];
    snprintf(file, sizeof(file), "%s/zoo.cfg", server->dir);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
    }
    execlp("java", "java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m",
           "-XX:-UsePerfData", "-Dzookeeper.forceSync=no",
           "-Dznode.container.checkIntervalMs=1000",
           "-Dzookeeper.extendedTypesEnabled=true", "-cp", JAR ":" QUIET,
           server->is_member ? "org.apache.zookeeper.server.quorum.QuorumPeerMain"
                             : "org.apache.zookeeper.server.ZooKeeperServerMain",
           file, (char *)NULL);
}

/* Who connects while it is starting may never be answered, so that is waited for but shortly. Does it
 * serve, and is it ours? Another one may have been faster to take the port. */
static bool is_up(void *one)
{
    const zookeeper_server *server = one;
    return strstr(say(server, "srvr", START_ANSWER_S), "Mode: ") &&
           strstr(say(server, "conf", START_ANSWER_S), server->dir);
}

static const server_kind kind = {"the ZooKeeper", become, is_up};

static bool make_dir(zookeeper_server *server)
{
    char data[80];
    strcpy(server->dir, "/tmp/dlock-zookeeper-XXXXXX");
    if (!harness_mkdtemp(server->dir))
        return harness_check(__FILE__, __LINE__, false, "a directory");
    snprintf(data, sizeof(data), "%s/data", server->dir);
    return harness_check(__FILE__, __LINE__, mkdir(data, 0700) == 0, "a directory in it");
}

bool zookeeper_server_start(zookeeper_server *server, const char *config)
{
    *server = (zookeeper_server){.pid = 0};
    snprintf(server->config, sizeof(server->config), "%s\n", config ? config : "");
    if (!make_dir(server))
        return false;
    for (int i = 0; i < FIRST_PORTS; i++) {
        free_ports(&server->port, 1);
        if (write_config(server) && server_start(&kind, &server->pid, server))
            return true;
    }
    return harness_check(__FILE__, __LINE__, false, "a ZooKeeper that serves");
}

bool zookeeper_server_borrow(zookeeper_server *server)
{
    const char *port = getenv("DLK_TEST_ZOOKEEPER");
    if (!port)
        return zookeeper_server_start(server, NULL);
    *server = (zookeeper_server){.port = (int)strtol(port, NULL, 10), .borrowed = true};
    return harness_check(__FILE__, __LINE__,
                         strstr(zookeeper_server_say(server, "srvr"), "Mode: ") != NULL,
                         "the shared ZooKeeper serves");
}

void zookeeper_server_kill(zookeeper_server *server)
{
    server_kill(&server->pid);
}

bool zookeeper_server_restart(zookeeper_server *server)
{
    return server_restart(&kind, &server->pid, server);
}

static int remove_one(const char *path, const struct stat *status, int type,
                      struct FTW *place)
{
    (void)status;
    (void)type;
    (void)place;
    return remove(path);
}

static void remove_tree(const char *path)
{
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

bool zookeeper_server_wipe(zookeeper_server *server)
{
    char path[96];
    zookeeper_server_kill(server);
    snprintf(path, sizeof(path), "%s/data/version-2", server->dir);
    remove_tree(path);
    return zookeeper_server_restart(server);
}

void zookeeper_server_stop(zookeeper_server *server)
{
    if (server->borrowed)
        return;
    zookeeper_server_kill(server);
    if (server->dir[0])
        remove_tree(server->dir);
    server->dir[0] = '\0';
}

void zookeeper_server_freeze(zookeeper_server *server)
{
    server_freeze(server->pid);
}

void zookeeper_server_thaw(zookeeper_server *server)
{
    server_thaw(server->pid);
}

/* ---- Three of them ---- */

static bool prepare_member(zookeeper_ensemble *ensemble, int number, const int *ports)
{
    zookeeper_server *one = &ensemble->members[number];
    char id[4];
    one->is_member = true;
    one->port = ports[3 * number];
    size_t used =
        (size_t)snprintf(one->config, sizeof(one->config),
                         "initLimit=25\nsyncLimit=10\nstandaloneEnabled=false\n");
    for (int i = 0; i < ZOOKEEPER_MEMBERS; i++)
        used += (size_t)snprintf(one->config + used, sizeof(one->config) - used,
                                 "server.%d=127.0.0.1:%d:%d\n", i + 1, ports[3 * i + 1],
                                 ports[3 * i + 2]);
    snprintf(id, sizeof(id), "%d", number + 1);
    return (one->dir[0] || make_dir(one)) && write_config(one) &&
           write_file(one->dir, "data/myid", id, "\n");
}

static bool members_up(zookeeper_ensemble *ensemble)
{
    for (int i = 0; i < ZOOKEEPER_MEMBERS; i++) {
        zookeeper_server *one = &ensemble->members[i];
        if (!server_await(&kind, &one->pid, one))
            return false;
    }
    return true;
}

bool zookeeper_ensemble_start(zookeeper_ensemble *ensemble)
{
    int ports[3 * ZOOKEEPER_MEMBERS];
    *ensemble = (zookeeper_ensemble){.hosts = ""};
    for (int i = 0; i < FIRST_PORTS; i++) {
        bool fine = true;
        free_ports(ports, 3 * ZOOKEEPER_MEMBERS);
        for (int k = 0; k < ZOOKEEPER_MEMBERS; k++)
            fine = fine && prepare_member(ensemble, k, ports);
        snprintf(ensemble->hosts, sizeof(ensemble->hosts),
                 "127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", ports[0], ports[3], ports[6]);
        for (int k = 0; fine && k < ZOOKEEPER_MEMBERS; k++)
            ensemble->members[k].pid = server_launch(&kind, &ensemble->members[k]);
        if (fine && members_up(ensemble))
            return true;
        for (int k = 0; k < ZOOKEEPER_MEMBERS; k++)
            zookeeper_server_kill(&ensemble->members[k]);
    }
    return harness_check(__FILE__, __LINE__, false, "an ensemble that serves");
}

void zookeeper_ensemble_stop(zookeeper_ensemble *ensemble)
{
    for (int i = 0; i < ZOOKEEPER_MEMBERS; i++)
        zookeeper_server_stop(&ensemble->members[i]);
}

int zookeeper_ensemble_leader(const zookeeper_ensemble *ensemble)
{
    int64_t end = awake_now_ms() + START_MS;
    while (awake_now_ms() < end) {
        for (int i = 0; i < ZOOKEEPER_MEMBERS; i++)
            if (ensemble->members[i].pid > 0 &&
                strstr(zookeeper_server_say(&ensemble->members[i], "srvr"),
                       "Mode: leader"))
                return i;
        nap_ms(20);
    }
    (void)harness_check(__FILE__, __LINE__, false, "the ensemble has a leader");
    return -1;
}

#ifdef __SANITIZE_THREAD__
/* libzookeeper writes the names of servers, for its log, into one buffer for all handles. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:vsprintf\n";
}
#endif
