/* What /proc and pidfds tell of a process; see the header. */
#include "backends/local/process.h"

#include "util/descriptor.h"
#include "util/number.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

#define STAT_SIZE 1024

/* What follows the command's name in /proc/PID/stat; the name may hold anything. */
static const char *read_stat(uint32_t pid, char text[STAT_SIZE])
{
    char path[40];
    (void)snprintf(path, sizeof(path), "/proc/%u/stat", pid); /* fits */
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    ssize_t got = read(fd, text, STAT_SIZE - 1);
    (void)close(fd); /* nothing was written */
    text[got > 0 ? got : 0] = '\0';
    const char *end = strrchr(text, ')');
    return end && end[1] == ' ' && end[2] != '\0' ? end + 2 : NULL;
}

char dlk_process_state(uint32_t pid)
{
    char text[STAT_SIZE];
    const char *rest = pid != 0 ? read_stat(pid, text) : NULL;
    return rest ? *rest : '?';
}

uint64_t dlk_process_started(uint32_t pid)
{
    char text[STAT_SIZE];
    const char *rest = read_stat(pid, text);
    for (int field = 3; rest && field < 22; field++) {
        rest = strchr(rest, ' ');
        rest = rest ? rest + 1 : NULL;
    }
    return rest ? (uint64_t)dlk_number_before(rest, " \n", 0, INT64_MAX, 0) : 0;
}

/* Without a pidfd: a zombie shows in /proc only. */
static dlk_life guess(uint32_t pid, uint64_t started)
{
    if (kill((pid_t)pid, 0) != 0 && errno == ESRCH)
        return DLK_LIFE_DEAD;
    char state = dlk_process_state(pid);
    uint64_t now_started = dlk_process_started(pid);
    if (state == 'Z' || state == 'X' ||
        (now_started && started && now_started != started))
        return DLK_LIFE_DEAD;
    return DLK_LIFE_ALIVE;
}

dlk_life dlk_process_open(uint32_t pid, uint64_t started, int *pidfd)
{
    int fd = DLK_FD((int)syscall(SYS_pidfd_open, (pid_t)pid, 0));
    *pidfd = -1;
    /* EINVAL: the number is a thread's of another process by now. */
    if (fd < 0 && (errno == ESRCH || errno == EINVAL))
        return DLK_LIFE_DEAD;
    if (fd < 0)
        return guess(pid, started);
    /* First the descriptor, then the look: so they are of the same process. */
    struct pollfd look = {.fd = fd, .events = POLLIN};
    uint64_t now_started = dlk_process_started(pid);
    if (poll(&look, 1, 0) > 0 || (now_started && started && now_started != started)) {
        dlk_fd_close(fd);
        return DLK_LIFE_DEAD;
    }
    *pidfd = fd;
    return DLK_LIFE_ALIVE;
}
