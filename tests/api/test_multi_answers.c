/* What a multi-lock makes of its members' answers: every combination of two and three of them, each
 * asked for in every way. The wait ends with what the first member that can't be had says, nothing
 * is left behind, and no member is asked more often than a lease was over before the last one came.
 *
 * This is linked with --wrap around what a multi-lock asks its members by. */
#include "world.h"

#include "api/handles.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MEMBERS = 3, WORKERS = 12, TIMED_MS = 20, LEASE_MS = 100, LATE_MS = 250 };
enum { ENOUGH = 100 }; /* asks of one wait: it spins, and is ended */

typedef enum state {
    IS_FREE,     /* with a lease that is over before a member of WAS_HELD comes */
    IS_OURS,     /* held by this thread */
    WAS_HELD,    /* by another, for a while */
    IS_HELD,     /* by another, for good */
    WAS_LOST,    /* this thread had it, and hasn't released that hold */
    IS_ELECTION, /* another kind of lock has the name */
    IS_NESTED,   /* held by this thread, and lock.reentrant=false */
    IS_CLOSED,   /* its client is */
    STATES
} state;
static const char letters[] = "FOwHLKNC";

typedef enum way {
    TRY,
    TIMED,
    FOREVER,
    OP_TRY,
    OP_TIMED,
    OP_FOREVER,
    OP_CANCELLED,
    WAYS
} way;
static const char *const way_names[] = {
    "try", "timed", "for ever", "op try", "op timed", "op for ever", "op cancelled"};

/* ---- what is asked ---- */

#define CASES (STATES * STATES * STATES * 2 * WAYS)
static atomic_int asked[CASES];

/* The number of the case is in the name: "12.a". False: too often. */
static bool count(const dlk_name *name)
{
    return atomic_fetch_add(&asked[strtol(name->key.name, NULL, 10)], 1) < ENOUGH;
}

__typeof__(dlk_engine_acquire_begin) __real_dlk_engine_acquire_begin,
    __wrap_dlk_engine_acquire_begin;
__typeof__(dlock_hold_check) __real_dlock_hold_check, __wrap_dlock_hold_check;

dlock_op *__wrap_dlk_engine_acquire_begin(dlk_engine *engine, dlk_name *name,
                                          const dlk_terms *terms, dlk_acquirer who,
                                          int64_t wait_ms, dlk_op_outcome *ret)
{
    if (count(name))
        return __real_dlk_engine_acquire_begin(engine, name, terms, who, wait_ms, ret);
    *ret = (dlk_op_outcome){.code = DLOCK_EOVERFLOW};
    return NULL;
}

/* The name of the member whose lease is over when all are there, once, and how long it takes to find
 * that out. */
static const char *_Atomic lapses;
static atomic_int lapse_us;

dlock_err __wrap_dlock_hold_check(const dlock_hold *hold)
{
    const char *name = atomic_load(&lapses);
    if (!name || strcmp(dlock_hold_name(hold), name) != 0)
        return __real_dlock_hold_check(hold);
    atomic_store(&lapses, NULL);
    nap_us(atomic_load(&lapse_us));
    return DLOCK_ELOST;
}

/* ---- one case ---- */

typedef struct test_case {
    int number, members;
    state states[MEMBERS];
    way way;
    char told[200]; /* what went wrong, else "" */
} test_case;

/* Whose thread runs cases. */
typedef struct worker {
    dlock_client *client, *closed, *rival;
    pthread_t thread;
} worker;

static test_case cases[CASES];
static atomic_int next_case;
static int case_count;

typedef struct answer {
    dlock_err code;
    bool waits, hangs;
    int asks; /* at most */
} answer;

static answer when_held(way how, bool for_good)
{
    switch (how) {
    case TRY:
    case OP_TRY:
        return (answer){.code = DLOCK_EBUSY};
    case TIMED:
    case OP_TIMED:
        return (answer){.code = DLOCK_ETIMEDOUT, .waits = true};
    case FOREVER:
    case OP_FOREVER:
        return (answer){.waits = true, .hangs = for_good};
    case OP_CANCELLED:
    case WAYS:
        break;
    }
    return (answer){.code = DLOCK_ECANCELED, .waits = true};
}

/* What has to come of it: the members answer in the order of their names. */
static answer expected(const test_case *it)
{
    static const dlock_err codes[STATES] = {[WAS_LOST] = DLOCK_ELOST,
                                            [IS_ELECTION] = DLOCK_ECONFLICT,
                                            [IS_NESTED] = DLOCK_EDEADLK};
    answer all = {.code = DLOCK_OK, .asks = it->members};
    for (int i = 0; i < it->members; i++)
        if (it->states[i] == IS_CLOSED)
            return (answer){.code = DLOCK_ECLOSED}; /* whatever the others would say */
    for (int i = 0; i < it->members && all.code == DLOCK_OK; i++) {
        state what = it->states[i];
        if (what != WAS_HELD && what != IS_HELD) {
            all.code = codes[what];
            continue;
        }
        answer held = when_held(it->way, what == IS_HELD);
        all.waits |= held.waits;
        all.hangs |= held.hangs;
        all.code = held.code;
        all.asks += it->members; /* another round */
    }
    return all;
}

static const char *name_of(const test_case *it, int i, char name[32])
{
    snprintf(name, 32, "%d.%c", it->number, 'a' + i);
    return name;
}

static dlock_lock *lock_of(dlock_client *client, dlock_kind kind, const char *name,
                           const char *key, const char *value)
{
    DLOCK_AUTO(dlock_conf) conf = key ? dlock_conf_new() : NULL;
    dlock_lock *lock = NULL;
    if (key && dlock_conf_set(conf, key, value, NULL) != DLOCK_OK)
        return NULL;
    return dlock_lock_new(client, kind, name, conf, &lock, NULL) == DLOCK_OK ? lock
                                                                             : NULL;
}

static dlock_hold *try(dlock_client *client, dlock_kind kind, const char *name,
                       const char *key, const char *value)
{
    DLOCK_AUTO(dlock_lock) lock = lock_of(client, kind, name, key, value);
    dlock_hold *hold = NULL;
    return lock && dlock_lock_acquire(lock, 0, &hold, NULL) == DLOCK_OK ? hold : NULL;
}

static bool lose(worker *w, const char *name, dlock_hold *hold)
{
    DLOCK_AUTO(dlock_lock) theirs = lock_of(w->rival, DLOCK_MUTEX, name, NULL, NULL);
    return dlock_lock_break(theirs, NULL, NULL) == DLOCK_OK &&
           dlock_hold_verify(hold, NULL) == DLOCK_ELOST;
}

/* Makes the state, and what is held for it; the member's own handle. */
static dlock_lock *make_member(worker *w, state what, const char *name, dlock_hold **ret)
{
    dlock_client *client = what == IS_CLOSED ? w->closed : w->client;
    bool nested = what == IS_NESTED, is_short = what == IS_FREE || what == IS_OURS;
    switch (what) {
    case IS_OURS: /* in a grant that lasts, whatever the member's own terms are */
    case IS_NESTED:
    case WAS_LOST:
        *ret = try(w->client, DLOCK_MUTEX, name, "lock.owner", "thread");
        break;
    case WAS_HELD:
        *ret = try(w->rival, DLOCK_MUTEX, name, "lock.renew", "off");
        break;
    case IS_HELD:
        *ret = try(w->rival, DLOCK_MUTEX, name, "lock.ttl_ms", "30000");
        break;
    case IS_ELECTION:
        *ret = try(w->rival, DLOCK_ELECTION, name, "lock.ttl_ms", "30000");
        break;
    case IS_FREE:
    case IS_CLOSED:
    case STATES:
        break;
    }
    if (what == WAS_LOST && (!*ret || !lose(w, name, *ret)))
        return NULL;
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    dlock_lock *lock = NULL;
    bool set =
        dlock_conf_set(conf, "lock.owner", "thread", NULL) == DLOCK_OK &&
        (!nested || dlock_conf_set(conf, "lock.reentrant", "false", NULL) == DLOCK_OK) &&
        (!is_short ||
         (dlock_conf_set_int(conf, "lock.ttl_ms", LEASE_MS, NULL) == DLOCK_OK &&
          dlock_conf_set(conf, "lock.renew", "off", NULL) == DLOCK_OK));
    return set && dlock_lock_new(client, DLOCK_MUTEX, name, conf, &lock, NULL) == DLOCK_OK
               ? lock
               : NULL;
}

static dlock_err acquire(dlock_lock *multi, way how)
{
    static const int64_t waits[] = {[TRY] = 0,
                                    [TIMED] = TIMED_MS,
                                    [FOREVER] = DLOCK_FOREVER,
                                    [OP_TRY] = 0,
                                    [OP_TIMED] = TIMED_MS,
                                    [OP_FOREVER] = DLOCK_FOREVER,
                                    [OP_CANCELLED] = DLOCK_FOREVER};
    DLOCK_AUTO(dlock_hold) hold = NULL;
    if (how < OP_TRY)
        return dlock_lock_acquire(multi, waits[how], &hold, NULL);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(multi, waits[how]);
    if (how == OP_CANCELLED)
        dlock_op_cancel(op);
    (void)dlock_op_wait(op, DLOCK_FOREVER);
    return dlock_op_result(op);
}

/* Whoever was free is so again; what an op took is given back by a job, perhaps in a moment. */
static bool is_given_back(worker *w, const test_case *it)
{
    char name[32];
    int64_t end = awake_now_ms() + patience_ms();
    for (int i = 0; i < it->members; i++) {
        dlock_hold *hold = NULL;
        if (it->states[i] != IS_FREE && it->states[i] != WAS_LOST)
            continue;
        while (!(hold = try(w->rival, DLOCK_MUTEX, name_of(it, i, name), NULL, NULL)) &&
               awake_now_ms() < end)
            nap_ms(1);
        if (!hold)
            return false;
        dlock_hold_free(hold);
    }
    return true;
}

static void complain(test_case *it, const char *what, int is, int should)
{
    char members[MEMBERS + 1] = "";
    for (int i = 0; i < it->members; i++)
        members[i] = letters[it->states[i]];
    snprintf(it->told, sizeof(it->told), "%s, %s: %s is %d, not %d", members,
             way_names[it->way], what, is, should);
}

static void run_case(worker *w, test_case *it)
{
    char name[32];
    dlock_lock *members[MEMBERS], *multi = NULL;
    dlock_hold *before[MEMBERS] = {NULL};
    bool made = true;
    for (int i = 0; i < it->members; i++)
        made &= (members[i] = make_member(w, it->states[i], name_of(it, i, name),
                                          &before[i])) != NULL;
    if (!made || dlock_multi_new(members, (size_t)it->members, NULL, &multi, NULL)) {
        complain(it, "what could be made", 0, 1);
    } else {
        answer right = expected(it);
        atomic_store(&asked[it->number], 0);
        dlock_err code = acquire(multi, it->way);
        int asks = atomic_load(&asked[it->number]);
        if (code != right.code)
            complain(it, "the answer", (int)code, (int)right.code);
        else if (asks > right.asks)
            complain(it, "the number of asks", asks, right.asks);
        else if (!is_given_back(w, it))
            complain(it, "what was given back", 0, 1);
    }
    dlock_lock_free(multi);
    for (int i = it->members; i-- > 0;) {
        dlock_hold_free(before[i]);
        dlock_lock_free(members[i]);
    }
}

static void *work(void *arg)
{
    for (int i; (i = atomic_fetch_add(&next_case, 1)) < case_count;)
        run_case(arg, &cases[i]);
    return NULL;
}

/* ---- all cases ---- */

static void add(int members, int code, way how)
{
    test_case *it = &cases[case_count];
    *it = (test_case){.number = case_count, .members = members, .way = how};
    for (int i = 0; i < members; i++, code /= STATES)
        it->states[i] = (state)(code % STATES);
    answer right = expected(it);
    /* What has no end is left out, and what takes its time with three of them. */
    if (!right.hangs && !(right.waits && members == MEMBERS))
        case_count++;
}

static bool open_clients(worker *w)
{
    char late[64];
    snprintf(late, sizeof(late), "lock.ttl_ms=%d", LATE_MS);
    w->client = world_client("lock.ttl_ms=30000");
    w->closed = world_client(NULL);
    w->rival = world_client(late);
    return w->client && w->closed && w->rival &&
           dlock_client_close(w->closed, NULL) == DLOCK_OK;
}

TEST(the_first_member_that_can_t_be_had_says_why_and_none_is_asked_for_ever)
{
    BEGIN();
    static worker workers[WORKERS];
    bool open = true;
    case_count = 0;
    next_case = 0;
    for (int how = 0; how < WAYS; how++) /* those that wait first */
        for (int code = 0; code < STATES * STATES; code++)
            add(2, code, (way)how);
    for (int how = 0; how < WAYS; how++)
        for (int code = 0; code < STATES * STATES * STATES; code++)
            add(3, code, (way)how);
    for (int i = 0; i < WORKERS; i++)
        open &= open_clients(&workers[i]);
    int running = 0, wrong = 0;
    while (open && running < WORKERS &&
           pthread_create(&workers[running].thread, NULL, work, &workers[running]) == 0)
        running++;
    for (int i = 0; i < running; i++)
        pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < case_count; i++)
        if (cases[i].told[0] && ++wrong <= 10)
            harness_note("%s", cases[i].told);
    harness_note("%d combinations", case_count);
    for (int i = 0; i < WORKERS; i++) {
        dlock_client_free(workers[i].client);
        dlock_client_free(workers[i].closed);
        dlock_client_free(workers[i].rival);
    }
    CHECK(open && running == WORKERS);
    CHECK(case_count > 1000);
    CHECK_EQ_INT(wrong, 0);
}

/* Of that many, this one's lease is over when the last comes, whichever it is. */
static void lapse(dlock_client *client, int members, int lapsed, way how)
{
    char names[MEMBERS][32], what[100];
    dlock_lock *locks[MEMBERS], *multi = NULL;
    test_case it = {.number = 0};
    for (int i = 0; i < members; i++)
        locks[i] = lock_of(client, DLOCK_MUTEX, name_of(&it, i, names[i]), "lock.owner",
                           "thread");
    dlock_err made = dlock_multi_new(locks, (size_t)members, NULL, &multi, NULL);
    for (int i = 0; i < members; i++)
        dlock_lock_free(locks[i]);
    CHECK_EQ_INT(made, DLOCK_OK);
    bool once = how != FOREVER && how != OP_FOREVER;
    atomic_store(&asked[0], 0);
    atomic_store(&lapses, names[lapsed]);
    dlock_err code = acquire(multi, how);
    bool looked = atomic_exchange(&lapses, NULL) == NULL;
    dlock_lock_free(multi);
    snprintf(what, sizeof(what), "member %d of %d, %s", lapsed, members, way_names[how]);
    if (!looked || code != (once ? DLOCK_ELOST : DLOCK_OK))
        harness_note("%s", what);
    CHECK(looked);
    CHECK_EQ_INT(code, once ? DLOCK_ELOST : DLOCK_OK);
    CHECK_EQ_INT(atomic_load(&asked[0]), once ? members : 2 * members);
}

TEST(a_lease_that_was_over_when_the_time_is_up_ends_the_wait)
{
    static const way ways[] = {TIMED, OP_TIMED};
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client("lock.ttl_ms=30000");
    atomic_store(&lapse_us, 2 * TIMED_MS * 1000);
    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++)
        lapse(client, 2, 1, ways[i]);
    atomic_store(&lapse_us, 0);
}

TEST(whichever_member_s_lease_was_over_before_the_last_came_all_are_asked_for_anew)
{
    static const way ways[] = {TRY, FOREVER, OP_TRY, OP_FOREVER};
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client("lock.ttl_ms=30000");
    for (int members = 2; members <= MEMBERS; members++)
        for (int lapsed = 0; lapsed < members; lapsed++)
            for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
                lapse(client, members, lapsed, ways[i]);
                if (harness_failed())
                    return;
            }
}
