/*
 * dlock run: a command under a lock, so that nothing of the command outlives the lease.
 *
 * One thread and one loop: it sleeps in poll over the client's events, the signals and a timer,
 * and at each turn asks the hold how much of the lease is certain. That number decides, never an
 * event. In the last `kill_after_ms` of it the command gets TERM, at its end KILL; the end that
 * was valid when TERM went out stays, even if a renewal succeeds after all. The guard (child.c)
 * has the same end in its timer, in case this process doesn't run when it comes.
 */
#include "child.h"
#include "cli.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct run_state {
    cli_call *cli;
    const char *name;
    dlock_hold *hold;
    run_child child;
    int timer;      /* the next time to look at the lease */
    int64_t ttl_ms; /* until there is a lock as asked for, then as granted */
    int64_t kill_after_ms;
    int64_t end_ms;  /* of the lease, as the guard knows it */
    bool terminated; /* TERM has been sent because the end was near */
    bool lost;
} run_state;

/* ---- The lease ------------------------------------------------------------------------- */

static void lose(run_state *run)
{
    if (run->lost)
        return;
    run->lost = true;
    if (run->cli->on_lost == CLI_ON_LOST_IGNORE) {
        cli_say(run->cli, "%s: the lock is lost; the command goes on", run->name);
        return;
    }
    child_kill(&run->child);
    cli_say(run->cli, "%s: the lock is lost; the command was killed", run->name);
}

static void terminate(run_state *run)
{
    run->terminated = true;
    cli_say(run->cli, "%s: the lock is about to be lost; the command is told to end",
            run->name);
    child_signal(&run->child, SIGTERM);
    child_signal(&run->child, SIGCONT); /* a stopped one couldn't */
}

/* Does what the rest of the lease asks for, and returns when to look again; < 0: never. */
static int64_t look(run_state *run)
{
    int64_t now = cli_now_ms();
    int64_t left = dlock_hold_remaining_ms(run->hold);
    if (run->terminated && run->end_ms < now + left)
        left = run->end_ms - now;
    bool is_guards =
        run->end_ms > 0 && run->end_ms <= now; /* it strikes, if it hasn't yet */
    if (left <= 0 || is_guards) {
        lose(run);
        return -1;
    }
    if (run->cli->on_lost == CLI_ON_LOST_IGNORE)
        return now + left;
    run->end_ms = now + left;
    child_deadline(&run->child, run->end_ms);
    /* Renewals move the end without telling: so look as often as they come, or the guard would
     * strike in the middle of a lease when we don't run for a moment. */
    int64_t calm = left - run->kill_after_ms, third = run->ttl_ms / 3;
    if (calm > 0)
        return now + (calm < third ? calm : third);
    if (run->cli->on_lost == CLI_ON_LOST_KILL)
        return now + (left + 1) / 2;
    if (!run->terminated)
        terminate(run);
    return run->end_ms;
}

static void watch_lease(run_state *run)
{
    cli_timer_set(run->timer, look(run));
}

/* ---- Signals --------------------------------------------------------------------------- */

static int catch_more_signals(run_state *run)
{
    static const int more[] = {SIGCHLD, SIGCONT, SIGTSTP, SIGWINCH};
    sigset_t quiet;
    (void)sigemptyset(&quiet);
    (void)sigaddset(&quiet, SIGTTIN);
    (void)sigaddset(&quiet, SIGTTOU); /* else giving the terminal away would stop us */
    (void)sigaddset(&quiet, SIGPIPE);
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        (void)sigaddset(&run->cli->caught, more[i]);
    (void)pthread_sigmask(SIG_BLOCK, &quiet, NULL); /* valid arguments, both */
    (void)pthread_sigmask(SIG_BLOCK, &run->cli->caught, NULL);
    /* An inherited SIG_IGN would reap the child before we could ask for its status. */
    if (signal(SIGCHLD, SIG_DFL) == SIG_ERR ||
        signalfd(run->cli->signals, &run->cli->caught, 0) < 0)
        return cli_fail_errno(run->cli, "signals");
    return 0;
}

static void on_child(run_state *run)
{
    int stopped = child_reap(&run->child);
    if (stopped == 0 || !child_stopped(&run->child, stopped))
        return;
    /* We may have been stopped with it for longer than the lease. */
    watch_lease(run);
    child_signal(&run->child, SIGCONT);
}

static void on_signal(run_state *run, int number)
{
    if (number == SIGCHLD)
        on_child(run);
    else
        child_signal(&run->child, number);
}

/* ---- The times ------------------------------------------------------------------------- */

static int64_t usual_kill_after(const run_state *run)
{
    int64_t sixth = run->ttl_ms / 6;
    return sixth < 5000 ? sixth : 5000;
}

/* What was asked for, or the default; whether it makes sense: what is left of a lease that is renewed
 * in time goes down to two thirds, so up to a half nothing is ended that isn't in danger. */
static bool fit_times(run_state *run, int64_t ttl_ms)
{
    run->ttl_ms = ttl_ms;
    run->kill_after_ms = run->cli->kill_after_ms;
    if (run->cli->on_lost != CLI_ON_LOST_TERM || run->kill_after_ms < 0)
        run->kill_after_ms = usual_kill_after(run);
    return run->kill_after_ms <= run->ttl_ms / 2;
}

static int choose_times(run_state *run)
{
    int status = cli_make(run->cli);
    if (status != 0)
        return status;
    if (fit_times(run, cli_ttl_ms(run->cli)))
        return 0;
    cli_say(run->cli, "--kill-after must be at most half the ttl, which is %lld ms",
            (long long)run->ttl_ms);
    return CLI_USAGE;
}

/* ---- The loop -------------------------------------------------------------------------- */

static void supervise(run_state *run)
{
    struct pollfd fds[] = {
        {.fd = dlock_client_event_fd(run->cli->client), .events = POLLIN},
        {.fd = run->cli->signals, .events = POLLIN},
        {.fd = run->timer, .events = POLLIN},
    };
    while (!run->child.ended) {
        /* Fails with EINTR alone: look anyway. */
        (void)poll(fds, sizeof fds / sizeof *fds, -1);
        (void)cli_timer_fired(run->timer);
        cli_drain(run->cli);
        /* Before the signals: after a stop, SIGCONT must not wake a command whose lease is over. */
        watch_lease(run);
        int number;
        while (!run->child.ended && (number = cli_signal(run->cli)) != 0)
            on_signal(run, number);
    }
    /* It obeyed TERM; what it had started may not have. */
    if (run->terminated && !run->lost)
        child_kill(&run->child);
    /* The guard was quicker than we were. */
    if (WIFSIGNALED(run->child.status) && WTERMSIG(run->child.status) == SIGKILL &&
        run->end_ms > 0 && cli_now_ms() >= run->end_ms)
        lose(run);
}

static int status_of(run_state *run)
{
    if (run->lost) {
        cli_leave(run->cli);
        return CLI_LOST;
    }
    int released = cli_release(run->cli, run->hold);
    if (run->terminated || released == CLI_LOST)
        return CLI_LOST;
    if (WIFSIGNALED(run->child.status))
        return CLI_SIGNAL + WTERMSIG(run->child.status);
    /* The command's own failure tells more than that of the release. */
    return WEXITSTATUS(run->child.status) != 0 ? WEXITSTATUS(run->child.status)
                                               : released;
}

static int start_and_watch(run_state *run, char **argv)
{
    int status = child_prepare(run->cli, &run->child, argv, run->hold, run->ttl_ms);
    if (status == 0) {
        watch_lease(
            run); /* the lease is on the guard's timer before the command begins */
        child_go(&run->child);
        supervise(run);
    }
    child_close(&run->child);
    return status == 0 ? status_of(run) : status;
}

/* The service may have granted less than was asked for: the lease is what it has granted. */
static void live_by_grant(run_state *run)
{
    if (fit_times(run, dlock_hold_ttl_ms(run->hold)))
        return;
    run->kill_after_ms = run->ttl_ms / 2;
    cli_say(run->cli, "%s: the lease is %lld ms only, so KILL comes %lld ms after TERM",
            run->name, (long long)run->ttl_ms, (long long)run->kill_after_ms);
}

static int run_command(run_state *run, char **argv)
{
    live_by_grant(run);
    if (dlock_hold_notify(run->hold, ++run->cli->tag) != DLOCK_OK) {
        cli_say(run->cli, "%s: the lock was lost before the command began", run->name);
        return CLI_LOST;
    }
    run->timer = cli_timer_new();
    if (run->timer < 0)
        return cli_fail_errno(run->cli, "timer");
    int status = catch_more_signals(run);
    if (status == 0)
        status = start_and_watch(run, argv);
    (void)close(run->timer);
    return status;
}

static int acquire(run_state *run, const char *name)
{
    run->name = name;
    int status = choose_times(run);
    return status == 0 ? cli_acquire(run->cli, name, &run->hold) : status;
}

/* A line of standard input, byte by byte: what comes behind it is the command's. */
static bool read_line(char *line, size_t room)
{
    for (size_t size = 0; size < room; size++) {
        ssize_t got = read(STDIN_FILENO, &line[size], 1);
        if (got < 0 || (got == 0 && size == 0))
            return false;
        if (got == 0 || line[size] == '\n') {
            line[size] = '\0';
            return true;
        }
    }
    return false;
}

/* Name, kind and lease are those of the ticket. */
static int take_over(run_state *run)
{
    char line[2049]; /* no ticket is so long */
    const char *ticket = run->cli->ticket;
    if (strcmp(ticket, "-") == 0) {
        if (!read_line(line, sizeof line)) {
            cli_say(run->cli, "--import -: no ticket on standard input");
            return CLI_USAGE;
        }
        ticket = line;
    }
    int status = cli_import(run->cli, ticket, &run->hold);
    if (status == 0)
        run->name = dlock_hold_name(run->hold);
    return status;
}

/* ---- The arguments --------------------------------------------------------------------- */

int cli_run(cli_call *cli, int argc, char **argv)
{
    char shell_option[] = "-c";
    char usual_shell[] = "/bin/sh";
    char *shell = getenv("SHELL");
    char *shell_argv[] = {shell != NULL && shell[0] != '\0' ? shell : usual_shell,
                          shell_option, (char *)(uintptr_t)cli->shell, NULL};
    if (argc < 1 && cli->ticket == NULL) {
        cli_say(cli, "NAME is missing; see --help");
        return CLI_USAGE;
    }
    char **command = cli->ticket != NULL ? argv : argv + 1;
    int rest = cli->ticket != NULL ? argc : argc - 1;
    if (rest > 0 && strcmp(command[0], "--") == 0)
        command++, rest--;
    if ((rest == 0) == (cli->shell == NULL)) {
        cli_say(cli, cli->shell == NULL ? "CMD is missing; see --help"
                                        : "either CMD or -c STRING, not both");
        return CLI_USAGE;
    }
    run_state run = {.cli = cli, .timer = -1};
    int status = cli->ticket != NULL ? take_over(&run) : acquire(&run, argv[0]);
    if (status == 0)
        status = run_command(&run, cli->shell != NULL ? shell_argv : command);
    dlock_hold_free(run.hold);
    return status;
}
