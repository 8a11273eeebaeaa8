/* The descriptors, and the system calls for them; see the header. */
#include "wire.h"

#include "strand.h"

#include "net/socket.h"
#include "util/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FIRST 5000
#define COUNT 20
#define ROOM  2048

int __wrap_eventfd(unsigned int count, int flags);
int __wrap_close(int fd);
int __real_close(int fd);
long __wrap_syscall(long number, ...);
ssize_t __wrap_send(int fd, const void *data, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t room, int flags);
void __wrap_dlk_socket_end(int fd, dlk_ending ending);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t size);
int __wrap_ppoll(struct pollfd *polls, nfds_t count, const struct timespec *timeout,
                 const sigset_t *mask);
int __wrap_epoll_create1(int flags);
int __wrap_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event);

typedef struct wire {
    enum wire_kind { NONE, COUNTER, SOCKET, EPOLL } kind;
    uint64_t changes, told;
    uint64_t count;   /* a counter's */
    uint32_t watched; /* an epoll's: a bit for each */
    bool cut;
    size_t size; /* of what lies in a socket */
    char in[ROOM];
} wire;

static wire wires[COUNT];
static char sleepers; /* all who poll sleep here, with a bit for each descriptor */

void wires_reset(void)
{
    for (int i = 0; i < COUNT; i++)
        wires[i].kind = NONE;
}

bool is_wire(int fd)
{
    return fd >= FIRST && fd < FIRST + COUNT;
}

static wire *of(int fd)
{
    if (!is_wire(fd) || wires[fd - FIRST].kind == NONE)
        explore_fail("descriptor %d isn't open", fd);
    return &wires[fd - FIRST];
}

static uint32_t bit_of(int fd)
{
    return UINT32_C(1) << (fd - FIRST);
}

static int make(enum wire_kind kind)
{
    for (int i = 0; i < COUNT; i++)
        if (wires[i].kind == NONE) {
            wires[i].kind = kind;
            wires[i].changes = wires[i].told = wires[i].count = 0;
            wires[i].watched = 0;
            wires[i].size = 0;
            wires[i].cut = false;
            return FIRST + i;
        }
    explore_fail("too many descriptors");
}

static bool is_readable(int fd)
{
    const wire *one = of(fd);
    if (one->kind == COUNTER)
        return one->count > 0;
    if (one->kind == SOCKET)
        return one->size > 0 || one->cut;
    for (int i = 0; i < COUNT; i++)
        if (one->watched & UINT32_C(1) << i && is_readable(FIRST + i))
            return true;
    return false;
}

/* Whoever polls it, or an epoll that has it. */
static void wake(int fd)
{
    uint32_t bits = bit_of(fd);
    of(fd)->changes++;
    for (int i = 0; i < COUNT; i++)
        if (wires[i].kind == EPOLL && wires[i].watched & bit_of(fd)) {
            bits |= UINT32_C(1) << i;
            wires[i].changes++;
        }
    strand_wake(&sleepers, STRANDS, bits);
}

void wire_await(int fd)
{
    strand_point("await");
    while (!is_readable(fd))
        strand_sleep(&sleepers, bit_of(fd), DLK_NEVER, "await");
}

void wire_await_change(int fd)
{
    wire *one = of(fd);
    strand_point("await");
    while (one->changes == one->told)
        strand_sleep(&sleepers, bit_of(fd), DLK_NEVER, "await");
    one->told = one->changes;
}

/* ---- polling ---- */

static int look(struct pollfd *polls, nfds_t count)
{
    int ready = 0;
    for (nfds_t i = 0; i < count; i++) {
        polls[i].revents = 0;
        if (polls[i].fd < 0)
            continue;
        if (polls[i].events & POLLIN && is_readable(polls[i].fd))
            polls[i].revents |= POLLIN;
        if (polls[i].events & POLLOUT)
            polls[i].revents |= POLLOUT;
        ready += polls[i].revents != 0;
    }
    return ready;
}

int __wrap_ppoll(struct pollfd *polls, nfds_t count, const struct timespec *timeout,
                 const sigset_t *mask)
{
    (void)mask;
    strand_point("poll");
    int64_t until = DLK_NEVER;
    if (timeout)
        until = strands_now() + timeout->tv_sec * DLK_NS_PER_SEC + timeout->tv_nsec;
    uint32_t bits = 0;
    for (nfds_t i = 0; i < count; i++)
        bits |= polls[i].fd < 0 ? 0 : bit_of(polls[i].fd);
    for (;;) {
        int ready = look(polls, count);
        if (ready > 0 || strands_now() >= until)
            return ready;
        strand_sleep(&sleepers, bits, until, "poll");
    }
}

int __wrap_epoll_create1(int flags)
{
    (void)flags;
    return make(EPOLL);
}

int __wrap_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event)
{
    (void)event;
    wire *one = of(epoll);
    if (what == EPOLL_CTL_ADD)
        one->watched |= bit_of(fd);
    else
        one->watched &= ~bit_of(fd);
    if (what == EPOLL_CTL_ADD && is_readable(fd))
        wake(fd);
    return 0;
}

/* ---- eventfds ---- */

int __wrap_eventfd(unsigned int count, int flags)
{
    (void)count;
    (void)flags;
    return make(COUNTER);
}

int __wrap_close(int fd)
{
    if (!is_wire(fd))
        return __real_close(fd);
    of(fd)->kind = NONE;
    for (int i = 0; i < COUNT; i++)
        wires[i].watched &= ~bit_of(fd);
    return 0;
}

/* The library reads, writes and closes eventfds so. */
long __wrap_syscall(long number, ...)
{
    va_list args;
    va_start(args, number);
    int fd = va_arg(args, int);
    va_end(args);
    if (number == SYS_close)
        return __wrap_close(fd);
    if ((number != SYS_read && number != SYS_write) || !is_wire(fd))
        explore_fail("system call %ld isn't taken over", number);
    strand_point(number == SYS_write ? "write" : "read");
    wire *one = of(fd);
    if (number == SYS_write) {
        one->count++;
        strand_act();
        wake(fd);
        return sizeof(uint64_t);
    }
    if (one->count > 0) {
        one->count = 0;
        strand_act();
        return sizeof(uint64_t);
    }
    errno = EAGAIN;
    return -1;
}

/* ---- sockets ---- */

int socket_new(void)
{
    return make(SOCKET);
}

void socket_put(int fd, const void *data, size_t size)
{
    wire *one = of(fd);
    if (one->size + size > ROOM)
        explore_fail("nobody reads what the service answers");
    memcpy(one->in + one->size, data, size);
    one->size += size;
    wake(fd);
}

void socket_cut(int fd)
{
    of(fd)->cut = true;
    strand_act();
    wake(fd);
}

bool socket_is_open(int fd)
{
    return is_wire(fd) && wires[fd - FIRST].kind == SOCKET && !wires[fd - FIRST].cut;
}

bool socket_is_full(int fd)
{
    return is_wire(fd) && wires[fd - FIRST].kind == SOCKET && is_readable(fd);
}

ssize_t __wrap_send(int fd, const void *data, size_t size, int flags)
{
    (void)flags;
    strand_point("send");
    if (of(fd)->cut) {
        errno = EPIPE;
        return -1;
    }
    service_hear(fd, data, size);
    strand_act();
    return (ssize_t)size;
}

ssize_t __wrap_recv(int fd, void *to, size_t room, int flags)
{
    (void)flags;
    wire *one = of(fd);
    size_t size = one->size < room ? one->size : room;
    if (size == 0 && one->cut)
        return 0;
    if (size == 0) {
        errno = EAGAIN;
        return -1;
    }
    memcpy(to, one->in, size);
    memmove(one->in, one->in + size, one->size - size);
    one->size -= size;
    strand_act();
    return (ssize_t)size;
}

void __wrap_dlk_socket_end(int fd, dlk_ending ending)
{
    (void)ending; /* what was written has arrived */
    socket_cut(fd);
}

/* There is nothing to be set. */
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
    (void)fd;
    (void)level;
    (void)name;
    (void)value;
    (void)size;
    errno = EOPNOTSUPP;
    return -1;
}
