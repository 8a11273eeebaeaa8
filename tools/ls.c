/*
 * dlock ls: the locks that are there, as the server knows them.
 */
#include "cli.h"

#include <string.h>

/* A list has an entry "….name" for each lock. */
bool cli_is_name(const char *key)
{
    const char *last = strrchr(key, '.');
    return last != NULL && strcmp(last, ".name") == 0;
}

int cli_check_list(const cli_call *cli, const dlock_info *list)
{
    int64_t names = 0;
    for (size_t i = 0; i < dlock_info_count(list); i++)
        names += cli_is_name(dlock_info_key(list, i));
    if (names >= cli->max)
        cli_say(cli, "these are --max %lld; there may be more", (long long)cli->max);
    const char *why = dlock_info_get(list, "incomplete");
    if (why == NULL)
        return 0;
    cli_say(cli, "the list is incomplete: %s", why);
    return CLI_OTHER;
}

int cli_ls(cli_call *cli, int argc, char **argv)
{
    if (argc > 1) {
        cli_say(cli, "one PREFIX, please: don't know what to do with %s", argv[1]);
        return CLI_USAGE;
    }
    int status = cli_open(cli);
    if (status != 0)
        return status;
    const char *prefix = argc == 1 ? argv[0] : NULL;
    DLOCK_AUTO(dlock_op) op = dlock_client_list_start(cli->client, prefix, cli->max);
    status = cli_await(cli, op, NULL);
    if (status != 0)
        return status;
    DLOCK_AUTO(dlock_info) info = dlock_op_take_info(op);
    status = cli_check_list(cli, info);
    if (cli->json) {
        int printed = cli_print_info(cli, info);
        return printed != 0 ? printed : status;
    }
    for (size_t i = 0; i < dlock_info_count(info); i++) {
        if (!cli_is_name(dlock_info_key(info, i)))
            continue;
        cli_print_name(stdout, dlock_info_text(info, i));
        (void)putchar('\n');
    }
    return status;
}
