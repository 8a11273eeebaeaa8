/* Runs one cell, or lists rows and columns for grid.py; see grid.h. */
#include "grid.h"

#include "shim.h"

#include "harness/starved.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Exit status of a cell. */
enum { PASSED = 0, FAILED = 1, NOT_APPLICABLE = 2, STOOD_STILL = 3, NOT_HERE = 77 };

/* Less than this a cell has to bear, at once; or all in all, one that has run into a patient limit. */
enum { STALL_MS = 100, LOST_MS = 3000 };

/* The program ends itself long before grid.py would: after so many of patience_ms(). */
enum { LIMITS = 6, LONGEST_S = 220 };

#define ROWS 160

static struct row {
    const char *id, *name, *what;
    void (*run)(void);
} rows[ROWS];
static size_t row_count;
static const column *here;
static const char *reason;
static bool is_final;
static int64_t start_ms, start_awake_ms;

void grid_add(const char *id, const char *name, const char *what, void (*run)(void))
{
    if (row_count == ROWS)
        abort();
    rows[row_count++] = (struct row){id, name, what, run};
}

/* ---- What rows ask ---- */

void grid_cannot(const char *why)
{
    reason = why;
}

void grid_must(void)
{
    is_final = true;
}

void grid_shown_by(const char *file, const char *test)
{
    printf("# shown by %s %s\n", file, test);
}

bool grid_binding_is(const char *name)
{
    return strcmp(here->binding, name) == 0;
}

bool grid_layout_is(const char *name)
{
    return strcmp(here->layout, name) == 0;
}

bool grid_kind_is(const char *name)
{
    return strcmp(here->kind, name) == 0;
}

bool grid_can(const ability *wanted)
{
    for (; *wanted != CAN_ALL; wanted++) {
        reason = service_here()->lacks[*wanted];
        if (*wanted == CAN_CALL && grid_binding_is("dlock"))
            reason = "no such call on the command line, which stands on the same "
                     "library: see C";
        if (reason)
            return false;
    }
    return true;
}

bool grid_has_tokens(void)
{
    return world_kind() != DLOCK_SEMAPHORE && !service_here()->no_tokens;
}

bool grid_rises(int64_t earlier, int64_t later)
{
    return grid_has_tokens() ? later > earlier : later == 0;
}

int64_t grid_slack_ms(void)
{
    return getenv("DLK_TEST_SLOW") ? 5000 : 1500;
}

bool grid_in_time(const char *what, int64_t began_ms, int64_t limit_ms)
{
    int64_t took = now_ms() - began_ms;
    if (took <= limit_ms + grid_slack_ms())
        return true;
    harness_note("%s took %" PRId64 " ms of %" PRId64, what, took, limit_ms);
    return harness_check(__FILE__, __LINE__, false, "in time");
}

int64_t grid_lease_ms(int64_t ttl_ms)
{
    return ttl_ms + service_here()->rounds_up_ms;
}

bool grid_timed_out(dlock_err code)
{
    bool wired = !service_here()->lacks[CAN_SERVER];
    return code == DLOCK_ETIMEDOUT ||
           (wired && (code == DLOCK_EUNKNOWN || code == DLOCK_EUNAVAIL));
}

bool grid_nothing_left(void)
{
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_info) list = NULL;
    dlock_err code = dlock_client_list(client, NULL, 10, &list, NULL);
    /* Where any key may be a lock there is no list of all; then the leftovers have to do. */
    if (code != DLOCK_OK && !(code == DLOCK_ENOTSUP && service_here()->leftovers))
        return false;
    if (dlock_info_get(list, "locks.0.name"))
        return false;
    return !service_here()->leftovers || service_here()->leftovers()[0] == '\0';
}

bool grid_settles(void)
{
    int64_t end = now_ms() + patience_ms();
    while (!grid_nothing_left() && now_ms() < end)
        nap_ms(1);
    bool nothing = grid_nothing_left();
    if (!nothing && service_here()->leftovers)
        harness_note("left: %s", service_here()->leftovers());
    return harness_check(__FILE__, __LINE__, nothing, "nothing is left on the service");
}

dlock_client *grid_client_at(const char *uri, const char *settings)
{
    char text[512];
    snprintf(text, sizeof(text),
             "client.timeout_ms=400 client.connect_ms=2000 client.close_ms=300 "
             "client.backoff_min_ms=5 client.backoff_max_ms=50 %s",
             settings ? settings : "");
    DLOCK_AUTO(dlock_conf) conf = api_conf(text);
    DLOCK_AUTO(dlock_error) err = NULL;
    dlock_client *client = NULL;
    dlock_err code = dlock_client_open(uri, conf, &client, &err);
    (void)harness_err(__FILE__, __LINE__, "dlock_client_open", code, DLOCK_OK, err);
    return client;
}

/* ---- What the library has ---- */

static bool has_column(const char *backend, const char *kind, const char *layout)
{
    for (size_t i = 0; i < column_count; i++)
        if (strcmp(columns[i].backend, backend) == 0 &&
            strcmp(columns[i].kind, kind) == 0 && strcmp(columns[i].layout, layout) == 0)
            return true;
    printf("# no column for %s, %s, %s\n", backend, kind, layout);
    return false;
}

/* Each kind that a client of this backend offers has a column; the read side that of the write
 * side, without which it promises nothing. */
static bool kinds_covered(const char *backend, const char *uri)
{
    static const char *const kinds[] = {"mutex", "read", "write", "semaphore",
                                        "election"};
    DLOCK_AUTO(dlock_conf) conf = api_conf("client.lazy=true");
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_info) info = NULL;
    bool fine = dlock_client_open(uri, conf, &client, NULL) == DLOCK_OK &&
                dlock_client_features(client, &info, NULL) == DLOCK_OK;
    const char *layout = dlock_info_get(info, "layout");
    for (size_t i = 0; fine && i < sizeof(kinds) / sizeof(*kinds); i++) {
        char key[32];
        snprintf(key, sizeof(key), "kinds.%s", kinds[i]);
        const char *offered = dlock_info_get(info, key);
        if (offered && strcmp(offered, "1") == 0 && strcmp(kinds[i], "read") != 0)
            fine = has_column(backend, kinds[i], layout ? layout : "table") && fine;
    }
    return fine;
}

/* A kind of lock, in a layout of Redis, with a setting that makes it another one. */
static bool variant_covered(const char *layout, dlock_kind kind, const char *setting,
                            const char *name)
{
    char settings[128];
    snprintf(settings, sizeof(settings), "client.lazy=true redis.layout=%s %s", layout,
             setting);
    DLOCK_AUTO(dlock_conf) conf = api_conf(settings);
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_lock) lock = NULL;
    if (dlock_client_open("redis://127.0.0.1:1", conf, &client, NULL) != DLOCK_OK ||
        dlock_lock_new(client, kind, "L", NULL, &lock, NULL) != DLOCK_OK)
        return true; /* there is no such thing */
    return has_column("redis", name, layout);
}

/* Each kind in each layout, whether or not by its setting it can be had. */
static bool layouts_covered(void)
{
    static const char *const layouts[] = {"redisson", "string", "timestamp", "rueidis"};
    static const struct {
        dlock_kind kind;
        const char *setting, *name;
    } all[] = {
        {DLOCK_MUTEX, "", "mutex"},
        {DLOCK_MUTEX, "lock.fair=true", "fair"},
        {DLOCK_WRITE, "", "write"},
        {DLOCK_SEMAPHORE, "lock.permits=1", "semaphore"},
        {DLOCK_SEMAPHORE, "lock.permits=1 redis.semaphore=plain", "plain semaphore"},
        {DLOCK_ELECTION, "", "election"},
    };
    bool fine = true;
    for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++)
        for (size_t k = 0; k < sizeof(all) / sizeof(*all); k++)
            fine =
                variant_covered(layouts[i], all[k].kind, all[k].setting, all[k].name) &&
                fine;
    return fine;
}

/* A backend, kind or layout which the library has and the grid hasn't is a failure. */
static int check_coverage(void)
{
    (void)setenv("DLK_TEST_BACKEND", "file", 1);
    if (strstr(dlock_backends(), "file") && !world_ready())
        return FAILED;
    const struct {
        const char *scheme, *backend, *uri;
    } schemes[] = {
        {"mem", "mem", "mem:coverage"},
        {"file", "file", world_uri()}, /* which is in a directory of its own */
        {"redis", "redis", "redis://127.0.0.1:1"},
        {"redis+unix", "redis", "redis+unix:///nowhere"},
        {"rediss", "redis", "rediss://127.0.0.1:1"},
        {"redis+sentinel", "redis", "redis+sentinel://127.0.0.1:1/service"},
        {"rediss+sentinel", "redis", "rediss+sentinel://127.0.0.1:1/service"},
        {"redis+cluster", "redis", "redis+cluster://127.0.0.1:1"},
        {"rediss+cluster", "redis", "rediss+cluster://127.0.0.1:1"},
        {"redlock", "redlock", "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"},
        {"redlocks", "redlock", "redlocks://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"},
        {"zookeeper", "zookeeper", "zookeeper://127.0.0.1:1"},
        {"memcached", "memcached", "memcached://127.0.0.1:1"},
        {"memcacheds", "memcached", "memcacheds://127.0.0.1:1"},
        /* The same items on most of several: tests/backends/memcached/test_memlock.c. */
        {"memlock", "memcached", "memlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"},
        {"memlocks", "memcached", "memlocks://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"},
        {"etcd", "etcd", "etcd://127.0.0.1:1"},
        {"etcds", "etcd", "etcds://127.0.0.1:1"},
        {"etcd+unix", "etcd", "etcd+unix:///nowhere"},
        {"postgres", "postgres", "postgres://127.0.0.1:1"},
        {"postgresql", "postgres", "postgresql://127.0.0.1:1"},
        {"postgres+unix", "postgres", "postgres+unix:///nowhere"},
        {"postgresql+unix", "postgres", "postgresql+unix:///nowhere"},
    };
    char all[256], *save = NULL;
    bool fine = true;
    snprintf(all, sizeof(all), "%s", dlock_backends());
    for (char *word = strtok_r(all, " ", &save); word;
         word = strtok_r(NULL, " ", &save)) {
        size_t i = 0, count = sizeof(schemes) / sizeof(*schemes);
        while (i < count && strcmp(schemes[i].scheme, word) != 0)
            i++;
        if (i == count)
            printf("# no column for the scheme %s\n", word);
        fine = i < count && kinds_covered(schemes[i].backend, schemes[i].uri) && fine;
    }
    return layouts_covered() && fine && !harness_failed() ? PASSED : FAILED;
}

/* ---- The program ---- */

/* A build may lack a backend, or the command. */
static bool is_built(const column *at)
{
    char padded[256];
    char word[32];
    snprintf(padded, sizeof(padded), " %s ", dlock_backends());
    snprintf(word, sizeof(word), " %s ", at->backend);
    return strstr(padded, word) &&
           (strcmp(at->binding, "dlock") != 0 || getenv("DLK_COMMAND"));
}

static int list(void)
{
    for (size_t i = 0; i < column_count; i++)
        printf("%s\t%s\t%s\t%s\t%s\n", is_built(&columns[i]) ? "column" : "absent",
               columns[i].backend, columns[i].kind, columns[i].layout,
               columns[i].binding);
    for (size_t i = 0; i < row_count; i++)
        printf("row\t%s\t%s\t%s\n", rows[i].id, rows[i].name, rows[i].what);
    return 0;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* What the machine did meanwhile is known by a watcher on each core, for one may stand still alone
 * with a server or a party on it, and by one of all that belong to this cell. */
static int verdict_of_failure(void)
{
    int64_t took = shim_true_ms() - start_ms;
    int64_t lost = took - (awake_now_ns() / 1000000 - start_awake_ms);
    int64_t in_all = larger(lost, starved_total_ms());
    int64_t at_once = larger(awake_longest_ms(), starved_longest_ms());
    bool hung = took >= patience_ms();
    if (is_final || (hung ? in_all < LOST_MS : at_once < STALL_MS))
        return FAILED;
    printf("# the machine stood still for %" PRId64 " ms, %" PRId64 " ms at once\n",
           in_all, at_once);
    return STOOD_STILL;
}

/* A cell that hangs says so, and one that is ended tidies up, too. */
static void on_end(int number)
{
    static const char text[] = "# the cell hangs\n";
    if (number != SIGALRM)
        exit(FAILED);
    (void)!write(STDOUT_FILENO, text, sizeof(text) - 1);
    exit(verdict_of_failure());
}

static unsigned longest_s(void)
{
    int64_t seconds = LIMITS * patience_ms() / 1000;
    return (unsigned)(seconds < LONGEST_S ? seconds : LONGEST_S);
}

/* What a kind is for the library, and the settings that make it that; of a semaphore all rows
 * want one that lets one in. */
static const struct {
    const char *name, *kind, *settings;
} variants[] = {
    {"fair", "mutex", "&lock.fair=true"},
    {"semaphore", "semaphore", "&lock.permits=1"},
    {"plain semaphore", "semaphore", "&lock.permits=1&redis.semaphore=plain"},
};

static void set_kind(const column *at)
{
    char layout[128];
    const char *kind = at->kind, *settings = "";
    for (size_t i = 0; i < sizeof(variants) / sizeof(*variants); i++)
        if (strcmp(variants[i].name, at->kind) == 0) {
            kind = variants[i].kind;
            settings = variants[i].settings;
        }
    snprintf(layout, sizeof(layout), "%s%s", at->layout, settings);
    (void)setenv("DLK_TEST_LAYOUT", layout, 1);
    (void)setenv("DLK_TEST_KIND", kind, 1);
}

/* "!" before it: any other. */
static bool is_layout(const char *layout)
{
    return layout[0] == '!' ? !grid_layout_is(layout + 1) : grid_layout_is(layout);
}

/* Whether its id is one of these, with a space between. */
static bool is_among(const struct row *row, const char *ids)
{
    char id[16], all[512];
    snprintf(id, sizeof(id), " %s ", row->id);
    snprintf(all, sizeof(all), " %s ", ids);
    return strstr(all, id) != NULL;
}

static bool is_exception(const struct row *row)
{
    for (size_t i = 0; i < exception_count && !reason; i++) {
        const exception *one = &exceptions[i];
        if ((!one->kind || grid_kind_is(one->kind)) &&
            (!one->layout || is_layout(one->layout)) &&
            (!one->backend || world_is(one->backend)) && is_among(row, one->rows))
            reason = one->reason;
    }
    return reason != NULL;
}

static int run(const struct row *row, const column *at)
{
    here = at;
    if (!starved_watch())
        return FAILED;
    start_ms = shim_true_ms();
    start_awake_ms = awake_now_ns() / 1000000;
    (void)setenv("DLK_TEST_BACKEND", at->backend, 1);
    (void)setenv(AWAKE_NOT_HERE, "1", 1); /* this process watches for its parties, too */
    set_kind(at);
    (void)signal(SIGALRM, on_end);
    (void)signal(SIGTERM, on_end);
    (void)signal(SIGINT, on_end);
    /* Beside a dozen others a Java machine alone needs half a minute. */
    (void)alarm(longest_s());
    if (!world_is_available())
        return NOT_HERE;
    /* What is done to a server is done to one of the cell's own. */
    if (is_among(row, "A6 N1 N8 N9 N25 C3 C11 T3"))
        (void)(unsetenv("DLK_TEST_ZOOKEEPER") + unsetenv("DLK_TEST_ETCD"));
    if (!service_here() || !world_ready() || harness_failed())
        return verdict_of_failure();
    if (is_exception(row)) {
        printf("# cannot %s\n", reason);
        return NOT_APPLICABLE;
    }
    row->run();
    wire_end();
    if (harness_failed())
        return verdict_of_failure();
    if (reason)
        printf("# cannot %s\n", reason);
    return reason ? NOT_APPLICABLE : PASSED;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 4 && strcmp(argv[1], "--agent") == 0) {
        agent_serve(STDIN_FILENO, STDOUT_FILENO, argv[2], argv[3]);
        _exit(
            0); /* as any child of a test: a leak checker at its end may hang on its threads */
    }
    if (argc == 2 && strcmp(argv[1], "--list") == 0)
        return list();
    if (argc == 2 && strcmp(argv[1], "--coverage") == 0)
        return check_coverage();
    for (size_t i = 0; argc == 3 && i < row_count; i++)
        if (strcmp(rows[i].id, argv[1]) == 0)
            return run(&rows[i], &columns[strtoul(argv[2], NULL, 10) % column_count]);
    fprintf(stderr,
            "usage: grid --list | --coverage | ROW COLUMN | --agent URI SETTINGS\n");
    return 2;
}
