/*
 * dlock revoke: asks who holds a lock to give it up; whether that is done is the holder's affair.
 */
#include "cli.h"

int cli_revoke(cli_call *cli, int argc, char **argv)
{
    const char *name = cli_only_name(cli, argc, argv);
    if (name == NULL)
        return CLI_USAGE;
    DLOCK_AUTO(dlock_lock) lock = NULL;
    int status = cli_lock(cli, name, &lock);
    if (status != 0)
        return status;
    DLOCK_AUTO(dlock_op) op = dlock_lock_revoke_start(lock);
    status = cli_await(cli, op, name);
    if (status == 0)
        cli_answer(cli, name, "revoked", "true");
    return status;
}
