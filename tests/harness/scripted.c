/* A scripted server; see the header. One thread accepts, one talks on each connection. */
#include "harness/scripted.h"

#include "harness/harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define WORDS      64
#define WORD_BYTES 8192

typedef struct talk {
    scripted *server;
    int number, fd;
} talk;

static bool read_byte(int fd, char *to)
{
    return recv(fd, to, 1, 0) == 1;
}

static bool read_number(int fd, char kind, int *ret)
{
    char line[32];
    size_t used = 0;
    while (used < sizeof(line) - 1 && read_byte(fd, &line[used]) && line[used] != '\n')
        used++;
    line[used] = '\0';
    *ret = atoi(line + 1);
    return line[0] == kind;
}

/* One command; false when the peer is gone, which `errno` tells how, or doesn't speak RESP. */
static bool read_command(int fd, char **words, int *count)
{
    errno = 0;
    if (!read_number(fd, '*', count) || *count < 1 || *count > WORDS)
        return false;
    for (int i = 0; i < *count; i++) {
        int size;
        if (!read_number(fd, '$', &size) || size < 0 || size + 2 > WORD_BYTES ||
            recv(fd, words[i], (size_t)size + 2, MSG_WAITALL) != size + 2)
            return false;
        words[i][size] = '\0';
    }
    return true;
}

static void count_end(scripted *server)
{
    if (errno == ECONNRESET)
        atomic_fetch_add(&server->resets, 1);
    else if (errno == 0)
        atomic_fetch_add(&server->goodbyes, 1);
}

static void *talk_on(void *arg)
{
    talk *is = arg;
    char *words[WORDS];
    int count, commands = 0;
    bool there;
    for (int i = 0; i < WORDS; i++)
        words[i] = malloc(WORD_BYTES);
    while ((there = read_command(is->fd, words, &count))) {
        const char *answer =
            is->server->answer(is->server->user, is->number, commands++, words, count);
        atomic_fetch_add(&is->server->commands, 1);
        if (answer && strcmp(answer, SCRIPTED_HANG_UP) == 0)
            break;
        if (answer && send(is->fd, answer, strlen(answer), MSG_NOSIGNAL) < 0)
            break;
    }
    if (!there)
        count_end(is->server);
    shutdown(is->fd, SHUT_RDWR); /* closed by scripted_stop */
    for (int i = 0; i < WORDS; i++)
        free(words[i]);
    free(is);
    return NULL;
}

static void *accept_all(void *arg)
{
    scripted *server = arg;
    for (;;) {
        int fd = accept(server->listener, NULL, NULL);
        int number = atomic_load(&server->connections);
        if (fd < 0 || atomic_load(&server->ending) || number == SCRIPTED_MAX) {
            if (fd >= 0)
                close(fd);
            return NULL;
        }
        talk *is = malloc(sizeof(*is));
        *is = (talk){.server = server, .number = number, .fd = fd};
        server->fds[number] = fd;
        pthread_create(&server->talkers[number], NULL, talk_on, is);
        atomic_fetch_add(&server->connections, 1);
    }
}

bool scripted_start(scripted *server, scripted_answer *answer, const void *user)
{
    memset(server, 0, sizeof(*server));
    server->answer = answer;
    server->user = user;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool fine = server->listener >= 0 &&
                bind(server->listener, (struct sockaddr *)&address, size) == 0 &&
                listen(server->listener, 64) == 0 &&
                getsockname(server->listener, (struct sockaddr *)&address, &size) == 0;
    server->port = ntohs(address.sin_port);
    fine = fine && pthread_create(&server->acceptor, NULL, accept_all, server) == 0;
    return harness_check(__FILE__, __LINE__, fine, "a scripted server");
}

void scripted_deafen(scripted *server)
{
    if (atomic_exchange(&server->ending, true))
        return;
    shutdown(server->listener, SHUT_RDWR);
    pthread_join(server->acceptor, NULL);
    close(server->listener);
}

void scripted_stop(scripted *server)
{
    scripted_deafen(server);
    int count = atomic_load(&server->connections);
    for (int i = 0; i < count; i++) {
        shutdown(server->fds[i], SHUT_RDWR);
        pthread_join(server->talkers[i], NULL);
        close(server->fds[i]);
    }
}

const char *scripted_greeting(char **words, int count)
{
    if (strcmp(words[0], "AUTH") == 0 || strcmp(words[0], "SELECT") == 0 ||
        strcmp(words[0], "CLIENT") == 0)
        return "+OK\r\n";
    if (strcmp(words[0], "SCRIPT") == 0)
        return "$40\r\n0123456789012345678901234567890123456789\r\n";
    if (strcmp(words[0], "INFO") == 0)
        return "$11\r\nmaxmemory:0\r\n";
    /* The probe of rights is the only script without keys. */
    if (strncmp(words[0], "EVAL", 4) == 0 && count > 2 && strcmp(words[2], "0") == 0)
        return "*2\r\n:1700000000\r\n:0\r\n";
    return NULL;
}
