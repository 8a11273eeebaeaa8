/* What the functions of schema.sql do, as a model without a database: rows in arrays, and a clock that is told. It
 * answers with texts, as psql would: columns with spaces between them, "-" for NULL, rows in lines. */
#ifndef TESTS_POSTGRES_MODEL_H
#define TESTS_POSTGRES_MODEL_H

#include <stdbool.h>
#include <stdint.h>

enum { MODEL_NAMES = 5, MODEL_ROWS = 16, MODEL_TEXT = 8192, MODEL_MESSAGES = 32 };

typedef struct model_holder {
    char owner[24];
    bool shared;
    int take;
    int64_t token, since, ends;
} model_holder;

typedef struct model_place {
    char owner[24];
    bool shared;
    int take, session; /* of its connection, 0: not known */
    int64_t place, since, ends, due;
} model_place;

typedef struct model_name {
    bool there;
    char kind[16];
    int permits; /* 0: NULL */
    int64_t id, token, granted;
    int holder_count, line_count;
    model_holder holders[MODEL_ROWS];
    model_place line[MODEL_ROWS]; /* in the order of coming */
} model_name;

typedef struct model {
    int64_t now;  /* in us of the epoch */
    int64_t next; /* of the sequence */
    int session;  /* that asks, from 1 on; those before it have ended */
    int guarded;  /* the name whose token an open transaction has checked; -1: none */
    bool listening[3];
    model_name names[MODEL_NAMES];
    char text[MODEL_TEXT]; /* the answer */
    int message_count;
    char messages[MODEL_MESSAGES][64]; /* of the last request: channel and words */
} model;

/* An owner is "u<0..2>:<number>"; with a number of 19 digits it may keep what it has. */
typedef struct model_ask {
    int name;
    const char *kind;
    char owner[24], giver[24];
    int64_t ttl_ms, stay_ms, longest_ms, named;
    bool shared, once, listens;
    int take, size;
    int64_t most, used; /* of a signal: how many; the token that has done its work */
} model_ask;

void model_acquire(model *m, const model_ask *ask);
void model_renew(model *m, const model_ask *ask);
void model_downgrade(model *m, const model_ask *ask);
void model_release(model *m, const model_ask *ask);
void model_use(model *m, const model_ask *ask);
void model_signal(model *m, const model_ask *ask);
void model_verify(model *m, const model_ask *ask);
void model_break(model *m, const model_ask *ask); /* the owner, "": all */
void model_import(model *m, const model_ask *ask);
void model_revoke(model *m, const model_ask *ask);
void model_listen(model *m, const model_ask *ask);
void model_inspect(model *m, const model_ask *ask);
void model_list(model *m, const model_ask *ask);
void model_forget(model *m, int64_t idle_us);
/* True: it passes, and the name is guarded. */
bool model_check(model *m, int name, int64_t token);
/* The connection that asks has ended, and there is another. */
void model_reconnect(model *m);
/* All tables. */
void model_dump(model *m);

const char *model_name_of(int name);

#endif
