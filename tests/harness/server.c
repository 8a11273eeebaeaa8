/* Processes of lock services and connections to them; see the header. */
#include "harness/server.h"

#include "harness/awake.h"
#include "harness/harness.h"
#include "harness/time.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_NS INT64_C(60000000000)
#define RESTARTS 50
#define KEPT_MAX 64

bool server_is_installed(const char *command)
{
    static char why[128];
    char line[128];
    snprintf(line, sizeof(line), "command -v %s >/dev/null 2>&1", command);
    if (system(line) == 0)
        return true;
    snprintf(why, sizeof(why), "%s is not installed", command);
    harness_skip(why);
    return false;
}

static struct sockaddr_in address_of(int port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* Ports that are ours, and the sockets that keep them: bound, and never listened on. */
static struct {
    int port, fd;
} kept[KEPT_MAX];
static pthread_mutex_t kept_mutex = PTHREAD_MUTEX_INITIALIZER;

/* In the place of a port that is let go (0: of none). Returns what isn't needed any more. */
static int keep(int old, int port, int fd)
{
    (void)pthread_mutex_lock(&kept_mutex);
    int i = 0;
    while (i < KEPT_MAX && kept[i].port != old)
        i++;
    if (i < KEPT_MAX) {
        int before = old ? kept[i].fd : -1;
        kept[i].port = port;
        kept[i].fd = fd;
        fd = before;
    }
    (void)pthread_mutex_unlock(&kept_mutex);
    return fd;
}

int server_free_port(int wanted)
{
    struct sockaddr_in address = address_of(wanted);
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1, port = 0;
    /* Bound without SO_REUSEADDR, else two of us might have the same one. */
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &size) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0)
        port = ntohs(address.sin_port);
    if (port)
        fd = keep(0, port, fd);
    if (fd >= 0)
        close(fd);
    return port;
}

void server_let_go(int port)
{
    int fd = port ? keep(port, 0, -1) : -1;
    if (fd >= 0)
        close(fd);
}

/* ---- The process ---- */

pid_t server_launch(const server_kind *kind, const void *server)
{
    pid_t parent = getpid(), pid = fork();
    if (pid != 0)
        return pid;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent)
        kind->become(server);
    _exit(127);
}

bool server_await(const server_kind *kind, pid_t *pid, void *server)
{
    int64_t end = awake_now_ns() + START_NS;
    while (*pid > 0 && awake_now_ns() < end) {
        if (kind->is_up(server))
            return true;
        if (waitpid(*pid, NULL, WNOHANG) == *pid)
            *pid = 0;
        else
            nap_ms(10);
    }
    server_kill(pid);
    return false;
}

bool server_start(const server_kind *kind, pid_t *pid, void *server)
{
    *pid = server_launch(kind, server);
    return server_await(kind, pid, server);
}

bool server_restart(const server_kind *kind, pid_t *pid, void *server)
{
    char what[64];
    server_kill(pid);
    /* The port may be taken for a moment by what is left of the old connections. */
    for (int i = 0; i < RESTARTS; i++) {
        if (server_start(kind, pid, server))
            return true;
        nap_ms(100);
    }
    snprintf(what, sizeof(what), "%s is there again", kind->name);
    return harness_check(__FILE__, __LINE__, false, what);
}

void server_kill(pid_t *pid)
{
    if (*pid <= 0)
        return;
    kill(*pid, SIGKILL);
    while (waitpid(*pid, NULL, 0) < 0 && errno == EINTR)
        ;
    *pid = 0;
}

/* Of /proc/PID/task/TID/stat, "TID (name) STATE …": stopped, traced, or at its end. */
static bool stands_still(const char *tasks, const char *thread)
{
    char path[300], line[512];
    snprintf(path, sizeof(path), "%s/%s/stat", tasks, thread);
    FILE *in = fopen(path, "re");
    if (!in)
        return true; /* it has just ended */
    bool read = fgets(line, sizeof(line), in) != NULL;
    fclose(in);
    const char *name_end = read ? strrchr(line, ')') : NULL;
    return !name_end || strchr("TtZX", name_end[2]) != NULL;
}

static bool all_stand_still(pid_t pid)
{
    char tasks[32];
    snprintf(tasks, sizeof(tasks), "/proc/%d/task", (int)pid);
    DIR *list = opendir(tasks);
    const struct dirent *entry;
    bool all = true;
    while (all && list && (entry = readdir(list)))
        all = entry->d_name[0] == '.' || stands_still(tasks, entry->d_name);
    if (list)
        closedir(list);
    return all;
}

void server_freeze(pid_t pid)
{
    if (!harness_check(__FILE__, __LINE__, pid > 0 && kill(pid, SIGSTOP) == 0,
                       "a server to freeze"))
        return;
    while (!all_stand_still(pid))
        nap_ms(1);
}

void server_thaw(pid_t pid)
{
    if (pid > 0)
        kill(pid, SIGCONT);
}

/* ---- A connection to it ---- */

/* Where nobody listens, a connection may by chance be given that very port and meet itself, and then
 * it would keep the server from it. */
static bool met_itself(int fd, int port)
{
    struct sockaddr_in address;
    socklen_t size = sizeof(address);
    return getsockname(fd, (struct sockaddr *)&address, &size) != 0 ||
           ntohs(address.sin_port) == port;
}

int server_dial(int port, int answer_s)
{
    struct sockaddr_in address = address_of(port);
    struct timeval limit = {.tv_sec = answer_s};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
        !met_itself(fd, port))
        return fd;
    close(fd);
    return -1;
}

void server_hang_up(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

bool server_read(int fd, char *to, size_t size)
{
    while (size > 0) {
        ssize_t got = recv(fd, to, size, 0);
        if (got < 0 && errno == EINTR)
            continue; /* as it happens to whoever was stopped, or frozen */
        if (got <= 0)
            return false;
        to += got;
        size -= (size_t)got;
    }
    return true;
}

bool server_read_line(int fd, char *line, size_t size)
{
    for (size_t used = 0; used + 1 < size && server_read(fd, line + used, 1); used++)
        if (line[used] == '\n') {
            line[used > 0 ? used - 1 : 0] = '\0';
            return true;
        }
    return false;
}

/* By /proc/net/tcp: "N: ADDRESS:PORT ADDRESS:PORT 01 UNSENT:UNREAD …", in hexadecimal. */
bool server_has_unread(int port)
{
    FILE *in = fopen("/proc/net/tcp", "re");
    char line[512];
    bool found = false;
    while (in && !found && fgets(line, sizeof(line), in)) {
        unsigned at, state, unread;
        found =
            sscanf(line, "%*d: %*x:%x %*x:%*x %x %*x:%x", &at, &state, &unread) == 3 &&
            at == (unsigned)port && state == 1 && unread > 0;
    }
    if (in)
        fclose(in);
    return found;
}
