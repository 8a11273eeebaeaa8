/* Closing: from any thread, as often as one likes, with everything under way; frees in any order. */
#include "world.h"

#include "harness/redis_server.h"

TEST(close_ends_every_wait_with_eclosed)
{
    BEGIN();
    CLIENT_WITH_HOLD(holder, theirs, hold, __func__, NULL);
    CLIENT_WITH_LOCK(client, lock, __func__, NULL);
    WAITER(one);
    WAITER(two);
    world_wait_start(&one, client, lock, DLOCK_FOREVER);
    world_wait_start(&two, client, lock, 3600000);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
    DLOCK_AUTO(dlock_op) idle = dlock_lock_wait_idle_start(lock, DLOCK_FOREVER);
    AWAIT(world_asleep(one.tid) && world_asleep(two.tid));
    CHECK_EQ_INT(dlock_client_close(client, NULL), DLOCK_OK);
    CHECK_EQ_INT(world_wait_end(&one), DLOCK_ECLOSED);
    CHECK_EQ_INT(world_wait_end(&two), DLOCK_ECLOSED);
    CHECK_EQ_INT(dlock_op_wait(op, 0), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_ECLOSED);
    CHECK_EQ_INT(dlock_op_wait(idle, 0), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_result(idle), DLOCK_ECLOSED);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK); /* another client's */
}

TEST(after_the_close_calls_answer_eclosed_and_what_is_known_can_still_be_read)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    DLOCK_AUTO(dlock_lock) another = NULL;
    DLOCK_AUTO(dlock_hold) next = NULL;
    DLOCK_AUTO(dlock_info) info = NULL;
    CHECK_OK(dlock_client_close(client, &err), err);
    CHECK_ERR(dlock_lock_acquire(lock, 0, &next, &err), DLOCK_ECLOSED, err);
    CHECK_ERR(dlock_lock_acquire(lock, DLOCK_FOREVER, &next, &err), DLOCK_ECLOSED, err);
    CHECK_ERR(dlock_acquire(client, __func__, 0, &next, &err), DLOCK_ECLOSED, err);
    CHECK_ERR(dlock_lock_inspect(lock, &info, &err), DLOCK_ECLOSED, err);
    CHECK_ERR(dlock_lock_break(lock, NULL, &err), DLOCK_ECLOSED, err);
    CHECK_ERR(dlock_lock_wait_idle(lock, 0, &err), DLOCK_ECLOSED, err);
    CHECK_ERR(dlock_client_list(client, NULL, 1, &info, &err), DLOCK_ECLOSED, err);
    CHECK_ERR(dlock_client_doctor(client, &info, &err), DLOCK_ECLOSED, err);
    CHECK_ERR(dlock_client_connect(client, &err), DLOCK_ECLOSED, err);
    dlock_err code = dlock_lock_new(client, DLOCK_MUTEX, "late", NULL, &another, &err);
    CHECK(code == DLOCK_OK || code == DLOCK_ECLOSED);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
    CHECK_EQ_INT(dlock_op_notify(op, 1), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_ECLOSED);
    CHECK_OK(dlock_client_stats(client, &info, &err), err);
    CHECK_EQ_INT(api_stat(client, "grants"), 1);
    CHECK_EQ_INT(api_stat(client, "connected"), 0);
    CHECK(dlock_client_uri(client)[0] != '\0');
}

TEST(closing_releases_what_is_held)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_hold) one = NULL;
    DLOCK_AUTO(dlock_hold) two = NULL;
    CHECK_EQ_INT(dlock_acquire(client, "closing-1", 0, &one, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_acquire(client, "closing-2", 0, &two, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_client_close(client, NULL), DLOCK_OK);
    CHECK_EQ_INT(world_try("closing-1"), DLOCK_OK);
    CHECK_EQ_INT(world_try("closing-2"), DLOCK_OK);
}

TEST(free_closes_if_need_be)
{
    BEGIN();
    dlock_client *client = world_client(NULL);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    dlock_err code = dlock_acquire(client, __func__, 0, &hold, NULL);
    dlock_client_free(client);
    CHECK_EQ_INT(code, DLOCK_OK);
    CHECK_EQ_INT(world_try(__func__), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_ENOTHELD);
}

static void *close_it(void *client)
{
    return (void *)(intptr_t)dlock_client_close(client, NULL);
}

TEST(closing_twice_and_from_many_threads_at_once_is_fine)
{
    BEGIN();
    for (int round = 0; round < 10; round++) {
        DLOCK_AUTO(dlock_client)
        client = world_client(round % 3 ? NULL : "client.lazy=true");
        DLOCK_AUTO(dlock_hold) hold = NULL;
        CHECK_EQ_INT(dlock_acquire(client, __func__, patience_ms(), &hold, NULL),
                     DLOCK_OK);
        pthread_t threads[4];
        for (int i = 0; i < 4; i++)
            CHECK(pthread_create(&threads[i], NULL, close_it, client) == 0);
        for (int i = 0; i < 4; i++) {
            void *code;
            pthread_join(threads[i], &code);
            CHECK_EQ_INT((intptr_t)code, DLOCK_OK);
        }
        CHECK_EQ_INT(dlock_client_close(client, NULL), DLOCK_OK);
    }
}

TEST(a_client_that_never_connected_can_be_closed_and_freed)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) closed = world_client("client.lazy=true");
    CLIENT_WITH_LOCK(freed, lock, __func__, "client.lazy=true");
    CHECK_EQ_INT(dlock_client_close(closed, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_client_close(closed, NULL), DLOCK_OK);
    dlock_client_free(NULL);
}

TEST(cancelling_the_close_stops_the_waiting_but_not_the_close)
{
    BEGIN();
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    DLOCK_AUTO(dlock_op) op = dlock_client_close_start(client);
    dlock_op_cancel(op);
    CHECK_EQ_INT(dlock_op_wait(op, patience_ms()), DLOCK_OK);
    CHECK(dlock_op_result(op) == DLOCK_OK || dlock_op_result(op) == DLOCK_ECANCELED);
    AWAIT(world_try(__func__) == DLOCK_OK);
}

/* ---- frees in any order ---- */

typedef struct pile {
    dlock_client *client;
    dlock_lock *lock;
    dlock_hold *hold;
    dlock_op *held, *waiting;
} pile;

static void free_one(pile *all, int which)
{
    if (which == 0)
        dlock_client_free(all->client);
    else if (which == 1)
        dlock_lock_free(all->lock);
    else if (which == 2)
        dlock_hold_free(all->hold);
    else if (which == 3)
        dlock_op_free(all->held);
    else
        dlock_op_free(all->waiting);
}

static bool free_in_order(const char *name, int number)
{
    pile all = {.client = world_client(NULL)};
    all.lock = world_lock(all.client, name, NULL);
    all.hold = world_take(all.lock);
    all.waiting = dlock_lock_acquire_start(all.lock, DLOCK_FOREVER);
    DLOCK_AUTO(dlock_lock) other = world_lock(all.client, "free-in-order-2", NULL);
    all.held = dlock_lock_acquire_start(other, 0);
    int left[] = {0, 1, 2, 3, 4};
    for (int count = 5; count > 0; count--) {
        int at = number % count;
        number /= count;
        free_one(&all, left[at]);
        left[at] = left[count - 1];
    }
    return !harness_failed();
}

TEST(client_lock_hold_and_ops_are_freed_in_any_order)
{
    BEGIN();
    for (int i = 0; i < 120; i++)
        CHECK(free_in_order(__func__, i));
    AWAIT(world_try(__func__) == DLOCK_OK);
    AWAIT(world_try("free-in-order-2") == DLOCK_OK);
}

/* ---- closing under load ---- */

static void *work(void *arg)
{
    dlock_lock *lock = arg;
    intptr_t strange = 0;
    for (unsigned i = 0;; i++) {
        DLOCK_AUTO(dlock_hold) hold = NULL;
        DLOCK_AUTO(dlock_op) op = NULL;
        dlock_err code;
        if (i % 3) {
            code = dlock_lock_acquire(lock, DLOCK_FOREVER, &hold, NULL);
        } else {
            op = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
            strange += dlock_op_wait(op, DLOCK_FOREVER) != DLOCK_OK;
            code = dlock_op_result(op);
        }
        if (code == DLOCK_ECLOSED)
            return (void *)strange;
        strange += code != DLOCK_OK;
        if (hold && i % 2) {
            code = dlock_hold_release(hold, NULL);
            strange += code != DLOCK_OK && code != DLOCK_ENOTHELD &&
                       code != DLOCK_EUNKNOWN && code != DLOCK_ECLOSED;
        }
    }
}

TEST(closing_while_threads_work_ends_their_work_and_nothing_else)
{
    BEGIN();
    for (int round = 0; round < 40; round++) {
        CLIENT_WITH_LOCK(client, lock, __func__, NULL);
        pthread_t threads[3];
        intptr_t strange = 0;
        for (int i = 0; i < 3; i++)
            CHECK(pthread_create(&threads[i], NULL, work, lock) == 0);
        int64_t enough = 3 * (round % 8);
        while (api_stat(client, "grants") < enough)
            nap_ms(1);
        dlock_err code = dlock_client_close(client, NULL);
        for (int i = 0; i < 3; i++) {
            void *found;
            pthread_join(threads[i], &found);
            strange += (intptr_t)found;
        }
        CHECK_EQ_INT(strange, 0);
        CHECK_EQ_INT(code, DLOCK_OK);
        CHECK_EQ_INT(world_try(__func__), DLOCK_OK);
    }
}

TEST(a_close_that_nobody_answers_ends_in_close_ms_and_says_unknown)
{
    BEGIN();
    if (!world_is("redis"))
        LEAVE_OUT("the table always answers");
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(client, lock, hold, __func__, "client.close_ms=100");
    server_freeze(world_redis()->pid);
    int64_t begin = now_ms();
    dlock_err code = dlock_client_close(client, &err);
    int64_t took = now_ms() - begin;
    server_thaw(world_redis()->pid);
    CHECK_ERR(code, DLOCK_EUNKNOWN, err);
    CHECK(took >= 99 && took < patience_ms());
    CHECK_EQ_INT(dlock_client_close(client, NULL), DLOCK_EUNKNOWN);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_ENOTHELD);
}

TEST(a_close_that_is_cancelled_goes_on_by_itself)
{
    BEGIN();
    if (!world_is("redis"))
        LEAVE_OUT("the table always answers");
    DLOCK_AUTO(dlock_client)
    client = world_client_of(3600000, "client.close_ms=60000");
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, __func__, NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    server_freeze(world_redis()->pid);
    DLOCK_AUTO(dlock_op) op = dlock_client_close_start(client);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_EPENDING);
    dlock_op_cancel(op);
    dlock_err code = dlock_op_wait(op, patience_ms());
    server_thaw(world_redis()->pid);
    CHECK_EQ_INT(code, DLOCK_OK);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_ECANCELED);
    AWAIT(world_try(__func__) == DLOCK_OK);
}
