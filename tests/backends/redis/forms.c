/* See the header. */
#include "forms.h"

const form forms[] = {
    {.name = "handover", .kind = DLOCK_MUTEX, .hands_on = true},
    {.name = "mutex",
     .kind = DLOCK_MUTEX,
     .setting = "redis.handover",
     .value = "false",
     .hands_on = true},
    {.name = "fair",
     .kind = DLOCK_MUTEX,
     .setting = "lock.fair",
     .value = "true",
     .hands_on = true},
    {.name = "string",
     .kind = DLOCK_MUTEX,
     .setting = "redis.layout",
     .value = "string",
     .hands_on = true},
    {.name = "timestamp",
     .kind = DLOCK_MUTEX,
     .setting = "redis.layout",
     .value = "timestamp",
     .more = "redis.timestamp_format",
     .and = "ms",
     .hands_on = true},
    {.name = "timestamp in seconds",
     .kind = DLOCK_MUTEX,
     .setting = "redis.layout",
     .value = "timestamp",
     .more = "redis.timestamp_format",
     .and = "s",
     .hands_on = true},
    {.name = "rueidis",
     .kind = DLOCK_MUTEX,
     .setting = "redis.layout",
     .value = "rueidis",
     .hands_on = true},
    {.name = "write", .kind = DLOCK_WRITE},
    {.name = "read", .kind = DLOCK_WRITE, .shared = true},
    {.name = "read, the lock's key", .kind = DLOCK_WRITE, .shared = true, .key = "L"},
    {.name = "election", .kind = DLOCK_ELECTION},
    {.name = "election's data", .kind = DLOCK_ELECTION, .key = "dlock_data:{L}"},
    {.name = "permits", .kind = DLOCK_SEMAPHORE, .setting = "lock.permits", .value = "2"},
    {.name = "plain semaphore",
     .kind = DLOCK_SEMAPHORE,
     .setting = "lock.permits",
     .value = "2",
     .more = "redis.semaphore",
     .and = "plain",
     .key = "dlock_permit:{L}:",
     .key_of_owner = true},
};

const form *const forms_end = forms + sizeof(forms) / sizeof(*forms);

server_clock clock_there;
const form *now_is;

bool set_up_keeping(const form *is, const char *keep_ms)
{
    now_is = is;
    harness_note("%s", is->name);
    return single_connect(is->kind, "L", "redis.token_keep_ms", keep_ms, is->setting,
                          is->value, is->more, is->and, NULL);
}

bool set_up(const form *is)
{
    return set_up_keeping(is, NULL);
}

void teardown(void)
{
    single_disconnect();
    redis_server_call(&server, "FLUSHALL");
}

void end(void)
{
    redis_server_stop(&server);
    server_clock_end(&clock_there);
}

dlk_ask ask_of(dlk_verb verb, uint64_t number)
{
    dlk_ask ask = world_make(&w, verb, key, number);
    ask.shared = now_is->shared;
    ask.most_ms = MOST_MS;
    return ask;
}

dlk_reply carry_out(dlk_ask *ask)
{
    world_ask(&w, ask);
    return world_await(&w, ask);
}
