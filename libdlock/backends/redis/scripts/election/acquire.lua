-- Campaigns: a lock in the layout of Redisson's mutex, with what the elected one publishes beside
-- it: "owner text", so that nobody clears away another's.
--   KEYS: 1 the lock (hash owner -> count), 2 the counter of its tokens, 3 what is published
--   ARGV: 1 channel, 2 owner, 3 lease in ms, 4 see token_life.lua, 5 what to publish
-- The hash's count says that this is no mutex: that has one of 1 at least.
-- Answers the token as text when the term is (or was already) the owner's, else the PTTL of the
-- elected one as a number.

--@include already_mine.lua
--@include term.lua

-- What is published may have been evicted, and comes back with the next renewal. Who mayn't look
-- takes it for that.
local function is_election()
    local hash = redis.pcall('hgetall', KEYS[1])
    return hash.err or hash[2] == elected
end

local left = redis.call('pttl', KEYS[1])
if left == -2 then
    local token, problem = next_token(redis.call('get', KEYS[2]))
    if problem then
        return redis.error_reply(problem)
    end
    redis.call('set', KEYS[3], ARGV[2] .. ' ' .. ARGV[5], 'PX', ARGV[3])
    local done = redis.pcall('hset', KEYS[1], ARGV[2], elected)
    if type(done) ~= 'table' then
        done = redis.pcall('pexpire', KEYS[1], ARGV[3])
    end
    if done ~= 1 then
        redis.call('del', KEYS[1], KEYS[3]) -- better no term than one that never ends
        return done
    end
    return token
end

if redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
    return already_mine(hold_term)
end
if redis.call('exists', KEYS[3]) == 0 and not is_election() then
    return redis.error_reply('DLOCKKIND a lock is here, not an election')
end
return left
