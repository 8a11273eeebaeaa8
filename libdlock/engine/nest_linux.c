/* A nest of descriptors, an epoll; see the header. */
#include "engine/nest.h"

#include "util/descriptor.h"

#include <stddef.h>
#include <sys/epoll.h>

int dlk_nest_new(void)
{
    return DLK_FD(epoll_create1(EPOLL_CLOEXEC));
}

bool dlk_nest_add(int nest, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    return epoll_ctl(nest, EPOLL_CTL_ADD, fd, &event) == 0;
}

void dlk_nest_remove(int nest, int fd)
{
    (void)epoll_ctl(nest, EPOLL_CTL_DEL, fd, NULL); /* fails for what has been closed */
}
