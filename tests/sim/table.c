/* The lease table of mem: and file:, with a simulated process around each client's end of it:
 * what it asks, how it sleeps and is woken, where it stops or dies. */
#include "sim.h"

#include "backends/local/memory.h"
#include "util/error.h"
#include "util/point.h"

#include <stdlib.h>
#include <string.h>

#define ROWS 32

void (*dlk_point_hook)(const char *name);

static void at_point(const char *name);

/* ---- the table ---- */

static dlk_table view_of(uint32_t pid)
{
    dlk_table view = s.table.view;
    view.pid = s.config.mode == MODE_FILE ? pid : 1;
    return view;
}

static void init_process(process *p, uint32_t pid, const char *name);

void table_begin(void)
{
    table *t = &s.table;
    *t = (table){.inside = NOBODY, .pids = 1};
    t->view.shared = s.config.mode == MODE_FILE;
    size_t size = dlk_table_measure(&t->view, ROWS);
    t->memory = aligned_alloc(4096, size);
    if (!t->memory)
        abort();
    memset(t->memory, 0, size);
    dlk_table_lay_out(&t->view, t->memory);
    atomic_store(&t->view.head->last_token, INT64_C(1700000000000000));
    dlk_point_hook = at_point;
    init_process(&s.operator, ++ t->pids, "operator");
    dlk_local_start(&s.operator.local->base, sim_time());
}

/* ---- a process ---- */

static void told_link(dlk_host *host, bool up, const dlock_error *error)
{
    process *p = DLK_LIST_ITEM(host, process, host);
    if (p == &s.operator)
        return;
    client *c = DLK_LIST_ITEM(p, client, process);
    p->link_changed = true;
    p->link_up = up;
    if (!up) {
        dlk_error_clear(&p->link_error);
        p->link_error = dlk_error_copy(error);
    }
    if (up) /* the driver sleeps on what it had while there was no member */
        (void)table_wake(c);
}

static void told_free(dlk_host *host, dlk_key *key)
{
    process *p = DLK_LIST_ITEM(host, process, host);
    p->news |= 1u << (key->name[0] - 'a');
}

__attribute__((format(printf, 3, 4))) static void
told_log(dlk_host *host, dlock_level level, const char *format, ...)
{
    (void)host;
    (void)level;
    (void)format;
}

static void init_process(process *p, uint32_t pid, const char *name)
{
    static const char *const schemes[] = {"sim", NULL};
    static const dlk_backend_type type = {
        .name = "sim",
        .schemes = schemes,
        .traits = DLK_LOCAL_TRAITS,
        DLK_LOCAL_OPS,
    };
    p->kicks = DLK_KICKS_INIT;
    p->host = (dlk_host){.tell = &dlk_tell_nobody,
                         .notified = told_free,
                         .link = told_link,
                         .log = told_log,
                         .uuid = p->uuid,
                         .kicks = &p->kicks};
    (void)snprintf(p->uuid, sizeof(p->uuid), "%036u", pid); /* fits */
    (void)snprintf(p->name, sizeof(p->name), "%s", name);   /* fits */
    p->host.name = p->name;
    p->local = dlk_local_new(&type, &p->host);
    if (!p->local)
        abort();
    p->view = view_of(pid);
    p->local->table = &p->view;
    p->local->who.pid = p->view.pid;
    p->local->who.started = p->view.pid;
}

static void give_up(dlk_local *local)
{
    (void)local; /* the memory is the run's */
}

void table_join(client *c)
{
    char name[16];
    (void)snprintf(name, sizeof(name), "client %d", c->index); /* fits */
    init_process(&c->process, ++s.table.pids, name);
    c->process.local->leave = give_up;
    c->settings = settings_of(s.config.kind);
}

void table_leave(client *c)
{
    client *before = s.running;
    s.running = c;
    line_forget(c);
    dlk_local_stop(&c->process.local->base);
    s.running = before;
}

/* What the process had goes with it; nothing more is said to the table. */
void table_free(client *c)
{
    process *p = &c->process;
    client *before = s.running;
    s.running = c;
    c->dead = true;
    event_cancel(&p->wake);
    event_cancel(&p->watcher);
    p->local->owner = 0;
    dlk_local_stop(&p->local->base);
    dlk_local_free(&p->local->base);
    dlk_error_clear(&p->link_error);
    p->local = NULL;
    p->parked = NULL;
    dlk_settings_free(c->settings);
    c->settings = NULL;
    s.running = before;
}

void table_end(void)
{
    process *p = &s.operator;
    p->local->owner = 0;
    p->local->leave = give_up;
    dlk_local_stop(&p->local->base);
    dlk_local_free(&p->local->base);
    p->local = NULL;
    free(s.table.memory);
    s.table.memory = NULL;
}

/* The kernel knows at once: the mutex is free for who can mend the table, and the pidfds of the
 * others become readable. */
void table_died(client *c)
{
    if (s.table.inside == c->index)
        s.table.inside_died = true;
    line_forget(c);
    for (int i = 0; i < s.config.clients; i++) {
        client *other = &s.clients[i];
        if (other != c && other->process.watching)
            (void)table_watch(other); /* if it is about to look it looks once */
    }
}

/* ---- sleeping and waking ---- */

static void run_wake(event *e);

/* The driver goes to sleep on its bell, unless that has rung since it looked. */
static void park(client *c)
{
    process *p = &c->process;
    client *before = s.running;
    p->parked = NULL;
    s.running = c;
    dlk_local_arm(&p->local->base, NULL);
    dlk_local_sleep(&p->local->base, DLK_NEVER, dlk_kicks_seen(&p->kicks));
    s.running = before;
    if (!p->parked)
        (void)table_wake(c);
    else if (p->local->armed_me) /* it isn't back from the kernel, as it believes */
        atomic_store(&p->local->armed_me->asleep, 1);
}

static void run_wake(event *e)
{
    client *c = e->of;
    if (client_put_off(c, e))
        return;
    if (s.now < c->starved_until && e->number == 0) {
        e->number = 1;
        event_at(e, s.now + between(&c->rand, 1 * MS, 300 * MS), run_wake, c);
        return;
    }
    e->number = 0;
    process *p = &c->process;
    client *before = s.running;
    s.running = c;
    if (p->local->armed_me)
        atomic_store(&p->local->armed_me->asleep, 0);
    dlk_local_process(&p->local->base, client_time(c));
    s.running = before;
    park(c);
    client_after(c);
}

bool table_wake(client *c)
{
    process *p = &c->process;
    if (p->wake.timer.place || !p->local)
        return false;
    p->parked = NULL;
    event_at(&p->wake, s.now + between(&c->rand, 500, 50000), run_wake, c);
    return true;
}

void table_start(client *c)
{
    client *before = s.running;
    s.running = c;
    dlk_local_start(&c->process.local->base, client_time(c));
    s.running = before;
    park(c);
}

void table_tick(client *c)
{
    client *before = s.running;
    s.running = c;
    c->process.next_tick = dlk_local_tick(&c->process.local->base, client_time(c));
    s.running = before;
}

/* ---- stopping and dying in the middle ---- */

/* From here on its stack only unwinds: whatever it still writes is undone when it has. */
static void keep_image(client *c)
{
    c->image = malloc(s.table.view.size);
    if (!c->image)
        abort();
    memcpy(c->image, s.table.memory, s.table.view.size);
}

static void put_back_image(client *c)
{
    memcpy(s.table.memory, c->image, s.table.view.size);
    free(c->image);
    c->image = NULL;
}

static void stop_here(client *c, bool inside)
{
    dlk_rand dice = {mix(s.config.seed, 4, s.asked[c->index + 1])};
    int64_t ns = chance(&dice, 200) ? between(&dice, 1 * SEC, 20 * SEC)
                                    : between(&dice, 1 * MS, 500 * MS);
    client_pause(c, ns);
    if (inside)
        tell(c->index, ALL_NAMES, "… inside the mutex");
    c->blocked++;
    s.running = NULL;
    go_until(c->paused_until);
    s.running = c;
    c->blocked--;
    client_upset(c, s.now);
    s.table.stopped_until = s.now;
    tell(c->index, ALL_NAMES, "goes on");
    if (c->dead)
        keep_image(c);
}

static bool is_inside_fault(fault what)
{
    return what == FAULT_DEATH_INSIDE || what == FAULT_STOP_INSIDE;
}

static void at_point(const char *name)
{
    client *c = s.running;
    if (c && c->dead)
        return;
    static const char *const commits[] = {"table.commit", "table.placed", "pool.granted"};
    uint64_t before = c ? c->given[c->asking] : 0;
    for (size_t i = 0; i < sizeof(commits) / sizeof(*commits); i++)
        if (strcmp(name, commits[i]) == 0)
            table_look();
    /* Who is placed and given it in one waits for nothing. */
    if (c && strcmp(name, "table.placed") == 0 && c->given[c->asking] == before) {
        c->placed[c->asking] = ++s.table.turns;
        c->place_began[c->asking] = c->began[c->asking];
    }
    if (!c || c->strike == FAULT_NONE)
        return;
    bool inside = s.table.inside == c->index && !s.table.inside_died;
    if (inside != is_inside_fault(c->strike))
        return;
    bool last = strcmp(name, inside ? "table.leave" : "table.left") == 0;
    if (!last && c->points_left-- > 0)
        return;
    fault what = c->strike;
    c->strike = FAULT_NONE;
    fault_count(what, c->strike_at);
    tell(c->index, ALL_NAMES, "is struck at %s", name);
    if (what == FAULT_PAUSE || what == FAULT_STOP_INSIDE) {
        stop_here(c, inside);
        return;
    }
    keep_image(c);
    client_kill(c);
}

/* ---- asking ---- */

static void check_sound(void)
{
    if (!s.table.recovered)
        return;
    s.table.recovered = false;
    (void)table_rebuild(); /* what has just been mended must be whole */
}

static void conclude(client *c, const dlk_ask *ask, step at)
{
    int name = ask->key->name[0] - 'a';
    if (ask->reply != DLK_NOT_SENT)
        s.totals.decided[at]++;
    if (ask->verb == DLK_ACQUIRE && ask->reply == DLK_HELD && !ask->no_place)
        line_stay(c, name, ask->number);
    bool refused = ask->reply == DLK_REFUSED;
    bool waits_no_more = ask->verb == DLK_RELEASE ? ask->reply != DLK_NOT_SENT
                                                  : ask->verb == DLK_ACQUIRE && refused;
    if (waits_no_more && line_find(name, c->index, ask->number)) {
        line_leave(name, c->index, ask->number);
        c->placed[name] = 0;
    }
    if (refused && !kind_is_refused(ask->error))
        violated(name, "the table refuses client %d: %s", c->index,
                 dlock_error_text(ask->error));
    tell(c->index, name, "%s of %c #%llu: %s", verb_name(ask->verb), 'a' + name,
         (unsigned long long)ask->number, reply_name(ask->reply));
    check_sound();
}

static void plan_strike(client *c, fault what, step at)
{
    c->strike = what;
    c->strike_at = at;
    c->points_left = (int)between(&c->rand, 0, 4);
}

static bool strikes_at_point(fault what)
{
    return what == FAULT_PAUSE || what == FAULT_DEATH || is_inside_fault(what);
}

static void carry_out(client *c, dlk_ask *ask, int64_t now)
{
    client *before = s.running;
    s.running = c;
    c->asking = ask->key->name[0] - 'a';
    c->imports = ask->verb == DLK_IMPORT ? ask->number : 0;
    dlk_local_ask(&c->process.local->base, ask, now);
    s.running = before;
    fault missed = c->strike;
    c->strike = FAULT_NONE;
    /* The table wasn't entered, or it is over: then just behind it. */
    if ((missed == FAULT_PAUSE || missed == FAULT_DEATH) &&
        fault_apply(missed, c, ask->key->name[0] - 'a'))
        fault_count(missed, c->strike_at);
}

void table_ask(client *c, dlk_ask *ask, int64_t now)
{
    ask->reply = DLK_NOT_SENT;
    if (c->dead)
        return;
    step at = step_of(ask);
    int name = ask->key->name[0] - 'a';
    fault what = fault_draw(c, at);
    bool early = chance(&c->rand, 500);
    if (ask->verb == DLK_ACQUIRE)
        c->began[name] = ++s.table.turns;
    waiting *mine = line_find(name, c->index, ask->number);
    if (mine && ask->verb == DLK_RELEASE)
        mine->leaving = true;
    if (strikes_at_point(what))
        plan_strike(c, what, at);
    else if (what != FAULT_NONE && early && fault_apply(what, c, name))
        fault_count(what, at);
    carry_out(c, ask, now);
    if (!c->dead && what != FAULT_NONE && !strikes_at_point(what) && !early &&
        fault_apply(what, c, name))
        fault_count(what, at);
    if (c->dead) {
        if (c->image)
            put_back_image(c);
        dlk_error_clear(&ask->error);
        ask->reply = DLK_NOT_SENT;
        return;
    }
    conclude(c, ask, at);
}
