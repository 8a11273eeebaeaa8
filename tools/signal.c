/*
 * dlock signal: wakes those who wait at a condition.
 */
#include "cli.h"

int cli_send_signal(cli_call *cli, int argc, char **argv)
{
    const char *name = cli_only_name(cli, argc, argv);
    if (name == NULL)
        return CLI_USAGE;
    DLOCK_AUTO(dlock_cond) cond = NULL;
    int status = cli_condition(cli, name, &cond);
    if (status != 0)
        return status;
    DLOCK_AUTO(dlock_op) op = dlock_cond_signal_start(cond, cli->number, NULL);
    status = cli_await(cli, op, name);
    if (status != 0)
        return status;
    DLOCK_AUTO(dlock_info) info = dlock_op_take_info(op);
    cli_answer(cli, name, "signalled", dlock_info_get(info, "signalled"));
    return CLI_OK;
}
