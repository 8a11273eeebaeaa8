/*
 * The command that `dlock run` runs: a process group, a guard that outlives us by a moment to end
 * it, and the terminal.
 */
#ifndef DLOCK_TOOLS_CHILD_H
#define DLOCK_TOOLS_CHILD_H

#include "cli.h"

#include <sys/types.h>

typedef struct run_child {
    pid_t pid;   /* also its process group */
    pid_t guard; /* 0: gone */
    int leash;   /* our end; when it is closed, by us or our death, the guard strikes */
    int deadman; /* timer; when it fires, the guard strikes */
    int go;      /* write end; the child waits for a byte before it becomes the command */
    int tty;     /* controlling terminal, -1: none */
    bool ended;
    int status; /* as waitpid gives it, once ended */
} run_child;

/* Prepares the child, which waits: 0, or the exit status after saying what is wrong. The
 * environment gets DLOCK_NAME, _TOKEN, _OWNER, _TTL_MS, and _URL as cli_url_for_command says. */
int child_prepare(const cli_call *cli, run_child *child, char **argv,
                  const dlock_hold *hold, int64_t ttl_ms);
/* Lets it become the command. */
void child_go(run_child *child);
/* The guard kills the group at this time of the boot clock, even if we can't; < 0: never. */
void child_deadline(const run_child *child, int64_t at_ms);
/* Sends a signal to the group. */
void child_signal(const run_child *child, int number);
/* Takes note of what has ended or stopped (after SIGCHLD); returns the signal that has stopped
 * the child, or 0. */
int child_reap(run_child *child);
/* Kills the group and every other descendant, and waits for their end. */
void child_kill(run_child *child);
/* The command has stopped: gives it the terminal if that is what it wanted, or stops us with it,
 * as the shell expects. Returns true when the command should go on. */
bool child_stopped(const run_child *child, int number);
/* Gives the descriptors, the guard and the terminal back. */
void child_close(run_child *child);

#endif
