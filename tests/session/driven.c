/* See the header. */
#include "session/driven.h"

#include "util/error.h"

#include <string.h>

struct driven w;

/* ---- whom it tells ---- */

static void on_answered(dlk_host *host, dlk_ask *one)
{
    (void)host, (void)one;
    w.doings++;
}

static void on_notified(dlk_host *host, dlk_key *key)
{
    (void)host, (void)key;
    w.doings++;
    w.notified++;
}

static void on_revoked(dlk_host *host, uint64_t number)
{
    (void)host, (void)number;
    w.doings++;
}

static void on_lost(dlk_host *host, dlk_key *key, uint64_t number)
{
    (void)host, (void)key, (void)number;
    w.doings++;
    w.lost++;
}

static void on_link(dlk_host *host, bool up, const dlock_error *error)
{
    (void)host, (void)error;
    w.doings++;
    w.up = up;
    w.downs += !up;
}

static __attribute__((format(printf, 3, 4))) void
on_log(dlk_host *host, dlock_level level, const char *format, ...)
{
    (void)host, (void)level, (void)format;
}

/* ---- its life ---- */

bool driven_open(const dlk_backend_type *type, const char *text, dlock_kind kind,
                 void (*serve)(void), int64_t ttl_ms)
{
    dlock_error *err = NULL;
    dlk_uri *uri = NULL;
    dlk_settings *none = dlk_settings_new();
    w = (struct driven){.type = type,
                        .serve = serve,
                        .ttl_ms = ttl_ms,
                        .take = 1,
                        .now = 1000000 * MS,
                        .kicks = DLK_KICKS_INIT,
                        .rand = {.state = 42},
                        .key = {.name = "n", .size = 1, .kind = kind}};
    pthread_mutex_init(&w.mutex, NULL);
    w.host = (dlk_host){.tell = &dlk_tell_nobody,
                        .answered = on_answered,
                        .notified = on_notified,
                        .revoked = on_revoked,
                        .lost = on_lost,
                        .link = on_link,
                        .log = on_log,
                        .mutex = &w.mutex,
                        .kicks = &w.kicks,
                        .uuid = "00000000-0000-4000-8000-000000000000",
                        .name = "test",
                        .who = "test\there\t1",
                        .rand = &w.rand};
    dlock_err code = dlk_uri_parse(text, &uri, &err);
    if (code == DLOCK_OK && kind == DLOCK_SEMAPHORE)
        code = dlk_settings_set(none, "lock.permits", "3", &err);
    if (code == DLOCK_OK)
        code = dlk_settings_for_client(none, none, &w.settings, &err);
    if (code == DLOCK_OK)
        code = type->open(&w.host, uri, w.settings, &w.backend, &err);
    w.key.settings = w.settings;
    if (code == DLOCK_OK)
        code = type->key_open(w.backend, &w.key, &err);
    dlk_uri_free(uri);
    dlk_settings_free(none);
    bool fine = harness_err(__FILE__, __LINE__, "open", code, DLOCK_OK, err);
    dlk_error_clear(&err);
    return fine;
}

void driven_end(void)
{
    w.type->key_close(w.backend, &w.key);
    w.type->stop(w.backend);
    process();
    w.type->free(w.backend);
    dlk_settings_free(w.settings);
}

/* ---- time ---- */

void pass(int64_t ms)
{
    w.now += ms * MS;
}

void process(void)
{
    w.type->process(w.backend, w.now);
}

int64_t tick(void)
{
    return w.type->tick(w.backend, w.now);
}

bool to_alarm(void)
{
    int64_t due = tick();
    if (due <= w.now) /* what it has done just now has a next step */
        due = tick();
    if (!harness_check(__FILE__, __LINE__, due > w.now && due != DLK_NEVER,
                       "there is an alarm, and not at once"))
        return false;
    int before = w.doings;
    w.now = due - 1;
    bool early = tick() != due || w.doings != before;
    w.now = due;
    (void)tick();
    return harness_check(__FILE__, __LINE__, !early,
                         "nothing is done before the alarm") &&
           harness_check(__FILE__, __LINE__, w.doings > before,
                         "something is done at the alarm");
}

/* ---- questions ---- */

dlk_ask make(dlk_verb verb, bool shared, int64_t within_ms)
{
    return (dlk_ask){.verb = verb,
                     .key = &w.key,
                     .number = 1,
                     .shared = shared,
                     .take = w.take,
                     .ttl_ms = w.ttl_ms,
                     .since = w.now,
                     .deadline = w.now + within_ms * MS};
}

void put(dlk_ask *one)
{
    w.type->ask(w.backend, one, w.now);
}

dlk_reply ask_side(dlk_verb verb, bool shared)
{
    dlk_ask one = make(verb, shared, 60000);
    put(&one);
    w.serve();
    dlk_error_clear(&one.error);
    return one.reply;
}

dlk_reply ask(dlk_verb verb)
{
    return ask_side(verb, false);
}

/* The verb is put, and served when its time is up: it has been answered by then, and is nobody's any more. */
static bool is_left_alone(dlk_verb verb)
{
    enum { WITHIN_MS = 100 };
    dlk_ask one = make(verb, false, WITHIN_MS);
    if (verb == DLK_LIST || verb == DLK_DOCTOR) {
        one.key = NULL;
        one.text = "";
        one.limit = 1;
    }
    put(&one);
    bool waits = one.reply == DLK_PENDING;
    pass(WITHIN_MS);
    (void)tick();
    if (!harness_check(__FILE__, __LINE__, waits, "it waits for its answer") ||
        !harness_eq_int(__FILE__, __LINE__, "its answer", one.reply, DLK_UNKNOWN))
        return false;
    dlk_error_clear(&one.error);
    memset(&one, 0x5a, sizeof(one)); /* as if it had been freed */
    char before[sizeof(one)];
    memcpy(before, &one, sizeof(one));
    w.serve();
    return harness_check(__FILE__, __LINE__, memcmp(before, &one, sizeof(one)) == 0,
                         "it is left alone");
}

void driven_answers_late(bool (*begin)(dlock_kind kind), void (*end)(void))
{
    static const dlk_verb verbs[] = {DLK_ACQUIRE, DLK_RENEW, DLK_VERIFY,  DLK_RELEASE,
                                     DLK_BREAK,   DLK_LIST,  DLK_INSPECT, DLK_DOCTOR};
    for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++) {
        CHECK(begin(DLOCK_MUTEX));
        if (verbs[i] != DLK_ACQUIRE)
            CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_YES);
        CHECK(is_left_alone(verbs[i]));
        end();
    }
}
