/* The clients: decisions, backend, and those who want the lock. */
#include "sim.h"

#include "backends/sleep.h"

#include "backends/limits.h"
#include "backends/redlock/redlock.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static client *of(void *world)
{
    return world;
}

static client *of_host(dlk_host *host)
{
    return DLK_LIST_ITEM(host, client, host);
}

/* ---- what the backend tells ---- */

static void told_answer(dlk_host *host, dlk_ask *ask)
{
    dlk_list_init(&ask->link);
    dlk_list_append(&of_host(host)->answers, &ask->link);
    client_wake(of_host(host), s.now);
}

static void told_link(dlk_host *host, bool up, const dlock_error *error)
{
    client *c = of_host(host);
    c->link_changed = true;
    c->link_up = up;
    dlk_error_clear(&c->link_error);
    c->link_error = up ? NULL : dlk_error_copy(error);
    client_wake(c, s.now);
}

__attribute__((format(printf, 3, 4))) static void
told_log(dlk_host *host, dlock_level level, const char *format, ...)
{
    (void)host;
    (void)level;
    (void)format;
}

/* ---- what the decisions want ---- */

static void port_ask(void *world, dlk_ask *ask, int64_t now)
{
    of(world)->backend->type->ask(of(world)->backend, ask, now);
    client_wake(of(world), now);
}

static void port_watch(void *world, dlk_key *key, bool on, int64_t now)
{
    (void)world, (void)key, (void)on, (void)now; /* nobody tells of a release */
}

static void wait_over(void *world, dlk_wait *wait)
{
    (void)wait; /* its actor looks */
    client_wake(of(world), s.now);
}

static void query_over(void *world, dlk_query *query)
{
    (void)world;
    (void)query;
}

static void changed(void *world, dlk_grant *grant)
{
    (void)world;
    (void)grant;
}

typedef struct box {
    dlk_grant grant;
    dlk_hold hold;
} box;

static dlk_hold *new_hold(void *world)
{
    (void)world;
    return calloc(1, sizeof(dlk_hold));
}

static dlk_grant *new_grant(void *world, dlk_hold **ret_hold)
{
    (void)world;
    box *one = calloc(1, sizeof(*one));
    *ret_hold = one ? &one->hold : NULL;
    return one ? &one->grant : NULL;
}

static void free_grant(void *world, dlk_grant *grant)
{
    (void)world;
    free(DLK_LIST_ITEM(grant, box, grant));
}

static void free_name(void *world, dlk_name *name)
{
    client *c = of(world);
    c->backend->type->key_close(c->backend, &name->key);
    free(name);
}

__attribute__((format(printf, 3, 4))) static void core_log(void *world, dlock_level level,
                                                           const char *format, ...)
{
    (void)world;
    (void)level;
    (void)format;
}

/* ---- opening and closing ---- */

static void set(dlk_settings *settings, const char *key, const char *value)
{
    if (dlk_settings_set(settings, key, value, NULL) != DLOCK_OK)
        abort();
}

static void open_core(client *c)
{
    const dlk_port port = {.world = c,
                           .ask = port_ask,
                           .watch = port_watch,
                           .wait_over = wait_over,
                           .query_over = query_over,
                           .changed = changed,
                           .new_grant = new_grant,
                           .new_hold = new_hold,
                           .free_grant = free_grant,
                           .free_query = (void (*)(void *, dlk_query *))query_over,
                           .free_name = free_name,
                           .log = core_log};
    dlk_limits limits = dlk_backend_limits(&dlk_redlock_backend.traits);
    limits.timeout_ms = 500;
    limits.poll_ms = 1000;
    limits.backoff_min_ms = 20;
    limits.backoff_max_ms = 500;
    if (!dlk_core_init(&c->core, &port, &limits, (uint64_t)sim_random(INT64_MAX)))
        abort();
}

static void open_backend(client *c)
{
    dlk_uri *uri = NULL;
    const char *text =
        s.servers == 3 ? "redlock://n:1,n:2,n:3" : "redlock://n:1,n:2,n:3,n:4,n:5";
    c->settings = dlk_settings_new();
    if (!c->settings || dlk_uri_parse(text, &uri, NULL) != DLOCK_OK)
        abort();
    set(c->settings, "client.timeout_ms", "500");
    set(c->settings, "client.retry_ms", "40");
    set(c->settings, "redlock.fencing", s.fencing ? "on" : "off");
    if (dlk_redlock_backend.open(&c->host, uri, c->settings, &c->backend, NULL) !=
        DLOCK_OK)
        abort();
    dlk_uri_free(uri);
}

static void open_name(client *c)
{
    c->name = calloc(1, sizeof(*c->name));
    if (!c->name)
        abort();
    c->name->key =
        (dlk_key){.name = "L", .size = 1, .kind = DLOCK_MUTEX, .settings = c->settings};
    if (c->backend->type->key_open(c->backend, &c->name->key, NULL) != DLOCK_OK ||
        !dlk_name_add(&c->core, c->name))
        abort();
}

/* Nobody sleeps. */
void dlk_kick(dlk_kicks *kicks)
{
    (void)kicks;
}

bool dlk_kicks_poll(dlk_kicks *kicks, dlk_polls *polls, uint32_t seen)
{
    (void)kicks, (void)seen;
    return dlk_polls_look(polls);
}

bool dlk_polls_look(dlk_polls *polls)
{
    (void)polls;
    return false;
}

void clients_open(void)
{
    for (int i = 0; i < CLIENTS; i++) {
        client *c = &s.client[i];
        *c = (client){.index = i, .wake_at = DLK_NEVER};
        c->rand.state = (uint64_t)sim_random(INT64_MAX);
        snprintf(c->uuid, sizeof(c->uuid), "%08x-0000-4000-8000-000000000000",
                 (unsigned)i);
        c->kicks = DLK_KICKS_INIT;
        c->host = (dlk_host){.answered = told_answer,
                             .link = told_link,
                             .log = told_log,
                             .kicks = &c->kicks,
                             .uuid = c->uuid,
                             .name = "sim",
                             .rand = &c->rand};
        dlk_list_init(&c->answers);
        open_core(c);
        open_backend(c);
        open_name(c);
        c->backend->type->start(c->backend, s.now);
        client_wake(c, s.now);
    }
}

static void digest(client *c)
{
    for (;;) {
        dlk_list *link = dlk_list_take_first(&c->answers);
        if (link) {
            dlk_core_answered(&c->core, DLK_LIST_ITEM(link, dlk_ask, link), s.now);
        } else if (c->link_changed) {
            dlock_error *why = c->link_error;
            c->link_changed = false;
            c->link_error = NULL;
            if (why)
                dlk_core_link(&c->core, false, why, s.now);
            if (c->link_up)
                dlk_core_link(&c->core, true, NULL, s.now);
            dlk_error_clear(&why);
        } else {
            return;
        }
    }
}

static void free_hold(client *c, actor *a)
{
    dlk_grant *grant = a->hold->grant;
    if (a->hold != &DLK_LIST_ITEM(grant, box, grant)->hold)
        free(a->hold);
    a->hold = NULL;
    dlk_grant_unref(&c->core, grant);
}

void clients_close(void)
{
    for (int i = 0; i < CLIENTS; i++) {
        client *c = &s.client[i];
        dlk_core_close(&c->core, s.now);
        for (int k = 0; k < ACTORS; k++) {
            actor *a = &c->actors[k];
            if (a->does == WAITS && a->wait.hold)
                a->hold = a->wait.hold;
            dlk_error_clear(&a->wait.error);
            if (a->hold)
                free_hold(c, a);
        }
        c->backend->type->stop(c->backend);
        c->core.up = false;
        digest(c);
        dlk_core_stop(&c->core);
        dlk_name_unref(&c->core, c->name);
        dlk_core_free(&c->core);
        c->backend->type->free(c->backend);
        dlk_settings_free(c->settings);
        dlk_error_clear(&c->link_error);
    }
}

/* ---- those who want it ---- */

static bool is_valid(const actor *a)
{
    return a->does == HOLDS && dlk_grant_lives(a->hold->grant) &&
           !dlk_lease_over(&a->hold->grant->lease, s.now);
}

/* After each step: at most one has it, or, where nodes may forget, two only until the next renewal
 * of the one who was forgotten. */
static void look_around(void)
{
    int valid = 0;
    for (int i = 0; i < CLIENTS; i++)
        for (int k = 0; k < ACTORS; k++)
            valid += is_valid(&s.client[i].actors[k]);
    if (valid < 2)
        s.overlap_since = DLK_NEVER;
    else if (s.overlap_since >= DLK_NEVER)
        s.overlap_since = s.now;
    if (valid > 1 && !s.forgets)
        sim_break("two hold it");
    if (valid > 1 && s.now - s.overlap_since > s.ttl_ms * MS)
        sim_break("two hold it for longer than a lease");
}

static void check_token(actor *a)
{
    a->token = a->hold->grant->token;
    if (!s.fencing) {
        if (a->token)
            sim_break("a token without fencing");
        return;
    }
    if (!s.forgets && a->token <= s.last_token)
        sim_break("a token that isn't larger than the one before");
    for (int i = 0; i < CLIENTS; i++)
        for (int k = 0; k < ACTORS; k++) {
            const actor *other = &s.client[i].actors[k];
            if (other != a && other->does == HOLDS && other->token == a->token)
                sim_break("two have the same token");
        }
    s.last_token = a->token > s.last_token ? a->token : s.last_token;
}

static void want(client *c, actor *a)
{
    bool patient = s.calm || !sim_happens(3);
    a->wait =
        (dlk_wait){.name = c->name,
                   .owner = dlk_core_new_owner(&c->core),
                   .once = !s.calm && sim_happens(10),
                   .terms = {.ttl_ms = s.ttl_ms,
                             .take = 1,
                             .renewal = sim_happens(2) ? DLK_RENEW_AUTO : DLK_RENEW_OFF}};
    a->does = WAITS;
    dlk_acquire_start(&c->core, &a->wait,
                      patient ? DLK_NEVER : s.now + sim_random(500 * MS), s.now);
}

static void take(actor *a)
{
    s.waits_over++;
    dlk_error_clear(&a->wait.error);
    if (a->wait.code != DLOCK_OK) {
        a->does = RESTS;
        a->until = s.now + sim_random(50 * MS);
        return;
    }
    a->does = HOLDS;
    a->hold = a->wait.hold;
    a->served = s.calm;
    s.grants++;
    int64_t most =
        s.calm || !sim_happens(6) ? 20 * MS : 5 * SEC; /* two of the short leases */
    a->until = s.now + sim_random(most);
    check_token(a);
    look_around();
}

static void give(client *c, actor *a)
{
    s.losses += !dlk_grant_lives(a->hold->grant);
    dlk_release_start(&c->core, a->hold, NULL, DLK_NEVER, s.now);
    free_hold(c, a);
    a->does = RESTS;
    a->until = s.now + sim_random(sim_happens(4) ? 300 * MS : 10 * MS);
}

static void act(client *c, actor *a)
{
    if (a->does == WAITS && a->wait.over)
        take(a);
    if (s.now < a->until || a->does == WAITS)
        return;
    if (a->does == HOLDS)
        give(c, a);
    else if (s.now < s.ends_at || (s.calm && !a->served))
        want(c, a);
}

bool clients_served(void)
{
    for (int i = 0; i < CLIENTS; i++)
        for (int k = 0; k < ACTORS; k++)
            if (!s.client[i].actors[k].served)
                return false;
    return true;
}

bool clients_rest(void)
{
    for (int i = 0; i < CLIENTS; i++)
        for (int k = 0; k < ACTORS; k++)
            if (s.client[i].actors[k].does != RESTS)
                return false;
    return true;
}

void client_wake(client *c, int64_t at)
{
    if (at < c->wake_at)
        c->wake_at = at;
}

void client_run(client *c)
{
    const dlk_backend_type *type = c->backend->type;
    c->wake_at = DLK_NEVER;
    if (s.now < c->stopped_until) {
        client_wake(c, c->stopped_until);
        return;
    }
    dlk_polls_begin(&c->polls, s.now);
    type->arm(c->backend, &c->polls);
    dlk_look_at(c->backend, &c->polls);
    type->process(c->backend, s.now);
    digest(c);
    dlk_core_tick(&c->core, s.now);
    for (int k = 0; k < ACTORS; k++) {
        act(c, &c->actors[k]);
        if (c->actors[k].does != WAITS && (s.now < s.ends_at || s.calm))
            client_wake(c, c->actors[k].until > s.now ? c->actors[k].until
                                                      : s.now + 10 * MS);
    }
    digest(c);
    client_wake(c, type->tick(c->backend, s.now));
    digest(c);
    client_wake(c, dlk_core_next(&c->core));
    if (c->wake_at <= s.now)
        c->wake_at = s.now + 20000; /* a turn takes its time */
    look_around();
}
