/* The process of a memcached: its clock, its items, and the commands that locks are made of, in
 * the words of memcached's doc/protocol.txt. */
#include "memcached/model.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BEGINNING INT64_C(1700000000) /* of true time, in seconds of the epoch */
#define TICK_LATE                                                                        \
    (1500 * INT64_C(1000)) /* ns, at most: less than the margin of a lease */
#define SKIPS_SOON 20      /* ticks, at most, in half of the processes */
#define WORDS      12
#define WHOLE_DAYS 2592000 /* more seconds than these would be a date */

static struct {
    mc_item items[MAX_NAMES];
    uint64_t cas;
    int64_t started, up_at; /* by its clock, by true time */
    int64_t first, period;  /* its ticks, in ns of its machine */
    int64_t stopped_at, stale_until;
    bool meta, evicts;
} mc;

/* ---- its clock ---- */

static int64_t machine_ns(int64_t when)
{
    return (int64_t)((double)when * s.server.rate);
}

/* Each tick sets the next one, a little later than a second from now. So they wander through the
 * second, and at its end leave one out. */
static void start_clock(int64_t first)
{
    mc.first = first;
    mc.period = SEC + (int64_t)(mix(s.config.seed, 11, (uint64_t)first) % TICK_LATE);
}

/* What the last tick has found. */
static int64_t second_at(int64_t when)
{
    int64_t ticks = (machine_ns(when) - mc.first) / mc.period;
    return BEGINNING - 1 + (SEC + mc.first + ticks * mc.period) / SEC;
}

/* The threads that answer may be awake again before the one that reads the clock is. */
int64_t mc_second(void)
{
    int64_t second = second_at(s.now < mc.stale_until ? mc.stopped_at : s.now);
    return second > mc.started ? second : mc.started; /* no process has known less */
}

void mc_stop_clock(int64_t until)
{
    mc.stopped_at = s.now;
    mc.stale_until = until;
}

int64_t mc_started(void)
{
    return mc.started;
}

/* ---- items ---- */

static void forget(mc_item *item)
{
    free(item->value);
    *item = (mc_item){0};
}

const mc_item *mc_item_of(int name)
{
    mc_item *item = &mc.items[name];
    if (item->value && item->ends <= mc_second())
        forget(item);
    return item->value ? item : NULL;
}

static bool drop(int name)
{
    bool there = mc_item_of(name) != NULL;
    forget(&mc.items[name]);
    return there;
}

bool mc_drop(int name)
{
    mc_rules_forget(name);
    return drop(name);
}

/* Less than no time: it is over as it is stored. */
static int64_t end_of(int64_t seconds)
{
    if (seconds > WHOLE_DAYS)
        abort();
    return seconds == 0 ? DLK_NEVER : mc_second() + (seconds > 0 ? seconds : 0);
}

static uint64_t put(int name, const char *data, size_t size, int64_t seconds)
{
    mc_item *item = &mc.items[name];
    char *value = malloc(size + 1);
    if (!value)
        abort();
    memcpy(value, data, size);
    value[size] = '\0';
    forget(item);
    *item = (mc_item){value, size, ++mc.cas, end_of(seconds)};
    return item->cas;
}

void mc_add(int name, const char *text, int64_t seconds)
{
    (void)put(name, text, strlen(text), seconds);
}

/* ---- beginning, and anew ---- */

/* A server that has meta commands is used by the classic ones where the client's settings say so;
 * one of before 1.6.12 by everybody. Some evict nothing (-M). */
void mc_begin(void)
{
    dlk_rand dice = {mix(s.config.seed, 12, 0)};
    bool classic = s.config.kind >= KIND_MC_CLASSIC;
    memset(&mc, 0, sizeof(mc));
    mc.meta = !classic || chance(&dice, 500);
    mc.evicts = chance(&dice, 700);
    start_clock(-between(&dice, 0, chance(&dice, 500) ? SEC : SKIPS_SOON * TICK_LATE));
    mc.started = mc_second();
    mc_rules_begin();
}

void mc_end(void)
{
    for (int n = 0; n < MAX_NAMES; n++)
        forget(&mc.items[n]);
}

void mc_restart(int64_t at, uint64_t numbers)
{
    for (int n = 0; n < MAX_NAMES; n++)
        (void)mc_drop(n);
    mc.cas = numbers;
    if (BEGINNING + machine_ns(at) / SEC == mc.started)
        at += SEC;
    start_clock(machine_ns(at));
    mc.started = second_at(at);
    mc.up_at = s.server.down_until = at;
    mc.stale_until = 0;
}

bool mc_is_down(void)
{
    return s.now < mc.up_at;
}

/* Not even then does it begin before it has begun. */
void mc_heal(void)
{
    s.server.down_until = mc.up_at;
    mc.stale_until = 0;
}

/* ---- commands ---- */

typedef struct command {
    char line[512]; /* cut into words */
    const char *words[WORDS];
    int count;
    const char *data;
    size_t size, whole;
} command;

static bool is(const command *c, const char *verb)
{
    return strcmp(c->words[0], verb) == 0;
}

/* Where its words say how many bytes of data follow; 0: none do. */
static int place_of_size(const command *c)
{
    if (is(c, "ms"))
        return 2;
    return is(c, "add") || is(c, "cas") ? 4 : 0;
}

/* False: it isn't whole yet. */
static bool parse(const char *data, size_t size, command *ret)
{
    const char *end = size ? memchr(data, '\n', size) : NULL;
    *ret = (command){.count = 0};
    if (!end)
        return false;
    size_t line = (size_t)(end - data) + 1;
    if (line < 3 || line > sizeof(ret->line))
        abort();
    memcpy(ret->line, data, line - 2);
    char *rest = ret->line;
    for (char *word; (word = strtok_r(rest, " ", &rest));) {
        if (ret->count == WORDS)
            abort();
        ret->words[ret->count++] = word;
    }
    int place = place_of_size(ret);
    ret->size = place ? strtoul(ret->words[place], NULL, 10) : 0;
    ret->whole = line + (place ? ret->size + 2 : 0);
    ret->data = data + line;
    return size >= ret->whole;
}

size_t mc_command_size(const char *data, size_t size)
{
    command c;
    return parse(data, size, &c) ? c.whole : 0;
}

__attribute__((format(printf, 2, 3))) static void say(dlk_buf *to, const char *format,
                                                      ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (size < 0 || (size_t)size >= sizeof(text) ||
        !dlk_buf_append(to, text, (size_t)size))
        abort();
}

static void say_data(dlk_buf *to, const mc_item *item, const char *end)
{
    if (!dlk_buf_append(to, item->value, item->size) ||
        !dlk_buf_append(to, end, strlen(end)))
        abort();
}

/* A flag of a meta command: what stands behind its letter, or NULL. */
static const char *flag(const command *c, char letter)
{
    for (int i = is(c, "ms") ? 3 : 2; i < c->count; i++)
        if (c->words[i][0] == letter)
            return c->words[i] + 1;
    return NULL;
}

static bool is_full(void)
{
    return s.now < s.server.refuses_until;
}

/* A store by number: may it be done? If not it is said why. */
static bool is_current(const mc_item *item, const char *number, dlk_buf *answer,
                       const char *gone, const char *changed)
{
    if (!item)
        say(answer, "%s\r\n", gone);
    else if (item->cas != strtoull(number, NULL, 10))
        say(answer, "%s\r\n", changed);
    else
        return true;
    return false;
}

/* Without memory it takes the old item along, whoever's it is: it might be stale from now on. */
static void meta_store(const command *c, int name, dlk_buf *answer)
{
    const mc_item *item = mc_item_of(name);
    const char *number = flag(c, 'C');
    if (is_full()) {
        if (mc_drop(name))
            state_lost(name, 0);
        say(answer, "SERVER_ERROR out of memory storing object\r\n");
        return;
    }
    if (number && !is_current(item, number, answer, "NF", "EX"))
        return;
    if (!number && item)
        say(answer, "NS\r\n");
    else
        say(answer, "HD c%" PRIu64 "\r\n",
            put(name, c->data, c->size, strtoll(flag(c, 'T'), NULL, 10)));
}

static void classic_store(const command *c, int name, dlk_buf *answer)
{
    const mc_item *item = mc_item_of(name);
    if (is_full()) {
        say(answer, "SERVER_ERROR out of memory storing object\r\n");
        return;
    }
    if (is(c, "cas") && !is_current(item, c->words[5], answer, "NOT_FOUND", "EXISTS"))
        return;
    if (is(c, "add") && item) {
        say(answer, "NOT_STORED\r\n");
        return;
    }
    (void)put(name, c->data, c->size, strtoll(c->words[3], NULL, 10));
    say(answer, "STORED\r\n");
}

static void meta_get(const command *c, int name, dlk_buf *answer)
{
    mc_item *item = &mc.items[name];
    if (!mc_item_of(name)) {
        say(answer, "EN\r\n");
        return;
    }
    if (flag(c, 'T'))
        item->ends = end_of(strtoll(flag(c, 'T'), NULL, 10));
    if (!flag(c, 'v')) {
        say(answer, "HD c%" PRIu64 "\r\n", item->cas);
        return;
    }
    int64_t left = item->ends == DLK_NEVER ? -1 : item->ends - mc_second();
    say(answer, "VA %zu c%" PRIu64 " t%" PRId64 "\r\n", item->size, item->cas, left);
    say_data(answer, item, "\r\n");
}

static void classic_get(const command *c, int name, dlk_buf *answer)
{
    const mc_item *item = mc_item_of(name);
    if (!item) {
        say(answer, "END\r\n");
        return;
    }
    say(answer, "VALUE %s 0 %zu %" PRIu64 "\r\n", c->words[1], item->size, item->cas);
    say_data(answer, item, "\r\nEND\r\n");
}

static void meta_delete(const command *c, int name, dlk_buf *answer)
{
    const mc_item *item = mc_item_of(name);
    const char *number = flag(c, 'C');
    if (number && !is_current(item, number, answer, "NF", "EX"))
        return;
    say(answer, drop(name) ? "HD\r\n" : "NF\r\n");
}

static void statistics(const command *c, dlk_buf *answer)
{
    if (c->count == 1)
        say(answer, "STAT pid 1\r\nSTAT uptime %" PRId64 "\r\nSTAT time %" PRId64 "\r\n",
            mc_second() - mc.started, mc_second());
    else
        say(answer, "STAT maxbytes 67108864\r\nSTAT evictions %s\r\n",
            mc.evicts ? "on" : "off");
    say(answer, "END\r\n");
}

static void run_nameless(const command *c, dlk_buf *answer)
{
    if (is(c, "mn"))
        say(answer, mc.meta ? "MN\r\n" : "ERROR\r\n");
    else if (is(c, "version"))
        say(answer, "VERSION %s\r\n", mc.meta ? "1.6.18" : "1.5.22");
    else if (is(c, "stats"))
        statistics(c, answer);
    else
        abort();
}

static void run_command(const command *c, int name, dlk_buf *answer)
{
    static const struct {
        const char *verb;
        void (*run)(const command *c, int name, dlk_buf *answer);
    } all[] = {{"ms", meta_store},     {"mg", meta_get},       {"md", meta_delete},
               {"add", classic_store}, {"cas", classic_store}, {"gets", classic_get}};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        if (is(c, all[i].verb)) {
            all[i].run(c, name, answer);
            return;
        }
    abort();
}

static int name_of(const command *c)
{
    const char *key = c->count > 1 && !is(c, "stats") ? c->words[1] : "";
    if (key[0] && (key[1] || key[0] < 'a' || key[0] >= 'a' + MAX_NAMES))
        abort();
    return key[0] ? key[0] - 'a' : ALL_NAMES;
}

static void tell_done(const message *m, int name, const dlk_buf *answer)
{
    const char *asked = dlk_buf_head(&m->bytes), *said = dlk_buf_head(answer);
    int asked_size = (int)strcspn(asked, "\r"), said_size = (int)strcspn(said, "\r");
    if (m->verb)
        tell(SERVER, name, "client %d's %s #%llu: %.*s -> %.*s", m->client,
             verb_name(m->verb), (unsigned long long)m->number, asked_size, asked,
             said_size, said);
    else
        tell(SERVER, name, "client %d's %.*s -> %.*s", m->client, asked_size, asked,
             said_size, said);
}

void mc_apply(const message *m, dlk_buf *answer)
{
    command c;
    if (!parse(dlk_buf_head(&m->bytes), dlk_buf_size(&m->bytes), &c))
        abort();
    int name = name_of(&c);
    if (name == ALL_NAMES) {
        run_nameless(&c, answer);
        return;
    }
    run_command(&c, name, answer);
    tell_done(m, name, answer);
    mc_rules_look(name);
}
