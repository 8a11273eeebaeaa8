-- Takes permits with a lease of Redisson's RPermitExpirableSemaphore, by the server's clock.
--   KEYS: 1 free permits, 2 the taken ones    ARGV: see permits.lua, 6 lock.data
-- Answers "0" (permits have no token) when they are, or were already, the owner's; else the ms
-- until the first permit of others ends, -1 when none will.
--@include permits.lua
--@include permit_ids.lua
--@include said_of_permits.lua

if take > 4096 then
    return redis.error_reply('DLOCKTAKE at most 4096 permits can be taken at once, not ' .. ARGV[4])
end
local free, problem = free_permits()
if problem then
    return redis.error_reply(problem)
end
local now = now_ms()

-- Those of the dead come back when somebody looks: at least as many as are wanted.
local dead = redis.call('zrangebyscore', KEYS[2], 0, now, 'LIMIT', 0, math.max(take, 100))
if #dead > 0 then
    free = count_free(free, remove(dead))
    if free and free > 0 then
        tell_free(free)
    end
end

local ids = ids_of(ARGV[2], take)
local mine, there = living(ids, now)
local said = said_key(KEYS[2], hex_of(ids[1] or ''))
if mine == take then
    hold(ids, now, ARGV[3])
    pcall(lengthen, said, ARGV[3])
    return '0'
end
-- The grant begins anew: somebody broke a part of them, or their lease is over, and there were too
-- many dead to come to them.
if there > 0 then
    free = count_free(free, remove(ids))
end

local taken = redis.call('zcard', KEYS[2])
if not free then
    free, problem = make_permits(taken)
    if problem then
        return redis.error_reply(problem)
    end
end
local total = string.format('%.0f', free + taken)
if size > 0 and free + taken ~= size then
    return redis.error_reply(wrong_size(total))
end
if take > free + taken then
    return redis.error_reply('DLOCKTAKE lock.take=' .. ARGV[4] .. ' of a semaphore of ' .. total
        .. ' permits would wait for ever')
end

if free < take then
    local first = redis.call('zrange', KEYS[2], 0, 0, 'WITHSCORES')
    if #first == 0 or tonumber(first[2]) >= never then
        return -1
    end
    return math.max(0, tonumber(first[2]) - now)
end
hold(ids, now, ARGV[3])
local done = redis.pcall('decrby', KEYS[1], take)
if type(done) ~= 'number' then
    remove(ids)
    return done
end
redis.pcall('set', said, string.format('%.0f', now) .. ' ' .. ARGV[6], 'PX', ARGV[3])
local left = redis.call('pttl', KEYS[1])
if left > 0 then -- Redisson can give a semaphore an end: both its keys have it
    redis.call('pexpire', KEYS[2], left)
end
return '0'
