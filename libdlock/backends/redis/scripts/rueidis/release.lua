-- Gives a lock back: every key that is ours.
--   KEYS: 1 the name, 2 the counter of its tokens, then the keys
--   ARGV: 1 channel, or '' to tell nobody, 2 owner
-- Answers 0 when the lock isn't the owner's, else 1, or 2 when nobody could be told.
--@include tell.lua
--@include slots.lua

local mine = count(ARGV[2])
drop(mine)
if #mine < most then
    return 0
end
return tell(ARGV[1])
