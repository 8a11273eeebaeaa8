-- Takes over a lock that its holder has given away: the owner changes, under a new token.
--   KEYS: 1 the lock (string: the owner), 2 the counter of its tokens
--   ARGV: 1 channel, 2 owner, 3 lease in ms, 4 see token_life.lua, the last who gave it away
-- Answers the token as text, also when it was done before; 0 when the lock isn't the giver's.
--@include take_over.lua

local owner = redis.call('get', KEYS[1])
if owner == ARGV[2] then
    return already_mine()
end
if owner ~= ARGV[#ARGV] then
    return 0
end
return take_over(function()
    redis.call('set', KEYS[1], ARGV[2], 'PX', ARGV[3])
end)
