/* What is tortured: short stories through the public API, each of which must end well, or with a
 * clear error at every step, whatever fails on the way. `SAYS(expected, others, call)`: without a
 * fault the answer is the first, with one it may also be one of the others. */
#include "scenarios.h"
#include "faults.h"
#include "steps.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* ---- the stories ---- */

static void open_and_close(stage *s)
{
    dlock_client *client = open_at(s, s->world->fresh);
    if (!client)
        return;
    dlock_info *info = NULL;
    HOLDS(dlock_client_uri(client)[0] != '\0');
    SAYS(DLOCK_OK, OPEN_ERRORS, dlock_client_connect(client, &s->err));
    if (SAYS(DLOCK_OK, MEM_ERRORS, dlock_client_features(client, &info, &s->err)))
        read_info(s, info);
    if (SAYS(DLOCK_OK, MEM_ERRORS, dlock_client_settings(client, &info, &s->err)))
        read_info(s, info);
    if (SAYS(DLOCK_OK, MEM_ERRORS, dlock_client_stats(client, &info, &s->err)))
        read_info(s, info);
    char *text = NULL;
    if (SAYS(DLOCK_OK, MEM_ERRORS, dlock_client_metrics(NULL, &text, &s->err)))
        dlock_text_free(text);
    close_client(s, client);
}

/* Nothing is sent, so it is short; what it has is all there, or it isn't made. */
static void opened(stage *s)
{
    dlock_client *client = open_at(s, "mem:x?client.lazy=true&client.name=n");
    if (!client)
        return;
    const char *uri = dlock_client_uri(client);
    HOLDS(uri && strncmp(uri, "mem:x", 5) == 0);
    dlock_client_free(client);
}

static void acquire_and_release(stage *s)
{
    dlock_client *client = open_client(s);
    dlock_lock *lock = make_lock(s, client);
    dlock_hold *hold = acquire(s, lock), *again = hold ? acquire(s, lock) : NULL;
    if (hold) {
        SAYS(DLOCK_OK, BIT(DLOCK_ELOST),
             dlock_hold_check(hold) == DLOCK_OK ? DLOCK_OK
                                                : dlock_hold_verify(hold, &s->err));
        const char *owner = dlock_hold_owner(hold);
        HOLDS(strchr(owner, ':') || (!owner[0] && fault_look()->struck > 0));
        HOLDS(strcmp(dlock_hold_name(hold), s->world->name) == 0);
    }
    if (again)
        HOLDS(dlock_hold_token(again) == dlock_hold_token(hold));
    give_back(s, again);
    give_back(s, hold);
    hold = NULL;
    if (client && SAYS(DLOCK_OK, ACQUIRE_ERRORS,
                       dlock_acquire(client, s->world->name, LONG_MS, &hold, &s->err)))
        give_back(s, hold);
    dlock_lock_free(lock);
    close_client(s, client);
}

static void contended_acquire_with_a_time_out(stage *s)
{
    pair two = {0};
    dlock_hold *hold = open_pair(s, &two) ? acquire(s, two.lock[0]) : NULL, *other = NULL;
    if (hold) {
        const uint32_t won = OK | ACQUIRE_ERRORS; /* the holder may have lost it */
        if (SAYS(DLOCK_EBUSY, won, dlock_lock_acquire(two.lock[1], 0, &other, &s->err)))
            give_back(s, other);
        if (SAYS(DLOCK_ETIMEDOUT, won,
                 dlock_lock_acquire(two.lock[1], SHORT_MS, &other, &s->err)))
            give_back(s, other);
        SAYS(DLOCK_ETIMEDOUT, won, dlock_lock_wait_idle(two.lock[1], SHORT_MS, &s->err));
    }
    give_back(s, hold);
    if (hold)
        SAYS(DLOCK_OK, ACQUIRE_ERRORS | BIT(DLOCK_EBUSY),
             dlock_lock_wait_idle(two.lock[1], LONG_MS, &s->err));
    close_pair(s, &two);
}

/* Without an error object: that there is an answer is all it needs. */
static void *release_soon(void *hold)
{
    nap_ms(3);
    return (void *)(intptr_t)dlock_hold_release(hold, NULL);
}

/* Takes what the ops get, in whatever order they get it, and gives it back. */
static void take_turns(stage *s, dlock_op *ops[], int count)
{
    for (int i = 0; i < count; i++) {
        int next = 0;
        int64_t until = now_ms() + 2 * LONG_MS;
        while (now_ms() < until) {
            for (next = 0; next < count; next++)
                if (ops[next] && dlock_op_wait(ops[next], 1) == DLOCK_OK)
                    break;
            if (next < count)
                break;
        }
        HOLDS(next < count);
        if (next == count)
            return;
        FINISHES(DLOCK_OK, ACQUIRE_ERRORS, ops[next]);
        give_back(s, dlock_op_take_hold(ops[next]));
        dlock_op_free(ops[next]);
        ops[next] = NULL;
    }
}

static void queue_and_hand_over(stage *s)
{
    pair two = {0};
    pthread_t releaser;
    bool open = open_pair(s, &two);
    dlock_hold *hold = open ? acquire(s, two.lock[0]) : NULL;
    if (hold) {
        void *code = NULL;
        HOLDS(pthread_create(&releaser, NULL, release_soon, hold) == 0);
        give_back(s, acquire(s, two.lock[1]));
        (void)pthread_join(releaser, &code); /* ours */
        s->unsure |= (intptr_t)code == DLOCK_EUNKNOWN;
    }
    dlock_hold_free(hold);
    hold = open ? acquire(s, two.lock[0]) : NULL;
    if (hold) {
        dlock_op *ops[4];
        for (int i = 0; i < 4; i++)
            ops[i] = dlock_lock_acquire_start(two.lock[i % 2], LONG_MS);
        give_back(s, hold);
        take_turns(s, ops, 4);
        for (int i = 0; i < 4; i++)
            dlock_op_free(ops[i]);
    }
    close_pair(s, &two);
}

static void quiet(void *user, dlock_level level, const char *line)
{
    stage *s = user;
    HOLDS(level >= DLOCK_LOG_ERROR && line[0] != '\0');
}

static void op_with_an_event(stage *s)
{
    dlock_conf *conf = dlock_conf_new();
    dlock_client *client = NULL;
    if (conf) {
        SAYS(DLOCK_OK, 0, dlock_conf_set_log(conf, quiet, s));
        SAYS(DLOCK_OK, MEM_ERRORS,
             dlock_conf_set(conf, "client.log_level", "debug", &s->err));
        SAYS(DLOCK_OK, OPEN_ERRORS,
             dlock_client_open(s->world->uri, conf, &client, &s->err));
    }
    HOLDS(conf || !s->baseline);
    dlock_conf_free(conf);
    int fd = dlock_client_event_fd(client);
    dlock_lock *lock = make_lock(s, client);
    dlock_op *op = lock ? dlock_lock_acquire_start(lock, LONG_MS) : NULL;
    if (op) {
        dlock_err code = dlock_op_notify(op, 7);
        if (code == DLOCK_EPENDING)
            await_event(s, client, fd, 7);
        else
            HOLDS(code == DLOCK_OK || !s->baseline);
        FINISHES(DLOCK_OK, ACQUIRE_ERRORS, op);
        give_back(s, dlock_op_take_hold(op));
    }
    dlock_op_free(op);
    op = lock ? dlock_lock_acquire_start(lock, LONG_MS) : NULL;
    if (op)
        FINISHES(DLOCK_OK, ACQUIRE_ERRORS, op);
    dlock_op_free(op); /* and with it the hold that nobody took */
    dlock_lock_free(lock);
    close_client(s, client);
}

static void cancelled(stage *s)
{
    pair two = {0};
    dlock_hold *hold = open_pair(s, &two) ? acquire(s, two.lock[0]) : NULL;
    dlock_op *op = hold ? dlock_lock_acquire_start(two.lock[1], DLOCK_FOREVER) : NULL;
    dlock_op *idle = hold ? dlock_lock_wait_idle_start(two.lock[1], DLOCK_FOREVER) : NULL;
    dlock_op *dropped = hold ? dlock_lock_acquire_start(two.lock[1], LONG_MS) : NULL;
    if (hold) {
        nap_ms(2);
        dlock_op_cancel(op);
        dlock_op_cancel(idle);
        FINISHES(DLOCK_ECANCELED, OK | ACQUIRE_ERRORS, op);
        FINISHES(DLOCK_ECANCELED, OK | ACQUIRE_ERRORS, idle);
    }
    dlock_op_free(op);
    dlock_op_free(idle);
    dlock_op_free(dropped);
    give_back(s, hold);
    if (two.lock[1] && hold)
        give_back(s, acquire(s, two.lock[1]));
    close_pair(s, &two);
}

static void renewed(stage *s)
{
    dlock_client *client = open_client(s);
    dlock_lock *lock = make_lock(s, client);
    dlock_hold *hold = acquire(s, lock);
    if (hold) {
        SAYS(DLOCK_OK, BIT(DLOCK_ELOST) | ASK_ERRORS,
             dlock_hold_extend(hold, s->world->ttl_ms / 2, &s->err));
        int64_t until = now_ms() + s->world->ttl_ms + 50;
        while (now_ms() < until && dlock_hold_check(hold) == DLOCK_OK)
            nap_ms(5);
        SAYS(DLOCK_OK, BIT(DLOCK_ELOST) | ASK_ERRORS, dlock_hold_verify(hold, &s->err));
    }
    give_back(s, hold);
    dlock_lock_free(lock);
    close_client(s, client);
}

static void lost(stage *s)
{
    pair two = {0};
    dlock_hold *hold = open_pair(s, &two) ? acquire(s, two.lock[0]) : NULL;
    int fd = dlock_client_event_fd(two.client[0]);
    if (hold)
        lose(s, &two, fd, hold);
    dlock_hold_free(hold);
    close_pair(s, &two);
}

typedef struct work {
    int prepared, ran, committed, undone, lost;
} work;

static dlock_err prepare_it(void *user)
{
    ((work *)user)->prepared++;
    return DLOCK_OK;
}

static dlock_err run_it(void *user)
{
    ((work *)user)->ran++;
    return DLOCK_OK;
}

static dlock_err commit_it(void *user, int64_t token)
{
    ((work *)user)->committed++;
    return token > 0 ? DLOCK_OK : DLOCK_EUSER;
}

static dlock_err refuse_it(void *user, int64_t token)
{
    (void)token;
    ((work *)user)->committed++;
    return DLOCK_EUSER;
}

static void undo_it(void *user)
{
    ((work *)user)->undone++;
}

static void lose_it(void *user)
{
    ((work *)user)->lost++;
}

static void guarded(stage *s)
{
    dlock_client *client = open_client(s);
    dlock_lock *lock = make_lock(s, client);
    dlock_hold *hold = acquire(s, lock);
    dlock_guarded steps = {.size = sizeof(steps),
                           .prepare = prepare_it,
                           .run = run_it,
                           .commit = commit_it,
                           .undo = undo_it,
                           .lost = lose_it};
    work done = {0}, refused = {0};
    if (hold) {
        bool fine = SAYS(DLOCK_OK, BIT(DLOCK_ELOST) | MEM_ERRORS,
                         dlock_hold_guard(hold, &steps, &done, &s->err));
        HOLDS(!fine || (done.committed == 1 && done.undone == 0 && done.lost == 0));
        steps.commit = refuse_it;
        SAYS(DLOCK_EUSER, BIT(DLOCK_ELOST) | MEM_ERRORS,
             dlock_hold_guard(hold, &steps, &refused, &s->err));
        HOLDS(refused.undone == refused.ran);
    }
    give_back(s, hold);
    dlock_lock_free(lock);
    close_client(s, client);
}

static void looked_at(stage *s)
{
    pair two = {0};
    dlock_hold *hold = open_pair(s, &two) ? acquire(s, two.lock[0]) : NULL;
    dlock_op *waiter = hold ? dlock_lock_acquire_start(two.lock[0], LONG_MS) : NULL;
    dlock_info *info = NULL;
    if (hold) {
        if (SAYS(DLOCK_OK, ASK_ERRORS, dlock_lock_inspect(two.lock[1], &info, &s->err)))
            read_info(s, info);
        if (SAYS(DLOCK_OK, ASK_ERRORS,
                 dlock_client_list(two.client[1], "wheel/", 10, &info, &s->err)))
            read_info(s, info);
        if (SAYS(DLOCK_OK, ASK_ERRORS,
                 dlock_client_doctor(two.client[1], &info, &s->err)))
            read_info(s, info);
        if (SAYS(DLOCK_OK, MEM_ERRORS, dlock_client_stats(two.client[0], &info, &s->err)))
            read_info(s, info);
        SAYS(DLOCK_ENOTHELD, ASK_ERRORS,
             dlock_lock_break(two.lock[1], "somebody else", &s->err));
    }
    give_back(s, hold);
    if (waiter) {
        FINISHES(DLOCK_OK, ACQUIRE_ERRORS, waiter);
        give_back(s, dlock_op_take_hold(waiter));
    }
    dlock_op_free(waiter);
    close_pair(s, &two);
}

/* Settings and URIs, good and bad ones; nothing is sent. */
static void set_up(stage *s)
{
    static const struct {
        const char *uri;
        dlock_err code;
    } uris[] = {
        {"mem:x?client.lazy=true&lock.ttl_ms=1000&client.prefix=p%3a", DLOCK_OK},
        {"redis://user:pass%20word@[::1]:7000/2?client.lazy=on&client.name=n", DLOCK_OK},
        {"redis://h?client.lazy=1&auth.password=x", DLOCK_OK},
        {"mem:x?lock.ttl=1", DLOCK_EINVAL},
        {"mem:x?lock.ttl_ms=1", DLOCK_EINVAL},
        {"redis://a,b?client.lazy=true", DLOCK_EINVAL},
        {"nowhere://h", DLOCK_ENOTSUP},
        {"%zz", DLOCK_EINVAL},
        {"mem:x?client.require=correctness&client.lazy=true", DLOCK_OK},
    };
    dlock_conf *conf = dlock_conf_new();
    dlock_info *info = NULL;
    HOLDS(conf || !s->baseline);
    if (conf) {
        SAYS(DLOCK_OK, MEM_ERRORS,
             dlock_conf_set(conf, "client.prefix", "torture/", &s->err));
        SAYS(DLOCK_OK, MEM_ERRORS,
             dlock_conf_set_int(conf, "lock.ttl_ms", 5000, &s->err));
        SAYS(DLOCK_OK, MEM_ERRORS,
             dlock_conf_set(conf, "auth.password", "secret", &s->err));
        SAYS(DLOCK_OK, MEM_ERRORS, dlock_conf_set(conf, "client.prefix", NULL, &s->err));
        SAYS(DLOCK_EINVAL, MEM_ERRORS, dlock_conf_set(conf, "lock.tll_ms", "1", &s->err));
        SAYS(DLOCK_EINVAL, MEM_ERRORS,
             dlock_conf_set(conf, "lock.renew", "never", &s->err));
        if (SAYS(DLOCK_OK, MEM_ERRORS, dlock_conf_dump(conf, &info, &s->err)))
            read_info(s, info);
    }
    for (size_t i = 0; i < sizeof(uris) / sizeof(*uris); i++) {
        dlock_client *client = NULL;
        SAYS(uris[i].code, OPEN_ERRORS,
             dlock_client_open(uris[i].uri, NULL, &client, &s->err));
        dlock_client_free(client);
    }
    dlock_conf_free(conf);
}

/* The password is read when the client connects; this server has none, and says so. */
static void password_from_a_file(stage *s)
{
    dlock_conf *conf = dlock_conf_new();
    dlock_client *client = NULL;
    HOLDS(conf || !s->baseline);
    if (!conf)
        return;
    SAYS(DLOCK_OK, MEM_ERRORS,
         dlock_conf_set(conf, "auth.password_file", "/proc/self/comm", &s->err));
    SAYS(DLOCK_EACCES, OK | OPEN_ERRORS,
         dlock_client_open(s->world->uri, conf, &client, &s->err));
    dlock_client_free(client);
    dlock_conf_free(conf);
}

#define MANY 40

/* More names, holds and waiters than what is set aside for. */
static void many(stage *s)
{
    dlock_client *client = open_client(s);
    dlock_lock *locks[MANY] = {NULL};
    dlock_hold *holds[MANY] = {NULL};
    dlock_op *ops[MANY] = {NULL};
    for (int i = 0; client && i < MANY; i++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "%s/%d", s->world->name, i % 12); /* it fits */
        SAYS(DLOCK_OK, MEM_ERRORS,
             dlock_lock_new(client, DLOCK_MUTEX, name, NULL, &locks[i], &s->err));
        if (locks[i] && i < 12 &&
            (i == 0 || holds[i - 1])) /* each failure may take long */
            SAYS(DLOCK_OK, ACQUIRE_ERRORS | BIT(DLOCK_EBUSY),
                 dlock_lock_acquire(locks[i], LONG_MS, &holds[i], &s->err));
        else if (locks[i] && i >= 12)
            ops[i] = dlock_lock_acquire_start(locks[i], DLOCK_FOREVER);
    }
    for (int i = 0; i < MANY; i++)
        dlock_op_cancel(ops[i]);
    for (int i = 0; i < MANY; i++) {
        if (ops[i])
            FINISHES(DLOCK_ECANCELED, OK | ACQUIRE_ERRORS, ops[i]);
        dlock_op_free(ops[i]);
        give_back(s, holds[i]);
        dlock_lock_free(locks[i]);
    }
    close_client(s, client);
}

/* A client is closed and freed before all that came from it. */
static void closed_early(stage *s)
{
    pair two = {0};
    dlock_hold *hold = open_pair(s, &two) ? acquire(s, two.lock[0]) : NULL;
    dlock_op *op = hold ? dlock_lock_acquire_start(two.lock[1], LONG_MS) : NULL;
    dlock_op *look = hold ? dlock_lock_inspect_start(two.lock[0]) : NULL;
    const uint32_t over = OK | ACQUIRE_ERRORS | BIT(DLOCK_ECLOSED);
    if (two.client[0]) {
        dlock_op *closing = dlock_client_close_start(two.client[0]);
        if (!FINISHES(DLOCK_OK, CLOSE_ERRORS, closing))
            s->unsure = true;
        dlock_op_free(closing);
    }
    if (look) { /* either may be first */
        bool too_late = dlock_op_wait(look, LONG_MS) == DLOCK_OK &&
                        dlock_op_result(look) == DLOCK_ECLOSED;
        FINISHES(too_late ? DLOCK_ECLOSED : DLOCK_OK, over, look);
    }
    if (op) {
        FINISHES(DLOCK_OK, over, op);
        give_back(s, dlock_op_take_hold(op));
    }
    close_client(s, two.client[1]);
    dlock_client_free(two.client[0]);
    if (hold)
        HOLDS(dlock_hold_check(hold) == DLOCK_ENOTHELD ||
              dlock_hold_check(hold) == DLOCK_ELOST);
    dlock_op_free(op);
    dlock_op_free(look);
    dlock_hold_free(hold);
    for (int i = 0; i < 2; i++)
        dlock_lock_free(two.lock[i]);
}

const scenario scenarios[] = {
    {"open_and_close", ON_ALL, open_and_close},
    {"opened", ON_MEM, opened},
    {"acquire_and_release", ON_ALL, acquire_and_release},
    {"contended_acquire_with_a_time_out", ON_ALL, contended_acquire_with_a_time_out},
    {"queue_and_hand_over", ON_ALL, queue_and_hand_over},
    {"op_with_an_event", ON_ALL, op_with_an_event},
    {"cancelled", ON_ALL, cancelled},
    {"renewed", ON_ALL, renewed},
    {"lost", ON_ALL, lost},
    {"guarded", ON_ALL, guarded},
    {"looked_at", ON_ALL, looked_at},
    {"many", ON_ALL, many},
    {"closed_early", ON_ALL, closed_early},
    {"forked", ON_ALL, scenario_forked},
    {"several_as_one", ON_ALL, scenario_several_as_one},
    {"a_member_lost", ON_ALL, scenario_a_member_lost},
    {"handed_on", ON_ALL, scenario_handed_on},
    {"elected", ON_ALL, scenario_elected},
    {"read_and_written", ON_REDIS, scenario_read_and_written},
    {"permits", ON_REDIS, scenario_permits},
    {"revoked", ON_ALL, scenario_revoked},
    {"signalled", ON_MEM | ON_FILE, scenario_signalled},
    {"set_up", ON_MEM, set_up},
    {"password_from_a_file", ON_REDIS, password_from_a_file},
    {NULL, 0, NULL},
};
