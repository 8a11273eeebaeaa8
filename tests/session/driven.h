/* A backend that the test drives by hand: it is told what time it is, and what it tells its host is
 * counted. No thread, no server; what it speaks by is the test's, too. */
#ifndef TESTS_SESSION_DRIVEN_H
#define TESTS_SESSION_DRIVEN_H

#include "harness/harness.h"

#include "contract/backend.h"
#include "util/clock.h"

#define MS DLK_NS_PER_MS
/* As it was opened. */
#define CONNECT_MS dlk_settings_int(w.settings, DLK_KEY_CLIENT_CONNECT_MS)

extern struct driven {
    const dlk_backend_type *type;
    void (*serve)(void);
    int64_t ttl_ms; /* of what is asked */
    int32_t take;   /* likewise, 1: of a semaphore, which has 3 permits */

    dlk_backend *backend;
    dlk_key key; /* "n" */
    int64_t now;
    bool up;
    int lost, downs, notified;
    int doings; /* whatever it has told its host, or done by what it speaks by, which counts here, too */

    dlk_host host;
    dlk_kicks kicks;
    pthread_mutex_t mutex;
    dlk_rand rand;
    dlk_settings *settings;
} w;

/* Opens the backend, with one name of this kind, and everything that was counted at 0; @p serve answers
 * everything that it has asked. False after a failed check. */
bool driven_open(const dlk_backend_type *type, const char *uri, dlock_kind kind,
                 void (*serve)(void), int64_t ttl_ms);
void driven_end(void);

/* Nobody drives meanwhile. */
void pass(int64_t ms);
void process(void);
int64_t tick(void);
/* On to the moment that the tick names, before which it does nothing, and at which it does something. False
 * after a failed check. */
bool to_alarm(void);

/* A question by number 1. */
dlk_ask make(dlk_verb verb, bool shared, int64_t within_ms);
/* Puts it, and leaves it unanswered. */
void put(dlk_ask *one);
/* Puts it, and serves until nothing is left to be answered. */
dlk_reply ask_side(dlk_verb verb, bool shared);
dlk_reply ask(dlk_verb verb);
/* Checks of every verb, each in a life of its own, that a question whose time was up is left alone by its
 * answer. */
void driven_answers_late(bool (*begin)(dlock_kind kind), void (*end)(void));

#endif
