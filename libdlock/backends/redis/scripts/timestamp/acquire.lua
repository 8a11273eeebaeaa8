-- Takes a time-stamp lock, from nobody or from one whose time is over.
--   KEYS: 1 the lock, 2 the counter of its tokens, 3 whose it is
--   ARGV: 1 channel, 2 owner, 3 lease in ms, 4 see token_life.lua, 5 's' for seconds, else ms
-- Answers the token as text when the lock is (or was already) the owner's, else the ms that are
-- left of the holder's lease as a number.
--@include stamp_mine.lua

local mine = mine_already()
if mine then
    return mine
end
local value = redis.call('get', KEYS[1])
if value then
    local last = end_of(value)
    if not last then
        return redis.error_reply('DLOCKKIND the value is no time stamp')
    end
    if last >= now then
        return math.ceil(last - now)
    end
end
local token, problem = next_token(redis.call('get', KEYS[2]))
if problem then
    return redis.error_reply(problem)
end
write(ARGV[2], tonumber(ARGV[3]), value and ' ' .. string.format('%.0f', now) or '')
return token
