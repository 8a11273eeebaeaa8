/* Servers at the other ends of socket pairs; see the header. The linker puts our connect, our clock and
 * our name service into the place of the real ones (meson.build). */
#include "peers.h"

#include "backends/registry.h"
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

#define BEGIN INT64_C(1000000000000)

struct peers_world peers;

static struct {
    dlk_kicks kicks;
    dlk_rand rand;
    pthread_mutex_t mutex;
    dlk_settings *settings;
    dlk_key keys[PEER_KEYS];
    dlk_resp_reader *readers[PEERS]; /* made once */
    struct {
        dlk_ask ask;
        int answers;
    } asks[PEER_ASKS];
    int asked;
} world = {.kicks = {.fd = -1}, .mutex = PTHREAD_MUTEX_INITIALIZER};

/* ---- what the client finds in the place of a network ---- */

int __wrap_connect(int fd, const struct sockaddr *to, socklen_t size);
int64_t __wrap_dlk_clock_now(void);
void *__wrap_dlk_lookup_start(const char *host, uint16_t port);

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
    target_connected(at);
    return 0;
}

int64_t __wrap_dlk_clock_now(void)
{
    return peers.now;
}

/* Nobody knows names here: as without a thread to ask with. */
void *__wrap_dlk_lookup_start(const char *host, uint16_t port)
{
    (void)host, (void)port;
    return NULL;
}

/* ---- what the client tells ---- */

static void on_answered(dlk_host *host, dlk_ask *ask)
{
    (void)host;
    size_t i = 0;
    while (i < PEER_ASKS && &world.asks[i].ask != ask)
        i++;
    FUZZ_CHECK(i < PEER_ASKS, "an ask that isn't ours");
    FUZZ_CHECK(++world.asks[i].answers == 1 && ask->reply != DLK_PENDING,
               "a request is answered %d times, %d", world.asks[i].answers, ask->reply);
    FUZZ_CHECK((ask->verb != DLK_ACQUIRE || ask->reply != DLK_YES) || peers.granted > 0,
               "nobody has granted it");
}

static void on_notified(dlk_host *host, dlk_key *key)
{
    (void)host, (void)key;
}

static void on_revoked(dlk_host *host, uint64_t number)
{
    (void)host, (void)number;
}

static void on_link(dlk_host *host, bool up, const dlock_error *error)
{
    (void)host;
    peers.up = up;
    FUZZ_CHECK(up == !error && (up || dlock_error_text(error)[0]),
               "it is up, or there is a reason");
    if (up)
        target_up();
}

__attribute__((format(printf, 3, 4))) static void
on_log(dlk_host *host, dlock_level level, const char *format, ...)
{
    char text[512];
    va_list args;
    (void)host, (void)level;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args); /* that it can be formatted */
    va_end(args);
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
    fuzz_bytes line = fuzz_take_until(&peers.bytes, '\n');
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
    uint8_t how = special || peers.odd ? fuzz_byte(&peers.bytes) : 0;
    dlk_buf out = {0};
    peers.shifted |= how >= 0xe8;
    if (how == 0xff) {
        hang_up(of);
    } else if (how >= 0xf0) {
        peers.granted += script; /* it may say anything */
        replies_make(&out, &peers.bytes, 1);
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
    const dlk_backend_type *type = peers.backend->type;
    for (int i = 0; i < PEERS; i++)
        serve(&peers.peers[i]);
    (void)type->tick(peers.backend, peers.now);
    type->arm(peers.backend);
    type->sleep(peers.backend, peers.now, dlk_kicks_seen(&world.kicks));
    type->process(peers.backend, peers.now);
}

void peers_ask(dlk_verb verb, uint8_t how)
{
    if (world.asked == PEER_ASKS)
        return;
    dlk_ask *it = &world.asks[world.asked].ask;
    *it = (dlk_ask){.verb = verb,
                    .key = verb == DLK_LIST || verb == DLK_DOCTOR
                               ? NULL
                               : &world.keys[how % PEER_KEYS],
                    .number = 1 + (how >> 2) % 4,
                    .ttl_ms = 30000,
                    .take = 1,
                    .limit = 5,
                    .text = verb == DLK_IMPORT ? "somebody:1" : NULL,
                    .deadline = peers.now + DLK_NS_PER_SEC * (1 + how % 4),
                    .since = peers.now};
    int number = world.asked++;
    peers.backend->type->ask(peers.backend, it, peers.now);
    world.asks[number].answers += it->reply != DLK_PENDING;
}

static void pass(int64_t ms)
{
    peers.now += ms * DLK_NS_PER_MS;
    peers_round();
}

static void say_something(peer *to, uint8_t raw)
{
    dlk_buf out = {0};
    fuzz_bytes some = fuzz_take(&peers.bytes, fuzz_byte(&peers.bytes) % 64);
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
    for (int steps = 0; peers.bytes.left > 0 && steps < 64; steps++) {
        uint8_t what = fuzz_byte(&peers.bytes), how = what >> 3;
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
                peers_ask((dlk_verb)(1 + how % DLK_DOCTOR), fuzz_byte(&peers.bytes));
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
    peers.bytes.left = 0;
    peers.odd = peers.refuses = false;
    for (int i = 0; i < 200 && !(peers.up && i >= 3); i++)
        pass(500);
    FUZZ_CHECK(peers.up, "all answer as they should, and the link is down");
}

/* ---- from the beginning to the end ---- */

static const dlk_host host = {.answered = on_answered,
                              .notified = on_notified,
                              .revoked = on_revoked,
                              .link = on_link,
                              .log = on_log,
                              .mutex = &world.mutex,
                              .kicks = &world.kicks,
                              .uuid = "11111111-2222-4333-8444-555555555555",
                              .name = "fuzz",
                              .rand = &world.rand};

static void open_backend(const char *text)
{
    dlk_settings *settings = dlk_settings_new();
    dlk_uri *uri = NULL;
    if (!settings || dlk_uri_parse(text, &uri, NULL) != DLOCK_OK ||
        dlk_uri_apply(uri, settings, NULL) != DLOCK_OK ||
        dlk_registry_find(uri->scheme)
                ->open(&peers.host, uri, settings, &peers.backend, NULL) != DLOCK_OK)
        abort();
    dlk_uri_free(uri);
    for (int i = 0; i < PEER_KEYS; i++) {
        static const char *const names[PEER_KEYS] = {"a", "b", "{b}"};
        world.keys[i] =
            (dlk_key){.name = names[i], .size = strlen(names[i]), .kind = DLOCK_MUTEX};
        world.keys[i].settings = world.settings = settings;
        if (peers.backend->type->key_open(peers.backend, &world.keys[i], NULL) !=
            DLOCK_OK)
            abort();
    }
}

void peers_open(const char *uri, fuzz_bytes bytes)
{
    peers = (struct peers_world){.now = BEGIN, .host = host, .bytes = bytes};
    for (int i = 0; i < PEERS; i++) {
        if (!world.readers[i] && !(world.readers[i] = dlk_resp_new()))
            abort();
        peers.peers[i] = (peer){.fd = -1, .reader = world.readers[i]};
    }
    world.rand.state = 1;
    world.asked = 0;
    memset(world.asks, 0, sizeof(world.asks));
    open_backend(uri);
    peers.backend->type->start(peers.backend, peers.now);
}

void peers_close(void)
{
    const dlk_backend_type *type = peers.backend->type;
    type->stop(peers.backend);
    for (int i = 0; i < world.asked; i++) {
        dlk_ask *it = &world.asks[i].ask;
        FUZZ_CHECK(world.asks[i].answers == 1, "a request has %d answers",
                   world.asks[i].answers);
        FUZZ_CHECK(it->reply == DLK_YES || !it->info, "an info without success");
        if (it->info)
            fuzz_check_json(dlock_info_json(it->info));
        dlock_error_free(it->error);
        dlock_info_free(it->info);
    }
    for (int i = 0; i < PEER_KEYS; i++)
        type->key_close(peers.backend, &world.keys[i]);
    type->free(peers.backend);
    dlk_settings_free(world.settings);
    for (int i = 0; i < PEERS; i++)
        if (peers.peers[i].fd >= 0)
            hang_up(&peers.peers[i]);
}
