-- Makes the time last for which the server knows whose the permits are; see lease.lua.
--   KEYS: 1 free permits, 2 the beginning of the owners' keys
--   ARGV: see permits.lua, the last two: see lease.lua
--@include lease.lua
local mine = KEYS[2] .. ':' .. ARGV[2]
if redis.call('exists', mine) == 0 or redis.call('exists', KEYS[1]) == 0 then
    return 0
end
return lengthen(mine, ARGV[3], ARGV[#ARGV - 1], ARGV[#ARGV])
