/* A server that isn't what it should be; see the header. */
#include "harness/wrong.h"

#include "harness/harness.h"
#include "harness/server.h"

#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

static void *serve(void *arg)
{
    wrong *server = arg;
    int fd, kept[64];
    size_t count = 0;
    while ((fd = accept(server->listener, NULL, NULL)) >= 0 && !server->ending) {
        bool stays = server->meets(server->user, fd);
        if (stays && count < sizeof(kept) / sizeof(*kept))
            kept[count++] = fd;
        else
            (void)close(fd);
    }
    if (fd >= 0)
        (void)close(fd);
    while (count > 0)
        (void)close(kept[--count]);
    return NULL;
}

bool wrong_start(wrong *server, wrong_meets *meets, const void *user)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    *server = (wrong){.meets = meets, .user = user};
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool fine = server->listener >= 0 &&
                bind(server->listener, (struct sockaddr *)&at, size) == 0 &&
                listen(server->listener, 64) == 0 &&
                getsockname(server->listener, (struct sockaddr *)&at, &size) == 0;
    server->port = ntohs(at.sin_port);
    fine = fine && pthread_create(&server->thread, NULL, serve, server) == 0;
    return harness_check(__FILE__, __LINE__, fine, "a server of our own");
}

void wrong_stop(wrong *server)
{
    server->ending = true;
    int fd = server_dial(server->port, 1); /* ends its accept */
    (void)pthread_join(server->thread, NULL);
    server_hang_up(&fd);
    (void)close(server->listener);
}
