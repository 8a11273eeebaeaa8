-- Gives the write side of a lock back.
--   KEYS: 1 the lock    ARGV: 1 channel, 2 owner
-- Answers 0 when the lock isn't the owner's, else 1, or 2 when nobody could be told.
--@include rw.lua

if redis.call('hdel', KEYS[1], ARGV[2] .. ':write') == 0 then
    return 0
end
return let_go(true)
