/*
 * The screen of dlock top: keys, signals and answers in one loop, in which nothing waits for the
 * service (ask.h). What ncurses would do in signal handlers of its own is done here, out of a
 * descriptor: those signals are blocked, so its handlers never run.
 */
#include "top/screen.h"

#include "top/draw.h"

#include <curses.h>
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <term.h>
#include <unistd.h>
#include <wchar.h>

enum { ESCAPE = 27, ERASE = 127, CONTROL_H = 8, CONTROL_U = 21, CONTROL_L = 12 };

typedef struct top_screen {
    top_ask *ask;
    top_model *model;
    SCREEN *terminal;
    int signals; /* of a terminal: resize, stop, continue */
    bool utf8, done;
    int status;
    top_mode mode;
    size_t cursor, first;
    char *chosen;    /* the name under the cursor, which it follows */
    char *drawn;     /* the name under the cursor in the picture, which keys are of */
    char input[120]; /* the filter being typed */
    char message[400];
    dlock_op *op; /* an inspect or a break */
    bool breaks;
    char *name, *owner; /* what it is of, or what is asked about */
    dlock_kind kind;
    dlock_info *info;
    size_t info_first;
} top_screen;

bool top_screen_fits(void)
{
    int error = 0;
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) ||
        setupterm(NULL, STDOUT_FILENO, &error) != OK)
        return false;
    const char *place = tigetstr("cup");
    bool fits = place != NULL && place != (const char *)-1 && *place != '\0';
    (void)del_curterm(cur_term);
    return fits;
}

/* ---- The terminal's signals ------------------------------------------------------------ */

static int catch_signals(const cli_call *cli)
{
    sigset_t own;
    (void)sigemptyset(&own);
    (void)sigaddset(&own, SIGWINCH);
    (void)sigaddset(&own, SIGCONT);
    struct sigaction stop;
    if (sigaction(SIGTSTP, NULL, &stop) == 0 && stop.sa_handler != SIG_IGN)
        (void)sigaddset(&own, SIGTSTP);
    (void)pthread_sigmask(SIG_BLOCK, &own, NULL); /* valid arguments */
    int fd = signalfd(-1, &own, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        (void)cli_fail_errno(cli, "signals");
    return fd;
}

static void resize(void)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 &&
        size.ws_col > 0)
        (void)resizeterm(size.ws_row, size.ws_col);
    (void)clearok(curscr, TRUE);
}

/* Stops as if nobody had caught it, with the terminal as it was before us. */
static void stop(void)
{
    sigset_t one, before;
    (void)endwin();
    (void)signal(SIGTSTP, SIG_DFL); /* ncurses has one of its own */
    (void)sigemptyset(&one);
    (void)sigaddset(&one, SIGTSTP);
    (void)raise(SIGTSTP);
    (void)pthread_sigmask(SIG_UNBLOCK, &one, &before); /* here it stops, and goes on */
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)reset_prog_mode();
    resize();
}

static void hear_signals(const top_screen *screen)
{
    struct signalfd_siginfo got;
    while (read(screen->signals, &got, sizeof got) == (ssize_t)sizeof got) {
        if (got.ssi_signo == SIGTSTP) {
            stop();
        } else {
            (void)reset_prog_mode(); /* whoever stopped us may have changed it */
            resize();
        }
    }
}

/* ---- Answers --------------------------------------------------------------------------- */

static void forget_op(top_screen *screen)
{
    if (screen->op != NULL)
        dlock_op_cancel(screen->op);
    dlock_op_free(screen->op);
    dlock_info_free(screen->info);
    free(screen->name);
    free(screen->owner);
    screen->op = NULL;
    screen->info = NULL;
    screen->name = screen->owner = NULL;
    screen->info_first = 0;
}

static void say(top_screen *screen, const char *what, const char *name, const char *why)
{
    (void)snprintf(screen->message, sizeof screen->message, "%s %.160s%s%.200s", what,
                   name != NULL ? name : "", *why != '\0' ? ": " : "", why);
}

static bool take_answer(top_screen *screen)
{
    if (screen->op == NULL || dlock_op_result(screen->op) == DLOCK_EPENDING)
        return false;
    char why[300] = "";
    bool well = dlock_op_result(screen->op) == DLOCK_OK;
    if (!well)
        top_ask_why(why, sizeof why, screen->op);
    if (screen->breaks)
        say(screen, well ? "broken:" : "not broken:", screen->name, why);
    else if (!well)
        say(screen, "can't inspect", screen->name, why);
    if (well && !screen->breaks) {
        screen->info = dlock_op_take_info(screen->op);
        dlock_op_free(screen->op);
        screen->op = NULL;
        return true;
    }
    if (!screen->breaks)
        screen->mode = TOP_TABLE;
    screen->ask->next = 0; /* show what became of it at once */
    forget_op(screen);
    return true;
}

/* Remembers which lock a request is of, the one that is seen: the view changes under it. NULL: none, or
 * no other than the break that is under way. */
static const top_row *choose_for_op(top_screen *screen)
{
    if (screen->op != NULL && screen->breaks) {
        say(screen, "still breaking", screen->name, "");
        return NULL;
    }
    forget_op(screen);
    const top_row *row = top_model_find(screen->model, screen->drawn);
    if (row == NULL) {
        if (screen->drawn != NULL)
            say(screen, "gone:", screen->drawn, "");
        return NULL;
    }
    screen->name = strdup(row->name);
    screen->owner = row->owner != NULL ? strdup(row->owner) : NULL;
    screen->kind = top_row_kind(row);
    bool done = screen->name != NULL && (row->owner == NULL || screen->owner != NULL);
    return done ? row : NULL;
}

static void start(top_screen *screen, dlock_op *op, const char *why)
{
    if (op == NULL) {
        say(screen, screen->breaks ? "not broken:" : "can't inspect", screen->name, why);
        screen->mode = TOP_TABLE;
        forget_op(screen);
        return;
    }
    screen->op = op;
    top_ask_watch(screen->ask, op);
}

static void inspect(top_screen *screen)
{
    char why[300] = "";
    if (choose_for_op(screen) == NULL)
        return;
    screen->breaks = false;
    screen->mode = TOP_INSPECT;
    start(screen,
          top_ask_inspect(screen->ask, screen->name, screen->kind, why, sizeof why), why);
}

static void ask_to_break(top_screen *screen)
{
    const top_row *row = choose_for_op(screen);
    if (row == NULL)
        return;
    if (screen->owner == NULL) {
        say(screen, "nobody is known to hold", screen->name, "");
        forget_op(screen);
        return;
    }
    screen->mode = TOP_BREAK;
    (void)snprintf(screen->message, sizeof screen->message,
                   "y/n: take %.120s from %.160s, who may still be at work?", row->name,
                   row->who);
}

static void break_lock(top_screen *screen)
{
    char why[300] = "";
    screen->breaks = true;
    say(screen, "breaking", screen->name, "");
    start(screen,
          top_ask_break(screen->ask, screen->name, screen->kind, screen->owner, why,
                        sizeof why),
          why);
}

/* ---- Keys ------------------------------------------------------------------------------ */

static void move_by(size_t *at, size_t count, int64_t by)
{
    int64_t to = (int64_t)*at + by, last = count > 0 ? (int64_t)count - 1 : 0;
    *at = (size_t)(to < 0 ? 0 : to > last ? last : to);
}

/* Whether it was one of those that move. */
static bool move_key(wint_t key, bool special, size_t *at, size_t count)
{
    int64_t page = (int64_t)top_draw_room();
    if ((special && key == KEY_UP) || (!special && key == L'k'))
        move_by(at, count, -1);
    else if ((special && key == KEY_DOWN) || (!special && key == L'j'))
        move_by(at, count, 1);
    else if (special && key == KEY_PPAGE)
        move_by(at, count, -page);
    else if (special && key == KEY_NPAGE)
        move_by(at, count, page);
    else if (special && key == KEY_HOME)
        move_by(at, count, -INT64_MAX / 2);
    else if (special && key == KEY_END)
        move_by(at, count, INT64_MAX / 2);
    else
        return false;
    return true;
}

/* The name under the cursor; without memory there is none. */
static void keep(const top_screen *screen, char **name)
{
    free(*name);
    *name = screen->cursor < screen->model->shown
                ? strdup(screen->model->view[screen->cursor]->name)
                : NULL;
}

static bool is_enter(wint_t key, bool special)
{
    return special ? key == KEY_ENTER : key == L'\n' || key == L'\r';
}

static void table_key(top_screen *screen, wint_t key, bool special)
{
    screen->message[0] = '\0';
    if (move_key(key, special, &screen->cursor, screen->model->shown)) {
        keep(screen, &screen->chosen);
    } else if (is_enter(key, special)) {
        inspect(screen);
    } else if (special) {
        return;
    } else if (key == L'q') {
        screen->done = true;
    } else if (key == L's') {
        screen->model->order = (screen->model->order + 1) % TOP_ORDERS;
    } else if (key == L'f' || key == L'/') {
        screen->mode = TOP_FILTER;
        (void)snprintf(screen->input, sizeof screen->input, "%s",
                       screen->model->filter != NULL ? screen->model->filter : "");
    } else if (key == L'b') {
        ask_to_break(screen);
    } else if (key == CONTROL_L) {
        (void)clearok(curscr, TRUE);
    }
}

static void erase_last(char *input)
{
    size_t size = strlen(input);
    while (size > 0 && ((unsigned char)input[--size] & 0xc0) == 0x80) {
    }
    input[size] = '\0';
}

static void type(top_screen *screen, wint_t key)
{
    char bytes[16];
    mbstate_t state = {0};
    size_t size = wcrtomb(bytes, (wchar_t)key, &state), used = strlen(screen->input);
    if (key < L' ' || size == (size_t)-1 || used + size >= sizeof screen->input)
        return;
    memcpy(screen->input + used, bytes, size);
    screen->input[used + size] = '\0';
}

static void filter_key(top_screen *screen, wint_t key, bool special)
{
    if (is_enter(key, special))
        screen->mode = TOP_TABLE;
    else if (!special && key == ESCAPE) {
        screen->mode = TOP_TABLE;
        screen->input[0] = '\0';
    } else if ((special && key == KEY_BACKSPACE) ||
               (!special && (key == ERASE || key == CONTROL_H)))
        erase_last(screen->input);
    else if (!special && key == CONTROL_U)
        screen->input[0] = '\0';
    else if (!special)
        type(screen, key);
    if (!top_model_filter(screen->model, screen->input))
        (void)snprintf(screen->message, sizeof screen->message, "out of memory");
}

static void break_key(top_screen *screen, wint_t key, bool special)
{
    screen->mode = TOP_TABLE;
    if (!special && (key == L'y' || key == L'Y')) {
        break_lock(screen);
        return;
    }
    say(screen, "not broken:", screen->name, "");
    forget_op(screen);
}

static void inspect_key(top_screen *screen, wint_t key, bool special)
{
    size_t count = screen->info != NULL ? dlock_info_count(screen->info) : 0;
    if (move_key(key, special, &screen->info_first, count))
        return;
    if (is_enter(key, special) || (!special && (key == L'q' || key == ESCAPE))) {
        screen->mode = TOP_TABLE;
        forget_op(screen);
    }
}

static void hear_keys(top_screen *screen)
{
    static void (*const hear[])(top_screen *, wint_t, bool) = {
        [TOP_TABLE] = table_key,
        [TOP_FILTER] = filter_key,
        [TOP_BREAK] = break_key,
        [TOP_INSPECT] = inspect_key,
    };
    wint_t key;
    for (int got; !screen->done && (got = get_wch(&key)) != ERR;)
        hear[screen->mode](screen, key, got == KEY_CODE_YES);
}

/* ---- The loop -------------------------------------------------------------------------- */

/* The cursor stays on its lock wherever that goes; in the first place it stays there. */
static void place_cursor(top_screen *screen)
{
    const top_model *model = screen->model;
    size_t room = top_draw_room();
    for (size_t i = 0; screen->chosen != NULL && i < model->shown; i++) {
        if (strcmp(model->view[i]->name, screen->chosen) == 0)
            screen->cursor = i;
    }
    move_by(&screen->cursor, model->shown, 0);
    if (screen->cursor < screen->first)
        screen->first = screen->cursor;
    if (room > 0 && screen->cursor >= screen->first + room)
        screen->first = screen->cursor - room + 1;
    if (model->shown <= room)
        screen->first = 0;
    screen->ask->first = screen->first;
    screen->ask->screen = room;
}

static void show(top_screen *screen, int64_t now)
{
    char line[sizeof screen->input + 16];
    if (!top_model_view(screen->model, now)) {
        screen->done = true;
        screen->status = CLI_OTHER;
        return;
    }
    place_cursor(screen);
    keep(screen, &screen->drawn);
    (void)snprintf(line, sizeof line, "filter: %s_", screen->input);
    top_picture picture = {
        .ask = screen->ask,
        .model = screen->model,
        .utf8 = screen->utf8,
        .mode = screen->mode,
        .cursor = screen->cursor,
        .first = screen->first,
        .info = screen->info,
        .info_first = screen->info_first,
        .name = screen->name,
        .message = screen->mode == TOP_FILTER ? line : screen->message,
    };
    top_draw(&picture, now);
}

/* One turn: waits for a key, a signal, an answer, or the time to ask or to count on. */
static void turn(top_screen *screen)
{
    cli_call *cli = screen->ask->cli;
    struct pollfd fds[] = {
        {.fd = STDIN_FILENO, .events = POLLIN},
        {.fd = cli->signals, .events = POLLIN},
        {.fd = screen->signals, .events = POLLIN},
        {.fd = dlock_client_event_fd(cli->client), .events = POLLIN},
    };
    int64_t wait = top_ask_wake(screen->ask) - cli_now_ms();
    wait = wait < 0 ? 0 : wait > TOP_EVERY_MS ? TOP_EVERY_MS : wait;
    int ready = poll(fds, sizeof fds / sizeof *fds, (int)wait);
    if (ready > 0 && cli_signal(cli) != 0)
        screen->done = true;
    if (ready > 0 && (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0)
        screen->done = true; /* the terminal is gone */
    hear_signals(screen);
    bool changed = ready <= 0 || fds[0].revents != 0 || fds[2].revents != 0;
    if (ready > 0 && fds[0].revents != 0)
        hear_keys(screen);
    dlock_event *event = NULL; /* only says that it is time to look */
    while ((event = dlock_client_next_event(cli->client)) != NULL)
        dlock_event_free(event);
    top_news news = top_ask_turn(screen->ask, cli_now_ms());
    changed = take_answer(screen) || news == TOP_LOOKED || news == TOP_FAILED || changed;
    if (news == TOP_FAILED && cli_exit_status(screen->ask->code) == CLI_USAGE) {
        screen->status = CLI_USAGE; /* it can't list, and never will */
        screen->done = true;
    }
    if (changed && !screen->done)
        show(screen, cli_now_ms());
}

static bool begin(top_screen *screen)
{
    (void)setlocale(LC_CTYPE, "");
    screen->utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    screen->terminal = newterm(NULL, stdout, stdin);
    if (screen->terminal == NULL) {
        cli_say(screen->ask->cli, "this terminal can't be used");
        return false;
    }
    top_draw_begin();
    (void)cbreak();
    (void)noecho();
    (void)keypad(stdscr, TRUE);
    (void)nodelay(stdscr, TRUE);
    (void)set_escdelay(50);
    (void)curs_set(0);
    return true;
}

int top_screen_run(top_ask *ask, top_model *model)
{
    top_screen screen = {.ask = ask, .model = model};
    screen.signals = catch_signals(ask->cli);
    if (screen.signals < 0)
        return CLI_OTHER;
    if (begin(&screen)) {
        show(&screen, cli_now_ms());
        while (!screen.done)
            turn(&screen);
        (void)endwin();
        delscreen(screen.terminal);
        if (screen.status == CLI_USAGE)
            cli_say(ask->cli, "%s", ask->failure);
    } else {
        screen.status = CLI_OTHER;
    }
    forget_op(&screen);
    free(screen.chosen);
    free(screen.drawn);
    (void)close(screen.signals);
    return screen.status;
}
