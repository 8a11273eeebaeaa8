/*
 * Starts, stops and ends the command of `dlock run`.
 *
 * Two processes are forked. The child waits in a process group of its own until everything is in
 * place. The guard does nothing but wait for the first of two things: our death, which closes the
 * leash, and the end of the lease, when the deadman timer fires that we have to keep moving. Either
 * way it kills the child's group. So the command ends with the lease also when we are stopped or
 * killed. PDEATHSIG covers the child until the guard is there, and if somebody kills the guard.
 *
 * The guard is in a group of its own: no signal to our group or to the child's stops it. It keeps
 * the number of the child's group from being used again by an anchor: a child of the guard that
 * joined the group, ended, and is never waited for.
 *
 * What the command starts in a session or group of its own escapes the group. We are the reaper
 * of our descendants (PR_SET_CHILD_SUBREAPER), so while we live child_kill finds those, too.
 *
 * Between fork and exec only async-signal-safe functions are called: the library's threads may
 * have held any mutex. Everything is prepared before, the environment too.
 */
#include "child.h"
#include "errno_text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* How long child_kill waits for what it has killed; only a process stuck in the kernel takes
 * longer than an instant. */
enum { KILL_WAIT_MS = 2000 };

/* ---- Environment ---------------------------------------------------------------------- */

enum { OURS = 5 }; /* at most: the last is the URL */

/* The first @count of ours. */
static bool is_ours(const char *entry, size_t count)
{
    static const char *const names[OURS] = {
        "DLOCK_NAME=", "DLOCK_TOKEN=", "DLOCK_OWNER=", "DLOCK_TTL_MS=", "DLOCK_URL="};
    for (size_t i = 0; i < count; i++) {
        if (strncmp(entry, names[i], strlen(names[i])) == 0)
            return true;
    }
    return false;
}

typedef struct child_environment {
    char **entries; /* NULL behind the last; ours come first */
    size_t ours;
} child_environment;

static void free_environment(child_environment *all)
{
    for (size_t i = 0; all->entries != NULL && i < all->ours; i++)
        free(all->entries[i]);
    free(all->entries);
}

/* An outer dlock's are left out. @url: NULL leaves the one that is there. False without memory. */
static bool make_environment(const dlock_hold *hold, int64_t ttl_ms, const char *url,
                             child_environment *ret)
{
    size_t count = 0, ours = url != NULL ? OURS : OURS - 1;
    while (environ[count] != NULL)
        count++;
    char **made = calloc(ours + count + 1, sizeof *made);
    *ret = (child_environment){made, ours};
    if (made == NULL)
        return false;
    if (asprintf(&made[0], "DLOCK_NAME=%s", dlock_hold_name(hold)) < 0)
        made[0] = NULL;
    if (asprintf(&made[1], "DLOCK_TOKEN=%lld", (long long)dlock_hold_token(hold)) < 0)
        made[1] = NULL;
    if (asprintf(&made[2], "DLOCK_OWNER=%s", dlock_hold_owner(hold)) < 0)
        made[2] = NULL;
    if (asprintf(&made[3], "DLOCK_TTL_MS=%lld", (long long)ttl_ms) < 0)
        made[3] = NULL;
    if (url != NULL && asprintf(&made[4], "DLOCK_URL=%s", url) < 0)
        made[4] = NULL;
    size_t next = ours;
    for (size_t i = 0; i < count; i++) {
        if (!is_ours(environ[i], ours))
            made[next++] = environ[i];
    }
    for (size_t i = 0; i < ours; i++) {
        if (made[i] == NULL)
            return false;
    }
    return true;
}

/* ---- The two processes ----------------------------------------------------------------- */

static _Noreturn void say_and_exit(const char *command, int reason)
{
    static const char prefix[] = "dlock: run: ", between[] = ": ", end[] = "\n";
    const char *parts[] = {prefix, command, between, errno_text(reason), end};
    struct iovec lines[5];
    for (size_t i = 0; i < 5; i++)
        lines[i] = (struct iovec){.iov_base = (char *)(uintptr_t)parts[i],
                                  .iov_len = strlen(parts[i])};
    if (writev(STDERR_FILENO, lines, 5) < 0)
        _exit(CLI_OTHER);
    _exit(reason == ENOENT || reason == ENOTDIR ? CLI_NOT_FOUND : CLI_NOT_EXECUTABLE);
}

static _Noreturn void be_child(const cli_call *cli, const run_child *child,
                               int guards_end, int wait_here, char **argv,
                               char **environment)
{
    char byte;
    ssize_t got;
    (void)setpgid(0, 0); /* our parent does it, too: whoever comes first */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        _exit(CLI_OTHER);
    (void)close(
        guards_end); /* else our copies would keep reads from ending: the guard's, */
    (void)close(child->leash);
    (void)close(child->go); /* and our own */
    do {
        got = read(wait_here, &byte, 1);
    } while (got < 0 && errno == EINTR);
    if (got != 1)
        _exit(CLI_OTHER); /* the parent has died or thought better of it */
    (void)pthread_sigmask(SIG_SETMASK, &cli->mask_at_start, NULL);
    (void)execvpe(argv[0], argv, environment);
    say_and_exit(argv[0], errno);
}

/* Whether there is an anchor. _Fork: the handlers of fork() may want what no thread here frees. */
static bool drop_anchor(pid_t group)
{
    siginfo_t end = {0};
    pid_t anchor = _Fork();
    if (anchor == 0)
        _exit(setpgid(0, group) == 0 ? 0 : 1);
    return anchor > 0 && waitid(P_PID, (id_t)anchor, &end, WEXITED | WNOWAIT) == 0 &&
           end.si_status == 0;
}

/* Every signal is blocked here. */
static _Noreturn void be_guard(const run_child *child, int leash)
{
    enum { LEASH, DEADMAN, REST };
    if (setpgid(0, 0) != 0 || dup2(leash, LEASH) < 0 || dup2(child->deadman, DEADMAN) < 0)
        _exit(CLI_OTHER);
    (void)prctl(PR_SET_NAME, "dlock-guard");
    (void)close(
        child->leash); /* in case close_range isn't there: it must end with our parent */
    (void)close(child->go);
    (void)syscall(SYS_close_range, REST, ~0U, 0); /* musl has no function for it */
    if (!drop_anchor(child->pid) || write(LEASH, "", 1) != 1)
        _exit(CLI_OTHER);
    struct pollfd fds[] = {{.fd = LEASH, .events = POLLIN},
                           {.fd = DEADMAN, .events = POLLIN}};
    for (;;) {
        if (poll(fds, 2, -1) < 0)
            continue;
        /* The timer may have been moved on meanwhile: then it hasn't fired. */
        if (fds[0].revents != 0 || cli_timer_fired(DEADMAN)) {
            (void)kill(-child->pid, SIGKILL);
            _exit(CLI_OK);
        }
    }
}

/* Waits until the guard says that it is on guard. */
static bool is_guarded(const run_child *child)
{
    char byte;
    ssize_t got;
    do {
        got = read(child->leash, &byte, 1);
    } while (got < 0 && errno == EINTR);
    if (got == 0)
        errno = ECHILD;
    return got == 1;
}

static int fork_both(const cli_call *cli, run_child *child, int leash[2], const int go[2],
                     char **argv, char **environment)
{
    child->pid = fork();
    if (child->pid == 0)
        be_child(cli, child, leash[0], go[0], argv, environment);
    if (child->pid < 0) {
        child->ended = true;
        return cli_fail_errno(cli, "fork");
    }
    /* The child does it, too: whoever comes first. */
    (void)setpgid(child->pid, child->pid);
    child->guard = fork();
    if (child->guard == 0)
        be_guard(child, leash[0]);
    (void)close(leash[0]);
    leash[0] = -1; /* the guard's alone: its death must end our read */
    if (child->guard > 0 && is_guarded(child))
        return 0;
    int status = cli_fail_errno(cli, "fork");
    child_kill(child);
    return status;
}

int child_prepare(const cli_call *cli, run_child *child, char **argv,
                  const dlock_hold *hold, int64_t ttl_ms)
{
    int leash[2] = {-1, -1}, go[2] = {-1, -1};
    sigset_t all, before;
    child_environment environment = {NULL, 0};
    char *url = NULL;
    *child = (run_child){.leash = -1, .go = -1, .deadman = cli_timer_new()};
    child->tty = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    int status = cli_url_for_command(cli, &url);
    if (status != 0)
        goto out;
    bool made = make_environment(hold, ttl_ms, url, &environment);
    if (!made)
        errno = ENOMEM;
    if (!made || child->deadman < 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, leash) != 0 ||
        pipe2(go, O_CLOEXEC) != 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
        status = cli_fail_errno(cli, argv[0]);
        goto out;
    }
    child->leash = leash[1];
    child->go = go[1];
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    status = fork_both(cli, child, leash, go, argv, environment.entries);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
out:
    if (leash[0] >= 0)
        (void)close(leash[0]);
    if (go[0] >= 0)
        (void)close(go[0]);
    /* The write ends are the child's, which may not have got them. */
    if (child->leash < 0 && leash[1] >= 0)
        (void)close(leash[1]);
    free_environment(&environment);
    free(url);
    return status;
}

/* ---- Terminal -------------------------------------------------------------------------- */

static void give_terminal(const run_child *child)
{
    (void)tcsetpgrp(child->tty,
                    child->pid); /* fails when the child has just ended: no matter */
}

static bool is_foreground(const run_child *child)
{
    return child->tty >= 0 && tcgetpgrp(child->tty) == getpgrp();
}

static bool has_terminal(const run_child *child)
{
    return child->tty >= 0 && tcgetpgrp(child->tty) == child->pid;
}

void child_go(run_child *child)
{
    /* In a pipeline others may read from the terminal: there the command gets it when it asks
     * (child_stopped). */
    if (is_foreground(child) && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
        give_terminal(child);
    /* EPIPE: it was killed meanwhile, which waitpid tells better. SIGPIPE is blocked. */
    if (write(child->go, "", 1) != 1)
        child_signal(child, SIGKILL);
    (void)close(child->go);
    child->go = -1;
}

/* Stops our own process group, the shell's job, as the terminal would have done. The lease runs
 * on meanwhile: whether the lock is still ours is for the caller to ask afterwards. */
static void stop_ourselves(int number)
{
    sigset_t one;
    (void)sigemptyset(&one);
    (void)sigaddset(&one, number);
    (void)kill(0, number);
    (void)pthread_sigmask(SIG_UNBLOCK, &one, NULL); /* here we stop */
    (void)pthread_sigmask(SIG_BLOCK, &one, NULL);   /* and here we go on */
}

bool child_stopped(const run_child *child, int number)
{
    bool wants_terminal = number == SIGTTIN || number == SIGTTOU;
    if (child->tty < 0 || (!wants_terminal && number != SIGTSTP))
        return false; /* a SIGSTOP, or nobody at a terminal: whoever stopped it continues it */
    if (wants_terminal && is_foreground(child)) {
        give_terminal(child);
        return true;
    }
    bool had_terminal = has_terminal(child);
    if (had_terminal)
        (void)tcsetpgrp(child->tty, getpgrp());
    stop_ourselves(number);
    if (had_terminal && is_foreground(child))
        give_terminal(child);
    return true;
}

/* ---- Watching and ending --------------------------------------------------------------- */

void child_deadline(const run_child *child, int64_t at_ms)
{
    cli_timer_set(child->deadman, at_ms);
}

void child_signal(const run_child *child, int number)
{
    /* Until both are reaped the number is nobody else's group. */
    if (!child->ended || child->guard > 0)
        (void)kill(-child->pid, number);
}

int child_reap(run_child *child)
{
    int stopped = 0, status;
    pid_t pid;
    /* -1: also what the command left behind and we inherited as its reaper. */
    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
        if (pid == child->guard && !WIFSTOPPED(status))
            child->guard = 0;
        if (pid != child->pid)
            continue;
        if (WIFSTOPPED(status)) {
            stopped = WSTOPSIG(status);
        } else {
            child->ended = true;
            child->status = status;
        }
    }
    return child->ended ? 0 : stopped;
}

/* Kills the children of one of our threads; returns whether there were any. */
static bool kill_children_of(const char *task)
{
    char path[320];
    (void)snprintf(path, sizeof path, "/proc/self/task/%s/children", task);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    bool any = false;
    long pid;
    while (fscanf(file, "%ld", &pid) == 1) {
        (void)kill((pid_t)pid, SIGKILL);
        any = true;
    }
    (void)fclose(file);
    return any;
}

static bool kill_children(void)
{
    DIR *tasks = opendir("/proc/self/task");
    if (tasks == NULL)
        return false; /* no /proc: the group is all we know */
    bool any = false;
    const struct dirent *entry;
    while ((entry = readdir(tasks)) != NULL) {
        if (entry->d_name[0] != '.' && kill_children_of(entry->d_name))
            any = true;
    }
    (void)closedir(tasks);
    return any;
}

void child_kill(run_child *child)
{
    child_signal(child, SIGKILL);
    /* The children of a killed child become ours: round by round down to the last. */
    int64_t until = cli_now_ms() + KILL_WAIT_MS;
    const struct timespec moment = {.tv_nsec = 1000000};
    while ((kill_children() || !child->ended) && cli_now_ms() < until) {
        (void)child_reap(child);
        (void)nanosleep(&moment, NULL);
    }
    (void)child_reap(child);
}

void child_close(run_child *child)
{
    if (has_terminal(child))
        (void)tcsetpgrp(child->tty, getpgrp());
    /* Before the leash: what the command left in the background may go on. */
    if (child->guard > 0) {
        (void)kill(child->guard, SIGKILL);
        (void)waitpid(child->guard, NULL, 0);
    }
    const int fds[] = {child->leash, child->deadman, child->go, child->tty};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (fds[i] >= 0)
            (void)close(fds[i]);
    }
}
