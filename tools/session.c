/*
 * One session of the dlock command with a lock service: connect, wait, acquire, release, close.
 *
 * Signals that should end a wait are blocked and read from a descriptor, so that the same poll
 * sees them and the client's events. So they are from cli_open on: a signal that comes between two
 * waits ends the second. Signals that were ignored when the command started (nohup, a background
 * job of a script) stay ignored: blocked and ignored ones would be reported all the same.
 */
#include "cli.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

static bool is_ignored(int number)
{
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

static int catch_signals(cli_call *cli)
{
    static const int ending[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,
                                 SIGUSR1, SIGUSR2, SIGALRM};
    (void)sigemptyset(&cli->caught);
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
        if (!is_ignored(ending[i]))
            (void)sigaddset(&cli->caught, ending[i]);
    }
    (void)pthread_sigmask(SIG_BLOCK, &cli->caught,
                          &cli->mask_at_start); /* valid arguments */
    cli->signals = signalfd(-1, &cli->caught, SFD_CLOEXEC | SFD_NONBLOCK);
    return cli->signals < 0 ? cli_fail_errno(cli, "signals") : 0;
}

int cli_signal(const cli_call *cli)
{
    struct signalfd_siginfo got;
    if (read(cli->signals, &got, sizeof got) != (ssize_t)sizeof got)
        return 0;
    return (int)got.ssi_signo;
}

static void log_line(void *user, dlock_level level, const char *line)
{
    static const char *const levels[] = {[DLOCK_LOG_ERROR] = "error",
                                         [DLOCK_LOG_WARN] = "warning",
                                         [DLOCK_LOG_INFO] = "info",
                                         [DLOCK_LOG_DEBUG] = "debug"};
    cli_say(user, "%s: %s", levels[level], line);
}

/* Nothing is sent yet: connecting is an op like any other, which a signal can end. */
static int open_client(cli_call *cli)
{
    dlock_error *error = NULL;
    dlock_err code = DLOCK_OK;
    if (cli->verbose)
        code = dlock_conf_set_log(cli->conf, log_line, cli);
    if (code == DLOCK_OK)
        code = dlock_client_new(cli->url, cli->conf, &cli->client, &error);
    int status = code == DLOCK_OK ? 0 : cli_fail(cli, NULL, code, error);
    dlock_error_free(error);
    if (status == 0 && dlock_client_event_fd(cli->client) < 0)
        status = cli_fail_errno(cli, "event descriptor");
    return status;
}

void cli_close(cli_call *cli)
{
    /* After cli_release it is closed, and this joins the library's threads; or it is left, since they
     * wait for what nobody waits for any more. */
    if (cli->left)
        return;
    if (cli->client != NULL)
        (void)dlock_client_close(cli->client, NULL);
    dlock_client_free(cli->client);
    cli->client = NULL;
    if (cli->signals >= 0)
        (void)close(cli->signals);
    cli->signals = -1;
}

void cli_drain(cli_call *cli)
{
    dlock_event *event = NULL;
    while ((event = dlock_client_next_event(cli->client)) != NULL) {
        if (dlock_event_what(event) == DLOCK_EVENT_REVOKE)
            cli_say(cli, "somebody asks for the lock");
        dlock_event_free(event);
    }
}

/* Sleeps until the op has finished (0) or a signal has come (its number). */
static int park(cli_call *cli, dlock_op *op)
{
    if (dlock_op_notify(op, ++cli->tag) == DLOCK_OK)
        return 0;
    struct pollfd fds[] = {
        {.fd = dlock_client_event_fd(cli->client), .events = POLLIN},
        {.fd = cli->signals, .events = POLLIN},
    };
    while (dlock_op_result(op) == DLOCK_EPENDING) {
        if (poll(fds, sizeof fds / sizeof *fds, -1) < 0)
            continue; /* EINTR: of the signals that stop and continue us */
        int number = cli_signal(cli);
        if (number != 0)
            return number;
        cli_drain(cli);
    }
    return 0;
}

/* The same, and a signal ends the op. */
static int attend(cli_call *cli, dlock_op *op)
{
    int number = park(cli, op);
    if (number != 0) {
        /* Prompt. What was granted all the same is given back by whoever frees the op. */
        dlock_op_cancel(op);
        (void)dlock_op_wait(op, DLOCK_FOREVER);
    }
    return number;
}

static int report(const cli_call *cli, const dlock_op *op, const char *what)
{
    dlock_err code = dlock_op_result(op);
    return code == DLOCK_OK ? 0 : cli_fail(cli, what, code, dlock_op_error(op));
}

int cli_await(cli_call *cli, dlock_op *op, const char *what)
{
    int number = attend(cli, op);
    return number != 0 ? CLI_SIGNAL + number : report(cli, op, what);
}

/* ---- Opening --------------------------------------------------------------------------- */

int64_t cli_wait_left(const cli_call *cli)
{
    if (cli->wait_ms <= 0)
        return cli->wait_ms;
    int64_t left = cli->wait_ms - (cli_now_ms() - cli->began);
    return left > 0 ? left : 0;
}

/* A service that is away may come; what it has said of us, or is wrong with the URI, stays. */
static bool may_pass(dlock_err code)
{
    return code == DLOCK_EUNAVAIL || code == DLOCK_EQUORUM;
}

/* Sleeps before the next try to connect, longer each time. Returns the signal that came, or 0. */
static int rest(const cli_call *cli, int tries)
{
    enum { FIRST_MS = 20, LONGEST_MS = 1000 };
    int64_t ms = tries < 6 ? FIRST_MS << tries : LONGEST_MS, left = cli_wait_left(cli);
    struct pollfd signals = {.fd = cli->signals, .events = POLLIN};
    (void)poll(&signals, 1, (int)(ms < left ? ms : left)); /* EINTR: a shorter rest */
    return cli_signal(cli);
}

/* With -w again and again, for as long as that lets us. Without it once: a service that was never
 * there is told at once, however long somebody would wait for its locks. */
static int connect_client(cli_call *cli)
{
    for (int tries = 0;; tries++) {
        DLOCK_AUTO(dlock_op) op = dlock_client_connect_start(cli->client);
        int number = attend(cli, op);
        bool again = may_pass(dlock_op_result(op)) && cli_wait_left(cli) > 0;
        if (number == 0 && !again)
            return report(cli, op, NULL);
        if (number == 0 && cli->verbose)
            (void)report(cli, op, NULL);
        if (number == 0)
            number = rest(cli, tries);
        if (number != 0)
            return CLI_SIGNAL + number;
    }
}

int cli_make(cli_call *cli)
{
    if (cli->client)
        return 0;
    if (cli->url == NULL || cli->url[0] == '\0') {
        cli_say(cli, "no lock service: name one with --url URI or in DLOCK_URL, such as "
                     "file:///run/lock/app");
        return CLI_USAGE;
    }
    cli->began = cli_now_ms();
    int status = catch_signals(cli);
    return status == 0 ? open_client(cli) : status;
}

int cli_open(cli_call *cli)
{
    if (cli->connected)
        return 0;
    int status = cli_make(cli);
    if (status == 0)
        status = connect_client(cli);
    cli->connected = status == 0;
    return status;
}

int64_t cli_ttl_ms(const cli_call *cli)
{
    DLOCK_AUTO(dlock_info) settings = NULL;
    const char *ttl = NULL;
    if (dlock_client_settings(cli->client, &settings, NULL) == DLOCK_OK)
        ttl = dlock_info_get(settings, "lock.ttl_ms");
    return cli_number(ttl);
}

int cli_condition(cli_call *cli, const char *name, dlock_cond **ret_cond)
{
    int status = cli_open(cli);
    if (status != 0)
        return status;
    DLOCK_AUTO(dlock_error) error = NULL;
    dlock_err code = dlock_cond_new(cli->client, name, NULL, ret_cond, &error);
    return code == DLOCK_OK ? 0 : cli_fail(cli, NULL, code, error);
}

int cli_lock(cli_call *cli, const char *name, dlock_lock **ret_lock)
{
    int status = cli_open(cli);
    if (status != 0)
        return status;
    DLOCK_AUTO(dlock_error) error = NULL;
    dlock_err code = dlock_lock_new(cli->client, cli->kind, name, NULL, ret_lock, &error);
    return code == DLOCK_OK ? 0 : cli_fail(cli, NULL, code, error);
}

/* The one mistake that everything but the lock forgives. */
static void warn_of_mem(const cli_call *cli)
{
    if (cli->url != NULL && strncmp(cli->url, "mem:", 4) == 0)
        cli_say(
            cli,
            "warning: mem: is a table of this process alone; nobody else sees the lock");
}

int cli_import(cli_call *cli, const char *ticket, dlock_hold **ret_hold)
{
    warn_of_mem(cli);
    int status = cli_open(cli);
    if (status != 0)
        return status;
    DLOCK_AUTO(dlock_op) op = dlock_client_import_start(cli->client, ticket);
    status = cli_await(cli, op, "--import");
    if (status == 0)
        *ret_hold = dlock_op_take_hold(op);
    return dlock_op_result(op) == DLOCK_ENOTHELD ? CLI_BUSY : status;
}

int cli_acquire(cli_call *cli, const char *name, dlock_hold **ret_hold)
{
    warn_of_mem(cli);
    DLOCK_AUTO(dlock_lock) lock = NULL;
    int status = cli_lock(cli, name, &lock);
    if (status != 0)
        return status;
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, cli_wait_left(cli));
    status = cli_await(cli, op, name);
    if (status == 0)
        *ret_hold = dlock_op_take_hold(op);
    else if (status == CLI_BUSY)
        cli_answer(cli, name, "obtained", "false");
    return status;
}

/* A service that answers at all has done so by then. */
enum { MOMENT_MS = 250 };

/* Behind the end of the lease nobody waits for the lock to be given back. */
static void wait_for_close(cli_call *cli, dlock_op *close, int64_t lease_ms)
{
    int64_t ms = lease_ms > MOMENT_MS ? lease_ms : MOMENT_MS;
    cli->left = dlock_op_wait(close, ms) != DLOCK_OK;
}

void cli_leave(cli_call *cli)
{
    DLOCK_AUTO(dlock_op) close = dlock_client_close_start(cli->client);
    wait_for_close(cli, close, 0);
}

/* What became of the release, once the client is closed. Closing goes on with what the release
 * itself has stopped waiting for, and with lock.release=async finds out what that doesn't. */
static dlock_err how_released(cli_call *cli, dlock_op *release, dlock_op *close,
                              int64_t lease_ms)
{
    wait_for_close(cli, close, lease_ms);
    if (cli->left)
        return DLOCK_EUNKNOWN;
    (void)dlock_op_wait(release, DLOCK_FOREVER); /* closing has ended it */
    dlock_err code = dlock_op_result(release);
    bool open = code == DLOCK_OK || code == DLOCK_EUNKNOWN || code == DLOCK_EUNAVAIL;
    return open ? dlock_op_result(close) : code;
}

int cli_release(cli_call *cli, dlock_hold *hold)
{
    /* Closing goes on with the release until it is confirmed, for client.close_ms and as long as the
     * lease lasts at most: nobody else waits behind the command's end. Not cut short by a signal
     * either: whether the lock was lost decides what we exit with. */
    int64_t lease_ms = dlock_hold_remaining_ms(hold);
    DLOCK_AUTO(dlock_op) release = dlock_hold_release_start(hold);
    DLOCK_AUTO(dlock_op) close = dlock_client_close_start(cli->client);
    dlock_err code = how_released(cli, release, close, lease_ms);
    const dlock_error *error = dlock_op_error(release);
    if (code == DLOCK_OK)
        return 0;
    if (code == DLOCK_ELOST)
        return cli_fail(cli, "release", code, error);
    /* No renewal was sent after the release, so nothing keeps it longer than one lease. */
    long long seconds = (long long)(dlock_hold_ttl_ms(hold) + 999) / 1000;
    const char *why = code == DLOCK_EUNKNOWN ? "no answer" : dlock_error_text(error);
    cli_say(
        cli,
        "%s: the release wasn't confirmed (%s): the lock may stay until its lease ends, "
        "in at most %lld s",
        dlock_hold_name(hold), why[0] != '\0' ? why : dlock_strerror(code), seconds);
    return cli->strict ? cli_exit_status(code) : 0;
}
