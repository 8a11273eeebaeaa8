/* Where clients come in and where the servers are. */
#include "proxy/inner.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 1024, TIRED_MS = 100 };

/* ---- Addresses ---- */

static bool set_unix(proxy_link *link)
{
    struct sockaddr_un *at = (struct sockaddr_un *)&link->address;
    if (strlen(link->target) >= sizeof(at->sun_path))
        return false;
    at->sun_family = AF_UNIX;
    strcpy(at->sun_path, link->target);
    link->address_size = sizeof(*at);
    return true;
}

static bool set_inet(proxy_link *link, const char *host, const char *port)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                             .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    if (strspn(port, "0123456789") != strlen(port) || atol(port) < 1 ||
        atol(port) > 65535 || getaddrinfo(host, port, &hints, &found) != 0)
        return false;
    memcpy(&link->address, found->ai_addr, found->ai_addrlen);
    link->address_size = found->ai_addrlen;
    freeaddrinfo(found);
    return true;
}

static bool set_target(proxy_link *link)
{
    char host[sizeof(link->target)];
    if (link->target[0] == '/')
        return set_unix(link);
    strcpy(host, link->target);
    char *colon = strrchr(host, ':');
    if (!colon)
        return set_inet(link, "127.0.0.1", host);
    *colon = '\0';
    size_t size = strlen(host);
    if (size > 1 && host[0] == '[' && host[size - 1] == ']') {
        host[size - 1] = '\0';
        return set_inet(link, host + 1, colon + 1);
    }
    return set_inet(link, host, colon + 1);
}

/* ---- The port ---- */

/* A socket on the link's port; several of ours may share it. */
static int bind_one(const proxy_link *link, int *ret_port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)link->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)) == 0 &&
        bind(fd, (struct sockaddr *)&at, size) == 0 &&
        getsockname(fd, (struct sockaddr *)&at, &size) == 0) {
        *ret_port = ntohs(at.sin_port);
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Sharing a port would also let another process' proxy on it in: a fixed one is tried alone first. */
static bool is_taken(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool taken = fd < 0 ||
                 setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
                 bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 || listen(fd, 1) != 0;
    if (fd >= 0)
        close(fd);
    return taken;
}

const char *proxy_link_open(proxy_link *link, int port)
{
    link->seat = link->listener = -1;
    if (!set_target(link))
        return "the target isn't PORT, ADDRESS:PORT, [ADDRESS6]:PORT or /path";
    if (port < 0 || port > 65535)
        return "the port isn't one";
    if (port > 0 && is_taken(port))
        return "the port is taken";
    link->port = port;
    link->seat = bind_one(link, &link->port);
    return link->seat >= 0 && proxy_link_listen(link) ? NULL : strerror(errno);
}

bool proxy_link_listen(proxy_link *link)
{
    int port;
    if (link->listener < 0)
        link->listener = bind_one(link, &port);
    /* Again on one that listens: the backlog grows or shrinks. */
    return link->listener >= 0 &&
           listen(link->listener, link->ignores ? 0 : BACKLOG) == 0;
}

void proxy_link_deafen(proxy_link *link)
{
    if (link->listener < 0)
        return;
    /* The thread may be polling it, which keeps it open a little longer: stop listening now. */
    (void)shutdown(link->listener, SHUT_RDWR);
    close(link->listener);
    link->listener = -1;
}

/* ---- Connections ---- */

static void set_nodelay(int fd)
{
    int one = 1; /* else each small message may wait for an acknowledgement */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* not on Unix's */
}

static void fail_to_connect(proxy_pair *pair, int error)
{
    pair->link->stats.refused++;
    proxy_say(pair->link->proxy, NULL, pair, "no server: %s", strerror(error));
    proxy_pair_cut(pair);
}

void proxy_pair_connected(proxy_pair *pair)
{
    struct pollfd ready = {.fd = pair->fd[SERVER], .events = POLLOUT};
    int error = 0;
    socklen_t size = sizeof(error);
    if (poll(&ready, 1, 0) <= 0)
        return;
    if (getsockopt(pair->fd[SERVER], SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        error = errno;
    pair->connecting = false;
    if (error)
        fail_to_connect(pair, error);
    else
        proxy_flow_send(pair, UP);
}

static void take_client(proxy_link *link, int client)
{
    proxy *p = link->proxy;
    int type = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
    int server = socket(link->address.ss_family, type, 0);
    size_t state = link->framing ? link->framing->state_size : 0;
    proxy_pair *pair = server >= 0 ? calloc(1, sizeof(*pair) + state) : NULL;
    if (!pair) {
        proxy_say(p, link, NULL, "a client is turned away: %s", strerror(errno));
        link->stats.refused++;
        if (server >= 0)
            close(server);
        close(client);
        return;
    }
    set_nodelay(client);
    set_nodelay(server);
    *pair = (proxy_pair){.next = p->pairs,
                         .link = link,
                         .state = pair + 1,
                         .number = ++link->stats.accepted,
                         .fd = {client, server},
                         .connecting = true,
                         .raw = !link->framing};
    link->stats.open++;
    p->pairs = pair;
    proxy_say(p, NULL, pair, "connected");
    if (connect(server, (struct sockaddr *)&link->address, link->address_size) != 0 &&
        errno != EINPROGRESS)
        fail_to_connect(pair, errno);
}

void proxy_link_accept(proxy_link *link)
{
    int client, flags = SOCK_CLOEXEC | SOCK_NONBLOCK;
    bool was_tired = link->tired_until > 0;
    while ((client = accept4(link->listener, NULL, NULL, flags)) >= 0) {
        was_tired = false;
        take_client(link, client);
    }
    link->tired_until = 0;
    if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM)
        return;
    /* Who waits stays in the backlog, and the listener readable: not to be polled meanwhile. */
    if (!was_tired)
        proxy_say(link->proxy, link, NULL, "nobody can be accepted: %s", strerror(errno));
    link->tired_until = link->proxy->now + TIRED_MS * PROXY_NS_PER_MS;
}
