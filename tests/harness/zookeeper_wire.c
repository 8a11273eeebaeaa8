/* ZooKeeper's protocol for the tests' own hand; see the header. Numbers are big-endian; texts and
 * lists have their length in front of them. */
#include "harness/zookeeper_wire.h"

#include "harness/harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ROOM = 1 << 20,
    SESSION_MS = 60000,
    PASSWORD_SIZE = 16,
    PATH_SIZE = 1200,
    OP_CREATE = 1,
    OP_DELETE = 2,
    OP_EXISTS = 3,
    OP_GET = 4,
    OP_SET = 5,
    OP_CHILDREN = 8,
    OP_AUTH = 100,
    OP_CLOSE = -11,
    XID_AUTH = -4,
    PERMS_ALL = 31
};

/* ---- Messages ---- */

typedef struct message {
    size_t size, used; /* used: what has been read of it */
    char bytes[ROOM];
} message;

static void put_int(message *to, int32_t value)
{
    uint32_t big = htonl((uint32_t)value);
    memcpy(to->bytes + to->size, &big, 4);
    to->size += 4;
}

static void put_long(message *to, int64_t value)
{
    put_int(to, (int32_t)((uint64_t)value >> 32));
    put_int(to, (int32_t)value);
}

static void put_bytes(message *to, const char *bytes, size_t size)
{
    put_int(to, (int32_t)size);
    memcpy(to->bytes + to->size, bytes, size);
    to->size += size;
}

static void put_text(message *to, const char *text)
{
    put_bytes(to, text, strlen(text));
}

static int32_t get_int(message *from)
{
    uint32_t big = 0;
    if (from->used + 4 <= from->size)
        memcpy(&big, from->bytes + from->used, 4);
    from->used += 4;
    return (int32_t)ntohl(big);
}

static int64_t get_long(message *from)
{
    uint64_t high = (uint32_t)get_int(from), low = (uint32_t)get_int(from);
    return (int64_t)(high << 32 | low);
}

/* As text, cut to what there is room for; NULL skips it. */
static void get_text(message *from, char *text, size_t room)
{
    int32_t length = get_int(from);
    size_t size = length > 0 ? (size_t)length : 0;
    if (from->used + size > from->size)
        size = 0;
    size_t kept = size < room ? size : room - 1;
    if (text) {
        memcpy(text, from->bytes + from->used, kept);
        text[kept] = '\0';
    }
    from->used += size;
}

static void get_stat(message *from, zookeeper_stat *ret)
{
    ret->czxid = get_long(from);
    ret->mzxid = get_long(from);
    ret->ctime = get_long(from);
    ret->mtime = get_long(from);
    ret->version = get_int(from);
    ret->cversion = get_int(from);
    ret->aversion = get_int(from);
    ret->owner = get_long(from);
    ret->size = get_int(from);
    ret->children = get_int(from);
}

/* ---- The connection ---- */

static void hang_up(zookeeper_wire *wire)
{
    if (wire->fd >= 0)
        close(wire->fd);
    wire->fd = -1;
}

static bool send_message(const zookeeper_wire *wire, const message *what)
{
    char head[4];
    uint32_t big = htonl((uint32_t)what->size);
    memcpy(head, &big, 4);
    return send(wire->fd, head, 4, MSG_NOSIGNAL | MSG_MORE) == 4 &&
           send(wire->fd, what->bytes, what->size, MSG_NOSIGNAL) == (ssize_t)what->size;
}

static bool read_bytes(int fd, char *to, size_t size)
{
    while (size > 0) {
        ssize_t got = recv(fd, to, size, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        to += got;
        size -= (size_t)got;
    }
    return true;
}

static bool read_message(const zookeeper_wire *wire, message *ret)
{
    uint32_t big;
    *ret = (message){.size = 0};
    if (!read_bytes(wire->fd, (char *)&big, 4) || ntohl(big) > ROOM)
        return false;
    ret->size = ntohl(big);
    return read_bytes(wire->fd, ret->bytes, ret->size);
}

/* A new session, or that one if it isn't 0. */
static bool greet(zookeeper_wire *wire, int64_t session, const char *password)
{
    static _Thread_local message m;
    m.size = 0;
    put_int(&m, 0);
    put_long(&m, 0);
    put_int(&m, SESSION_MS);
    put_long(&m, session);
    put_bytes(&m, password, PASSWORD_SIZE);
    m.bytes[m.size++] = 0; /* a server that can write */
    if (!send_message(wire, &m) || !read_message(wire, &m))
        return false;
    (void)get_int(&m);
    bool fine = get_int(&m) > 0; /* 0: there is no such session */
    wire->session = get_long(&m);
    return fine;
}

static bool dial(zookeeper_wire *wire, int64_t session, const char *password)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)wire->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval limit = {.tv_sec = 20};
    wire->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (wire->fd < 0)
        return false;
    setsockopt(wire->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (connect(wire->fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
        greet(wire, session, password))
        return true;
    hang_up(wire);
    return false;
}

bool zookeeper_wire_open(zookeeper_wire *wire, int port)
{
    static const char nobodys[PASSWORD_SIZE];
    *wire = (zookeeper_wire){.fd = -1, .port = port};
    return harness_check(__FILE__, __LINE__, dial(wire, 0, nobodys),
                         "a session of the test's own");
}

static message *begin(zookeeper_wire *wire, int32_t xid, int32_t type)
{
    static _Thread_local message m;
    m.size = 0;
    put_int(&m, xid ? xid : ++wire->xid);
    put_int(&m, type);
    return &m;
}

/* Sends it and turns it into its answer, read up to the code. Nothing is watched, so nothing else
 * comes. */
static int ask(zookeeper_wire *wire, message *m)
{
    if (wire->fd < 0 || !send_message(wire, m) || !read_message(wire, m)) {
        hang_up(wire);
        return ZOOKEEPER_GONE;
    }
    (void)get_int(m);
    (void)get_long(m);
    return get_int(m);
}

void zookeeper_wire_close(zookeeper_wire *wire)
{
    if (wire->fd >= 0)
        (void)ask(wire, begin(wire, 0, OP_CLOSE));
    hang_up(wire);
}

/* ---- Requests ---- */

static int create(zookeeper_wire *wire, const char *path, const char *data, int flags,
                  const char *scheme, const char *id, int perms, char *made, size_t size)
{
    message *m = begin(wire, 0, OP_CREATE);
    put_text(m, path);
    put_text(m, data);
    put_int(m, 1);
    put_int(m, perms);
    put_text(m, scheme);
    put_text(m, id);
    put_int(m, flags);
    int code = ask(wire, m);
    if (code == ZOOKEEPER_OK)
        get_text(m, made, size);
    return code;
}

int zookeeper_wire_create(zookeeper_wire *wire, const char *path, const char *data,
                          int flags, char *made, size_t size)
{
    return create(wire, path, data, flags, "world", "anyone", PERMS_ALL, made, size);
}

int zookeeper_wire_create_for(zookeeper_wire *wire, const char *path, const char *scheme,
                              const char *id, int perms)
{
    return create(wire, path, "", ZOOKEEPER_PERSISTENT, scheme, id, perms, NULL, 0);
}

int zookeeper_wire_delete(zookeeper_wire *wire, const char *path)
{
    message *m = begin(wire, 0, OP_DELETE);
    put_text(m, path);
    put_int(m, -1); /* whatever its version */
    return ask(wire, m);
}

int zookeeper_wire_children(zookeeper_wire *wire, const char *path, char *names,
                            size_t size)
{
    message *m = begin(wire, 0, OP_CHILDREN);
    put_text(m, path);
    m->bytes[m->size++] = 0; /* no watch */
    int code = ask(wire, m);
    names[0] = '\0';
    for (int32_t left = code == ZOOKEEPER_OK ? get_int(m) : 0, used = 0; left > 0;
         left--) {
        char name[PATH_SIZE];
        get_text(m, name, sizeof(name));
        used += snprintf(names + used, size - (size_t)used, "%s ", name);
        if ((size_t)used >= size)
            break;
    }
    return code;
}

int zookeeper_wire_stat(zookeeper_wire *wire, const char *path, zookeeper_stat *ret)
{
    message *m = begin(wire, 0, OP_EXISTS);
    put_text(m, path);
    m->bytes[m->size++] = 0;
    int code = ask(wire, m);
    *ret = (zookeeper_stat){.czxid = 0};
    if (code == ZOOKEEPER_OK)
        get_stat(m, ret);
    return code;
}

int zookeeper_wire_get(zookeeper_wire *wire, const char *path, char *data, size_t size)
{
    message *m = begin(wire, 0, OP_GET);
    put_text(m, path);
    m->bytes[m->size++] = 0;
    int code = ask(wire, m);
    data[0] = '\0';
    if (code == ZOOKEEPER_OK)
        get_text(m, data, size);
    return code;
}

int zookeeper_wire_set(zookeeper_wire *wire, const char *path, const char *data)
{
    message *m = begin(wire, 0, OP_SET);
    put_text(m, path);
    put_text(m, data);
    put_int(m, -1);
    return ask(wire, m);
}

int zookeeper_wire_auth(zookeeper_wire *wire, const char *digest)
{
    message *m = begin(wire, XID_AUTH, OP_AUTH);
    put_int(m, 0);
    put_text(m, "digest");
    put_text(m, digest);
    return ask(wire, m);
}

int zookeeper_wire_count(zookeeper_wire *wire, const char *path)
{
    zookeeper_stat status;
    return zookeeper_wire_stat(wire, path, &status) == ZOOKEEPER_OK ? status.children
                                                                    : -1;
}

int zookeeper_wire_clear(zookeeper_wire *wire, const char *path)
{
    char *names = malloc(ROOM), *save = NULL;
    int code = names ? zookeeper_wire_children(wire, path, names, ROOM) : ZOOKEEPER_GONE;
    if (code == ZOOKEEPER_OK)
        for (char *name = strtok_r(names, " ", &save); name;
             name = strtok_r(NULL, " ", &save)) {
            char below[PATH_SIZE];
            snprintf(below, sizeof(below), "%s/%s", strcmp(path, "/") ? path : "", name);
            (void)zookeeper_wire_clear(wire, below); /* may have gone by itself */
        }
    free(names);
    return code == ZOOKEEPER_OK ? zookeeper_wire_delete(wire, path) : code;
}

/* ---- Other people's sessions ---- */

/* The server makes a session's password of its number: java.util.Random, which is a linear
 * congruence of 48 bits, begun with this. */
static void guess_password(int64_t session, char password[PASSWORD_SIZE])
{
    const uint64_t factor = 0x5DEECE66DULL, mask = (1ULL << 48) - 1;
    uint64_t seed = (((uint64_t)session ^ 0XB3415C00ULL) ^ factor) & mask;
    for (int i = 0; i < PASSWORD_SIZE; i += 4) {
        seed = (seed * factor + 0xB) & mask;
        uint32_t drawn = (uint32_t)(seed >> 16);
        for (int k = 0; k < 4; k++, drawn >>= 8)
            password[i + k] = (char)drawn;
    }
}

/* The port from which somebody still talks to the server in that session's name, or 0. */
static int port_of(const zookeeper_server *server, int64_t session)
{
    char sid[40];
    snprintf(sid, sizeof(sid), "sid=0x%" PRIx64 ",", (uint64_t)session);
    char *lines = (char *)zookeeper_server_say(server, "cons"), *save = NULL;
    for (char *line = strtok_r(lines, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        const char *port = strchr(line, ':');
        if (port && strstr(line, sid)) /* " /127.0.0.1:38946[1](queued=0,…,sid=0x1,…" */
            return (int)strtol(port + 1, NULL, 10);
    }
    return 0;
}

static int port_at(int fd, int (*end)(int, struct sockaddr *, socklen_t *))
{
    struct sockaddr_in address = {.sin_family = AF_UNSPEC};
    socklen_t size = sizeof(address);
    if (end(fd, (struct sockaddr *)&address, &size) != 0 || address.sin_family != AF_INET)
        return 0;
    return ntohs(address.sin_port);
}

/* A connection of this process, the client's or that of a proxy before it. */
static void cut(int from, int to)
{
    for (int fd = 3; fd < 1024; fd++)
        if (port_at(fd, getsockname) == from && port_at(fd, getpeername) == to)
            shutdown(fd, SHUT_RDWR);
}

bool zookeeper_wire_expire(const zookeeper_server *server, int64_t session)
{
    char password[PASSWORD_SIZE];
    guess_password(session, password);
    /* Its owner, cut off by our connection, may take it back before we have ended it; or just
     * when we do: then the server keeps that connection, answers nothing on it, and never says
     * that there is no session any more, as it would have when the time had ended it. */
    for (int i = 0, left; i < 1000; i++) {
        zookeeper_wire wire = {.fd = -1, .port = server->port, .session = -1};
        if (dial(&wire, session, password))
            zookeeper_wire_close(&wire);
        else if (wire.session == 0 && (left = port_of(server, session)) == 0)
            return true; /* there is none any more */
        else if (wire.session == 0)
            cut(left, server->port);
    }
    return harness_check(__FILE__, __LINE__, false, "the session has ended");
}
