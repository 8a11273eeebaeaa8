-- Takes permits of Redisson's RSemaphore, which knows no owners and no leases. So that a request
-- can be repeated, a key of our own beside it says for the time of the lease that this owner has
-- its permits; Redisson doesn't know that key.
--   KEYS: 1 free permits, 2 the beginning of such keys, 3 the taken permits of a semaphore with
--   leases    ARGV: see permits.lua
-- Answers "0" (permits have no token) when they are, or were already, the owner's, else -1: nobody
-- knows when some come back.
--@include permits.lua
--@include lease.lua

if redis.call('exists', KEYS[3]) == 1 then
    return redis.error_reply('DLOCKKIND permits with leases (redis.semaphore=expirable) are here')
end
local free, problem = free_permits()
if problem then
    return redis.error_reply(problem)
end
local mine = KEYS[2] .. ':' .. ARGV[2]
if redis.call('exists', mine) == 1 then
    lengthen(mine, ARGV[3])
    return '0'
end
if not free then
    free, problem = make_permits(0)
    if problem then
        return redis.error_reply(problem)
    end
end
if size > 0 and free > size then
    return redis.error_reply(wrong_size('at least ' .. free))
end
if free < take then
    return -1
end
redis.call('set', mine, ARGV[4], 'PX', ARGV[3])
local done = redis.pcall('decrby', KEYS[1], take)
if type(done) ~= 'number' then
    redis.call('del', mine)
    return done
end
return '0'
