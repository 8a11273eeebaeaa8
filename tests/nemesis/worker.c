/* One process of a long run: clients that take locks, use what the locks guard and give them
 * back, in all the ways the library offers, and note everything they do (histories/history.h).
 *
 *     nemesis-worker id=7 uri=redis://… history=FILE page=FILE socket=PATH first=0 locks=4
 *                    clients=2 threads=1 ttl_ms=2000 seed=42
 *
 * Locks are called n0, n1, …; `first` is the number of n0 in the history and at the resource. It
 * works until SIGTERM, or until its history is full, and then ends in good order with status 0.
 * SIGUSR1: it dies at one of the next points inside the library's table. */
#include "nemesis/worker.h"

#include "util/point.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define PULSE_MS      50
#define PULSE_LATE_MS 100 /* later than that is noted */

worker self = {.clients = 1, .threads = 1, .locks = 1, .ttl_ms = 2000, .records = 400000};

static _Atomic int points_left; /* 0 = not to die */
static _Atomic int armed;
void (*dlk_point_hook)(const char *name);

/* splitmix64: each thread has its own. */
uint64_t worker_roll(player *p, uint64_t sides)
{
    uint64_t z = p->dice += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % sides;
}

bool worker_is_ending(void)
{
    return atomic_load(&self.ending);
}

/* ---- Signals and points ---- */

static void end_soon(int number)
{
    (void)number;
    atomic_store(&self.ending, true);
}

static void arm(int number)
{
    (void)number;
    int which = atomic_fetch_add(&armed, 1);
    atomic_store(&points_left, (int)((self.seed + (uint64_t)which * 7919) % 197) + 1);
}

static void maybe_die(const char *name)
{
    (void)name;
    if (atomic_load_explicit(&points_left, memory_order_relaxed) > 0 &&
        atomic_fetch_sub(&points_left, 1) == 1)
        (void)kill(getpid(), SIGKILL);
}

/* ---- The pulse ---- */

/* Tells the checker when this process wasn't given the CPU, be it stopped or starved. */
static void *beat(void *unused)
{
    int64_t last = history_now(), noted = 0;
    (void)unused;
    while (!atomic_load(&self.over)) {
        nap_us(PULSE_MS * 1000);
        int64_t now = history_now(), late = now - last - PULSE_MS * MS;
        bool stood_still = late > PULSE_LATE_MS * MS;
        if (stood_still || now - noted > 4 * PULSE_MS * MS) {
            history_note(&self.history,
                         (history_record){.event = HISTORY_PULSE,
                                          .value = stood_still ? late : 0});
            noted = now;
        }
        last = now;
        if (history_is_full(&self.history))
            atomic_store(&self.ending, true);
    }
    return NULL;
}

/* ---- Clients ---- */

static void complain(const char *what, const dlock_error *err)
{
    fprintf(stderr, "worker %u: %s: %s: %s\n", self.id, what,
            dlock_errname(dlock_error_code(err)), dlock_error_text(err));
}

/* An absent server is no reason to give up, it is why we are here. */
bool worker_open(crew *c)
{
    dlock_error *err = NULL;
    while (!worker_is_ending()) {
        dlock_err code = dlock_client_open(self.uri, NULL, &c->client, &err);
        if (code == DLOCK_OK) {
            history_note(&self.history,
                         (history_record){.event = HISTORY_OPENED, .client = c->number});
            break;
        }
        if (code != DLOCK_EUNAVAIL && code != DLOCK_EUNKNOWN && code != DLOCK_EACCES &&
            code != DLOCK_EPROTO)
            complain("open", err);
        nap_us(50000);
    }
    dlock_error_free(err);
    for (uint32_t i = 0; c->client && i < self.locks; i++) {
        char name[16];
        err = NULL;
        (void)snprintf(name, sizeof(name), "n%u", i);
        if (dlock_lock_new(c->client, DLOCK_MUTEX, name, NULL, &c->locks[i], &err) !=
            DLOCK_OK) {
            complain("lock_new", err);
            exit(1);
        }
    }
    return c->client != NULL;
}

void worker_close(crew *c)
{
    if (!c->client)
        return;
    for (uint32_t i = 0; i < self.locks; i++) {
        dlock_lock_free(c->locks[i]);
        c->locks[i] = NULL;
    }
    dlock_err code = dlock_client_close(c->client, NULL);
    history_note(&self.history, (history_record){.event = HISTORY_CLOSE,
                                                 .client = c->number,
                                                 .code = (uint8_t)code});
    dlock_client_free(c->client);
    c->client = NULL;
}

static void start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    int rc = pthread_create(thread, NULL, run, argument);
    if (rc == 0)
        return;
    fprintf(stderr, "worker %u: no thread: %s\n", self.id, strerror(rc));
    exit(1);
}

static void *lead(void *argument)
{
    crew *c = argument;
    player others[WORKER_THREADS] = {0};
    if (!worker_open(c))
        return NULL;
    for (uint32_t i = 0; i < self.threads; i++) {
        others[i] = (player){.crew = c,
                             .number = (uint16_t)(c->number * self.threads + i),
                             .dice = self.seed * 1000003 + c->number * 257u + i};
        start(&others[i].thread, worker_play, &others[i]);
    }
    for (uint32_t i = 0; i < self.threads; i++)
        (void)pthread_join(others[i].thread, NULL);
    worker_close(c);
    return NULL;
}

/* ---- Arguments ---- */

static bool take_number(const char *argument, const char *key, uint64_t *number)
{
    size_t size = strlen(key);
    if (strncmp(argument, key, size) != 0 || argument[size] != '=')
        return false;
    *number = strtoull(argument + size + 1, NULL, 10);
    return true;
}

static bool take_text(const char *argument, const char *key, const char **text)
{
    size_t size = strlen(key);
    if (strncmp(argument, key, size) != 0 || argument[size] != '=')
        return false;
    *text = argument + size + 1;
    return true;
}

static bool take(const char *argument)
{
    uint64_t n = 0;
    if (take_text(argument, "uri", &self.uri) ||
        take_text(argument, "history", &self.path) ||
        take_text(argument, "page", &self.page) ||
        take_text(argument, "socket", &self.socket) ||
        take_number(argument, "seed", &self.seed) ||
        take_number(argument, "records", &self.records))
        return true;
    if (take_number(argument, "id", &n))
        self.id = (uint32_t)n;
    else if (take_number(argument, "first", &n))
        self.first = (uint16_t)n;
    else if (take_number(argument, "locks", &n))
        self.locks = (uint32_t)n;
    else if (take_number(argument, "clients", &n))
        self.clients = (uint32_t)n;
    else if (take_number(argument, "threads", &n))
        self.threads = (uint32_t)n;
    else if (take_number(argument, "ttl_ms", &n))
        self.ttl_ms = (int64_t)n;
    else
        return false;
    return true;
}

static bool is_complete(void)
{
    return self.uri && self.path && self.page && self.locks >= 1 &&
           self.locks <= WORKER_LOCKS && self.clients >= 1 &&
           self.clients <= WORKER_CLIENTS && self.threads >= 1 &&
           self.threads <= WORKER_THREADS;
}

int main(int argc, char **argv)
{
    static crew crews[WORKER_CLIENTS];
    pthread_t leaders[WORKER_CLIENTS], pulse;
    for (int i = 1; i < argc; i++)
        if (!take(argv[i])) {
            fprintf(stderr, "what is %s?\n", argv[i]);
            return 64;
        }
    if (!is_complete()) {
        fprintf(stderr, "an argument is missing or out of range\n");
        return 64;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGTERM, end_soon);
    signal(SIGUSR1, arm);
    signal(SIGINT, SIG_IGN); /* a terminal's Ctrl-C is for the one who started us */
    dlk_point_hook = maybe_die;
    if (!history_create(&self.history, self.path, self.records) ||
        !oracle_open(&self.oracle, self.page, self.socket)) {
        fprintf(stderr, "worker %u: no history or no resource: %s\n", self.id,
                strerror(errno));
        return 1;
    }
    start(&pulse, beat, NULL);
    for (uint32_t i = 0; i < self.clients; i++) {
        crews[i].number = (uint16_t)i;
        start(&leaders[i], lead, &crews[i]);
    }
    for (uint32_t i = 0; i < self.clients; i++)
        (void)pthread_join(leaders[i], NULL);
    atomic_store(&self.over, true);
    (void)pthread_join(pulse, NULL);
    oracle_close(&self.oracle);
    history_close(&self.history);
    return 0;
}
