/*
 * dlock doctor --deadlocks: who waits for whom in a circle, and what ends it. What is known of that is part of a
 * list, where clients tell what they hold and wait for. Exit 1 when there is such a circle.
 */
#include "cli.h"

#include <string.h>

enum { LOCKS = 1 }; /* asked about beside those in circles: none of them matters */

/* "deadlocks.0.waits.3.name"; NULL: not known. */
static const char *of(const dlock_info *info, size_t number, size_t wait,
                      const char *what)
{
    char key[64];
    (void)snprintf(key, sizeof key, "deadlocks.%zu.waits.%zu.%s", number, wait, what);
    return dlock_info_get(info, key);
}

/* "deadlocks.0.last" */
static const char *at(const dlock_info *info, size_t number, const char *what)
{
    char key[64];
    (void)snprintf(key, sizeof key, "deadlocks.%zu.%s", number, what);
    return dlock_info_get(info, key);
}

static size_t count_waits(const dlock_info *info, size_t number)
{
    size_t count = 0;
    while (of(info, number, count, "name") != NULL)
        count++;
    return count;
}

size_t cli_count_deadlocks(const dlock_info *info)
{
    size_t count = 0;
    while (of(info, count, 0, "name") != NULL)
        count++;
    return count;
}

void cli_deadlock_line(const dlock_info *info, char *ret, size_t size)
{
    size_t waits = count_waits(info, 0), used = 0, all = cli_count_deadlocks(info);
    ret[0] = '\0';
    if (waits == 0)
        return;
    used += (size_t)snprintf(ret, size, "%zu wait for each other:", waits);
    for (size_t i = 0; i < waits && i < 4 && used < size; i++)
        used += (size_t)snprintf(ret + used, size - used, " %s%s", of(info, 0, i, "name"),
                                 i + 1 < waits ? "," : "");
    if (waits > 4 && used < size)
        used += (size_t)snprintf(ret + used, size - used, " ...");
    if (all > 1 && used < size)
        (void)snprintf(ret + used, size - used, "; and %zu more such", all - 1);
}

static void print_party(const dlock_info *info, size_t number, size_t wait)
{
    const char *client = of(info, number, wait, "client");
    cli_print(stdout, client != NULL ? client : of(info, number, wait, "uuid"));
    cli_print_more(" on ", of(info, number, wait, "host"), "");
    cli_print_more(", process ", of(info, number, wait, "pid"), "");
    cli_print_more(", thread ", of(info, number, wait, "thread"), "");
}

static void print_wait(const dlock_info *info, size_t number, size_t wait)
{
    const char *kind = of(info, number, wait, "kind");
    int64_t ms = cli_number(dlock_info_get(info, "date")) -
                 cli_number(of(info, number, wait, "since"));
    (void)fputs("  ", stdout);
    print_party(info, number, wait);
    (void)fputs(" has ", stdout);
    cli_print_name(stdout, of(info, number, wait, "has"));
    (void)fputs(" and waits ", stdout);
    cli_print_span(ms > 0 ? ms : 0);
    (void)fputs(" for ", stdout);
    cli_print_name(stdout, of(info, number, wait, "name"));
    if (kind != NULL && strcmp(kind, "mutex") != 0)
        cli_print_more(", ", kind, "");
    (void)putchar('\n');
}

static const char *option_of(const char *kind)
{
    if (kind != NULL && strcmp(kind, "read") == 0)
        return "-s ";
    return kind != NULL && strcmp(kind, "write") == 0 ? "-x " : "";
}

/* The one whose end costs least: whoever has waited longest stays. */
static void print_way_out(const dlock_info *info, size_t number)
{
    const char *owner = at(info, number, "break.owner");
    const char *name = at(info, number, "break.name");
    (void)fputs("  The last to wait is ", stdout);
    print_party(info, number, (size_t)cli_number(at(info, number, "last")));
    if (owner == NULL || name == NULL) { /* of a semaphore */
        (void)fputs(": its end ends this.\n", stdout);
        return;
    }
    (void)printf(": its end ends this, or to take from it what it has:\n"
                 "    dlock break --force %s--owner ",
                 option_of(at(info, number, "break.kind")));
    cli_print(stdout, owner);
    (void)putchar(' ');
    cli_print_name(stdout, name);
    (void)putchar('\n');
}

static void print_all(const dlock_info *info, size_t count)
{
    if (count == 0) {
        cli_print_more("no deadlock among what ", dlock_info_get(info, "clients"),
                       " clients tell\n");
    }
    for (size_t i = 0; i < count; i++) {
        size_t waits = count_waits(info, i);
        (void)printf("deadlock: %zu wait for each other\n", waits);
        for (size_t k = 0; k < waits; k++)
            print_wait(info, i, k);
        print_way_out(info, i);
    }
}

int cli_deadlocks(cli_call *cli)
{
    int status = cli_open_list(cli);
    if (status != 0)
        return status;
    DLOCK_AUTO(dlock_op) op = dlock_client_list_start(cli->client, NULL, LOCKS);
    status = cli_await(cli, op, NULL);
    if (status != 0)
        return status;
    DLOCK_AUTO(dlock_info) info = dlock_op_take_info(op);
    const char *why = dlock_info_get(info, "scan.why");
    if (dlock_info_get(info, "clients") == NULL) {
        cli_say(cli,
                "not supported: nobody tells there what he holds and waits for%s%s "
                "(clients of one Redis do, unless redis.client_key=false)",
                why != NULL ? ", or it can't be read: " : "", why != NULL ? why : "");
        return cli_exit_status(DLOCK_ENOTSUP);
    }
    size_t count = cli_count_deadlocks(info);
    if (cli->json)
        status = cli_print_info(cli, info);
    else
        print_all(info, count);
    return status == 0 && count > 0 ? CLI_UNSAFE : status;
}
