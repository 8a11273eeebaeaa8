/* fork: in the child nothing of the parent's works and nothing is sent; the parent notices nothing. */
#include "world.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct family {
    const char *name;
    dlock_conf *conf;
    dlock_client *client;
    dlock_lock *lock;
    dlock_hold *hold;
    dlock_op *waiting, *finished;
    dlock_info *info;
    dlock_error *error;
    int event_fd;
} family;

static void family_free(family *f)
{
    dlock_op_free(f->waiting);
    dlock_op_free(f->finished);
    dlock_hold_free(f->hold);
    dlock_lock_free(f->lock);
    dlock_client_free(f->client);
    dlock_conf_free(f->conf);
    dlock_info_free(f->info);
    dlock_error_free(f->error);
}

#define FAMILY(f) family f __attribute__((cleanup(family_free))) = {0}

static void make_family(family *f, const char *name)
{
    f->name = name;
    f->conf = api_conf("lock.owner=none");
    f->client = world_client(NULL);
    f->event_fd = dlock_client_event_fd(f->client);
    CHECK_OK(dlock_lock_new(f->client, DLOCK_MUTEX, name, f->conf, &f->lock, &f->error),
             f->error);
    f->hold = world_take(f->lock);
    f->waiting = dlock_lock_acquire_start(f->lock, DLOCK_FOREVER);
    f->finished = dlock_lock_inspect_start(f->lock);
    CHECK_EQ_INT(dlock_op_wait(f->finished, patience_ms()), DLOCK_OK);
    CHECK_OK(dlock_client_stats(f->client, &f->info, &f->error), f->error);
    dlock_client *none = NULL;
    CHECK_EQ_INT(dlock_client_open("nothing", NULL, &none, &f->error), DLOCK_EINVAL);
}

/* ---- every call in the child ---- */

static void client_is_forked(family *f)
{
    dlock_error *err = NULL;
    dlock_info *info = NULL;
    dlock_lock *lock = NULL;
    dlock_hold *hold = NULL;
    CHECK_ERR(dlock_client_connect(f->client, &err), DLOCK_EFORKED, err);
    CHECK_EQ_INT(dlock_error_code(err), DLOCK_EFORKED);
    CHECK_ERR(dlock_client_stats(f->client, &info, &err), DLOCK_EFORKED, err);
    char *text = NULL;
    CHECK_ERR(dlock_client_metrics(f->client, &text, &err), DLOCK_EFORKED, err);
    CHECK_ERR(dlock_client_features(f->client, &info, &err), DLOCK_EFORKED, err);
    CHECK_ERR(dlock_client_settings(f->client, &info, &err), DLOCK_EFORKED, err);
    CHECK_ERR(dlock_lock_settings(f->lock, &info, &err), DLOCK_EFORKED, err);
    CHECK_ERR(dlock_client_list(f->client, NULL, 9, &info, &err), DLOCK_EFORKED, err);
    CHECK_ERR(dlock_client_doctor(f->client, &info, &err), DLOCK_EFORKED, err);
    CHECK_ERR(dlock_client_import(f->client, "t", &hold, &err), DLOCK_EFORKED, err);
    CHECK_ERR(dlock_acquire(f->client, "x", 0, &hold, &err), DLOCK_EFORKED, err);
    CHECK_ERR(dlock_lock_new(f->client, DLOCK_MUTEX, "x", NULL, &lock, &err),
              DLOCK_EFORKED, err);
    CHECK_EQ_INT(dlock_client_event_fd(f->client), -1);
    CHECK(dlock_client_next_event(f->client) == NULL);
    CHECK(!info && !lock && !hold);
}

static void lock_is_forked(family *f)
{
    dlock_error *err = NULL;
    dlock_info *info = NULL;
    dlock_hold *hold = NULL;
    CHECK_ERR(dlock_lock_acquire(f->lock, 0, &hold, &err), DLOCK_EFORKED, err);
    CHECK_ERR(dlock_lock_acquire(f->lock, DLOCK_FOREVER, &hold, &err), DLOCK_EFORKED,
              err);
    CHECK_ERR(dlock_lock_wait_idle(f->lock, DLOCK_FOREVER, &err), DLOCK_EFORKED, err);
    CHECK_ERR(dlock_lock_inspect(f->lock, &info, &err), DLOCK_EFORKED, err);
    CHECK_ERR(dlock_lock_break(f->lock, NULL, &err), DLOCK_EFORKED, err);
    CHECK_ERR(dlock_lock_revoke(f->lock, &err), DLOCK_EFORKED, err);
    dlock_op *op = dlock_lock_acquire_start(f->lock, DLOCK_FOREVER);
    CHECK(op != NULL);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_EFORKED);
    CHECK_EQ_INT(dlock_error_code(dlock_op_error(op)), DLOCK_EFORKED);
    dlock_op_free(op);
    dlock_lock_free(f->lock);
}

static dlock_err never(void *user)
{
    (void)user;
    abort();
}

static dlock_err never_commit(void *user, int64_t token)
{
    (void)token;
    return never(user);
}

static void hold_is_forked(family *f)
{
    static const dlock_guarded table = {
        .size = sizeof(table), .run = never, .commit = never_commit};
    dlock_error *err = NULL;
    const char *ticket = NULL;
    CHECK_EQ_INT(dlock_hold_check(f->hold), DLOCK_EFORKED);
    CHECK_EQ_INT(dlock_hold_state(f->hold), DLOCK_LOST);
    CHECK_EQ_INT(dlock_hold_remaining_ms(f->hold), 0);
    CHECK_EQ_INT(dlock_hold_ttl_ms(f->hold), 0);
    CHECK_EQ_INT(dlock_hold_token(f->hold), 0);
    CHECK_EQ_INT(dlock_hold_member_token(f->hold, 0), 0);
    CHECK_EQ_INT(dlock_hold_feed(f->hold), DLOCK_EFORKED);
    CHECK_EQ_INT(dlock_hold_notify(f->hold, 1), DLOCK_EFORKED);
    CHECK_ERR(dlock_hold_release(f->hold, &err), DLOCK_EFORKED, err);
    CHECK_ERR(dlock_hold_verify(f->hold, &err), DLOCK_EFORKED, err);
    CHECK_ERR(dlock_hold_extend(f->hold, 500, &err), DLOCK_EFORKED, err);
    CHECK_ERR(dlock_hold_downgrade(f->hold, &err), DLOCK_EFORKED, err);
    CHECK_ERR(dlock_hold_export(f->hold, &ticket, &err), DLOCK_EFORKED, err);
    CHECK_ERR(dlock_hold_guard(f->hold, &table, NULL, &err), DLOCK_EFORKED, err);
    CHECK_STR(dlock_hold_name(f->hold), f->name);
    CHECK(dlock_hold_owner(f->hold) != NULL);
    dlock_hold_free(f->hold);
}

static void op_is_forked(dlock_op *op)
{
    CHECK_EQ_INT(dlock_op_wait(op, DLOCK_FOREVER), DLOCK_EFORKED);
    CHECK_EQ_INT(dlock_op_notify(op, 1), DLOCK_EFORKED);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_EFORKED);
    CHECK_EQ_INT(dlock_error_code(dlock_op_error(op)), DLOCK_EFORKED);
    CHECK(!dlock_op_take_hold(op) && !dlock_op_take_info(op));
    dlock_op_cancel(op);
    dlock_op_free(op);
}

static void close_is_at_once(family *f)
{
    dlock_error *err = NULL;
    CHECK_ERR(dlock_client_close(f->client, &err), DLOCK_EFORKED, err);
    CHECK_EQ_INT(dlock_error_code(err), DLOCK_EFORKED);
    dlock_error_free(err);
    dlock_op *op = dlock_client_close_start(f->client);
    CHECK_EQ_INT(dlock_op_wait(op, DLOCK_FOREVER), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_EFORKED);
    dlock_client_free(f->client);
}

static void plain_memory_works(family *f)
{
    dlock_error *err = NULL;
    CHECK_OK(dlock_conf_set(f->conf, "lock.ttl_ms", "500", &err), err);
    CHECK(dlock_info_count(f->info) > 0 && dlock_info_json(f->info));
    CHECK_EQ_INT(dlock_error_code(f->error), DLOCK_EINVAL);
    dlock_conf_free(f->conf);
    dlock_info_free(f->info);
    dlock_error_free(f->error);
}

static void everything_is_forked(void *arg)
{
    family *f = arg;
    CHECK(f->event_fd >= 0 && fcntl(f->event_fd, F_GETFD) < 0 && errno == EBADF);
    client_is_forked(f);
    lock_is_forked(f);
    hold_is_forked(f);
    op_is_forked(f->waiting);
    op_is_forked(f->finished);
    close_is_at_once(f);
    plain_memory_works(f);
}

static void parent_is_whole(family *f)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK_EQ_INT(dlock_hold_check(f->hold), DLOCK_OK);
    CHECK_OK(dlock_hold_verify(f->hold, &err), err);
    CHECK_EQ_INT(dlock_op_result(f->waiting), DLOCK_EPENDING);
    CHECK_EQ_INT(world_try(f->name), DLOCK_EBUSY);
    CHECK_OK(dlock_hold_release(f->hold, &err), err);
    CHECK_EQ_INT(dlock_op_wait(f->waiting, patience_ms()), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_result(f->waiting), DLOCK_OK);
}

TEST(in_the_child_every_call_answers_eforked_and_the_parent_notices_nothing)
{
    BEGIN();
    FAMILY(f);
    make_family(&f, __func__);
    CHECK(!harness_failed());
    CHECK_EQ_INT(world_child(everything_is_forked, &f), 0);
    parent_is_whole(&f);
}

static void child_forks_again(void *arg)
{
    CHECK_EQ_INT(world_child(everything_is_forked, arg), 0);
    everything_is_forked(arg);
}

TEST(a_childs_child_is_no_different)
{
    BEGIN();
    FAMILY(f);
    make_family(&f, __func__);
    CHECK(!harness_failed());
    CHECK_EQ_INT(world_child(child_forks_again, &f), 0);
    parent_is_whole(&f);
}

/* ---- a life of its own ---- */

static int sockets(void)
{
    int count = 0;
    char path[64], target[64];
    for (int fd = 0; fd < 1024; fd++) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        ssize_t size = readlink(path, target, sizeof(target));
        count += size > 7 && memcmp(target, "socket:", 7) == 0;
    }
    return count;
}

static void child_locks_for_itself(void *arg)
{
    family *f = arg;
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_hold) theirs = NULL;
    DLOCK_AUTO(dlock_hold) ours = NULL;
    if (world_is("mem")) /* a table is one process's: this is a new one */
        CHECK_OK(dlock_acquire(client, f->name, 0, &theirs, &err), err);
    else
        CHECK_ERR(dlock_acquire(client, f->name, SHORT_MS, &theirs, &err),
                  DLOCK_ETIMEDOUT, err);
    CHECK_OK(dlock_acquire(client, "the-childs-own", patience_ms(), &ours, &err), err);
    CHECK_EQ_INT(dlock_hold_check(ours), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_verify(ours, NULL), DLOCK_OK);
    CHECK_OK(dlock_hold_release(ours, &err), err);
    CHECK_OK(dlock_client_close(client, &err), err);
}

static void child_has_no_socket_of_ours(void *arg)
{
    int *before = arg;
    CHECK_EQ_INT(sockets(), *before);
    child_locks_for_itself(&(family){.name = "no-socket"});
}

TEST(a_child_opens_a_client_of_its_own_and_meets_the_parents_locks)
{
    BEGIN();
    if (THREAD_SANITIZER)
        LEAVE_OUT("ThreadSanitizer can't follow the child's threads");
    FAMILY(f);
    make_family(&f, __func__);
    CHECK(!harness_failed());
    CHECK_EQ_INT(world_child(child_locks_for_itself, &f), 0);
    parent_is_whole(&f);
}

TEST(inherited_sockets_are_closed_in_the_child)
{
    BEGIN();
    if (THREAD_SANITIZER)
        LEAVE_OUT("ThreadSanitizer can't follow the child's threads");
    int before = sockets();
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    CHECK_EQ_INT(dlock_acquire(client, "no-socket", 0, &hold, NULL), DLOCK_OK);
    CHECK_EQ_INT(world_child(child_has_no_socket_of_ours, &before), 0);
    CHECK_EQ_INT(dlock_hold_verify(hold, NULL), DLOCK_OK);
}

static void leave_everything_open(void *arg)
{
    (void)arg;
    dlock_hold *hold = NULL;
    dlock_client *client = world_client(NULL);
    if (dlock_acquire(client, "left-open", patience_ms(), &hold, NULL) == DLOCK_OK)
        _exit(0); /* with nothing closed, not even by exit's own doing */
}

TEST(a_child_that_dies_with_its_client_open_hands_its_lock_on)
{
    BEGIN();
    LEAVE_OUT_ON("mem", "a table of one process");
    LEAVE_OUT_ON("redis", "a dead client's lock ends with its lease");
    LEAVE_OUT_ON("postgres", "a dead client's lock ends with its lease");
    CHECK_EQ_INT(world_child(leave_everything_open, NULL), 0);
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, "left-open", NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    CHECK(hold != NULL);
}

/* ---- forks while threads work ---- */

static atomic_bool enough;

static void *work(void *arg)
{
    dlock_lock *lock = arg;
    intptr_t strange = 0, rounds = 0;
    for (; !enough; rounds++) {
        DLOCK_AUTO(dlock_hold) hold = NULL;
        strange += dlock_lock_acquire(lock, patience_ms(), &hold, NULL) != DLOCK_OK;
        strange += !hold || dlock_hold_release(hold, NULL) != DLOCK_OK;
    }
    return (void *)(strange + (rounds == 0));
}

static void storm_child(void *arg)
{
    family *f = arg;
    dlock_hold *hold = NULL;
    CHECK_EQ_INT(dlock_lock_acquire(f->lock, DLOCK_FOREVER, &hold, NULL), DLOCK_EFORKED);
    CHECK_EQ_INT(dlock_hold_check(f->hold), DLOCK_EFORKED);
    dlock_hold_free(f->hold);
    dlock_lock_free(f->lock);
    dlock_client_free(f->client);
}

TEST(forks_by_the_hundred_while_threads_work_do_no_harm_on_either_side)
{
    BEGIN();
    if (ADDRESS_SANITIZER)
        LEAVE_OUT("the threads are in AddressSanitizer's allocator: see harness/fork.h");
    FAMILY(f);
    f.name = __func__;
    f.client = world_client(NULL);
    f.lock = world_lock(f.client, __func__, NULL);
    DLOCK_AUTO(dlock_lock) other = world_lock(f.client, "held-in-the-storm", NULL);
    f.hold = world_take(other);
    pthread_t threads[3];
    enough = false;
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, work, f.lock) == 0);
    int bad = 0;
    for (int i = 0; i < 50 && !bad; i++) {
        pid_t pids[6];
        for (int j = 0; j < 6; j++)
            pids[j] = world_child_start(storm_child, &f);
        for (int j = 0; j < 6; j++)
            bad += world_child_end(pids[j]) != 0;
    }
    enough = true;
    intptr_t strange = 0;
    for (int i = 0; i < 3; i++) {
        void *found;
        pthread_join(threads[i], &found);
        strange += (intptr_t)found;
    }
    CHECK_EQ_INT(bad, 0);
    CHECK_EQ_INT(strange, 0);
    CHECK_EQ_INT(dlock_hold_verify(f.hold, NULL), DLOCK_OK);
    CHECK_EQ_INT(world_try(__func__), DLOCK_OK);
}
