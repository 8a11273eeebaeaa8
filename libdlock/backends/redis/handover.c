/* Hand-over decided by the server, the client's side; see the header. */
#include "backends/redis/handover.h"

#include "backends/redis/channel.h"
#include "backends/redis/inner.h"
#include "backends/redis/keys.h"
#include "util/number.h"

#include <string.h>

static dlk_redis_key *key_of(const dlk_ask *ask)
{
    return ask->key->data;
}

/* The line must outlive the pauses between two looks of those who stand in it. */
static int64_t life_of_line(const dlk_redis *redis, int64_t ttl_ms)
{
    int64_t looks = 3 * dlk_settings_int(redis->settings, DLK_KEY_CLIENT_POLL_MS);
    return ttl_ms > looks ? ttl_ms : looks;
}

/* Is this hand-over one that should be an open turn? */
static bool is_due(const dlk_redis *redis, const dlk_redis_key *key)
{
    int64_t open_turn = dlk_settings_int(redis->settings, DLK_KEY_REDIS_OPEN_TURN);
    return open_turn > 0 && key->turn >= open_turn - 1;
}

static int64_t claim_ms(const dlk_redis *redis)
{
    return dlk_settings_int(redis->settings, DLK_KEY_REDIS_CLAIM_MS);
}

void dlk_redis_handover_more(const dlk_redis *redis, const dlk_ask *ask, dlk_arg *args,
                             char room[DLK_REDIS_MORE][64])
{
    const dlk_redis_key *key = key_of(ask);
    bool due = is_due(redis, key);
    bool lines_up = !ask->once && dlk_redis_channel_is_on(redis->subscriber.own);
    bool flag = ask->verb == DLK_ACQUIRE
                    ? key->had_by_others
                    : due && dlk_redis_channel_tells(redis, ask->key->data);
    const uint64_t terms[] = {
        lines_up ? (uint64_t)life_of_line(redis, ask->ttl_ms) : 0,
        (uint64_t)claim_ms(redis), due ? 0 : (uint64_t)key->turn + 1,
        /* Who keeps locks has had a run of his own (lock.keep_runs). */
        key->run < DLK_REDIS_RUN && !dlk_number_keeps(ask->number), flag,
        (uint64_t)redis->greeted_us, /* last: for one that keeps alone */
    };
    bool keeps = dlk_number_keeps(ask->number) || dlk_number_keeps(ask->next);
    size_t count = sizeof(terms) / sizeof(terms[0]) - !keeps;
    args[0] = (dlk_arg){room[0], 0};
    if (ask->next)
        args[0].size = dlk_redis_put_owner(redis, ask->next, room[0]);
    char *to = room[1];
    for (size_t i = 0; i < count; i++) {
        to = dlk_digits_put(to, terms[i]);
        *to++ = ' ';
    }
    args[1] = (dlk_arg){room[1], (size_t)(to - 1 - room[1])};
}

void dlk_redis_handover_asks(const dlk_redis *redis, const dlk_ask *ask)
{
    dlk_redis_key *key = key_of(ask);
    uint64_t number = ask->verb == DLK_ACQUIRE ? ask->number : ask->next;
    if (number == 0)
        return;
    key->deaf = !dlk_redis_channel_is_on(redis->subscriber.own);
    if (number == key->contender)
        return;
    key->contender = number;
    key->held_back = key->had_by_others = false;
}

int64_t dlk_redis_handover_wait(const dlk_ask *ask, int64_t answer)
{
    dlk_redis_key *key = key_of(ask);
    key->held_back = answer < -1;
    key->had_by_others = false;
    return key->held_back ? -1 - answer : answer;
}

void dlk_redis_handover_acquired(dlk_ask *ask)
{
    dlk_redis_key *key = key_of(ask);
    ask->asked |= key->deaf; /* somebody may have */
    key->run = 1;
    key->held_back = key->had_by_others = false;
    key->turn = key->appointed == ask->number ? key->appointed_turn : 0;
}

bool dlk_redis_handover_released(const dlk_redis *redis, dlk_ask *ask,
                                 const dlk_resp *reply, bool *ret_untold)
{
    dlk_redis_key *key = key_of(ask);
    *ret_untold = false;
    ask->next_reply = DLK_PENDING;
    if (reply->type == DLK_RESP_INTEGER) {
        int64_t answer = reply->integer;
        if (answer < 0 || answer > 3 || (answer == 3 && !ask->next))
            return false;
        *ret_untold = answer == 2;
        ask->reply = answer ? DLK_YES : DLK_NOT_OURS;
        if (answer == 3) {
            ask->next_reply = DLK_HELD;
            ask->wait_ms = claim_ms(redis);
        }
        return true;
    }
    if (!ask->next || !dlk_redis_handover_tokens(ask, ask->next, reply) ||
        ask->token <= 0)
        return false;
    ask->asked |= key->deaf;
    ask->reply = ask->next_reply = DLK_YES;
    ask->lasts = true;
    if (key->run < DLK_REDIS_RUN) /* more make no difference */
        key->run++;
    /* Passed on though it was due: nobody else wants a turn. */
    key->turn = is_due(redis, key) ? 0 : key->turn + (key->turn < DLK_REDIS_TURN_MAX);
    return true;
}

/* A number with a space behind it; *at is behind both then. */
static bool take_number(const char **at, const char *end, uint64_t *ret)
{
    const char *space = memchr(*at, ' ', (size_t)(end - *at));
    if (!space || !dlk_number_digits(*at, (size_t)(space - *at), INT64_MAX, ret))
        return false;
    *at = space + 1;
    return true;
}

bool dlk_redis_handover_parse(const dlk_redis *redis, const dlk_resp *message,
                              uint64_t *ret_number, uint32_t *ret_turn,
                              const char **ret_channel, size_t *ret_size)
{
    const char *at = message->text, *end = at + message->size;
    uint64_t turn;
    if (message->size < redis->owner_size ||
        memcmp(at, redis->owner, redis->owner_size) != 0)
        return false;
    at += redis->owner_size;
    if (!take_number(&at, end, ret_number) || !take_number(&at, end, &turn))
        return false;
    *ret_turn = turn < DLK_REDIS_TURN_MAX ? (uint32_t)turn : DLK_REDIS_TURN_MAX;
    *ret_channel = at;
    *ret_size = (size_t)(end - at);
    return true;
}

/* So many numbers with a space between, and nothing else. */
static bool take_numbers(const dlk_resp *reply, uint64_t *to, size_t count)
{
    const char *at = reply->text, *end = at + reply->size;
    if (reply->type != DLK_RESP_TEXT)
        return false;
    for (size_t i = 0; i + 1 < count; i++)
        if (!take_number(&at, end, &to[i]))
            return false;
    return dlk_number_digits(at, (size_t)(end - at), INT64_MAX, &to[count - 1]);
}

static bool take_block(dlk_ask *ask, const uint64_t numbers[3])
{
    if (numbers[0] == 0 || numbers[1] < numbers[0] || numbers[2] > 1)
        return false;
    ask->token = (int64_t)numbers[0];
    ask->last_token = (int64_t)numbers[1];
    ask->asked = numbers[2] != 0;
    return true;
}

bool dlk_redis_handover_tokens(dlk_ask *ask, uint64_t number, const dlk_resp *reply)
{
    uint64_t numbers[3];
    if (!dlk_number_keeps(number))
        return dlk_resp_decimal(reply, &ask->token);
    return take_numbers(reply, numbers, 3) && take_block(ask, numbers);
}

bool dlk_redis_handover_renewed(dlk_ask *ask, const dlk_resp *reply, int64_t *ret_answer)
{
    uint64_t numbers[4];
    if (!ask->refills || !take_numbers(reply, numbers, 4) ||
        !take_block(ask, &numbers[1]))
        return false;
    *ret_answer = (int64_t)numbers[0];
    return true;
}

/* Of a message that begins with this what is behind it; NULL: it begins otherwise. */
static const char *behind(const dlk_resp *message, const char *verb)
{
    size_t size = strlen(verb);
    bool begins = message->size > size && memcmp(message->text, verb, size) == 0;
    return begins ? message->text + size : NULL;
}

bool dlk_redis_handover_asked(const dlk_resp *message, uint64_t *ret_number,
                              const char **ret_lock, size_t *ret_size)
{
    const char *at = behind(message, "asked "), *end = message->text + message->size;
    if (!at || !take_number(&at, end, ret_number))
        return false;
    *ret_lock = at;
    *ret_size = (size_t)(end - at);
    return true;
}

bool dlk_redis_handover_revokes(const dlk_resp *message, uint64_t *ret_number)
{
    dlk_resp rest = *message;
    int64_t number;
    rest.text = behind(message, "revoke ");
    if (!rest.text)
        return false;
    rest.size -= (size_t)(rest.text - message->text);
    if (!dlk_resp_decimal(&rest, &number))
        return false;
    *ret_number = (uint64_t)number;
    return true;
}

/* A newer one may have been overtaken by one that was given up, and has asked for last. */
bool dlk_redis_handover_told(dlk_redis_key *key, uint64_t number, uint32_t turn)
{
    if (dlk_number_older(number, key->contender))
        return false;
    key->appointed = number;
    key->appointed_turn = turn;
    return true;
}
