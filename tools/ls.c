/*
 * dlock ls: the locks that are there, as the server knows them.
 */
#include "cli.h"

#include <string.h>

/* A list has an entry "locks.N.name" for each lock. */
bool cli_is_name(const char *key)
{
    const char *last = strrchr(key, '.');
    return strncmp(key, "locks.", 6) == 0 && strcmp(last, ".name") == 0;
}

/* What clients tell of themselves costs a server next to nothing; --scan, or who has set it, wants otherwise. */
static void choose_way(const cli_call *cli)
{
    DLOCK_AUTO(dlock_info) table = NULL;
    bool read = dlock_conf_dump(cli->conf, &table, NULL) == DLOCK_OK;
    bool set = read && dlock_info_get(table, "redis.list.value") != NULL;
    bool timed = read && dlock_info_get(table, "client.timeout_ms.value") != NULL;
    dlock_err code = DLOCK_OK;
    if (cli->scan && !timed) /* it takes its time */
        code = dlock_conf_set(cli->conf, "client.timeout_ms", "60000", NULL);
    if (cli->scan || !set)
        code = dlock_conf_set(cli->conf, "redis.list", cli->scan ? "slowly" : "clients",
                              NULL);
    (void)code; /* a build without Redis doesn't know it, and doesn't need it */
}

int cli_open_list(cli_call *cli)
{
    choose_way(cli);
    return cli_open(cli);
}

static void tell_scan(const cli_call *cli, const dlock_info *list)
{
    const char *pages = dlock_info_get(list, "scan.pages");
    const char *ms = dlock_info_get(list, "scan.ms");
    const char *why = dlock_info_get(list, "scan.why");
    if (why != NULL)
        cli_say(cli, "what clients tell can't be read, so all keys were gone through: %s",
                why);
    if (pages != NULL && ms != NULL && (cli->scan || why != NULL))
        cli_say(cli, "gone through all keys, in %s steps of together %s ms", pages, ms);
}

static void tell_told(const cli_call *cli, const dlock_info *list, int64_t names)
{
    const char *untold = dlock_info_get(list, "untold");
    const char *unread = dlock_info_get(list, "unread");
    if (untold != NULL)
        cli_say(cli, "clients have %s more locks, which they don't name", untold);
    if (unread != NULL)
        cli_say(cli, "%s lines of what clients tell make no sense", unread);
    if (names == 0 && dlock_info_get(list, "clients") != NULL)
        cli_say(cli, "no client tells of a lock that it has had for more than a second; "
                     "--scan looks through all keys");
}

int cli_check_list(const cli_call *cli, const dlock_info *list)
{
    int64_t names = 0;
    for (size_t i = 0; i < dlock_info_count(list); i++)
        names += cli_is_name(dlock_info_key(list, i));
    if (!cli->json) {
        tell_scan(cli, list);
        tell_told(cli, list, names);
    }
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
    int status = cli_open_list(cli);
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
