/* Many locks waited for on one thread, with epoll and the client's event fd.
 *
 * JOBS jobs share NAMES locks. Each waits for its lock, does a few pieces of work, one a tick of
 * the loop, and gives the lock back. The thread sleeps in epoll_wait() and nowhere else: no thread
 * per wait, no callback, no polling.
 *
 * Usage: event_loop [URL] */
#include <dlock/dlock.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { JOBS = 40, NAMES = 5, PIECES = 3, TICK_MS = 2, WAIT_MS = 60000 };

/* A tag says which job an event is for, and whether it is for its op or for its hold. */
#define OP_TAG(job)   ((uint64_t)(job) + 1)
#define HOLD_TAG(job) ((uint64_t)(job) + 1 + JOBS)

struct job {
    dlock_op *op;     /* while it waits */
    dlock_hold *hold; /* while it works */
    int pieces;       /* still to do */
};

struct loop {
    dlock_client *client;
    struct job jobs[JOBS];
    int holders[NAMES]; /* what the locks are for: never more than 1 */
    int done, failed;
    bool closed;
};

/* ---- A job's life ---- */

static int name_of(const struct loop *loop, const struct job *job)
{
    return (int)(job - loop->jobs) % NAMES;
}

static void end_job(struct loop *loop, struct job *job, bool fine)
{
    if (job->hold)
        loop->holders[name_of(loop, job)]--;
    dlock_hold_free(job->hold); /* releases what is still held, in the background */
    dlock_op_free(job->op);
    job->hold = NULL;
    job->op = NULL;
    loop->done++;
    loop->failed += !fine;
}

/* doc: granted */
/* The op of this job has finished: with a hold, or not. */
static void on_done(struct loop *loop, struct job *job)
{
    if (dlock_op_result(job->op) != DLOCK_OK) {
        fprintf(stderr, "%s\n", dlock_error_text(dlock_op_error(job->op)));
        end_job(loop, job, false);
        return;
    }
    job->hold = dlock_op_take_hold(job->op);
    if (++loop->holders[name_of(loop, job)] > 1)
        loop->failed++; /* two at once: must not be */
    if (dlock_hold_notify(job->hold, HOLD_TAG(job - loop->jobs)) != DLOCK_OK)
        end_job(loop, job, false); /* lost already: no event would come */
}

static void start_job(struct loop *loop, struct job *job, dlock_lock *lock)
{
    job->pieces = PIECES;
    job->op = dlock_lock_acquire_start(lock, WAIT_MS); /* never NULL */
    if (dlock_op_notify(job->op, OP_TAG(job - loop->jobs)) == DLOCK_OK)
        on_done(loop, job); /* it has finished already: no event will come */
}
/* end: granted */

/* doc: piece */
static void do_a_piece(struct loop *loop, struct job *job)
{
    if (dlock_hold_check(job->hold) != DLOCK_OK) {
        end_job(loop, job, false); /* the clock says so; the LOST event may come later */
        return;
    }
    if (--job->pieces > 0)
        return;
    DLOCK_AUTO(dlock_error) err = NULL;
    dlock_err rc =
        dlock_hold_release(job->hold, &err); /* lock.release=async: only queued */
    if (rc != DLOCK_OK)
        fprintf(stderr, "%s\n", dlock_error_text(err));
    end_job(loop, job, rc == DLOCK_OK);
}
/* end: piece */

/* ---- The loop ---- */

/* doc: events */
static void on_event(struct loop *loop, const dlock_event *event)
{
    uint64_t tag = dlock_event_tag(event);
    struct job *job = &loop->jobs[(tag + JOBS - 1) % JOBS]; /* of no use with tag 0 */
    switch ((int)dlock_event_what(
        event)) { /* as an int: there may be kinds that are new to us */
    case DLOCK_EVENT_DONE:
        on_done(loop, job);
        break;
    case DLOCK_EVENT_LOST:
        fprintf(stderr, "lost: %s\n", dlock_event_text(event));
        end_job(loop, job, false);
        break;
    case DLOCK_EVENT_LOG:
        fprintf(stderr, "%s\n", dlock_event_text(event));
        break;
    case DLOCK_EVENT_CLOSED:
        loop->closed = true;
        break;
    default:
        break;
    }
}

static void on_events(struct loop *loop)
{
    dlock_event *event;
    while (
        (event = dlock_client_next_event(loop->client))) { /* until NULL; never waits */
        on_event(loop, event);
        dlock_event_free(event);
    }
}
/* end: events */

static void on_tick(struct loop *loop, int timer)
{
    uint64_t ticks;
    if (read(timer, &ticks, sizeof ticks) != (ssize_t)sizeof ticks)
        return;
    for (struct job *job = loop->jobs; job < loop->jobs + JOBS; job++)
        if (job->hold)
            do_a_piece(loop, job);
}

static int watch(int epoll, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    return fd < 0 ? -1 : epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

/* Returns when all jobs have ended. */
static int run(struct loop *loop, int epoll, int timer)
{
    const struct itimerspec tick = {.it_interval.tv_nsec = TICK_MS * 1000000L,
                                    .it_value.tv_nsec = TICK_MS * 1000000L};
    if (watch(epoll, dlock_client_event_fd(loop->client)) != 0 ||
        watch(epoll, timer) != 0 || timerfd_settime(timer, 0, &tick, NULL) != 0)
        return -1;
    while (loop->done < JOBS && !loop->closed) {
        struct epoll_event ready[2];
        int count = epoll_wait(epoll, ready, 2, -1);
        for (int i = 0; i < count; i++) {
            if (ready[i].data.fd == timer)
                on_tick(loop, timer);
            else
                on_events(loop);
        }
    }
    return 0;
}

static int start_jobs(struct loop *loop)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    for (int n = 0; n < NAMES; n++) {
        DLOCK_AUTO(dlock_lock) lock = NULL;
        char name[32];
        (void)snprintf(name, sizeof name, "event-loop/%d", n); /* fits */
        if (dlock_lock_new(loop->client, DLOCK_MUTEX, name, NULL, &lock, &err) !=
            DLOCK_OK) {
            fprintf(stderr, "%s\n", dlock_error_text(err));
            return -1;
        }
        for (int j = n; j < JOBS; j += NAMES)
            start_job(loop, &loop->jobs[j], lock); /* ops live on without the handle */
    }
    return 0;
}

int main(int argc, char **argv)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    DLOCK_AUTO(dlock_client) client = NULL;
    if (dlock_conf_set(conf, "lock.release", "async", &err) != DLOCK_OK ||
        dlock_client_open(argc > 1 ? argv[1] : "mem:", conf, &client, &err) != DLOCK_OK) {
        fprintf(stderr, "%s\n", dlock_error_text(err));
        return 1;
    }
    struct loop loop = {.client = client};
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (epoll < 0 || timer < 0 || start_jobs(&loop) != 0 || run(&loop, epoll, timer) != 0)
        loop.failed++;
    for (struct job *job = loop.jobs; job < loop.jobs + JOBS; job++)
        dlock_op_free(job->op),
            dlock_hold_free(job->hold); /* NULL by now, unless we failed */
    if (timer >= 0)
        (void)close(timer);
    if (epoll >= 0)
        (void)close(epoll);
    printf("%d jobs, %d locks, 1 thread: %d failed\n", loop.done, NAMES, loop.failed);
    return loop.failed == 0 ? 0 : 1;
}
