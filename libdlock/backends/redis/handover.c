/* Hand-over decided by the server, the client's side; see the header. */
#include "backends/redis/handover.h"

#include "backends/redis/channel.h"
#include "backends/redis/inner.h"
#include "backends/redis/keys.h"
#include "util/number.h"

#include <string.h>

static dlk_redis_turns *turns_of(const dlk_ask *ask)
{
    dlk_redis_key *key = ask->key->data;
    return &key->turns;
}

/* The line must outlive the pauses between two looks of those who stand in it. */
static int64_t life_of_line(const dlk_redis *redis, int64_t ttl_ms)
{
    int64_t looks = 3 * dlk_settings_int(redis->settings, DLK_KEY_CLIENT_POLL_MS);
    return ttl_ms > looks ? ttl_ms : looks;
}

/* Is this hand-over one that should be an open turn? */
static bool is_due(const dlk_redis *redis, const dlk_redis_turns *turns)
{
    int64_t open_turn = dlk_settings_int(redis->settings, DLK_KEY_REDIS_OPEN_TURN);
    return open_turn > 0 && turns->turn >= open_turn - 1;
}

static int64_t claim_ms(const dlk_redis *redis)
{
    return dlk_settings_int(redis->settings, DLK_KEY_REDIS_CLAIM_MS);
}

void dlk_redis_handover_more(const dlk_redis *redis, const dlk_ask *ask, dlk_arg *args,
                             char room[DLK_REDIS_MORE][64])
{
    const dlk_redis_turns *turns = turns_of(ask);
    bool due = is_due(redis, turns);
    bool lines_up = !ask->once && dlk_redis_channel_is_on(redis->subscriber.own);
    bool flag = ask->verb == DLK_ACQUIRE
                    ? turns->had_by_others
                    : due && dlk_redis_channel_tells(redis, ask->key->data);
    const uint64_t terms[] = {
        lines_up ? (uint64_t)life_of_line(redis, ask->ttl_ms) : 0,
        (uint64_t)claim_ms(redis),
        due ? 0 : (uint64_t)turns->turn + 1, /* up to INT64_MAX there */
        turns->run < DLK_REDIS_RUN,
        flag,
    };
    args[0] = (dlk_arg){room[0], 0};
    if (ask->next)
        args[0].size = dlk_redis_put_owner(redis, ask->next, room[0]);
    char *to = room[1];
    for (size_t i = 0; i < sizeof(terms) / sizeof(terms[0]); i++) {
        to = dlk_digits_put(to, terms[i]);
        *to++ = ' ';
    }
    args[1] = (dlk_arg){room[1], (size_t)(to - 1 - room[1])};
}

void dlk_redis_handover_asks(const dlk_ask *ask)
{
    dlk_redis_turns *turns = turns_of(ask);
    uint64_t number = ask->verb == DLK_ACQUIRE ? ask->number : ask->next;
    if (number == 0 || number == turns->contender)
        return;
    turns->contender = number;
    turns->held_back = turns->had_by_others = false;
}

int64_t dlk_redis_handover_wait(const dlk_ask *ask, int64_t answer)
{
    dlk_redis_turns *turns = turns_of(ask);
    turns->held_back = answer < -1;
    turns->had_by_others = false;
    return turns->held_back ? -1 - answer : answer;
}

void dlk_redis_handover_acquired(const dlk_ask *ask)
{
    dlk_redis_turns *turns = turns_of(ask);
    turns->run = 1;
    turns->held_back = turns->had_by_others = false;
    turns->turn = turns->appointed == ask->number ? turns->appointed_turn : 0;
}

bool dlk_redis_handover_released(const dlk_redis *redis, dlk_ask *ask,
                                 const dlk_resp *reply, bool *ret_untold)
{
    dlk_redis_turns *turns = turns_of(ask);
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
    if (!ask->next || !dlk_resp_decimal(reply, &ask->token) || ask->token <= 0)
        return false;
    ask->reply = ask->next_reply = DLK_YES;
    ask->lasts = true;
    if (turns->run < DLK_REDIS_RUN) /* more make no difference */
        turns->run++;
    /* Passed on though it was due: nobody else wants a turn. */
    turns->turn = is_due(redis, turns) ? 0 : dlk_number_sum(turns->turn, 1);
    return true;
}

bool dlk_redis_handover_parse(const dlk_redis *redis, const dlk_resp *message,
                              uint64_t *ret_number, int64_t *ret_turn,
                              const char **ret_channel, size_t *ret_size)
{
    const char *at = message->text, *end = at + message->size;
    uint64_t numbers[2] = {0};
    if (message->size < redis->owner_size ||
        memcmp(at, redis->owner, redis->owner_size) != 0)
        return false;
    at += redis->owner_size;
    for (int i = 0; i < 2; i++) {
        const char *space = memchr(at, ' ', (size_t)(end - at));
        if (!space ||
            !dlk_number_digits(at, (size_t)(space - at), INT64_MAX, &numbers[i]))
            return false;
        at = space + 1;
    }
    *ret_number = numbers[0];
    *ret_turn = (int64_t)numbers[1];
    *ret_channel = at;
    *ret_size = (size_t)(end - at);
    return true;
}

bool dlk_redis_handover_revokes(const dlk_resp *message, uint64_t *ret_number)
{
    static const char verb[] = "revoke ";
    const size_t size = sizeof(verb) - 1;
    int64_t number;
    if (message->size <= size || memcmp(message->text, verb, size) != 0)
        return false;
    dlk_resp rest = *message;
    rest.text += size;
    rest.size -= size;
    if (!dlk_resp_decimal(&rest, &number))
        return false;
    *ret_number = (uint64_t)number;
    return true;
}

/* A newer one may have been overtaken by one that was given up, and has asked for last. */
bool dlk_redis_handover_told(dlk_redis_turns *turns, uint64_t number, int64_t turn)
{
    if (number < turns->contender)
        return false;
    turns->appointed = number;
    turns->appointed_turn = turn;
    return true;
}
