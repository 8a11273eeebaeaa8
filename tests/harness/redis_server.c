/* Starting and ending a Redis for tests; see the header. */
#include "harness/redis_server.h"

#include "harness/harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void nap(long ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

bool redis_server_available(void)
{
    if (system("command -v redis-server >/dev/null 2>&1") == 0)
        return true;
    harness_skip("redis-server is not installed");
    return false;
}

static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int port = 0;
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &size) == 0)
        port = ntohs(address.sin_port);
    if (fd >= 0)
        close(fd);
    return port;
}

/* ---- The test's own connection ---- */

static bool connect_control(redis_server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)server->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval limit = {.tv_sec = 20};
    server->control = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (server->control < 0)
        return false;
    setsockopt(server->control, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (connect(server->control, (struct sockaddr *)&address, sizeof(address)) == 0)
        return true;
    close(server->control);
    server->control = -1;
    return false;
}

static void close_control(redis_server *server)
{
    if (server->control >= 0)
        close(server->control);
    server->control = -1;
}

static bool read_bytes(int fd, char *to, size_t size)
{
    while (size > 0) {
        ssize_t got = recv(fd, to, size, 0);
        if (got <= 0)
            return false;
        to += got;
        size -= (size_t)got;
    }
    return true;
}

static bool read_line(int fd, char *line, size_t size)
{
    size_t used = 0;
    while (used + 1 < size && read_bytes(fd, line + used, 1)) {
        if (line[used] == '\n') {
            line[used - 1] = '\0';
            return true;
        }
        used++;
    }
    return false;
}

static void add(char *text, size_t size, const char *more)
{
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", used ? " " : "", more);
}

static bool read_reply(int fd, char *text, size_t size)
{
    char line[1024];
    if (!read_line(fd, line, sizeof(line)))
        return false;
    long count = atol(line + 1);
    if (line[0] == '*') {
        for (long i = 0; i < count; i++)
            if (!read_reply(fd, text, size))
                return false;
    } else if (line[0] == '$' && count >= 0) {
        char *bulk = calloc(1, (size_t)count + 3);
        bool fine = bulk && read_bytes(fd, bulk, (size_t)count + 2);
        if (fine) {
            bulk[count] = '\0';
            add(text, size, bulk);
        }
        free(bulk);
        return fine;
    } else {
        add(text, size, line[0] == '$' ? "(nil)" : line[0] == '-' ? line : line + 1);
    }
    return true;
}

const char *redis_server_call(redis_server *server, const char *format, ...)
{
    static _Thread_local char text[65536];
    char line[2048];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(line, sizeof(line) - 2, format, args);
    va_end(args);
    if (size < 0 || (server->control < 0 && !connect_control(server)))
        return "(gone)";
    memcpy(line + size, "\r\n", 2); /* Redis takes such lines for people with telnet */
    text[0] = '\0';
    if (send(server->control, line, (size_t)size + 2, MSG_NOSIGNAL) == size + 2 &&
        read_reply(server->control, text, sizeof(text)))
        return text;
    close_control(server);
    return "(gone)";
}

/* ---- The process ---- */

static bool write_config(redis_server *server)
{
    char file[128];
    snprintf(file, sizeof(file), "%s/redis.conf", server->dir);
    snprintf(server->path, sizeof(server->path), "%s/socket", server->dir);
    FILE *out = fopen(file, "we");
    if (!out)
        return false;
    fprintf(out,
            "port %d\nbind 127.0.0.1\nunixsocket %s\ndir %s\nsave \"\"\nappendonly no\n"
            "logfile %s/log\nrdbcompression no\n%s\n",
            server->port, server->path, server->dir, server->dir, server->config);
    return fclose(out) == 0;
}

static bool launch(redis_server *server)
{
    char file[128];
    snprintf(file, sizeof(file), "%s/redis.conf", server->dir);
    pid_t parent = getpid();
    server->pid = fork();
    if (server->pid == 0) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        execlp("redis-server", "redis-server", file, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 2000 && server->pid > 0; i++) {
        if (strcmp(redis_server_call(server, "PING"), "PONG") == 0)
            return true;
        if (waitpid(server->pid, NULL, WNOHANG) == server->pid)
            break; /* perhaps somebody was faster to take the port */
        close_control(server);
        nap(10);
    }
    return false;
}

bool redis_server_start(redis_server *server, const char *config)
{
    *server = (redis_server){.control = -1};
    snprintf(server->config, sizeof(server->config), "%s", config ? config : "");
    strcpy(server->dir, "/tmp/dlock-redis-XXXXXX");
    if (!harness_check(__FILE__, __LINE__, mkdtemp(server->dir) != NULL, "a directory"))
        return false;
    for (int i = 0; i < 5; i++) {
        server->port = free_port();
        if (write_config(server) && launch(server))
            return true;
    }
    return harness_check(__FILE__, __LINE__, false, "a Redis that answers PING");
}

void redis_server_kill(redis_server *server)
{
    close_control(server);
    if (server->pid <= 0)
        return;
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
    server->pid = 0;
}

bool redis_server_restart(redis_server *server)
{
    redis_server_kill(server);
    /* The port may be taken for a moment by what is left of the old connections. */
    for (int i = 0; i < 50; i++) {
        if (launch(server))
            return true;
        nap(100);
    }
    return harness_check(__FILE__, __LINE__, false, "the Redis is there again");
}

void redis_server_stop(redis_server *server)
{
    static const char *const files[] = {"redis.conf", "log", "socket"};
    char file[128];
    redis_server_kill(server); /* it has nothing to save */
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(file, sizeof(file), "%s/%s", server->dir, files[i]);
        (void)unlink(file);
    }
    (void)rmdir(server->dir);
}

void redis_server_freeze(redis_server *server)
{
    int status;
    kill(server->pid, SIGSTOP);
    waitpid(server->pid, &status, WUNTRACED);
}

void redis_server_thaw(redis_server *server)
{
    kill(server->pid, SIGCONT);
}
