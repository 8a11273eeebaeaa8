/* Sockets on Linux; see the header. */
#include "net/socket_system.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int dlk_socket_make(int family)
{
    return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* A close resets only if nobody else has the descriptor, and the last user may close it later:
 * dissolving the association resets now. False: not with this kind of socket. */
bool dlk_socket_reset(int fd)
{
    const struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    long result;
    /* Not by libc: there it is a cancellation point, and to ThreadSanitizer a socket made anew, while
     * another thread is about to hear of its end. */
    do
        result = syscall(SYS_connect, fd, &nowhere, sizeof(nowhere));
    while (result != 0 && errno == EINTR);
    return result == 0;
}
