/*
 * The dlock command: finds the subcommand, reads its options, calls it.
 */
#include "cli.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const cli_command commands[] = {
    {"run", "NAME [--] CMD [ARG…] | --import TICKET [--] CMD [ARG…]",
     "run a command under a lock",
     CLI_SERVICE | CLI_KIND | CLI_WAIT | CLI_TTL | CLI_RUN | CLI_HOLDS, cli_run},
    {"hold", "NAME", "hold a lock until stdin ends or a signal comes, or hand it on",
     CLI_SERVICE | CLI_KIND | CLI_WAIT | CLI_TTL | CLI_HOLDS | CLI_EXPORT, cli_hold},
    {"wait", "NAME", "wait until nobody holds a lock, without taking it",
     CLI_SERVICE | CLI_KIND | CLI_WAIT | CLI_CONDITION, cli_wait},
    {"signal", "NAME", "wake who waits at a condition", CLI_SERVICE | CLI_SIGNALS,
     cli_send_signal},
    {"ls", "[PREFIX]", "list the locks that are there", CLI_SERVICE | CLI_LIST, cli_ls},
    {"inspect", "NAME", "show who holds a lock and who waits", CLI_SERVICE | CLI_KIND,
     cli_inspect},
    {"break", "NAME --force", "take a lock away from its holder",
     CLI_SERVICE | CLI_KIND | CLI_BREAK, cli_break},
    {"revoke", "NAME", "ask the holder of a lock to give it up", CLI_SERVICE | CLI_KIND,
     cli_revoke},
    {"top", "[PREFIX]", "show the locks that are there again and again",
     CLI_SERVICE | CLI_LIST | CLI_TOP, cli_top},
    {"stats", "[PREFIX]", "count what is held and who waits, once",
     CLI_SERVICE | CLI_LIST, cli_stats},
    {"bench", "", "measure how fast locks are on a service",
     CLI_SERVICE | CLI_TTL | CLI_BENCH, cli_bench},
    {"doctor", "[URI]", "look at a lock service as an operator would",
     CLI_SERVICE | CLI_DOCTOR | CLI_INSTALL, cli_doctor},
    {"version", "", "show the versions and backends", 0, cli_version},
    {"__keys", "", NULL, 0, cli_keys}, /* for the shells' completion */
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void help(FILE *out)
{
    (void)fputs("usage: dlock COMMAND [OPTION…] …\n\n", out);
    for (size_t i = 0; i < COMMANDS; i++) {
        if (commands[i].what != NULL)
            (void)fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].what);
    }
    (void)fprintf(
        out,
        "\nThe lock service is named by --url URI or DLOCK_URL. This build knows: %s.\n"
        "dlock COMMAND --help shows a command's options; dlock(1) tells it all.\n",
        dlock_backends());
}

static void help_on(const cli_command *command)
{
    (void)printf("usage: dlock %s [OPTION…] %s\n%s\n\n", command->name,
                 command->arguments, command->what);
    cli_options_help(stdout, command->takes | CLI_COMMON);
}

/* Options may stand before and behind NAME; what isn't one is moved to the front of argv. For
 * `run` they end at the first argument behind NAME, or where a ticket stands for that at the first:
 * the rest belongs to the child. Returns the number of arguments, or -1. */
static int read_arguments(cli_call *cli, const cli_command *command, int argc,
                          char **argv)
{
    int count = 0, at = 0;
    while (at < argc) {
        int used = cli_options(cli, command->takes | CLI_COMMON, argc - at, argv + at);
        if (used < 0)
            return -1;
        at += used;
        bool all = used > 0 && strcmp(argv[at - 1], "--") == 0;
        bool is_rest = command->call == cli_run && (count > 0 || cli->ticket != NULL);
        while (at < argc) {
            argv[count++] = argv[at++];
            if (!all && !is_rest)
                break;
        }
    }
    argv[count] = NULL; /* behind the last there is always room for it */
    return count;
}

static const cli_command *find(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    }
    return NULL;
}

static int call(cli_call *cli, int argc, char **argv)
{
    if (argc > 0 && strcmp(argv[0], "--version") == 0)
        argv[0] += 2; /* the command of that name, as everybody tries it */
    int used = cli_options(cli, CLI_COMMON | CLI_SERVICE, argc, argv);
    if (used < 0)
        return CLI_USAGE;
    if (used == argc) {
        help(cli->help ? stdout : stderr);
        return cli->help ? CLI_OK : CLI_USAGE;
    }
    const cli_command *command = find(argv[used]);
    if (command == NULL && strcmp(argv[used], "help") == 0) {
        help(stdout);
        return CLI_OK;
    }
    if (command == NULL) {
        cli_say(cli, "no such command: %s; see dlock --help", argv[used]);
        return CLI_USAGE;
    }
    cli->command = command->name;
    argc = read_arguments(cli, command, argc - used - 1, argv + used + 1);
    if (argc < 0)
        return CLI_USAGE;
    if (cli->help && command->what != NULL) {
        help_on(command);
        return CLI_OK;
    }
    return command->call(cli, argc, argv + used + 1);
}

/* Closed standard streams would give their numbers to our own descriptors, and those to a child
 * as its standard streams. */
static void fill_standard_streams(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        (void)close(fd);
}

int main(int argc, char **argv)
{
    fill_standard_streams();
    cli_call cli = {
        .url = getenv("DLOCK_URL"),
        .conf = dlock_conf_new(),
        .kind = DLOCK_MUTEX,
        .wait_ms = DLOCK_FOREVER,
        .not_obtained = CLI_NOT_OBTAINED,
        .kill_after_ms = -1,
        .max = 1000,
        .number = 1,
        .bench_ms = 2000,
        .threads = 8,
        .signals = -1,
    };
    if (cli.conf == NULL)
        return cli_fail(&cli, NULL, DLOCK_ENOMEM, NULL);
    int status = argc > 0 ? call(&cli, argc - 1, argv + 1) : CLI_USAGE;
    if (status == CLI_BUSY)
        status = cli.not_obtained;
    cli_close(&cli);
    dlock_conf_free(cli.conf);
    status = cli_flush(&cli, status);
    if (cli.left) /* nothing is to end under the hands of the library's threads */
        _exit(status);
    return status;
}
