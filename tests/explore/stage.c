/* The stage; see the header. */
#include "stage.h"

#include "backend.h"
#include "heap.h"
#include "service.h"
#include "strand.h"
#include "wire.h"

#include "util/point.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* In the place of DLK_TAKEOVER: seam.h. */
extern int explore_takeover;
int explore_takeover;

dlock_client *client;
dlock_lock *locks[LOCKS];
dlock_op *ops[OPS];
dlock_hold *holds[LOCKS];
bool taken[LOCKS];
int64_t began;
const char *const lock_names[LOCKS] = {"a", "b", "c", "d"};

static const scene *playing;
static int flags[4];

/* ---- calls, and what must be so when they return ---- */

call enter(int64_t wait_ms, const char *format, ...)
{
    call made = {.until = dlk_clock_after(strands_now(), wait_ms),
                 .cancel_state = *strand_cancel_state()};
    va_list args;
    va_start(args, format);
    (void)vsnprintf(made.text, sizeof(made.text), format, args);
    va_end(args);
    explore_tell("%c calls %s", strand_letter(), made.text);
    return made;
}

dlock_err leave(const call *made, dlock_err code)
{
    explore_tell("%c has returned from %s: %s", strand_letter(), made->text,
                 dlock_errname(code));
    if (strand_holds())
        explore_fail("%s has returned with a mutex", made->text);
    if (*strand_cancel_state() != made->cancel_state)
        explore_fail("%s has changed the thread's cancel state", made->text);
    if (strands_now() > made->until)
        explore_fail("%s has returned %.3f ms late", made->text,
                     (double)(strands_now() - made->until) / 1e6);
    return code;
}

void expect(dlock_err code, dlock_err a, dlock_err b)
{
    if (code != a && code != b)
        explore_fail("%s, and not %s or %s", dlock_errname(code), dlock_errname(a),
                     dlock_errname(b));
}

static void has_it(int lock, const dlock_hold *hold)
{
    if (dlock_hold_check(hold) != DLOCK_OK)
        return;
    if (taken[lock])
        explore_fail("two have %s", lock_names[lock]);
    taken[lock] = true;
}

dlock_err acquire(int lock, int64_t wait_ms, dlock_hold **ret)
{
    call made = enter(wait_ms, "acquire(%s, %lld)", lock_names[lock], (long long)wait_ms);
    *ret = NULL;
    dlock_err code = leave(&made, dlock_lock_acquire(locks[lock], wait_ms, ret, NULL));
    if (code == DLOCK_OK)
        has_it(lock, *ret);
    return code;
}

dlock_err release(int lock, dlock_hold *hold)
{
    taken[lock] = false;
    call made = enter(DLOCK_FOREVER, "release(%s)", lock_names[lock]);
    return leave(&made, dlock_hold_release(hold, NULL));
}

void free_hold(dlock_hold *hold)
{
    call made = enter(0, "free(hold)");
    dlock_hold_free(hold);
    (void)leave(&made, DLOCK_OK);
}

dlock_op *start(int lock, int64_t wait_ms)
{
    call made = enter(0, "acquire_start(%s, %lld)", lock_names[lock], (long long)wait_ms);
    dlock_op *op = dlock_lock_acquire_start(locks[lock], wait_ms);
    (void)leave(&made, DLOCK_OK);
    return op;
}

/* Until it is over, which must be so by then. */
dlock_err wait_for(dlock_op *op, int64_t until)
{
    call made = enter(DLOCK_FOREVER, "op_wait()");
    made.until = until;
    (void)leave(&made, dlock_op_wait(op, DLOCK_FOREVER));
    return dlock_op_result(op);
}

void free_op(dlock_op *op)
{
    call made = enter(0, "op_free()");
    dlock_op_free(op);
    (void)leave(&made, DLOCK_OK);
}

void cancel(dlock_op *op)
{
    call made = enter(0, "op_cancel()");
    dlock_op_cancel(op);
    (void)leave(&made, DLOCK_OK);
}

/* Takes it, and gives it back. */
void use(int lock, int64_t wait_ms, dlock_err otherwise)
{
    dlock_hold *hold;
    dlock_err code = acquire(lock, wait_ms, &hold);
    expect(code, DLOCK_OK, otherwise);
    if (code != DLOCK_OK)
        return;
    expect(release(lock, hold), DLOCK_OK, DLOCK_OK);
    free_hold(hold);
}

void nap_until(int64_t until)
{
    strand_sleep(&playing, UINT32_MAX, until, "a nap");
}

/* ---- between actors ---- */

void raise_flag(int flag)
{
    flags[flag] = 1;
    strand_wake(&flags[flag], STRANDS, UINT32_MAX);
}

void await_flag(int flag)
{
    while (!flags[flag])
        strand_sleep(&flags[flag], UINT32_MAX, DLK_NEVER, "flag");
}

/* The next event of this kind; others are passed over. */
dlock_event *await_event(dlock_what what)
{
    int fd = dlock_client_event_fd(client);
    for (;;) {
        call made = enter(0, "next_event()");
        dlock_event *event = dlock_client_next_event(client);
        (void)leave(&made, DLOCK_OK);
        if (event && dlock_event_what(event) == what)
            return event;
        dlock_event_free(event);
        if (!event)
            wire_await(fd);
    }
}

/* ---- the client ---- */

bool only_drivers_write;

static void open_client(const char *settings)
{
    char uri[200];
    (void)snprintf(uri, sizeof(uri),
                   "%s://x?client.name=explore&client.lazy=true&client.log_level=error"
                   "%s%s",
                   only_drivers_write ? "driven" : "fake", settings[0] ? "&" : "",
                   settings);
    dlock_error *err = NULL;
    if (dlock_client_open(uri, NULL, &client, &err) != DLOCK_OK)
        explore_fail("open: %s", dlock_error_text(err));
}

static void open_and_connect(const char *settings)
{
    open_client(settings);
    if (dlock_client_connect(client, NULL) != DLOCK_OK)
        explore_fail("it doesn't connect");
}

void begin_with(const char *settings)
{
    open_and_connect(settings);
    for (int i = 0; i < LOCKS; i++)
        if (dlock_lock_new(client, DLOCK_MUTEX, lock_names[i], NULL, &locks[i], NULL) !=
            DLOCK_OK)
            explore_fail("no lock");
}

dlock_client *open_another(void)
{
    dlock_client *first = client;
    open_and_connect("");
    dlock_client *another = client;
    client = first;
    return another;
}

void close_client(void)
{
    call made = enter(DLOCK_FOREVER, "client_close()");
    expect(leave(&made, dlock_client_close(client, NULL)), DLOCK_OK, DLOCK_EUNKNOWN);
}

/* ---- one execution ---- */

static void *act(void *actor)
{
    void (*does)(void) = *(void (*const *)(void))actor;
    does();
    return NULL;
}

static void clear_away(void)
{
    service_answers(-1);
    for (int i = 0; i < OPS; i++)
        dlock_op_free(ops[i]);
    for (int i = 0; i < LOCKS; i++)
        dlock_hold_free(holds[i]);
    for (int i = 0; i < LOCKS; i++)
        dlock_lock_free(locks[i]);
    dlock_client_free(client);
}

static void direct(void)
{
    began = strands_now();
    only_drivers_write = false;
    playing->set_up();
    for (int i = 0; i < 3 && playing->actors[i]; i++)
        (void)strand_start(act, (void *)&playing->actors[i], true);
    strands_explore(true);
    strands_join_actors();
    if (playing->at_once && strands_now() != began)
        explore_fail("it took %.3f ms, for nothing",
                     (double)(strands_now() - began) / 1e6);
    if (playing->check)
        playing->check();
    clear_away();
}

void scene_play(const scene *one)
{
    playing = one;
    explore_takeover = one->takeover ? one->takeover : 8;
    dlk_point_hook = strand_point;
    memset(ops, 0, sizeof(ops));
    memset(holds, 0, sizeof(holds));
    memset(taken, 0, sizeof(taken));
    memset(flags, 0, sizeof(flags));
    wires_reset();
    backends_reset();
    service_reset();
    heap_begin();
    strands_run(direct);
    const char *wrong = heap_end();
    if (wrong)
        explore_fail("at the end: %s", wrong);
    if (backends_count())
        explore_fail("at the end: a reference to the client is left");
}
