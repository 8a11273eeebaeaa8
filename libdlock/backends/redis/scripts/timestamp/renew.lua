-- Makes a lease last; see lease.lua.
--   KEYS: 1 the lock, 2 the counter of its tokens, 3 whose it is
--   ARGV: 1 channel, 2 owner, 3 lease in ms, 4 see keep_token.lua, 5 's' for seconds, else ms, 6 and 7:
--   see lease.lua
--@include stamp.lua

local ours, value, since = is_of(ARGV[2])
if not ours then
    return 0
end
--@include keep_token.lua
return hold(value, since, ARGV[6], ARGV[7])
