/* The fenced resource as a server on a Unix socket: oracle_server SOCKET PAGE. One thread, no
 * faults: it is what the clients are judged by. It also makes the PAGE that they share. It ends
 * when its standard input does, and then prints a line for each register of both that was used:
 * lock accepted refused lost_updates same_tokens highest. */
#include "histories/oracle.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MOST 512 /* connections, and the two of ours */

static oracle_register registers[ORACLE_REGISTERS];
static struct pollfd fds[MOST] = {{.fd = STDIN_FILENO, .events = POLLIN},
                                  {.events = POLLIN}};
static nfds_t count = 2;

static int listen_on(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path))
        return -1;
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
        listen(fd, 128) == 0)
        return fd;
    return -1;
}

static void take_in(void)
{
    int fd = accept4(fds[1].fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    if (count == MOST)
        close(fd);
    else
        fds[count++] = (struct pollfd){.fd = fd, .events = POLLIN};
}

/* False: this client is gone. */
static bool serve(int fd)
{
    oracle_visit visit;
    if (recv(fd, &visit, sizeof(visit), MSG_DONTWAIT) != sizeof(visit))
        return false;
    oracle_answer answer =
        oracle_judge(&registers[visit.lock % ORACLE_REGISTERS], &visit);
    return send(fd, &answer, sizeof(answer), MSG_NOSIGNAL) == sizeof(answer);
}

static void report_one(int lock, const oracle_register *r)
{
    if (r->highest > 0)
        printf("%d %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", lock,
               r->accepted, r->refused, r->lost_updates, r->same_tokens, r->highest);
}

static void report(const oracle *page)
{
    for (int i = 0; i < ORACLE_REGISTERS; i++) {
        oracle_register shared = oracle_look(page, (uint32_t)i);
        report_one(i, &registers[i]);
        report_one(i, &shared);
    }
}

int main(int argc, char **argv)
{
    oracle page;
    if (argc != 3 || !oracle_open(&page, argv[2], NULL) ||
        (fds[1].fd = listen_on(argv[1])) < 0) {
        fprintf(stderr, "usage: oracle_server SOCKET PAGE\n");
        return 64;
    }
    signal(SIGINT, SIG_IGN); /* a terminal's Ctrl-C is for the one who reads our report */
    printf("ready\n");
    fflush(stdout);
    while (poll(fds, count, -1) >= 0 && fds[0].revents == 0) {
        if (fds[1].revents)
            take_in();
        for (nfds_t i = count; i-- > 2;) {
            if (fds[i].revents == 0 || serve(fds[i].fd))
                continue;
            close(fds[i].fd);
            fds[i] = fds[--count];
        }
    }
    report(&page);
    oracle_close(&page);
    return 0;
}
