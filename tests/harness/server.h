/* What the lock services that tests start have in common: a process that dies with the test, on a
 * port of 127.0.0.1, and a plain connection to it. */
#ifndef HARNESS_SERVER_H
#define HARNESS_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Whether there is such a command; when not, the running test is marked as skipped. */
bool server_is_installed(const char *command);

/* This port if it is free, or any free one for 0. 0 when there is none. Until it is let go, or this
 * process ends, only a server that sets SO_REUSEADDR, as all do, can have it: else another's server
 * or connection might while ours is being started again. */
int server_free_port(int wanted);
void server_let_go(int port);

/* ---- The process ---- */

typedef struct server_kind {
    const char *name;
    void (*become)(const void *server); /* in a child: exec */
    bool (*is_up)(void *server);        /* … it, and not another one on the same port */
} server_kind;

/* A child that ends when this process does. */
pid_t server_launch(const server_kind *kind, const void *server);
/* True when it is up; false, and *pid 0, when it has ended instead, as with a port that is taken,
 * or isn't up after a minute. */
bool server_await(const server_kind *kind, pid_t *pid, void *server);
/* Both. */
bool server_start(const server_kind *kind, pid_t *pid, void *server);
/* Kills it and starts it again; false after a failed check. */
bool server_restart(const server_kind *kind, pid_t *pid, void *server);
/* SIGKILL; *pid is 0 then. Harmless when it was. */
void server_kill(pid_t *pid);
/* SIGSTOP; when it returns each of its threads stands still, so nothing that is said to it from now
 * on is answered. */
void server_freeze(pid_t pid);
void server_thaw(pid_t pid);

/* ---- A connection to it ---- */

/* To this port of 127.0.0.1, where a read waits for so long at most. -1 when nobody listens. */
int server_dial(int port, int answer_s);
/* *fd is -1 then. Harmless when it was. */
void server_hang_up(int *fd);
bool server_read(int fd, char *to, size_t size);
/* Up to \r\n, which doesn't count. */
bool server_read_line(int fd, char *line, size_t size);

/* Whether something has come to this port that its server, which is frozen say, hasn't read yet. */
bool server_has_unread(int port);

#endif
