/* Plain connections; see the header. */
#include "proxy/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

bool wire_left_behind(proxy **p)
{
    if (!*p)
        return false;
    proxy_print_log(*p, stdout, 40);
    proxy_free(*p);
    *p = NULL;
    return true;
}

static int start(int port, int flags)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    if (fd >= 0 &&
        (connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0 || errno == EINPROGRESS))
        return fd;
    int why = errno;
    if (fd >= 0)
        close(fd);
    errno = why;
    return -1;
}

int wire_open(int port)
{
    return start(port, 0);
}

int wire_begin(int port)
{
    return start(port, SOCK_NONBLOCK);
}

bool wire_is_open(int fd, int64_t ms)
{
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    return poll(&ready, 1, (int)ms) == 1 && !(ready.revents & (POLLERR | POLLHUP));
}

bool wire_say(int fd, const char *text)
{
    size_t size = strlen(text);
    return send(fd, text, size, MSG_NOSIGNAL) == (ssize_t)size;
}

const char *wire_hear(int fd, size_t size, int64_t ms)
{
    static _Thread_local char text[8192];
    size_t used = 0;
    const char *end = "";
    while (used < size && used < sizeof(text) - 16 && !*end) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (poll(&ready, 1, (int)ms) <= 0) {
            end = "(silence)";
            continue;
        }
        size_t room = sizeof(text) - 16 - used, wanted = size - used;
        ssize_t got = recv(fd, text + used, wanted < room ? wanted : room, 0);
        if (got > 0)
            used += (size_t)got;
        else
            end = got == 0 ? "(end)" : "(reset)";
    }
    strcpy(text + used, end);
    return text;
}

bool wire_echoes(int fd, const char *text)
{
    return wire_say(fd, text) && strcmp(wire_hear(fd, strlen(text), WIRE_MS), text) == 0;
}

void wire_close(int fd)
{
    close(fd);
}

void wire_break(int fd)
{
    struct linger at_once = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(fd);
}
