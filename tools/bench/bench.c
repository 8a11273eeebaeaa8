/*
 * dlock bench: how fast locks are on this service, from here. It measures as a user of the library
 * would, under names of its own, and says beside it what of that is the service's and the way's.
 */
#include "bench/report.h"

#include <stdlib.h>
#include <string.h>

static const crew_scene scenes[] = {
    {.key = "one_thread", .what = ""},
    {.key = "names", .what = ", a name each", .many = true},
    {.key = "one_name", .what = ", one name", .many = true, .one_name = true},
    {.key = "one_name_clients",
     .what = ", one name, a client each",
     .many = true,
     .one_name = true,
     .own_clients = true},
};
enum { SCENES = sizeof scenes / sizeof *scenes };

/* The scene of one thread, whose requests wait for no other's. */
static int run_alone(bench_report *report)
{
    crew_result *result = &report->results[0];
    int status = crew_run(report->cli, &report->scenes[0], result);
    if (status != 0 || result->requests <= 0 || result->pairs == 0)
        return status;
    report->floor.requests = result->requests / (double)result->pairs;
    report->floor.request_ns = result->requests_ns / result->requests;
    return 0;
}

static int run_all(bench_report *report)
{
    int status = run_alone(report);
    for (size_t i = 1; i < report->count && status == 0; i++)
        status = crew_run(report->cli, &report->scenes[i], &report->results[i]);
    return status;
}

/* As the URI and the options have it together: what the client goes by that they make. Nothing is sent. */
static bool goes_by(const cli_call *cli, const char *key, const char *value)
{
    dlock_client *client = NULL;
    DLOCK_AUTO(dlock_info) settings = NULL;
    const char *now = NULL;
    if (cli->url != NULL &&
        dlock_client_new(cli->url, cli->conf, &client, NULL) == DLOCK_OK &&
        dlock_client_settings(client, &settings, NULL) == DLOCK_OK)
        now = dlock_info_get(settings, key);
    dlock_client_free(client);
    return now != NULL && value != NULL && strcmp(now, value) == 0;
}

/* On a Redis the counter of a name's fencing tokens outlives the lock, by a day; nobody needs those
 * of our names. Where somebody has said how long, he means it. */
static int forget_soon(cli_call *cli)
{
    static const char key[] = "redis.token_keep_ms";
    DLOCK_AUTO(dlock_error) error = NULL;
    DLOCK_AUTO(dlock_info) table = NULL;
    dlock_err code = dlock_conf_dump(cli->conf, &table, &error);
    if (code == DLOCK_OK && dlock_info_get(table, "redis.token_keep_ms.value") == NULL &&
        goes_by(cli, key, dlock_info_get(table, "redis.token_keep_ms.default")))
        code = dlock_conf_set(cli->conf, key, "60000", &error);
    return code == DLOCK_OK ? 0 : cli_fail(cli, NULL, code, error);
}

int cli_bench(cli_call *cli, int argc, char **argv)
{
    if (argc > 0) {
        cli_say(cli, "takes no arguments: don't know what to do with %s", argv[0]);
        return CLI_USAGE;
    }
    int status = forget_soon(cli);
    if (status == 0)
        status = cli_open(cli);
    if (status != 0)
        return status;
    bench_report report = {.cli = cli, .count = SCENES, .scenes = scenes};
    report.results = calloc(SCENES, sizeof *report.results);
    if (report.results == NULL)
        return cli_fail(cli, NULL, DLOCK_ENOMEM, NULL);
    status = run_all(&report);
    if (status == 0 && cli->json)
        bench_print_json(&report);
    else if (status == 0)
        bench_print_text(&report);
    free(report.results);
    return status;
}
