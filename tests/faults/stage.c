/* The common ground of the fault tests; see the header. */
#include "stage.h"

#include "harness/fork.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- Time ---- */

int64_t stage_slack_ms(void)
{
    return getenv("DLK_TEST_SLOW") ? 5000 : 700;
}

/* ---- The server ---- */

static int count_entries(const char *path)
{
    DIR *dir = opendir(path);
    int count = 0;
    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count;
}

static void *do_nothing(void *arg)
{
    return arg;
}

void stage_note_base_line(stage *s)
{
    /* What a sanitizer starts with the first thread belongs to it. */
    pthread_t first;
    if (pthread_create(&first, NULL, do_nothing, NULL) == 0)
        pthread_join(first, NULL);
    s->fds = count_entries("/proc/self/fd");
    s->threads = count_entries("/proc/self/task");
}

static void take_proxy_away(stage *s)
{
    proxy_free(s->proxy);
    s->proxy = NULL;
    s->way = NULL;
}

static void end_all(stage *s)
{
    if (s->proxy) /* left behind by a test that has failed: what led to it */
        proxy_print_log(s->proxy, stdout, 40);
    take_proxy_away(s);
    if (s->has_server)
        redis_server_stop(&s->server);
    s->has_server = false;
}

bool stage_set(stage *s, const char *config)
{
    end_all(s);
    if (!redis_server_available() || !redis_server_start(&s->server, config))
        return false;
    s->has_server = true;
    snprintf(s->uri, sizeof(s->uri), "redis://127.0.0.1:%d", s->server.port);
    stage_note_base_line(s);
    return true;
}

bool stage_put_proxy(stage *s)
{
    char target[16];
    const char *why = "no thread";
    snprintf(target, sizeof(target), "%d", s->server.port);
    s->proxy = proxy_new(1);
    s->way = s->proxy ? proxy_listen(s->proxy, "way", 0, target, "resp", &why) : NULL;
    if (!s->way)
        return harness_check(__FILE__, __LINE__, false, why);
    snprintf(s->proxied, sizeof(s->proxied), "redis://127.0.0.1:%d", proxy_port(s->way));
    return true;
}

int stage_deeds(stage *s)
{
    return (int)proxy_get_stats(s->way).deeds;
}

int stage_scripts(stage *s)
{
    return (int)proxy_requests(s->way, "EVAL*");
}

void stage_plan(stage *s, proxy_deed deed, int number)
{
    proxy_plan plan = {.deed = deed, .number = number, .command = "EVAL*"};
    proxy_forget_plans(s->way);
    (void)harness_check(__FILE__, __LINE__, proxy_add_plan(s->way, plan), "a plan");
}

const char *stage_keys(stage *s)
{
    static char rest[65536];
    char all[65536], *save = NULL;
    snprintf(all, sizeof(all), "%s", redis_server_call(&s->server, "KEYS *"));
    rest[0] = '\0';
    size_t used = 0;
    for (char *key = strtok_r(all, " ", &save); key; key = strtok_r(NULL, " ", &save))
        if (strncmp(key, "redisson_lock_token:", 20) != 0 &&
            strncmp(key, "dlock_client:", 13) != 0) /* a client's own: no lock */
            used += (size_t)snprintf(rest + used, sizeof(rest) - used, "%s%s",
                                     used ? " " : "", key);
    return rest;
}

static bool wait_for_no_keys(stage *s, int64_t ttl_ms)
{
    int64_t end = awake_now_ns() + (ttl_ms + 1000) * STAGE_MS;
    while (stage_keys(s)[0] && awake_now_ns() < end)
        nap_ms(10);
    return harness_str(__FILE__, __LINE__, "what is left on the server", stage_keys(s),
                       "");
}

bool stage_back_to_base_line(stage *s)
{
    int64_t end = awake_now_ns() + patience_ms() * STAGE_MS;
    int fds = s->fds, threads = s->threads;
    do {
        s->fds = fds;
        stage_note_base_line(s);
    } while ((s->fds > fds || s->threads > threads) && awake_now_ns() < end);
    /* The test's own connection to the server comes and goes. */
    if (s->fds > fds + 1)
        return harness_eq_int(__FILE__, __LINE__, "descriptors", s->fds, fds);
    return harness_check(__FILE__, __LINE__, s->threads <= threads,
                         "as few threads as before");
}

bool stage_clear(stage *s, int64_t ttl_ms)
{
    bool fine = wait_for_no_keys(s, ttl_ms);
    take_proxy_away(s);
    fine = stage_back_to_base_line(s) && fine;
    end_all(s);
    return fine;
}

/* ---- Clients ---- */

dlock_client *stage_open(const char *uri, ...)
{
    dlock_client *client = NULL;
    dlock_error *err = NULL;
    dlock_conf *conf = dlock_conf_new();
    dlock_err code = dlock_conf_set(conf, "client.log_level", "error", &err);
    va_list pairs;
    va_start(pairs, uri);
    const char *key;
    while (code == DLOCK_OK && (key = va_arg(pairs, const char *)))
        code = dlock_conf_set(conf, key, va_arg(pairs, const char *), &err);
    va_end(pairs);
    if (code == DLOCK_OK)
        code = dlock_client_open(uri, conf, &client, &err);
    (void)harness_err(__FILE__, __LINE__, "opening a client", code, DLOCK_OK, err);
    dlock_error_free(err);
    dlock_conf_free(conf);
    return client;
}

dlock_lock *stage_lock(dlock_client *client, const char *name)
{
    dlock_lock *lock = NULL;
    dlock_error *err = NULL;
    dlock_err code = dlock_lock_new(client, DLOCK_MUTEX, name, NULL, &lock, &err);
    (void)harness_err(__FILE__, __LINE__, "making a lock", code, DLOCK_OK, err);
    dlock_error_free(err);
    return lock;
}

dlock_hold *stage_take(dlock_lock *lock)
{
    dlock_hold *hold = NULL;
    dlock_error *err = NULL;
    dlock_err code = dlock_lock_acquire(lock, patience_ms(), &hold, &err);
    (void)harness_err(__FILE__, __LINE__, "taking a lock", code, DLOCK_OK, err);
    dlock_error_free(err);
    return hold;
}

/* ---- Processes ---- */

void *stage_share(size_t size)
{
    void *shared =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("mmap");
        exit(2);
    }
    return shared;
}

void stage_unshare(void *shared, size_t size)
{
    munmap(shared, size);
}

pid_t stage_fork(void (*run)(void *shared), void *shared)
{
    pid_t parent = getpid();
    fflush(stdout);
    pid_t pid = harness_fork();
    if (pid != 0) {
        (void)harness_check(__FILE__, __LINE__, pid > 0, "a process");
        return pid;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(2);
    run(shared);
    fflush(stdout);
    _exit(harness_failed());
}

bool stage_join(pid_t pid)
{
    int64_t end = awake_now_ns() + 2 * patience_ms() * STAGE_MS;
    int status = 0;
    pid_t ended;
    while ((ended = waitpid(pid, &status, WNOHANG)) == 0 && awake_now_ns() < end)
        nap_ms(2);
    if (ended == 0) {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        return harness_check(__FILE__, __LINE__, false, "the process ends by itself");
    }
    return harness_eq_int(__FILE__, __LINE__, "the process's status", status, 0);
}

void stage_stop(pid_t pid)
{
    int status;
    kill(pid, SIGSTOP);
    while (waitpid(pid, &status, WUNTRACED) < 0 && errno == EINTR)
        ;
}

void stage_continue(pid_t pid)
{
    kill(pid, SIGCONT);
}
