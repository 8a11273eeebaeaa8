/*
 * dlock hold: a lock for scripts. Prints one line of JSON when it is held, and holds it until
 * standard input ends or a signal comes. With --export it prints a ticket, and leaves the lock to
 * whoever has that.
 */
#include "cli.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

static int announce(cli_call *cli, const char *name, const dlock_hold *hold)
{
    (void)fputs("{\"name\":", stdout);
    cli_json_text(stdout, name);
    (void)printf(",\"token\":%lld,\"owner\":", (long long)dlock_hold_token(hold));
    cli_json_text(stdout, dlock_hold_owner(hold));
    (void)printf(",\"ttl_ms\":%lld,\"remaining_ms\":%lld,\"url\":",
                 (long long)dlock_hold_ttl_ms(hold),
                 (long long)dlock_hold_remaining_ms(hold));
    cli_json_text(stdout, dlock_client_uri(cli->client));
    (void)fputs("}\n", stdout);
    return cli_flush(cli, CLI_OK);
}

/* Throws away what comes in; whether more may come. */
static bool input_goes_on(void)
{
    char rest[4096];
    ssize_t got = read(STDIN_FILENO, rest, sizeof rest);
    return got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN));
}

/* Returns when the input ends, a signal comes (both 0), or the lock is lost. */
static int keep(cli_call *cli, const dlock_hold *hold, int timer)
{
    struct pollfd fds[] = {
        {.fd = dlock_client_event_fd(cli->client), .events = POLLIN},
        {.fd = cli->signals, .events = POLLIN},
        {.fd = timer, .events = POLLIN},
        {.fd = STDIN_FILENO, .events = POLLIN},
    };
    while (dlock_hold_check(hold) == DLOCK_OK) {
        /* Events tell of a loss at once; the timer does if they can't. */
        cli_timer_set(timer, cli_now_ms() + dlock_hold_remaining_ms(hold));
        if (poll(fds, sizeof fds / sizeof *fds, -1) < 0)
            continue;
        (void)cli_timer_fired(timer);
        cli_drain(cli);
        if (cli_signal(cli) != 0 || (fds[3].revents != 0 && !input_goes_on()))
            return CLI_OK;
    }
    cli_say(cli, "%s: the lock is lost", dlock_hold_name(hold));
    return CLI_LOST;
}

/* A reader that has gone is an error to report, with the lock given back, not our death. */
static void survive_a_broken_pipe(void)
{
    sigset_t pipe;
    (void)sigemptyset(&pipe);
    (void)sigaddset(&pipe, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &pipe, NULL);
}

/* Nobody has the ticket. */
static void take_back(cli_call *cli, const char *ticket)
{
    DLOCK_AUTO(dlock_op) op = dlock_client_import_start(cli->client, ticket);
    if (cli_await(cli, op, "--export") == 0)
        dlock_hold_free(
            dlock_op_take_hold(op)); /* gives it back, before the client is closed */
}

/* A service that has to be told of the export has been when this is over. */
static int close_told(cli_call *cli)
{
    DLOCK_AUTO(dlock_op) close = dlock_client_close_start(cli->client);
    (void)dlock_op_wait(close, DLOCK_FOREVER); /* for client.close_ms at most */
    dlock_err code = dlock_op_result(close);
    return code == DLOCK_OK ? CLI_OK
                            : cli_fail(cli, "--export", code, dlock_op_error(close));
}

static int hand_on(cli_call *cli, dlock_hold *hold)
{
    dlock_error *error = NULL;
    const char *ticket = NULL;
    dlock_err code = dlock_hold_export(hold, &ticket, &error);
    int status = code == DLOCK_OK ? 0 : cli_fail(cli, dlock_hold_name(hold), code, error);
    dlock_error_free(error);
    if (status != 0)
        return status;
    (void)printf("%s\n", ticket);
    status = cli_flush(cli, CLI_OK);
    if (status == CLI_OK)
        return close_told(cli);
    take_back(cli, ticket);
    return status;
}

static int announce_and_keep(cli_call *cli, const char *name, dlock_hold *hold)
{
    int timer = cli_timer_new();
    if (timer < 0)
        return cli_fail_errno(cli, "timer");
    int status = CLI_LOST;
    if (dlock_hold_notify(hold, ++cli->tag) == DLOCK_OK)
        status = announce(cli, name, hold);
    if (status == CLI_OK)
        status = keep(cli, hold, timer);
    (void)close(timer);
    return status;
}

int cli_hold(cli_call *cli, int argc, char **argv)
{
    const char *name = cli_only_name(cli, argc, argv);
    if (name == NULL)
        return CLI_USAGE;
    DLOCK_AUTO(dlock_hold) hold = NULL;
    int status = cli_acquire(cli, name, &hold);
    if (status != 0)
        return status;
    survive_a_broken_pipe();
    if (cli->export)
        return hand_on(cli, hold);
    status = announce_and_keep(cli, name, hold);
    if (status == CLI_LOST)
        return status;
    int released = cli_release(cli, hold);
    return released != 0 ? released : status;
}
