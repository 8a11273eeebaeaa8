/* A proxy that loses things; see the header. Everything is done on its thread, between two polls
 * and under the mutex; the functions only set fields and wake it. Messages are small here: what a
 * socket doesn't take at once ends its connection. */
#include "harness/proxy.h"

#include "harness/harness.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct proxy_buffer {
    char *bytes;
    size_t size, room;
} proxy_buffer;

typedef struct proxy_pair {
    int client, server;
    proxy_buffer up, down; /* begun, but not whole messages */
    int64_t asked, answered;
    int64_t lost_reply; /* its number among the replies, -1 = none */
    bool cut_at_lost;   /* else only silent from there on */
    bool silent, stalled, swallowed, client_left, dead;
} proxy_pair;

/* ---- RESP ---- */

static const char *after_line(const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    return newline ? newline + 1 : NULL;
}

/* Behind the message that begins here; NULL while it isn't whole. */
static const char *after_message(const char *at, const char *end)
{
    const char *next = at < end ? after_line(at, end) : NULL;
    if (!next)
        return NULL;
    long count = atol(at + 1);
    if (*at == '$' && count >= 0)
        return end - next >= count + 2 ? next + count + 2 : NULL;
    if (*at == '*')
        for (long i = 0; i < count && next; i++)
            next = after_message(next, end);
    return next;
}

static bool is_script(const char *message, size_t size)
{
    static const char word[] = "EVAL";
    return size > 12 && memmem(message, size < 20 ? size : 20, word, 4) != NULL;
}

/* ---- Bytes ---- */

static bool add(proxy_buffer *buffer, const char *bytes, size_t size)
{
    if (buffer->size + size > buffer->room) {
        size_t room = (buffer->size + size) * 2;
        char *grown = realloc(buffer->bytes, room);
        if (!grown)
            return false;
        buffer->bytes = grown;
        buffer->room = room;
    }
    memcpy(buffer->bytes + buffer->size, bytes, size);
    buffer->size += size;
    return true;
}

static void consume(proxy_buffer *buffer, size_t size)
{
    memmove(buffer->bytes, buffer->bytes + size, buffer->size - size);
    buffer->size -= size;
}

static void pass_on(proxy_pair *pair, int fd, const char *bytes, size_t size)
{
    if (send(fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)size)
        pair->dead = true;
}

/* ---- What is said ---- */

/* True when the request shall not be forwarded. */
static bool do_deed(proxy *p, proxy_pair *pair)
{
    atomic_fetch_add(&p->deeds, 1);
    switch (p->deed) {
    case PROXY_LOSE_REQUEST:
        pair->dead = true;
        return true;
    case PROXY_CUT_BEHIND:
        pair->lost_reply = pair->asked;
        pair->cut_at_lost = true;
        shutdown(pair->client, SHUT_RDWR);
        return false;
    case PROXY_LOSE_REPLY:
        pair->lost_reply = pair->asked;
        pair->cut_at_lost = true;
        return false;
    case PROXY_EAT_REPLY:
        pair->lost_reply = pair->asked;
        return false;
    }
    return false;
}

static void take_request(proxy *p, proxy_pair *pair, const char *message, size_t size)
{
    bool lost = false;
    if (is_script(message, size)) {
        atomic_fetch_add(&p->scripts, 1);
        if (p->countdown > 0 && --p->countdown == 0)
            lost = do_deed(p, pair);
    }
    if (lost)
        return;
    pass_on(pair, pair->server, message, size);
    pair->asked++;
}

static void take_reply(proxy_pair *pair, const char *message, size_t size)
{
    if (pair->answered++ == pair->lost_reply) {
        pair->silent = true;
        pair->dead = pair->dead || pair->cut_at_lost;
    }
    if (!pair->silent && !pair->dead)
        pass_on(pair, pair->client, message, size);
}

static void take_bytes(proxy *p, proxy_pair *pair, proxy_buffer *buffer)
{
    const char *at = buffer->bytes, *end = at + buffer->size, *next;
    while (!pair->dead && (next = after_message(at, end))) {
        if (buffer == &pair->up)
            take_request(p, pair, at, (size_t)(next - at));
        else
            take_reply(pair, at, (size_t)(next - at));
        at = next;
    }
    consume(buffer, (size_t)(at - buffer->bytes));
}

static void read_from(proxy *p, proxy_pair *pair, int fd, proxy_buffer *buffer)
{
    char bytes[16384];
    ssize_t got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got <= 0) {
        if (fd == pair->client && got == 0 && !pair->swallowed) {
            /* What it had said shall be done: the server hangs up when it has read it. */
            pair->client_left = true;
            shutdown(pair->server, SHUT_WR);
        } else {
            pair->dead = true;
        }
    } else if (p->mode == PROXY_HOLE || (p->mode == PROXY_DEAF && fd == pair->server)) {
        pair->swallowed = true;
    } else if (add(buffer, bytes, (size_t)got)) {
        take_bytes(p, pair, buffer);
    } else {
        pair->dead = true;
    }
}

/* ---- Connections ---- */

static void end_pair(proxy *p, int i)
{
    proxy_pair *pair = p->pairs[i];
    struct linger at_once = {.l_onoff = 1};
    setsockopt(pair->client, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(pair->client);
    close(pair->server);
    free(pair->up.bytes);
    free(pair->down.bytes);
    free(pair);
    p->pairs[i] = NULL;
}

static int connect_to(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static void take_client(proxy *p)
{
    int client = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC);
    int server = client >= 0 ? connect_to(p->target) : -1;
    int place = 0;
    while (place < PROXY_MAX && p->pairs[place])
        place++;
    proxy_pair *pair = place < PROXY_MAX && server >= 0 ? calloc(1, sizeof(*pair)) : NULL;
    if (!pair) {
        if (client >= 0)
            close(client);
        if (server >= 0)
            close(server);
        return;
    }
    int one =
        1; /* small messages one by one: else each may wait for an acknowledgement */
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    *pair = (proxy_pair){.client = client, .server = server, .lost_reply = -1};
    p->pairs[place] = pair;
    atomic_fetch_add(&p->accepted, 1);
}

static void drop_dead(proxy *p)
{
    for (int i = 0; i < PROXY_MAX; i++)
        if (p->pairs[i] && p->pairs[i]->dead)
            end_pair(p, i);
}

/* ---- The thread ---- */

enum {
    WAKE,
    LISTENER,
    CLIENTS,
    SERVERS = CLIENTS + PROXY_MAX,
    POLLS = SERVERS + PROXY_MAX
};

static void list_polls(proxy *p, struct pollfd *polls)
{
    polls[WAKE] = (struct pollfd){.fd = p->wake, .events = POLLIN};
    polls[LISTENER] = (struct pollfd){.fd = p->listener, .events = POLLIN};
    bool late = p->mode == PROXY_LATE;
    for (int i = 0; i < PROXY_MAX; i++) {
        const proxy_pair *pair = p->pairs[i];
        bool listens = pair && !pair->stalled;
        polls[CLIENTS + i] = (struct pollfd){
            .fd = listens && !pair->client_left ? pair->client : -1, .events = POLLIN};
        polls[SERVERS + i] =
            (struct pollfd){.fd = listens && !late ? pair->server : -1, .events = POLLIN};
    }
}

static void act(proxy *p, const struct pollfd *polls)
{
    uint64_t count;
    if (polls[WAKE].revents && read(p->wake, &count, sizeof(count)) < 0)
        return;
    for (int i = 0; i < PROXY_MAX; i++) {
        proxy_pair *pair = p->pairs[i];
        /* Stalled or replaced since the list was made: its turn comes with the next one. */
        if (!pair || pair->stalled)
            continue;
        if (polls[CLIENTS + i].revents && polls[CLIENTS + i].fd == pair->client)
            read_from(p, pair, pair->client, &pair->up);
        if (p->mode != PROXY_LATE && polls[SERVERS + i].revents &&
            polls[SERVERS + i].fd == pair->server)
            read_from(p, pair, pair->server, &pair->down);
    }
    drop_dead(p);
    if (polls[LISTENER].revents)
        take_client(p);
}

static void *run(void *arg)
{
    proxy *p = arg;
    struct pollfd polls[POLLS];
    pthread_mutex_lock(&p->mutex);
    while (!p->ending) {
        list_polls(p, polls);
        pthread_mutex_unlock(&p->mutex);
        (void)poll(polls, POLLS, -1); /* EINTR finds nothing and polls again */
        pthread_mutex_lock(&p->mutex);
        act(p, polls);
    }
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

static void wake_up(proxy *p)
{
    uint64_t one = 1;
    (void)!write(p->wake, &one, sizeof(one)); /* fails only when it is readable already */
}

bool proxy_start(proxy *p, int target_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    memset(p, 0, sizeof(*p));
    p->target = target_port;
    pthread_mutex_init(&p->mutex, NULL);
    p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool fine = p->wake >= 0 && p->listener >= 0 &&
                bind(p->listener, (struct sockaddr *)&address, size) == 0 &&
                listen(p->listener, 64) == 0 &&
                getsockname(p->listener, (struct sockaddr *)&address, &size) == 0;
    p->port = ntohs(address.sin_port);
    fine = fine && pthread_create(&p->thread, NULL, run, p) == 0;
    return harness_check(__FILE__, __LINE__, fine, "a proxy");
}

void proxy_stop(proxy *p)
{
    pthread_mutex_lock(&p->mutex);
    p->ending = true;
    pthread_mutex_unlock(&p->mutex);
    wake_up(p);
    pthread_join(p->thread, NULL);
    for (int i = 0; i < PROXY_MAX; i++)
        if (p->pairs[i])
            end_pair(p, i);
    close(p->listener);
    close(p->wake);
    pthread_mutex_destroy(&p->mutex);
}

void proxy_set(proxy *p, proxy_mode mode)
{
    pthread_mutex_lock(&p->mutex);
    p->mode = mode;
    for (int i = 0; i < PROXY_MAX; i++) {
        proxy_pair *pair = p->pairs[i];
        if (!pair)
            continue;
        pair->stalled = mode == PROXY_STALL;
        pair->dead = pair->dead || (mode == PROXY_PASS && pair->swallowed);
    }
    drop_dead(p);
    pthread_mutex_unlock(&p->mutex);
    wake_up(p);
}

void proxy_cut(proxy *p)
{
    pthread_mutex_lock(&p->mutex);
    for (int i = 0; i < PROXY_MAX; i++)
        if (p->pairs[i])
            end_pair(p, i);
    pthread_mutex_unlock(&p->mutex);
    wake_up(p);
}

void proxy_plan(proxy *p, proxy_deed deed, int number)
{
    pthread_mutex_lock(&p->mutex);
    p->deed = deed;
    p->countdown = number;
    pthread_mutex_unlock(&p->mutex);
}
