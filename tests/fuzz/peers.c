/* Servers at the other ends of socket pairs; see the header. The linker puts our connect, our clock and
 * our name service into the place of the real ones (meson.build). */
#include "peers.h"

#include "contract/sleep.h"
#include "util/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define NAMED 128

struct peers_world peers;

static struct {
    dlk_resp_reader *readers[PEERS]; /* made once */
    struct {
        char host[64];
        long port;
    } named[NAMED];
    int named_count;
} world;

/* ---- what the client finds in the place of a network ---- */

int __wrap_connect(int fd, const struct sockaddr *to, socklen_t size);
int64_t __wrap_dlk_clock_now(void);
void *__wrap_dlk_lookup_start(const char *host, uint16_t port);

void peers_name(const char *host, long port)
{
    struct in6_addr six;
    if (world.named_count == NAMED) {
        peers.shifted = true; /* nobody could tell any more */
        return;
    }
    char *text = world.named[world.named_count].host;
    world.named[world.named_count++].port = port;
    (void)snprintf(text, sizeof(world.named[0].host), "%s", host);
    if (inet_pton(AF_INET6, text, &six) == 1) /* in its only form */
        (void)inet_ntop(AF_INET6, &six, text, sizeof(world.named[0].host));
}

static bool is_named(const char *host, long port)
{
    for (int i = 0; i < world.named_count; i++)
        if (world.named[i].port == port && strcmp(world.named[i].host, host) == 0)
            return true;
    return false;
}

static peer *free_peer(void)
{
    for (int i = 0; i < PEERS; i++)
        if (peers.peers[i].fd < 0)
            return &peers.peers[i];
    return NULL;
}

int __wrap_connect(int fd, const struct sockaddr *to, socklen_t size)
{
    const struct sockaddr_in *in = (const void *)to;
    const struct sockaddr_in6 *in6 = (const void *)to;
    bool six = to->sa_family == AF_INET6;
    peer *at = free_peer();
    int pair[2];
    (void)size;
    if (!at || peers.refuses) {
        errno = ECONNREFUSED;
        return -1;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0 ||
        dup3(pair[0], fd, O_CLOEXEC) < 0)
        abort();
    (void)close(pair[0]); /* it has another number now */
    at->fd = pair[1];
    at->port = ntohs(six ? in6->sin6_port : in->sin_port);
    const void *address = six ? (const void *)&in6->sin6_addr : &in->sin_addr;
    if (!inet_ntop(to->sa_family, address, at->host, sizeof(at->host)))
        abort();
    if (!dlk_resp_reset(at->reader))
        abort();
    FUZZ_CHECK(peers.shifted || is_named(at->host, at->port), "nobody has named %s:%u",
               at->host, at->port);
    return 0;
}

int64_t __wrap_dlk_clock_now(void)
{
    return client.now;
}

/* Nobody knows names here: as without a thread to ask with. */
void *__wrap_dlk_lookup_start(const char *host, uint16_t port)
{
    (void)host, (void)port;
    return NULL;
}

void target_answered(const dlk_ask *ask)
{
    FUZZ_CHECK(ask->verb != DLK_ACQUIRE || ask->reply != DLK_YES || peers.granted > 0,
               "nobody has granted it");
}

/* ---- what a Redis says ---- */

void peers_put(dlk_buf *out, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (size < 0 || (size_t)size >= sizeof(text) ||
        !dlk_buf_append(out, text, (size_t)size))
        abort();
}

fuzz_bytes peers_line(void)
{
    fuzz_bytes line = fuzz_take_until(&client.bytes, '\n');
    line.left = line.left < 200 ? line.left : 200;
    return line;
}

static void say_script(const dlk_resp *command, uint8_t how, dlk_buf *out)
{
    static const char *const answers[] = {"$16\r\n1700000000000001\r\n",
                                          ":1\r\n",
                                          ":0\r\n",
                                          ":30000\r\n",
                                          "$-1\r\n",
                                          "-NOSCRIPT x\r\n",
                                          "-WRONGTYPE x\r\n",
                                          "-READONLY x\r\n"};
    bool probes = command->count > 2 && strcmp(command->items[2].text, "0") == 0;
    if (probes)
        how = 0;
    peers.granted += !probes && how % 8 == 0;
    peers_put(out, "%s", probes ? "*2\r\n:1700000000\r\n:5\r\n" : answers[how % 8]);
}

static void say_channels(const dlk_resp *command, dlk_buf *out)
{
    for (size_t i = 1; i < command->count; i++)
        peers_put(out, "*3\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n:1\r\n", command->items[0].size,
                  command->items[0].text, command->items[i].size, command->items[i].text);
}

static void say_usual(const dlk_resp *command, uint8_t how, dlk_buf *out)
{
    const char *word = command->items[0].text;
    if (strncmp(word, "EVAL", 4) == 0)
        say_script(command, how, out);
    else if (strstr(word, "SUBSCRIBE"))
        say_channels(command, out);
    else if (strcmp(word, "INFO") == 0)
        peers_put(out, "$13\r\nmaxmemory:0\r\n\r\n");
    else if (strcmp(word, "ROLE") == 0)
        peers_put(out, "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n");
    else if (strcmp(word, "PUBSUB") == 0)
        peers_put(out, "*0\r\n");
    else if (strcmp(word, "WAIT") == 0)
        peers_put(out, ":1\r\n");
    else
        peers_put(out, "+OK\r\n");
}

static void hang_up(peer *of)
{
    (void)close(of->fd); /* ours, and nothing in it matters any more */
    of->fd = -1;
}

void peers_say(peer *to, const dlk_buf *what)
{
    if (to->fd >= 0)
        (void)!send(to->fd, dlk_buf_head(what), dlk_buf_size(what),
                    MSG_DONTWAIT | MSG_NOSIGNAL); /* who has gone hears nothing */
}

static void answer(peer *of, const dlk_resp *command)
{
    const char *word = command->items[0].text;
    bool script = strncmp(word, "EVAL", 4) == 0 && command->count > 2 &&
                  strcmp(command->items[2].text, "0") != 0;
    bool special = script || strcmp(word, "SENTINEL") == 0 || strcmp(word, "ROLE") == 0 ||
                   strcmp(word, "CLUSTER") == 0;
    uint8_t how = special || peers.odd ? fuzz_byte(&client.bytes) : 0;
    dlk_buf out = {0};
    peers.shifted |= how >= 0xe8;
    if (how == 0xff) {
        hang_up(of);
    } else if (how >= 0xf0) {
        peers.granted += script; /* it may say anything */
        replies_make(&out, &client.bytes, 1);
    } else if (how < 0xe8 && !target_answers(of, command, how, &out)) {
        say_usual(command, how, &out);
    }
    peers_say(of, &out);
    dlk_buf_free(&out);
}

static void serve(peer *of)
{
    static char data[16384]; /* not to be cleared each time */
    const dlk_resp *command;
    dlk_resp_got got;
    ssize_t size;
    while (of->fd >= 0 && (size = recv(of->fd, data, sizeof(data), MSG_DONTWAIT)) >= 0) {
        if (size == 0) {
            hang_up(of);
            return;
        }
        FUZZ_CHECK(dlk_resp_feed(of->reader, data, (size_t)size), "too much");
        while ((got = dlk_resp_next(of->reader, &command)) == DLK_RESP_ONE) {
            FUZZ_CHECK(command->type == DLK_RESP_ARRAY && command->count > 0,
                       "no command");
            for (size_t i = 0; i < command->count; i++)
                FUZZ_CHECK(command->items[i].type == DLK_RESP_TEXT, "no argument");
            if (of->fd >= 0)
                answer(of, command);
        }
        FUZZ_CHECK(got == DLK_RESP_MORE, "what the client writes isn't RESP");
    }
}

/* ---- the client's driver ---- */

peer *peers_some(uint8_t which)
{
    for (int i = 0; i < PEERS; i++) {
        peer *at = &peers.peers[(which + i) % PEERS];
        if (at->fd >= 0)
            return at;
    }
    return NULL;
}

void peers_round(void)
{
    const dlk_backend_type *type = client.backend->type;
    for (int i = 0; i < PEERS; i++)
        serve(&peers.peers[i]);
    (void)type->tick(client.backend, client.now);
    static dlk_polls polls;
    dlk_polls_begin(&polls, client.now);
    type->arm(client.backend, &polls);
    dlk_sleep_on(client.backend, &polls, dlk_kicks_seen(client_kicks()), false);
    type->process(client.backend, client.now);
}

static void pass(int64_t ms)
{
    client.now += ms * DLK_NS_PER_MS;
    peers_round();
}

static void say_something(peer *to, uint8_t raw)
{
    dlk_buf out = {0};
    fuzz_bytes some = fuzz_take(&client.bytes, fuzz_byte(&client.bytes) % 64);
    if (!raw)
        replies_make(&out, &some, 4);
    else if (some.left && !dlk_buf_append(&out, some.at, some.left))
        abort();
    peers.granted++; /* what comes unasked may be taken for an answer, too */
    peers.shifted = true;
    peers_say(to, &out);
    dlk_buf_free(&out);
}

void peers_go(void (*act)(uint8_t how))
{
    for (int steps = 0; client.bytes.left > 0 && steps < 64; steps++) {
        uint8_t what = fuzz_byte(&client.bytes), how = what >> 3;
        peer *some = peers_some(how);
        switch (what % 8) {
        case 3:
            pass(INT64_C(1) << how % 16);
            break;
        case 4:
            act(how);
            break;
        case 5:
            if (some)
                say_something(some, how & 1);
            break;
        case 6:
            if (some)
                hang_up(some);
            break;
        case 7:
            peers.refuses = how == 31;
            if (how < 31)
                client_ask(how, fuzz_byte(&client.bytes));
            break;
        default:
            peers_round();
            break;
        }
        peers_round();
    }
}

void peers_settle(void)
{
    client.bytes.left = 0;
    peers.odd = peers.refuses = false;
    for (int i = 0; i < 200 && !(client.up && i >= 3); i++)
        pass(500);
    FUZZ_CHECK(client.up, "all answer as they should, and the link is down");
}

/* ---- from the beginning to the end ---- */

void peers_open(const char *uri, fuzz_bytes bytes)
{
    static const client_key keys[CLIENT_KEYS] = {
        {"a", DLOCK_MUTEX}, {"b", DLOCK_MUTEX}, {"{b}", DLOCK_WRITE}};
    peers = (struct peers_world){0};
    for (int i = 0; i < PEERS; i++) {
        if (!world.readers[i] && !(world.readers[i] = dlk_resp_new()))
            abort();
        peers.peers[i] = (peer){.fd = -1, .reader = world.readers[i]};
    }
    world.named_count = 0;
    dlk_uri *seeds = NULL;
    if (dlk_uri_parse(uri, &seeds, NULL) != DLOCK_OK)
        abort();
    for (size_t i = 0; i < seeds->host_count; i++)
        peers_name(seeds->hosts[i].host, seeds->hosts[i].port);
    dlk_uri_free(seeds);
    client_open(uri, keys, bytes);
}

void peers_close(void)
{
    client_close();
    for (int i = 0; i < PEERS; i++)
        if (peers.peers[i].fd >= 0)
            hang_up(&peers.peers[i]);
}
