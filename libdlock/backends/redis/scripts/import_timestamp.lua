-- Takes over a lock that its holder has given away: the owner changes, under a new token.
--   KEYS: 1 the lock, 2 the counter of its tokens, 3 whose it is
--   ARGV: 1 channel, 2 owner, 3 lease in ms, 4 see token_life.lua, 5 's' or ms, 6 who gave it away
-- Answers the token as text, also when it was done before; 0 when the lock isn't the giver's.
--@include stamp_mine.lua
--@include take_over.lua

local mine = mine_already()
if mine then
    return mine
end
if not is_of(ARGV[6]) then
    return 0
end
return take_over(function()
    write(ARGV[2], tonumber(ARGV[3]), '')
end)
