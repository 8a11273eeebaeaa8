/*
 * dlock break: takes a lock away from its holder, who notices at its next renewal only.
 */
#include "cli.h"

int cli_break(cli_call *cli, int argc, char **argv)
{
    const char *name = cli_only_name(cli, argc, argv);
    if (name == NULL)
        return CLI_USAGE;
    if (!cli->force) {
        cli_say(
            cli,
            "%s: the holder may still be at work, and the next one may overlap with it; "
            "if that is meant, add --force",
            name);
        return CLI_USAGE;
    }
    DLOCK_AUTO(dlock_lock) lock = NULL;
    int status = cli_lock(cli, name, &lock);
    if (status != 0)
        return status;
    DLOCK_AUTO(dlock_op) op = dlock_lock_break_start(lock, cli->owner);
    status = cli_await(cli, op, name);
    if (status == 0)
        cli_answer(cli, name, "broken", "true");
    return status;
}
