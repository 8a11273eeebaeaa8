/* The world of the tests of locks/; see the header. */
#include "world.h"

#include "util/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

world w;

static void fail(const char *what)
{
    printf("Bail out! %s\n", what);
    exit(1);
}

/* What a YES says of tokens. */
static void reserve(dlk_ask *one)
{
    if (w.tokenless)
        return;
    bool takes = one->verb == DLK_ACQUIRE || one->verb == DLK_IMPORT;
    bool keeps = dlk_number_keeps(one->number) && w.block > 0;
    if (takes || (keeps && one->refills))
        one->token = ++w.last_token;
    if (!keeps || !(takes || one->refills))
        return;
    one->asked = w.line;
    one->last_token = w.last_token += w.block - 1;
}

static void ask(void *world_, dlk_ask *one, int64_t now)
{
    (void)world_;
    (void)now;
    w.acquires += one->verb == DLK_ACQUIRE;
    w.releases += one->verb == DLK_RELEASE;
    w.renewals += one->verb == DLK_RENEW;
    if (one->verb != DLK_RELEASE && (one->undoes || one->exported))
        fail("a request says what only a release can say");
    if (w.at_once && (one->verb == DLK_ACQUIRE || one->verb == DLK_RELEASE ||
                      one->verb == DLK_RENEW)) {
        reserve(one);
        one->lasts = true;
        one->reply = DLK_YES;
        return;
    }
    if (w.refused != DLOCK_OK) {
        dlk_ask_refuse(one, dlk_error_make(w.refused, "refused"));
        w.refused = DLOCK_OK;
        return;
    }
    dlk_list_init(&one->link);
    dlk_list_append(&w.asked, &one->link);
}

static void check(void)
{
    if (!dlk_core_is_sound(&w.core))
        fail("a grant or a query is what it can't be");
}

static void watch(void *world_, dlk_key *key, bool on, int64_t now)
{
    (void)world_;
    (void)key;
    (void)now;
    w.watches += on ? 1 : -1;
}

static void wait_over(void *world_, dlk_wait *wait)
{
    (void)world_;
    (void)wait;
}

static void query_over(void *world_, dlk_query *query)
{
    (void)world_;
    (void)query;
    w.queries_over++;
}

static void free_query(void *world_, dlk_query *query)
{
    (void)world_;
    query->grant = NULL;
    w.queries_freed++;
}

static void changed(void *world_, dlk_grant *grant)
{
    (void)world_;
    w.states[dlk_grant_state(grant)]++;
}

static dlk_hold *new_hold(void *world_)
{
    (void)world_;
    w.live_holds++;
    return calloc(1, sizeof(dlk_hold));
}

/* A grant and the hold that is made with it. */
typedef struct box {
    dlk_grant grant;
    dlk_hold hold;
} box;

static dlk_grant *new_grant(void *world_, dlk_hold **ret_hold)
{
    (void)world_;
    box *one = calloc(1, sizeof(*one));
    if (!one)
        fail("no memory");
    w.live_grants++;
    w.live_holds++;
    *ret_hold = &one->hold;
    return &one->grant;
}

static void free_grant(void *world_, dlk_grant *grant)
{
    (void)world_;
    w.live_grants--;
    w.live_holds--;
    free(DLK_LIST_ITEM(grant, box, grant));
}

static void free_name(void *world_, dlk_name *name)
{
    (void)world_;
    free(name);
    w.name = NULL;
}

static void count_log(void *world_, dlock_level level, const char *format, ...)
{
    (void)world_;
    (void)level;
    (void)format;
    w.logged++;
}

static void open_down(dlk_limits limits)
{
    const dlk_port port = {
        .ask = ask,
        .watch = watch,
        .wait_over = wait_over,
        .query_over = query_over,
        .changed = changed,
        .new_grant = new_grant,
        .new_hold = new_hold,
        .free_grant = free_grant,
        .free_query = free_query,
        .free_name = free_name,
        .log = count_log,
        .attended = &w.attended,
    };
    w = (world){.now = 1000 * MS};
    dlk_list_init(&w.asked);
    if (!dlk_core_init(&w.core, &port, &limits, 42))
        fail("no memory");
    w.name = malloc(sizeof(*w.name));
    if (!w.name)
        fail("no memory");
    memset(w.name, 0x5a, sizeof(*w.name)); /* only key and agreed are ours to fill */
    w.name->agreed = 0;
    w.name->key = (dlk_key){.name = "n", .size = 1, .kind = DLOCK_MUTEX};
    if (!dlk_name_add(&w.core, w.name))
        fail("no memory");
}

void world_open_with(dlk_limits limits)
{
    open_down(limits);
    world_back();
}

static const dlk_limits usual = {
    .margin = {1, 2},
    .timeout_ms = 3000,
    .connect_ms = 1000,
    .poll_ms = 1000,
    .backoff_min_ms = 50,
    .backoff_max_ms = 2000,
};

void world_open(void)
{
    world_open_with(usual);
}

void world_open_unconnected(void)
{
    open_down(usual);
}

void world_close(void)
{
    dlk_core_close(&w.core, w.now);
    check();
    dlk_list *link;
    w.core.up = false;
    while ((link = dlk_list_take_first(&w.asked))) {
        dlk_ask *one = DLK_LIST_ITEM(link, dlk_ask, link);
        one->reply = DLK_UNKNOWN;
        dlk_core_answered(&w.core, one, w.now);
    }
    dlk_core_stop(&w.core);
    dlk_name_unref(&w.core, w.name);
    if (w.live_grants != 0 || w.live_holds != 0 || w.attended != 0)
        fail("a grant or a hold is left over");
    if (w.core.alarm_users != 0 || w.core.alarms.count != 0)
        fail("an alarm is left over");
    dlk_core_free(&w.core);
}

void world_move(int64_t ms)
{
    int64_t end = w.now + ms * MS;
    while (dlk_core_next(&w.core) <= end) {
        int64_t next = dlk_core_next(&w.core);
        if (next > w.now)
            w.now = next;
        dlk_core_tick(&w.core, w.now);
        check();
    }
    w.now = end;
    dlk_core_tick(&w.core, w.now);
    check();
}

dlk_ask *world_asked(dlk_verb verb)
{
    DLK_LIST_FOR (it, &w.asked)
        if (DLK_LIST_ITEM(it, dlk_ask, link)->verb == verb)
            return DLK_LIST_ITEM(it, dlk_ask, link);
    return NULL;
}

static dlk_ask *take(dlk_verb verb)
{
    dlk_ask *one = world_asked(verb);
    if (!one)
        fail("the test answers a request that wasn't made");
    dlk_list_remove(&one->link);
    return one;
}

void world_answer(dlk_verb verb, dlk_reply reply)
{
    dlk_ask *one = take(verb);
    one->reply = reply;
    one->lasts = reply == DLK_YES && !w.found;
    if (reply == DLK_YES)
        reserve(one);
    dlk_core_answered(&w.core, one, w.now);
    check();
}

void world_held(int64_t rest_ms)
{
    dlk_ask *one = take(DLK_ACQUIRE);
    one->reply = DLK_HELD;
    one->wait_ms = rest_ms;
    dlk_core_answered(&w.core, one, w.now);
    check();
}

void world_refuse(dlk_verb verb, dlock_err code)
{
    dlk_ask *one = take(verb);
    dlk_ask_refuse(one, dlk_error_make(code, "refused"));
    dlk_core_answered(&w.core, one, w.now);
    check();
}

void world_cut(void)
{
    dlock_error *why = dlk_error_make(DLOCK_EUNAVAIL, "cut");
    dlk_list *link;
    dlk_core_link(&w.core, false, why, w.now);
    while ((link = dlk_list_take_first(&w.asked))) {
        dlk_ask *one = DLK_LIST_ITEM(link, dlk_ask, link);
        one->reply = DLK_UNKNOWN;
        dlk_core_answered(&w.core, one, w.now);
    }
    dlk_error_clear(&why);
    check();
}

void world_back(void)
{
    dlk_core_link(&w.core, true, NULL, w.now);
    check();
}

dlk_terms world_terms(void)
{
    return (dlk_terms){.ttl_ms = 10000, .renewal = DLK_RENEW_AUTO, .reentrant = true};
}

void world_acquire_terms(dlk_wait *wait, uint64_t thread, int64_t wait_ms,
                         dlk_terms terms)
{
    memset(wait, 0x55, sizeof(*wait)); /* whatever lay there */
    wait->name = w.name;
    wait->owner = thread ? thread : dlk_core_new_owner(&w.core);
    wait->once = wait_ms == 0;
    wait->terms = terms;
    dlk_acquire_start(&w.core, wait,
                      wait_ms ? dlk_clock_after(w.now, wait_ms) : DLK_NEVER, w.now);
    check();
}

void world_acquire(dlk_wait *wait, uint64_t thread, int64_t wait_ms)
{
    world_acquire_terms(wait, thread, wait_ms, world_terms());
}

void world_release(dlk_wait *wait, dlk_hold *hold)
{
    dlk_release_start(&w.core, hold, wait, dlk_clock_after(w.now, 3000), w.now);
    check();
}

void world_free_hold(dlk_hold *hold)
{
    dlk_grant *grant = hold->grant;
    if (!atomic_load(&hold->released))
        dlk_release_start(&w.core, hold, NULL, DLK_NEVER, w.now);
    if (hold != &DLK_LIST_ITEM(grant, box, grant)->hold) {
        free(hold);
        w.live_holds--;
    }
    dlk_grant_unref(&w.core, grant);
}

void world_forget(dlk_wait *wait)
{
    dlk_error_clear(&wait->error);
    if (wait->hold)
        world_free_hold(wait->hold);
    wait->hold = NULL;
}

void world_end(dlk_wait **waits)
{
    dlk_core_close(&w.core, w.now);
    for (; *waits; waits++) {
        world_forget(*waits);
        **waits = (dlk_wait){0};
    }
    world_close();
}
