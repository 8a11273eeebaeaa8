/*
 * dlock doctor: looks at a lock service as an operator would. The worst verdict is the status.
 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

enum { UNSAFE = 2 };

static long number_of(const dlock_info *info, const char *key)
{
    const char *text = dlock_info_get(info, key);
    return text != NULL ? strtol(text, NULL, 10) : -1;
}

/* Of the verdict and of each finding. */
static const char *word_for(long severity)
{
    static const char *const words[] = {"fine", "warning", "unsafe"};
    return severity >= 0 && severity <= UNSAFE ? words[severity] : "unknown";
}

static void print_findings(const dlock_info *info)
{
    (void)printf("verdict: %s\n", word_for(number_of(info, "verdict")));
    for (int i = 0;; i++) {
        char id[48], severity[48], text[48];
        (void)snprintf(id, sizeof id, "findings.%d.id", i);
        (void)snprintf(severity, sizeof severity, "findings.%d.severity", i);
        (void)snprintf(text, sizeof text, "findings.%d.text", i);
        if (dlock_info_get(info, id) == NULL || dlock_info_get(info, text) == NULL)
            break;
        (void)printf("%-8s %s: ", word_for(number_of(info, severity)),
                     dlock_info_get(info, id));
        cli_print(stdout, dlock_info_get(info, text)); /* it quotes servers */
        (void)putchar('\n');
    }
}

int cli_doctor(cli_call *cli, int argc, char **argv)
{
    if (argc > 1) {
        cli_say(cli, "one URI, please: don't know what to do with %s", argv[1]);
        return CLI_USAGE;
    }
    if (argc == 1)
        cli->url = argv[0];
    if (cli->deadlocks && cli->install) {
        cli_say(cli, "--deadlocks and --install: one at a time");
        return CLI_USAGE;
    }
    if (cli->deadlocks)
        return cli_deadlocks(cli);
    if (cli->install && cli->url != NULL && strncmp(cli->url, "postgres", 8) != 0) {
        cli_say(cli, "--install: only PostgreSQL needs something made beforehand");
        return CLI_USAGE;
    }
    int status = cli_open(cli);
    if (status != 0)
        return status;
    DLOCK_AUTO(dlock_op) op = dlock_client_doctor_start(cli->client);
    status = cli_await(cli, op, NULL);
    if (status != 0)
        return status;
    DLOCK_AUTO(dlock_info) info = dlock_op_take_info(op);
    if (cli->json)
        status = cli_print_info(cli, info);
    else
        print_findings(info);
    if (status == 0 && number_of(info, "verdict") >= UNSAFE)
        status = CLI_UNSAFE;
    return status;
}
