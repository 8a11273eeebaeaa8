#include "server.h"

#include "harness/harness.h"
#include "harness/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATIENCE_S = 20 };

static pid_t pid;
static int port;

static void become(const void *unused)
{
    char text[16];
    (void)unused;
    snprintf(text, sizeof(text), "%d", port);
    (void)execlp("python3", "python3", getenv("DLK_SKELETON_SERVER"), text, (char *)NULL);
}

static bool answers(const char *verb, const char *key, char *line, size_t size)
{
    int fd = server_dial(port, PATIENCE_S);
    int asked = fd < 0 ? -1 : dprintf(fd, "%s %s\n", verb, key);
    size_t used = 0;
    bool fine = asked > 0;
    while (fine && used + 1 < size && (used == 0 || line[used - 1] != '\n'))
        fine = server_read(fd, line + used++, 1);
    line[fine ? used - 1 : 0] = '\0';
    server_hang_up(&fd);
    return fine;
}

static bool is_up(void *unused)
{
    char line[64];
    (void)unused;
    return answers("keys", "*", line, sizeof(line)) && strcmp(line, "KEYS") == 0;
}

static const server_kind kind = {"the skeleton's server", become, is_up};

bool skeleton_server_start(void)
{
    skeleton_server_stop();
    if (!port)
        port = server_free_port(0);
    return server_start(&kind, &pid, NULL);
}

void skeleton_server_stop(void)
{
    server_kill(&pid);
}

int skeleton_server_port(void)
{
    return port;
}

pid_t skeleton_server_pid(void)
{
    return pid;
}

const char *skeleton_server_call(const char *verb, const char *key)
{
    static char line[4096];
    (void)harness_check(__FILE__, __LINE__, answers(verb, key, line, sizeof(line)),
                        "an answer of the skeleton's server");
    return line;
}
