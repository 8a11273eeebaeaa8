/* The little helpers of the API tests; see the header. */
#include "world.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- opening things ---- */

dlock_client *world_client(const char *settings)
{
    char text[512];
    snprintf(text, sizeof(text), "client.poll_ms=60000 %s", settings ? settings : "");
    DLOCK_AUTO(dlock_conf) conf = api_conf(text);
    DLOCK_AUTO(dlock_error) err = NULL;
    dlock_client *client = NULL;
    dlock_err code = dlock_client_open(world_uri(), conf, &client, &err);
    harness_err(__FILE__, __LINE__, "dlock_client_open", code, DLOCK_OK, err);
    return client;
}

dlock_client *world_client_of(int64_t ttl_ms, const char *settings)
{
    char text[256];
    snprintf(text, sizeof(text), "lock.ttl_ms=%lld %s", (long long)ttl_ms, settings);
    return world_client(text);
}

dlock_kind world_kind(void)
{
    static const char *const kinds[] = {[DLOCK_MUTEX] = "mutex",
                                        [DLOCK_READ] = "read",
                                        [DLOCK_WRITE] = "write",
                                        [DLOCK_SEMAPHORE] = "semaphore",
                                        [DLOCK_ELECTION] = "election"};
    const char *name = getenv("DLK_TEST_KIND");
    for (int kind = DLOCK_MUTEX; name && kind <= DLOCK_ELECTION; kind++)
        if (strcmp(kinds[kind], name) == 0)
            return (dlock_kind)kind;
    return DLOCK_MUTEX;
}

dlock_lock *world_lock(dlock_client *client, const char *name, const char *settings)
{
    return api_lock(client, world_kind(), name, settings);
}

dlock_err world_acquire(dlock_client *client, const char *name, int64_t wait_ms,
                        dlock_hold **ret_hold)
{
    DLOCK_AUTO(dlock_lock) lock = NULL;
    dlock_err code = dlock_lock_new(client, world_kind(), name, NULL, &lock, NULL);
    return code == DLOCK_OK ? dlock_lock_acquire(lock, wait_ms, ret_hold, NULL) : code;
}

dlock_hold *world_take(dlock_lock *lock)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    dlock_hold *hold = NULL;
    dlock_err code = dlock_lock_acquire(lock, patience_ms(), &hold, &err);
    harness_err(__FILE__, __LINE__, "dlock_lock_acquire", code, DLOCK_OK, err);
    return hold;
}

/* ---- others, who want or take the lock ---- */

dlock_err world_try(const char *name)
{
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    dlock_err code = world_acquire(client, name, 0, &hold);
    if (code == DLOCK_OK)
        code = dlock_hold_release(hold, NULL);
    return code;
}

dlock_err world_evict(const char *name)
{
    if (world_own)
        return harness_check(__FILE__, __LINE__, world_own->evict(name), "taken away")
                   ? DLOCK_OK
                   : DLOCK_EUNKNOWN;
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, name, NULL);
    dlock_err code = dlock_lock_break(lock, NULL, &err);
    harness_err(__FILE__, __LINE__, "dlock_lock_break", code, DLOCK_OK, err);
    return code;
}

bool world_lose(const char *name, dlock_hold *hold)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    if (world_evict(name) != DLOCK_OK)
        return false;
    dlock_err code = dlock_hold_verify(hold, &err);
    return harness_err(__FILE__, __LINE__, "dlock_hold_verify", code, DLOCK_ELOST, err);
}

/* ---- looking ---- */

static int64_t number_of(dlock_info *info, const char *key)
{
    const char *text = info ? dlock_info_get(info, key) : NULL;
    return text ? strtoll(text, NULL, 10) : -1;
}

bool world_has_kind(dlock_client *client, const char *kind)
{
    char key[32];
    (void)snprintf(key, sizeof(key), "kinds.%s", kind);
    return api_has(client, key);
}

const struct world_kind world_waited[WORLD_WAITED] = {
    {DLOCK_MUTEX, "mutex", NULL},
    {DLOCK_WRITE, "write", NULL},
    {DLOCK_READ, "read", NULL},
    {DLOCK_ELECTION, "election", NULL},
    {DLOCK_SEMAPHORE, "semaphore", "lock.permits=1"}};

int64_t world_seen(dlock_lock *lock, const char *key)
{
    DLOCK_AUTO(dlock_info) info = NULL;
    return dlock_lock_inspect(lock, &info, NULL) == DLOCK_OK ? number_of(info, key) : -1;
}

bool world_readable(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    return poll(&one, 1, 0) == 1 && (one.revents & POLLIN);
}

dlock_event *world_event(dlock_client *client, dlock_what what)
{
    int64_t end = awake_now_ms() + patience_ms();
    while (awake_now_ms() < end) {
        dlock_event *event = dlock_client_next_event(client);
        if (event && dlock_event_what(event) == what)
            return event;
        dlock_event_free(event);
        if (!event)
            nap_ms(1);
    }
    harness_note("no event of kind %d came", (int)what);
    return NULL;
}

/* ---- threads ---- */

static void *wait_in_thread(void *arg)
{
    world_waiter *waiter = arg;
    waiter->tid = (int)syscall(SYS_gettid);
    waiter->code =
        dlock_lock_acquire(waiter->lock, waiter->wait_ms, &waiter->hold, &waiter->err);
    waiter->over = true;
    return NULL;
}

void world_wait_start(world_waiter *waiter, dlock_client *client, dlock_lock *lock,
                      int64_t wait_ms)
{
    waiter->client = client;
    waiter->lock = lock;
    waiter->wait_ms = wait_ms;
    waiter->tid = 0;
    waiter->over = false;
    waiter->runs = pthread_create(&waiter->thread, NULL, wait_in_thread, waiter) == 0;
    harness_check(__FILE__, __LINE__, waiter->runs, "a thread");
}

dlock_err world_wait_end(world_waiter *waiter)
{
    if (waiter->runs)
        pthread_join(waiter->thread, NULL);
    waiter->runs = false;
    return waiter->code;
}

void world_waiter_drop(world_waiter *waiter)
{
    if (waiter
            ->runs) { /* the test has failed on its way: nothing else would end the wait */
        (void)dlock_client_close(waiter->client, NULL);
        (void)world_wait_end(waiter);
    }
    dlock_hold_free(waiter->hold);
    dlock_error_free(waiter->err);
}

bool world_asleep(int tid)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
    FILE *file = tid ? fopen(path, "re") : NULL;
    if (!file)
        return false;
    size_t size = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[size] = '\0';
    const char *state = strrchr(text, ')');
    return state && state[1] && state[2] == 'S';
}

/* ---- processes ---- */

pid_t world_child_start(void (*run)(void *), void *arg)
{
    fflush(stdout);
    pid_t pid = harness_fork();
    if (pid != 0)
        return pid;
    run(arg);
    fflush(stdout);
    _exit(harness_failed());
}

int world_child_end(pid_t pid)
{
    int status = 0;
    int64_t end = awake_now_ms() + patience_ms();
    pid_t ended = 0;
    while (pid > 0 && (ended = waitpid(pid, &status, WNOHANG)) == 0 &&
           awake_now_ms() < end)
        nap_ms(1);
    if (pid > 0 && ended == 0) {
        harness_note("the child hangs");
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        return -1;
    }
    if (ended == pid && WIFSIGNALED(status))
        harness_note("the child died by signal %d", WTERMSIG(status));
    return ended == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int world_child(void (*run)(void *), void *arg)
{
    return world_child_end(world_child_start(run, arg));
}
