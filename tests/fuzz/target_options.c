/* The options of the dlock command. Whatever stands there, it is read to its end or one line says
 * what is wrong, in which is nothing that a terminal would obey; what was set is in its range, and
 * nothing is set by an option that the command doesn't take. */
#include "fuzz.h"

#include "cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Between two elements of argv. */
#define BETWEEN   0x1f
#define ELEMENTS  24
#define TAKES_ALL ((CLI_SIGNALS << 1) - 1)
#define LONGEST   (INT64_C(1) << 53)

const char fuzz_name[] = "options";
const size_t fuzz_longest = 300;
const char *const fuzz_words[] = {"\x1f",
                                  "\x1f--",
                                  "\x1f-",
                                  "--nonblock",
                                  "--wait=",
                                  "--conflict-exit-code=",
                                  "--shared",
                                  "--exclusive",
                                  "--permits=",
                                  "--ttl=",
                                  "--strict",
                                  "--export",
                                  "--import=",
                                  "--command=",
                                  "--on-lost=",
                                  "--kill-after=",
                                  "--force",
                                  "--owner=",
                                  "--signal",
                                  "--number=",
                                  "--all",
                                  "--max=",
                                  "--url=",
                                  "--set=",
                                  "--set\x1f",
                                  "--verbose",
                                  "--json",
                                  "--help",
                                  "-nw0.5",
                                  "-E",
                                  "-sx",
                                  "kill",
                                  "ignore",
                                  "lock.ttl_ms=",
                                  "auth.password=",
                                  "redis://h?lock.ttl_ms=",
                                  "9007199254740.993",
                                  "9223372036854775808",
                                  "0.0001",
                                  "-1",
                                  "255",
                                  "\x1b[31m",
                                  "\xc2\x9b",
                                  NULL};

typedef struct command_line {
    char *argv[ELEMENTS + 1];
    int argc;
} command_line;

static command_line split(fuzz_bytes bytes)
{
    command_line it = {.argc = 0};
    while (bytes.left > 0 && it.argc < ELEMENTS)
        it.argv[it.argc++] = fuzz_text(fuzz_take_until(&bytes, BETWEEN));
    return it;
}

static bool is_in(const char *text, const command_line *it)
{
    for (int i = 0; i < it->argc; i++)
        if (text >= it->argv[i] && text <= it->argv[i] + strlen(it->argv[i]))
            return true;
    return text == NULL;
}

static bool is_time(int64_t ms, int64_t otherwise)
{
    return ms == otherwise || (ms >= 0 && ms <= LONGEST + 1);
}

static void check_set(const cli_call *cli, int takes, const command_line *it)
{
    FUZZ_CHECK(is_time(cli->wait_ms, DLOCK_FOREVER), "%" PRId64, cli->wait_ms);
    FUZZ_CHECK(is_time(cli->kill_after_ms, -1), "%" PRId64, cli->kill_after_ms);
    FUZZ_CHECK(cli->not_obtained >= 0 && cli->not_obtained <= 255, "%d",
               cli->not_obtained);
    FUZZ_CHECK(cli->max > 0 && cli->number > 0, "%" PRId64 " and %" PRId64, cli->max,
               cli->number);
    FUZZ_CHECK(cli->on_lost <= CLI_ON_LOST_IGNORE, "%d", (int)cli->on_lost);
    FUZZ_CHECK(is_in(cli->url, it) && is_in(cli->shell, it) && is_in(cli->ticket, it) &&
                   is_in(cli->owner, it),
               "a text that nobody gave");
    FUZZ_CHECK((takes & CLI_KIND) || cli->kind == DLOCK_MUTEX, "a kind");
    FUZZ_CHECK((takes & CLI_WAIT) || cli->wait_ms == DLOCK_FOREVER, "a wait");
    FUZZ_CHECK((takes & CLI_RUN) || (!cli->shell && !cli->ticket), "what run has");
    FUZZ_CHECK((takes & CLI_BREAK) || (!cli->force && !cli->owner), "what break has");
    FUZZ_CHECK((takes & CLI_SERVICE) || (!cli->url && !cli->verbose), "a service");
}

/* What isn't read is no option, or stands behind "--". */
static void check_rest(const command_line *it, int used)
{
    FUZZ_CHECK(used <= it->argc, "%d of %d", used, it->argc);
    bool all = used > 0 && strcmp(it->argv[used - 1], "--") == 0;
    FUZZ_CHECK(used == it->argc || all || it->argv[used][0] != '-' ||
                   it->argv[used][1] == '\0',
               "%s is left", it->argv[used]);
}

static void check_said(const char *text, bool wrong)
{
    const char *end = strchr(text, '\n');
    FUZZ_CHECK(wrong == (end != NULL), "said: %s", text);
    if (!end)
        return;
    FUZZ_CHECK(end[1] == '\0' && strncmp(text, "dlock: ", 7) == 0, "said: %s", text);
    for (const unsigned char *at = (const void *)text; at < (const unsigned char *)end;
         at++)
        FUZZ_CHECK(*at >= ' ' && *at != 0x7f &&
                       !(at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0),
                   "said: %s", text);
}

static char *said;

/* As cli_options; what it says is in `said`, to be freed. */
static int read_options(cli_call *cli, int takes, command_line *it)
{
    size_t size;
    FILE *errors = stderr, *memory = open_memstream(&said, &size);
    if (!memory)
        abort();
    stderr = memory;
    int used = cli_options(cli, takes, it->argc, it->argv);
    stderr = errors;
    if (fclose(memory) != 0)
        abort();
    return used;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_bytes bytes = {data, size};
    int takes = (int)fuzz_number(&bytes, 2) & TAKES_ALL;
    command_line it = split(bytes);
    cli_call cli = {.conf = dlock_conf_new(),
                    .kind = DLOCK_MUTEX,
                    .wait_ms = DLOCK_FOREVER,
                    .not_obtained = CLI_NOT_OBTAINED,
                    .kill_after_ms = -1,
                    .max = 1000,
                    .number = 1};
    int used = read_options(&cli, takes, &it);
    check_said(said, used < 0);
    check_set(&cli, takes, &it);
    if (used >= 0)
        check_rest(&it, used);
    free(said);
    dlock_conf_free(cli.conf);
    for (int i = 0; i < it.argc; i++)
        free(it.argv[i]);
    return 0;
}
