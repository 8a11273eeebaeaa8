/* Pauses, clocks and renewals: the lock is lost here before anybody else can have it, and renewed
 * whenever that is possible. */
#include "grid.h"
#include "shim.h"

#include "faults/resource.h"
#include "harness/redis_server.h"
#include "harness/server_clock.h"

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const int64_t hour_ns = INT64_C(3600000000000);

/* ---- Pauses ---- */

ROW(T1, a_paused_holder,
    "the holder stands still for a third, for one and for three leases")
{
    NEEDS(CAN_PROCESSES);
    enum { TTL = 600 };
    PARTY(steady) = party_new(NULL, "lock.ttl_ms=3000");
    PARTY(holder) = party_new(NULL, "lock.ttl_ms=600");
    PARTY(rival) = party_new(NULL, "client.poll_ms=50");
    int64_t tokens = 0;
    CHECK_EQ_INT(party_take(steady, "S", 0), DLOCK_OK);
    party_pause(steady); /* for a third of its lease */
    nap_ms(1000);
    party_go_on(steady);
    CHECK_EQ_INT(party_still(steady), DLOCK_OK);
    CHECK_EQ_INT(party_take(holder, "L", 0), DLOCK_OK);
    for (int leases = 1; leases <= 3; leases += 2) {
        int64_t stopped = now_ms();
        party_pause(holder);
        CHECK_EQ_INT(party_take(rival, "L", patience_ms()), DLOCK_OK);
        CHECK(grid_in_time("the rival's wait", stopped, grid_lease_ms(TTL)));
        MUST(grid_rises(party_token(holder), party_token(rival)) &&
             grid_rises(tokens, party_token(rival)));
        tokens = party_token(rival);
        while (now_ms() < stopped + leases * TTL)
            nap_ms(1);
        party_go_on(holder);
        if (grid_binding_is("C"))
            MUST(party_still(holder) == DLOCK_ELOST); /* its first word */
        AWAIT(party_still(holder) == DLOCK_ELOST);
        CHECK_EQ_INT(party_give_back(holder), DLOCK_ELOST);
        CHECK_EQ_INT(party_still(rival), DLOCK_OK);
        CHECK_EQ_INT(party_give_back(rival), DLOCK_OK);
        CHECK_EQ_INT(party_take(holder, "L", patience_ms()), DLOCK_OK);
    }
    CHECK_EQ_INT(party_still(steady), DLOCK_OK); /* it is renewed as before */
    CHECK_EQ_INT(party_give_back(steady), DLOCK_OK);
}

/* Stands still between its check and its write. */
typedef struct writer {
    resource *shelf;
    dlock_hold *hold;
    int64_t seen;
    int undone, lost;
    dlock_lock *rivals;
} writer;

static dlock_err look(void *user)
{
    writer *w = user;
    return resource_look(w->shelf, dlock_hold_token(w->hold), &w->seen) ? DLOCK_OK
                                                                        : DLOCK_EUSER;
}

static dlock_err write_late(void *user, int64_t token)
{
    writer *w = user;
    int64_t seen;
    DLOCK_AUTO(dlock_hold)
    rival = world_take(w->rivals); /* waits until the lease is over */
    if (!resource_look(w->shelf, dlock_hold_token(rival), &seen) ||
        !resource_write(w->shelf, dlock_hold_token(rival), seen))
        return DLOCK_EUSER;
    return resource_write(w->shelf, token, w->seen) ? DLOCK_OK : DLOCK_ELOST;
}

static void undo(void *user)
{
    ((writer *)user)->undone++;
}

static void lose(void *user)
{
    ((writer *)user)->lost++;
}

ROW(T2, paused_before_the_write,
    "a pause between the check and the write: the resource refuses")
{
    NEEDS(CAN_CALL);
    static const dlock_guarded guarded = {.size = sizeof(guarded),
                                          .run = look,
                                          .commit = write_late,
                                          .undo = undo,
                                          .lost = lose};
    DLOCK_AUTO(dlock_client) client = world_client("lock.ttl_ms=400 lock.renew=off");
    DLOCK_AUTO(dlock_client) other = world_client("client.poll_ms=20");
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, "L", NULL);
    DLOCK_AUTO(dlock_lock) same = world_lock(other, "L", NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    writer w = {.shelf = resource_new(), .hold = hold, .rivals = same};
    CHECK_EQ_INT(dlock_hold_guard(hold, &guarded, &w, NULL), DLOCK_ELOST);
    CHECK(w.undone == 1 && w.lost == 1);
    verdict v = resource_judge(w.shelf, RESOURCE_STATE_KEPT);
    CHECK_EQ_INT(v.accepted, 1);
    CHECK_EQ_INT(v.refused, 1);
    CHECK_EQ_INT(v.lost_updates, 0);
    resource_free(w.shelf);
}

/* What grants the lock is answered while @p late stands still. On the way it is kept back until
 * then. */
static void answer_late(party *late)
{
    int before = wire_deeds();
    CHECK(wire("delay-reply 600000 1 %s", service_here()->grant));
    party_ask(late, "L", DLOCK_FOREVER);
    AWAIT(wire_deeds() > before);
    party_pause(late);
    AWAIT(wire_is_answered());
    CHECK(wire("pass"));
}

/* The same without a way to them all: it is asked for while they can't answer. */
static void answer_frozen(party *late, dlock_lock *lock)
{
    service_here()->freeze();
    party_ask(late, "L", DLOCK_FOREVER);
    AWAIT(service_has_unread());
    party_pause(late);
    service_here()->thaw();
    AWAIT(world_seen(lock, "held") == 1);
}

ROW(T3, an_answer_that_waited, "the answer lay in a socket while its lease ran out")
{
    NEEDS(CAN_SERVER, CAN_PROCESSES);
    if (grid_binding_is("dlock"))
        CANNOT("the command connects, asks and is told in one go: see C");
    bool wired = !service_here()->lacks[CAN_WIRE];
    const char *lease = world_is("zookeeper") ? "" : "lock.ttl_ms=2100"; /* wire_uri's */
    char settings[64];
    snprintf(settings, sizeof(settings), "client.timeout_ms=20000 %s", lease);
    PARTY(late) = party_new(wired ? wire_uri() : NULL, settings);
    PARTY(rival) = party_new(NULL, "client.poll_ms=50");
    CLIENT_WITH_LOCK(client, lock, "L", NULL);
    CHECK_EQ_INT(party_take(late, "L", patience_ms()), DLOCK_OK);
    for (bool granted = false; !granted;) {
        CHECK_EQ_INT(party_give_back(late), DLOCK_OK);
        if (wired)
            answer_late(late);
        else
            answer_frozen(late, lock);
        CHECK(!harness_failed() && !party_answered(late));
        granted = world_seen(lock, "held") == 1;
        if (granted)
            continue;
        /* Not in one step: ZooKeeper has cleared the lock's empty folder away, for one. */
        party_go_on(late);
        CHECK_EQ_INT(party_answer(late), DLOCK_OK);
    }
    CHECK_EQ_INT(party_take(rival, "L", patience_ms()), DLOCK_OK);
    party_go_on(late);
    for (int i = 0; i < 200; i++) {
        nap_ms(1);
        bool answered = party_answered(late); /* looked at *before* the rival is asked */
        CHECK_EQ_INT(party_still(rival), DLOCK_OK);
        MUST(!answered);
    }
    CHECK_EQ_INT(party_give_back(rival), DLOCK_OK);
    CHECK_EQ_INT(party_answer(late), DLOCK_OK);
    CHECK(grid_rises(party_token(rival), party_token(late)));
}

/* ---- Clocks ---- */

ROW(T4, a_suspended_machine, "the machine was suspended: the boot clock jumps")
{
    NEEDS(CAN_CALL);
    CLIENT_WITH_HOLD(client, lock, hold, "L", "lock.ttl_ms=30000");
    DLOCK_AUTO(dlock_hold) again = NULL;
    CHECK_EQ_INT(dlock_hold_notify(hold, 1), DLOCK_OK);
    shim_boot += hour_ns;
    MUST(dlock_hold_check(hold) == DLOCK_ELOST); /* at once, and asking nobody */
    CHECK_EQ_INT(dlock_hold_remaining_ms(hold), 0);
    dlock_event *event = world_event(client, DLOCK_EVENT_LOST);
    CHECK(event != NULL);
    dlock_event_free(event);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ELOST);
    CHECK_EQ_INT(dlock_lock_acquire(lock, patience_ms(), &again, NULL), DLOCK_OK);
    CHECK(grid_rises(dlock_hold_token(hold), dlock_hold_token(again)));
    CHECK_EQ_INT(dlock_hold_release(again, NULL), DLOCK_OK);
}

ROW(T5, wall_clock_here, "the time of day jumps here")
{
    NEEDS(CAN_CALL);
    DLOCK_AUTO(dlock_client) client = world_client("lock.ttl_ms=20000 lock.renew=off");
    DLOCK_AUTO(dlock_client) other = world_client(NULL);
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, "L", NULL);
    DLOCK_AUTO(dlock_lock) same = world_lock(other, "L", NULL);
    static const int64_t jumps[] = {1, -2,
                                    1}; /* hours: forward, far back, and right again */
    int64_t last = 0;
    for (size_t i = 0; i < sizeof(jumps) / sizeof(*jumps); i++) {
        DLOCK_AUTO(dlock_hold) hold = world_take(lock);
        DLOCK_AUTO(dlock_hold) none = NULL;
        int64_t before = dlock_hold_remaining_ms(hold);
        shim_real += jumps[i] * hour_ns;
        CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
        CHECK(dlock_hold_remaining_ms(hold) <= before);
        CHECK(dlock_hold_remaining_ms(hold) > before - 10000);
        int64_t began = now_ms();
        CHECK(grid_timed_out(dlock_lock_acquire(same, 200, &none, NULL)));
        CHECK(now_ms() - began >= 199);
        CHECK(grid_in_time("a wait", began, 200));
        CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
        CHECK(grid_rises(last, dlock_hold_token(hold)));
        last = dlock_hold_token(hold);
    }
}

/* The Redis again, with a clock that we set: *ret_offset is added to its time of day, in ns. */
static bool restart_with_clock(volatile int64_t **ret_offset)
{
    server_clock clock;
    if (!server_clock_enter(&clock))
        return false;
    *ret_offset = clock.offset;
    bool runs = service_here()->restart();
    server_clock_leave();
    return runs;
}

ROW(T6, wall_clock_there,
    "the server's time of day jumps: stale writes are refused all the same")
{
    NEEDS(CAN_CALL, CAN_CLOCK);
    volatile int64_t *offset = NULL;
    CHECK(restart_with_clock(&offset));
    resource *shelf = resource_new();
    DLOCK_AUTO(dlock_client) client = world_client("lock.ttl_ms=3000");
    DLOCK_AUTO(dlock_client) other = world_client("client.poll_ms=50");
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, "L", NULL);
    DLOCK_AUTO(dlock_lock) same = world_lock(other, "L", NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    int64_t seen;
    *offset = hour_ns; /* the lease is over there, and not here */
    DLOCK_AUTO(dlock_hold) next = world_take(same);
    CHECK(grid_rises(dlock_hold_token(hold), dlock_hold_token(next)));
    CHECK(resource_look(shelf, dlock_hold_token(next), &seen));
    MUST(!resource_write(shelf, dlock_hold_token(hold), seen));
    AWAIT(dlock_hold_check(hold) == DLOCK_ELOST); /* at the next renewal */
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ELOST);
    *offset = -hour_ns; /* and far back */
    CHECK_EQ_INT(dlock_hold_verify(next, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(next, NULL), DLOCK_OK);
    DLOCK_AUTO(dlock_hold) last = world_take(lock);
    CHECK(grid_rises(dlock_hold_token(next), dlock_hold_token(last)));
    CHECK_EQ_INT(dlock_hold_release(last, NULL), DLOCK_OK);
    resource_free(shelf);
}

ROW(T7, drift, "the clocks run at different rates, within the 1 % that is held back")
{
    NEEDS(CAN_CALL, CAN_CLOCK);
    static const int64_t rates[] = {-10000, 10000}; /* millionths */
    for (size_t i = 0; i < sizeof(rates) / sizeof(*rates); i++) {
        CLIENT_WITH_LOCK(client, lock, "L", "lock.ttl_ms=1000 lock.renew=off");
        shim_drift(rates[i]);
        DLOCK_AUTO(dlock_hold) hold = world_take(lock);
        bool gone = false;
        while (!gone) { /* asked *before* the check */
            gone = strcmp(redis_server_call(world_redis(), "EXISTS L"), "0") == 0;
            dlock_err code = dlock_hold_check(hold);
            MUST(code == DLOCK_ELOST || (code == DLOCK_OK && !gone));
        }
    }
}

/* ---- Renewals ---- */

/* All threads of this process but this one run only when nobody else wants to. */
static void starve_threads(int policy)
{
    DIR *dir = opendir("/proc/self/task");
    struct sched_param param = {0};
    struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        if (atoi(entry->d_name) > 0 && atoi(entry->d_name) != (int)syscall(SYS_gettid))
            (void)sched_setscheduler(atoi(entry->d_name), policy,
                                     &param); /* it may end */
    if (dir)
        closedir(dir);
}

/* Nice enough to leave the other cells alone, and not the threads that are starved. */
static pid_t spin(void)
{
    pid_t parent = getpid(), pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)setpriority(PRIO_PROCESS, 0, 19);
    while (getppid() == parent)
        continue;
    _exit(0);
}

ROW(T8, starved, "the threads of the library get no processor")
{
    enum { SPINNERS = 4 };
    NEEDS(CAN_CALL);
    pid_t spinners[SPINNERS];
    int losses = 0;
    for (int i = 0; i < SPINNERS; i++)
        spinners[i] = spin();
    DLOCK_AUTO(dlock_client) client = world_client("lock.ttl_ms=300 lock.owner=none");
    DLOCK_AUTO(dlock_client) other = world_client("client.poll_ms=20");
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, "L", NULL);
    DLOCK_AUTO(dlock_lock) same = world_lock(other, "L", NULL);
    starve_threads(SCHED_IDLE);
    int64_t end = now_ms() + 1500;
    while (now_ms() < end && !harness_failed()) {
        DLOCK_AUTO(dlock_hold) hold = world_take(lock);
        DLOCK_AUTO(dlock_hold) rival = NULL;
        dlock_err got = dlock_lock_acquire(same, 450, &rival, NULL);
        if (got == DLOCK_OK) { /* then it was lost before, whoever noticed */
            bool lost = dlock_hold_check(hold) == DLOCK_ELOST;
            if (!harness_check(__FILE__, __LINE__, lost, "lost before another has it"))
                grid_must();
            losses++;
        }
        (void)dlock_hold_release(rival, NULL); /* ELOST, if it came to that */
        (void)dlock_hold_release(hold, NULL);
    }
    starve_threads(SCHED_OTHER);
    for (int i = 0; i < SPINNERS; i++) {
        kill(spinners[i], SIGKILL);
        waitpid(spinners[i], NULL, 0);
    }
    harness_note("%d holds were lost", losses);
}

static bool is_renewed(dlock_client *client, const dlock_hold *hold)
{
    int64_t before = api_stat(client, "renewals");
    int64_t end = now_ms() + patience_ms();
    while (api_stat(client, "renewals") <= before && dlock_hold_check(hold) == DLOCK_OK &&
           now_ms() < end)
        nap_ms(1);
    return api_stat(client, "renewals") > before;
}

ROW(T9, a_renewal_fails, "a renewal fails; renewing goes on, also after a loss")
{
    NEEDS(CAN_CALL);
    bool wired = !service_here()->lacks[CAN_WIRE];
    DLOCK_AUTO(dlock_client)
    client = grid_client_at(wired ? wire_uri() : world_uri(), "lock.ttl_ms=2100");
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, "L", NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    if (wired) {
        CHECK(wire("drop-reply 1 %s", service_here()->keep));
        CHECK(is_renewed(client, hold));
        CHECK_EQ_INT(wire_deeds(), 1);
        CHECK(wire("hole both")); /* for half of the lease */
        nap_ms(1000);
        CHECK(wire("pass"));
        CHECK(is_renewed(client, hold));
    }
    CHECK(is_renewed(client, hold));
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
    CHECK(world_lose("L", hold));
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ELOST);
    DLOCK_AUTO(dlock_hold) next = world_take(lock);
    CHECK(is_renewed(client, next));
    CHECK_EQ_INT(dlock_hold_check(next), DLOCK_OK);
}

ROW(T10, a_renewal_never_creates,
    "the lock is gone there: a renewal doesn't bring it back")
{
    PARTY(holder) = party_new(NULL, "lock.ttl_ms=1000");
    CLIENT_WITH_LOCK(client, lock, "L", NULL);
    CHECK_EQ_INT(party_take(holder, "L", 0), DLOCK_OK);
    CHECK_EQ_INT(world_evict("L"), DLOCK_OK);
    dlock_err code = DLOCK_OK;
    int64_t end = now_ms() + patience_ms();
    while (code == DLOCK_OK && now_ms() < end) {
        MUST(world_seen(lock, "held") != 1);
        code = party_still(holder);
    }
    CHECK_EQ_INT(code, DLOCK_ELOST);
    CHECK_EQ_INT(world_seen(lock, "held"), 0);
    CHECK_EQ_INT(party_give_back(holder), DLOCK_ELOST);
}

ROW(T11, taken_over_and_released,
    "taken over and released by others: it isn't the same hold again")
{
    NEEDS(CAN_CALL);
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(client, lock, old, "L", "lock.owner=none lock.ttl_ms=1000");
    CHECK_EQ_INT(world_evict("L"), DLOCK_OK);
    CHECK_EQ_INT(world_try("L"), DLOCK_OK);        /* another had it, and gave it back */
    DLOCK_AUTO(dlock_hold) own = world_take(lock); /* the same client, another grant */
    CHECK(strcmp(dlock_hold_owner(own), dlock_hold_owner(old)) != 0);
    AWAIT(dlock_hold_check(old) ==
          DLOCK_ELOST); /* its renewal isn't taken for the other's */
    CHECK_EQ_INT(dlock_hold_release(old, NULL), DLOCK_ELOST);
    CHECK_OK(dlock_hold_verify(own, &err), err);
    CHECK_EQ_INT(world_try("L"), DLOCK_EBUSY);
}

ROW(T12, odd_leases, "leases of 0, below 0, out of range")
{
    static const struct {
        const char *settings;
        dlock_err code;
    } leases[] = {
        {"lock.ttl_ms=100", DLOCK_OK},
        {"lock.ttl_ms=2592000000", DLOCK_OK},
        {"lock.ttl_ms=99", DLOCK_EINVAL},
        {"lock.ttl_ms=0", DLOCK_EINVAL},
        {"lock.ttl_ms=-1", DLOCK_EINVAL},
        {"lock.ttl_ms=2592000001", DLOCK_EINVAL},
        {"lock.ttl_ms=1e3", DLOCK_EINVAL},
        {"lock.ttl_ms=9223372036854775807", DLOCK_EINVAL},
        {"lock.ttl_ms=18446744073709551716", DLOCK_EINVAL}, /* 100 modulo 2^64 */
    };
    for (size_t i = 0; i < sizeof(leases) / sizeof(*leases); i++) {
        if (grid_binding_is("dlock")) {
            PARTY(p) = party_new(NULL, leases[i].settings);
            /* A try may hear of 100 ms when they are over. */
            CHECK_EQ_INT(party_take(p, "L", patience_ms()), leases[i].code);
            continue;
        }
        DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
        dlock_err code =
            dlock_conf_set(conf, "lock.ttl_ms", leases[i].settings + 12, NULL);
        CHECK_EQ_INT(code, leases[i].code);
        if (code == DLOCK_OK) {
            DLOCK_AUTO(dlock_client) client = world_client(leases[i].settings);
            DLOCK_AUTO(dlock_lock) lock = world_lock(client, "L", NULL);
            DLOCK_AUTO(dlock_hold) hold = world_take(lock);
            CHECK(hold &&
                  dlock_hold_remaining_ms(hold) <= atoll(leases[i].settings + 12));
            CHECK_EQ_INT(dlock_hold_extend(hold, 0, NULL), DLOCK_EINVAL);
            CHECK_EQ_INT(dlock_hold_extend(hold, -1, NULL), DLOCK_EINVAL);
            CHECK_EQ_INT(dlock_hold_extend(hold, INT64_MAX, NULL), DLOCK_EINVAL);
        }
    }
}

ROW(T13, leases_in_seconds, "a service that counts leases in seconds, or from 1970")
{
    ONLY_FOR("memcached", "leases are kept to the millisecond there");
    grid_shown_by("backends/memcached/test_locks.c",
                  "nobody_gets_it_before_its_validity_is_over");
    grid_shown_by("backends/memcached/test_locks.c",
                  "what_memcached_can_t_do_is_refused_with_the_reason");
}
