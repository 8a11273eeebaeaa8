/* Sockets on any system; see the header. */
#include "net/socket_system.h"

#include "util/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

static bool prepare(int fd)
{
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
        return false;
#ifdef SO_NOSIGPIPE /* where send has no flag for it */
    const int on = 1;
    return setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof(on)) == 0;
#else
    return true;
#endif
}

/* Within DLK_FD, so that a fork finds it ready. */
int dlk_socket_make(int family)
{
    int fd = socket(family, SOCK_STREAM, 0);
    if (fd >= 0 && !prepare(fd)) {
        int error = errno;
        dlk_fd_end(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* POSIX knows the dissolving of an association for datagrams only. Some systems do it here as well, and
 * the others refuse. */
bool dlk_socket_reset(int fd)
{
    const struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    int result, state;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    do
        result = connect(fd, &nowhere, sizeof(nowhere));
    while (result != 0 && errno == EINTR);
    (void)pthread_setcancelstate(state, &state);
    return result == 0;
}
