/* What the model answers to a command: strings, keys, messages, and the scripts' own commands.
 * Errors have Redis' words as far as our code reads them: the first one. */
#include "model.h"

#include "backends/redis/client_key.h"
#include "backends/redis/scripts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define WRONG_TYPE "WRONGTYPE Operation against a key holding the wrong kind of value"
#define NO_INTEGER "ERR value is not an integer or out of range"

_Noreturn void model_missing(const char *what, const dlk_arg *args, size_t count)
{
    (void)fprintf(stderr, "the model of Redis lacks %s:", what);
    for (size_t i = 0; i < count; i++)
        (void)fprintf(stderr, " %.*s", (int)(args[i].size < 60 ? args[i].size : 60),
                      args[i].data);
    (void)fputc('\n', stderr);
    abort();
}

/* ---- answers ---- */

static void put(dlk_buf *answer, const void *data, size_t size)
{
    if (!dlk_buf_append(answer, data, size))
        abort();
}

static void put_line(dlk_buf *answer, char type, const char *text)
{
    put(answer, &type, 1);
    put(answer, text, strlen(text));
    put(answer, "\r\n", 2);
}

static void put_number(dlk_buf *answer, char type, int64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%" PRId64, value); /* fits */
    put_line(answer, type, text);
}

void model_answer_status(dlk_buf *answer, const char *text)
{
    put_line(answer, '+', text);
}

void model_answer_error(dlk_buf *answer, const char *text)
{
    put_line(answer, '-', text);
}

void model_answer_integer(dlk_buf *answer, int64_t value)
{
    put_number(answer, ':', value);
}

void model_answer_bulk(dlk_buf *answer, const dlk_arg *text)
{
    put_number(answer, '$', (int64_t)text->size);
    put(answer, text->data, text->size);
    put(answer, "\r\n", 2);
}

void model_answer_text(dlk_buf *answer, const char *text)
{
    dlk_arg arg = dlk_arg_text(text);
    model_answer_bulk(answer, &arg);
}

void model_answer_nil(dlk_buf *answer)
{
    put(answer, "$-1\r\n", 5);
}

void model_answer_array(dlk_buf *answer, size_t count)
{
    put_number(answer, '*', (int64_t)count);
}

void model_answer_score(dlk_buf *answer, double score)
{
    char text[40];
    (void)snprintf(text, sizeof(text), "%.17g", score); /* fits */
    model_answer_text(answer, text);
}

/* ---- arguments ---- */

bool model_is(const dlk_arg *text, const char *word)
{
    return strlen(word) == text->size && strncasecmp(text->data, word, text->size) == 0;
}

/* No sign but '-', no zeros before it, no space. */
bool model_integer(const dlk_arg *text, int64_t *ret)
{
    char again[24];
    if (text->size == 0 || text->size > 20)
        return false;
    char copy[24] = {0};
    memcpy(copy, text->data, text->size);
    *ret = strtoll(copy, NULL, 10);
    (void)snprintf(again, sizeof(again), "%" PRId64, *ret); /* fits */
    return strcmp(again, copy) == 0;
}

model_key *model_typed(model *m, const dlk_arg *name, model_type type, bool *fine,
                       dlk_buf *answer)
{
    model_key *key = model_find(m, name);
    *fine = !key || key->type == type;
    if (*fine)
        return key;
    model_answer_error(answer, WRONG_TYPE);
    return NULL;
}

model_key *model_typed_or_new(model *m, const dlk_arg *name, model_type type,
                              dlk_buf *answer)
{
    bool fine;
    model_key *key = model_typed(m, name, type, &fine, answer);
    return key || !fine ? key : model_make(m, name, type);
}

/* ---- strings ---- */

static void put_string(model *m, const dlk_arg *name, const dlk_arg *value)
{
    model_key *key;
    dlk_arg copy = {0};
    model_set(&copy, value->data, value->size);
    (void)model_delete(m, name); /* with its lease, whatever it was */
    key = model_make(m, name, MODEL_STRING);
    model_insert(key, 0)->name = copy;
}

static void get(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    bool fine;
    (void)count;
    const model_key *key = model_typed(m, &args[1], MODEL_STRING, &fine, answer);
    if (key)
        model_answer_bulk(answer, &key->items[0].name);
    else if (fine)
        model_answer_nil(answer);
}

/* SET key value [NX] [PX ms] [KEEPTTL] */
static void set(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    bool if_none = false, keep = false;
    int64_t lease = 0;
    for (size_t i = 3; i < count; i++) {
        if (model_is(&args[i], "NX")) {
            if_none = true;
        } else if (model_is(&args[i], "KEEPTTL")) {
            keep = true;
        } else if (model_is(&args[i], "PX") && i + 1 < count) {
            if (!model_integer(&args[++i], &lease)) {
                model_answer_error(answer, NO_INTEGER);
                return;
            }
            if (lease <= 0 || lease > INT64_MAX - model_now_ms(m)) {
                model_answer_error(answer, "ERR invalid expire time in 'set' command");
                return;
            }
        } else {
            model_answer_error(answer, "ERR syntax error");
            return;
        }
    }
    const model_key *old = model_find(m, &args[1]);
    if (if_none && old) {
        model_answer_nil(answer);
        return;
    }
    int64_t ends_at = keep && old ? old->ends_at : 0;
    put_string(m, &args[1], &args[2]);
    model_find(m, &args[1])->ends_at = lease ? model_now_ms(m) + lease : ends_at;
    model_answer_status(answer, "OK");
}

static void setnx(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    (void)count;
    bool there = model_find(m, &args[1]) != NULL;
    if (!there)
        put_string(m, &args[1], &args[2]);
    model_answer_integer(answer, !there);
}

static void getset(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    bool fine;
    (void)count;
    const model_key *key = model_typed(m, &args[1], MODEL_STRING, &fine, answer);
    if (!fine)
        return;
    if (key)
        model_answer_bulk(answer, &key->items[0].name);
    else
        model_answer_nil(answer);
    put_string(m, &args[1], &args[2]);
}

/* The lease stays. */
static void add_to(model *m, const dlk_arg *name, int64_t by, dlk_buf *answer)
{
    bool fine;
    char text[24];
    int64_t value = 0;
    model_key *key = model_typed(m, name, MODEL_STRING, &fine, answer);
    if (!fine)
        return;
    if (key && !model_integer(&key->items[0].name, &value)) {
        model_answer_error(answer, NO_INTEGER);
        return;
    }
    if (by > 0 ? value > INT64_MAX - by : value < INT64_MIN - by) {
        model_answer_error(answer, "ERR increment or decrement would overflow");
        return;
    }
    value += by;
    int size = snprintf(text, sizeof(text), "%" PRId64, value);
    if (key) {
        model_set(&key->items[0].name, text, (size_t)size);
    } else {
        const dlk_arg arg = {text, (size_t)size};
        put_string(m, name, &arg);
    }
    model_answer_integer(answer, value);
}

static void incr(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    (void)count;
    add_to(m, &args[1], 1, answer);
}

static void decr(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    (void)count;
    add_to(m, &args[1], -1, answer);
}

static void incrby(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    int64_t by;
    (void)count;
    if (model_integer(&args[2], &by))
        add_to(m, &args[1], by, answer);
    else
        model_answer_error(answer, NO_INTEGER);
}

static void decrby(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    int64_t by;
    (void)count;
    if (!model_integer(&args[2], &by))
        model_answer_error(answer, NO_INTEGER);
    else if (by == INT64_MIN)
        model_answer_error(answer, "ERR decrement would overflow");
    else
        add_to(m, &args[1], -by, answer);
}

/* ---- keys ---- */

static void del(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    int64_t gone = 0;
    for (size_t i = 1; i < count; i++)
        gone += model_delete(m, &args[i]);
    model_answer_integer(answer, gone);
}

static void exists(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    int64_t there = 0;
    for (size_t i = 1; i < count; i++)
        there += model_find(m, &args[i]) != NULL;
    model_answer_integer(answer, there);
}

static void type(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    static const char *const names[] = {"string", "hash", "list", "zset"};
    (void)count;
    const model_key *key = model_find(m, &args[1]);
    model_answer_status(answer, key ? names[key->type] : "none");
}

static void pttl(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    (void)count;
    const model_key *key = model_find(m, &args[1]);
    if (!key || key->ends_at == 0)
        model_answer_integer(answer, key ? -1 : -2);
    else
        model_answer_integer(answer, key->ends_at - model_now_ms(m));
}

/* What is over already is removed. */
static void end_at(model *m, const dlk_arg *name, int64_t ends_at, dlk_buf *answer)
{
    model_key *key = model_find(m, name);
    model_answer_integer(answer, key != NULL);
    if (key && ends_at <= model_now_ms(m))
        (void)model_delete(m, name); /* it is there */
    else if (key)
        key->ends_at = ends_at;
}

static void pexpire(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    int64_t lease;
    (void)count;
    if (!model_integer(&args[2], &lease))
        model_answer_error(answer, NO_INTEGER);
    else if (lease > INT64_MAX - model_now_ms(m))
        model_answer_error(answer, "ERR invalid expire time in 'pexpire' command");
    else
        end_at(m, &args[1], model_now_ms(m) + lease, answer);
}

static void pexpireat(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    int64_t ends_at;
    (void)count;
    if (model_integer(&args[2], &ends_at))
        end_at(m, &args[1], ends_at, answer);
    else
        model_answer_error(answer, NO_INTEGER);
}

static void persist(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    (void)count;
    model_key *key = model_find(m, &args[1]);
    bool had = key && key->ends_at;
    if (had)
        key->ends_at = 0;
    model_answer_integer(answer, had);
}

/* ---- others ---- */

static void tell_time(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    char text[24];
    (void)args;
    (void)count;
    model_answer_array(answer, 2);
    (void)snprintf(text, sizeof(text), "%" PRId64, m->now_us / 1000000); /* fits */
    model_answer_text(answer, text);
    (void)snprintf(text, sizeof(text), "%" PRId64, m->now_us % 1000000); /* fits */
    model_answer_text(answer, text);
}

static void publish(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    (void)count;
    int64_t heard = m->publish ? m->publish(m->world, &args[1], &args[2]) : 0;
    model_answer_integer(answer, heard);
}

/* PUBSUB NUMSUB channel … */
static void pubsub(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    if (!model_is(&args[1], "NUMSUB"))
        model_missing("this form of", args, count);
    model_answer_array(answer, (count - 2) * 2);
    for (size_t i = 2; i < count; i++) {
        model_answer_bulk(answer, &args[i]);
        model_answer_integer(answer, m->listeners ? m->listeners(m->world, &args[i]) : 0);
    }
}

static const model_entry plain[] = {
    {"get", 2, true, get},          {"set", -3, true, set},
    {"setnx", 3, true, setnx},      {"getset", 3, true, getset},
    {"incr", 2, true, incr},        {"decr", 2, true, decr},
    {"incrby", 3, true, incrby},    {"decrby", 3, true, decrby},
    {"del", -2, true, del},         {"exists", -2, true, exists},
    {"type", 2, true, type},        {"pttl", 2, true, pttl},
    {"pexpire", 3, true, pexpire},  {"pexpireat", 3, true, pexpireat},
    {"persist", 2, true, persist},  {"time", 1, false, tell_time},
    {"publish", 3, false, publish}, {"pubsub", -2, false, pubsub},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const model_entry *entry_of(const dlk_arg *name)
{
    for (size_t i = 0; i < COUNT(plain); i++)
        if (model_is(name, plain[i].name))
            return &plain[i];
    for (size_t i = 0; i < model_collection_count; i++)
        if (model_is(name, model_collections[i].name))
            return &model_collections[i];
    return NULL;
}

/* What a cluster hashes of a name. */
static dlk_arg tag_of(const dlk_arg *name)
{
    const char *open = name->size ? memchr(name->data, '{', name->size) : NULL;
    if (!open)
        return *name;
    size_t rest = name->size - (size_t)(open + 1 - name->data);
    const char *close = memchr(open + 1, '}', rest);
    return close && close > open + 1 ? (dlk_arg){open + 1, (size_t)(close - open - 1)}
                                     : *name;
}

/* Does it look up whose client an owner is? That is where the node's clients have their own keys, of
 * whatever slot: the key's name has a tag for that (client_key.h). */
static bool asks_for_client(const dlk_arg *args)
{
    const size_t size = strlen(DLK_REDIS_CLIENT_KEY);
    return model_is(&args[0], "get") && args[1].size > size &&
           memcmp(args[1].data, DLK_REDIS_CLIENT_KEY, size) == 0;
}

/* A script of ours keeps to the slots of the keys that it was given, so that the same one will do
 * in a cluster. */
static void check_slot(const model *m, const dlk_arg *args, size_t count)
{
    dlk_arg tag = tag_of(&args[1]);
    bool fine = m->given_count == 0 || asks_for_client(args);
    for (size_t i = 0; !fine && i < m->given_count; i++) {
        dlk_arg own = tag_of(&m->given[i]);
        fine = model_same(&tag, &own);
    }
    if (!fine)
        model_missing("a way to another slot", args, count);
}

void model_call(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    const model_entry *entry = entry_of(&args[0]);
    if (!entry)
        model_missing("the command", args, count);
    if (entry->arity > 0 ? count != (size_t)entry->arity
                         : count < (size_t)-entry->arity) {
        model_answer_error(answer,
                           "ERR Wrong number of args calling Redis command from script");
        return;
    }
    if (entry->key)
        check_slot(m, args, count);
    entry->run(m, args, count, answer);
}

/* ---- from outside ---- */

/* The one script that isn't a file of the library's asks which calls, keys and channels are denied
 * (rights.c): here everybody may do everything. */
static void all_rights(const dlk_arg *args, size_t count, dlk_buf *answer)
{
    const char *calls = args[3].data;
    size_t items = count - 5;
    for (size_t i = 0; i < args[3].size; i++)
        items += calls[i] == '\n';
    model_answer_array(answer, items);
    while (items-- > 0)
        model_answer_text(answer, "");
}

static void eval(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    bool by_sha = model_is(&args[0], "EVALSHA");
    int64_t keys;
    if (count < 3 || !model_integer(&args[2], &keys) || keys < 0 ||
        (size_t)keys > count - 3)
        model_missing("such an EVAL", args, count);
    if (args[1].size > 2 && memcmp(args[1].data, "#!", 2) == 0) {
        all_rights(args, count, answer);
        return;
    }
    size_t script =
        by_sha ? model_script_by_sha(&args[1]) : model_script_by_text(&args[1]);
    if (script == MODEL_SCRIPTS && !by_sha)
        model_missing("a script that isn't the library's", args, count);
    if (by_sha && (script == MODEL_SCRIPTS || !m->loaded[script])) {
        model_answer_error(answer, "NOSCRIPT No matching script. Please use EVAL.");
        return;
    }
    m->loaded[script] = true;
    m->given = &args[3];
    m->given_count = (size_t)keys;
    model_script(m, script, &args[3], (size_t)keys, &args[3 + keys],
                 count - 3 - (size_t)keys, answer);
    m->given_count = 0;
}

static void load(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    size_t script = count == 3 ? model_script_by_text(&args[2]) : MODEL_SCRIPTS;
    if (script == MODEL_SCRIPTS)
        model_missing("a script that isn't the library's", args, count);
    m->loaded[script] = true;
    model_answer_text(answer, dlk_redis_scripts[script].sha1);
}

void model_run(model *m, const dlk_arg *args, size_t count, dlk_buf *answer)
{
    if (model_is(&args[0], "EVALSHA") || model_is(&args[0], "EVAL"))
        eval(m, args, count, answer);
    else if (model_is(&args[0], "SCRIPT") && count > 1 && model_is(&args[1], "LOAD"))
        load(m, args, count, answer);
    else if (model_is(&args[0], "CLIENT"))
        model_answer_status(answer, "OK");
    else if (model_is(&args[0], "INFO"))
        model_answer_text(answer, "maxmemory:0\r\nmaxmemory_policy:noeviction\r\n");
    else
        model_call(m, args, count, answer);
}

void model_flush_scripts(model *m)
{
    memset(m->loaded, 0, sizeof(m->loaded));
}

void model_init(model *m)
{
    *m = (model){0};
}

void model_free(model *m)
{
    model_wipe(m);
}
