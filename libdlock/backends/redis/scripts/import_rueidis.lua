-- Takes over a lock that its holder has given away: the owner changes, under a new token.
--   KEYS: 1 the name, 2 the counter of its tokens, then the keys
--   ARGV: 1 channel, 2 owner, 3 lease in ms, 4 see token_life.lua, 5 who gave it away
-- Answers the token as text, also when it was done before; 0 when the lock isn't the giver's.
--@include take_over.lua
--@include slots.lua

local mine = count(ARGV[2])
if #mine >= most then
    return already_mine(function()
        hold(mine, ARGV[2], ARGV[3])
    end)
end
local theirs = count(ARGV[5])
if #theirs < most then
    return 0
end
return take_over(function()
    drop(theirs)
    hold(theirs, ARGV[2], ARGV[3])
end)
