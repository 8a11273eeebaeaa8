/*
 * See draw.h.
 */
#include "top/draw.h"

#include "top/text.h"

#include <curses.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_LINES = 3, MARGIN_LINES = HEADER_LINES + 1, CELL_BYTES = 12 };

/* All of these can be read on black as on white; what they say is said by signs as well. */
enum { PLAIN, HURT, WELL, ODD };

void top_draw_begin(void)
{
    const char *forbidden = getenv("NO_COLOR");
    if ((forbidden != NULL && *forbidden != '\0') || !has_colors() ||
        start_color() == ERR || use_default_colors() == ERR)
        return;
    (void)init_pair(HURT, COLOR_RED, -1);
    (void)init_pair(WELL, COLOR_GREEN, -1);
    (void)init_pair(ODD, COLOR_MAGENTA, -1);
}

static attr_t colour(short pair)
{
    short front, back;
    bool set = pair != PLAIN && pair_content(pair, &front, &back) != ERR && front > 0;
    return set ? (attr_t)COLOR_PAIR(pair) : A_NORMAL;
}

size_t top_draw_room(void)
{
    return LINES > MARGIN_LINES ? (size_t)(LINES - MARGIN_LINES) : 0;
}

/* A text in `cells` cells, no more than there are. */
static void put(const top_picture *picture, int y, int x, int cells, attr_t how,
                const char *text)
{
    if (y >= LINES || x >= COLS || x < 0 || cells <= 0)
        return;
    if (cells > COLS - x)
        cells = COLS - x;
    size_t size = (size_t)cells * CELL_BYTES + CELL_BYTES;
    char *out = malloc(size);
    if (out == NULL)
        return; /* a gap in one picture */
    top_text_cells(out, size, text, cells, picture->utf8);
    (void)attrset((int)how);
    (void)mvaddstr(y, x, out); /* fails at the last cell of all, which is written */
    (void)attrset((int)A_NORMAL);
    free(out);
}

/* ---- The header ------------------------------------------------------------------------ */

static void draw_service(const top_picture *picture)
{
    const top_ask *ask = picture->ask;
    char latency[24], history[TOP_HISTORY * 4 + 1],
        right[sizeof latency + sizeof history];
    int room = COLS / 2 - 12, count = ask->samples < room ? ask->samples : room;
    count = count > 0 ? count : 0;
    top_text_ms(latency, sizeof latency, top_ask_latency(ask));
    top_text_history(history, sizeof history, ask->history + TOP_HISTORY - count, count,
                     picture->utf8);
    int size = snprintf(right, sizeof right, "%s %s", latency, history);
    int cells = (size > 0 ? (int)strlen(latency) : 0) + 1 + count;
    int left = COLS - cells - 1;
    put(picture, 0, 0, left, A_BOLD, dlock_client_uri(ask->cli->client));
    put(picture, 0, left > 0 ? left + 1 : 0, cells, A_NORMAL, right);
}

/* What the table leaves out. */
static int tell_rest(const top_ask *ask, const top_model *model, char *ret, size_t size)
{
    if (ask->incomplete[0] != '\0')
        return snprintf(ret, size, "; incomplete: %s", ask->incomplete);
    if (ask->more)
        return snprintf(ret, size, "; the first %lld, there may be more (--max)",
                        (long long)ask->cli->max);
    if (model->count > ask->most)
        return snprintf(ret, size, "; %zu are asked at a time", ask->most);
    return snprintf(ret, size, "%s", "");
}

/* How the service is, or that it isn't: what the table shows is what was seen last. */
static void draw_state(const top_picture *picture, int64_t now)
{
    const top_ask *ask = picture->ask;
    const top_model *model = picture->model;
    char line[640], age[24], rest[240];
    bool hangs = ask->looking && now - ask->began > 2 * (int64_t)TOP_EVERY_MS;
    attr_t how = A_NORMAL;
    if (ask->failed_at >= 0) {
        top_text_age(age, sizeof age, now - ask->failed_at, false);
        (void)snprintf(line, sizeof line, "FAILS for %s: %s", age, ask->failure);
        how = colour(HURT) | A_BOLD;
    } else if (hangs) {
        top_text_age(age, sizeof age, now - ask->began, false);
        (void)snprintf(line, sizeof line, "no answer for %s", age);
        how = colour(HURT) | A_BOLD;
    } else if (ask->answered_at < 0) {
        (void)snprintf(line, sizeof line, "asking...");
    } else if (ask->deadlock[0] != '\0') {
        (void)snprintf(line, sizeof line, "DEADLOCK, %s", ask->deadlock);
        how = colour(HURT) | A_BOLD;
    } else {
        (void)tell_rest(ask, model, rest, sizeof rest);
        (void)snprintf(line, sizeof line,
                       "%zu locks, %lld held, %lld waiting, %lld lost, %lld clients%s",
                       model->count, (long long)model->held, (long long)model->waiting,
                       (long long)model->lost, (long long)model->clients, rest);
    }
    put(picture, 1, 0, COLS, how, line);
}

/* ---- The table ------------------------------------------------------------------------- */

typedef struct column {
    const char *title;
    int cells;      /* at least */
    int share;      /* of what is over */
    int from_width; /* of the screen that has it */
    void (*draw)(const top_picture *picture, const top_row *row, int64_t now, int y,
                 int x, int cells, attr_t how);
} column;

static void draw_name(const top_picture *picture, const top_row *row, int64_t now, int y,
                      int x, int cells, attr_t how)
{
    (void)now;
    put(picture, y, x, cells, how, row->name);
}

static void draw_kind(const top_picture *picture, const top_row *row, int64_t now, int y,
                      int x, int cells, attr_t how)
{
    (void)now;
    put(picture, y, x, cells, how, row->kind != NULL ? row->kind : "-");
}

static void draw_who(const top_picture *picture, const top_row *row, int64_t now, int y,
                     int x, int cells, attr_t how)
{
    char who[700];
    (void)now;
    if (row->failed != NULL)
        (void)snprintf(who, sizeof who, "%s", row->failed);
    else if (row->holders > 1)
        (void)snprintf(who, sizeof who, "%lld: %s", (long long)row->holders,
                       row->who != NULL ? row->who : "?");
    else
        (void)snprintf(who, sizeof who, "%s", row->who != NULL ? row->who : "-");
    put(picture, y, x, cells, how, who);
}

static void draw_held(const top_picture *picture, const top_row *row, int64_t now, int y,
                      int x, int cells, attr_t how)
{
    char age[24];
    (void)now;
    top_text_age(age, sizeof age, row->held_ms, row->held_at_least);
    put(picture, y, x, cells, how, age);
}

static void draw_lease(const top_picture *picture, const top_row *row, int64_t now, int y,
                       int x, int cells, attr_t how)
{
    enum { BAR = 8 };
    char bar[BAR * 4 + 1], age[24];
    if (!row->held || row->left_ms < 0) {
        put(picture, y, x, cells, how, "-");
        return;
    }
    int64_t left = row->left_ms - (now - row->looked);
    left = left > 0 ? left : 0;
    top_text_bar(bar, sizeof bar, left, row->whole_ms, BAR, picture->utf8);
    top_text_age(age, sizeof age, left, false);
    put(picture, y, x, BAR, how | colour(row->late ? ODD : WELL), bar);
    put(picture, y, x + BAR, 1, how, row->late ? "!" : " ");
    put(picture, y, x + BAR + 1, cells - BAR - 1, how, age);
}

static void draw_wait(const top_picture *picture, const top_row *row, int64_t now, int y,
                      int x, int cells, attr_t how)
{
    char age[24], text[48];
    (void)now;
    top_text_age(age, sizeof age, row->waited_ms, row->waited_at_least);
    if (row->waiters < 0)
        (void)snprintf(text, sizeof text, "-");
    else if (row->waiters == 0 || row->waited_ms < 0)
        (void)snprintf(text, sizeof text, "%lld", (long long)row->waiters);
    else
        (void)snprintf(text, sizeof text, "%lld, %s", (long long)row->waiters, age);
    put(picture, y, x, cells, row->waiters > 0 ? how | colour(HURT) | A_BOLD : how, text);
}

static void draw_token(const top_picture *picture, const top_row *row, int64_t now, int y,
                       int x, int cells, attr_t how)
{
    char text[24] = "-";
    (void)now;
    if (row->token >= 0)
        (void)snprintf(text, sizeof text, "%lld", (long long)row->token);
    put(picture, y, x, cells, how, text);
}

static const column columns[] = {
    {"NAME", 10, 1, 0, draw_name},         {"KIND", 9, 0, 76, draw_kind},
    {"HOLDER", 12, 1, 50, draw_who},       {"HELD FOR", 8, 0, 64, draw_held},
    {"LEASE LEFT", 15, 0, 40, draw_lease}, {"WAITING", 9, 0, 20, draw_wait},
    {"TOKEN", 19, 0, 120, draw_token},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* Where each column begins, in a screen of this width; < 0: it isn't there. */
static void place(int x[COLUMNS], int cells[COLUMNS])
{
    int used = 0, shares = 0, at = 0;
    for (size_t i = 0; i < COLUMNS; i++) {
        bool there = COLS >= columns[i].from_width;
        used += there ? columns[i].cells + (i > 0) : 0;
        shares += there ? columns[i].share : 0;
    }
    int over = COLS > used && shares > 0 ? (COLS - used) / shares : 0;
    for (size_t i = 0; i < COLUMNS; i++) {
        bool there = COLS >= columns[i].from_width;
        cells[i] = there ? columns[i].cells + columns[i].share * over : 0;
        x[i] = there ? at : -1;
        at += there ? cells[i] + 1 : 0;
    }
}

static void draw_table(const top_picture *picture, int64_t now)
{
    int x[COLUMNS], cells[COLUMNS];
    size_t room = top_draw_room();
    place(x, cells);
    put(picture, 2, 0, COLS, A_REVERSE, "");
    for (size_t i = 0; i < COLUMNS; i++)
        put(picture, 2, x[i], cells[i], A_REVERSE, columns[i].title);
    for (size_t line = 0; line < room; line++) {
        size_t index = picture->first + line;
        if (index >= picture->model->shown)
            break;
        bool chosen = index == picture->cursor;
        int y = HEADER_LINES + (int)line;
        if (chosen)
            put(picture, y, 0, COLS, A_REVERSE, "");
        for (size_t i = 0; i < COLUMNS; i++) {
            if (x[i] >= 0)
                columns[i].draw(picture, picture->model->view[index], now, y, x[i],
                                cells[i], chosen ? A_REVERSE : A_NORMAL);
        }
    }
    if (picture->model->shown == 0 && picture->ask->answered_at >= 0)
        put(picture, HEADER_LINES, 0, COLS, A_NORMAL,
            picture->model->count > 0 ? "nothing passes the filter" : "no locks");
}

static void draw_info(const top_picture *picture)
{
    put(picture, 2, 0, COLS, A_REVERSE, picture->name != NULL ? picture->name : "");
    if (picture->info == NULL) {
        put(picture, HEADER_LINES, 0, COLS, A_NORMAL, "asking...");
        return;
    }
    size_t count = dlock_info_count(picture->info), room = top_draw_room();
    int keys = COLS < 60 ? COLS / 2 : 26;
    for (size_t i = 0; i < room && picture->info_first + i < count; i++) {
        size_t at = picture->info_first + i;
        int y = HEADER_LINES + (int)i;
        put(picture, y, 0, keys - 1, A_NORMAL, dlock_info_key(picture->info, at));
        put(picture, y, keys, COLS - keys, A_NORMAL, dlock_info_text(picture->info, at));
    }
}

/* ---- The last line --------------------------------------------------------------------- */

static void draw_keys(const top_picture *picture)
{
    const top_model *model = picture->model;
    char line[400], filter[160] = "";
    if (picture->message[0] != '\0') {
        put(picture, LINES - 1, 0, COLS, A_BOLD, picture->message);
        return;
    }
    if (picture->mode == TOP_INSPECT) {
        put(picture, LINES - 1, 0, COLS, A_NORMAL, "q back  up/down scroll");
        return;
    }
    if (model->filter != NULL)
        (void)snprintf(filter, sizeof filter, ": %.120s", model->filter);
    (void)snprintf(line, sizeof line,
                   "q quit  s by %s  f filter%s  enter inspect  b break  %zu/%zu",
                   top_order_name(model->order), filter,
                   model->shown > 0 ? picture->cursor + 1 : 0, model->shown);
    put(picture, LINES - 1, 0, COLS, A_NORMAL, line);
}

void top_draw(const top_picture *picture, int64_t now)
{
    (void)erase();
    draw_service(picture);
    draw_state(picture, now);
    if (picture->mode == TOP_INSPECT)
        draw_info(picture);
    else
        draw_table(picture, now);
    draw_keys(picture);
    (void)move(LINES - 1, 0);
    (void)refresh();
}
