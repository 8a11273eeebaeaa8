/* The line protocol: one line says what shall be done, one line answers. README.md lists it. */
#include "proxy/inner.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { WORDS_MAX = 16, LINE_MAX_SIZE = 1000 };
#define MS_MAX    INT64_C(86400000)
#define BYTES_MAX (INT64_C(1) << 40)

/* One line in work. */
typedef struct order {
    proxy *p;
    proxy_link *link; /* NULL = all */
    char *words[WORDS_MAX];
    int count;
    const char *rest; /* the line behind the first word */
    char *answer;
    bool quit;
} order;

static void answer(order *o, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static bool refuse(order *o, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void answer(order *o, const char *format, ...)
{
    size_t used = strlen(o->answer);
    va_list args;
    va_start(args, format);
    vsnprintf(o->answer + used, PROXY_ANSWER_MAX - used, format, args);
    va_end(args);
}

/* Always false. */
static bool refuse(order *o, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    strcpy(o->answer, "error ");
    vsnprintf(o->answer + 6, PROXY_ANSWER_MAX - 6, format, args);
    va_end(args);
    /* It may quote what came in. */
    for (char *at = o->answer; *at; at++)
        if (*at < ' ' || *at > '~')
            *at = '?';
    return false;
}

/* ---- Words ---- */

static bool to_number(order *o, const char *text, int64_t least, int64_t most,
                      int64_t *ret)
{
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno == 0 && end != text && !*end && number >= least && number <= most) {
        *ret = number;
        return true;
    }
    return refuse(o, "'%.40s' isn't a number from %" PRId64 " to %" PRId64, text, least,
                  most);
}

static bool to_way(order *o, const char *text, proxy_way *ret)
{
    static const char *const names[] = {"off", "up", "down", "both"};
    for (int i = PROXY_NOWHERE; i <= PROXY_BOTH; i++)
        if (strcmp(text, names[i]) == 0) {
            *ret = (proxy_way)i;
            return true;
        }
    return refuse(o, "'%.40s' isn't up, down or both", text);
}

/* Takes the way off the end, if it stands there. */
static proxy_way take_way(order *o, proxy_way otherwise)
{
    static const char *const names[] = {"", "up", "down", "both"};
    for (int i = PROXY_UP; i <= PROXY_BOTH; i++)
        if (strcmp(o->words[o->count - 1], names[i]) == 0) {
            o->count--;
            return (proxy_way)i;
        }
    return otherwise;
}

/* One number, and perhaps a second one behind it. */
static bool take_numbers(order *o, int64_t most, int64_t *ret_first, int64_t *ret_second)
{
    *ret_second = 0;
    if (o->count < 2 || o->count > 3)
        return refuse(o, "one or two numbers, then up, down or both");
    return to_number(o, o->words[1], 0, most, ret_first) &&
           (o->count == 2 || to_number(o, o->words[2], 0, MS_MAX, ret_second));
}

/* The link behind this one among those that are meant. */
static proxy_link *next_link(const order *o, const proxy_link *before)
{
    if (o->link)
        return before ? NULL : o->link;
    pthread_mutex_lock(&o->p->mutex);
    proxy_link *next = before ? before->next : o->p->links;
    pthread_mutex_unlock(&o->p->mutex);
    return next;
}

/* ---- Links ---- */

static bool do_listen(order *o)
{
    int64_t port;
    const char *why, *name = o->count > 3 ? o->words[3] : NULL;
    const char *framing = o->count > 4 ? o->words[4] : "resp";
    if (!to_number(o, o->words[1], 0, 65535, &port))
        return false;
    proxy_link *link = proxy_listen(o->p, name, (int)port, o->words[2], framing, &why);
    if (!link)
        return refuse(o, "%s", why);
    answer(o, " %s %d", link->name, link->port);
    return true;
}

static bool do_links(order *o)
{
    for (proxy_link *link = NULL; (link = next_link(o, link));)
        answer(o, "%s %s %d %s", link == o->p->links ? "" : ";", link->name, link->port,
               link->target);
    return true;
}

/* ---- Faults ---- */

static bool do_simple(order *o)
{
    static const struct {
        const char *name;
        void (*act)(proxy_link *);
    } all[] = {
        {"pass", proxy_pass},           {"stall", proxy_stall},
        {"late", proxy_late},           {"refuse", proxy_refuse},
        {"ignore", proxy_ignore},       {"reset", proxy_reset},
        {"half-open", proxy_half_open}, {"forget", proxy_forget_plans},
    };
    int i = 0;
    while (strcmp(o->words[0], all[i].name) != 0)
        i++;
    for (proxy_link *link = NULL; (link = next_link(o, link));)
        all[i].act(link);
    return true;
}

static bool do_hole(order *o)
{
    proxy_way way = PROXY_NOWHERE;
    if (!to_way(o, o->words[1], &way))
        return false;
    for (proxy_link *link = NULL; (link = next_link(o, link));)
        proxy_hole(link, way);
    return true;
}

static bool do_half_close(order *o)
{
    proxy_way way = take_way(o, PROXY_NOWHERE);
    if (way == PROXY_NOWHERE)
        return refuse(o, "'%.40s' isn't up, down or both", o->words[1]);
    for (proxy_link *link = NULL; (link = next_link(o, link));)
        proxy_half_close(link, way);
    return true;
}

static bool do_latency(order *o)
{
    int64_t ms, jitter_ms;
    proxy_way way = take_way(o, PROXY_DOWN);
    if (!take_numbers(o, MS_MAX, &ms, &jitter_ms))
        return false;
    for (proxy_link *link = NULL; (link = next_link(o, link));)
        proxy_latency(link, way, ms, jitter_ms);
    return true;
}

static bool do_slice(order *o)
{
    int64_t size, delay_us;
    proxy_way way = take_way(o, PROXY_BOTH);
    if (!take_numbers(o, BYTES_MAX, &size, &delay_us))
        return false;
    for (proxy_link *link = NULL; (link = next_link(o, link));)
        proxy_slice(link, way, (size_t)size, delay_us);
    return true;
}

static bool do_bandwidth(order *o)
{
    int64_t bytes_per_s;
    proxy_way way = take_way(o, PROXY_BOTH);
    if (o->count != 2)
        return refuse(o, "one number, then up, down or both");
    if (!to_number(o, o->words[1], 0, BYTES_MAX, &bytes_per_s))
        return false;
    for (proxy_link *link = NULL; (link = next_link(o, link));)
        proxy_bandwidth(link, way, bytes_per_s);
    return true;
}

static bool do_plan(order *o)
{
    static const char *const names[] = {
        [PROXY_CUT_BEFORE] = "cut-before",       [PROXY_CUT_AFTER] = "cut-after",
        [PROXY_CUT_REPLY] = "cut-reply",         [PROXY_DROP_REPLY] = "drop-reply",
        [PROXY_TEAR_REQUEST] = "tear-request",   [PROXY_TEAR_REPLY] = "tear-reply",
        [PROXY_DELAY_REQUEST] = "delay-request", [PROXY_DELAY_REPLY] = "delay-reply",
    };
    int deed = PROXY_CUT_BEFORE, at = 1;
    while (strcmp(o->words[0], names[deed]) != 0)
        deed++;
    proxy_plan plan = {.deed = (proxy_deed)deed};
    if ((deed == PROXY_DELAY_REQUEST || deed == PROXY_DELAY_REPLY) &&
        !to_number(o, o->words[at++], 0, MS_MAX, &plan.delay_ms))
        return false;
    char *number = o->words[at++];
    size_t size = strlen(number);
    int64_t value;
    if ((plan.every = size > 1 && number[size - 1] == '+'))
        number[size - 1] = '\0';
    if (!to_number(o, number, 1, INT32_MAX, &value))
        return false;
    plan.number = (int)value;
    plan.command = at < o->count ? o->words[at++] : NULL;
    plan.word = at < o->count ? o->words[at++] : NULL;
    if (at < o->count)
        return refuse(o, "too many words");
    for (proxy_link *raw = NULL; (raw = next_link(o, raw));)
        if (!raw->framing)
            return refuse(o, "link %s is raw: it doesn't know requests", raw->name);
    for (proxy_link *link = NULL; (link = next_link(o, link));)
        if (!proxy_add_plan(link, plan))
            return refuse(o, "out of memory");
    return true;
}

/* ---- What it saw ---- */

static void add_stats(proxy_stats *sum, const proxy_stats *more)
{
    sum->accepted += more->accepted;
    sum->open += more->open;
    sum->refused += more->refused;
    sum->requests += more->requests;
    sum->answers += more->answers;
    sum->bytes_up += more->bytes_up;
    sum->bytes_down += more->bytes_down;
    sum->deeds += more->deeds;
    sum->swallowed += more->swallowed;
}

/* Each command once, although several links may have seen it. */
static void answer_tallies(order *o)
{
    proxy_tally sum[TALLIES] = {0}, its[TALLIES];
    for (proxy_link *link = NULL; (link = next_link(o, link));) {
        proxy_get_tallies(link, its);
        for (int i = 0, k; i < TALLIES && its[i].requests > 0; i++) {
            for (k = 0; k < TALLIES - 1 && sum[k].requests > 0; k++)
                if (strcasecmp(sum[k].command, its[i].command) == 0)
                    break;
            its[i].requests += sum[k].requests;
            sum[k] = its[i];
        }
    }
    for (int i = 0; i < TALLIES && sum[i].requests > 0; i++)
        answer(o, " %s=%" PRId64, sum[i].command, sum[i].requests);
}

static bool do_stats(order *o)
{
    proxy_stats sum = {0};
    for (proxy_link *link = NULL; (link = next_link(o, link));) {
        proxy_stats its = proxy_get_stats(link);
        add_stats(&sum, &its);
    }
    answer(o,
           " accepted=%" PRId64 " open=%" PRId64 " refused=%" PRId64 " requests=%" PRId64
           " answers=%" PRId64 " bytes_up=%" PRId64 " bytes_down=%" PRId64
           " deeds=%" PRId64 " swallowed=%" PRId64,
           sum.accepted, sum.open, sum.refused, sum.requests, sum.answers, sum.bytes_up,
           sum.bytes_down, sum.deeds, sum.swallowed);
    answer_tallies(o);
    return true;
}

static bool do_count(order *o)
{
    int64_t count = 0;
    for (proxy_link *link = NULL; (link = next_link(o, link));)
        count += proxy_requests(link, o->words[1]);
    answer(o, " %" PRId64, count);
    return true;
}

static bool do_log(order *o)
{
    bool off = strcmp(o->words[1], "off") == 0;
    return proxy_log_to(o->p, off ? NULL : o->words[1]) ||
           refuse(o, "%.200s: %s", o->words[1], strerror(errno));
}

static bool do_dump(order *o)
{
    int64_t lines = JOURNAL_LINES;
    if (o->count > 2 && !to_number(o, o->words[2], 1, JOURNAL_LINES, &lines))
        return false;
    FILE *out = fopen(o->words[1], "we");
    if (!out)
        return refuse(o, "%.200s: %s", o->words[1], strerror(errno));
    proxy_dump(o->p, out, (int)lines);
    return fclose(out) == 0 || refuse(o, "%.200s: %s", o->words[1], strerror(errno));
}

static bool do_trace(order *o)
{
    bool on = strcmp(o->words[1], "on") == 0;
    if (!on && strcmp(o->words[1], "off") != 0)
        return refuse(o, "'%.40s' isn't on or off", o->words[1]);
    proxy_trace(o->p, on);
    return true;
}

static bool do_note(order *o)
{
    proxy_note(o->p, "note: %s", o->rest);
    return true;
}

static bool do_seed(order *o)
{
    int64_t seed;
    if (!to_number(o, o->words[1], 0, INT64_MAX, &seed))
        return false;
    proxy_seed(o->p, (uint64_t)seed);
    return true;
}

static bool do_quit(order *o)
{
    o->quit = true;
    return true;
}

/* ---- The table ---- */

static bool do_help(order *o);

/* How many words follow, and whether it is about links. */
static const struct command {
    const char *name, *words;
    int least, most;
    bool needs_link;
    bool (*act)(order *);
} commands[] = {
    {"listen", "PORT|0 TARGET [NAME [resp|raw]]", 2, 4, false, do_listen},
    {"links", "", 0, 0, false, do_links},
    {"pass", "", 0, 0, true, do_simple},
    {"hole", "up|down|both|off", 1, 1, true, do_hole},
    {"stall", "", 0, 0, true, do_simple},
    {"late", "", 0, 0, true, do_simple},
    {"latency", "MS [JITTER] [up|down|both]", 1, 3, true, do_latency},
    {"slice", "N [DELAY_US] [up|down|both]", 1, 3, true, do_slice},
    {"bandwidth", "BYTES_PER_S [up|down|both]", 1, 2, true, do_bandwidth},
    {"refuse", "", 0, 0, true, do_simple},
    {"ignore", "", 0, 0, true, do_simple},
    {"reset", "", 0, 0, true, do_simple},
    {"half-open", "", 0, 0, true, do_simple},
    {"half-close", "up|down|both", 1, 1, true, do_half_close},
    {"cut-before", "K[+] [COMMAND [WORD]]", 1, 3, true, do_plan},
    {"cut-after", "K[+] [COMMAND [WORD]]", 1, 3, true, do_plan},
    {"cut-reply", "K[+] [COMMAND [WORD]]", 1, 3, true, do_plan},
    {"drop-reply", "K[+] [COMMAND [WORD]]", 1, 3, true, do_plan},
    {"tear-request", "K[+] [COMMAND [WORD]]", 1, 3, true, do_plan},
    {"tear-reply", "K[+] [COMMAND [WORD]]", 1, 3, true, do_plan},
    {"delay-request", "MS K[+] [COMMAND [WORD]]", 2, 4, true, do_plan},
    {"delay-reply", "MS K[+] [COMMAND [WORD]]", 2, 4, true, do_plan},
    {"forget", "", 0, 0, true, do_simple},
    {"stats", "", 0, 0, true, do_stats},
    {"count", "COMMAND", 1, 1, true, do_count},
    {"log", "FILE|off", 1, 1, false, do_log},
    {"dump", "FILE [LINES]", 1, 2, false, do_dump},
    {"trace", "on|off", 1, 1, false, do_trace},
    {"note", "TEXT", 1, WORDS_MAX, false, do_note},
    {"seed", "N", 1, 1, false, do_seed},
    {"help", "", 0, 0, false, do_help},
    {"quit", "", 0, 0, false, do_quit},
};
enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static bool do_help(order *o)
{
    for (int i = 0; i < COMMANDS; i++)
        answer(o, "%s %s%s%s", i > 0 ? ";" : "", commands[i].name,
               *commands[i].words ? " " : "", commands[i].words);
    return true;
}

/* More words than there is room for count, but aren't kept. */
static void split(order *o, char *line)
{
    char *save = NULL;
    for (char *word = strtok_r(line, " \t", &save); word;
         word = strtok_r(NULL, " \t", &save), o->count++)
        if (o->count < WORDS_MAX)
            o->words[o->count] = word;
}

/* Takes "@NAME" off the front. */
static bool take_link(order *o)
{
    if (o->words[0][0] != '@')
        return true;
    o->link = proxy_find(o->p, o->words[0] + 1);
    if (!o->link)
        return refuse(o, "there is no link '%.40s'", o->words[0] + 1);
    if (o->count < 2)
        return refuse(o, "what shall link '%s' do?", o->link->name);
    o->count--;
    memmove(o->words, o->words + 1, (WORDS_MAX - 1) * sizeof(o->words[0]));
    return true;
}

static bool carry_out(order *o)
{
    const struct command *it = NULL;
    for (int i = 0; i < COMMANDS && !it; i++)
        if (strcmp(o->words[0], commands[i].name) == 0)
            it = &commands[i];
    if (!it)
        return refuse(o, "there is no command '%.40s'; try help", o->words[0]);
    if (o->link && !it->needs_link)
        return refuse(o, "%s isn't about a link", it->name);
    if (o->count - 1 < it->least || (o->count - 1 > it->most && it->act != do_note))
        return refuse(o, "say: %s %s", it->name, it->words);
    if (it->needs_link && !next_link(o, NULL))
        return refuse(o, "there is no link yet; try listen");
    return it->act(o);
}

bool proxy_obey(proxy *p, const char *line, char answer_to[PROXY_ANSWER_MAX])
{
    char whole[LINE_MAX_SIZE + 1], words[LINE_MAX_SIZE + 1];
    order o = {.p = p, .answer = answer_to};
    strcpy(answer_to, "ok");
    size_t size = strcspn(line, "\r\n");
    if (size > LINE_MAX_SIZE) {
        (void)refuse(&o, "the line is longer than %d bytes", LINE_MAX_SIZE);
        return true;
    }
    snprintf(whole, sizeof(whole), "%.*s", (int)size, line);
    strcpy(words, whole);
    split(&o, words);
    if (o.count == 0 || o.words[0][0] == '#')
        return true;
    o.rest = whole + strspn(whole, " \t");
    o.rest += strcspn(o.rest, " \t");
    o.rest += strspn(o.rest, " \t");
    if (take_link(&o))
        (void)carry_out(&o); /* the answer says what came of it */
    return !o.quit;
}
