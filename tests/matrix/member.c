/*
 * One member of the matrix, with the library itself: it does what it is told on standard input, a line
 * at a time, and answers each with a line. matrix.py says what the words mean.
 */
#include <dlock/dlock.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMBERS = 100, SLOTS = 4, WORDS = 6, WAIT_MS = 30000 };

static dlock_client *clients[MEMBERS];
static dlock_hold *holds[MEMBERS * SLOTS];
static dlock_op *waits[MEMBERS];

static void answer(const char *word, const char *text)
{
    (void)printf("%s%s%s\n", word, *text ? " " : "", text);
    (void)fflush(stdout);
}

/* "no" is what the service, or a kind on it, doesn't have; all else is a failure of the test. */
static void tell(dlock_err code, const dlock_error *error, const char *fine)
{
    if (code == DLOCK_OK)
        answer(fine, "");
    else if (code == DLOCK_EBUSY || code == DLOCK_ETIMEDOUT)
        answer("busy", "");
    else
        answer(code == DLOCK_ENOTSUP ? "no" : "failed",
               error ? dlock_error_text(error) : dlock_strerror(code));
}

/* ---- locks of each kind ---- */

static dlock_err simple(dlock_client *client, const char *kind, const char *name,
                        dlock_lock **lock, dlock_error **error)
{
    static const struct {
        const char *word;
        dlock_kind kind;
        const char *key, *value;
    } kinds[] = {
        {"mutex", DLOCK_MUTEX, NULL, NULL},
        {"in-order", DLOCK_MUTEX, "lock.fair", "true"},
        {"read", DLOCK_READ, NULL, NULL},
        {"write", DLOCK_WRITE, NULL, NULL},
        {"semaphore", DLOCK_SEMAPHORE, "lock.permits", "2"},
        {"election", DLOCK_ELECTION, "lock.data", "member"},
    };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        if (strcmp(kinds[i].word, kind) != 0)
            continue;
        DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
        dlock_err code = DLOCK_OK;
        if (kinds[i].key)
            code = dlock_conf_set(conf, kinds[i].key, kinds[i].value, error);
        return code != DLOCK_OK
                   ? code
                   : dlock_lock_new(client, kinds[i].kind, name, conf, lock, error);
    }
    return DLOCK_EINVAL;
}

static dlock_err several(dlock_client *client, const char *name, dlock_lock **lock,
                         dlock_error **error)
{
    char other[256];
    (void)snprintf(other, sizeof(other), "%s-2", name);
    dlock_lock *locks[2] = {NULL, NULL};
    dlock_err code = simple(client, "mutex", name, &locks[0], error);
    if (code == DLOCK_OK)
        code = simple(client, "mutex", other, &locks[1], error);
    if (code == DLOCK_OK)
        code = dlock_multi_new(locks, 2, NULL, lock, error);
    dlock_lock_free(locks[0]);
    dlock_lock_free(locks[1]);
    return code;
}

static dlock_err handle_of(dlock_client *client, const char *kind, const char *name,
                           dlock_lock **lock, dlock_error **error)
{
    return strcmp(kind, "several") == 0 ? several(client, name, lock, error)
                                        : simple(client, kind, name, lock, error);
}

/* ---- what it is told ---- */

static void take(dlock_client *client, dlock_hold **hold, char **words)
{
    DLOCK_AUTO(dlock_lock) lock = NULL;
    DLOCK_AUTO(dlock_error) error = NULL;
    dlock_err code = handle_of(client, words[0], words[1], &lock, &error);
    /* An owner of its own: all that is asked here is asked by one thread. */
    if (code == DLOCK_OK) {
        DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, atoi(words[2]));
        (void)dlock_op_wait(op, DLOCK_FOREVER);
        code = dlock_op_result(op);
        *hold = dlock_op_take_hold(op);
        tell(code, dlock_op_error(op), "held");
        return;
    }
    tell(code, error, "held");
}

static void give(dlock_hold **hold)
{
    DLOCK_AUTO(dlock_error) error = NULL;
    tell(dlock_hold_release(*hold, &error), error, "given");
    dlock_hold_free(*hold);
    *hold = NULL;
}

static void leave(dlock_client *client, char **words)
{
    DLOCK_AUTO(dlock_lock) lock = NULL;
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_error) error = NULL;
    const char *ticket = "";
    dlock_err code = handle_of(client, words[0], words[1], &lock, &error);
    if (code == DLOCK_OK)
        code = dlock_lock_acquire(lock, 0, &hold, &error);
    if (code == DLOCK_OK)
        code = dlock_hold_export(hold, &ticket, &error);
    if (code == DLOCK_OK)
        answer("ticket", ticket);
    else
        tell(code, error, "");
}

static void import_it(dlock_client *client, dlock_hold **hold, const char *ticket)
{
    DLOCK_AUTO(dlock_error) error = NULL;
    tell(dlock_client_import(client, ticket, hold, &error), error, "held");
}

static void revoke(dlock_client *client, char **words)
{
    DLOCK_AUTO(dlock_lock) lock = NULL;
    DLOCK_AUTO(dlock_error) error = NULL;
    dlock_err code = handle_of(client, words[0], words[1], &lock, &error);
    if (code == DLOCK_OK)
        code = dlock_lock_revoke(lock, &error);
    tell(code, error, "asked");
}

/* Events are of the whole client; nothing else here asks for any. */
static void hear(dlock_client *client)
{
    struct pollfd at = {.fd = dlock_client_event_fd(client), .events = POLLIN};
    while (poll(&at, 1, WAIT_MS) > 0) {
        DLOCK_AUTO(dlock_event) event = dlock_client_next_event(client);
        if (event && dlock_event_what(event) == DLOCK_EVENT_REVOKE) {
            answer("heard", "");
            return;
        }
    }
    answer("failed", "nobody asked");
}

/* Answers at once: whoever is to signal may be in this process, too. */
static void begin_to_wait(dlock_client *client, dlock_hold *hold, dlock_op **op,
                          const char *name)
{
    DLOCK_AUTO(dlock_cond) cond = NULL;
    DLOCK_AUTO(dlock_error) error = NULL;
    dlock_err code = dlock_cond_new(client, name, NULL, &cond, &error);
    if (code == DLOCK_OK)
        *op = dlock_cond_wait_start(cond, hold, WAIT_MS);
    tell(code, error, "waits");
}

static void end_waiting(dlock_hold **hold, dlock_op **op)
{
    (void)dlock_op_wait(*op, DLOCK_FOREVER);
    dlock_err code = dlock_op_result(*op);
    dlock_hold *again = dlock_op_take_hold(*op);
    if (again) {
        dlock_hold_free(*hold);
        *hold = again;
    }
    tell(code, dlock_op_error(*op), "woken");
    dlock_op_free(*op);
    *op = NULL;
}

static void send_signal(dlock_client *client, const char *name)
{
    int64_t count = 0;
    char number[32];
    DLOCK_AUTO(dlock_cond) cond = NULL;
    DLOCK_AUTO(dlock_error) error = NULL;
    dlock_err code = dlock_cond_new(client, name, NULL, &cond, &error);
    if (code == DLOCK_OK)
        code = dlock_cond_signal(cond, 1, NULL, &count, &error);
    (void)snprintf(number, sizeof(number), "signalled %d", (int)count);
    tell(code, error, number);
}

static void inspect(dlock_client *client, char **words)
{
    DLOCK_AUTO(dlock_lock) lock = NULL;
    DLOCK_AUTO(dlock_error) error = NULL;
    DLOCK_AUTO(dlock_info) info = NULL;
    dlock_err code = handle_of(client, words[0], words[1], &lock, &error);
    if (code == DLOCK_OK)
        code = dlock_lock_inspect(lock, &info, &error);
    tell(code, error, info && dlock_info_get(info, "holders.0.owner") ? "taken" : "free");
}

static void has(dlock_client *client, const char *key)
{
    DLOCK_AUTO(dlock_info) info = NULL;
    DLOCK_AUTO(dlock_error) error = NULL;
    dlock_err code = dlock_client_features(client, &info, &error);
    const char *said = info ? dlock_info_get(info, key) : NULL;
    tell(code, error, said && strcmp(said, "1") == 0 ? "yes" : "not");
}

static void open_client(dlock_client **client, const char *uri)
{
    DLOCK_AUTO(dlock_error) error = NULL;
    tell(dlock_client_open(uri, NULL, client, &error), error, "open");
}

/* words: what, which client, which of its holds, and what belongs to it */
static void obey(char **words)
{
    const char *what = words[0];
    int member = atoi(words[1]) % MEMBERS;
    dlock_client **client = &clients[member];
    dlock_hold **hold = &holds[member * SLOTS + atoi(words[2]) % SLOTS];
    if (strcmp(what, "open") == 0)
        open_client(client, words[3]);
    else if (strcmp(what, "take") == 0)
        take(*client, hold, words + 3);
    else if (strcmp(what, "give") == 0)
        give(hold);
    else if (strcmp(what, "leave") == 0)
        leave(*client, words + 3);
    else if (strcmp(what, "import") == 0)
        import_it(*client, hold, words[3]);
    else if (strcmp(what, "listen") == 0)
        tell(dlock_hold_notify(*hold, 1), NULL, "listens");
    else if (strcmp(what, "hear") == 0)
        hear(*client);
    else if (strcmp(what, "revoke") == 0)
        revoke(*client, words + 3);
    else if (strcmp(what, "wait") == 0)
        begin_to_wait(*client, *hold, &waits[member], words[3]);
    else if (strcmp(what, "woken") == 0)
        end_waiting(hold, &waits[member]);
    else if (strcmp(what, "signal") == 0)
        send_signal(*client, words[3]);
    else if (strcmp(what, "inspect") == 0)
        inspect(*client, words + 3);
    else if (strcmp(what, "has") == 0)
        has(*client, words[3]);
    else if (strcmp(what, "close") == 0) {
        tell(dlock_client_close(*client, NULL), NULL, "closed");
        dlock_client_free(*client);
        *client = NULL;
    } else
        answer("failed", "what is that?");
}

int main(void)
{
    char line[4096];
    while (fgets(line, sizeof(line), stdin)) {
        static char nothing[] = "";
        char *words[WORDS], *rest = NULL;
        size_t count = 0;
        for (char *word = strtok_r(line, " \n", &rest); word && count < WORDS;
             word = strtok_r(NULL, " \n", &rest))
            words[count++] = word;
        while (count < WORDS)
            words[count++] = nothing;
        obey(words);
    }
    return 0;
}
