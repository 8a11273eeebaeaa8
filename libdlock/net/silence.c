/* A limit to silence; see the header. */
#include "net/silence.h"

#include <limits.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define LEAST_MS 1000
/* Looks within the limit, so that one of them may get lost. */
#define LOOKS 3

static void set(int fd, int level, int name, int64_t value)
{
    int number = value < INT_MAX ? (int)value : INT_MAX;
    /* Fails for sockets that aren't TCP's, and these need none. */
    (void)setsockopt(fd, level, name, &number, sizeof(number));
}

void dlk_silence_limit(int fd, int64_t ms)
{
    int64_t limit = ms > LEAST_MS ? ms : LEAST_MS;
    int64_t pause_s = limit / LOOKS / 1000;
    pause_s = pause_s > 0 ? pause_s : 1;
    /* The kernel's longest is 32,767 s. */
    pause_s = pause_s < 3600 ? pause_s : 3600;
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, pause_s);
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, pause_s);
#ifdef TCP_USER_TIMEOUT
    /* Of what was sent and not acknowledged, and of looks without an answer, instead of their
     * number. */
    set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, limit);
#else
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, LOOKS);
#endif
}
