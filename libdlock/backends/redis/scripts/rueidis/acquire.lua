-- Takes a lock as rueidislock does, all keys that are free in one step: most of them, or none.
--   KEYS: 1 the name, 2 the counter of its tokens, then the keys
--   ARGV: 1 channel, 2 owner, 3 lease in ms, 4 see token_life.lua
-- Answers the token as text when the lock is (or was already) the owner's, else the ms after which
-- enough keys may be free, -1 where one has no end.
--@include already_mine.lua
--@include slots.lua

local mine, free = count(ARGV[2])
if #mine >= most then
    return already_mine(function()
        hold(mine, ARGV[2], ARGV[3])
    end)
end
if #mine + #free < most then
    local left = {}
    for _, slot in ipairs(slots) do
        left[#left + 1] = redis.call('pttl', slot)
    end
    table.sort(left)
    return math.max(left[most], -1)
end
local token, problem = next_token(redis.call('get', KEYS[2]))
if problem then
    return redis.error_reply(problem)
end
hold(free, ARGV[2], ARGV[3])
hold(mine, ARGV[2], ARGV[3])
return token
