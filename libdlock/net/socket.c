/* How our sockets begin and end; see the header. */
#include "net/socket.h"

#include "net/socket_system.h"
#include "util/descriptor.h"

#include <stdbool.h>
#include <sys/socket.h>

/* Fails for no TCP socket; those of Unix don't need it: they queue at the receiver. */
static void reset_at_close(int fd, bool on)
{
    const struct linger linger = {.l_onoff = on};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
}

int dlk_socket_new(int family)
{
    int fd = DLK_FD(dlk_socket_make(family));
    if (fd >= 0)
        reset_at_close(fd, true);
    return fd;
}

void dlk_socket_end(int fd, dlk_ending ending)
{
    if (ending == DLK_END_RESET && dlk_socket_reset(fd))
        return;
    if (ending == DLK_END_ORDERLY)
        reset_at_close(fd, false);
    /* Wakes who sleeps on it. Fails when the peer was faster. */
    (void)shutdown(fd, SHUT_RDWR);
}
