/* What a Redis says, cut anywhere: to the reader, to requests under way, to a greeting, to a
 * subscriber. An answer means to a request exactly what this file says it means; each request is
 * answered once; no wrong answer is ever a grant; what we write is RESP. */
#include "replies.h"

#include "backends/redis/asks.h"
#include "backends/redis/errors.h"
#include "backends/redis/inner.h"
#include "backends/redis/keys.h"
#include "backends/redis/redis.h"
#include "backends/redis/subscriber.h"
#include "backends/redis/watch.h"
#include "util/clock.h"
#include "util/number.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char fuzz_name[] = "resp";
const size_t fuzz_longest = 400;
const char *const fuzz_words[] = {"\r\n",
                                  "$",
                                  "*",
                                  ":",
                                  "+OK\r\n",
                                  "-ERR x\r\n",
                                  "$-1\r\n",
                                  "*-1\r\n",
                                  "*0\r\n",
                                  "*2\r\n",
                                  "*3\r\n",
                                  "$1\r\n0\r\n",
                                  ":1\r\n",
                                  ":0\r\n",
                                  ":2\r\n",
                                  ":-1\r\n",
                                  ":-2\r\n",
                                  "$0\r\n\r\n",
                                  "$16\r\n1700000000000001\r\n",
                                  "-NOSCRIPT x\r\n",
                                  "-WRONGTYPE x\r\n",
                                  "-DLOCKKIND x\r\n",
                                  "-READONLY x\r\n",
                                  "-NOPERM x\r\n",
                                  "$1\r\n+\r\n",
                                  "-LOADING x\r\n",
                                  "$7\r\nmessage\r\n",
                                  "$9\r\nsubscribe\r\n",
                                  "$11\r\nunsubscribe\r\n",
                                  "$26\r\nredisson_lock__channel:{a}\r\n",
                                  "$4\r\nmode\r\n",
                                  "*1000000\r\n",
                                  "$1000000000\r\n",
                                  "s3cret-pw",
                                  "maxmemory_policy:",
                                  "%1\r\n",
                                  "#t\r\n",
                                  ",1\r\n",
                                  NULL};

#define PASSWORD "s3cret-pw"
#define ASKS     6
#define KEYS     3
#define NOW      INT64_C(1000000000000)

typedef struct slot {
    dlk_ask ask;
    int answers;
} slot;

/* One backend for all executions: `set_up` brings it back to where it was. */
static struct {
    dlk_host host; /* first: what the backend is given */
    dlk_kicks kicks;
    dlk_redis *redis;
    /* ours around the backend's, of the commands and the messages */
    dlk_redis_take *theirs;
    dlk_key keys[KEYS];
    dlk_rand rand;
    slot slots[ASKS];
    int used;
    int answered, ups, downs;
    dlock_err down_code;
    bool reenter;
    dlk_resp_reader *reader;
    dlk_buf stream, printed, again;
} world;

/* ---- what the backend tells ---- */

static void ask(uint8_t verb, uint8_t how);

static void on_answered(dlk_host *host, dlk_ask *it)
{
    (void)host;
    slot *at = DLK_LIST_ITEM(it, slot, ask);
    FUZZ_CHECK(at >= world.slots && at < world.slots + ASKS, "an ask that isn't ours");
    FUZZ_CHECK(++at->answers == 1, "a request is answered twice");
    FUZZ_CHECK(it->reply != DLK_PENDING, "an answer that is none");
    world.answered++;
    if (world.reenter)
        ask((uint8_t)(it->verb + 1), 1);
}

static void on_notified(dlk_host *host, dlk_key *key)
{
    (void)host;
    dlk_redis_key *data = key->data;
    FUZZ_CHECK(data->watcher, "told of a key that isn't watched");
    if (world.reenter) /* as the engine does when the lock was got */
        dlk_redis_watch(&world.redis->base, key, false, NOW);
}

static void on_link(dlk_host *host, bool up, const dlock_error *error)
{
    (void)host;
    world.ups += up;
    world.downs += !up;
    FUZZ_CHECK(up == !error, "a link is up, or there is a reason");
    world.down_code = dlock_error_code(error);
    /* Whatever a server makes of AUTH, it doesn't bring the password into a message of ours. */
    if (!up && world.redis->commands.link.step == 1)
        FUZZ_CHECK(!strstr(dlock_error_text(error), PASSWORD) &&
                       !strstr(dlock_error_backend(error), PASSWORD),
                   "the password is in '%s' [%s]", dlock_error_text(error),
                   dlock_error_backend(error));
}

__attribute__((format(printf, 3, 4))) static void
on_log(dlk_host *host, dlock_level level, const char *format, ...)
{
    char text[512];
    va_list args;
    (void)host, (void)level;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
}

/* ---- what an answer means ---- */

static bool takes(const dlk_ask *it)
{
    return it->verb == DLK_ACQUIRE || it->verb == DLK_IMPORT;
}

/* It was refused for want of a right, and now it is asked which one is missing. */
static bool asks_for_rights(const dlk_ask *it)
{
    return takes(it) && it->scratch == DLK_REDIS_RIGHTS;
}

/* Sent once more it would come behind its own release, and take the lock for nobody. */
static bool is_given_back(const dlk_ask *it)
{
    if (!takes(it))
        return false;
    DLK_LIST_FOR (other, &world.redis->flight.asks) {
        const dlk_ask *behind = DLK_LIST_ITEM(other, dlk_ask, link);
        if (behind->verb == DLK_RELEASE && behind->key == it->key &&
            behind->number == it->number && behind->sequence > it->sequence)
            return true;
    }
    return false;
}

/* The answer to the ask, as the scripts' comments have it; PENDING: another command follows, or
 * (*nonsense) it is none of the answers there are. */
static dlk_reply meaning(const dlk_ask *it, const dlk_resp *reply, bool *nonsense)
{
    bool script = it->verb != DLK_LIST && it->verb != DLK_DOCTOR;
    bool holds =
        it->verb == DLK_RENEW || it->verb == DLK_RELEASE || it->verb == DLK_VERIFY;
    *nonsense = false;
    if (asks_for_rights(it))
        return DLK_REFUSED; /* whatever is said */
    if (reply->type == DLK_RESP_ERROR) {
        if (script && dlk_resp_begins(reply, "NOSCRIPT") && it->scratch == 0)
            return is_given_back(it) ? DLK_NOT_SENT : DLK_PENDING;
        if (takes(it) && dlk_redis_error_code(reply) == DLOCK_EACCES)
            return DLK_PENDING;
        return holds && dlk_redis_error_code(reply) == DLOCK_ECONFLICT ? DLK_NOT_OURS
                                                                       : DLK_REFUSED;
    }
    if (it->verb == DLK_ACQUIRE) {
        int64_t token = 0;
        if (reply->type == DLK_RESP_INTEGER && reply->integer >= -1)
            return DLK_HELD;
        if (reply->type == DLK_RESP_TEXT && reply->size > 0 && reply->size < 20 &&
            strspn(reply->text, "0123456789") == reply->size)
            token = strtoull(reply->text, NULL, 10) > INT64_MAX
                        ? 0
                        : strtoll(reply->text, NULL, 10);
        if (token > 0)
            return DLK_YES;
    } else if (it->verb == DLK_IMPORT) {
        int64_t token;
        if (dlk_resp_decimal(reply, &token))
            return DLK_YES;
        if (reply->type == DLK_RESP_INTEGER && reply->integer == 0)
            return DLK_NOT_OURS;
    } else if (it->verb == DLK_RENEW && reply->type == DLK_RESP_INTEGER &&
               reply->integer > DLK_REDIS_ENDS_MIN) {
        return DLK_YES; /* when a lease ends that is too long */
    } else if (reply->type == DLK_RESP_INTEGER && reply->integer >= 0 &&
               reply->integer <= 2) {
        return reply->integer ? DLK_YES : DLK_NOT_OURS;
    }
    *nonsense = true;
    return DLK_PENDING;
}

static void check_answer(const dlk_ask *it, const dlk_resp *reply, dlk_reply expected)
{
    FUZZ_CHECK(it->reply == expected, "answered %d, not %d", it->reply, expected);
    if (expected == DLK_REFUSED)
        FUZZ_CHECK(it->error && dlock_error_code(it->error) ==
                                    (asks_for_rights(it) ? DLOCK_EACCES
                                                         : dlk_redis_error_code(reply)),
                   "refused without saying why");
    if (it->verb == DLK_ACQUIRE && expected == DLK_HELD)
        FUZZ_CHECK(it->wait_ms == dlk_span_ms(reply->integer), "how long it is held");
    if (it->verb == DLK_ACQUIRE && expected == DLK_YES)
        FUZZ_CHECK(it->token > 0 && it->token == strtoll(reply->text, NULL, 10),
                   "the token");
}

/* Reports take several steps; of them only what holds for all is asked. */
static dlock_error *judge_report(dlk_redis_connection *connection, dlk_ask *it,
                                 const dlk_resp *reply, int64_t now)
{
    dlock_error *error = world.theirs(connection, reply, now);
    FUZZ_CHECK(!error || it->reply == DLK_PENDING, "nonsense that answers");
    if (it->reply == DLK_YES && it->verb != DLK_REVOKE) {
        FUZZ_CHECK(it->info && !it->error, "a report without a report");
        fuzz_check_json(dlock_info_json(it->info));
    }
    FUZZ_CHECK(it->reply == DLK_PENDING || it->reply == DLK_YES ||
                   it->reply == DLK_REFUSED ||
                   (it->verb == DLK_REVOKE && it->reply == DLK_NOT_OURS),
               "a report is answered %d", it->reply);
    return error;
}

static dlock_error *judge(dlk_redis_connection *connection, const dlk_resp *reply,
                          int64_t now)
{
    dlk_list *first = dlk_list_first(&world.redis->flight.asks);
    dlk_ask *it = first ? DLK_LIST_ITEM(first, dlk_ask, link) : NULL;
    if (it && (it->verb == DLK_LIST || it->verb == DLK_DOCTOR ||
               it->verb == DLK_INSPECT || it->verb == DLK_REVOKE))
        return judge_report(connection, it, reply, now);
    bool nonsense = !it;
    dlk_reply expected = it ? meaning(it, reply, &nonsense) : DLK_PENDING;
    int answered = world.answered;
    dlock_error *error = world.theirs(connection, reply, now);
    FUZZ_CHECK((error != NULL) == nonsense,
               "nonsense, or what isn't, is taken for the other");
    FUZZ_CHECK(!error || dlock_error_code(error) == DLOCK_EPROTO, "nonsense is EPROTO");
    FUZZ_CHECK(world.answered - answered == (expected != DLK_PENDING),
               "answered %d requests", world.answered - answered);
    if (expected != DLK_PENDING)
        check_answer(it, reply, expected);
    return error;
}

/* ---- set-up ---- */

static void make_world(void)
{
    static const char *const names[KEYS] = {"a", "b", "{b}"};
    dlk_settings *settings = dlk_settings_new();
    dlk_uri *uri = NULL;
    dlk_backend *backend = NULL;
    world.kicks = DLK_KICKS_INIT;
    world.host = (dlk_host){.tell = &dlk_tell_nobody,
                            .answered = on_answered,
                            .notified = on_notified,
                            .link = on_link,
                            .log = on_log,
                            .kicks = &world.kicks,
                            .uuid = "11111111-2222-4333-8444-555555555555",
                            .name = "fuzz",
                            .who = "fuzz\there\t1",
                            .rand = &world.rand};
    /* One answer for each request. */
    if (dlk_uri_parse("redis://u:" PASSWORD
                      "@127.0.0.1:1/3?redis.handover=false&redis.client_key=false",
                      &uri, NULL) != DLOCK_OK ||
        dlk_uri_apply(uri, settings, NULL) != DLOCK_OK ||
        dlk_redis_backend.open(&world.host, uri, settings, &backend, NULL) != DLOCK_OK)
        abort();
    world.redis = (dlk_redis *)backend;
    /* As if it had just been dialled: greetings come after that. */
    world.redis->commands.link.dial.addresses = world.redis->commands.link.to;
    world.redis->commands.link.dial.next = 1;
    world.theirs = world.redis->commands.take;
    world.redis->commands.take = judge;
    for (int i = 0; i < KEYS; i++) {
        world.keys[i] = (dlk_key){
            .name = names[i], .size = (uint32_t)strlen(names[i]), .kind = DLOCK_MUTEX};
        world.keys[i].settings = world.redis->settings;
        if (dlk_redis_key_open(backend, &world.keys[i], NULL) != DLOCK_OK)
            abort();
    }
    world.reader = dlk_resp_new();
    dlk_uri_free(uri);
    dlk_settings_free(settings);
}

static void connect_again(dlk_redis_connection *connection, dlk_link_phase phase)
{
    dlk_stream *stream = &connection->link.stream;
    dlk_buf_clear(&stream->out);
    stream->taken = stream->sent = 0;
    stream->in_size = 0;
    stream->secret = false;
    stream->armed = true; /* a driver seems to be asleep, so nobody writes to a socket */
    connection->link.step = connection->step_count = 0;
    connection->link.counted = 0;
    connection->link.phase = phase;
    if (!dlk_resp_reset(connection->reader))
        abort();
}

static void set_up(dlk_link_phase commands, dlk_link_phase messages)
{
    dlk_redis *redis = world.redis;
    connect_again(&redis->commands, commands);
    connect_again(&redis->subscriber.connection, messages);
    redis->subscriber.connection.link.to.count = 0;
    redis->subscriber.warned = redis->warned_publish = redis->warned_eviction = false;
    redis->subscriber.heard_at = NOW;
    redis->subscriber.listened_ns = redis->subscriber.listening_since = 0;
    redis->knows_clock = redis->was_up = redis->stopped = false;
    redis->flight.deadline = DLK_NEVER;
    dlock_error_free(redis->why_down);
    redis->why_down = NULL;
    world.used = world.answered = world.ups = world.downs = 0;
    world.rand.state = 1;
    memset(world.slots, 0, sizeof(world.slots));
}

/* ---- requests ---- */

static void ask(uint8_t verb, uint8_t how)
{
    if (world.used == ASKS)
        return;
    dlk_ask *it = &world.slots[world.used++].ask;
    dlk_verb which = (dlk_verb)(verb % DLK_DOCTOR + 1);
    if (which == DLK_SIGNAL) /* which is refused at once */
        which = DLK_LIST;
    *it = (dlk_ask){.verb = which,
                    .key = &world.keys[how % KEYS],
                    .number = how,
                    .ttl_ms = 30000,
                    .deadline = NOW + DLK_NS_PER_SEC,
                    .text = how & 0x40   ? "a*[b]?"
                            : how & 0x80 ? ""
                                         : NULL,
                    .limit = how % 5 + 1,
                    .since = NOW};
    if (it->verb == DLK_IMPORT && !it->text)
        it->text = "somebody:1"; /* nobody imports from nobody */
    dlk_redis_ask(&world.redis->base, it, NOW);
    bool ready = world.redis->commands.link.phase == DLK_LINK_READY;
    FUZZ_CHECK(it->reply == (ready ? DLK_PENDING : DLK_NOT_SENT),
               "asked, and answered %d", it->reply);
    if (!ready)
        world.slots[world.used - 1].answers++;
}

/* Commands are arrays of texts, of which the first is a word. */
static void check_written(const dlk_redis_connection *connection)
{
    const dlk_buf *out = &connection->link.stream.out;
    const dlk_resp *reply;
    dlk_resp_got got;
    if (!dlk_resp_reset(world.reader))
        abort();
    FUZZ_CHECK(dlk_resp_feed(world.reader, dlk_buf_head(out), dlk_buf_size(out)),
               "too much");
    while ((got = dlk_resp_next(world.reader, &reply)) == DLK_RESP_ONE) {
        FUZZ_CHECK(reply->type == DLK_RESP_ARRAY && reply->count > 0, "no command");
        for (size_t i = 0; i < reply->count; i++)
            FUZZ_CHECK(reply->items[i].type == DLK_RESP_TEXT, "no argument");
    }
    FUZZ_CHECK(got == DLK_RESP_MORE, "what we wrote isn't RESP");
    FUZZ_CHECK(dlk_resp_next(world.reader, &reply) == DLK_RESP_MORE, "half a command");
}

/* ---- the stream comes in ---- */

static void digest(dlk_redis_connection *connection, uint64_t slices)
{
    dlk_rand dice = {.state = slices};
    const char *data = dlk_buf_head(&world.stream);
    size_t size = dlk_buf_size(&world.stream);
    while (size > 0 && (connection->link.phase == DLK_LINK_READY ||
                        connection->link.phase == DLK_LINK_GREETING)) {
        size_t piece = slices ? (size_t)(dlk_rand_next(&dice) % 40 + 1) : DLK_STREAM_IN;
        piece = piece < size ? piece : size;
        memcpy(connection->link.stream.in, data, piece);
        connection->link.stream.in_size = piece;
        dlk_link_process(&connection->link, NOW);
        data += piece;
        size -= piece;
    }
}

static void end(dlk_redis_connection *connection)
{
    if (connection->link.phase != DLK_LINK_READY &&
        connection->link.phase != DLK_LINK_GREETING)
        return;
    dlk_link_drop(&connection->link, dlk_error_make(DLOCK_EUNAVAIL, "the end"), NOW);
}

/* ---- the four roles ---- */

static bool same(const dlk_buf *a, const dlk_buf *b)
{
    size_t size = dlk_buf_size(a);
    return size == dlk_buf_size(b) &&
           (size == 0 || memcmp(dlk_buf_head(a), dlk_buf_head(b), size) == 0);
}

static void to_reader(uint64_t slices)
{
    const char *data = dlk_buf_head(&world.stream);
    size_t size = dlk_buf_size(&world.stream);
    dlk_buf_clear(&world.printed);
    dlk_buf_clear(&world.again);
    bool whole = replies_read(world.reader, data, size, 0, &world.printed);
    bool sliced = replies_read(world.reader, data, size, slices + 1, &world.again);
    FUZZ_CHECK(whole == sliced && same(&world.printed, &world.again),
               "slices make a difference");
    dlk_buf_clear(&world.again);
    FUZZ_CHECK(replies_read(world.reader, dlk_buf_head(&world.printed),
                            dlk_buf_size(&world.printed), 0, &world.again) &&
                   same(&world.printed, &world.again),
               "what was read isn't what is read again");
}

static void to_asks(fuzz_bytes *head, uint64_t slices)
{
    dlk_redis_connection *connection = &world.redis->commands;
    set_up(DLK_LINK_READY, DLK_LINK_OFF);
    int count = fuzz_byte(head) % 5;
    uint8_t sent = fuzz_byte(head);
    for (int i = 0; i < count; i++) {
        uint8_t verb = fuzz_byte(head);
        ask(verb, fuzz_byte(head));
    }
    connection->link.stream.sent =
        (int64_t)dlk_buf_size(&connection->link.stream.out) * sent / 255;
    check_written(connection);
    digest(connection, slices);
    check_written(connection);
    bool failed = connection->link.phase != DLK_LINK_READY;
    FUZZ_CHECK(failed == (world.downs == 1), "the link is down %d times", world.downs);
    end(connection);
    for (int i = 0; i < world.used; i++) {
        dlk_ask *it = &world.slots[i].ask;
        FUZZ_CHECK(world.slots[i].answers == 1, "a request is left without an answer");
        if (it->reply == DLK_UNKNOWN)
            FUZZ_CHECK(it->sequence <= (uint64_t)connection->link.stream.sent,
                       "unknown, but it wasn't sent");
        if (it->reply != DLK_YES)
            FUZZ_CHECK(!it->info, "an info without success");
        dlock_error_free(it->error);
        dlock_info_free(it->info);
    }
}

static void to_greeting(uint64_t slices)
{
    dlk_redis_connection *connection = &world.redis->commands;
    set_up(DLK_LINK_GREETING, DLK_LINK_OFF);
    dlock_error *error = connection->link.ops->greet(&connection->link, NOW);
    FUZZ_CHECK(!error && connection->step_count > 5, "a greeting of %zu steps",
               connection->step_count);
    check_written(connection);
    digest(connection, slices);
    FUZZ_CHECK(world.ups <= 1 && world.downs <= 1, "up %d, down %d times", world.ups,
               world.downs);
    if (world.ups)
        FUZZ_CHECK(connection->link.step == connection->step_count,
                   "ready before the last step");
    end(connection);
}

static size_t length_of(const dlk_list *list)
{
    size_t length = 0;
    DLK_LIST_FOR (it, list)
        length++;
    return length;
}

static void to_subscriber(fuzz_bytes *head, uint64_t slices)
{
    dlk_redis *redis = world.redis;
    dlk_redis_subscriber *subscriber = &redis->subscriber;
    set_up(DLK_LINK_READY, DLK_LINK_READY);
    int64_t now = NOW;
    /* Once it is down it would dial again. */
    for (int steps = fuzz_byte(head) % 12;
         steps > 0 && subscriber->connection.link.phase == DLK_LINK_READY; steps--) {
        uint8_t what = fuzz_byte(head);
        if (what % 4 == 3) { /* time passes, and the next part of the stream comes */
            now += (int64_t)(what >> 2) * DLK_NS_PER_SEC / 4;
            (void)dlk_redis_subscriber_tick(redis, now);
            digest(&subscriber->connection, slices);
            dlk_redis_subscriber_process(redis, now);
        } else {
            dlk_redis_watch(&redis->base, &world.keys[what % KEYS], (what & 8) == 0, now);
        }
        FUZZ_CHECK(length_of(&subscriber->all) == subscriber->channel_count &&
                       length_of(&subscriber->idle) == subscriber->idle_count &&
                       length_of(&subscriber->outstanding) <= subscriber->channel_count,
                   "the channels aren't counted right");
    }
    digest(&subscriber->connection, slices);
    dlk_redis_subscriber_process(redis, now);
    check_written(&subscriber->connection);
    end(&subscriber->connection);
    dlk_redis_subscriber_stop(redis);
    FUZZ_CHECK(subscriber->channel_count == 0, "channels are left");
    for (int i = 0; i < KEYS; i++)
        FUZZ_CHECK(!((dlk_redis_key *)world.keys[i].data)->watcher,
                   "a key is still watched");
    world.redis->commands.link.phase = DLK_LINK_OFF;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_bytes bytes = {data, size};
    if (!world.redis)
        make_world();
    uint8_t how = fuzz_byte(&bytes);
    uint64_t slices = fuzz_byte(&bytes) % 8;
    fuzz_bytes head = fuzz_take(&bytes, how % 4 == 0 ? 0 : 14);
    world.reenter = (how & 0x10) != 0;
    dlk_buf_clear(&world.stream);
    if (how & 0x20)
        replies_make(&world.stream, &bytes, 16);
    else if (bytes.left > 0 && !dlk_buf_append(&world.stream, bytes.at, bytes.left))
        abort();
    switch (how % 4) {
    case 0:
        to_reader(slices);
        break;
    case 1:
        to_asks(&head, slices);
        break;
    case 2:
        to_greeting(slices);
        break;
    default:
        to_subscriber(&head, slices);
        break;
    }
    return 0;
}
