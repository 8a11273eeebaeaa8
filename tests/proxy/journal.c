/* The log: a ring of the last lines, and a file that gets each of them. */
#include "harness/time.h"
#include "proxy/inner.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int64_t proxy_clock(void)
{
    return now_ns();
}

bool proxy_journal_init(proxy_journal *journal)
{
    *journal = (proxy_journal){.lines = calloc(JOURNAL_LINES, JOURNAL_SIZE)};
    return journal->lines != NULL;
}

void proxy_journal_clear(proxy_journal *journal)
{
    if (journal->out)
        fclose(journal->out);
    free(journal->lines);
}

/* Names and texts come from outside: they must not break the line. */
static void make_printable(char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

void proxy_journal_add(proxy_journal *journal, const char *format, va_list args)
{
    char *line = journal->lines[journal->written++ % JOURNAL_LINES];
    int64_t us = proxy_clock() / 1000;
    int used = snprintf(line, JOURNAL_SIZE, "%" PRId64 ".%06" PRId64 " ", us / 1000000,
                        us % 1000000);
    vsnprintf(line + used, JOURNAL_SIZE - (size_t)used, format, args);
    make_printable(line);
    if (journal->out)
        fprintf(journal->out, "%s\n", line);
}

void proxy_journal_print(const proxy_journal *journal, FILE *out, const char *before,
                         int lines)
{
    int64_t from = journal->written - lines;
    if (from < journal->written - JOURNAL_LINES)
        from = journal->written - JOURNAL_LINES;
    for (int64_t i = from < 0 ? 0 : from; i < journal->written; i++)
        fprintf(out, "%s%s\n", before, journal->lines[i % JOURNAL_LINES]);
}

__attribute__((format(printf, 2, 3))) static void add(proxy_journal *journal,
                                                      const char *format, ...)
{
    va_list args;
    va_start(args, format);
    proxy_journal_add(journal, format, args);
    va_end(args);
}

void proxy_say(proxy *p, const proxy_link *link, const proxy_pair *pair,
               const char *format, ...)
{
    char text[JOURNAL_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (pair)
        add(&p->journal, "%s#%" PRId64 " %s", pair->link->name, pair->number, text);
    else
        add(&p->journal, "%s %s", link->name, text);
}
