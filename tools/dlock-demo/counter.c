/*
 * The resource that the lock protects: a file "NUMBER TOKEN" that remembers the highest token it
 * was written with and refuses smaller ones. Comparing and writing are one step under a record
 * lock, as a database would do it in one statement; reading, thinking and writing are not: for
 * those there is the distributed lock.
 */
#include "demo.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Two numbers of 64 bits, a space, a newline. */
enum { LINE = 48 };

static int parse(int fd, int64_t *ret_count, int64_t *ret_token)
{
    char line[LINE] = "";
    if (pread(fd, line, sizeof line - 1, 0) < 0)
        return -1;
    *ret_count = 0;
    *ret_token = 0;
    if (line[0] == '\0' ||
        sscanf(line, "%" SCNd64 " %" SCNd64, ret_count, ret_token) == 2)
        return 0;
    errno = EILSEQ;
    return -1;
}

static int lock_file(int fd)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int result;
    do {
        result = fcntl(fd, F_OFD_SETLKW, &whole); /* ends with the descriptor */
    } while (result != 0 && errno == EINTR);
    return result;
}

int counter_read(const char *path, int64_t *ret_count, int64_t *ret_token)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    int result = lock_file(fd) != 0 ? -1 : parse(fd, ret_count, ret_token);
    (void)close(fd);
    return result;
}

static int write_if_newer(int fd, int64_t count, int64_t token)
{
    int64_t old_count, old_token;
    if (lock_file(fd) != 0 || parse(fd, &old_count, &old_token) != 0)
        return -1;
    if (token <= old_token)
        return 0;
    char line[LINE];
    memset(line, ' ',
           sizeof line); /* always the same length: no half of an older line is left */
    int size = snprintf(line, sizeof line, "%" PRId64 " %" PRId64, count, token);
    line[size] = ' ';
    line[LINE - 1] = '\n';
    return pwrite(fd, line, sizeof line, 0) == (ssize_t)sizeof line ? 1 : -1;
}

int counter_write(const char *path, int64_t count, int64_t token)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    int result = write_if_newer(fd, count, token);
    if (close(fd) != 0)
        result = -1;
    return result;
}
