/* Libraries that libdlock.so loads when a client needs them: that it does, and only then; what is said
 * when one isn't there. It asks for them by dlopen, which is ours here. */
#include "harness/fork.h"
#include "harness/harness.h"
#include "harness/time.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Of what is asked for, this comes instead; NULL: that itself. */
static const char *instead;
static const char *instead_of; /* … of this alone; NULL: of all */
static void (*while_loading)(void);

void *dlopen(const char *file, int flags)
{
    void *(*of_libc)(const char *, int);
    void *found = dlsym(RTLD_NEXT, "dlopen");
    memcpy(&of_libc, &found, sizeof(found));
    if (while_loading)
        while_loading();
    bool itself = !instead || (instead_of && strcmp(file, instead_of) != 0);
    return of_libc(itself ? file : instead, flags);
}

static bool is_here(const char *library)
{
    void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (handle)
        (void)dlclose(handle);
    return handle != NULL;
}

static dlock_err open_at(const char *uri, dlock_error **err)
{
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    dlock_err code = dlock_conf_set_int(conf, "client.connect_ms", 2000, err);
    return code ? code : dlock_client_open(uri, conf, &client, err);
}

static void check_open(const char *uri, dlock_err code, const char *words)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK_ERR(open_at(uri, &err), code, err);
    if (words)
        CHECK_CONTAINS(dlock_error_text(err), words);
}

/* Nobody listens at port 1. */
static const char *const with_tls[] = {
#ifdef WITH_REDIS
    "rediss://127.0.0.1:1",         "rediss+sentinel://127.0.0.1:1/main",
    "rediss+cluster://127.0.0.1:1", "redlocks://127.0.0.1:1,127.0.0.2:1,127.0.0.3:1",
#endif
    "memcacheds://127.0.0.1:1",     "memlocks://127.0.0.1:1,127.0.0.2:1,127.0.0.3:1",
};

static const char *const without[] = {
    "memcached://127.0.0.1:1",
#ifdef WITH_REDIS
    "redis://127.0.0.1:1",
#endif
};

static void check_open_all(const char *const *uris, size_t count, dlock_err code,
                           const char *words)
{
    for (size_t i = 0; i < count && !harness_failed(); i++)
        check_open(uris[i], code, words);
}

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

TEST(nothing_is_loaded_by_who_needs_nothing)
{
    check_open("mem:", DLOCK_OK, NULL);
    check_open_all(without, COUNT(without), DLOCK_EUNAVAIL, NULL);
    CHECK(!is_here("libssl.so.3"));
    CHECK(!is_here("libcrypto.so.3"));
    CHECK(!is_here("libnghttp2.so.14"));
    CHECK(!is_here("libprotobuf-c.so.1"));
}

/* ---- forks beside the first client: a child must find nothing half set up ---- */

enum { ROUNDS = 8, CHILDREN = 12 };

static void *open_first(void *done)
{
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    (void)!dlock_client_open("memcacheds://127.0.0.1:1?client.lazy=true", NULL, &client,
                             &err);
    atomic_store((atomic_int *)done, 1);
    return NULL;
}

static pid_t fork_a_first_client(void)
{
    atomic_int done = 0;
    pid_t pid = fork();
    if (pid == 0) {
        (void)open_first(&done);
        _exit(0);
    }
    return pid;
}

static bool ends_well(pid_t pid)
{
    int status = -1;
    if (AWAITED(waitpid(pid, &status, WNOHANG) == pid))
        return status == 0;
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, &status, 0);
    return false;
}

/* In a process where nothing is loaded yet: how many children didn't end by themselves. */
static int fork_beside_the_first(int round)
{
    pthread_t thread;
    atomic_int done = 0;
    pid_t children[CHILDREN];
    int count = 0, hung = 0;
    if (pthread_create(&thread, NULL, open_first, &done) != 0)
        return -1;
    nap_us(round * INT64_C(150));
    while (count < CHILDREN && (children[count] = fork_a_first_client()) > 0 &&
           !atomic_load(&done))
        count++;
    count += count < CHILDREN && children[count] > 0;
    for (int i = 0; i < count; i++)
        hung += !ends_well(children[i]);
    (void)pthread_join(thread, NULL);
    return hung;
}

TEST(children_of_forks_beside_the_first_client_can_open_theirs)
{
    if (ADDRESS_SANITIZER || THREAD_SANITIZER)
        LEAVE_OUT("what is forked beside threads doesn't go on under a sanitizer");
    for (int i = 0, status; i < ROUNDS; i++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(fork_beside_the_first(i));
        CHECK(pid > 0);
        CHECK_EQ_INT(waitpid(pid, &status, 0), pid);
        CHECK_EQ_INT(status, 0);
    }
}

TEST(what_is_not_there_is_named_with_how_to_get_it)
{
    instead = "libdlock-has-no-such.so.0";
    check_open_all(with_tls, COUNT(with_tls), DLOCK_ENOTSUP,
                   "libssl.so.3 can't be loaded: install OpenSSL 3");
#ifdef WITH_ETCD
    check_open("etcd://127.0.0.1:1", DLOCK_ENOTSUP,
               "libnghttp2.so.14 can't be loaded: install libnghttp2");
    check_open("etcds://127.0.0.1:1", DLOCK_ENOTSUP, "libnghttp2.so.14");
#endif
    instead = NULL;
}

TEST(what_the_system_says_of_a_library_is_the_backends_words)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    instead = "libdlock-has-no-such.so.0";
    CHECK_ERR(open_at("memcacheds://127.0.0.1:1", &err), DLOCK_ENOTSUP, err);
    instead = NULL;
    CHECK(dlock_error_backend(err) != NULL);
    CHECK_CONTAINS(dlock_error_backend(err), "libdlock-has-no-such.so.0");
}

TEST(who_needs_no_library_is_not_harmed_by_its_absence)
{
    instead = "libdlock-has-no-such.so.0";
    check_open("memcacheds://127.0.0.1:1", DLOCK_ENOTSUP, NULL);
    check_open("mem:", DLOCK_OK, NULL);
    check_open_all(without, COUNT(without), DLOCK_EUNAVAIL, NULL);
    instead = NULL;
}

static int state_of_this_thread(void)
{
    int state;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
    (void)pthread_setcancelstate(state, NULL);
    return state;
}

static int state_while_loading;

static void note_state(void)
{
    state_while_loading = state_of_this_thread();
}

TEST(nobody_is_cancelled_with_what_others_wait_for)
{
    instead = "libdlock-has-no-such.so.0";
    while_loading = note_state;
    check_open("memcacheds://127.0.0.1:1", DLOCK_ENOTSUP, NULL);
    while_loading = NULL;
    instead = NULL;
    CHECK_EQ_INT(state_while_loading, PTHREAD_CANCEL_DISABLE);
    CHECK_EQ_INT(state_of_this_thread(), PTHREAD_CANCEL_ENABLE);
}

TEST(a_library_that_lacks_something_is_too_old)
{
    instead = "libm.so.6";
    check_open("memcacheds://127.0.0.1:1", DLOCK_ENOTSUP, "libssl.so.3 is too old (no ");
#ifdef WITH_ETCD
    check_open("etcd://127.0.0.1:1", DLOCK_ENOTSUP, "libnghttp2.so.14 is too old (no ");
#endif
    instead = NULL;
}

#ifdef WITH_ETCD
/* With libnghttp2 there; and it goes on when both are. */
TEST(each_library_of_a_backend_is_needed)
{
    instead = "libdlock-has-no-such.so.0";
    instead_of = "libprotobuf-c.so.1";
    check_open("etcd://127.0.0.1:1", DLOCK_ENOTSUP,
               "libprotobuf-c.so.1 can't be loaded: install libprotobuf-c");
    instead = instead_of = NULL;
}
#endif

/* ---- forks: none while something is loaded, whose half would be in the child for good ---- */

static atomic_int loading, forking;
static _Atomic pid_t child;

static void *fork_once(void *none)
{
    (void)none;
    forking = 1;
    child = fork();
    if (child == 0)
        _exit(loading);
    forking = 2;
    return NULL;
}

/* Until the other thread has forked, or sleeps because it mayn't. */
static void let_fork(void)
{
    pthread_t thread;
    loading = 1;
    if (pthread_create(&thread, NULL, fork_once, NULL) != 0)
        return;
    while (forking == 0 || (forking == 1 && harness_threads_at_work() > 1))
        nap_ms(1);
    loading = 0;
    (void)pthread_detach(thread);
}

TEST(a_fork_waits_for_what_is_being_loaded)
{
    int status = -1;
    while_loading = let_fork;
    check_open("memcacheds://127.0.0.1:1", DLOCK_EUNAVAIL, NULL);
    while_loading = NULL;
    CHECK(!harness_failed());
    AWAIT(forking == 2);
    CHECK_EQ_INT(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_EQ_INT(WEXITSTATUS(status), 0);
}

#ifdef WITH_ETCD
/* As its constructor could, or a thread it waits for. */
static void fork_meanwhile(void)
{
    while_loading = NULL;
    child = fork();
    if (child == 0)
        _exit((int)open_at("etcd://127.0.0.1:1", NULL));
}

TEST(a_library_that_forks_while_it_is_loaded_is_not_waited_for_for_ever)
{
    int status = -1;
    while_loading = fork_meanwhile;
    check_open("etcd://127.0.0.1:1", DLOCK_EUNAVAIL, NULL);
    CHECK(!harness_failed());
    CHECK(AWAITED(waitpid(child, &status, WNOHANG) == child));
    CHECK(WIFEXITED(status));
    CHECK_EQ_INT(WEXITSTATUS(status), DLOCK_EFORKED);
}
#endif

TEST(what_comes_later_is_used_then)
{
    for (size_t i = 0; i < COUNT(with_tls); i++) {
        DLOCK_AUTO(dlock_error) err = NULL;
        dlock_err code = open_at(with_tls[i], &err); /* of several it is EQUORUM */
        CHECK(code == DLOCK_EUNAVAIL || code == DLOCK_EQUORUM);
    }
    CHECK(is_here("libssl.so.3"));
#ifdef WITH_ETCD
    check_open("etcd://127.0.0.1:1", DLOCK_EUNAVAIL, NULL);
    CHECK(is_here("libnghttp2.so.14"));
#endif
}
