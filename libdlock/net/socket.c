/* How our sockets begin and end; see the header. */
#include "net/socket.h"

#include "util/descriptor.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Fails for no TCP socket; those of Unix don't need it: they queue at the receiver. */
static void reset_at_close(int fd, bool on)
{
    const struct linger linger = {.l_onoff = on};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
}

int dlk_socket_new(int family, int type, int protocol)
{
    int fd = DLK_FD(socket(family, type | SOCK_CLOEXEC, protocol));
    if (fd >= 0)
        reset_at_close(fd, true);
    return fd;
}

/* A close resets only if nobody else has the descriptor, and the last user may close it later:
 * dissolving the association resets now. False: not with this kind of socket. */
static bool reset_now(int fd)
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

void dlk_socket_end(int fd, dlk_ending ending)
{
    if (ending == DLK_END_RESET && reset_now(fd))
        return;
    if (ending == DLK_END_ORDERLY)
        reset_at_close(fd, false);
    /* Wakes who sleeps on it. Fails when the peer was faster. */
    (void)shutdown(fd, SHUT_RDWR);
}
