-- Takes over a lock that its holder has given away: the owner changes, under a new token.
--   KEYS: 1 the lock (hash owner -> count), 2 the counter of its tokens
--   ARGV: 1 channel, 2 owner, 3 lease in ms, 4 see token_life.lua, the last who gave it away
-- Answers the token as text, also when it was done before; 0 when the lock isn't the giver's.
--@include take_over.lua

if redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
    return already_mine()
end
if redis.call('hexists', KEYS[1], ARGV[#ARGV]) == 0 then
    return 0
end
return take_over(function()
    redis.call('hset', KEYS[1], ARGV[2], 1)
    redis.call('hdel', KEYS[1], ARGV[#ARGV])
    redis.call('pexpire', KEYS[1], ARGV[3])
end)
