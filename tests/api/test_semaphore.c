/* Semaphores: never more inside than there are permits, several of one client, wishes of different
 * sizes, and what is refused. Each promise for both of Redisson's semaphores where it has it. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const char *const forms[] = {"expirable", "plain"};
enum { FORMS = 2 };

static const char *name_of(const char *test, int form)
{
    static char name[128];
    snprintf(name, sizeof(name), "%s/%d", test, form);
    return name;
}

static dlock_lock *semaphore(dlock_client *client, const char *name, int form,
                             const char *settings)
{
    char text[256];
    snprintf(text, sizeof(text), "redis.semaphore=%s %s", forms[form], settings);
    return api_lock(client, DLOCK_SEMAPHORE, name, text);
}

/* What dlock_lock_new answers. */
static dlock_err refused(dlock_client *client, const char *name, const char *settings,
                         dlock_error **err)
{
    DLOCK_AUTO(dlock_conf) conf = api_conf(settings);
    DLOCK_AUTO(dlock_lock) lock = NULL;
    return dlock_lock_new(client, DLOCK_SEMAPHORE, name, conf, &lock, err);
}

static dlock_err try(dlock_lock *lock, dlock_hold **ret)
{
    return dlock_lock_acquire(lock, 0, ret, NULL);
}

/* ---- what it promises ---- */

TEST(as_many_as_there_are_permits_get_in_and_each_is_a_grant_of_its_own)
{
    BEGIN();
    for (int form = 0; form < FORMS; form++) {
        const char *name = name_of(__func__, form);
        TWO_CLIENTS(client, other);
        DLOCK_AUTO(dlock_lock) lock = semaphore(client, name, form, "lock.permits=2");
        DLOCK_AUTO(dlock_lock) theirs = semaphore(other, name, form, "lock.permits=2");
        DLOCK_AUTO(dlock_hold) first = world_take(lock);
        DLOCK_AUTO(dlock_hold)
        second = world_take(lock); /* the same thread: not re-entry */
        DLOCK_AUTO(dlock_hold) third = NULL;
        CHECK_EQ_INT(dlock_hold_token(first), 0);
        CHECK(strcmp(dlock_hold_owner(first), dlock_hold_owner(second)) != 0);
        CHECK_EQ_INT(try(lock, &third), DLOCK_EBUSY);
        CHECK_EQ_INT(try(theirs, &third), DLOCK_EBUSY);
        CHECK_EQ_INT(dlock_lock_acquire(theirs, SHORT_MS, &third, NULL), DLOCK_ETIMEDOUT);
        CHECK_EQ_INT(dlock_hold_verify(first, NULL), DLOCK_OK);
        CHECK_EQ_INT(dlock_hold_release(first, NULL), DLOCK_OK);
        CHECK_EQ_INT(dlock_hold_release(first, NULL), DLOCK_ENOTHELD);
        CHECK_EQ_INT(dlock_hold_check(second), DLOCK_OK);
        CHECK_EQ_INT(try(theirs, &third), DLOCK_OK);
        CHECK_EQ_INT(api_stat(client, "reentries"), 0);
    }
}

/* The clients look by themselves only once a minute. */
TEST(a_release_wakes_a_waiter_of_another_client_and_the_wish_behind_it)
{
    BEGIN();
    for (int form = 0; form < FORMS; form++) {
        const char *name = name_of(__func__, form);
        TWO_CLIENTS(client, other);
        DLOCK_AUTO(dlock_lock)
        lock = semaphore(client, name, form, "lock.permits=2 lock.take=2");
        DLOCK_AUTO(dlock_lock) theirs = semaphore(other, name, form, "lock.permits=2");
        DLOCK_AUTO(dlock_hold) hold = world_take(lock);
        WAITER(one);
        WAITER(two);
        world_wait_start(&one, other, theirs, patience_ms());
        AWAIT(api_stat(other, "waits") == 1);
        world_wait_start(&two, other, theirs, patience_ms());
        AWAIT(world_asleep(two.tid));
        CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
        CHECK_EQ_INT(world_wait_end(&one), DLOCK_OK);
        CHECK_EQ_INT(world_wait_end(&two), DLOCK_OK);
    }
}

TEST(a_cancelled_wish_for_many_lets_a_smaller_one_pass)
{
    BEGIN();
    for (int form = 0; form < FORMS; form++) {
        const char *name = name_of(__func__, form);
        DLOCK_AUTO(dlock_client) client = world_client(NULL);
        DLOCK_AUTO(dlock_lock) one = semaphore(client, name, form, "lock.permits=3");
        DLOCK_AUTO(dlock_lock)
        all = semaphore(client, name, form, "lock.permits=3 lock.take=3");
        DLOCK_AUTO(dlock_hold) hold = world_take(one);
        DLOCK_AUTO(dlock_op) many = dlock_lock_acquire_start(all, DLOCK_FOREVER);
        AWAIT(api_stat(client, "waits") == 1);
        DLOCK_AUTO(dlock_op) few = dlock_lock_acquire_start(one, DLOCK_FOREVER);
        CHECK_EQ_INT(dlock_op_wait(few, SHORT_MS), DLOCK_EPENDING); /* in turn */
        dlock_op_cancel(many);
        ENDS(many, DLOCK_ECANCELED);
        CHECK_EQ_INT(dlock_op_wait(few, patience_ms()), DLOCK_OK);
        DLOCK_AUTO(dlock_hold) got = dlock_op_take_hold(few);
        CHECK_EQ_INT(dlock_hold_check(got), DLOCK_OK);
    }
}

static void renews(const char *name, int64_t ttl_ms)
{
    for (int form = 0; form < FORMS; form++) {
        char its[128];
        snprintf(its, sizeof(its), "%s/%d/%d", name, form, (int)ttl_ms);
        DLOCK_AUTO(dlock_client) client = world_client_of(ttl_ms, "");
        DLOCK_AUTO(dlock_client) other = world_client(NULL);
        DLOCK_AUTO(dlock_lock)
        lock = semaphore(client, its, form, "lock.permits=3 lock.take=2");
        DLOCK_AUTO(dlock_lock)
        theirs = semaphore(other, its, form, "lock.permits=3 lock.take=2");
        DLOCK_AUTO(dlock_hold) hold = world_take(lock);
        DLOCK_AUTO(dlock_hold) none = NULL;
        int64_t begin = now_ms();
        while (now_ms() - begin < 2 * ttl_ms)
            nap_ms(1);
        dlock_err held = dlock_hold_check(hold), tried = try(theirs, &none);
        if (api_stat(client, "suspects") > 0 || api_stat(client, "losses") > 0)
            TOO_SLOW();
        CHECK_EQ_INT(held, DLOCK_OK);
        CHECK_EQ_INT(tried, DLOCK_EBUSY);
        CHECK_EQ_INT(dlock_hold_extend(hold, 60000, NULL), DLOCK_OK);
        CHECK(dlock_hold_remaining_ms(hold) > 50000);
    }
}

TEST(permits_are_renewed_and_kept_far_beyond_their_ttl)
{
    BEGIN();
    WITH_LEASE_FROM(500, renews);
}

TEST(the_permit_of_a_dead_holder_comes_back_after_its_lease)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) dead = world_client("lock.ttl_ms=300 lock.renew=off");
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_lock) lock = semaphore(dead, __func__, 0, "lock.permits=1");
    DLOCK_AUTO(dlock_lock) ours = semaphore(client, __func__, 0, "lock.permits=1");
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    DLOCK_AUTO(dlock_hold) next = world_take(ours); /* and not a minute later */
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_ELOST);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ELOST);
    CHECK_EQ_INT(dlock_hold_verify(next, NULL), DLOCK_OK);
}

TEST(a_broken_permit_is_lost_and_the_others_are_not)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_lock) lock = semaphore(client, __func__, 0, "lock.permits=2");
    DLOCK_AUTO(dlock_hold) first = world_take(lock);
    DLOCK_AUTO(dlock_info) info = NULL;
    CHECK_EQ_INT(dlock_lock_inspect(lock, &info, NULL), DLOCK_OK);
    CHECK_STR(dlock_info_get(info, "kind"), "semaphore");
    CHECK_STR(dlock_info_get(info, "permits"), "2");
    CHECK_STR(dlock_info_get(info, "permits_free"), "1");
    const char *id = dlock_info_get(info, "holders.0.owner");
    CHECK(id != NULL);
    if (world_is_one_redis())
        CHECK(strlen(id) == 32);
    else
        CHECK_STR(id, dlock_hold_owner(first));
    DLOCK_AUTO(dlock_hold) second = world_take(lock);
    CHECK_EQ_INT(dlock_lock_break(lock, id, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_lock_break(lock, id, NULL), DLOCK_ENOTHELD);
    CHECK_EQ_INT(dlock_hold_verify(first, NULL), DLOCK_ELOST);
    CHECK_EQ_INT(dlock_hold_verify(second, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_lock_break(lock, dlock_hold_owner(second), NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_verify(second, NULL), DLOCK_ELOST);
    CHECK_EQ_INT(dlock_lock_wait_idle(lock, 0, NULL), DLOCK_OK);
}

TEST(it_is_idle_when_every_permit_is_back)
{
    BEGIN();
    for (int form = 0; form < FORMS; form++) {
        const char *name = name_of(__func__, form);
        DLOCK_AUTO(dlock_client) client = world_client(NULL);
        DLOCK_AUTO(dlock_lock) lock = semaphore(client, name, form, "lock.permits=2");
        DLOCK_AUTO(dlock_hold) hold = world_take(lock);
        CHECK_EQ_INT(dlock_lock_wait_idle(lock, 0, NULL), DLOCK_EBUSY);
        DLOCK_AUTO(dlock_op) idle = dlock_lock_wait_idle_start(lock, patience_ms());
        CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
        ENDS(idle, DLOCK_OK);
    }
}

/* ---- where there is a line ---- */

/* Others pass nobody: one permit is free all the time, and each who wants it comes later. */
TEST(a_wish_for_many_is_not_starved_by_those_for_one)
{
    BEGIN();
    if (!world_is_fair())
        LEAVE_OUT("whoever comes first, and fits");
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_client) other = world_client(NULL);
    DLOCK_AUTO(dlock_client) third = world_client(NULL);
    DLOCK_AUTO(dlock_lock) one = semaphore(client, __func__, 0, "lock.permits=2");
    DLOCK_AUTO(dlock_lock)
    all = semaphore(other, __func__, 0, "lock.permits=2 lock.take=2");
    DLOCK_AUTO(dlock_lock) late = semaphore(third, __func__, 0, "lock.permits=2");
    DLOCK_AUTO(dlock_hold) hold = world_take(one);
    DLOCK_AUTO(dlock_hold) none = NULL;
    DLOCK_AUTO(dlock_op) many = dlock_lock_acquire_start(all, DLOCK_FOREVER);
    AWAIT(api_stat(other, "waits") == 1);
    CHECK_EQ_INT(try(late, &none), DLOCK_EBUSY);
    DLOCK_AUTO(dlock_op) few = dlock_lock_acquire_start(late, DLOCK_FOREVER);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(many, patience_ms()), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(few, SHORT_MS), DLOCK_EPENDING);
    DLOCK_AUTO(dlock_hold) got = dlock_op_take_hold(many);
    CHECK_EQ_INT(dlock_hold_release(got, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(few, patience_ms()), DLOCK_OK);
}

TEST(as_many_permits_as_a_number_has)
{
    BEGIN();
    if (!world_is_fair())
        LEAVE_OUT("there are others who count");
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_lock)
    all = semaphore(client, __func__, 0, "lock.permits=2147483647 lock.take=2147483647");
    DLOCK_AUTO(dlock_lock)
    one = semaphore(client, __func__, 0, "lock.permits=2147483647");
    DLOCK_AUTO(dlock_hold) none = NULL;
    DLOCK_AUTO(dlock_hold) hold = world_take(all);
    CHECK_EQ_INT(world_seen(one, "permits_free"), 0);
    CHECK_EQ_INT(try(one, &none), DLOCK_EBUSY);
    CHECK_EQ_INT(try(all, &none), DLOCK_EBUSY);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    DLOCK_AUTO(dlock_hold) few = world_take(one);
    CHECK_EQ_INT(world_seen(one, "permits_free"), 2147483646);
    CHECK_EQ_INT(try(all, &none), DLOCK_EBUSY);
}

/* ---- many at a time, in two processes ---- */

enum { SIZE = 3, ROUNDS = 40 };

typedef struct page {
    _Atomic int inside, most, over, entries;
} page;

typedef struct crowd {
    page *shared;
    const char *name;
    int form;
} crowd;

static void enter(page *shared, int count)
{
    int now = atomic_fetch_add(&shared->inside, count) + count;
    int most = atomic_load(&shared->most);
    while (now > most && !atomic_compare_exchange_weak(&shared->most, &most, now))
        ;
    if (now > SIZE)
        atomic_fetch_add(&shared->over, 1);
    atomic_fetch_add(&shared->entries, 1);
}

static void take_and_give(dlock_lock *lock, int count, page *shared)
{
    for (int i = 0; i < ROUNDS; i++) {
        DLOCK_AUTO(dlock_hold) hold = world_take(lock);
        if (!hold)
            return;
        enter(shared, count);
        nap_ms(1);
        atomic_fetch_sub(&shared->inside, count);
        CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    }
}

typedef struct taker {
    pthread_t thread;
    dlock_lock *lock;
    int count;
    page *shared;
} taker;

static void *run_taker(void *arg)
{
    taker *one = arg;
    take_and_give(one->lock, one->count, one->shared);
    return NULL;
}

static void join_in(void *arg)
{
    const crowd *c = arg;
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_lock) one = semaphore(client, c->name, c->form, "lock.permits=3");
    DLOCK_AUTO(dlock_lock)
    two = semaphore(client, c->name, c->form, "lock.permits=3 lock.take=2");
    taker takers[3];
    for (int i = 0; i < 3; i++) {
        takers[i] = (taker){
            .lock = i == 2 ? two : one, .count = i == 2 ? 2 : 1, .shared = c->shared};
        CHECK(pthread_create(&takers[i].thread, NULL, run_taker, &takers[i]) == 0);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(takers[i].thread, NULL);
}

TEST(never_are_more_inside_than_there_are_permits)
{
    BEGIN();
    if (THREAD_SANITIZER)
        LEAVE_OUT("ThreadSanitizer can't follow threads of a fork's child");
    LEAVE_OUT_ON("mem", "each process has a table of its own");
    page *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    for (int form = 0; form < FORMS; form++) {
        const char *name = name_of(__func__, form);
        crowd c = {.shared = shared, .name = name, .form = form};
        memset(shared, 0, sizeof(*shared));
        pid_t first = world_child_start(join_in, &c);
        pid_t second = world_child_start(join_in, &c);
        CHECK_EQ_INT(world_child_end(first), 0);
        CHECK_EQ_INT(world_child_end(second), 0);
        CHECK_ALWAYS(atomic_load(&shared->over) == 0);
        CHECK_EQ_INT(atomic_load(&shared->inside), 0);
        CHECK_EQ_INT(atomic_load(&shared->entries), 2 * 3 * ROUNDS);
        CHECK(atomic_load(&shared->most) > 1); /* and not one by one either */
        DLOCK_AUTO(dlock_client) client = world_client(NULL);
        DLOCK_AUTO(dlock_lock) lock = semaphore(client, name, form, "lock.permits=3");
        CHECK_EQ_INT(world_seen(lock, "permits_free"), 3);
    }
    munmap(shared, sizeof(*shared));
}

/* ---- what is refused ---- */

TEST(what_can_never_be_is_refused_when_the_lock_is_made)
{
    BEGIN();
    static const struct {
        const char *settings;
        dlock_err code;
        const char *says;
        bool redis; /* others have no such layout, or are fair by themselves */
    } cases[] = {
        {"lock.permits=3 lock.take=4", DLOCK_EINVAL, "lock.take", false},
        {"lock.permits=3 lock.owner=thread", DLOCK_EINVAL, "lock.owner", false},
        {"lock.permits=3 lock.fair=true", DLOCK_ENOTSUP, "fair", true},
        {"lock.permits=3 redis.layout=string", DLOCK_ENOTSUP, "semaphores", true},
    };
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        DLOCK_AUTO(dlock_error) err = NULL;
        if (cases[i].redis && !world_is_one_redis())
            continue;
        CHECK_ERR(refused(client, __func__, cases[i].settings, &err), cases[i].code, err);
        CHECK_CONTAINS(dlock_error_text(err), cases[i].says);
    }
}

TEST(a_size_that_is_none_is_refused_by_the_conf)
{
    static const char *const bad[] = {"-1", "2147483648", "99999999999999999999",
                                      "x",  "1.5",        "1 000"};
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        DLOCK_AUTO(dlock_error) err = NULL;
        CHECK_ERR(dlock_conf_set(conf, "lock.permits", bad[i], &err), DLOCK_EINVAL, err);
        CHECK_ERR(dlock_conf_set(conf, "lock.take", bad[i], &err), DLOCK_EINVAL, err);
    }
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK_ERR(dlock_conf_set(conf, "lock.take", "0", &err), DLOCK_EINVAL, err);
}

TEST(what_the_server_knows_better_is_a_final_answer_and_leaves_nothing)
{
    BEGIN();
    TWO_CLIENTS(client, other);
    DLOCK_AUTO(dlock_lock) three = semaphore(client, __func__, 0, "lock.permits=3");
    DLOCK_AUTO(dlock_lock) five = semaphore(other, __func__, 0, "lock.permits=5");
    DLOCK_AUTO(dlock_lock) none = semaphore(other, "no such semaphore", 0, "");
    DLOCK_AUTO(dlock_hold) hold = world_take(three);
    DLOCK_AUTO(dlock_hold) got = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK_ERR(dlock_lock_acquire(five, DLOCK_FOREVER, &got, &err), DLOCK_ECONFLICT, err);
    CHECK_CONTAINS(dlock_error_text(err), "3 permits");
    CHECK_CONTAINS(dlock_error_text(err), "lock.permits says 5");
    CHECK_ERR(dlock_lock_acquire(none, DLOCK_FOREVER, &got, &err), DLOCK_EINVAL, err);
    CHECK_CONTAINS(dlock_error_text(err), "set lock.permits");
    CHECK_EQ_INT(world_seen(none, "held"), 0);
    CHECK_EQ_INT(world_seen(none, "permits"), -1); /* nobody says how many */
    CHECK_EQ_INT(world_seen(five, "permits"), 3);  /* it is kept there */
    CHECK_EQ_INT(world_seen(five, "permits_free"), 2);
    DLOCK_AUTO(dlock_lock) mutex = world_lock(other, __func__, NULL);
    CHECK_ERR(dlock_lock_acquire(mutex, DLOCK_FOREVER, &got, &err), DLOCK_ECONFLICT, err);
    DLOCK_AUTO(dlock_lock) theirs = world_lock(client, "a mutex here", NULL);
    DLOCK_AUTO(dlock_hold) held = world_take(theirs);
    DLOCK_AUTO(dlock_lock) on_it = semaphore(other, "a mutex here", 0, "lock.permits=1");
    CHECK_ERR(dlock_lock_acquire(on_it, DLOCK_FOREVER, &got, &err), DLOCK_ECONFLICT, err);
}

TEST(handles_of_one_client_must_agree_on_the_size)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_lock) three = semaphore(client, __func__, 0, "lock.permits=3");
    DLOCK_AUTO(dlock_lock) five = semaphore(client, __func__, 0, "lock.permits=5");
    DLOCK_AUTO(dlock_lock) plain = semaphore(client, __func__, 1, "lock.permits=3");
    DLOCK_AUTO(dlock_hold) hold = world_take(three);
    DLOCK_AUTO(dlock_hold) got = NULL;
    CHECK_EQ_INT(try(five, &got), DLOCK_ECONFLICT);
    CHECK_EQ_INT(try(plain, &got), DLOCK_ECONFLICT);
}

TEST(a_semaphore_cant_fence_and_is_refused_where_that_is_required)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = world_client("client.require=fencing");
    CHECK_ERR(refused(client, __func__, "lock.permits=3", &err), DLOCK_ENOTSUP, err);
    CHECK_CONTAINS(dlock_error_text(err), "client.require=fencing");
    CHECK_CONTAINS(dlock_error_text(err), "can't fence");
    DLOCK_AUTO(dlock_lock) mutex = world_lock(client, __func__, NULL);
    CHECK(mutex != NULL);
}

TEST(the_features_and_the_doctor_know_semaphores)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client("redis.semaphore=plain");
    DLOCK_AUTO(dlock_info) info = NULL;
    CHECK_EQ_INT(dlock_client_features(client, &info, NULL), DLOCK_OK);
    CHECK_STR(dlock_info_get(info, "kinds.semaphore"), "1");
    if (!world_is_one_redis())
        return;
    DLOCK_AUTO(dlock_info) findings = NULL;
    CHECK_EQ_INT(dlock_client_doctor(client, &findings, NULL), DLOCK_OK);
    CHECK_CONTAINS(dlock_info_json(findings), "are lost for good");
}
