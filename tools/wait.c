/*
 * dlock wait: waits until nobody holds a lock, without taking it.
 */
#include "cli.h"

int cli_wait(cli_call *cli, int argc, char **argv)
{
    const char *name = cli_only_name(cli, argc, argv);
    if (name == NULL)
        return CLI_USAGE;
    DLOCK_AUTO(dlock_lock) lock = NULL;
    int status = cli_open(cli);
    if (status == 0)
        status = cli_lock(cli, name, &lock);
    if (status != 0)
        return status;
    DLOCK_AUTO(dlock_op) op = dlock_lock_wait_idle_start(lock, cli_wait_left(cli));
    status = cli_await(cli, op, name);
    if (cli->json && (status == 0 || status == CLI_BUSY)) {
        (void)fputs("{\"name\":", stdout);
        cli_json_text(stdout, name);
        (void)printf(",\"idle\":%s}\n", status == 0 ? "true" : "false");
    }
    return status;
}
