/* Connecting without blocking; see the header. */
#include "net/dial.h"

#include "net/socket.h"
#include "util/descriptor.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>

void dlk_dial_begin(dlk_dial *dial, int64_t deadline)
{
    dial->next = 0;
    dial->fd = -1;
    dial->error = EHOSTUNREACH; /* stands when there is no address at all */
    dial->deadline = deadline;
}

void dlk_dial_end(dlk_dial *dial)
{
    dlk_fd_close(dial->fd);
    dial->fd = -1;
}

static bool fails(dlk_dial *dial, int number)
{
    dial->error = dial->errors[dial->next - 1] = number;
    dlk_dial_end(dial);
    return false;
}

/* Begins with the next address; false when that failed at once. */
static bool try_next(dlk_dial *dial, int64_t now)
{
    const dlk_address *address = &dial->addresses.item[dial->next];
    int64_t left = (int64_t)(dial->addresses.count - dial->next);
    dial->until = now + (dial->deadline - now) / left;
    dial->next++;
    dial->fd = dlk_socket_new(address->is.any.sa_family);
    if (dial->fd < 0)
        return fails(dial, errno);
    /* EINTR: goes on by itself. EAGAIN: a full backlog of a Unix socket, which does not. */
    if (connect(dial->fd, &address->is.any, address->size) == 0 || errno == EINPROGRESS ||
        errno == EINTR)
        return true;
    return fails(dial, errno);
}

/* What became of the address being tried. */
static dlk_dialled check_address(dlk_dial *dial, int64_t now)
{
    struct pollfd ready = {.fd = dial->fd, .events = POLLOUT};
    int count = poll(&ready, 1, 0);
    if (count < 0 && errno != EINTR) {
        dial->error = errno; /* no memory: to look again at once won't help */
        return DLK_DIAL_FAILED;
    }
    if (count == 1) {
        int error = 0;
        socklen_t size = sizeof(error);
        if (getsockopt(dial->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
            error = errno;
        if (error == 0)
            return DLK_DIAL_DONE;
        dial->error = error;
        return DLK_DIAL_FAILED;
    }
    if (now < dial->until)
        return DLK_DIAL_PENDING;
    dial->error = ETIMEDOUT;
    return DLK_DIAL_FAILED;
}

dlk_dialled dlk_dial_step(dlk_dial *dial, int64_t now)
{
    for (;;) {
        if (dial->fd >= 0) {
            dlk_dialled result = check_address(dial, now);
            if (result != DLK_DIAL_FAILED)
                return result;
            dial->errors[dial->next - 1] = dial->error;
            dlk_dial_end(dial);
        }
        do {
            if (dial->next == dial->addresses.count)
                return DLK_DIAL_FAILED;
            if (now >= dial->deadline) {
                dial->error = ETIMEDOUT;
                return DLK_DIAL_FAILED;
            }
        } while (!try_next(dial, now));
    }
}
