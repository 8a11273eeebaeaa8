/* The next program; see the header. */
#include "heir.h"

#include "backends/local/process.h"
#include "util/clock.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define GENEROUS_MS 20000
#define NEVER       "600000" /* ms, for what must not be what helps */

dlock_lock *heir_lock(const char *uri, dlock_kind kind)
{
    dlock_client *client = NULL;
    dlock_lock *lock = NULL;
    dlock_conf *conf = dlock_conf_new();
    dlock_error *err = NULL;
    if (dlock_conf_set(conf, "lock.ttl_ms", NEVER, &err) != DLOCK_OK ||
        dlock_conf_set(conf, "client.poll_ms", "60000", &err) != DLOCK_OK ||
        dlock_conf_set(conf, "lock.permits", "1", &err) != DLOCK_OK ||
        dlock_client_open(uri, conf, &client, &err) != DLOCK_OK ||
        dlock_lock_new(client, kind, "n", NULL, &lock, &err) != DLOCK_OK) {
        (void)fprintf(stderr, "%s\n", dlock_error_text(err));
        _exit(2);
    }
    dlock_conf_free(conf);
    return lock;
}

static void live(const char *uri, dlock_kind kind, int from, int to)
{
    dlock_lock *lock = heir_lock(uri, kind);
    dlock_hold *hold = NULL;
    char command;
    while (read(from, &command, 1) == 1) {
        dlock_err rc;
        if (command == HEIR_ACQUIRE) {
            rc = dlock_lock_acquire(lock, GENEROUS_MS, &hold, NULL);
        } else {
            rc = dlock_hold_release(hold, NULL);
            dlock_hold_free(hold);
        }
        char said = rc == DLOCK_OK ? 'y' : 'n';
        if (write(to, &said, 1) != 1)
            _exit(3);
    }
    _exit(0);
}

void heir_start(crash_heir *heir, const char *uri, dlock_kind kind)
{
    int down[2], up[2];
    if (pipe2(down, O_CLOEXEC) != 0 || pipe2(up, O_CLOEXEC) != 0)
        abort();
    (void)fflush(stdout); /* or the child would own a copy of what waits in it */
    heir->pid = fork();
    if (heir->pid < 0)
        abort();
    if (heir->pid == 0) {
        (void)close(down[1]); /* so that the test's end is ours */
        live(uri, kind, down[0], up[1]);
    }
    (void)close(down[0]);
    (void)close(up[1]);
    heir->to = down[1];
    heir->from = up[0];
}

void heir_end(crash_heir *heir)
{
    (void)close(heir->to);
    (void)close(heir->from);
    (void)kill(heir->pid, SIGKILL); /* ours, and not reaped */
    (void)waitpid(heir->pid, NULL, 0);
}

bool heir_ask(crash_heir *heir, heir_command command)
{
    char byte = (char)command;
    return write(heir->to, &byte, 1) == 1;
}

bool heir_succeeds(crash_heir *heir)
{
    char said = 'n';
    struct pollfd answer = {.fd = heir->from, .events = POLLIN};
    return poll(&answer, 1, GENEROUS_MS * 2) == 1 && read(heir->from, &said, 1) == 1 &&
           said == 'y';
}

/* The place that one of the process' members has in a line, or NULL. */
static const dlk_line_place *place_of(const crash_heir *heir, const dlk_table *table)
{
    for (uint32_t ref = 1; ref <= table->place_count; ref++) {
        const dlk_line_place *place = &table->places[ref - 1];
        const dlk_member *member = dlk_member_of(table, atomic_load(&place->owner));
        if (atomic_load(&place->word) != 0 && member &&
            (uint32_t)atomic_load(&member->word) == (uint32_t)heir->pid &&
            atomic_load(&member->asleep) != 0)
            return place;
    }
    return NULL;
}

bool heir_is_in_line(const crash_heir *heir, const dlk_table *table)
{
    int64_t until = dlk_clock_after(dlk_clock_now(), GENEROUS_MS);
    /* Said that it sleeps, and does: then it is in the futex. */
    while (!place_of(heir, table) || dlk_process_state((uint32_t)heir->pid) != 'S') {
        if (dlk_clock_now() >= until)
            return false;
        (void)sched_yield();
    }
    return true;
}
