/* The story of a run: its hash always, its text when somebody wants to read it, and its end as a
 * time-line with a column for each client. */
#include "sim.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define LINES    20000 /* kept */
#define TIMELINE 60

bool telling;

typedef struct line {
    int64_t at;
    int who, name;
    char bars[MAX_CLIENTS][MAX_NAMES];
    char state[MAX_CLIENTS];
    int holder[MAX_NAMES]; /* NOBODY: free; -2: one who is gone */
    char text[120];
} line;

static line *lines;
static size_t line_count;

void story_begin(void)
{
    s.totals.hash = UINT64_C(14695981039346656037);
    line_count = 0;
}

const char *verb_name(dlk_verb verb)
{
    return verb == DLK_ACQUIRE  ? "acquire"
           : verb == DLK_RENEW  ? "renew"
           : verb == DLK_VERIFY ? "verify"
           : verb == DLK_IMPORT ? "import"
           : verb == DLK_SIGNAL ? "signal"
                                : "release";
}

const char *reply_name(dlk_reply reply)
{
    switch (reply) {
    case DLK_YES:
        return "yes";
    case DLK_HELD:
        return "held";
    case DLK_NOT_OURS:
        return "not yours";
    case DLK_NOT_SENT:
        return "not sent";
    case DLK_UNKNOWN:
        return "no answer";
    case DLK_REFUSED:
        return "refused";
    case DLK_PENDING:
        break;
    }
    return "?";
}

/* Which place in the code, whose, and when: two runs that differ in anything soon differ in it. */
void note(int place, int who)
{
    uint64_t what = (uint64_t)s.now ^ (uint64_t)place << 44 ^ (uint64_t)(who + 1) << 60;
    s.totals.hash = (s.totals.hash ^ what) * UINT64_C(1099511628211);
    s.totals.hash ^= s.totals.hash >> 29;
    s.totals.events++;
}

static char bar_of(const client *c, int name)
{
    char bar = ' ';
    for (int k = 0; k < s.config.actors; k++) {
        const actor *a = &c->actors[k];
        if (a->name != name)
            continue;
        if (a->mood == MOOD_HOLDING && a->hold && dlk_grant_lives(a->hold->grant))
            return '#';
        if (a->mood == MOOD_RELEASING)
            bar = '.';
        else if (a->mood == MOOD_WAITING && bar == ' ')
            bar = ':';
    }
    return bar;
}

static char state_of(const client *c)
{
    if (c->dead)
        return 'x';
    if (client_stopped(c))
        return 'z';
    bool cut = is_local() ? c->process.local && !c->process.local->up : !c->connected;
    return cut ? '/' : !is_local() && s.service->is_quiet(c) ? '~' : ' ';
}

static void draw(line *to)
{
    for (int i = 0; i < s.config.clients; i++) {
        to->state[i] = state_of(&s.clients[i]);
        for (int n = 0; n < s.config.names; n++)
            to->bars[i][n] = bar_of(&s.clients[i], n);
    }
    for (int n = 0; n < s.config.names; n++) {
        holder by;
        to->holder[n] = !service_holder(n, &by) ? NOBODY : by.client < 0 ? -2 : by.client;
    }
}

void tell_text(int who, int name, const char *format, ...)
{
    if (!lines && !(lines = calloc(LINES, sizeof(*lines))))
        abort();
    line *to = &lines[line_count++ % LINES];
    *to = (line){.at = s.now, .who = who, .name = name};
    va_list args;
    va_start(args, format);
    (void)vsnprintf(to->text, sizeof(to->text), format, args); /* may be cut */
    va_end(args);
    draw(to);
}

void violated(int name, const char *format, ...)
{
    if (s.violation[0])
        return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(s.violation, sizeof(s.violation), format, args); /* may be cut */
    va_end(args);
    s.violated_name = name;
    tell(SERVER, name, "VIOLATED: %s", s.violation);
}

/* ---- printing ---- */

static void put_client(FILE *to, const line *l, int i)
{
    (void)fprintf(to, " %c", l->state[i] ? l->state[i] : ' ');
    for (int n = 0; n < s.config.names; n++)
        (void)fputc(l->bars[i][n] ? l->bars[i][n] : ' ', to);
    (void)fputs(" |", to);
}

static void put_server(FILE *to, const line *l)
{
    for (int n = 0; n < s.config.names; n++) {
        int by = l->holder[n];
        if (by >= 0)
            (void)fprintf(to, " %c:%d", 'a' + n, by);
        else
            (void)fprintf(to, " %c:%c", 'a' + n, by == NOBODY ? '-' : '?');
    }
    (void)fputs(" | ", to);
}

static void put_line(FILE *to, const line *l)
{
    (void)fprintf(to, "%12.3f |", (double)l->at / (double)MS);
    for (int i = 0; i < s.config.clients; i++)
        put_client(to, l, i);
    put_server(to, l);
    if (l->who >= 0)
        (void)fprintf(to, "client %d: ", l->who);
    (void)fprintf(to, "%s\n", l->text);
}

static void put_head(FILE *to)
{
    (void)fprintf(
        to, "# a bar: '#' holds, ':' waits, '.' gives back; before it 'z' stopped, 'x' "
            "dead, '/' cut off, '~' hears nothing\n");
    (void)fprintf(to, "%12s |", "ms");
    for (int i = 0; i < s.config.clients; i++)
        (void)fprintf(to, " c%-*d |", s.config.names, i);
    (void)fprintf(to, "%-*s| what happens\n", 4 * s.config.names + 1,
                  is_local() ? " table" : " server");
}

static size_t first_kept(void)
{
    return line_count > LINES ? line_count - LINES : 0;
}

void show_story(FILE *to)
{
    put_head(to);
    for (size_t i = first_kept(); i < line_count; i++)
        put_line(to, &lines[i % LINES]);
}

static bool matters(const line *l)
{
    return l->name == ALL_NAMES || s.violated_name == ALL_NAMES ||
           l->name == s.violated_name;
}

void show_timeline(FILE *to)
{
    size_t from = line_count, shown = 0;
    while (from > first_kept() && shown < TIMELINE)
        shown += matters(&lines[--from % LINES]);
    put_head(to);
    for (size_t i = from; i < line_count; i++)
        if (matters(&lines[i % LINES]))
            put_line(to, &lines[i % LINES]);
}
