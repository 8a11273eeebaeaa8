-- Gives a lock back.
--   KEYS: 1 the lock    ARGV: 1 channel, 2 owner
-- Answers 0 when the lock isn't the owner's, else 1, or 2 when nobody could be told.
-- The field is the only one of the hash, so the key goes with it.
--@include tell.lua

if redis.call('hdel', KEYS[1], ARGV[2]) == 0 then
    return 0
end
return tell(ARGV[1])
