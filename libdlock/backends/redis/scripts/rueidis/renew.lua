-- Makes a lease last, see lease.lua; keys that have become free are taken along.
--   KEYS: 1 the name, 2 the counter of its tokens, then the keys
--   ARGV: 1 channel, 2 owner, 3 lease in ms, 4 see keep_token.lua, 5 and 6: see lease.lua
--@include slots.lua

local mine, free = count(ARGV[2])
if #mine < most then
    return 0
end
hold(free, ARGV[2], ARGV[3])
--@include keep_token.lua
return hold(mine, ARGV[2], ARGV[3], ARGV[5], ARGV[6])
