/* A file as a fenced resource: who replaces it must come with a token that isn't smaller than any
 * that came before.
 *
 * Beside the file PATH lies PATH.fence, with the highest token. The new contents are made in a
 * draft that nobody else looks at. Making them final compares the token, notes it and renames the
 * draft, under a flock(2) that is held for just that moment. The flock makes "compare and replace"
 * one step; the distributed lock is for the long work before, on whatever machine that runs.
 *
 * Usage: guarded_file URL PATH */
#include "two_holders.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define ROOM 32 /* for what is appended to a path, and for a number */

static dlock_err complain(const char *what, const char *path)
{
    fprintf(stderr, "can't %s ", what);
    perror(path);
    return DLOCK_EUSER;
}

/* ---- Files that hold one number ---- */

/* An empty file says 0; anything that write_number can't have written is an error. */
static int read_number(int fd, int64_t *ret)
{
    char text[ROOM] = "", *end;
    ssize_t got = pread(fd, text, sizeof text - 1, 0);
    if (got < 0)
        return -1;
    *ret = strtoll(text, &end, 10);
    if (got == 0 || (end > text && strcmp(end, "\n") == 0))
        return 0;
    errno = EBADMSG;
    return -1;
}

/* Always as long, so that one write replaces the number before. */
static int write_number(int fd, int64_t number)
{
    char text[ROOM];
    int size = snprintf(text, sizeof text, "%019" PRId64 "\n", number);
    return pwrite(fd, text, (size_t)size, 0) == size ? fsync(fd) : -1;
}

/* "PATH.fence", "PATH.first", "PATH.second" */
static const char *beside(const struct work *work, const char *ending,
                          char text[PATH_MAX + ROOM])
{
    (void)snprintf(text, PATH_MAX + ROOM, "%s.%s", (const char *)work->resource, ending);
    return text;
}

/* ---- The steps ---- */

static dlock_err prepare(void *user)
{
    struct work *work = user;
    const char *path = work->resource;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? DLOCK_OK : complain("open", path); /* none yet: 0 */
    int rc = read_number(fd, &work->value);
    (void)close(fd); /* nothing was written */
    return rc == 0 ? DLOCK_OK : complain("read", path);
}

/* doc: run */
/* The long part. It writes where nobody else looks, so undoing it is safe without the lock. */
static dlock_err run(void *user)
{
    struct work *work = user;
    char draft[PATH_MAX + ROOM];
    int fd = open(beside(work, work->who, draft),
                  O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return complain("make", draft);
    work->value += work->amount;
    int rc = write_number(fd, work->value);
    if (close(fd) != 0 || rc != 0)
        return complain("write", draft);
    return DLOCK_OK;
}
/* end: run */

/* doc: commit */
/* The token is noted before the file is replaced: a crash in between leaves the old contents and
 * refuses what is older, which is safe. */
static dlock_err replace(const struct work *work, int fence, int64_t token)
{
    const char *path = work->resource;
    char draft[PATH_MAX + ROOM];
    int64_t highest = 0;
    if (flock(fence, LOCK_EX) != 0 || read_number(fence, &highest) != 0)
        return complain("read the fence of", path);
    if (token < highest) {
        printf("%s: token %" PRId64 " refused, %" PRId64 " has been here\n", path, token,
               highest);
        return DLOCK_ELOST;
    }
    if (write_number(fence, token) != 0)
        return complain("write the fence of", path);
    if (rename(beside(work, work->who, draft), path) != 0)
        return complain("replace", path);
    return DLOCK_OK;
}

static dlock_err commit(void *user, int64_t token)
{
    struct work *work = user;
    char fence[PATH_MAX + ROOM];
    if (work->pause)
        work->pause(work);
    int fd = open(beside(work, "fence", fence), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return complain("open", fence);
    dlock_err rc = replace(work, fd, token);
    (void)close(fd); /* it was synced; this ends the flock */
    return rc;
}
/* end: commit */

/* doc: undo */
static void undo(void *user)
{
    struct work *work = user;
    char draft[PATH_MAX + ROOM];
    if (unlink(beside(work, work->who, draft)) != 0)
        (void)complain("remove", draft); /* a leftover draft harms nobody */
    printf("%s: undone\n", work->who);
}
/* end: undo */

static void lost(void *user)
{
    struct work *work = user;
    printf("%s: lost the lock\n", work->who);
}

/* doc: guarded */
static const dlock_guarded guarded = {
    .size = sizeof guarded,
    .prepare = prepare,
    .run = run,
    .commit = commit,
    .undo = undo,
    .lost = lost,
};
/* end: guarded */

int main(int argc, char **argv)
{
    if (argc != 3 || strlen(argv[2]) >= PATH_MAX) {
        fprintf(stderr, "usage: guarded_file URL PATH\n");
        return 64;
    }
    struct work look = {.who = "check", .resource = argv[2]};
    if (prepare(&look) != DLOCK_OK)
        return 1;
    int64_t before = look.value;
    if (two_holders(argv[1], "guarded-file", &guarded, argv[2]) != 0)
        return 1;
    if (prepare(&look) != DLOCK_OK || look.value != before + 10) {
        printf("%s: a stale write came through\n", argv[2]);
        return 1;
    }
    printf("%s: only the second holder's write is there\n", argv[2]);
    return 0;
}
