/*
 * See ask.h.
 */
#include "top/ask.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static int64_t now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* can't fail */
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

void top_ask_begin(top_ask *ask, cli_call *cli, top_model *model, const char *prefix)
{
    *ask = (top_ask){.cli = cli,
                     .model = model,
                     .prefix = prefix,
                     .most = TOP_LOOKS,
                     .best_us = -1,
                     .failed_at = -1,
                     .answered_at = -1};
}

/* ---- Requests -------------------------------------------------------------------------- */

static void end_request(top_request *request)
{
    dlock_op_free(request->op);
    free(request->name);
    *request = (top_request){0};
}

void top_ask_watch(top_ask *ask, dlock_op *op)
{
    dlock_err ended = dlock_op_notify(op, ++ask->cli->tag);
    (void)ended; /* no event comes then; each turn looks all the same */
}

static void start_request(top_ask *ask, top_request *request, dlock_op *op)
{
    request->op = op;
    request->began_us = now_us();
    top_ask_watch(ask, op);
}

static bool has_ended(const top_request *request)
{
    return request->op != NULL && dlock_op_result(request->op) != DLOCK_EPENDING;
}

static void cancel_request(top_request *request)
{
    if (request->op != NULL)
        dlock_op_cancel(request->op);
    end_request(request);
}

static void drop_due(top_ask *ask)
{
    for (size_t i = ask->due_at; i < ask->due_count; i++)
        free(ask->due[i]);
    free(ask->due);
    ask->due = NULL;
    ask->due_count = ask->due_at = 0;
}

void top_ask_end(top_ask *ask)
{
    cancel_request(&ask->list);
    for (size_t i = 0; i < TOP_AT_ONCE; i++)
        cancel_request(&ask->looks[i]);
    drop_due(ask);
}

static void describe(char *ret, size_t size, dlock_err code, const dlock_error *error)
{
    const char *text = dlock_error_text(error);
    (void)snprintf(ret, size, "%s", text[0] != '\0' ? text : dlock_strerror(code));
}

void top_ask_why(char *ret, size_t size, const dlock_op *op)
{
    describe(ret, size, dlock_op_result(op), dlock_op_error(op));
}

/* A semaphore's handle needs a number of permits; where the service keeps that it is asked for, and
 * nothing is written. */
static dlock_err lock_of(top_ask *ask, const char *name, dlock_kind kind,
                         dlock_lock **ret, dlock_error **error)
{
    if (kind != DLOCK_SEMAPHORE)
        return dlock_lock_new(ask->cli->client, kind, name, NULL, ret, error);
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    if (conf == NULL)
        return DLOCK_ENOMEM;
    dlock_err code = dlock_conf_set_int(conf, "lock.permits", 1, error);
    return code != DLOCK_OK
               ? code
               : dlock_lock_new(ask->cli->client, kind, name, conf, ret, error);
}

dlock_op *top_ask_inspect(top_ask *ask, const char *name, dlock_kind kind, char *why,
                          size_t size)
{
    DLOCK_AUTO(dlock_lock) lock = NULL;
    DLOCK_AUTO(dlock_error) error = NULL;
    dlock_err code = lock_of(ask, name, kind, &lock, &error);
    if (code == DLOCK_OK)
        return dlock_lock_inspect_start(lock);
    describe(why, size, code, error);
    return NULL;
}

dlock_op *top_ask_break(top_ask *ask, const char *name, dlock_kind kind,
                        const char *owner, char *why, size_t size)
{
    DLOCK_AUTO(dlock_lock) lock = NULL;
    DLOCK_AUTO(dlock_error) error = NULL;
    dlock_err code = lock_of(ask, name, kind, &lock, &error);
    if (code == DLOCK_OK)
        return dlock_lock_break_start(lock, owner);
    describe(why, size, code, error);
    return NULL;
}

/* ---- A look ---------------------------------------------------------------------------- */

static void sample(top_ask *ask, int64_t us)
{
    memmove(ask->history, ask->history + 1, (TOP_HISTORY - 1) * sizeof(*ask->history));
    ask->history[TOP_HISTORY - 1] = us;
    if (ask->samples < TOP_HISTORY)
        ask->samples++;
}

int64_t top_ask_latency(const top_ask *ask)
{
    return ask->samples > 0 ? ask->history[TOP_HISTORY - 1] : -1;
}

/* Rests for at least as long as the look took: a slow service isn't asked all the time. */
static void finish_look(top_ask *ask, int64_t now)
{
    int64_t took = now - ask->began;
    ask->next = now + (took > TOP_EVERY_MS / 2 ? took : TOP_EVERY_MS - took);
    ask->looking = false;
    drop_due(ask);
}

static top_news fail(top_ask *ask, dlock_err code, const char *why, int64_t now)
{
    for (size_t i = 0; i < TOP_AT_ONCE; i++)
        cancel_request(&ask->looks[i]);
    if (ask->failed_at < 0)
        ask->failed_at = now;
    ask->code = code;
    (void)snprintf(ask->failure, sizeof ask->failure, "%s", why);
    sample(ask, -1);
    finish_look(ask, now);
    return TOP_FAILED;
}

static top_news succeed(top_ask *ask, int64_t now)
{
    ask->code = DLOCK_OK;
    ask->failed_at = -1;
    sample(ask, ask->best_us);
    finish_look(ask, now);
    return TOP_LOOKED;
}

static void took(top_ask *ask, const top_request *request)
{
    int64_t us = now_us() - request->began_us;
    if (ask->best_us < 0 || us < ask->best_us)
        ask->best_us = us;
}

static void begin_look(top_ask *ask, int64_t now)
{
    ask->looking = true;
    ask->began = now;
    ask->best_us = -1;
    ask->asked = 0;
    start_request(ask, &ask->list,
                  dlock_client_list_start(ask->cli->client, ask->prefix, ask->cli->max));
}

/* Chooses what to ask for, by name: a row may go meanwhile. */
static bool choose(top_ask *ask, int64_t now)
{
    size_t most = ask->model->count < ask->most ? ask->model->count : ask->most;
    top_row **rows = calloc(most > 0 ? most : 1, sizeof(*rows));
    ask->due = calloc(most > 0 ? most : 1, sizeof(*ask->due));
    bool done = rows != NULL && ask->due != NULL && top_model_view(ask->model, now);
    size_t count = 0;
    if (done && ask->told)
        count = top_model_news(ask->model, ask->first, ask->screen, rows, most, now);
    else if (done)
        count = top_model_due(ask->model, ask->first, ask->screen, rows, most);
    for (size_t i = 0; i < count && done; i++) {
        char *name = strdup(rows[i]->name);
        done = name != NULL;
        if (done)
            ask->due[ask->due_count++] = name;
    }
    free(rows);
    return done;
}

static bool take_list(top_ask *ask, const dlock_info *list, int64_t now)
{
    size_t most = dlock_info_count(list); /* entries, so no more locks */
    top_seen *seen = calloc(most + 1, sizeof(*seen));
    if (seen == NULL)
        return false;
    size_t count = top_seen_of_list(seen, most, list);
    const char *why = dlock_info_get(list, "incomplete");
    ask->more = (int64_t)count >= ask->cli->max;
    (void)snprintf(ask->incomplete, sizeof ask->incomplete, "%s", why != NULL ? why : "");
    ask->deadlocks = (int64_t)cli_count_deadlocks(list);
    cli_deadlock_line(list, ask->deadlock, sizeof ask->deadlock);
    ask->told = dlock_info_get(list, "clients") != NULL;
    bool done = top_model_list(ask->model, seen, count, !ask->more && why == NULL,
                               ask->began, now);
    free(seen);
    return done && choose(ask, now);
}

static top_news turn_list(top_ask *ask, int64_t now)
{
    dlock_op *op = ask->list.op;
    dlock_err code = dlock_op_result(op);
    top_news news = TOP_SOMETHING;
    if (code == DLOCK_OK) {
        took(ask, &ask->list);
        ask->answered_at = now;
        DLOCK_AUTO(dlock_info) list = dlock_op_take_info(op);
        if (!take_list(ask, list, now))
            news = fail(ask, DLOCK_ENOMEM, dlock_strerror(DLOCK_ENOMEM), now);
    } else {
        char why[300];
        top_ask_why(why, sizeof why, op);
        news = fail(ask, code, why, now);
    }
    end_request(&ask->list);
    return news;
}

static void start_look(top_ask *ask, top_request *look, char *name, dlock_kind kind,
                       int64_t now)
{
    char why[300];
    dlock_op *op = top_ask_inspect(ask, name, kind, why, sizeof why);
    if (op == NULL) {
        (void)top_model_fail(ask->model, name, why, now);
        free(name);
        return;
    }
    look->name = name;
    look->kind = kind;
    start_request(ask, look, op);
}

/* That the name is a lock of another kind than asked for. */
static bool is_other_kind(dlock_err code)
{
    return code == DLOCK_ECONFLICT || code == DLOCK_EINVAL || code == DLOCK_ENOTSUP;
}

static bool is_service_gone(dlock_err code)
{
    return code == DLOCK_EUNAVAIL || code == DLOCK_EUNKNOWN || code == DLOCK_EQUORUM;
}

static top_news take_look(top_ask *ask, top_request *look, int64_t now)
{
    char why[300];
    dlock_err code = dlock_op_result(look->op);
    top_row *row = top_model_find(ask->model, look->name);
    top_request done = *look;
    *look = (top_request){0};
    top_news news = TOP_SOMETHING;
    if (code == DLOCK_OK) {
        top_seen seen;
        took(ask, &done);
        ask->answered_at = now;
        DLOCK_AUTO(dlock_info) info = dlock_op_take_info(done.op);
        top_seen_of_lock(&seen, info);
        seen.name = done.name;
        if (row != NULL)
            row->asked_as = done.kind;
        if (!top_model_look(ask->model, &seen, done.began_us / 1000, now))
            news = fail(ask, DLOCK_ENOMEM, dlock_strerror(DLOCK_ENOMEM), now);
    } else if (is_service_gone(code)) {
        top_ask_why(why, sizeof why, done.op);
        news = fail(ask, code, why, now);
    } else if (is_other_kind(code) && row != NULL && done.kind == DLOCK_MUTEX) {
        start_look(ask, look, done.name, DLOCK_SEMAPHORE, now);
        done.name = NULL;
    } else {
        top_ask_why(why, sizeof why, done.op);
        if (row != NULL)
            row->asked_as = DLOCK_MUTEX;
        (void)top_model_fail(ask->model, done.name, why, now);
    }
    end_request(&done);
    return news;
}

static top_news turn_looks(top_ask *ask, int64_t now)
{
    top_news news = TOP_NOTHING;
    size_t busy = 0;
    for (size_t i = 0; i < TOP_AT_ONCE; i++) {
        top_request *look = &ask->looks[i];
        if (has_ended(look)) {
            news = take_look(ask, look, now);
            if (news == TOP_FAILED)
                return news;
        }
        while (look->op == NULL && ask->due_at < ask->due_count) {
            char *name = ask->due[ask->due_at++];
            top_row *row = top_model_find(ask->model, name);
            ask->asked++;
            start_look(ask, look, name, row != NULL ? row->asked_as : DLOCK_MUTEX, now);
        }
        busy += look->op != NULL;
    }
    return busy > 0 ? news : succeed(ask, now);
}

top_news top_ask_turn(top_ask *ask, int64_t now)
{
    if (!ask->looking && now >= ask->next)
        begin_look(ask, now);
    if (!ask->looking)
        return TOP_NOTHING;
    if (ask->list.op == NULL)
        return turn_looks(ask, now);
    if (!has_ended(&ask->list))
        return TOP_NOTHING;
    top_news news = turn_list(ask, now);
    return news == TOP_SOMETHING ? turn_looks(ask, now) : news;
}

/* What was asked for announces itself. */
int64_t top_ask_wake(const top_ask *ask)
{
    for (size_t i = 0; i < TOP_AT_ONCE; i++) {
        if (has_ended(&ask->looks[i]))
            return 0;
    }
    return ask->looking ? (has_ended(&ask->list) ? 0 : INT64_MAX) : ask->next;
}
