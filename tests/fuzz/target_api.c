/* The public API, driven by the input: clients, handles, holds, operations, three threads, bad
 * arguments, releases twice over, calls after close, callbacks that call again. A small model
 * says what each answer may be, who may hold what, and what becomes of tokens and events. */
#include "api_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char fuzz_name[] = "api";
const size_t fuzz_longest = 100;
const char *const fuzz_words[] = {"\x01\x01", "\x02\x01", "\x03", "\x04",     "\x05",
                                  "\x06\x01", "\x07",     "\x08", "\x09\x01", "\x0a",
                                  "\x0b",     "\x0c",     "\x0d", "\x10",     "\x12",
                                  "\x13\x01", NULL};

#define A_WHILE                                                                          \
    10000 /* ms for what must come at once: far more than a slow machine needs */
#define STEPS 32
#define A_WHILE                                                                          \
    10000 /* ms for what must come at once: far more than a slow machine needs */

/* ---- holds ---- */

static void free_hold(hold *it)
{
    TELL("free hold of token %lld\n", (long long)it->token);
    if (!it->released)
        it->of->holds--;
    dlock_hold_free(it->hold);
    *it = (hold){0};
    catch_up();
}

static void release(hold *it)
{
    dlock_error *err = NULL;
    bool was_over = it->released, last = it->of->holds == 1;
    dlock_err code = dlock_hold_release(it->hold, &err);
    TELL("release hold of token %lld: %s\n", (long long)it->token, dlock_errname(code));
    if (was_over)
        FUZZ_CHECK(code == DLOCK_ENOTHELD || code == DLOCK_ECLOSED, "released twice: %s",
                   dlock_errname(code));
    else if (it->of->broken)
        FUZZ_CHECK(code == DLOCK_OK || code == DLOCK_ELOST, "broken, released: %s",
                   dlock_errname(code));
    else
        FUZZ_CHECK(code == DLOCK_OK, "%s release: %s", last ? "the last" : "a",
                   dlock_error_text(err));
    check_error(code, err);
    it->of->holds -= !it->released;
    it->released = true;
}

/* Questions about a hold, and what lengthens it. */
static void ask_hold(hold *it, uint8_t what)
{
    static const int64_t ttls[] = {0, 99, 100, 60000, -1, INT64_MAX, 2592000000};
    dlock_error *err = NULL;
    dlock_err code, fine = it->released ? DLOCK_ENOTHELD : DLOCK_OK;
    int64_t ttl = ttls[what / 4 % 7];
    switch (what % 4) {
    case 0:
        code = dlock_hold_verify(it->hold, &err);
        break;
    case 1:
        code = dlock_hold_extend(it->hold, ttl, &err);
        if (ttl < 100 || ttl > 2592000000)
            fine = DLOCK_EINVAL;
        break;
    case 2:
        code = dlock_hold_feed(it->hold);
        break;
    default:
        code = dlock_hold_notify(it->hold, ++world.last_tag);
        if (code == DLOCK_OK)
            it->tag = world.last_tag;
        break;
    }
    bool lost = it->of->broken && code == DLOCK_ELOST;
    FUZZ_CHECK(code == fine || lost || (it->released && code == DLOCK_ECLOSED),
               "%d: %s, not %s", what % 4, dlock_errname(code), dlock_errname(fine));
    if (what % 4 > 1)
        return;
    check_error(code, err);
    if (what % 4 == 0 && !it->released && it->of->gone)
        FUZZ_CHECK(code == DLOCK_ELOST, "an operator took it, and verify says %s",
                   dlock_errname(code));
}

/* ---- acquiring ---- */

typedef struct acquire {
    dlock_lock *lock;
    int64_t wait_ms;
    dlock_hold *hold;
    dlock_error *err;
    dlock_err code;
    dlock_op *op;
} acquire;

static void do_acquire(void *with)
{
    acquire *it = with;
    it->code = dlock_lock_acquire(it->lock, it->wait_ms, &it->hold, &it->err);
}

static void do_acquire_start(void *with)
{
    acquire *it = with;
    it->op = dlock_lock_acquire_start(it->lock, it->wait_ms);
}

static void acquire_now(lock *with)
{
    uint8_t how = next();
    int thread = how % THREADS;
    acquire call = {.lock = with->lock, .wait_ms = how & 0x80 ? 1 : how == 0x7f ? -2 : 0};
    op by = {.client = with->client,
             .name = with->name,
             .thread = with->how == BY_NOBODY ? -1 : thread,
             .how = with->how};
    dlock_err expected;
    bool known = model_acquire(&world.model, with, by.thread, call.wait_ms, &expected);
    on_thread(thread, do_acquire, &call);
    TELL("client %d, thread %d: acquire %c (handle %d), wait %lld: %s\n", with->client,
         thread, 'a' + with->name, (int)with->how, (long long)call.wait_ms,
         dlock_errname(call.code));
    if (call.wait_ms == -2)
        FUZZ_CHECK(call.code == DLOCK_EINVAL, "a wait of -2: %s",
                   dlock_errname(call.code));
    else if (known)
        FUZZ_CHECK(call.code == expected, "acquire: %s, expected %s (%s)",
                   dlock_errname(call.code), dlock_errname(expected),
                   dlock_error_text(call.err));
    FUZZ_CHECK((call.code == DLOCK_OK) == (call.hold != NULL),
               "a hold comes with success alone");
    check_error(call.code, call.err);
    if (call.hold)
        keep_hold(call.hold, &by);
}

static void acquire_later(lock *with)
{
    static const int64_t waits[] = {0, DLOCK_FOREVER, DLOCK_FOREVER, 1, -2, 100000};
    uint8_t how = next();
    op *into = free_op();
    if (!into)
        return;
    acquire call = {.lock = with->lock, .wait_ms = waits[how / THREADS % 6]};
    int thread = how % THREADS;
    op by = {.client = with->client,
             .name = with->name,
             .thread = with->how == BY_THREAD ? thread : -1,
             .how = with->how};
    dlock_err expected;
    bool known = model_acquire(&world.model, with, by.thread, call.wait_ms, &expected);
    on_thread(thread, do_acquire_start, &call);
    TELL("client %d, thread %d: op %d acquires %c (handle %d), wait %lld\n", with->client,
         thread, (int)(into - world.model.ops), 'a' + with->name, (int)with->how,
         (long long)call.wait_ms);
    by.op = call.op;
    *into = by;
    bool at_once =
        call.wait_ms == 0 || call.wait_ms == -2 || (known && expected == DLOCK_OK);
    if (!at_once)
        return;
    FUZZ_CHECK(dlock_op_wait(call.op, A_WHILE) == DLOCK_OK,
               "an op that must end doesn't");
    dlock_err code = dlock_op_result(call.op);
    if (call.wait_ms == -2)
        FUZZ_CHECK(code == DLOCK_EINVAL, "a wait of -2: %s", dlock_errname(code));
    else if (known)
        FUZZ_CHECK(code == expected, "acquire_start: %s, expected %s",
                   dlock_errname(code), dlock_errname(expected));
}

/* ---- ops ---- */

/* Looks at an op; takes its hold, now and then not. */
static void look_at(op *it)
{
    dlock_err code = dlock_op_result(it->op);
    if (it->over) {
        FUZZ_CHECK(code == it->result, "a result changes");
        return;
    }
    if (code == DLOCK_EPENDING)
        return;
    it->over = true;
    it->result = code;
    TELL("    op %d ends: %s\n", (int)(it - world.model.ops), dlock_errname(code));
    FUZZ_CHECK((code == DLOCK_OK) == !dlock_op_error(it->op), "%s and its error",
               dlock_errname(code));
    if (code != DLOCK_OK || it->name < 0) {
        FUZZ_CHECK(!dlock_op_take_hold(it->op), "a hold without success");
        dlock_info *info = dlock_op_take_info(it->op);
        if (info)
            fuzz_check_json(dlock_info_json(info));
        dlock_info_free(info);
        return;
    }
    it->untaken = next() % 8 == 7 && it->thread < 0; /* so that nobody enters it again */
    if (it->untaken || world.model.closed[it->client])
        return;
    dlock_hold *got = dlock_op_take_hold(it->op);
    FUZZ_CHECK(got && !dlock_op_take_hold(it->op), "a hold is taken once");
    keep_hold(got, it);
}

static void drop_op(op *it)
{
    dlock_op_free(it->op);
    *it = (op){0};
    catch_up();
}

static void use_op(op *it)
{
    static const char *const what_else[] = {"free", "cancel", "notify", "wait"};
    uint8_t what = next();
    TELL("%s op %d\n", what_else[what % 4], (int)(it - world.model.ops));
    if (what % 4 == 0) {
        drop_op(it);
    } else if (what % 4 == 1) {
        dlock_op_cancel(it->op);
        FUZZ_CHECK(dlock_op_wait(it->op, A_WHILE) == DLOCK_OK,
                   "a cancelled op doesn't end");
    } else if (what % 4 == 2 && it->tag == 0) {
        dlock_err code = dlock_op_notify(it->op, ++world.last_tag);
        if (code == DLOCK_EPENDING)
            it->tag = world.last_tag;
        else
            FUZZ_CHECK(code == DLOCK_OK, "notify: %s", dlock_errname(code));
    } else {
        dlock_err code = dlock_op_wait(it->op, what & 0x80 ? 1 : what & 0x40 ? -2 : 0);
        FUZZ_CHECK(code == DLOCK_OK || code == DLOCK_EPENDING || (what & 0x40),
                   "wait: %s", dlock_errname(code));
    }
}

/* Releases, verifies, inspects … as ops, which are left to be looked at. */
static void start_something(void)
{
    uint8_t what = next();
    op *into = free_op();
    lock *with = some_lock();
    hold *of = some_hold();
    if (!into || !with || !of)
        return;
    dlock_op *made;
    TELL("op %d: %d of hold %lld, lock %c\n", (int)(into - world.model.ops), what % 6,
         (long long)of->token, 'a' + with->name);
    switch (what % 6) {
    case 0:
        of->of->holds -= !of->released;
        of->released = true;
        made = dlock_hold_release_start(of->hold);
        break;
    case 1:
        made = dlock_hold_verify_start(of->hold);
        break;
    case 2:
        made = dlock_lock_inspect_start(with->lock);
        break;
    case 3:
        made = dlock_lock_wait_idle_start(with->lock, what & 0x80 ? DLOCK_FOREVER : 0);
        break;
    case 4:
        made = dlock_client_list_start(world.clients[with->client], NULL, what / 6);
        break;
    default:
        made = dlock_hold_extend_start(of->hold, what * 1000);
        break;
    }
    *into = (op){.op = made, .client = with->client, .name = -1};
}

/* ---- asking about locks ---- */

static void inspect(lock *with)
{
    dlock_info *info = NULL;
    dlock_error *err = NULL;
    bool certain;
    const grant *holder = model_holder(&world.model, with->name, &certain);
    dlock_err code = dlock_lock_inspect(with->lock, &info, &err);
    bool closed = world.model.closed[with->client];
    FUZZ_CHECK(code == (closed ? DLOCK_ECLOSED : DLOCK_OK), "inspect: %s",
               dlock_error_text(err));
    if (info && certain) {
        const char *held = dlock_info_get(info, "held");
        FUZZ_CHECK(held[0] == (holder ? '1' : '0'), "held is %s", held);
        const char *token = dlock_info_get(info, "holders.0.token");
        FUZZ_CHECK(!holder || strtoll(token, NULL, 10) == holder->token,
                   "its token is %s", token);
    }
    check_error(code, err);
    check_info(code, info);
}

static const char *owner_of(const grant *of)
{
    for (int i = 0; i < HOLDS; i++) {
        const hold *it = &world.model.holds[i];
        if (of && it->hold && !it->released && it->of == of)
            return dlock_hold_owner(it->hold);
    }
    return NULL;
}

static void break_lock(lock *with)
{
    uint8_t what = next();
    bool certain;
    dlock_error *err = NULL;
    grant *holder = model_holder(&world.model, with->name, &certain);
    char owner[128] = "nobody:1";
    const char *whose = owner_of(holder);
    if (what % 2 && whose)
        (void)snprintf(owner, sizeof(owner), "%s", whose);
    dlock_err code = dlock_lock_break(with->lock,
                                      what & 4   ? NULL
                                      : what & 8 ? ""
                                                 : owner,
                                      &err);
    bool named = what & 4 || (what % 2 && whose && !(what & 8));
    if (world.model.closed[with->client])
        FUZZ_CHECK(code == DLOCK_ECLOSED || code == DLOCK_ENOTHELD, "%s",
                   dlock_errname(code));
    else if (certain)
        FUZZ_CHECK(code == (holder && named ? DLOCK_OK : DLOCK_ENOTHELD), "break: %s",
                   dlock_errname(code));
    TELL("client %d: break %c: %s\n", with->client, 'a' + with->name,
         dlock_errname(code));
    check_error(code, err);
    if (code != DLOCK_OK)
        return;
    if (holder)
        holder->broken = holder->gone = true;
    for (int i = 0; i < OPS; i++)
        if (world.model.ops[i].name == with->name)
            world.model.ops[i].may_be_broken = true;
}

static void wait_idle(lock *with)
{
    bool certain;
    dlock_error *err = NULL;
    const grant *holder = model_holder(&world.model, with->name, &certain);
    dlock_err code = dlock_lock_wait_idle(with->lock, 0, &err);
    if (world.model.closed[with->client])
        FUZZ_CHECK(code == DLOCK_ECLOSED, "wait_idle: %s", dlock_errname(code));
    else if (certain)
        FUZZ_CHECK(code == (holder ? DLOCK_EBUSY : DLOCK_OK), "wait_idle: %s",
                   dlock_errname(code));
    check_error(code, err);
}

/* ---- the guarded operation ---- */

typedef struct guarding {
    hold *of;
    uint8_t plan; /* what the callbacks do and answer */
    int runs, commits, undos, losses;
    int64_t token;
} guarding;

/* Calls the library again from inside. */
static void call_again(guarding *it)
{
    if (it->plan & 1)
        it->losses += dlock_hold_check(it->of->hold) == DLOCK_EINVAL; /* which can't be */
    if (it->plan & 2)
        ask_hold(it->of, it->plan);
    if (it->plan & 4)
        release(it->of);
}

static dlock_err on_run(void *user)
{
    guarding *it = user;
    it->runs++;
    call_again(it);
    return it->plan & 8 ? DLOCK_EUSER : DLOCK_OK;
}

static dlock_err on_commit(void *user, int64_t token)
{
    guarding *it = user;
    it->commits++;
    it->token = token;
    return it->plan & 16 ? DLOCK_ELOST : it->plan & 32 ? DLOCK_EBUSY : DLOCK_OK;
}

static void on_undo(void *user)
{
    ((guarding *)user)->undos++;
}

static void on_lost(void *user)
{
    ((guarding *)user)->losses++;
}

static void guard(hold *of)
{
    guarding it = {.of = of, .plan = next()};
    dlock_error *err = NULL;
    dlock_guarded table = {.size = it.plan & 64 ? sizeof(table) : 3 * sizeof(void *),
                           .run = on_run,
                           .commit = on_commit,
                           .undo = on_undo,
                           .lost = on_lost};
    bool was_over = of->released;
    dlock_err code = dlock_hold_guard(of->hold, &table, &it, &err);
    bool whole = (it.plan & 64) != 0;
    FUZZ_CHECK(whole || code == DLOCK_EINVAL, "a table without commit: %s",
               dlock_errname(code));
    FUZZ_CHECK(it.commits <= it.runs && it.runs <= 1, "run %d, commit %d times", it.runs,
               it.commits);
    FUZZ_CHECK(it.losses == (code == DLOCK_ELOST), "lost is called %d times", it.losses);
    FUZZ_CHECK(!it.commits || it.token == of->token, "commit gets another token");
    if (code == DLOCK_OK)
        FUZZ_CHECK(it.commits == 1 && it.undos == 0, "done, but undone");
    else if (it.runs)
        FUZZ_CHECK(it.undos == 1, "not done, not undone");
    if (was_over)
        FUZZ_CHECK(it.runs == 0, "it ran without the lock");
    check_error(code, err);
}

/* ---- clients ---- */

static void close_client(int client)
{
    dlock_error *err = NULL;
    dlock_err code = dlock_client_close(world.clients[client], &err);
    TELL("close client %d\n", client);
    FUZZ_CHECK(code == DLOCK_OK, "close: %s", dlock_error_text(err));
    world.model.closed[client] = true;
    for (int i = 0; i < HOLDS; i++) {
        hold *it = &world.model.holds[i];
        it->released |= it->hold && !it->released && it->of->client == client;
    }
    for (int i = 0; i < OPS; i++)
        if (world.model.ops[i].op && world.model.ops[i].client == client)
            FUZZ_CHECK(dlock_op_wait(world.model.ops[i].op, A_WHILE) == DLOCK_OK,
                       "an op goes on after close");
    take_events();
    FUZZ_CHECK(world.saw_closed[client], "no CLOSED event");
}

static void ask_client(int client)
{
    dlock_info *info = NULL;
    dlock_error *err = NULL;
    uint8_t what = next();
    dlock_err code;
    switch (what % 4) {
    case 0:
        code = dlock_client_list(world.clients[client], what & 8 ? "a" : NULL, what / 16,
                                 &info, &err);
        break;
    case 1:
        code = dlock_client_stats(world.clients[client], &info, &err);
        break;
    case 2:
        code = dlock_client_doctor(world.clients[client], &info, &err);
        break;
    default:
        code = dlock_client_features(world.clients[client], &info, &err);
        break;
    }
    bool closed = world.model.closed[client];
    FUZZ_CHECK(code == DLOCK_OK || (closed && code == DLOCK_ECLOSED) ||
                   (what % 4 == 0 && what < 16 && code == DLOCK_EINVAL),
               "%d: %s", what % 4, dlock_error_text(err));
    check_error(code, err);
    check_info(code, info);
}

/* ---- handles ---- */

static dlock_conf *conf_of(variant how)
{
    static const char *const settings[VARIANTS][2] = {
        [BY_NOBODY] = {"lock.owner", "none"},
        [BY_THREAD] = {"lock.owner", "thread"},
        [NOT_REENTRANT] = {"lock.reentrant", "0"},
        [LATER] = {"lock.release", "async"},
        [FED] = {"lock.renew", "fed"},
        [OTHER] = {"lock.permits", "3"}};
    if (how == PLAIN)
        return NULL;
    dlock_conf *conf = dlock_conf_new();
    if (dlock_conf_set(conf, settings[how][0], settings[how][1], NULL) != DLOCK_OK)
        abort();
    return conf;
}

static void make_lock(void)
{
    uint8_t what = next();
    lock made = {.client = what & 1,
                 .name = what / 2 % NAMES,
                 .how = (variant)(next() % VARIANTS)};
    lock *into = &world.model.locks[what % LOCKS];
    const char name[2] = {(char)('a' + made.name)};
    dlock_conf *conf = conf_of(made.how);
    dlock_lock_free(into->lock);
    *into = (lock){0};
    dlock_error *err = NULL;
    dlock_err code = dlock_lock_new(world.clients[made.client], DLOCK_MUTEX, name, conf,
                                    &made.lock, &err);
    FUZZ_CHECK(code == DLOCK_OK ||
                   (world.model.closed[made.client] && code == DLOCK_ECLOSED),
               "lock_new: %s", dlock_error_text(err));
    check_error(code, err);
    dlock_conf_free(conf);
    if (code == DLOCK_OK)
        *into = made;
}

/* What no program should do. */
static void misuse(void)
{
    uint8_t what = next();
    dlock_client *client = world.clients[what & 1];
    dlock_hold *nothing = NULL;
    dlock_lock *none = NULL;
    dlock_error *err = NULL;
    char name[1026];
    memset(name, 'n', sizeof(name));
    name[what & 2 ? sizeof(name) - 1 : 0] = '\0';
    dlock_err code =
        dlock_lock_new(client, (dlock_kind)(what >> 4), name, NULL, &none, &err);
    FUZZ_CHECK(code == DLOCK_EINVAL || code == DLOCK_ENOTSUP, "a bad name: %s",
               dlock_errname(code));
    check_error(code, err);
    FUZZ_CHECK(dlock_lock_new(NULL, DLOCK_MUTEX, "a", NULL, &none, NULL) ==
                       DLOCK_EINVAL &&
                   dlock_acquire(client, NULL, 0, &nothing, NULL) == DLOCK_EINVAL &&
                   dlock_acquire(client, "a", 0, NULL, NULL) == DLOCK_EINVAL &&
                   dlock_hold_release(NULL, NULL) == DLOCK_EINVAL &&
                   dlock_op_wait(NULL, 0) == DLOCK_EINVAL &&
                   dlock_lock_inspect(NULL, NULL, NULL) == DLOCK_EINVAL &&
                   dlock_hold_state(NULL) == DLOCK_LOST && dlock_hold_token(NULL) == 0,
               "NULL is taken for something");
    dlock_op *refused = what & 4   ? dlock_lock_acquire_start(NULL, 0)
                        : what & 8 ? dlock_hold_extend_start(NULL, 1000)
                                   : dlock_client_list_start(client, NULL, 0);
    code = dlock_op_result(refused);
    FUZZ_CHECK(code == DLOCK_EINVAL || code == DLOCK_ECLOSED, "a bad op: %s",
               dlock_errname(code));
    dlock_op_free(refused);
    dlock_hold_free(NULL);
    dlock_lock_free(NULL);
    dlock_op_free(NULL);
}

/* ---- from the first byte to the last ---- */

static void with_lock(uint8_t what)
{
    static void (*const calls[])(lock *) = {acquire_now, acquire_now, acquire_later,
                                            inspect,     break_lock,  wait_idle};
    lock *it = some_lock();
    if (it)
        calls[what % 6](it);
}

static void with_hold(uint8_t what)
{
    hold *it = some_hold();
    if (!it)
        return;
    if (what % 4 < 2)
        release(it);
    else if (what % 4 == 2)
        free_hold(it);
    else
        ask_hold(it, next());
}

static void step(uint8_t what)
{
    op *it;
    hold *of;
    switch (what % 20) {
    default:
        with_lock(what % 20);
        return;
    case 8:
    case 9:
    case 10:
    case 11:
        with_hold(what % 20);
        return;
    case 12:
    case 13:
        if ((it = some_op()))
            use_op(it);
        return;
    case 14:
        start_something();
        return;
    case 15:
        make_lock();
        return;
    case 16:
        if ((of = some_hold()))
            guard(of);
        return;
    case 17:
        ask_client(what & 1);
        return;
    case 18:
        misuse();
        return;
    case 19: /* rarely, as little comes after it */
        if (next() % 4 == 0)
            close_client(what & 1);
        return;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_bytes bytes = {data, size};
    world.bytes = &bytes;
    world.seen_info = false;
    uint8_t how = next();
    open_world(how % 16 == 15);
    for (int steps = 0; steps < STEPS && bytes.left > 0; steps++) {
        step(next());
        for (int i = 0; i < OPS; i++)
            if (world.model.ops[i].op)
                look_at(&world.model.ops[i]);
        take_events();
        for (int i = 0; i < OPS; i++) {
            const op *it = &world.model.ops[i];
            FUZZ_CHECK(!it->op || !it->over || !it->tag || it->tag == UINT64_MAX ||
                           dlock_op_result(it->op) == DLOCK_EPENDING,
                       "an op has ended, but its event doesn't come");
        }
        model_check(&world.model);
    }
    close_world(how >> 4);
    return 0;
}
