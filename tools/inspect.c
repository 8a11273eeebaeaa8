/*
 * dlock inspect: who holds a lock and who waits, as the server knows it.
 */
#include "cli.h"

int cli_inspect(cli_call *cli, int argc, char **argv)
{
    const char *name = cli_only_name(cli, argc, argv);
    if (name == NULL)
        return CLI_USAGE;
    DLOCK_AUTO(dlock_lock) lock = NULL;
    int status = cli_lock(cli, name, &lock);
    if (status != 0)
        return status;
    DLOCK_AUTO(dlock_op) op = dlock_lock_inspect_start(lock);
    status = cli_await(cli, op, name);
    if (status != 0)
        return status;
    DLOCK_AUTO(dlock_info) info = dlock_op_take_info(op);
    return cli_print_info(cli, info);
}
