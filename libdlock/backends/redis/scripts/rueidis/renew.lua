-- Lengthens a lease, never shortens it; keys that have become free are taken along.
--   KEYS: 1 the name, 2 the counter of its tokens, then the keys
--   ARGV: 1 channel, 2 owner, 3 lease in ms
--@include slots.lua

local mine, free = count(ARGV[2])
if #mine < most then
    return 0
end
hold(mine, ARGV[2], ARGV[3])
hold(free, ARGV[2], ARGV[3])
return 1
