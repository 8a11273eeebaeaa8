/*
 * dlock wait: waits until nobody holds a lock, without taking it, or for a signal at a condition.
 */
#include "cli.h"

/* Waits, and says in JSON under this key whether it was so. */
static int await(cli_call *cli, dlock_op *op, const char *name, const char *key)
{
    int status = cli_await(cli, op, name);
    if (status == 0 || status == CLI_BUSY)
        cli_answer(cli, name, key, status == 0 ? "true" : "false");
    return status;
}

static int wait_idle(cli_call *cli, const char *name)
{
    DLOCK_AUTO(dlock_lock) lock = NULL;
    int status = cli_lock(cli, name, &lock);
    if (status != 0)
        return status;
    DLOCK_AUTO(dlock_op) op = dlock_lock_wait_idle_start(lock, cli_wait_left(cli));
    return await(cli, op, name, "idle");
}

static int wait_signal(cli_call *cli, const char *name)
{
    DLOCK_AUTO(dlock_cond) cond = NULL;
    int status = cli_condition(cli, name, &cond);
    if (status != 0)
        return status;
    DLOCK_AUTO(dlock_op) op = dlock_cond_wait_start(cond, NULL, cli_wait_left(cli));
    return await(cli, op, name, "signalled");
}

int cli_wait(cli_call *cli, int argc, char **argv)
{
    const char *name = cli_only_name(cli, argc, argv);
    if (name == NULL)
        return CLI_USAGE;
    if (cli->signal && cli->kind != DLOCK_MUTEX) {
        cli_say(cli, "--signal is for conditions, which have no sides and no permits");
        return CLI_USAGE;
    }
    return cli->signal ? wait_signal(cli, name) : wait_idle(cli, name);
}
