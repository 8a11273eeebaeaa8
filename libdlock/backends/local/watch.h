/* Seeing the clients of a file die, so that what they had is handed on without waiting for the
 * end of their leases. */
#ifndef DLK_BACKENDS_LOCAL_WATCH_H
#define DLK_BACKENDS_LOCAL_WATCH_H

#include "backends/local/table.h"
#include "util/thread.h"

#include <poll.h>

typedef struct dlk_watch {
    dlk_table *table;
    uint64_t self;         /* the owner to wake when somebody died */
    uint64_t *words;       /* [ref - 1]: the member's word that pidfds[ref - 1] is for */
    struct pollfd *pidfds; /* and, as the last one, `wake` */
    int wake;              /* eventfd; -1: there is no watch */
    uint32_t high;         /* members looked at so far */
    bool blind;            /* some can't be polled: they are looked at now and then */
    bool unburied;         /* some is dead, but the table couldn't be entered */
    pthread_t thread;
    dlk_thread_role role;
    bool running;
    _Atomic bool stop;
    _Atomic uint32_t seen; /* head->registry when we looked last */
} dlk_watch;

/* Hands on what the dead have left; at once, and without a watch. */
void dlk_watch_reap(dlk_table *table);

/* Begins to watch, with a thread of its own. False: no memory, descriptor or thread; then
 * dlk_watch_step has to be called now and then, and does nothing but that without memory. */
bool dlk_watch_start(dlk_watch *watch, dlk_table *table, uint64_t self);
/* Somebody of ours waits: the watch must know of everybody who is there now. */
void dlk_watch_scan(dlk_watch *watch);
/* Looks once, for at most so long (-1: as long as it takes). */
void dlk_watch_step(dlk_watch *watch, int timeout_ms);
void dlk_watch_stop(dlk_watch *watch);

#endif
