/* The floor under the memcached pairs: what a lock nobody else wants takes by the meta commands, a
 * plain socket and nothing around it: add, delete by the number that the add has said. No lease is
 * watched and no answer may be lost; each thread has a connection of its own. */
#include "bench.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* As long as what libdlock stores: owner, kind, token, who it is. */
#define VALUE "6f9619ff-8b86-4d01-b42d-00cf4fc9aaaa:100000 mutex 0 bench:12345"

typedef struct scene {
    int port;
    bench_spot *page;
} scene;

static int dial(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        bench_die("memcached", "doesn't answer");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

/* Says it, and reads one line. */
static void ask(int fd, const char *said, size_t size, char *line, size_t room)
{
    size_t used = 0;
    if (send(fd, said, size, MSG_NOSIGNAL) != (ssize_t)size)
        bench_die("memcached", "is gone");
    while (used < 2 || line[used - 1] != '\n') {
        ssize_t got = recv(fd, line + used, room - used - 1, 0);
        if (got <= 0)
            bench_die("memcached", "is gone");
        used += (size_t)got;
    }
    line[used] = '\0';
    if (strncmp(line, "HD", 2) != 0)
        bench_die(line, "isn't the answer");
}

static void pairs(bench_stage *stage, bench_worker *me, void *shared)
{
    scene *at = shared;
    char add[256], drop[64], line[256];
    int fd = dial(at->port);
    size_t size = (size_t)snprintf(add, sizeof(add), "ms floor/%d %zu T31 c ME\r\n%s\r\n",
                                   me->number, strlen(VALUE), VALUE);
    bench_spot *spot = &at->page[me->number];
    int64_t who = stage->options->base + me->number + 1;
    bench_ready(stage);
    BENCH_LOOP(stage, me, {
        ask(fd, add, size, line, sizeof(line));
        uint64_t number = strtoull(line + strlen("HD c"), NULL, 10);
        (void)bench_enter(spot, who);
        bench_exit(spot);
        size_t end = (size_t)snprintf(drop, sizeof(drop), "md floor/%d C%" PRIu64 "\r\n",
                                      me->number, number);
        ask(fd, drop, end, line, sizeof(line));
    });
}

int main(int argc, char **argv)
{
    bench_options options = bench_parse(argc, argv, "PORT", 1);
    scene at = {.page = bench_page(&options), .port = atoi(options.rest[0])};
    bench_result result;
    bench_run_threads(&options, pairs, &at, &result);
    bench_print(&result);
    (void)puts("}");
    return 0;
}
