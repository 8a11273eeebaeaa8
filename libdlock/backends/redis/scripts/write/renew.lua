-- Makes a writer's lease last; see lease.lua.
--   KEYS: 1 the lock    ARGV: 1 channel, 2 owner, 3 lease in ms, the last two: see lease.lua
--@include lease.lua
if redis.call('hexists', KEYS[1], ARGV[2] .. ':write') == 0 then
    return 0
end
return lengthen(KEYS[1], ARGV[3], ARGV[#ARGV - 1], ARGV[#ARGV])
