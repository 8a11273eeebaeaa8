/* Every form in which a lock can lie on a Redis: what is promised of all of them alike is tried with each,
 * on a real server whose clock the test sets. */
#ifndef TESTS_BACKENDS_REDIS_FORMS_H
#define TESTS_BACKENDS_REDIS_FORMS_H

#include "harness/server_clock.h"
#include "single.h"

#define LEASE_MS INT64_C(10000) /* of world_make */
#define MOST_MS  INT64_C(15000) /* … and what it can be at most, with a time-out */

/* One form, and the key whose time is the lease; NULL: what inspect says of the holder. */
typedef struct form {
    const char *name;
    dlock_kind kind;
    const char *setting, *value, *more, *and;
    bool shared, hands_on;
    const char *key;
    bool key_of_owner; /* … with the owner behind it */
} form;

extern const form forms[];
extern const form *const forms_end;
extern const form *now_is; /* the one that is tried */
extern server_clock clock_there;

/* For each of them, on one server. */
#define EACH_FORM(is)                                                                    \
    if (!redis_server_available() || !server_clock_start(&clock_there, &server))         \
        return;                                                                          \
    for (const form *is = forms; is < forms_end; is++)

/* The lock "L", with this redis.token_keep_ms, or NULL. */
bool set_up_keeping(const form *is, const char *keep_ms);
bool set_up(const form *is);
void teardown(void); /* nothing is left on the server */
void end(void);

dlk_ask ask_of(dlk_verb verb, uint64_t number);
dlk_reply carry_out(dlk_ask *ask);

#endif
