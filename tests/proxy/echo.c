/* The echo server; see the header. */
#include "proxy/echo.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

static void take(echo *e)
{
    int fd = accept4(e->listener, NULL, NULL, SOCK_CLOEXEC);
    for (int i = 0; i < ECHO_MAX && fd >= 0; i++)
        if (e->fds[i] < 0) {
            e->fds[i] = fd;
            e->ended[i] = false;
            atomic_fetch_add(&e->connections, 1);
            atomic_fetch_add(&e->open, 1);
            return;
        }
    if (fd >= 0)
        close(fd);
}

static void drop(echo *e, int i)
{
    close(e->fds[i]);
    e->fds[i] = -1;
    atomic_fetch_sub(&e->open, 1);
}

static void hear(echo *e, int i)
{
    char bytes[65536];
    ssize_t got = recv(e->fds[i], bytes, sizeof(bytes), 0);
    if (got > 0) {
        atomic_fetch_add(&e->heard, got);
        (void)!send(e->fds[i], bytes, (size_t)got, MSG_NOSIGNAL); /* it may be gone */
        return;
    }
    atomic_fetch_add(got == 0 ? &e->hang_ups : &e->resets, 1);
    if (got == 0 && atomic_load(&e->keeps_open))
        e->ended[i] = true;
    else
        drop(e, i);
}

static void shout(echo *e)
{
    const char *text = atomic_exchange(&e->shout, NULL);
    for (int i = 0; i < ECHO_MAX && text; i++)
        if (e->fds[i] >= 0)
            (void)!send(e->fds[i], text, strlen(text), MSG_NOSIGNAL); /* may be gone */
}

static void *run(void *arg)
{
    echo *e = arg;
    struct pollfd polls[2 + ECHO_MAX];
    uint64_t count;
    while (!atomic_load(&e->ending)) {
        polls[0] = (struct pollfd){.fd = e->wake, .events = POLLIN};
        polls[1] = (struct pollfd){.fd = e->listener, .events = POLLIN};
        for (int i = 0; i < ECHO_MAX; i++)
            polls[2 + i] =
                (struct pollfd){.fd = e->ended[i] ? -1 : e->fds[i], .events = POLLIN};
        (void)poll(polls, 2 + ECHO_MAX, -1);
        if (polls[0].revents)
            (void)!read(e->wake, &count, sizeof(count)); /* only to make it quiet */
        shout(e);
        for (int i = 0; i < ECHO_MAX; i++)
            if (polls[2 + i].revents)
                hear(e, i);
        if (polls[1].revents)
            take(e);
    }
    return NULL;
}

static void wake_up(echo *e)
{
    uint64_t one = 1;
    (void)!write(e->wake, &one, sizeof(one)); /* fails only when it is readable already */
}

void echo_shout(echo *e, const char *text)
{
    atomic_store(&e->shout, text);
    wake_up(e);
}

bool echo_start(echo *e)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    memset(e, 0, sizeof(*e));
    for (int i = 0; i < ECHO_MAX; i++)
        e->fds[i] = -1;
    e->wake = eventfd(0, EFD_CLOEXEC);
    e->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool fine = e->wake >= 0 && e->listener >= 0 &&
                bind(e->listener, (struct sockaddr *)&at, size) == 0 &&
                listen(e->listener, ECHO_MAX) == 0 &&
                getsockname(e->listener, (struct sockaddr *)&at, &size) == 0;
    e->port = ntohs(at.sin_port);
    return fine && pthread_create(&e->thread, NULL, run, e) == 0;
}

void echo_stop(echo *e)
{
    atomic_store(&e->ending, true);
    wake_up(e);
    pthread_join(e->thread, NULL);
    for (int i = 0; i < ECHO_MAX; i++)
        if (e->fds[i] >= 0)
            drop(e, i);
    close(e->listener);
    close(e->wake);
}
