/*
 * dlock inspect: who holds a lock and who waits, as the server knows it; for people in sentences, which leave
 * out what isn't known. Names and data are a server's or a user's text, so all go through cli_print.
 */
#include "cli.h"

#include <string.h>
#include <time.h>

/* "holders.3.client"; NULL: not known. */
static const char *of(const dlock_info *info, const char *list, size_t number,
                      const char *what)
{
    char key[64];
    (void)snprintf(key, sizeof key, "%s.%zu.%s", list, number, what);
    return dlock_info_get(info, key);
}

/* A date, not a span: it is of another clock than ours. */
static void print_since(const char *since)
{
    struct tm date;
    char text[32];
    time_t when = (time_t)(cli_number(since) / 1000);
    if (since == NULL || gmtime_r(&when, &date) == NULL ||
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &date) == 0)
        return;
    (void)printf(", since %s UTC", text);
}

/* Whose process it is, else by what it calls itself. */
static void print_party(const dlock_info *info, const char *list, size_t number)
{
    const char *client = of(info, list, number, "client");
    const char *host = of(info, list, number, "host");
    const char *pid = of(info, list, number, "pid");
    const char *owner = of(info, list, number, "owner");
    if (client != NULL || pid != NULL) {
        cli_print(stdout, client != NULL ? client : "somebody");
        (void)fputs(host != NULL ? " on " : "", stdout);
        cli_print(stdout, host != NULL ? host : "");
        (void)fputs(pid != NULL ? ", process " : "", stdout);
        cli_print(stdout, pid != NULL ? pid : "");
        (void)fputs(" (owner ", stdout);
        cli_print(stdout, owner);
        (void)putchar(')');
    } else {
        (void)fputs("owner ", stdout);
        cli_print(stdout, owner);
    }
    print_since(of(info, list, number, "since"));
}

static void print_holder(const dlock_info *info, size_t number, bool permits)
{
    const char *left = of(info, "holders", number, "remaining_ms");
    const char *count = of(info, "holders", number, "count");
    const char *token = of(info, "holders", number, "token");
    (void)fputs("Held by ", stdout);
    print_party(info, "holders", number);
    if (permits)
        cli_print_more(", ", count,
                       strcmp(count ? count : "", "1") == 0 ? " permit" : " permits");
    (void)fputs(".", stdout);
    if (left != NULL) {
        (void)fputs(" The lease lasts ", stdout);
        cli_print_span(cli_number(left));
        (void)fputs(" more, unless it is renewed.", stdout);
    }
    if (cli_number(token) > 0)
        cli_print_more(" Token ", token, ".");
    cli_print_more(" Data: ", of(info, "holders", number, "data"), "");
    (void)putchar('\n');
}

static void print_waiting(const dlock_info *info)
{
    const char *waiters = dlock_info_get(info, "waiters");
    int64_t many = cli_number(waiters);
    if (many > 0)
        (void)printf("%lld wait%s.\n", (long long)many, many == 1 ? "s" : "");
    for (size_t i = 0; of(info, "waiting", i, "owner") != NULL; i++) {
        (void)printf("%zu. in the line: ", i + 1);
        print_party(info, "waiting", i);
        (void)putchar('.');
        cli_print_more(" Data: ", of(info, "waiting", i, "data"), "");
        (void)putchar('\n');
    }
}

static void print_permits(const dlock_info *info)
{
    const char *free = dlock_info_get(info, "permits_free");
    const char *permits = dlock_info_get(info, "permits");
    cli_print_more(" ", free, " ");
    cli_print_more("of its ", free != NULL ? permits : NULL, " ");
    (void)fputs(free != NULL ? "permits are free." : "", stdout);
}

static void print_sentences(const char *name, const dlock_info *info)
{
    const char *kind = dlock_info_get(info, "kind");
    const char *back = dlock_info_get(info, "clock_back_ms");
    bool held = cli_number(dlock_info_get(info, "held")) != 0;
    bool permits = kind != NULL && strcmp(kind, "semaphore") == 0;
    cli_print_name(stdout, name);
    (void)fputs(held ? " is held" : " is free", stdout);
    cli_print_more(": ", kind, "");
    cli_print_more(", layout ", dlock_info_get(info, "layout"), "");
    (void)putchar('.');
    if (permits)
        print_permits(info);
    (void)putchar('\n');
    for (size_t i = 0; of(info, "holders", i, "owner") != NULL; i++)
        print_holder(info, i, permits);
    print_waiting(info);
    cli_print_more("Kept by this client, idle for ", dlock_info_get(info, "kept_ms"),
                   " ms.\n");
    cli_print_more("The server's clock was set back by ", back,
                   " ms: leases from before last as much longer.\n");
}

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
    if (cli->json)
        return cli_print_info(cli, info);
    print_sentences(name, info);
    return CLI_OK;
}
