/* The kernel under the table, simulated: a robust mutex, futexes, pidfds and their poll. Calls
 * of a process that is dead by now (its stack has still to unwind) do nothing. */
#include "seam.h"

#include "sim.h"

#include <errno.h>
#include <stdlib.h>

#define OPERATOR    MAX_CLIENTS
#define FIRST_PIDFD 1000

static int who(void)
{
    return s.running ? s.running->index : OPERATOR;
}

static bool is_ghost(void)
{
    return s.running && s.running->dead;
}

/* ---- the mutex ---- */

int sim_mutex_trylock(pthread_mutex_t *mutex)
{
    (void)mutex;
    if (is_ghost())
        return 0;
    if (s.table.inside != NOBODY && !s.table.inside_died)
        return EBUSY;
    bool died = s.table.inside_died;
    s.table.inside = who();
    s.table.inside_died = false;
    if (!died)
        return 0;
    s.table.recovered = true;
    s.totals.recoveries++;
    tell(s.running ? who() : SERVER, ALL_NAMES, "enters after a death in the mutex");
    return EOWNERDEAD;
}

/* Only mem: waits for it, and there nobody stops or dies inside. */
int sim_mutex_lock(pthread_mutex_t *mutex)
{
    int rc = sim_mutex_trylock(mutex);
    if (rc == EBUSY)
        abort();
    return rc;
}

/* Nothing else happens while we wait. */
int sim_mutex_clocklock(pthread_mutex_t *mutex)
{
    (void)mutex;
    return ETIMEDOUT;
}

int sim_mutex_unlock(pthread_mutex_t *mutex)
{
    (void)mutex;
    if (is_ghost())
        return 0;
    if (s.table.inside != who())
        abort();
    s.table.inside = NOBODY;
    return 0;
}

int sim_mutex_consistent(pthread_mutex_t *mutex)
{
    (void)mutex;
    return 0;
}

/* ---- time ---- */

int64_t sim_clock_now(void)
{
    return s.running ? client_time(s.running) : sim_time();
}

/* ---- the bell ---- */

void sim_futex_wait(dlk_futex *word, uint32_t seen)
{
    (void)seen; /* whoever calls has just compared, and nothing came between */
    if (s.running)
        s.running->process.parked = word;
}

void sim_futex_wake(dlk_futex *word)
{
    if (is_ghost())
        return;
    for (int i = 0; i < s.config.clients; i++)
        if (s.clients[i].process.parked == word)
            (void)table_wake(&s.clients[i]); /* if it is dead it doesn't matter */
}

/* ---- processes ---- */

static client *process_of(uint32_t pid)
{
    for (int i = 0; i < s.config.clients; i++)
        if (s.clients[i].process.local && s.clients[i].process.local->who.pid == pid)
            return &s.clients[i];
    return NULL;
}

static bool is_dead(uint32_t pid)
{
    const client *c = process_of(pid);
    bool is_operator = s.operator.local && s.operator.local->who.pid == pid;
    return !is_operator && (!c || c->dead);
}

dlk_life sim_process_open(uint32_t pid, int *pidfd)
{
    if (is_dead(pid))
        return DLK_LIFE_DEAD;
    *pidfd = FIRST_PIDFD + (int)pid;
    return DLK_LIFE_ALIVE;
}

char sim_process_state(uint32_t pid)
{
    const client *c = process_of(pid);
    return c && client_stopped(c) ? 'T' : 'S';
}

int sim_poll(struct pollfd *set, nfds_t count)
{
    int ready = 0;
    for (nfds_t i = 0; i < count; i++) {
        set[i].revents = 0;
        if (set[i].fd >= FIRST_PIDFD && is_dead((uint32_t)(set[i].fd - FIRST_PIDFD)))
            set[i].revents = POLLIN;
        ready += set[i].revents != 0;
    }
    return ready;
}

/* A descriptor that says whose watch it wakes. */
int sim_eventfd(void)
{
    return who();
}

static void run_watch(event *e)
{
    client *c = e->of;
    if (client_put_off(c, e))
        return;
    client *before = s.running;
    dlk_watch *watch = &c->process.local->watch;
    s.running = c;
    dlk_watch_step(watch, 0); /* what it slept for … */
    dlk_watch_step(watch, 0); /* … and the look around before it sleeps again */
    s.running = before;
    if (watch->unburied)
        event_at(e, s.now + 20 * MS, run_watch, c);
}

bool table_watch(client *c)
{
    if (c->process.watcher.timer.place)
        return false;
    event_at(&c->process.watcher, s.now + between(&c->rand, 1000, 100000), run_watch, c);
    return true;
}

int sim_eventfd_write(int fd)
{
    if (!is_ghost())
        (void)table_watch(&s.clients[fd]);
    return 0;
}

bool sim_thread_start(void *watch)
{
    (void)watch; /* of the process that runs */
    s.running->process.watching = true;
    return sim_eventfd_write(s.running->index) == 0;
}

/* ---- what looks at files and processes of the machine ---- */

void dlk_local_doctor(dlk_local *local, dlk_ask *ask, int64_t now)
{
    (void)local;
    (void)now;
    ask->reply = DLK_NOT_OURS; /* nobody here asks */
}
