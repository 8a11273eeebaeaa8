#include "bench/report.h"

#include <string.h>

enum { BAR = 40 };

double bench_rate(const crew_scene *scene, const crew_result *result)
{
    uint64_t count = scene->one_name ? result->hand_overs : result->pairs;
    return result->secs > 0 ? (double)count / result->secs : 0;
}

int bench_threads(const cli_call *cli, const crew_scene *scene)
{
    return scene->many ? (int)cli->threads : 1;
}

/* A loop of nothing but these requests. */
static double floor_rate(const bench_floor *floor)
{
    double pair = floor->requests * floor->request_ns;
    return pair > 0 ? 1e9 / pair : 0;
}

/* ---- for people ------------------------------------------------------------------------ */

static const char *duration(double ns, char *text, size_t size)
{
    static const struct {
        double below, unit;
        const char *name;
    } units[] = {{1e3, 1, "ns"}, {1e6, 1e3, "us"}, {1e9, 1e6, "ms"}, {0, 1e9, "s"}};
    size_t i = 0;
    while (units[i].below > 0 && ns >= units[i].below)
        i++;
    double number = ns / units[i].unit;
    (void)snprintf(text, size, "%.*f %s", number < 10 && i > 0 ? 1 : 0, number,
                   units[i].name);
    return text;
}

static void print_times(const bench_hist *times)
{
    static const double percents[] = {0, 50, 99, 100};
    for (size_t i = 0; i < sizeof percents / sizeof *percents; i++) {
        char text[32];
        (void)printf(" %9s", duration((double)bench_hist_percentile(times, percents[i]),
                                      text, sizeof text));
    }
    (void)putchar('\n');
}

static void print_scenes(const bench_report *report)
{
    (void)printf("%-34s %10s %-10s %9s %9s %9s %9s\n", "", "a second", "", "min",
                 "median", "p99", "max");
    for (size_t i = 0; i < report->count; i++) {
        const crew_scene *scene = &report->scenes[i];
        char who[40];
        int threads = bench_threads(report->cli, scene);
        (void)snprintf(who, sizeof who, "%d thread%s%s", threads, threads == 1 ? "" : "s",
                       scene->what);
        (void)printf("%-34s %10.0f %-10s", who, bench_rate(scene, &report->results[i]),
                     scene->one_name ? "hand-overs" : "pairs");
        print_times(&report->results[i].times);
    }
    (void)puts("The times are of a pair (acquire and release); of one name: of a wait "
               "until it was handed over.");
}

/* A line for each power of two. */
static void print_picture(const bench_hist *times, uint64_t count)
{
    bool begun = false;
    uint64_t before = 0;
    for (int bit = 0; bit < 62 && before < count; bit++) {
        int64_t end = INT64_C(1) << bit;
        uint64_t here = bench_hist_below(times, end) - before;
        before += here;
        begun = begun || here > 0;
        if (!begun)
            continue;
        char low[32], high[32], bar[BAR + 1] = "";
        double share = (double)here / (double)count;
        memset(bar, '#', (size_t)(share * BAR + (here > 0 ? 0.999 : 0)));
        (void)printf("  %8s - %-8s %5.1f %%  %s\n",
                     duration((double)end / 2, low, sizeof low),
                     duration((double)end, high, sizeof high), share * 100, bar);
    }
}

static void print_floor(const bench_report *report)
{
    char text[32];
    const bench_floor *floor = &report->floor;
    if (floor->requests * 1000 < 1) {
        (void)puts("It asks nobody: no request leaves the process.");
        return;
    }
    double pair_ns = 1e9 / bench_rate(&report->scenes[0], &report->results[0]);
    double share = floor->requests * floor->request_ns / pair_ns;
    (void)printf(
        "It has %.*f requests, whose answers took %s each in the mean: %.0f %% of its "
        "time.\nThe floor: a loop of these requests alone would do %.0f pairs a "
        "second.\n",
        floor->requests < 0.1 ? 3 : 1, floor->requests,
        duration(floor->request_ns, text, sizeof text), share * 100, floor_rate(floor));
}

void bench_print_text(const bench_report *report)
{
    char text[32];
    cli_print(stdout, dlock_client_uri(report->cli->client));
    (void)printf(", %s each\n\n",
                 duration((double)report->cli->bench_ms * 1e6, text, sizeof text));
    print_scenes(report);
    (void)puts("\nA pair of one thread took");
    print_picture(&report->results[0].times, report->results[0].pairs);
    print_floor(report);
}

/* ---- as JSON --------------------------------------------------------------------------- */

static double us(const bench_hist *times, double percent)
{
    return (double)bench_hist_percentile(times, percent) / 1000;
}

static void json_scene(const bench_report *report, size_t i)
{
    const crew_scene *scene = &report->scenes[i];
    const crew_result *result = &report->results[i];
    int threads = bench_threads(report->cli, scene);
    (void)printf("%s{\"scene\":\"%s\",\"threads\":%d,\"clients\":%d,\"names\":%d,"
                 "\"rate\":%.1f,\"of\":\"%s\",\"seconds\":%.3f,\"pairs\":%llu,"
                 "\"hand_overs\":%llu,\"min_us\":%.3f,\"median_us\":%.3f,\"p99_us\":%.3f,"
                 "\"max_us\":%.3f}",
                 i > 0 ? "," : "", scene->key, threads, scene->own_clients ? threads : 1,
                 scene->one_name ? 1 : threads, bench_rate(scene, result),
                 scene->one_name ? "hand_overs" : "pairs", result->secs,
                 (unsigned long long)result->pairs,
                 (unsigned long long)result->hand_overs, us(&result->times, 0),
                 us(&result->times, 50), us(&result->times, 99), us(&result->times, 100));
}

static void json_histogram(const bench_hist *times, uint64_t count)
{
    uint64_t before = 0;
    for (int bit = 0; bit < 62 && before < count; bit++) {
        int64_t end = INT64_C(1) << bit;
        uint64_t here = bench_hist_below(times, end) - before;
        if (here > 0)
            (void)printf("%s{\"below_us\":%.3f,\"count\":%llu}", before > 0 ? "," : "",
                         (double)end / 1000, (unsigned long long)here);
        before += here;
    }
}

void bench_print_json(const bench_report *report)
{
    const bench_floor *floor = &report->floor;
    (void)fputs("{\"service\":", stdout);
    cli_json_text(stdout, dlock_client_uri(report->cli->client));
    (void)fputs(",\"scenes\":[", stdout);
    for (size_t i = 0; i < report->count; i++)
        json_scene(report, i);
    (void)printf("],\"requests_per_pair\":%.3f,\"request_us\":%.3f,\"floor_rate\":%.1f,"
                 "\"histogram\":[",
                 floor->requests, floor->request_ns / 1000, floor_rate(floor));
    json_histogram(&report->results[0].times, report->results[0].pairs);
    (void)puts("]}");
}
