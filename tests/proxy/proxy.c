/* The proxy's thread, and what other threads may ask of it. */
#include "proxy/inner.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* ---- The thread ---- */

/* What is polled in one round. */
typedef struct polls {
    struct pollfd *all;
    size_t count, room;
} polls;

/* Its place. Nothing is listed that isn't waited for: a hang-up would be told for ever, and poll
 * refuses more entries than there may be descriptors. */
static int add_poll(polls *list, int fd, int events)
{
    if (fd < 0 || events == 0)
        return -1;
    if (list->count == list->room) {
        size_t room = 2 * list->room + 64;
        struct pollfd *grown = realloc(list->all, room * sizeof(*grown));
        if (!grown)
            abort(); /* a test tool: there is nobody to be told */
        list->all = grown;
        list->room = room;
    }
    list->all[list->count] = (struct pollfd){.fd = fd, .events = (short)events};
    return (int)list->count++;
}

static int events_of(const proxy_pair *pair, int end)
{
    const proxy_flow *to = &pair->flow[1 - end];
    bool full = to->blocked && !proxy_flow_held(pair, 1 - end);
    bool opens = end == SERVER && pair->connecting;
    return (proxy_flow_wants(pair, end) ? POLLIN : 0) | (full || opens ? POLLOUT : 0);
}

static void list_polls(proxy *p, polls *list)
{
    list->count = 0;
    (void)add_poll(list, p->wake, POLLIN); /* the first */
    for (proxy_link *link = p->links; link; link = link->next) {
        bool accepts = !link->ignores && link->tired_until <= p->now;
        link->polled = add_poll(list, link->listener, accepts ? POLLIN : 0);
    }
    for (proxy_pair *pair = p->pairs; pair; pair = pair->next)
        for (int end = CLIENT; end <= SERVER; end++)
            pair->polled[end] = add_poll(list, pair->fd[end], events_of(pair, end));
}

/* Whether something has happened there. */
static bool has_news(const polls *list, int place)
{
    return place >= 0 && list->all[place].revents;
}

static int64_t next_due(const proxy *p)
{
    int64_t due = PROXY_NEVER;
    for (const proxy_link *link = p->links; link; link = link->next)
        if (link->tired_until > p->now && link->tired_until < due)
            due = link->tired_until;
    for (const proxy_pair *pair = p->pairs; pair; pair = pair->next)
        for (int way = UP; way <= DOWN; way++) {
            int64_t its = proxy_flow_due(pair, way);
            due = its < due ? its : due;
        }
    return due;
}

static void wait_for(polls *list, int64_t now, int64_t due)
{
    int64_t left = due > now ? due - now : 0;
    struct timespec limit = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
    if (ppoll(list->all, list->count, due == PROXY_NEVER ? NULL : &limit, NULL) < 0)
        for (size_t i = 0; i < list->count; i++)
            list->all[i].revents = 0; /* EINTR: nothing is known */
}

static void serve(proxy_pair *pair, const polls *list)
{
    if (pair->dead) /* cut by somebody since it was listed */
        return;
    if (pair->connecting && has_news(list, pair->polled[SERVER]))
        proxy_pair_connected(pair);
    for (int way = UP; way <= DOWN && !pair->dead; way++)
        if (has_news(list, pair->polled[way]) && proxy_flow_wants(pair, way))
            proxy_flow_read(pair, way);
    for (int way = UP; way <= DOWN && !pair->dead; way++) {
        if (has_news(list, pair->polled[1 - way]))
            pair->flow[way].blocked = false;
        proxy_flow_send(pair, way);
    }
}

static void bury(proxy *p)
{
    for (proxy_pair **at = &p->pairs; *at;) {
        proxy_pair *pair = *at;
        if (!pair->dead) {
            at = &pair->next;
            continue;
        }
        *at = pair->next;
        proxy_pair_free(pair);
    }
}

static void act(proxy *p, const polls *list)
{
    uint64_t count;
    p->now = proxy_clock();
    if (has_news(list, 0))
        (void)!read(p->wake, &count, sizeof(count)); /* only to make it quiet again */
    for (proxy_pair *pair = p->pairs; pair; pair = pair->next)
        serve(pair, list);
    bury(p);
    for (proxy_link *link = p->links; link; link = link->next)
        if (has_news(list, link->polled) && link->listener >= 0 && !link->ignores)
            proxy_link_accept(link);
}

static void *run(void *arg)
{
    proxy *p = arg;
    polls list = {0};
    pthread_mutex_lock(&p->mutex);
    while (!p->ending) {
        p->now = proxy_clock();
        list_polls(p, &list);
        int64_t now = p->now, due = next_due(p);
        pthread_mutex_unlock(&p->mutex);
        wait_for(&list, now, due);
        pthread_mutex_lock(&p->mutex);
        act(p, &list);
    }
    pthread_mutex_unlock(&p->mutex);
    free(list.all);
    return NULL;
}

void proxy_enter(proxy *p)
{
    pthread_mutex_lock(&p->mutex);
    p->now = proxy_clock();
}

void proxy_leave(proxy *p)
{
    uint64_t one = 1;
    pthread_mutex_unlock(&p->mutex);
    (void)!write(p->wake, &one, sizeof(one)); /* fails only when it is readable already */
}

/* ---- The proxy ---- */

static void set_seed(proxy *p, uint64_t seed)
{
    p->random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1; /* never 0 */
    p->random = p->random ? p->random : 1;
}

proxy *proxy_new(uint64_t seed)
{
    proxy *p = calloc(1, sizeof(*p));
    if (!p)
        return NULL;
    p->last_link = &p->links;
    set_seed(p, seed);
    pthread_mutex_init(&p->mutex, NULL);
    p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (proxy_journal_init(&p->journal) && p->wake >= 0 &&
        pthread_create(&p->thread, NULL, run, p) == 0)
        return p;
    if (p->wake >= 0)
        close(p->wake);
    proxy_journal_clear(&p->journal);
    free(p);
    return NULL;
}

void proxy_free(proxy *p)
{
    if (!p)
        return;
    proxy_enter(p);
    p->ending = true;
    proxy_leave(p);
    pthread_join(p->thread, NULL);
    for (proxy_pair *pair = p->pairs; pair; pair = pair->next)
        proxy_pair_cut(pair);
    bury(p);
    while (p->links) {
        proxy_link *link = p->links;
        p->links = link->next;
        proxy_link_free(link);
    }
    close(p->wake);
    proxy_journal_clear(&p->journal);
    pthread_mutex_destroy(&p->mutex);
    free(p);
}

void proxy_seed(proxy *p, uint64_t seed)
{
    proxy_enter(p);
    set_seed(p, seed);
    proxy_leave(p);
}

/* ---- The log ---- */

bool proxy_log_to(proxy *p, const char *path)
{
    FILE *out = path ? fopen(path, "ae") : NULL;
    if (path && !out)
        return false;
    if (out)
        setvbuf(out, NULL, _IOLBF, 0); /* it is wanted when something has gone wrong */
    proxy_enter(p);
    FILE *before = p->journal.out;
    p->journal.out = out;
    proxy_leave(p);
    if (before)
        fclose(before);
    return true;
}

void proxy_trace(proxy *p, bool on)
{
    proxy_enter(p);
    p->trace = on;
    proxy_leave(p);
}

void proxy_note(proxy *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    proxy_enter(p);
    proxy_journal_add(&p->journal, format, args);
    proxy_leave(p);
    va_end(args);
}

void proxy_print_log(proxy *p, FILE *out, int lines)
{
    proxy_enter(p);
    proxy_journal_print(&p->journal, out, "# ", lines);
    proxy_leave(p);
}

void proxy_dump(proxy *p, FILE *out, int lines)
{
    proxy_enter(p);
    proxy_journal_print(&p->journal, out, "", lines);
    proxy_leave(p);
}
