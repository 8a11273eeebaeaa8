/* Hand-over decided by the server, through the public API: crowds, and processes that are stopped
 * or killed while the lock goes from one to another. */
#include "resource.h"
#include "seeker.h"
#include "stage.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static stage s;

static dlock_client *open_one(const char *handover)
{
    return stage_open(s.uri, "lock.ttl_ms", "60000", "redis.handover", handover, NULL);
}

static int in_line(const char *name)
{
    return atoi(redis_server_call(&s.server, "LLEN dlock_queue:{%s}", name));
}

/* ---- Who is told, seen by MONITOR ---- */

enum { TOLD_MAX = 256, OWNER_MAX = 64 };

typedef struct witness {
    int fd;
    pthread_t thread;
    char waiting[TOLD_MAX][OWNER_MAX]; /* told, and not heard of since */
    int count;
    int64_t told, twice, scripts;
} witness;

static int find_waiting(const witness *at, const char *owner)
{
    for (int i = 0; i < at->count; i++)
        if (strcmp(at->waiting[i], owner) == 0)
            return i;
    return -1;
}

static void note_told(witness *at, const char *message)
{
    char owner[OWNER_MAX];
    size_t size = strcspn(message, " \"");
    if (size >= sizeof(owner) || at->count == TOLD_MAX)
        return;
    memcpy(owner, message, size);
    owner[size] = '\0';
    at->told++;
    if (find_waiting(at, owner) >= 0)
        at->twice++;
    else
        memcpy(at->waiting[at->count++], owner, size + 1);
}

static void note_script(witness *at, const char *line)
{
    at->scripts++;
    for (int i = at->count - 1; i >= 0; i--)
        if (strstr(line, at->waiting[i]))
            memmove(at->waiting[i], at->waiting[--at->count], OWNER_MAX);
}

static void note_line(witness *at, const char *line)
{
    static const char publish[] = "\"publish\" \"dlock_client:";
    const char *said = strstr(line, publish);
    if (said) {
        said = strstr(said, "\" \"");
        said = said ? strstr(said + 3, "\" \"") : NULL;
        if (said)
            note_told(at, said + 3);
    } else if (strstr(line, "] \"EVAL")) {
        note_script(at, line);
    }
}

static void *watch_server(void *arg)
{
    witness *at = arg;
    FILE *in = fdopen(at->fd, "r");
    char *line = NULL;
    size_t room = 0;
    while (in && getline(&line, &room, in) > 0)
        note_line(at, line);
    free(line);
    if (in)
        (void)fclose(in);
    return NULL;
}

static bool begin_to_watch(witness *at)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)s.server.port),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    *at = (witness){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    return at->fd >= 0 &&
           connect(at->fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
           write(at->fd, "MONITOR\r\n", 9) == 9 &&
           pthread_create(&at->thread, NULL, watch_server, at) == 0;
}

static void end_to_watch(witness *at)
{
    redis_server_call(&s.server, "CLIENT KILL TYPE normal SKIPME yes");
    pthread_join(at->thread, NULL);
}

/* ---- A crowd of four processes ---- */

enum { PROCESSES = 4, THREADS = 4 };

typedef struct crowd {
    resource *resource;
    _Atomic int64_t grants[PROCESSES][THREADS];
    _Atomic bool go, over;
    _Atomic int process;
    /* the last process is as Redisson: it knows no line, and takes its time */
    bool plain_last;
    int locks; /* how many there are to be had; each thread changes between them */
} crowd;

typedef struct member {
    crowd *all;
    dlock_client *client;
    int process, number;
    bool plain;
} member;

static void use(crowd *all, const dlock_hold *hold)
{
    int64_t seen;
    stay *at = resource_enter(all->resource, hold);
    if (resource_look(all->resource, dlock_hold_token(hold), &seen))
        (void)resource_write(all->resource, dlock_hold_token(hold), seen);
    (void)resource_still(at, hold);
    resource_leave(at);
}

static void take_one_turn(member *me, dlock_lock *lock, bool judged)
{
    dlock_hold *hold = NULL;
    dlock_error *err = NULL;
    CHECK_OK(dlock_lock_acquire(lock, 60000, &hold, &err), err);
    if (judged)
        use(me->all, hold);
    CHECK_OK(dlock_hold_release(hold, &err), err);
    dlock_hold_free(hold);
    atomic_fetch_add(&me->all->grants[me->process][me->number], 1);
}

static void *take_turns(void *arg)
{
    member *me = arg;
    dlock_lock *locks[2] = {stage_lock(me->client, "L"), stage_lock(me->client, "M")};
    for (int turn = me->number; !atomic_load(&me->all->over) && !harness_failed();
         turn++) {
        take_one_turn(me, locks[turn % me->all->locks], turn % me->all->locks == 0);
        if (me->plain) /* else its own next request would always be the first */
            nap_ms(1);
    }
    dlock_lock_free(locks[0]);
    dlock_lock_free(locks[1]);
    return NULL;
}

static void run_process(void *shared)
{
    crowd *all = shared;
    member members[THREADS];
    pthread_t ids[THREADS];
    int process = atomic_fetch_add(&all->process, 1);
    bool plain = all->plain_last && process == PROCESSES - 1;
    while (!atomic_load(&all->go))
        nap_ms(1);
    dlock_client *client = open_one(plain ? "false" : "true");
    CHECK(client != NULL);
    int threads = plain ? 1 : THREADS;
    for (int i = 0; i < threads; i++) {
        members[i] = (member){all, client, process, i, plain};
        CHECK_EQ_INT(pthread_create(&ids[i], NULL, take_turns, &members[i]), 0);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    CHECK_OK(dlock_client_close(client, NULL), NULL);
    dlock_client_free(client);
}

static int64_t grants_of(const crowd *all, int process)
{
    int64_t sum = 0;
    for (int i = 0; i < THREADS; i++)
        sum += atomic_load(&all->grants[process][i]);
    return sum;
}

/* Until each process has had the lock @p each times; what the judge says. */
static verdict contend(crowd *all, int64_t each, witness *seen)
{
    pid_t pids[PROCESSES];
    int64_t limit = awake_now_ns() + 2 * patience_ms() * STAGE_MS;
    all->resource = resource_new();
    for (int i = 0; i < PROCESSES; i++)
        pids[i] = stage_fork(run_process, all);
    (void)harness_check(__FILE__, __LINE__, begin_to_watch(seen), "a witness");
    atomic_store(&all->go, true);
    for (int i = 0; i < PROCESSES; i++)
        while (grants_of(all, i) < each && awake_now_ns() < limit)
            nap_ms(1);
    atomic_store(&all->over, true);
    for (int i = 0; i < PROCESSES; i++)
        (void)harness_check(__FILE__, __LINE__, stage_join(pids[i]), "the process ends");
    verdict found = resource_judge(all->resource, RESOURCE_STATE_KEPT);
    for (int i = 0; i < PROCESSES; i++)
        harness_note("process %d: %" PRId64 " grants", i, grants_of(all, i));
    resource_free(all->resource);
    return found;
}

static void check_crowd(int locks, bool plain_last, int64_t each)
{
    witness seen;
    if (!stage_set(&s, NULL))
        return;
    crowd *all = stage_share(sizeof(*all));
    all->locks = locks;
    all->plain_last = plain_last;
    verdict found = contend(all, each, &seen);
    end_to_watch(&seen);
    int64_t grants = 0, least = INT64_MAX;
    for (int i = 0; i < PROCESSES; i++) {
        grants += grants_of(all, i);
        least = grants_of(all, i) < least ? grants_of(all, i) : least;
    }
    harness_note("%" PRId64 " grants, %" PRId64 " told, %.2f scripts a grant", grants,
                 seen.told, (double)seen.scripts / (double)grants);
    CHECK(least >= each);
    CHECK_EQ_INT(found.overlaps, 0);
    CHECK_EQ_INT(found.lost_updates, 0);
    CHECK_EQ_INT(found.old_tokens, 0);
    CHECK(seen.told > 0);
    CHECK_EQ_INT(seen.twice, 0); /* nobody is told who doesn't wait … */
    CHECK_EQ_INT(seen.count, 0); /* … or isn't heard of afterwards */
    stage_unshare(all, sizeof(*all));
    CHECK(stage_clear(&s, 0));
}

TEST(a_crowd_has_its_turns_and_no_message_goes_to_who_does_not_wait)
{
    check_crowd(1, false, 400);
}

TEST(two_locks_at_once_are_handed_over_each_on_its_own)
{
    check_crowd(2, false, 200);
}

TEST(peers_that_know_no_line_have_their_turns_too)
{
    check_crowd(1, true, 20);
}

/* ---- The line is left as it was found ---- */

/* A second client waits in the line for the lock that the first has. */
static dlock_op *wait_in_line(dlock_lock *lock, int64_t wait_ms)
{
    dlock_op *op = dlock_lock_acquire_start(lock, wait_ms);
    for (int i = 0; i < 20000 && in_line("L") == 0; i++)
        nap_ms(1);
    return op;
}

TEST(who_gives_up_leaves_the_line_by_time_out_cancel_or_close)
{
    if (!stage_set(&s, NULL))
        return;
    dlock_client *first = open_one("true"), *second = open_one("true");
    dlock_lock *held = stage_lock(first, "L"), *wanted = stage_lock(second, "L");
    dlock_hold *hold = stage_take(held);
    CHECK(hold != NULL);
    static const dlock_err ends[] = {DLOCK_ETIMEDOUT, DLOCK_ECANCELED, DLOCK_ECLOSED};
    for (int i = 0; i < 3; i++) {
        dlock_op *op = wait_in_line(wanted, i == 0 ? 1000 : DLOCK_FOREVER);
        if (i > 0)
            CHECK_EQ_INT(in_line("L"), 1);
        if (i == 1)
            dlock_op_cancel(op);
        if (i == 2)
            CHECK_OK(dlock_client_close(second, NULL), NULL);
        CHECK_OK(dlock_op_wait(op, 20000), NULL);
        CHECK_EQ_INT(dlock_op_result(op), ends[i]);
        AWAIT(in_line("L") == 0);
        dlock_op_free(op);
    }
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    dlock_hold_free(hold);
    dlock_lock_free(held);
    dlock_lock_free(wanted);
    dlock_client_free(first);
    dlock_client_free(second);
    CHECK(stage_clear(&s, 0));
}

TEST(who_only_tries_is_never_in_the_line)
{
    if (!stage_set(&s, NULL))
        return;
    dlock_client *first = open_one("true"), *second = open_one("true");
    dlock_lock *held = stage_lock(first, "L"), *wanted = stage_lock(second, "L");
    dlock_hold *hold = stage_take(held), *none = NULL;
    CHECK(hold != NULL);
    dlock_op *op = wait_in_line(wanted, DLOCK_FOREVER);
    CHECK_EQ_INT(dlock_lock_acquire(wanted, 0, &none, NULL), DLOCK_EBUSY);
    CHECK_EQ_INT(in_line("L"), 1);
    dlock_op_free(op);
    AWAIT(in_line("L") == 0);
    CHECK_EQ_INT(dlock_lock_acquire(wanted, 0, &none, NULL), DLOCK_EBUSY);
    CHECK_EQ_INT(in_line("L"), 0);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    CHECK_OK(dlock_lock_acquire(wanted, 0, &none, NULL), NULL);
    dlock_hold_free(none);
    dlock_hold_free(hold);
    dlock_lock_free(held);
    dlock_lock_free(wanted);
    dlock_client_free(first);
    dlock_client_free(second);
    CHECK(stage_clear(&s, 0));
}

TEST(who_asks_whether_it_is_idle_hears_of_the_last_release)
{
    if (!stage_set(&s, NULL))
        return;
    dlock_client *first = open_one("true"), *second = open_one("true");
    dlock_lock *held = stage_lock(first, "L"), *other = stage_lock(second, "L");
    dlock_hold *hold = stage_take(held);
    CHECK(hold != NULL);
    dlock_op *idle = dlock_lock_wait_idle_start(other, DLOCK_FOREVER);
    dlock_op *op = wait_in_line(other, DLOCK_FOREVER);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    CHECK_OK(dlock_op_wait(op, 20000), NULL);
    CHECK_EQ_INT(dlock_op_wait(idle, 0), DLOCK_EPENDING);
    dlock_op_free(op); /* and with it the hold nobody took */
    CHECK_OK(dlock_op_wait(idle, 20000), NULL);
    CHECK_OK(dlock_op_result(idle), dlock_op_error(idle));
    dlock_op_free(idle);
    dlock_hold_free(hold);
    dlock_lock_free(held);
    dlock_lock_free(other);
    dlock_client_free(first);
    dlock_client_free(second);
    CHECK(stage_clear(&s, 0));
}

/* ---- Death and stillness in the middle of it ---- */

/* A process that wants the lock. */
typedef struct victim {
    _Atomic bool go, granted;
    _Atomic int64_t remaining_ms, token; /* when it was granted */
    bool for_ever;                       /* again and again */
    _Atomic int64_t turns;
} victim;

static void want_it(void *shared)
{
    victim *me = shared;
    while (!atomic_load(&me->go))
        nap_ms(1);
    dlock_client *client =
        stage_open(s.uri, "lock.ttl_ms", me->for_ever ? "2000" : "60000", "lock.owner",
                   "none", NULL);
    dlock_lock *lock = stage_lock(client, "L");
    do {
        dlock_hold *hold = NULL;
        dlock_error *err = NULL;
        CHECK_OK(dlock_lock_acquire(lock, DLOCK_FOREVER, &hold, &err), err);
        atomic_store(&me->remaining_ms, dlock_hold_remaining_ms(hold));
        atomic_store(&me->token, dlock_hold_token(hold));
        atomic_store(&me->granted, true);
        atomic_fetch_add(&me->turns, 1);
        dlock_err code = dlock_hold_release(hold, &err);
        CHECK(code == DLOCK_OK || code == DLOCK_ELOST);
        dlock_error_free(err);
        dlock_hold_free(hold);
    } while (me->for_ever);
    dlock_lock_free(lock);
    dlock_client_free(client);
}

typedef struct scene {
    dlock_client *first, *second;
    dlock_lock *held, *wanted;
    dlock_hold *hold;
    victim *victim;
    pid_t pid;
    seeker behind;
} scene;

/* The first client has the lock; the victim is in the line, and behind it the second client. */
static void set_scene(scene *at)
{
    memset(at, 0, sizeof(*at));
    at->victim = stage_share(sizeof(*at->victim));
    at->pid = stage_fork(want_it, at->victim); /* before there is a thread here */
    at->first = open_one("true");
    at->second = open_one("true");
    at->held = stage_lock(at->first, "L");
    at->wanted = stage_lock(at->second, "L");
    at->hold = stage_take(at->held);
    CHECK(at->hold != NULL);
    atomic_store(&at->victim->go, true);
    AWAIT(in_line("L") == 1);
    at->behind = (seeker){.lock = at->wanted, .wait_ms = 60000};
    CHECK(seeker_start(&at->behind));
    AWAIT(in_line("L") == 2);
}

static void clear_scene(scene *at)
{
    dlock_hold_free(at->hold);
    dlock_lock_free(at->held);
    dlock_lock_free(at->wanted);
    dlock_client_free(at->first);
    dlock_client_free(at->second);
    stage_unshare(at->victim, sizeof(*at->victim));
    CHECK(stage_clear(&s, 0));
}

/* The lock is reserved for the victim, which stands still. */
static void hand_over_to_the_still(scene *at)
{
    stage_stop(at->pid);
    CHECK_OK(dlock_hold_release(at->hold, NULL), NULL);
    CHECK_EQ_INT(in_line("L"), 1);
}

TEST(a_receiver_that_is_killed_costs_a_claim_and_a_look)
{
    scene at;
    if (!stage_set(&s, NULL))
        return;
    set_scene(&at);
    if (harness_failed())
        return;
    hand_over_to_the_still(&at);
    int64_t from = awake_now_ns();
    kill(at.pid, SIGKILL);
    CHECK(waitpid(at.pid, NULL, 0) == at.pid);
    seeker_join(&at.behind);
    CHECK_OK(at.behind.code, NULL);
    int64_t ms = (at.behind.got_at - from) / STAGE_MS;
    harness_note("granted %" PRId64 " ms after the hand-over to the dead", ms);
    CHECK(ms <= 500 + 1250 + stage_slack_ms());
    clear_scene(&at);
}

TEST(a_receiver_that_is_killed_before_the_hand_over_costs_nothing)
{
    scene at;
    if (!stage_set(&s, NULL))
        return;
    set_scene(&at);
    if (harness_failed())
        return;
    kill(at.pid, SIGKILL);
    CHECK(waitpid(at.pid, NULL, 0) == at.pid);
    AWAIT(strchr(redis_server_call(&s.server, "PUBSUB CHANNELS dlock_client:*"), ' ') ==
          NULL);
    int64_t from = awake_now_ns();
    CHECK_OK(dlock_hold_release(at.hold, NULL), NULL);
    seeker_join(&at.behind);
    CHECK_OK(at.behind.code, NULL);
    int64_t ms = (at.behind.got_at - from) / STAGE_MS;
    harness_note("granted after %" PRId64 " ms", ms);
    CHECK(ms <= 400 + stage_slack_ms()); /* no claim had to lapse */
    clear_scene(&at);
}

TEST(a_receiver_that_stood_still_has_no_lock_before_it_has_claimed_it)
{
    scene at;
    if (!stage_set(&s, NULL))
        return;
    set_scene(&at);
    if (harness_failed())
        return;
    hand_over_to_the_still(&at);
    seeker_join(&at.behind); /* had it meanwhile */
    CHECK_OK(at.behind.code, NULL);
    CHECK(!atomic_load(&at.victim->granted));
    dlock_hold *hold = stage_take(at.wanted);
    CHECK(hold != NULL);
    stage_continue(at.pid);
    AWAIT(in_line("L") == 1); /* too late: it stands in the line again */
    CHECK(!atomic_load(&at.victim->granted));
    int64_t token = dlock_hold_token(hold);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    dlock_hold_free(hold);
    CHECK(stage_join(at.pid));
    CHECK(atomic_load(&at.victim->token) > token);
    CHECK(atomic_load(&at.victim->remaining_ms) > 30000);
    clear_scene(&at);
}

TEST(who_is_killed_while_it_gives_and_takes_costs_a_lease_at_most)
{
    if (!stage_set(&s, NULL))
        return;
    enum { ROUNDS = 4 };
    victim *victims[ROUNDS];
    pid_t pids[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        victims[i] = stage_share(sizeof(*victims[i]));
        victims[i]->for_ever = true;
        pids[i] = stage_fork(want_it, victims[i]);
    }
    dlock_client *client = open_one("true");
    dlock_lock *lock = stage_lock(client, "L");
    for (int i = 0; i < ROUNDS; i++) {
        atomic_store(&victims[i]->go, true);
        while (atomic_load(&victims[i]->turns) < 20 + 7 * i) {
            dlock_hold *hold = stage_take(lock);
            CHECK(hold != NULL);
            dlock_hold_free(hold);
        }
        kill(pids[i], SIGKILL);
        int64_t from = awake_now_ns();
        dlock_hold *hold = stage_take(lock);
        CHECK(hold != NULL);
        dlock_hold_free(hold);
        int64_t ms = (awake_now_ns() - from) / STAGE_MS;
        harness_note("granted %" PRId64 " ms after the kill", ms);
        CHECK(ms <= 2000 + 1250 + stage_slack_ms());
        CHECK(waitpid(pids[i], NULL, 0) == pids[i]);
        stage_unshare(victims[i], sizeof(*victims[i]));
    }
    dlock_lock_free(lock);
    dlock_client_free(client);
    CHECK(stage_clear(&s, 0));
}
