/* The model server: the model of Redis, its clock, what becomes of its state, and what each of its
 * answers means for the promises. Leases end by its time of day, which may jump. */
#include "net.h"

#include "backends/redis/asks.h"
#include "backends/redis/keys.h"
#include "backends/redis/redis.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An operator's end: never connected, its requests are carried out at once. */
static struct {
    dlk_host host;
    dlk_kicks kicks;
    dlk_rand rand;
    dlk_settings *settings;
    dlk_redis *redis;
    dlk_key keys[MAX_NAMES];
} operator;

int64_t server_time(void)
{
    return (int64_t)((double)s.now * s.server.rate) + s.server.wall;
}

static void set_clock(void)
{
    s.server.model.now_us = INT64_C(1700000000000000) + server_time() / 1000;
}

model *server_model(void)
{
    set_clock();
    return &s.server.model;
}

const dlk_key *server_key(int name)
{
    return &operator.keys[name];
}

/* ---- the operator ---- */

static void told_nothing(dlk_host *host, dlk_ask *ask)
{
    (void)host;
    (void)ask;
}

static void link_is(dlk_host *host, bool up, const dlock_error *error)
{
    (void)host;
    (void)up;
    (void)error;
}

static void begin_operator(void)
{
    static const char *const texts[MAX_NAMES] = {"a", "b", "c"};
    dlk_backend *backend = NULL;
    dlk_uri *uri = NULL;
    operator.kicks = DLK_KICKS_INIT;
    operator.host =(dlk_host){.tell = &dlk_tell_nobody,
                              .answered = told_nothing,
                              .link = link_is,
                              .kicks = &operator.kicks,
                              .uuid = "ffffffff-0000-4000-8000-000000000000",
                              .name = "operator",
                              .who = "operator\there\t1",
                              .rand = &operator.rand };
    operator.settings = settings_of(s.config.kind);
    if (dlk_uri_parse("redis://127.0.0.1:1", &uri, NULL) != DLOCK_OK ||
        dlk_redis_backend.open(&operator.host, uri, operator.settings, &backend, NULL) !=
            DLOCK_OK)
        abort();
    dlk_uri_free(uri);
    operator.redis =(dlk_redis *) backend;
    operator.redis->commands.link.phase = DLK_LINK_READY;
    for (int n = 0; n < s.config.names; n++) {
        operator.keys[n] =(dlk_key){.name = texts[n],
                                    .size = 1,
                                    .kind = kinds[s.config.kind].kind,
                                    .settings = operator.settings };
        if (dlk_redis_backend.key_open(backend, &operator.keys[n], NULL) != DLOCK_OK)
            abort();
    }
}

static void end_operator(void)
{
    dlk_backend *backend = &operator.redis->base;
    for (int n = 0; n < s.config.names; n++)
        dlk_redis_backend.key_close(backend, &operator.keys[n]);
    operator.redis->commands.link.phase = DLK_LINK_OFF;
    dlk_redis_backend.stop(backend);
    dlk_redis_backend.free(backend);
    dlk_settings_free(operator.settings);
}

void server_begin(void)
{
    model_init(&s.server.model);
    s.server.model.publish = net_publish;
    s.server.model.listeners = net_listeners;
    begin_operator();
    lines_begin();
    conditions_begin();
}

void server_end(void)
{
    end_operator();
    model_keys_free(&s.server.snapshot);
    model_free(&s.server.model);
}

/* ---- requests ---- */

static bool number_of(const dlk_buf *answer, int64_t *ret)
{
    *ret = strtoll(dlk_buf_head(answer) + 1, NULL, 10);
    return dlk_buf_head(answer)[0] == ':';
}

/* A bulk: a token. */
static bool token_of(const dlk_buf *answer, int64_t *ret)
{
    const char *text = dlk_buf_head(answer);
    const char *line = memchr(text, '\n', dlk_buf_size(answer));
    if (text[0] != '$' || text[1] == '-' || !line)
        return false;
    *ret = strtoll(line + 1, NULL, 10);
    return true;
}

/* The end of the block in it, where this number keeps what it has. */
static int64_t last_token_of(const dlk_buf *answer, uint64_t number)
{
    if (!dlk_number_keeps(number))
        return 0;
    char text[100];
    long long size, first, last;
    int others;
    (void)snprintf(text, sizeof(text), "%.*s", (int)dlk_buf_size(answer),
                   dlk_buf_head(answer));
    bool block =
        sscanf(text, "$%lld\r\n%lld %lld %d", &size, &first, &last, &others) == 4;
    return block ? last : 0;
}

static void note_given(const message *m, uint64_t number, int64_t token, int64_t last)
{
    const client *c = &s.clients[m->client];
    const wish it = {.client =
                         c->generation == m->generation && !c->dead ? m->client : NOBODY,
                     .sender = m->client * 1000 + m->generation,
                     .number = number,
                     .shared = m->shared,
                     .take = m->take};
    check_given(m->name, &it, token);
    if (last > s.granted_token[m->name])
        s.granted_token[m->name] = last;
}

/* What the answer means; the batch of a renewal says it of many at once. */
static dlk_reply judge(const message *m, const dlk_buf *answer)
{
    int64_t number, token;
    if (dlk_buf_head(answer)[0] == '-')
        return DLK_REFUSED;
    if (m->verb == DLK_RENEW && dlk_buf_head(answer)[0] == '$')
        return DLK_YES; /* more tokens: what becomes of them is seen where they are handed out */
    if (token_of(answer, &token)) {
        uint64_t whose = m->verb == DLK_RELEASE ? m->next : m->number;
        /* A block counts from the greeting of its connection, and is nobody's when that is gone. */
        bool heard = !dlk_number_keeps(whose) || m->wire->state == WIRE_UP;
        note_given(m, whose, heard ? token : 0, last_token_of(answer, whose));
        return DLK_YES;
    }
    if (!number_of(answer, &number))
        return DLK_YES;
    if (m->verb == DLK_ACQUIRE)
        return DLK_HELD;
    if (m->verb == DLK_SIGNAL)
        return DLK_YES;
    return number > 0 ? DLK_YES : DLK_NOT_OURS;
}

/* Mostly it has all that was written before. */
static void wait_for_replica(dlk_buf *answer)
{
    bool confirmed = s.ending || chance(&s.rand, 850);
    if (confirmed)
        server_snapshot();
    model_answer_integer(answer, confirmed);
}

void server_apply(message *m, dlk_buf *answer)
{
    dlk_arg args[NET_ARGS];
    size_t count;
    (void)net_parse(dlk_buf_head(&m->bytes), dlk_buf_size(&m->bytes), args, &count);
    set_clock();
    if (model_is(&args[0], "WAIT")) {
        wait_for_replica(answer);
        return;
    }
    holder by;
    bool held = m->verb == DLK_RELEASE && service_holder(m->name, &by);
    if (m->verb && kind_signals())
        conditions_before(m->name);
    model_run(&s.server.model, args, count, answer);
    if (!m->verb)
        return;
    if (service_holder(m->name, &by))
        s.given_back[m->name] = false; /* this one's end is yet to come */
    else if (held)
        s.given_back[m->name] = true;
    m->reply = judge(m, answer);
    check_line(m);
    if (kind_signals())
        conditions_after(m, args, count, answer);
    tell(SERVER, m->name, "client %d's %s #%llu%s: %s", m->client, verb_name(m->verb),
         (unsigned long long)m->number, m->copy ? " (again)" : "", reply_name(m->reply));
}

/* ---- what happens to its state ---- */

void server_restart(void)
{
    model_flush_scripts(&s.server.model);
}

void server_wipe(void)
{
    model_wipe(&s.server.model);
}

bool server_break(int name)
{
    dlk_ask ask = {.verb = DLK_BREAK, .key = &operator.keys[name], .take = 1};
    dlk_buf *out = &operator.redis->commands.link.stream.out, answer = {0};
    dlk_arg args[NET_ARGS];
    size_t count;
    int64_t done;
    dlk_redis_backend.ask(&operator.redis->base, &ask, 0);
    if (ask.reply != DLK_PENDING ||
        net_parse(dlk_buf_head(out), dlk_buf_size(out), args, &count) == 0)
        abort();
    dlk_list_remove(&ask.link);
    /* It has the script's text, should the server not know it. */
    for (size_t i = 0; i < dlk_redis_script_count; i++)
        s.server.model.loaded[i] |= true;
    set_clock();
    state_lost(name, 0);
    model_run(&s.server.model, args, count, &answer);
    bool broken = number_of(&answer, &done) && done > 0;
    dlk_buf_clear(out);
    dlk_buf_free(&answer);
    if (broken)
        tell(SERVER, name, "an operator breaks %c", 'a' + name);
    return broken;
}

const char *server_derived(int name, int index)
{
    static char texts[DLK_REDIS_DERIVED][64];
    const dlk_redis_key *data = operator.keys[name].data;
    char *text = dlk_redis_derive(data->form->derived[index], data->key->name);
    if (!text)
        abort();
    (void)snprintf(texts[index], sizeof(texts[index]), "%s", text); /* fits */
    free(text);
    return texts[index];
}

/* Nobody is told of an eviction. */
bool server_evict(int name, bool counter)
{
    const dlk_redis_key *data = operator.keys[name].data;
    dlk_arg key = {operator.keys[name].name, 1};
    /* Whoever takes the count of free permits away has made a semaphore of another size. */
    if (!counter && s.config.kind == KIND_SEMAPHORE)
        return false;
    if (counter && data->form->derived[0])
        key = dlk_arg_text(server_derived(name, 0));
    set_clock();
    if (!model_delete(&s.server.model, &key))
        return false;
    tell(SERVER, name, "%s of %c is evicted", counter ? "the counter" : "the lock",
         'a' + name);
    state_lost(name, 0);
    return true;
}

void server_snapshot(void)
{
    model_copy(&s.server.snapshot, &s.server.model.keys);
    s.server.snapshot_at = s.now;
}

void server_failover(void)
{
    model_copy(&s.server.model.keys, &s.server.snapshot);
}
