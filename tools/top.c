/*
 * dlock top: the locks that are there, with holders and waiters, again and again. On a terminal
 * the picture is drawn over the last one; elsewhere, and with --json, it goes on below.
 */
#include "cli.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { EVERY_MS = 1000 };

static const char *text_of(const dlock_info *info, const char *key)
{
    const char *text = dlock_info_get(info, key);
    return text != NULL ? text : "-";
}

static int show_lock(cli_call *cli, const char *name)
{
    DLOCK_AUTO(dlock_lock) lock = NULL;
    int status = cli_lock(cli, name, &lock);
    if (status != 0)
        return status;
    DLOCK_AUTO(dlock_op) op = dlock_lock_inspect_start(lock);
    status = cli_await(cli, op, NULL);
    if (status != 0)
        return status;
    DLOCK_AUTO(dlock_info) info = dlock_op_take_info(op);
    if (cli->json)
        return cli_print_info(cli, info);
    char start[33];
    int wide = snprintf(start, sizeof start, "%.32s", name);
    cli_print(stdout, start);
    (void)printf("%*s %10s %8s  ", 32 - wide, "", text_of(info, "holders.0.remaining_ms"),
                 text_of(info, "waiters"));
    cli_print(stdout, text_of(info, "holders.0.owner"));
    (void)putchar('\n');
    return 0;
}

/* 0, or the exit status: of a signal, of what no repetition mends, of output that nobody takes. A
 * failure that was told is no end: what can't be listed now may be the next time. */
static int show_all(cli_call *cli, const char *prefix)
{
    DLOCK_AUTO(dlock_op) op = dlock_client_list_start(cli->client, prefix, cli->max);
    int status = cli_await(cli, op, NULL);
    if (status != 0)
        return status == CLI_USAGE || status >= CLI_SIGNAL ? status : 0;
    DLOCK_AUTO(dlock_info) list = dlock_op_take_info(op);
    if (!cli->json) {
        if (isatty(STDOUT_FILENO))
            (void)fputs("\033[H\033[2J", stdout);
        (void)printf("%-32s %10s %8s  %s\n", "NAME", "LEFT ms", "WAITERS", "OWNER");
    }
    for (size_t i = 0; i < dlock_info_count(list) && status < CLI_SIGNAL; i++) {
        if (cli_is_name(dlock_info_key(list, i)))
            status = show_lock(cli, dlock_info_text(list, i));
    }
    (void)cli_check_list(cli, list);
    /* One lock that can't be shown was reported; the others can. */
    return cli_flush(cli, status < CLI_SIGNAL ? 0 : status);
}

int cli_top(cli_call *cli, int argc, char **argv)
{
    if (argc > 1) {
        cli_say(cli, "one PREFIX, please: don't know what to do with %s", argv[1]);
        return CLI_USAGE;
    }
    int status = cli_open(cli);
    struct pollfd signals = {.fd = cli->signals, .events = POLLIN};
    while (status == 0) {
        status = show_all(cli, argc == 1 ? argv[0] : NULL);
        if (status == 0 && poll(&signals, 1, EVERY_MS) > 0)
            return CLI_OK;
    }
    return status;
}
