-- Gives a lock back: compare and delete.
--   KEYS: 1 the lock    ARGV: 1 channel, or '' to tell nobody, 2 owner
-- Answers 0 when the lock isn't the owner's, else 1, or 2 when nobody could be told.
if redis.call('get', KEYS[1]) ~= ARGV[2] then
    return 0
end
redis.call('del', KEYS[1])
if ARGV[1] == '' then
    return 1
end
--@include tell.lua
return tell(ARGV[1])
