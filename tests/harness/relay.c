/* A relay; see the header. One thread carries all its connections. */
#include "harness/relay.h"

#include "harness/harness.h"
#include "harness/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PAIRS = 256 };

typedef struct pair {
    int client, server; /* -1: ended */
    bool held, was_held;
    bool others; /* others': never held, not waited for */
} pair;

struct relay {
    pthread_mutex_t mutex; /* guards all but the listener, the bell and the thread */
    pair pairs[PAIRS];
    int count, to;
    relay_held held;
    bool ending;
    int listener, port, bell;
    pthread_t thread;
};

static void take_one(relay *r)
{
    int client = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    int at = 0;
    while (at < r->count && (r->pairs[at].client >= 0 || r->pairs[at].server >= 0))
        at++;
    int server = client >= 0 && at < PAIRS ? server_dial(r->to, 60) : -1;
    if (server < 0) {
        if (client >= 0)
            close(client);
        return;
    }
    bool held = r->held == RELAY_ALL;
    r->pairs[at] =
        (pair){.client = client, .server = server, .held = held, .was_held = held};
    if (at == r->count)
        r->count++;
}

static void end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static bool say_all(int fd, const char *data, ssize_t size)
{
    while (size > 0) {
        ssize_t put = send(fd, data, (size_t)size, MSG_NOSIGNAL);
        struct pollfd room = {.fd = fd, .events = POLLOUT};
        if (put < 0 && errno == EAGAIN)
            (void)poll(&room, 1, 1000);
        else if (put < 0)
            return false;
        data += put > 0 ? put : 0;
        size -= put > 0 ? put : 0;
    }
    return true;
}

/* What the client said; at its end, however that came, the server hears of an end. */
static void forward(pair *p)
{
    char data[4096];
    ssize_t got = recv(p->client, data, sizeof(data), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got > 0 && p->server >= 0)
        (void)say_all(p->server, data, got);
    if (got > 0)
        return;
    if (p->server >= 0)
        (void)shutdown(p->server, SHUT_WR);
    end(&p->client);
}

/* What the server said, or that it hung up. What a client that is gone would have heard is lost. */
static void bring_back(pair *p)
{
    char data[4096];
    ssize_t got = recv(p->server, data, sizeof(data), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got > 0) {
        if (p->client >= 0 && !p->was_held)
            (void)say_all(p->client, data, got);
        return;
    }
    end(&p->server);
    if (!p->held)
        end(&p->client);
}

static void *carry(void *arg)
{
    relay *r = arg;
    struct pollfd polls[2 + 2 * PAIRS];
    (void)pthread_mutex_lock(&r->mutex);
    while (!r->ending) {
        int count = r->count;
        polls[0] = (struct pollfd){.fd = r->bell, .events = POLLIN};
        polls[1] = (struct pollfd){.fd = r->listener, .events = POLLIN};
        for (int i = 0; i < count; i++) {
            const pair *p = &r->pairs[i];
            polls[2 + 2 * i] =
                (struct pollfd){.fd = p->held ? -1 : p->client, .events = POLLIN};
            polls[3 + 2 * i] = (struct pollfd){.fd = p->server, .events = POLLIN};
        }
        (void)pthread_mutex_unlock(&r->mutex);
        (void)poll(polls, 2 + 2 * (nfds_t)count, -1);
        (void)pthread_mutex_lock(&r->mutex);
        eventfd_t rung;
        if (polls[0].revents)
            (void)eventfd_read(r->bell, &rung);
        for (int i = 0; i < count; i++) {
            pair *p = &r->pairs[i];
            if (polls[2 + 2 * i].revents && !p->held && p->client >= 0)
                forward(p);
            if (polls[3 + 2 * i].revents && p->server >= 0)
                bring_back(p);
        }
        if (polls[1].revents)
            take_one(r);
    }
    (void)pthread_mutex_unlock(&r->mutex);
    return NULL;
}

static bool begin(relay *r)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof(at);
    int least = 1;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    r->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* Before anybody connects: the connections have it from the listener. */
    if (r->bell < 0 || r->listener < 0 ||
        setsockopt(r->listener, SOL_SOCKET, SO_RCVBUF, &least, sizeof(least)) != 0 ||
        bind(r->listener, (struct sockaddr *)&at, sizeof(at)) != 0 ||
        listen(r->listener, 64) != 0 ||
        getsockname(r->listener, (struct sockaddr *)&at, &size) != 0)
        return false;
    r->port = ntohs(at.sin_port);
    return pthread_create(&r->thread, NULL, carry, r) == 0;
}

relay *relay_start(int to)
{
    relay *r = calloc(1, sizeof(*r));
    if (!r)
        return NULL;
    r->to = to;
    (void)pthread_mutex_init(&r->mutex, NULL);
    if (harness_check(__FILE__, __LINE__, begin(r), "a relay"))
        return r;
    free(r);
    return NULL;
}

int relay_port(const relay *r)
{
    return r->port;
}

void relay_hold(relay *r, relay_held held)
{
    (void)pthread_mutex_lock(&r->mutex);
    r->held = held;
    for (int i = 0; i < r->count; i++) {
        pair *p = &r->pairs[i];
        p->held = held != RELAY_NONE && !p->others;
        p->was_held |= p->held;
    }
    (void)eventfd_write(r->bell, 1);
    (void)pthread_mutex_unlock(&r->mutex);
}

void relay_spare(relay *r)
{
    (void)pthread_mutex_lock(&r->mutex);
    for (int i = 0; i < r->count; i++)
        r->pairs[i].others = true;
    (void)pthread_mutex_unlock(&r->mutex);
}

bool relay_is_settled(relay *r)
{
    (void)pthread_mutex_lock(&r->mutex);
    bool settled = true;
    for (int i = 0; i < r->count; i++)
        settled = settled && (r->pairs[i].others ||
                              (r->pairs[i].client < 0 && r->pairs[i].server < 0));
    (void)pthread_mutex_unlock(&r->mutex);
    return settled;
}

void relay_stop(relay *r)
{
    if (!r)
        return;
    (void)pthread_mutex_lock(&r->mutex);
    r->ending = true;
    (void)eventfd_write(r->bell, 1);
    (void)pthread_mutex_unlock(&r->mutex);
    (void)pthread_join(r->thread, NULL);
    for (int i = 0; i < r->count; i++) {
        end(&r->pairs[i].client);
        end(&r->pairs[i].server);
    }
    end(&r->listener);
    end(&r->bell);
    (void)pthread_mutex_destroy(&r->mutex);
    free(r);
}
