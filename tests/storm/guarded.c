/*
 * Guarded commits on mem: in processes that are stopped and starved: none goes through after its
 * deadline, and what was lost was rolled back.
 *
 * The deadline is known without asking the library. A hold that isn't renewed ends a lease after
 * its acquire returned at the latest. A renewed one ends a lease after its process was seen to
 * stand still at the latest, if it stood that long. The supervisor writes that down before it lets
 * the process go on.
 *
 * A stop between the library's last check and the write is beyond any library: there the resource
 * itself has to refuse, and does so here by token and by its own clock. Those are counted; the
 * work of such a commit ended before its deadline. One that ended after it, and was committed all
 * the same, is what must not be.
 *
 * DLK_STORM_COMMITS (300) is how many commits have to go through.
 */
#include "harness/harness.h"
#include "harness/time.h"

#include <dlock/dlock.h>

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PROCESSES = 4, THREADS = 12, NAMES = 6, SPINNERS = 4, SAMPLES = 1 << 16 };

#define MS     INT64_C(1000000)
#define TTL_NS (100 * MS) /* the shortest lease there is */

/* Times from a process's going on to somebody's knowing of the loss. */
typedef struct latencies {
    _Atomic int count;
    int64_t ns[SAMPLES];
} latencies;

typedef struct standstills {
    _Atomic int64_t last; /* when it went on after whatever stop, however short */
    _Atomic int count;
    int64_t stood_at[SAMPLES]; /* when it certainly stood, then for a lease or longer */
} standstills;

static struct shared {
    _Atomic bool over;
    _Atomic int64_t commits, losses, losses_before, refused_by_token, refused_by_clock,
        in_doubt;
    _Atomic int64_t late, lost_updates, crooked, errors; /* none of these may be */
    latencies check[2], event[2]; /* [1]: of the process that is starved */
    standstills of[PROCESSES];
    char what[256]; /* the first error, in words */
} * all;

static bool is_starved(const standstills *of)
{
    return of == &all->of[0];
}

/* From the last time it went on: one who is stopped again at once has had no time to notice. */
static void note_latency(latencies *to, const standstills *stops)
{
    int64_t ns = now_ns() - atomic_load(&stops->last);
    int at = atomic_fetch_add(&to->count, 1);
    if (at < SAMPLES)
        to->ns[at] = ns;
}

static void say(const char *what, dlock_err code, const dlock_error *err)
{
    if (atomic_fetch_add(&all->errors, 1) == 0)
        snprintf(all->what, sizeof(all->what), "%s: %s, %s", what, dlock_errname(code),
                 dlock_error_text(err));
}

/* ---- the resource and the work on it ---- */

/* Of one process, as a table of mem: is. */
static struct resource {
    pthread_mutex_t mutex;
    int64_t highest; /* token */
    int64_t value;
} resources[NAMES];

typedef struct work {
    struct resource *resource;
    standstills *stops;
    dlock_hold *hold;
    int64_t acquired_at, ended_at;
    bool renews, looks, noticed;
    unsigned seed;
    int64_t seen, draft; /* of the resource's value; what it is to become */
    int prepared, committed, undone, told;
} work;

/* When its process first stood still for long since the hold was acquired, or 0. */
static int64_t stop_of(const work *w)
{
    int64_t found = 0;
    for (int i = atomic_load(&w->stops->count);
         i-- > 0 && w->stops->stood_at[i] >= w->acquired_at;)
        found = w->stops->stood_at[i];
    return found;
}

static int64_t deadline_of(const work *w)
{
    int64_t stood_at = stop_of(w);
    if (!w->renews)
        return w->acquired_at + TTL_NS;
    return stood_at ? stood_at + TTL_NS : INT64_MAX;
}

static dlock_err prepare(void *user)
{
    work *w = user;
    int64_t token = dlock_hold_token(w->hold);
    pthread_mutex_lock(&w->resource->mutex);
    if (w->resource->highest < token) /* what is read here no older holder may change */
        w->resource->highest = token;
    w->seen = w->draft = w->resource->value;
    pthread_mutex_unlock(&w->resource->mutex);
    w->prepared++;
    return DLOCK_OK;
}

/* Takes a while, perhaps looks after its hold meanwhile, and leaves the verdict to the guard. */
static dlock_err run(void *user)
{
    work *w = user;
    for (int i = rand_r(&w->seed) % 130; i > 0 && !w->noticed; i--) {
        nap_ms(1);
        if (!w->looks || dlock_hold_check(w->hold) == DLOCK_OK)
            continue;
        if (w->renews && stop_of(w))
            note_latency(&all->check[is_starved(w->stops)], w->stops);
        w->noticed = true;
    }
    w->draft = w->seen + 1;
    w->ended_at = now_ns();
    return DLOCK_OK;
}

/* The write itself, with the resource's mutex held. */
static dlock_err write_fenced(work *w, int64_t token)
{
    struct resource *r = w->resource;
    if (token < r->highest) {
        atomic_fetch_add(&all->refused_by_token, 1);
        return DLOCK_ELOST;
    }
    r->highest = token;
    if (now_ns() >= deadline_of(w)) {
        atomic_fetch_add(&all->refused_by_clock, 1);
        return DLOCK_ELOST;
    }
    if (r->value != w->seen)
        atomic_fetch_add(&all->lost_updates, 1);
    r->value = w->draft;
    if (now_ns() >= deadline_of(w))
        atomic_fetch_add(&all->in_doubt, 1);
    return DLOCK_OK;
}

static dlock_err commit(void *user, int64_t token)
{
    work *w = user;
    if (w->ended_at >= deadline_of(w))
        atomic_fetch_add(&all->late, 1);
    pthread_mutex_lock(&w->resource->mutex);
    dlock_err code = write_fenced(w, token);
    pthread_mutex_unlock(&w->resource->mutex);
    w->committed += code == DLOCK_OK;
    return code;
}

static void undo(void *user)
{
    work *w = user;
    w->draft = w->seen;
    w->undone++;
}

static void lost(void *user)
{
    ((work *)user)->told++;
}

/* Whether exactly those steps were run that belong to the answer. */
static bool straight(const work *w, dlock_err code)
{
    if (code == DLOCK_OK)
        return w->prepared == 1 && w->committed == 1 && w->undone == 0 && w->told == 0;
    return code == DLOCK_ELOST && w->committed == 0 && w->told == 1 &&
           w->undone == w->prepared && w->draft == w->seen;
}

static void guard(work *w)
{
    static const dlock_guarded steps = {.size = sizeof(steps),
                                        .prepare = prepare,
                                        .run = run,
                                        .commit = commit,
                                        .undo = undo,
                                        .lost = lost};
    dlock_error *err = NULL;
    dlock_err code = dlock_hold_guard(w->hold, &steps, w, &err);
    if (!straight(w, code))
        atomic_fetch_add(&all->crooked, 1);
    if (code == DLOCK_OK)
        atomic_fetch_add(&all->commits, 1);
    else if (code == DLOCK_ELOST)
        atomic_fetch_add(w->prepared ? &all->losses : &all->losses_before, 1);
    else
        say("guard", code, err);
    dlock_error_free(err);
}

/* ---- a process of workers ---- */

typedef struct worker {
    pthread_t thread;
    dlock_client *client;
    dlock_lock *lock;
    struct resource *resource;
    standstills *stops;
    int number;
    bool renews, looks; /* the others hear of a loss by event, or find it at the end */
    _Atomic int64_t acquired_at; /* for whoever hears of its loss */
} worker;

static void take_once(worker *is, unsigned *seed)
{
    dlock_hold *hold = NULL;
    dlock_error *err = NULL;
    dlock_err code = dlock_lock_acquire(is->lock, 60000, &hold, &err);
    if (code == DLOCK_OK) {
        work w = {.resource = is->resource,
                  .stops = is->stops,
                  .hold = hold,
                  .acquired_at = now_ns(),
                  .renews = is->renews,
                  .looks = is->looks,
                  .seed = *seed = *seed * 69069 + 1};
        atomic_store(&is->acquired_at, w.acquired_at);
        code = dlock_hold_notify(hold, (uint64_t)is->number);
        if (code != DLOCK_OK && code != DLOCK_ELOST)
            say("notify", code, NULL);
        guard(&w);
        code = dlock_hold_release(hold, &err);
    }
    if (code != DLOCK_OK && code != DLOCK_ELOST)
        say("acquire or release", code, err);
    dlock_hold_free(hold);
    dlock_error_free(err);
}

static void *work_on(void *arg)
{
    worker *is = arg;
    unsigned seed = (unsigned)(is->number + getpid());
    while (!atomic_load(&all->over))
        take_once(is, &seed);
    return NULL;
}

/* Hears of losses as an event loop does. */
static void listen(dlock_client *client, worker *workers, standstills *stops)
{
    struct pollfd fd = {.fd = dlock_client_event_fd(client), .events = POLLIN};
    while (!atomic_load(&all->over)) {
        dlock_event *event = dlock_client_next_event(client);
        if (!event) {
            (void)poll(&fd, 1, 20);
            continue;
        }
        worker *of = &workers[dlock_event_tag(event) % THREADS];
        work w = {.stops = stops, .acquired_at = atomic_load(&of->acquired_at)};
        if (dlock_event_what(event) == DLOCK_EVENT_LOST && of->renews && stop_of(&w))
            note_latency(&all->event[is_starved(stops)], stops);
        dlock_event_free(event);
    }
}

static dlock_lock *make_lock(dlock_client *client, int number, bool renews)
{
    char name[16];
    dlock_lock *lock = NULL;
    dlock_conf *conf = dlock_conf_new();
    snprintf(name, sizeof(name), "n%d", number % NAMES);
    if (dlock_conf_set(conf, "lock.renew", renews ? "auto" : "off", NULL) != DLOCK_OK ||
        dlock_lock_new(client, DLOCK_MUTEX, name, conf, &lock, NULL) != DLOCK_OK)
        abort();
    dlock_conf_free(conf);
    return lock;
}

static void be_process(int number)
{
    worker workers[THREADS];
    dlock_client *client = NULL;
    struct sched_param param = {0};
    if (number == 0) /* runs only when nobody else wants to */
        (void)sched_setscheduler(0, SCHED_IDLE, &param);
    if (dlock_client_open("mem:?lock.ttl_ms=100", NULL, &client, NULL) != DLOCK_OK)
        abort();
    for (int i = 0; i < NAMES; i++)
        pthread_mutex_init(&resources[i].mutex, NULL);
    for (int i = 0; i < THREADS; i++) {
        bool renews = i % 4 != 3;
        workers[i] = (worker){.client = client,
                              .lock = make_lock(client, i, renews),
                              .resource = &resources[i % NAMES],
                              .stops = &all->of[number],
                              .number = i,
                              .renews = renews,
                              .looks = i % 2 == 0};
    }
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&workers[i].thread, NULL, work_on, &workers[i]) != 0)
            abort();
    listen(client, workers, &all->of[number]);
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < THREADS; i++)
        dlock_lock_free(workers[i].lock);
    dlock_client_free(client);
}

static pid_t spawn(int number)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (number >= PROCESSES && !atomic_load(&all->over)) /* a spinner */
        ;
    if (number < PROCESSES)
        be_process(number);
    _exit(0);
}

/* ---- the supervisor ---- */

/* For 0.3 to 3 leases. */
static bool stop_one(pid_t pid, standstills *stops, unsigned *seed)
{
    int status;
    if (kill(pid, SIGSTOP) != 0 || waitpid(pid, &status, WUNTRACED) != pid ||
        !WIFSTOPPED(status))
        return false;
    int64_t stood_at = now_ns();
    nap_us((TTL_NS * 3 / 10 + rand_r(seed) % 270 * (TTL_NS / 100)) / 1000);
    int count = atomic_load(&stops->count);
    int64_t went_on_at = now_ns();
    if (went_on_at >= stood_at + TTL_NS && count < SAMPLES) {
        stops->stood_at[count] = stood_at;
        atomic_store(&stops->count, count + 1);
    }
    atomic_store(&stops->last, went_on_at);
    return kill(pid, SIGCONT) == 0;
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void report_latencies(const char *who, latencies *of)
{
    int count = atomic_load(&of->count);
    count = count < SAMPLES ? count : SAMPLES;
    if (count == 0)
        return;
    qsort(of->ns, (size_t)count, sizeof(of->ns[0]), by_size);
    harness_note("from wake-up to LOST, %s: median %.2f ms, p99 %.2f ms, max %.2f ms "
                 "(%d losses)",
                 who, (double)of->ns[count / 2] / 1e6,
                 (double)of->ns[count - 1 - count / 100] / 1e6,
                 (double)of->ns[count - 1] / 1e6, count);
}

static void report(int stops, int64_t began)
{
    int standing = 0;
    for (int i = 0; i < PROCESSES; i++)
        standing += atomic_load(&all->of[i].count);
    harness_note("%" PRId64
                 " guarded commits in %.1f s; %d stops, %d of them longer than "
                 "the lease of 100 ms; %d spinners on %ld processors",
                 all->commits, (double)(now_ns() - began) / 1e9, stops, standing,
                 SPINNERS, sysconf(_SC_NPROCESSORS_ONLN));
    harness_note("%" PRId64 " lost during the work and rolled back, %" PRId64
                 " lost before it; stopped between last check and write: %" PRId64
                 " refused by token, %" PRId64 " by the resource's clock, %" PRId64
                 " in doubt",
                 all->losses, all->losses_before, all->refused_by_token,
                 all->refused_by_clock, all->in_doubt);
    report_latencies("by check", &all->check[0]);
    report_latencies("by event", &all->event[0]);
    report_latencies("by check, in a starved process", &all->check[1]);
    report_latencies("by event, in a starved process", &all->event[1]);
}

static int64_t commits_wanted(void)
{
    const char *text = getenv("DLK_STORM_COMMITS");
    return text ? strtoll(text, NULL, 10) : 300;
}

/* Without losses, noticed both ways, the test would show nothing. */
static bool enough(int64_t commits)
{
    return atomic_load(&all->commits) >= commits && atomic_load(&all->losses) > 0 &&
           atomic_load(&all->check[0].count) > 0 && atomic_load(&all->event[0].count) > 0;
}

TEST(no_guarded_commit_after_its_deadline_and_what_is_lost_is_rolled_back)
{
    pid_t pids[PROCESSES + SPINNERS];
    unsigned seed = (unsigned)getpid();
    int stops = 0;
    int64_t wanted = commits_wanted(), began = now_ns();
    all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
               0);
    CHECK(all != MAP_FAILED);
    for (int i = 0; i < PROCESSES + SPINNERS; i++)
        pids[i] = spawn(i);
    bool fine = true;
    for (; fine && !enough(wanted) && now_ns() < began + 170 * 1000 * MS; stops++) {
        int which = rand_r(&seed) % PROCESSES;
        fine = stop_one(pids[which], &all->of[which], &seed);
        nap_ms(rand_r(&seed) % 20);
    }
    atomic_store(&all->over, true);
    for (int i = 0; i < PROCESSES + SPINNERS; i++) {
        int status = 0;
        fine = waitpid(pids[i], &status, 0) == pids[i] && status == 0 && fine;
    }
    report(stops, began);
    CHECK_ALWAYS(all->late == 0);
    CHECK_ALWAYS(all->lost_updates == 0);
    CHECK_ALWAYS(all->crooked == 0);
    CHECK(fine);
    CHECK_STR(all->what, "");
    CHECK_EQ_INT(all->errors, 0);
    CHECK(enough(wanted));
    munmap(all, sizeof(*all));
}
