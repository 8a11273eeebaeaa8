/* The log and the histories as one stream of events in the order of time; see history.h for why
 * nothing can come late. */
#include "histories/checker.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static void *grow(void *array, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return array;
    *room = *room ? *room * 2 : 1024;
    array = realloc(array, *room * size);
    if (!array) {
        perror("realloc");
        exit(2);
    }
    return array;
}

static void add_event(checker *c, event e)
{
    static uint64_t order;
    c->events = grow(c->events, c->event_count, &c->event_room, sizeof(event));
    e.order = order++;
    c->events[c->event_count++] = e;
}

/* ---- The log ---- */

static backend *find_backend(checker *c, const char *name)
{
    for (int i = 0; i < c->backend_count; i++)
        if (strcmp(c->backends[i].name, name) == 0)
            return &c->backends[i];
    return NULL;
}

static peer *find_peer(checker *c, uint32_t id)
{
    for (int i = c->peer_count - 1; i >= 0; i--)
        if (c->peers[i]->id == id)
            return c->peers[i];
    return NULL;
}

static bool read_backend(checker *c, const char *rest)
{
    backend b = {0};
    int64_t ttl_ms, poll_ms, claim_ms;
    int fifo, deaths;
    if (c->backend_count == CHECKER_BACKENDS ||
        sscanf(rest,
               "%23s ttl_ms=%" SCNd64 " poll_ms=%" SCNd64 " claim_ms=%" SCNd64
               " clients=%d fifo=%d deaths=%d",
               b.name, &ttl_ms, &poll_ms, &claim_ms, &b.clients, &fifo, &deaths) != 7)
        return false;
    b.ttl = ttl_ms * MS;
    b.poll = poll_ms * MS;
    b.claim = claim_ms * MS;
    b.fifo = fifo != 0;
    b.deaths = deaths != 0;
    c->backends[c->backend_count++] = b;
    return true;
}

static bool read_worker(checker *c, const char *rest)
{
    char name[24], file[128];
    peer *p = calloc(1, sizeof(*p));
    if (!p || c->peer_count == CHECKER_PEERS ||
        sscanf(rest, "%" SCNu32 " %23s %127s", &p->id, name, file) != 3) {
        free(p);
        return false;
    }
    p->backend = find_backend(c, name);
    if (!p->backend) {
        free(p);
        return false;
    }
    (void)snprintf(p->path, sizeof(p->path), "%s/%s", c->directory, file);
    c->peers[c->peer_count++] = p;
    return true;
}

static bool read_end(checker *c, int64_t time, line what, const char *rest)
{
    uint32_t id;
    peer *p = sscanf(rest, "%" SCNu32, &id) == 1 ? find_peer(c, id) : NULL;
    if (!p)
        return false;
    p->gone = true;
    add_event(c, (event){.time = time, .line = what, .peer = p});
    return true;
}

static bool read_fault(checker *c, int64_t time, const char *rest)
{
    char name[24], kind[64], harms[16];
    event e = {.time = time, .line = LINE_FAULT, .fault_backend = -1};
    if (sscanf(rest, "%d %23s %63s %15s", &e.fault_id, name, kind, harms) != 4)
        return false;
    backend *b = find_backend(c, name);
    if (!b && strcmp(name, "-") != 0)
        return false;
    if (b)
        e.fault_backend = (int)(b - c->backends);
    static const char *const names[] = {[HARM_ONE] = "none",
                                        [HARM_DELAY] = "delay",
                                        [HARM_LOSE] = "lose",
                                        [HARM_WIPE] = "wipe"};
    while (e.does < HARM_WIPE && strcmp(harms, names[e.does]) != 0)
        e.does++;
    if (strcmp(harms, names[e.does]) != 0)
        return false;
    e.stops = strcmp(kind, "stop") == 0;
    add_event(c, e);
    return true;
}

static bool read_line(checker *c, char *text)
{
    char verb[24];
    int64_t time;
    int used = 0;
    if (text[0] == '#' || text[0] == '\n')
        return true;
    if (sscanf(text, "%" SCNd64 " %23s %n", &time, verb, &used) != 2)
        return false;
    const char *rest = text + used;
    c->log_until = time;
    if (strcmp(verb, "backend") == 0)
        return read_backend(c, rest);
    if (strcmp(verb, "worker") == 0)
        return read_worker(c, rest);
    if (strcmp(verb, "dead") == 0)
        return read_end(c, time, LINE_DEAD, rest);
    if (strcmp(verb, "ended") == 0)
        return read_end(c, time, LINE_ENDED, rest);
    if (strcmp(verb, "fault") == 0)
        return read_fault(c, time, rest);
    if (strcmp(verb, "healed") == 0) {
        add_event(c,
                  (event){.time = time, .line = LINE_FAULT_END, .fault_id = atoi(rest)});
        return true;
    }
    return strcmp(verb, "note") == 0;
}

static void read_log(checker *c)
{
    char text[1024];
    long at = ftell(c->log);
    while (fgets(text, sizeof(text), c->log)) {
        if (!strchr(text, '\n')) {
            (void)fseek(c->log, at, SEEK_SET); /* half a line: the rest comes later */
            break;
        }
        if (!read_line(c, text))
            checker_violation(c, NULL, c->log_until, "the log can't be read: %s", text);
        at = ftell(c->log);
    }
    clearerr(c->log);
}

/* ---- The files ---- */

static bool is_ready(const history_record *r)
{
    return __atomic_load_n(&r->ready, __ATOMIC_ACQUIRE) == 1;
}

/* Who was gone before `now` was read writes nothing any more; what it left half written is what
 * it died of. */
static void read_file(checker *c, peer *p, int64_t now)
{
    bool gone = p->gone, complete = true;
    if (p->read || (!p->history.head && !history_map(&p->history, p->path)))
        return;
    uint64_t claimed = atomic_load(&p->history.head->claimed);
    if (claimed > p->history.head->capacity)
        claimed = p->history.head->capacity;
    for (; p->next < claimed; p->next++) {
        const history_record *r = &p->history.records[p->next];
        if (is_ready(r))
            add_event(
                c,
                (event){.time = r->time, .line = LINE_RECORD, .peer = p, .record = *r});
        else if (!gone) {
            complete = false;
            break;
        }
    }
    if (complete)
        p->safe = now;
    if (gone)
        history_close(&p->history);
    p->read = gone;
}

static int by_time(const void *one, const void *other)
{
    const event *a = one, *b = other;
    if (a->time != b->time)
        return a->time > b->time ? 1 : -1;
    return (a->order > b->order) - (a->order < b->order);
}

static void judge_until(checker *c, int64_t time)
{
    size_t done = 0;
    if (c->event_count > 0)
        qsort(c->events, c->event_count, sizeof(event), by_time);
    while (done < c->event_count && c->events[done].time <= time) {
        const event *e = &c->events[done++];
        c->records += e->line == LINE_RECORD;
        c->judged = e->time;
        checker_follow(c, e);
    }
    c->event_count -= done;
    if (done > 0)
        memmove(c->events, c->events + done, c->event_count * sizeof(event));
}

void checker_read(checker *c, bool finished)
{
    int64_t now = history_now(), safe = now;
    read_log(c);
    for (int i = 0; i < c->peer_count; i++) {
        peer *p = c->peers[i];
        read_file(c, p, now);
        if (!p->gone && p->safe < safe)
            safe = p->safe;
    }
    judge_until(c, finished ? NEVER : safe);
}

bool checker_open(checker *c, const char *directory)
{
    char path[600];
    *c = (checker){.slack = SECOND};
    (void)snprintf(c->directory, sizeof(c->directory), "%s", directory);
    (void)snprintf(path, sizeof(path), "%s/nemesis.log", directory);
    c->log = fopen(path, "re");
    return c->log != NULL;
}

void checker_close(checker *c)
{
    for (int i = 0; i < c->peer_count; i++) {
        history_close(&c->peers[i]->history);
        free(c->peers[i]);
    }
    for (int i = 0; i < c->backend_count; i++)
        free(c->backends[i].faults);
    for (int i = 0; i < CHECKER_LOCKS; i++)
        free(c->locks[i]);
    for (int i = 0; i < CHECKER_BUCKETS; i++)
        for (op *o = c->table[i], *next; o; o = next) {
            next = o->next_of_table;
            free(o);
        }
    free(c->events);
    free(c->suspicions);
    (void)fclose(c->log);
}
