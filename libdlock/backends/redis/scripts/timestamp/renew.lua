-- Makes a lease last; see lease.lua.
--   KEYS: 1 the lock, 2 the counter of its tokens, 3 whose it is
--   ARGV: 1 channel, 2 owner, 3 lease in ms, 4 's' for seconds, else ms, 5 and 6: see lease.lua
--@include stamp.lua

local ours, value, since = is_of(ARGV[2])
if not ours then
    return 0
end
return hold(value, since, ARGV[5], ARGV[6])
