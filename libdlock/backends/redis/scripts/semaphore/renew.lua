-- Lengthens the time for which the server knows whose the permits are, never shortens it.
--   KEYS: 1 free permits, 2 the beginning of the owners' keys    ARGV: see permits.lua
local mine = KEYS[2] .. ':' .. ARGV[2]
local left = redis.call('pttl', mine)
if left == -2 or redis.call('exists', KEYS[1]) == 0 then
    return 0
end
if left < tonumber(ARGV[3]) then
    redis.call('pexpire', mine, ARGV[3])
end
return 1
