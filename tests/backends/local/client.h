/* A client of a local backend without an engine: it asks, and counts what it is told. */
#ifndef TESTS_LOCAL_CLIENT_H
#define TESTS_LOCAL_CLIENT_H

#include "backends/local/inner.h"
#include "backends/local/local.h"
#include "contract/backend.h"
#include "util/clock.h"

typedef struct fake {
    dlk_host host; /* first: what the backend is given */
    dlk_kicks kicks;
    dlk_backend *backend;
    char uuid[DLK_UUID_SIZE], name[32];
    dlk_rand rand;
    pthread_mutex_t mutex;
    int ups, downs, told, logged, revokes;
    uint64_t revoked; /* the numbers that were asked for, added up */
    dlk_key *told_key;
    dlock_err down_code;
    char down_text[512];
    void (*on_notified)(struct fake *client, dlk_key *key);
} fake;

/* An ask's answer, copied so that nothing has to be freed. */
typedef struct answer {
    dlk_reply reply;
    int64_t token, wait_ms, since;
    bool no_place, new_place, lasts;
    int64_t count;  /* the first number of its info */
    dlock_err code; /* of the error, 0 without */
    char text[512];
} answer;

/* Opens and starts; NULL and *err when it couldn't be opened. */
fake *client_open(const char *uri, dlock_error **err);
/* The same with settings, "key=value" each, NULL at the end. */
fake *client_open_with(const char *uri, const char *const *settings, dlock_error **err);
void client_stop(fake *client);
void client_close(fake *client); /* stops it too */

dlk_key *client_key(fake *client, const char *name); /* a mutex */
/* An election needs settings, which stay the caller's. */
dlk_key *client_key_of(fake *client, const char *name, dlock_kind kind,
                       dlk_settings *settings);
void client_key_close(fake *client, dlk_key *key);

/* Of a request that the test has filled in; its info stays there. */
answer client_answer(fake *client, dlk_ask *ask, int64_t now);
answer client_ask(fake *client, dlk_verb verb, dlk_key *key, uint64_t number,
                  int64_t ttl_ms, int64_t now);
/* Of a lock that several may hold: with so many permits; 1 of a read/write lock is the read side. */
answer client_ask_for(fake *client, dlk_verb verb, dlk_key *key, uint64_t number,
                      int32_t take, int64_t ttl_ms, int64_t now);
/* An acquire of somebody who won't wait. */
answer client_try(fake *client, dlk_key *key, uint64_t number, int32_t take,
                  int64_t ttl_ms, int64_t now);
/* The release that an export is. */
answer client_export(fake *client, dlk_key *key, uint64_t number, int64_t now);
/* Of what the client of this uuid had under that number. */
answer client_import(fake *client, dlk_key *key, uint64_t number, const char *giver,
                     uint64_t giver_number, int64_t ttl_ms, int64_t now);
answer client_break(fake *client, dlk_key *key, const char *owner, int64_t now);
/* inspect, list and doctor; NULL when refused. Yours to free. */
dlock_info *client_info(fake *client, dlk_verb verb, dlk_key *key, const char *text,
                        int64_t limit, int64_t now);

/* Drives until @p number has the lock, as an engine would; false after so many ms. */
bool client_wait(fake *client, dlk_key *key, uint64_t number, int64_t ttl_ms,
                 int64_t limit_ms, answer *granted);

/* A directory of the test's own, removed with all that is in it at exit; path of a file in it. */
const char *temp_path(const char *file);
const char *temp_uri(const char *file);
/* Changes the stamp of a table in it, which nobody has open, by what @p edit does. */
void temp_edit_stamp(const char *file, void (*edit)(dlk_table_stamp *stamp));
/* What can be done so: the file is of another world. */
void other_boot(dlk_table_stamp *stamp);
void other_pid_ns(dlk_table_stamp *stamp);
void other_time_ns(dlk_table_stamp *stamp);

#endif
