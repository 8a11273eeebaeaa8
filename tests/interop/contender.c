/* The commands of the interop tests, done with the public interface alone. They are described in
 * peers.py. */
#include "interop/ours.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_WORDS = 8, PATIENCE_MS = 120000 };

/* The kinds by the names that the peers use too, and what makes them of ours. */
static const struct kind {
    const char *name;
    dlock_kind kind;
    const char *key, *value;
    bool polls;
} kinds[] = {
    {"mutex", DLOCK_MUTEX, NULL, NULL, false},
    {"fenced", DLOCK_MUTEX, NULL, NULL, false},
    {"kept", DLOCK_MUTEX, "lock.keep_ms", "20", false},
    {"keeper", DLOCK_MUTEX, "lock.keep_ms", "600000", false},
    {"multi", DLOCK_MUTEX, NULL, NULL, false},
    {"spin", DLOCK_MUTEX, NULL, NULL, true},
    {"fair", DLOCK_MUTEX, "lock.fair", "true", false},
    {"read", DLOCK_READ, NULL, NULL, false},
    {"write", DLOCK_WRITE, NULL, NULL, false},
    {"semaphore", DLOCK_SEMAPHORE, "redis.semaphore", "plain", false},
    {"permits", DLOCK_SEMAPHORE, "redis.semaphore", "expirable", false},
    {"string", DLOCK_MUTEX, "redis.layout", "string", false},
    {"rueidis", DLOCK_MUTEX, "redis.layout", "rueidis", false},
    {"leases", DLOCK_SEMAPHORE, NULL, NULL, false},
    {"election", DLOCK_ELECTION, NULL, NULL, false},
    {"latch", DLOCK_ELECTION, NULL, NULL, false},
    {"selector", DLOCK_ELECTION, "zookeeper.election", "selector", false},
    {"kazoo", DLOCK_MUTEX, "zookeeper.layout", "kazoo", false},
    {"kazoo-read", DLOCK_READ, "zookeeper.layout", "kazoo", false},
    {"kazoo-write", DLOCK_WRITE, "zookeeper.layout", "kazoo", false},
    {"kazoo-election", DLOCK_ELECTION, "zookeeper.layout", "kazoo", false},
    {"bridge", DLOCK_MUTEX, "zookeeper.layout", "bridge", false},
    {"hashtext", DLOCK_MUTEX, "postgres.key", "hashtext", false},
    {"hashtextextended", DLOCK_MUTEX, "postgres.key", "hashtextextended", false},
    {"number", DLOCK_MUTEX, "postgres.key", "number", false},
    {"number-read", DLOCK_READ, "postgres.key", "number", false},
    {"number-write", DLOCK_WRITE, "postgres.key", "number", false},
    {"django-pglocks", DLOCK_MUTEX, "postgres.key", "django-pglocks", false},
    {"django-pglock", DLOCK_MUTEX, "postgres.key", "django-pglock", false},
    {"django-pgware", DLOCK_MUTEX, "postgres.key", "django-pgware", false},
    {"exclusive", DLOCK_MUTEX, "zookeeper.layout", "exclusive", false},
};

/* What "take" asks for. */
struct wish {
    const char *kind, *name;
    int64_t ttl_ms, wait_ms;
    int64_t size; /* of the semaphore, should there be none yet; else 0 */
    int64_t count;
};

static void say(char *answer, const char *verb, const char *text)
{
    (void)snprintf(answer, OURS_MAX_ANSWER, "%s %s", verb, text);
}

static void say_error(char *answer, const dlock_error *err)
{
    char text[OURS_MAX_ANSWER / 2];
    (void)snprintf(text, sizeof text, "%s: %s", dlock_errname(dlock_error_code(err)),
                   dlock_error_text(err));
    say(answer, "error", text);
}

/* A size may stand behind it, and how many to take: "leases:3", "leases:3:2". */
static const struct kind *kind_of(const char *name)
{
    size_t size = strcspn(name, ":");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strlen(kinds[i].name) == size && strncmp(kinds[i].name, name, size) == 0)
            return &kinds[i];
    (void)fprintf(stderr, "no such kind: %s\n", name);
    abort();
}

static int64_t size_of(const struct wish *wish)
{
    const char *colon = strchr(wish->kind, ':');
    return colon != NULL ? atoll(colon + 1) : wish->size;
}

static int64_t count_of(const struct wish *wish)
{
    const char *colon = strchr(wish->kind, ':');
    const char *next = colon != NULL ? strchr(colon + 1, ':') : NULL;
    return next != NULL ? atoll(next + 1) : wish->count;
}

static bool is_kept(const struct kind *kind)
{
    return kind->key != NULL && strcmp(kind->key, "lock.keep_ms") == 0;
}

/* A lease that is named isn't renewed, as Redisson's, but for what is kept. Where there are sessions it
 * is theirs. */
static dlock_err settings(const contender *me, const struct kind *kind,
                          const struct wish *wish, dlock_conf *conf, dlock_error **err)
{
    bool counts = kind->kind == DLOCK_SEMAPHORE, leased = me->clients->ttl_ms > 0;
    dlock_err code = DLOCK_OK;
    if (leased)
        code = dlock_conf_set_int(conf, "lock.ttl_ms",
                                  wish->ttl_ms > 0 ? wish->ttl_ms : me->clients->ttl_ms,
                                  err);
    if (code == DLOCK_OK && leased && wish->ttl_ms > 0 && !is_kept(kind))
        code = dlock_conf_set(conf, "lock.renew", "off", err);
    if (code == DLOCK_OK && kind->key != NULL)
        code = dlock_conf_set(conf, kind->key, kind->value, err);
    if (code == DLOCK_OK && !counts && kind->kind != DLOCK_ELECTION)
        code = dlock_conf_set(conf, "lock.owner", "thread", err);
    if (code == DLOCK_OK && counts)
        code = dlock_conf_set_int(conf, "lock.permits", size_of(wish), err);
    if (code == DLOCK_OK && count_of(wish) > 1)
        code = dlock_conf_set_int(conf, "lock.take", count_of(wish), err);
    return code;
}

/* Two mutexes as one: the second's name is the peers' agreement. */
static dlock_err make_multi(dlock_client *client, const char *name,
                            const dlock_conf *conf, dlock_lock **ret_lock,
                            dlock_error **err)
{
    char second[256];
    dlock_lock *locks[2] = {NULL, NULL};
    (void)snprintf(second, sizeof second, "%s:2", name);
    dlock_err code = dlock_lock_new(client, DLOCK_MUTEX, name, conf, &locks[0], err);
    if (code == DLOCK_OK)
        code = dlock_lock_new(client, DLOCK_MUTEX, second, conf, &locks[1], err);
    if (code == DLOCK_OK)
        code = dlock_multi_new(locks, 2, NULL, ret_lock, err);
    dlock_lock_free(locks[0]);
    dlock_lock_free(locks[1]);
    return code;
}

static dlock_err make_lock(const contender *me, const struct wish *wish,
                           dlock_lock **ret_lock, dlock_error **err)
{
    const struct kind *kind = kind_of(wish->kind);
    dlock_client *client = kind->polls ? me->clients->polling : me->clients->told;
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    dlock_err code = settings(me, kind, wish, conf, err);
    if (code != DLOCK_OK)
        return code;
    if (strcmp(wish->kind, "multi") == 0)
        return make_multi(client, wish->name, conf, ret_lock, err);
    return dlock_lock_new(client, kind->kind, wish->name, conf, ret_lock, err);
}

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void set_op(contender *me, dlock_op *op)
{
    (void)pthread_mutex_lock(&me->mutex);
    me->op = op;
    (void)pthread_mutex_unlock(&me->mutex);
}

static void keep(contender *me, dlock_lock *lock, dlock_hold *hold, char *answer)
{
    me->holds[me->held].lock = lock;
    me->holds[me->held].hold = hold;
    me->held++;
    char text[OURS_MAX_ANSWER / 2];
    (void)snprintf(text, sizeof text, "%lld %s", (long long)dlock_hold_token(hold),
                   dlock_hold_owner(hold));
    say(answer, "ok", text);
}

static bool take(contender *me, const struct wish *wish, char *answer)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    dlock_lock *lock = NULL;
    if (me->held == OURS_MAX_HOLDS) {
        say(answer, "error", "too many holds");
        return false;
    }
    if (make_lock(me, wish, &lock, &err) != DLOCK_OK) {
        say_error(answer, err);
        return false;
    }
    dlock_op *op = dlock_lock_acquire_start(lock, wish->wait_ms);
    set_op(me, op);
    (void)dlock_op_wait(op, DLOCK_FOREVER);
    set_op(me, NULL);
    dlock_err code = dlock_op_result(op);
    if (code == DLOCK_OK)
        keep(me, lock, dlock_op_take_hold(op), answer);
    else if (code == DLOCK_EBUSY || code == DLOCK_ETIMEDOUT || code == DLOCK_ECANCELED)
        say(answer, "no", dlock_errname(code));
    else
        say_error(answer, dlock_op_error(op));
    dlock_op_free(op);
    if (code != DLOCK_OK)
        dlock_lock_free(lock);
    return code == DLOCK_OK;
}

static bool release(contender *me, char *answer)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    if (me->held == 0) {
        say(answer, "error", "holds nothing");
        return false;
    }
    me->held--;
    bool done = dlock_hold_release(me->holds[me->held].hold, &err) == DLOCK_OK;
    dlock_hold_free(me->holds[me->held].hold);
    dlock_lock_free(me->holds[me->held].lock);
    if (done)
        say(answer, "ok", "");
    else
        say_error(answer, err);
    return done;
}

/* Turns the newest hold, a writer's, into a reader's. */
static void downgrade(const contender *me, char *answer)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    if (me->held == 0)
        say(answer, "error", "holds nothing");
    else if (dlock_hold_downgrade(me->holds[me->held - 1].hold, &err) == DLOCK_OK)
        say(answer, "ok", "");
    else
        say_error(answer, err);
}

/* Asks whoever holds it to give it back. */
static void ask_back(contender *me, const char *kind, const char *name, char *answer)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_lock) lock = NULL;
    struct wish wish = {.kind = kind, .name = name, .count = 1};
    if (make_lock(me, &wish, &lock, &err) == DLOCK_OK &&
        dlock_lock_revoke(lock, &err) == DLOCK_OK)
        say(answer, "ok", "");
    else
        say_error(answer, err);
}

/* Waits until somebody asks for the newest hold. */
static void revoked(const contender *me, char *answer)
{
    int64_t end = now_ms() + PATIENCE_MS;
    dlock_client *client = me->clients->told;
    if (me->held == 0 ||
        dlock_hold_notify(me->holds[me->held - 1].hold, (uint64_t)me->held) != DLOCK_OK) {
        say(answer, "error", "holds nothing");
        return;
    }
    for (; now_ms() < end; (void)usleep(1000)) {
        dlock_event *event = dlock_client_next_event(client);
        bool asked = event != NULL && dlock_event_what(event) == DLOCK_EVENT_REVOKE;
        dlock_event_free(event);
        if (asked) {
            say(answer, "ok", "yes");
            return;
        }
    }
    say(answer, "ok", "no");
}

/* Whether we believe that we hold it; asks nobody. */
static void still(const contender *me, char *answer)
{
    dlock_err code =
        me->held > 0 ? dlock_hold_check(me->holds[me->held - 1].hold) : DLOCK_ENOTHELD;
    say(answer, code == DLOCK_OK ? "ok" : "no", dlock_errname(code));
}

/* Whether the server still has the newest hold as ours. */
static void check(const contender *me, char *answer)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    if (me->held == 0)
        say(answer, "error", "holds nothing");
    else if (dlock_hold_verify(me->holds[me->held - 1].hold, &err) == DLOCK_OK)
        say(answer, "ok", "");
    else
        say(answer, "no", dlock_errname(dlock_error_code(err)));
}

/* Who has it, of those that an inspection shows. */
static void holder(contender *me, const char *kind, const char *name, char *answer)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_lock) lock = NULL;
    DLOCK_AUTO(dlock_info) info = NULL;
    struct wish wish = {.kind = kind, .name = name, .count = 1};
    if (make_lock(me, &wish, &lock, &err) != DLOCK_OK ||
        dlock_lock_inspect(lock, &info, &err) != DLOCK_OK) {
        say_error(answer, err);
        return;
    }
    const char *owner = dlock_info_get(info, "holders.0.owner");
    say(answer, owner != NULL ? "ok" : "no", owner != NULL ? owner : "");
}

/* One write to a file opened for appending: the lines of all contenders have one order. */
static bool note(int log, char what, const contender *me, const char *kind,
                 const char *token)
{
    struct timespec now;
    char line[256];
    (void)clock_gettime(CLOCK_REALTIME, &now);
    int size = snprintf(line, sizeof line, "%c %s %s %s %lld\n", what, me->name, kind,
                        token, (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000);
    return write(log, line, (size_t)size) == size;
}

static void pause_a_little(void)
{
    (void)usleep((useconds_t)(rand() % 3) * 1000);
}

static bool contend_once(contender *me, const struct wish *wish, int log, char *answer)
{
    char token[32];
    bool noted = note(log, '?', me, wish->kind, "0");
    if (!take(me, wish, answer))
        return false;
    (void)snprintf(token, sizeof token, "%lld",
                   (long long)dlock_hold_token(me->holds[me->held - 1].hold));
    noted = note(log, '+', me, wish->kind, token) && noted;
    pause_a_little();
    noted = note(log, '-', me, wish->kind, "0") && noted;
    if (!release(me, answer))
        return false;
    pause_a_little();
    if (!noted)
        say(answer, "error", "can't write the log");
    return noted;
}

/* Takes the kinds in turn until the time is over, and at least once; notes each entry. */
static void contend(contender *me, char *list, struct wish wish, const char *path,
                    int64_t ms, char *answer)
{
    char *wanted[MAX_WORDS], *rest = NULL;
    int count = 0, rounds = 0;
    for (char *word = strtok_r(list, ",", &rest); word != NULL && count < MAX_WORDS;
         word = strtok_r(NULL, ",", &rest))
        wanted[count++] = word;
    int log = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    bool went_well = log >= 0 && count > 0;
    for (int64_t end = now_ms() + ms; went_well && (rounds == 0 || now_ms() < end);
         rounds++) {
        wish.kind = wanted[rounds % count];
        went_well = contend_once(me, &wish, log, answer);
    }
    if (log < 0)
        say(answer, "error", "can't open the log");
    else
        (void)close(log);
    if (went_well)
        (void)snprintf(answer, OURS_MAX_ANSWER, "ok %d", rounds);
}

/* There is no call that only makes a semaphore: who takes of none makes it. */
static void size(contender *me, const char *kind, const char *name, const char *permits,
                 char *answer)
{
    struct wish wish = {.kind = kind, .name = name, .size = atoll(permits), .count = 1};
    if (take(me, &wish, answer))
        (void)release(me, answer);
}

void contender_obey(contender *me, char *line, char answer[OURS_MAX_ANSWER])
{
    char *words[MAX_WORDS] = {NULL}, *rest = NULL;
    int count = 0;
    for (char *word = strtok_r(line, " ", &rest); word != NULL && count < MAX_WORDS;
         word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    const char *verb = count > 0 ? words[0] : "";
    struct wish wish = {.count = 1, .wait_ms = PATIENCE_MS};
    if (count >= 4) {
        wish.kind = words[1];
        wish.name = words[2];
        wish.ttl_ms = atoll(words[3]);
    }
    if (strcmp(verb, "take") == 0 && count >= 5) {
        wish.wait_ms = atoll(words[4]);
        wish.count = count > 5 ? atoll(words[5]) : 1;
        (void)take(me, &wish, answer);
    } else if (strcmp(verb, "release") == 0) {
        (void)release(me, answer);
    } else if (strcmp(verb, "check") == 0) {
        check(me, answer);
    } else if (strcmp(verb, "still") == 0) {
        still(me, answer);
    } else if (strcmp(verb, "downgrade") == 0) {
        downgrade(me, answer);
    } else if (strcmp(verb, "revoke") == 0 && count == 3) {
        ask_back(me, words[1], words[2], answer);
    } else if (strcmp(verb, "revoked") == 0) {
        revoked(me, answer);
    } else if (strcmp(verb, "holder") == 0 && count == 3) {
        holder(me, words[1], words[2], answer);
    } else if (strcmp(verb, "size") == 0 && count == 4) {
        size(me, words[1], words[2], words[3], answer);
    } else if (strcmp(verb, "contend") == 0 && count == 6) {
        contend(me, words[1], wish, words[4], atoll(words[5]), answer);
    } else {
        say(answer, "error", "no such command");
    }
}

void contender_init(contender *me, const char *name, const ours_clients *clients)
{
    *me = (contender){.name = name, .clients = clients};
    (void)pthread_mutex_init(&me->mutex, NULL);
}

void contender_cancel(contender *me)
{
    (void)pthread_mutex_lock(&me->mutex);
    if (me->op != NULL)
        dlock_op_cancel(me->op);
    (void)pthread_mutex_unlock(&me->mutex);
}
