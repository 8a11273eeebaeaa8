/* Deaths: of holders, of those who wait, and at every point inside the table; and processes that
 * are stopped there, which isn't death. Built with DLK_POINTS. */
#include "check.h"
#include "client.h"
#include "harness/fork.h"
#include "harness/harness.h"
#include "harness/time.h"

#include "backends/local/process.h"
#include "util/point.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define TTL      60000 /* ms: nothing here may wait for the end of a lease */
#define GENEROUS 20000 /* ms: for what happens at once */

static const char *const small[] = {"file.slots=16", NULL};

void (*dlk_point_hook)(const char *name);

static int points_left;
static const char *stop_at;

/* Dies at the n-th point. */
static void die_there(const char *name)
{
    (void)name;
    if (--points_left == 0)
        (void)kill(getpid(), SIGKILL);
}

static void stop_there(const char *name)
{
    if (stop_at && strcmp(name, stop_at) == 0) {
        stop_at = NULL;
        (void)kill(getpid(), SIGSTOP);
    }
}

static answer acquire(fake *client, dlk_key *key, uint64_t number)
{
    return client_ask(client, DLK_ACQUIRE, key, number, TTL, dlk_clock_now());
}

static dlk_reply release(fake *client, dlk_key *key, uint64_t number)
{
    return client_ask(client, DLK_RELEASE, key, number, 0, dlk_clock_now()).reply;
}

/* Another process with a client of its own, which does what its role says, tells so and waits to
 * be killed. It is this program again: a fork of a process that has threads can't have any. */
typedef struct other {
    pid_t pid;
    int from, to; /* pipes */
} other;

typedef void role(fake *client, dlk_key *key, int from, int to);
static role hold, queue_up, live_and_die, stop_inside, stop_handing_on,
    wait_short_of_descriptors, only_wait;
static role *const roles[] = {hold,        queue_up,        live_and_die,
                              stop_inside, stop_handing_on, wait_short_of_descriptors,
                              only_wait};

static const char *uri; /* of another process' table */

static void say(int fd)
{
    if (write(fd, "x", 1) != 1)
        _exit(3);
}

static bool hear(int fd)
{
    char byte;
    return read(fd, &byte, 1) == 1;
}

enum { FROM = 3, TO = 4 }; /* descriptors of the other process */

__attribute__((constructor)) static void be_another(void)
{
    const char *number = getenv("DLK_DEATH_ROLE");
    if (!number)
        return;
    uri = getenv("DLK_DEATH_URI");
    points_left = atoi(getenv("DLK_DEATH_POINT"));
    fake *client = client_open_with(uri, small, NULL);
    if (!client)
        _exit(2);
    roles[atoi(number)](client, client_key(client, "n"), FROM, TO);
    _exit(0);
}

static void set_number(const char *name, size_t number)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%zu", number);
    (void)setenv(name, text, 1);
}

static other start(const char *file, role *body)
{
    int up[2], down[2];
    char *args[] = {NULL, NULL};
    char name[] = "other";
    other child = {.pid = -1};
    posix_spawn_file_actions_t actions;
    size_t at = 0;
    while (roles[at] != body)
        at++;
    args[0] = name;
    set_number("DLK_DEATH_ROLE", at);
    set_number("DLK_DEATH_POINT", (size_t)points_left);
    (void)setenv("DLK_DEATH_URI", temp_uri(file), 1);
    if (pipe2(up, O_CLOEXEC) != 0 || pipe2(down, O_CLOEXEC) != 0 ||
        posix_spawn_file_actions_init(&actions) != 0)
        abort();
    /* By way of numbers that are neither. */
    (void)posix_spawn_file_actions_adddup2(&actions, up[1], 100);
    (void)posix_spawn_file_actions_adddup2(&actions, down[0], FROM);
    (void)posix_spawn_file_actions_adddup2(&actions, 100, TO);
    (void)posix_spawn_file_actions_addclose(&actions, 100);
    if (posix_spawn(&child.pid, "/proc/self/exe", &actions, NULL, args, environ) != 0)
        abort();
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)unsetenv("DLK_DEATH_ROLE");
    (void)close(up[1]);
    (void)close(down[0]);
    child.from = up[0];
    child.to = down[1];
    return child;
}

static void finish(other *child)
{
    (void)kill(child->pid, SIGKILL);
    (void)kill(child->pid, SIGCONT);
    (void)waitpid(child->pid, NULL, 0);
    (void)close(child->from);
    (void)close(child->to);
}

static void hold(fake *client, dlk_key *key, int from, int to)
{
    if (acquire(client, key, 1).reply != DLK_YES)
        _exit(1);
    say(to);
    (void)hear(from);
}

static void queue_up(fake *client, dlk_key *key, int from, int to)
{
    if (acquire(client, key, 1).reply != DLK_HELD)
        _exit(1);
    say(to);
    (void)hear(from);
}

TEST(a_killed_holder_s_lock_is_handed_on_at_once)
{
    fake *client = client_open_with(temp_uri("killed"), small, NULL);
    dlk_key *key = client_key(client, "n");
    other child = start("killed", hold);
    answer got;
    CHECK(hear(child.from));
    CHECK_EQ_INT(acquire(client, key, 1).reply, DLK_HELD);
    int64_t before = dlk_clock_now();
    CHECK_EQ_INT(kill(child.pid, SIGKILL), 0); /* and it stays a zombie */
    CHECK(client_wait(client, key, 1, TTL, GENEROUS, &got));
    harness_note("after %.3f ms", (double)(dlk_clock_now() - before) / 1e6);
    finish(&child);
    client_key_close(client, key);
    client_close(client);
}

static int by_size(const void *a, const void *b)
{
    const int64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

/* How long that takes is printed: what of it is the machine's, a test can't tell. */
TEST(each_of_many_killed_holders_is_followed_by_who_is_next)
{
    enum { KILLS = 200 };
    static int64_t took[KILLS];
    fake *client = client_open_with(temp_uri("many-killed"), small, NULL);
    dlk_key *key = client_key(client, "n");
    for (int i = 0; i < KILLS; i++) {
        uint64_t number = (uint64_t)i + 1;
        other child = start("many-killed", hold);
        answer got;
        CHECK(hear(child.from));
        CHECK_EQ_INT(acquire(client, key, number).reply, DLK_HELD);
        int64_t before = dlk_clock_now();
        CHECK_EQ_INT(kill(child.pid, SIGKILL), 0);
        CHECK(client_wait(client, key, number, TTL, GENEROUS, &got));
        took[i] = dlk_clock_now() - before;
        CHECK_EQ_INT(release(client, key, number), DLK_YES);
        finish(&child);
    }
    qsort(took, KILLS, sizeof(took[0]), by_size);
    harness_note("kill -9 to the next in line, %d times: p50 %.3f ms, p99 %.3f ms", KILLS,
                 (double)took[KILLS / 2] / 1e6, (double)took[KILLS * 99 / 100] / 1e6);
    client_key_close(client, key);
    client_close(client);
}

TEST(a_death_before_anybody_waited_is_seen_by_who_waits_then)
{
    other child = start("unseen", hold);
    CHECK(hear(child.from));
    fake *client = client_open_with(temp_uri("unseen"), small, NULL);
    dlk_key *key = client_key(client, "n");
    answer got;
    finish(&child);
    CHECK(client_wait(client, key, 1, TTL, GENEROUS, &got));
    client_key_close(client, key);
    client_close(client);
}

TEST(an_open_buries_the_dead)
{
    other child = start("reap", hold);
    CHECK(hear(child.from));
    fake *first = client_open_with(temp_uri("reap"), small, NULL);
    finish(&child);
    fake *second = client_open_with(temp_uri("reap"), small, NULL);
    dlk_key *key = client_key(second, "n");
    CHECK_EQ_INT(acquire(second, key, 1).reply, DLK_YES);
    client_key_close(second, key);
    client_close(second);
    client_close(first);
}

TEST(who_died_in_the_line_is_passed_over)
{
    fake *client = client_open_with(temp_uri("line"), small, NULL);
    dlk_key *key = client_key(client, "n");
    answer got;
    CHECK_EQ_INT(acquire(client, key, 1).reply, DLK_YES);
    other child = start("line", queue_up);
    CHECK(hear(child.from));
    CHECK_EQ_INT(acquire(client, key, 2).reply, DLK_HELD);
    finish(&child);
    CHECK_EQ_INT(release(client, key, 1), DLK_YES); /* perhaps to the dead one */
    CHECK(client_wait(client, key, 2, TTL, GENEROUS, &got));
    client_key_close(client, key);
    client_close(client);
}

TEST(inspect_and_list_do_not_show_the_dead)
{
    fake *client = client_open_with(temp_uri("look"), small, NULL);
    dlk_key *key = client_key(client, "n");
    other child = start("look", hold);
    CHECK(hear(child.from));
    finish(&child);
    dlock_info *info = client_info(client, DLK_INSPECT, key, NULL, 0, dlk_clock_now());
    CHECK_STR(dlock_info_get(info, "held"), "0");
    dlock_info_free(info);
    info = client_info(client, DLK_LIST, NULL, NULL, 10, dlk_clock_now());
    CHECK_EQ_INT(dlock_info_count(info), 0);
    dlock_info_free(info);
    client_key_close(client, key);
    client_close(client);
}

/* ---- death at every point ---- */

/* All there is to do with a lock, with somebody else in the line; dies on the way. */
static void live_and_die(fake *client, dlk_key *key, int from, int to)
{
    dlk_key *far = client_key(client, "m");
    dlk_point_hook = die_there;
    fake *second = client_open_with(uri, small, NULL);
    dlk_key *same = client_key(second, "n");
    (void)acquire(client, key, 1);
    (void)acquire(client, far, 2);
    say(to);
    (void)hear(from); /* the parent is in the line now */
    (void)acquire(second, same, 1);
    (void)acquire(second, same, 2);
    (void)client_ask(client, DLK_RENEW, key, 1, TTL * 2, dlk_clock_now());
    (void)release(second, same, 1);
    (void)release(client, far, 2);
    (void)release(client, key, 1); /* to the parent */
    client_close(second);
    dlk_point_hook = NULL;
    say(to); /* lived to the end */
    (void)hear(from);
}

/* Sleeps, without asking, until the lock has been given to us: that somebody else may die over
 * the waking is the point. */
static bool is_told(fake *client, int before)
{
    const dlk_backend_type *type = client->backend->type;
    int64_t until = dlk_clock_after(dlk_clock_now(), GENEROUS);
    while (client->told == before && dlk_clock_now() < until) {
        type->arm(client->backend, NULL);
        type->sleep(client->backend, until, dlk_kicks_seen(&client->kicks));
        type->process(client->backend, dlk_clock_now());
    }
    return dlk_clock_now() < until; /* told by the end of the time, or by the bell? */
}

/* Who is behind a mark that somebody has damaged is watched on, by the descriptor that is there. */
TEST(a_death_behind_a_mark_that_was_set_back_is_noticed)
{
    fake *client = client_open_with(temp_uri("mark"), small, NULL);
    dlk_local *local = dlk_local_of(client->backend);
    dlk_table *table = local->table;
    dlk_watch watch = {.stop = true}; /* its thread ends at once: the steps are ours */
    dlk_section section;
    pid_t child = harness_fork();
    if (child == 0)
        for (;;)
            (void)pause();
    dlk_identity who = {.pid = (uint32_t)child, .uuid = "other", .name = "other"};
    CHECK_EQ_INT(dlk_table_enter(table, &section, 1000), DLK_ENTERED);
    uint64_t owner = dlk_member_join(&section, &who);
    dlk_table_leave(&section);
    CHECK(dlk_watch_start(&watch, table, local->owner));
    (void)pthread_join(watch.thread, NULL);
    watch.running = false;
    for (uint32_t mark = 2; mark > 0; mark--) {
        atomic_store(&table->head->member_high, mark);
        atomic_fetch_add(&table->head->registry, 1);
        dlk_watch_step(&watch, 0);
    }
    CHECK(watch.pidfds[1].fd >= 0);
    CHECK_EQ_INT(kill(child, SIGKILL), 0);
    CHECK_EQ_INT(waitpid(child, NULL, 0), child);
    dlk_watch_step(&watch, 0);
    CHECK(dlk_member_of(table, owner) == NULL);
    dlk_watch_stop(&watch);
    client_close(client);
}

/* Kills a child at its n-th point. False when it has no so many. */
static bool die_at(fake *client, dlk_key *key, uint64_t number, int point,
                   const char **why)
{
    points_left = point;
    other child = start("points", live_and_die);
    answer got = {.reply = DLK_NOT_SENT};
    bool holds = hear(child.from);
    int told = client->told;
    answer asked = acquire(client, key, number);
    client->backend->type->process(client->backend, dlk_clock_now()); /* old news */
    *why = holds && asked.reply != DLK_HELD ? "the child held nothing" : NULL;
    if (holds && write(child.to, "x", 1) != 1)
        *why = "the child is gone too early";
    bool lived = holds && hear(child.from);
    if (!*why && asked.reply == DLK_HELD && !is_told(client, told))
        *why = "nobody was woken";
    if (!*why && asked.reply != DLK_YES &&
        !client_wait(client, key, number, TTL, GENEROUS, &got))
        *why = "the lock was not handed on";
    finish(&child);
    if (!*why && release(client, key, number) != DLK_YES)
        *why = "the lock was lost";
    dlk_watch_reap(dlk_local_of(client->backend)->table);
    dlk_section section;
    if (dlk_table_enter(dlk_local_of(client->backend)->table, &section, 1000) !=
        DLK_ENTERED) {
        *why = "the table can't be entered";
        return lived;
    }
    const char *fault = table_fault(section.table);
    if (!*why)
        *why = fault;
    if (!*why && section.table->rows[0].first != 0)
        *why = "somebody is left in the line";
    dlk_table_leave(&section);
    return lived;
}

TEST(a_death_at_any_point_loses_nothing)
{
    fake *client = client_open_with(temp_uri("points"), small, NULL);
    dlk_key *key = client_key(client, "n");
    const char *why = NULL;
    int point = 1;
    while (!die_at(client, key, (uint64_t)point, point, &why) && !why)
        point++;
    if (why)
        harness_note("dying at point %d: %s", point, why);
    CHECK(why == NULL);
    harness_note("%d points", point - 1);
    CHECK(point > 40);
    client_key_close(client, key);
    client_close(client);
}

/* ---- stopped inside ---- */

static void stop_inside(fake *client, dlk_key *key, int from, int to)
{
    (void)acquire(client, key, 1);
    say(to);
    stop_at = "table.commit";
    dlk_point_hook = stop_there;
    (void)release(client, key, 1);
    say(to);
    (void)hear(from);
}

static bool is_stopped(pid_t pid)
{
    int64_t until = dlk_clock_after(dlk_clock_now(), GENEROUS);
    while (dlk_process_state((uint32_t)pid) != 'T' && dlk_clock_now() < until)
        nap_us(200);
    return dlk_process_state((uint32_t)pid) == 'T';
}

TEST(a_process_stopped_inside_hangs_nobody_and_is_named)
{
    fake *client = client_open_with(temp_uri("stopped"), small, NULL);
    fake *leaving = client_open_with(temp_uri("stopped"), small, NULL);
    dlk_key *key = client_key(client, "n"), *free = client_key(client, "m");
    char pid[32];
    CHECK_EQ_INT(acquire(client, free, 7).reply, DLK_YES);
    other child = start("stopped", stop_inside);
    CHECK(hear(child.from));
    CHECK(is_stopped(child.pid));
    (void)snprintf(pid, sizeof(pid), "process %d", (int)child.pid);

    answer got = acquire(client, key, 1);
    CHECK_EQ_INT(got.reply, DLK_NOT_SENT);
    CHECK_EQ_INT(got.code, DLOCK_EUNAVAIL);
    CHECK_CONTAINS(got.text, pid);
    CHECK_CONTAINS(got.text, "is stopped");
    CHECK_EQ_INT(client->downs, 1);
    CHECK_CONTAINS(client->down_text, pid);
    /* While it lasts nobody waits any more. */
    CHECK_EQ_INT(release(client, free, 7), DLK_NOT_SENT);
    int64_t next =
        client->backend->type->tick(client->backend, dlk_clock_now() + 1000000000);
    CHECK(next < dlk_clock_now() + 2 * INT64_C(1000000000));
    CHECK_EQ_INT(client->downs, 2);
    /* Who leaves isn't held up either. */
    client_close(leaving);

    CHECK_EQ_INT(kill(child.pid, SIGCONT), 0);
    CHECK(hear(child.from));
    CHECK(client_wait(client, key, 1, TTL, GENEROUS, &got));
    CHECK_EQ_INT(client->ups, 2);
    CHECK_EQ_INT(release(client, free, 7), DLK_YES);
    finish(&child);
    client_key_close(client, key);
    client_key_close(client, free);
    client_close(client);
}

static void stop_handing_on(fake *client, dlk_key *key, int from, int to)
{
    (void)acquire(client, key, 1);
    say(to);
    (void)hear(from); /* somebody is in the line now */
    stop_at = "table.record";
    dlk_point_hook = stop_there;
    (void)release(client, key, 1);
    say(to);
}

/* Who waits looks at its place alone, without entering the table: the place may say nothing that the
 * record doesn't say yet, for the process may die there, and then the record is what is true. */
TEST(a_place_is_granted_when_its_record_counts_and_no_earlier)
{
    fake *client = client_open_with(temp_uri("early"), small, NULL);
    dlk_key *key = client_key(client, "n");
    other child = start("early", stop_handing_on);
    CHECK(hear(child.from));
    CHECK_EQ_INT(acquire(client, key, 1).reply, DLK_HELD);
    CHECK_EQ_INT(write(child.to, "x", 1), 1);
    CHECK(is_stopped(child.pid));
    answer early = acquire(client, key, 1);
    CHECK_EQ_INT(early.reply, DLK_NOT_SENT);
    CHECK_CONTAINS(early.text, "is stopped");
    finish(&child); /* and what it had begun was never done */
    answer got;
    CHECK(client_wait(client, key, 1, TTL, GENEROUS, &got));
    CHECK_EQ_INT(client_ask(client, DLK_VERIFY, key, 1, 0, dlk_clock_now()).reply,
                 DLK_YES);
    CHECK_EQ_INT(release(client, key, 1), DLK_YES);
    client_key_close(client, key);
    client_close(client);
}

TEST(a_process_killed_while_stopped_inside_leaves_a_whole_table)
{
    fake *client = client_open_with(temp_uri("killed-inside"), small, NULL);
    dlk_key *key = client_key(client, "n");
    answer got;
    other child = start("killed-inside", stop_inside);
    CHECK(hear(child.from));
    CHECK(is_stopped(child.pid));
    CHECK_EQ_INT(acquire(client, key, 1).reply, DLK_NOT_SENT);
    finish(&child);
    CHECK(client_wait(client, key, 1, TTL, GENEROUS, &got));
    client_key_close(client, key);
    client_close(client);
}

/* ---- when descriptors or knowledge are short ---- */

/* Waits for a lock whose holder is killed meanwhile, with so many descriptors to spare. */
static void wait_short_of_descriptors(fake *client, dlk_key *key, int from, int to)
{
    int next = dup(0);
    struct rlimit limit = {.rlim_cur = (rlim_t)next + (rlim_t)points_left,
                           .rlim_max = (rlim_t)next + (rlim_t)points_left};
    answer got = acquire(client, key, 1);
    (void)close(next);
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || got.reply != DLK_HELD)
        _exit(1);
    say(to);
    if (!client_wait(client, key, 1, TTL, GENEROUS, &got))
        _exit(1);
    say(to);
    (void)hear(from);
}

TEST(without_descriptors_deaths_are_still_noticed)
{
    for (points_left = 0; points_left < 3; points_left++) {
        other holder = start("blind", hold);
        CHECK(hear(holder.from));
        other waiter = start("blind", wait_short_of_descriptors);
        CHECK(hear(waiter.from));
        finish(&holder);
        CHECK(hear(waiter.from));
        finish(&waiter);
    }
}

static void only_wait(fake *client, dlk_key *key, int from, int to)
{
    (void)client;
    (void)key;
    say(to);
    (void)hear(from);
}

TEST(a_process_is_known_by_its_number_and_its_start)
{
    int pidfd = -1;
    other child = start("known", only_wait);
    uint32_t pid = (uint32_t)child.pid;
    CHECK(hear(child.from));
    uint64_t started = dlk_process_started(pid);
    CHECK(started > 0);
    CHECK_EQ_INT(dlk_process_open(pid, started, &pidfd), DLK_LIFE_ALIVE);
    CHECK(pidfd >= 0);
    CHECK_EQ_INT(close(pidfd), 0);
    CHECK_EQ_INT(dlk_process_open(pid, started + 1, &pidfd), DLK_LIFE_DEAD);
    CHECK_EQ_INT(dlk_process_open(pid, 0, &pidfd), DLK_LIFE_ALIVE);
    CHECK_EQ_INT(close(pidfd), 0);
    CHECK_EQ_INT(kill(child.pid, SIGKILL), 0);
    siginfo_t info;
    CHECK_EQ_INT(waitid(P_PID, pid, &info, WEXITED | WNOWAIT), 0); /* a zombie */
    CHECK_EQ_INT(dlk_process_open(pid, started, &pidfd), DLK_LIFE_DEAD);
    finish(&child);
    CHECK_EQ_INT(dlk_process_open(pid, started, &pidfd), DLK_LIFE_DEAD);
}

TEST(a_number_that_is_another_process_by_now_counts_as_dead)
{
    fake *client = client_open_with(temp_uri("reused"), small, NULL);
    dlk_key *key = client_key(client, "n");
    other child = start("reused", hold);
    answer got;
    CHECK(hear(child.from));
    /* As if the holder's number had been given to another process since. */
    dlk_table *table = dlk_local_of(client->backend)->table;
    for (uint32_t ref = 1; ref <= table->head->member_high; ref++)
        if ((uint32_t)table->members[ref - 1].word == (uint32_t)child.pid)
            table->members[ref - 1].started++;
    CHECK(client_wait(client, key, 1, TTL, GENEROUS, &got));
    finish(&child);
    client_key_close(client, key);
    client_close(client);
}
