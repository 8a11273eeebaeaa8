/* One order after the other, each with clients and a lock name of its own; see the header. */
#include "run.h"

#include "../api/world.h"
#include "harness/redis_server.h"
#include "proxy/proxy.h"
#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct stage {
    const spec *s;
    const spec_order *order;
    session all[SPEC_SESSIONS];
    int count, orders;
    char lock[64], said[512]; /* what went wrong first */
    proxy *proxy;
    proxy_link *way;
    int64_t highest; /* token */
    int64_t proxied_before;
} stage;

/* ---- what goes wrong ---- */

static bool fail(stage *g, const char *token, const char *what)
{
    if (!g->said[0])
        snprintf(g->said, sizeof(g->said), "%.40s: %.400s", token, what);
    return false;
}

static void tell_order(const stage *g)
{
    char line[SPEC_TOKENS * (SPEC_WORD + 1)] = "";
    for (int i = 0; i < g->order->count; i++)
        snprintf(line + strlen(line), sizeof(line) - strlen(line), " %s",
                 g->order->tokens[i]);
    harness_note("%s, order%s", g->s->name, line);
    (void)harness_check(__FILE__, __LINE__, false, g->said);
}

static session *find(stage *g, const char *name, size_t size)
{
    for (int i = 0; i < g->count; i++)
        if (strlen(g->all[i].name) == size && memcmp(g->all[i].name, name, size) == 0)
            return &g->all[i];
    return NULL;
}

/* ---- what must hold after every step ---- */

/* All is one process here, so that it can be seen: two valid holds at once. */
static bool one_at_most(stage *g, const char *token)
{
    int held = 0;
    for (int i = 0; i < g->count; i++) {
        session *s = &g->all[i];
        /* Of whom is stopped nothing can be asked: it may have its client's mutex. */
        if (session_busy(s) || session_stopped(s) || !s->hold ||
            dlock_hold_check(s->hold) != DLOCK_OK)
            continue;
        held++;
        if (dlock_hold_token(s->hold) > g->highest)
            g->highest = dlock_hold_token(s->hold);
        else if (dlock_hold_token(s->hold) < g->highest)
            return fail(g, token, "an older token is held after a newer one");
    }
    return held <= 1 || fail(g, token, "two hold it at once");
}

static bool is_code(dlock_err code, const char *name)
{
    const char *full = dlock_errname(code); /* DLOCK_… */
    return strcmp(full + strlen("DLOCK_"), name) == 0;
}

static bool await_answer(stage *g, const char *token, session *s, const char *name)
{
    char text[128];
    dlock_err code;
    if (!session_await_over(s, &code))
        return fail(g, token, "it hangs");
    if (is_code(code, name))
        return true;
    snprintf(text, sizeof(text), "answers %s", dlock_errname(code));
    return fail(g, token, text);
}

/* Among the answers that a mix allows. */
static bool allowed(stage *g, const session *s, dlock_err code)
{
    char words[sizeof(g->order->allowed)], *rest = NULL, text[128];
    if (!g->order->mix)
        return true;
    snprintf(words, sizeof(words), "%s", g->order->allowed);
    for (char *it = strtok_r(words, " ", &rest); it; it = strtok_r(NULL, " ", &rest))
        if (is_code(code, it))
            return true;
    snprintf(text, sizeof(text), "a call answers %s", dlock_errname(code));
    return fail(g, s->name, text);
}

/* ---- steps ---- */

static bool passed(int64_t ms)
{
    while (session_now_ms() <= ms)
        nap_ms(1);
    return true;
}

static bool server_step(stage *g, const spec_step *step)
{
    char answer[PROXY_ANSWER_MAX];
    if (strcmp(step->verb, "proxy") == 0) {
        (void)proxy_obey(g->proxy, step->arg, answer);
        return strncmp(answer, "ok", 2) == 0 || fail(g, step->name, answer);
    }
    char command[256], *at = strchr(strcpy(command, step->arg), '$'); /* the lock */
    char line[512];
    if (at)
        *at = '\0';
    snprintf(line, sizeof(line), "%s %s%s%s", step->verb, command, at ? g->lock : "",
             at ? at + 1 : "");
    const char *said = redis_server_call(world_redis(), "%s", line);
    return said[0] != '-' || fail(g, step->name, said);
}

static bool acquire_step(session *s, const spec_step *step, session_call call)
{
    if (s->hold) { /* of an earlier call of this order, and given back */
        dlock_hold_free(s->hold);
        s->hold = NULL;
    }
    int64_t wait_ms = strtoll(step->arg, NULL, 10);
    if (wait_ms > 100 && getenv("DLK_TEST_SLOW"))
        wait_ms *= 3; /* what is to happen before a deadline takes longer here */
    return session_do(s, call, wait_ms, NULL, step->point);
}

static bool cancel_step(stage *g, session *s, const spec_step *step)
{
    session *target = find(g, step->arg, strlen(step->arg));
    dlock_op *op = target ? session_op(target) : NULL;
    return !op || session_do(s, CALL_CANCEL, 0, op, step->point);
}

/* In a mix a step may come when there is nothing for it to do. */
static bool moot(const stage *g, session *s, const char *verb)
{
    bool call = strcmp(verb, "trap") != 0 && strcmp(verb, "go") != 0 &&
                strcmp(verb, "overdue") != 0 && strcmp(verb, "lapse") != 0;
    if (g->order->mix && call && session_busy(s))
        return true;
    bool of_hold = strcmp(verb, "release") == 0 || strcmp(verb, "check") == 0 ||
                   strcmp(verb, "verify") == 0 || strcmp(verb, "lapse") == 0;
    return of_hold && !s->hold && (g->order->mix || strcmp(verb, "lapse") != 0);
}

static bool do_step(stage *g, const spec_step *step, session *s)
{
    static const struct {
        const char *verb;
        session_call call;
    } calls[] = {
        {"release", CALL_RELEASE}, {"check", CALL_CHECK}, {"verify", CALL_VERIFY}};
    const char *verb = step->verb;
    if (!s)
        return server_step(g, step);
    if (moot(g, s, verb))
        return g->order->mix || fail(g, step->name, "there is no hold");
    if (strcmp(verb, "acquire") == 0 || strcmp(verb, "start") == 0)
        return acquire_step(s, step, verb[0] == 'a' ? CALL_ACQUIRE : CALL_START);
    if (strcmp(verb, "cancel") == 0)
        return cancel_step(g, s, step);
    for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
        if (strcmp(verb, calls[i].verb) == 0)
            return session_do(s, calls[i].call, 0, NULL, step->point);
    if (strcmp(verb, "trap") == 0)
        session_trap(s, step->arg);
    else if (strcmp(verb, "go") == 0)
        session_go(s);
    else if (strcmp(verb, "overdue") == 0)
        return passed(s->until);
    else if (strcmp(verb, "lapse") == 0)
        return passed(session_now_ms() + strtoll(step->arg, NULL, 10));
    else
        return fail(g, step->name, "there is no such verb");
    return true;
}

/* The waiting clients have sent so many scripts through the proxy. */
static bool await_proxied(stage *g, int count)
{
    int64_t end = session_now_ms() + patience_ms();
    while (proxy_requests(g->way, "EVAL*") < g->proxied_before + count)
        if (session_now_ms() > end)
            return false;
        else
            nap_ms(1);
    return true;
}

/* S.held, S.waits, S.over, S=CODE, asks:N, proxied:N */
static bool do_builtin(stage *g, const char *token)
{
    size_t size = strcspn(token, ".=");
    session *s = find(g, token, size);
    if (strncmp(token, "asks:", 5) == 0)
        return sessions_asks() <= atoi(token + 5) || fail(g, token, "more than that");
    if (strncmp(token, "proxied:", 8) == 0)
        return await_proxied(g, atoi(token + 8)) || fail(g, token, "they don't come");
    if (!s)
        return fail(g, token, "no such step or session");
    if (strcmp(token + size, ".held") == 0)
        return session_await_held(s) || fail(g, token, "it isn't stopped there");
    if (strcmp(token + size, ".waits") == 0)
        return session_await_waits(s) || fail(g, token, "it doesn't wait");
    dlock_err code;
    if (strcmp(token + size, ".over") == 0)
        return session_await_over(s, &code) || fail(g, token, "it hangs");
    if (token[size] != '=')
        return fail(g, token, "what is that?");
    return await_answer(g, token, s, token + size + 1);
}

static bool do_token(stage *g, const char *token)
{
    char name[SPEC_WORD];
    const char *answer = strchr(token, '=');
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(token, "="), token);
    const spec_step *step = spec_find_step(g->s, name);
    if (!step)
        return do_builtin(g, token);
    session *s = find(g, step->session, strlen(step->session));
    if (!do_step(g, step, s))
        return fail(g, token, "it takes too long");
    return !answer || await_answer(g, token, s, answer + 1);
}

/* ---- beginning and end of an order ---- */

static bool open_all(stage *g)
{
    char proxied[64] = "", settings[512];
    if (g->way)
        snprintf(proxied, sizeof(proxied), "redis://127.0.0.1:%d", proxy_port(g->way));
    snprintf(settings, sizeof(settings),
             "client.poll_ms=60000 client.backoff_min_ms=1 client.backoff_max_ms=20 %s",
             g->s->settings);
    for (; g->count < g->s->session_count; g->count++) {
        const spec_session *as = &g->s->sessions[g->count];
        session *of = as->of[0] ? find(g, as->of, strlen(as->of)) : NULL;
        if (!session_open(&g->all[g->count], as->name, of,
                          as->by_proxy && g->way ? proxied : world_uri(), settings,
                          g->lock))
            return fail(g, as->name, "doesn't open");
    }
    return true;
}

static bool all_over(stage *g)
{
    bool over = true;
    for (int i = 0; i < g->count; i++)
        over = !session_busy(&g->all[i]) && over;
    return over;
}

/* Nobody is stopped any more; holders release until nobody waits. */
static bool play_out(stage *g)
{
    int64_t end = session_now_ms() + 2 * patience_ms();
    sessions_drain(g->all, g->count, true);
    for (bool over = false; !over; nap_ms(1)) {
        over = all_over(g); /* looked at first: who ends now may hold it */
        if (!one_at_most(g, "end"))
            return false;
        for (int i = 0; i < g->count; i++)
            if (!session_busy(&g->all[i]) && g->all[i].hold)
                (void)dlock_hold_release(g->all[i].hold, NULL); /* or was already */
        if (session_now_ms() > end)
            return fail(g, "end", "a call hangs");
    }
    for (int i = 0; i < g->count; i++)
        if (!allowed(g, &g->all[i], g->all[i].result))
            return false;
    return true;
}

/* Who comes now gets it, long before any lease of 30 s is over, and finds nobody in the line. */
static bool nothing_left(stage *g)
{
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, g->lock, NULL);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    if (!lock || dlock_lock_acquire(lock, 5000, &hold, NULL) != DLOCK_OK)
        return fail(g, "end", "the lock isn't free");
    if (world_seen(lock, "waiters") > 0)
        return fail(g, "end", "somebody is left in the line");
    return dlock_hold_token(hold) > g->highest || fail(g, "end", "the token isn't newer");
}

static bool run_order(const spec *s, const spec_order *order, void *arg)
{
    stage *g = arg;
    g->s = s;
    g->order = order;
    g->count = 0;
    g->highest = 0;
    g->said[0] = '\0';
    snprintf(g->lock, sizeof(g->lock), "%.40s-%d", s->name, ++g->orders);
    (void)sessions_asks();
    bool fine = open_all(g);
    g->proxied_before = g->way ? proxy_requests(g->way, "EVAL*") : 0;
    for (int i = 0; fine && i < order->count; i++)
        fine = do_token(g, order->tokens[i]) && one_at_most(g, order->tokens[i]);
    fine = play_out(g) && fine;
    fine = fine && nothing_left(g);
    sessions_close(g->all, g->count);
    sessions_drain(g->all, g->count, false);
    if (g->way) {
        proxy_forget_plans(g->way);
        proxy_pass(g->way);
    }
    if (!fine)
        tell_order(g);
    return fine;
}

static bool put_proxy(stage *g)
{
    char target[32];
    const char *why = NULL;
    snprintf(target, sizeof(target), "127.0.0.1:%d", world_redis()->port);
    g->proxy = proxy_new(1);
    g->way = g->proxy ? proxy_listen(g->proxy, "way", 0, target, "resp", &why) : NULL;
    return harness_check(__FILE__, __LINE__, g->way != NULL, why ? why : "a proxy");
}

bool schedule_run(const char *name, int *ret_orders, char ret_why[256])
{
    static spec s;
    stage g = {.orders = 0};
    const char *backend = world_is("mem") ? "mem" : world_is("file") ? "file" : "redis";
    if (!spec_read(&s, name, backend))
        return true;
    snprintf(ret_why, 256, "%s", s.not_because);
    if (s.not_because[0])
        return false;
    sessions_begin();
    /* The scripts are known to the server from now on: plans count requests. */
    (void)world_try("scripts");
    if (!world_is("redis") || put_proxy(&g))
        (void)spec_each_order(&s, run_order, &g, ret_orders);
    proxy_free(g.proxy);
    return true;
}
