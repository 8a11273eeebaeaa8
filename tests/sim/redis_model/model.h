/*
 * A model of Redis, small enough to be read: a keyspace in memory with leases on a clock that
 * its owner sets, the commands that our scripts call, and Lua 5.1 that runs the scripts themselves,
 * byte for byte those that the library sends. Whatever is asked of it beyond that ends the
 * program: it must not guess.
 *
 * That it does what Redis does is what test_redis_model.c proves, against a real one.
 */
#ifndef REDIS_MODEL_MODEL_H
#define REDIS_MODEL_MODEL_H

#include "backends/redis/wire.h"
#include "util/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum model_type {
    MODEL_STRING, /* its one item's name */
    MODEL_HASH,
    MODEL_LIST,
    MODEL_ZSET, /* in the order of scores, then of names */
    MODEL_TYPE_COUNT,
} model_type;

typedef struct model_item {
    dlk_arg name, value;
    double score;
} model_item;

typedef struct model_key {
    dlk_arg name;
    model_type type;
    int64_t ends_at; /* ms, as Redis keeps it; 0: never */
    model_item *items;
    size_t count, room;
} model_key;

typedef struct model_keys {
    model_key *list;
    size_t count, room;
} model_keys;

#define MODEL_SCRIPTS 256

typedef struct model {
    model_keys keys;
    int64_t now_us; /* the server's time of day; stands still while a command runs */
    /* By the test, not by a command: what has expired stays, for a clock set back to bring alive. */
    bool looked_at;
    bool loaded[MODEL_SCRIPTS]; /* what EVALSHA finds */
    /* A message that is told; answers how many hear it. */
    int64_t (*publish)(void *world, const dlk_arg *channel, const dlk_arg *text);
    int64_t (*listeners)(void *world, const dlk_arg *channel);
    void *world;
    /* the keys that the running script was given; none: any will do */
    const dlk_arg *given;
    size_t given_count;
} model;

void model_init(model *m);
void model_free(model *m);
/* Runs a command and appends its answer, as it goes over the wire. */
void model_run(model *m, const dlk_arg *args, size_t count, dlk_buf *answer);
/* SCRIPT FLUSH, and what a restart does to the scripts. */
void model_flush_scripts(model *m);

/* ---- keyspace.c ---- */
/* NULL: there is none, or it has expired. */
model_key *model_find(model *m, const dlk_arg *name);
model_key *model_find_text(model *m, const char *name);
model_key *model_make(model *m, const dlk_arg *name, model_type type);
bool model_delete(model *m, const dlk_arg *name);
void model_wipe(model *m);
/* Replaces what is in @p to. */
void model_copy(model_keys *to, const model_keys *from);
void model_keys_free(model_keys *keys);
/* NULL: no such item. */
model_item *model_item_of(const model_key *key, const dlk_arg *name);
/* Room for one item before @p at. */
model_item *model_insert(model_key *key, size_t at);
void model_remove(model *m, model_key *key,
                  size_t at); /* and the key with its last one */
void model_set(dlk_arg *to, const char *data, size_t size);
void model_put_score(model *m, model_key *key, const dlk_arg *name, double score);
bool model_same(const dlk_arg *a, const dlk_arg *b);
static inline int64_t model_now_ms(const model *m)
{
    return m->now_us / 1000;
}

/* ---- commands.c ---- */
typedef void model_command(model *m, const dlk_arg *args, size_t count, dlk_buf *answer);
/* From inside a script. */
void model_call(model *m, const dlk_arg *args, size_t count, dlk_buf *answer);
void model_answer_status(dlk_buf *answer, const char *text);
void model_answer_error(dlk_buf *answer, const char *text);
void model_answer_integer(dlk_buf *answer, int64_t value);
void model_answer_bulk(dlk_buf *answer, const dlk_arg *text);
void model_answer_text(dlk_buf *answer, const char *text);
void model_answer_nil(dlk_buf *answer);
void model_answer_array(dlk_buf *answer, size_t count);
void model_answer_score(dlk_buf *answer, double score);
/* The key, of this type: NULL and *fine when there is none; NULL and not *fine, and an error for
 * an answer, when it is another type's. */
model_key *model_typed(model *m, const dlk_arg *name, model_type type, bool *fine,
                       dlk_buf *answer);
model_key *model_typed_or_new(model *m, const dlk_arg *name, model_type type,
                              dlk_buf *answer);
bool model_integer(const dlk_arg *text, int64_t *ret); /* as strict as Redis is */
bool model_is(const dlk_arg *text, const char *word);  /* whatever its case */
_Noreturn void model_missing(const char *what, const dlk_arg *args, size_t count);

/* ---- collections.c: hashes, lists, sorted sets ---- */
typedef struct model_entry {
    const char *name;
    int arity; /* with the name; negative: at least */
    bool key;  /* the first argument is one */
    model_command *run;
} model_entry;
extern const model_entry model_collections[];
extern const size_t model_collection_count;

/* ---- lua.c ---- */
/* EVAL and EVALSHA, by the script's number in dlk_redis_scripts. */
void model_script(model *m, size_t script, const dlk_arg *keys, size_t key_count,
                  const dlk_arg *args, size_t arg_count, dlk_buf *answer);
/* Its number; MODEL_SCRIPTS: none of ours. */
size_t model_script_by_sha(const dlk_arg *sha);
size_t model_script_by_text(const dlk_arg *text);

#endif
