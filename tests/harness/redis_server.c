/* Starting and ending a Redis for tests; see the header. */
#include "harness/redis_server.h"

#include "harness/harness.h"
#include "harness/server.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWER_S = 20 };

bool redis_server_available(void)
{
    return server_is_installed("redis-server");
}

int redis_server_free_port(void)
{
    static _Atomic unsigned last; /* those of two programs begin apart */
    for (int i = 0; i < 1000; i++) {
        unsigned next = (unsigned)getpid() * 97 + last++ * 7;
        int port = server_free_port((int)(10000 + next % 20000));
        if (port)
            return port;
    }
    return 0;
}

/* ---- The test's own connection ---- */

static void add(char *text, size_t size, const char *more)
{
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", used ? " " : "", more);
}

static bool read_reply(int fd, char *text, size_t size)
{
    char line[1024];
    if (!server_read_line(fd, line, sizeof(line)))
        return false;
    long count = atol(line + 1);
    if (line[0] == '*') {
        for (long i = 0; i < count; i++)
            if (!read_reply(fd, text, size))
                return false;
    } else if (line[0] == '$' && count >= 0) {
        char *bulk = calloc(1, (size_t)count + 3);
        bool fine = bulk && server_read(fd, bulk, (size_t)count + 2);
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
    if (server->control < 0)
        server->control = server_dial(server->port, ANSWER_S);
    if (size < 0 || server->control < 0)
        return "(gone)";
    memcpy(line + size, "\r\n", 2); /* Redis takes such lines for people with telnet */
    text[0] = '\0';
    if (send(server->control, line, (size_t)size + 2, MSG_NOSIGNAL) == size + 2 &&
        read_reply(server->control, text, sizeof(text)))
        return text;
    server_hang_up(&server->control);
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
    if (server->tls[0])
        fprintf(out,
                "tls-port %d\ntls-cert-file %s/server.pem\ntls-key-file %s/server.key\n"
                "tls-ca-cert-file %s/ca.pem\ntls-auth-clients no\n",
                server->tls_port, server->tls, server->tls, server->tls);
    return fclose(out) == 0;
}

static bool is_up(void *one)
{
    redis_server *server = one;
    char line[32];
    snprintf(line, sizeof(line), "process_id:%d\r", (int)server->pid);
    if (strcmp(redis_server_call(server, "PING"), "PONG") == 0 &&
        strstr(redis_server_call(server, "INFO server"), line))
        return true;
    server_hang_up(&server->control); /* of another one, perhaps */
    return false;
}

/* By its name it knows what it is to be. */
static void become(const void *one)
{
    const redis_server *server = one;
    char file[128];
    snprintf(file, sizeof(file), "%s/redis.conf", server->dir);
    execlp("redis-server", server->sentinel ? "redis-sentinel" : "redis-server", file,
           (char *)NULL);
}

static const server_kind kind = {"the Redis", become, is_up};

static void choose_ports(redis_server *server)
{
    if (sscanf(server->config, "port %d", &server->port) != 1)
        server->port = server_free_port(0);
    while (server->tls[0] && server->tls_port == 0) {
        int port = server_free_port(0);
        server->tls_port = port == server->port ? 0 : port;
    }
}

static bool start(redis_server *server, const char *dir, const char *config)
{
    snprintf(server->config, sizeof(server->config), "%s", config ? config : "");
    snprintf(server->tls, sizeof(server->tls), "%s", dir);
    strcpy(server->dir, "/tmp/dlock-redis-XXXXXX");
    if (!harness_check(__FILE__, __LINE__, harness_mkdtemp(server->dir) != NULL,
                       "a directory"))
        return false;
    for (int i = 0; i < 5; i++) {
        server->tls_port = 0;
        choose_ports(server);
        if (write_config(server) && server_start(&kind, &server->pid, server))
            return true;
    }
    return harness_check(__FILE__, __LINE__, false, "a Redis that answers PING");
}

bool redis_server_start_tls(redis_server *server, const char *dir, const char *config)
{
    *server = (redis_server){.control = -1};
    return start(server, dir, config);
}

bool redis_server_start(redis_server *server, const char *config)
{
    return redis_server_start_tls(server, "", config);
}

bool redis_server_start_sentinel(redis_server *server, const char *config)
{
    *server = (redis_server){.control = -1, .sentinel = true};
    return start(server, "", config);
}

void redis_server_kill(redis_server *server)
{
    server_hang_up(&server->control);
    server_kill(&server->pid);
}

bool redis_server_restart(redis_server *server)
{
    server_hang_up(&server->control);
    return server_restart(&kind, &server->pid, server);
}

/* Also what it has left there by itself: nodes.conf, parts of a dump. */
static void clear(const char *dir)
{
    DIR *list = opendir(dir);
    const struct dirent *entry;
    while (list && (entry = readdir(list)))
        if (entry->d_type != DT_DIR)
            (void)unlinkat(dirfd(list), entry->d_name, 0);
    if (list)
        closedir(list);
    (void)rmdir(dir);
}

void redis_server_stop(redis_server *server)
{
    redis_server_kill(server); /* it has nothing to save */
    server_let_go(server->port);
    server_let_go(server->tls_port);
    if (server->dir[0])
        clear(server->dir);
}
