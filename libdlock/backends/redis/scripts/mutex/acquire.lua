-- Takes a lock in Redisson's layout, with a fencing token.
--   KEYS: 1 the lock (hash owner -> count), 2 the counter of its tokens
--   ARGV: 1 channel, 2 owner, 3 lease in ms, 4 see token_life.lua
-- Answers the token as text when the lock is (or was already) the owner's, else the PTTL of the
-- holder as a number. A script that stops half-way isn't rolled back, so whatever may fail comes
-- before the lock's own key.

--@include token.lua
--@include granted.lua

local left = redis.call('pttl', KEYS[1])
if left == -2 then
    local token, problem = next_token(redis.call('get', KEYS[2]))
    if problem then
        return redis.error_reply(problem)
    end
    redis.call('hset', KEYS[1], ARGV[2], 1)
    return granted(token)
end

--@include already_mine.lua
if redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
    return already_mine()
end
local mode = redis.call('hget', KEYS[1], 'mode')
if mode then
    return redis.error_reply('DLOCKKIND no plain lock is here, but one in mode ' .. mode)
end
return left
