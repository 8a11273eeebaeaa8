-- Takes the read side of a lock in Redisson's layout, with a fencing token.
--   KEYS: 1 the lock, 2 the counter of its tokens
--   ARGV: 1 channel, 2 owner, 3 lease in ms, 4 see token_life.lua, 5 the same as 3, of the reader's own key
-- Answers the token as text when the owner reads (already), else the PTTL of the writer. Redisson
-- never looks at what its readers' keys hold: ours hold the token, for others may have come
-- between an acquire whose answer was lost and its repetition.

--@include lease_key.lua
--@include same_token.lua

local left = redis.call('pttl', KEYS[1])
local mode = redis.call('hget', KEYS[1], 'mode')
if mode == 'write' then
    return left
end
if left ~= -2 and mode ~= 'read' then
    return redis.error_reply('DLOCKKIND a plain lock is here')
end
local own_key, own_lease = lease_key(ARGV[2], 1), tonumber(ARGV[5])
local token, problem
if mode and redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
    token = redis.call('get', own_key)
    own_lease = math.max(own_lease, redis.call('pttl', own_key))
else
    redis.call('hgetall', own_key .. '?') -- the release needs this right: better refused now
end
if not is_token(token) then
    token, problem = next_token(redis.call('get', KEYS[2]))
    if problem then
        return redis.error_reply(problem)
    end
end
redis.call('set', own_key, token, 'px', own_lease)
redis.call('hset', KEYS[1], 'mode', 'read', ARGV[2], 1)
if left == -1 then
    return token -- somebody's lease has no end: it isn't ours to give it one
end
local done = redis.pcall('pexpire', KEYS[1], math.max(left, tonumber(ARGV[3])))
if done ~= 1 then -- better no lock than one that never ends
    redis.call('hdel', KEYS[1], ARGV[2])
    redis.call('del', own_key)
    if left == -2 then
        redis.call('del', KEYS[1])
    end
    return done
end
return token
