/*
 * The picture: a bar per worker that moves to the left as time goes on, drawn over itself on a
 * terminal; plain lines now and then elsewhere.
 */
#include "demo.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { MAX_COLUMNS = 160, LABEL = 34, PLAIN_EVERY_US = 500000 };

/* What a worker did in one frame; the frame shows the most telling. */
typedef enum cell { CELL_NONE, CELL_RESTS, CELL_WAITS, CELL_HOLDS, CELL_DEAD } cell;

static struct {
    bool terminal, colours;
    int columns; /* of the bars */
    bool drawn;  /* there is a picture to draw over */
    unsigned char bars[WORKERS][MAX_COLUMNS];
    int64_t turns[WORKERS]; /* as of the last frame */
    int64_t plain_us;       /* when the last plain line was written */
} picture;

static const char *const cell_colour[] = {[CELL_NONE] = "",
                                          [CELL_RESTS] = "\033[90m",
                                          [CELL_WAITS] = "\033[33m",
                                          [CELL_HOLDS] = "\033[1;32m",
                                          [CELL_DEAD] = "\033[1;31m"};
static const char *const cell_sign[] = {[CELL_NONE] = " ",
                                        [CELL_RESTS] = "·",
                                        [CELL_WAITS] = "░",
                                        [CELL_HOLDS] = "█",
                                        [CELL_DEAD] = "✗"};

static const char *colour(const char *code)
{
    return picture.colours ? code : "";
}

/* The URL without what may be secret in it: the user's name and password, the parameters. */
static void print_url(const char *url)
{
    const char *rest = strstr(url, "://");
    rest = rest != NULL ? rest + 3 : url;
    const char *host = rest;
    size_t authority = strcspn(rest, "/?");
    for (size_t i = 0; i < authority; i++) {
        if (rest[i] == '@')
            host = rest + i + 1;
    }
    (void)printf("%.*s%.*s", (int)(rest - url), url, (int)strcspn(host, "?"), host);
}

void draw_begin(const demo_state *demo)
{
    const char *term = getenv("TERM");
    struct winsize size = {0};
    picture.terminal = isatty(STDOUT_FILENO) && term != NULL && strcmp(term, "dumb") != 0;
    picture.colours = picture.terminal && getenv("NO_COLOR") == NULL;
    int columns = 80;
    if (picture.terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
        size.ws_col > 0)
        columns = size.ws_col;
    columns -= LABEL + 2;
    picture.columns = columns > MAX_COLUMNS ? MAX_COLUMNS : columns > 10 ? columns : 10;
    (void)printf("%d processes increment one number under the lock %s\nat ", WORKERS,
                 demo->name);
    print_url(demo->url);
    (void)printf(", ttl %" PRId64
                 " ms; two of them are killed with -9 while they hold it.\n\n",
                 demo->ttl_ms);
    if (picture.terminal)
        (void)printf(
            "%s%s%s holds   %s%s%s waits   %s%s%s rests   %s%s%s killed\n",
            colour(cell_colour[CELL_HOLDS]), cell_sign[CELL_HOLDS], colour("\033[0m"),
            colour(cell_colour[CELL_WAITS]), cell_sign[CELL_WAITS], colour("\033[0m"),
            colour(cell_colour[CELL_RESTS]), cell_sign[CELL_RESTS], colour("\033[0m"),
            colour(cell_colour[CELL_DEAD]), cell_sign[CELL_DEAD], colour("\033[0m"));
    (void)fflush(stdout);
}

/* Who held it within the frame counts as holding: most turns are shorter than a frame. */
static cell cell_of(const demo_worker *worker, int64_t *turns_before)
{
    int64_t turns = atomic_load(&worker->turns);
    bool had_a_turn = turns != *turns_before;
    *turns_before = turns;
    switch ((worker_state)atomic_load(&worker->state)) {
    case WORKER_KILLED:
    case WORKER_FAILED:
        return CELL_DEAD;
    case WORKER_HOLDS:
    case WORKER_DOOMED:
        return CELL_HOLDS;
    case WORKER_WAITS:
        return had_a_turn ? CELL_HOLDS : CELL_WAITS;
    case WORKER_STARTS:
    case WORKER_RESTS:
    case WORKER_DONE:
        return had_a_turn ? CELL_HOLDS : CELL_RESTS;
    }
    return CELL_NONE;
}

static const char *state_text(int state)
{
    static const char *const texts[] = {
        [WORKER_STARTS] = "starts", [WORKER_WAITS] = "waits",  [WORKER_HOLDS] = "HOLDS",
        [WORKER_RESTS] = "rests",   [WORKER_DOOMED] = "HOLDS", [WORKER_KILLED] = "killed",
        [WORKER_DONE] = "done",     [WORKER_FAILED] = "failed"};
    return texts[state];
}

static void draw_bar(const unsigned char *bar)
{
    cell last = CELL_NONE;
    for (int i = 0; i < picture.columns; i++) {
        if (bar[i] != last)
            (void)fputs(colour(cell_colour[bar[i]]), stdout);
        (void)fputs(cell_sign[bar[i]], stdout);
        last = bar[i];
    }
    (void)fputs(colour("\033[0m"), stdout);
}

static void draw_picture(const demo_state *demo)
{
    if (picture.drawn)
        (void)printf("\033[%dA", WORKERS + 1);
    picture.drawn = true;
    int64_t count = 0, highest = 0;
    int waiting = 0;
    for (int i = 0; i < WORKERS; i++) {
        demo_worker *worker = &demo->shared->workers[i];
        int state = atomic_load(&worker->state);
        unsigned char *bar = picture.bars[i];
        memmove(bar, bar + 1, (size_t)picture.columns - 1);
        bar[picture.columns - 1] = (unsigned char)cell_of(worker, &picture.turns[i]);
        (void)printf("\r\033[Kworker %d  %-6s %4" PRId64 " turns       ", i + 1,
                     state_text(state), picture.turns[i]);
        draw_bar(bar);
        (void)putchar('\n');
        count += picture.turns[i];
        int64_t token = atomic_load(&worker->token);
        highest = token > highest ? token : highest;
        waiting += state == WORKER_WAITS;
    }
    (void)printf("\r\033[Kcount %" PRId64 ", token %" PRId64 ", %d waiting, %.1f s\n",
                 count, highest, waiting, (double)(demo_now_us() - demo->began_us) / 1e6);
}

static void write_line(const demo_state *demo)
{
    int64_t now = demo_now_us();
    if (now - picture.plain_us < PLAIN_EVERY_US)
        return;
    picture.plain_us = now;
    int64_t count = 0, highest = 0;
    int holder = -1, waiting = 0;
    for (int i = 0; i < WORKERS; i++) {
        const demo_worker *worker = &demo->shared->workers[i];
        int state = atomic_load(&worker->state);
        int64_t token = atomic_load(&worker->token);
        if (state == WORKER_HOLDS || state == WORKER_DOOMED)
            holder = i;
        waiting += state == WORKER_WAITS;
        count += atomic_load(&worker->turns);
        highest = token > highest ? token : highest;
    }
    (void)printf("%4.1f s  ", (double)(now - demo->began_us) / 1e6);
    if (holder >= 0)
        (void)printf("worker %d holds it", holder + 1);
    else
        (void)printf("nobody holds it");
    (void)printf(", %d wait, count %" PRId64 ", token %" PRId64 "\n", waiting, count,
                 highest);
}

void draw_frame(const demo_state *demo)
{
    if (picture.terminal)
        draw_picture(demo);
    else
        write_line(demo);
    (void)fflush(stdout);
}

void draw_kill(const demo_state *demo, const demo_kill *killing)
{
    if (picture.terminal)
        return; /* the picture shows it, the end tells the numbers */
    (void)printf("%4.1f s  worker %d (pid %d) holds it and is killed with -9\n",
                 (double)(killing->at_us - demo->began_us) / 1e6, killing->worker + 1,
                 (int)killing->pid);
    (void)fflush(stdout);
}

void draw_end(void)
{
    (void)fputs(picture.terminal ? "\033[0m\n" : "\n", stdout);
}
