/* Workers made by fork(): each opens a client of its own, because an inherited one is of no use.
 *
 * WORKERS processes add 1 to the number in a file, TURNS times each, under one lock. The parent has
 * a client, and a hold, from before the fork; the workers show that these answer DLOCK_EFORKED
 * there and that freeing them takes nothing from the parent.
 *
 * Usage: fork_workers URL PATH; mem: won't do, as that is within one process */
#include <dlock/dlock.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 4, TURNS = 25 };

static int complain(const char *who, const dlock_error *err)
{
    fprintf(stderr, "%s: %s\n", who, dlock_error_text(err));
    return 1;
}

/* Reads, adds, writes: two at once would lose one of the additions. */
static int add(const char *path, long amount, long *ret)
{
    char text[32] = "";
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    int rc = -1;
    if (pread(fd, text, sizeof text - 1, 0) >= 0) {
        *ret = strtol(text, NULL, 10) + amount;
        int size = snprintf(text, sizeof text, "%ld\n", *ret);
        rc = pwrite(fd, text, (size_t)size, 0) == size ? 0 : -1;
    }
    return close(fd) == 0 ? rc : -1;
}

/* doc: worker */
static int work(const char *url, const char *path)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = NULL;
    if (dlock_client_open(url, NULL, &client, &err) != DLOCK_OK) /* after the fork */
        return complain("worker", err);
    for (int turn = 0; turn < TURNS; turn++) {
        DLOCK_AUTO(dlock_hold) hold = NULL;
        long value;
        if (dlock_acquire(client, "fork-workers", 30000, &hold, &err) != DLOCK_OK)
            return complain("worker", err);
        if (add(path, 1, &value) != 0) {
            perror(path);
            return 1;
        }
        if (dlock_hold_release(hold, &err) != DLOCK_OK)
            return complain("worker", err);
    }
    return 0;
}
/* end: worker */

/* doc: inherited */
/* What came with the fork is dead here, and alive in the parent. */
static int is_dead(dlock_client *client, dlock_hold *hold)
{
    DLOCK_AUTO(dlock_hold) another = NULL;
    int dead = dlock_hold_check(hold) == DLOCK_EFORKED && dlock_hold_token(hold) == 0 &&
               dlock_acquire(client, "fork-workers", 0, &another, NULL) == DLOCK_EFORKED;
    dlock_hold_free(hold); /* sends nothing: the parent still holds the lock */
    dlock_client_free(client);
    return dead;
}
/* end: inherited */

static int start_worker(const char *url, const char *path, dlock_client *client,
                        dlock_hold *hold)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid < 0 ? -1 : 0;
    /* _exit: what the parent has set up for its end isn't the child's to do. */
    if (!is_dead(client, hold)) {
        fprintf(stderr, "worker: an inherited client answers\n");
        _exit(1);
    }
    _exit(work(url, path));
}

/* Returns how many ended well. */
static int wait_for_workers(void)
{
    int well = 0, status;
    while (wait(&status) > 0)
        well += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return well;
}

static int play(const char *url, const char *path)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_hold) hold = NULL;
    long before, after;
    if (dlock_client_open(url, NULL, &client, &err) != DLOCK_OK ||
        dlock_acquire(client, "fork-workers", 30000, &hold, &err) != DLOCK_OK)
        return complain("parent", err);
    if (add(path, 0, &before) != 0) {
        perror(path);
        return 1;
    }
    for (int i = 0; i < WORKERS; i++)
        if (start_worker(url, path, client, hold) != 0)
            perror("parent: fork");
    if (dlock_hold_check(hold) != DLOCK_OK || dlock_hold_release(hold, &err) != DLOCK_OK)
        return complain("parent", err); /* a child's free would have taken it from us */
    int well = wait_for_workers();
    if (add(path, 0, &after) != 0)
        return 1;
    printf("%d workers, %d turns each: %ld added\n", well, TURNS, after - before);
    return well == WORKERS && after - before == (long)WORKERS * TURNS ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc != 3 || strncmp(argv[1], "mem:", 4) == 0) {
        fprintf(stderr, "usage: fork_workers URL PATH, where URL is not mem:\n");
        return 64;
    }
    return play(argv[1], argv[2]);
}
