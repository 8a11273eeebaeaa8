/*
 * dlock top: the locks that are there, with holders and waiters, again and again. On a terminal
 * that can place its cursor it is a screen with keys (screen.h); elsewhere, and with --json, what a
 * look has seen is written below the one before, and with --once that is all. dlock stats is one look,
 * too, of which it tells the numbers: as much as fits a line of a log, however many locks there are.
 */
#include "top/ask.h"
#include "top/model.h"
#include "top/screen.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int64_t date_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now); /* can't fail */
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- Lists ----------------------------------------------------------------------------- */

static void print_number(int64_t number, int wide)
{
    if (number < 0)
        (void)printf("%*s", wide, "-");
    else
        (void)printf("%*lld", wide, (long long)number);
}

static void print_table(const cli_call *cli, const top_model *model)
{
    (void)printf("%-32s %10s %8s  %s\n", "NAME", "LEFT ms", "WAITERS", "OWNER");
    for (size_t i = 0; i < model->shown; i++) {
        const top_row *row = model->view[i];
        if (row->failed != NULL) {
            cli_say(cli, "%s: %s", row->name, row->failed);
            continue;
        }
        char start[33];
        int wide = snprintf(start, sizeof start, "%.32s", row->name);
        cli_print(stdout, start);
        (void)printf("%*s ", 32 - wide, "");
        print_number(row->left_ms, 10);
        (void)putchar(' ');
        print_number(row->waiters, 8);
        (void)fputs("  ", stdout);
        cli_print(stdout, row->owner != NULL ? row->owner : "-");
        (void)putchar('\n');
    }
}

static void json_text(const char *key, const char *text)
{
    if (text == NULL)
        return;
    (void)printf(",\"%s\":", key);
    cli_json_text(stdout, text);
}

static void json_number(const char *key, int64_t number)
{
    if (number >= 0)
        (void)printf(",\"%s\":%lld", key, (long long)number);
}

static void json_row(const top_row *row, bool first)
{
    (void)fputs(first ? "{\"name\":" : ",{\"name\":", stdout);
    cli_json_text(stdout, row->name);
    json_text("failed", row->failed);
    json_text("kind", row->kind);
    json_number("held", row->held);
    json_text("owner", row->owner);
    json_text("holder", row->who);
    json_number("holders", row->holders);
    json_number("token", row->token);
    json_number("remaining_ms", row->left_ms);
    json_number(row->held_at_least ? "held_at_least_ms" : "held_ms", row->held_ms);
    json_number("waiters", row->waiters);
    json_number(row->waited_at_least ? "waited_at_least_ms" : "waited_ms",
                row->waited_ms);
    (void)putchar('}');
}

static void print_json(const top_ask *ask, const top_model *model)
{
    (void)printf("{\"date_ms\":%lld", (long long)date_ms());
    json_text("service", dlock_client_uri(ask->cli->client));
    json_number("request_us", top_ask_latency(ask));
    json_text("error", ask->failed_at >= 0 ? ask->failure : NULL);
    json_number("more", ask->more);
    json_text("incomplete", ask->incomplete[0] != '\0' ? ask->incomplete : NULL);
    json_number("clients", model->clients);
    json_number("held", model->held);
    json_number("waiting", model->waiting);
    json_number("lost", model->lost);
    json_number("deadlocks", ask->deadlocks);
    (void)fputs(",\"locks\":[", stdout);
    for (size_t i = 0; i < model->shown; i++)
        json_row(model->view[i], i == 0);
    (void)puts("]}");
}

/* Losses are seen from one look to the next only, so these have none. */
static void print_totals(const top_ask *ask, const top_model *model)
{
    int64_t late = 0, failed = 0, longest = 0;
    for (size_t i = 0; i < model->shown; i++) {
        const top_row *row = model->view[i];
        late += row->late;
        failed += row->failed != NULL;
        longest = row->waited_ms > longest ? row->waited_ms : longest;
    }
    const struct {
        const char *key;
        int64_t number;
    } totals[] = {{"request_us", top_ask_latency(ask)},
                  {"locks", (int64_t)model->shown},
                  {"held", model->held},
                  {"clients", model->clients},
                  {"late", late},
                  {"waiting", model->waiting},
                  {"longest_wait_ms", longest},
                  {"deadlocks", ask->deadlocks},
                  {"failed", failed}};
    bool whole = !ask->more && ask->incomplete[0] == '\0' && failed == 0;
    if (ask->cli->json) {
        (void)printf("{\"date_ms\":%lld", (long long)date_ms());
        json_text("service", dlock_client_uri(ask->cli->client));
        for (size_t i = 0; i < sizeof totals / sizeof *totals; i++)
            json_number(totals[i].key, totals[i].number);
        (void)printf(",\"whole\":%s}\n", whole ? "true" : "false");
        return;
    }
    (void)fputs("service          ", stdout);
    cli_print(stdout, dlock_client_uri(ask->cli->client));
    (void)putchar('\n');
    for (size_t i = 0; i < sizeof totals / sizeof *totals; i++)
        (void)printf("%-16s %lld\n", totals[i].key, (long long)totals[i].number);
    (void)printf("whole            %s\n", whole ? "yes" : "no");
}

/* Says what isn't in the list: 0, or CLI_OTHER when a part wasn't looked at. */
static int tell_rest(const top_ask *ask)
{
    if (ask->deadlock[0] != '\0') {
        (void)fputs("dlock: top: DEADLOCK, ", stderr);
        cli_print(stderr, ask->deadlock);
        (void)fputs("; see dlock doctor --deadlocks\n", stderr);
    }
    if (ask->more)
        cli_say(ask->cli, "these are --max %lld; there may be more",
                (long long)ask->cli->max);
    if (ask->incomplete[0] == '\0')
        return 0;
    cli_say(ask->cli, "the list is incomplete: %s", ask->incomplete);
    return CLI_OTHER;
}

/* 0, or the exit status: of what no repetition mends, of output that nobody takes. A failure that
 * was told is no end: what can't be listed now may be the next time. */
static int show(top_ask *ask, top_model *model, top_news news)
{
    cli_call *cli = ask->cli;
    int status = news == TOP_FAILED ? cli_exit_status(ask->code) : 0;
    if (news == TOP_FAILED)
        cli_say(cli, "%s", ask->failure);
    if (!top_model_view(model, cli_now_ms()))
        return cli_fail(cli, NULL, DLOCK_ENOMEM, NULL);
    if (cli->totals && news == TOP_LOOKED)
        print_totals(ask, model);
    else if (cli->json && !cli->totals)
        print_json(ask, model);
    else if (news == TOP_LOOKED)
        print_table(cli, model);
    if (news == TOP_LOOKED)
        status = tell_rest(ask);
    bool is_end = cli->once || status == CLI_USAGE;
    return cli_flush(cli, is_end ? status : 0);
}

static int write_lists(top_ask *ask, top_model *model)
{
    cli_call *cli = ask->cli;
    struct pollfd fds[] = {
        {.fd = cli->signals, .events = POLLIN},
        {.fd = dlock_client_event_fd(cli->client), .events = POLLIN},
    };
    ask->most = SIZE_MAX; /* --max bounds the list, and a list is whole */
    for (;;) {
        int64_t now = cli_now_ms(), wake = top_ask_wake(ask) - now;
        (void)poll(fds, 2,
                   wake <= 0             ? 0
                   : wake > TOP_EVERY_MS ? TOP_EVERY_MS
                                         : (int)wake);
        if (cli_signal(cli) != 0)
            return CLI_OK;
        cli_drain(cli);
        top_news news = top_ask_turn(ask, cli_now_ms());
        if (news != TOP_LOOKED && news != TOP_FAILED)
            continue;
        int status = show(ask, model, news);
        if (status != 0 || cli->once)
            return status;
    }
}

/* ---- The command ----------------------------------------------------------------------- */

/* The library's log would be written into the picture. */
static bool has_screen(const cli_call *cli)
{
    const char *log = getenv("DLOCK_LOG");
    bool logs = cli->verbose || (log != NULL && *log != '\0' && strcmp(log, "off") != 0);
    bool torn = logs && isatty(STDERR_FILENO);
    return !cli->json && !cli->once && !torn && top_screen_fits();
}

int cli_stats(cli_call *cli, int argc, char **argv)
{
    cli->once = cli->totals = true;
    return cli_top(cli, argc, argv);
}

int cli_top(cli_call *cli, int argc, char **argv)
{
    if (argc > 1) {
        cli_say(cli, "one PREFIX, please: don't know what to do with %s", argv[1]);
        return CLI_USAGE;
    }
    if (cli->openmetrics && (cli->once || cli->json)) {
        cli_say(cli, "--openmetrics serves a page, which has neither --once nor --json");
        return CLI_USAGE;
    }
    int status = cli_open_list(cli);
    if (status != 0)
        return status;
    if (cli->openmetrics)
        return cli_serve_openmetrics(cli, argc == 1 ? argv[0] : NULL);
    top_model model;
    top_ask ask;
    top_model_begin(&model, cli_now_ms(), date_ms());
    top_ask_begin(&ask, cli, &model, argc == 1 ? argv[0] : NULL);
    status = has_screen(cli) ? top_screen_run(&ask, &model) : write_lists(&ask, &model);
    top_ask_end(&ask);
    top_model_end(&model);
    return status;
}
