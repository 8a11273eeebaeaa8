-- Gives a lock back, unless its time stamp isn't ours any more.
--   KEYS: 1 the lock, 2 the counter of its tokens, 3 whose it is
--   ARGV: 1 channel, or '' to tell nobody, 2 owner, 3 and 4 unused, 5 's' for seconds, else ms
-- Answers 0 when the lock isn't the owner's, else 1, or 2 when nobody could be told.
--@include tell.lua
--@include stamp.lua

if not is_of(ARGV[2]) then
    return 0
end
redis.call('del', KEYS[1], KEYS[3])
return tell(ARGV[1])
