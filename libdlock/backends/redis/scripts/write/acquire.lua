-- Takes the write side of a lock in Redisson's layout, with a fencing token.
--   KEYS: 1 the lock, 2 the counter of its tokens
--   ARGV: 1 channel, 2 owner, 3 lease in ms, 4 see token_life.lua
-- Answers the token as text when the lock is (or was already) the owner's, else the PTTL of its
-- holders as a number. Redisson's own script walks over a plain lock; ours does not.

--@include already_mine.lua
--@include granted.lua

local left = redis.call('pttl', KEYS[1])
local writer = ARGV[2] .. ':write'
if left == -2 then
    redis.call('hgetall', KEYS[1]) -- the release needs this right: better refused now
    local token, problem = next_token(redis.call('get', KEYS[2]))
    if problem then
        return redis.error_reply(problem)
    end
    redis.call('hset', KEYS[1], 'mode', 'write', writer, 1)
    return granted(token)
end

if redis.call('hexists', KEYS[1], writer) == 1 then
    return already_mine() -- while one writes nobody else gets a token
end
local mode = redis.call('hget', KEYS[1], 'mode')
if mode ~= 'read' and mode ~= 'write' then
    return redis.error_reply('DLOCKKIND a plain lock is here')
end
return left
