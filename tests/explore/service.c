/* The table, and what is answered; see the header. */
#include "service.h"

#include "strand.h"
#include "wire.h"

#include "util/clock.h"

#include <string.h>

#define MAX_REQUESTS 24
#define MAX_LOCKS    8

typedef struct lock {
    char name[NAME_SIZE];
    uint64_t number; /* 0: somebody else's */
    int64_t until, token;
    int watchers[MAX_REQUESTS]; /* sockets */
    int watcher_count;
} lock;

/* Who is in the line of a condition, in their order. */
static struct waiter {
    char name[NAME_SIZE];
    uint64_t number;
    int from;
    bool signalled;
} waiters[MAX_REQUESTS];
static int waiter_count;

static struct {
    request text;
    int from;
    int64_t due;
} arrived[MAX_REQUESTS];
static int arrived_count;
static lock locks[MAX_LOCKS];
static int lock_count;
static int64_t last_token, delay;
static int answers;

void service_reset(void)
{
    arrived_count = lock_count = waiter_count = 0;
    last_token = delay = 0;
    answers = -1;
}

void service_answers(int count)
{
    answers = count;
}

void service_delay(int64_t ns)
{
    delay = ns;
}

static lock *lock_of(const char *name)
{
    for (int i = 0; i < lock_count; i++)
        if (strcmp(locks[i].name, name) == 0)
            return &locks[i];
    if (lock_count == MAX_LOCKS)
        explore_fail("too many locks");
    lock *one = &locks[lock_count++];
    *one = (lock){0};
    strcpy(one->name, name);
    return one;
}

void service_give_away(const char *name, int64_t until)
{
    lock *one = lock_of(name);
    one->number = 0;
    one->until = until;
}

bool service_is_taken(const char *name)
{
    return lock_of(name)->until > strands_now();
}

void service_cut(void)
{
    for (int i = 0; i < arrived_count; i++)
        if (socket_is_open(arrived[i].from))
            socket_cut(arrived[i].from);
    for (int i = 0; i < lock_count; i++)
        for (int k = 0; k < locks[i].watcher_count; k++)
            if (socket_is_open(locks[i].watchers[k]))
                socket_cut(locks[i].watchers[k]);
}

void service_hear(int fd, const void *data, size_t size)
{
    for (size_t at = 0; at < size; at += sizeof(request)) {
        if (arrived_count == MAX_REQUESTS)
            explore_fail("too many requests");
        memcpy(&arrived[arrived_count].text, (const char *)data + at, sizeof(request));
        arrived[arrived_count].from = fd;
        arrived[arrived_count++].due = strands_now() + delay;
    }
}

static void tell_watchers(lock *freed)
{
    answer told = {.sequence = 0};
    strcpy(told.name, freed->name);
    for (int i = 0; i < freed->watcher_count; i++)
        if (socket_is_open(freed->watchers[i]))
            socket_put(freed->watchers[i], &told, sizeof(told));
    freed->watcher_count = 0;
}

static void add_watcher(lock *one, int fd)
{
    for (int i = 0; i < one->watcher_count; i++)
        if (one->watchers[i] == fd)
            return;
    if (one->watcher_count == MAX_REQUESTS)
        explore_fail("too many who wait");
    one->watchers[one->watcher_count++] = fd;
}

static void acquire(lock *one, const request *asked, int from, answer *to)
{
    int64_t now = strands_now();
    if (one->until > now && one->number != asked->number) {
        to->reply = DLK_HELD;
        to->wait_ms = (one->until - now + DLK_NS_PER_MS - 1) / DLK_NS_PER_MS;
        add_watcher(one, from);
        return;
    }
    if (one->until <= now || !one->token)
        one->token = ++last_token;
    one->number = asked->number;
    one->until = dlk_clock_after(now, asked->ttl_ms);
    to->token = one->token;
    to->lasts = true;
}

/* ---- conditions ---- */

static struct waiter *waiter_of(uint64_t number)
{
    for (int i = 0; i < waiter_count; i++)
        if (waiters[i].number == number)
            return &waiters[i];
    return NULL;
}

static int64_t signal_first(const char *name, int64_t limit)
{
    answer told = {.sequence = 0};
    int64_t signalled = 0;
    strcpy(told.name, name);
    for (int i = 0; i < waiter_count && signalled < limit; i++) {
        if (waiters[i].signalled || strcmp(waiters[i].name, name) != 0)
            continue;
        waiters[i].signalled = true;
        signalled++;
        if (socket_is_open(waiters[i].from))
            socket_put(waiters[i].from, &told, sizeof(told));
    }
    return signalled;
}

static void line_up(const request *asked, int from, answer *to)
{
    struct waiter *one = waiter_of(asked->number);
    to->new_place = !one;
    if (!one) {
        if (waiter_count == MAX_REQUESTS)
            explore_fail("too many wait for a signal");
        one = &waiters[waiter_count++];
        *one = (struct waiter){.number = asked->number, .from = from};
        strcpy(one->name, asked->name);
    }
    to->wait_ms = -1;
    to->lasts = one->signalled;
    to->token = one->signalled ? ++last_token : 0;
    to->reply = one->signalled ? DLK_YES : DLK_HELD;
}

static void forget(struct waiter *one)
{
    memmove(one, one + 1, (size_t)(&waiters[waiter_count] - one - 1) * sizeof(*one));
    waiter_count--;
}

void service_forget_signalled(const char *name)
{
    for (int i = waiter_count; i-- > 0;)
        if (waiters[i].signalled && strcmp(waiters[i].name, name) == 0)
            forget(&waiters[i]);
}

static void leave_line(const request *asked, struct waiter *one)
{
    bool goes_on = one->signalled && !asked->used;
    forget(one);
    if (goes_on)
        (void)signal_first(asked->name, 1); /* or it is lost */
}

static answer decide_line(const request *asked, int from)
{
    answer made = {.sequence = asked->sequence, .reply = DLK_YES};
    struct waiter *one = waiter_of(asked->number);
    if (asked->verb == DLK_ACQUIRE)
        line_up(asked, from, &made);
    else if (asked->verb == DLK_SIGNAL)
        made.signalled = signal_first(asked->name, asked->limit);
    else if (!one)
        made.reply = DLK_NOT_OURS;
    else if (asked->verb == DLK_RELEASE)
        leave_line(asked, one);
    made.lasts |= asked->verb == DLK_RENEW;
    return made;
}

static answer decide(const request *asked, int from)
{
    if (asked->condition)
        return decide_line(asked, from);
    lock *one = lock_of(asked->name);
    int64_t now = strands_now();
    bool ours = one->until > now && one->number == asked->number;
    answer made = {.sequence = asked->sequence, .reply = DLK_YES};
    if (asked->verb == DLK_ACQUIRE) {
        acquire(one, asked, from, &made);
    } else if (!ours) {
        made.reply = DLK_NOT_OURS;
    } else if (asked->verb == DLK_RENEW) {
        one->until = dlk_clock_after(now, asked->ttl_ms);
        made.lasts = true;
    } else if (asked->verb == DLK_RELEASE) {
        one->until = 0;
        tell_watchers(one);
    }
    return made;
}

bool service_can_go_on(void)
{
    return answers != 0 && arrived_count > 0 && arrived[0].due <= strands_now();
}

int64_t service_next(void)
{
    return answers != 0 && arrived_count > 0 ? arrived[0].due : DLK_NEVER;
}

static const char *name_of(dlk_verb verb)
{
    return verb == DLK_ACQUIRE   ? "acquire"
           : verb == DLK_RELEASE ? "release"
           : verb == DLK_RENEW   ? "renew"
           : verb == DLK_SIGNAL  ? "signal"
                                 : "a question about";
}

void service_goes_on(void)
{
    request first = arrived[0].text;
    int from = arrived[0].from;
    memmove(arrived, arrived + 1, (size_t)--arrived_count * sizeof(arrived[0]));
    answers -= answers > 0;
    answer made = decide(&first, from);
    explore_tell("S answers %s %s: %s", name_of(first.verb), first.name,
                 made.reply == DLK_YES    ? "yes"
                 : made.reply == DLK_HELD ? "held"
                                          : "not yours");
    if (socket_is_open(from))
        socket_put(from, &made, sizeof(made));
}
