/* Starting and ending an etcd for tests; see the header. */
#include "harness/etcd_server.h"

#include "harness/harness.h"
#include "harness/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWER_S = 20 };

/* The tests are run on other versions, too. */
static const char *program(void)
{
    const char *other = getenv("DLK_TEST_ETCD_PROGRAM");
    return other ? other : "etcd";
}

bool etcd_server_available(void)
{
    return server_is_installed(program());
}

static int listen_anywhere(int *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &size) == 0)
        *ret_port = ntohs(address.sin_port);
    return fd;
}

/* ---- Talking to it ---- */

static bool exchange(int port, const char *path, const char *body, char *text,
                     size_t size)
{
    char head[256];
    int fd = server_dial(port, ANSWER_S);
    size_t used = 0;
    text[0] = '\0';
    if (fd < 0)
        return false;
    int length = snprintf(head, sizeof(head),
                          "POST %s HTTP/1.0\r\nContent-Type: application/json\r\n"
                          "Content-Length: %zu\r\n\r\n",
                          path, strlen(body));
    bool fine = send(fd, head, (size_t)length, MSG_NOSIGNAL) == length &&
                send(fd, body, strlen(body), MSG_NOSIGNAL) == (ssize_t)strlen(body);
    while (fine && used + 1 < size) {
        ssize_t got = recv(fd, text + used, size - used - 1, 0);
        if (got < 0 && errno == EINTR)
            continue; /* as it happens to whoever was stopped, or frozen */
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    text[used] = '\0';
    close(fd);
    return fine && used > 0;
}

const char *etcd_server_say(const etcd_server *server, const char *path,
                            const char *format, ...)
{
    static _Thread_local char text[262144];
    char body[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(body, sizeof(body), format, args);
    va_end(args);
    if (!exchange(server->port, path, body, text, sizeof(text)))
        return "";
    const char *end = strstr(text, "\r\n\r\n");
    return end ? end + 4 : "";
}

static const char digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static const char *encode(const char *data, char *text)
{
    size_t size = strlen(data);
    char *out = text;
    for (size_t i = 0; i < size; i += 3) {
        unsigned bits = (unsigned)(unsigned char)data[i] << 16;
        if (i + 1 < size)
            bits |= (unsigned)(unsigned char)data[i + 1] << 8;
        if (i + 2 < size)
            bits |= (unsigned char)data[i + 2];
        *out++ = digits[bits >> 18];
        *out++ = digits[bits >> 12 & 63];
        *out++ = i + 1 < size ? digits[bits >> 6 & 63] : '=';
        *out++ = i + 2 < size ? digits[bits & 63] : '=';
    }
    *out = '\0';
    return text;
}

static void add_decoded(char *text, size_t size, const char *from)
{
    unsigned bits = 0;
    int have = 0;
    size_t used = strlen(text);
    for (; *from && *from != '"' && *from != '=' && used + 2 < size; from++) {
        const char *digit = strchr(digits, *from);
        bits = bits << 6 | (unsigned)(digit ? digit - digits : 0);
        have += 6;
        if (have < 8)
            continue;
        have -= 8;
        char one = (char)(bits >> have & 0xff);
        text[used++] = one ? one : '!';
    }
    text[used++] = ' ';
    text[used] = '\0';
}

static const char *range_of(const char *prefix, char *text, size_t size)
{
    char from[512], to[512], last[256];
    snprintf(last, sizeof(last), "%s", prefix);
    last[strlen(last) - 1]++;
    snprintf(text, size, "{\"key\":\"%s\",\"range_end\":\"%s\"}", encode(prefix, from),
             encode(last, to));
    return text;
}

const char *etcd_server_keys(const etcd_server *server, const char *prefix)
{
    static _Thread_local char keys[16384];
    char body[1200];
    const char *all = "{\"key\":\"AA==\",\"range_end\":\"AA==\"}";
    if (prefix[0])
        all = range_of(prefix, body, sizeof(body));
    const char *at = etcd_server_say(server, "/v3/kv/range", "%s", all);
    keys[0] = '\0';
    while ((at = strstr(at, "{\"key\":\""))) {
        at += 8;
        add_decoded(keys, sizeof(keys), at);
    }
    return keys;
}

bool etcd_server_put(const etcd_server *server, const char *key, const char *value)
{
    char key64[1024], value64[1024];
    return strstr(etcd_server_say(server, "/v3/kv/put",
                                  "{\"key\":\"%s\",\"value\":\"%s\"}", encode(key, key64),
                                  encode(value, value64)),
                  "revision") != NULL;
}

bool etcd_server_delete(const etcd_server *server, const char *prefix)
{
    char body[1200];
    return strstr(etcd_server_say(server, "/v3/kv/deleterange", "%s",
                                  range_of(prefix, body, sizeof(body))),
                  "revision") != NULL;
}

/* ---- The process ---- */

static void become(const void *one)
{
    const etcd_server *server = one;
    const char *scheme = server->tls[0] ? "https" : "http", *dir = server->dir;
    char line[1400], tls[256] = "", log[80], *args[48], *rest = NULL;
    size_t count = 0;
    if (server->tls[0])
        snprintf(tls, sizeof(tls), "--cert-file=%s/server.pem --key-file=%s/server.key",
                 server->tls, server->tls);
    snprintf(line, sizeof(line),
             "etcd --data-dir=%s/data --listen-client-urls=%s://127.0.0.1:%d "
             "--advertise-client-urls=%s://127.0.0.1:%d "
             "--listen-peer-urls=http://127.0.0.1:%d "
             "--initial-advertise-peer-urls=http://127.0.0.1:%d "
             "--initial-cluster=default=http://127.0.0.1:%d --unsafe-no-fsync "
             "--heartbeat-interval=50 --election-timeout=500 --logger=zap %s %s",
             dir, scheme, server->port, scheme, server->port, server->peer_port,
             server->peer_port, server->peer_port, tls, server->options);
    for (char *word = strtok_r(line, " ", &rest); word && count < 47;
         word = strtok_r(NULL, " ", &rest))
        args[count++] = word;
    args[count] = NULL;
    snprintf(log, sizeof(log), "%s/log", dir);
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd >= 0) {
        dup2(fd, 1);
        dup2(fd, 2);
    }
    execvp(program(), args);
}

/* By what needs a leader; where it doesn't answer us, by its log. */
static bool serves(void *one)
{
    const etcd_server *server = one;
    char text[4096];
    if (server->silent || server->tls[0]) {
        char command[160];
        snprintf(command, sizeof(command),
                 "grep -q 'serving client traffic' %s/log 2>/dev/null", server->dir);
        return system(command) == 0;
    }
    return exchange(server->port, "/v3/lease/leases", "{}", text, sizeof(text)) &&
           strstr(text, "200 OK");
}

static const server_kind kind = {"etcd", become, serves};

static bool start(etcd_server *server, const char *tls, const char *options, bool silent)
{
    for (int i = 0; i < 5; i++) { /* others look for free ports as well */
        *server = (etcd_server){.silent = silent};
        snprintf(server->options, sizeof(server->options), "%s", options ? options : "");
        snprintf(server->tls, sizeof(server->tls), "%s", tls);
        strcpy(server->dir, "/tmp/dlock-etcd-XXXXXX");
        int client = listen_anywhere(&server->port);
        int peer = listen_anywhere(&server->peer_port);
        if (client >= 0)
            close(client);
        if (peer >= 0)
            close(peer);
        if (!harness_check(__FILE__, __LINE__, harness_mkdtemp(server->dir) != NULL,
                           "a directory"))
            return false;
        if (server_start(&kind, &server->pid, server))
            return true;
        etcd_server_stop(server);
    }
    return harness_check(__FILE__, __LINE__, false, "etcd starts");
}

bool etcd_server_start(etcd_server *server, const char *options)
{
    return start(server, "", options, false);
}

bool etcd_server_start_silent(etcd_server *server, const char *options)
{
    return start(server, "", options, true);
}

bool etcd_server_start_tls(etcd_server *server, const char *dir, const char *options)
{
    return start(server, dir, options, false);
}

bool etcd_server_borrow(etcd_server *server)
{
    const char *port = getenv("DLK_TEST_ETCD");
    if (!port)
        return start(server, "", NULL, false);
    *server = (etcd_server){.port = atoi(port), .borrowed = true};
    return harness_check(__FILE__, __LINE__, serves(server), "the shared etcd serves");
}

void etcd_server_kill(etcd_server *server)
{
    server_kill(&server->pid);
}

bool etcd_server_restart(etcd_server *server)
{
    return server_restart(&kind, &server->pid, server);
}

bool etcd_server_restart_silent(etcd_server *server)
{
    char log[80];
    etcd_server_kill(server);
    snprintf(log, sizeof(log), "%s/log", server->dir);
    (void)unlink(log); /* what it has said before */
    server->silent = true;
    return server_restart(&kind, &server->pid, server);
}

void etcd_server_stop(etcd_server *server)
{
    char command[96];
    etcd_server_kill(server);
    if (!server->dir[0])
        return;
    snprintf(command, sizeof(command), "rm -rf '%s'", server->dir);
    (void)!system(command);
    server->dir[0] = '\0';
}
