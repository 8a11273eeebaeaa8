/* The model of Redis beside a real one: the same requests, made by the library's own code, in
 * random order; the same answers, messages and keys. Only the time may differ by what a machine
 * takes from one step to the next; every lease here is far longer than that, or over. */
#include "model.h"

#include "backends/redis/asks.h"
#include "backends/redis/batch.h"
#include "backends/redis/client_key.h"
#include "backends/redis/inner.h"
#include "backends/redis/keys.h"
#include "backends/redis/redis.h"
#include "backends/redis/scripts.h"
#include "harness/harness.h"
#include "harness/redis_server.h"
#include "util/kind.h"
#include "util/rand.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS    6  /* of each form */
#define STEPS     40 /* of a round */
#define LATE_MS   5000
#define SHORT_MS  500 /* the shortest lease that a script gives by itself */
#define MOMENT_MS 10  /* a step that takes longer is no measure for short ones */
#define OWNERS    3

static redis_server server;
static model it;
static dlk_rand dice;

static int64_t between(int64_t low, int64_t high)
{
    return low + (int64_t)(dlk_rand_next(&dice) % (uint64_t)(high - low + 1));
}

/* ---- the real one ---- */

typedef struct line {
    int fd;
    dlk_resp_reader *reader;
} line;

static line commands, messages;

static bool line_open(line *to)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", server.path);
    to->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    to->reader = dlk_resp_new();
    return to->reader && to->fd >= 0 &&
           connect(to->fd, (struct sockaddr *)&address, sizeof(address)) == 0;
}

static void line_close(line *of)
{
    (void)close(of->fd); /* only read */
    dlk_resp_free(of->reader);
}

static void line_send(const line *to, const dlk_buf *bytes)
{
    const char *at = dlk_buf_head(bytes);
    for (size_t left = dlk_buf_size(bytes); left > 0;) {
        ssize_t some = send(to->fd, at, left, MSG_NOSIGNAL);
        if (some <= 0)
            abort();
        at += some;
        left -= (size_t)some;
    }
}

/* The next answer, which lives until the one after it. */
static const dlk_resp *line_take(const line *from)
{
    const dlk_resp *reply;
    for (;;) {
        char some[4096];
        dlk_resp_got got = dlk_resp_next(from->reader, &reply);
        if (got == DLK_RESP_ONE)
            return reply;
        ssize_t size = got == DLK_RESP_MORE ? recv(from->fd, some, sizeof(some), 0) : -1;
        if (size <= 0 || !dlk_resp_feed(from->reader, some, (size_t)size))
            abort();
    }
}

static const dlk_resp *call(const line *to, const dlk_arg *args, size_t count)
{
    dlk_buf bytes = {0};
    if (!dlk_resp_command(&bytes, args, count))
        abort();
    line_send(to, &bytes);
    dlk_buf_free(&bytes);
    return line_take(to);
}

/* ---- the model ---- */

static dlk_resp_reader *model_reader;
static dlk_buf told; /* by the model: channel and text */

/* Where somebody listens; elsewhere nobody does, and scripts look at that. */
#define HEARD_MAX 8
static char heard[HEARD_MAX][200];
static size_t heard_count;

static int64_t listeners(void *world, const dlk_arg *channel)
{
    (void)world;
    for (size_t i = 0; i < heard_count; i++)
        if (strlen(heard[i]) == channel->size &&
            memcmp(heard[i], channel->data, channel->size) == 0)
            return 1;
    return 0;
}

static int64_t note_message(void *world, const dlk_arg *channel, const dlk_arg *text)
{
    const dlk_arg both[] = {*channel, *text};
    if (listeners(world, channel) == 0)
        return 0;
    if (!dlk_resp_command(&told, both, 2))
        abort();
    return 1;
}

__attribute__((format(printf, 1, 2))) static void listen_to(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(heard[heard_count], sizeof(heard[0]), format, args); /* fits */
    va_end(args);
    const dlk_arg subscribe[] = {dlk_arg_text("SUBSCRIBE"),
                                 dlk_arg_text(heard[heard_count++])};
    (void)call(&messages, subscribe, 2);
}

static void listen_no_more(void)
{
    for (; heard_count > 0; heard_count--) {
        const dlk_arg leave[] = {dlk_arg_text("UNSUBSCRIBE"),
                                 dlk_arg_text(heard[heard_count - 1])};
        (void)call(&messages, leave, 2);
    }
}

static const dlk_resp *ask_model(const dlk_arg *args, size_t count)
{
    const dlk_resp *reply;
    dlk_buf answer = {0};
    model_run(&it, args, count, &answer);
    if (!dlk_resp_feed(model_reader, dlk_buf_head(&answer), dlk_buf_size(&answer)) ||
        dlk_resp_next(model_reader, &reply) != DLK_RESP_ONE)
        abort();
    dlk_buf_free(&answer);
    return reply;
}

/* The model's clock is the server's, which is asked before each step. */
static int64_t server_us(void)
{
    const dlk_arg args[] = {dlk_arg_text("TIME")};
    const dlk_resp *time = call(&commands, args, 1);
    int64_t s, us;
    if (!dlk_resp_decimal(&time->items[0], &s) || !dlk_resp_decimal(&time->items[1], &us))
        abort();
    return s * 1000000 + us;
}

static void set_clock(void)
{
    it.now_us = server_us();
}

/* ---- the same? ---- */

/* Of the step under way: what it asks for will be over before the next one, or is already. */
static bool brief;
#define BRIEF_MS 20

/* Numbers that are times may be as far apart as this machine is slow; what a script gives for a
 * moment by a few ms, or the step doesn't count. */
static bool same_number(int64_t a, int64_t b)
{
    int64_t apart = a > b ? a - b : b - a;
    if (apart == 0)
        return true;
    if (a < -1 && b < -1) /* a script's "so long, and somebody has it" */
        return same_number(-a, -b);
    int64_t least = a < b ? a : b, most = a < b ? b : a;
    if (brief && least >= 0 && most <= BRIEF_MS)
        return true;
    if (most <= 2 * SHORT_MS)
        return least > MOMENT_MS && apart <= MOMENT_MS;
    bool us = least > 1000000 * INT64_C(1000000000);
    return least > 2 * LATE_MS && apart < (us ? LATE_MS * 1000 : LATE_MS);
}

/* "owner time" or "owner time time", as a time-stamp lock has beside it, or, with tabs between, what is said
 * of a permit: word by word. */
static bool same_words(const char *a, const char *b)
{
    for (;;) {
        size_t one = strcspn(a, " \t"), other = strcspn(b, " \t");
        bool times = one > 0 && other > 0 && strspn(a, "0123456789") == one &&
                     strspn(b, "0123456789") == other;
        if (times ? !same_number(strtoll(a, NULL, 10), strtoll(b, NULL, 10))
                  : one != other || memcmp(a, b, one) != 0)
            return false;
        if (!a[one] || a[one] != b[other])
            return a[one] == b[other];
        a += one + 1;
        b += other + 1;
    }
}

static bool same_text(const dlk_resp *a, const dlk_resp *b)
{
    int64_t first, second;
    if (dlk_resp_decimal(a, &first) && dlk_resp_decimal(b, &second))
        return same_number(first, second);
    if (a->size == b->size && memcmp(a->text, b->text, a->size) == 0)
        return true;
    bool words = strlen(a->text) == a->size && strlen(b->text) == b->size;
    return words && same_words(a->text, b->text);
}

/* Where the script is that failed only Redis says. */
static size_t error_size(const dlk_resp *error)
{
    const char *place = strstr(error->text, " script: ");
    return place ? (size_t)(place - error->text) : error->size;
}

static bool same(const dlk_resp *a, const dlk_resp *b)
{
    if (a->type != b->type)
        return false;
    switch (a->type) {
    case DLK_RESP_NIL:
        return true;
    case DLK_RESP_INTEGER:
        return same_number(a->integer, b->integer);
    case DLK_RESP_ERROR:
        return error_size(a) == error_size(b) &&
               memcmp(a->text, b->text, error_size(a)) == 0;
    case DLK_RESP_ARRAY:
        if (a->count != b->count)
            return false;
        for (size_t i = 0; i < a->count; i++)
            if (!same(&a->items[i], &b->items[i]))
                return false;
        return true;
    case DLK_RESP_STATUS:
    case DLK_RESP_TEXT:
        break;
    }
    return same_text(a, b);
}

static void show(char **at, const char *end, const dlk_resp *reply)
{
    int put = 0;
    size_t room = (size_t)(end - *at);
    if (reply->type == DLK_RESP_INTEGER)
        put = snprintf(*at, room, " %" PRId64, reply->integer);
    else if (reply->type == DLK_RESP_NIL)
        put = snprintf(*at, room, " nil");
    else if (reply->type != DLK_RESP_ARRAY)
        put = snprintf(*at, room, " %s'%s'", reply->type == DLK_RESP_ERROR ? "-" : "",
                       reply->text);
    *at = put < 0 || (size_t)put >= room ? (char *)end : *at + put;
    for (size_t i = 0; reply->type == DLK_RESP_ARRAY && i < reply->count; i++)
        show(at, end, &reply->items[i]);
}

static void complain(const char *what, const dlk_resp *real, const dlk_resp *ours)
{
    char text[2000] = "", *at = text;
    show(&at, text + sizeof(text) - 1, real);
    harness_note("%s: Redis %s", what, text);
    at = text;
    text[0] = '\0';
    show(&at, text + sizeof(text) - 1, ours);
    harness_note("%s: model %s", what, text);
}

/* ---- a command to both ---- */

static char history[STEPS * 2 + 8][400];
static size_t history_count;

static void remember(const dlk_arg *args, size_t count)
{
    if (history_count == sizeof(history) / sizeof(history[0]))
        return;
    char *to = history[history_count++], *end = to + sizeof(history[0]) - 1;
    *to = '\0';
    for (size_t i = 0; i < count && to < end; i++) {
        const char *name = args[i].data;
        size_t script = i == 1 ? model_script_by_sha(&args[1]) : MODEL_SCRIPTS;
        if (script != MODEL_SCRIPTS)
            name = dlk_redis_scripts[script].name;
        int put = snprintf(to, (size_t)(end - to), " %s", name);
        to = put < 0 || put >= end - to ? end : to + put;
    }
}

/* Members and scores of a sorted set: two that came in one moment may stand either way round. */
static bool same_scores(const dlk_resp *a, const dlk_resp *b)
{
    if (a->type != DLK_RESP_ARRAY || b->type != DLK_RESP_ARRAY || a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i += 2) {
        size_t k = 0;
        while (k < b->count &&
               (a->items[i].size != b->items[k].size ||
                memcmp(a->items[i].text, b->items[k].text, a->items[i].size)))
            k += 2;
        if (k >= b->count || !same(&a->items[i + 1], &b->items[k + 1]))
            return false;
    }
    return true;
}

static bool both_as(const dlk_arg *args, size_t count,
                    bool (*alike)(const dlk_resp *real, const dlk_resp *ours))
{
    const dlk_resp *real = call(&commands, args, count), *ours = ask_model(args, count);
    bool fine = alike(real, ours);
    if (!fine)
        complain("answer", real, ours);
    return fine;
}

static bool both(const dlk_arg *args, size_t count)
{
    return both_as(args, count, same);
}

static bool both_word(const char *word, const dlk_arg *key, const char *from)
{
    const dlk_arg args[] = {dlk_arg_text(word), *key, dlk_arg_text(from ? from : ""),
                            dlk_arg_text("-1")};
    return both(args, from ? 4 : 2);
}

static bool same_key(const dlk_arg *name)
{
    const model_key *key = model_find(&it, name);
    if (!both_word("TYPE", name, NULL) || !both_word("PTTL", name, NULL))
        return false;
    switch (key ? key->type : MODEL_TYPE_COUNT) {
    case MODEL_STRING:
        return both_word("GET", name, NULL);
    case MODEL_HASH:
        return both_word("HGETALL", name, NULL);
    case MODEL_LIST:
        return both_word("LRANGE", name, "0");
    case MODEL_ZSET:
        return both_as((const dlk_arg[]){dlk_arg_text("ZRANGE"), *name, dlk_arg_text("0"),
                                         dlk_arg_text("-1"), dlk_arg_text("WITHSCORES")},
                       5, same_scores);
    case MODEL_TYPE_COUNT:
        break;
    }
    return true;
}

/* Each key that either has, with all that is in it. */
static bool same_keys(void)
{
    const dlk_arg args[] = {dlk_arg_text("KEYS"), dlk_arg_text("*")};
    char *names[64];
    size_t sizes[64], count = 0;
    const dlk_resp *real = call(&commands, args, 2);
    bool fine = real->type == DLK_RESP_ARRAY && real->count < 64;
    for (; fine && count < real->count; count++) {
        names[count] = strdup(real->items[count].text);
        sizes[count] = real->items[count].size;
    }
    for (size_t i = 0; i < count; i++) {
        const dlk_arg name = {names[i], sizes[i]};
        fine = fine && same_key(&name);
        free(names[i]);
    }
    for (size_t i = it.keys.count; fine && i-- > 0;)
        fine = same_key(&it.keys.list[i].name);
    return fine;
}

/* What both have told since the last time. */
static bool same_messages(void)
{
    const dlk_arg mark[] = {dlk_arg_text("PUBLISH"), dlk_arg_text("end"),
                            dlk_arg_text("")};
    (void)call(&commands, mark, 3);
    bool fine = dlk_resp_feed(model_reader, dlk_buf_head(&told), dlk_buf_size(&told));
    dlk_buf_clear(&told);
    for (;;) {
        const dlk_resp *news = line_take(&messages), *ours;
        bool last = strcmp(news->items[1].text, "end") == 0;
        bool more = dlk_resp_next(model_reader, &ours) == DLK_RESP_ONE;
        if (last || !more) {
            if (last && !more)
                return fine;
            harness_note("message: Redis %s, model %s",
                         last ? "none" : news->items[1].text,
                         more ? ours->items[0].text : "none");
            return false;
        }
        if (!same_text(&news->items[1], &ours->items[0]) ||
            !same_text(&news->items[2], &ours->items[1])) {
            complain("message", news, ours);
            fine = false;
        }
    }
}

static void let_pass(int64_t ms)
{
    const struct timespec time = {.tv_nsec = ms * 1000000};
    (void)nanosleep(&time, NULL); /* Redis' clock is what counts, and is asked */
    set_clock();
}

/* What a script gave for so short a time is either far from its end, or over: it is given that
 * time again, or, now and then, the time it needs. */
static void let_end_what_ends(void)
{
    int64_t longest = 0;
    bool wait = between(0, 15) == 0;
    set_clock();
    for (size_t i = it.keys.count; i-- > 0;) {
        const model_key *key = &it.keys.list[i];
        int64_t left = key->ends_at - model_now_ms(&it);
        if (!key->ends_at || left >= SHORT_MS * 3 / 4)
            continue;
        longest = left > longest ? left : longest;
        const dlk_arg again[] = {dlk_arg_text("PEXPIRE"), key->name, dlk_arg_text("500")};
        if (!wait)
            (void)both(again, 3); /* what differs the step will show */
    }
    if (wait && longest > 0)
        let_pass(longest + 5);
}

/* Two steps are never of the same ms: then their order is the same by both clocks. */
static void let_time_go_on(void)
{
    int64_t last = server_us() / 1000;
    do
        set_clock();
    while (model_now_ms(&it) == last);
}

static bool stalled; /* the machine stood still for too long to compare anything */

static bool step(const dlk_arg *args, size_t count)
{
    let_end_what_ends();
    let_time_go_on();
    int64_t began = it.now_us;
    remember(args, count);
    bool fine = both(args, count);
    if (brief)
        let_pass(BRIEF_MS + 5);
    fine = same_messages() && same_keys() && fine;
    stalled = !fine && server_us() - began > MOMENT_MS * 1000;
    return fine;
}

/* ---- requests, as the library makes them ---- */

static void answered(dlk_host *host, dlk_ask *ask)
{
    (void)host;
    (void)ask;
}

static void notified(dlk_host *host, dlk_key *key)
{
    (void)host;
    (void)key;
}

static void link_is(dlk_host *host, bool up, const dlock_error *error)
{
    (void)host;
    (void)up;
    (void)error;
}

__attribute__((format(printf, 3, 4))) static void
put_log(dlk_host *host, dlock_level level, const char *format, ...)
{
    (void)host;
    (void)level;
    (void)format;
}

static dlk_kicks kicks = {.wakeup = DLK_WAKEUP_NONE};
static dlk_host host = {.tell = &dlk_tell_nobody,
                        .answered = answered,
                        .notified = notified,
                        .link = link_is,
                        .log = put_log,
                        .kicks = &kicks,
                        .uuid = "01234567-89ab-4cde-8f01-23456789abcd",
                        .name = "test",
                        .who = "test\there\t1",
                        .rand = &dice};
static dlk_redis *maker; /* never connected: we take its bytes and carry them ourselves */

static bool open_maker(dlk_settings *settings, bool node)
{
    dlk_uri *uri = NULL;
    dlk_backend *backend = NULL;
    bool fine = dlk_uri_parse("redis://127.0.0.1:1", &uri, NULL) == DLOCK_OK &&
                (node ? dlk_redis_open_node : dlk_redis_backend.open)(
                    &host, uri, settings, &backend, NULL) == DLOCK_OK;
    dlk_uri_free(uri);
    maker = (dlk_redis *)backend;
    if (fine) {
        maker->commands.link.phase = DLK_LINK_READY;
        maker->checked = UINT32_MAX; /* the rights to a kind's locks are there */
    }
    return fine;
}

static void close_maker(void)
{
    maker->commands.link.phase = DLK_LINK_OFF;
    dlk_redis_backend.stop(&maker->base);
    dlk_redis_backend.free(&maker->base);
}

/* What a client that isn't connected never says of itself: that it stands in the line, and is heard there. */
static void vary(const dlk_ask *ask, dlk_arg *args, size_t count)
{
    static char terms[128];
    const dlk_redis_key *data = ask->key->data;
    /* The last but where clients' keys are said after it. */
    dlk_arg *last = &args[count - 1 - (ask->verb == DLK_INSPECT)];
    if (data->form->signals && ask->verb == DLK_ACQUIRE) {
        last[-1] = dlk_arg_text(brief ? "20" : "600000");
        *last = dlk_arg_text(between(0, 3) ? "1" : "0");
    } else if (data->hands_over && between(0, 3) > 0) {
        const char *rest = strchr(last->data, ' '); /* "life claim turn first flag" */
        (void)snprintf(terms, sizeof(terms), "600000%s", rest ? rest : ""); /* fits */
        *last = dlk_arg_text(terms);
    }
}

static bool step_command(const dlk_ask *ask, const dlk_resp *command)
{
    dlk_arg args[64];
    for (size_t i = 0; i < command->count; i++)
        args[i] = (dlk_arg){command->items[i].text, command->items[i].size};
    bool script = args[0].data[0] == 'E'; /* of an acquire there may be more */
    if (script && ask->verb != DLK_RENEW)
        vary(ask, args, command->count);
    return step(args, command->count);
}

/* The commands that an ask becomes, sent to both: the client's own key may go ahead. */
static bool step_ask(dlk_ask *ask)
{
    dlk_buf *out = &maker->commands.link.stream.out;
    dlk_resp_reader *reader = dlk_resp_new();
    const dlk_resp *command;
    /* Renewals wait for others to go with, as one of another owner may. */
    dlk_ask other = *ask;
    other.number = other.number % OWNERS + 1;
    dlk_redis_backend.ask(&maker->base, ask, 0);
    bool both_renew = ask->verb == DLK_RENEW && between(0, 1);
    if (both_renew)
        dlk_redis_backend.ask(&maker->base, &other, 0);
    dlk_redis_batch_put(maker);
    bool fine = reader && ask->reply == DLK_PENDING && dlk_buf_size(out) > 0 &&
                dlk_resp_feed(reader, dlk_buf_head(out), dlk_buf_size(out));
    dlk_buf_clear(out);
    dlk_list_remove(&ask->link);
    if (both_renew)
        dlk_list_remove(&other.link);
    while (fine && dlk_resp_next(reader, &command) == DLK_RESP_ONE)
        fine = step_command(ask, command);
    dlk_resp_free(reader);
    return fine;
}

static char owner_text[DLK_REDIS_OWNER_MAX];

/* A signal's token is a time, of which both have their own: one that is to be used gets another. */
static bool use_signal(dlk_ask *ask)
{
    static const char begins[] = "signal ";
    const dlk_arg name = {ask->key->name, ask->key->size},
                  owner = {owner_text,
                           dlk_redis_put_owner(maker, ask->number, owner_text)},
                  set[] = {dlk_arg_text("HSET"), name, owner, dlk_arg_text("signal 7")};
    const model_key *hash = model_find(&it, &name);
    const model_item *place =
        hash && hash->type == MODEL_HASH ? model_item_of(hash, &owner) : NULL;
    if (!place || place->value.size < sizeof(begins) ||
        memcmp(place->value.data, begins, sizeof(begins) - 1) != 0)
        return true;
    ask->used = 7;
    return step(set, 4);
}

static bool random_ask(dlk_key *key)
{
    static const dlk_verb verbs[] = {DLK_ACQUIRE, DLK_ACQUIRE, DLK_ACQUIRE, DLK_RELEASE,
                                     DLK_RELEASE, DLK_RENEW,   DLK_RENEW,   DLK_VERIFY,
                                     DLK_INSPECT, DLK_BREAK};
    static const int64_t leases[] = {200000, 400000, 800000};
    dlk_ask ask = {.key = key,
                   .verb = verbs[between(0, 9)],
                   .number = (uint64_t)between(1, OWNERS),
                   .ttl_ms = between(0, 15) ? leases[between(0, 2)] : BRIEF_MS,
                   .deadline = INT64_MAX,
                   .take = 1};
    ask.shared = key->kind == DLOCK_WRITE && between(0, 1) == 1;
    ask.once = between(0, 3) == 0;
    if (key->kind == DLOCK_SEMAPHORE)
        ask.take = (int32_t)between(1, 3);
    if (ask.verb == DLK_RELEASE && key->passes && between(0, 1))
        ask.next = (uint64_t)between(1, OWNERS);
    bool signals = key->kind == DLK_KIND_CONDITION;
    if (signals && between(0, 3) == 0)
        ask.verb = DLK_SIGNAL;
    ask.limit = between(0, 3) ? between(1, 2) : INT64_MAX;
    /* One of two clients, of which only the first is heard. */
    maker->owner[0] = between(0, 2) ? '0' : 'f';
    dlk_redis_key *data = key->data;
    data->turn = (uint32_t)between(0, 5);
    data->run = (uint8_t)between(0, 5);
    data->kept_at = between(0, 1); /* of a renewal at 0: it looks after the counter */
    if (ask.verb == DLK_BREAK && between(0, 1)) {
        (void)snprintf(owner_text, sizeof(owner_text), "%s:%" PRIu64, host.uuid,
                       ask.number);
        ask.text = owner_text;
    }
    bool fine =
        !(signals && ask.verb == DLK_RELEASE && between(0, 1)) || use_signal(&ask);
    brief = ask.ttl_ms == BRIEF_MS;
    fine = fine && step_ask(&ask);
    brief = false;
    return fine;
}

/* Somebody else's hands in the keyspace: counters near their end, keys of other types. */
static bool random_mischief(const dlk_key *key)
{
    static const char *const texts[] = {
        "8000000000000000", "9007199254740990", "nonsense", "1", "0",
        "2147483647",       "1700000000000000"};
    const dlk_redis_key *data = key->data;
    const char *name = key->name;
    static char other[64];
    int derived = (int)between(-1, DLK_REDIS_DERIVED - 1);
    if (derived >= 0 && data->form->derived[derived]) {
        char *text = dlk_redis_derive(data->form->derived[derived], name);
        (void)snprintf(other, sizeof(other), "%s", text ? text : ""); /* fits */
        free(text);
        name = other;
    }
    const char *text = texts[between(0, 6)];
    const dlk_arg set[] = {dlk_arg_text("SET"), dlk_arg_text(name), dlk_arg_text(text)};
    (void)snprintf(owner_text, sizeof(owner_text), "%s:%d", host.uuid,
                   (int)between(1, OWNERS)); /* fits */
    const char *const fields[] = {"mode", "other:1", owner_text, owner_text};
    const dlk_arg hset[] = {dlk_arg_text("HSET"), dlk_arg_text(name),
                            dlk_arg_text(fields[between(0, 3)]),
                            dlk_arg_text(between(0, 1) ? "read" : "1")};
    const dlk_arg push[] = {dlk_arg_text("RPUSH"), dlk_arg_text(name), dlk_arg_text("x")};
    const dlk_arg del[] = {dlk_arg_text("DEL"), dlk_arg_text(name)};
    const dlk_arg end[] = {dlk_arg_text("PEXPIRE"), dlk_arg_text(name),
                           dlk_arg_text("300000")};
    const dlk_arg no_end[] = {dlk_arg_text("PERSIST"), dlk_arg_text(name)};
    switch (between(0, 8)) {
    case 0:
        return step(hset, 4);
    case 1:
        return step(push, 3);
    case 2:
        return step(del, 2);
    case 3:
        return step(no_end, 2);
    case 4:
    case 5:
        return step(end, 3);
    default:
        return step(set, 3);
    }
}

static bool play_round(dlk_key *key)
{
    const dlk_arg flush[] = {dlk_arg_text("FLUSHALL")};
    (void)call(&commands, flush, 1);
    model_wipe(&it);
    dlk_redis_client_key_forget(maker); /* it is gone with the others */
    history_count = 0;
    int mischief = (int)between(0, 4); /* none, mostly */
    for (int i = 0; i < STEPS; i++) {
        bool fine =
            mischief == 0 && between(0, 5) == 0 ? random_mischief(key) : random_ask(key);
        if (fine)
            continue;
        if (stalled) {
            harness_note("the machine stood still: this round counts for nothing");
            return true;
        }
        for (size_t k = 0; k < history_count; k++)
            harness_note("%zu.%s", k + 1, history[k]);
        return false;
    }
    return true;
}

/* ---- the world around a test ---- */

static bool begin(void)
{
    const dlk_arg listen[] = {dlk_arg_text("SUBSCRIBE"), dlk_arg_text("end")};
    if (!redis_server_available() || !redis_server_start(&server, NULL))
        return false;
    const char *seed = getenv("REDIS_MODEL_SEED"); /* another one for a longer look */
    dice.state = seed ? strtoull(seed, NULL, 10) : 1;
    model_init(&it);
    it.publish = note_message;
    it.listeners = listeners;
    model_reader = dlk_resp_new();
    bool fine = model_reader && line_open(&commands) && line_open(&messages);
    if (fine)
        (void)call(&messages, listen, 2);
    for (size_t i = 0; fine && i < dlk_redis_script_count; i++) {
        const dlk_arg load[] = {dlk_arg_text("SCRIPT"),
                                dlk_arg_text("LOAD"),
                                {dlk_redis_scripts[i].text, dlk_redis_scripts[i].size}};
        fine = both(load, 3);
    }
    return fine;
}

static void end(void)
{
    line_close(&commands);
    line_close(&messages);
    dlk_resp_free(model_reader);
    dlk_buf_free(&told);
    model_free(&it);
    redis_server_stop(&server);
}

/* Where those who wait for it listen: all of them, two of the owners, one of the clients. */
static void listen_around(const dlk_key *key)
{
    char channel[DLK_REDIS_CHANNEL_MAX + 1];
    channel[dlk_redis_channel_name(key->data, channel)] = '\0';
    listen_to("%s", channel);
    listen_to("%s:%s:1", channel, host.uuid);
    listen_to("%s:%s:2", channel, host.uuid);
    listen_to(DLK_REDIS_CLIENT_CHANNEL "%s", host.uuid);
}

static bool tried[DLK_FORM_COUNT];

/* One kind of lock in one layout, as the setting "key=value" wants it; of a node of a Redlock, which
 * has one of its own, without @p layout. False: a step went wrong. */
static bool play(const char *layout, dlock_kind kind, const char *setting)
{
    bool node = !layout;
    dlk_settings *settings = dlk_settings_new();
    dlk_key key = {.name = "name", .size = 4, .kind = kind, .settings = settings};
    char word[64];
    (void)snprintf(word, sizeof(word), "%s", setting); /* fits */
    char *value = strchr(word, '=');
    *value++ = '\0';
    bool fine = settings &&
                (node || !dlk_settings_set(settings, "redis.layout", layout, NULL)) &&
                !dlk_settings_set(settings, word, value, NULL) &&
                (kind != DLK_KIND_CONDITION || /* then nothing ends by itself */
                 !dlk_settings_set(settings, "redis.claim_ms", "60000", NULL)) &&
                !dlk_settings_set(settings, "redis.notify", "true", NULL) &&
                !dlk_settings_set(settings, "lock.permits", "3", NULL);
    if (fine && open_maker(settings, node)) {
        if (dlk_redis_backend.key_open(&maker->base, &key, NULL) == DLOCK_OK) {
            const dlk_redis_key *data = key.data;
            bool known = tried[data->form->id];
            tried[data->form->id] = true;
            tried[dlk_redis_key_form(data, true)->id] = true;
            listen_around(&key);
            for (int i = 0; i < ROUNDS && fine && !known; i++)
                fine = play_round(&key);
            if (!fine)
                harness_note("layout %s, kind %d, %s", node ? "of a node" : layout,
                             (int)kind, setting);
            listen_no_more();
            dlk_redis_backend.key_close(&maker->base, &key);
        }
        close_maker();
    }
    dlk_settings_free(settings);
    return fine;
}

/* ---- the tests ---- */

TEST(the_model_answers_what_redis_answers_to_every_script_of_every_form)
{
    static const char *const layouts[] = {"redisson", "string", "timestamp", "rueidis"};
    static const dlock_kind kinds[] = {DLOCK_MUTEX, DLOCK_WRITE, DLOCK_SEMAPHORE,
                                       DLOCK_ELECTION, DLK_KIND_CONDITION};
    const size_t kind_count = sizeof(kinds) / sizeof(*kinds);
    static const char *const settings[] = {"lock.fair=false", "lock.fair=true",
                                           "redis.semaphore=plain",
                                           "redis.handover=false"};
    bool fine = begin();
    for (size_t l = 0; fine && l < 4; l++)
        for (size_t k = 0; fine && k < kind_count; k++)
            for (size_t i = 0; fine && i < 4; i++)
                fine = play(layouts[l], kinds[k], settings[i]);
    fine = fine && play(NULL, DLOCK_MUTEX, "redlock.fencing=true");
    end();
    CHECK(fine);
    for (int i = 0; i < DLK_FORM_COUNT; i++)
        if (!tried[i])
            harness_note("nobody tried form %d", i);
    for (int i = 0; i < DLK_FORM_COUNT; i++)
        CHECK(tried[i]);
}
