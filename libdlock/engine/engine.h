/*
 * The engine of one client: the mutex, the thread, the clock and the I/O around the decisions of
 * locks/ and the requests of one backend.
 *
 * Who does the I/O. At most one thread, the driver, is inside the backend's arm → sleep → process.
 * A caller that waits drives for itself when nobody else does, so a lone thread never pays for a
 * hop to another one; when its own wait is over and others still wait, it passes driving on to the
 * one that has waited longest. From DLK_TAKEOVER requests under way on, the engine's thread takes
 * over reading and writing, which then comes in large bursts, and keeps both until a burst has
 * left nothing under way and those it woke ask for nothing. It also drives when something is
 * awaited and nobody waits for it in a call: asynchronous operations, releases in the background,
 * a connection that isn't up. A program with a poller of its own may read instead of it: visit.c.
 *
 * Sleeping. Whoever goes to sleep decides until when under the mutex, and others must be able to tell it
 * later on that it is to be sooner, however often the mutex is let go before it does sleep. So it first
 * reads a count that rises with each such call, the bell for the engine's thread and the kicks for
 * the driver, then decides, and doesn't sleep when the count has risen.
 *
 * Waking. Whoever is to be woken is collected under the mutex and woken after it is let go: a
 * woken thread would only run into it. Those who wait for the engine's bursts are woken by one
 * stroke of a gong: woken one by one, on one core each would interrupt the waking of the others.
 *
 * The order of teardown. dlock_client_close: core closed → everything that waits ends → releases
 * confirmed or close_ms over → backend stopped → CLOSED → thread ends. Memory stays until the last
 * reference (the client's, a lock's, a hold's, an op's) is gone, in any order.
 */
#ifndef DLK_ENGINE_ENGINE_H
#define DLK_ENGINE_ENGINE_H

#include "engine/objects.h"

#include <stdarg.h>

#ifndef DLK_TAKEOVER /* or a test says it */
#define DLK_TAKEOVER 8
#endif
/* The so-manyth who asks in a burst sends what there is, though the engine is about to: the service
 * works on it while the others ask. Not where all share a core. */
#define DLK_VOLLEY 8

/* Grants come and go at the speed of locking; so many are kept for the next. */
#define DLK_SPARE_GRANTS 32

/* What the backend has told of the link, and isn't digested yet. */
typedef enum dlk_link_news {
    DLK_LINK_NO_NEWS,
    DLK_LINK_IS_DOWN,
    DLK_LINK_IS_UP, /* with an error in engine->link_error: again */
} dlk_link_news;

/* Lines that somebody wants: up to a level, and those of topics. */
typedef struct dlk_wanted {
    int level;
    unsigned topics;
} dlk_wanted;

/* A wait in a circle of waits. */
typedef struct dlk_doomed {
    dlk_list link;
    uint64_t thread;
    int64_t before;   /* it began */
    const char *name; /* behind the text */
    char text[];
} dlk_doomed;

struct dlk_engine {
    pthread_mutex_t mutex; /* guards everything below that isn't marked */
    _Atomic int refs;      /* no mutex */
    uint32_t generation;   /* fixed */
    dlk_core core;
    dlk_host host;
    dlk_backend *backend;        /* fixed */
    dlk_settings *settings;      /* fixed: the client's … */
    uint64_t agreed;             /* … and what they come to, as dlk_name.agreed */
    dlk_settings *last_settings; /* of the last name that had others, or NULL */
    char uuid[DLK_UUID_SIZE];    /* fixed */
    char *uri, *name;            /* fixed: masked URI, client.name */
    char *who;                   /* fixed: as dlk_host.who */
    unsigned namesake;           /* fixed: tells apart those of one name and one URI */
    size_t prefix_size;          /* fixed: of client.prefix */
    dlk_list registered;         /* under the registry's mutex */

    _Atomic dlk_life life; /* changed with the mutex */
    dlk_list closers;      /* dlock_op.link */
    dlk_list compounds;    /* dlock_op.link: those that aren't over */
    dlk_list jobs;         /* dlk_job.link: for after the mutex is let go … */
    dlk_list at_close;     /* … the same, once it begins to close */
    int64_t close_until;
    dlock_err close_code;

    dlk_driven driven;
    bool takeover;
    bool unsent;         /* requests were made since the last flush */
    bool left_to_driver; /* and are written when the next one drives */
    int volley; /* how many times that was left to the engine's thread, since it last wrote */
    bool volleys;  /* fixed: whether it is written when there are DLK_VOLLEY of them */
    int in_flight; /* asks PENDING */
    /* unfinished ops with notify, holds that listen, what the core adds: the engine drives for them */
    int attended;
    int pending_ops;
    dlk_polls polls;        /* the driver's: what it sleeps on */
    dlk_sleeper *appointed; /* woken to become the driver */
    dlk_list sleepers, waking;
    uint32_t last_seat;
    uint8_t warn_rest, warn_pause; /* so many aren't warned: see dlk_engine_warn */
    dlk_futex gongs[DLK_GONGS];    /* no mutex: each stroke counts one up */

    pthread_t thread;
    dlk_thread_role role;
    dlk_thread_state thread_state;
    bool kick_driver;
    dlk_futex bell;    /* no mutex: the engine's thread sleeps on it, or … */
    dlk_kicks kicks;   /* … in the backend, as callers do; no mutex */
    _Atomic bool news; /* no mutex: somebody has to drive, see dlk_host.news */
    int64_t asleep_until, backend_next, look_at;
    _Atomic(dlock_op *) cancelled; /* no mutex: ops whose cancelling was asked for */
    _Atomic(dlk_hold *) freed; /* no mutex: released holds that their owners have freed */

    dlk_list spare_grants; /* dlk_grant.link */
    int spare_grant_count;

    dlk_list answers; /* dlk_ask.link: told by the backend, not digested yet */
    dlk_news notified;
    dlk_list doomed; /* dlk_doomed.link: waits that are to end, for they never would */
    dlk_link_news link_news;
    dlock_error *link_error;     /* the last "down" not digested yet */
    const dlock_error *digested; /* … and the one that is being digested, or NULL */
    dlk_whys whys;               /* what was tried to get it up */

    dlk_list events;  /* dlk_slot.link */
    dlk_note closed;  /* the last event of all, which no lack of memory may prevent */
    dlk_wakeup event; /* its fd is the program's; none: nobody has asked for it */
    bool event_fd_raised;
    int64_t notes, note_limit, overflowed;
    dlock_log_fn *log;   /* fixed: the program's, else stderr's for DLOCK_LOG, or NULL */
    void *log_user;      /* fixed */
    dlk_wanted to_log;   /* fixed: what it hears */
    dlk_wanted to_event; /* fixed: what LOG events are made of */
    /* dlk_note.slot.link: for the sink, after the mutex is let go; … */
    dlk_list log_lines;
    int64_t lines, lines_dropped; /* … so many, and those that were one too many */
    dlk_tell tell;                /* its topics: while somebody hears them */
    bool orders, order_refuses;   /* client.order; the first until it is closed */

    /* A program that waits in a poller of its own: visit.c. */
    int poll_fd; /* a nest of the event's descriptor and the wires, or -1 */
    int wires[DLK_BACKEND_WIRES];
    size_t wire_count; /* more than 0: what comes is left to the program */
    uint64_t wired;    /* host.wiring when they were laid */
    bool visited;      /* since the engine last looked */
    bool visit_missed; /* one found somebody driving */
    bool visit_again;  /* the last one comes back when those it has answered have asked */
    int announced;     /* in this visit */
};

/* ---- what it becomes: states.h ---- */
static inline void dlk_life_becomes(dlk_engine *engine, dlk_life next)
{
    assert(DLK_IN(next) & dlk_life_next[engine->life]);
    engine->life = next;
}
static inline void dlk_driven_becomes(dlk_engine *engine, dlk_driven next)
{
    assert(DLK_IN(next) & dlk_driven_next[engine->driven]);
    engine->driven = next;
}
static inline void dlk_thread_becomes(dlk_engine *engine, dlk_thread_state next)
{
    assert(DLK_IN(next) & dlk_thread_next[engine->thread_state]);
    engine->thread_state = next;
}
static inline void dlk_sleeper_becomes(dlk_sleeper *sleeper, dlk_sleeper_state next)
{
    assert(DLK_IN(next) & dlk_sleeper_next[sleeper->state]);
    sleeper->state = next;
}
/* Must hold whenever the mutex is let go: states.c. */
bool dlk_engine_is_sound(const dlk_engine *engine);

/* ---- engine.c: life ---- */
/* @p settings are taken over on success. */
dlock_err dlk_engine_open(const dlk_backend_type *type, const dlk_uri *uri,
                          dlk_settings *settings, dlock_log_fn *log, void *log_user,
                          dlk_engine **ret, dlock_error **err);
static inline void dlk_engine_ref(dlk_engine *engine)
{
    atomic_fetch_add_explicit(&engine->refs, 1, memory_order_relaxed);
}
void dlk_engine_unref(dlk_engine *engine);
static inline bool dlk_engine_forked(const dlk_engine *engine)
{
    return engine->generation !=
           atomic_load_explicit(&dlk_fork_generation, memory_order_relaxed);
}
/* It has begun to close, at least. No mutex needed; with it this stays so until it is let go. */
static inline bool dlk_engine_closes(const dlk_engine *engine)
{
    return atomic_load_explicit(&engine->life, memory_order_relaxed) >= DLK_LIFE_CLOSING;
}
/* Has the job run as soon as it does. Mutex held. */
void dlk_engine_at_close(dlk_engine *engine, dlk_job *job);
/* Not any more; false: it has been run, or is about to be. Mutex held. */
bool dlk_engine_not_at_close(dlk_engine *engine, dlk_job *job);
dlock_err dlk_engine_start_new(dlk_engine *engine, int64_t now, dlock_error **err);
/* Starts the thread and the backend, once. Mutex held. */
static inline dlock_err dlk_engine_start(dlk_engine *engine, int64_t now,
                                         dlock_error **err)
{
    if (engine->life != DLK_LIFE_NEW)
        return DLOCK_OK; /* a closed one is told apart by the core */
    return dlk_engine_start_new(engine, now, err);
}
/* Begins to close; engine->life says when it is done. Mutex held. */
void dlk_engine_begin_close(dlk_engine *engine, int64_t now);
/* Joins the thread of a closed engine. No mutex held. */
void dlk_engine_join(dlk_engine *engine);
void dlk_engine_now_closed(dlk_engine *engine);
/* What the backend gives back that no grant is about any more. */
static inline dlk_unsettled dlk_engine_unsettled(const dlk_engine *engine)
{
    const dlk_backend_type *type = engine->backend->type;
    return type->unsettled ? type->unsettled(engine->backend) : DLK_SETTLED;
}

/* Every engine of this process that is still referenced, each referenced once more; yours to free, and
 * NULL without memory. */
dlk_engine **dlk_engines_all(size_t *ret_count);

/* ---- drive.c: mutex, waiting, driving ---- */
/* False in a fork's child. */
bool dlk_engine_enter(dlk_engine *engine, dlk_stay *ret_stay);
/* Lets go of the mutex and does what must wait for that: wake, kick, log. */
void dlk_engine_leave(dlk_engine *engine, const dlk_stay *stay);
/* Sends what has been asked. Mutex held; let go of for a moment. */
void dlk_engine_send(dlk_engine *engine);
/* Waits, driving if nobody does, until *over or @p until. Mutex held before and after. */
void dlk_engine_await(dlk_engine *engine, dlk_sleeper *me, const bool *over,
                      int64_t until);
void dlk_sleeper_init(dlk_sleeper *sleeper);
void dlk_engine_wake(dlk_engine *engine, dlk_sleeper *sleeper);
/* It is next, as the one before it has just been granted. */
void dlk_engine_warn(dlk_engine *engine, dlk_sleeper *sleeper);
void dlk_engine_init_warnings(dlk_engine *engine);
/* Carries out what was asked for without the mutex, by whoever has it next. */
void dlk_engine_catch_up(dlk_engine *engine);
void dlk_engine_stop_driving(dlk_engine *engine);
/* Ends the engine thread's sleep. Any thread; safe in a signal handler. */
void dlk_engine_kick(dlk_engine *engine);
/* Digests what the backend told. */
void dlk_engine_digest_news(dlk_engine *engine, int64_t now);
static inline void dlk_engine_digest(dlk_engine *engine, int64_t now)
{
    if (engine->link_news != DLK_LINK_NO_NEWS || !dlk_list_empty(&engine->answers) ||
        engine->notified.first)
        dlk_engine_digest_news(engine, now);
}

/* ---- thread.c: the engine's thread ---- */
void *dlk_engine_run(void *arg);

/* ---- visit.c: all with the mutex held ---- */
/* The descriptor for the program's poller; -1: this client has none. */
int dlk_engine_poll_fd(dlk_engine *engine);
/* Reads what has come and digests it, if nobody else does. EPENDING: come back as soon as those
 * whom this has answered have run; ENOTSUP: the engine's thread reads now. */
dlock_err dlk_engine_visit(dlk_engine *engine);
/* Follows the backend's connections. */
void dlk_engine_lay_wires(dlk_engine *engine);
/* Is what comes left to the program? */
static inline bool dlk_engine_is_left(const dlk_engine *engine)
{
    return engine->wire_count > 0;
}

/* ---- port.c: between core and backend ---- */
void dlk_engine_connect_port(dlk_engine *engine, dlk_port *port);

/* ---- names.c ---- */
/* At the end, unless it is there; the first one, of those that are; this one, if it is there. */
void dlk_engine_news_add(dlk_news *news, dlk_engine_name *own);
dlk_engine_name *dlk_engine_news_take(dlk_news *news);
void dlk_engine_news_remove(dlk_news *news, dlk_engine_name *own);
/* The port's. */
void dlk_engine_free_name(void *world, dlk_name *name);
/* Takes them over as the client's. */
void dlk_engine_set_settings(dlk_engine *engine, dlk_settings *settings);
/* A reference to settings equal to these, to be given back by dlk_settings_free(); NULL without memory.
 * Mutex held, then as well. */
dlk_settings *dlk_engine_share_settings(dlk_engine *engine, const dlk_settings *settings);
/* The name for a handle, with a reference; made when it is new. Mutex held. */
dlock_err dlk_engine_name_get(dlk_engine *engine, dlock_kind kind, const char *text,
                              const dlk_settings *settings, dlk_name **ret,
                              dlock_error **err);
/* Another one of the same text and settings: who waits there stands behind nobody of ours. Mutex
 * held. */
dlock_err dlk_engine_name_again(dlk_engine *engine, const dlk_name *name, dlk_name **ret,
                                dlock_error **err);

/* ---- log.c ---- */
void dlk_engine_log_begin(dlk_engine *engine, const dlk_settings *settings);
/* Gives the lines to the sink, which frees them. Without the mutex. */
void dlk_engine_deliver(const dlk_engine *engine, dlk_list *lines);
void dlk_engine_log(dlk_engine *engine, dlock_level level, const char *format,
                    va_list args) __attribute__((format(printf, 3, 0)));
/* Who hears has changed. */
void dlk_engine_tell(dlk_engine *engine);

/* ---- port.c ---- */

/* What it may need, made when it isn't there; NULL without memory. Mutex held. */
dlk_hold_more *dlk_hold_need(dlock_hold *hold);
void dlk_hold_more_init(dlk_hold_more *more, dlock_hold *hold);
/* To be told of its hold. */
void dlk_hold_watched(dlk_engine *engine, dlk_hold_watch *watch);

/* ---- hold.c: blocking forms and the end of a hold ---- */
/* @p owner 0: an owner of its own. */
dlock_err dlk_engine_acquire(dlk_engine *engine, dlk_name *name, const dlk_terms *terms,
                             uint64_t owner, int64_t wait_ms, dlock_hold **ret,
                             dlock_error **err);
/* The same as an op, never NULL. */
dlock_op *dlk_engine_acquire_start(dlk_engine *engine, dlk_name *name,
                                   const dlk_terms *terms, uint64_t owner,
                                   int64_t wait_ms);
/* Who acquires, and with which others, as dlk_wait.together has it. */
typedef struct dlk_acquirer {
    uint64_t owner, together;
} dlk_acquirer;
/* The same; NULL where it is decided at once, as *ret says. */
dlock_op *dlk_engine_acquire_begin(dlk_engine *engine, dlk_name *name,
                                   const dlk_terms *terms, dlk_acquirer who,
                                   int64_t wait_ms, dlk_op_outcome *ret);
dlock_err dlk_engine_release(dlock_hold *hold, dlock_error **err);
/* The same as an op, or NULL without memory; it is released all the same. Mutex held. */
dlock_op *dlk_engine_release_start(dlk_engine *engine, dlk_hold *hold);
/* "<uuid>:<number>", as the server knows it; lives as long as the hold. "" without memory, or in a
 * fork's child. Takes the mutex. */
const char *dlk_engine_owner(const dlock_hold *hold);
/* Frees a released hold without the mutex: it is cleared away by whoever has that next. */
void dlk_engine_shed_hold(dlk_engine *engine, dlock_hold *hold);
void dlk_engine_clear_freed(dlk_engine *engine);
/* Mutex held: releases in the background what is still held, and frees the hold. */
void dlk_engine_drop_hold(dlk_engine *engine, dlock_hold *hold);

/* ---- op.c ---- */
dlock_op *dlk_op_new(dlk_engine *engine, dlk_op_kind kind);
/* An op that has failed already; never NULL. */
dlock_op *dlk_op_failed(dlk_engine *engine, dlock_err code, dlock_error *error);
/* One that waits for what an engine is asked, which is started if need be; over when that can't be.
 * Never NULL. */
dlock_op *dlk_op_waiting(dlk_engine *engine, int64_t now);
/* The same for a caller without the mutex; DLOCK_OK: an op that has nothing to do. */
dlock_op *dlk_op_answered(dlk_engine *engine, dlock_err code, const char *text);
/* A static op for a fork's child, or without memory. */
dlock_op *dlk_op_static(dlock_err code);
void dlk_op_finish(dlk_engine *engine, dlock_op *op, dlock_err code, dlock_error *error);
void dlk_op_unref(dlock_op *op);
/* Has the job run when the op is over, by whoever's thread; false: it is over already. */
bool dlk_op_then(dlock_op *op, dlk_job *job);
/* The same of an acquire in a condition's line, also when it has its place there. */
bool dlk_op_then_placed(dlock_op *op, dlk_job *job);
/* Has that job run. Mutex held. */
void dlk_op_run_then(dlk_engine *engine, dlock_op *op);
/* Takes an op apart that is over, and that nobody is told of, and frees it. */
dlk_op_outcome dlk_op_end(dlock_op *op);
/* The same with the mutex held; of one that isn't static the caller lets go of the engine afterwards. */
dlk_op_outcome dlk_op_end_inside(dlock_op *op);
/* The engine lets go of the op: its request is done. Mutex held. */
void dlk_op_retire(dlk_engine *engine, dlock_op *op);
/* Any thread, safe in a signal handler; the op must not be freed meanwhile. */
void dlk_op_request_cancel(dlock_op *op);
void dlk_op_cancel_now(dlk_engine *engine, dlock_op *op, int64_t now);
/* Carries out what dlock_op_cancel asked for. Mutex held. */
void dlk_ops_drain_cancelled(dlk_engine *engine, int64_t now);

/* ---- compound.c ---- */
/* Makes the op of @p whole, which may be called off from here on. False: *ret_op says why not. */
bool dlk_compound_begin(dlk_compound *whole, dlk_engine *engine,
                        dlk_compound_end *end_early, dlock_op **ret_op);
void dlk_compound_end_early(dlk_engine *engine, dlock_op *op, dlock_err code);
/* Tells the caller, who hasn't been told yet. @p error is taken over. Mutex held. */
void dlk_compound_finish(dlk_compound *whole, dlock_err code, dlock_error *error);
/* Nothing of it is under way any more, and the caller has been told. */
void dlk_compound_close(dlk_compound *whole);

/* ---- order.c: client.order ---- */
dlock_err dlk_engine_order_begin(dlk_engine *engine, const dlk_settings *settings,
                                 dlock_error **err);
/* It is closed, and nothing is held any more; or it was never open. */
void dlk_engine_order_end(dlk_engine *engine);
/* Around a fork, whose child has learnt nothing. */
void dlk_engine_order_before_fork(void);
void dlk_engine_order_after_fork(bool child);

/* ---- events.c: all with the mutex held ---- */
void dlk_event_push(dlk_engine *engine, dlk_slot *slot);
/* Makes the descriptor readable though there may be no event. */
void dlk_event_raise(dlk_engine *engine);
/* The holds of this grant are asked for. */
void dlk_event_revoked(dlk_engine *engine, const dlk_grant *grant);
/* The hold's events include REVOKE from now on. */
void dlk_event_listen(dlk_engine *engine, dlk_hold_more *more);
void dlk_event_withdraw(dlk_engine *engine, dlk_slot *slot);
void dlk_event_closed(dlk_engine *engine);
void dlk_event_note(dlk_engine *engine, dlock_what what, dlock_level level,
                    dlock_err code, char *text);
dlock_event *dlk_event_next(dlk_engine *engine);
int dlk_event_fd(dlk_engine *engine);
void dlk_events_free(dlk_engine *engine);
void dlk_note_free(dlk_note *note);

/* ---- stats.c ---- */
dlock_info *dlk_engine_stats(dlk_engine *engine);

/* ---- metrics.c ---- */
/* OpenMetrics text of all these, yours to free; DLOCK_ENOMEM. No mutex held. */
dlock_err dlk_metrics_text(dlk_engine *const *engines, size_t count, char **ret_text);

#endif
