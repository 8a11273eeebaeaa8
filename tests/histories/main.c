/* history-check DIRECTORY [--slack MS] [--follow]: judges a run by its histories (checker.h).
 *
 * Without --follow the run is over: the sums are printed as one line of JSON, and the exit code is
 * 1 if a rule was broken. With it, each line "check" on standard input is answered with "ok
 * RECORDS" or "violation …" about what has happened so far, and "finish" as above. */
#include "histories/checker.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void print_backend(const backend *b)
{
    const tally *t = &b->sums;
    const struct {
        const char *name;
        int64_t value;
    } all[] = {
        {"asks", t->asks},
        {"grants", t->grants},
        {"refusals", t->refusals},
        {"unanswered", t->unanswered},
        {"checks", t->checks},
        {"losses", t->losses},
        {"lost_events", t->lost_events},
        {"writes", t->writes},
        {"stale_tried", t->stale_tried},
        {"stale_refused", t->stale_refused},
        {"stale_accepted", t->stale_accepted},
        {"overlaps", t->overlaps},
        {"excused_overlaps", t->excused},
        {"lost_updates", t->lost_updates},
        {"old_tokens", t->old_tokens},
        {"overtaken", t->overtaken},
        {"used_after_loss", t->used_after_loss},
        {"longest_free_wait_ms", t->longest_free_wait / MS},
        {"longest_overshoot_ms", t->longest_overshoot / MS},
        {"longest_notice_ms", t->longest_notice / MS},
    };
    printf("\"%s\": {", b->name);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        printf("%s\"%s\": %" PRId64, i ? ", " : "", all[i].name, all[i].value);
    printf("}");
}

static void print_text(const char *text)
{
    putchar('"');
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if (*text >= ' ')
            putchar(*text);
    putchar('"');
}

static void print_sums(const checker *c)
{
    printf("{\"records\": %" PRId64 ", \"violations\": %" PRId64 ", \"first\": ",
           c->records, c->violations);
    print_text(c->first);
    printf(", \"backends\": {");
    for (int i = 0; i < c->backend_count; i++) {
        printf("%s", i ? ", " : "");
        print_backend(&c->backends[i]);
    }
    printf("}}\n");
}

static void answer(checker *c)
{
    checker_read(c, false);
    if (c->violations > 0)
        printf("violation %s\n", c->first);
    else
        printf("ok %" PRId64 "\n", c->records);
}

static int usage(void)
{
    fprintf(stderr, "usage: history-check DIRECTORY [--slack MS] [--follow]\n");
    return 64;
}

int main(int argc, char **argv)
{
    static checker c;
    char command[64];
    bool follow = false;
    int64_t slack = SECOND;
    for (int i = 2; i < argc; i++)
        if (strcmp(argv[i], "--follow") == 0)
            follow = true;
        else if (strcmp(argv[i], "--slack") == 0 && i + 1 < argc)
            slack = strtoll(argv[++i], NULL, 10) * MS;
        else
            return usage();
    if (argc < 2)
        return usage();
    if (!checker_open(&c, argv[1])) {
        fprintf(stderr, "%s/nemesis.log: no such history\n", argv[1]);
        return 66;
    }
    c.slack = slack;
    while (follow && fgets(command, sizeof(command), stdin) &&
           strcmp(command, "check\n") == 0) {
        answer(&c);
        fflush(stdout);
    }
    checker_finish(&c);
    print_sums(&c);
    int code = c.violations > 0;
    checker_close(&c);
    return code;
}
