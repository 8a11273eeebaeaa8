/* The line before a fair lock, as it lies in Redis. */
#ifndef TESTS_BACKENDS_REDIS_LINE_H
#define TESTS_BACKENDS_REDIS_LINE_H

#include "harness/harness.h"
#include "harness/redis_server.h"

#include <stdlib.h>

#define QUEUE    "redisson_lock_queue:{L}"
#define TIMEOUTS "redisson_lock_timeout:{L}"

/* How many stand in it; list and zset must be identical whenever one looks. */
static inline int line_length(redis_server *server)
{
    const char *text = redis_server_call(
        server,
        "EVAL \"local line,places=redis.call('lrange',KEYS[1],0,-1),"
        "redis.call('zcard',KEYS[2]) for _,owner in ipairs(line) do if not "
        "redis.call('zscore',KEYS[2],owner) then return -1 end end "
        "if #line~=places then return -2 end return #line\" 2 " QUEUE " " TIMEOUTS);
    int count = atoi(text);
    (void)harness_check(__FILE__, __LINE__, count >= 0, "list and zset are the same");
    return count;
}

#endif
