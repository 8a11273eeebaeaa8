-- Gives the read side of a lock back, or the write side, if the owner was to turn that into the
-- read side and the server has not heard of it.
--   KEYS: 1 the lock    ARGV: 1 channel, 2 owner
-- Answers 0 when the lock isn't the owner's, else 1, or 2 when nobody could be told.
--@include rw.lua

local wrote = redis.call('hdel', KEYS[1], ARGV[2] .. ':write') == 1
local read = redis.call('hdel', KEYS[1], ARGV[2]) == 1
redis.call('del', lease_key(ARGV[2], 1))
if not read and not wrote then
    return 0
end
return let_go(wrote)
