/* The lock service of a test program and the little helpers; see the header. */
#include "world.h"

#include "harness/certificates.h"
#include "harness/etcd_server.h"
#include "harness/memcached_server.h"
#include "harness/redis_server.h"
#include "harness/zookeeper_server.h"
#include "harness/zookeeper_wire.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct {
    bool ready;
    pid_t pid;              /* who made it and tidies up */
    char uri[160], dir[64]; /* the table's directory; of ZooKeeper the node above all */
    certificates certificates; /* where it speaks TLS */
    memcached_server memcached;
    redis_server redis;
    redis_server
        others[WORLD_NODES - 1]; /* of a Redlock, of which `redis` is the first */
    zookeeper_server zookeeper;
    etcd_server etcd;
} world;

/* ---- the service ---- */

redis_server *world_node(int index)
{
    return index ? &world.others[index - 1] : &world.redis;
}

static const char *backend(void)
{
    const char *name = getenv("DLK_TEST_BACKEND");
    return name ? name : "mem";
}

bool world_is(const char *name)
{
    return strcmp(backend(), name) == 0;
}

static void tidy(void)
{
    if (getpid() != world.pid)
        return;
    for (int i = 0; world_is("redlock") && i < WORLD_NODES; i++)
        redis_server_stop(world_node(i));
    if (world_is("redis"))
        redis_server_stop(&world.redis);
    if (world.certificates.dir[0])
        certificates_remove(&world.certificates);
    if (world_is("memcached"))
        memcached_server_stop(&world.memcached);
    if (world_is("zookeeper"))
        zookeeper_server_stop(&world.zookeeper);
    if (world_is("etcd"))
        etcd_server_stop(&world.etcd);
    if (world_is("file")) {
        (void)unlink(world.uri + strlen("file://"));
        (void)rmdir(world.dir);
    }
}

/* The server may be shared with other programs, and by those that run this one again. */
static bool make_root(void)
{
    zookeeper_wire hand;
    if (!zookeeper_wire_open(&hand, world.zookeeper.port))
        return false;
    int code = zookeeper_wire_create(&hand, world.dir, "", ZOOKEEPER_PERSISTENT, NULL, 0);
    zookeeper_wire_close(&hand);
    return harness_eq_int(__FILE__, __LINE__, world.dir, code, ZOOKEEPER_OK);
}

const char *world_root(void)
{
    return world.dir;
}

static bool make_zookeeper(void)
{
    const char *layout = getenv("DLK_TEST_LAYOUT");
    if (!zookeeper_server_available() || !zookeeper_server_borrow(&world.zookeeper))
        return false;
    snprintf(world.dir, sizeof(world.dir), "/api-%d-%" PRId64, (int)getpid(),
             world_now_ms());
    snprintf(world.uri, sizeof(world.uri),
             "zookeeper://127.0.0.1:%d%s?zookeeper.layout=%s", world.zookeeper.port,
             world.dir, layout ? layout : "curator");
    return make_root();
}

static bool make_redis(void)
{
    const char *layout = getenv("DLK_TEST_LAYOUT");
    if (getenv("DLK_TEST_TLS")) {
        if (!certificates_make(&world.certificates) ||
            !redis_server_start_tls(&world.redis, world.certificates.dir, NULL))
            return false;
        snprintf(world.uri, sizeof(world.uri), "rediss://localhost:%d?tls.ca_file=%s",
                 world.redis.tls_port, certificates_path(&world.certificates, "ca.pem"));
        return true;
    }
    if (!redis_server_start(&world.redis, NULL))
        return false;
    snprintf(world.uri, sizeof(world.uri), "redis://127.0.0.1:%d?redis.layout=%s",
             world.redis.port, layout ? layout : "redisson");
    return true;
}

/* The server may be shared with other programs, and by those that run this one again. */
static bool make_etcd(void)
{
    const char *layout = getenv("DLK_TEST_LAYOUT"); /* it has one; what follows counts */
    const char *more = layout ? strchr(layout, '&') : NULL;
    if (!etcd_server_available() || !etcd_server_borrow(&world.etcd))
        return false;
    if (world.etcd.borrowed)
        snprintf(world.dir, sizeof(world.dir), "api-%d-%" PRId64 "/", (int)getpid(),
                 world_now_ms());
    snprintf(world.uri, sizeof(world.uri), "etcd://127.0.0.1:%d?client.prefix=%s%s",
             world.etcd.port, world.dir, more ? more : "");
    return true;
}

static bool make_redlock(void)
{
    size_t used = (size_t)snprintf(world.uri, sizeof(world.uri), "redlock://");
    for (int i = 0; i < WORLD_NODES; i++) {
        if (!redis_server_start(world_node(i), NULL))
            return false;
        used += (size_t)snprintf(world.uri + used, sizeof(world.uri) - used,
                                 "%s127.0.0.1:%d", i ? "," : "", world_node(i)->port);
    }
    snprintf(world.uri + used, sizeof(world.uri) - used, "?redlock.fencing=on");
    return true;
}

static bool make_service(void)
{
    if (!strstr(dlock_backends(), backend())) {
        harness_skip("this build doesn't have the backend");
        return false;
    }
    if (world_is("redis")) {
        if (!redis_server_available() || !make_redis())
            return false;
    } else if (world_is("redlock")) {
        if (!redis_server_available() || !make_redlock())
            return false;
    } else if (world_is("memcached")) {
        if (!memcached_server_available() ||
            !memcached_server_start(&world.memcached, NULL))
            return false;
        const char *layout = getenv("DLK_TEST_LAYOUT");
        const char *more = layout ? strchr(layout, '&') : NULL; /* it has one only */
        snprintf(world.uri, sizeof(world.uri), "memcached://127.0.0.1:%d?%s",
                 world.memcached.port, more ? more + 1 : "");
    } else if (world_is("zookeeper")) {
        if (!make_zookeeper())
            return false;
    } else if (world_is("etcd")) {
        if (!make_etcd())
            return false;
    } else if (world_is("file")) {
        strcpy(world.dir, "/tmp/dlock-api-XXXXXX");
        if (!harness_check(__FILE__, __LINE__, harness_mkdtemp(world.dir) != NULL,
                           "a directory"))
            return false;
        snprintf(world.uri, sizeof(world.uri), "file://%s/table", world.dir);
    } else {
        strcpy(world.uri, "mem:api");
    }
    world.pid = getpid();
    return atexit(tidy) == 0;
}

bool world_ready(void)
{
    if (!world.ready)
        world.ready = make_service();
    return world.ready;
}

bool world_is_fair(void)
{
    return !world_is("memcached") && !world_is("redlock") &&
           (!world_is("redis") || strstr(world.uri, "lock.fair=true"));
}

const char *world_uri(void)
{
    return world.uri;
}

struct memcached_server *world_memcached(void)
{
    return &world.memcached;
}

struct redis_server *world_redis(void)
{
    return &world.redis;
}

struct zookeeper_server *world_zookeeper(void)
{
    return &world.zookeeper;
}

struct etcd_server *world_etcd(void)
{
    return &world.etcd;
}

/* ---- time ---- */

int64_t world_limit_ms(void)
{
    const char *slow = getenv("DLK_TEST_SLOW");
    return slow && slow[0] == '1' ? 60000 : 20000;
}

int64_t world_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t world_awake_ms(void)
{
    return awake_now_ns() / 1000000;
}

void world_nap(void)
{
    struct timespec time = {.tv_nsec = 1000000};
    nanosleep(&time, NULL);
}

/* ---- opening things ---- */

dlock_conf *world_conf(const char *settings)
{
    char text[512], *rest = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    dlock_conf *conf = dlock_conf_new();
    snprintf(text, sizeof(text), "%s", settings ? settings : "");
    for (char *key = strtok_r(text, " ", &rest); key; key = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(key, '=');
        if (!harness_check(__FILE__, __LINE__, value != NULL, "key=value"))
            break;
        *value++ = '\0';
        dlock_err code = dlock_conf_set(conf, key, value, &err);
        if (!harness_err(__FILE__, __LINE__, key, code, DLOCK_OK, err))
            break;
    }
    return conf;
}

dlock_client *world_client(const char *settings)
{
    char text[512];
    snprintf(text, sizeof(text), "client.poll_ms=60000 %s", settings ? settings : "");
    DLOCK_AUTO(dlock_conf) conf = world_conf(text);
    DLOCK_AUTO(dlock_error) err = NULL;
    dlock_client *client = NULL;
    dlock_err code = dlock_client_open(world.uri, conf, &client, &err);
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
    DLOCK_AUTO(dlock_conf) conf = world_conf(settings);
    DLOCK_AUTO(dlock_error) err = NULL;
    dlock_lock *lock = NULL;
    dlock_err code = dlock_lock_new(client, world_kind(), name, conf, &lock, &err);
    harness_err(__FILE__, __LINE__, "dlock_lock_new", code, DLOCK_OK, err);
    return lock;
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
    dlock_err code = dlock_lock_acquire(lock, world_limit_ms(), &hold, &err);
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

int64_t world_stat(dlock_client *client, const char *key)
{
    DLOCK_AUTO(dlock_info) info = NULL;
    return dlock_client_stats(client, &info, NULL) == DLOCK_OK ? number_of(info, key)
                                                               : -1;
}

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
    int64_t end = world_awake_ms() + world_limit_ms();
    while (world_awake_ms() < end) {
        dlock_event *event = dlock_client_next_event(client);
        if (event && dlock_event_what(event) == what)
            return event;
        dlock_event_free(event);
        if (!event)
            world_nap();
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
    int64_t end = world_awake_ms() + world_limit_ms();
    pid_t ended = 0;
    while (pid > 0 && (ended = waitpid(pid, &status, WNOHANG)) == 0 &&
           world_awake_ms() < end)
        world_nap();
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
