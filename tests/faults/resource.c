/* The fenced resource and its judge; see the header. */
#include "resource.h"

#include "stage.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#define STAYS 100000
#define TOLD  5

struct stay {
    int64_t token;
    _Atomic int64_t from;  /* the grant was known by then; 0 = this stay isn't used */
    _Atomic int64_t until; /* the library said that it lasts so long */
    _Atomic int64_t left;  /* 0 = never */
    pid_t process;
};

struct resource {
    /* held for a few instructions; robust, as holders get killed */
    pthread_mutex_t mutex;
    int64_t highest, value, accepted, refused, lost_updates;
    _Atomic int64_t count;
    stay stays[STAYS];
};

resource *resource_new(void)
{
    resource *r =
        mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (r == MAP_FAILED) {
        perror("mmap");
        exit(2);
    }
    pthread_mutexattr_t how;
    pthread_mutexattr_init(&how);
    pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&r->mutex, &how);
    pthread_mutexattr_destroy(&how);
    return r;
}

void resource_free(resource *r)
{
    munmap(r, sizeof(*r));
}

static void occupy(resource *r)
{
    if (pthread_mutex_lock(&r->mutex) != 0)
        pthread_mutex_consistent(&r->mutex); /* each change below is one store */
}

/* ---- The resource ---- */

static bool admit(resource *r, int64_t token)
{
    if (token < r->highest) {
        r->refused++;
        return false;
    }
    r->highest = token;
    return true;
}

bool resource_look(resource *r, int64_t token, int64_t *ret_value)
{
    occupy(r);
    bool fine = admit(r, token);
    *ret_value = r->value;
    pthread_mutex_unlock(&r->mutex);
    return fine;
}

bool resource_write(resource *r, int64_t token, int64_t seen)
{
    occupy(r);
    bool fine = admit(r, token);
    if (fine) {
        r->lost_updates += r->value != seen;
        r->value = seen + 1;
        r->accepted++;
    }
    pthread_mutex_unlock(&r->mutex);
    return fine;
}

/* ---- The stays ---- */

stay *resource_enter(resource *r, const dlock_hold *hold)
{
    int64_t now = now_ns();
    int64_t place = atomic_fetch_add(&r->count, 1);
    if (place >= STAYS) {
        fprintf(stderr, "more than %d stays\n", STAYS);
        exit(2);
    }
    stay *at = &r->stays[place];
    at->token = dlock_hold_token(hold);
    at->process = getpid();
    atomic_store(&at->from, now);
    (void)resource_still(at, hold); /* it may be over already: that is what is noted */
    return at;
}

dlock_err resource_still(stay *at, const dlock_hold *hold)
{
    int64_t now = now_ns();
    int64_t left = dlock_hold_remaining_ms(hold);
    dlock_err code = dlock_hold_check(hold);
    int64_t until = now + left * STAGE_MS;
    if ((code == DLOCK_OK || left > 0) && until > atomic_load(&at->until))
        atomic_store(&at->until, until);
    return code;
}

void resource_leave(stay *at)
{
    atomic_store(&at->left, now_ns());
}

/* ---- The judge ---- */

typedef struct span {
    int64_t from, until, token;
    pid_t process;
} span;

static int by_beginning(const void *one, const void *other)
{
    int64_t a = ((const span *)one)->from, b = ((const span *)other)->from;
    return (a > b) - (a < b);
}

static size_t list_spans(const resource *r, span *spans)
{
    size_t count = 0;
    for (int64_t i = 0; i < atomic_load(&r->count) && i < STAYS; i++) {
        const stay *at = &r->stays[i];
        int64_t left = atomic_load(&at->left), until = atomic_load(&at->until);
        if (atomic_load(&at->from) == 0)
            continue; /* killed while it wrote it down */
        spans[count++] = (span){
            .from = atomic_load(&at->from),
            .until = left > 0 && left < until ? left : until,
            .token = at->token,
            .process = at->process,
        };
    }
    qsort(spans, count, sizeof(*spans), by_beginning);
    return count;
}

static void tell(const char *what, const span *one, const span *other)
{
    harness_note("%s: process %d from %" PRId64 " until %" PRId64 " us, token %" PRId64
                 "; process %d from %" PRId64 " until %" PRId64 " us, token %" PRId64,
                 what, (int)one->process, one->from / 1000, one->until / 1000, one->token,
                 (int)other->process, other->from / 1000, other->until / 1000,
                 other->token);
}

verdict resource_judge(const resource *r, expectation by)
{
    span *spans = calloc(STAYS, sizeof(*spans));
    if (!spans) {
        perror("calloc");
        exit(2);
    }
    verdict found = {
        .accepted = r->accepted,
        .refused = r->refused,
        .lost_updates = r->lost_updates,
    };
    size_t count = list_spans(r, spans);
    const span *longest = NULL; /* of all before, the one that lasts longest */
    for (size_t i = 0; i < count; i++) {
        /* Who heard of its grant when that was over never held anything. */
        bool held = spans[i].until > spans[i].from;
        bool stale = by != RESOURCE_NO_TOKENS && spans[i].token <= found.latest_token;
        if (held && longest && spans[i].from < longest->until) {
            if (found.overlaps++ < TOLD && by != RESOURCE_STATE_LOST)
                tell("overlap", longest, &spans[i]);
        }
        if (held && i > 0 && stale) {
            if (found.old_tokens++ < TOLD)
                tell("old token", &spans[i - 1], &spans[i]);
        }
        if (spans[i].token > found.latest_token)
            found.latest_token = spans[i].token;
        if (!longest || spans[i].until > longest->until)
            longest = &spans[i];
    }
    if (found.lost_updates > 0 || found.old_tokens > 0 ||
        (found.overlaps > 0 && by != RESOURCE_STATE_LOST))
        harness_no_excuse();
    found.stays = (int64_t)count;
    free(spans);
    return found;
}
