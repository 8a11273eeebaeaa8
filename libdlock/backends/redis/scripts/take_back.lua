-- Gives back what ARGV[2] has of a semaphore without leases. Answers 0 when that is nothing, else
-- 1, or 2 when nobody could be told. A semaphore that was deleted isn't made again, its size would
-- be wrong.
local function take_back()
    local mine = KEYS[2] .. ':' .. ARGV[2]
    local free, problem = free_permits()
    if problem then
        return redis.error_reply(problem)
    end
    local count = redis.call('get', mine)
    if not count then
        return 0
    end
    redis.call('del', mine)
    if not free then
        return 1
    end
    return tell_free(redis.call('incrby', KEYS[1], count))
end
