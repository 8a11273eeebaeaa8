/*
 * The options of the dlock command: one table that is parsed by, printed as help, and checked.
 */
#include "cli.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct option {
    char letter; /* 0: has none */
    const char *name;
    const char *argument; /* NULL: takes none */
    int takes;            /* the commands that have it */
    /* 0, or -1 after saying what is wrong. NULL: what is at `at` in cli_call becomes true, or the argument. */
    int (*set)(cli_call *cli, const char *value);
    size_t at;
    const char *what;
} option;

#define BY(function) function, 0
#define AT(member)   NULL, offsetof(cli_call, member)

static int wrong(const cli_call *cli, const char *name, const char *value,
                 const char *wanted)
{
    cli_say(cli, "--%s %s: %s", name, value, wanted);
    return -1;
}

/* Seconds, with fractions, as ms: rounded up, because 0 means something else than a little.
 * Digits and one point only: strtod alone would take "inf", "0x1p3" and a comma in some places. */
static int parse_seconds(const cli_call *cli, const char *name, const char *value,
                         int64_t *ret_ms)
{
    const char *const wanted = "seconds, such as 10 or 0.5";
    int64_t ms = 0, unit = 1000;
    bool digits = false, more = false, point = false;
    for (const char *at = value; *at != '\0'; at++) {
        if (*at == '.' && !point) {
            point = true;
            continue;
        }
        if (*at < '0' || *at > '9')
            return wrong(cli, name, value, wanted);
        digits = true;
        int digit = *at - '0';
        if (!point) {
            ms = ms * 10 + (int64_t)digit * 1000;
        } else {
            unit /= 10;
            ms += digit * unit;
            more = more || (unit == 0 && digit > 0);
        }
        if (ms > INT64_C(1) << 53)
            return wrong(cli, name, value, "too long");
    }
    if (!digits)
        return wrong(cli, name, value, wanted);
    *ret_ms = ms + (more ? 1 : 0);
    return 0;
}

static int set_conf(cli_call *cli, const char *key, const char *value)
{
    dlock_error *error = NULL;
    dlock_err code = dlock_conf_set(cli->conf, key, value, &error);
    if (code == DLOCK_OK)
        return 0;
    (void)cli_fail(cli, NULL, code, error);
    dlock_error_free(error);
    return -1;
}

static int set_any(cli_call *cli, const char *value)
{
    const char *equals = strchr(value, '=');
    if (equals == NULL)
        return wrong(cli, "set", value, "KEY=VALUE, such as lock.ttl_ms=10000");
    char *key = strndup(value, (size_t)(equals - value));
    if (key == NULL)
        return cli_fail_errno(cli, "--set"), -1;
    int result = set_conf(cli, key, equals + 1);
    free(key);
    return result;
}

static int set_verbose(cli_call *cli, const char *value)
{
    (void)value;
    if (cli->verbose)
        return set_conf(cli, "client.log_level", "debug") ||
               set_conf(cli, "client.debug", "all");
    cli->verbose = true;
    return set_conf(cli, "client.log_level", "info");
}

static int set_kind(cli_call *cli, dlock_kind kind)
{
    if (cli->kind != DLOCK_MUTEX && cli->kind != kind) {
        cli_say(cli, "only one of -s, -x and --permits");
        return -1;
    }
    cli->kind = kind;
    return 0;
}

static int set_shared(cli_call *cli, const char *value)
{
    (void)value;
    return set_kind(cli, DLOCK_READ);
}

static int set_exclusive(cli_call *cli, const char *value)
{
    (void)value;
    return set_kind(cli, DLOCK_WRITE);
}

static int set_permits(cli_call *cli, const char *value)
{
    return set_kind(cli, DLOCK_SEMAPHORE) != 0 ? -1
                                               : set_conf(cli, "lock.permits", value);
}

static int set_nonblock(cli_call *cli, const char *value)
{
    (void)value;
    cli->wait_ms = 0;
    return 0;
}

static int set_wait(cli_call *cli, const char *value)
{
    return parse_seconds(cli, "wait", value, &cli->wait_ms);
}

static int set_conflict(cli_call *cli, const char *value)
{
    char *end = NULL;
    errno = 0;
    long code = strtol(value, &end, 10);
    if (errno != 0 || end == value || *end != '\0' || code < 0 || code > 255)
        return wrong(cli, "conflict-exit-code", value, "a number from 0 to 255");
    cli->not_obtained = (int)code;
    return 0;
}

/* Seconds that are a setting in ms. */
static int set_conf_ms(cli_call *cli, const char *shown, const char *key,
                       const char *value)
{
    int64_t ms = 0;
    if (parse_seconds(cli, shown + 2, value, &ms) != 0)
        return -1;
    dlock_error *error = NULL;
    dlock_err code = dlock_conf_set_int(cli->conf, key, ms, &error);
    if (code != DLOCK_OK)
        (void)cli_fail(cli, shown, code, error);
    dlock_error_free(error);
    return code == DLOCK_OK ? 0 : -1;
}

static int set_ttl(cli_call *cli, const char *value)
{
    return set_conf_ms(cli, "--ttl", "lock.ttl_ms", value);
}

static int set_keep(cli_call *cli, const char *value)
{
    return set_conf_ms(cli, "--keep", "lock.keep_ms", value);
}

static int set_seconds(cli_call *cli, const char *value)
{
    if (parse_seconds(cli, "seconds", value, &cli->bench_ms) != 0)
        return -1;
    if (cli->bench_ms < 1 || cli->bench_ms > 3600000)
        return wrong(cli, "seconds", value, "from 0.001 to 3600");
    return 0;
}

static int set_on_lost(cli_call *cli, const char *value)
{
    static const char *const names[] = {[CLI_ON_LOST_TERM] = "term",
                                        [CLI_ON_LOST_KILL] = "kill",
                                        [CLI_ON_LOST_IGNORE] = "ignore"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(value, names[i]) == 0) {
            cli->on_lost = (cli_on_lost)i;
            return 0;
        }
    }
    return wrong(cli, "on-lost", value, "term, kill or ignore");
}

static int set_kill_after(cli_call *cli, const char *value)
{
    return parse_seconds(cli, "kill-after", value, &cli->kill_after_ms);
}

static int set_install(cli_call *cli, const char *value)
{
    (void)value;
    cli->install = true;
    return set_conf(cli, "postgres.install", "true");
}

static int refuse_no_fork(cli_call *cli, const char *value)
{
    (void)value;
    cli_say(
        cli,
        "-F can't work: a lease has to be renewed while the command runs, and after an "
        "exec nobody would");
    return -1;
}

/* A number of things from 1. */
static int parse_count(const cli_call *cli, const char *name, const char *value,
                       int64_t *ret)
{
    char *end = NULL;
    errno = 0;
    long long count = strtoll(value, &end, 10);
    if (errno != 0 || end == value || *end != '\0' || count < 1)
        return wrong(cli, name, value, "a number from 1");
    *ret = count;
    return 0;
}

static int set_max(cli_call *cli, const char *value)
{
    return parse_count(cli, "max", value, &cli->max);
}

static int set_threads(cli_call *cli, const char *value)
{
    if (parse_count(cli, "threads", value, &cli->threads) != 0)
        return -1;
    return cli->threads > CLI_THREADS_MAX ? wrong(cli, "threads", value, "64 at most")
                                          : 0;
}

static int set_number(cli_call *cli, const char *value)
{
    return parse_count(cli, "number", value, &cli->number);
}

static int set_all(cli_call *cli, const char *value)
{
    (void)value;
    cli->number = INT64_MAX;
    return 0;
}

static const option options[] = {
    {'n', "nonblock", NULL, CLI_WAIT, BY(set_nonblock),
     "don't wait: exit 1 when it is held"},
    {'w', "wait", "SECS", CLI_WAIT, BY(set_wait),
     "wait so long at most (default: no limit)"},
    {'E', "conflict-exit-code", "CODE", CLI_WAIT, BY(set_conflict),
     "exit with this instead of 1 when it isn't obtained"},
    {'s', "shared", NULL, CLI_KIND, BY(set_shared), "the read side of a read/write lock"},
    {'x', "exclusive", NULL, CLI_KIND, BY(set_exclusive),
     "the write side of a read/write lock"},
    {0, "permits", "N", CLI_KIND, BY(set_permits), "one of N permits of a semaphore"},
    {0, "ttl", "SECS", CLI_TTL, BY(set_ttl), "the lease (default: 30)"},
    {0, "strict", NULL, CLI_HOLDS, AT(strict),
     "a release that isn't confirmed is a failure: exit 69"},
    {0, "export", NULL, CLI_EXPORT, AT(export),
     "leave the lock to whoever has the ticket that is printed"},
    {0, "import", "TICKET", CLI_RUN, AT(ticket),
     "take over what hold --export left, in the place of NAME; -: read it from stdin"},
    {'c', "command", "STRING", CLI_RUN, AT(shell), "let a shell run STRING"},
    {0, "on-lost", "HOW", CLI_RUN, BY(set_on_lost),
     "term (default), kill: CMD ends within its lease, dlock 0.25 s later; or ignore"},
    {0, "kill-after", "SECS", CLI_RUN, BY(set_kill_after),
     "time between TERM and KILL (default: ttl/6, at most 5)"},
    {'F', "no-fork", NULL, CLI_RUN, BY(refuse_no_fork), NULL},
    {0, "force", NULL, CLI_BREAK, AT(force), "needed: the victim may still be at work"},
    {0, "owner", "OWNER", CLI_BREAK, AT(owner),
     "only from this owner, as inspect shows it"},
    {0, "signal", NULL, CLI_CONDITION, AT(signal),
     "wait for a signal at the condition NAME instead"},
    {'n', "number", "N", CLI_SIGNALS, BY(set_number), "wake so many (default: 1)"},
    {0, "all", NULL, CLI_SIGNALS, BY(set_all), "wake all who wait"},
    {0, "max", "N", CLI_LIST, BY(set_max), "at most so many (default: 1000)"},
    {0, "scan", NULL, CLI_LIST, AT(scan),
     "on Redis: go through all keys, also for locks of others, and say what that took"},
    {0, "deadlocks", NULL, CLI_DOCTOR, AT(deadlocks),
     "show who waits for whom in a circle, and what ends it: 1 when there is one"},
    {0, "once", NULL, CLI_TOP, AT(once), "one look, and end"},
    {0, "openmetrics", "[ADDRESS:]PORT|unix:PATH", CLI_TOP, AT(openmetrics),
     "a page for Prometheus there instead of a screen, /metrics, on the loopback by "
     "default"},
    {0, "seconds", "SECS", CLI_BENCH, BY(set_seconds), "for each measure (default: 2)"},
    {0, "threads", "N", CLI_BENCH, BY(set_threads),
     "of the measures with many (default: 8, at most 64)"},
    {0, "keep", "SECS", CLI_BENCH, BY(set_keep),
     "keep a lock after its release for so long (lock.keep_ms)"},
    {0, "install", NULL, CLI_INSTALL, BY(set_install),
     "first make the schema that PostgreSQL needs, if it isn't there"},
    {0, "url", "URI", CLI_SERVICE, AT(url),
     "the lock service, instead of DLOCK_URL; what run runs gets it without passwords"},
    {0, "set", "KEY=VALUE", CLI_SERVICE, BY(set_any), "any setting; may be repeated"},
    {'v', "verbose", NULL, CLI_SERVICE, BY(set_verbose),
     "the library's log on stderr; -vv: each decision"},
    {0, "json", NULL, CLI_COMMON, AT(json), "answer in JSON"},
    {'h', "help", NULL, CLI_COMMON, AT(help), "this text"},
};
enum { OPTIONS = sizeof options / sizeof *options };

/* Which of them there are: what is only for PostgreSQL isn't, where that isn't built in. */
static int built_in(int takes)
{
    return strstr(dlock_backends(), "postgres") ? takes : takes & ~CLI_INSTALL;
}

/* One element of argv that is an option, and how far we are in it ("-nw5"). */
typedef struct place {
    int index;
    int argc;
    char **argv;
} place;

/* Finds the value of an option that takes one: what follows in the same element, or the next. */
static const char *value_of(const cli_call *cli, const char *shown, const char *rest,
                            place *at)
{
    if (rest != NULL)
        return rest;
    if (at->index + 1 < at->argc)
        return at->argv[++at->index];
    cli_say(cli, "%s needs a value; see --help", shown);
    return NULL;
}

static int unknown(const cli_call *cli, const char *shown)
{
    cli_say(cli, "unknown option %s; see --help", shown);
    return -1;
}

static int set(cli_call *cli, const option *o, const char *value)
{
    void *at = (char *)cli + o->at;
    if (o->set != NULL)
        return o->set(cli, value);
    if (o->argument != NULL)
        *(const char **)at = value;
    else
        *(bool *)at = true;
    return 0;
}

static int read_long(cli_call *cli, int takes, place *at)
{
    const char *name = at->argv[at->index] + 2;
    size_t size = strcspn(name, "=");
    const char *rest = name[size] == '=' ? name + size + 1 : NULL;
    for (size_t i = 0; i < OPTIONS; i++) {
        const option *o = &options[i];
        if ((o->takes & takes) == 0 || strncmp(o->name, name, size) != 0 ||
            o->name[size] != '\0')
            continue;
        if (o->argument == NULL) {
            if (rest == NULL)
                return set(cli, o, NULL);
            cli_say(cli, "--%s takes no value", o->name);
            return -1;
        }
        const char *value = value_of(cli, at->argv[at->index], rest, at);
        return value == NULL ? -1 : set(cli, o, value);
    }
    return unknown(cli, at->argv[at->index]);
}

static int read_letters(cli_call *cli, int takes, place *at)
{
    for (const char *letter = at->argv[at->index] + 1; *letter != '\0'; letter++) {
        const char shown[] = {'-', *letter, '\0'};
        const option *o = NULL;
        for (size_t i = 0; i < OPTIONS && o == NULL; i++) {
            if ((options[i].takes & takes) != 0 && options[i].letter == *letter)
                o = &options[i];
        }
        if (o == NULL)
            return unknown(cli, shown);
        if (o->argument != NULL) {
            const char *value =
                value_of(cli, shown, letter[1] != '\0' ? letter + 1 : NULL, at);
            return value == NULL ? -1 : set(cli, o, value);
        }
        if (set(cli, o, NULL) != 0)
            return -1;
    }
    return 0;
}

int cli_options(cli_call *cli, int takes, int argc, char **argv)
{
    place at = {.argc = argc, .argv = argv};
    takes = built_in(takes);
    for (; at.index < argc; at.index++) {
        const char *argument = argv[at.index];
        if (strcmp(argument, "--") == 0)
            return at.index + 1;
        if (argument[0] != '-' || argument[1] == '\0')
            break;
        int read = argument[1] == '-' ? read_long(cli, takes, &at)
                                      : read_letters(cli, takes, &at);
        if (read != 0)
            return -1;
    }
    return at.index;
}

void cli_options_help(FILE *out, int takes)
{
    takes = built_in(takes);
    for (size_t i = 0; i < OPTIONS; i++) {
        const option *o = &options[i];
        if ((o->takes & takes) == 0 || o->what == NULL)
            continue;
        char left[40];
        (void)snprintf(left, sizeof left, "%c%c%s--%s%s%s", o->letter != 0 ? '-' : ' ',
                       o->letter != 0 ? o->letter : ' ', o->letter != 0 ? ", " : "  ",
                       o->name, o->argument != NULL ? " " : "",
                       o->argument != NULL ? o->argument : "");
        (void)fprintf(out, "  %-32s %s\n", left, o->what);
    }
}

const char *cli_only_name(const cli_call *cli, int argc, char **argv)
{
    if (argc == 1)
        return argv[0];
    if (argc == 0)
        cli_say(cli, "NAME is missing; see --help");
    else
        cli_say(cli, "one NAME, please: don't know what to do with %s", argv[1]);
    return NULL;
}
