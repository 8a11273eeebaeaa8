/* The table, the people and what they find after a death; see the header. */
#include "stage.h"

#include "backends/local/process.h"
#include "check.h"
#include "client.h"
#include "util/clock.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ENTER_MS   2000
#define BEDTIME_MS 20000 /* until the waiter sleeps */
/* How long the waiter may take. It should be microseconds. */
#define PATIENCE_MS 20000

static bool enter(crash_stage *stage, dlk_section *section)
{
    return dlk_table_enter(&stage->table, section, ENTER_MS) == DLK_ENTERED;
}

static uint32_t find(dlk_section *section, const char *lock)
{
    size_t size = strlen(lock);
    return dlk_table_find(section, lock, size, dlk_table_hash(lock, size));
}

static dlk_request request_of(const crash_stage *stage, const crash_person *person,
                              int64_t now)
{
    const crash_pool *pool = &stage->scene->pool;
    return (dlk_request){.owner = person->owner,
                         .number = 1,
                         .ttl = HOUR,
                         .now = now,
                         .kind = pool->kind ? (uint32_t)pool->kind : DLOCK_MUTEX,
                         .take = person->take,
                         .permits = pool->kind == DLK_KIND_CONDITION ? 0 : pool->permits};
}

dlk_outcome person_acquire(crash_stage *stage, crash_person *person, const char *lock,
                           int64_t now, int64_t *token)
{
    dlk_section section;
    int64_t until;
    size_t size = strlen(lock);
    dlk_outcome outcome = DLK_NOTHING;
    dlk_request request = request_of(stage, person, now);
    if (!enter(stage, &section))
        return DLK_NOTHING;
    uint32_t row = dlk_table_make(&section, lock, size, dlk_table_hash(lock, size), now);
    if (row != 0)
        outcome =
            dlk_table_acquire(&section, row, &request, &person->turn, token, &until);
    dlk_table_leave(&section);
    return section.damaged ? DLK_NOTHING : outcome;
}

static bool give_back(crash_stage *stage, crash_person *person, const char *lock,
                      bool used)
{
    dlk_section section;
    dlk_request request = request_of(stage, person, stage->now);
    request.used = used;
    if (!enter(stage, &section))
        return false;
    uint32_t row = find(&section, lock);
    bool ours = row != 0 && dlk_table_release(&section, row, &request, &person->turn);
    dlk_table_leave(&section);
    return ours && !section.damaged;
}

bool person_release(crash_stage *stage, crash_person *person, const char *lock)
{
    return give_back(stage, person, lock, false);
}

bool person_use(crash_stage *stage, crash_person *person, const char *lock)
{
    return give_back(stage, person, lock, true);
}

int64_t person_signal(crash_stage *stage, const char *lock)
{
    dlk_section section;
    if (!enter(stage, &section))
        return -1;
    int64_t signalled = dlk_pool_signal(&section, find(&section, lock), 1, stage->now);
    dlk_table_leave(&section);
    return section.damaged ? -1 : signalled;
}

bool person_renew(crash_stage *stage, crash_person *person, const char *lock)
{
    dlk_section section;
    dlk_request request = request_of(stage, person, stage->now + HOUR);
    if (!enter(stage, &section))
        return false;
    uint32_t row = find(&section, lock);
    bool ours = row != 0 && dlk_table_renew(&section, row, &request, &person->turn);
    dlk_table_leave(&section);
    return ours && !section.damaged;
}

bool person_export(crash_stage *stage, crash_person *person, const char *lock)
{
    dlk_section section;
    dlk_request request = request_of(stage, person, stage->now);
    if (!enter(stage, &section))
        return false;
    uint32_t row = find(&section, lock);
    bool ours = row != 0 && dlk_table_export(&section, row, &request);
    dlk_table_leave(&section);
    return ours && !section.damaged;
}

bool person_import(crash_stage *stage, crash_person *person, const char *lock)
{
    dlk_section section;
    char uuid[DLK_MEMBER_UUID], giver[DLK_OWNER_SIZE];
    int64_t token;
    dlk_request request = request_of(stage, person, stage->now);
    dlk_member_uuid(dlk_member_at(&stage->table, (uint32_t)stage->giver.owner), uuid);
    (void)snprintf(giver, sizeof(giver), "%s:1", uuid);
    if (!enter(stage, &section))
        return false;
    uint32_t row = find(&section, lock);
    bool ours = row != 0 && dlk_table_import(&section, row, &request, giver, &token);
    dlk_table_leave(&section);
    return ours && !section.damaged;
}

crash_person person_join(crash_stage *stage, uint32_t pid)
{
    static int number;
    char uuid[DLK_MEMBER_UUID];
    dlk_section section;
    crash_person person = {.owner = 0};
    (void)snprintf(uuid, sizeof(uuid), "u%d", number++);
    dlk_identity who = {
        .pid = pid, .started = dlk_process_started(pid), .uuid = uuid, .name = "test"};
    if (enter(stage, &section)) {
        person.owner = dlk_member_join(&section, &who);
        dlk_table_leave(&section);
    }
    return person;
}

void person_evict(crash_stage *stage, const char *lock)
{
    dlk_section section;
    if (!enter(stage, &section))
        return;
    uint32_t row = find(&section, lock);
    if (row != 0)
        dlk_table_evict(&section, row, stage->now);
    dlk_table_leave(&section);
}

void person_bury(crash_stage *stage, const crash_person *person)
{
    dlk_section section;
    if (!enter(stage, &section))
        return;
    dlk_member_bury(&section, person->owner, stage->now);
    dlk_table_leave(&section);
}

pid_t dead_process(void)
{
    (void)fflush(stdout); /* or the child would own a copy of what waits in it */
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    if (pid < 0 || waitpid(pid, NULL, 0) != pid)
        abort();
    return pid;
}

/* A member's process is another one from now on: people are cast before they are born. */
static void become(crash_stage *stage, const crash_person *person, pid_t pid)
{
    dlk_member *member = dlk_member_at(&stage->table, (uint32_t)person->owner);
    if (!member)
        return;
    member->started = dlk_process_started((uint32_t)pid);
    atomic_store(&member->word, member->word >> 32 << 32 | (uint32_t)pid);
}

/* ---- the waiter ---- */

/* Sleeps as a client of the table does until it has been given the lock; says whether. */
static void wait_once(crash_stage *stage, int to)
{
    int64_t token, granted_until;
    int64_t until = dlk_clock_after(dlk_clock_now(), PATIENCE_MS);
    dlk_kicks kicks = DLK_KICKS_INIT;
    dlk_host host = {.tell = &dlk_tell_nobody, .kicks = &kicks};
    dlk_local local = {.base.host = &host, .table = &stage->table};
    local.me = dlk_member_at(&stage->table, (uint32_t)stage->waiter.owner);
    bool granted = false;
    /* To bed first: in a recovery it may have been given the lock, but asleep since before. */
    local.seen = atomic_load(&local.me->bell);
    while (!granted && dlk_clock_now() < until) {
        dlk_local_arm(&local.base, NULL);
        dlk_local_sleep(&local.base, until, dlk_kicks_seen(&kicks));
        local.seen = atomic_load(&local.me->bell);
        granted =
            dlk_turn_granted(&stage->table, &stage->waiter.turn, &token, &granted_until);
    }
    /* Woken by the end of the time isn't woken. */
    char said = granted && dlk_clock_now() < until ? 'g' : 't';
    if (write(to, &said, 1) != 1)
        _exit(1);
}

static void start_waiter(crash_stage *stage)
{
    int down[2], up[2];
    if (pipe2(down, O_CLOEXEC) != 0 || pipe2(up, O_CLOEXEC) != 0)
        abort();
    (void)fflush(stdout);
    stage->waiter_pid = fork();
    if (stage->waiter_pid < 0)
        abort();
    if (stage->waiter_pid == 0) {
        char command;
        (void)close(down[1]); /* so that the test's end is ours */
        while (read(down[0], &command, 1) == 1)
            wait_once(stage, up[1]);
        _exit(0);
    }
    (void)close(down[0]);
    (void)close(up[1]);
    stage->to_waiter = down[1];
    stage->from_waiter = up[0];
    become(stage, &stage->waiter, stage->waiter_pid);
}

static void stop_waiter(crash_stage *stage)
{
    (void)close(stage->to_waiter);
    (void)close(stage->from_waiter);
    (void)kill(stage->waiter_pid, SIGKILL); /* ours, and not reaped */
    (void)waitpid(stage->waiter_pid, NULL, 0);
    stage->waiter_pid = 0;
}

static bool waiter_sleeps(crash_stage *stage)
{
    const dlk_member *member =
        dlk_member_at(&stage->table, (uint32_t)stage->waiter.owner);
    int64_t until = dlk_clock_after(dlk_clock_now(), BEDTIME_MS);
    if (write(stage->to_waiter, "w", 1) != 1)
        return false;
    /* Said that it sleeps, and does: then it is in the futex. */
    while (atomic_load(&member->asleep) == 0 ||
           dlk_process_state((uint32_t)stage->waiter_pid) != 'S') {
        if (dlk_clock_now() >= until)
            return false;
        (void)sched_yield();
    }
    return true;
}

static bool waiter_was_told(crash_stage *stage)
{
    char said = 't';
    struct pollfd said_it = {.fd = stage->from_waiter, .events = POLLIN};
    return poll(&said_it, 1, PATIENCE_MS * 2) == 1 &&
           read(stage->from_waiter, &said, 1) == 1 && said == 'g';
}

/* ---- before ---- */

/* From now on victims find the table as it is now. */
static void keep(crash_stage *stage)
{
    atomic_store(&dlk_member_at(&stage->table, (uint32_t)stage->waiter.owner)->asleep, 0);
    memcpy(stage->image, stage->table.head, stage->table.size);
}

void stage_open(crash_stage *stage, const crash_scene *scene, const char *name)
{
    dlk_file_wish wish = {
        .path = temp_path(name), .slots = 4, .mode = 0600, .wait_ms = PATIENCE_MS};
    *stage = (crash_stage){.scene = scene, .act = scene->act};
    if (dlk_file_open(&stage->file, &stage->table, &wish, NULL) != DLOCK_OK)
        abort();
    /* The others are forks of this process, and they are to have the table. */
    if (madvise(stage->table.head, stage->table.size, MADV_DOFORK) != 0)
        abort();
    stage->image = malloc(stage->table.size);
    if (!stage->image)
        abort();
    stage->now = dlk_clock_now();
    stage->victim = person_join(stage, (uint32_t)getpid());
    stage->holder = person_join(stage, (uint32_t)getpid());
    stage->waiter = person_join(stage, (uint32_t)getpid());
    stage->next = person_join(stage, (uint32_t)getpid());
    stage->rescuer = person_join(stage, (uint32_t)getpid());
    stage->victim.take = scene->pool.victim;
    stage->holder.take = scene->pool.holder;
    stage->waiter.take = scene->pool.waiter;
    stage->next.take = scene->pool.permits;
    scene->set(stage);
    if (scene->waits)
        start_waiter(stage); /* it knows its place in the line */
    keep(stage);
}

void stage_recover(crash_stage *stage, void (*act)(crash_stage *stage))
{
    stage->dead = stage->victim;
    stage->victim = stage->rescuer;
    stage->act = act;
    if (stage->scene->waits) { /* awake or not: the next scene begins with a new one */
        stop_waiter(stage);
        start_waiter(stage);
    }
    keep(stage);
}

void stage_close(crash_stage *stage)
{
    if (stage->waiter_pid > 0)
        stop_waiter(stage);
    (void)unlink(stage->file.path); /* the next scene begins with an empty table */
    dlk_file_close(&stage->file, &stage->table);
    free(stage->image);
}

static void act(void *arg)
{
    crash_stage *stage = arg;
    stage->table.pid = (uint32_t)getpid();
    step_offer();
    step_begin();
    stage->act(stage);
    step_end();
}

bool stage_victim(crash_stage *stage, step_process *victim)
{
    memcpy(stage->table.head, stage->image, stage->table.size);
    if (stage->scene->waits && !waiter_sleeps(stage))
        return false;
    if (!step_fork(victim, act, stage))
        return false;
    become(stage, &stage->victim, victim->pid);
    return true;
}

/* ---- after ---- */

static const char *say(crash_stage *stage, const char *what)
{
    (void)snprintf(stage->fault, sizeof(stage->fault), "%s", what);
    return stage->fault;
}

/* The highest token that may have been given so far. */
static int64_t last_token(const crash_stage *stage)
{
    int64_t last = atomic_load(&stage->table.head->last_token);
    for (uint32_t ref = 1; ref <= stage->table.row_count; ref++) {
        const dlk_record record = dlk_row_record(&stage->table.rows[ref - 1]);
        if (record.token > last)
            last = record.token;
    }
    for (uint32_t ref = 1; ref <= stage->table.place_count; ref++) {
        const dlk_line_place *place = &stage->table.places[ref - 1];
        if (atomic_load(&place->word) != 0 && atomic_load(&place->token) > last)
            last = atomic_load(&place->token);
    }
    return last;
}

static bool is_buried(const crash_stage *stage, const crash_person *person)
{
    return !dlk_member_of(&stage->table, person->owner);
}

/* A table in which nobody has anything any more. */
static const char *leftovers(const dlk_table *table)
{
    for (uint32_t ref = 1; ref <= table->row_count; ref++)
        if (dlk_row_record(&table->rows[ref - 1]).owner != 0)
            return "a lock still has an owner";
    for (uint32_t ref = 1; ref <= table->place_count; ref++)
        if (atomic_load(&table->places[ref - 1].word) != 0)
            return "a place is still taken";
    return NULL;
}

static const char *look(crash_stage *stage, const char *(*fault)(const dlk_table *table))
{
    dlk_section section;
    if (!enter(stage, &section))
        return say(stage, "the table can't be entered");
    const char *found = section.damaged ? "the table is damaged" : fault(&stage->table);
    found = found ? say(stage, found) : NULL;
    dlk_table_leave(&section);
    return found;
}

/* Nobody else is left in the line. */
static const char *next_is_signalled(crash_stage *stage, int64_t after)
{
    crash_person next = stage->next;
    int64_t token = 0, until;
    if (person_acquire(stage, &next, "n", stage->now, &token) != DLK_QUEUED)
        return say(stage, "the next has no place in the line");
    if (person_signal(stage, "n") != 1 ||
        !dlk_turn_granted(&stage->table, &next.turn, &token, &until))
        return say(stage, "the next isn't signalled, or not alone");
    if (token <= after)
        return say(stage, "a token was given twice");
    return person_use(stage, &next, "n") ? NULL : say(stage, "the next can't use it");
}

static const char *next_gets_it(crash_stage *stage, int64_t after)
{
    if (stage->scene->pool.kind == DLK_KIND_CONDITION)
        return next_is_signalled(stage, after);
    crash_person next = stage->next;
    int64_t token = 0;
    if (person_acquire(stage, &next, "n", stage->now, &token) != DLK_GRANTED)
        return say(stage, "the next doesn't get the lock");
    if (token <= after)
        return say(stage, "a token was given twice");
    if (!person_release(stage, &next, "n"))
        return say(stage, "the next can't release the lock");
    return NULL;
}

/* Whoever may have kept the lock from the waiter lets it go; @p asker may have to ask. */
static const char *holder_gives_it_up(crash_stage *stage, crash_person *asker)
{
    crash_person holder = stage->holder;
    int64_t token;
    switch (stage->scene->holding) {
    case HOLDS_NOT:
        break;
    case HOLDS:
        if (!person_release(stage, &holder, "n"))
            return say(stage, "the holder has lost the lock");
        break;
    case MAYBE_HOLDS:
        (void)person_release(stage, &holder, "n"); /* either is right */
        break;
    case MAYBE_LEFT:
    case IS_LEFT:
        if (!person_import(stage, &holder, "n"))
            return stage->scene->holding == IS_LEFT
                       ? say(stage, "the ticket is worth nothing")
                       : NULL;
        if (!person_release(stage, &holder, "n"))
            return say(stage, "the importer can't release the lock");
        break;
    case SIGNALS:
        if (person_signal(stage, "n") < 0)
            return say(stage, "nobody can be signalled");
        break;
    case HELD_ONCE:
        if (person_acquire(stage, asker, "n", stage->now, &token) != DLK_QUEUED)
            return say(stage, "who comes after a lease overtakes who waited");
        break;
    }
    return NULL;
}

static const char *waiter_gets_it(crash_stage *stage)
{
    crash_person waiter = stage->waiter;
    int64_t token, until;
    if (!waiter_was_told(stage))
        return say(stage, dlk_turn_granted(&stage->table, &waiter.turn, &token, &until)
                              ? "the waiter was given the lock, but never woken"
                              : "the waiter wasn't given the lock");
    if (!person_release(stage, &waiter, "n"))
        return say(stage, "the waiter can't release what it was given");
    return NULL;
}

const char *stage_aftermath(crash_stage *stage)
{
    int64_t token = last_token(stage);
    crash_person asker = stage->next;
    const char *fault = NULL;
    dlk_watch_reap(&stage->table); /* as any process does that comes, or sees a death */
    fault = look(stage, table_fault);
    if (!fault && (!is_buried(stage, &stage->victim) || !is_buried(stage, &stage->dead)))
        fault = say(stage, "the dead is still a member");
    if (!fault)
        fault = holder_gives_it_up(stage, &asker);
    if (!fault && stage->scene->waits)
        fault = waiter_gets_it(stage);
    if (!fault && asker.turn.ticket != 0 && !person_release(stage, &asker, "n"))
        fault = say(stage, "who asked meanwhile doesn't get the lock");
    if (!fault)
        fault = next_gets_it(stage, token);
    if (!fault)
        fault = look(stage, leftovers);
    if (!fault)
        fault = look(stage, table_fault);
    return fault;
}
