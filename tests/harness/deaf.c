/* A filter of packets that lets none pass; see the header. */
#include "harness/deaf.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define FDS 1024

static bool leads_to(int fd, int port)
{
    struct sockaddr_in peer = {0};
    socklen_t size = sizeof(peer);
    return getpeername(fd, (struct sockaddr *)&peer, &size) == 0 &&
           peer.sin_family == AF_INET && ntohs(peer.sin_port) == port;
}

deaf_sockets deaf_look(int port)
{
    deaf_sockets found = {.count = 0};
    for (int fd = 0; fd < FDS && found.count < DEAF_MAX; fd++)
        if (leads_to(fd, port))
            found.fds[found.count++] = fd;
    return found;
}

static bool has(const deaf_sockets *sockets, int fd)
{
    for (int i = 0; i < sockets->count; i++)
        if (sockets->fds[i] == fd)
            return true;
    return false;
}

int deaf_make(int port, const deaf_sockets *before)
{
    struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
    const struct sock_fprog filter = {.len = 1, .filter = &nothing};
    const deaf_sockets now = deaf_look(port);
    int count = 0;
    for (int i = 0; i < now.count; i++) {
        if (has(before, now.fds[i]))
            continue;
        if (setsockopt(now.fds[i], SOL_SOCKET, SO_ATTACH_FILTER, &filter,
                       sizeof(filter)) != 0)
            return -1;
        count++;
    }
    return count;
}
