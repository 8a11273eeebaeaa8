/*
 * What the parts of the dlock command share: the options of one call, the session with the lock
 * service, and how failures become one line on stderr and an exit status.
 *
 * The command is a user of the library like any other: public header only, one thread. What
 * may take long is an op that is waited for in one loop with the signals; giving back is bounded by
 * client.close_ms and waits for no signal.
 */
#ifndef DLOCK_TOOLS_CLI_H
#define DLOCK_TOOLS_CLI_H

#include <dlock/dlock.h>

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Exit statuses, those of sysexits.h where it has one; 128 + n for signal n. */
enum {
    CLI_BUSY = -1, /* not obtained: main makes it what -E says, which may be 0 */
    CLI_OK = 0,
    CLI_NOT_OBTAINED = 1,
    CLI_UNSAFE = 1, /* the verdict of `doctor` */
    CLI_USAGE = 64,
    CLI_AWAY = 69,
    CLI_OTHER = 70,
    CLI_LOST = 75,
    CLI_DENIED = 77,
    CLI_NOT_EXECUTABLE = 126,
    CLI_NOT_FOUND = 127,
    CLI_SIGNAL = 128,
};

typedef enum cli_on_lost {
    CLI_ON_LOST_TERM,
    CLI_ON_LOST_KILL,
    CLI_ON_LOST_IGNORE
} cli_on_lost;

enum { CLI_THREADS_MAX = 64 };

/* One call of the command. */
typedef struct cli_call {
    const char *command; /* "run": what error lines begin with */

    /* options */
    const char *url;
    bool help, json, verbose;
    dlock_conf *conf; /* --set, --ttl, --permits: settings of the client */
    dlock_kind kind;
    int64_t wait_ms;
    bool strict;      /* a release that isn't confirmed is a failure */
    int not_obtained; /* exit status when the lock isn't obtained */
    cli_on_lost on_lost;
    int64_t kill_after_ms; /* < 0: by the ttl */
    const char *shell;     /* -c */
    bool export;           /* hand the lock on instead of holding it */
    const char *ticket;    /* --import */
    bool force;
    const char *owner;
    int64_t max;
    bool once;               /* top: one look */
    bool deadlocks;          /* doctor: who waits for whom in a circle, instead */
    bool totals;             /* stats: of one look, without the locks themselves */
    bool scan;               /* list: through all keys of the server */
    const char *openmetrics; /* top: where to serve a page for Prometheus, or NULL */
    int64_t bench_ms;        /* bench: for each of its measures */
    int64_t threads;         /* likewise: of those with many */
    bool install;            /* doctor: what the service lacks of ours */
    bool signal;             /* wait for one, at a condition */
    int64_t number;          /* of waiters to signal */

    /* session */
    dlock_client *client;
    bool connected;
    bool left;              /* it couldn't be closed in time, and ends with the process */
    uint64_t tag;           /* of the op being awaited */
    int64_t began;          /* when the session began: -w counts from here */
    int signals;            /* signalfd of what ends a wait; -1 before cli_open */
    sigset_t caught;        /* what `signals` reports */
    sigset_t mask_at_start; /* what a child gets */
} cli_call;

/* Which options a command takes; every command takes CLI_COMMON. */
enum {
    CLI_COMMON = 1 << 0,
    CLI_SERVICE = 1 << 1, /* talks to a lock service */
    CLI_KIND = 1 << 2,
    CLI_WAIT = 1 << 3,
    CLI_TTL = 1 << 4,
    CLI_RUN = 1 << 5,
    CLI_BREAK = 1 << 6,
    CLI_LIST = 1 << 7,
    CLI_HOLDS = 1 << 8, /* gives something back at its end */
    CLI_EXPORT = 1 << 9,
    CLI_CONDITION = 1 << 10,
    CLI_SIGNALS = 1 << 11, /* others, at a condition */
    CLI_TOP = 1 << 12,
    CLI_BENCH = 1 << 13,
    CLI_DOCTOR = 1 << 14,
    CLI_INSTALL = 1 << 15, /* where a service is built in that needs it */
};

typedef struct cli_command {
    const char *name;
    const char *arguments; /* for the usage line */
    const char *what;      /* one line of help; NULL: not shown */
    int takes;             /* CLI_… */
    int (*call)(cli_call *cli, int argc, char **argv);
} cli_command;

/* The commands. argv holds what is left after the options; the result is the exit status. */
int cli_run(cli_call *cli, int argc, char **argv);
int cli_hold(cli_call *cli, int argc, char **argv);
int cli_inspect(cli_call *cli, int argc, char **argv);
int cli_ls(cli_call *cli, int argc, char **argv);
int cli_break(cli_call *cli, int argc, char **argv);
int cli_revoke(cli_call *cli, int argc, char **argv);
int cli_wait(cli_call *cli, int argc, char **argv);
int cli_send_signal(cli_call *cli, int argc, char **argv);
int cli_bench(cli_call *cli, int argc, char **argv);
int cli_doctor(cli_call *cli, int argc, char **argv);
int cli_top(cli_call *cli, int argc, char **argv);
int cli_stats(cli_call *cli, int argc, char **argv);
int cli_version(cli_call *cli, int argc, char **argv);
int cli_keys(cli_call *cli, int argc, char **argv);

/* options.c */

/* Reads options up to the first argument that is none, or behind "--". Returns how many elements
 * of argv it used up, or -1 after saying what is wrong. */
int cli_options(cli_call *cli, int takes, int argc, char **argv);
/* Prints the options that a command with these bits takes. */
void cli_options_help(FILE *out, int takes);
/* A name, and nothing else: NULL after saying so. */
const char *cli_only_name(const cli_call *cli, int argc, char **argv);

/* session.c */

/* Makes the client, once, which says nothing to anybody yet: 0, or the exit status, as of cli_open. */
int cli_make(cli_call *cli);
/* The lease that was asked for, wherever it was set; of a client that is made. */
int64_t cli_ttl_ms(const cli_call *cli);
/* Connects, once. 0, or the exit status after saying what is wrong; cli_close in either case. */
int cli_open(cli_call *cli);
/* Gives everything back. */
void cli_close(cli_call *cli);
/* Waits for the op's end: 0 when it succeeded, else the exit status, after saying what is wrong
 * with `what` (the name, the URL). A signal cancels it: 128 + n. */
int cli_await(cli_call *cli, dlock_op *op, const char *what);
/* Opens, and makes a handle on the lock of the kind asked for: 0, or the exit status. */
int cli_lock(cli_call *cli, const char *name, dlock_lock **ret_lock);
/* The same of a condition. */
int cli_condition(cli_call *cli, const char *name, dlock_cond **ret_cond);
/* What connecting has left of the wait that was asked for. */
int64_t cli_wait_left(const cli_call *cli);
/* Opens, and waits for the lock: 0, or the exit status. */
int cli_acquire(cli_call *cli, const char *name, dlock_hold **ret_hold);
/* The same by a ticket. */
int cli_import(cli_call *cli, const char *ticket, dlock_hold **ret_hold);
/* Gives the lock back and closes the client, within client.close_ms, and a moment behind the end of the
 * lease at most: 0, or CLI_LOST. When the answer didn't come it says so, and returns 0, or with
 * --strict the exit status for that. */
int cli_release(cli_call *cli, dlock_hold *hold);
/* Closes the client of a lock that is lost: within a moment. */
void cli_leave(cli_call *cli);
/* Fetches and drops the client's events, which only say that it is time to look; but that somebody
 * asks for the lock is told on stderr. */
void cli_drain(cli_call *cli);
/* The signal that is waiting in `cli->signals`, or 0. */
int cli_signal(const cli_call *cli);

/* url.c */

/* The DLOCK_URL of a command that we run: 0, or the exit status. NULL: the one that is there, as it
 * is; else without its secrets, and the caller's to free. */
int cli_url_for_command(const cli_call *cli, char **ret_url);

/* openmetrics.c: serves the page at cli->openmetrics until a signal comes. The client is open. */
int cli_serve_openmetrics(cli_call *cli, const char *prefix);

/* clock.c: leases run on CLOCK_BOOTTIME, so does whatever watches them. */
int64_t cli_now_ms(void);
/* Lets a timerfd made by cli_timer_new fire at `at_ms`; < 0 stops it. */
int cli_timer_new(void);
void cli_timer_set(int timer, int64_t at_ms);
/* Whether it has fired; says so once. */
bool cli_timer_fired(int timer);

/* print.c */

/* How many bytes the UTF-8 sequence at `at` has; 0 when it is none (RFC 3629). */
size_t cli_utf8_size(const unsigned char *at);
/* A text of a server's or a user's: what isn't printable must not reach a terminal, and is a ?. */
void cli_print(FILE *out, const char *text);
/* What is known, as cli_print, between the two. NULL: nothing. */
void cli_print_more(const char *before, const char *text, const char *behind);
/* A number of an info's; 0 where it isn't known. */
int64_t cli_number(const char *text);
/* "26.8 s", "3 min 12 s", "5 h 2 min", "9 d 3 h". */
void cli_print_span(int64_t ms);
/* A lock's name, so that it can be pasted into a shell: where it has what isn't printable, in $'…'. */
void cli_print_name(FILE *out, const char *name);
/* One line on stderr: "dlock: run: …". */
void cli_say(const cli_call *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same for a failed call; names `what` unless the library does; returns the exit status. */
int cli_fail(const cli_call *cli, const char *what, dlock_err code,
             const dlock_error *error);
/* The exit status alone. */
int cli_exit_status(dlock_err code);
/* The same for errno; returns CLI_OTHER. */
int cli_fail_errno(const cli_call *cli, const char *what);
/* A text as a JSON string; bytes that aren't UTF-8 become U+FFFD. */
void cli_json_text(FILE *out, const char *text);
/* What a command that is only done, or not, answers: nothing, or as JSON the name and what came of
 * it, under this key. */
void cli_answer(const cli_call *cli, const char *name, const char *key,
                const char *value);
/* An info: a line of JSON, or a line "key  text" for each entry. */
int cli_print_info(const cli_call *cli, dlock_info *info);
/* cli_open, for who is going to list: on Redis by what clients tell, unless --scan says otherwise. */
int cli_open_list(cli_call *cli);
/* How many circles of who waits for whom a list has; and of the first a line, "" without one: it isn't fit to be
 * printed as it is. */
size_t cli_count_deadlocks(const dlock_info *list);
void cli_deadlock_line(const dlock_info *list, char *ret, size_t size);
int cli_deadlocks(cli_call *cli);
/* Whether this key of a list is a lock's name. */
bool cli_is_name(const char *key);
/* Says on stderr if this list isn't all there is: 0, or CLI_OTHER when a part wasn't looked at. */
int cli_check_list(const cli_call *cli, const dlock_info *list);
/* Flushes stdout: `status`, or CLI_OTHER when it couldn't be written. */
int cli_flush(const cli_call *cli, int status);

#endif
