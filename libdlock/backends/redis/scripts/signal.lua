-- Signals the first who wait at a condition. Not safe to repeat.
--   KEYS, ARGV: see condition.lua
-- Answers how many it has signalled; where fewer wait than it may be, the others are lost.
--@include condition.lua

local other = other_kind()
if other then
    return other
end
settle()
return signal(tonumber(ARGV[5]))
