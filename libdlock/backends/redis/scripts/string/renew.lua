-- Makes a lease last; see lease.lua.
--   KEYS: 1 the lock, 2 see keep_token.lua
--   ARGV: 1 channel, 2 owner, 3 lease in ms, 4 see keep_token.lua, the last two: see lease.lua
--@include lease.lua
if redis.call('get', KEYS[1]) ~= ARGV[2] then
    return 0
end
--@include keep_token.lua
return lengthen(KEYS[1], ARGV[3], ARGV[#ARGV - 1], ARGV[#ARGV])
